"""Slips: what makes the same request twice have one effect.

A slip is a row that is written in the very transaction of the request's effect. Its key is made of who asks, the
namespace and the idempotency key; it holds the request's fingerprint and the answer. Who asks again is given the answer of
then; who asks for something else under the same key is refused. Of two that arrive at once, one commits and the other
finds its slip.
"""

from typing import Any, Self

import msgspec

from standfast.canon import fingerprint, parse
from standfast.errors import RequestReused
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE
from standfast.store.commit import Receipt, Write, commit_id_of
from standfast.store.pipeline import receipt_of
from standfast.store.store import Store
from standfast.vocabulary import ActionType, RunIdentity


class Answered(msgspec.Struct, frozen=True):
    """What was answered to a request, and the receipt of its effect."""

    answer: dict[str, Any]
    receipt: Receipt


class Slip(msgspec.Struct, frozen=True, kw_only=True):
    """One request under an idempotency key. Build it with ``of``."""

    request_key: str
    digest: str
    request: str

    @classmethod
    def of(cls, asker: str, namespace: str, request_key: str, request: list[Any]) -> Self:
        """The slip of a request: ``request`` is what must be the same for it to be the same request."""
        return cls(
            request_key=request_key,
            digest=fingerprint(["request/v1", asker, namespace, request_key]),
            request=fingerprint(request),
        )

    @property
    def run_id(self) -> str:
        """The run that the request is carried out by, however often it is sent."""
        return f"request-{self.digest[:32]}"

    @property
    def row(self) -> str:
        """Where the slip is kept."""
        return f"request/{self.digest}"

    def write(self, answer: dict[str, Any], run: RunIdentity) -> Write:
        """The row that goes with the request's effect, which this run is about to have."""
        # Writing what is there already is no conflict to the store, so that no two attempts may write the same.
        attempt = commit_id_of(run.run_id, run.memory_snapshot_id, run.policy_set_id)
        content = {"answer": answer, "attempt": attempt, "request": self.request}
        return Write.of(SYSTEM_NAMESPACE, self.row, ActionType.WRITE, content)

    def answered(self, store: Store) -> Answered | None:
        """What was answered when the request had its effect; None if it had none yet."""
        found = store.read(SYSTEM_NAMESPACE, [self.row])
        if self.row not in found:
            return None
        version = found[self.row]
        kept = parse(version.content or b"")
        if kept["request"] != self.request:
            raise RequestReused(request_key=self.request_key)
        (applied,) = store.storage.applied(after=version.memory_snapshot_id - 1, limit=1)
        return Answered(kept["answer"], receipt_of(applied, replayed=True))
