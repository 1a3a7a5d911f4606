"""LangGraph's store over memory. LangGraph's own ``InMemoryStore`` gives the expected answers."""

import asyncio
import subprocess
import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from standfast.adapters.langgraph import StandfastStore
from standfast.adapters.langgraph_items import subject_of
from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue, NotCanonical, PutRefused
from standfast.memory import Memory
from standfast.policies import BandBudget
from standfast.records.vocabulary import Band
from tests.memory.conftest import SECRET, backend, clock, memory, opener, place, store

__all__ = ["backend", "clock", "memory", "opener", "place", "store"]

NAMESPACES = [("users", "ada"), ("users", "bob"), ("users", "ada", "chats"), ("docs",), ("a/b", "c%d", "ü")]
LONG_KEY = (
    "Käse, Brötchen, Äpfel und was sonst noch für das Frühstück am nächsten Wochenende fehlt, wenn alle Gäste"
    " schon früh kommen, müde und hungrig, und über Nacht bleiben möchten"
)
KEYS = ["prefs", "prefs2", "pre/fs", "@1.0", LONG_KEY]
VALUES: list[dict[str, Any]] = [
    {"theme": "dark", "size": 12},
    {"theme": "light", "size": 3.5, "deep": {"langs": ["en", "de"], "on": True}},
    {"size": 12, "note": None},
    {"about": "Ada likes long walks and short answers."},
    {},
]
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"theme": "dark"},
    {"deep": {"langs": ["en", "de"]}},
    {"deep": {"langs": ["en"]}},
    {"theme": {"$ne": "dark"}},
    {"size": {"$eq": 12}},
    {"note": None},
]
PATHS = [("users",), ("*", "ada"), ("chats",), ("users", "*", "chats"), ("c%d", "ü")]


def new_memory() -> Memory:
    """A memory with a deterministic clock and ids."""
    return Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())


puts = st.builds(
    PutOp,
    st.sampled_from(NAMESPACES),
    st.sampled_from(KEYS),
    st.sampled_from([*VALUES, None]),
    index=st.none(),
    ttl=st.none(),
)
gets = st.builds(GetOp, st.sampled_from(NAMESPACES), st.sampled_from(KEYS))
searches = st.builds(
    SearchOp,
    st.sampled_from([(), ("users",), ("users", "ada"), ("a/b",), ("none",)]),
    st.sampled_from(FILTERS),
    limit=st.just(100),
)
listings = st.builds(
    ListNamespacesOp,
    st.lists(
        st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), st.sampled_from(PATHS)), max_size=2
    ).map(tuple),
    max_depth=st.sampled_from([None, 1, 2]),
    limit=st.sampled_from([100, 1]),
    offset=st.sampled_from([0, 1]),
)
batches = st.lists(
    st.lists(st.one_of(puts, puts, gets, searches, listings), min_size=1, max_size=5), max_size=5
)


def plain(answer: object) -> object:
    """An answer without timestamps; items are sorted, because LangGraph does not define their order."""
    if isinstance(answer, Item):
        return answer.namespace, answer.key, repr(answer.value)
    if isinstance(answer, list):
        shown = [plain(one) for one in answer]
        return sorted(shown) if answer and isinstance(answer[0], Item) else shown  # type: ignore[type-var]  # All alike.
    return answer


def reference(batch: Iterable[Op], expected: InMemoryStore) -> list[object]:
    """The expected answers.

    ``InMemoryStore`` also lists namespaces that were only read, so listings are asked of a fresh copy.
    """
    items = [(one.namespace, one.key, one.value) for one in expected.search((), limit=1000)]
    fresh = InMemoryStore()
    for namespace, key, value in items:
        fresh.put(namespace, key, value)
    batch = list(batch)
    listed = {
        number: fresh.batch([op])[0] for number, op in enumerate(batch) if isinstance(op, ListNamespacesOp)
    }
    return [listed.get(number, answer) for number, answer in enumerate(expected.batch(batch))]


