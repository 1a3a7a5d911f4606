"""Opens the store at a path or a URL: a SQLite file, PostgreSQL, or memory."""

import os
from contextlib import suppress

from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import CannotOpen, InvalidValue, ReadOnlyStore
from standfast.side_files import SideFiles
from standfast.store.protocol import Storage
from standfast.store.store import Store


def checked_url(url: str | os.PathLike[str]) -> str:
    """The URL of a store, or the path of its file, as a text; ``InvalidValue`` for anything else."""
    text = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(text, str) or not text:
        raise InvalidValue(what="url", problem=f"it must be a path, a URL or ':memory:', not {url!r:.80}")
    return text


def require_open(store: Store) -> Store:
    """The store; ``InvalidValue`` for a path or URL, which is to be opened first."""
    if isinstance(store, str | os.PathLike):
        problem = f"it must be open; to open a path or a URL, call Memory.open({os.fspath(store)!r:.80})"
        raise InvalidValue(what="store", problem=problem)
    return store


def open_store(
    url: str | os.PathLike[str],
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
    url = checked_url(url)
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
