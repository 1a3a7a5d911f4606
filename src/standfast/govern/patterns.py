"""Scars: what went wrong before and may again, found by counting and recorded for later judgements to see.

    repeated_void      writes about one subject, or from one source, that the same floor refused
    near_miss          writes that a hard floor let pass by a hair
    authority_breach   an agent that claimed to make law, from the first time on

A mark is one such event. When marks of one kind about one thing reach the next of ``SCARRED_AT``, that is a scar: a
WITNESS record whose subject or source is what it is about. Its content depends on nothing but the mark and the level,
so that two runs that find the same scar write the same record.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from standfast.canon import fingerprint
from standfast.govern.judge.floors.claim import scar_keys
from standfast.govern.judge.judge import Judgement
from standfast.vocabulary import Band, FloorCheck, Record, Verdict

SCARRED_AT: Final = (3, 10, 30, 100)
NEAR_MISS_MARGIN: Final = 0.05
AUTHORITY_FLOOR: Final = "F9_Authority"


class Pattern(StrEnum):
    """What can go wrong again."""

    REPEATED_VOID = "repeated_void"
    NEAR_MISS = "near_miss"
    AUTHORITY_BREACH = "authority_breach"


LEVELS_OF_PATTERN: Final = {
    Pattern.REPEATED_VOID: SCARRED_AT,
    Pattern.NEAR_MISS: SCARRED_AT,
    Pattern.AUTHORITY_BREACH: (1, *SCARRED_AT),
}
_WORDS_OF_PATTERN: Final = {
    Pattern.REPEATED_VOID: "refused by",
    Pattern.NEAR_MISS: "passed by a hair at",
    Pattern.AUTHORITY_BREACH: "refused for claiming authority by",
}
assert set(LEVELS_OF_PATTERN) == set(_WORDS_OF_PATTERN) == set(Pattern)
MOST_MARKS_COUNTED: Final = max(SCARRED_AT)


class Mark(NamedTuple):
    """One event: what happened, at which floor, and what it was about (``subject …``, or a source's kind and id)."""

    pattern: Pattern
    floor: str
    about: str

    @property
    def digest(self) -> str:
        """A short name for marks of this kind about this thing."""
        return fingerprint(["mark/v1", self.pattern.value, self.floor, self.about])[:32]

    @property
    def prefix(self) -> str:
        """Where they are kept."""
        return f"mark/{self.digest}/"


def marks_of(record: Record, judgement: Judgement, author: str) -> tuple[Mark, ...]:
    """The marks that a judgement leaves, in a total order."""
    about = scar_keys(record) or {f"agent {author.lower()}"}
    marks = {
        Mark(pattern, check.floor, thing)
        for check in judgement.floor_checks
        if (pattern := _pattern_of(check, judgement.verdict)) is not None
        for thing in about
    }
    return tuple(sorted(marks))


def _pattern_of(check: FloorCheck, verdict: Verdict) -> Pattern | None:
    if check.hard is not True:
        return None
    if not check.passed:
        breach = check.floor == AUTHORITY_FLOOR
        return Pattern.AUTHORITY_BREACH if breach else Pattern.REPEATED_VOID
    near = check.threshold is not None and check.score - check.threshold < NEAR_MISS_MARGIN
    return Pattern.NEAR_MISS if near and check.score < 1 and verdict is not Verdict.VOID else None


def detect_patterns(new: Iterable[Mark], counted: Mapping[Mark, int]) -> tuple[Record, ...]:
    """The scars that these marks make together with those counted before, in the order of their ids."""
    totals = dict(counted)
    scars = {}
    for mark in new:
        before = totals.get(mark, 0)
        totals[mark] = before + 1
        for level in LEVELS_OF_PATTERN[mark.pattern]:
            if before < level <= totals[mark]:
                scar = scar_of(mark, level)
                scars[scar.memory_id] = scar
    return tuple(scars[name] for name in sorted(scars))


def scar_of(mark: Mark, level: int) -> Record:
    """The WITNESS record of a scar."""
    kind, _, name = mark.about.partition(" ")
    times = "once" if level == 1 else f"at least {level} times"
    return Record(
        memory_id=f"scar/{mark.pattern}/{mark.digest}/{level}",
        text=f"Writes about {mark.about} were {_WORDS_OF_PATTERN[mark.pattern]} {mark.floor} {times}.",
        tags=tuple(sorted({"scar", mark.pattern.value})),
        subject=name if kind == "subject" else None,
        source=None if kind == "subject" else {"kind": kind, "id": name},
        band=Band.WITNESS,
    )
