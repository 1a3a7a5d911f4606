"""Temporary rows in PostgreSQL. They need no lock of the store: each statement is a transaction of its own."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from standfast.limits import MAX_IDLE_READERS
from standfast.store.postgres.server import Row, Server, ServerConnection, Statement
from standfast.store.protocol import BEHIND_ALL_KEYS
from standfast.store.temporary import TemporaryRow

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
    f"INSERT INTO temporary ({_COLUMNS}, expires_at) VALUES ({_VALUES}) ON CONFLICT (kind, row_id) DO UPDATE SET"
    " version = excluded.version, content = excluded.content, keep_seconds = excluded.keep_seconds,"
    f" expires_at = excluded.expires_at WHERE temporary.expires_at <= {_NOW} RETURNING 1"
)
_UPDATE_FIRST: Final = (
    f"UPDATE temporary SET version = %s, content = %b::bytea, keep_seconds = %s, expires_at = {_NOW} + %s::float8"
    f" WHERE kind = %s AND row_id = %s AND version = %s AND expires_at > {_NOW} RETURNING 1"
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
        self._server = server
        self._idle: list[ServerConnection] = []

    def get(self, kind: str, row_id: str) -> TemporaryRow | None:
        """Return a row, or None."""
        rows = self._execute((_GET, (kind, row_id)))
        return _row_of(rows[0]) if rows else None

    def scan(self, kind: str, prefix: str, *, after: str = "", limit: int) -> list[TemporaryRow]:
        """Return the first rows behind ``after``."""
        bounds = (kind, prefix, prefix + BEHIND_ALL_KEYS, after, limit)
        return [_row_of(row) for row in self._execute((_SCAN, bounds))]

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
            return self._execute((first, values)) == [(1,)]
        columns = [(one.kind, one.row_id, one.version, one.content, one.keep_seconds) for one in extra]
        arrays = tuple(list(column) for column in zip(*columns, strict=True))
        sql = f"WITH first AS ({first}), added AS ({_EXTRA}) SELECT 1 FROM first"
        return self._execute((sql, (*values, *arrays))) == [(1,)]

    def remove(self, kind: str, prefix: str) -> None:
        """Remove rows by the prefix of their ids."""
        self._execute((_REMOVE, (kind, prefix, prefix + BEHIND_ALL_KEYS)))

    def expire(self) -> int:
        """Remove the rows whose time is over."""
        ((status,),) = self._execute((_EXPIRE, ()))
        return int(str(status).rpartition(" ")[2])

    def _execute(self, statement: Statement) -> list[Row]:
        """The rows of one statement. It is executed again if the connection was lost, as all of them may be."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = ServerConnection(self._server, read_only=False)
        try:
            (rows,) = connection.execute_with_retry([statement])
        except BaseException:
            connection.close()
            raise
        if len(self._idle) < MAX_IDLE_READERS:
            self._idle.append(connection)
        else:
            connection.close()
        return rows

    def close(self) -> None:
        """Close all connections."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


def _row_of(row: Row) -> TemporaryRow:
    kind, row_id, version, content, keep_seconds = row
    return TemporaryRow(kind=kind, row_id=row_id, version=version, content=content, keep_seconds=keep_seconds)
