"""The write policy: what may be written where, how far it is trusted in recall, and how long it is kept.

**Writing.** The verdict decides where a record is written, and the evidence whether it is. Violations are
checked in this order: is the verdict known, would a VOID become canonical, is the evidence valid, does the
verdict reach the band. Decisions where the document leaves room:

- Without a ``band_target``, the record goes where the verdict routes it, for VOID too. A target asks whether
  the verdict reaches that band; it does not narrow the route, because PARTIAL must not reach LEDGER without
  its review in PHOENIX.
- A SEAL for VAULT is allowed as a proposal. Its ``target_bands`` is PHOENIX; no decision names VAULT.
- Lenient mode forgives evidence that is missing or disagrees, and a band that the verdict does not reach. It
  does not forgive an unknown verdict or band, which name no place to write to, nor a malformed chain, such as
  one with a failed hard floor. And a chain that says VOID never becomes canonical under another verdict.
- ``requires_human_approval`` is True for allowed writes only: a refused one has nothing to approve.
- The document's reasons are given word for word; details are in ``ledger_entry["missing_links"]``.
- ``ledger_entry["hash"]`` is the recomputed evidence hash, and ``["evidence"]`` the text that it covers.

**Recalling** (111_SENSE). A recalled memory is a suggestion, never a fact. Each doubt has a multiplier; those
that apply are multiplied, and the product is capped at 0.85.

- Age is measured from the time handed in. Exactly 30 or 90 days is not older; a microsecond more is.
- A missing or future timestamp is invalid: it does not tell the age, and a forged future would never grow
  old. A sound memory stamped by a clock that runs ahead still gets 0.85, with a warning.
- A missing evidence chain counts once, and not again for its missing floor checks.
- The topic is ``current_context["topic"]`` against the item's ``topic`` or else its ``subject``. It counts
  only if both are known; case and Unicode form make no difference.
- An item without a band is treated as LEDGER, as ``Record`` does. An unknown band is blocked, because it
  might be VOID under another name.
- An item is a ``Record``, or a dict with the document's names (``timestamp``, ``evidence_chain``) or the
  vocabulary's (``ts_utc``, ``evidence``).

**Keeping.** The age is in days, whole or not, and handed in. Exactly seven days is not past seven days.
``sweep.py`` carries it out.

- The archive that LEDGER entries move to after 90 days is a tier, not a band, so ``move_to_band`` says
  ``COLD``. An item that is already there (its ``tier`` is ``COLD``) stays for good: nothing is deleted by
  ``RETENTION_COLD_DAYS``.
- A PHOENIX proposal moves to LEDGER once its ``status`` is ``sealed`` or ``rejected``. It is never deleted:
  one that nobody has decided in 90 days is reported.
- ``delete_after_days`` counts down to deletion; it is 0 for an item to delete now.
- An item whose band cannot be read is kept, because deletion cannot be undone.
"""

import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from math import ceil, isfinite
from typing import Any, Final, NamedTuple, assert_never

from standfast.clock import Clock, SystemClock
from standfast.errors import InvalidValue, LoneSurrogate
from standfast.govern.authority import BANDS_OF_ROLE, Operation, Role, needs_human, plain_text, read_word
from standfast.govern.evidence import (
    ChainReading,
    EvidenceChainValidation,
    compute_evidence_hash,
    read_chain,
    read_instant,
    read_verdict,
)
from standfast.limits import MAX_WRITE_LOG_ENTRIES
from standfast.records.canon import normal_string, utc_text
from standfast.records.origins import MAX_RECALL_CONFIDENCE, Doubt, ceiling_of
from standfast.records.vocabulary import Band, Evidence, Record, Tier, Verdict

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

RETENTION_HOT_DAYS: Final = 7
RETENTION_WARM_DAYS: Final = 90
RETENTION_COLD_DAYS: Final = 365
RETENTION_VOID_DAYS: Final = 90
assert RETENTION_HOT_DAYS < RETENTION_WARM_DAYS < RETENTION_COLD_DAYS

_HUMAN_GATES: Final = frozenset(filter(needs_human, Operation))
_DECIDED: Final = ("sealed", "rejected")
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


