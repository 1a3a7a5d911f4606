"""What a SQLite store holds outside of snapshots and ledger: segments of indexes, temporary rows."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import apsw
from msgspec.structs import astuple

from standfast.clock import Clock
from standfast.store.protocol import (
    BEHIND_ALL_KEYS,
    Erasure,
    PartName,
    SegmentEraser,
    SegmentHead,
    TemporaryRow,
    erased_from_segments,
    is_indexed,
    may_put,
)

Connections = Callable[[], AbstractContextManager[apsw.Connection]]
_HEAD: Final = ", ".join(SegmentHead.__struct_fields__)
_HEADS: Final = f"SELECT {_HEAD} FROM segments ORDER BY namespace, band, first, segment_id"
_HEADS_OF: Final = f"SELECT {_HEAD} FROM segments WHERE namespace = ? ORDER BY band, first, segment_id"
_PART: Final = "SELECT segment_id, name, content FROM segment_parts WHERE segment_id = ? AND name = ?"
_PUT_HEAD: Final = f"INSERT INTO segments ({_HEAD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_PART: Final = "INSERT INTO segment_parts (segment_id, name, content) VALUES (?, ?, ?)"
_DROP: Final = "DELETE FROM segments WHERE segment_id = ?"
_LAST_ERASURE: Final = "SELECT memory_snapshot_id FROM segment_erasures WHERE namespace = ?"
_NOTE_ERASURE: Final = "REPLACE INTO segment_erasures VALUES (?, ?)"
_ERASED: Final = (
    "SELECT namespace, key, id >> 16 FROM versions WHERE namespace = ? AND key = ? AND erased_by = ?"
)
_CHANGE_PART: Final = "UPDATE segment_parts SET content = ? WHERE segment_id = ? AND name = ?"


class SQLiteSegments:
    """The table of segments of one file."""

    def __init__(self, reading: Connections, writing: Connections) -> None:
        self._reading = reading
        self._writing = writing
        self.eraser: SegmentEraser | None = None

    def heads(self, namespace: str | None = None) -> list[SegmentHead]:
        """The segments by namespace, band, first snapshot and id."""
        with self._reading() as connection:
            return _heads(connection, namespace)

    def parts(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """The parts with these names."""
        with self._reading() as connection:
            return _parts(connection, names)

    def put(self, head: SegmentHead, parts: Mapping[str, bytes], *, replaces: Sequence[str], at: int) -> bool:
        """Put a segment in the place of others."""
        with self._writing() as connection:
            present = _heads(connection, head.namespace)
            erased = _last_erasure(connection, head.namespace)
            if not may_put(head, present, replaces=replaces, at=at, last_erasure=erased):
                return False
            connection.executemany(_DROP, [(one,) for one in replaces])
            connection.execute(_PUT_HEAD, astuple(head))
            connection.executemany(
                _PUT_PART, ((head.segment_id, name, parts[name]) for name in sorted(parts))
            )
        return True

    def drop(self, segment_ids: Sequence[str]) -> None:
        """Remove segments."""
        with self._writing() as connection:
            connection.executemany(_DROP, [(one,) for one in segment_ids])

    def last_erasure(self, namespace: str) -> int:
        """The newest snapshot that erased something indexed."""
        with self._reading() as connection:
            return _last_erasure(connection, namespace)

    def erase(self, connection: apsw.Connection, erasures: Sequence[Erasure]) -> None:
        """Take versions that were just erased out of segments, inside the transaction that erases them."""
        indexed = [one for one in erasures if is_indexed(one.key)]
        if not indexed:
            return
        places = [(one.namespace, one.key, one.memory_snapshot_id) for one in indexed]
        parts, dropped = erased_from_segments(
            list(connection.executemany(_ERASED, places)),
            [
                one
                for namespace in sorted({one.namespace for one in indexed})
                for one in _heads(connection, namespace)
            ],
            self.eraser,
            lambda names: _parts(connection, names),
        )
        connection.executemany(_CHANGE_PART, ((part, *name) for name, part in sorted(parts.items())))
        connection.executemany(_DROP, [(one,) for one in dropped])
        noted = {one.namespace: one.memory_snapshot_id for one in indexed}
        connection.executemany(_NOTE_ERASURE, sorted(noted.items()))


def _parts(connection: apsw.Connection, names: Sequence[PartName]) -> dict[PartName, bytes]:
    rows = connection.executemany(_PART, names)
    return {(segment_id, name): content for segment_id, name, content in rows}


def _heads(connection: apsw.Connection, namespace: str | None) -> list[SegmentHead]:
    rows = connection.execute(_HEADS) if namespace is None else connection.execute(_HEADS_OF, (namespace,))
    return [SegmentHead(*row) for row in rows]


def _last_erasure(connection: apsw.Connection, namespace: str) -> int:
    found: int | None = connection.execute(_LAST_ERASURE, (namespace,)).get
    return found or 0


_COLUMNS: Final = "kind, row_id, version, content, keep_seconds, expires_at"
_GET: Final = f"SELECT {_COLUMNS} FROM temporary WHERE kind = ? AND row_id = ? AND expires_at > ?"
_SCAN: Final = (
    f"SELECT {_COLUMNS} FROM temporary WHERE kind = ? AND row_id >= ? AND row_id < ? AND row_id > ? AND"
    " expires_at > ? ORDER BY row_id LIMIT ?"
)
_PUT: Final = f"REPLACE INTO temporary ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_REMOVE: Final = "DELETE FROM temporary WHERE kind = ? AND row_id >= ? AND row_id < ?"
_EXPIRE: Final = "DELETE FROM temporary WHERE expires_at <= ?"


class SQLiteTemporaryRows:
    """The table ``temporary`` of a file.

    Args:
        reading: Borrows a connection that reads, for the length of a block.
        writing: Begins a transaction on the connection that writes; leaving the block commits.
    """

    def __init__(self, reading: Connections, writing: Connections, clock: Clock) -> None:
        self._reading = reading
        self._writing = writing
        self._clock = clock

    def get(self, kind: str, row_id: str) -> TemporaryRow | None:
        """Return a row, or None."""
        with self._reading() as connection:
            rows = connection.execute(_GET, (kind, row_id, self._now())).fetchall()
            return _row_of(rows[0]) if rows else None

    def scan(self, kind: str, prefix: str, *, after: str = "", limit: int) -> list[TemporaryRow]:
        """Return the first rows behind ``after``."""
        bounds = (kind, prefix, prefix + BEHIND_ALL_KEYS, after, self._now(), limit)
        with self._reading() as connection:
            return [_row_of(row) for row in connection.execute(_SCAN, bounds)]

    def put(self, row: TemporaryRow, *, replaces: int | None, extra: Sequence[TemporaryRow] = ()) -> bool:
        """Write all rows, or none."""
        with self._writing() as connection:
            now = self._now()
            held = connection.execute(_GET, (row.kind, row.row_id, now)).fetchall()
            if (held[0][2] if held else None) != replaces:
                return False
            for one in (row, *extra):
                values = (one.kind, one.row_id, one.version, one.content, one.keep_seconds)
                connection.execute(_PUT, (*values, now + one.keep_seconds))
            return True

    def remove(self, kind: str, prefix: str) -> None:
        """Remove rows by the prefix of their ids."""
        with self._writing() as connection:
            connection.execute(_REMOVE, (kind, prefix, prefix + BEHIND_ALL_KEYS))

    def expire(self) -> int:
        """Remove the rows whose time is over."""
        with self._writing() as connection:
            connection.execute(_EXPIRE, (self._now(),))
            return connection.changes()

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _row_of(row: Any) -> TemporaryRow:
    kind, row_id, version, content, keep_seconds, _ = row
    return TemporaryRow(kind=kind, row_id=row_id, version=version, content=content, keep_seconds=keep_seconds)
