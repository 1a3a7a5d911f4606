"""Errors of recall. The same request always gets the same error, with the same message."""

from standfast.errors.root import StandfastError


class RecallError(StandfastError):
    """A recall could not be answered. There are no partial answers."""

    code = "recall"
    says = "memory.read can't answer this."


class EmptyQuery(RecallError):
    """The query is empty."""

    code = "recall_empty_query"
    says = "The query is empty; say in a few words what to recall."


class NoStores(RecallError):
    """No store was named."""

    code = "recall_no_stores"
    says = "store_paths is empty; name at least one store."


class InvalidBudget(RecallError):
    """The token budget is not a valid one."""

    code = "recall_budget"
    says = "The budget is invalid: {problem}"


class InvalidRequest(RecallError):
    """A field of the request has an invalid value."""

    code = "recall_request"
    says = "{field} is invalid: {problem}"


class MissingStore(RecallError):
    """A store that was named does not exist."""

    code = "recall_missing_store"
    says = "There is no store {store_path}; correct the path, or leave it out."


class UnreadableStore(RecallError):
    """A store that was named exists but can't be read."""

    code = "recall_unreadable_store"
    says = "The store {store_path} can't be read: {problem}"


class InvalidTrustSnapshot(RecallError):
    """The trust snapshot can't be read in full. Skipping a line could let a denied record pass."""

    code = "recall_trust_snapshot"
    says = "The trust snapshot {trust_snapshot_path} can't be read: {problem}"


class EmbeddingFailed(RecallError):
    """An embedder gave no vectors, or not those that it promised."""

    code = "recall_embedding"
    says = "The embedder {embedder} failed: {problem}; lexical-v1 needs none."
