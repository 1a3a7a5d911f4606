"""Connections to a PostgreSQL server that can be trusted: settings read back, schema in one transaction, errors in words.

Nothing of the driver is raised out of this package: ``Line`` and ``Server`` see to it, with the one distinction that
matters: did the server say that nothing was changed, or was the connection lost?
"""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

import psycopg
from psycopg import conninfo, errors

from standfast.clock import Clock, seeded
from standfast.errors import CannotOpen, Corruption, OutcomeUnknown, StoreBusy, StoreError, StoreFailed
from standfast.limits import MAX_ATTEMPTS, MAX_BUSY_SECONDS, MAX_RECONNECT_SECONDS

Connection = psycopg.Connection[tuple[Any, ...]]
Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]

SCHEMA: Final = "standfast"
OLDEST_SERVER: Final = 14

# Every writer of a database takes this lock, and so does who migrates it. A statement sees what was committed when it
# began, so the lock is taken by a statement of its own, before the first one that looks.
LOCKED: Final[list[Statement]] = [
    ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ()),
    ("SELECT pg_advisory_xact_lock(%s)", (int.from_bytes(b"standfst"),)),
]
COMMIT: Final[Statement] = ("COMMIT", ())

# What the URL does not say. A server that vanishes without a word is noticed within half a minute.
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
    # A writer that stops in mid-transaction loses the lock before those who wait for it lose their patience.
    "idle_in_transaction_session_timeout": f"{MAX_BUSY_SECONDS / 2}s",
    # Every statement has its index; a plan that was made while the tables were empty must not scan them when full.
    "enable_seqscan": "off",
    "jit": "off",
}
# Setting, the values that can be trusted, and the way out.
TRUSTED: Final = (
    ("fsync", ("on",), "set fsync = on in postgresql.conf, or a power cut can destroy the database"),
    (
        "full_page_writes",
        ("on",),
        "set full_page_writes = on in postgresql.conf, or a power cut can tear pages",
    ),
    ("synchronous_commit", ("on", "remote_apply"), "without it, an acknowledged commit can be lost"),
    (
        "server_encoding",
        ("UTF8",),
        "make a database with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
    ),
)

MIGRATIONS: Final = (
    """
    CREATE TABLE migrations (version bigint PRIMARY KEY, applied_at timestamptz NOT NULL);
    CREATE TABLE ledger (seq bigint PRIMARY KEY, content bytea NOT NULL, hash TEXT NOT NULL);
    CREATE TABLE commits (
        memory_snapshot_id bigint PRIMARY KEY,
        commit_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        payload_fingerprint TEXT NOT NULL,
        committed_at TEXT NOT NULL,
        ledger_seq bigint NOT NULL REFERENCES ledger (seq),
        ledger_hash TEXT NOT NULL
    );
    CREATE UNIQUE INDEX commits_by_id ON commits (commit_id);
    CREATE TABLE versions (
        memory_snapshot_id bigint NOT NULL REFERENCES commits (memory_snapshot_id),
        namespace TEXT NOT NULL,
        key TEXT NOT NULL,
        action TEXT NOT NULL CHECK (action IN ('WRITE', 'MERGE', 'EXPIRE')),
        fingerprint TEXT,
        content bytea,
        CHECK ((action = 'EXPIRE') = (fingerprint IS NULL))
    );
    CREATE UNIQUE INDEX versions_by_place ON versions (namespace, key, memory_snapshot_id DESC);
    CREATE INDEX versions_by_snapshot ON versions (memory_snapshot_id);
    CREATE TABLE buffers (
        commit_id TEXT PRIMARY KEY,
        run_id TEXT NOT NULL,
        payload_fingerprint TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('buffer_open', 'commit_pending', 'commit_aborted')),
        content bytea,
        owner TEXT NOT NULL,
        fence bigint NOT NULL,
        lease_until double precision NOT NULL,
        waits_for TEXT,
        reason_code TEXT,
        problem TEXT,
        CHECK ((state = 'commit_aborted') = (reason_code IS NOT NULL))
    );
    CREATE INDEX buffers_by_lease ON buffers (lease_until, commit_id) WHERE reason_code IS NULL AND waits_for IS NULL;
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'append-only'; END $$;
    CREATE TRIGGER ledger_never_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger EXECUTE FUNCTION refuse();
    CREATE TRIGGER commits_never_change BEFORE UPDATE OR DELETE OR TRUNCATE ON commits EXECUTE FUNCTION refuse();
    CREATE TRIGGER versions_never_change BEFORE UPDATE OR DELETE OR TRUNCATE ON versions EXECUTE FUNCTION refuse();
    """.replace("TEXT", 'text COLLATE "C"'),
    """
    ALTER TABLE versions ADD COLUMN erased_by bigint REFERENCES commits (memory_snapshot_id);
    DROP TRIGGER versions_never_change ON versions;
    CREATE TRIGGER versions_never_shrink BEFORE DELETE OR TRUNCATE ON versions EXECUTE FUNCTION refuse();
    CREATE TRIGGER versions_never_change BEFORE UPDATE ON versions FOR EACH ROW
    WHEN (NOT (
        OLD.content IS NOT NULL AND NEW.content IS NULL
        AND OLD.erased_by IS NULL AND NEW.erased_by IS NOT NULL AND NEW.erased_by > OLD.memory_snapshot_id
        AND NEW.memory_snapshot_id = OLD.memory_snapshot_id
        AND NEW.namespace = OLD.namespace AND NEW.key = OLD.key
        AND NEW.action = OLD.action AND NEW.fingerprint IS NOT DISTINCT FROM OLD.fingerprint
    ))
    EXECUTE FUNCTION refuse();
    """,
)


