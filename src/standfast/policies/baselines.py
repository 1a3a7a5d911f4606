"""The twelve baselines of the benchmark's document, and the reference release's ``priority_greedy``.

trivial      AlwaysWrite, NeverWrite, UniformSample
heuristic    PriorityThreshold, RecencyBias, ExpireOldest, MergeAggressive, PriorityGreedy
learning     RandomPolicy, EpsilonGreedy, BanditUCB
hindsight    UtilityGreedy, OracleOptimal
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf, log, sqrt
from typing import ClassVar

from standfast.clock import seeded
from standfast.errors import InvalidValue
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.features import LastSeen, Novelty, ObservationKind, kind_of, novelty
from standfast.policies.knapsack import best_subset
from standfast.policies.write_policy import SKIP, Hindsight, Track, expire, merge, write
from standfast.records.vocabulary import MemoryAction, Step


class AlwaysWrite:
    """Writes every step that fits. The reference release calls it ``fifo_store_all``."""

    track: ClassVar = Track.UNPRIVILEGED

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write while there is room."""
        return store.offer(step) or SKIP


class NeverWrite:
    """Writes nothing: the lower bound. The reference release calls it ``no_mem``."""

    track: ClassVar = Track.UNPRIVILEGED

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:  # noqa: ARG002  # The protocol's signature.
        """Skip."""
        return SKIP


class UniformSample:
    """Writes every Nth timestep that fits."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, *, every: int = 10) -> None:
        if every < 1:
            raise InvalidValue(what="UniformSample", problem="every must be 1 or more")
        self.every = every

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write one step in N."""
        return SKIP if step.t % self.every else store.offer(step) or SKIP


def priority_of(step: Step) -> float:
    """Return the hint of the privileged track; 0 if there is none."""
    return float(step.metadata.get("priority", 0.0))


class PriorityThreshold:
    """Writes steps whose priority is above the threshold, until the store rejects them."""

    track: ClassVar = Track.PRIVILEGED

    def __init__(self, *, threshold: float = 0.5) -> None:
        self.threshold = threshold

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write steps with a high priority."""
        return store.priced(step).write_actions if priority_of(step) > self.threshold else SKIP


class PriorityGreedy:
    """Keeps the highest priorities: when the budget is full, lower ones are expired for a higher one.

    The reference release's ``priority_greedy``.
    """

    track: ClassVar = Track.PRIVILEGED

    def __init__(self) -> None:
        # Entries of expired items are removed when they reach the top.
        self._heap: list[tuple[float, int]] = []
        self._adopted = False

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write the step, expiring lower priorities if necessary."""
        if not self._adopted:
            self._adopted = True
            for item in store.items():
                heappush(self._heap, (priority_of(item.step), item.step.t))
        priority = priority_of(step)
        item = store.priced(step)
        if store.has_room(item.byte_cost):
            heappush(self._heap, (priority, step.t))
            return item.write_actions
        missing = item.byte_cost - store.budget.remaining()
        if missing > store.held_bytes:
            return SKIP
        heap = self._heap
        while heap and heap[0][1] not in store:
            heappop(heap)
        if not heap or priority <= heap[0][0]:
            return SKIP
        actions = []
        while missing > 0:
            _, t = heappop(heap)
            held = store.item_at(t)
            if held is not None:
                actions.append(expire(t))
                missing -= held.byte_cost
        heappush(heap, (priority, step.t))
        return (*actions, *item.write_actions)


