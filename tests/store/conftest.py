"""The same store over each backend: a test that asks for ``store`` runs once for every one of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.store.store import Store
from tests.store.builders import memory_store, sqlite_store

Opener = Callable[[], Store]


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the stores under test, where the backend takes one."""
    return ManualClock()


@pytest.fixture(params=["in_memory", "sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend."""
    name: str = request.param
    return name


@pytest.fixture
def opener(backend: str, clock: ManualClock, tmp_path: Path) -> Iterator[Opener]:
    """Opens the same store again and again, as restarts and other processes do."""
    opened: list[Store] = []

    def open_store() -> Store:
        if backend == "in_memory":
            store = opened[0] if opened else memory_store(clock)
        else:
            store = sqlite_store(tmp_path / "store.db", clock)
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> Store:
    """A new, empty store."""
    return opener()
