"""The write policy: the verdict decides where a record is written, and the evidence whether it is.

Violations are checked in this order: is the verdict known, would a VOID become canonical, is the evidence valid, does the
verdict reach the band. Decisions where the document leaves room:

- Without a ``band_target``, the record goes where the verdict routes it, for VOID too. A target asks whether the verdict
  reaches that band; it does not narrow the route, because PARTIAL must not reach LEDGER without its review in PHOENIX.
- A SEAL for VAULT is allowed as a proposal. Its ``target_bands`` is PHOENIX, where it waits; no decision names VAULT.
- Lenient mode forgives evidence that is missing or disagrees, and a band that the verdict does not reach. It does not forgive
  an unknown verdict or band, which name no place to write to, nor a malformed chain. And a chain that says VOID never becomes
  canonical under another verdict.
- ``requires_human_approval`` is True for allowed writes only: there is nothing to approve about a refused one.
- The document's reasons are given word for word; details are in ``ledger_entry["missing_links"]``.
- ``ledger_entry["hash"]`` is the recomputed evidence hash, and ``["evidence"]`` the text that it covers.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from standfast.canon import utc_text
from standfast.clock import Clock, SystemClock
from standfast.doubts import MAX_RECALL_CONFIDENCE
from standfast.errors import InvalidValue
from standfast.govern.authority import BANDS_OF_ROLE, Operation, Role, needs_human, plain_text, read_word
from standfast.govern.ceilings import RecallDecision, decide_recall
from standfast.govern.evidence import (
    ChainReading,
    EvidenceChainValidation,
    compute_evidence_hash,
    read_chain,
    read_verdict,
)
from standfast.govern.retention import (
    RETENTION_COLD_DAYS,
    RETENTION_HOT_DAYS,
    RETENTION_VOID_DAYS,
    RETENTION_WARM_DAYS,
    RetentionDecision,
    decide_retention,
)
from standfast.limits import MAX_WRITE_LOG_ENTRIES
from standfast.vocabulary import Band, Evidence, Record, Verdict

__all__ = [
    "MAX_RECALL_CONFIDENCE",
    "RETENTION_COLD_DAYS",
    "RETENTION_HOT_DAYS",
    "RETENTION_VOID_DAYS",
    "RETENTION_WARM_DAYS",
    "VERDICT_BAND_ROUTING",
    "EvidenceChainValidation",
    "MemoryWritePolicy",
    "RecallDecision",
    "RetentionDecision",
    "WriteDecision",
    "compute_evidence_hash",
]

BANDS_OF_VERDICT: Final = {
    Verdict.SEAL: (Band.LEDGER, Band.ACTIVE),
    Verdict.SABAR: (Band.LEDGER, Band.ACTIVE),
    Verdict.PARTIAL: (Band.PHOENIX, Band.LEDGER),
    Verdict.VOID: (Band.VOID,),
    Verdict.HOLD: (Band.LEDGER,),
}
# The table in the document's shape, for readers. Decisions use the table above, which cannot be changed.
VERDICT_BAND_ROUTING: Final = {
    verdict.value: [band.value for band in bands] for verdict, bands in BANDS_OF_VERDICT.items()
}
assert set(BANDS_OF_VERDICT) == set(Verdict)
assert all(set(bands) <= BANDS_OF_ROLE[Role.JUDGE] for bands in BANDS_OF_VERDICT.values())
assert all((Band.VOID in bands) == (verdict is Verdict.VOID) for verdict, bands in BANDS_OF_VERDICT.items())

_PROPOSED_LAW: Final = (Verdict.SEAL, Band.VAULT)
_UNKNOWN_VERDICT: Final = "Unknown verdict type"
_BAD_EVIDENCE: Final = "Evidence chain invalid"
_ONLY_VOID: Final = "VOID verdicts can ONLY be written to Void band (never canonical)"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriteDecision:
    """Whether a write is allowed, to which bands, and whether a human must approve it first."""

    allowed: bool
    reason: str
    ledger_entry: dict[str, Any]
    target_bands: list[str] = field(default_factory=list)
    requires_human_approval: bool = False

    def __post_init__(self) -> None:
        if self.allowed != bool(self.target_bands):
            raise InvalidValue(
                what="WriteDecision", problem="an allowed write has target bands, a refused one has none"
            )
        if Band.VAULT in self.target_bands:
            raise InvalidValue(what="WriteDecision", problem="VAULT is reached by a human's signature only")


class _Request(NamedTuple):
    """The arguments of ``should_write``, as far as they can be read."""

    verdict: Verdict | None
    verdict_text: str
    band: Band | None
    band_text: str | None
    chain: ChainReading

    @property
    def is_routed(self) -> bool:
        """Whether the verdict reaches the target band, if there is one."""
        if self.verdict is None or self.band_text is None:
            return self.verdict is not None
        return self.band in BANDS_OF_VERDICT[self.verdict] or (self.verdict, self.band) == _PROPOSED_LAW


class MemoryWritePolicy:
    """The document's policy engine. ``strict_mode=False`` warns instead of refusing, for development."""

    def __init__(self, strict_mode: bool = True, *, clock: Clock | None = None) -> None:
        if type(strict_mode) is not bool:
            raise InvalidValue(what="strict_mode", problem="must be True or False")
        self.strict_mode = strict_mode
        self._clock = clock or SystemClock()
        self._write_log: deque[dict[str, Any]] = deque(maxlen=MAX_WRITE_LOG_ENTRIES)
        self._lock = threading.Lock()

    def should_write(
        self,
        verdict: Verdict | str,
        evidence_chain: dict[str, Any] | Evidence | None,
        band_target: Band | str | None = None,
    ) -> WriteDecision:
        """Decides whether a write with this verdict and evidence is allowed, and to which bands. Never raises."""
        read = read_verdict(verdict)
        request = _Request(
            verdict=read,
            verdict_text=_shown(verdict) if read is None else read.value,
            band=read_word(Band, band_target),
            band_text=None if band_target is None else _shown(band_target),
            chain=read_chain(evidence_chain, read),
        )
        return self._decide(request)

    def should_write_built(
        self, verdict: Verdict, chain: ChainReading, band_target: Band | None = None
    ) -> WriteDecision:
        """``should_write`` for evidence that ``build_chain`` has just built, which need not be read again."""
        band_text = None if band_target is None else band_target.value
        return self._decide(_Request(verdict, verdict.value, band_target, band_text, chain))

    def _decide(self, request: _Request) -> WriteDecision:
        refusal, warnings = self._violations(request)
        if refusal is not None:
            return self._decision(request, refusal, ())
        assert request.verdict is not None
        bands = _bands(request.verdict, request.band, is_routed=request.is_routed)
        if Verdict.VOID in (request.verdict, request.chain.verdict) and bands != (Band.VOID,):
            return self._decision(request, _ONLY_VOID, ())
        reason = "Policy approved"
        if warnings:
            reason += f" with warnings: {'; '.join(warnings)}"
            _log.warning("lenient mode allowed a write: %s", "; ".join(warnings))
        return self._decision(request, reason, bands)

    def should_recall(
        self, memory_item: dict[str, Any] | Record, current_context: dict[str, Any] | None = None
    ) -> RecallDecision:
        """Decides whether an item may be recalled now, and how far it may be trusted."""
        return decide_recall(memory_item, current_context, self._clock.now())

    def should_retain(self, memory_item: dict[str, Any] | Record, age_days: float) -> RetentionDecision:
        """Decides whether an item of this age is kept, moved or deleted."""
        return decide_retention(memory_item, age_days)

    def validate_evidence_chain(
        self, evidence_chain: dict[str, Any] | Evidence | None
    ) -> EvidenceChainValidation:
        """Checks that a chain is complete and has the right hash."""
        return read_chain(evidence_chain).validation

    def get_write_log(self) -> list[dict[str, Any]]:
        """The last 1,000 write decisions, oldest first, refusals included. The lasting record is the ledger."""
        with self._lock:
            return [{**entry, "bands": list(entry["bands"])} for entry in self._write_log]

    def _violations(self, request: _Request) -> tuple[str | None, list[str]]:
        """The reason to refuse, or None, and the violations that lenient mode lets pass."""
        if request.verdict is None:
            return _UNKNOWN_VERDICT, []
        if (
            request.verdict is Verdict.VOID
            and request.band_text is not None
            and request.band is not Band.VOID
        ):
            return _ONLY_VOID, []
        warnings = []
        if request.chain.problems:
            if self.strict_mode or request.chain.malformed:
                return _BAD_EVIDENCE, []
            warnings.append(_BAD_EVIDENCE)
        if not request.is_routed:
            unreachable = f"Verdict {request.verdict} cannot write to {request.band_text}"
            if self.strict_mode or request.band is None:
                return unreachable, []
            warnings.append(unreachable)
        return None, warnings

    def _decision(self, request: _Request, reason: str, bands: Sequence[Band]) -> WriteDecision:
        names = [band.value for band in bands]
        log_entry: dict[str, Any] = {
            "timestamp": utc_text(self._clock.now()),
            "verdict": request.verdict_text,
            "bands": names,
            "allowed": bool(bands),
            "reason": reason,
        }
        with self._lock:
            self._write_log.append({**log_entry, "bands": [*names]})
        approval = bool(bands) and _requires_human(request.verdict, request.band)
        entry: dict[str, Any] = {}
        if reason != _ONLY_VOID:
            entry = {
                **log_entry,
                "band_target": request.band_text,
                "requires_human_approval": approval,
                "strict_mode": self.strict_mode,
                "missing_links": request.chain.problems,
                "hash": request.chain.hash,
                "evidence": request.chain.text,
            }
        return WriteDecision(bool(bands), reason, entry, [*names], approval)


def _bands(verdict: Verdict, band: Band | None, *, is_routed: bool) -> tuple[Band, ...]:
    if band is Band.VAULT:
        return (Band.PHOENIX,)
    return BANDS_OF_VERDICT[verdict] if is_routed or band is None else (band,)


def _requires_human(verdict: Verdict | None, band: Band | None) -> bool:
    if verdict is Verdict.HOLD:
        return needs_human(Operation.HOLD_VERDICT)
    return needs_human(Operation.VAULT_WRITE if band is Band.VAULT else Operation.BAND_WRITE)


def _shown(given: object) -> str:
    """An argument as short ASCII text, for logs."""
    text = plain_text(given)
    if text is None:
        return f"a {ascii(type(given).__name__[:80])[1:-1]}"
    known = read_word(Band, text)
    return known.value if known is not None else ascii(text[:80])[1:-1]
