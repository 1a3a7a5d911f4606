"""The backend on PostgreSQL: one writer at a time, readers that never wait.

A transaction is two round trips: one that locks and looks, one that appends and commits. The lock makes snapshots
gapless and each decision the last word; the server releases it with the commit, or when the connection is gone.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec

from standfast.clock import Clock, IdSource
from standfast.errors import Corruption, StoreError, StoreFailed
from standfast.ledger.chain import Entry, Tip
from standfast.limits import MAX_ATTEMPTS, MAX_IDLE_READERS
from standfast.store.postgres.server import COMMIT, LOCKED, SCHEMA, Conflict, Line, Row, Server, Statement
from standfast.store.protocol import (
    BEHIND_ALL_KEYS,
    AppliedCommit,
    Buffer,
    Changes,
    StateQuery,
    StateView,
    Version,
)
from standfast.vocabulary import ActionType, BufferState

EVER: Final = 2**63 - 1
TABLES: Final = ("ledger", "commits", "versions", "buffers")


def _insert(table: str, kind: type[msgspec.Struct], types: str) -> str:
    """All rows in one statement, a column an array, so that a batch costs the server what one row does."""
    arrays = ", ".join(f"%b::{name}[]" for name in types.split())
    return f"INSERT INTO {table} ({', '.join(kind.__struct_fields__)}) SELECT * FROM unnest({arrays})"


_APPLIED: Final = ", ".join(AppliedCommit.__struct_fields__)
_BUFFER: Final = ", ".join(Buffer.__struct_fields__)
_VERSION: Final = ", ".join(Version.__struct_fields__)
_BUFFERS_BY_ID: Final = f"SELECT {_BUFFER} FROM buffers WHERE commit_id = ANY(%b::text[]) ORDER BY commit_id"
_APPLIED_BY_ID: Final = f"SELECT {_APPLIED} FROM commits WHERE commit_id = ANY(%b::text[]) ORDER BY commit_id"
_ABANDONED: Final = (
    f"SELECT {_BUFFER} FROM buffers WHERE reason_code IS NULL AND waits_for IS NULL"
    " AND lease_until <= (SELECT extract(epoch FROM clock_timestamp())::float8)"
    " ORDER BY lease_until, commit_id LIMIT %s"
)
_NEWEST: Final = (
    "SELECT asked.namespace, asked.key, memory_snapshot_id, action, fingerprint, {content}, erased_by"
    " FROM unnest(%b::text[], %b::text[]) AS asked (namespace, key) CROSS JOIN LATERAL ("
    "  SELECT * FROM versions WHERE namespace = asked.namespace AND key = asked.key AND memory_snapshot_id <= %s"
    "  ORDER BY memory_snapshot_id DESC LIMIT 1"
    " ) AS newest ORDER BY asked.namespace, asked.key"
)
_NEWEST_BARE: Final = _NEWEST.format(content="NULL::bytea")
_NEWEST_WHOLE: Final = _NEWEST.format(content="content")
_ENDS: Final = (
    "SELECT extract(epoch FROM clock_timestamp())::float8, coalesce((SELECT max(memory_snapshot_id) FROM commits), 0),"
    " (SELECT seq FROM ledger ORDER BY seq DESC LIMIT 1), (SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1)"
)
_INSERT_ENTRIES: Final = _insert("ledger", Entry, "bigint bytea text")
_INSERT_APPLIED: Final = _insert("commits", AppliedCommit, "bigint text text text text bigint text")
_INSERT_VERSIONS: Final = _insert("versions", Version, "text text bigint text text bytea bigint")
_ERASE: Final = (
    "UPDATE versions SET content = NULL, erased_by = erasure.memory_snapshot_id"
    " FROM unnest(%b::text[], %b::text[], %b::bigint[]) AS erasure (namespace, key, memory_snapshot_id)"
    " WHERE versions.namespace = erasure.namespace AND versions.key = erasure.key"
    " AND versions.memory_snapshot_id < erasure.memory_snapshot_id AND content IS NOT NULL"
)
_PUT_BUFFERS: Final = (
    _insert("buffers", Buffer, "text text text text bytea text bigint float8 text text text")
    + " ON CONFLICT (commit_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in Buffer.__struct_fields__)
)
_DROP_BUFFERS: Final = "DELETE FROM buffers WHERE commit_id = ANY(%b::text[])"


class PostgresStorage:
    """A backend in the schema ``standfast`` of a PostgreSQL database. Leases run by the server's clock."""

    def __init__(self, url: str, *, clock: Clock, ids: IdSource) -> None:
        self._server = Server(url, clock, seed=int(ids.new_id(), 16))
        self._lock = threading.Lock()
        self._writer = Line(self._server, read_only=False)
        self._writer.open(self._server.connect(read_only=False))
        self._readers: list[Line] = []

    @contextmanager
    def transaction(self) -> Iterator["PostgresTransaction"]:
        """One writer a process, one a database; who waits longer than ``MAX_BUSY_SECONDS`` gets ``StoreBusy``."""
        with self._lock:
            transaction = PostgresTransaction(self._writer)
            try:
                yield transaction
                transaction.finish()
            except BaseException as error:
                # Closing rolls back, in whatever state the connection was left.
                self._writer.close()
                if isinstance(error, Conflict):
                    raise StoreFailed(problem=str(error)) from None
                raise

    def _rows(self, sql: str, *parameters: Any) -> list[Row]:
        """One statement, on a connection that can't write."""
        try:
            line = self._readers.pop()
        except IndexError:
            line = Line(self._server, read_only=True)
        try:
            (rows,) = line.ask_anew([(sql, parameters)])
        except BaseException:
            line.close()
            raise
        if len(self._readers) < MAX_IDLE_READERS:
            self._readers.append(line)
        else:
            line.close()
        return rows

    def head(self) -> int:
        """The newest snapshot."""
        head: int = self._rows("SELECT coalesce(max(memory_snapshot_id), 0) FROM commits")[0][0]
        return head

    def versions_at(self, namespace: str, keys: Sequence[str], at: int) -> dict[str, Version]:
        """For each key that has one, its newest version not newer than ``at``."""
        rows = self._rows(_NEWEST_WHOLE, [namespace] * len(keys), list(keys), at)
        return {row[1]: _version(row) for row in rows}

    def scan(self, namespace: str, at: int, *, after: str, prefix: str = "", limit: int) -> list[Version]:
        """What a snapshot shows in a namespace, by key."""
        sql = (
            f"SELECT DISTINCT ON (key) {_VERSION} FROM versions WHERE namespace = %s AND key > %s AND key < %s"
            " AND memory_snapshot_id <= %s ORDER BY key, memory_snapshot_id DESC LIMIT %s"
        )
        rows = self._rows(sql, namespace, after, prefix + BEHIND_ALL_KEYS, at, limit)
        return [_version(row) for row in rows]

    def history(self, namespace: str, key: str) -> list[Version]:
        """Every version of one record, oldest first."""
        sql = f"SELECT {_VERSION} FROM versions WHERE namespace = %s AND key = %s ORDER BY memory_snapshot_id"
        return [_version(row) for row in self._rows(sql, namespace, key)]

    def snapshot_rows(self, memory_snapshot_id: int) -> list[Version]:
        """The versions that one commit made."""
        sql = f"SELECT {_VERSION} FROM versions WHERE memory_snapshot_id = %s ORDER BY namespace, key"
        return [_version(row) for row in self._rows(sql, memory_snapshot_id)]

    def find(self, commit_ids: Sequence[str]) -> tuple[dict[str, AppliedCommit], dict[str, Buffer]]:
        """What is known of these commits. Buffers first: what left them before the second look is applied by then."""
        buffers = self._rows(_BUFFERS_BY_ID, list(commit_ids))
        applied = self._rows(_APPLIED_BY_ID, list(commit_ids))
        return {row[1]: _applied(row) for row in applied}, {row[0]: _buffer(row) for row in buffers}

    def applied(self, *, after: int, limit: int) -> list[AppliedCommit]:
        """Commits in snapshot order."""
        sql = f"SELECT {_APPLIED} FROM commits WHERE memory_snapshot_id > %s ORDER BY memory_snapshot_id LIMIT %s"
        return [_applied(row) for row in self._rows(sql, after, limit)]

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """Ledger entries in order."""
        sql = "SELECT seq, content, hash FROM ledger WHERE seq > %s ORDER BY seq LIMIT %s"
        rows = self._rows(sql, after, limit)
        return [Entry(seq=seq, content=content, hash=digest) for seq, content, digest in rows]

    def namespaces(self) -> list[str]:
        """Every namespace that ever held a record, found by leaping from one to the next in the index."""
        sql = (
            "WITH RECURSIVE leap AS (SELECT min(namespace) AS namespace FROM versions UNION ALL SELECT"
            " (SELECT min(namespace) FROM versions WHERE namespace > leap.namespace)"
            " FROM leap WHERE namespace IS NOT NULL)"
            " SELECT namespace FROM leap WHERE namespace IS NOT NULL ORDER BY namespace"
        )
        return [namespace for (namespace,) in self._rows(sql)]

    def reset(self) -> None:
        """Drop all connections, and wait until the server is done with what the writer sent last.

        What PostgreSQL shows is durable, so nothing has to be pushed to the disk. But a commit whose answer was lost
        may still be under way. It holds the lock until it is done, so who looks after having had the lock sees the
        truth.
        """
        self.close()
        with self._lock:
            self._writer.ask_anew([*LOCKED, COMMIT])

    def check(self) -> Iterator[str]:
        """What the server knows of damage: failed checksums, invalid indexes, and what amcheck finds, where it is."""
        counted = "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
        yield from (
            f"{failures} pages did not have their checksum" for (failures,) in self._rows(counted) if failures
        )
        listed = (
            "SELECT relname::text, relkind = 'i', coalesce(indisvalid AND indisready, true) FROM pg_class"
            " LEFT JOIN pg_index ON indexrelid = pg_class.oid"
            " WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'i') ORDER BY relname"
        )
        # Not every user may call it.
        extension = (
            "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'amcheck' AND"
            " (SELECT bool_and(has_function_privilege(pg_proc.oid, 'EXECUTE')) FROM pg_proc"
            "  WHERE pronamespace = extnamespace AND proname IN ('bt_index_check', 'verify_heapam'))"
        )
        amcheck = self._rows(extension)
        for name, is_index, valid in self._rows(listed, SCHEMA):
            if not valid:
                yield f"the index {name} is invalid"
            elif amcheck:
                call = "bt_index_check(%s::regclass, true)" if is_index else "verify_heapam(%s::regclass)"
                yield from self._told_by_amcheck(f"SELECT * FROM {amcheck[0][0]}.{call}", name)

    def _told_by_amcheck(self, sql: str, name: str) -> Iterator[str]:
        try:
            yield from (f"{name}: {row[-1]}" for row in self._rows(sql, name) if row[-1])
        except (Corruption, StoreFailed) as error:
            yield f"{name}: {error.facts['problem']}"

    def rebuild(self) -> None:
        """Make every index anew from its table."""
        with self._lock:
            self._writer.ask_anew([*LOCKED, *((f"REINDEX TABLE {name}", ()) for name in TABLES), COMMIT])

    def close(self) -> None:
        """Let go of all connections."""
        with suppress(IndexError):
            while True:
                self._readers.pop().close()
        with self._lock:
            self._writer.close()


