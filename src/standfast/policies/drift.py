"""Standfast's own policies: ``DriftValue`` reads what changed, ``RareDrift`` also how rare that is in the
stream, and ``MergeFirst`` only whether something changed.

None sees hints or labels. They store a step as cheaply as possible (as a delta of a stored base, or in
full), never store a repetition, and when the budget is full expire the groups with the least value per byte,
if those are worth less than the new step. A group is a base with its deltas; it expires as a whole, so no
delta is orphaned. ``docs/policies.md`` has the results.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import log
from typing import ClassVar

from standfast.clock import seeded
from standfast.errors import InvalidValue
from standfast.policies.byte_model import MemoryItem
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.features import LastSeen, Novelty, drift_score, novelty
from standfast.policies.write_policy import SKIP, Track, expire, merge, write
from standfast.records.vocabulary import MemoryAction, Step


class _Groups:
    """Groups of a base and its deltas, with their values and bytes, in a heap by value per byte."""

    def __init__(self) -> None:
        self._value: dict[int, float] = {}
        self._bytes: dict[int, int] = {}
        self._version: dict[int, int] = {}
        # (value per byte, base, version). An entry is out of date if its version is not the group's.
        self._heap: list[tuple[float, int, int]] = []

    def value_of(self, base_t: int) -> float:
        """Return the value of a group."""
        return self._value.get(base_t, 0.0)

    def bytes_of(self, base_t: int) -> int:
        """Return the bytes of a group."""
        return self._bytes.get(base_t, 0)

    def add(self, base_t: int, value: float, byte_cost: int) -> None:
        """Add a new group, or a delta to a group."""
        self._value[base_t] = self._value.get(base_t, 0.0) + value
        self._bytes[base_t] = self._bytes.get(base_t, 0) + byte_cost
        self._push(base_t)

    def remove(self, base_t: int) -> None:
        """Remove a group."""
        self._value.pop(base_t, None)
        self._bytes.pop(base_t, None)

    def better_alone(self, base_t: int, value: float, delta_bytes: int, full_bytes: int) -> bool:
        """Return whether a step has more value per byte in full than as a delta of this group."""
        together = self.value_of(base_t) + value
        alone = value * (self.bytes_of(base_t) + delta_bytes)
        return value > self.value_of(base_t) and alone > together * full_bytes

    def cheapest(
        self, missing: int, gain: float, store: ByteMemoryStore, *, spare: int | None
    ) -> list[int] | None:
        """Return the groups with the least value per byte that free ``missing`` bytes and are below ``gain``.

        Returns None if there are none. ``spare`` is a group that must stay.
        """
        chosen: list[int] = []
        spared: list[int] = []
        lost = 0.0
        heap = self._heap
        while missing > 0 and heap:
            _, base_t, version = heap[0]
            if self._version.get(base_t) != version or base_t not in self._value:
                heappop(heap)
            elif base_t not in store:
                # Something else expired the base; the group is worth nothing without it.
                heappop(heap)
                self.remove(base_t)
            elif base_t == spare:
                heappop(heap)
                spared.append(base_t)
            else:
                lost += self._value[base_t]
                if lost >= gain:
                    break
                heappop(heap)
                chosen.append(base_t)
                missing -= self._bytes[base_t]
        for base_t in spared if missing <= 0 else spared + chosen:
            self._push(base_t)
        return chosen if missing <= 0 else None

    def _push(self, base_t: int) -> None:
        if len(self._heap) > 4 * len(self._value) + 64:
            # Entries that are out of date must not pile up in an endless stream.
            self._version = {base: self._version[base] for base in self._value if base in self._version}
            self._heap = [entry for entry in self._heap if self._version.get(entry[1]) == entry[2]]
            heapify(self._heap)
        version = self._version[base_t] = self._version.get(base_t, 0) + 1
        heappush(self._heap, (self._value[base_t] / self._bytes[base_t], base_t, version))


def _cheaper(store: ByteMemoryStore, item: MemoryItem) -> tuple[int, bool]:
    """Return what an item costs, and whether compressed: where the store offers it and it is shorter."""
    if not store.offers_compression:
        return item.byte_cost, False
    compressed = store.compressed_cost(item)
    return min(compressed, item.byte_cost), compressed < item.byte_cost


class _ValuePerByte(ABC):
    """Keeps the most value per byte, by a value that each subclass defines."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self) -> None:
        self._seen = LastSeen()
        self._groups = _Groups()
        self._adopted = False

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Merge or write what is new, expiring groups that are worth less."""
        if not self._adopted:
            self._adopt(store)
        value = self._value(step)
        self._seen.note(step)
        if value <= 0:
            return SKIP
        full_bytes, compress = _cheaper(store, store.priced(step))
        whole = write(step, compress=compress)
        delta = store.delta_for(step)
        group = delta.merge_parent_t if delta is not None else None
        if delta is None or group is None or not delta.step.observation:
            return self._store(whole, step.t, value, full_bytes, store)
        delta_bytes, compress = _cheaper(store, delta)
        if delta_bytes >= full_bytes:
            return self._store(whole, step.t, value, full_bytes, store)
        if not store.has_room(delta_bytes) and self._groups.better_alone(
            group, value, delta_bytes, full_bytes
        ):
            return self._store(whole, step.t, value, full_bytes, store, replaced=group)
        return self._store(merge(step, group, compress=compress), group, value, delta_bytes, store)

    def _store(
        self,
        action: MemoryAction,
        group: int,
        value: float,
        byte_cost: int,
        store: ByteMemoryStore,
        *,
        replaced: int | None = None,
    ) -> Iterable[MemoryAction]:
        """Return the action after the expiries that it needs; SKIP if those are worth more.

        ``replaced`` is a group that expires in any case, because the step takes its place.
        """
        expired: list[int] = []
        if replaced is not None or not store.has_room(byte_cost):
            missing, gain = byte_cost - store.budget.remaining(), value
            if replaced is not None:
                missing -= self._groups.bytes_of(replaced)
                gain -= self._groups.value_of(replaced)
            found = self._groups.cheapest(
                missing, gain, store, spare=action.target_t if replaced is None else replaced
            )
            if found is None:
                return SKIP
            expired = found if replaced is None else [replaced, *found]
        actions = [expire(t) for base_t in expired for t in (base_t, *store.deltas_of(base_t))]
        for base_t in expired:
            self._groups.remove(base_t)
        self._groups.add(group, value, byte_cost)
        return (*actions, action)

    def _adopt(self, store: ByteMemoryStore) -> None:
        """Take over what the store holds already, as if it had just been seen."""
        self._adopted = True
        for item in store.items():
            if item.merge_parent_t is None:
                self._groups.add(item.step.t, max(self._value(item.step), 1.0), item.byte_cost)
                self._seen.note(item.step)
            elif item.merge_parent_t in store:
                self._groups.add(item.merge_parent_t, 1.0, item.byte_cost)

    @abstractmethod
    def _value(self, step: Step) -> float: ...


class DriftValue(_ValuePerByte):
    """Keeps the steps in which most was removed, deprecated or rewritten, per byte."""

    def _value(self, step: Step) -> float:
        return drift_score(step.observation, self._seen.before(step)) ** 2


class RareDrift(_ValuePerByte):
    """Keeps what changed most, per byte, and more of it the rarer such a change is in this stream.

    The value of a step is score² * log(1 + N / (n + 1)): N counts the steps so far that changed something, n
    those with the same score before this one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changes = 0
        self._of_score: dict[float, int] = {}

    def _value(self, step: Step) -> float:
        score = drift_score(step.observation, self._seen.before(step))
        if score <= 0:
            return 0.0
        before = self._of_score.get(score, 0)
        self._changes += 1
        self._of_score[score] = before + 1
        return score**2 * log(1 + self._changes / (before + 1))


class MergeFirst(_ValuePerByte):
    """Keeps changes before first sights and first sights before repetitions, whatever they say.

    First sights that do not all fit are sampled: each has a random value, so that what is kept of them is a
    fair sample of the stream and not its beginning or its end.
    """

    def __init__(self, *, changed: float = 3.0, seed: int = 0) -> None:
        if changed < 1:
            raise InvalidValue(what="MergeFirst", problem="changed must be 1 or more")
        super().__init__()
        self.changed = changed
        self._random = seeded(seed)

    def _value(self, step: Step) -> float:
        drawn = self._random.random()
        match novelty(step, self._seen.before(step)):
            case Novelty.SAME:
                return 0.0
            case Novelty.CHANGED:
                return self.changed
            case Novelty.NEW:
                return drawn
