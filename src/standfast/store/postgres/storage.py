"""The PostgreSQL backend: one writer at a time, readers that never wait.

A transaction takes two round trips: one locks and reads, one appends and commits. The lock keeps snapshots
free of gaps and each decision valid until it is stored. The server releases it with the commit, or when the
connection ends.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from standfast.clock import Clock, IdSource
from standfast.errors import Corruption, StoreError, StoreFailed
from standfast.ledger.chain import Branch, Entry, Tip
from standfast.limits import LEASE_SECONDS, MAX_ATTEMPTS, MAX_CLOCK_SKEW_SECONDS
from standfast.side_files import SideFiles
from standfast.store.compression import (
    ACTION_NUMBERS,
    applied_of,
    buffer_of,
    digest_of,
    entry_of,
    packed_contents,
    references_to,
    row_of_applied,
    row_of_entry,
    second_key,
    unpacked,
    version_of,
)
from standfast.store.head_file import HeadFile, is_left_behind, lost_entry
from standfast.store.postgres.server import (
    BEGIN_LOCKED,
    COMMIT,
    SCHEMA,
    ConnectionPool,
    Row,
    SerializationConflict,
    Server,
    ServerConnection,
    Statement,
)
from standfast.store.postgres.unversioned import PostgresSegments, PostgresTemporaryRows
from standfast.store.protocol import (
    BEHIND_ALL_KEYS,
    AppliedCommit,
    Buffer,
    Changes,
    Erasure,
    StateQuery,
    StateView,
    Vector,
    VectorQuery,
    Version,
    VersionQuery,
)

EVER: Final = 2**63 - 1
TABLES: Final = (
    "ledger",
    "commits",
    "versions",
    "vectors",
    "buffers",
    "branches",
    "dictionaries",
    "temporary",
    "segments",
    "segment_parts",
    "segment_erasures",
)
FLUSH_BYTES: Final = 4 << 20


def _insert(table: str, kind: type[msgspec.Struct], types: str) -> str:
    """Insert all rows in one statement, each column as an array, so that a batch costs what one row does."""
    arrays = ", ".join(f"%b::{name}[]" for name in types.split())
    return f"INSERT INTO {table} ({', '.join(kind.__struct_fields__)}) SELECT * FROM unnest({arrays})"


_APPLIED: Final = ", ".join(AppliedCommit.__struct_fields__)
_BUFFER: Final = ", ".join(Buffer.__struct_fields__)


def _content_of(row: str) -> str:
    """The content of a row; if that is a reference, the content of its base, marked as borrowed."""
    return (
        f"CASE WHEN {row}.content = '\\x02' THEN (SELECT '\\x03'::bytea || base.content FROM versions AS base"
        f" WHERE base.namespace = {row}.namespace AND base.key = 'LEDGER' || substr({row}.key, 7)"
        f" AND base.memory_snapshot_id = {row}.memory_snapshot_id) ELSE {row}.content END"
    )


_VERSION: Final = (
    f"namespace, key, memory_snapshot_id, action, fingerprint, {_content_of('versions')}, erased_by"
)
_VERSION_WITHOUT_CONTENT: Final = "namespace, key, memory_snapshot_id, action, fingerprint, NULL, erased_by"
_VECTOR: Final = ", ".join(Vector.__struct_fields__)
_BUFFERS_BY_ID: Final = f"SELECT {_BUFFER} FROM buffers WHERE commit_id = ANY(%b::text[]) ORDER BY commit_id"
_APPLIED_BY_ID: Final = (
    f"SELECT {_APPLIED} FROM commits WHERE commit_id = ANY(%b::bytea[]) ORDER BY commit_id"
)
_ABANDONED: Final = (
    f"SELECT {_BUFFER} FROM buffers WHERE content IS NOT NULL AND waits_for IS NULL AND (lease_until <="
    " (SELECT extract(epoch FROM clock_timestamp())::float8) OR lease_until > (SELECT extract(epoch FROM"
    f" clock_timestamp())::float8 + {LEASE_SECONDS + MAX_CLOCK_SKEW_SECONDS})) ORDER BY lease_until,"
    " commit_id LIMIT %s"
)
_ENDED: Final = (
    f"SELECT {_BUFFER} FROM buffers WHERE content IS NULL"
    " AND lease_until <= (SELECT extract(epoch FROM clock_timestamp())::float8 - %s)"
    " ORDER BY lease_until, commit_id LIMIT %s"
)
_NEWEST: Final = (
    "SELECT asked.namespace, asked.key, memory_snapshot_id, action, fingerprint, {content}, erased_by FROM"
    " unnest(%b::text[], %b::text[]) AS asked (namespace, key) CROSS JOIN LATERAL (  SELECT * FROM versions"
    " WHERE namespace = asked.namespace AND key = asked.key AND memory_snapshot_id <= %s  ORDER BY"
    " memory_snapshot_id DESC LIMIT 1 ) AS newest ORDER BY asked.namespace, asked.key"
)
_NEWEST_WITHOUT_CONTENT: Final = _NEWEST.format(content="NULL::bytea")
_NEWEST_WITH_CONTENT: Final = _NEWEST.format(content=_content_of("newest"))
_OF_KEYS: Final = (
    "SELECT {columns} FROM versions WHERE namespace = %s AND key = ANY(%b::text[]) AND memory_snapshot_id"
    " <= %s ORDER BY namespace, key, memory_snapshot_id"
)
_ENDS: Final = (
    "SELECT extract(epoch FROM clock_timestamp())::float8, coalesce((SELECT max(memory_snapshot_id) FROM"
    " commits), 0), (SELECT seq FROM ledger ORDER BY seq DESC LIMIT 1), (SELECT hash FROM ledger ORDER BY seq"
    " DESC LIMIT 1), (SELECT hash FROM ledger WHERE seq = %s)"
)
_IS_UNDER: Final = "EXISTS (SELECT 1 FROM versions WHERE namespace = %s AND key >= %s AND key < %s)"
_INSERT_ENTRIES: Final = _insert("ledger", Entry, "bigint bytea bytea")
_INSERT_APPLIED: Final = _insert("commits", AppliedCommit, "bigint bytea text bytea text bigint bytea")
_INSERT_VERSIONS: Final = _insert("versions", Version, "text text bigint smallint bytea bytea bigint")
# Whoever refers to a content takes it over before it is erased.
_TAKE_OVER: Final = (
    "UPDATE versions SET content = '\\x03'::bytea || base.content FROM unnest(%b::text[], %b::text[],"
    " %b::text[], %b::bigint[]) AS erasure (namespace, key, second, until) JOIN versions AS base ON"
    " base.namespace = erasure.namespace AND base.key = erasure.key AND base.memory_snapshot_id <="
    " erasure.until WHERE versions.namespace = erasure.namespace AND versions.key = erasure.second AND"
    " versions.memory_snapshot_id = base.memory_snapshot_id AND versions.content = '\\x02'"
)
# A base that is stored after the row that could have referred to it, as in a copy that is made in portions.
_REFER: Final = (
    "UPDATE versions SET content = '\\x02' FROM unnest(%b::text[], %b::text[], %b::bigint[], %b::bytea[]) AS"
    " one (namespace, key, snapshot, content) WHERE versions.namespace = one.namespace AND versions.key ="
    " one.key AND versions.memory_snapshot_id = one.snapshot AND versions.content = one.content"
)
_ERASE: Final = (
    "UPDATE versions SET content = NULL, erased_by = erasure.memory_snapshot_id"
    " FROM unnest(%b::text[], %b::text[], %b::bigint[], %b::bigint[])"
    " AS erasure (namespace, key, memory_snapshot_id, until)"
    " WHERE versions.namespace = erasure.namespace AND versions.key = erasure.key"
    " AND versions.memory_snapshot_id <= erasure.until AND content IS NOT NULL"
)
_INSERT_VECTORS: Final = _insert("vectors", Vector, "text text bigint text bigint bytea bigint")
# Several versions of one record may come at once, so each vector ends with the first that is newer.
_END_VECTORS: Final = (
    "UPDATE vectors SET ended = (SELECT min(new.memory_snapshot_id)"
    " FROM unnest(%b::text[], %b::text[], %b::bigint[]) AS new (namespace, key, memory_snapshot_id)"
    " WHERE new.namespace = vectors.namespace AND new.key = vectors.key"
    " AND new.memory_snapshot_id > vectors.memory_snapshot_id)"
    " FROM unnest(%b::text[], %b::text[], %b::bigint[]) AS given (namespace, key, memory_snapshot_id)"
    " WHERE vectors.namespace = given.namespace AND vectors.key = given.key"
    " AND vectors.memory_snapshot_id < given.memory_snapshot_id AND ended IS NULL"
)
_ERASE_VECTORS: Final = (
    "DELETE FROM vectors USING unnest(%b::text[], %b::text[], %b::bigint[], %b::bigint[]) AS erasure"
    " (namespace, key, memory_snapshot_id, until) WHERE vectors.namespace = erasure.namespace AND vectors.key"
    " = erasure.key AND vectors.memory_snapshot_id <= erasure.until"
)
_PUT_BUFFERS: Final = (
    _insert("buffers", Buffer, "text text text text bytea text bigint float8 text text text")
    + " ON CONFLICT (commit_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in Buffer.__struct_fields__)
)
_BRANCH: Final = ", ".join(Branch.__struct_fields__)
_BRANCHES: Final = f"SELECT {_BRANCH} FROM branches ORDER BY number"
_PUT_BRANCHES: Final = (
    _insert("branches", Branch, "bigint text bigint bigint bigint")
    + " ON CONFLICT (number) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in Branch.__struct_fields__)
)
_DROP_BUFFERS: Final = "DELETE FROM buffers WHERE commit_id = ANY(%b::text[])"


class PostgresStorage:
    """A backend in the schema ``standfast`` of a PostgreSQL database. Leases run by the server's clock."""

    is_shared = True

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        ids: IdSource,
        files: SideFiles | None = None,
        restored: bool = False,
    ) -> None:
        self._server = Server(url, clock, new_id=ids.new_id())
        self._lock = threading.Lock()
        self._head_file = HeadFile(None if files is None else files.head)
        self._may_be_behind = restored
        self._writer = ServerConnection(self._server, read_only=False)
        self._writer.open(self._server.connect(read_only=False))
        self._readers = ConnectionPool(self._server, read_only=True)
        self.temporary = PostgresTemporaryRows(self._server)
        self.segments = PostgresSegments(self._rows, self.transaction)
        try:
            self._refuse_cut(self._head_file.open())
        except BaseException:
            self.close()
            raise

    @property
    def acknowledged(self) -> Tip:
        """The end of the ledger by the head file of this process's folder."""
        return Tip() if self._may_be_behind else self._head_file.peek()

    def _refuse_cut(self, acknowledged: Tip) -> None:
        """Refuse a database that lacks what was acknowledged."""
        if acknowledged.seq == 0 or self._may_be_behind:
            return
        found = self._rows("SELECT hash FROM ledger WHERE seq = %s", acknowledged.seq)
        problem = lost_entry(acknowledged, bytes(found[0][0]).hex() if found else None, "postgresql://…")
        if problem is not None:
            if not is_left_behind(acknowledged, self.branches()):
                raise Corruption(what="the database", problem=problem)
            self._head_file.is_replaceable = True

    @contextmanager
    def transaction(self) -> Iterator["PostgresTransaction"]:
        """One writer per process and database. Waiting beyond ``MAX_BUSY_SECONDS`` is ``StoreBusy``."""
        with self._lock:
            # Read first: the ledger has everything that was acknowledged before the transaction began.
            known = Tip() if self._may_be_behind else self._head_file.read()
            transaction = PostgresTransaction(self._writer, self.segments, known)
            try:
                yield transaction
                transaction.finish()
                if transaction.tip is not None:
                    if self._may_be_behind or transaction.is_left_behind:
                        self._head_file.is_replaceable = True
                    self._head_file.write(transaction.tip)
                    self._may_be_behind = False
            except BaseException as error:
                # Closing rolls back, whatever the state of the connection.
                self._writer.close()
                if isinstance(error, SerializationConflict):
                    raise StoreFailed(problem=str(error)) from None
                raise

    def _rows(self, sql: str, *parameters: Any) -> list[Row]:
        """The rows of one statement, on a connection that can't write."""
        return self._readers.execute((sql, parameters))

    def head(self) -> int:
        """The newest snapshot."""
        head: int = self._rows("SELECT coalesce(max(memory_snapshot_id), 0) FROM commits")[0][0]
        return head

    def presence(self, namespace: str, prefixes: Sequence[str]) -> tuple[int, list[bool]]:
        """The newest snapshot, and whether there are keys with these prefixes."""
        columns = ["coalesce((SELECT max(memory_snapshot_id) FROM commits), 0)", *[_IS_UNDER] * len(prefixes)]
        places = [bound for one in prefixes for bound in (namespace, one, one + BEHIND_ALL_KEYS)]
        head, *found = self._rows(f"SELECT {', '.join(columns)}", *places)[0]
        return head, found

    def size_bytes(self) -> int:
        """The size of the schema's tables with their indexes."""
        size: int = self._rows(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )[0][0]
        return size

    def versions(self, query: VersionQuery) -> list[Version]:
        """The versions that match a query."""
        if query.keys is None:
            return [_version(row) for row in self._rows(*_versions_in_range(query))]
        keys, at = sorted(set(query.keys)), EVER if query.at is None else query.at
        if query.newest:
            newest = _NEWEST_WITH_CONTENT if query.with_content else _NEWEST_WITHOUT_CONTENT
            rows = self._rows(newest, [query.namespace] * len(keys), keys, at)
        else:
            columns = _VERSION if query.with_content else _VERSION_WITHOUT_CONTENT
            rows = self._rows(_OF_KEYS.format(columns=columns), query.namespace, keys, at)
        return [_version(row) for row in rows]

    def vectors(self, query: VectorQuery) -> list[Vector]:
        """The vectors that match a query."""
        condition, parameters = query.as_sql("%s")
        order = "ORDER BY namespace, key, memory_snapshot_id, embedder LIMIT %s"
        limit = EVER if query.limit is None else query.limit
        sql = f"SELECT {_VECTOR} FROM vectors WHERE {condition} {order}"
        return [Vector(*row) for row in self._rows(sql, *parameters, limit)]

    def commits(self, *, after: int, limit: int, run_ids: Sequence[str] = ()) -> list[AppliedCommit]:
        """Commits in snapshot order."""
        of_runs = (
            " AND (run_id = ANY(%s) OR split_part(run_id, '#', 1) = ANY(%s)"
            " OR split_part(run_id, '~', 1) = ANY(%s))"
            if run_ids
            else ""
        )
        sql = (
            f"SELECT {_APPLIED} FROM commits WHERE memory_snapshot_id > %s{of_runs}"
            " ORDER BY memory_snapshot_id LIMIT %s"
        )
        named = [list(run_ids)] * 3 if run_ids else []
        return [applied_of(row) for row in self._rows(sql, after, *named, limit)]

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """Ledger entries in order."""
        sql = "SELECT seq, content, hash FROM ledger WHERE seq > %s ORDER BY seq LIMIT %s"
        rows = self._rows(sql, after, limit)
        return [entry_of(row) for row in rows]

    def branches(self) -> list[Branch]:
        """The store's identity and its branches."""
        return [Branch(*row) for row in self._rows(_BRANCHES)]

    def reset(self) -> None:
        """Drop all connections, and wait until the server is done with what the writer sent last.

        What PostgreSQL shows is durable. But a commit whose answer was lost may still be under way, and it
        holds the lock until it is done. After getting the lock, a look-up shows the truth.
        """
        self.close()
        with self._lock:
            self._writer.execute_with_retry([*BEGIN_LOCKED, COMMIT])

    def check(self, *, rebuild_indexes: bool = False) -> Iterator[str]:
        """Report failed checksums, invalid indexes, and what amcheck finds if it is installed."""
        if rebuild_indexes:
            reindex = [(f"REINDEX TABLE {name}", ()) for name in TABLES]
            with self._lock:
                self._writer.execute_with_retry([*BEGIN_LOCKED, *reindex, COMMIT])
        counted = "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
        yield from (
            f"{failures} pages did not match their checksum"
            for (failures,) in self._rows(counted)
            if failures
        )
        listed = (
            "SELECT relname::text, relkind = 'i', coalesce(indisvalid AND indisready, true) FROM pg_class"
            " LEFT JOIN pg_index ON indexrelid = pg_class.oid"
            " WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'i') ORDER BY relname"
        )
        # Not every user may call amcheck.
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
                yield from self._problems_by_amcheck(f"SELECT * FROM {amcheck[0][0]}.{call}", name)

    def _problems_by_amcheck(self, sql: str, name: str) -> Iterator[str]:
        try:
            yield from (f"{name}: {row[-1]}" for row in self._rows(sql, name) if row[-1])
        except (Corruption, StoreFailed) as error:
            yield f"{name}: {error.facts['problem']}"

    def close(self) -> None:
        """Close all connections."""
        self._head_file.close()
        self.temporary.close()
        self._readers.close()
        with self._lock:
            self._writer.close()


