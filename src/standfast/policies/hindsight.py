"""Policies that are told everything beforehand: no agent can be one, but none can be judged without them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.knapsack import best_subset
from standfast.policies.protocol import SKIP, Hindsight, Track, write
from standfast.vocabulary import MemoryAction, Step


class _Planned(ABC):
    """Writes the steps of a plan that is made from hindsight at the first step, when the budget is known."""

    track: ClassVar = Track.ORACLE

    def __init__(self) -> None:
        self._hindsight = Hindsight(steps=(), worth={})
        self._plan: set[int] | None = None

    def foresee(self, hindsight: Hindsight) -> None:
        """Told once, before the first step."""
        self._hindsight = hindsight
        self._plan = None

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write what the plan names."""
        if self._plan is None:
            self._plan = self._planned(self._hindsight, store)
        return (write(step),) if step.t in self._plan else SKIP

    @abstractmethod
    def _planned(self, hindsight: Hindsight, store: ByteMemoryStore) -> set[int]: ...


class UtilityGreedy(_Planned):
    """Writes the most useful steps first, the cheaper and then the earlier first among equals, while they fit."""

    def _planned(self, hindsight: Hindsight, store: ByteMemoryStore) -> set[int]:
        worth, room = hindsight.worth, store.budget.remaining()
        plan = set()
        for _, cost, t in sorted(
            (-worth.get(step.t, 0), store.cost_of(step), step.t) for step in hindsight.steps
        ):
            if cost <= room and worth.get(t, 0) > 0:
                plan.add(t)
                room -= cost
        return plan


class OracleOptimal(_Planned):
    """Writes the best of all choices: no run that only writes can retain more utility under the same budget."""

    def _planned(self, hindsight: Hindsight, store: ByteMemoryStore) -> set[int]:
        steps, worth = hindsight.steps, hindsight.worth
        sizes = [store.cost_of(step) for step in steps]
        _, chosen = best_subset(sizes, [worth.get(step.t, 0) for step in steps], store.budget.remaining())
        return {steps[index].t for index in chosen}
