"""Governing a memory: approvals, patterns of attacks, retention."""

from collections.abc import Iterator, Sequence

from standfast.govern.approvals.queue import ApprovalQueue
from standfast.govern.patterns import AttackPattern, lift_pattern, list_patterns
from standfast.govern.refusals import ListedRefusal, lift_refusal, list_refusals
from standfast.govern.sweep import DueRecord, due, sweep
from standfast.memory.band_budgets import BandBudgets, restarted_writes
from standfast.records.scopes import ALL_SCOPES, listed_scope
from standfast.records.vocabulary import Receipt
from standfast.store.commit import Write
from standfast.store.store import Store


class MemoryGovernance:
    """What people who answer for one namespace do."""

    def __init__(self, store: Store, namespace: str, budgets: BandBudgets) -> None:
        self._store = store
        self._namespace = namespace
        self.approvals = ApprovalQueue(
            store,
            namespace,
            clock=store.clock,
            extra_writes=self._restarted_budgets,
            budgets=budgets if budgets.budgets else None,
        )
        """The queue in which proposals wait for a human's signature."""

    def patterns(self) -> list[AttackPattern]:
        """Return the sources of repeated attacks, ordered by source. Their texts need another source."""
        return list_patterns(self._store, self._namespace, self._store.clock.now())

    def lift_pattern(
        self, source: str, *, reason: str, by: str = "operator", scope: str = ALL_SCOPES
    ) -> Receipt:
        """End the pattern of a source before it fades. The ledger records who did it and why.

        Args:
            source: The source as ``patterns`` names it, e.g. ``"web:example.com"``.
            by: Who lifts it.
            scope: Where, with all below it; by default in every scope.

        Raises:
            InvalidValue: There is no such pattern, or no reason.
        """
        return lift_pattern(
            self._store,
            self._namespace,
            source,
            reason=reason,
            by=by,
            run_id=self._store.ids.new_id(),
            scope=listed_scope(scope),
        )

    def refusals(self, *, scope: str = ALL_SCOPES) -> list[ListedRefusal]:
        """Return the refusals that are remembered now, in a scope with all below it, ordered by scope."""
        return list_refusals(self._store, self._namespace, self._store.clock.now(), scope=listed_scope(scope))

    def lift_refusal(
        self, refusal: str, *, reason: str, by: str = "operator", scope: str = ALL_SCOPES
    ) -> Receipt:
        """End a refusal before it fades. The ledger records who did it and why.

        Args:
            refusal: The id that ``refusals`` gives, or a source such as ``"web:example.com"``.
            by: Who lifts it.
            scope: Where, with all below it; by default in every scope.

        Raises:
            InvalidValue: There is no such refusal, or no reason.
        """
        return lift_refusal(
            self._store,
            self._namespace,
            refusal,
            reason=reason,
            by=by,
            run_id=self._store.ids.new_id(),
            scope=listed_scope(scope),
        )

    def due(self) -> Iterator[DueRecord]:
        """Yield what a retention sweep would archive or delete now. Changes nothing."""
        return due(self._store, self._namespace, self._store.clock.now())

    def sweep(self) -> list[Receipt]:
        """Carry out retention: archive and delete what is due, in commits of their own."""
        return sweep(
            self._store, self._namespace, self._store.clock.now(), extra_writes=self._restarted_budgets
        )

    def _restarted_budgets(self, at: int, erased: Sequence[str]) -> list[Write]:
        return restarted_writes(self._store, self._namespace, at, erased)
