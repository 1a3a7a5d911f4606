"""Evidence chains: what ties a write to the floor checks, the verdict and the time that allowed it.

The hash is the document's own, ``json.dumps(..., sort_keys=True)``, not json-v1, because others verify it. It covers
a text (``evidence_text``), and an auditor needs that text: json-v1 writes 1.0 as 1 and rounds to six decimals, so a
chain read back as plain JSON may spell a score otherwise and no longer have its hash. ``build_evidence`` gives
evidence that survives the trip: read back as an ``Evidence``, it has the same text and the same hash.

``read_chain`` never raises. What is wrong with a chain is of three kinds, because a lenient policy forgives the first
two and nobody forgives the third:

    missing      a required field is absent, null or empty
    disagreeing  all is there, but the hash or the verdict is not the one it should be
    malformed    a field has a type, a size or a value that no honest chain has
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from standfast.canon import canonical_bytes, fingerprint, utc_text
from standfast.errors import InvalidValue, StandfastError, TooLarge, UnsupportedType
from standfast.govern.authority import plain_text, read_word
from standfast.govern.known_checks import known_check, known_texts, made, set_fields, sound, text_of
from standfast.limits import MAX_EVIDENCE_BYTES, MAX_PROBLEM_CHARS
from standfast.vocabulary import Evidence, FloorCheck, Record, Verdict

CONTENT_FLOOR: Final = "content"
_NOT_CONTENT: Final = ("memory_id", "band", "tier", "verdict", "evidence")
_CONTENT: Final = ("text", "ts_utc", "tags", "refs", "subject", "source")
assert {*_CONTENT, *_NOT_CONTENT} == set(Record.__struct_fields__), "each field is content, or is not"
_HASH_FIELDS: Final = ("hash", "evidence_hash")
_USUAL_FIELDS: Final = frozenset({"floor_checks", "verdict", "timestamp", *_HASH_FIELDS})
_CHECK_FIELDS: Final = frozenset(FloorCheck.__struct_fields__)
# Half a surrogate pair, as ASCII writes it; whole pairs are sent the longer way too.
_HALF_A_PAIR: Final = "\\ud"
_SCALARS: Final = frozenset({str, bool, type(None)})
# Python's own reader takes any separator, weeks, and hour 24 from 3.13 on; evidence must read alike on every Python.
_ISO_8601: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?"
    r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
)


@dataclass(frozen=True, slots=True)
class EvidenceChainValidation:
    """Whether a chain is complete. ``missing_links`` names every problem, each beginning with the field's name."""

    valid: bool
    missing_links: list[str] = field(default_factory=list)
    hash_verified: bool = False
    floor_check_present: bool = False


class ChainReading(NamedTuple):
    """What a chain really holds. ``text`` is what its hash should cover, or None where it can't be read at all."""

    text: str | None = None
    hash: str | None = None
    """The evidence hash of what is there, recomputed; a missing field counts as null."""
    verdict: Verdict | None = None
    hash_verified: bool = False
    floor_check_present: bool = False
    missing: tuple[str, ...] = ()
    disagreeing: tuple[str, ...] = ()
    malformed: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """All that is wrong with it, each beginning with the field's name."""
        return [*self.missing, *self.disagreeing, *self.malformed]

    @property
    def validation(self) -> EvidenceChainValidation:
        """The reading in the document's shape."""
        problems = self.problems
        return EvidenceChainValidation(not problems, problems, self.hash_verified, self.floor_check_present)


def compute_evidence_hash(floor_checks: object, verdict: object, timestamp: object) -> str:
    """The document's evidence hash, of anything that is JSON within bounds; the rest is a typed error."""
    return _sha256(evidence_text(floor_checks, verdict, timestamp))


def evidence_text(floor_checks: object, verdict: object, timestamp: object) -> str:
    """The ASCII text whose SHA-256 is the evidence hash."""
    return _checked_text(_as_json({"floor_checks": floor_checks, "verdict": verdict, "timestamp": timestamp}))


def build_evidence(floor_checks: Iterable[FloorCheck], verdict: Verdict | str, at: datetime) -> Evidence:
    """The evidence of a judgement: at least one floor check, the verdict, and the instant it was given."""
    read = read_verdict(verdict)
    if read is None:
        raise InvalidValue(what="Evidence", problem=f"verdict is none of {', '.join(Verdict)}")
    known = [known_check(check) for check in floor_checks]
    if not known:
        raise InvalidValue(what="Evidence", problem="floor_checks must hold at least one floor check")
    checks, timestamp = tuple([one.check for one in known]), utc_text(at)
    quick = _joined([one.text for one in known], read, timestamp)
    text = quick or evidence_text(checks, read, timestamp)
    evidence = Evidence(floor_checks=checks, verdict=read, timestamp=timestamp, hash=_sha256(text))
    return made(evidence, text) if quick else evidence


