"""How far a stored record may be trusted: by its origin, its verdict, its evidence and its age.

Everything but the age is one small number, the record's trust code, so that an index has one column for it. The ceiling of a
record is the one of ``govern.policy``: the doubts that apply, multiplied and capped. Age is measured from a time that is handed in.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from standfast.origins import MAX_RECALL_CONFIDENCE, Doubt, Origin, ceiling_of
from standfast.recall.timestamps import MISSING
from standfast.scopes import SHARED
from standfast.vocabulary import Band, Record, Verdict

Numbers = npt.NDArray[np.int64]
SmallNumbers = npt.NDArray[np.int32]
Rows = npt.NDArray[np.signedinteger[Any]]
"""Numbers of rows, in either width."""
Flags = npt.NDArray[np.bool_]

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
_DAY_MICROSECONDS: Final = 86_400_000_000
CEILING_UNITS: Final = 1_000_000
FULL_CEILING: Final = round(MAX_RECALL_CONFIDENCE * CEILING_UNITS)
"""The highest ceiling, in millionths. It takes nothing from a score."""


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
                if now - time > days * _DAY_MICROSECONDS:
                    doubts.add(doubt)
    return tuple(doubt for doubt in Doubt if doubt in doubts)


# Times that stand for each kind of age: none looked at, known and young, over 30 days, over 90 days, unknown.
_AGES: Final = ((0, MISSING), (0, 0), (0, 31 * _DAY_MICROSECONDS), (0, 91 * _DAY_MICROSECONDS), (MISSING, 0))


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
    ages = np.where(now - times > 30 * _DAY_MICROSECONDS, 2, 1)
    ages = np.where(now - times > 90 * _DAY_MICROSECONDS, 3, ages)
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
