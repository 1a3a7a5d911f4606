"""Scars: what went wrong before and may again, found by counting and recorded for later judgements to see.

    repeated_void      writes about one subject, or from one source, that the same floor refused
    near_miss          writes that a hard floor let pass by a hair
    authority_breach   an agent that claimed to make law, from the first time on

A incident is one such event. When incidents of one kind about one thing reach the next of ``PATTERN_LEVELS``, that is a pattern: a
WITNESS record whose subject or source is what it is about. Its content depends on nothing but the incident and the level,
so that two runs that find the same pattern write the same record.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from standfast.canon import fingerprint
from standfast.govern.judge.claim import subject_and_sources
from standfast.govern.judge.judge import Judgement
from standfast.vocabulary import Band, FloorCheck, Record, Verdict

PATTERN_LEVELS: Final = (3, 10, 30, 100)
NEAR_MISS_MARGIN: Final = 0.05
AUTHORITY_FLOOR: Final = "F9_Authority"


class PatternKind(StrEnum):
    """What can go wrong again."""

    REPEATED_VOID = "repeated_void"
    NEAR_MISS = "near_miss"
    AUTHORITY_BREACH = "authority_breach"


LEVELS_OF_PATTERN: Final = {
    PatternKind.REPEATED_VOID: PATTERN_LEVELS,
    PatternKind.NEAR_MISS: PATTERN_LEVELS,
    PatternKind.AUTHORITY_BREACH: (1, *PATTERN_LEVELS),
}
_WORDS_OF_PATTERN: Final = {
    PatternKind.REPEATED_VOID: "refused by",
    PatternKind.NEAR_MISS: "passed by a hair at",
    PatternKind.AUTHORITY_BREACH: "refused for claiming authority by",
}
assert set(LEVELS_OF_PATTERN) == set(_WORDS_OF_PATTERN) == set(PatternKind)
MAX_INCIDENTS_COUNTED: Final = max(PATTERN_LEVELS)


class Incident(NamedTuple):
    """One event: what happened, at which floor, and what it was about (``subject …``, or a source's kind and id)."""

    pattern: PatternKind
    floor: str
    about: str

    @property
    def digest(self) -> str:
        """A short name for incidents of this kind about this thing."""
        return fingerprint(["mark/v1", self.pattern.value, self.floor, self.about])[:32]

    @property
    def prefix(self) -> str:
        """Where they are kept."""
        return f"mark/{self.digest}/"


def incidents_of(record: Record, judgement: Judgement, author: str) -> tuple[Incident, ...]:
    """The incidents that a judgement leaves, in a total order."""
    about = subject_and_sources(record) or {f"agent {author.lower()}"}
    incidents = {
        Incident(pattern, check.floor, thing)
        for check in judgement.floor_checks
        if (pattern := _pattern_of(check, judgement.verdict)) is not None
        for thing in about
    }
    return tuple(sorted(incidents))


def _pattern_of(check: FloorCheck, verdict: Verdict) -> PatternKind | None:
    if check.hard is not True:
        return None
    if not check.passed:
        breach = check.floor == AUTHORITY_FLOOR
        return PatternKind.AUTHORITY_BREACH if breach else PatternKind.REPEATED_VOID
    near = check.threshold is not None and check.score - check.threshold < NEAR_MISS_MARGIN
    return PatternKind.NEAR_MISS if near and check.score < 1 and verdict is not Verdict.VOID else None


def detect_patterns(new: Iterable[Incident], counted: Mapping[Incident, int]) -> tuple[Record, ...]:
    """The patterns that these incidents make together with those counted before, in the order of their ids."""
    totals = dict(counted)
    patterns = {}
    for incident in new:
        before = totals.get(incident, 0)
        totals[incident] = before + 1
        for level in LEVELS_OF_PATTERN[incident.pattern]:
            if before < level <= totals[incident]:
                pattern = pattern_record(incident, level)
                patterns[pattern.memory_id] = pattern
    return tuple(patterns[name] for name in sorted(patterns))


def pattern_record(incident: Incident, level: int) -> Record:
    """The WITNESS record of a pattern."""
    kind, _, name = incident.about.partition(" ")
    times = "once" if level == 1 else f"at least {level} times"
    return Record(
        memory_id=f"scar/{incident.pattern}/{incident.digest}/{level}",
        text=f"Writes about {incident.about} were {_WORDS_OF_PATTERN[incident.pattern]} {incident.floor} {times}.",
        tags=tuple(sorted({"scar", incident.pattern.value})),
        subject=name if kind == "subject" else None,
        source=None if kind == "subject" else {"kind": kind, "id": name},
        band=Band.WITNESS,
    )
