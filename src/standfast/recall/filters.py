"""Which records a recall may choose from, besides scopes and bands, and how far each may be trusted.

Trust is decided by a record's origin, verdict, evidence and age. Everything but the age is one small number,
the record's trust code, so that an index has one column for it. The ceiling of a record is the one of
``govern.policy``: the doubts that apply, multiplied and capped. Age is measured from a given time.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Self

import msgspec
import numpy as np

from standfast.recall.arrays import Flags, Numbers
from standfast.records.filters import LAW, NO_FILTER, TRUST_LEVELS, Filter, RecordFacts, trust_of
from standfast.records.origins import MAX_RECALL_CONFIDENCE, Doubt, Origin, ceiling_of
from standfast.records.requests import RecallRequest
from standfast.records.scopes import SHARED
from standfast.records.timestamps import DAY_MICROSECONDS, MISSING, time_of
from standfast.records.vocabulary import Value, Verdict

TRUST_TENTHS: Final = {LAW: 11, "trusted": 11, "ordinary": 10, "untrusted": 7}
"""What a score is multiplied by, in tenths, for how far a record's origin may be trusted."""
assert set(TRUST_TENTHS) == set(TRUST_LEVELS)
UNREVIEWED_VERDICTS: Final = (Verdict.PARTIAL, Verdict.HOLD)
UNTRUSTED: Final = TRUST_LEVELS.index("untrusted")
_LEVEL_BITS: Final = 3
_BIT_OF_DOUBT: Final = {Doubt.VERDICT: 4, Doubt.NO_EVIDENCE: 8, Doubt.NO_FLOOR_CHECKS: 16}
_UNREVIEWED: Final = 32
_DOUBTS_OF_AGE: Final = (
    (),
    (Doubt.OLDER_THAN_30_DAYS,),
    (Doubt.OLDER_THAN_30_DAYS, Doubt.OLDER_THAN_90_DAYS),
)
_CODES: Final = 64
CEILING_UNITS: Final = 1_000_000
FULL_CEILING: Final = round(MAX_RECALL_CONFIDENCE * CEILING_UNITS)
"""The highest ceiling, in millionths. It takes nothing from a score."""


class _CheckFacts(msgspec.Struct, frozen=True, gc=False):
    """A floor check, of which only its being there counts."""


class EvidenceFacts(msgspec.Struct, frozen=True, gc=False):
    """What recall asks of an evidence chain: whether it has checks."""

    floor_checks: tuple[_CheckFacts, ...] = ()


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
    if now == MISSING:
        return _doubts(code, ())
    if time == MISSING or time > now:
        return _doubts(code, (Doubt.BAD_TIMESTAMP,))
    # More than 30 days: one microsecond above is enough.
    age = (now - time - 1) // DAY_MICROSECONDS
    return _doubts(code, _DOUBTS_OF_AGE[(age >= 30) + (age >= 90)])


@lru_cache(maxsize=1 << 10)
def _doubts(code: int, of_age: tuple[Doubt, ...]) -> tuple[Doubt, ...]:
    doubts = {*of_age, *(doubt for doubt, bit in _BIT_OF_DOUBT.items() if code & bit)}
    return tuple(doubt for doubt in Doubt if doubt in doubts)


@lru_cache(maxsize=1)
def _ceiling_table() -> Numbers:
    """The ceiling of each code, in millionths, without regard to age."""
    return np.array(
        [round(ceiling_of(doubts_of(code, MISSING, MISSING)) * CEILING_UNITS) for code in range(_CODES)],
        dtype=np.int64,
    )


def ceilings(codes: Numbers) -> Numbers:
    """The ceilings of records in millionths, but for age: how old a record is does not change its rank."""
    found: Numbers = _ceiling_table()[codes]
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


def reasons_of(doubts: Sequence[Doubt]) -> tuple[str, ...]:
    """The doubts in words."""
    return tuple(doubt.value for doubt in doubts)


class Choice(Value, frozen=True, kw_only=True):
    """Which of the records that a snapshot shows in bands and scopes may be chosen.

    Statistics count all of them.

    Untrusted records are chosen only in the scopes that were named, not below them. Records that wait for a
    person are chosen only if they were asked for. Records that do not hold at the time ``now`` are not
    chosen, unless that was only read from their words.
    """

    scopes: tuple[str, ...] = (SHARED,)
    where: Filter = NO_FILTER
    include_unreviewed: bool = False
    now: int = MISSING

    @classmethod
    def of(cls, request: RecallRequest, now: int) -> Self:
        """Which records a request may choose, if it is ``now``."""
        return cls(
            scopes=request.places,
            where=request.where,
            include_unreviewed=request.include_unreviewed,
            now=now,
        )

    def admits(self, facts: RecordFacts) -> bool:
        """Whether a record may be chosen."""
        return (
            (self.include_unreviewed or facts.verdict not in UNREVIEWED_VERDICTS)
            and (facts.scope in self.scopes or trust_of(facts) != Origin.UNTRUSTED)
            and (
                facts.validity_words is not None
                or not validity_at(facts.valid_from, facts.valid_until, self.now)
            )
            and (not self.where or self.where.matches(facts))
        )


def validity_at(valid_from: str | None, valid_until: str | None, now: int) -> str:
    """Why a record does not hold at a time, in a few words, or empty. An unreadable time limits nothing."""
    if now != MISSING:
        if valid_until is not None and MISSING != time_of(valid_until) <= now:
            return f"held until {valid_until[:10]}"
        if valid_from is not None and time_of(valid_from) > now:
            return f"holds from {valid_from[:10]}"
    return ""
