"""Temporary rows, over every backend."""

import msgspec
import pytest

from standfast.store.protocol import TemporaryRow
from standfast.store.store import Store
from tests.store.builders import commit, memory_store, write
from tests.store.conftest import Opener


def row(
    row_id: str = "a", version: int = 1, content: bytes = b"x", keep_seconds: float = 60.0
) -> TemporaryRow:
    return TemporaryRow(
        kind="run", row_id=row_id, version=version, content=content, keep_seconds=keep_seconds
    )


def test_a_row_is_read_back_by_every_process(opener: Opener) -> None:
    first, second = opener(), opener()

    assert first.temporary.put(row(content=b"\x00\xff"), replaces=None)
    assert second.temporary.get("run", "a") == row(content=b"\x00\xff")
    assert second.temporary.get("session", "a") is None
    assert second.temporary.get("run", "b") is None


def test_only_the_version_that_is_there_can_be_replaced(opener: Opener) -> None:
    first, second = opener().temporary, opener().temporary

    assert first.put(row(), replaces=None)
    assert not second.put(row(content=b"again"), replaces=None)
    assert not second.put(row(version=3), replaces=2)
    assert second.put(row(version=2, content=b"y"), replaces=1)
    assert not first.put(row(version=2, content=b"late"), replaces=1)
    assert first.get("run", "a") == row(version=2, content=b"y")
    assert not first.put(row("b", version=2), replaces=1)


def test_rows_are_written_together_or_not_at_all(store: Store) -> None:
    rows = store.temporary
    assert rows.put(row(), replaces=None, extra=[row("a/1"), row("a/2")])
    assert not rows.put(row(), replaces=None, extra=[row("a/3")])
    assert rows.put(row(version=2), replaces=1, extra=[row("a/2", content=b"new"), row("a/4")])

    assert [one.row_id for one in rows.scan("run", "a/", limit=9)] == ["a/1", "a/2", "a/4"]
    assert rows.get("run", "a/2") == row("a/2", content=b"new")


def test_rows_are_listed_by_prefix_in_order_and_in_pages(store: Store) -> None:
    rows = store.temporary
    for row_id in ("b/2", "a/1", "b/10", "b", "c/1"):
        rows.put(row(row_id), replaces=None)

    assert [one.row_id for one in rows.scan("run", "b/", limit=9)] == ["b/10", "b/2"]
    assert [one.row_id for one in rows.scan("run", "", after="b", limit=2)] == ["b/10", "b/2"]
    assert rows.scan("session", "", limit=9) == []
    rows.remove("run", "b/")
    assert [one.row_id for one in rows.scan("run", "", limit=9)] == ["a/1", "b", "c/1"]


@pytest.mark.parametrize("keep_seconds", [-1.0, 0.0])
def test_a_row_whose_time_is_over_is_as_good_as_removed(store: Store, keep_seconds: float) -> None:
    rows = store.temporary
    over = row(keep_seconds=keep_seconds)
    rows.put(over, replaces=None)
    rows.put(row("lives"), replaces=None)

    assert rows.get("run", "a") is None
    assert [one.row_id for one in rows.scan("run", "", limit=9)] == ["lives"]
    assert not rows.put(row(version=2), replaces=1)
    assert rows.put(msgspec.structs.replace(over, version=7), replaces=None)
    assert rows.expire() == 1
    assert rows.expire() == 0
    assert rows.get("run", "lives") == row("lives")


def test_they_are_no_part_of_snapshots_ledger_or_backups(store: Store) -> None:
    store.commit(commit("r1", write("a")))
    entries = list(store.entries())
    store.temporary.put(row(), replaces=None)
    copy = memory_store()
    store.backup_to(copy)

    assert list(store.entries()) == entries
    assert store.head() == 1
    assert list(store.verify()) == []
    assert copy.temporary.get("run", "a") is None
