"""Evidence chains: what ties a write to the floor checks, the verdict and the time that allowed it.

The evidence hash is the document's own, SHA-256 over ``json.dumps(..., sort_keys=True)``, not over json-v1,
because others verify it. It covers a text (``evidence_text``) that an auditor needs as well: json-v1 writes
1.0 as 1 and rounds to six decimals, so a chain that is read back as plain JSON may spell a score differently.
``build_evidence`` rounds first, so that its evidence has the same text and hash after it was stored and read
back.

``read_chain`` never raises. It sorts problems into three kinds, because lenient mode forgives the first two
only:

    missing      a required field is absent or null, or empty (a VOID or a hold may have no floor checks: it
                 may be given before any floor has looked, and makes nothing canonical)
    disagreeing  the hash or the verdict is not the one it should be
    malformed    a field has a type, a size or a value that no honest chain has; so has a verdict that is
                 not VOID next to a failed hard floor
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import Any, Final, NamedTuple

import msgspec

from standfast.errors import InvalidValue, NotCanonical, StandfastError, TooLarge
from standfast.govern.authority import plain_text, read_word
from standfast.limits import FLOAT_DECIMALS, MAX_EVIDENCE_BYTES, MAX_PROBLEM_CHARS
from standfast.records.canon import canonical_bytes, fingerprint, normal_string, utc_text
from standfast.records.conversion import converted
from standfast.records.vocabulary import Band, Evidence, FloorCheck, Record, Verdict

CONTENT_FLOOR: Final = "content"
HUMAN_SEAL_FLOOR: Final = "human_seal"
HUMAN_ACCEPT_FLOOR: Final = "human_accept"
HUMAN_DECISION_FLOOR: Final = "human_decision"
_NOT_CONTENT: Final = ("memory_id", "band", "tier", "verdict", "evidence")
_CONTENT: Final = (
    "text",
    "ts_utc",
    "tags",
    "refs",
    "subject",
    "source",
    "scope",
    "metadata",
    "session",
    "position",
    "speaker",
    "origin",
    "valid_from",
    "valid_until",
    "supersedes",
    "pinned",
    "several",
    "statements",
    "validity_words",
    "utc_offset",
)
assert {*_CONTENT, *_NOT_CONTENT} == set(Record.__struct_fields__), "each field is content, or is not"
_CONTENT_CHECK: Final = FloorCheck(floor=CONTENT_FLOOR, score=1.0, passed=True, reason="")
_CONTENT_TEXT: Final = '{"floor": "content", "passed": true, "reason": "sha256:%s", "score": 1.0}'
_NO_EVIDENCE: Final = Evidence(floor_checks=(), verdict=Verdict.VOID, timestamp="never", hash="0" * 64)
_content_of = attrgetter(*_CONTENT)
_EMPTY: Final[tuple[object, ...]] = ((), {})
_HASH_FIELDS: Final = ("hash", "evidence_hash")
_decode_checks: Final = msgspec.json.Decoder(tuple[FloorCheck, ...]).decode
_CONTENT_REASON: Final = re.compile("sha256:([0-9a-f]{64})")
# Python's own parser takes any separator, weeks, and hour 24 from 3.13 on. Evidence must read alike on every
# Python.
_ISO_8601: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?"
    r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
)


@dataclass(frozen=True, slots=True)
class EvidenceChainValidation:
    """Whether a chain is complete.

    ``missing_links`` names every problem, each beginning with the field's name.
    """

    valid: bool
    missing_links: list[str] = field(default_factory=list)
    hash_verified: bool = False
    floor_check_present: bool = False


class ChainReading(NamedTuple):
    """What a chain holds. ``text`` is what its hash should cover, or None if the chain cannot be read at all.

    ``hash`` is recomputed from what is there; a missing field counts as null.
    """

    text: str | None = None
    hash: str | None = None
    verdict: Verdict | None = None
    hash_verified: bool = False
    floor_check_present: bool = False
    missing: tuple[str, ...] = ()
    disagreeing: tuple[str, ...] = ()
    malformed: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """All problems, each beginning with the field's name."""
        return [*self.missing, *self.disagreeing, *self.malformed]

    @property
    def validation(self) -> EvidenceChainValidation:
        """The reading in the document's shape."""
        problems = self.problems
        return EvidenceChainValidation(not problems, problems, self.hash_verified, self.floor_check_present)


