"""Searching, filters and expiry of the LangGraph store."""

import json
from datetime import timedelta
from typing import Any

import pytest
from langgraph.store.base import PutOp

from standfast.adapters.langgraph import StandfastStore
from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.memory import Memory

DOCS = ("docs",)


def letters(texts: list[str]) -> list[list[float]]:
    """An embedding: how often each letter stands in a text."""
    return [[float(text.count(chr(letter))) for letter in range(ord("a"), ord("z") + 1)] for text in texts]


def new_store(**options: Any) -> tuple[StandfastStore, ManualClock]:
    """A store in memory, and its clock."""
    clock = ManualClock()
    return StandfastStore(Memory.open(":memory:", clock=clock, ids=CountedIds()), **options), clock


def found(store: StandfastStore, query: str) -> list[tuple[str, bool]]:
    """The keys that a search finds, best first, and whether each has a score."""
    return [(one.key, one.score is not None) for one in store.search(DOCS, query=query)]


def test_words_rank_without_embeddings() -> None:
    store, _ = new_store()
    store.put(DOCS, "tea", {"text": "Ada drinks green tea every morning."})
    store.put(DOCS, "bus", {"text": "The bus to Oslo leaves at nine."})

    assert found(store, "When does the bus leave?") == [("bus", True), ("tea", True)]


def test_the_memory_s_embedder_finds_what_shares_no_word() -> None:
    found_by = {}
    for embedder in ("none", "static"):
        store = StandfastStore(Memory.open(":memory:", embedder=embedder))
        store.put(DOCS, "bus", {"text": "The bus to Oslo leaves at nine."})
        store.put(DOCS, "pet", {"text": "Ada adopted a kitten."})
        found_by[embedder] = found(store, "cats")

    assert found_by["static"] == [("pet", True), ("bus", True)]
    assert found_by["none"][0] == ("pet", True), "a cat is like a kitten by the table too"


def test_only_indexed_fields_are_found() -> None:
    store, _ = new_store(index={"fields": ["title", "notes[*].body"]})
    value = {
        "title": "Tea",
        "secret": "harbour",
        "notes": [{"body": "green leaves"}, {"body": "black leaves"}],
    }
    store.put(DOCS, "a", value)
    store.put(DOCS, "b", {"title": "Bus", "secret": "harbour"}, index=["secret"])
    store.put(DOCS, "c", {"title": "Tea harbour"}, index=False)

    assert found(store, "harbour")[0] == ("b", True)
    assert [scored for key, scored in found(store, "harbour") if key != "b"] == [False, False]
    assert found(store, "black")[0] == ("a", True)
    assert found(store, "tea")[0] == ("a", True)


def test_embeddings_rank_by_the_best_field() -> None:
    store, _ = new_store(index={"dims": 26, "embed": letters, "fields": ["x", "y"]})
    store.put(DOCS, "a", {"x": "aaa", "y": "bbb", "z": "ccc"})
    store.put(DOCS, "b", {"x": "bbb", "y": "ddd"})
    store.put(DOCS, "c", {"x": "ccc"}, index=["z"])
    best, second, *_ = store.search(DOCS, query="ddd")
    both = store.search(DOCS, query="bbb")[:2]

    assert best.key == "b"
    assert best.score == pytest.approx(1.0)
    assert second.score == pytest.approx(0.0)
    assert [one.key for one in both] == ["a", "b"]
    assert both[0].score == both[1].score
    assert found(store, "ccc")[-1] == ("c", False)


def test_vectors_of_the_wrong_size_are_refused() -> None:
    store, _ = new_store(index={"dims": 3, "embed": letters})
    store.put(DOCS, "a", {"x": "aaa"})

    with pytest.raises(InvalidValue, match="3 numbers"):
        store.search(DOCS, query="a")


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"deep.size": {"$gte": 2}}, ["b"]),
        ({"deep.size": 1}, ["a"]),
        ({"deep.colour.name": "red"}, []),
        ({"dotted.name": "own"}, ["c"]),
        ({"deep": {"size": {"$lt": 2}}}, ["a"]),
        ({"deep.size": {"$ne": 1}}, ["b", "c"]),
    ],
)
def test_filters_take_operators_and_dotted_paths(wanted: dict[str, Any], keys: list[str]) -> None:
    store, _ = new_store()
    store.put(DOCS, "a", {"deep": {"size": 1, "colour": "red"}})
    store.put(DOCS, "b", {"deep": {"size": 2}})
    store.put(DOCS, "c", {"dotted.name": "own"})

    assert [one.key for one in store.search(DOCS, filter=wanted)] == keys


