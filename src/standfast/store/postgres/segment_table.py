"""The segments of derived indexes in a PostgreSQL store."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from msgspec.structs import astuple

from standfast.store.protocol import Erasure, StateQuery
from standfast.store.segments import PartName, SegmentHead, is_indexed, may_put

Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]

MIGRATION: Final = """
    CREATE TABLE segments (
        segment_id TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        band TEXT NOT NULL,
        analysis TEXT NOT NULL,
        first bigint NOT NULL,
        last bigint NOT NULL,
        rows bigint NOT NULL,
        size_bytes bigint NOT NULL
    );
    CREATE INDEX segments_by_place ON segments (namespace, band, first, segment_id);
    CREATE TABLE segment_parts (
        segment_id TEXT NOT NULL REFERENCES segments (segment_id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        content bytea NOT NULL
    );
    ALTER TABLE segment_parts ALTER COLUMN content SET STORAGE EXTERNAL;
    CREATE UNIQUE INDEX segment_parts_by_name ON segment_parts (segment_id, name);
    CREATE TABLE segment_erasures (namespace TEXT PRIMARY KEY, memory_snapshot_id bigint NOT NULL);
    """.replace("TEXT", 'text COLLATE "C"')
TABLES: Final = ("segments", "segment_parts", "segment_erasures")
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
    "INSERT INTO segment_erasures SELECT namespace, max(memory_snapshot_id)"
    " FROM unnest(%b::text[], %b::text[], %b::bigint[]) AS erasure (namespace, key, memory_snapshot_id) GROUP BY namespace"
    " ON CONFLICT (namespace) DO UPDATE SET memory_snapshot_id = excluded.memory_snapshot_id"
)
_DROP_ERASED: Final = (
    "DELETE FROM segments USING unnest(%b::text[], %b::text[], %b::bigint[]) AS erasure (namespace, key, memory_snapshot_id),"
    " versions WHERE segments.namespace = erasure.namespace AND versions.namespace = erasure.namespace"
    " AND segments.band = split_part(erasure.key, '/', 1)"
    " AND versions.key = erasure.key AND versions.erased_by = erasure.memory_snapshot_id"
    " AND versions.memory_snapshot_id BETWEEN segments.first AND segments.last"
)


class SegmentTransaction(Protocol):
    """What a table of segments needs of a transaction."""

    def load(self, query: StateQuery) -> object:
        """Wait for the lock."""
        ...

    def read(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """The rows of statements, inside the transaction."""
        ...

    def add(self, statement: Statement) -> None:
        """Send a statement with the COMMIT."""
        ...


class PostgresSegments:
    """The table of segments of one database."""

    def __init__(
        self,
        rows: Callable[..., list[Row]],
        transaction: Callable[[], AbstractContextManager[SegmentTransaction]],
    ) -> None:
        self._rows = rows
        self._transaction = transaction

    def heads(self, namespace: str | None = None) -> list[SegmentHead]:
        """The segments by namespace, band, first snapshot and id."""
        rows = self._rows(_HEADS) if namespace is None else self._rows(_HEADS_OF, namespace)
        return [SegmentHead(*row) for row in rows]

    def parts(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """The parts with these names."""
        rows = self._rows(_PARTS, [one for one, _ in names], [name for _, name in names])
        return {(segment_id, name): content for segment_id, name, content in rows}

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


def drop_erased(erasures: Sequence[Erasure]) -> list[Statement]:
    """What drops all that covers a version that was just erased. It is sent with the transaction that erases."""
    indexed = [one for one in erasures if is_indexed(one.key)]
    if not indexed:
        return []
    columns: list[list[Any]] = [[getattr(one, name) for one in indexed] for name in Erasure.__struct_fields__]
    return [(_DROP_ERASED, columns), (_NOTE_ERASURES, columns)]
