"""Policies that learn what a kind of step is worth, from what they wrote and were then told.

An arm is a type of step: its observation kind, whether it says that something is deprecated, and whether it is its
endpoint's first, a change, or the same again. There are at most 24 of them, so that a decision takes constant time.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from math import log, sqrt
from typing import ClassVar

from standfast.clock import seeded
from standfast.errors import InvalidValue
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.features import LastSeen, Novelty, ObservationKind, kind_of, novelty
from standfast.policies.protocol import Track, expire, write
from standfast.vocabulary import MemoryAction, Step

Arm = tuple[ObservationKind, bool, Novelty]


class _Estimates:
    """What was learnt: for each arm how often it was told and the sum; and what is held of each arm, oldest first."""

    def __init__(self) -> None:
        self.told = 0
        self.total = 0.0
        self.count: dict[Arm, int] = {}
        self.sums: dict[Arm, float] = {}
        self.held: dict[Arm, deque[int]] = {}
        self._seen = LastSeen()
        self._adopted = False

    def arm_of(self, step: Step, store: ByteMemoryStore) -> Arm:
        """The type of a step, which is noted as its endpoint's last."""
        if not self._adopted:
            self._adopted = True
            for item in store.items():
                self.held.setdefault(self._arm(item.step), deque()).append(item.step.t)
        return self._arm(step)

    def _arm(self, step: Step) -> Arm:
        seen = novelty(step, self._seen.before(step))
        self._seen.note(step)
        deprecated = isinstance(step.observation, dict) and bool(step.observation.get("deprecated"))
        return kind_of(step.observation), deprecated, seen

    def mean(self, arm: Arm) -> float:
        """The mean utility of an arm; of one that was never told of, the mean of all."""
        count = self.count.get(arm, 0)
        return self.sums[arm] / count if count else self.overall()

    def overall(self) -> float:
        """The mean utility of all that was told."""
        return self.total / self.told if self.told else 0.0

    def learn(self, arm: Arm, utility: float) -> None:
        """One more utility of an arm."""
        self.told += 1
        self.total += utility
        self.count[arm] = self.count.get(arm, 0) + 1
        self.sums[arm] = self.sums.get(arm, 0.0) + utility


class _Bandit(ABC):
    """Writes what promises at least as much as the average; when full, the oldest of the least promising arm goes."""

    track: ClassVar = Track.BANDIT

    def __init__(self) -> None:
        self._estimates = _Estimates()
        self._arm: Arm | None = None

    def learn(self, step: Step, utility: float) -> None:  # noqa: ARG002  # The protocol's signature.
        """What the step just written was worth."""
        assert self._arm is not None, "it is told only after it wrote"
        self._estimates.learn(self._arm, utility)

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write what promises most, making room from what promises least."""
        estimates = self._estimates
        arm = self._arm = estimates.arm_of(step, store)
        cost = store.cost_of(step)
        if not self._wants(arm) or cost > store.budget.remaining() + store.held_bytes:
            return
        while cost > store.budget.remaining():
            worst = self._least_promising(store)
            if worst is None or self._promise(worst) >= self._promise(arm):
                return
            yield expire(estimates.held[worst].popleft())
        estimates.held.setdefault(arm, deque()).append(step.t)
        yield write(step)

    def _least_promising(self, store: ByteMemoryStore) -> Arm | None:
        held = self._estimates.held
        for queue in held.values():
            while queue and queue[0] not in store:
                queue.popleft()
        arms = [(self._promise(arm), arm) for arm, queue in held.items() if queue]
        return min(arms)[1] if arms else None

    @abstractmethod
    def _wants(self, arm: Arm) -> bool: ...

    @abstractmethod
    def _promise(self, arm: Arm) -> float: ...


class EpsilonGreedy(_Bandit):
    """Exploits its estimates, and explores with probability ε."""

    def __init__(self, *, epsilon: float = 0.1, seed: int = 0) -> None:
        if not 0 <= epsilon <= 1:
            raise InvalidValue(what="EpsilonGreedy", problem="epsilon must be between 0 and 1")
        super().__init__()
        self.epsilon = epsilon
        self._dice = seeded(seed)

    def _wants(self, arm: Arm) -> bool:
        explore = self._dice.random() < self.epsilon
        return explore or self._promise(arm) >= self._estimates.overall()

    def _promise(self, arm: Arm) -> float:
        return self._estimates.mean(arm)


class BanditUCB(_Bandit):
    """Is optimistic about what it has seldom tried: an upper confidence bound for each arm."""

    def __init__(self, *, confidence: float = 1.0) -> None:
        if confidence < 0:
            raise InvalidValue(what="BanditUCB", problem="confidence must be 0 or more")
        super().__init__()
        self.confidence = confidence

    def _wants(self, arm: Arm) -> bool:
        return self._promise(arm) >= self._estimates.overall()

    def _promise(self, arm: Arm) -> float:
        count = self._estimates.count.get(arm, 0)
        if not count:
            return float("inf")
        width = sqrt(2 * log(max(self._estimates.told, 1)) / count)
        return self._estimates.mean(arm) + self.confidence * width