@given(batches)
@settings(max_examples=25)
def test_answers_equal_those_of_langgraphs_own_store(played: list[list[Op]]) -> None:
    ours, theirs = StandfastStore(new_memory()), InMemoryStore()

    for batch in played:
        assert [plain(one) for one in ours.batch(batch)] == [plain(one) for one in reference(batch, theirs)]
    assert list(ours.memory.verify()) == []


def test_langgraphs_methods_work_over_every_backend(memory: Memory) -> None:
    graph_store = StandfastStore(memory)
    graph_store.put(("users", "ada"), "prefs", {"theme": "dark"})
    graph_store.put(("users", "bob"), "prefs", {"theme": "dark"})
    graph_store.put(("users", "ada"), "prefs", {"theme": "light"})
    graph_store.delete(("users", "bob"), "prefs")
    graph_store.delete(("users", "bob"), "never/there")

    item = graph_store.get(("users", "ada"), "prefs")
    assert item is not None
    assert item.value == {"theme": "light"}
    assert graph_store.get(("users", "bob"), "prefs") is None
    assert graph_store.list_namespaces(prefix=("users",)) == [("users", "ada")]
    assert list(memory.verify()) == []


def test_a_batch_is_one_commit_and_unchanged_items_are_not_written() -> None:
    graph_store = StandfastStore(new_memory())
    batch = [PutOp(("users",), name, {"likes": f"{name} likes cats"}) for name in ("ada", "bob", "eve")]
    graph_store.batch(batch)
    graph_store.batch(batch)

    assert graph_store.memory.store.head() == 1


def test_a_rejected_put_names_the_reasons_and_rejects_its_batch() -> None:
    graph_store = StandfastStore(new_memory())
    with pytest.raises(PutRefused, match=r"F\d_Secrecy|secret|credential") as refusal:
        graph_store.batch(
            [PutOp(("a",), "good", {"fact": "Cats purr."}), PutOp(("a",), "bad", {"deep": [SECRET]})]
        )

    assert refusal.value.facts["subject"] == "langgraph/a/bad"
    assert "AKIA" not in str(refusal.value)
    assert graph_store.search(()) == []
    assert [record.subject for record in graph_store.memory.records(band=Band.VOID)] == ["langgraph/a/bad"]


def test_delete_erases_the_content_and_the_history_shows_it() -> None:
    graph_store = StandfastStore(new_memory())
    graph_store.put(("users", "ada"), "prefs", {"theme": "dark"})
    graph_store.delete(("users", "ada"), "prefs")

    versions = graph_store.memory.history("langgraph/users/ada/prefs", scope="user/ada")
    assert {(one.action, one.record) for one in versions} == {("WRITE", None), ("EXPIRE", None)}
    assert "dark" not in str([record.text for record in graph_store.memory.records(at=1)])


def test_a_search_with_a_query_is_ranked_by_recall_within_its_namespace_and_filter() -> None:
    graph_store = StandfastStore(new_memory())
    for number in range(70):
        graph_store.put(("other",), f"n{number}", {"text": f"refunds refunds EU number {number}"})
    graph_store.put(("mine",), "a", {"text": "EU refunds take 14 days.", "kind": "rule"})
    graph_store.put(("mine",), "b", {"text": "Parcels from the EU arrive late.", "kind": "rule"})
    graph_store.put(("mine",), "c", {"text": "EU refunds are free of charge.", "kind": "rumour"})
    found = graph_store.search(("mine",), query="EU refunds", filter={"kind": "rule"})

    assert [one.key for one in found] == ["a", "b"]
    assert found[0].score is not None
    assert found[1].score is not None
    assert found[0].score > found[1].score
    assert [one.key for one in graph_store.search(("mine",), query="EU refunds", limit=1, offset=1)] == ["c"]
    assert len(graph_store.search(("other",), query="  ", limit=7)) == 7


def test_values_come_back_exactly() -> None:
    graph_store = StandfastStore(new_memory())
    value = {
        "pi": 3.141592653589793,
        "big": 2**70,
        "whole": 1.0,
        "nfd": "e\u0301",
        "none": None,
        "list": [1, [2]],
    }
    graph_store.put(("x",), "nfd e\u0301", value)
    item = graph_store.get(("x",), "nfd e\u0301")

    assert item is not None
    assert repr(item.value) == repr(value)
    assert graph_store.get(("x",), "nfd \u00e9") is None