def content_fingerprint(record: Record) -> str:
    """The fingerprint of what a record says, wherever it stands: all of it but id, band, tier, verdict and evidence."""
    told: dict[str, Any] = {"text": record.text}
    if record.ts_utc is not None:
        told["ts_utc"] = record.ts_utc
    if record.tags not in (None, ()):
        told["tags"] = record.tags
    if record.refs not in (None, ()):
        told["refs"] = msgspec.to_builtins(record.refs)
    if record.subject is not None:
        told["subject"] = record.subject
    if record.source is not None:
        told["source"] = msgspec.to_builtins(record.source)
    return fingerprint(["content/v1", told])


def content_check(record: Record) -> FloorCheck:
    """A floor check that names the content. The document's hash covers no content; with this check in the chain, it does."""
    reason = f"sha256:{content_fingerprint(record)}"
    return sound(FloorCheck(floor=CONTENT_FLOOR, score=1.0, passed=True, reason=reason))


def is_bound(record: Record) -> bool:
    """Whether a record's evidence is whole, and of this content rather than of any other."""
    evidence = record.evidence
    if (
        evidence is None
        or evidence.verdict is not record.verdict
        or not read_chain(evidence).validation.valid
    ):
        return False
    return content_check(record) in evidence.floor_checks


def read_chain(chain: object, verdict: Verdict | None = None) -> ChainReading:
    """Read a chain, an ``Evidence`` or the document's dict; None reads as an empty one."""
    if isinstance(chain, Evidence):
        if (reading := _read_known(chain, verdict)) is not None:
            return reading
        chain = set_fields(chain)
    if chain is None:
        chain = {}
    if type(chain) is not dict:
        return ChainReading(malformed=("evidence_chain must be a dict or an Evidence",))
    chain = _as_json(chain)
    try:
        text = _checked_text(chain)
    except StandfastError as error:
        return ChainReading(malformed=(_told("evidence_chain", error),))
    return _read_fields(chain, text, verdict)


def read_verdict(given: object) -> Verdict | None:
    """The verdict that a text names, in any case, or None; ``HOLD`` names ``888_HOLD``."""
    if type(given) is Verdict:
        return given
    is_short_form = (plain_text(given) or "").upper() == "HOLD"
    return Verdict.HOLD if is_short_form else read_word(Verdict, given)


def read_instant(given: object) -> datetime | None:
    """The instant that an ISO 8601 text with a time zone names, in UTC, or None."""
    text = plain_text(given)
    if text is None or _ISO_8601.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _read_fields(chain: dict[str, Any], text: str, verdict: Verdict | None) -> ChainReading:
    checks, timestamp, said = chain.get("floor_checks"), chain.get("timestamp"), chain.get("verdict")
    hashes = [chain[name] for name in _HASH_FIELDS if chain.get(name) is not None]
    read = read_verdict(said)
    is_missing = {
        "floor_checks": checks in (None, [], ()),
        "hash": not hashes,
        "timestamp": timestamp is None,
        "verdict": said is None,
    }
    missing = [name for name, is_so in is_missing.items() if is_so]
    malformed = _problems_of_checks(checks)
    if any(type(given) is not str for given in hashes):
        malformed.append("hash must be a string")
    if timestamp is not None and read_instant(timestamp) is None:
        malformed.append("timestamp must be an ISO 8601 instant with a time zone")
    if said is not None and read is None:
        malformed.append(f"verdict must be one of {', '.join(Verdict)}")
    digest = _sha256(text)
    hash_verified = not missing and all(given == digest for given in hashes)
    disagreeing = [] if missing or hash_verified else ["hash does not match the evidence"]
    if read is not None and verdict not in (None, read):
        disagreeing.append(_disagreement(read, verdict))
    return ChainReading(
        text=text,
        hash=digest,
        verdict=read,
        hash_verified=hash_verified,
        floor_check_present=isinstance(checks, list | tuple) and bool(checks),
        missing=tuple(missing),
        disagreeing=tuple(disagreeing),
        malformed=tuple(malformed),
    )


def _problems_of_checks(checks: object) -> list[str]:
    """The first malformed floor check, if any; a check holds what ``FloorCheck`` holds and nothing else."""
    if checks is None:
        return []
    if not isinstance(checks, list | tuple):
        return ["floor_checks must be a list"]
    try:
        msgspec.convert(checks, list[FloorCheck])
    except (msgspec.ValidationError, StandfastError):
        pass
    else:
        return []
    for index, check in enumerate(checks):
        try:
            FloorCheck.from_json(check)
        except StandfastError as error:
            return [_told(f"floor_checks[{index}]", error)]
    return []


