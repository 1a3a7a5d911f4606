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
# (bytes, -value, node): sorted so that among equal bytes the most valuable comes first.
_State = tuple[int, int, int]


def best_subset(sizes: Sequence[int], values: Sequence[int], capacity: int) -> tuple[int, list[int]]:
    """The greatest total value that fits, and the indexes of a choice that has it."""
    things = [
        _thing(size, value, index)
        for index, (size, value) in enumerate(zip(sizes, values, strict=True))
        if value > 0 and size <= capacity
    ]
    things.sort()
    grain = gcd(*(value for _, _, value, _ in things)) or 1
    edge, used, worth = 0, 0, 0
    while edge < len(things) and used + things[edge][1] <= capacity:
        used, worth, edge = used + things[edge][1], worth + things[edge][2], edge + 1
    best, flips = _search(things, edge, used, worth, capacity, grain)
    chosen = set(range(edge)) ^ flips
    return best, sorted(things[place][3] for place in chosen)


def _thing(size: int, value: int, index: int) -> _Thing:
    assert 0 < size < MAX_ITEM_BYTES, "every item has a header, and none is two gigabytes"
    return (-((value << _SCALE_BITS) // size), size, value, index)


def _search(
    things: list[_Thing], edge: int, used: int, worth: int, capacity: int, grain: int
) -> tuple[int, set[int]]:
    """The best total, and which places of the ranking to flip in the break's own choice to reach it."""
    count = len(things)
    best, flips = _filled(things, edge, used, worth, capacity)
    trail: list[tuple[int, int]] = [(-1, -1)]
    best_node = -1
    right, left = edge, edge - 1
    states = _promising([(used, -worth, 0)], capacity, best + grain, things, left, right)
    while states and (right < count or left >= 0):
        for place, sign in ((right, 1), (left, -1)):
            if not (states and 0 <= place < count):
                continue
            _, size, value, _ = things[place]
            states = _grown(states, sign * size, sign * value, place, trail)
            if sign > 0:
                right += 1
            else:
                left -= 1
            for state_used, lost, node in states:
                if state_used > capacity:
                    break
                if -lost > best:
                    best, best_node = -lost, node
            states = _promising(states, capacity, best + grain, things, left, right)
    if best_node >= 0:
        flips = set()
        while best_node > 0:
            best_node, place = trail[best_node]
            flips.add(place)
    return best, flips


def _filled(things: list[_Thing], edge: int, used: int, worth: int, capacity: int) -> tuple[int, set[int]]:
    """A first good choice: the break's own, and after it whatever still fits, best ratios first."""
    flips = set()
    for place in range(edge, len(things)):
        _, size, value, _ = things[place]
        if used + size <= capacity:
            used, worth = used + size, worth + value
            flips.add(place)
    return worth, flips


def _grown(
    states: list[_State], size: int, value: int, place: int, trail: list[tuple[int, int]]
) -> list[_State]:
    """Each state as it is and with one thing flipped; of those that others outdo, none."""
    node = len(trail)
    trail.extend([(old, place) for _, _, old in states])
    both = states + [
        (used + size, lost - value, number) for number, (used, lost, _) in enumerate(states, node)
    ]
    both.sort()
    kept = both[:1]
    least = both[0][1]
    for state in both:
        if state[1] < least:
            kept.append(state)
            least = state[1]
    return kept


def _promising(
    states: list[_State], capacity: int, wanted: int, things: list[_Thing], left: int, right: int
) -> list[_State]:
    """The states that what is still open may bring to the wanted total: by adding the best ratio that is left to add, or
    by giving up the worst that is left to remove."""
    add_size, add_value = things[right][1:3] if right < len(things) else (1, 0)
    if left < 0:
        return [
            state
            for state in states
            if state[0] <= capacity and (capacity - state[0]) * add_value // add_size - state[1] >= wanted
        ]
    cut_size, cut_value = things[left][1:3]
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
