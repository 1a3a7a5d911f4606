"""Recall through memory: the same package every time, law first, nothing that was erased, and trust told
beside it.
"""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.clock import ManualClock
from standfast.errors import NoSuchSnapshot, NotAllowed
from standfast.memory import Memory, Run
from standfast.records.canon import utc_text
from standfast.records.vocabulary import Band
from standfast.store.store import Store
from tests.memory.conftest import HANDBOOK, SECRET, SIGNERS, days, decision
from tests.store.builders import memory_store


def learn(memory: Memory, text: str, subject: str | None = None, **options: object) -> Run:
    """One run that remembers one thing."""
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.remember(text, subject=subject, **({"source": HANDBOOK} | options))  # type: ignore[arg-type]  # As said.
    return run


def recalled(memory: Memory, query: str, at: int | None = None) -> list[str]:
    """What comes back, best first."""
    past = memory.at(memory.store.head() if at is None else at)
    return [item.excerpt for item in past.recall(query, tokens=500).items]


def test_what_was_remembered_comes_back_by_its_words(memory: Memory) -> None:
    learn(memory, "EU refunds take 14 days.", "policy/eu-refunds")
    learn(memory, "Paris is the capital of France.", "geo/france")

    assert recalled(memory, "refunds in the EU")[0] == "EU refunds take 14 days."
    assert recalled(memory, "capital of France")[0] == "Paris is the capital of France."


def test_time_travel_gives_the_same_package_as_then(memory: Memory) -> None:
    learn(memory, "EU refunds take 14 days.", "policy/eu-refunds")
    then = memory.recall("refunds", tokens=100)
    for number in range(3):
        learn(memory, f"EU refunds take {20 + number} days.", "policy/eu-refunds")
    cold = Memory(memory.store).at(1).recall("refunds", tokens=100)

    assert memory.at(1).recall("refunds", tokens=100) == cold == then
    assert memory.recall("refunds", tokens=100).package_hash != then.package_hash
    with pytest.raises(NoSuchSnapshot):
        memory.at(99)


def test_a_run_reads_its_start_snapshot_whatever_others_commit(memory: Memory) -> None:
    learn(memory, "EU refunds take 14 days.", "a")
    with memory.run(workflow="w") as run:
        before = run.recall("refunds", tokens=100)
        learn(memory, "EU refunds take 30 days.", "a")
        assert run.recall("refunds", tokens=100) == before
    assert memory.recall("refunds", tokens=100) != before


def test_a_run_that_is_off_recalls_nothing(memory: Memory) -> None:
    with memory.run(workflow="w", mode="off") as run, pytest.raises(NotAllowed):
        run.recall("anything", tokens=10)


def test_refused_and_undecided_things_are_never_recalled(memory: Memory) -> None:
    learn(memory, SECRET)
    learn(memory, "Refunds above 500 EUR need two people.", propose=True)

    assert recalled(memory, "deploy key refunds people") == []


def test_law_is_shown_where_something_else_says_otherwise(memory: Memory) -> None:
    learn(memory, "Refunds need one signature.", "law/refunds")
    learn(memory, "Refunds need two signatures.", "law/refunds", propose=True)
    (waiting,) = memory.approvals.waiting()
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)

    assert recalled(memory, "refunds signatures") == ["Refunds need two signatures."]
    assert recalled(memory, "refunds signatures", at=2) == ["Refunds need one signature."]


def test_what_was_erased_is_gone_from_warm_and_cold_reads_of_every_snapshot(memory: Memory) -> None:
    learn(memory, "EU refunds take 14 days.", "a")
    learn(memory, "EU refunds take 30 days.", "a")
    warm = [recalled(memory, "refunds", at=at) for at in (1, 2)]
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.forget("a", reason="asked for")
    fresh = Memory(memory.store)

    assert warm == [["EU refunds take 14 days."], ["EU refunds take 30 days."]]
    for snapshot in (3, 2, 1):
        assert recalled(memory, "refunds", at=snapshot) == recalled(fresh, "refunds", at=snapshot) == []


def test_recalled_things_come_with_their_ceilings(store: Store, clock: ManualClock) -> None:
    memory = Memory(store)
    learn(memory, "EU refunds take 14 days.", "sealed")
    learn(memory, "US refunds take 30 days, they say.", "rumour", hold="ask first")
    days(clock, 31)
    view = memory.at(2)
    items = {
        record.text: item.ceiling
        for item in view.explain(
            "refunds", tokens=500, now_utc=utc_text(clock.now()), include_unreviewed=True
        ).explanation.items
        if (record := view.record_at(item.store_path, item.memory_id)) is not None
    }
    sealed, rumour = items["EU refunds take 14 days."], items["US refunds take 30 days, they say."]

    assert sealed is not None
    assert rumour is not None
    assert (sealed.confidence, rumour.confidence) == (0.8, 0.4)
    assert rumour.warnings == ("Its verdict is neither SEAL nor SABAR", "It is more than 30 days old")


