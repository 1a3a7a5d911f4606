"""The errors of a memory: values, store, ledger, judge, recall and traces; and of the server and clients."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self


class StandfastError(Exception):
    """The base class: a stable ``code``, the ``facts``, and a message that says what to do.

    Args:
        case: One of the class's ``cases``, which has a code and a message of its own.
        facts: The words in braces of the message.
    """

    code: str = "standfast"
    says: str = "Something went wrong in Standfast."
    cases: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, *, code: str) -> None:
        cls.code = code
        cls.cases = cls.__dict__.get("cases", {})
        cls.__doc__ = cls.__doc__ or cls.says

    def __init__(self, case: str | None = None, /, **facts: Any) -> None:
        super().__init__()
        self.facts = facts
        if case is not None:
            self.code, self.says = case, self.cases[case]

    def __str__(self) -> str:
        return self.says.format(**self.facts)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts.items())
        return f"{type(self).__name__}({facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (type(self), self.code, self.facts)

    def as_json(self) -> dict[str, Any]:
        """The error as JSON, as the command line prints it."""
        return {"code": self.code, "message": str(self), "facts": self.facts}


def rebuilt(kind: type[StandfastError], code: str, facts: dict[str, Any]) -> StandfastError:
    """An error from its class, its code and its facts."""
    error = kind.__new__(kind)
    StandfastError.__init__(error, None if code == kind.code else code, **facts)
    return error


class InvalidValue(StandfastError, code="invalid_value"):
    says = "{what} is invalid: {problem}"


class InvalidSettings(StandfastError, code="invalid_settings"):
    says = "Setting {name} from {source} is invalid: {problem}"


class MissingExtra(StandfastError, code="missing_extra"):
    says = "{feature} needs an optional dependency; install it with: pip install 'standfast[{extra}]'"


class NotAuthorised(StandfastError, code="not_authorised"):
    says = "{role} may not {act}; only {who} may."


class NotGoverned(StandfastError, code="not_governed"):
    says = "{memory_id} was not judged as it stands, so it is not written: {problem}"


class NotCanonical(StandfastError, code="not_canonical"):
    """A value or a text is not json-v1. ``path`` says where, e.g. ``$.tags[3]``."""

    says = "At {path}: not a json-v1 value."
    cases: ClassVar = {
        "canon_type": (
            "At {path}: {type} is not a JSON value. Use a dict with string keys, list, tuple, str, int,"
            " float, bool, None or an aware datetime (exactly these types); convert anything else first."
        ),
        "canon_number": (
            "At {path}: {number} is not a number between -(2^53 - 1) and 2^53 - 1; send larger ones as"
            " strings, and leave NaN and infinities out."
        ),
        "canon_duplicate_key": (
            "At {path}: the key {key!r} occurs twice (keys are compared after NFC); keep one."
        ),
        "canon_datetime": (
            "At {path}: {value} is not an instant in UTC; use an aware datetime between years 1 and"
            " 9999, for example datetime.now(UTC)."
        ),
        "canon_depth": "At {path}: nested deeper than {limit_levels} levels; flatten the value.",
        "canon_syntax": "At {path}: not a JSON text in UTF-8: {problem} (at offset {offset}).",
    }

    def __init__(self, case: str | None = None, /, **facts: Any) -> None:
        super().__init__(case, path="$", **facts)

    def inside(self, step: str) -> Self:
        """The same error with a step of the path put in front."""
        self.facts["path"] = "$" + step + self.facts["path"][1:]
        return self


class LoneSurrogate(NotCanonical, code="canon_surrogate"):
    says = "At {path}: the string holds a lone surrogate at character {index}; decode it properly first."


class TooLarge(NotCanonical, code="canon_size"):
    says = "At {path}: {size_bytes} bytes, but one value may take {limit_bytes}; split it."


class AccessError(StandfastError, code="access"):
    """The server refuses a call. Nothing was changed."""

    says = "The server refused the call."
    cases: ClassVar = {
        "too_many_runs": (
            "This key has {open_runs} open runs, the most it may have now; commit or discard one."
        ),
        "unsafe_bind": "Cannot serve on {host}: {problem}",
        "bad_request": "The request is malformed: {problem}.",
        "server_failed": "{address} failed: {problem}.",
        "request_reused": (
            "The idempotency key {request_key} was used for another request; use a new key for new content."
        ),
    }


class Unauthenticated(AccessError, code="unauthenticated"):
    says = "The call has no valid API key: {problem}. Send the header 'Authorization: Bearer sf_…'."


class Forbidden(AccessError, code="forbidden"):
    says = "A key of role {role} may not '{act}' in {where}: {problem}."


class RateLimited(AccessError, code="rate_limited"):
    says = "Too many calls; try again in {retry_after_seconds} seconds."


class Overloaded(AccessError, code="overloaded"):
    says = "The server is at its limit ({what}); try again in a moment."


class NotFound(AccessError, code="not_found"):
    says = "There is no {what}."
    cases: ClassVar = {
        "not_configured": "This server has no {what}; name one in its settings: {setting} = …",
    }


class Unreachable(AccessError, code="unreachable"):
    """The server did not respond. A request with an idempotency key can be sent again."""

    says = "{address} does not answer: {problem}. Try again, with the same idempotency key."


class PutRefused(StandfastError, code="put_refused"):
    says = "{subject} was refused ({verdict}), and with it the whole batch: {reasons}"


class StoreError(StandfastError, code="store"):
    says = "The store can't do this."
    cases: ClassVar = {
        "checkpoint_file_failed": (
            "The checkpoint file {file} can't be used: {problem}. Fix that, then sign the checkpoint again."
        ),
        "not_cosigned": (
            "The witness {witness} did not cosign the checkpoint: {problem}. If it is only out of reach, the"
            " next checkpoint is sent again; otherwise compare the ledger with what it has cosigned."
        ),
        "log_key_failed": (
            "The log's key {file} can't be used: {problem}. Fix that, or set log_key to another file."
        ),
    }


class CannotOpen(StoreError, code="cannot_open"):
    says = "Can't open the store {store}: {problem}"


class Corruption(StoreError, code="corruption"):
    """Stored data is not what was written. No answer is given, because it could be wrong."""

    says = (
        "Corruption in {what}: {problem}. Run 'standfast doctor', then restore a backup, or rebuild the"
        " indexes with 'standfast doctor --rebuild'."
    )


class BrokenChain(StoreError, code="broken_chain"):
    """An entry of the ledger is missing or was changed. The first one is named."""

    says = "The ledger breaks at entry {seq}: {problem}. Restore a backup, and keep this copy as evidence."


class NoSuchSnapshot(StoreError, code="no_such_snapshot"):
    says = "There is no snapshot {memory_snapshot_id}; choose one from 0 to {head}."


class NotAllowed(StoreError, code="not_allowed"):
    says = "A run in mode {mode} may not {operation}; open it with mode='buffered_write' to write."
    cases: ClassVar = {
        "above_ceiling": (
            "Memory is {ceiling} in this deployment, so nobody may {operation}. An operator can raise"
            " the setting visibility_ceiling."
        ),
    }


class RunOver(StoreError, code="run_over"):
    says = "Run {run_id} is over; open a new one."


class CommitAborted(StoreError, code="commit_aborted"):
    """The commit was refused. ``reason_code`` is one of the contract's four reasons."""

    says = "Commit {commit_id} of run {run_id} was aborted ({reason_code}): {problem}"


