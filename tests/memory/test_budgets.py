"""Byte budgets of bands: spent as the benchmark spends them, by the same policies, whoever opens the
store.
"""

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.bench.runner import run_policy
from standfast.clock import ManualClock, RandomIds
from standfast.errors import CommitAborted, Corruption, InvalidValue
from standfast.limits import MAX_REBASES
from standfast.memory import Memory
from standfast.policies import BandBudget
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore
from standfast.policies.write_policy import PolicySpec
from standfast.records.origins import Origin
from standfast.records.vocabulary import ActionType, Band, Receipt, Step, Tier
from standfast.store.commit import Commit, Write
from standfast.store.store import Store
from tests.memory.conftest import HANDBOOK, days
from tests.store.builders import memory_store, sqlite_store

POLICIES = [
    "AlwaysWrite",
    "ExpireOldest",
    "RecencyBias",
    "MergeAggressive",
    "UniformSample(every=3)",
    "RandomPolicy",
]


def observation(number: int) -> dict[str, object]:
    """One of a few endpoints, in a state that changes."""
    return {"type": "api", "api": f"GET /v1/thing{number % 4}", "fields": {"a": number % 3, "b": number // 5}}


def budgeted(store: Store, policy: str, max_bytes: int = 900) -> Memory:
    """A memory whose ACTIVE band has a budget."""
    return Memory(store, budgets=[BandBudget(band=Band.ACTIVE, max_bytes=max_bytes, policy=policy)])


def feed(memory: Memory, numbers: range, *, each: int = 1) -> None:
    """Observations, so many a run."""
    for start in range(numbers.start, numbers.stop, each):
        with memory.run(workflow="w", mode="buffered_write") as run:
            for number in range(start, min(start + each, numbers.stop)):
                ref = {"kind": "observation", "observation": observation(number), "metadata": {"n": number}}
                run.remember(f"Thing {number} of the API changed to {number}.", source=HANDBOOK, refs=[ref])


def numbers_held(memory: Memory) -> set[int]:
    """Which observations the band holds."""
    return {record.refs[0]["metadata"]["n"] for record in memory.records(band=Band.ACTIVE)}


def played(policy: str, count: int, max_bytes: int = 900) -> set[int]:
    """What the benchmark holds of the same stream."""
    steps = [Step(t=n, observation=observation(n), metadata={"n": n}) for n in range(count)]
    store = ByteMemoryStore(ByteBudget(max_bytes))
    run_policy(PolicySpec.parse(policy).build(seed=0), steps, store)
    return {item.step.t for item in store.items()}


@pytest.mark.parametrize("policy", POLICIES)
def test_production_keeps_what_the_benchmark_keeps(policy: str) -> None:
    memory = budgeted(memory_store(), policy)
    feed(memory, range(40), each=4)

    assert numbers_held(memory) == played(policy, 40)
    assert list(memory.verify()) == []


@pytest.mark.parametrize("policy", ["ExpireOldest", "MergeAggressive", "RandomPolicy"])
def test_it_does_not_matter_how_often_the_store_is_opened(tmp_path: Path, policy: str) -> None:
    for start in range(0, 30, 5):
        store = sqlite_store(tmp_path / "store.db", ids=RandomIds())
        feed(budgeted(store, policy), range(start, start + 5))
        store.close()
    store = sqlite_store(tmp_path / "store.db")

    assert numbers_held(budgeted(store, policy)) == played(policy, 30)
    store.close()


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 29), max_size=5),
    policy=st.sampled_from(POLICIES),
    max_bytes=st.integers(200, 3_000),
)
def test_runs_of_any_size_come_to_the_same(cuts: list[int], policy: str, max_bytes: int) -> None:
    store = memory_store()
    marks = sorted({0, *cuts, 30})
    for start, stop in pairwise(marks):
        memory = budgeted(store, policy, max_bytes)
        feed(memory, range(start, stop), each=stop - start)

    assert numbers_held(memory) == played(policy, 30, max_bytes)
    assert memory.band_budgets.used_bytes(Band.ACTIVE) <= max_bytes


def test_bands_without_a_budget_take_everything() -> None:
    memory = budgeted(memory_store(), "NeverWrite")
    feed(memory, range(5))

    assert numbers_held(memory) == set()
    assert len(list(memory.records(band=Band.LEDGER))) == 5


