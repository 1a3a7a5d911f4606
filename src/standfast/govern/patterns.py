"""Patterns of rejections: what keeps going wrong, counted and recorded so that later judgements can take it into account.

    repeated_void      the same floor rejected writes about one subject, or from one source
    near_miss          a hard floor let writes pass by less than 0.05
    authority_breach   an agent claimed to make law; recorded from the first time on

One such event is an incident. When the incidents of one kind about one thing reach a level of ``LEVELS_OF_PATTERN``, they are a
pattern: a WITNESS record about that subject or source. Its content depends only on the incident and the level, so that two runs
that find the same pattern write the same record. ``F3_Witness`` asks for one more source where a pattern applies.

Stored names keep the document's word, scar: ``scar/...`` are the ids of patterns, ``mark/...`` the keys of incidents.
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
    """What the incidents of a pattern have in common."""

    REPEATED_VOID = "repeated_void"
    NEAR_MISS = "near_miss"
    AUTHORITY_BREACH = "authority_breach"


LEVELS_OF_PATTERN: Final = {
    PatternKind.REPEATED_VOID: PATTERN_LEVELS,
    PatternKind.NEAR_MISS: PATTERN_LEVELS,
    PatternKind.AUTHORITY_BREACH: (1, *PATTERN_LEVELS),
}
_TEXT_OF_PATTERN: Final = {
    PatternKind.REPEATED_VOID: "rejected by",
    PatternKind.NEAR_MISS: "nearly rejected by",
    PatternKind.AUTHORITY_BREACH: "rejected for claiming authority by",
}
assert set(LEVELS_OF_PATTERN) == set(_TEXT_OF_PATTERN) == set(PatternKind)
MAX_INCIDENTS_COUNTED: Final = max(PATTERN_LEVELS)


class Incident(NamedTuple):
    """One event: its kind, the floor, and what it was about (``subject ...``, or a source's kind and id)."""

    pattern: PatternKind
    floor: str
    about: str

    @property
    def digest(self) -> str:
        """A short name shared by all incidents of this kind, floor and thing."""
        return fingerprint(["mark/v1", self.pattern.value, self.floor, self.about])[:32]

    @property
    def prefix(self) -> str:
        """The start of the keys under which they are stored."""
        return f"mark/{self.digest}/"


def incidents_of(record: Record, judgement: Judgement, author: str) -> tuple[Incident, ...]:
    """The incidents of one judgement, sorted."""
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
    """The patterns that new incidents complete, given how often each occurred before, ordered by id."""
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
        text=f"Writes about {incident.about} were {_TEXT_OF_PATTERN[incident.pattern]} {incident.floor} {times}.",
        tags=tuple(sorted({"scar", incident.pattern.value})),
        subject=name if kind == "subject" else None,
        source=None if kind == "subject" else {"kind": kind, "id": name},
        band=Band.WITNESS,
    )


def refused_key(reading: str) -> str:
    """The key that marks content as rejected, by its fingerprint. It outlives the content."""
    return f"refused/{reading}"


def refused_row(reading: str) -> dict[str, str]:
    """The row under that key. It is always the same, so that two runs that reject the same content do not conflict."""
    return {"refused": reading}
