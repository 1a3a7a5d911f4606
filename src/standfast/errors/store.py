"""Errors of the store."""

from standfast.errors.root import StandfastError


class StoreError(StandfastError):
    """The store can't do this, or can't do it now."""

    code = "store"
    says = "The store can't do this."


class CannotOpen(StoreError):
    """The store can't be opened safely."""

    code = "cannot_open"
    says = "Can't open the store {store}: {problem}"


class Corruption(StoreError):
    """Stored data is not what was written. No answer is given, because it could be wrong."""

    code = "corruption"
    says = "Corruption in {what}: {problem}. Run 'standfast doctor', then restore a backup, or rebuild the indexes with 'standfast doctor --rebuild'."


class BrokenChain(StoreError):
    """An entry of the ledger is missing or was changed. The first one is named."""

    code = "broken_chain"
    says = "The ledger breaks at entry {seq}: {problem}. Restore a backup, and keep this copy as evidence."


class NoSuchSnapshot(StoreError):
    """There is no snapshot of that number."""

    code = "no_such_snapshot"
    says = "There is no snapshot {memory_snapshot_id}; choose one from 0 to {head}."


class NotAllowed(StoreError):
    """The run's visibility mode forbids this."""

    code = "not_allowed"
    says = "A run in mode {mode} may not {operation}; open it with mode='buffered_write' to write."


class AboveCeiling(StoreError):
    """The deployment's visibility ceiling forbids this."""

    code = "above_ceiling"
    says = (
        "Memory is {ceiling} in this deployment, so nobody may {operation}. "
        "An operator can raise the setting visibility_ceiling."
    )


class RunOver(StoreError):
    """The run was committed or discarded already."""

    code = "run_over"
    says = "Run {run_id} is over; open a new one."


class CommitAborted(StoreError):
    """The commit was refused. ``reason_code`` is one of the contract's four reasons."""

    code = "commit_aborted"
    says = "Commit {commit_id} of run {run_id} was aborted ({reason_code}): {problem}"


class MessageConflict(StoreError):
    """A session has another message at this position."""

    code = "message_conflict"
    says = (
        "Session {session} in scope {scope} has another message at position {position}, so nothing was added. Continue the session "
        "without position=, or use another session."
    )


class PayloadMismatch(StoreError):
    """The commit id was used for another payload before."""

    code = "payload_mismatch"
    says = (
        "Commit {commit_id} of run {run_id} was submitted before with another payload "
        "({known_fingerprint}, now {payload_fingerprint}); open a new run for new writes."
    )


class StaleFence(StoreError):
    """Another worker owns this staged commit."""

    code = "stale_fence"
    says = "Commit {commit_id} has fence {fence} now, not {given_fence}; its current owner finishes it."


class StoreBusy(StoreError):
    """Other writers blocked the store for too long."""

    code = "store_busy"
    says = "Other writers blocked the store for {waited_seconds} seconds; try again."


class ReadOnlyStore(StoreError):
    """The store is on media that can only be read."""

    code = "read_only_store"
    says = "The store {store} can only be read: its disk or its permissions allow no writing. Recall, history and verify work; to write, copy the file to a disk that can be written."


class StoreFailed(StoreError):
    """The disk or the server failed, and nothing was changed."""

    code = "store_failed"
    says = "The storage failed, and nothing was changed: {problem}. Fix the cause, then try again."


class OutcomeUnknown(StoreError):
    """It is unknown whether the commit was applied. Submit it again to find out."""

    code = "outcome_unknown"
    says = (
        "It is unknown whether the commit was applied ({problem}); submit the same commit again to find out."
    )


class CheckpointFileFailed(StoreError):
    """The file of checkpoints can't be read or written. Appending a checkpoint twice does no harm."""

    code = "checkpoint_file_failed"
    says = "The checkpoint file {file} can't be used: {problem}. Fix that, then sign the checkpoint again."


class LogKeyFailed(StoreError):
    """The file of the log's signing key can't be read or created."""

    code = "log_key_failed"
    says = "The log's key {file} can't be used: {problem}. Fix that, or set log_key to another file."