def compute_evidence_hash(floor_checks: object, verdict: object, timestamp: object) -> str:
    """The document's evidence hash.

    The arguments may be any JSON within bounds; anything else is a typed error.
    """
    return _sha256(evidence_text(floor_checks, verdict, timestamp))


def evidence_text(floor_checks: object, verdict: object, timestamp: object) -> str:
    """The ASCII text whose SHA-256 is the evidence hash."""
    return _checked_text(_as_json({"floor_checks": floor_checks, "verdict": verdict, "timestamp": timestamp}))


def build_evidence(floor_checks: Iterable[FloorCheck], verdict: Verdict | str, at: datetime) -> Evidence:
    """The evidence of a judgement: at least one floor check, the verdict, and the time it was given."""
    return build_chain(floor_checks, verdict, at)[0]


def build_chain(
    floor_checks: Iterable[FloorCheck], verdict: Verdict | str, at: datetime
) -> tuple[Evidence, ChainReading]:
    """The evidence of a judgement, and what ``read_chain`` reads in it."""
    read = read_verdict(verdict)
    if read is None:
        raise InvalidValue(what="Evidence", problem=f"verdict must be one of {', '.join(Verdict)}")
    checks = tuple(map(_as_stored, floor_checks))
    if not checks:
        raise InvalidValue(what="Evidence", problem="floor_checks must hold at least one floor check")
    timestamp = utc_text(at)
    # Stored checks are JSON within bounds, so that only the size of the text is left to check.
    text = _plain_text_of(checks, read, timestamp)
    if text is None:
        text = _hashed_text(_as_json({"floor_checks": checks, "verdict": read, "timestamp": timestamp}))
    evidence = Evidence(floor_checks=checks, verdict=read, timestamp=timestamp, hash=_sha256(text))
    is_sound = _problem_of_verdict(checks, read) is None
    return evidence, _intact(evidence, text) if is_sound else read_chain(evidence)


class JudgedEvidence(NamedTuple):
    """The evidence of a judgement, what ``read_chain`` reads in it, and its canonical bytes."""

    evidence: Evidence
    chain: ChainReading
    canonical: bytes


def build_judged_chain(
    digest: str, findings: tuple[FloorCheck, ...], verdict: Verdict, at: datetime
) -> JudgedEvidence:
    """``build_chain`` of the content with this fingerprint and of what a ``Judge`` found in it.

    Most claims get the same findings, so all but the content's own check is looked up.
    """
    stored = _stored_findings(findings)
    if stored.text is None or (stored.only_void and verdict is not Verdict.VOID):
        evidence, chain = build_chain([_content_check(digest), *findings], verdict, at)
        return JudgedEvidence(evidence, chain, canonical_bytes(evidence.as_json()))
    timestamp = utc_text(at)
    text = (
        f'{{"floor_checks": [{_CONTENT_TEXT % digest}, {stored.text}], "timestamp": "{timestamp}", "verdict":'
        f' "{verdict}"}}'
    )
    if len(text) > MAX_EVIDENCE_BYTES:
        raise TooLarge(size_bytes=len(text), limit_bytes=MAX_EVIDENCE_BYTES)
    checks, hashed = (_content_check(digest), *stored.checks), _sha256(text)
    evidence = _NO_EVIDENCE.with_fields(
        floor_checks=checks, verdict=verdict, timestamp=timestamp, hash=hashed
    )
    canonical = (
        f'{{"floor_checks":[{{"floor":"content","passed":true,"reason":"sha256:{digest}","score":1}},'
        f'{stored.canonical}],"hash":"{hashed}","timestamp":"{timestamp}","verdict":"{verdict}"}}'
    )
    return JudgedEvidence(evidence, _intact(evidence, text), canonical.encode())


class _StoredFindings(NamedTuple):
    """Findings of a judge as they are stored.

    Attributes:
        text: Their part of the hashed text; None if it is not plain ASCII.
        canonical: Their part of the canonical bytes of the evidence.
        only_void: Whether the verdict must be VOID.
    """

    checks: tuple[FloorCheck, ...]
    text: str | None
    canonical: str
    only_void: bool