class PostgresTransaction:
    """One round trip that locks and reads, and one that appends and commits."""

    def __init__(self, connection: ServerConnection, segments: PostgresSegments, acknowledged: Tip) -> None:
        self._connection = connection
        self._segments = segments
        self._acknowledged = acknowledged
        self.tip: Tip | None = None
        """The new end of the ledger, if something was appended to it."""
        self.is_left_behind = False
        """Whether a restore left the acknowledged entry behind."""
        self._reads: list[Statement] = []
        self._seen: list[Any] = []
        self._changes: list[Statement] = []
        self._collected_bytes = 0
        self._is_partly_sent = False

    def load(self, query: StateQuery) -> StateView:
        """Wait for the lock, and load the state that the query asks for."""
        ids, record_keys = list(query.commit_ids), query.record_keys
        binary_ids = [bytes.fromhex(commit_id) for commit_id in ids]
        self._reads = [
            *BEGIN_LOCKED,
            (_BUFFERS_BY_ID, (ids,)),
            (_APPLIED_BY_ID, (binary_ids,)),
            (
                _NEWEST_WITHOUT_CONTENT,
                ([namespace for namespace, _ in record_keys], [key for _, key in record_keys], EVER),
            ),
            *([(_ABANDONED, (query.abandoned,))] if query.abandoned else ()),
            *([] if query.ended_seconds is None else [(_ENDED, (query.ended_seconds, query.abandoned))]),
            (_ENDS, (self._acknowledged.seq,)),
        ]
        now, self._seen = self._read()
        buffers, applied, latest, *abandoned, (head, seq, digest, kept) = self._seen
        self._refuse_cut(None if kept is None else bytes(kept).hex())
        return StateView(
            now=now,
            head=head,
            tip=Tip() if seq is None else Tip(seq=seq, hash=digest.hex()),
            applied={one.commit_id: one for one in map(applied_of, applied)},
            buffers={row[0]: buffer_of(row) for rows in (buffers, *abandoned) for row in rows},
            latest={row[:2]: _version(row) for row in latest},
            commit_of=self._commit_of,
            is_written=self._is_written,
        )

    def _refuse_cut(self, found: str | None) -> None:
        """Write nothing behind a ledger that lacks what was acknowledged."""
        problem = lost_entry(self._acknowledged, found, "postgresql://…")
        if problem is not None:
            (rows,) = self._connection.execute([(_BRANCHES, ())])
            if not is_left_behind(self._acknowledged, [Branch(*row) for row in rows]):
                raise Corruption(what="the database", problem=problem)
            self.is_left_behind = True

    def _read(self) -> tuple[float, list[Any]]:
        """The server's time, and the rest of the state."""
        _, _, *seen, ((now, *ends),) = self._connection.execute_with_retry(self._reads)
        return now, [*seen, ends]

    def _commit_of(self, snapshot: int) -> str:
        sql = "SELECT commit_id FROM commits WHERE memory_snapshot_id = %s"
        (((commit_id,),),) = self._connection.execute([(sql, (snapshot,))])
        return bytes(commit_id).hex()

    def _is_written(self, namespace: str, prefix: str, after: int) -> bool:
        sql = (
            "SELECT EXISTS (SELECT 1 FROM versions WHERE namespace = %s AND key >= %s AND key < %s"
            " AND memory_snapshot_id > %s)"
        )
        bounds = (namespace, prefix, prefix + BEHIND_ALL_KEYS, after)
        (((found,),),) = self._connection.execute([(sql, bounds)])
        return bool(found)

    def read(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """The rows of statements, inside the transaction."""
        return self._connection.execute(statements)

    def add(self, statement: Statement) -> None:
        """Send a statement with the COMMIT."""
        self._changes.append(statement)

    def append(self, changes: Changes) -> None:
        """Collect the rows, parents first; they are sent with the COMMIT, or earlier if they are many."""
        if not self._reads:
            self.load(StateQuery())
        versions, buffers = changes.versions, {one.commit_id: one for one in changes.buffers}
        statements: tuple[tuple[str, list[Row]], ...] = (
            (_INSERT_ENTRIES, [row_of_entry(one) for one in changes.entries]),
            (_INSERT_APPLIED, [row_of_applied(one) for one in changes.applied]),
            (_INSERT_VERSIONS, list(map(_row_of_version, versions, packed_contents(versions)))),
            (_INSERT_VECTORS, list(map(astuple, changes.vectors))),
            (_REFER, references_to(versions)),
            (_TAKE_OVER, [row for row in map(_row_of_take_over, changes.erasures) if row is not None]),
            *((_ERASE, list(map(astuple, one))) for one in _one_of_each_record(changes.erasures)),
            (_ERASE_VECTORS, list(map(astuple, changes.erasures))),
            (_PUT_BUFFERS, list(map(astuple, buffers.values()))),
            (_PUT_BRANCHES, list(map(astuple, changes.branches))),
        )
        self._changes += [(sql, _columns(rows)) for sql, rows in statements if rows]
        self.tip = changes.entries[-1].tip if changes.entries else self.tip
        if changes.vector_ends:
            given = _columns(list(map(astuple, changes.vector_ends)))
            self._changes.append((_END_VECTORS, [*given, *given]))
        self._segments.erase(self, changes.erasures)
        if changes.dropped:
            self._changes.append((_DROP_BUFFERS, (changes.dropped,)))
        self._collected_bytes += sum(len(version.content or b"") for version in changes.versions)
        self._collected_bytes += sum(len(entry.content) for entry in changes.entries)
        self._collected_bytes += sum(len(vector.content) for vector in changes.vectors)
        if self._collected_bytes > FLUSH_BYTES:
            self.send()

    def send(self) -> None:
        """Send what was collected, so that ``read`` shows it."""
        self._connection.execute(self._changes)
        self._changes, self._collected_bytes, self._is_partly_sent = [], 0, True

    def finish(self) -> None:
        """Commit the changes. After a conflict they are sent again, if what they rest on is unchanged."""
        if not self._reads:
            return
        if not self._changes and not self._is_partly_sent:
            with suppress(StoreError):  # Nothing was changed.
                self._connection.execute([COMMIT])
            return
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            try:
                *_, committed = self._connection.execute([*self._changes, COMMIT])
            except SerializationConflict:
                if not attempts_left or self._is_partly_sent or self._read()[1] != self._seen:
                    raise
            else:
                assert committed == [("COMMIT",)], "a failed transaction ends with ROLLBACK"
                return


def _columns(rows: list[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _versions_in_range(query: VersionQuery) -> tuple[Any, ...]:
    """The statement and the parameters of a query that names no keys."""
    condition, parameters = query.as_sql("%s")
    if query.snapshot is not None or query.since is not None:
        # By their snapshots, whatever else is asked for: this keeps the server from the index of places.
        condition = condition.replace("namespace = ", "namespace || '' = ")
    distinct, order = ("DISTINCT ON (namespace, key)", " DESC") if query.newest else ("", "")
    limit = EVER if query.limit is None else query.limit
    columns = _VERSION if query.with_content else _VERSION_WITHOUT_CONTENT
    sql = (
        f"SELECT {distinct} {columns} FROM versions WHERE {condition}"
        f" ORDER BY namespace, key, memory_snapshot_id{order} LIMIT %s"
    )
    return sql, *parameters, limit


def _row_of_version(version: Version, content: bytes | None) -> Row:
    namespace, key, snapshot, action, _, _, erased_by = astuple(version)
    return namespace, key, snapshot, ACTION_NUMBERS[action], digest_of(version), content, erased_by


def _version(row: Row) -> Version:
    return version_of(row, row[2], None if row[5] is None else unpacked(row[5], row[1]))


def _row_of_take_over(erasure: Erasure) -> Row | None:
    second = second_key(erasure.key)
    if second is None:
        return None
    return erasure.namespace, erasure.key, second, erasure.until


def _one_of_each_record(erasures: Sequence[Erasure]) -> Iterator[list[Erasure]]:
    """Erasures in turns, of each record one: a version is emptied by the first that reaches it."""
    turns: list[list[Erasure]] = []
    seen: dict[tuple[str, str], int] = {}
    for one in erasures:
        number = seen[one.namespace, one.key] = seen.get((one.namespace, one.key), -1) + 1
        if number == len(turns):
            turns.append([])
        turns[number].append(one)
    yield from turns