class RecencyBias:
    """Keeps the newest: when the budget is full, the oldest item expires.

    The reference release's ``last_kb``.

    As there, at most one item expires for each step, so a long step after short ones may not fit.
    ``expiries`` allows more; 0 means as many as necessary.
    """

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, *, expiries: int = 1) -> None:
        if expiries < 0:
            raise InvalidValue(what="RecencyBias", problem="expiries must be 0 or more")
        self.expiries = expiries

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Expire the oldest if necessary, then write."""
        item = store.priced(step)
        if store.has_room(item.byte_cost):
            return item.write_actions
        if self.expiries == 1:
            oldest = store.oldest_item()
            return SKIP if oldest is None else (expire(oldest.step.t), *item.write_actions)
        return self._make_room(step, store, item.byte_cost)

    def _make_room(self, step: Step, store: ByteMemoryStore, cost: int) -> Iterable[MemoryAction]:
        if self.expiries == 0 and cost > store.budget.remaining() + store.held_bytes:
            return
        expired = 0
        while cost > store.budget.remaining() and (self.expiries == 0 or expired < self.expiries):
            oldest = store.oldest_item()
            if oldest is None:
                return
            yield expire(oldest.step.t)
            expired += 1
        yield write(step)


class ExpireOldest:
    """Expires items older than ``max_age`` timesteps, full or not, and writes what then fits."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, *, max_age: int = 100) -> None:
        if max_age < 1:
            raise InvalidValue(what="ExpireOldest", problem="max_age must be 1 or more")
        self.max_age = max_age

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Expire what is too old, then write if it fits."""
        oldest = store.oldest_item()
        while oldest is not None and step.t - oldest.written_at > self.max_age:
            yield expire(oldest.step.t)
            oldest = store.oldest_item()
        yield from store.offer(step)


class MergeAggressive:
    """Merges into the newest base of the same endpoint whenever there is one.

    The reference release has it too.

    As there, it does not check whether the merge will be accepted: for a step that changes nothing it still
    expires the oldest item if the 18 bytes of an empty delta do not fit, and that item may be the base.
    ``MergeFirst`` does better.
    """

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self) -> None:
        self._recency = RecencyBias()

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Merge if there is a base, otherwise keep the newest."""
        delta = store.delta_for(step)
        if delta is None or delta.merge_parent_t is None:
            return self._recency.select(step, store)
        merged = merge(step, delta.merge_parent_t)
        if store.has_room(delta.byte_cost):
            return (merged,)
        oldest = store.oldest_item()
        assert oldest is not None, "the base is stored"
        return (expire(oldest.step.t), merged)


class RandomPolicy:
    """Writes each step that fits with probability ``p``."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, *, p: float = 0.5, seed: int = 0) -> None:
        if not 0 <= p <= 1:
            raise InvalidValue(what="RandomPolicy", problem="p must be between 0 and 1")
        self.p = p
        self._random = seeded(seed)

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write with probability ``p``. Every step draws a number, so the budget changes no later draws."""
        drawn = self._random.random() < self.p
        return (store.offer(step) if drawn else ()) or SKIP


Arm = tuple[ObservationKind, bool, Novelty]
"""A type of step: its kind, whether it is deprecated, and whether it is new, changed or the same.

There are at most 24.
"""


class _ArmEstimates:
    """The utilities learnt for each arm, and the timesteps stored for each arm, oldest first."""

    def __init__(self) -> None:
        self.pulls = 0
        self.total = 0.0
        self.count: dict[Arm, int] = {}
        self.sums: dict[Arm, float] = {}
        self.stored: dict[Arm, deque[int]] = {}
        self._seen = LastSeen()
        self._adopted = False

    def arm_of(self, step: Step, store: ByteMemoryStore) -> Arm:
        """Return the arm of a step, and record the step as its endpoint's last."""
        if not self._adopted:
            self._adopted = True
            for item in store.items():
                self.stored.setdefault(self._arm(item.step), deque()).append(item.step.t)
        return self._arm(step)

    def _arm(self, step: Step) -> Arm:
        seen = novelty(step, self._seen.before(step))
        self._seen.note(step)
        deprecated = isinstance(step.observation, dict) and bool(step.observation.get("deprecated"))
        return kind_of(step.observation), deprecated, seen

    def mean(self, arm: Arm) -> float:
        """Return the mean utility of an arm; of one that was never pulled, the overall mean."""
        count = self.count.get(arm, 0)
        return self.sums[arm] / count if count else self.overall()

    def overall(self) -> float:
        """Return the mean utility of all pulls."""
        return self.total / self.pulls if self.pulls else 0.0

    def learn(self, arm: Arm, utility: float) -> None:
        """Add one utility to an arm."""
        self.pulls += 1
        self.total += utility
        self.count[arm] = self.count.get(arm, 0) + 1
        self.sums[arm] = self.sums.get(arm, 0.0) + utility


