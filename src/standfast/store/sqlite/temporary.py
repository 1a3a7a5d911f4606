"""Temporary rows in a SQLite store. Their writes take turns with commits, as all writes to the file do."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import apsw

from standfast.clock import Clock
from standfast.store.protocol import BEHIND_ALL_KEYS
from standfast.store.temporary import TemporaryRow

_COLUMNS: Final = "kind, row_id, version, content, keep_seconds, expires_at"
_GET: Final = f"SELECT {_COLUMNS} FROM temporary WHERE kind = ? AND row_id = ? AND expires_at > ?"
_SCAN: Final = (
    f"SELECT {_COLUMNS} FROM temporary WHERE kind = ? AND row_id >= ? AND row_id < ? AND row_id > ? AND expires_at > ?"
    " ORDER BY row_id LIMIT ?"
)
_PUT: Final = f"REPLACE INTO temporary ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_REMOVE: Final = "DELETE FROM temporary WHERE kind = ? AND row_id >= ? AND row_id < ?"
_EXPIRE: Final = "DELETE FROM temporary WHERE expires_at <= ?"
Connecting = Callable[[], AbstractContextManager[apsw.Connection]]


class SQLiteTemporaryRows:
    """The table ``temporary`` of a file.

    Args:
        reading: Borrows a connection that reads, for the length of a block.
        writing: Begins a transaction on the connection that writes; leaving the block commits.
    """

    def __init__(self, reading: Connecting, writing: Connecting, clock: Clock) -> None:
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
