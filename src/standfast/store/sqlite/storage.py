"""The SQLite backend: one file, one writer at a time, readers that never wait."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple, Self

import apsw
from msgspec.structs import astuple

from standfast.clock import Clock, IdSource
from standfast.errors import Corruption, OutcomeUnknown, ReadOnlyStore, StoreBusy, StoreFailed
from standfast.ledger.chain import Branch, Entry, Tip
from standfast.limits import LEASE_SECONDS, MAX_CLOCK_SKEW_SECONDS
from standfast.side_files import SideFiles
from standfast.store.compression import (
    applied_of,
    buffer_of,
    entry_of,
    references_to,
    row_of_applied,
    row_of_entry,
    second_key,
)
from standfast.store.head_file import HeadFile, is_left_behind, lost_entry
from standfast.store.protocol import (
    AppliedCommit,
    Changes,
    Erasure,
    StateQuery,
    StateView,
    Vector,
    VectorQuery,
    Version,
    VersionQuery,
)
from standfast.store.sqlite import schema
from standfast.store.sqlite.file import (
    check_unchanging,
    close_quietly,
    close_untouched,
    is_read_only,
    open_reader,
    open_writer,
    translate,
    translated,
)
from standfast.store.sqlite.unversioned import SQLiteSegments, SQLiteTemporaryRows

_FEW_ROWS: Final = 4


@cache
def _inserting(sql: str, rows: int) -> str:
    """The statement that inserts so many rows, from the one that inserts one."""
    _, _, row = sql.rpartition(" VALUES ")
    return ", ".join([sql, *[row] * (rows - 1)])


class _Ends(NamedTuple):
    """The ends of the append-only tables, and whether there are buffers, as of one state of the file."""

    head: int
    tip: Tip
    has_buffers: bool


class SQLiteStorage:
    """A backend in one file."""

    is_shared = False

    def __init__(self, path: str, *, clock: Clock, ids: IdSource, restored: bool = False) -> None:
        self._path = path
        files = SideFiles.of(path)
        self.clock = clock
        self._ids = ids
        self._lock = threading.Lock()
        self._readers: list[apsw.Connection] = []
        self._head_file = HeadFile(None if files is None else files.head)
        self._vouched: tuple[int, Tip] | None = None
        """The state of the file, and the acknowledged end, that were last held against each other."""
        self._known_ends: tuple[int, _Ends] | None = None
        self.embedders: dict[str, int] = {}
        """The numbers of embedders; of a transaction that fails, they are forgotten."""
        self._in_doubt = False
        self._may_be_behind = restored
        self._is_read_only = is_read_only(path)
        self._file_id: tuple[int, int] | None = None
        self.temporary = SQLiteTemporaryRows(lambda: _Reading(self), lambda: _Writing(self), clock)
        self.segments = SQLiteSegments(lambda: _Reading(self), lambda: _Writing(self))
        self._open()

    def _open(self) -> None:
        self._known_ends = None
        self.embedders.clear()
        with translated(self._path):
            if self._is_read_only:
                check_unchanging(self._path, int(self._ids.new_id(), 16))
                with _Reading(self) as connection:
                    self._check_nothing_was_lost(connection, self._head_file.peek())
                return
            new_id = self._ids.new_id()
            self._writer = open_writer(self._path, self.clock, new_id, head_file=self._head_file)
            try:
                self._file_id = _file_id(self._path)
                self._check_nothing_was_lost(self._writer, self._head_file.open())
            except BaseException:
                close_untouched(self._writer)
                self._close()
                raise

    @property
    def acknowledged(self) -> Tip:
        """The end of the ledger by the head file. Raises ``StoreFailed`` if the store was replaced: the file
        is that of another one then.
        """
        if not self._is_read_only:
            self._refuse_replaced()
        return Tip() if self._may_be_behind else self._head_file.peek()

    def _check_nothing_was_lost(self, connection: apsw.Connection, acknowledged: Tip) -> None:
        if acknowledged.seq == 0 or self._may_be_behind:
            return
        found = connection.execute("SELECT hash FROM ledger WHERE seq = ?", (acknowledged.seq,)).get
        problem = lost_entry(acknowledged, None if found is None else found.hex(), self._path)
        if problem is not None:
            branches = [Branch(*row) for row in connection.execute(schema.BRANCHES)]
            if not is_left_behind(acknowledged, branches):
                raise Corruption(what=self._path, problem=problem)
            self._head_file.is_replaceable = True

    # Writing.

    def transaction(self) -> "SQLiteTransaction":
        """One writer per process and file: ``BEGIN IMMEDIATE`` waits for others, with a bound."""
        return SQLiteTransaction(self)

    def begin(self) -> apsw.Connection:
        """Become the only writer."""
        if self._is_read_only:
            raise ReadOnlyStore(store=self._path)
        self._lock.acquire()
        try:
            if self._in_doubt:
                self._reopen()
            # Read first: the ledger has everything that was acknowledged before the transaction began.
            acknowledged = self._head_file.read()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                # Who replaces the file holds the lock, so it is not replaced from here on.
                self._refuse_replaced()
                self._refuse_cut(acknowledged)
            except BaseException:
                self._roll_back()
                raise
        except apsw.Error as error:
            self._lock.release()
            raise translate(error, self._path) from None
        except BaseException:
            self._lock.release()
            raise
        return self._writer

    def _refuse_cut(self, acknowledged: Tip) -> None:
        """Write nothing behind a ledger that lacks what was acknowledged. It is looked at if another process
        changed the file.
        """
        state = self._writer.data_version(), acknowledged
        if state != self._vouched:
            self._check_nothing_was_lost(self._writer, acknowledged)
            self._vouched = state

    def _refuse_replaced(self) -> None:
        """What is written to a file that was removed would be lost when this process ends."""
        if _file_id(self._path) != self._file_id:
            problem = (
                f"{self._path} was removed or replaced while this process had it open; open the store again"
            )
            raise StoreFailed(problem=problem)

    def end(self, ends: _Ends | None, error: BaseException | None, *, erased: bool) -> None:
        """Commit and note the new end in the head file, or roll back; then let the next writer in.

        ``ends`` is None if nothing was appended.
        """
        known, self._known_ends = self._known_ends, None
        try:
            if error is not None:
                self._roll_back()
                raise translate(error, self._path) from None
            self._commit()
            if ends is not None:
                if self._may_be_behind:
                    self._head_file.is_replaceable = True
                self._head_file.write(ends.tip)
                self._may_be_behind = False
                known = self._writer.data_version(), ends
                self._vouched = known[0], ends.tip
            self._known_ends = known
            if erased:
                self._empty_log()
        finally:
            self._lock.release()

    def ends(self) -> _Ends:
        """The ends as the writer sees them. They are looked up again if another process changed the file."""
        version = self._writer.data_version()
        if self._known_ends is None or self._known_ends[0] != version:
            head, seq, digest, has_buffers = self._writer.execute(schema.ENDS).get
            tip = Tip(seq=seq, hash=digest.hex()) if seq else Tip()
            self._known_ends = version, _Ends(head, tip, bool(has_buffers))
        return self._known_ends[1]

    def _commit(self) -> None:
        try:
            self._writer.execute("COMMIT")
        except (apsw.BusyError, apsw.FullError) as error:
            # If there was no room for all of it, its end is missing for certain.
            self._roll_back()
            raise translate(error, self._path) from None
        except apsw.Error as error:
            # The commit may or may not be in the file. A look-up by commit id after a reset shows which.
            self._in_doubt = True
            raise OutcomeUnknown(problem=str(error)) from None

    def _roll_back(self) -> None:
        self.embedders.clear()
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except apsw.Error:
            self._in_doubt = True

    def _empty_log(self) -> None:
        """Truncate the write-ahead log, which holds what was erased. A reader in the way delays it."""
        with suppress(apsw.Error):
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def reset(self) -> None:
        """Reopen the file and move all that is committed into it, so that a look-up finds it on disk."""
        with self._lock:
            self._reopen()

    def _reopen(self) -> None:
        """Until this succeeds nothing is written, because the state of the file is in doubt."""
        self._in_doubt = True
        self._close()
        try:
            self._open()
            with translated(self._path):
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (StoreBusy, StoreFailed) as error:
            # The caller may be asking for the very commit whose outcome is unknown.
            raise OutcomeUnknown(problem=str(error)) from None
        self._in_doubt = False

    # Reading.

    def borrow_reader(self) -> apsw.Connection:
        """A read-only connection that nobody else uses until it is returned."""
        try:
            return self._readers.pop()
        except IndexError:
            seed = int(self._ids.new_id(), 16)
            with translated(self._path):
                return open_reader(self._path, seed, unchanging=self._is_read_only)

    def return_reader(self, connection: apsw.Connection, error: BaseException | None) -> None:
        """Keep a connection for the next reader. After an error its state is unknown, and it is closed."""
        if error is None:
            self._readers.append(connection)
            return
        close_quietly(connection)
        if (translation := translate(error, self._path)) is not error:
            raise translation from None

    def head(self) -> int:
        """The newest snapshot."""
        with _Reading(self) as connection:
            head: int = connection.execute(schema.HEAD).get
            return head

    def presence(self, namespace: str, prefixes: Sequence[str]) -> tuple[int, list[bool]]:
        """The newest snapshot, and whether there are keys with these prefixes."""
        with _Reading(self) as connection:
            return schema.presence(connection, namespace, prefixes)

    def size_bytes(self) -> int:
        """The size of the file, without its write-ahead log."""
        with _Reading(self) as connection:
            pages, page_bytes = (connection.pragma(name) for name in ("page_count", "page_size"))
            return int(pages * page_bytes)

    def versions(self, query: VersionQuery) -> list[Version]:
        """The versions that match a query."""
        with _Reading(self) as connection:
            if query.keys is not None:
                return schema.versions_of_keys(connection, query, query.keys)
            if query.snapshot is not None and query == VersionQuery(snapshot=query.snapshot):
                return schema.versions_of_snapshot(connection, query.snapshot)
            return [schema.version_of(row) for row in connection.execute(*schema.versions_in_range(query))]

    def vectors(self, query: VectorQuery) -> list[Vector]:
        """The vectors that match a query."""
        with _Reading(self) as connection:
            return [Vector(*row) for row in connection.execute(*schema.vectors_in_range(query))]

    def commits(self, *, after: int, limit: int, run_ids: Sequence[str] = ()) -> list[AppliedCommit]:
        """Commits in snapshot order."""
        with _Reading(self) as connection:
            if run_ids:
                named = json.dumps(list(run_ids))
                rows = connection.execute(schema.APPLIED_OF_RUNS, (after, named, named, named, limit))
            else:
                rows = connection.execute(schema.APPLIED_AFTER, (after, limit))
            return [applied_of(row) for row in rows]

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """Ledger entries in order."""
        with _Reading(self) as connection:
            rows = connection.execute(schema.ENTRIES_AFTER, (after, limit))
            return [entry_of(row) for row in rows]

    def branches(self) -> list[Branch]:
        """The store's identity and its branches."""
        with _Reading(self) as connection:
            return [Branch(*row) for row in connection.execute(schema.BRANCHES)]

    def check(self, *, rebuild_indexes: bool = False) -> Iterator[str]:
        """Run SQLite's own checks of pages, trees, indexes and foreign keys, and compare the schema."""
        if rebuild_indexes and self._is_read_only:
            raise ReadOnlyStore(store=self._path)
        if rebuild_indexes:
            with self._lock, translated(self._path):
                self._writer.execute("REINDEX")
        with _Reading(self) as connection:
            yield from schema.problems_of_schema(connection)
            for (problem,) in connection.execute("PRAGMA integrity_check"):
                if problem != "ok":
                    yield problem
            for (snapshot,) in connection.execute(schema.WITHOUT_COMMIT):
                yield f"there are records of snapshot {snapshot}, which no commit made"
            for table, rowid, parent, _ in connection.execute("PRAGMA foreign_key_check"):
                yield f"row {rowid} of {table} refers to a row of {parent} that does not exist"

    def close(self) -> None:
        """Close the file. SQLite moves its log into it if nobody else has it open."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        while self._readers:
            close_quietly(self._readers.pop())
        if not self._is_read_only:
            close_quietly(self._writer)
        self._head_file.close()


def _file_id(path: str) -> tuple[int, int] | None:
    """The device and number of a file, which another file of its name does not have; None if it is gone."""
    try:
        found = os.stat(path)  # noqa: PTH116  # A string, and in the way of every commit.
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class _Reading:
    """A borrowed connection for the length of a block.

    A class, because a generator would cost every read three times as much.
    """

    __slots__ = ("_connection", "_storage")

    def __init__(self, storage: SQLiteStorage) -> None:
        self._storage = storage

    def __enter__(self) -> apsw.Connection:
        self._connection = self._storage.borrow_reader()
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._storage.return_reader(self._connection, error)


class _Writing:
    """A transaction on the writer's connection that appends nothing to the ledger."""

    __slots__ = ("_storage",)

    def __init__(self, storage: SQLiteStorage) -> None:
        self._storage = storage

    def __enter__(self) -> apsw.Connection:
        return self._storage.begin()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._storage.end(None, error, erased=False)


