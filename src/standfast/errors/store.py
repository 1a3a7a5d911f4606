"""What the store can't do, or not now."""

from standfast.errors.root import StandfastError


class StoreError(StandfastError):
    """The store can't do what was asked, or not now."""

    code = "store"
    says = "The store can't do this."


class CannotOpen(StoreError):
    """The store can't be opened without risking what is in it."""

    code = "cannot_open"
    says = "Can't open the store {store}: {problem}"


class Corruption(StoreError):
    """What is stored is not what was written. The answer is withheld, because it could be wrong."""

    code = "corruption"
    says = "Corruption in {what}: {problem}. Run 'standfast doctor', then restore a backup or rebuild."


class BrokenChain(StoreError):
    """The ledger does not hold together; the first broken entry is named."""

    code = "broken_chain"
    says = "The ledger breaks at entry {seq}: {problem}"


class NoSuchSnapshot(StoreError):
    """That state was never committed."""

    code = "no_such_snapshot"
    says = "There is no snapshot {memory_snapshot_id}; the newest is {head}."


class NotAllowed(StoreError):
    """The run's visibility mode forbids this."""

    code = "not_allowed"
    says = "A run in mode {mode} may not {operation}; open it with mode='buffered_write' to write."


class RunOver(StoreError):
    """The run has been committed or discarded already."""

    code = "run_over"
    says = "Run {run_id} is over; open a new one."


class CommitAborted(StoreError):
    """The commit did not happen. ``reason_code`` says why, in the words of the contract."""

    code = "commit_aborted"
    says = "Commit {commit_id} of run {run_id} was aborted ({reason_code}): {problem}"


class PayloadMismatch(StoreError):
    """The same commit id was submitted with another payload."""

    code = "payload_mismatch"
    says = (
        "Commit {commit_id} of run {run_id} was submitted before with another payload "
        "({known_fingerprint}, now {payload_fingerprint}); open a new run for new writes."
    )


class StaleFence(StoreError):
    """Another worker owns this commit now; what this one knows of it is out of date."""

    code = "stale_fence"
    says = "Commit {commit_id} has fence {fence} now, not {given_fence}; let its present owner finish it."


class StoreBusy(StoreError):
    """Other writers held the store for too long."""

    code = "store_busy"
    says = "Other writers held the store for {waited_seconds} seconds; try again."


class StoreFailed(StoreError):
    """The disk or the server failed. Nothing was changed; the same call can be made again."""

    code = "store_failed"
    says = "The storage failed and nothing was changed: {problem}"


class OutcomeUnknown(StoreError):
    """Whether it was committed can't be told now. The same commit submitted again gives the answer."""

    code = "outcome_unknown"
    says = "Whether the commit was applied can't be told now ({problem}); submit it again to learn it."


class CheckpointFileFailed(StoreError):
    """The file of checkpoints can't be written or read. Appending the same checkpoint again does no harm."""

    code = "checkpoint_file_failed"
    says = "The checkpoint file {file} can't be used: {problem}; mend that, and append the checkpoint again."


class LogKeyFailed(StoreError):
    """The file of the key that signs checkpoints can't be made or read."""

    code = "log_key_failed"
    says = "The log's key {file} can't be used: {problem}; mend that, or name another with log_key."
