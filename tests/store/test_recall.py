"""``memory.read`` over snapshots of the store: the same packages on every backend, kept or read anew."""

from typing import Any

import pytest

from standfast.canon import canonical_bytes
from standfast.errors import NoSuchSnapshot
from standfast.recall.jsonl import JsonlSource, Source
from standfast.recall.memory_read import read
from standfast.recall.request import MemoryControllerInput
from standfast.recall.store_corpus import SnapshotSource, StoreCorpus
from standfast.store.commit import Write
from standfast.store.records import export_lines
from standfast.store.store import Store
from tests.recall.stores import written
from tests.store.builders import NAMESPACE, commit, expire, memory_store, merge, write

TEXTS = [
    "EU refunds take 14 days.",
    'A refund "in full" \\ or in part',
    "ZOLL über ΟΔΟΣ, İstanbul",
    "nothing of the kind",
    "",
]


def _record(key: str, number: int) -> dict[str, Any]:
    tags = [["eu"], ["refunds", "eu"], []][number % 3]
    stamp = {"ts_utc": f"2026-01-{1 + number % 28:02}T10:30:00Z"} if number % 4 else {}
    return {"memory_id": key, "text": f"{TEXTS[number % len(TEXTS)]} {number}", "tags": tags} | stamp


def _history() -> list[list[Write]]:
    """Commits that write, change, end and bring back, ids in and out of ASCII."""
    keys = [f"m{number:03}" for number in range(120)] + ["ü", "日本", "Z"]
    first = [write(key, _record(key, number)) for number, key in enumerate(keys)]
    return [
        first,
        [merge("m005", _record("m005", 500)), expire("m006"), expire("ü")],
        [write("m006", _record("m006", 600)), write("nachtrag", _record("nachtrag", 1))],
        [merge("nachtrag", {"note": "no record"}), write("void", {**_record("void", 0), "band": "VOID"})],
        [expire("nachtrag"), merge("日本", _record("日本", 1))],
    ]


REQUESTS: list[dict[str, Any]] = [
    {"query": "EU refunds", "budget": {"max_excerpt_tokens": 60}},
    {"query": "zoll über", "budget": {"max_excerpt_tokens": 400, "max_items": 3}, "dropped": "counts"},
    {
        "query": "nothing refund",
        "budget": {"max_excerpt_tokens": 90},
        "scoring": {"enable_recency_weight": True},
        "now_utc": "2026-02-01T00:00:00Z",
    },
]


def _packages(source: Source) -> list[bytes]:
    asked = [
        MemoryControllerInput.from_json(plain | {"store_paths": [source.store_path]}) for plain in REQUESTS
    ]
    return [canonical_bytes(read(request, lambda _: source).as_json()) for request in asked]


def _commit_all(store: Store) -> None:
    for number, writes in enumerate(_history()):
        store.commit(commit(f"run-{number}", *writes, at=number))


def test_what_is_kept_shows_every_snapshot_as_the_store_does(store: Store) -> None:
    corpus = StoreCorpus(store, NAMESPACE)
    for number, writes in enumerate(_history()):
        store.commit(commit(f"run-{number}", *writes, at=number))
        corpus.source()
    late = StoreCorpus(store, NAMESPACE)
    late.source()
    for snapshot in range(store.head() + 1):
        from_store = _packages(SnapshotSource(store, NAMESPACE, snapshot))

        assert _packages(corpus.source(snapshot)) == from_store
        assert _packages(late.source(snapshot)) == from_store


def test_every_backend_gives_the_packages_of_the_one_in_memory(store: Store) -> None:
    other = memory_store()
    _commit_all(store)
    _commit_all(other)

    for snapshot in range(store.head() + 1):
        assert _packages(StoreCorpus(store, NAMESPACE).source(snapshot)) == _packages(
            SnapshotSource(other, NAMESPACE, snapshot)
        )


def test_a_snapshot_and_its_export_give_the_same_selection(store: Store) -> None:
    for number, writes in enumerate(_history()[:3]):
        store.commit(commit(f"run-{number}", *writes, at=number))
    with written(b"".join(export_lines(store, NAMESPACE))) as (path,):
        from_file, from_store = (
            read(
                MemoryControllerInput.from_json(REQUESTS[0] | {"store_paths": [source.store_path]}),
                lambda _, source=source: source,  # type: ignore[misc]  # mypy knows no types of defaults in a lambda.
            ).selection
            for source in (JsonlSource(path), StoreCorpus(store, NAMESPACE).source())
        )

    assert [item.record_hash for item in from_file.selected] == [
        item.record_hash for item in from_store.selected
    ]
    assert len(from_file.dropped) == len(from_store.dropped)


def test_erasure_reaches_what_is_kept(store: Store) -> None:
    _commit_all(store)
    corpus = StoreCorpus(store, NAMESPACE)
    asked = MemoryControllerInput.from_json(
        {"query": "refunds", "budget": {"max_excerpt_tokens": 900}, "store_paths": [corpus.store_path]}
    )
    before = read(asked, lambda _: corpus.source())
    erased = before.selection.selected[0].memory_id
    store.commit(commit("run-erase", expire(erased, erases="gdpr"), at=store.head()))

    for snapshot in range(store.head() + 1):
        shown = read(asked, lambda _, at=snapshot: corpus.source(at))  # type: ignore[misc]  # As above.
        assert erased not in [item.memory_id for item in shown.selection.selected]
    assert erased in [item.memory_id for item in before.selection.selected]


def test_an_older_snapshot_than_is_kept_is_read_from_the_store(store: Store) -> None:
    _commit_all(store)
    corpus = StoreCorpus(store, NAMESPACE)
    corpus.source()

    assert isinstance(corpus.source(1), SnapshotSource)
    assert _packages(corpus.source(1)) == _packages(SnapshotSource(store, NAMESPACE, 1))
    with pytest.raises(NoSuchSnapshot):
        corpus.source(6)
