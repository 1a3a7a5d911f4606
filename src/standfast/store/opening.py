"""Opens the store at a path or a URL: a SQLite file, PostgreSQL, or memory."""

import os
from contextlib import suppress

from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import CannotOpen, InvalidValue, ReadOnlyStore
from standfast.side_files import SideFiles
from standfast.store.protocol import Storage
from standfast.store.store import Store


def open_store(
    url: str,
    *,
    create: bool,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    recover: bool = True,
    restored: bool = False,
    notes_head: bool = True,
) -> Store:
    """Open the store at a path or URL.

    Args:
        url: A file's path, ``postgresql://…``, or ``:memory:``.
        create: Whether to create a file that does not exist; otherwise that is ``CannotOpen``.
        clock: The system's, if None.
        ids: Random ones, if None.
        recover: Whether to finish what crashed workers left.
        restored: Whether it may be behind what it has acknowledged, because an older copy was put there.
        notes_head: Whether a head file is kept for a store on a server. A copy that is being made has none.
    """
    if not isinstance(url, str) or not url:
        raise InvalidValue(what="url", problem=f"it must be a path, a URL or ':memory:', not {url!r:.80}")
    if "://" in url and not _is_postgres(url):
        raise CannotOpen(store=url, problem="give the path of a file, or a URL of PostgreSQL: postgresql://…")
    clock, ids = clock or SystemClock(), ids or RandomIds()
    exists = url == ":memory:" or _is_postgres(url) or os.path.exists(url)  # noqa: PTH110  # A string from settings.
    if not (create or exists):
        problem = "there is no such store; check the path, or --store and STANDFAST_STORE"
        raise CannotOpen(store=url, problem=problem)
    storage = _storage_at(url, clock, ids, restored=restored, notes_head=notes_head)
    store = Store(storage, clock=clock, ids=ids)
    if recover:
        # What crashed workers left in a store that can only be read is finished where it can be written.
        with suppress(ReadOnlyStore):
            store.recover()
    return store


def is_file_url(url: str) -> bool:
    """Whether a URL is the path of a file."""
    return url != ":memory:" and "://" not in url


def _is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _storage_at(url: str, clock: Clock, ids: IdSource, *, restored: bool, notes_head: bool) -> Storage:
    if _is_postgres(url):
        from standfast.store.postgres import (  # noqa: PLC0415  # Only its users pay for its import.
            PostgresStorage,
        )

        files = SideFiles.of(url) if notes_head else None
        return PostgresStorage(url, clock=clock, ids=ids, files=files, restored=restored)
    if url == ":memory:":
        from standfast.store.in_memory import InMemoryStorage  # noqa: PLC0415  # As above.

        return InMemoryStorage(clock, ids.new_id())
    from standfast.store.sqlite import SQLiteStorage  # noqa: PLC0415  # As above.

    return SQLiteStorage(url, clock=clock, ids=ids, restored=restored)
