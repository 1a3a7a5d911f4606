"""Forgetting where a byte budget decides: nothing of it stays anywhere, and the budget goes on as exactly as
before.
"""

import threading
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from standfast.clock import ManualClock, RandomIds
from standfast.errors import InvalidValue
from standfast.govern.approvals.approvals import Decision
from standfast.memory import Memory
from standfast.policies import BandBudget
from standfast.records.vocabulary import Band, Verdict
from standfast.store.store import Store
from tests.memory.conftest import HANDBOOK, SECRET, SIGNERS, days, decision
from tests.store.builders import memory_store, sqlite_store

POLICIES = ["AlwaysWrite", "RecencyBias", "MergeAggressive", "RandomPolicy", "DriftValue", "MergeFirst"]
SUBJECTS = ("alice", "alice@example.org", "bob", "carol")
BANDS = (Band.ACTIVE, Band.LEDGER)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def budgeted(store: Store, policy: str, max_bytes: int = 700) -> Memory:
    """A memory of which both canonical bands have a budget."""
    return Memory(
        store, budgets=[BandBudget(band=band, max_bytes=max_bytes, policy=policy) for band in BANDS]
    )


def tell(memory: Memory, number: int, *, text: str = "") -> None:
    """One thing about one of a few subjects, all of which share two endpoints."""
    with memory.run(workflow="w", mode="buffered_write") as run:
        ref = {
            "kind": "observation",
            "observation": {
                "type": "api",
                "api": f"GET /{number % 2}",
                "fields": {"a": number, "said": text},
            },
            "metadata": {"priority": number % 7 / 10},
        }
        subject = SUBJECTS[number % len(SUBJECTS)]
        run.remember(f"Entry {number} of {subject}. {text}", subject=subject, source=HANDBOOK, refs=[ref])


def forget(memory: Memory, subject: str) -> None:
    """As asked for."""
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.forget(subject, reason="asked for")


def held(memory: Memory) -> set[str]:
    """All that the bands hold."""
    return {record.key for band in BANDS for record in memory.records(band=band)}


def used(memory: Memory) -> dict[Band, int]:
    """What the budgets think is used."""
    return {band: memory.band_budgets.used_bytes(band) for band in BANDS}


@pytest.mark.usefixtures("plain_contents")
@pytest.mark.parametrize("policy", POLICIES)
def test_no_byte_of_what_is_forgotten_is_left_in_the_files(tmp_path: Path, policy: str) -> None:
    memory = budgeted(sqlite_store(tmp_path / "store.db", ids=RandomIds()), policy)
    for number in range(24):
        tell(memory, number, text=f"swordfish-{SUBJECTS[number % len(SUBJECTS)]}!")
    assert any(b"swordfish-alice!" in path.read_bytes() for path in _files(tmp_path))
    forget(memory, "alice")

    assert [path.name for path in _files(tmp_path) if b"swordfish-alice!" in path.read_bytes()] == []
    assert any(b"swordfish-alice@example.org!" in path.read_bytes() for path in _files(tmp_path))
    assert list(memory.verify()) == []
    memory.store.close()


@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    policy=st.sampled_from(POLICIES),
    max_bytes=st.integers(150, 1_500),
    forgotten=st.lists(st.tuples(st.integers(1, 23), st.sampled_from(SUBJECTS)), min_size=1, max_size=4),
)
def test_after_forgetting_whoever_opens_the_store_comes_to_the_same_state(
    policy: str, max_bytes: int, forgotten: list[tuple[int, str]]
) -> None:
    stores = memory_store(), memory_store()
    warm = budgeted(stores[0], policy, max_bytes)
    for number in range(24):
        cold = budgeted(stores[1], policy, max_bytes)
        for memory in (warm, cold):
            tell(memory, number)
            for when, subject in sorted(set(forgotten)):
                if when == number and memory.history(subject):
                    try:
                        forget(memory, subject)
                    except InvalidValue:
                        assert all(chapter.record is None for chapter in memory.history(subject))
        assert held(warm) == held(cold)
        assert used(warm) == used(cold)
        assert max(used(warm).values()) <= max_bytes
    assert list(cold.verify()) == []


