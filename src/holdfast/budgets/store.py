"""The budgeted store: WRITE, MERGE, EXPIRE and SKIP under a byte budget, exactly as the document says.

What holds, whatever actions come: used bytes equal the sum of what is held, and never exceed the budget; a rejected action
changes nothing and costs nothing; every operation takes constant time, however much is held.
"""

from collections import OrderedDict
from collections.abc import Iterator, KeysView
from enum import StrEnum
from typing import Any, Final, TypeVar, assert_never

import msgspec

from holdfast.budgets.budget import ByteBudget
from holdfast.budgets.bytes import Delta, Prices, endpoint_of
from holdfast.vocabulary import ActionType, MemoryAction, Step

PARENT: Final = "merge_parent_t"
_T = TypeVar("_T")


class Rejection(StrEnum):
    """Why the store refused an action."""

    OVER_BUDGET = "over_budget"
    ALREADY_HELD = "already_held"
    NOT_HELD = "not_held"
    NOT_OLDER = "not_older"
    NOT_A_BASE = "not_a_base"
    OTHER_ENDPOINT = "other_endpoint"
    NO_CHANGE = "no_change"
    WRONG_DELTA = "wrong_delta"
    NOT_THIS_STEP = "not_this_step"


class MemoryItem(msgspec.Struct, frozen=True, kw_only=True):
    """One held thing: a base that a WRITE stored whole, or a delta that a MERGE hung on a base."""

    step: Step
    written_at: int
    byte_cost: int
    metadata: dict[str, Any] = {}
    api: str | None = None
    merge_parent_t: int | None = None


