"""Opening a store by its path or URL: the only module that names the three backends, each loaded when it is asked for."""

import os

from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import CannotOpen
from standfast.store.protocol import Storage
from standfast.store.store import Store


def open_store(
    url: str, *, create: bool, clock: Clock | None = None, ids: IdSource | None = None, recover: bool = True
) -> Store:
    """The store at a path or URL. One that is not there is made only where ``create`` says so.

    What dead owners left is finished on the way in.
    """
    clock, ids = clock or SystemClock(), ids or RandomIds()
    if not create and not _exists(url):
        raise CannotOpen(
            store=url, problem="there is no such store; check the path, or --store and STANDFAST_STORE"
        )
    store = Store(_storage(url, clock, ids), clock=clock, ids=ids)
    if recover:
        store.recover()
    return store


def _exists(url: str) -> bool:
    return url == ":memory:" or _is_postgres(url) or os.path.exists(url)  # noqa: PTH110  # A string from settings.


def _is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _storage(url: str, clock: Clock, ids: IdSource) -> Storage:
    if _is_postgres(url):
        from standfast.store.postgres import PostgresStorage  # noqa: PLC0415  # Only its users pay for it.

        return PostgresStorage(url, clock=clock, ids=ids)
    if url == ":memory:":
        from standfast.store.in_memory import InMemoryStorage  # noqa: PLC0415  # As above.

        return InMemoryStorage(clock)
    from standfast.store.sqlite import SQLiteStorage  # noqa: PLC0415  # As above.

    return SQLiteStorage(url, clock=clock, ids=ids)