class MessageConflict(StoreError, code="message_conflict"):
    says = (
        "Session {session} in scope {scope} has another message at position {position}, so nothing was added."
        " Continue the session without position=, or use another session."
    )


class PayloadMismatch(StoreError, code="payload_mismatch"):
    says = (
        "Commit {commit_id} of run {run_id} was submitted before with another payload ({known_fingerprint},"
        " now {payload_fingerprint}); open a new run for new writes."
    )


class StaleFence(StoreError, code="stale_fence"):
    says = "Commit {commit_id} has fence {fence} now, not {given_fence}; its current owner finishes it."


class StoreBusy(StoreError, code="store_busy"):
    says = "Other writers blocked the store for {waited_seconds} seconds; try again."


class ReadOnlyStore(StoreError, code="read_only_store"):
    says = (
        "The store {store} can only be read: its disk or its permissions allow no writing. Recall, history"
        " and verify work; to write, copy the file to a disk that can be written."
    )


class StoreFailed(StoreError, code="store_failed"):
    says = "The storage failed, and nothing was changed: {problem}. Fix the cause, then try again."
    cases: ClassVar = {
        # The disk did not give what was asked for. That says nothing about what is stored.
        "read_failed": (
            "The storage could not be read: {problem}. Nothing was changed, and nothing is known to be"
            " damaged. Try again; if it goes on, check the disk before you restore anything."
        ),
        "worker_ended": (
            "A process that judged parts of an import ended early, with exit code {exit_code}. What was"
            " committed stays; start the import again, with fewer workers if memory is short, and it goes on."
        ),
    }


