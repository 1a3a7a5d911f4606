"""Views of snapshots: what they read, and what reading costs."""

import pytest

from standfast.errors import NoSuchSnapshot
from standfast.memory import Memory
from standfast.memory.snapshot_view import SnapshotReader, SnapshotView
from standfast.recall.candidates import Candidate
from standfast.records.vocabulary import Band

SOURCE = {"kind": "doc", "id": "handbook#4"}


def _memory() -> Memory:
    memory = Memory.open(":memory:")
    for days in (14, 7):
        with memory.run(workflow="w", mode="buffered_write") as run:
            run.remember(f"EU refunds take {days} days.", subject="policy/eu-refunds", source=SOURCE)
    return memory


def test_a_recall_looks_up_the_head_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = _memory()
    memory.recall("refunds", tokens=50)
    heads: list[int] = []
    look_up = memory.store.head
    monkeypatch.setattr(memory.store, "head", lambda: heads.append(1) or look_up())  # type: ignore[func-returns-value]  # It counts.
    memory.recall("refunds", tokens=50)
    assert len(heads) == 1
    SnapshotView(memory.reader, 1).recall("refunds", tokens=50)
    assert len(heads) == 2


def test_history_ends_at_the_snapshot() -> None:
    memory = _memory()
    then, now = (memory.at(snapshot).history("policy/eu-refunds") for snapshot in (1, 2))

    assert {entry.memory_snapshot_id for entry in then} == {1}
    assert now == memory.history("policy/eu-refunds")
    assert len(now) > len(then)


def test_records_are_those_of_the_snapshot_and_band() -> None:
    memory = _memory()
    (then,) = memory.at(1).records(band=Band.LEDGER)

    assert then.text == "EU refunds take 14 days."
    assert memory.at(1).record_at("standfast:default/LEDGER", "policy/eu-refunds") == then
    assert memory.at(1).record_at("standfast:default/LEDGER", "unknown") is None
    assert list(memory.at(0).records()) == []


@pytest.mark.parametrize(("at", "text"), [(1, "EU refunds take 14 days."), (None, "EU refunds take 7 days.")])
def test_sources_show_a_snapshot_by_default_the_newest(at: int | None, text: str) -> None:
    (source,) = _memory().reader.sources([Band.LEDGER], at=at)
    (found,) = (one for batch in source.batches() for one in batch)

    assert isinstance(found, Candidate)
    assert found.text == text


def test_a_reader_needs_no_memory_and_hides_what_law_replaces() -> None:
    memory = _memory()
    law = [f"shared//{record.memory_id}" for record in memory.at(2).records(band=Band.LEDGER)]
    reader = SnapshotReader(memory.store, "default", law_at=lambda at: law if at == 2 else ())
    shown = [
        SnapshotView(reader, at).recall("refunds", tokens=50, controller="phase6-v1").items for at in (1, 2)
    ]

    assert [len(items) for items in shown] == [1, 0]
    assert (
        SnapshotView(reader, 2).recall("refunds", tokens=50, bands=["LEDGER"], controller="phase6-v1").items
        != ()
    )
    for snapshot in (-1, 3):
        with pytest.raises(NoSuchSnapshot):
            SnapshotView(reader, snapshot).recall("refunds", tokens=50)
