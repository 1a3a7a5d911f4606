"""Connections to a PostgreSQL server: settings read back, schema migrated, driver errors translated.

No driver error leaves this package. The distinction that matters is whether the server said that nothing was
changed, or the connection was lost, in which case nobody knows.
"""

import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import conninfo, errors

from standfast.clock import Clock, seeded
from standfast.errors import CannotOpen, Corruption, OutcomeUnknown, StoreBusy, StoreError, StoreFailed
from standfast.limits import MAX_ATTEMPTS, MAX_BUSY_SECONDS, MAX_POOLED_CONNECTIONS, MAX_RECONNECT_SECONDS
from standfast.store.compression import DICTIONARY

Connection = psycopg.Connection[tuple[Any, ...]]
Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]

SCHEMA: Final = "standfast"
OLDEST_SERVER: Final = 14

# Every writer of a database takes this lock, and so does a migration. A statement sees what was committed
# when it began, so the lock is taken by a statement of its own, before the first one that reads.
BEGIN_LOCKED: Final[list[Statement]] = [
    ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ()),
    ("SELECT pg_advisory_xact_lock(%s)", (int.from_bytes(b"standfst"),)),
]
COMMIT: Final[Statement] = ("COMMIT", ())

# Defaults for what the URL does not say. A server that vanishes is noticed within half a minute.
CONNECTING: Final = {
    "application_name": "standfast",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "keepalives_count": "3",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "target_session_attrs": "primary",
    "tcp_user_timeout": "30000",
}
SESSION: Final = {
    "search_path": f"{SCHEMA}, pg_temp",
    "lock_timeout": f"{MAX_BUSY_SECONDS}s",
    # A writer that stops in mid-transaction loses the lock before those that wait for it give up.
    "idle_in_transaction_session_timeout": f"{MAX_BUSY_SECONDS / 2}s",
    # Every statement has its index. A plan made while the tables were empty must not scan them when they are
    # full.
    "enable_seqscan": "off",
    "jit": "off",
}
# A setting, its safe values, and what to do otherwise.
SAFE_SETTINGS: Final = (
    ("fsync", ("on",), "set fsync = on in postgresql.conf, or a power cut can destroy the database"),
    (
        "full_page_writes",
        ("on",),
        "set full_page_writes = on in postgresql.conf, or a power cut can tear pages",
    ),
    ("synchronous_commit", ("on", "remote_apply"), "set it to on, or an acknowledged commit can be lost"),
    (
        "server_encoding",
        ("UTF8",),
        "create a database with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
    ),
)

# Step n leads to version n. A step that was released never changes.
MIGRATIONS: Final = (
    Path(__file__)
    .with_name("version-1.sql")
    .read_text("utf-8")
    .replace("{DICTIONARY}", DICTIONARY.hex())
    .replace("TEXT", 'text COLLATE "C"'),
)


