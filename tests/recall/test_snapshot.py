"""Snapshots of Standfast's own store as sources, read anew and kept."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import NoSuchSnapshot
from standfast.recall.jsonl import JsonlSource, Source
from standfast.recall.memory_read import read
from standfast.recall.request import MemoryControllerInput
from standfast.recall.store_corpus import SnapshotSource, StoreCorpus
from standfast.store.records import export_lines
from standfast.store.store import Store
from standfast.vocabulary import Budget
from tests.recall.stores import FEW, requests, written
from tests.store.builders import NAMESPACE, commit, expire, memory_store, merge, sqlite_store, write

CONTENTS: list[Any] = [
    {"text": "Refund rules for the EU."},
    {"text": "refund", "tags": ["eu", "refund"], "ts_utc": "2026-01-15T10:30:00Z"},
    {"text": "ZOLL über ΟΔΟΣ", "ts_utc": "2026-01-14"},
    {"text": "diagnostic refund", "band": "VOID"},
    {"text": "x", "tags": 5},
    {"note": "no record, but a refund"},
    "a bare refund",
]
steps = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["k1", "k2", "k3", "ü"]), st.sampled_from([*range(len(CONTENTS)), None])),
        min_size=1,
        max_size=3,
        unique_by=lambda change: change[0],
    ),
    min_size=1,
    max_size=6,
)


def _content(key: str, number: int) -> Any:
    content = CONTENTS[number]
    return {"memory_id": key} | content if isinstance(content, dict) and "text" in content else content


def _apply(store: Store, changes: list[tuple[str, int | None]]) -> None:
    """Commit what these changes mean in the present state, if they mean anything."""
    present = store.read(NAMESPACE, [key for key, _ in changes])
    writes = []
    for key, number in changes:
        if number is not None:
            writes.append((merge if key in present else write)(key, _content(key, number)))
        elif key in present:
            writes.append(expire(key))
    if writes:
        store.commit(commit(f"run-{store.head()}", *writes, at=store.head()))


def _selection(request: dict[str, Any], source: Source) -> Any:
    asked = MemoryControllerInput.from_json(request | {"store_paths": [source.store_path]})
    package = read(asked, lambda _: source).as_json()
    for part in package["selection"].values():
        for item in part if isinstance(part, list) else []:
            del item["store_path"]
    return package["selection"]


@FEW
@given(steps, requests())
def test_what_is_kept_shows_every_snapshot_as_the_store_does(
    history: list[list[tuple[str, int | None]]], request: dict[str, Any]
) -> None:
    store = memory_store()
    corpus = StoreCorpus(store, NAMESPACE)
    for changes in history:
        _apply(store, changes)
        corpus.source()
    for snapshot in range(store.head() + 1):
        from_store = _selection(request, SnapshotSource(store, NAMESPACE, snapshot))

        assert _selection(request, corpus.source(snapshot)) == from_store


@FEW
@given(steps, requests())
def test_a_snapshot_and_its_export_give_the_same_selection(
    history: list[list[tuple[str, int | None]]], request: dict[str, Any]
) -> None:
    store = memory_store()
    for changes in history:
        _apply(store, [change for change in changes if change[1] != 3])
    with written(b"".join(export_lines(store, NAMESPACE))) as (path,):
        from_file = _selection(request, JsonlSource(path))

        assert _selection(request, SnapshotSource(store, NAMESPACE, store.head())) == from_file


def test_a_snapshot_gives_the_same_package_today_and_later(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path / "agent.db")
    store.commit(commit("run-1", write("m1", {"memory_id": "m1", "text": "EU refunds take 14 days."})))
    corpus = StoreCorpus(store, NAMESPACE)
    asked = MemoryControllerInput(
        query="eu refunds", store_paths=(corpus.store_path,), budget=Budget(max_excerpt_tokens=50)
    )
    then = read(asked, lambda _: corpus.source(1))
    store.commit(commit("run-2", merge("m1", {"memory_id": "m1", "text": "EU refunds take 30 days."}), at=1))

    assert read(asked, lambda _: corpus.source(1)) == then
    assert read(asked, lambda _: SnapshotSource(store, NAMESPACE, 1)) == then
    assert "30 days" in read(asked, lambda _: corpus.source()).text
    store.close()


def test_a_long_history_is_followed_commit_by_commit() -> None:
    store = memory_store()
    corpus = StoreCorpus(store, NAMESPACE)
    corpus.source()
    for number in range(60):
        writes = [write(f"m{number}", {"memory_id": f"m{number}", "text": "refund " * 500})]
        if number % 3 == 2:
            writes.append(expire(f"m{number - 1}"))
        store.commit(commit(f"run-{number}", *writes, at=store.head()))
        corpus.source()
    request = {"query": "refund", "budget": {"max_excerpt_tokens": 9, "max_items": 1}}

    assert _selection(request, corpus.source()) == _selection(
        request, SnapshotSource(store, NAMESPACE, store.head())
    )


def test_a_snapshot_that_was_never_committed_is_refused() -> None:
    with pytest.raises(NoSuchSnapshot):
        StoreCorpus(memory_store(), NAMESPACE).source(1)