class PostgresTransaction:
    """One round trip that locks and looks, and one that appends and commits."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._looks: list[Statement] = []
        self._seen: list[Any] = []
        self._changes: list[Statement] = []

    def load(self, question: StateQuery) -> StateView:
        """Wait for the lock, and see what the question asks for."""
        ids, places = list(question.commit_ids), question.places
        self._looks = [
            *LOCKED,
            (_BUFFERS_BY_ID, (ids,)),
            (_APPLIED_BY_ID, (ids,)),
            (_NEWEST_BARE, ([namespace for namespace, _ in places], [key for _, key in places], EVER)),
            *([(_ABANDONED, (question.abandoned,))] if question.abandoned else ()),
            (_ENDS, ()),
        ]
        now, self._seen = self._look()
        buffers, applied, latest, *abandoned, (head, seq, digest) = self._seen
        return StateView(
            now=now,
            head=head,
            tip=Tip() if seq is None else Tip(seq=seq, hash=digest),
            applied={row[1]: _applied(row) for row in applied},
            buffers={row[0]: _buffer(row) for rows in (buffers, *abandoned) for row in rows},
            latest={row[:2]: _version(row) for row in latest},
            commit_of=self._commit_of,
        )

    def _look(self) -> tuple[float, list[Any]]:
        """The server's time, and all else that was seen."""
        _, _, *seen, ((now, *ends),) = self._line.ask_anew(self._looks)
        return now, [*seen, ends]

    def _commit_of(self, snapshot: int) -> str:
        sql = "SELECT commit_id FROM commits WHERE memory_snapshot_id = %s"
        (((name,),),) = self._line.ask([(sql, (snapshot,))])
        return str(name)

    def append(self, changes: Changes) -> None:
        """Note the rows, parents before children; they travel with the COMMIT."""
        if not self._looks:
            self.load(StateQuery())
        buffers = list({buffer.commit_id: buffer for buffer in changes.buffers}.values())
        inserts = (
            (_INSERT_ENTRIES, changes.entries),
            (_INSERT_APPLIED, changes.applied),
            (_INSERT_VERSIONS, changes.versions),
            (_ERASE, changes.erasures),
            (_PUT_BUFFERS, buffers),
        )
        self._changes += [(sql, _columns(rows)) for sql, rows in inserts if rows]
        if changes.dropped:
            self._changes.append((_DROP_BUFFERS, (changes.dropped,)))

    def finish(self) -> None:
        """Make the changes durable. After a conflict they are sent again, if what they were decided on still holds."""
        if not self._looks:
            return
        if not self._changes:
            with suppress(StoreError):  # There was nothing to lose.
                self._line.ask([COMMIT])
            return
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            try:
                *_, committed = self._line.ask([*self._changes, COMMIT])
            except Conflict:
                if not attempts_left or self._look()[1] != self._seen:
                    raise
            else:
                assert committed == [("COMMIT",)], (
                    "the server says ROLLBACK to the end of a failed transaction"
                )
                return


def _columns(rows: Sequence[msgspec.Struct]) -> list[list[Any]]:
    return [[getattr(row, name) for row in rows] for name in rows[0].__struct_fields__]


def _applied(row: Row) -> AppliedCommit:
    return AppliedCommit(**dict(zip(AppliedCommit.__struct_fields__, row, strict=True)))


def _version(row: Row) -> Version:
    namespace, key, snapshot, action, fingerprint, content, erased_by = row
    return Version(
        namespace=namespace,
        key=key,
        memory_snapshot_id=snapshot,
        action=ActionType(action),
        fingerprint=fingerprint,
        content=content,
        erased_by=erased_by,
    )


def _buffer(row: Row) -> Buffer:
    fields = dict(zip(Buffer.__struct_fields__, row, strict=True))
    return Buffer(**fields | {"state": BufferState(fields["state"])})