def test_an_item_has_the_times_of_creation_and_last_change() -> None:
    clock = ManualClock()
    graph_store = StandfastStore(Memory.open(":memory:", clock=clock))
    graph_store.put(("x",), "k", {"v": 1})
    clock.advance(60)
    graph_store.put(("x",), "k", {"v": 2})
    clock.advance(60)
    graph_store.put(("x",), "k", {"v": 3})
    item = graph_store.get(("x",), "k")

    assert item is not None
    assert item.updated_at - item.created_at == timedelta(seconds=120)


def test_the_async_methods_give_the_same() -> None:
    async def play() -> object:
        graph_store = StandfastStore(new_memory())
        await graph_store.aput(("x",), "k", {"v": 1})
        return plain(await graph_store.aget(("x",), "k")), len(await graph_store.asearch(("x",), query="v"))

    assert asyncio.run(play()) == ((("x",), "k", "{'v': 1}"), 1)


def test_of_two_concurrent_puts_to_one_key_the_later_wins() -> None:
    memory = new_memory()
    graph_store, committed = StandfastStore(memory), memory.store.commit
    graph_store.put(("x",), "k", {"v": 1})
    overtaking = [lambda: StandfastStore(memory).put(("x",), "k", {"v": 2})]

    def overtaken(commit: Any, **how: Any) -> Any:
        if overtaking:
            overtaking.pop()()
        return committed(commit, **how)

    memory.store.commit = overtaken  # type: ignore[method-assign]  # Another graph, at the worst moment.
    graph_store.put(("x",), "k", {"v": 3})
    item = graph_store.get(("x",), "k")

    assert item is not None
    assert item.value == {"v": 3}
    assert memory.store.head() == 3


def test_a_band_with_a_budget_shows_the_newest_version() -> None:
    budget = BandBudget(band=Band.LEDGER, max_bytes=100_000, policy="AlwaysWrite")
    graph_store = StandfastStore(Memory.open(":memory:", budgets=[budget]))
    for number in range(12):
        graph_store.put(("x",), "k", {"v": number})
    item = graph_store.get(("x",), "k")

    assert item is not None
    assert item.value == {"v": 11}
    assert [one.value for one in graph_store.search(("x",))] == [{"v": 11}]
    graph_store.delete(("x",), "k")
    assert graph_store.get(("x",), "k") is None


def test_records_written_otherwise_are_not_items() -> None:
    memory = new_memory()
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.remember("Cats purr.", subject="langgraph/x/k", source={"kind": "doc", "id": "cats"})
        run.remember("Dogs bark.", source={"kind": "doc", "id": "dogs"})
    graph_store = StandfastStore(memory)

    assert graph_store.get(("x",), "k") is None
    assert graph_store.search((), query="cats") == []


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (PutOp(("x",), "k", {"v": {1, 2}}), InvalidValue),
        (PutOp(("x",), "k", {"v": float("nan")}), InvalidValue),
        (PutOp((), "k", {"v": 1}), InvalidValue),
        (PutOp(("x",), "k", {"v": "\ud800"}), NotCanonical),
        (SearchOp(("x",), {"v": {"$like": 1}}), InvalidValue),
        (ListNamespacesOp((MatchCondition("infix", ("x",)),)), InvalidValue),  # type: ignore[arg-type]  # On purpose.
        ("get", InvalidValue),
    ],
)
def test_an_invalid_operation_is_refused_and_changes_nothing(op: Any, error: type[Exception]) -> None:
    graph_store = StandfastStore(new_memory())
    graph_store.put(("x",), "k", {"v": 1})
    with pytest.raises(error):
        graph_store.batch([PutOp(("x",), "other", {"v": 2}), op])

    assert [one.value for one in graph_store.search(())] == [{"v": 1}]


