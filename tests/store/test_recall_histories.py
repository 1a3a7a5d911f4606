"""Random histories with forgetting and two writers at once: the same packages on every backend, warm and
cold, with and without the index.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from standfast import Memory, RecallPackage, StaticEmbedder
from standfast.clock import ManualClock
from standfast.store.store import Store
from tests.recall.histories import (
    apply_writes,
    histories,
    indexed_answer,
    plain_answer,
    questions,
    shrink_segments,
)
from tests.store.builders import commit, memory_store, postgres_store, sqlite_store, write

EXAMPLES = max(4, settings().max_examples // 20)
_EMPTY: dict[str, Any] = {
    "name": "a",
    "scope": "shared",
    "band": "LEDGER",
    "words": [],
    "position": None,
    "tag": "eu",
    "plan": 1,
    "act": "write",
}
ONE_NAME_TWICE = ((0, [_EMPTY, {**_EMPTY, "words": ["refunds"], "position": 0}]),)
REFUNDS: dict[str, Any] = {
    "query": "refunds in Berlin",
    "scopes": ["shared"],
    "bands": ("LEDGER",),
    "where": {},
}


def _followed(stores: list[Store], namespace: str, history: Any, question: Any) -> list[Memory]:
    """Commit a history by turns through stores that share a place, with a recall of each before the next
    commit.
    """
    memories = [Memory(store, namespace=namespace, embedder=StaticEmbedder()) for store in stores]
    for number, (turn, writes) in enumerate(history):
        run_id = f"{namespace}-{number}"
        apply_writes(stores[turn], number, writes, namespace=namespace, run_id=run_id)
        memories[turn].reader.after_commit(stores[turn].head())
        indexed_answer(memories[1 - turn], stores[turn].head(), question)
    return memories


def _level(places: list[list[Store]]) -> None:
    """Bring all stores to one snapshot, whose number is part of a score.

    They differ if an example failed in one of them.
    """
    head = max(stores[0].head() for stores in places)
    for stores in places:
        for number in range(stores[0].head(), head):
            stores[0].commit(commit(f"level-{number}", write(f"level-{number}"), at=number))


def _packages(memory: Memory, snapshots: list[int], question: Any) -> list[RecallPackage]:
    return [
        indexed_answer(memory, at, question, controller)
        for at in snapshots
        for controller in ("lexical-v1", "hybrid-v1")
    ]


@pytest.fixture
def places(tmp_path: Path, postgres_store_url: str) -> Iterator[list[list[Store]]]:
    """Two openings of a store in memory, in a file and on a server.

    All that is done is done to each of them.
    """
    clocks = [ManualClock() for _ in range(3)]
    in_memory = memory_store(clocks[0])
    path = tmp_path / "store.db"
    opened = [
        [in_memory, in_memory],
        [sqlite_store(path, clocks[1]), sqlite_store(path, clocks[1])],
        [postgres_store(postgres_store_url, clocks[2]), postgres_store(postgres_store_url, clocks[2])],
    ]
    yield opened
    for stores in opened:
        for store in stores:
            store.close()


def test_every_backend_gives_the_same_packages_for_any_history(
    places: list[list[Store]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_segments(monkeypatch)
    names = count()

    @given(
        history=histories.flatmap(lambda commits: st.tuples(*(_turns(one) for one in commits))),
        question=questions,
    )
    @example(history=ONE_NAME_TWICE, question=REFUNDS)
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    def check(history: Any, question: Any) -> None:
        namespace = f"history-{next(names)}"
        _level(places)
        found = []
        for stores in places:
            before = stores[0].head()
            memories = _followed(stores, namespace, history, question)
            head = stores[0].head()
            snapshots = sorted({head, (before + head) // 2, before + 1} & set(range(head + 1)))
            cold = Memory(stores[0], namespace=namespace, embedder=StaticEmbedder())
            found += [_packages(memory, snapshots, question) for memory in (*memories, cold)]
            stores[0].segments.drop([one.segment_id for one in stores[0].segments.heads(namespace)])
            unindexed = Memory(stores[0], namespace=namespace, embedder=StaticEmbedder(), ceiling="read_only")
            found.append(_packages(unindexed, snapshots, question))
            plain = [plain_answer(stores[0], at, question, namespace) for at in snapshots]

            assert [(one.items, one.matched) for one in plain] == [
                (one.items, one.matched) for one in found[-1][::2]
            ]
        assert all(one == found[0] for one in found)

    check()


def _turns(writes: list[dict[str, Any]]) -> st.SearchStrategy[tuple[int, list[dict[str, Any]]]]:
    """Which of two writers commits."""
    return st.tuples(st.integers(0, 1), st.just(writes))
