"""The embedded store: one SQLite file, one writer at a time, readers that never wait.

Beside the file stands ``<file>-head``: the end of the ledger as last acknowledged. It is written after each commit,
never synced and never ahead of what is durable; a store that is found behind it has lost something, and says so.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

import apsw
import msgspec
from msgspec.structs import astuple

from standfast.clock import Clock, IdSource
from standfast.errors import Corruption, OutcomeUnknown, StoreBusy, StoreFailed
from standfast.ledger.chain import Entry, Tip
from standfast.store.protocol import (
    BEHIND_ALL_KEYS,
    AppliedCommit,
    Buffer,
    Changes,
    StateQuery,
    StateView,
    Version,
)
from standfast.store.sqlite import tables
from standfast.store.sqlite.file import (
    close_quietly,
    close_untouched,
    open_reader,
    open_writer,
    ours,
    translated,
)
from standfast.store.sqlite.schema import problems_of_schema
from standfast.store.sqlite.witness import read_witness, write_witness


class _Ends(NamedTuple):
    """The ends of the append-only tables, and whether there are buffers, as of a state of the file."""

    head: int
    tip: Tip
    buffered: bool


class SQLiteStorage:
    """A backend in one file."""

    def __init__(self, path: str, *, clock: Clock, ids: IdSource) -> None:
        self._path = path
        self.clock = clock
        self._ids = ids
        self._lock = threading.Lock()
        self._readers: list[apsw.Connection] = []
        self._known: tuple[int, _Ends] | None = None
        self._unsure = False
        self._head_file = -1
        self._open()

    def _open(self) -> None:
        self._known = None
        with translated(self._path):
            self._writer = open_writer(self._path, self.clock, int(self._ids.new_id(), 16))
            try:
                self._head_file = os.open(self._path + "-head", os.O_RDWR | os.O_CREAT, 0o600)
                self._check_nothing_was_lost()
            except BaseException:
                close_untouched(self._writer)
                self._close()
                raise

    def _check_nothing_was_lost(self) -> None:
        witnessed = read_witness(self._head_file)
        if witnessed.seq == 0:
            return
        found = self._writer.execute("SELECT hash FROM ledger WHERE seq = ?", (witnessed.seq,)).get
        if found != witnessed.hash:
            problem = (
                f"entry {witnessed.seq} of the ledger was acknowledged and is {'another' if found else 'missing'}; "
                f"if you put an older copy there yourself, remove {self._path}-head"
            )
            raise Corruption(what=self._path, problem=problem)

    def transaction(self) -> "SQLiteTransaction":
        """One writer a process, one a file: ``BEGIN IMMEDIATE`` waits for others, with a bound."""
        return SQLiteTransaction(self)

    def begin(self) -> apsw.Connection:
        """Become the one writer."""
        self._lock.acquire()
        try:
            if self._unsure:
                self._start_over()
            self._writer.execute("BEGIN IMMEDIATE")
        except apsw.Error as error:
            self._lock.release()
            raise ours(error, self._path) from None
        except BaseException:
            self._lock.release()
            raise
        return self._writer

    def end(self, ends: _Ends | None, error: BaseException | None, *, erased: bool) -> None:
        """Commit and witness, or roll back; then let the next writer in. ``ends`` is told if anything was appended."""
        known, self._known = self._known, None
        try:
            if error is not None:
                self._roll_back()
                raise ours(error, self._path) from None
            self._commit()
            if ends is not None:
                write_witness(self._head_file, ends.tip)
                known = self._writer.data_version(), ends
            self._known = known
            if erased:
                self._empty_log()
        finally:
            self._lock.release()

    def _empty_log(self) -> None:
        """What was erased still stands in the log. A reader can hold it there for a while; the next time will do."""
        with suppress(apsw.Error):
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def ends(self) -> _Ends:
        """The ends as the writer sees them now: as we left them, unless the file's version tells of somebody else."""
        version = self._writer.data_version()
        if self._known is None or self._known[0] != version:
            head, seq, digest, buffered = self._writer.execute(tables.ENDS).get
            self._known = version, _Ends(head, Tip(seq=seq, hash=digest) if seq else Tip(), bool(buffered))
        return self._known[1]

    def _commit(self) -> None:
        try:
            self._writer.execute("COMMIT")
        except (apsw.BusyError, apsw.FullError) as error:
            # Where there was no room for all of it, its end is missing for certain.
            self._roll_back()
            raise ours(error, self._path) from None
        except apsw.Error as error:
            # The commit may be in the file or not; who asks again by commit id will learn it.
            self._unsure = True
            raise OutcomeUnknown(problem=str(error)) from None

    def _roll_back(self) -> None:
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except apsw.Error:
            self._unsure = True

    def _reading(self) -> "_Reading":
        return _Reading(self)

    def lend(self) -> apsw.Connection:
        """A connection that reads, and is nobody else's until it is given back."""
        try:
            return self._readers.pop()
        except IndexError:
            with translated(self._path):
                return open_reader(self._path, self.clock, int(self._ids.new_id(), 16))

    def take_back(self, connection: apsw.Connection, error: BaseException | None) -> None:
        """Keep the connection for the next reader; after an error nobody knows its state, and it is closed."""
        if error is None:
            self._readers.append(connection)
            return
        close_quietly(connection)
        if (told := ours(error, self._path)) is not error:
            raise told from None

    def head(self) -> int:
        """The newest snapshot."""
        with self._reading() as connection:
            head: int = connection.execute("SELECT coalesce(max(memory_snapshot_id), 0) FROM commits").get
            return head

    def versions_at(self, namespace: str, keys: Sequence[str], at: int) -> dict[str, Version]:
        """For each key that has one, its newest version not newer than ``at``."""
        found = {}
        with self._reading() as connection:
            execute = connection.execute
            for key in keys:
                row = execute(tables.NEWEST, (namespace, key, at)).fetchone()
                if row is not None:
                    found[key] = tables.version_of(row)
        return found

    def scan(self, namespace: str, at: int, *, after: str, prefix: str = "", limit: int) -> list[Version]:
        """What a snapshot shows in a namespace, by key. SQLite takes the other columns from the row with the maximum."""
        return self._versions(
            "SELECT namespace, key, max(memory_snapshot_id), action, fingerprint, content, erased_by FROM versions"
            " WHERE namespace = ? AND key > ? AND key < ? AND memory_snapshot_id <= ? GROUP BY key ORDER BY key LIMIT ?",
            (namespace, after, prefix + BEHIND_ALL_KEYS, at, limit),
        )

    def history(self, namespace: str, key: str) -> list[Version]:
        """Every version of one record, oldest first."""
        return self._versions(
            f"SELECT {tables.VERSION} FROM versions WHERE namespace = ? AND key = ? ORDER BY memory_snapshot_id",
            (namespace, key),
        )

    def snapshot_rows(self, memory_snapshot_id: int) -> list[Version]:
        """The versions that one commit made."""
        return self._versions(
            f"SELECT {tables.VERSION} FROM versions WHERE memory_snapshot_id = ? ORDER BY namespace, key",
            (memory_snapshot_id,),
        )

    def _versions(self, sql: str, parameters: tuple[Any, ...]) -> list[Version]:
        with self._reading() as connection:
            return [tables.version_of(row) for row in connection.execute(sql, parameters)]

    def find(self, commit_ids: Sequence[str]) -> tuple[dict[str, AppliedCommit], dict[str, Buffer]]:
        """What is known of these commits."""
        with self._reading() as connection:
            return tables.find(connection, commit_ids)

    def applied(self, *, after: int, limit: int) -> list[AppliedCommit]:
        """Commits in snapshot order."""
        sql = f"SELECT {tables.APPLIED} FROM commits WHERE memory_snapshot_id > ? ORDER BY memory_snapshot_id LIMIT ?"
        with self._reading() as connection:
            return [AppliedCommit(*row) for row in connection.execute(sql, (after, limit))]

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """Ledger entries in order."""
        sql = "SELECT seq, content, hash FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?"
        with self._reading() as connection:
            rows = connection.execute(sql, (after, limit))
            return [Entry(seq=seq, content=content, hash=digest) for seq, content, digest in rows]

    def namespaces(self) -> list[str]:
        """Every namespace that ever held a record, found by leaping from one to the next in the index."""
        found: list[str] = []
        with self._reading() as connection:
            while True:
                sql = "SELECT min(namespace) FROM versions WHERE namespace > ?"
                following = connection.execute(sql, (found[-1] if found else "",)).get
                if following is None:
                    return found
                found.append(following)

    def reset(self) -> None:
        """Reopen the file and push all that is committed into it, so that what a look-up finds is on the disk."""
        with self._lock:
            self._start_over()

    def _start_over(self) -> None:
        """Until this succeeds nothing is written: nobody knows what the writer's last words on the disk are."""
        self._unsure = True
        self._close()
        try:
            self._open()
            with translated(self._path):
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (StoreBusy, StoreFailed) as error:
            # Who asks may be asking for the very commit whose outcome is unknown.
            raise OutcomeUnknown(problem=str(error)) from None
        self._unsure = False

    def check(self) -> Iterator[str]:
        """SQLite's own check of pages, trees and indexes, and the schema; checksums are verified on the way."""
        with self._reading() as connection:
            yield from problems_of_schema(connection)
            for (problem,) in connection.execute("PRAGMA integrity_check"):
                if problem != "ok":
                    yield problem
            for table, rowid, parent, _ in connection.execute("PRAGMA foreign_key_check"):
                yield f"row {rowid} of {table} points to nothing in {parent}"

    def rebuild(self) -> None:
        """Make every index anew from its table."""
        with self._lock, translated(self._path):
            self._writer.execute("REINDEX")

    def close(self) -> None:
        """Close the file; SQLite folds its log into it when nobody else has it open."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        while self._readers:
            close_quietly(self._readers.pop())
        close_quietly(self._writer)
        if self._head_file >= 0:
            os.close(self._head_file)
            self._head_file = -1


class _Reading:
    """A connection for as long as a block lasts. A class, because every read pays for it and a generator costs thrice."""

    __slots__ = ("_connection", "_storage")

    def __init__(self, storage: SQLiteStorage) -> None:
        self._storage = storage

    def __enter__(self) -> apsw.Connection:
        self._connection = self._storage.lend()
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._storage.take_back(self._connection, error)


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

    def load(self, question: StateQuery) -> StateView:
        """See what the question asks for."""
        connection = self._connection
        now = self._storage.clock.now().timestamp()
        ends = self._storage.ends()
        applied, buffers = tables.find(connection, question.commit_ids, buffered=ends.buffered)
        if question.abandoned:
            abandoned = connection.execute(tables.ABANDONED, (now, question.abandoned))
            buffers |= {row[0]: tables.buffer_of(row) for row in abandoned}
        return StateView(
            now=now,
            head=ends.head,
            tip=ends.tip,
            applied=applied,
            buffers=buffers,
            latest={
                row[:2]: tables.version_of(row)
                for row in connection.executemany(tables.LATEST, question.places)
            },
            commit_of=self._commit_of,
        )

    def _commit_of(self, snapshot: int) -> str:
        sql = "SELECT commit_id FROM commits WHERE memory_snapshot_id = ?"
        name: str = self._connection.execute(sql, (snapshot,)).get
        return name

    def append(self, changes: Changes) -> None:
        """Add the rows, parents before children."""
        self._insert(tables.INSERT_ENTRY, changes.entries)
        self._insert(tables.INSERT_APPLIED, changes.applied)
        self._insert(tables.INSERT_VERSION, changes.versions)
        self._insert(tables.ERASE, changes.erasures)
        self._insert(tables.PUT_BUFFER, changes.buffers)
        for commit_id in changes.dropped:
            self._connection.execute("DELETE FROM buffers WHERE commit_id = ?", (commit_id,))
        self._erased = self._erased or bool(changes.erasures)
        before = self._storage.ends()
        self._ends = _Ends(
            changes.applied[-1].memory_snapshot_id if changes.applied else before.head,
            changes.entries[-1].tip if changes.entries else before.tip,
            before.buffered or bool(changes.buffers),
        )

    def _insert(self, sql: str, rows: Sequence[msgspec.Struct]) -> None:
        if len(rows) == 1:
            self._connection.execute(sql, astuple(rows[0]))
        elif rows:
            self._connection.executemany(sql, map(astuple, rows))