def test_what_was_recalled_is_not_remembered_again(memory: Memory) -> None:
    learn(memory, "EU refunds take 14 days for goods that were bought at a distance.", "a")
    with memory.run(workflow="w", mode="buffered_write") as run:
        excerpt = run.recall("refunds", tokens=100).items[0].excerpt
        again = run.remember(excerpt, source={"kind": "doc", "id": "other"})

    assert again.known == "a"
    assert list(memory.records(band=Band.WITNESS)) == [], "memory is no source of its own"


def test_a_duplicate_of_what_another_run_remembered_is_known(memory: Memory) -> None:
    learn(memory, "EU refunds take 14 days for goods bought at a distance.")
    with memory.run(workflow="w", mode="buffered_write") as run:
        again = run.remember("EU refunds take 14 days for goods bought at a distance!", source=HANDBOOK)

    assert again.known is not None


def test_namespaces_recall_nothing_of_each_other(memory: Memory) -> None:
    learn(memory, "EU refunds take 14 days.")

    assert recalled(Memory(memory.store, namespace="acme"), "refunds") == []


def test_threads_may_recall_while_others_remember(memory: Memory) -> None:
    learn(memory, "Fact 0 is about widgets.")
    wrong: list[str] = []

    def read() -> None:
        for _ in range(20):
            head = memory.store.head()
            if memory.at(head).recall("widgets", tokens=2_000) != memory.at(head).recall(
                "widgets", tokens=2_000
            ):
                wrong.append("two packages of one snapshot")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 8):
        learn(memory, f"Fact {number} is about widgets of kind {number * 7}.")
    for thread in threads:
        thread.join()

    assert wrong == []
    assert len(recalled(memory, "widgets")) == 8


WORDS = st.sampled_from(["refunds", "widgets", "paris", "delays", "Straße", "ﬁre", "14"])


@settings(max_examples=25, deadline=None)
@given(
    facts=st.lists(
        st.tuples(st.sampled_from("abcd"), st.lists(WORDS, min_size=1, max_size=4)), min_size=1, max_size=8
    ),
    query=st.lists(WORDS, min_size=1, max_size=3),
    tokens=st.integers(1, 60),
)
def test_warm_and_cold_memory_give_the_same_bytes(
    facts: list[tuple[str, list[str]]], query: list[str], tokens: int
) -> None:
    warm = Memory(memory_store())
    requested = " ".join(query)
    for subject, words in facts:
        learn(warm, f"{subject.upper()} concerns {' and '.join(words)}.", subject)
        warm.recall(requested, tokens=tokens)

    for snapshot in range(warm.store.head() + 1):
        cold = Memory(warm.store).at(snapshot).recall(requested, tokens=tokens)
        assert warm.at(snapshot).recall(requested, tokens=tokens) == cold
        assert sum(-(-len(item.excerpt.encode()) // 4) for item in cold.items) <= tokens


def test_other_bands_can_be_asked_for(memory: Memory) -> None:
    learn(memory, "EU refunds take 14 days.")
    found = memory.recall("refunds", tokens=100, bands=[Band.ACTIVE]).items

    assert [item.store_path for item in found] == ["standfast:default/ACTIVE"]


def test_what_was_erased_is_in_no_snapshot_not_even_in_one_that_was_read_before(memory: Memory) -> None:
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.remember("EU refunds take 14 days.", subject="a", source=HANDBOOK)
    assert len(memory.at(1).recall("refunds", tokens=100).items) == 1
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.forget("a", reason="asked for by the customer")

    assert memory.at(1).recall("refunds", tokens=100).items == ()


def test_with_now_utc_phase6_prefers_newer_records(memory: Memory, clock: ManualClock) -> None:
    for text in ("Gate closes at 5.", "Gate closes at 6."):
        memory.remember(text, source=HANDBOOK)
        days(clock, 30)
    old_first = memory.recall("gate closes", tokens=200, controller="phase6-v1")
    newest = memory.recall("gate closes", tokens=200, controller="phase6-v1", now_utc="2026-03-02T00:00:00Z")

    assert newest.items[0].excerpt == "Gate closes at 6."
    assert newest.items[0].score != old_first.items[0].score