class Server:
    """Where the database is, and how to get a connection that can be trusted. Its ``name`` holds no password."""

    def __init__(self, url: str, clock: Clock, *, seed: int) -> None:
        self._options = CONNECTING | _read(url)
        told = {"user": "", "host": "localhost", "port": "5432", "dbname": ""} | self._options
        self.name = f"postgresql://{told['user']}@{told['host']}:{told['port']}/{told['dbname']}"
        self._clock = clock
        self._dice = seeded(seed)

    def connect(self, *, read_only: bool) -> Connection:
        """A connection whose settings were read back; a writer's is to a database that has the present schema."""
        try:
            connection: Connection = psycopg.connect(**self._options, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            problem = (
                f"{told(error)}; check that a server runs there, and the user, the password and the database"
            )
            raise CannotOpen(store=self.name, problem=problem) from None
        try:
            self._set_up(connection, read_only=read_only)
            if not read_only:
                self._migrate(connection)
        except psycopg.Error as error:
            connection.close()
            way_out = f"; this user must be allowed to make and to fill the schema {SCHEMA}"
            denied = isinstance(error, errors.InsufficientPrivilege)
            raise CannotOpen(store=self.name, problem=told(error) + way_out * denied) from None
        except BaseException:
            connection.close()
            raise
        return connection

    def reconnect(self, *, read_only: bool) -> Connection:
        """A new connection in the place of a lost one; a server that restarts is waited for, with a bound."""
        waited_seconds, pause_seconds = 0.0, 0.02
        while True:
            try:
                return self.connect(read_only=read_only)
            except CannotOpen as error:
                if waited_seconds >= MAX_RECONNECT_SECONDS:
                    raise StoreFailed(problem=str(error)) from None
            # Longer each time, with jitter, so that not all who lost their connection come back at once.
            pause_seconds = min(pause_seconds * 1.5, 1.0) * (0.75 + self._dice.random() / 2)
            self._clock.sleep(pause_seconds)
            waited_seconds += pause_seconds

    def _set_up(self, connection: Connection, *, read_only: bool) -> None:
        version = connection.info.server_version // 10_000
        if version < OLDEST_SERVER:
            problem = f"its server is PostgreSQL {version}; upgrade it to {OLDEST_SERVER} or newer"
            raise CannotOpen(store=self.name, problem=problem)
        wanted = SESSION | {"default_transaction_read_only": "on" if read_only else "off"}
        if connection.execute("SHOW synchronous_commit").fetchone() != ("remote_apply",):
            wanted["synchronous_commit"] = "on"
        calls = ", ".join(["set_config(%s, %s, false)"] * len(wanted))
        connection.execute(f"SELECT {calls}", [word for pair in wanted.items() for word in pair])
        shown = ", ".join(f"current_setting('{name}')" for name, _, _ in TRUSTED)
        values = connection.execute(f"SELECT {shown}").fetchone() or ()
        for (name, trusted, way_out), value in zip(TRUSTED, values, strict=True):
            if value not in trusted:
                raise CannotOpen(store=self.name, problem=f"it has {name} = {value}; {way_out}")

    def _migrate(self, connection: Connection) -> None:
        """Bring the schema to the present version, each step in one transaction with its record."""
        if self._schema_version(connection) == len(MIGRATIONS):
            return
        with connection.transaction():
            connection.execute(*LOCKED[1])
            known = self._schema_version(connection)
            if not connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).fetchall():
                connection.execute(f"CREATE SCHEMA {SCHEMA}")
            for version, migration in enumerate(MIGRATIONS[known:], known + 1):
                connection.execute(migration)
                connection.execute("INSERT INTO migrations VALUES (%s, clock_timestamp())", (version,))

    def _schema_version(self, connection: Connection) -> int:
        # Not by to_regclass: its cache may not know yet what was migrated while this one waited for the lock.
        sql = "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'migrations'"
        if not connection.execute(sql, (SCHEMA,)).fetchall():
            return 0
        (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone() or (0,)
        if version > len(MIGRATIONS):
            problem = f"its schema is version {version}, and this Standfast knows up to {len(MIGRATIONS)}; upgrade Standfast"
            raise CannotOpen(store=self.name, problem=problem)
        return int(version)


class Conflict(Exception):
    """The server undid a transaction for another one's sake; nothing was changed, and the same may succeed now."""


class Line:
    """One connection: opened when it is needed, closed by any error on it, used by one thread at a time."""

    def __init__(self, server: Server, *, read_only: bool) -> None:
        self._server = server
        self._read_only = read_only
        self._connection: Connection | None = None
        self._pipeline: psycopg.Pipeline | None = None
        self._mode = ExitStack()

    def open(self, connection: Connection) -> None:
        """Speak over this connection from now on, in pipeline mode.

        That mode is never left, for leaving it ends with a flush, and the server takes that for a sign of life: it would
        not notice any more that a client stopped in mid-transaction.
        """
        # Few statements, asked often: each is prepared at its first use.
        connection.prepare_threshold = 0
        self._connection = connection
        self._pipeline = self._mode.enter_context(connection.pipeline())

    def ask(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """What each statement gives, in one round trip: its rows, or one with the words of a command that has none.

        ``OutcomeUnknown`` if the connection is lost; ``Conflict`` or another ``StoreError`` if the server said that a
        statement failed. Those behind it were not executed then, a COMMIT neither.
        """
        try:
            if self._connection is None or self._pipeline is None:
                raise psycopg.OperationalError("the connection was lost")  # noqa: TRY301  # Losses are all alike.
            asked = [self._connection.execute(sql, values, binary=True) for sql, values in statements]
            self._pipeline.sync()
            return [
                cursor.fetchall() if cursor.description else [(cursor.statusmessage,)] for cursor in asked
            ]
        except psycopg.Error as error:
            self.close()
            if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
                raise Conflict(told(error)) from None
            raise self._failure(error) from None
        except BaseException:
            self.close()
            raise

    def ask_anew(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Ask what may be asked twice, from the start: on a new connection, if this one turns out to be dead."""
        for _ in range(MAX_ATTEMPTS):
            if self._connection is None:
                self.open(self._server.reconnect(read_only=self._read_only))
            try:
                return self.ask(statements)
            except (Conflict, OutcomeUnknown) as error:
                problem = str(error)
        raise StoreFailed(problem=f"{MAX_ATTEMPTS} times in a row: {problem}")

    def _failure(self, error: psycopg.Error) -> StoreError:
        """Our word for a driver's error."""
        if _is_lost(error):
            return OutcomeUnknown(problem=told(error))
        if isinstance(error, errors.LockNotAvailable):
            return StoreBusy(waited_seconds=MAX_BUSY_SECONDS)
        if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
            return Corruption(what=self._server.name, problem=told(error))
        return StoreFailed(problem=told(error))

    def close(self) -> None:
        """Hang up; the server rolls back what was not committed."""
        connection, self._connection, self._pipeline = self._connection, None, None
        if connection is not None:
            connection.close()
            with suppress(psycopg.Error):
                self._mode.close()


def told(error: psycopg.Error) -> str:
    """A driver's error in one line."""
    return " ".join((error.diag.message_primary or str(error)).split())


def _is_lost(error: psycopg.Error) -> bool:
    """Whether the server may have done what it was asked to. A plain error that it told says that it did not."""
    severity = error.diag.severity_nonlocalized
    if severity is not None:
        return severity != "ERROR"
    return not isinstance(error, psycopg.DataError | psycopg.ProgrammingError | psycopg.NotSupportedError)


def _read(url: str) -> dict[str, Any]:
    try:
        options = conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        options = {}
    ports = str(options.get("port", 5432)).split(",")
    names = f"{options.get('host')}{options.get('dbname')}"
    if not options or "@" in names or not all(port.isdigit() for port in ports):
        # What could not be read may hold the password anywhere, so none of it is shown.
        problem = (
            "its URL can't be read; write postgresql://user:password@host:5432/database, "
            "and percent-encode what is special in the password (@ as %40, / as %2F)"
        )
        raise CannotOpen(store="postgresql://…", problem=problem)
    return {name: value for name, value in options.items() if value is not None}