def test_what_is_forgotten_or_swept_gives_its_bytes_back() -> None:
    clock = ManualClock()
    memory = budgeted(memory_store(clock), "AlwaysWrite", 400)
    feed(memory, range(10))
    full = numbers_held(memory)
    days(clock, 8)
    memory.sweep()
    assert numbers_held(memory) == set()
    feed(memory, range(10, 20))

    assert len(numbers_held(memory)) == len(full)
    assert list(memory.verify()) == []


def test_a_budgeted_ledger_is_archived_but_what_its_budget_expired_is_not() -> None:
    clock = ManualClock()
    memory = Memory(
        memory_store(clock),
        budgets=[BandBudget(band=Band.LEDGER, max_bytes=400, policy="ExpireOldest")],
    )
    feed(memory, range(10))
    kept = {record.memory_id for record in memory.records(band=Band.LEDGER)}
    days(clock, 91)
    due = {one.key for one in memory.due() if one.key.startswith("LEDGER/") and not one.is_deletion}

    assert 0 < len(kept) < 10
    assert len(due) == len(kept), "only what is still held moves to the archive"
    memory.sweep()
    held = list(memory.records(band=Band.LEDGER))
    assert {record.memory_id for record in held} == kept
    assert {record.tier for record in held} == {Tier.COLD}


def test_a_subject_is_forgotten_in_all_its_versions() -> None:
    memory = budgeted(memory_store(), "AlwaysWrite", 10_000)
    for number in (14, 30):
        with memory.run(workflow="w", mode="buffered_write") as run:
            run.remember(f"EU refunds take {number} days.", subject="a", source=HANDBOOK)
    assert len(list(memory.records(band=Band.ACTIVE))) == 2
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.forget("a", reason="asked for")

    assert list(memory.records(band=Band.ACTIVE)) == []
    assert memory.band_budgets.used_bytes(Band.ACTIVE) == 0


def test_another_policy_begins_with_what_is_held() -> None:
    store = memory_store()
    feed(budgeted(store, "AlwaysWrite", 5_000), range(10))
    smaller = budgeted(store, "RecencyBias", 400)
    feed(smaller, range(10, 12))

    assert 11 in numbers_held(smaller)
    assert len(numbers_held(smaller)) < 12
    assert list(smaller.verify()) == []


def test_another_policy_with_room_for_all_that_is_held_expires_nothing() -> None:
    store = memory_store()
    feed(budgeted(store, "AlwaysWrite", 5_000), range(10))
    larger = budgeted(store, "AlwaysWrite", 50_000)
    feed(larger, range(10, 12))

    assert numbers_held(larger) == set(range(12))
    assert list(larger.verify()) == []


def test_forgetting_under_another_policy_writes_nothing_to_the_stream_that_ended() -> None:
    store = memory_store()
    budgeted(store, "AlwaysWrite").remember("Lamp 1 is in hall 3.", subject="lamp/1", source=HANDBOOK)
    assert len(list(store.scan("default", prefix="stream/ACTIVE/000001-"))) == 1
    memory = budgeted(store, "ExpireOldest")
    memory.forget("lamp/1", reason="asked to")

    assert list(store.scan("default", prefix="stream/ACTIVE/000001-")) == []
    assert list(memory.verify()) == []


def test_a_stream_that_lost_a_row_is_corrupt_and_nothing_is_spent() -> None:
    store = memory_store()
    feed(budgeted(store, "AlwaysWrite"), range(3))
    stream = [row.key for row in store.scan("default", prefix="stream/ACTIVE/")]
    lost = Write.of("default", stream[1], ActionType.EXPIRE)
    head = store.head()
    store.commit(Commit.of(run_id="raw", memory_snapshot_id=head, policy_set_id="none", writes=[lost]))

    with pytest.raises(Corruption, match="its stream has 2 of 3 rows"):
        feed(budgeted(store, "AlwaysWrite"), range(3, 4))
    assert store.head() == head + 1