def test_a_run_that_began_before_a_forgetting_commits_after_it() -> None:
    memory = budgeted(memory_store(), "MergeFirst")
    for number in range(12):
        tell(memory, number)
    run = memory.run(workflow="w", mode="buffered_write")
    run.remember("Bob moved to Berlin.", subject="bob", source=HANDBOOK)
    forget(memory, "alice")
    run.commit()

    assert any("Berlin" in record.text for record in memory.records(band=Band.LEDGER))
    assert not any(record.subject == "alice" for record in memory.records())
    assert list(memory.verify()) == []


def test_a_memory_without_the_budget_forgets_from_its_stream_too() -> None:
    store = memory_store()
    memory = budgeted(store, "DriftValue")
    for number in range(12):
        tell(memory, number)
    forget(Memory(store), "alice")
    for number in range(13, 16):
        tell(memory, number)

    rows = [row.content or b"" for row in store.scan("default", prefix="stream/")]
    assert rows
    assert not any(b'"LEDGER/shared//alice@1.' in row or b"Entry 0 " in row for row in rows)
    assert list(memory.verify()) == []


def test_only_the_one_who_is_named_is_forgotten() -> None:
    memory = budgeted(memory_store(), "AlwaysWrite", 100_000)
    for number in range(8):
        tell(memory, number)
    forget(memory, "alice")

    assert {record.subject for record in memory.records()} == {"alice@example.org", "bob", "carol"}
    assert len(memory.history("alice@example.org")) == 4
    with pytest.raises(InvalidValue, match="there is no record of"):
        forget(memory, "alice")


def test_what_the_budget_let_go_is_gone_from_the_past_too_once_it_is_forgotten() -> None:
    memory = budgeted(memory_store(), "RecencyBias(expiries=0)", 200)
    tell(memory, 0, text="swordfish")
    before = memory.store.head()
    assert "swordfish" in memory.at(before).recall("swordfish", tokens=200).text
    for number in range(1, 8):
        tell(memory, number)
    assert "swordfish" in memory.at(before).recall("swordfish", tokens=200).text
    forget(memory, "alice")

    assert "swordfish" not in memory.at(before).recall("swordfish", tokens=200).text


def test_what_is_swept_leaves_nothing_in_the_stream(tmp_path: Path) -> None:
    clock = ManualClock()
    store = sqlite_store(tmp_path / "store.db", clock=clock, ids=RandomIds())
    memory = Memory(store, budgets=[BandBudget(band=Band.ACTIVE, max_bytes=300, policy="RecencyBias")])
    for number in range(20):
        tell(memory, number, text="swordfish")
    with memory.run(workflow="w", mode="buffered_write") as run:
        for subject in SUBJECTS:
            run.forget(subject, reason="only ACTIVE is of interest here")
    for number in range(20, 40):
        tell(memory, number)
    days(clock, 8)
    swept = [due.key for due in memory.due()]
    assert sum(key.startswith("stream/ACTIVE/") for key in swept) >= 20
    memory.sweep()

    assert list(memory.due()) == []
    assert list(store.scan("default", prefix="ACTIVE/")) == []
    result = [row.content or b"" for row in store.scan("default", prefix="stream/ACTIVE/")]
    assert not any(b"Entry" in row or b"swordfish" in row for row in result)
    tell(memory, 41)
    assert len(list(memory.records(band=Band.ACTIVE))) == 1
    assert list(memory.verify()) == []
    store.close()


def test_what_is_young_stays_in_the_stream(tmp_path: Path) -> None:
    clock = ManualClock()
    memory = Memory(
        memory_store(clock), budgets=[BandBudget(band=Band.ACTIVE, max_bytes=500, policy="RandomPolicy")]
    )
    for number in range(10):
        tell(memory, number)
    days(clock, 5)
    for number in range(10, 20):
        tell(memory, number)
    days(clock, 3)
    memory.sweep()

    result = b"".join(row.content or b"" for row in memory.store.scan("default", prefix="stream/ACTIVE/"))
    assert all(b'\\"a\\":%d,' % number in result for number in range(10, 20))
    assert not any(b'\\"a\\":%d,' % number in result for number in range(10))


