"""The budgeted store: WRITE, MERGE, EXPIRE and SKIP under a byte budget, exactly as the document says.

What holds, whatever actions come: used bytes equal the sum of what is held, and never exceed the budget; a rejected action
changes nothing and costs nothing; every operation takes constant time, however much is held.
"""

from collections import OrderedDict
from collections.abc import Iterator, KeysView
from enum import StrEnum
from typing import Any

from standfast.policies.budget import ByteBudget
from standfast.policies.items import MemoryItem, Prices
from standfast.vocabulary import ActionType, MemoryAction, Step

# Looked up once: a member of an enum costs as much to look up as an item does to hold.
_SKIP, _WRITE, _MERGE, _EXPIRE = ActionType


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


class ByteMemoryStore:
    """What is held under a budget, in the order in which it was written."""

    def __init__(self, budget: ByteBudget, *, prices: Prices | None = None) -> None:
        self._budget = budget
        self.limit_felt = False
        """Whether any answer so far depended on the budget's size. While none did, a larger budget would change nothing."""
        self.prices = prices if prices is not None else Prices()
        self.held_bytes = 0
        self.rejection: Rejection | None = None
        self._base, self._known = self.prices.base, self.prices.known
        # What was asked about last: a policy asks about a step and then writes it, or about a delta and then merges it.
        self._asked: MemoryItem | None = None
        self._asked_delta: tuple[MemoryItem | None, Step | None, MemoryItem | None] = (None, None, None)
        # Ordered dicts, because the first key of a plain dict is found by walking over all that were deleted before it.
        self._items: OrderedDict[int, MemoryItem] = OrderedDict()
        self._deltas: dict[int, dict[int, None]] = {}
        # Which bases an endpoint has; made when it is first asked for, because most policies never ask.
        self._bases: dict[str, OrderedDict[int, MemoryItem]] | None = None

    def apply(self, action: MemoryAction, now: Step | None = None) -> bool:
        """Do it, or say no; ``rejection`` then tells why.

        ``now`` is the step that the policy was asked about. Only that step can be written or merged, so that nobody stores
        a cheaper one under its name, and only what is older than it can expire.
        """
        kind = action.action
        if kind is _WRITE:
            return self.write(action, now)
        if kind is _EXPIRE:
            return self.expire(action, now)
        if kind is _MERGE:
            return self.merge(action, now)
        assert kind is _SKIP, "there are four kinds of action"
        self.rejection = None
        return True

    @property
    def budget(self) -> ByteBudget:
        """What may be used. Whoever asks for it is taken to act on its size."""
        self.limit_felt = True
        return self._budget

    def priced(self, step: Step) -> MemoryItem:
        """What a WRITE of this step would hold; its ``writing`` is that WRITE, ready to be yielded."""
        item = self._asked
        if item is None or item.step is not step:
            item = self._known.get(step.t)
            if item is None or item.step is not step:
                item = self._base(step)
            self._asked = item
        return item

    def cost_of(self, step: Step) -> int:
        """What a WRITE of this step would cost."""
        return self.priced(step).byte_cost

    def fits(self, step: Step) -> bool:
        """Whether a WRITE of this step would fit now."""
        return self.has_room(self.priced(step).byte_cost)

    def offer(self, step: Step) -> tuple[MemoryAction, ...]:
        """The WRITE of this step, if it would fit now; otherwise nothing."""
        # ``priced`` and ``has_room`` written out: this is what most policies do at every step, and calls are half of it.
        item = self._asked
        if item is None or item.step is not step:
            item = self._known.get(step.t)
            if item is None or item.step is not step:
                item = self._base(step)
            self._asked = item
        budget = self._budget
        if item.byte_cost <= budget.max_bytes - budget.used_bytes:
            return item.writing
        self.limit_felt = True
        return ()

    def has_room(self, byte_cost: int) -> bool:
        """Whether that many bytes can still be used."""
        budget = self._budget
        if byte_cost <= budget.max_bytes - budget.used_bytes:
            return True
        self.limit_felt = True
        return False

    def delta_on(self, target_t: int, step: Step) -> MemoryItem | None:
        """What a MERGE of this step into that base would hold and cost; nothing if it can't be merged there.

        Its observation is the delta; an empty one would be refused, because nothing changes.
        """
        base = self._items.get(target_t)
        if base is None or base.merge_parent_t is not None or base.api is None:
            return None
        return self.prices.delta(base, step) if self.priced(step).api == base.api else None

    def item_at(self, t: int) -> MemoryItem | None:
        """What is held of a timestep."""
        return self._items.get(t)

    def oldest_item(self) -> MemoryItem | None:
        """What was written first among all that is still held."""
        return next(iter(self._items.values()), None)

    def newest_base(self, api: str) -> MemoryItem | None:
        """The base of an endpoint that was written last among those still held."""
        if self._bases is None:
            self._bases = {}
            for item in self._items.values():
                if item.merge_parent_t is None and item.api is not None:
                    self._bases.setdefault(item.api, OrderedDict())[item.step.t] = item
        bases = self._bases.get(api)
        return bases[next(reversed(bases))] if bases else None

    def delta_for(self, step: Step) -> MemoryItem | None:
        """What a MERGE of this step into the newest base of its endpoint would hold; nothing if there is no such base.

        Its ``merge_parent_t`` is the base; an empty observation would be refused, because nothing changes.
        """
        item = self.priced(step)
        base = self.newest_base(item.api) if item.api is not None else None
        if base is None:
            return None
        delta = self.prices.delta(base, step)
        self._asked_delta = (base, step, delta)
        return delta

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
        kept = set(items)
        for parent_t, deltas in self._deltas.items():
            parent = items.get(parent_t)
            for t in deltas:
                if parent is None or parent.merge_parent_t is not None or parent.api != items[t].api:
                    kept.discard(t)
        return kept

    def adopt_orphan(self, step: Step, parent_t: int, byte_cost: int) -> None:
        """Hold what was merged into a base that nobody knows any more: what it said is lost, what it costs is not."""
        fits = self._budget.consume(byte_cost)
        assert fits, "it was held together with its base"
        lost = Step(t=step.t, observation={}, metadata=step.metadata)
        item = MemoryItem(step=lost, written_at=step.t, byte_cost=byte_cost, merge_parent_t=parent_t)
        self._deltas.setdefault(parent_t, {})[step.t] = None
        self.held_bytes += byte_cost
        self._items[step.t] = item

    def fork(self) -> "ByteMemoryStore":
        """A store that holds the same under a budget of its own, and goes its own way from here."""
        twin = ByteMemoryStore(ByteBudget(self._budget.max_bytes), prices=self.prices)
        twin._budget.used_bytes = twin.held_bytes = self.held_bytes
        twin._items = self._items.copy()
        twin._deltas = {base_t: dict(deltas) for base_t, deltas in self._deltas.items()}
        twin.limit_felt = self.limit_felt
        return twin

    def clear(self) -> None:
        """Forget everything, and give its bytes back."""
        self._budget.credit(self.held_bytes)
        self.held_bytes = 0
        self._items.clear()
        self._deltas.clear()
        self._bases = None

    def write(self, action: MemoryAction, now: Step | None) -> bool:
        """Do a WRITE, as ``apply`` does."""
        step = action.step
        assert step is not None, "a WRITE without it can't be built"
        if step is not now and now is not None and step != now:
            return self._refuse(Rejection.NOT_THIS_STEP)
        t, items = step.t, self._items
        if t in items:
            return self._refuse(Rejection.ALREADY_HELD)
        # The price of the step that was shown, not of an equal one that was made to look like it.
        shown = step if now is None else now
        item = self._asked
        if item is None or item.step is not shown:
            item = self._known.get(shown.t)
            if item is None or item.step is not shown:
                item = self._base(shown)
            self._asked = item
        cost, budget = item.byte_cost, self._budget
        # As ``consume`` does it, without the call: nothing is done more often than this.
        used = budget.used_bytes + cost
        if used > budget.max_bytes:
            self.limit_felt = True
            return self._refuse(Rejection.OVER_BUDGET)
        budget.used_bytes = used
        if self._bases is not None and item.api is not None:
            bases = self._bases.get(item.api)
            if bases is None:
                bases = self._bases[item.api] = OrderedDict()
            bases[t] = item
        self.held_bytes += cost
        items[t] = item
        self.rejection = None
        return True

    def merge(self, action: MemoryAction, now: Step | None) -> bool:
        """Do a MERGE, as ``apply`` does."""
        step, target_t = action.step, action.target_t
        assert step is not None, "a MERGE without it can't be built"
        assert target_t is not None, "nor without this"
        if step is not now and now is not None and step != now:
            return self._refuse(Rejection.NOT_THIS_STEP)
        shown, t, items = now if now is not None else step, step.t, self._items
        base = items.get(target_t)
        if t in items:
            return self._refuse(Rejection.ALREADY_HELD)
        if base is None:
            return self._refuse(Rejection.NOT_HELD)
        if base.merge_parent_t is not None:
            return self._refuse(Rejection.NOT_A_BASE)
        asked_base, asked_step, item = self._asked_delta
        if asked_base is not base or asked_step is not shown or item is None:
            if base.api is None or self.priced(shown).api != base.api:
                return self._refuse(Rejection.OTHER_ENDPOINT)
            item = self.prices.delta(base, shown)
        if action.delta is not None and action.delta != item.step.observation:
            return self._refuse(Rejection.WRONG_DELTA)
        if not item.step.observation:
            return self._refuse(Rejection.NO_CHANGE)
        if not self._budget.consume(item.byte_cost):
            self.limit_felt = True
            return self._refuse(Rejection.OVER_BUDGET)
        self._deltas.setdefault(target_t, {})[t] = None
        self.held_bytes += item.byte_cost
        items[t] = item
        self.rejection = None
        return True

    def expire(self, action: MemoryAction, now: Step | None) -> bool:
        """Do an EXPIRE, as ``apply`` does."""
        target_t, items = action.target_t, self._items
        assert target_t is not None, "an EXPIRE without it can't be built"
        item = items.get(target_t)
        if item is None:
            return self._refuse(Rejection.NOT_HELD)
        if now is not None and target_t >= now.t:
            return self._refuse(Rejection.NOT_OLDER)
        del items[target_t]
        if item.merge_parent_t is not None:
            _drop(self._deltas, item.merge_parent_t, target_t)
        elif item.api is not None and self._bases is not None:
            _drop(self._bases, item.api, target_t)
        self.held_bytes -= item.byte_cost
        self._budget.credit(item.byte_cost)
        self.rejection = None
        return True

    def _refuse(self, why: Rejection) -> bool:
        self.rejection = why
        return False


def _drop(groups: dict[Any, Any], name: object, t: int) -> None:
    group = groups[name]
    del group[t]
    if not group:
        del groups[name]