class OutcomeUnknown(StoreError, code="outcome_unknown"):
    """It is unknown whether the commit was applied. Submit it again to find out."""

    says = (
        "It is unknown whether the commit was applied ({problem}); submit the same commit again to find out."
    )


class ApprovalError(StandfastError, code="approval"):
    says = "The approval was refused."
    cases: ClassVar = {
        "bad_signature": "The signature was refused: {problem}. Sign the statement again.",
        "wrong_namespace": (
            "The signature or its key is for {found}, not for {needed}. Sign with -n {needed} and a"
            " key listed for it."
        ),
        "invalid_signers": "Line {line} of the {which} is invalid: {problem}.",
        "unknown_signer": (
            "No allowed signer has the key {key_fingerprint}. If its owner may seal, add it to the"
            " allowed signers."
        ),
        "signer_not_yet_valid": (
            "The key {key_fingerprint} of {principal} is valid from {valid_after}; it is {at}. Wait,"
            " or use another key."
        ),
        "signer_expired": (
            "The key {key_fingerprint} of {principal} was valid until {valid_before}; it is {at}. Use"
            " another key."
        ),
        "signer_revoked": "The key {key_fingerprint} is revoked. Sign with another key.",
        "self_approval": (
            "{principal} cannot decide proposal {proposal_id}: {problem}. Ask a human who did not propose it."
        ),
        "wrong_payload": (
            "The signature does not fit proposal {proposal_id}: {problem}. Look at it again and sign"
            " what you see now: standfast approvals show {proposal_id}"
        ),
        "approval_replayed": "The nonce {nonce} was used before. Sign a new statement with a new nonce.",
        "approval_expired": "The approval expired at {expires_at}; it is {at}. Sign a new statement.",
        "no_such_proposal": "{problem}. See: standfast approvals list",
        "not_pending": (
            "Proposal {proposal_id} is already {state}. To change that, propose the content again."
        ),
        "signing_failed": "Could not sign: {problem}.",
    }


class UnusableKey(ApprovalError, code="unusable_key"):
    says = "The key was refused: {problem}. Use an ssh-ed25519 or sk-ssh-ed25519@openssh.com key."


class NotProven(StandfastError, code="not_proven"):
    """A proof, note or receipt does not prove what it claims. Trust nothing in it."""

    says = "The proof does not hold."
    cases: ClassVar = {
        "malformed_note": (
            "This is not a signed note: {problem}. Pass the note unchanged, signature lines included."
        ),
        "forged_note": (
            "The signature of {name}+{key_id} does not match the note. The note was changed; get it"
            " again from its source."
        ),
        "unsigned_note": (
            "The note is signed by {signers}, and by none of the known keys ({known}). Pass the"
            " signer's public key."
        ),
        "malformed_checkpoint": "This is not a checkpoint: {problem}. Pass a note that the log has signed.",
        "foreign_log": (
            "The checkpoint belongs to the log {origin}, not to {expected}. Pass a checkpoint of that log."
        ),
        "bad_inclusion": (
            "The proof does not show that leaf {index} is in the tree of {size} leaves: {problem}"
        ),
        "bad_consistency": (
            "The proof does not show that the tree of {new_size} leaves extends the one of {old_size}:"
            " {problem}"
        ),
        "size_mismatch": (
            "The receipt is for a tree of {tree_size} leaves, but its checkpoint is for {checkpoint_size}."
        ),
        "malformed_entry": "Leaf {index} is not a ledger entry: {problem}",
        "misplaced_entry": (
            "The entry has number {seq}, but its receipt is for leaf {index}, which is entry {expected}."
        ),
    }


