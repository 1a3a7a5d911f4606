"""Every verb in one life of a memory, on a store in memory and in a file."""

from pathlib import Path

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.store.sqlite.storage import SQLiteStorage
from standfast.store.store import Store
from tests.memory import story
from tests.store.builders import memory_store


@pytest.mark.parametrize("backend", ["in_memory", "sqlite"])
def test_the_same_calls_give_the_same_answers_and_write_the_same_rows(backend: str, tmp_path: Path) -> None:
    clock = ManualClock()
    store = memory_store(clock)
    if backend == "sqlite":
        storage = SQLiteStorage(str(tmp_path / "store.db"), clock=clock, ids=CountedIds())
        store = Store(storage, clock=clock, ids=CountedIds(), any_rows=True)
    expected = story.FILE.read_text(encoding="utf-8")
    found = story.lines(store, clock, tmp_path / "recalls")
    store.close()

    assert found.splitlines() == expected.splitlines(), "if this is meant, run: python -m tests.memory.story"
