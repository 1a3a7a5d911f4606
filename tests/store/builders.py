"""Short ways to build what the store's tests are full of."""

import base64
from collections.abc import Iterable
from typing import Any

from standfast.clock import Clock, CountedIds, IdSource, ManualClock, seeded
from standfast.records.vocabulary import ActionType
from standfast.store.commit import Commit, Fact, RecordVector, Write
from standfast.store.in_memory import InMemoryStorage
from standfast.store.protocol import checksummed
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store

NAMESPACE = "tests"


def write(key: str, value: object = "x") -> Write:
    """A new record."""
    return Write.of(NAMESPACE, key, ActionType.WRITE, value)


def merge(key: str, value: object = "x", *, erases: str | None = None) -> Write:
    """A new version of a record."""
    return Write.of(NAMESPACE, key, ActionType.MERGE, value, erases=erases)


def expire(key: str, *, erases: str | None = None) -> Write:
    """The end of a record."""
    return Write.of(NAMESPACE, key, ActionType.EXPIRE, erases=erases)


def erase(key: str, *, until: int, reason: str = "asked for") -> Write:
    """The erasure of a record's versions up to a snapshot."""
    return Write.erasing(NAMESPACE, key, until=until, reason=reason)


def commit(run_id: str, *writes: Write, at: int = 0, facts: Iterable[Fact] = ()) -> Commit:
    """The commit of a run that started at snapshot ``at``."""
    return Commit.of(
        run_id=run_id, memory_snapshot_id=at, policy_set_id="policies", writes=writes, facts=facts
    )


def vector(key: str, number: int, *, of_snapshot: int | None = None) -> RecordVector:
    """A vector of a record that the same commit writes, or of an older version."""
    content = checksummed(bytes([number]) * 8)
    return RecordVector(
        namespace=NAMESPACE, key=key, embedder="tests/1", content=content, of_snapshot=of_snapshot
    )


def with_vectors(run_id: str, *writes: Write, vectors: list[RecordVector], at: int = 0) -> Commit:
    """A commit with vectors."""
    return Commit.of(
        run_id=run_id, memory_snapshot_id=at, policy_set_id="policies", writes=writes, vectors=vectors
    )


def noise(chars: int) -> str:
    """A text that hardly gets shorter when it is compressed, the same one for the same length."""
    return base64.b85encode(seeded(chars).randbytes(chars)).decode()[:chars]


def memory_store(clock: Clock | None = None) -> Store:
    """A store that lives as long as the test."""
    clock = clock or ManualClock()
    return Store(InMemoryStorage(clock), clock=clock, ids=CountedIds(), any_rows=True)


def sqlite_store(path: object, clock: Clock | None = None, ids: IdSource | None = None) -> Store:
    """A store in a file."""
    clock, ids = clock or ManualClock(), ids or CountedIds()
    return Store(SQLiteStorage(str(path), clock=clock, ids=ids), clock=clock, ids=ids, any_rows=True)


def postgres_store(url: str, clock: Clock | None = None, ids: IdSource | None = None) -> Store:
    """A store on a server."""
    from standfast.store.postgres import PostgresStorage

    clock, ids = clock or ManualClock(), ids or CountedIds()
    return Store(PostgresStorage(url, clock=clock, ids=ids), clock=clock, ids=ids, any_rows=True)


def contents(store: Store, at: int | None = None) -> dict[str, Any]:
    """What a snapshot shows, as plain text by key."""
    return {version.key: (version.content or b"").decode() for version in store.scan(NAMESPACE, at=at)}