def _as_json(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a chain with the vocabulary's own values in them turned to plain JSON."""
    checks, verdict = fields.get("floor_checks"), fields.get("verdict")
    plain = dict(fields)
    if isinstance(verdict, Verdict):
        plain["verdict"] = verdict.value
    if type(checks) in (list, tuple) and any(isinstance(check, FloorCheck) for check in checks or ()):
        plain["floor_checks"] = [
            set_fields(check) if isinstance(check, FloorCheck) else check for check in checks or ()
        ]
    return plain


def _joined(texts: list[str], verdict: Verdict, timestamp: str) -> str | None:
    """The text that the hash covers, of the texts of its checks; the same that ``json.dumps`` makes.

    The timestamp must be one: then nothing in it needs to be escaped.
    """
    told = f'"timestamp": "{timestamp}", "verdict": "{verdict.value}"'
    text = f'{{"floor_checks": [{", ".join(texts)}], {told}}}'
    return text if len(text) <= MAX_EVIDENCE_BYTES and _HALF_A_PAIR not in text else None


def _read_known(evidence: Evidence, verdict: Verdict | None) -> ChainReading | None:
    """What this evidence holds, if all of it is known to be sound; None sends it the longer way."""
    said = evidence.verdict
    text = text_of(evidence) or _text_if_sound(evidence)
    if text is None:
        return None
    agrees = verdict is None or verdict is said
    return ChainReading(
        text=text,
        hash=evidence.hash,
        verdict=said,
        hash_verified=True,
        floor_check_present=True,
        disagreeing=() if agrees else (_disagreement(said, verdict),),
    )


def _text_if_sound(evidence: Evidence) -> str | None:
    """The text that the hash covers, if the checks are known, the hash is the text's, and the rest is as it should be."""
    checks, said, timestamp = evidence.floor_checks, evidence.verdict, evidence.timestamp
    is_plain = (
        type(checks) is tuple and type(said) is Verdict and type(timestamp) is type(evidence.hash) is str
    )
    texts = known_texts(checks) if is_plain and checks else None
    text = None if texts is None else _joined(texts, said, timestamp)
    if text is None or read_instant(timestamp) is None or evidence.hash != _sha256(text):
        return None
    return text


def _disagreement(said: Verdict, verdict: Verdict | None) -> str:
    return f"verdict is {said}, but the write is judged {verdict}"


def _checked_text(chain: dict[str, Any]) -> str:
    """The text that a chain's hash covers, if all of the chain is JSON within bounds."""
    covered = {name: chain.get(name) for name in ("floor_checks", "verdict", "timestamp")}
    if _is_flat(chain):
        text = _text(covered)
        if _HALF_A_PAIR not in text:
            return text
    _require_json(chain)
    return _text(covered)


def _is_flat(chain: dict[str, Any]) -> bool:
    """Whether a chain has no more than the usual shape: named fields, and a list of checks without anything nested."""
    checks = chain.get("floor_checks")
    if type(checks) not in (list, tuple) or not _USUAL_FIELDS.issuperset(chain):
        return False
    if any(type(value) not in _SCALARS for name, value in chain.items() if name != "floor_checks"):
        return False
    for check in checks or ():
        if type(check) is not dict or not _CHECK_FIELDS.issuperset(check):
            return False
        for value in check.values():
            kind = type(value)
            if kind not in _SCALARS and not (kind is float and 0 <= value <= 1):
                return False
    return True


def _require_json(value: dict[str, Any]) -> None:
    """Refuse what is no JSON within bounds."""
    # Bounds come first: a value that holds itself, or one list many times over, would keep any reader busy for ever.
    size_bytes = 0
    waiting: list[Any] = [value]
    while waiting:
        holder = waiting.pop()
        size_bytes += 1 + len(holder)
        if size_bytes > MAX_EVIDENCE_BYTES:
            break
        for member in [*holder, *holder.values()] if type(holder) is dict else holder:
            kind = type(member)
            if kind is str:
                size_bytes += len(member)
            elif kind in (dict, list, tuple):
                waiting.append(member)
            elif kind is datetime:
                raise UnsupportedType(type="datetime")
    if size_bytes > MAX_EVIDENCE_BYTES:
        raise TooLarge(size_bytes=size_bytes, limit_bytes=MAX_EVIDENCE_BYTES)
    canonical_bytes(value)


def _text(evidence: dict[str, Any]) -> str:
    text = json.dumps(evidence, sort_keys=True)
    if len(text) > MAX_EVIDENCE_BYTES:
        raise TooLarge(size_bytes=len(text), limit_bytes=MAX_EVIDENCE_BYTES)
    return text


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _told(field_name: str, error: StandfastError) -> str:
    return f"{field_name}: {error}"[:MAX_PROBLEM_CHARS]
