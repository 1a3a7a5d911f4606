"""Which records a recall may choose from, besides scopes and bands, and how far each may be trusted.

Trust is decided by a record's origin, verdict, evidence and age. Everything but the age is one small number,
the record's trust code, so that an index has one column for it. The ceiling of a record is the one of
``govern.policy``: the doubts that apply, multiplied and capped. Age is measured from a time that is handed
in.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Self, TypedDict

import msgspec
import numpy as np

from standfast.errors import InvalidValue
from standfast.recall.arrays import Flags, Numbers
from standfast.recall.dates import DAY_MICROSECONDS, MISSING, time_of
from standfast.records.canon import lowered
from standfast.records.origins import MAX_RECALL_CONFIDENCE, Doubt, Origin, ceiling_of
from standfast.records.requests import instant_text
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import Band, JsonScalar, Record, Value, Verdict, normal_tags

LAW: Final = "law"
TRUST_LEVELS: Final = (LAW, Origin.TRUSTED.value, Origin.ORDINARY.value, Origin.UNTRUSTED.value)
"""From the most trusted to the least. The place of a record's level is the low bits of its trust code."""
TRUST_TENTHS: Final = {LAW: 11, "trusted": 11, "ordinary": 10, "untrusted": 7}
"""What a score is multiplied by, in tenths, for how far a record's origin may be trusted."""
assert set(TRUST_TENTHS) == set(TRUST_LEVELS)
UNREVIEWED_VERDICTS: Final = (Verdict.PARTIAL, Verdict.HOLD)
UNTRUSTED: Final = TRUST_LEVELS.index("untrusted")
_LEVEL_BITS: Final = 3
_BIT_OF_DOUBT: Final = {Doubt.VERDICT: 4, Doubt.NO_EVIDENCE: 8, Doubt.NO_FLOOR_CHECKS: 16}
_UNREVIEWED: Final = 32
_CODES: Final = 64
CEILING_UNITS: Final = 1_000_000
FULL_CEILING: Final = round(MAX_RECALL_CONFIDENCE * CEILING_UNITS)
"""The highest ceiling, in millionths. It takes nothing from a score."""
ORIGINS: Final = tuple(Origin)
"""From the most trusted to the least."""


class _CheckFacts(msgspec.Struct, frozen=True, gc=False):
    """A floor check, of which only its being there counts."""


class EvidenceFacts(msgspec.Struct, frozen=True, gc=False):
    """What recall asks of an evidence chain: whether it has checks."""

    floor_checks: tuple[_CheckFacts, ...] = ()


class RecordFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a stored record that trust and filters look at."""

    band: str = Band.LEDGER.value
    ts_utc: str | None = None
    tags: tuple[str, ...] = ()
    subject: str | None = None
    source: dict[str, Any] | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    session: str | None = None
    speaker: str | None = None
    scope: str = SHARED
    origin: str = Origin.ORDINARY.value
    verdict: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None


def trust_of(record: RecordFacts | Record) -> str:
    """How far a record may be trusted, in one word: it is law, or has the trust of its origin."""
    if record.band == Band.VAULT:
        return LAW
    return record.origin if record.origin in TRUST_TENTHS else Origin.UNTRUSTED.value


def trust_code(record: RecordFacts, evidence: EvidenceFacts | None) -> int:
    """Everything about a record's trust but its age, as one number."""
    code = TRUST_LEVELS.index(trust_of(record))
    if record.verdict not in (Verdict.SEAL, Verdict.SABAR):
        code |= _BIT_OF_DOUBT[Doubt.VERDICT]
    if evidence is None:
        code |= _BIT_OF_DOUBT[Doubt.NO_EVIDENCE]
    elif not evidence.floor_checks:
        code |= _BIT_OF_DOUBT[Doubt.NO_FLOOR_CHECKS]
    if record.verdict in UNREVIEWED_VERDICTS:
        code |= _UNREVIEWED
    return code


def doubts_of(code: int, time: int, now: int) -> tuple[Doubt, ...]:
    """The doubts about a record, in the order of the table. If ``now`` is missing, age is not looked at."""
    doubts = {doubt for doubt, bit in _BIT_OF_DOUBT.items() if code & bit}
    if now != MISSING:
        if time == MISSING or time > now:
            doubts.add(Doubt.BAD_TIMESTAMP)
        else:
            for days, doubt in ((30, Doubt.OLDER_THAN_30_DAYS), (90, Doubt.OLDER_THAN_90_DAYS)):
                if now - time > days * DAY_MICROSECONDS:
                    doubts.add(doubt)
    return tuple(doubt for doubt in Doubt if doubt in doubts)