def test_items_expire_and_are_swept() -> None:
    store, clock = new_store(ttl={"default_ttl": 10})
    store.put(DOCS, "short", {"text": "Kept for a minute."}, ttl=1)
    store.put(DOCS, "default", {"text": "Kept for ten."})
    store.put(DOCS, "ever", {"text": "Kept for ever."}, ttl=None)
    clock.advance(timedelta(minutes=2).total_seconds())
    shown = [one.key for one in store.search(DOCS)]
    swept = store.sweep_ttl()

    assert shown == ["default", "ever"]
    assert store.get(DOCS, "short") is None
    assert swept == 1
    assert store.sweep_ttl() == 0
    assert store.memory.history("langgraph/docs/short")[-1].record is None
    clock.advance(timedelta(minutes=20).total_seconds())
    assert store.list_namespaces() == [DOCS]
    assert [one.key for one in store.search(DOCS)] == ["ever"]
    assert list(store.memory.verify()) == []


def test_reading_and_putting_again_move_the_end() -> None:
    store, clock = new_store(ttl={"default_ttl": 10, "refresh_on_read": True})
    store.put(DOCS, "read", {"text": "Read now and then."})
    store.put(DOCS, "put", {"text": "Put again."})
    store.put(DOCS, "unread", {"text": "Never read."})
    clock.advance(6 * 60)
    store.get(DOCS, "read")
    store.get(DOCS, "unread", refresh_ttl=False)
    store.put(DOCS, "put", {"text": "Put again."})
    clock.advance(6 * 60)

    assert [one.key for one in store.search(DOCS, refresh_ttl=False)] == ["put", "read"]
    store.put(DOCS, "put", {"text": "Put again."}, ttl=None)
    clock.advance(60 * 60)
    assert [one.key for one in store.search(DOCS)] == ["put"]


def test_an_item_that_is_put_again_after_it_expired_is_new() -> None:
    store, clock = new_store()
    store.put(DOCS, "a", {"v": "old"}, ttl=1)
    clock.advance(120)
    store.put(DOCS, "a", {"v": "new"})
    item = store.get(DOCS, "a")

    assert item is not None
    assert (item.value, item.created_at) == ({"v": "new"}, item.updated_at)


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e12])
def test_a_ttl_that_is_no_time_is_refused(ttl: float) -> None:
    store, _ = new_store()

    with pytest.raises(InvalidValue, match="minutes"):
        store.batch([PutOp(DOCS, "a", {"v": "x"}, ttl=ttl)])
    assert store.get(DOCS, "a") is None


@pytest.mark.parametrize(
    "item",
    [
        "not json",
        "[]",
        json.dumps([["docs"], "other", {"v": 1}]),
        json.dumps([["docs"], "forged", "no object"]),
        json.dumps([[1], "forged", {}]),
        json.dumps(["docs", "forged", {}]),
        "[" * 2000,
    ],
)
def test_a_forged_ref_does_not_break_the_store(item: str) -> None:
    store, _ = new_store()
    store.put(DOCS, "good", {"text": "Still here."})
    for ref in ({"kind": "langgraph", "item": item}, {"kind": "langgraph"}, {"kind": "langgraph", "item": 1}):
        store.memory.remember("A forged record.", subject="langgraph/docs/forged", refs=[ref])

        assert [one.key for one in store.search(DOCS)] == ["good"]
        assert store.get(DOCS, "forged") is None
        assert store.list_namespaces() == [DOCS]
    store.put(DOCS, "forged", {"text": "A real one now."})
    assert [one.key for one in store.search(DOCS)] == ["forged", "good"]