@dataclass(frozen=True, slots=True)
class RecallDecision:
    """Whether a memory may be recalled, how far it may be trusted, and a warning for each doubt."""

    allowed: bool
    reason: str
    confidence_ceiling: float
    floor_warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 0 <= self.confidence_ceiling <= (MAX_RECALL_CONFIDENCE if self.allowed else 0):
            raise InvalidValue(
                what="RecallDecision",
                problem=(
                    f"confidence_ceiling must be 0 to {MAX_RECALL_CONFIDENCE}, and 0 if recall is blocked"
                ),
            )


def decide_recall(memory_item: object, current_context: object, now: datetime) -> RecallDecision:
    """Decides on one item at a given time. Never raises: what cannot be read is blocked or doubted."""
    if not isinstance(memory_item, dict | Record):
        return _blocked("only a record or a dict can be recalled")
    band_text = _first(memory_item, "band")
    band = Band.LEDGER if band_text is None else read_word(Band, band_text)
    if band is None:
        return _blocked("its band is unknown")
    if band is Band.VOID:
        return _blocked("the VOID band holds rejected content, for diagnosis only")
    doubts = _doubts(memory_item, current_context, now)
    ceiling = ceiling_of(doubts)
    warnings = [doubt.value for doubt in doubts]
    if band_text is None:
        warnings.append("It names no band and is treated as LEDGER")
    return RecallDecision(True, f"Suggestion with a confidence of at most {ceiling:g}", ceiling, warnings)


def _doubts(item: object, context: object, now: datetime) -> list[Doubt]:
    """The doubts that apply, in the order of the document's table."""
    doubts = []
    if read_verdict(_first(item, "verdict")) not in (Verdict.SEAL, Verdict.SABAR):
        doubts.append(Doubt.VERDICT)
    then = read_instant(_first(item, "timestamp", "ts_utc"))
    age = None if then is None or then > now else now - then
    if age is not None and age > timedelta(days=30):
        doubts.append(Doubt.OLDER_THAN_30_DAYS)
    if age is not None and age > timedelta(days=90):
        doubts.append(Doubt.OLDER_THAN_90_DAYS)
    chain = _first(item, "evidence_chain", "evidence")
    if not isinstance(chain, dict | Evidence) or not chain:
        doubts.append(Doubt.NO_EVIDENCE)
    elif not isinstance(checks := _first(chain, "floor_checks"), list | tuple) or not checks:
        doubts.append(Doubt.NO_FLOOR_CHECKS)
    current, remembered = _topic(_first(context, "topic")), _topic(_first(item, "topic", "subject"))
    if current and remembered and current != remembered:
        doubts.append(Doubt.OTHER_TOPIC)
    if age is None:
        doubts.append(Doubt.BAD_TIMESTAMP)
    return doubts


def _blocked(problem: str) -> RecallDecision:
    return RecallDecision(False, f"Recall blocked: {problem}", 0.0, [problem[0].upper() + problem[1:]])


def _first(holder: object, *names: str) -> object:
    """The first of these fields that is set in a dict, a ``Record`` or an ``Evidence``."""
    for name in names:
        value = None
        if isinstance(holder, dict):
            value = holder.get(name)
        elif isinstance(holder, Record | Evidence):
            value = getattr(holder, name, None)
        if value is not None:
            return value
    return None


def _topic(given: object) -> str:
    text = (plain_text(given) or "").strip()
    try:
        return normal_string(text).casefold()
    except LoneSurrogate:
        return text


@dataclass(frozen=True, slots=True)
class RetentionDecision:
    """Whether an item is kept, where it moves, and in how many days it will be deleted."""

    keep: bool
    move_to_band: str | None
    reason: str
    delete_after_days: int | None = None

    def __post_init__(self) -> None:
        if self.move_to_band == Band.VAULT:
            raise InvalidValue(what="RetentionDecision", problem="age moves nothing into VAULT")
        if not self.keep and (self.move_to_band is not None or self.delete_after_days != 0):
            raise InvalidValue(
                what="RetentionDecision",
                problem="an item that is not kept is deleted now (delete_after_days=0) and not moved",
            )


