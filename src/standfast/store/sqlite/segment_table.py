"""The segments of derived indexes in a SQLite store."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import apsw
from msgspec.structs import astuple

from standfast.scopes import prefix_in
from standfast.store.protocol import Erasure
from standfast.store.segments import PartName, SegmentHead, is_indexed, may_put

MIGRATION: Final = """
    CREATE TABLE segments (
        segment_id TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        band TEXT NOT NULL,
        analysis TEXT NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        size_bytes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX segments_by_place ON segments (namespace, band, first, segment_id);
    CREATE TABLE segment_parts (
        segment_id TEXT NOT NULL REFERENCES segments (segment_id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        content BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX segment_parts_by_name ON segment_parts (segment_id, name);
    CREATE TABLE segment_erasures (namespace TEXT PRIMARY KEY, memory_snapshot_id INTEGER NOT NULL) STRICT;
    """
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
_DROP_ERASED: Final = (
    "DELETE FROM segments WHERE namespace = ?1 AND band = ?4 AND EXISTS (SELECT 1 FROM versions"
    " WHERE versions.namespace = ?1 AND key = ?2 AND erased_by = ?3 AND id >> 16 BETWEEN first AND last)"
)


class SQLiteSegments:
    """The table of segments of one file."""

    def __init__(self, reading: Connections, writing: Connections) -> None:
        self._reading = reading
        self._writing = writing

    def heads(self, namespace: str | None = None) -> list[SegmentHead]:
        """The segments by namespace, band, first snapshot and id."""
        with self._reading() as connection:
            return _heads(connection, namespace)

    def parts(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """The parts with these names."""
        with self._reading() as connection:
            rows = connection.executemany(_PART, names)
            return {(segment_id, name): content for segment_id, name, content in rows}

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


def drop_erased(connection: apsw.Connection, erasures: Sequence[Erasure]) -> None:
    """Drop what covers a version that was just erased. It is called inside the transaction that erases."""
    for one in erasures:
        if is_indexed(one.key):
            connection.execute(_DROP_ERASED, (*astuple(one), prefix_in(one.key)))
            connection.execute(_NOTE_ERASURE, (one.namespace, one.memory_snapshot_id))


def _heads(connection: apsw.Connection, namespace: str | None) -> list[SegmentHead]:
    rows = connection.execute(_HEADS) if namespace is None else connection.execute(_HEADS_OF, (namespace,))
    return [SegmentHead(*row) for row in rows]


def _last_erasure(connection: apsw.Connection, namespace: str) -> int:
    found: int | None = connection.execute(_LAST_ERASURE, (namespace,)).get
    return found or 0
