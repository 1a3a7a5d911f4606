"""The tables of the embedded store, as the steps that make them."""

from collections.abc import Iterator
from functools import cache
from typing import Final

import apsw

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
)


def problems_of_schema(connection: apsw.Connection) -> Iterator[str]:
    """What is missing from the schema, was changed, or does not belong there: triggers can rewrite what is written."""
    found, expected = _schema_of(connection), _expected()
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            yield f"the schema's {name} is missing"
        elif found[name] != expected.get(name):
            yield f"the schema's {name} is not Standfast's"


def _schema_of(connection: apsw.Connection) -> dict[str, str]:
    sql = "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    return {name: " ".join(text.split()) for name, text in connection.execute(sql)}


@cache
def _expected() -> dict[str, str]:
    """The schema of a new store."""
    connection = apsw.Connection(":memory:")
    try:
        for step in MIGRATIONS:
            connection.execute(step)
        return _schema_of(connection)
    finally:
        connection.close()