@lru_cache(maxsize=1 << 10)
def _stored_findings(findings: tuple[FloorCheck, ...]) -> _StoredFindings:
    stored = tuple(map(_as_stored, findings))
    texts = [text for text in map(_text_of, stored) if text is not None]
    is_plain = texts and len(texts) == len(stored)
    canonical = b",".join([canonical_bytes(check.as_json()) for check in stored]).decode()
    text = ", ".join(texts) if is_plain else None
    return _StoredFindings(stored, text, canonical, _failed_hard_floor(stored) is not None)


def content_of(record: Record) -> dict[str, Any]:
    """What a record says, as plain JSON: everything but its id, band, tier, verdict and evidence."""
    return {
        name: value if type(value) is str else msgspec.to_builtins(value)
        for name, value in zip(_CONTENT, _content_of(record), strict=True)
        if value is not None and value not in _EMPTY
    }


def content_fingerprint(record: Record) -> str:
    """The fingerprint of what a record says."""
    return fingerprint_of_content(content_of(record))


def fingerprint_of_content(content: dict[str, Any]) -> str:
    """The fingerprint of what ``content_of`` gave."""
    # What came with the second form is fingerprinted as it was, so that older records still verify.
    return fingerprint(["content/v3" if "statements" in content else "content/v2", content])


def content_check(record: Record) -> FloorCheck:
    """A floor check that holds the content's fingerprint, because the document's hash covers no content
    otherwise.
    """
    return _content_check(content_fingerprint(record))


def _content_check(digest: str) -> FloorCheck:
    return _CONTENT_CHECK.with_fields(reason=f"sha256:{digest}")


def _content_digest(check: FloorCheck) -> str | None:
    """The fingerprint in a check that ``content_check`` made; None for every other check, also if it only
    equals one.
    """
    if check.floor != CONTENT_FLOOR:
        return None
    floor, score, passed, threshold, hard, reason = msgspec.structs.astuple(check)
    if type(floor) is not str or type(score) is not float or passed is not True:
        return None
    if score != 1.0 or threshold is not None or hard is not None or type(reason) is not str:
        return None
    found = _CONTENT_REASON.fullmatch(reason)
    return None if found is None else found[1]


def is_bound(record: Record, digest: str | None = None) -> bool:
    """Whether a record's evidence is complete and was made for this content, whose fingerprint may be known
    as ``digest``.
    """
    evidence = record.evidence
    if evidence is None or evidence.verdict is not record.verdict:
        return False
    if read_chain(evidence).problems:
        return False
    reason = f"sha256:{digest or content_fingerprint(record)}"
    return any(check.reason == reason and _content_digest(check) for check in evidence.floor_checks)


def logged_record(record: Record) -> Record:
    """A judged record under an id that no other judgement shares."""
    assert record.evidence is not None, "every judged record has evidence"
    return msgspec.structs.replace(record, memory_id=f"{record.memory_id}~{record.evidence.hash[:12]}")


def sealed_record(record: Record, *, principal: str, proposal_id: str, now: datetime) -> Record:
    """The record as law: its evidence holds the judge's findings and the human's seal."""
    done = f"{principal} sealed {proposal_id} at {utc_text(now)}"
    check = FloorCheck(floor=HUMAN_SEAL_FLOOR, score=1.0, passed=True, reason=done)
    return _approved(record, Band.VAULT, Verdict.SEAL, check, now)


def accepted_record(record: Record, *, principal: str, proposal_id: str, now: datetime) -> Record:
    """The record as ordinary memory: its evidence holds the judge's findings and that a human accepted it."""
    done = f"{principal} accepted {proposal_id} at {utc_text(now)}"
    check = FloorCheck(floor=HUMAN_ACCEPT_FLOOR, score=1.0, passed=True, reason=done)
    return _approved(record, Band.LEDGER, Verdict.SABAR, check, now)


def _approved(record: Record, band: Band, verdict: Verdict, check: FloorCheck, now: datetime) -> Record:
    assert record.evidence is not None, "only judged records are approved"
    evidence = build_evidence([*record.evidence.floor_checks, check], verdict, now)
    return msgspec.structs.replace(record, band=band, verdict=verdict, evidence=evidence)


