"""``memory.read`` over snapshots of the store: the same packages on every backend, and those of the same
lines in a file.
"""

from typing import Any

import pytest

from standfast.errors import NoSuchSnapshot
from standfast.recall.index.store_index import band_sources
from standfast.recall.jsonl import JsonlSource
from standfast.recall.package import ContextPackage
from standfast.recall.phase6 import read
from standfast.recall.request import MemoryControllerInput
from standfast.records.vocabulary import Band
from standfast.store.commit import Write
from standfast.store.store import Store
from standfast.store.stored_records import record_line
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


def _write(key: str, content: object) -> Write:
    return write(f"LEDGER/shared//{key}", content)


def _merge(key: str, content: object) -> Write:
    return merge(f"LEDGER/shared//{key}", content)


def _expire(key: str, *, erases: str | None = None) -> Write:
    return expire(f"LEDGER/shared//{key}", erases=erases)


def _history() -> list[list[Write]]:
    """Commits that write, change, end and bring back, ids in and out of ASCII."""
    keys = [f"m{number:03}" for number in range(120)] + ["ü", "日本", "Z"]
    first = [_write(key, _record(key, number)) for number, key in enumerate(keys)]
    return [
        first,
        [_merge("m005", _record("m005", 500)), _expire("m006"), _expire("ü")],
        [_write("m006", _record("m006", 600)), _write("nachtrag", _record("nachtrag", 1))],
        [_merge("nachtrag", {"note": "no record"}), _write("void", {**_record("void", 0), "band": "VOID"})],
        [_expire("nachtrag"), _merge("日本", _record("日本", 1))],
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


def _packages(store: Store, at: int | None = None) -> list[ContextPackage]:
    (source,) = band_sources(store, NAMESPACE, Band.LEDGER, at=at)
    asked = [
        MemoryControllerInput.from_json(plain | {"store_paths": [source.store_path]}) for plain in REQUESTS
    ]
    return [read(request, lambda _: source) for request in asked]


def _commit_all(store: Store) -> None:
    for number, writes in enumerate(_history()):
        store.commit(commit(f"run-{number}", *writes, at=number))


def test_every_backend_gives_the_packages_of_the_one_in_memory(store: Store) -> None:
    other = memory_store()
    _commit_all(store)
    _commit_all(other)

    for snapshot in range(store.head() + 1):
        assert _packages(store, snapshot) == _packages(other, snapshot)


def test_a_snapshot_gives_the_same_packages_today_and_later(store: Store) -> None:
    seen = []
    for number, writes in enumerate(_history()):
        store.commit(commit(f"run-{number}", *writes, at=number))
        seen.append(_packages(store))

    assert [_packages(store, snapshot) for snapshot in range(1, store.head() + 1)] == seen


def test_a_snapshot_and_its_lines_in_a_file_give_the_same_selection(store: Store) -> None:
    _commit_all(store)
    for snapshot in range(1, store.head() + 1):
        lines = [record_line(one) for one in store.scan(NAMESPACE, prefix="LEDGER/", at=snapshot)]
        shown = [line for line in lines if b'"band":"VOID"' not in line]
        with written(b"\n".join(shown) + b"\n") as (path,):
            asked = MemoryControllerInput.from_json(REQUESTS[0] | {"store_paths": [path]})
            from_file = read(asked, JsonlSource).selection
        from_store = _packages(store, snapshot)[0].selection

        assert [item.record_hash for item in from_file.selected] == [
            item.record_hash for item in from_store.selected
        ]
        assert len(from_file.dropped) == len(from_store.dropped)


def test_erasure_reaches_every_snapshot(store: Store) -> None:
    _commit_all(store)
    before = _packages(store)[0]
    erased = before.items[0].memory_id
    store.commit(commit("run-erase", _expire(erased, erases="gdpr"), at=store.head()))

    for snapshot in range(store.head() + 1):
        assert erased not in [item.memory_id for item in _packages(store, snapshot)[0].items]


def test_a_snapshot_that_was_never_committed_is_refused(store: Store) -> None:
    with pytest.raises(NoSuchSnapshot):
        band_sources(store, NAMESPACE, Band.LEDGER, at=1)