@pytest.mark.parametrize(
    ("name", "keys"),
    [("$gt", ["c"]), ("$gte", ["b", "c"]), ("$lt", ["a"]), ("$lte", ["a", "b"]), ("$ne", ["a", "c", "d"])],
)
def test_filters_compare_numbers(name: str, keys: list[str]) -> None:
    graph_store = StandfastStore(new_memory())
    for key, size in (("a", 1), ("b", 2), ("c", 3), ("d", "large")):
        graph_store.put(("x",), key, {"size": size})

    assert [item.key for item in graph_store.search(("x",), filter={"size": {name: 2}})] == keys


def test_langgraphs_own_rules_for_namespaces_apply() -> None:
    with pytest.raises(InvalidNamespaceError):
        StandfastStore(new_memory()).put(("a.b",), "k", {"v": 1})


@given(
    st.lists(st.text(min_size=1), min_size=2, max_size=4),
    st.lists(st.text(min_size=1), min_size=2, max_size=4),
)
def test_no_two_items_share_a_subject(left: list[str], right: list[str]) -> None:
    subjects = [subject_of(tuple(path[:-1]), path[-1]) for path in (left, right)]

    assert (subjects[0] == subjects[1]) == (left == right)
    assert all(len(subject) <= 200 and subject.isascii() and subject.isprintable() for subject in subjects)


def test_without_the_extra_the_pip_command_is_named() -> None:
    program = (
        "import sys; sys.modules['langgraph'] = None\n"
        "from standfast.errors import MissingExtra\n"
        "try:\n    import standfast.adapters.langgraph\n"
        "except MissingExtra as error:\n    print(error)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "pip install 'standfast[langgraph]'" in result.stdout


def test_forgetting_a_scope_or_an_item_reaches_the_times_at_which_items_expire() -> None:
    memory = Memory.open(":memory:")
    store = StandfastStore(memory)
    for key in ("a", "b"):
        store.put(("users", "ada"), key, {"text": f"Ada likes {key}."}, ttl=5)
    subjects = [record.memory_id for record in memory.records(scope="user/ada") if record.band == "LEDGER"]
    memory.forget(subjects[0], scope="user/ada", reason="asked for")

    assert [row.key for row in memory.store.scan(memory.namespace, prefix="ttl/")] == [
        f"ttl/user/ada//{subjects[1]}"
    ]
    memory.forget(scope="user/ada", reason="asked for")
    assert list(memory.store.scan(memory.namespace, prefix="ttl/")) == []
    held = memory.store.versions_by_key(memory.namespace, prefix="ttl/")
    assert [one for versions in held for one in versions if one.content is not None] == []


@pytest.mark.parametrize(
    "ref",
    [
        {"kind": "langgraph"},
        {"kind": "langgraph", "item": "no JSON"},
        {"kind": "langgraph", "item": '[["users"], "b", 7]'},
        {"kind": "langgraph", "item": '[["users"], "a", {"text": "forged"}]'},
        {"kind": "langgraph", "item": '[[7], {"a": 1}, {}]'},
        {"kind": "langgraph", "item": "[" * 9_000},
        {"kind": "langgraph", "item": '[["users"], "b", {}]', "created_at": "yesterday", "index": "[7]"},
    ],
)
def test_a_forged_ref_in_one_record_breaks_no_item(ref: dict[str, str]) -> None:
    memory = Memory.open(":memory:")
    store = StandfastStore(memory)
    store.put(("users",), "a", {"text": "Ada likes tea."})
    memory.remember("Bob likes coffee.", subject="langgraph/users/b", refs=[ref])
    memory.remember("Eve likes milk.", subject="other", refs=[ref])

    assert store.get(("users",), "a").value == {"text": "Ada likes tea."}  # type: ignore[union-attr]
    assert [item.key for item in store.search(("users",))] == ["a"]
    assert store.get(("users",), "b") is None
    store.put(("users",), "b", {"text": "Bob likes cocoa."})
    assert store.get(("users",), "b").value == {"text": "Bob likes cocoa."}  # type: ignore[union-attr]