class SQLiteTransaction:
    """Loads and appends inside one ``BEGIN IMMEDIATE``."""

    def __init__(self, storage: SQLiteStorage) -> None:
        self._storage = storage
        self._ends: _Ends | None = None
        self._erased = False

    def __enter__(self) -> Self:
        self._connection = self._storage.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._storage.end(self._ends, error, erased=self._erased)

    def load(self, query: StateQuery) -> StateView:
        """Load the state that the query asks for."""
        select = self._connection.executemany
        now = self._storage.clock.now().timestamp()
        ends = self._storage.ends()
        ids_in_text = [(commit_id,) for commit_id in query.commit_ids]
        commit_ids = [(bytes.fromhex(commit_id),) for commit_id in query.commit_ids]
        buffers = list(select(schema.BUFFER_BY_ID, ids_in_text)) if ends.has_buffers else []
        if query.abandoned:
            honest_until = now + LEASE_SECONDS + MAX_CLOCK_SKEW_SECONDS
            buffers += self._connection.execute(schema.ABANDONED, (now, honest_until, query.abandoned))
        if query.ended_seconds is not None:
            buffers += self._connection.execute(schema.ENDED, (now - query.ended_seconds, query.abandoned))
        return StateView(
            now=now,
            head=ends.head,
            tip=ends.tip,
            applied={one.commit_id: one for one in map(applied_of, select(schema.APPLIED_BY_ID, commit_ids))},
            buffers={row[0]: buffer_of(row) for row in buffers},
            latest={row[:2]: schema.version_of(row) for row in select(schema.LATEST, query.record_keys)},
            commit_of=self._commit_of,
            is_written=self._is_written,
        )

    def _commit_of(self, snapshot: int) -> str:
        sql = "SELECT commit_id FROM commits WHERE memory_snapshot_id = ?"
        commit_id: bytes = self._connection.execute(sql, (snapshot,)).get
        return commit_id.hex()

    def _is_written(self, namespace: str, prefix: str, after: int) -> bool:
        return schema.is_written(self._connection, namespace, prefix, after)

    def append(self, changes: Changes) -> None:
        """Add the rows, parents before children."""
        many = self._execute_many
        self._insert(schema.INSERT_ENTRY, list(map(row_of_entry, changes.entries)))
        self._insert(schema.INSERT_APPLIED, list(map(row_of_applied, changes.applied)))
        rows: list[tuple[Any, ...]] = []
        if changes.versions:
            rows += schema.rows_of_versions(changes.versions, self._next_ids(changes))
            self._insert(schema.INSERT_VERSION, rows)
            for namespace, key, snapshot, content in references_to(changes.versions):
                self._connection.execute(schema.REFER, (namespace, key, *schema.ids_of(snapshot), content))
        if changes.vectors:
            self._add_vectors(changes.vectors, rows)
        many(schema.END_VECTORS, astuple, changes.vector_ends)
        for erasure in changes.erasures:
            self._erase(erasure)
        many(schema.ERASE_VECTORS, astuple, changes.erasures)
        if changes.erasures:
            self._storage.segments.erase(self._connection, changes.erasures)
        many(schema.PUT_BUFFER, astuple, changes.buffers)
        many(schema.PUT_BRANCH, astuple, changes.branches)
        for commit_id in changes.dropped:
            self._connection.execute(schema.DROP_BUFFER, (commit_id,))
        self._erased = self._erased or bool(changes.erasures)
        before = self._ends or self._storage.ends()
        self._ends = _Ends(
            changes.applied[-1].memory_snapshot_id if changes.applied else before.head,
            changes.entries[-1].tip if changes.entries else before.tip,
            before.has_buffers or bool(changes.buffers),
        )

    def _add_vectors(self, vectors: Sequence[Vector], versions: Sequence[tuple[Any, ...]]) -> None:
        """Add vectors, nearly all of which belong to versions whose rows were just inserted."""
        numbers = {one: self._embedder(one) for one in sorted({one.embedder for one in vectors})}
        ids = {row[1:3]: row[0] for row in versions}
        new, others = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        for one in vectors:
            row = numbers[one.embedder], one.since, one.content, one.ended
            version = ids.get((one.namespace, one.key))
            if version is not None and schema.snapshot_of(version) == one.memory_snapshot_id:
                new.append((version, *row))
            else:
                others.append((*row, one.namespace, one.key, *schema.ids_of(one.memory_snapshot_id)))
        self._insert(schema.INSERT_VECTOR, new)
        self._connection.executemany(schema.INSERT_VECTOR_OF_KEY, others)

    def _embedder(self, identity: str) -> int:
        """The number of an embedder, which it gets with its first vector."""
        known = self._storage.embedders
        if identity not in known:
            found: int | None = self._connection.execute(schema.EMBEDDER_NUMBER, (identity,)).get
            if found is None:
                self._connection.execute(schema.ADD_EMBEDDER, (identity,))
                found = self._connection.last_insert_rowid()
            known[identity] = found
        return known[identity]

    def _insert(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows: a few of them, as those of one fact, in one statement."""
        if 0 < len(rows) <= _FEW_ROWS:
            self._connection.execute(_inserting(sql, len(rows)), [value for row in rows for value in row])
        elif rows:
            self._connection.executemany(sql, rows)

    def _execute_many(
        self, sql: str, row_of: Callable[[Any], tuple[Any, ...]], values: Sequence[Any]
    ) -> None:
        if values:
            self._connection.executemany(sql, map(row_of, values))

    def _next_ids(self, changes: Changes) -> dict[int, int]:
        """The id of the next version of each snapshot. That of an earlier commit has versions already."""
        new = {applied.memory_snapshot_id for applied in changes.applied}
        next_ids = {}
        for snapshot in {version.memory_snapshot_id for version in changes.versions}:
            first, last = schema.ids_of(snapshot)
            found = (
                None if snapshot in new else self._connection.execute(schema.LAST_NUMBER, (first, last)).get
            )
            next_ids[snapshot] = first if found is None else found + 1
        return next_ids

    def _erase(self, erasure: Erasure) -> None:
        namespace, key, snapshot, until = astuple(erasure)
        behind, _ = schema.ids_of(until + 1)
        if (second := second_key(key)) is not None:
            self._connection.execute(schema.TAKE_OVER, (namespace, key, second, behind))
        self._connection.execute(schema.ERASE, (namespace, key, behind, snapshot))