def test_runs_that_let_the_same_thing_go_at_once_all_commit() -> None:
    store = memory_store()
    shared = [budgeted(store, "RecencyBias(expiries=0)", 300) for _ in range(3)]
    errors: list[BaseException] = []

    def work(which: int) -> None:
        try:
            for number in range(which * 100, which * 100 + 8):
                tell(shared[which], number)
        except BaseException as error:  # noqa: BLE001  # Whatever it is, the test must see it.
            errors.append(error)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert list(shared[0].verify()) == []


def test_what_was_only_logged_of_a_subject_is_forgotten_too(tmp_path: Path) -> None:
    memory = Memory(sqlite_store(tmp_path / "store.db", ids=RandomIds()))
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.remember("Bob may have moved to Atlantis.", subject="bob", hold="not sure", source=HANDBOOK)
        run.remember("Bob lives in Bern.", subject="bob", source=HANDBOOK)
    (waiting,) = memory.approvals.waiting()
    assert any("~" in chapter.key for chapter in memory.history("bob"))
    forget(memory, "bob")

    assert not any("~" in row.key for row in memory.store.scan("default", prefix="LEDGER/"))
    assert "Atlantis" in waiting.record.text
    assert all(chapter.record is None for chapter in memory.history("bob") if "PHOENIX" not in chapter.key)
    memory.store.close()


def test_a_rejected_proposal_leaves_nothing_in_the_stream() -> None:
    memory = budgeted(memory_store(), "AlwaysWrite", 5_000)
    tell(memory, 1)
    with memory.run(workflow="w", mode="buffered_write", agent="drafter") as run:
        run.remember("Bob may have moved to Atlantis.", subject="bob", hold="not sure", source=HANDBOOK)
    (waiting,) = memory.approvals.waiting()
    before = [row for row in memory.store.scan("default") if b"Atlantis" in (row.content or b"")]
    assert any(row.key.startswith("stream/LEDGER/") for row in before)
    memory.approvals.decide(decision(memory, waiting, Decision.REJECT), signers=SIGNERS)
    tell(memory, 2)

    for at in range(memory.store.head() + 1):
        assert not any(b"Atlantis" in (row.content or b"") for row in memory.store.scan("default", at=at))
    assert list(memory.verify()) == []


def refused(memory: Memory) -> None:
    """A commit that spends nothing."""
    with memory.run(workflow="w", mode="buffered_write") as run:
        assert run.remember(SECRET, source=HANDBOOK).verdict is Verdict.VOID


@pytest.mark.parametrize("policy", ["RecencyBias", "MergeFirst"])
def test_a_commit_that_spends_nothing_does_not_pass_for_what_others_spent_before_it(policy: str) -> None:
    store = memory_store()
    ours, theirs = budgeted(store, policy), budgeted(store, policy)
    for number in range(0, 24, 2):
        tell(ours, number)
        tell(theirs, number + 1)
        refused(ours)

    result = b"".join(row.content or b"" for row in store.scan("default", prefix="stream/LEDGER/"))
    assert [number for number in range(24) if b'\\"a\\":%d,' % number not in result] == []
    assert list(ours.verify()) == []
    tell(budgeted(store, policy), 26)


def test_a_sweep_between_two_commits_is_not_overlooked() -> None:
    clock = ManualClock()
    memory = Memory(
        memory_store(clock), budgets=[BandBudget(band=Band.ACTIVE, max_bytes=500, policy="RecencyBias")]
    )
    for number in range(10):
        tell(memory, number)
    days(clock, 8)
    memory.sweep()
    refused(memory)
    for number in range(10, 14):
        tell(memory, number)

    fresh = Memory(memory.store, budgets=memory.band_budgets.budgets.values())
    tell(fresh, 14)
    assert list(fresh.verify()) == []
