"""The budgeted store: WRITE, MERGE, EXPIRE and SKIP under a byte budget, as the document defines them.

Invariants: the used bytes are the sum of the items' costs and never exceed the budget; a rejected action
changes nothing and costs nothing; every operation takes constant time, however many items are stored.
"""

from collections import OrderedDict
from collections.abc import Iterator, KeysView
from enum import StrEnum
from typing import Any

from standfast.errors import InvalidValue
from standfast.limits import MAX_BUDGET_BYTES
from standfast.policies.byte_model import Compression, MemoryItem, PriceList
from standfast.records.vocabulary import ActionType, MemoryAction, Step

# Looking a member of an enum up costs as much as storing an item.
_WRITE, _MERGE, _EXPIRE = ActionType.WRITE, ActionType.MERGE, ActionType.EXPIRE


class ByteBudget:
    """A number of bytes to spend. Several stores may share one."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        if not (type(max_bytes) is int and 0 < max_bytes <= MAX_BUDGET_BYTES):
            problem = f"max_bytes must be a whole number from 1 to {MAX_BUDGET_BYTES}, not {max_bytes!r:.40}"
            raise InvalidValue(what="ByteBudget", problem=problem)
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def __repr__(self) -> str:
        return f"ByteBudget({self.used_bytes} of {self.max_bytes} bytes used)"

    def remaining(self) -> int:
        """Return how many bytes are left."""
        return self.max_bytes - self.used_bytes

    def consume(self, byte_cost: int) -> bool:
        """Use that many bytes. Return False, and change nothing, if they are not left."""
        assert byte_cost >= 0, "a negative cost is a credit"
        if byte_cost > self.max_bytes - self.used_bytes:
            return False
        self.used_bytes += byte_cost
        return True

    def credit(self, byte_cost: int) -> None:
        """Give used bytes back."""
        assert 0 <= byte_cost <= self.used_bytes, "only used bytes can be given back"
        self.used_bytes -= byte_cost


class Rejection(StrEnum):
    """Why the store rejected an action."""

    OVER_BUDGET = "over_budget"
    ALREADY_HELD = "already_held"
    NOT_HELD = "not_held"
    NOT_OLDER = "not_older"
    NOT_A_BASE = "not_a_base"
    OTHER_ENDPOINT = "other_endpoint"
    NO_CHANGE = "no_change"
    WRONG_DELTA = "wrong_delta"
    NOT_THIS_STEP = "not_this_step"
    NOT_OFFERED = "not_offered"


class ByteMemoryStore:
    """Items under a byte budget, in the order in which they were written."""

    def __init__(self, budget: ByteBudget, *, prices: PriceList | None = None) -> None:
        self._budget = budget
        self.prices = prices if prices is not None else PriceList()
        self.held_bytes = 0
        self.rejection: Rejection | None = None
        """Why the last action was rejected; None if it was accepted."""
        self.limit_felt = False
        """Whether any answer so far depended on the budget's size.

        If not, a larger budget gives the same run.
        """
        # Ordered dicts: finding the first key of a plain dict walks over every key that was deleted before
        # it.
        self._items: OrderedDict[int, MemoryItem] = OrderedDict()
        self._deltas: dict[int, dict[int, None]] = {}
        # The bases of each endpoint; built when first needed, because most policies never merge.
        self._bases: dict[str, OrderedDict[int, MemoryItem]] | None = None

    @property
    def budget(self) -> ByteBudget:
        """The budget. A caller that reads it is assumed to act on its size."""
        self.limit_felt = True
        return self._budget

    def apply(self, action: MemoryAction, now: Step | None = None) -> bool:
        """Apply an action. Return whether it was accepted; if not, ``rejection`` says why.

        Args:
            action: What to do.
            now: The step that the policy decides about. Only this step can be written or merged, so that no
                policy stores a cheaper step under its timestep, and only older items can expire. Without it,
                any step can.
        """
        kind = action.action
        rejection = None
        if kind is _WRITE:
            rejection = self._write(action, now)
        elif kind is _EXPIRE:
            rejection = self._expire(action, now)
        elif kind is _MERGE:
            rejection = self._merge(action, now)
        self.rejection = rejection
        return rejection is None

    def priced(self, step: Step) -> MemoryItem:
        """Return the item that a WRITE of this step would store."""
        return self.prices.base(step)

    @property
    def offers_compression(self) -> bool:
        """Whether an action may ask to be stored compressed."""
        return self.prices.compression is Compression.OFFERED

    def cost_of(self, step: Step) -> int:
        """Return the cost of a WRITE of this step."""
        return self.prices.base(step).byte_cost

    def compressed_cost(self, item: MemoryItem) -> int:
        """Return what an item of ``priced`` or ``delta_for`` costs if it is stored compressed."""
        return self.prices.compressed(item).byte_cost

    def has_room(self, byte_cost: int) -> bool:
        """Return whether that many bytes are left."""
        budget = self._budget
        if byte_cost <= budget.max_bytes - budget.used_bytes:
            return True
        self.limit_felt = True
        return False

    def fits(self, step: Step) -> bool:
        """Return whether a WRITE of this step would fit now."""
        return self.has_room(self.cost_of(step))

    def offer(self, step: Step) -> tuple[MemoryAction, ...]:
        """Return the WRITE of this step if it would fit now, otherwise nothing."""
        item = self.prices.base(step)
        return item.write_actions if self.has_room(item.byte_cost) else ()

    def item_at(self, t: int) -> MemoryItem | None:
        """Return the item of a timestep."""
        return self._items.get(t)

    def oldest_item(self) -> MemoryItem | None:
        """Return the item that was written first."""
        return next(iter(self._items.values()), None)

    def newest_base(self, api: str) -> MemoryItem | None:
        """Return the base of an endpoint that was written last."""
        if self._bases is None:
            self._bases = {}
            for item in self._items.values():
                if item.merge_parent_t is None and item.api is not None:
                    self._bases.setdefault(item.api, OrderedDict())[item.step.t] = item
        bases = self._bases.get(api)
        return bases[next(reversed(bases))] if bases else None

    def delta_for(self, step: Step) -> MemoryItem | None:
        """Return the item that a MERGE of this step into the newest base of its endpoint would store.

        Returns None if there is no such base. ``merge_parent_t`` is the base's timestep. An empty observation
        means that nothing changes, so the MERGE would be rejected.
        """
        api = self.prices.base(step).api
        base = self.newest_base(api) if api is not None else None
        return self.prices.delta(base, step) if base is not None else None

    def deltas_of(self, t: int) -> KeysView[int]:
        """Return the timesteps of a base's deltas, in order. They stay, as orphans, if the base expires."""
        return self._deltas.get(t, {}).keys()

    def items(self) -> Iterator[MemoryItem]:
        """Iterate over all items in the order in which they were written."""
        return iter(self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, t: object) -> bool:
        return t in self._items

    def retained(self) -> set[int]:
        """Return the retained timesteps: every base, and every delta whose base is still stored."""
        items = self._items
        retained = set(items)
        for parent_t, deltas in self._deltas.items():
            parent = items.get(parent_t)
            for t in deltas:
                if parent is None or parent.merge_parent_t is not None or parent.api != items[t].api:
                    retained.discard(t)
        return retained

    def add_orphan(self, step: Step, parent_t: int, byte_cost: int) -> None:
        """Store a delta whose base is unknown. Its content is lost; its cost still counts."""
        fits = self._budget.consume(byte_cost)
        assert fits, "it fitted together with its base"
        lost = Step(t=step.t, observation={}, metadata=step.metadata)
        item = MemoryItem(step=lost, written_at=step.t, byte_cost=byte_cost, merge_parent_t=parent_t)
        self._deltas.setdefault(parent_t, {})[step.t] = None
        self.held_bytes += byte_cost
        self._items[step.t] = item

    def fork(self) -> "ByteMemoryStore":
        """Return an independent copy with the same items and a budget of its own."""
        fork = ByteMemoryStore(ByteBudget(self._budget.max_bytes), prices=self.prices)
        fork._budget.used_bytes = fork.held_bytes = self.held_bytes
        fork._items = self._items.copy()
        fork._deltas = {base_t: dict(deltas) for base_t, deltas in self._deltas.items()}
        fork.limit_felt = self.limit_felt
        return fork

    def _write(self, action: MemoryAction, now: Step | None) -> Rejection | None:
        step = action.step
        assert step is not None, "a WRITE has a step"
        if step is not now and now is not None and step != now:
            return Rejection.NOT_THIS_STEP
        if step.t in self._items:
            return Rejection.ALREADY_HELD
        # Priced by the object that the policy was shown, not by an equal one that it made.
        item = self.prices.base(step if now is None else now)
        if action.compress:
            if not self.offers_compression:
                return Rejection.NOT_OFFERED
            item = self.prices.compressed(item)
        if not self._budget.consume(item.byte_cost):
            self.limit_felt = True
            return Rejection.OVER_BUDGET
        if self._bases is not None and item.api is not None:
            self._bases.setdefault(item.api, OrderedDict())[step.t] = item
        self.held_bytes += item.byte_cost
        self._items[step.t] = item
        return None

    def _merge(self, action: MemoryAction, now: Step | None) -> Rejection | None:
        step, target_t = action.step, action.target_t
        assert step is not None, "a MERGE has a step"
        assert target_t is not None, "a MERGE has a target"
        if step is not now and now is not None and step != now:
            return Rejection.NOT_THIS_STEP
        shown = step if now is None else now
        base = self._items.get(target_t)
        if step.t in self._items:
            return Rejection.ALREADY_HELD
        if base is None:
            return Rejection.NOT_HELD
        if base.merge_parent_t is not None:
            return Rejection.NOT_A_BASE
        if base.api is None or self.prices.base(shown).api != base.api:
            return Rejection.OTHER_ENDPOINT
        item = self.prices.delta(base, shown)
        if action.delta is not None and action.delta != item.step.observation:
            return Rejection.WRONG_DELTA
        if not item.step.observation:
            return Rejection.NO_CHANGE
        if action.compress:
            if not self.offers_compression:
                return Rejection.NOT_OFFERED
            item = self.prices.compressed(item)
        if not self._budget.consume(item.byte_cost):
            self.limit_felt = True
            return Rejection.OVER_BUDGET
        self._deltas.setdefault(target_t, {})[step.t] = None
        self.held_bytes += item.byte_cost
        self._items[step.t] = item
        return None

    def _expire(self, action: MemoryAction, now: Step | None) -> Rejection | None:
        target_t = action.target_t
        assert target_t is not None, "an EXPIRE has a target"
        item = self._items.get(target_t)
        if item is None:
            return Rejection.NOT_HELD
        if now is not None and target_t >= now.t:
            return Rejection.NOT_OLDER
        del self._items[target_t]
        if item.merge_parent_t is not None:
            _remove(self._deltas, item.merge_parent_t, target_t)
        elif item.api is not None and self._bases is not None:
            _remove(self._bases, item.api, target_t)
        self.held_bytes -= item.byte_cost
        self._budget.credit(item.byte_cost)
        return None


def _remove(groups: dict[Any, Any], name: object, t: int) -> None:
    group = groups[name]
    del group[t]
    if not group:
        del groups[name]