def decide_retention(memory_item: object, age_days: float) -> RetentionDecision:
    """Decides on an item of this age. A negative age, from a clock that was set back, counts as 0."""
    if type(age_days) not in (int, float) or not (type(age_days) is int or isfinite(age_days)):
        raise InvalidValue(what="age_days", problem="must be a finite number of days")
    age = max(age_days, 0)
    band = read_word(Band, _first(memory_item, "band"))
    match band:
        case None:
            return RetentionDecision(True, None, "Unknown band: kept, for a human to look at")
        case Band.VAULT:
            return RetentionDecision(True, None, "VAULT never expires: it is constitutional")
        case Band.LEDGER:
            return _ledger(memory_item, age)
        case Band.PHOENIX:
            return _phoenix(memory_item, age)
        case Band.ACTIVE:
            return _until(RETENTION_HOT_DAYS, band, age)
        case Band.WITNESS:
            return _until(RETENTION_WARM_DAYS, band, age)
        case Band.VOID:
            return _until(RETENTION_VOID_DAYS, band, age)
        case _:
            assert_never(band)


def _ledger(item: object, age: float) -> RetentionDecision:
    if read_word(Tier, _first(item, "tier")) is Tier.COLD:
        return RetentionDecision(True, None, "LEDGER entry in the COLD archive tier: kept for good")
    if age > RETENTION_WARM_DAYS:
        reason = f"LEDGER entry past {RETENTION_WARM_DAYS} days: to the COLD archive tier"
        return RetentionDecision(True, Tier.COLD.value, reason)
    return RetentionDecision(True, None, f"LEDGER entry within {RETENTION_WARM_DAYS} days: WARM tier")


def _phoenix(item: object, age: float) -> RetentionDecision:
    status = (plain_text(_first(item, "status")) or "").lower()
    if status in _DECIDED:
        return RetentionDecision(True, Band.LEDGER.value, f"PHOENIX proposal is {status}: to LEDGER")
    if age > RETENTION_WARM_DAYS:
        reason = f"PHOENIX proposal past {RETENTION_WARM_DAYS} days and undecided: a human should look at it"
        return RetentionDecision(True, None, reason)
    return RetentionDecision(True, None, f"PHOENIX proposal within {RETENTION_WARM_DAYS} days: WARM tier")


def _until(limit_days: int, band: Band, age: float) -> RetentionDecision:
    if age > limit_days:
        return RetentionDecision(False, None, f"{band} entry past {limit_days} days: deleted", 0)
    return RetentionDecision(
        True, None, f"{band} entry within {limit_days} days: {band.tier} tier", ceil(limit_days - age)
    )


class _WriteRequest(NamedTuple):
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


class _LoggedDecision(NamedTuple):
    """A write decision as the log keeps it."""

    timestamp: str
    verdict: str
    bands: tuple[Band, ...]
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {
            "timestamp": self.timestamp,
            "verdict": self.verdict,
            "bands": [band.value for band in self.bands],
            "allowed": bool(self.bands),
            "reason": self.reason,
        }


