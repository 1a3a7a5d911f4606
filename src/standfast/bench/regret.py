"""What a policy retains is worth, after each step; regret over time is what the oracle has beyond that."""

from collections.abc import Mapping

from standfast.bench.play import Turn
from standfast.policies.byte_store import ByteMemoryStore
from standfast.vocabulary import ActionType, Step


class WorthWatcher:
    """Looks on at a run and keeps the worth of what is retained after each step, at the cost of the step's actions."""

    def __init__(self, worth: Mapping[int, int]) -> None:
        self._worth = worth
        self._own = 0
        self._parent: dict[int, int | None] = {}
        self._hung: dict[int, set[int]] = {}
        self.curve: list[int] = []

    def after(self, step: Step, turn: Turn, store: ByteMemoryStore) -> None:  # noqa: ARG002  # A watcher's signature.
        """Keep the books of what is retained."""
        for action, done in turn:
            if not done:
                continue
            if action.action is ActionType.EXPIRE:
                assert action.target_t is not None, "the store accepted it"
                self._expired(action.target_t)
            elif action.action is not ActionType.SKIP:
                self._stored(step.t, action.target_t if action.action is ActionType.MERGE else None)
        self.curve.append(self._own)

    def _stored(self, t: int, parent: int | None) -> None:
        self._parent[t] = parent
        if parent is not None:
            self._hung.setdefault(parent, set()).add(t)
        self._own += self._worth.get(t, 0)

    def _expired(self, t: int) -> None:
        parent = self._parent.pop(t)
        if parent is None:
            orphans = self._hung.pop(t, set())
            self._own -= self._worth.get(t, 0) + sum(self._worth.get(child, 0) for child in orphans)
        elif parent in self._parent:
            # An orphan no longer counts, so that its going changes nothing.
            self._own -= self._worth.get(t, 0)
            self._hung[parent].discard(t)
