CREATE TABLE migrations (version bigint PRIMARY KEY, applied_at timestamptz NOT NULL);
CREATE TABLE ledger (seq bigint PRIMARY KEY, content bytea NOT NULL, hash bytea NOT NULL);
CREATE TABLE commits (
    memory_snapshot_id bigint PRIMARY KEY,
    commit_id bytea NOT NULL,
    run_id TEXT NOT NULL,
    payload_fingerprint bytea NOT NULL,
    committed_at TEXT NOT NULL,
    ledger_seq bigint NOT NULL REFERENCES ledger (seq),
    ledger_hash bytea NOT NULL
);
CREATE UNIQUE INDEX commits_by_id ON commits (commit_id);
CREATE TABLE versions (
    memory_snapshot_id bigint NOT NULL REFERENCES commits (memory_snapshot_id),
    erased_by bigint REFERENCES commits (memory_snapshot_id),
    action smallint NOT NULL CHECK (action IN (0, 1, 2)),
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint bytea,
    content bytea,
    CHECK ((action = 0) = (fingerprint IS NULL))
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
CREATE INDEX buffers_by_lease ON buffers (lease_until, commit_id)
WHERE content IS NOT NULL AND waits_for IS NULL;
CREATE INDEX buffers_by_end ON buffers (lease_until, commit_id) WHERE content IS NULL;
CREATE TABLE branches (
    number bigint PRIMARY KEY,
    branch_id TEXT NOT NULL,
    ledger_seq bigint NOT NULL,
    shared_seq bigint NOT NULL,
    left_seq bigint NOT NULL
);
CREATE TABLE dictionaries (kind bigint PRIMARY KEY, dictionary bytea NOT NULL);
INSERT INTO dictionaries VALUES (1, '\x{DICTIONARY}');
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'append-only'; END $$;
CREATE TRIGGER ledger_never_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger
EXECUTE FUNCTION refuse();
CREATE TRIGGER commits_never_change BEFORE UPDATE OR DELETE OR TRUNCATE ON commits
EXECUTE FUNCTION refuse();
CREATE TRIGGER versions_never_shrink BEFORE DELETE OR TRUNCATE ON versions EXECUTE FUNCTION refuse();
CREATE TRIGGER versions_never_change BEFORE UPDATE ON versions FOR EACH ROW
WHEN (NOT (
    NEW.memory_snapshot_id = OLD.memory_snapshot_id
    AND NEW.namespace = OLD.namespace AND NEW.key = OLD.key
    AND NEW.action = OLD.action AND NEW.fingerprint IS NOT DISTINCT FROM OLD.fingerprint
    AND OLD.content IS NOT NULL AND OLD.erased_by IS NULL
    AND CASE
        WHEN NEW.content IS NULL THEN NEW.erased_by IS NOT NULL AND NEW.erased_by > OLD.memory_snapshot_id
        ELSE NEW.erased_by IS NULL AND (
            NEW.content = '\x02' OR OLD.content = '\x02' AND substr(NEW.content, 1, 1) = '\x03'
        )
    END
))
EXECUTE FUNCTION refuse();
CREATE TABLE vectors (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    memory_snapshot_id bigint NOT NULL,
    embedder TEXT NOT NULL,
    since bigint NOT NULL REFERENCES commits (memory_snapshot_id),
    content bytea NOT NULL,
    ended bigint,
    FOREIGN KEY (namespace, key, memory_snapshot_id)
        REFERENCES versions (namespace, key, memory_snapshot_id)
);
CREATE UNIQUE INDEX vectors_by_place ON vectors (namespace, key, memory_snapshot_id, embedder);
CREATE INDEX vectors_by_since ON vectors (since);
CREATE TABLE temporary (
    kind TEXT NOT NULL,
    row_id TEXT NOT NULL,
    version bigint NOT NULL,
    content bytea NOT NULL,
    keep_seconds double precision NOT NULL,
    expires_at double precision NOT NULL,
    PRIMARY KEY (kind, row_id)
);
CREATE INDEX temporary_by_end ON temporary (expires_at);
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