def test_runs_that_spend_at_once_never_overspend(memory: Memory) -> None:
    shared = [budgeted(memory.store, "ExpireOldest", 600) for _ in range(3)]

    def spend(which: int) -> None:
        feed(shared[which], range(which * 100, which * 100 + 6))

    threads = [threading.Thread(target=spend, args=(which,)) for which in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh = budgeted(memory.store, "ExpireOldest", 600)
    feed(fresh, range(900, 901))

    assert fresh.band_budgets.used_bytes(Band.ACTIVE) <= 600
    assert len(list(fresh.records(band=Band.LEDGER))) == 19
    assert list(fresh.verify()) == []


def overtaken(memory: Memory, times: int) -> list[str]:
    """Let another memory spend the same budget before each of the next commits; the run ids of these."""
    other, store_commit = budgeted(memory.store, "RecencyBias"), memory.store.commit
    seen: list[str] = []
    busy: list[bool] = []

    def commit(given: Commit, **how: Any) -> Receipt:
        if not busy:
            seen.append(given.run_id)
            if len(seen) <= times:
                busy.append(True)
                other.remember(f"Order {len(seen)} left the depot on day {len(seen)}.", source=HANDBOOK)
                busy.clear()
        return store_commit(given, **how)

    memory.store.commit = commit  # type: ignore[assignment,method-assign]  # A store that others are faster at.
    return seen


def test_a_run_whose_budget_others_spend_is_planned_again() -> None:
    memory = budgeted(memory_store(), "RecencyBias")
    seen = overtaken(memory, MAX_REBASES - 1)
    with memory.run(workflow="w", mode="buffered_write", run_id="late") as run:
        run.remember("Thing 1 changed to 2.", source=HANDBOOK)

    assert seen == ["late", *(f"late~{attempt}" for attempt in range(1, MAX_REBASES))]
    assert run.receipt is not None
    assert list(memory.verify()) == []


def test_a_run_that_is_always_overtaken_gives_up() -> None:
    memory = budgeted(memory_store(), "RecencyBias")
    seen = overtaken(memory, MAX_REBASES)
    run = memory.run(workflow="w", mode="buffered_write")
    run.remember("Thing 1 changed to 2.", source=HANDBOOK)

    with pytest.raises(CommitAborted):
        run.commit()
    assert len(seen) == MAX_REBASES


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"band": "VAULT"}, "can.t have a budget"),
        ({"max_bytes": 0}, "whole number"),
        ({"policy": "OracleOptimal"}, "oracle track"),
        ({"policy": "EpsilonGreedy"}, "bandit track"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(changes: dict[str, object], problem: str) -> None:
    fields: dict[str, object] = {"band": Band.ACTIVE, "max_bytes": 100, "policy": "AlwaysWrite"}
    with pytest.raises(InvalidValue, match=problem):
        BandBudget.from_json(fields | changes)


def test_the_history_of_a_subject_tells_the_versions_that_a_budget_let_go() -> None:
    memory = budgeted(memory_store(), "RecencyBias(expiries=0)", 100)
    for number in range(3):
        with memory.run(workflow="w", mode="buffered_write") as run:
            run.remember(f"Sensor {number} is hot.", subject="sensor", source=HANDBOOK)
    result = [(one.key, one.action) for one in memory.history("sensor") if one.key.startswith(Band.ACTIVE)]

    assert result == [
        ("ACTIVE/shared//sensor@1.0", "WRITE"),
        ("ACTIVE/shared//sensor@1.0", "EXPIRE"),
        ("ACTIVE/shared//sensor@1.1", "WRITE"),
        ("ACTIVE/shared//sensor@1.1", "EXPIRE"),
        ("ACTIVE/shared//sensor@1.2", "WRITE"),
    ]


@pytest.mark.parametrize("policy", ["AlwaysWrite", "ExpireOldest", "RecencyBias"])
@pytest.mark.parametrize("opened_again", [False, True])
def test_untrusted_records_beside_others_take_a_quarter_of_the_bytes_and_expire_nothing(
    tmp_path: Path, policy: str, *, opened_again: bool
) -> None:
    store = sqlite_store(tmp_path / "store.db", ids=RandomIds())
    memory = budgeted(store, policy)

    def flood(numbers: range) -> None:
        for number in numbers:
            memory.remember(
                f"Offer {number} of the page is worth {number * 7} euros.",
                source={"kind": "web", "id": "a.example"},
            )

    def held() -> list[bool]:
        return sorted(record.origin is Origin.UNTRUSTED for record in memory.records(band=Band.ACTIVE))

    memory.remember("Ada owns lamp 1 in hall 3.", source={"kind": "user", "id": "ada"})
    flood(range(6))
    if opened_again:
        memory = budgeted(store, policy)
    flood(range(6, 12))

    assert held() == [False, True, True]
    assert list(memory.verify()) == []