# Times that stand for each kind of age: none looked at, known and young, over 30 days, over 90 days, unknown.
_AGES: Final = ((0, MISSING), (0, 0), (0, 31 * DAY_MICROSECONDS), (0, 91 * DAY_MICROSECONDS), (MISSING, 0))


@lru_cache(maxsize=1)
def _ceiling_table() -> Numbers:
    """The ceiling of each kind of age and each code, in millionths."""
    return np.array(
        [
            [round(ceiling_of(doubts_of(code, time, now)) * CEILING_UNITS) for code in range(_CODES)]
            for time, now in _AGES
        ],
        dtype=np.int64,
    )


def ceilings(codes: Numbers, times: Numbers, now: int) -> Numbers:
    """The ceilings of records in millionths, as ``ceiling_of(doubts_of(…))`` gives them one by one."""
    if now == MISSING:
        known: Numbers = _ceiling_table()[0][codes]
        return known
    ages = np.where(now - times > 30 * DAY_MICROSECONDS, 2, 1)
    ages = np.where(now - times > 90 * DAY_MICROSECONDS, 3, ages)
    ages = np.where((times == MISSING) | (times > now), 4, ages)
    found: Numbers = _ceiling_table()[ages, codes]
    return found


def trust_tenths(codes: Numbers) -> Numbers:
    """What the scores of records are multiplied by for their origins, in tenths."""
    table = np.array([TRUST_TENTHS[level] for level in TRUST_LEVELS], dtype=np.int64)
    tenths: Numbers = table[codes & _LEVEL_BITS]
    return tenths


def is_untrusted(codes: Numbers) -> Flags:
    """Which records are untrusted."""
    flags: Flags = (codes & _LEVEL_BITS) == UNTRUSTED
    return flags


def is_unreviewed(codes: Numbers) -> Flags:
    """Which records wait for a person: their verdict is PARTIAL, or they are on hold."""
    flags: Flags = (codes & _UNREVIEWED) != 0
    return flags


def is_at_least(codes: Numbers, least: Origin | None) -> Flags:
    """Which records have at least this origin. Law has every origin."""
    most = UNTRUSTED if least is None else TRUST_LEVELS.index(least.value)
    flags: Flags = (codes & _LEVEL_BITS) <= most
    return flags


def has_least_origin(record: RecordFacts | Record, least: Origin | None) -> bool:
    """Whether one record has at least this origin."""
    return least is None or TRUST_LEVELS.index(trust_of(record)) <= TRUST_LEVELS.index(least.value)


def reasons_of(doubts: Sequence[Doubt]) -> tuple[str, ...]:
    """The doubts in words."""
    return tuple(doubt.value for doubt in doubts)


class Where(TypedDict, total=False):
    """A filter as a plain dict, e.g. ``{"tag": "billing", "metadata": {"plan": "gold"}}``; see ``Filter``."""

    tag: str
    source_kind: str
    subject_prefix: str
    after: str
    before: str
    metadata: Mapping[str, JsonScalar]
    session: str
    speaker: str
    least_origin: Origin | str


