"""Patterns of attacks: which judgements are incidents, and when incidents become a pattern."""

import pytest

from standfast.govern.judge import Judgement
from standfast.govern.patterns import (
    Incident,
    detect_patterns,
    incidents_of,
    pattern_record,
    refused_key,
    refused_row,
)
from standfast.vocabulary import Band, Evidence, FloorCheck, Record, Verdict

SOURCE = {"kind": "doc", "id": "Handbook#4"}
INCIDENT = Incident("doc handbook", "F6_Injection", "2026-11-16")


def judged(
    *, passed: bool = False, hard: bool = True, floor: str = "F6_Injection", verdict: Verdict = Verdict.VOID
) -> Judgement:
    check = FloorCheck(floor=floor, score=0.0, passed=passed, threshold=0.5, hard=hard)
    return Judgement(verdict=verdict, floor_checks=(check,))


def record(source: dict[str, str] | None = SOURCE, refs: tuple[dict[str, str], ...] = ()) -> Record:
    evidence = Evidence(
        floor_checks=(), verdict=Verdict.VOID, timestamp="2026-11-16T09:00:00.000000Z", hash="0" * 64
    )
    return Record(memory_id="m", text="t", subject="Law/1", source=source, refs=refs, evidence=evidence)


def test_an_attack_is_an_incident_of_each_named_source() -> None:
    found = incidents_of(record(refs=({"kind": "mail", "id": "7"}, {"kind": "agent", "id": "bot"})), judged())

    assert found == (INCIDENT, INCIDENT._replace(source="mail 7"))


@pytest.mark.parametrize(
    "judgement",
    [
        judged(floor="F5_Secrecy"),
        judged(floor="F8_Novelty"),
        judged(floor="F9_Authority"),
        judged(hard=False, verdict=Verdict.PARTIAL),
        judged(passed=True, verdict=Verdict.SEAL),
    ],
)
def test_nothing_but_an_attack_is_an_incident(judgement: Judgement) -> None:
    assert incidents_of(record(), judgement) == ()


@pytest.mark.parametrize("source", [None, {"kind": "agent", "id": "bot"}, {"kind": "recall", "id": "m1"}])
def test_the_agent_s_own_word_is_no_source_of_attacks(source: dict[str, str] | None) -> None:
    assert incidents_of(record(source), judged()) == ()


@pytest.mark.parametrize(("before", "new", "count"), [(0, 2, 0), (0, 3, 1), (2, 1, 1), (1, 1, 0), (9, 1, 1)])
def test_three_incidents_are_a_pattern_and_each_further_one_renews_it(
    before: int, new: int, count: int
) -> None:
    assert len(detect_patterns([INCIDENT] * new, {INCIDENT: before})) == count


def test_the_record_of_a_pattern_depends_on_the_source_and_the_day_only() -> None:
    found = pattern_record(INCIDENT)

    assert found == pattern_record(INCIDENT._replace(floor="F10_Own"))
    assert found.band is Band.WITNESS
    assert (found.tags, found.source) == (("attack", "scar"), {"kind": "doc", "id": "handbook"})
    assert found.text == (
        "At least 3 writes from doc:handbook were rejected as injections in the 30 days up to 2026-11-16."
    )
    assert found.memory_id != pattern_record(INCIDENT._replace(day="2026-11-17")).memory_id
    assert INCIDENT.key("m1") == f"{INCIDENT.prefix}2026-11-16/m1"
    assert INCIDENT.prefix.startswith("mark/shared//")
    assert INCIDENT._replace(scope="user/ada").prefix == INCIDENT.prefix.replace("shared", "user/ada")


def test_the_note_on_rejected_content_is_always_the_same() -> None:
    assert (refused_key("user/a", "ab"), refused_row("ab")) == ("refused/user/a//ab", {"refused": "ab"})