class TraceError(StandfastError, code="trace"):
    says = "The trace can't be used like this."
    cases: ClassVar = {
        "recorder_finished": "The trace of run {run_id} is finished; record into a new run.",
        "profile_conflict": (
            "Tool {tool_name} has the profile {known_version} in this run and can't also have"
            " {given_version}; use one."
        ),
        "retention_too_short": (
            "Traces are kept at least {least_days} days; a sweep of {asked_days} days is refused."
        ),
        "trace_folder_full": (
            "The folder {folder} holds its {max_bytes} bytes of traces, and none is past its retention"
            " period; raise traces_max_bytes, or store traces elsewhere."
        ),
        "trace_exists": (
            "{file} holds a different trace. A run has one trace; give the new run an id of its own."
        ),
        "invalid_trace": "This is not a trace artifact: {problem}",
        "trace_version": (
            "The artifact's {field} is {found}, but this version reads {expected}; record the run again."
        ),
        "damaged_trace": (
            "The artifact of run {run_id} was changed after it was written: its content hashes to"
            " {found}, not {expected}."
        ),
    }


class TraceFolderFailed(TraceError, code="trace_folder_failed"):
    """The folder of traces can't be written or read. No file was written partially."""

    says = "The trace file {file} can't be used: {problem}"


class NotReplayable(TraceError, code="not_replayable"):
    says = "Run {run_id} can't be replayed: {problem}"


class ReplayDiverged(TraceError, code="replay_diverged"):
    says = "The agent diverged: the recorded run did not call {tool_name} with {normalized_args} this often."


class RecordedFailure(TraceError, code="recorded_failure"):
    says = "Tool {tool_name} raised {error} when the run was recorded: {problem}"


class ExtractionError(StandfastError, code="extraction"):
    """Facts can't be found in messages. The messages themselves are stored all the same."""

    says = "No facts can be extracted."
    cases: ClassVar = {
        "no_extractor": (
            "No model is set that finds facts in conversations. Name one in the section [extraction] of the"
            " settings; in Python, pass extract=Extractor(provider)."
        ),
        "extraction_queue_full": (
            "{waiting} conversations wait for the model already. Add this one again when some are done."
        ),
        "extraction_failed": "No facts were extracted: {problem}. The messages are stored; add them again.",
    }


class ExtractionBudgetSpent(ExtractionError, code="extraction_budget_spent"):
    says = (
        "The budget of {day} for extraction is spent: {calls} calls, cost {cost}. It begins anew at {again};"
        " calls_per_day and cost_per_day of the section [extraction] set it."
    )

    @property
    def wait_seconds(self) -> float:
        """How long it is until the budget begins anew."""
        return float(self.facts["wait_seconds"])


class RecallError(StandfastError, code="recall"):
    """A recall could not be answered. There are no partial answers."""

    says = "memory.read can't answer this."
    cases: ClassVar = {
        "recall_trust_snapshot": "The trust snapshot {trust_snapshot_path} can't be read: {problem}",
        "recall_request": "{field} is invalid: {problem}",
        "recall_no_stores": "store_paths is empty; name at least one store.",
        "recall_budget": "The budget is invalid: {problem}",
    }


class EmptyQuery(RecallError, code="recall_empty_query"):
    says = "The query is empty; say in a few words what to recall."


class UnreadableStore(RecallError, code="recall_unreadable_store"):
    says = "The store {store_path} can't be read: {problem}"
    cases: ClassVar = {
        "recall_missing_store": "There is no store {store_path}; correct the path, or leave it out.",
    }


class EmbeddingFailed(RecallError, code="recall_embedding"):
    says = "The embedder {embedder} failed: {problem}; lexical-v1 needs none."


class RerankingFailed(RecallError, code="recall_reranking"):
    says = "The reranker {reranker} failed: {problem}; recall answers without it."