class ByteMemoryStore:
    """What is held under a budget, in the order in which it was written."""

    def __init__(self, budget: ByteBudget, *, prices: Prices | None = None) -> None:
        self.budget = budget
        self.prices = prices if prices is not None else Prices()
        self.held_bytes = 0
        self.rejection: Rejection | None = None
        # Ordered dicts, because the first key of a plain dict is found by walking over all that were deleted before it.
        self._items: OrderedDict[int, MemoryItem] = OrderedDict()
        self._bases: dict[str, OrderedDict[int, None]] = {}
        self._deltas: dict[int, dict[int, None]] = {}

    def apply(self, action: MemoryAction, *, now: Step | None = None) -> bool:
        """Do it, or say no; ``rejection`` then tells why.

        ``now`` is the step that the policy was asked about. Only that step can be written or merged, so that nobody stores
        a cheaper one under its name, and only what is older than it can expire.
        """
        kind = action.action
        if kind is ActionType.SKIP:
            why = None
        elif kind is ActionType.WRITE:
            why = self._write(_given(action.step), now)
        elif kind is ActionType.EXPIRE:
            why = self._expire(_given(action.target_t), now)
        elif kind is ActionType.MERGE:
            why = self._merge(action, _given(action.step), now)
        else:
            assert_never(kind)
        self.rejection = why
        return why is None

    def cost_of(self, step: Step) -> int:
        """What a WRITE of this step would cost."""
        return self.prices.of(step)

    def delta_on(self, target_t: int, step: Step) -> Delta | None:
        """What a MERGE of this step into that base would store and cost; nothing if it can't be merged there."""
        base = self._items.get(target_t)
        if base is None or base.merge_parent_t is not None or base.api is None:
            return None
        return self.prices.delta(base.step, step) if endpoint_of(step.observation) == base.api else None

    def item_at(self, t: int) -> MemoryItem | None:
        """What is held of a timestep."""
        return self._items.get(t)

    def oldest_item(self) -> MemoryItem | None:
        """What was written first among all that is still held."""
        return next(iter(self._items.values()), None)

    def newest_base(self, api: str) -> MemoryItem | None:
        """The base of an endpoint that was written last among those still held."""
        bases = self._bases.get(api)
        return self._items[next(reversed(bases))] if bases else None

    def deltas_of(self, t: int) -> KeysView[int]:
        """The timesteps of the deltas that hang on a base, in order; they stay when the base goes, as orphans."""
        return self._deltas.get(t, {}).keys()

    def items(self) -> Iterator[MemoryItem]:
        """All that is held, in the order of writing."""
        return iter(self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, t: object) -> bool:
        return t in self._items

    def retained(self) -> set[int]:
        """The timesteps that memory can still tell of: every base, and every delta whose base is still there."""
        items = self._items
        kept = set()
        for t, item in items.items():
            parent = items.get(item.merge_parent_t) if item.merge_parent_t is not None else None
            if item.merge_parent_t is None or (
                parent is not None and parent.merge_parent_t is None and parent.api == item.api
            ):
                kept.add(t)
        return kept

    def clear(self) -> None:
        """Forget everything, and give its bytes back."""
        self.budget.credit(self.held_bytes)
        self.held_bytes = 0
        self._items.clear()
        self._bases.clear()
        self._deltas.clear()

    def _write(self, step: Step, now: Step | None) -> Rejection | None:
        if now is not None and step is not now and step != now:
            return Rejection.NOT_THIS_STEP
        if step.t in self._items:
            return Rejection.ALREADY_HELD
        # The price of the step that was shown, not of an equal one that was made to look like it.
        cost = self.prices.of(now if now is not None else step)
        if not self.budget.consume(cost):
            return Rejection.OVER_BUDGET
        api = endpoint_of(step.observation)
        if api is not None:
            self._bases.setdefault(api, OrderedDict())[step.t] = None
        self._hold(MemoryItem(step=step, written_at=step.t, byte_cost=cost, api=api))
        return None

    def _merge(self, action: MemoryAction, step: Step, now: Step | None) -> Rejection | None:
        if now is not None and step is not now and step != now:
            return Rejection.NOT_THIS_STEP
        if step.t in self._items:
            return Rejection.ALREADY_HELD
        target_t = _given(action.target_t)
        base = self._items.get(target_t)
        if base is None:
            return Rejection.NOT_HELD
        if base.merge_parent_t is not None:
            return Rejection.NOT_A_BASE
        if base.api is None or endpoint_of(step.observation) != base.api:
            return Rejection.OTHER_ENDPOINT
        delta = self.prices.delta(base.step, now if now is not None else step)
        if action.delta is not None and action.delta is not delta.patch and action.delta != delta.patch:
            return Rejection.WRONG_DELTA
        if not delta.patch:
            return Rejection.NO_CHANGE
        if not self.budget.consume(delta.byte_cost):
            return Rejection.OVER_BUDGET
        stored = Step(t=step.t, observation=delta.patch, metadata={PARENT: target_t})
        self._deltas.setdefault(target_t, {})[step.t] = None
        self._hold(
            MemoryItem(
                step=stored,
                written_at=step.t,
                byte_cost=delta.byte_cost,
                metadata=stored.metadata,
                api=base.api,
                merge_parent_t=target_t,
            )
        )
        return None

    def _expire(self, target_t: int, now: Step | None) -> Rejection | None:
        item = self._items.get(target_t)
        if item is None:
            return Rejection.NOT_HELD
        if now is not None and target_t >= now.t:
            return Rejection.NOT_OLDER
        del self._items[target_t]
        if item.merge_parent_t is not None:
            _drop(self._deltas, item.merge_parent_t, target_t)
        elif item.api is not None:
            _drop(self._bases, item.api, target_t)
        self.held_bytes -= item.byte_cost
        self.budget.credit(item.byte_cost)
        return None

    def _hold(self, item: MemoryItem) -> None:
        self._items[item.step.t] = item
        self.held_bytes += item.byte_cost


def _drop(groups: dict[Any, Any], name: object, t: int) -> None:
    group = groups[name]
    del group[t]
    if not group:
        del groups[name]


def _given(value: _T | None) -> _T:
    assert value is not None, "a MemoryAction that lacks it can't be built"
    return value
