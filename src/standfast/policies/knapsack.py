"""The optimal choice of items under a byte budget: an exact solver for the 0/1 knapsack problem.

The algorithm is dynamic programming over a growing core with bounds (as in D. Pisinger's "minknap", 1997).
Items are ranked by value per byte and taken from the top until one does not fit: the break item. The optimum
differs from that choice in a few items near the break, so states (bytes, value) grow from there: one item to
the right that may be added, then one to the left that may be removed. A state is dropped only

- if another state has no more bytes and no less value: whatever completes the first also completes the
  second, or
- if the fractional relaxation of all remaining items, rounded down to a value that can occur, does not bring
  it beyond the best choice found so far.

Neither loses the optimum, all arithmetic is on integers, and the search ends when no state or no item is
left, so the result is exact at every size. Ratios are compared as ``value · 2^64 // bytes``, which
distinguishes any two of them while bytes stay below 2^31 (two different fractions differ by at least 1 /
(bytes · bytes) > 2^-62).
"""

from collections.abc import Sequence
from math import gcd
from typing import Final

_SCALE_BITS: Final = 64
MAX_ITEM_BYTES: Final = 1 << 31

# (rank, bytes, value, index). The rank is the negative ratio, so that the best come first.
_RankedItem = tuple[int, int, int, int]
# (bytes, -value, node). Sorted, so that among equal bytes the most valuable comes first.
_State = tuple[int, int, int]


def best_subset(sizes: Sequence[int], values: Sequence[int], capacity: int) -> tuple[int, list[int]]:
    """Return the greatest total value that fits, and the indexes of a choice that has it."""
    assert not sizes or 0 < min(sizes) <= max(sizes) < MAX_ITEM_BYTES, (
        "items have a header and less than 2 GB"
    )
    items = sorted(
        (-((value << _SCALE_BITS) // size), size, value, index)
        for index, (size, value) in enumerate(zip(sizes, values, strict=True))
        if value > 0 and size <= capacity
    )
    grain = gcd(*(value for _, _, value, _ in items)) or 1
    best, chosen = _Core(items, capacity, grain).search()
    return best, sorted(items[place][3] for place in chosen)


class _Core:
    """The search around the break; it grows to both sides until nothing better is possible."""

    def __init__(self, items: list[_RankedItem], capacity: int, grain: int) -> None:
        self.items = items
        self.capacity = capacity
        self.grain = grain
        self.edge = self.used = self.worth = 0
        while self.edge < len(items) and self.used + items[self.edge][1] <= capacity:
            self.used += items[self.edge][1]
            self.worth += items[self.edge][2]
            self.edge += 1
        self.right, self.left = self.edge, self.edge - 1
        # How each state was made: from which state, and by flipping which item.
        self.trail: list[tuple[int, int]] = [(-1, -1)]

    def search(self) -> tuple[int, set[int]]:
        """Return the best total, and the places in the ranking that make it."""
        best, flips = self._greedy()
        best_node = -1
        states = self._promising([(self.used, -self.worth, 0)], best + self.grain)
        while states and (self.right < len(self.items) or self.left >= 0):
            for to_the_right in (True, False):
                states = self._grow(states, to_the_right=to_the_right)
                for used, lost, node in states:
                    if used > self.capacity:
                        break
                    if -lost > best:
                        best, best_node = -lost, node
                states = self._promising(states, best + self.grain)
        if best_node >= 0:
            flips = set()
            while best_node > 0:
                best_node, place = self.trail[best_node]
                flips.add(place)
        return best, set(range(self.edge)) ^ flips

    def _greedy(self) -> tuple[int, set[int]]:
        """Return a first good choice: the items before the break, then what still fits, best ratios first."""
        used, worth, flips = self.used, self.worth, set()
        for place in range(self.edge, len(self.items)):
            _, size, value, _ = self.items[place]
            if used + size <= self.capacity:
                used, worth = used + size, worth + value
                flips.add(place)
        return worth, flips

    def _grow(self, states: list[_State], *, to_the_right: bool) -> list[_State]:
        """Return each state with and without the next item flipped, less those that another one dominates."""
        if to_the_right:
            place, self.right = self.right, self.right + 1
            if place >= len(self.items):
                return states
            _, size, value, _ = self.items[place]
        else:
            place, self.left = self.left, self.left - 1
            if place < 0:
                return states
            _, size, value, _ = self.items[place]
            size, value = -size, -value
        node = len(self.trail)
        self.trail.extend([(old, place) for _, _, old in states])
        candidates = states + [
            (used + size, lost - value, number) for number, (used, lost, _) in enumerate(states, node)
        ]
        candidates.sort()
        grown = candidates[:1]
        for state in candidates:
            if state[1] < grown[-1][1]:
                grown.append(state)
        return grown

    def _promising(self, states: list[_State], wanted: int) -> list[_State]:
        """Return the states that the remaining items may bring to the wanted total.

        The bound adds the highest ratio that is left to add, or removes the lowest that is left to remove.
        """
        capacity = self.capacity
        add_size, add_value = self.items[self.right][1:3] if self.right < len(self.items) else (1, 0)
        if self.left < 0:
            return [
                state
                for state in states
                if state[0] <= capacity and (capacity - state[0]) * add_value // add_size - state[1] >= wanted
            ]
        cut_size, cut_value = self.items[self.left][1:3]
        return [
            state
            for state in states
            if (
                (capacity - state[0]) * add_value // add_size
                if state[0] <= capacity
                else (capacity - state[0]) * cut_value // cut_size
            )
            - state[1]
            >= wanted
        ]
