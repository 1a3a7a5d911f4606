
    CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL) STRICT;
    CREATE TABLE ledger (seq INTEGER PRIMARY KEY, content BLOB NOT NULL, hash BLOB NOT NULL) STRICT;
    CREATE TABLE commits (
        memory_snapshot_id INTEGER PRIMARY KEY,
        commit_id BLOB NOT NULL,
        run_id TEXT NOT NULL,
        payload_fingerprint BLOB NOT NULL,
        committed_at TEXT NOT NULL,
        ledger_seq INTEGER NOT NULL REFERENCES ledger (seq),
        ledger_hash BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX commits_by_id ON commits (commit_id);
    CREATE TABLE versions (
        id INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        key TEXT NOT NULL,
        action INTEGER NOT NULL CHECK (action IN (0, 1, 2)),
        fingerprint BLOB,
        content BLOB,
        erased_by INTEGER REFERENCES commits (memory_snapshot_id),
        CHECK ((action = 0) = (fingerprint IS NULL))
    ) STRICT;
    CREATE INDEX versions_by_place ON versions (namespace, key);
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
    CREATE INDEX buffers_by_lease ON buffers (lease_until, commit_id)
    WHERE content IS NOT NULL AND waits_for IS NULL;
    CREATE INDEX buffers_by_end ON buffers (lease_until, commit_id) WHERE content IS NULL;
    CREATE TABLE branches (
        number INTEGER PRIMARY KEY,
        branch_id TEXT NOT NULL,
        ledger_seq INTEGER NOT NULL,
        shared_seq INTEGER NOT NULL,
        left_seq INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE dictionaries (kind INTEGER PRIMARY KEY, dictionary BLOB NOT NULL) STRICT;
    INSERT INTO dictionaries VALUES (1, x'{DICTIONARY}');
    CREATE TRIGGER ledger_never_changes BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER ledger_never_shrinks BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER commits_never_change BEFORE UPDATE ON commits
    BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER commits_never_shrink BEFORE DELETE ON commits
    BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER versions_never_change BEFORE UPDATE ON versions
    WHEN NOT (
        NEW.id = OLD.id AND NEW.namespace = OLD.namespace AND NEW.key = OLD.key
        AND NEW.action = OLD.action AND NEW.fingerprint IS OLD.fingerprint
        AND OLD.content IS NOT NULL AND OLD.erased_by IS NULL
        AND CASE
            WHEN NEW.content IS NULL THEN NEW.erased_by IS NOT NULL AND NEW.erased_by > OLD.id >> 16
            ELSE NEW.erased_by IS NULL AND (
                NEW.content = x'02' OR OLD.content = x'02' AND substr(NEW.content, 1, 1) = x'03'
            )
        END
    )
    BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER versions_never_shrink BEFORE DELETE ON versions
    BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TABLE embedders (number INTEGER PRIMARY KEY, identity TEXT NOT NULL) STRICT;
    CREATE TABLE vectors (
        version INTEGER NOT NULL REFERENCES versions (id),
        embedder INTEGER NOT NULL REFERENCES embedders (number),
        since INTEGER NOT NULL REFERENCES commits (memory_snapshot_id),
        content BLOB NOT NULL,
        ended INTEGER,
        PRIMARY KEY (version, embedder)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX vectors_added_later ON vectors (since) WHERE since <> version >> 16;
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
    CREATE TABLE segments (
        segment_id TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        band TEXT NOT NULL,
        analysis TEXT NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        size_bytes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX segments_by_place ON segments (namespace, band, first, segment_id);
    CREATE TABLE segment_parts (
        segment_id TEXT NOT NULL REFERENCES segments (segment_id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        content BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX segment_parts_by_name ON segment_parts (segment_id, name);
    CREATE TABLE segment_erasures (
        namespace TEXT PRIMARY KEY, memory_snapshot_id INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    