class Filter(Value, frozen=True, kw_only=True):
    """Which records may be chosen: those for which everything that is given holds.

    Build one from a dict with ``of``.

    Args:
        tag: They have this tag.
        source_kind: Their source is of this kind, e.g. ``"doc"``.
        subject_prefix: Their subject begins with this.
        after: They are from this instant or later.
        before: They are from before this instant. Records without a time match neither ``after`` nor
            ``before``.
        metadata: They have these fields with these values.
        session: They are part of this conversation.
        speaker: This speaker said them; case makes no difference.
        least_origin: Their origin is at least this: ``"trusted"`` or ``"ordinary"``. Law has every origin.
            ``"untrusted"`` also shows what is untrusted beside other matches, which is left out by default.
    """

    tag: str | None = None
    source_kind: str | None = None
    subject_prefix: str | None = None
    after: str | None = None
    before: str | None = None
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    session: str | None = None
    speaker: str | None = None
    least_origin: Origin | None = None

    def __post_init__(self) -> None:
        if self.least_origin is not None:
            self._coerce("least_origin", Origin)
        for field in ("tag", "source_kind", "subject_prefix", "session", "speaker"):
            if (name := getattr(self, field)) is not None:
                self._require_name(field, name)
        if self.tag is not None:
            msgspec.structs.force_setattr(self, "tag", normal_tags([self.tag])[0])
        for field in ("after", "before"):
            if (instant := getattr(self, field)) is not None:
                msgspec.structs.force_setattr(self, field, instant_text(instant, what=f"where.{field}"))
        # A record checks metadata; it must be possible to have what is asked for.
        Record(memory_id="-", text="", metadata=self.metadata)

    @classmethod
    def of(cls, where: "Filter | Where | Mapping[str, Any] | None") -> Self:
        """The filter that a caller gave as a dict, or as a filter; without one, everything matches."""
        if isinstance(where, cls):
            return where
        if where is None:
            return cls()
        if not isinstance(where, Mapping):
            problem = f'it must be a filter such as {{"tag": "billing"}}, not {where!r:.80}'
            raise InvalidValue(what="where", problem=problem)
        unknown = sorted(set(map(str, where)).difference(cls.__struct_fields__))
        if unknown:
            known = ", ".join(cls.__struct_fields__)
            raise InvalidValue(
                what="where", problem=f"there is no filter {unknown[0]!r:.80}; filters are {known}"
            )
        return cls.from_json(dict(where))

    def __bool__(self) -> bool:
        return self != NO_FILTER

    def matches(self, facts: RecordFacts | Record) -> bool:
        """Whether a record may be chosen."""
        kind = facts.source.get("kind") if isinstance(facts.source, dict) else None
        return (
            (self.tag is None or self.tag in facts.tags)
            and (self.subject_prefix is None or (facts.subject or "").startswith(self.subject_prefix))
            and (self.source_kind is None or _is_kind(kind, self.source_kind))
            and (self.session is None or self.session == facts.session)
            and (self.speaker is None or lowered(self.speaker) == lowered(facts.speaker or ""))
            and has_least_origin(facts, self.least_origin)
            and all(_has(facts.metadata, name, value) for name, value in self.metadata.items())
            and (self.after is self.before is None or self._is_in_time(facts.ts_utc))
        )

    def _is_in_time(self, ts_utc: str | None) -> bool:
        time = MISSING if ts_utc is None else time_of(ts_utc)
        return (
            time != MISSING
            and (self.after is None or time >= time_of(self.after))
            and (self.before is None or time < time_of(self.before))
        )

    def as_json(self) -> dict[str, Any]:
        """Only what is set."""
        return {name: value for name, value in super().as_json().items() if value not in (None, {})}

    def at_least(self, origin: Origin | str | None) -> Self:
        """The same filter, for records that have at least this origin too. The stricter of two counts."""
        if origin is None:
            return self
        wanted = type(self)(least_origin=origin)  # type: ignore[arg-type]  # It is checked there.
        if self.least_origin is not None and ORIGINS.index(self.least_origin) < ORIGINS.index(
            wanted.least_origin
        ):
            return self
        return msgspec.structs.replace(self, least_origin=wanted.least_origin)


NO_FILTER: Final = Filter()


class Choice(Value, frozen=True, kw_only=True):
    """Which of the records that a snapshot shows in bands and scopes may be chosen.

    Statistics count all of them.

    Untrusted records are chosen only in the scopes that were named, not below them. Records that wait for a
    person are chosen only if they were asked for. Records that do not hold at the time ``now`` are not
    chosen.
    """

    scopes: tuple[str, ...] = (SHARED,)
    where: Filter = NO_FILTER
    include_unreviewed: bool = False
    now: int = MISSING

    def admits(self, facts: RecordFacts) -> bool:
        """Whether a record may be chosen."""
        return (
            (self.include_unreviewed or facts.verdict not in UNREVIEWED_VERDICTS)
            and (facts.scope in self.scopes or trust_of(facts) != Origin.UNTRUSTED)
            and not validity_at(facts.valid_from, facts.valid_until, self.now)
            and (not self.where or self.where.matches(facts))
        )


def validity_at(valid_from: str | None, valid_until: str | None, now: int) -> str:
    """Why a record does not hold at a time, in a few words; empty if it does.

    A time that can't be read limits nothing.
    """
    if now != MISSING:
        if valid_until is not None and MISSING != time_of(valid_until) <= now:
            return f"held until {valid_until[:10]}"
        if valid_from is not None and time_of(valid_from) > now:
            return f"holds from {valid_from[:10]}"
    return ""


def _is_kind(kind: object, wanted: str) -> bool:
    return isinstance(kind, str) and lowered(kind.strip()) == lowered(wanted.strip())


def _has(metadata: Mapping[str, Any], name: str, value: JsonScalar) -> bool:
    """Whether a field is there and equal. 1 and 1.0 are equal, 1 and true are not."""
    found = metadata.get(name)
    return name in metadata and found == value and isinstance(found, bool) == isinstance(value, bool)
