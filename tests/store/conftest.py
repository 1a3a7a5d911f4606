"""The same store over each backend: a test that asks for ``store`` runs once for every one of them."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from standfast.clock import ManualClock
from standfast.store.store import Store
from tests.store.builders import memory_store, postgres_store, sqlite_store

Opener = Callable[[], Store]
Ager = Callable[[float], None]


@pytest.fixture
def ram_folder() -> Iterator[Path]:
    """An empty folder whose syncs cost nothing, where the system has one."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="standfast-", dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the stores under test, where the backend takes one."""
    return ManualClock()


@pytest.fixture(params=["in_memory", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend."""
    name: str = request.param
    return name


@pytest.fixture
def place(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where the store is: a path or a URL. The server starts only for the tests that need it."""
    if backend == "postgres":
        url: str = request.getfixturevalue("postgres_store_url")
        return url
    return str(tmp_path / "store.db")


@pytest.fixture
def opener(backend: str, clock: ManualClock, place: str) -> Iterator[Opener]:
    """Opens the same store again and again, as restarts and other processes do."""
    opened: list[Store] = []

    def open_store() -> Store:
        if backend == "in_memory":
            store = opened[0] if opened else memory_store(clock)
        elif backend == "sqlite":
            store = sqlite_store(place, clock)
        else:
            store = postgres_store(place, clock)
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> Store:
    """A new, empty store."""
    return opener()


@pytest.fixture
def age_leases(backend: str, clock: ManualClock, place: str) -> Ager:
    """Lets that many seconds pass for every lease: by the clock, or where it is the server's, by moving the
    leases.
    """

    def age(seconds: float) -> None:
        if backend == "postgres":
            import psycopg

            with psycopg.connect(place) as connection:
                connection.execute("UPDATE standfast.buffers SET lease_until = lease_until - %s", [seconds])
        elif seconds < 0:
            clock.set_wall(clock.now() + timedelta(seconds=seconds))
        else:
            clock.advance(seconds)

    return age