class MemoryWritePolicy:
    """The document's policy engine. ``strict_mode=False`` warns instead of refusing, for development."""

    def __init__(self, strict_mode: bool = True, *, clock: Clock | None = None) -> None:
        if type(strict_mode) is not bool:
            raise InvalidValue(what="strict_mode", problem="must be True or False")
        self.strict_mode = strict_mode
        self._clock = clock or SystemClock()
        self._write_log: deque[_LoggedDecision] = deque(maxlen=MAX_WRITE_LOG_ENTRIES)
        self._lock = threading.Lock()

    def should_write(
        self,
        verdict: Verdict | str,
        evidence_chain: dict[str, Any] | Evidence | None,
        band_target: Band | str | None = None,
    ) -> WriteDecision:
        """Decide whether a write with this verdict and evidence is allowed, and to which bands. No raise."""
        read = read_verdict(verdict)
        request = _WriteRequest(
            verdict=read,
            verdict_text=_shown(verdict) if read is None else read.value,
            band=read_word(Band, band_target),
            band_text=None if band_target is None else _shown(band_target),
            chain=read_chain(evidence_chain, read),
        )
        return self._decide(request, utc_text(self._clock.now()))

    def should_write_built(
        self, verdict: Verdict, chain: ChainReading, band_target: Band | None = None, *, timestamp: str
    ) -> WriteDecision:
        """``should_write`` for evidence that ``build_chain`` has just built, which need not be read again.

        The decision has no ledger entry, and is one object for all writes of which it says the same.
        """
        band_text = None if band_target is None else band_target.value
        request = _WriteRequest(verdict, verdict.value, band_target, band_text, chain)
        reason, bands = self._outcome(request)
        self._note(_LoggedDecision(timestamp, request.verdict_text, bands, reason))
        return _decision(verdict, band_target, reason, bands)

    def _decide(self, request: _WriteRequest, timestamp: str) -> WriteDecision:
        reason, bands = self._outcome(request)
        logged = _LoggedDecision(timestamp, request.verdict_text, bands, reason)
        self._note(logged)
        approval = bool(bands) and _requires_human(request.verdict, request.band)
        entry: dict[str, Any] = {}
        if reason != _ONLY_VOID:
            entry = logged.as_json()
            entry["band_target"] = request.band_text
            entry["requires_human_approval"] = approval
            entry["strict_mode"] = self.strict_mode
            entry["missing_links"] = request.chain.problems
            entry["hash"] = request.chain.hash
            entry["evidence"] = request.chain.text
        return WriteDecision(bool(bands), reason, entry, [band.value for band in bands], approval)

    def _outcome(self, request: _WriteRequest) -> tuple[str, tuple[Band, ...]]:
        """The reason for a decision, and the bands; without bands it is refused."""
        refusal, warnings = self._violations(request)
        if refusal is not None:
            return refusal, ()
        assert request.verdict is not None
        bands = _bands(request.verdict, request.band, is_routed=request.is_routed)
        if Verdict.VOID in (request.verdict, request.chain.verdict) and bands != (Band.VOID,):
            return _ONLY_VOID, ()
        reason = "Policy approved"
        if warnings:
            reason += f" with warnings: {'; '.join(warnings)}"
            _log.warning("lenient mode allowed a write: %s", "; ".join(warnings))
        return reason, bands

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
        """The last 1,000 write decisions, oldest first, with refusals. The lasting record is the ledger."""
        with self._lock:
            logged = list(self._write_log)
        return [one.as_json() for one in logged]

    def _violations(self, request: _WriteRequest) -> tuple[str | None, list[str]]:
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
        chain = request.chain
        if chain.missing or chain.disagreeing or chain.malformed:
            if self.strict_mode or request.chain.malformed:
                return _BAD_EVIDENCE, []
            warnings.append(_BAD_EVIDENCE)
        if not request.is_routed:
            unreachable = f"Verdict {request.verdict} cannot write to {request.band_text}"
            if self.strict_mode or request.band is None:
                return unreachable, []
            warnings.append(unreachable)
        return None, warnings

    def _note(self, logged: _LoggedDecision) -> None:
        with self._lock:
            self._write_log.append(logged)


@lru_cache(maxsize=1 << 8)
def _decision(
    verdict: Verdict, band_target: Band | None, reason: str, bands: tuple[Band, ...]
) -> WriteDecision:
    approval = bool(bands) and _requires_human(verdict, band_target)
    return WriteDecision(bool(bands), reason, {}, [band.value for band in bands], approval)


def _bands(verdict: Verdict, band: Band | None, *, is_routed: bool) -> tuple[Band, ...]:
    if band is Band.VAULT:
        return (Band.PHOENIX,)
    return BANDS_OF_VERDICT[verdict] if is_routed or band is None else (band,)


def _requires_human(verdict: Verdict | None, band: Band | None) -> bool:
    if verdict is Verdict.HOLD:
        return Operation.HOLD_VERDICT in _HUMAN_GATES
    return (Operation.VAULT_WRITE if band is Band.VAULT else Operation.BAND_WRITE) in _HUMAN_GATES


def _shown(given: object) -> str:
    """An argument as short ASCII text, for logs."""
    text = plain_text(given)
    if text is None:
        return f"a {ascii(type(given).__name__[:80])[1:-1]}"
    known = read_word(Band, text)
    return known.value if known is not None else ascii(text[:80])[1:-1]
