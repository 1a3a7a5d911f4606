"""Which things to keep when not all fit: the exact best choice under a byte budget (a 0/1 knapsack).

The algorithm is a dynamic programme over a growing core, with bounds (as in D. Pisinger's "minknap", 1997). Things are
ranked by value per byte, and taken from the top until one does not fit: the break. The best choice differs from that one
in a few things near the break, so states (bytes, value) grow from there, one thing to the right that may be added, then
one to the left that may be removed. A state is dropped only

- if another one has no more bytes and no less value: whatever completes the one completes the other as well, or
- if even the fractional relaxation of all that is still open, rounded down to a value that can occur, brings it no
  further than the best choice found so far.

Neither loses the optimum, all arithmetic is on whole numbers, and the search ends when no state is left or nothing is
open; so the answer is exact at every size. Ratios are compared as ``value · 2^64 // bytes``, which tells any two of them
apart while bytes stay below 2^31 (two different fractions differ by at least 1 / (bytes · bytes) > 2^-62).
"""

from collections.abc import Sequence
from math import gcd
from typing import Final

_SCALE_BITS: Final = 64
MAX_ITEM_BYTES: Final = 1 << 31

# (rank, bytes, value, index): the rank is the negative ratio, so that the best come first.
_Thing = tuple[int, int, int, int]
Ranking = list[_Thing]
# (bytes, -value, node): sorted so that among equal bytes the most valuable comes first.
_State = tuple[int, int, int]


def best_subset(sizes: Sequence[int], values: Sequence[int], capacity: int) -> tuple[int, list[int]]:
    """The greatest total value that fits, and the indexes of a choice that has it."""
    return best_of(ranked(sizes, values), capacity)


def ranked(sizes: Sequence[int], values: Sequence[int]) -> Ranking:
    """All that has a value, the most per byte first; the same for every capacity."""
    assert not sizes or 0 < min(sizes) <= max(sizes) < MAX_ITEM_BYTES, "all have headers, none two gigabytes"
    return sorted(
        (-((value << _SCALE_BITS) // size), size, value, index)
        for index, (size, value) in enumerate(zip(sizes, values, strict=True))
        if value > 0
    )


def best_of(ranking: Ranking, capacity: int) -> tuple[int, list[int]]:
    """The same as ``best_subset``, of things that are ranked already."""
    things = [thing for thing in ranking if thing[1] <= capacity]
    grain = gcd(*(value for _, _, value, _ in things)) or 1
    best, chosen = _Core(things, capacity, grain).searched()
    return best, sorted(things[place][3] for place in chosen)


class _Core:
    """The search around the break, which grows to the left and to the right until nothing better can be there."""

    def __init__(self, things: list[_Thing], capacity: int, grain: int) -> None:
        self.things = things
        self.capacity = capacity
        self.grain = grain
        self.edge = self.used = self.worth = 0
        while self.edge < len(things) and self.used + things[self.edge][1] <= capacity:
            self.used += things[self.edge][1]
            self.worth += things[self.edge][2]
            self.edge += 1
        self.right, self.left = self.edge, self.edge - 1
        # How each state was made: from which one, and by flipping which place.
        self.trail: list[tuple[int, int]] = [(-1, -1)]

    def searched(self) -> tuple[int, set[int]]:
        """The best total, and the places of the ranking that make it."""
        best, flips = self._filled()
        best_node = -1
        states = self._promising([(self.used, -self.worth, 0)], best + self.grain)
        while states and (self.right < len(self.things) or self.left >= 0):
            for to_the_right in (True, False):
                states = self._grown(states, to_the_right=to_the_right)
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

    def _filled(self) -> tuple[int, set[int]]:
        """A first good choice: the break's own, and after it whatever still fits, best ratios first."""
        used, worth, flips = self.used, self.worth, set()
        for place in range(self.edge, len(self.things)):
            _, size, value, _ = self.things[place]
            if used + size <= self.capacity:
                used, worth = used + size, worth + value
                flips.add(place)
        return worth, flips

    def _grown(self, states: list[_State], *, to_the_right: bool) -> list[_State]:
        """Each state as it is and with the next thing flipped; of those that others outdo, none."""
        if to_the_right:
            place, self.right = self.right, self.right + 1
            if place >= len(self.things):
                return states
            _, size, value, _ = self.things[place]
        else:
            place, self.left = self.left, self.left - 1
            if place < 0:
                return states
            _, size, value, _ = self.things[place]
            size, value = -size, -value
        node = len(self.trail)
        self.trail.extend([(old, place) for _, _, old in states])
        both = states + [
            (used + size, lost - value, number) for number, (used, lost, _) in enumerate(states, node)
        ]
        both.sort()
        kept = both[:1]
        least = both[0][1] if both else 0
        for state in both:
            if state[1] < least:
                kept.append(state)
                least = state[1]
        return kept

    def _promising(self, states: list[_State], wanted: int) -> list[_State]:
        """The states that what is still open may bring to the wanted total.

        At best by adding the highest ratio that is left to add, or by giving up the lowest that is left to remove.
        """
        capacity = self.capacity
        add_size, add_value = self.things[self.right][1:3] if self.right < len(self.things) else (1, 0)
        if self.left < 0:
            return [
                state
                for state in states
                if state[0] <= capacity and (capacity - state[0]) * add_value // add_size - state[1] >= wanted
            ]
        cut_size, cut_value = self.things[self.left][1:3]
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
