"""Patterns of rejections: which judgements are incidents, and when incidents become a pattern."""

import pytest

from standfast.govern.judge import Judgement
from standfast.govern.patterns import (
    Incident,
    PatternKind,
    detect_patterns,
    incidents_of,
    pattern_record,
    refused_key,
    refused_row,
)
from standfast.vocabulary import Band, FloorCheck, Record, Verdict

RECORD = Record(memory_id="m", text="t", subject="Law/1", source={"kind": "doc", "id": "Handbook#4"})
INCIDENT = Incident(PatternKind.REPEATED_VOID, "F5_Secrecy", "doc handbook")


def judged(
    score: float, *, passed: bool, hard: bool | None = True, floor: str = "F5_Secrecy", verdict: str = "VOID"
) -> Judgement:
    check = FloorCheck(floor=floor, score=score, passed=passed, threshold=0.5, hard=hard)
    return Judgement(verdict=Verdict(verdict), floor_checks=(check,))


def test_a_rejection_is_an_incident_of_the_subject_and_of_each_source() -> None:
    found = incidents_of(RECORD, judged(0.0, passed=False), "Bot")

    assert found == (
        Incident(PatternKind.REPEATED_VOID, "F5_Secrecy", "doc handbook"),
        Incident(PatternKind.REPEATED_VOID, "F5_Secrecy", "subject Law/1"),
    )


def test_without_a_subject_and_a_source_an_incident_is_about_the_agent() -> None:
    (found,) = incidents_of(Record(memory_id="m", text="t"), judged(0.0, passed=False), "Bot")

    assert found.about == "agent bot"


@pytest.mark.parametrize(
    ("judgement", "kind"),
    [
        (judged(0.0, passed=False, floor="F9_Authority"), PatternKind.AUTHORITY_BREACH),
        (judged(0.0, passed=False, hard=False, verdict="PARTIAL"), None),
        (judged(0.0, passed=False, hard=None), None),
        (judged(0.5, passed=True, verdict="SEAL"), PatternKind.NEAR_MISS),
        (judged(0.549, passed=True, verdict="PARTIAL"), PatternKind.NEAR_MISS),
        (judged(0.55, passed=True, verdict="SEAL"), None),
        (judged(0.5, passed=True, verdict="VOID"), None),
        (judged(0.5, passed=True, hard=False, verdict="SEAL"), None),
    ],
)
def test_the_kind_of_an_incident(judgement: Judgement, kind: PatternKind | None) -> None:
    assert {one.pattern for one in incidents_of(RECORD, judgement, "bot")} == ({kind} if kind else set())


def test_a_full_score_is_never_a_near_miss() -> None:
    check = FloorCheck(floor="F5_Secrecy", score=1.0, passed=True, threshold=0.99, hard=True)

    assert incidents_of(RECORD, Judgement(verdict=Verdict.SEAL, floor_checks=(check,)), "bot") == ()


@pytest.mark.parametrize(("score", "count"), [(0.049999, 2), (0.05, 0)])
def test_a_score_at_the_margin_is_no_near_miss(score: float, count: int) -> None:
    check = FloorCheck(floor="F5_Secrecy", score=score, passed=True, threshold=0.0, hard=True)

    assert len(incidents_of(RECORD, Judgement(verdict=Verdict.SEAL, floor_checks=(check,)), "bot")) == count


def test_a_check_without_a_threshold_is_never_a_near_miss() -> None:
    check = FloorCheck(floor="F5_Secrecy", score=0.5, passed=True, hard=True)

    assert incidents_of(RECORD, Judgement(verdict=Verdict.SEAL, floor_checks=(check,)), "bot") == ()


@pytest.mark.parametrize(
    ("before", "new", "levels"),
    [(0, 2, []), (0, 3, [3]), (2, 1, [3]), (3, 1, []), (8, 2, [10]), (0, 30, [10, 3, 30]), (99, 1, [100])],
)
def test_incidents_become_a_pattern_at_each_level(before: int, new: int, levels: list[int]) -> None:
    found = detect_patterns([INCIDENT] * new, {INCIDENT: before})

    assert [int(one.memory_id.rpartition("/")[2]) for one in found] == levels


def test_a_breach_of_authority_is_a_pattern_from_the_first_time_on() -> None:
    breach = Incident(PatternKind.AUTHORITY_BREACH, "F9_Authority", "subject law/1")
    (found,) = detect_patterns([breach], {})

    assert found.subject == "law/1"
    assert found.source is None
    assert (
        found.text == "Writes about subject law/1 were rejected for claiming authority by F9_Authority once."
    )
    assert detect_patterns([breach], {breach: 1}) == ()


def test_the_record_of_a_pattern_depends_on_the_incident_and_the_level_only() -> None:
    record = pattern_record(INCIDENT, 3)

    assert record == pattern_record(INCIDENT, 3)
    assert record.band is Band.WITNESS
    assert record.memory_id == f"scar/repeated_void/{INCIDENT.digest}/3"
    assert record.tags == ("repeated_void", "scar")
    assert (record.subject, record.source) == (None, {"kind": "doc", "id": "handbook"})
    assert record.text == "Writes about doc handbook were rejected by F5_Secrecy at least 3 times."
    assert INCIDENT.prefix == f"mark/{INCIDENT.digest}/"
    assert len(INCIDENT.digest) == 32
    assert INCIDENT.digest != INCIDENT._replace(floor="F6_Injection").digest


def test_the_note_on_rejected_content_is_always_the_same() -> None:
    assert (refused_key("ab"), refused_row("ab")) == ("refused/ab", {"refused": "ab"})