class Server:
    """Where the database is, and how to connect to it safely. ``name`` is for messages and holds no password.

    ``new_id`` becomes the identity of a new store.
    """

    def __init__(self, url: str, clock: Clock, *, new_id: str) -> None:
        self._options = CONNECTING | _parse_url(url)
        named = {"user": "", "host": "localhost", "port": "5432", "dbname": ""} | self._options
        self.name = f"postgresql://{named['user']}@{named['host']}:{named['port']}/{named['dbname']}"
        self._clock = clock
        self._new_id = new_id
        self._jitter = seeded(int(new_id, 16))

    def connect(self, *, read_only: bool) -> Connection:
        """Connect and read the settings back. For a writer, migrate the schema as well."""
        try:
            connection: Connection = psycopg.connect(**self._options, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            problem = (
                f"{message_of(error)}; check that a server runs there, and the user, the password and the"
                " database"
            )
            raise CannotOpen(store=self.name, problem=problem) from None
        try:
            self._set_up(connection, read_only=read_only)
            if not read_only:
                self._migrate(connection)
        except psycopg.Error as error:
            connection.close()
            hint = f"; grant this user the right to create and use the schema {SCHEMA}"
            denied = isinstance(error, errors.InsufficientPrivilege)
            raise CannotOpen(store=self.name, problem=message_of(error) + hint * denied) from None
        except BaseException:
            connection.close()
            raise
        return connection

    def reconnect(self, *, read_only: bool) -> Connection:
        """Replace a lost connection. Waits for a server that restarts, with a bound."""
        waited_seconds, pause_seconds = 0.0, 0.02
        while True:
            try:
                return self.connect(read_only=read_only)
            except CannotOpen as error:
                if waited_seconds >= MAX_RECONNECT_SECONDS:
                    raise StoreFailed(problem=str(error)) from None
            # Longer each time, with jitter, so that clients do not come back all at once.
            pause_seconds = min(pause_seconds * 1.5, 1.0) * (0.75 + self._jitter.random() / 2)
            self._clock.sleep(pause_seconds)
            waited_seconds += pause_seconds

    def _set_up(self, connection: Connection, *, read_only: bool) -> None:
        version = connection.info.server_version // 10_000
        if version < OLDEST_SERVER:
            problem = f"the server is PostgreSQL {version}; upgrade it to {OLDEST_SERVER} or newer"
            raise CannotOpen(store=self.name, problem=problem)
        wanted = SESSION | {"default_transaction_read_only": "on" if read_only else "off"}
        if connection.execute("SHOW synchronous_commit").fetchone() != ("remote_apply",):
            wanted["synchronous_commit"] = "on"
        calls = ", ".join(["set_config(%s, %s, false)"] * len(wanted))
        connection.execute(f"SELECT {calls}", [word for pair in wanted.items() for word in pair])
        shown = ", ".join(f"current_setting('{name}')" for name, _, _ in SAFE_SETTINGS)
        values = connection.execute(f"SELECT {shown}").fetchone() or ()
        for (name, safe, advice), value in zip(SAFE_SETTINGS, values, strict=True):
            if value not in safe:
                raise CannotOpen(store=self.name, problem=f"it has {name} = {value}; {advice}")

    def _migrate(self, connection: Connection) -> None:
        """Bring the schema to the current version, each step in one transaction with its record."""
        if self._schema_version(connection) == _newest_version():
            return
        with connection.transaction():
            connection.execute(*BEGIN_LOCKED[1])
            known = self._schema_version(connection)
            if not connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).fetchall():
                connection.execute(f"CREATE SCHEMA {SCHEMA}")
            for version, migration in enumerate(MIGRATIONS[known:], known + 1):
                connection.execute(migration)
                connection.execute("INSERT INTO migrations VALUES (%s, clock_timestamp())", (version,))
            identity = "INSERT INTO branches VALUES (0, %s, 0, 0, 0) ON CONFLICT DO NOTHING"
            connection.execute(identity, (self._new_id,))

    def _schema_version(self, connection: Connection) -> int:
        # Not by to_regclass, whose cache may not know what was migrated while this one waited for the lock.
        sql = "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'migrations'"
        if not connection.execute(sql, (SCHEMA,)).fetchall():
            return 0
        (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone() or (0,)
        if version > _newest_version():
            problem = (
                f"its schema has version {version}, and this Standfast knows {_newest_version()}; upgrade"
                " Standfast"
            )
            raise CannotOpen(store=self.name, problem=problem)
        return int(version)


def _newest_version() -> int:
    return len(MIGRATIONS)


class SerializationConflict(Exception):
    """The server rolled a transaction back in favour of another. Nothing changed; a retry may succeed."""


class ServerConnection:
    """One connection: opened when it is needed, closed by any error, used by one thread at a time."""

    def __init__(self, server: Server, *, read_only: bool) -> None:
        self._server = server
        self._read_only = read_only
        self._connection: Connection | None = None
        self._pipeline: psycopg.Pipeline | None = None
        self._mode = ExitStack()

    def open(self, connection: Connection) -> None:
        """Use this driver connection from now on, in pipeline mode.

        That mode is never left: leaving it flushes, which the server takes for activity, so that it would no
        longer notice a client that stopped in mid-transaction.
        """
        # There are few statements, used often: each is prepared at its first use.
        connection.prepare_threshold = 0
        self._connection = connection
        self._pipeline = self._mode.enter_context(connection.pipeline())

    def execute(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Execute statements in one round trip.

        Returns the rows of each, or one row with the status of a command.

        Raises ``OutcomeUnknown`` if the connection is lost, and ``SerializationConflict`` or another
        ``StoreError`` if the server reported a failed statement; then those behind it were not executed, a
        COMMIT included.
        """
        try:
            if self._connection is None or self._pipeline is None:
                raise psycopg.OperationalError("the connection was lost")  # noqa: TRY301  # Every loss is handled below.
            cursors = [self._connection.execute(sql, values, binary=True) for sql, values in statements]
            self._pipeline.sync()
            return [
                cursor.fetchall() if cursor.description else [(cursor.statusmessage,)] for cursor in cursors
            ]
        except psycopg.Error as error:
            self.close()
            if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
                raise SerializationConflict(message_of(error)) from None
            raise self._failure(error) from None
        except BaseException:
            self.close()
            raise

    def execute_with_retry(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Execute statements that bear repetition, from the start on a new connection if this one is dead."""
        for _ in range(MAX_ATTEMPTS):
            if self._connection is None:
                self.open(self._server.reconnect(read_only=self._read_only))
            try:
                return self.execute(statements)
            except (SerializationConflict, OutcomeUnknown) as error:
                problem = str(error)
        raise StoreFailed(problem=f"failed {MAX_ATTEMPTS} times in a row: {problem}")

    def _failure(self, error: psycopg.Error) -> StoreError:
        """The store error for a driver error."""
        if _is_lost(error):
            return OutcomeUnknown(problem=message_of(error))
        if isinstance(error, errors.LockNotAvailable):
            return StoreBusy(waited_seconds=MAX_BUSY_SECONDS)
        if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
            return Corruption(what=self._server.name, problem=message_of(error))
        return StoreFailed(problem=message_of(error))

    def close(self) -> None:
        """Disconnect. The server rolls back what was not committed."""
        connection, self._connection, self._pipeline = self._connection, None, None
        if connection is not None:
            connection.close()
            with suppress(psycopg.Error):
                self._mode.close()


class ConnectionPool:
    """Connections that execute one statement each, on their own, and wait for the next.

    Threads may share it. There are at most ``MAX_POOLED_CONNECTIONS``, since a server has few; a caller waits
    until one is free.
    """

    def __init__(self, server: Server, *, read_only: bool) -> None:
        self._server = server
        self._read_only = read_only
        self._free = threading.BoundedSemaphore(MAX_POOLED_CONNECTIONS)
        self._idle: list[ServerConnection] = []

    def execute(self, statement: Statement) -> list[Row]:
        """The rows of one statement. It must bear repetition, in case the connection is lost."""
        with self._free:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = ServerConnection(self._server, read_only=self._read_only)
            try:
                (rows,) = connection.execute_with_retry([statement])
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)
            return rows

    def close(self) -> None:
        """Close all connections."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


def message_of(error: psycopg.Error) -> str:
    """The message of a driver error, in one line."""
    return " ".join((error.diag.message_primary or str(error)).split())


def _is_lost(error: psycopg.Error) -> bool:
    """Whether the statement may have been executed. A plain error from the server says that it was not."""
    severity = error.diag.severity_nonlocalized
    if severity is not None:
        return severity != "ERROR"
    return not isinstance(error, psycopg.DataError | psycopg.ProgrammingError | psycopg.NotSupportedError)


def _parse_url(url: str) -> dict[str, Any]:
    try:
        options = conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        options = {}
    ports = str(options.get("port", 5432)).split(",")
    names = f"{options.get('host')}{options.get('dbname')}"
    if not options or "@" in names or not all(port.isdigit() for port in ports):
        # An unreadable URL may hold the password anywhere, so none of it is shown.
        problem = (
            "the URL can't be read; write postgresql://user:password@host:5432/database, "
            "and percent-encode special characters of the password (@ as %40, / as %2F)"
        )
        raise CannotOpen(store="postgresql://…", problem=problem)
    return {name: value for name, value in options.items() if value is not None}
