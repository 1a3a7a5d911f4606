"""Patterns of attacks: which judgements are incidents, when incidents become a pattern, how long it applies,
and how it is lifted.
"""

from datetime import UTC, datetime

import msgspec
import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.govern.evidence import is_bound
from standfast.govern.judge import Judgement
from standfast.govern.patterns import (
    MAX_INCIDENTS_COUNTED,
    AttackPattern,
    Incident,
    detect_patterns,
    earlier_counts,
    incidents_of,
    is_pattern_key,
    lift_pattern,
    list_patterns,
    pattern_record,
)
from standfast.records.origins import Origin
from standfast.records.scopes import scoped_key
from standfast.records.vocabulary import ActionType, Band, Evidence, FloorCheck, Record, Verdict
from standfast.store.commit import Commit, Write
from standfast.store.opening import open_store
from standfast.store.store import Store

NOW = datetime(2026, 11, 16, 23, 59, tzinfo=UTC)
SOURCE = {"kind": "doc", "id": "Handbook#4"}
INCIDENT = Incident("doc handbook", "F6_Injection", "2026-11-16", origin=Origin.ORDINARY)


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


def test_an_attack_is_an_incident_of_each_named_source_in_order() -> None:
    mails = [{"kind": "mail", "id": str(number)} for number in range(8, 0, -1)]
    found = incidents_of(record(refs=(*mails, {"kind": "agent", "id": "bot"})), judged())

    assert found == (INCIDENT, *(INCIDENT._replace(source=f"mail {number}") for number in range(1, 9)))


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
    assert len(detect_patterns([INCIDENT] * new, {INCIDENT: before} if before else {})) == count


def test_new_patterns_are_ordered_by_id() -> None:
    incidents = [INCIDENT._replace(source=f"mail {number}") for number in range(9)]
    found = [one.memory_id for one in detect_patterns(incidents * 3, {})]

    assert len(found) == 9
    assert found == sorted(found)


def test_a_pattern_is_a_witness_whose_id_says_so() -> None:
    keys = [
        scoped_key(band, "shared", name) for band in (Band.WITNESS, Band.LEDGER) for name in ("scar/1", "m1")
    ]

    assert [is_pattern_key(key) for key in keys] == [True, False, False, False]


def test_a_pattern_has_evidence_that_was_made_for_it() -> None:
    found = pattern_record(INCIDENT)

    assert is_bound(found)
    assert not is_bound(msgspec.structs.replace(found, text="Nothing happened."))
    assert found.evidence is not None
    assert [check.floor for check in found.evidence.floor_checks] == ["content", "attack_pattern"]


def test_what_a_trusted_user_says_is_no_incident() -> None:
    assert incidents_of(msgspec.structs.replace(record(), origin=Origin.TRUSTED), judged()) == ()


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
    assert INCIDENT.prefix == "mark/shared//ad0b11a794feb28111689251f4c5829d/ordinary/"
    assert INCIDENT._replace(scope="user/ada").prefix == INCIDENT.prefix.replace("shared", "user/ada")


def store_of(*incidents: tuple[Incident, str], patterns: tuple[Incident, ...] = ()) -> Store:
    """A store that holds incidents, each with the id of its rejected record, and the patterns of some."""
    rows = {incident.key(memory_id): incident.row for incident, memory_id in incidents}
    for incident in patterns:
        pattern = pattern_record(incident)
        rows[scoped_key(Band.WITNESS, incident.scope, pattern.memory_id)] = pattern.as_json()
    store = open_store(":memory:", create=True, clock=ManualClock(), ids=CountedIds())
    writes = [Write.of("default", key, ActionType.WRITE, row) for key, row in rows.items()]
    store.commit(Commit.of(run_id="r1", memory_snapshot_id=0, policy_set_id="p1", writes=writes))
    return store


def test_an_incident_counts_for_thirty_days() -> None:
    days = ["2026-10-16", "2026-10-17", "2026-10-18", "2026-11-16"]
    store = store_of(*((INCIDENT._replace(day=day), "m") for day in days))

    # A key of the oldest day goes on after the day, so that day counts.
    assert earlier_counts(store, "default", 1, [INCIDENT]) == {INCIDENT: 3}
    assert earlier_counts(store, "default", 0, [INCIDENT]) == {INCIDENT: 0}


def test_no_more_incidents_are_counted_than_a_hundred() -> None:
    store = store_of(*((INCIDENT, f"m{number}") for number in range(MAX_INCIDENTS_COUNTED + 1)))

    assert earlier_counts(store, "default", 1, [INCIDENT]) == {INCIDENT: MAX_INCIDENTS_COUNTED}


def test_patterns_are_listed_by_source_with_their_first_and_last_day() -> None:
    second = Incident("web a page", "F6_Injection", "2026-10-18", "user/ada")
    days = ("2026-10-17", "2026-10-18", "2026-10-30", "2026-11-02")
    store = store_of(patterns=(second, *(INCIDENT._replace(day=day) for day in days)))

    assert list_patterns(store, "default", NOW) == [
        AttackPattern(
            source="doc:handbook",
            scope="shared",
            first_day="2026-10-18",
            last_day="2026-11-02",
            fades_on="2026-12-02",
        ),
        AttackPattern(
            source="web:a page",
            scope="user/ada",
            first_day="2026-10-18",
            last_day="2026-10-18",
            fades_on="2026-11-17",
        ),
    ]


def test_many_patterns_are_listed_in_the_order_of_their_sources() -> None:
    names = [f"mail {number}" for number in range(9)]
    store = store_of(patterns=tuple(INCIDENT._replace(source=name) for name in names))

    assert [one.source for one in list_patterns(store, "default", NOW)] == [
        name.replace(" ", ":") for name in names
    ]


def test_lifting_a_pattern_ends_it_with_its_incidents_and_leaves_others() -> None:
    there, other = INCIDENT._replace(scope="user/ada"), INCIDENT._replace(source="mail 7")
    marked = [(INCIDENT, "m1"), (there, "m2"), (other, "m3")]
    store = store_of(*marked, patterns=(INCIDENT, there, other))
    receipt = lift_pattern(store, "default", "doc:Handbook#9", reason="cleaned", by="ada", run_id="r2")

    assert receipt.memory_snapshot_id == 2
    assert [one.source for one in list_patterns(store, "default", NOW)] == ["mail:7"]
    assert earlier_counts(store, "default", 2, [INCIDENT, there, other]) == {INCIDENT: 0, there: 0, other: 1}


@pytest.mark.parametrize(
    ("source", "reason", "problem"),
    [
        ("doc:handbook", " ", "say why the pattern is lifted"),
        ("doc:other", "cleaned", "there is no pattern of"),
    ],
)
def test_lifting_needs_a_pattern_and_a_reason(source: str, reason: str, problem: str) -> None:
    store = store_of((INCIDENT, "m1"), patterns=(INCIDENT,))

    with pytest.raises(InvalidValue, match=problem):
        lift_pattern(store, "default", source, reason=reason, by="ada", run_id="r2")
    assert store.head() == 1
