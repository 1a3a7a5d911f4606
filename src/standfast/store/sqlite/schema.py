"""The tables of a SQLite store: the migrations that create them, the statements that read and write them, and rows."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import apsw

from standfast.errors import Corruption
from standfast.ledger.chain import Branch
from standfast.store.protocol import AppliedCommit, Buffer, Vector, VectorQuery, Version, VersionQuery
from standfast.vocabulary import ActionType, BufferState

MIGRATIONS: Final = (
    """
    CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL) STRICT;
    CREATE TABLE ledger (seq INTEGER PRIMARY KEY, content BLOB NOT NULL, hash TEXT NOT NULL) STRICT;
    CREATE TABLE commits (
        memory_snapshot_id INTEGER PRIMARY KEY,
        commit_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        payload_fingerprint TEXT NOT NULL,
        committed_at TEXT NOT NULL,
        ledger_seq INTEGER NOT NULL REFERENCES ledger (seq),
        ledger_hash TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX commits_by_id ON commits (commit_id);
    CREATE TABLE versions (
        memory_snapshot_id INTEGER NOT NULL REFERENCES commits (memory_snapshot_id),
        namespace TEXT NOT NULL,
        key TEXT NOT NULL,
        action TEXT NOT NULL CHECK (action IN ('WRITE', 'MERGE', 'EXPIRE')),
        fingerprint TEXT,
        content BLOB,
        CHECK ((action = 'EXPIRE') = (fingerprint IS NULL))
    ) STRICT;
    CREATE UNIQUE INDEX versions_by_place ON versions (namespace, key, memory_snapshot_id);
    CREATE INDEX versions_by_snapshot ON versions (memory_snapshot_id);
    CREATE TABLE buffers (
        commit_id TEXT PRIMARY KEY,
        run_id TEXT NOT NULL,
        payload_fingerprint TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('buffer_open', 'commit_pending', 'commit_aborted')),
        content BLOB,
        owner TEXT NOT NULL,
        fence INTEGER NOT NULL,
        lease_until REAL NOT NULL,
        waits_for TEXT,
        reason_code TEXT,
        problem TEXT,
        CHECK ((state = 'commit_aborted') = (reason_code IS NOT NULL))
    ) STRICT;
    CREATE INDEX buffers_by_lease ON buffers (lease_until, commit_id) WHERE reason_code IS NULL AND waits_for IS NULL;
    CREATE TRIGGER ledger_never_changes BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER ledger_never_shrinks BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER commits_never_change BEFORE UPDATE ON commits BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER commits_never_shrink BEFORE DELETE ON commits BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER versions_never_change BEFORE UPDATE ON versions BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER versions_never_shrink BEFORE DELETE ON versions BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    """,
    """
    ALTER TABLE versions ADD COLUMN erased_by INTEGER REFERENCES commits (memory_snapshot_id);
    DROP TRIGGER versions_never_change;
    CREATE TRIGGER versions_never_change BEFORE UPDATE ON versions
    WHEN NOT (
        OLD.content IS NOT NULL AND NEW.content IS NULL
        AND OLD.erased_by IS NULL AND NEW.erased_by IS NOT NULL AND NEW.erased_by > OLD.memory_snapshot_id
        AND NEW.memory_snapshot_id = OLD.memory_snapshot_id
        AND NEW.namespace = OLD.namespace AND NEW.key = OLD.key
        AND NEW.action = OLD.action AND NEW.fingerprint IS OLD.fingerprint
    )
    BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    """,
    """
    CREATE TABLE branches (
        number INTEGER PRIMARY KEY,
        branch_id TEXT NOT NULL,
        ledger_seq INTEGER NOT NULL,
        shared_seq INTEGER NOT NULL,
        left_seq INTEGER NOT NULL
    ) STRICT;
    DROP INDEX buffers_by_lease;
    CREATE INDEX buffers_by_lease ON buffers (lease_until, commit_id) WHERE content IS NOT NULL AND waits_for IS NULL;
    CREATE INDEX buffers_by_end ON buffers (lease_until, commit_id) WHERE content IS NULL;
    """,
    """
    CREATE TABLE vectors (
        namespace TEXT NOT NULL,
        key TEXT NOT NULL,
        memory_snapshot_id INTEGER NOT NULL REFERENCES commits (memory_snapshot_id),
        embedder TEXT NOT NULL,
        since INTEGER NOT NULL REFERENCES commits (memory_snapshot_id),
        content BLOB NOT NULL,
        ended INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX vectors_by_place ON vectors (namespace, key, memory_snapshot_id, embedder);
    CREATE INDEX vectors_by_since ON vectors (since);
    """,
    """
    CREATE TABLE temporary (
        kind TEXT NOT NULL,
        row_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        content BLOB NOT NULL,
        keep_seconds REAL NOT NULL,
        expires_at REAL NOT NULL,
        PRIMARY KEY (kind, row_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX temporary_by_end ON temporary (expires_at);
    """,
)

_APPLIED: Final = ", ".join(AppliedCommit.__struct_fields__)
_BUFFER: Final = ", ".join(Buffer.__struct_fields__)
_VERSION: Final = ", ".join(Version.__struct_fields__)
_VECTOR: Final = ", ".join(Vector.__struct_fields__)
_ACTIONS: Final = {action.value: action for action in ActionType}

INSERT_ENTRY: Final = "INSERT INTO ledger (seq, content, hash) VALUES (?, ?, ?)"
INSERT_APPLIED: Final = f"INSERT INTO commits ({_APPLIED}) VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_VERSION: Final = f"INSERT INTO versions ({_VERSION}) VALUES (?, ?, ?, ?, ?, ?, ?)"
ERASE: Final = (
    "UPDATE versions SET content = NULL, erased_by = ?3"
    " WHERE namespace = ?1 AND key = ?2 AND memory_snapshot_id < ?3 AND content IS NOT NULL"
)
INSERT_VECTOR: Final = f"INSERT INTO vectors ({_VECTOR}) VALUES (?, ?, ?, ?, ?, ?, ?)"
END_VECTORS: Final = "UPDATE vectors SET ended = ?3 WHERE namespace = ?1 AND key = ?2 AND memory_snapshot_id < ?3 AND ended IS NULL"
ERASE_VECTORS: Final = "DELETE FROM vectors WHERE namespace = ? AND key = ? AND memory_snapshot_id < ?"
PUT_BUFFER: Final = f"REPLACE INTO buffers ({_BUFFER}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
PUT_BRANCH: Final = f"REPLACE INTO branches ({', '.join(Branch.__struct_fields__)}) VALUES (?, ?, ?, ?, ?)"
DROP_BUFFER: Final = "DELETE FROM buffers WHERE commit_id = ?"

APPLIED_BY_ID: Final = f"SELECT {_APPLIED} FROM commits WHERE commit_id = ?"
APPLIED_AFTER: Final = (
    f"SELECT {_APPLIED} FROM commits WHERE memory_snapshot_id > ? ORDER BY memory_snapshot_id LIMIT ?"
)
ENTRIES_AFTER: Final = "SELECT seq, content, hash FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?"
BRANCHES: Final = f"SELECT {', '.join(Branch.__struct_fields__)} FROM branches ORDER BY number"
BUFFER_BY_ID: Final = f"SELECT {_BUFFER} FROM buffers WHERE commit_id = ?"
ABANDONED: Final = (
    f"SELECT {_BUFFER} FROM buffers WHERE content IS NOT NULL AND waits_for IS NULL"
    " AND (lease_until <= ? OR lease_until > ?) ORDER BY lease_until, commit_id LIMIT ?"
)
ENDED: Final = f"SELECT {_BUFFER} FROM buffers WHERE content IS NULL AND lease_until <= ? ORDER BY lease_until, commit_id LIMIT ?"
HEAD: Final = "SELECT coalesce(max(memory_snapshot_id), 0) FROM commits"
ENDS: Final = (
    "SELECT coalesce((SELECT max(memory_snapshot_id) FROM commits), 0), coalesce((SELECT max(seq) FROM ledger), 0),"
    " (SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1), EXISTS (SELECT 1 FROM buffers)"
)
LATEST: Final = (
    "SELECT namespace, key, memory_snapshot_id, action, fingerprint, NULL, erased_by FROM versions"
    " WHERE namespace = ? AND key = ? ORDER BY memory_snapshot_id DESC LIMIT 1"
)
_OF_KEY: Final = (
    f"SELECT {_VERSION} FROM versions WHERE namespace = ? AND key = ? AND memory_snapshot_id <= ?"
    " ORDER BY memory_snapshot_id"
)
_NEWEST_OF_KEY: Final = f"{_OF_KEY} DESC LIMIT 1"
_EVER: Final = 2**63 - 1


def versions_of_keys(connection: apsw.Connection, query: VersionQuery, keys: Sequence[str]) -> list[Version]:
    """The versions of the keys that a query names, one look-up in the index for each."""
    sql = _NEWEST_OF_KEY if query.newest else _OF_KEY
    at = _EVER if query.at is None else query.at
    execute, namespace = connection.execute, query.namespace
    return [version_of(row) for key in sorted(set(keys)) for row in execute(sql, (namespace, key, at))]


def versions_in_range(query: VersionQuery) -> tuple[str, list[str | int]]:
    """The statement and the parameters of a query that names no keys."""
    condition, parameters = query.as_sql("?")
    columns, order = _VERSION, "ORDER BY namespace, key, memory_snapshot_id"
    if query.newest:
        # SQLite takes the other columns from the row that has the maximum.
        columns = columns.replace("memory_snapshot_id", "max(memory_snapshot_id)")
        order = "GROUP BY namespace, key ORDER BY namespace, key"
    parameters.append(-1 if query.limit is None else query.limit)
    return f"SELECT {columns} FROM versions WHERE {condition} {order} LIMIT ?", parameters


def vectors_in_range(query: VectorQuery) -> tuple[str, list[str | int]]:
    """The statement and the parameters of a query for vectors."""
    condition, parameters = query.as_sql("?")
    order = "ORDER BY namespace, key, memory_snapshot_id, embedder LIMIT ?"
    return f"SELECT {_VECTOR} FROM vectors WHERE {condition} {order}", [
        *parameters,
        -1 if query.limit is None else query.limit,
    ]


def version_of(row: Any) -> Version:
    """The version in a row of its columns."""
    namespace, key, snapshot, action, digest, content, erased_by = row
    try:
        return Version(namespace, key, snapshot, _ACTIONS[action], digest, content, erased_by)
    except KeyError:
        what = f"{namespace}/{key} in snapshot {snapshot}"
        raise Corruption(what=what, problem=f"{action!r} is not an action") from None


def buffer_of(row: Any) -> Buffer:
    """The buffer in a row of its columns."""
    commit_id, run_id, payload, state, *rest = row
    try:
        return Buffer(commit_id, run_id, payload, BufferState(state), *rest)
    except ValueError as error:
        raise Corruption(what=f"the buffer of commit {commit_id}", problem=str(error)) from None


def problems_of_schema(connection: apsw.Connection) -> Iterator[str]:
    """Yield what is missing from the schema, was changed or does not belong there. A trigger could rewrite rows."""
    found, expected = _schema_of(connection), _expected_schema()
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            yield f"the schema's {name} is missing"
        elif found[name] != expected.get(name):
            yield f"the schema's {name} is not Standfast's"


def _schema_of(connection: apsw.Connection) -> dict[str, str]:
    sql = "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    return {name: " ".join(text.split()) for name, text in connection.execute(sql)}


@cache
def _expected_schema() -> dict[str, str]:
    """The schema of a new store."""
    connection = apsw.Connection(":memory:")
    try:
        for step in MIGRATIONS:
            connection.execute(step)
        return _schema_of(connection)
    finally:
        connection.close()