def decided_record(
    record: Record, *, principal: str, proposal_id: str, is_rejected: bool, now: datetime
) -> Record:
    """A decided proposal as LEDGER keeps it: with its content, or, if it was rejected, without.

    Its verdict is 888_HOLD, which logs it and keeps it out of recall: what was decided stands elsewhere.
    """
    logged = logged_record(record)
    if is_rejected:
        logged = Record(
            memory_id=logged.memory_id,
            text="A human rejected this proposal. Its content is erased.",
            scope=record.scope,
            origin=record.origin,
        )
    decided = "rejected" if is_rejected else "sealed"
    check = FloorCheck(
        floor=HUMAN_DECISION_FLOOR,
        score=0.0 if is_rejected else 1.0,
        passed=not is_rejected,
        reason=f"{principal} {decided} {proposal_id} at {utc_text(now)}",
    )
    evidence = build_evidence([content_check(logged), check], Verdict.HOLD, now)
    return msgspec.structs.replace(logged, band=Band.LEDGER, verdict=Verdict.HOLD, evidence=evidence)


def has_failed_hard_floor(record: Record) -> bool:
    """Whether a hard floor rejected the record. Such a record is never approved."""
    return record.evidence is not None and _failed_hard_floor(record.evidence.floor_checks) is not None


def _failed_hard_floor(checks: Iterable[FloorCheck]) -> str | None:
    return next((check.floor for check in checks if check.hard is True and not check.passed), None)


def _problem_of_verdict(checks: Iterable[FloorCheck], verdict: Verdict | None) -> str | None:
    """A failed hard floor makes a verdict VOID, so a chain that says otherwise was not given by a judge."""
    failed = None if verdict in (None, Verdict.VOID) else _failed_hard_floor(checks)
    return (
        None
        if failed is None
        else f"verdict is {verdict}, but the hard floor {failed} failed"[:MAX_PROBLEM_CHARS]
    )


def read_chain(chain: object, verdict: Verdict | None = None) -> ChainReading:
    """Reads a chain, given as an ``Evidence`` or as the document's dict; None counts as an empty one."""
    if isinstance(chain, Evidence):
        if (sound := _sound_reading(chain, verdict)) is not None:
            return sound
        chain = _set_fields(chain)
    if chain is None:
        chain = {}
    if type(chain) is not dict:
        return ChainReading(malformed=("evidence_chain must be a dict or an Evidence",))
    chain = _as_json(chain)
    try:
        text = _checked_text(chain)
    except StandfastError as error:
        return ChainReading(malformed=(_problem("evidence_chain", error),))
    return _read_fields(chain, text, verdict)


def _sound_reading(evidence: Evidence, verdict: Verdict | None) -> ChainReading | None:
    """The reading of evidence without any problem, as ``build_evidence`` makes it; None for all other
    evidence.
    """
    if type(evidence.verdict) is not Verdict or verdict not in (None, evidence.verdict):
        return None
    text = _plain_text_of(evidence.floor_checks, evidence.verdict, evidence.timestamp)
    if text is None or _sha256(text) != evidence.hash or read_instant(evidence.timestamp) is None:
        return None
    if _problem_of_verdict(evidence.floor_checks, evidence.verdict) is not None:
        return None
    return _intact(evidence, text)


def is_sound_chain(digest: str, checks: bytes, hashed: str, timestamp: str, verdict: str) -> bool:
    """Whether stored evidence has no problem, and no part that a human decided.

    False also for evidence that has to be looked at more closely; ``read_chain`` does.

    Args:
        digest: What its first check says of the content.
        checks: The canonical bytes of the other checks.
        hashed: The hash that it holds.
    """
    text, has_failed = _read_checks(checks)
    if text is None or (has_failed and verdict != Verdict.VOID.value) or read_instant(timestamp) is None:
        return False
    whole = (
        f'{{"floor_checks": [{_CONTENT_TEXT % digest}, {text}], "timestamp": "{timestamp}",'
        f' "verdict": "{verdict}"}}'
    )
    return _sha256(whole) == hashed