class _Bandit(ABC):
    """Writes arms that score at least the average; when full, expires the oldest item of the worst arm."""

    track: ClassVar = Track.BANDIT

    def __init__(self) -> None:
        self._estimates = _ArmEstimates()
        self._arm: Arm | None = None

    def learn(self, step: Step, utility: float) -> None:  # noqa: ARG002  # The protocol's signature.
        """Add the utility of the step that was just stored to its arm."""
        assert self._arm is not None, "a utility comes after a step"
        self._estimates.learn(self._arm, utility)

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write the step if its arm scores well enough, expiring items of worse arms if necessary."""
        estimates = self._estimates
        arm = self._arm = estimates.arm_of(step, store)
        cost = store.cost_of(step)
        if not self._wants(arm) or cost > store.budget.remaining() + store.held_bytes:
            return
        while cost > store.budget.remaining():
            worst = self._lowest_arm(store)
            if worst is None or self._score(worst) >= self._score(arm):
                return
            yield expire(estimates.stored[worst].popleft())
        estimates.stored.setdefault(arm, deque()).append(step.t)
        yield write(step)

    def _lowest_arm(self, store: ByteMemoryStore) -> Arm | None:
        stored = self._estimates.stored
        for queue in stored.values():
            while queue and queue[0] not in store:
                queue.popleft()
        arms = [(self._score(arm), arm) for arm, queue in stored.items() if queue]
        return min(arms)[1] if arms else None

    def _wants(self, arm: Arm) -> bool:
        return self._score(arm) >= self._estimates.overall()

    @abstractmethod
    def _score(self, arm: Arm) -> float: ...


class EpsilonGreedy(_Bandit):
    """Exploits its estimates, and explores with probability ε."""

    def __init__(self, *, epsilon: float = 0.1, seed: int = 0) -> None:
        if not 0 <= epsilon <= 1:
            raise InvalidValue(what="EpsilonGreedy", problem="epsilon must be between 0 and 1")
        super().__init__()
        self.epsilon = epsilon
        self._random = seeded(seed)

    def _wants(self, arm: Arm) -> bool:
        # Drawn at every step, so that estimates do not change later draws.
        explore = self._random.random() < self.epsilon
        return explore or super()._wants(arm)

    def _score(self, arm: Arm) -> float:
        return self._estimates.mean(arm)


class BanditUCB(_Bandit):
    """Scores each arm by an upper confidence bound, so arms that were rarely tried get a chance."""

    def __init__(self, *, confidence: float = 1.0) -> None:
        if confidence < 0:
            raise InvalidValue(what="BanditUCB", problem="confidence must be 0 or more")
        super().__init__()
        self.confidence = confidence

    def _score(self, arm: Arm) -> float:
        count = self._estimates.count.get(arm, 0)
        if not count:
            return inf
        width = sqrt(2 * log(max(self._estimates.pulls, 1)) / count)
        return self._estimates.mean(arm) + self.confidence * width


class _HindsightPolicy(ABC):
    """Writes the steps of a plan that it makes at the first step, when it knows the budget."""

    track: ClassVar = Track.ORACLE

    def __init__(self) -> None:
        self._hindsight = Hindsight(steps=(), worth={})
        self._plan: set[int] | None = None

    def foresee(self, hindsight: Hindsight) -> None:
        """Receive the whole stream, once, before the first step."""
        self._hindsight = hindsight
        self._plan = None

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write the steps of the plan."""
        if self._plan is None:
            self._plan = self._make_plan(self._hindsight, store)
        return (write(step),) if step.t in self._plan else SKIP

    @abstractmethod
    def _make_plan(self, hindsight: Hindsight, store: ByteMemoryStore) -> set[int]: ...


class UtilityGreedy(_HindsightPolicy):
    """Writes the most useful steps first while they fit; among equals the cheaper, then the earlier."""

    def _make_plan(self, hindsight: Hindsight, store: ByteMemoryStore) -> set[int]:
        worth, left_bytes = hindsight.worth, store.budget.remaining()
        plan = set()
        for _, cost, t in sorted(
            (-worth.get(step.t, 0), store.cost_of(step), step.t) for step in hindsight.steps
        ):
            if cost <= left_bytes and worth.get(t, 0) > 0:
                plan.add(t)
                left_bytes -= cost
        return plan


class OracleOptimal(_HindsightPolicy):
    """Writes the optimal set of steps: no run that only writes retains more utility under the same budget."""

    def _make_plan(self, hindsight: Hindsight, store: ByteMemoryStore) -> set[int]:
        steps, worth = hindsight.steps, hindsight.worth
        sizes = [store.cost_of(step) for step in steps]
        _, chosen = best_subset(sizes, [worth.get(step.t, 0) for step in steps], store.budget.remaining())
        return {steps[index].t for index in chosen}
