"""Policies with a rule of thumb: recency, age, priority, and merging whatever can be merged."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import ClassVar

from standfast.errors import InvalidValue
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.protocol import SKIP, Track, expire, merge, write
from standfast.vocabulary import MemoryAction, Step


def priority_of(step: Step) -> float:
    """The hint of the privileged track; a step without one has none."""
    return float(step.metadata.get("priority", 0.0))


class PriorityThreshold:
    """Writes what has a priority over the threshold, and leaves it to the store to say that it is full."""

    track: ClassVar = Track.PRIVILEGED

    def __init__(self, *, threshold: float = 0.5) -> None:
        self.threshold = threshold

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write what matters."""
        return store.priced(step).writing if priority_of(step) > self.threshold else SKIP


class PriorityGreedy:
    """Keeps the highest priorities: when full, the lowest make room for a step that is worth more than the lowest.

    The reference release's ``priority_greedy``. Held priorities lie in a heap, from which expired ones fall out late.
    """

    track: ClassVar = Track.PRIVILEGED

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._adopted = False

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write, making room if need be."""
        if not self._adopted:
            self._adopted = True
            for item in store.items():
                heappush(self._heap, (priority_of(item.step), item.step.t))
        priority = priority_of(step)
        item = store.priced(step)
        if store.has_room(item.byte_cost):
            heappush(self._heap, (priority, step.t))
            return item.writing
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
        return (*actions, *item.writing)


class RecencyBias:
    """Keeps the newest: when full, the oldest goes. The reference release's ``last_kb``.

    As there, at most one item goes for each step, so that a long step after short ones may find no room. More can be
    allowed; ``expiries=0`` means as many as it takes.
    """

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, *, expiries: int = 1) -> None:
        if expiries < 0:
            raise InvalidValue(what="RecencyBias", problem="expiries must be 0 or more")
        self.expiries = expiries

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Expire the oldest if need be, then write."""
        item = store.priced(step)
        if store.has_room(item.byte_cost):
            return item.writing
        if self.expiries == 1:
            oldest = store.oldest_item()
            return SKIP if oldest is None else (expire(oldest.step.t), *item.writing)
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
    """Forgets what is older than ``max_age`` timesteps, full or not, and writes what then fits."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, *, max_age: int = 100) -> None:
        if max_age < 1:
            raise InvalidValue(what="ExpireOldest", problem="max_age must be 1 or more")
        self.max_age = max_age

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Expire what is too old; each item goes once, so that a step costs the same in the long run."""
        oldest = store.oldest_item()
        while oldest is not None and step.t - oldest.written_at > self.max_age:
            yield expire(oldest.step.t)
            oldest = store.oldest_item()
        yield from store.offer(step)


class MergeAggressive:
    """Prefers MERGE: into the newest base of the same endpoint, whatever it takes. The reference release has it too.

    As there, it does not ask whether the merge will be accepted: for a repetition that changes nothing it still expires the
    oldest item if the 18 bytes of an empty delta do not fit, and that item may be the very base. ``MergeFirst`` in
    ``drift.py`` mends both.
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
        assert oldest is not None, "there is a base, so something is held"
        return (expire(oldest.step.t), merged)