# Most judgements have the same findings.
@lru_cache(maxsize=1 << 10)
def _read_checks(canonical: bytes) -> tuple[str | None, bool]:
    """The hashed text of checks, and whether a hard floor failed; None for what has to be looked at."""
    try:
        checks = _decode_checks(b"[%b]" % canonical)
    except (msgspec.DecodeError, StandfastError):
        return None, False
    texts = [_text_of(check) for check in checks if check.floor != HUMAN_ACCEPT_FLOOR]
    plain = [text for text in texts if text is not None]
    is_plain = len(plain) == len(checks) and len(canonical) < MAX_EVIDENCE_BYTES // 2
    return ", ".join(plain) if is_plain else None, _failed_hard_floor(checks) is not None


def _intact(evidence: Evidence, text: str) -> ChainReading:
    # By position: this is built for each fact.
    return ChainReading(text, evidence.hash, evidence.verdict, True, True)


def read_verdict(given: object) -> Verdict | None:
    """The verdict that a text names, in any case, or None. ``HOLD`` is short for ``888_HOLD``."""
    if type(given) is Verdict:
        return given
    is_short_form = (plain_text(given) or "").upper() == "HOLD"
    return Verdict.HOLD if is_short_form else read_word(Verdict, given)


def read_instant(given: object) -> datetime | None:
    """The time that an ISO 8601 text with a time zone names, in UTC, or None."""
    text = plain_text(given)
    if text is None or _ISO_8601.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _read_fields(chain: dict[str, Any], text: str, verdict: Verdict | None) -> ChainReading:
    checks, timestamp, verdict_text = chain.get("floor_checks"), chain.get("timestamp"), chain.get("verdict")
    hashes = [chain[name] for name in _HASH_FIELDS if chain.get(name) is not None]
    read = read_verdict(verdict_text)
    may_lack_checks = read in (Verdict.VOID, Verdict.HOLD)
    is_missing = {
        "floor_checks": checks is None or (checks in ([], ()) and not may_lack_checks),
        "hash": not hashes,
        "timestamp": timestamp is None,
        "verdict": verdict_text is None,
    }
    missing = [name for name, is_so in is_missing.items() if is_so]
    malformed = _problems_of_checks(checks, read)
    if any(type(one) is not str for one in hashes):
        malformed.append("hash must be a string")
    if timestamp is not None and read_instant(timestamp) is None:
        malformed.append("timestamp must be an ISO 8601 instant with a time zone")
    if verdict_text is not None and read is None:
        malformed.append(f"verdict must be one of {', '.join(Verdict)}")
    digest = _sha256(text)
    # An empty list of floor checks is missing, but a hash can cover it.
    is_covered = not any(is_missing[name] for name in ("hash", "timestamp", "verdict")) and checks is not None
    hash_verified = is_covered and all(one == digest for one in hashes)
    disagreeing = ["hash does not match the evidence"] if is_covered and not hash_verified else []
    if read is not None and verdict not in (None, read):
        disagreeing.append(f"verdict is {read}, but the write is judged {verdict}")
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


def _problems_of_checks(checks: object, verdict: Verdict | None) -> list[str]:
    """The first malformed floor check, if any, or that they do not fit the verdict.

    A check has the fields of ``FloorCheck`` and no others. It may leave out the score, as a check that only
    passes or fails does.
    """
    if checks is None:
        return []
    if not isinstance(checks, list | tuple):
        return ["floor_checks must be a list"]
    checks = [_with_score(check) for check in checks]
    try:
        read = converted(checks, list[FloorCheck])
    except (msgspec.ValidationError, StandfastError):
        pass
    else:
        problem = _problem_of_verdict(read, verdict)
        return [] if problem is None else [problem]
    for index, check in enumerate(checks):
        try:
            FloorCheck.from_json(check)
        except StandfastError as error:
            return [_problem(f"floor_checks[{index}]", error)]
    return []


def _with_score(check: object) -> object:
    """The check, with 1 or 0 for a score if it has none."""
    if type(check) is not dict or "score" in check or type(check.get("passed")) is not bool:
        return check
    return {**check, "score": 1.0 if check["passed"] else 0.0}


