"""What a PostgreSQL store holds outside of snapshots and the ledger: segments of derived indexes, and
temporary rows.

Temporary rows need no lock of the store: each statement is a transaction of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from msgspec.structs import astuple

from standfast.store.postgres.server import ConnectionPool, Row, Server, Statement
from standfast.store.protocol import (
    BEHIND_ALL_KEYS,
    Erasure,
    PartName,
    SegmentEraser,
    SegmentHead,
    StateQuery,
    TemporaryRow,
    erased_from_segments,
    is_indexed,
    may_put,
)

_HEAD: Final = ", ".join(SegmentHead.__struct_fields__)
_HEADS: Final = f"SELECT {_HEAD} FROM segments ORDER BY namespace, band, first, segment_id"
_HEADS_OF: Final = f"SELECT {_HEAD} FROM segments WHERE namespace = %s ORDER BY band, first, segment_id"
_PARTS: Final = (
    "SELECT segment_id, name, content FROM unnest(%b::text[], %b::text[]) AS asked (segment_id, name)"
    " JOIN segment_parts USING (segment_id, name)"
)
_PUT_HEAD: Final = f"INSERT INTO segments ({_HEAD}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
_PUT_PARTS: Final = (
    "INSERT INTO segment_parts (segment_id, name, content)"
    " SELECT %s, name, content FROM unnest(%b::text[], %b::bytea[]) AS part (name, content)"
)
_DROP: Final = "DELETE FROM segments WHERE segment_id = ANY(%b::text[])"
_LAST_ERASURE: Final = "SELECT memory_snapshot_id FROM segment_erasures WHERE namespace = %s"
_NOTE_ERASURES: Final = (
    "INSERT INTO segment_erasures SELECT namespace, max(memory_snapshot_id) FROM unnest(%b::text[],"
    " %b::text[], %b::bigint[]) AS erasure (namespace, key, memory_snapshot_id) GROUP BY namespace ON"
    " CONFLICT (namespace) DO UPDATE SET memory_snapshot_id = excluded.memory_snapshot_id"
)
_ERASED: Final = (
    "SELECT versions.namespace, versions.key, versions.memory_snapshot_id FROM unnest(%b::text[],"
    " %b::text[], %b::bigint[]) AS erasure (namespace, key, memory_snapshot_id) JOIN versions ON"
    " versions.namespace = erasure.namespace AND versions.key = erasure.key AND versions.erased_by ="
    " erasure.memory_snapshot_id"
)
_CHANGE_PARTS: Final = (
    "UPDATE segment_parts SET content = part.content FROM unnest(%b::text[], %b::text[], %b::bytea[]) AS"
    " part (segment_id, name, content) WHERE segment_parts.segment_id = part.segment_id AND"
    " segment_parts.name = part.name"
)


class PostgresSegments:
    """The table of segments of one database.

    Args:
        rows: Reads the rows of one statement.
        transaction: Begins a ``PostgresTransaction``.
    """

    def __init__(
        self,
        rows: Callable[..., list[Row]],
        transaction: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._rows = rows
        self._transaction = transaction
        self.eraser: SegmentEraser | None = None

    def heads(self, namespace: str | None = None) -> list[SegmentHead]:
        """The segments by namespace, band, first snapshot and id."""
        rows = self._rows(_HEADS) if namespace is None else self._rows(_HEADS_OF, namespace)
        return [SegmentHead(*row) for row in rows]

    def parts(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """The parts with these names."""
        sql, asked = _asked_parts(names)
        return _parts_in(self._rows(sql, *asked))

    def put(self, head: SegmentHead, parts: Mapping[str, bytes], *, replaces: Sequence[str], at: int) -> bool:
        """Put a segment in the place of others."""
        with self._transaction() as transaction:
            transaction.load(StateQuery())
            rows, erased = transaction.read(
                [(_HEADS_OF, (head.namespace,)), (_LAST_ERASURE, (head.namespace,))]
            )
            present = [SegmentHead(*row) for row in rows]
            last_erasure = erased[0][0] if erased else 0
            if not may_put(head, present, replaces=replaces, at=at, last_erasure=last_erasure):
                return False
            names = sorted(parts)
            transaction.add((_DROP, (list(replaces),)))
            transaction.add((_PUT_HEAD, astuple(head)))
            transaction.add((_PUT_PARTS, (head.segment_id, names, [parts[name] for name in names])))
        return True

    def drop(self, segment_ids: Sequence[str]) -> None:
        """Remove segments."""
        with self._transaction() as transaction:
            transaction.load(StateQuery())
            transaction.add((_DROP, (list(segment_ids),)))

    def last_erasure(self, namespace: str) -> int:
        """The newest snapshot that erased something indexed."""
        rows = self._rows(_LAST_ERASURE, namespace)
        return int(rows[0][0]) if rows else 0

    def erase(self, transaction: Any, erasures: Sequence[Erasure]) -> None:
        """Take versions out of segments, inside the ``PostgresTransaction`` that erases them."""
        indexed = [one for one in erasures if is_indexed(one.key)]
        if not indexed:
            return
        columns = [
            [getattr(one, name) for one in indexed] for name in ("namespace", "key", "memory_snapshot_id")
        ]
        heads = [SegmentHead(*row) for row in transaction.read([(_HEADS, ())])[0]]
        if heads:
            transaction.send()
            erased = [(row[0], row[1], row[2]) for row in transaction.read([(_ERASED, columns)])[0]]
            parts, dropped = erased_from_segments(
                erased,
                heads,
                self.eraser,
                lambda names: _parts_in(transaction.read([_asked_parts(names)])[0]),
            )
            names = sorted(parts)
            if names:
                contents = [parts[name] for name in names]
                given = ([one for one, _ in names], [name for _, name in names], contents)
                transaction.add((_CHANGE_PARTS, given))
            if dropped:
                transaction.add((_DROP, (dropped,)))
        transaction.add((_NOTE_ERASURES, columns))


def _asked_parts(names: Sequence[PartName]) -> Statement:
    return _PARTS, ([one for one, _ in names], [name for _, name in names])


def _parts_in(rows: Sequence[Row]) -> dict[PartName, bytes]:
    return {(segment_id, name): bytes(content) for segment_id, name, content in rows}


_NOW: Final = "extract(epoch FROM clock_timestamp())::float8"
_COLUMNS: Final = "kind, row_id, version, content, keep_seconds"
_GET: Final = (
    f"SELECT {_COLUMNS} FROM temporary WHERE kind = %s AND row_id = %s AND expires_at > (SELECT {_NOW})"
)
_SCAN: Final = (
    f"SELECT {_COLUMNS} FROM temporary WHERE kind = %s AND row_id >= %s AND row_id < %s AND row_id > %s"
    f" AND expires_at > (SELECT {_NOW}) ORDER BY row_id LIMIT %s"
)
_VALUES: Final = f"%s, %s, %s::bigint, %b::bytea, %s::float8, {_NOW} + %s::float8"
_INSERT_FIRST: Final = (
    f"INSERT INTO temporary ({_COLUMNS}, expires_at) VALUES ({_VALUES}) ON CONFLICT (kind, row_id) DO UPDATE"
    " SET version = excluded.version, content = excluded.content, keep_seconds = excluded.keep_seconds,"
    f" expires_at = excluded.expires_at WHERE temporary.expires_at <= {_NOW} RETURNING 1"
)
_UPDATE_FIRST: Final = (
    f"UPDATE temporary SET version = %s, content = %b::bytea, keep_seconds = %s, expires_at = {_NOW} +"
    f" %s::float8 WHERE kind = %s AND row_id = %s AND version = %s AND expires_at > {_NOW} RETURNING 1"
)
_EXTRA: Final = (
    " INSERT INTO temporary (kind, row_id, version, content, keep_seconds, expires_at)"
    f" SELECT kind, row_id, version, content, keep_seconds, {_NOW} + keep_seconds"
    " FROM unnest(%b::text[], %b::text[], %b::bigint[], %b::bytea[], %b::float8[])"
    " AS extra (kind, row_id, version, content, keep_seconds) WHERE EXISTS (SELECT 1 FROM first)"
    " ON CONFLICT (kind, row_id) DO UPDATE SET version = excluded.version, content = excluded.content,"
    " keep_seconds = excluded.keep_seconds, expires_at = excluded.expires_at"
)
_REMOVE: Final = "DELETE FROM temporary WHERE kind = %s AND row_id >= %s AND row_id < %s"
_EXPIRE: Final = f"DELETE FROM temporary WHERE expires_at <= (SELECT {_NOW})"


class PostgresTemporaryRows:
    """The table ``temporary`` of a database. Rows live by the server's clock."""

    def __init__(self, server: Server) -> None:
        self._connections = ConnectionPool(server, read_only=False)

    def get(self, kind: str, row_id: str) -> TemporaryRow | None:
        """Return a row, or None."""
        rows = self._connections.execute((_GET, (kind, row_id)))
        return _row_of(rows[0]) if rows else None

    def scan(self, kind: str, prefix: str, *, after: str = "", limit: int) -> list[TemporaryRow]:
        """Return the first rows behind ``after``."""
        bounds = (kind, prefix, prefix + BEHIND_ALL_KEYS, after, limit)
        return [_row_of(row) for row in self._connections.execute((_SCAN, bounds))]

    def put(self, row: TemporaryRow, *, replaces: int | None, extra: Sequence[TemporaryRow] = ()) -> bool:
        """Write all rows, or none."""
        values: tuple[Any, ...]
        if replaces is None:
            first = _INSERT_FIRST
            values = row.kind, row.row_id, row.version, row.content, row.keep_seconds, row.keep_seconds
        else:
            first = _UPDATE_FIRST
            values = row.version, row.content, row.keep_seconds, row.keep_seconds
            values = *values, row.kind, row.row_id, replaces
        if not extra:
            return self._connections.execute((first, values)) == [(1,)]
        columns = [(one.kind, one.row_id, one.version, one.content, one.keep_seconds) for one in extra]
        arrays = tuple(list(column) for column in zip(*columns, strict=True))
        sql = f"WITH first AS ({first}), added AS ({_EXTRA}) SELECT 1 FROM first"
        return self._connections.execute((sql, (*values, *arrays))) == [(1,)]

    def remove(self, kind: str, prefix: str) -> None:
        """Remove rows by the prefix of their ids."""
        self._connections.execute((_REMOVE, (kind, prefix, prefix + BEHIND_ALL_KEYS)))

    def expire(self) -> int:
        """Remove the rows whose time is over."""
        ((status,),) = self._connections.execute((_EXPIRE, ()))
        return int(str(status).rpartition(" ")[2])

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def _row_of(row: Row) -> TemporaryRow:
    kind, row_id, version, content, keep_seconds = row
    return TemporaryRow(kind=kind, row_id=row_id, version=version, content=content, keep_seconds=keep_seconds)
