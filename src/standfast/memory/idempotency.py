"""Idempotency records: a request that arrives twice takes effect once.

The record is a row that is written in the same transaction as the request's effect. Its key is a hash of the caller, the
namespace and the idempotency key; its content is the request's fingerprint and the answer. A repeated request gets the stored
answer. A different request under the same key is refused. If two attempts run at once, one commits and the other finds its row.
"""

from typing import Any, Self

import msgspec

from standfast.canon import fingerprint, parse
from standfast.errors import RequestReused
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE
from standfast.store.commit import Write, commit_id_of
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Receipt, RunIdentity


class StoredAnswer(msgspec.Struct, frozen=True):
    """The answer that was given to a request, and the receipt of the commit it was part of."""

    answer: dict[str, Any]
    receipt: Receipt


class IdempotencyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request under an idempotency key. Build it with ``of``."""

    request_key: str
    digest: str
    request: str

    @classmethod
    def of(cls, caller: str, namespace: str, request_key: str, request: list[Any]) -> Self:
        """Build the record of a request.

        Args:
            caller: Who sends it; the same key of two callers names two requests.
            request: What must be equal for a second request to count as the same one.
        """
        return cls(
            request_key=request_key,
            digest=fingerprint(["request/v1", caller, namespace, request_key]),
            request=fingerprint(request),
        )

    @property
    def run_id(self) -> str:
        """The id of the run that carries out the request, the same for every attempt."""
        return f"request-{self.digest[:32]}"

    @property
    def row_key(self) -> str:
        """The key of the row, in the system namespace."""
        return f"request/{self.digest}"

    def write(self, answer: dict[str, Any], run: RunIdentity) -> Write:
        """Return the row to commit together with the request's effect."""
        # Two writes of equal content do not conflict in the store, so the row names the attempt that wrote it.
        attempt = commit_id_of(run.run_id, run.memory_snapshot_id, run.policy_set_id)
        content = {"answer": answer, "attempt": attempt, "request": self.request}
        return Write.of(SYSTEM_NAMESPACE, self.row_key, ActionType.WRITE, content)

    def stored_answer(self, store: Store) -> StoredAnswer | None:
        """Return the answer that an earlier attempt committed, or None if none did.

        Raises:
            RequestReused: The key was used for a different request.
        """
        found = store.read(SYSTEM_NAMESPACE, [self.row_key])
        if self.row_key not in found:
            return None
        version = found[self.row_key]
        row = parse(version.content or b"")
        if row["request"] != self.request:
            raise RequestReused(request_key=self.request_key)
        return StoredAnswer(row["answer"], store.receipt_of(version.memory_snapshot_id))
