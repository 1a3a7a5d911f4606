"""What the tables' rows are in Python, and the statements that read and write them."""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from standfast.errors import Corruption
from standfast.store.protocol import AppliedCommit, Buffer, Version
from standfast.vocabulary import ActionType, BufferState

_ACTIONS: Final = {action.value: action for action in ActionType}
APPLIED: Final = (
    "memory_snapshot_id, commit_id, run_id, payload_fingerprint, committed_at, ledger_seq, ledger_hash"
)
BUFFER: Final = "commit_id, run_id, payload_fingerprint, state, content, owner, fence, lease_until, waits_for, reason_code, problem"
VERSION: Final = "namespace, key, memory_snapshot_id, action, fingerprint, content, erased_by"
APPLIED_BY_ID: Final = f"SELECT {APPLIED} FROM commits WHERE commit_id = ?"
BUFFER_BY_ID: Final = f"SELECT {BUFFER} FROM buffers WHERE commit_id = ?"
INSERT_ENTRY: Final = "INSERT INTO ledger (seq, content, hash) VALUES (?, ?, ?)"
INSERT_APPLIED: Final = f"INSERT INTO commits ({APPLIED}) VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_VERSION: Final = f"INSERT INTO versions ({VERSION}) VALUES (?, ?, ?, ?, ?, ?, ?)"
ERASE: Final = (
    "UPDATE versions SET content = NULL, erased_by = ?3"
    " WHERE namespace = ?1 AND key = ?2 AND memory_snapshot_id < ?3 AND content IS NOT NULL"
)
PUT_BUFFER: Final = f"REPLACE INTO buffers ({BUFFER}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
ABANDONED: Final = (
    f"SELECT {BUFFER} FROM buffers WHERE reason_code IS NULL AND waits_for IS NULL AND lease_until <= ?"
    " ORDER BY lease_until, commit_id LIMIT ?"
)
ENDS: Final = (
    "SELECT coalesce((SELECT max(memory_snapshot_id) FROM commits), 0), coalesce((SELECT max(seq) FROM ledger), 0),"
    " (SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1), EXISTS (SELECT 1 FROM buffers)"
)
NEWEST: Final = (
    f"SELECT {VERSION} FROM versions WHERE namespace = ? AND key = ? AND memory_snapshot_id <= ?"
    " ORDER BY memory_snapshot_id DESC LIMIT 1"
)
LATEST: Final = (
    "SELECT namespace, key, memory_snapshot_id, action, fingerprint, NULL, erased_by FROM versions"
    " WHERE namespace = ? AND key = ? ORDER BY memory_snapshot_id DESC LIMIT 1"
)


def find(
    connection: apsw.Connection, commit_ids: Sequence[str], *, buffered: bool = True
) -> tuple[dict[str, AppliedCommit], dict[str, Buffer]]:
    """Buffers first: for a reader, what has left them before the second look is applied by then, and never unknown."""
    names = [(commit_id,) for commit_id in commit_ids]
    held = connection.executemany(BUFFER_BY_ID, names) if buffered else ()
    buffers = {row[0]: buffer_of(row) for row in held}
    return {row[1]: AppliedCommit(*row) for row in connection.executemany(APPLIED_BY_ID, names)}, buffers


def version_of(row: Any) -> Version:
    """A version, of its columns in order."""
    namespace, key, snapshot, action, digest, content, erased_by = row
    try:
        return Version(namespace, key, snapshot, _ACTIONS[action], digest, content, erased_by)
    except KeyError:
        what = f"{namespace}/{key} in snapshot {snapshot}"
        raise Corruption(what=what, problem=f"{action!r} is no action") from None


def buffer_of(row: Any) -> Buffer:
    """A buffer, of its columns in order."""
    commit_id, run_id, payload, state, *rest = row
    try:
        return Buffer(commit_id, run_id, payload, BufferState(state), *rest)
    except ValueError as error:
        raise Corruption(what=f"the buffer of commit {commit_id}", problem=str(error)) from None