def _plain_text_of(checks: object, verdict: Verdict, timestamp: object) -> str | None:
    """The hashed text of checks that have their types and are in plain ASCII; None if something else has to
    be looked at.
    """
    if type(checks) is not tuple or not checks or type(timestamp) is not str:
        return None
    texts = [text for text in map(_text_of, checks) if text is not None]
    if len(texts) < len(checks):
        return None
    when = json.dumps(timestamp)
    joined = f'{{"floor_checks": [{", ".join(texts)}], "timestamp": {when}, "verdict": "{verdict.value}"}}'
    return None if "\\" in when or len(joined) > MAX_EVIDENCE_BYTES else joined


def _text_of(check: object) -> str | None:
    if type(check) is not FloorCheck:
        return None
    if (digest := _content_digest(check)) is not None:
        return _CONTENT_TEXT % digest
    try:
        return _plain_text_of_check(*msgspec.structs.astuple(check))
    except TypeError:  # A field can't even be hashed, so it is of no type that it may have.
        return None


# Most checks of most judgements are equal. The types are part of the key, because 1 and 1.0 are written
# differently.
@lru_cache(maxsize=1 << 10, typed=True)
def _plain_text_of_check(*fields: Any) -> str | None:
    floor, score, passed, threshold, hard, reason = fields
    if (
        type(floor) is not str
        or type(score) is not float
        or type(passed) is not bool
        or type(threshold) not in (float, NoneType)
        or type(hard) not in (bool, NoneType)
        or type(reason) not in (str, NoneType)
        or not (0 <= score <= 1 and (threshold is None or 0 <= threshold <= 1))
    ):
        return None
    named = zip(FloorCheck.__struct_fields__, fields, strict=True)
    text = json.dumps({name: value for name, value in named if value is not None}, sort_keys=True)
    return None if "\\" in text else text


def _as_stored(check: FloorCheck) -> FloorCheck:
    """The check as json-v1 gives it back: validated, numbers rounded, text in NFC."""
    read = FloorCheck.from_json(_set_fields(check) if isinstance(check, FloorCheck) else check)
    return msgspec.structs.replace(
        read,
        floor=normal_string(read.floor),
        score=_rounded(read.score),
        threshold=None if read.threshold is None else _rounded(read.threshold),
        reason=None if read.reason is None else normal_string(read.reason),
    )


def _rounded(number: float) -> float:
    # Adding zero turns -0.0, which json-v1 does not have, into 0.0.
    return round(float(number), FLOAT_DECIMALS) + 0.0


def _set_fields(value: msgspec.Struct) -> dict[str, Any]:
    """The fields of a struct that are not None, unvalidated, because it may have been built from anything."""
    return {name: member for name, member in msgspec.structs.asdict(value).items() if member is not None}


def _as_json(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a chain, with ``Verdict`` and ``FloorCheck`` values turned into plain JSON."""
    checks, verdict = fields.get("floor_checks"), fields.get("verdict")
    plain = dict(fields)
    if isinstance(verdict, Verdict):
        plain["verdict"] = verdict.value
    if type(checks) in (list, tuple):
        plain["floor_checks"] = [
            _set_fields(check) if isinstance(check, FloorCheck) else check for check in checks or ()
        ]
    return plain


def _checked_text(chain: dict[str, Any]) -> str:
    """The text that a chain's hash covers, if all of the chain is JSON within bounds."""
    _require_json(chain)
    return _hashed_text(chain)


def _hashed_text(chain: dict[str, Any]) -> str:
    covered = {name: chain.get(name) for name in ("floor_checks", "verdict", "timestamp")}
    text = json.dumps(covered, sort_keys=True)
    if len(text) > MAX_EVIDENCE_BYTES:
        raise TooLarge(size_bytes=len(text), limit_bytes=MAX_EVIDENCE_BYTES)
    return text


def _require_json(value: dict[str, Any]) -> None:
    """Raises a typed error for anything but JSON within bounds."""
    # Bounds first: a value that contains itself, or one list many times over, would keep any reader busy for
    # ever.
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
                raise NotCanonical("canon_type", type="datetime")
    if size_bytes > MAX_EVIDENCE_BYTES:
        raise TooLarge(size_bytes=size_bytes, limit_bytes=MAX_EVIDENCE_BYTES)
    canonical_bytes(value)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _problem(field_name: str, error: StandfastError) -> str:
    return f"{field_name}: {error}"[:MAX_PROBLEM_CHARS]
