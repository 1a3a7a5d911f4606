"""Our own two policies, which see no hints and no labels: one reads what changed, the other only that something did.

Both do the cheapest thing that keeps a step (a delta on a base that is held, or the step whole), never keep a repetition, and
when full let the groups go that are worth least per byte, if they are worth less than the newcomer. A base stays while the
deltas that hang on it are worth it, so that no delta is orphaned. Why they win is told in ``docs/policies.md``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from standfast.clock import seeded
from standfast.errors import InvalidValue
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.features import LastSeen, Novelty, novelty
from standfast.policies.holdings import Holdings
from standfast.policies.protocol import SKIP, Track, expire, merge, write
from standfast.policies.salience import salience
from standfast.vocabulary import MemoryAction, Step


class _ValuePerByte(ABC):
    """Keeps what is worth most per byte, by a value that each policy has its own idea of."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self) -> None:
        self._seen = LastSeen()
        self._held = Holdings()
        self._adopted = False

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Merge or write what is new, making room from what is worth less."""
        if not self._adopted:
            self._adopt(store)
        value = self._value(step)
        self._seen.note(step)
        if value <= 0:
            return SKIP
        whole = store.cost_of(step)
        delta = store.delta_for(step)
        group = delta.merge_parent_t if delta is not None else None
        if delta is None or group is None or not delta.step.observation or delta.byte_cost >= whole:
            return self._kept(write(step), step.t, value, whole, store)
        if not store.has_room(delta.byte_cost) and self._held.outgrown(group, value, delta.byte_cost, whole):
            return self._kept(write(step), step.t, value, whole, store, instead_of=group)
        return self._kept(merge(step, group), group, value, delta.byte_cost, store)

    def _kept(
        self,
        action: MemoryAction,
        group: int,
        value: float,
        byte_cost: int,
        store: ByteMemoryStore,
        *,
        instead_of: int | None = None,
    ) -> Iterable[MemoryAction]:
        """The action, and before it whatever must go for it; nothing if that is worth more."""
        gone: list[int] = []
        if instead_of is not None or not store.has_room(byte_cost):
            missing, gain = byte_cost - store.budget.remaining(), value
            if instead_of is not None:
                missing -= self._held.bytes_of(instead_of)
                gain -= self._held.value_of(instead_of)
            found = self._held.cheapest(
                missing, gain, store, spare=action.target_t if instead_of is None else instead_of
            )
            if found is None:
                return SKIP
            gone = found if instead_of is None else [instead_of, *found]
        actions = [expire(t) for base_t in gone for t in (base_t, *store.deltas_of(base_t))]
        for base_t in gone:
            self._held.remove(base_t)
        self._held.add(group, value, byte_cost)
        return (*actions, action)

    def _adopt(self, store: ByteMemoryStore) -> None:
        """Take over what is held already, as if it had just been seen."""
        self._adopted = True
        for item in store.items():
            if item.merge_parent_t is None:
                self._held.add(item.step.t, max(self._value(item.step), 1.0), item.byte_cost)
                self._seen.note(item.step)
            elif item.merge_parent_t in store:
                self._held.add(item.merge_parent_t, 1.0, item.byte_cost)

    @abstractmethod
    def _value(self, step: Step) -> float: ...


class DriftValue(_ValuePerByte):
    """Keeps the steps in which most was taken away, deprecated or rewritten, per byte."""

    def _value(self, step: Step) -> float:
        return salience(step.observation, self._seen.before(step)) ** 2


class MergeFirst(_ValuePerByte):
    """Keeps changes before first sights and first sights before repetitions, whatever they say.

    First sights that do not all fit are a reservoir: each has a value drawn from its dice, so that what is kept of them is
    a fair sample of the stream and not its beginning or its end.
    """

    def __init__(self, *, changed: float = 3.0, seed: int = 0) -> None:
        if changed < 1:
            raise InvalidValue(what="MergeFirst", problem="changed must be 1 or more")
        super().__init__()
        self.changed = changed
        self._dice = seeded(seed)

    def _value(self, step: Step) -> float:
        drawn = self._dice.random()
        match novelty(step, self._seen.before(step)):
            case Novelty.SAME:
                return 0.0
            case Novelty.CHANGED:
                return self.changed
            case Novelty.NEW:
                return drawn
