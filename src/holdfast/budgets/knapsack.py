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
    trail: list[tuple[int, int]] = [(-1, -1)]
    best, best_node = worth, 0
    right, left = edge, edge - 1
    states: list[_State] = [(used, -worth, 0)]
    if _hopeless(states[0], capacity, best, grain, things, left, right):
        states = []
    while states and (right < count or left >= 0):
        if right < count:
            _, size, value, _ = things[right]
            states, right = _grown(states, size, value, right, trail), right + 1
            best, best_node, states = _pruned(
                states, capacity, best, best_node, grain, things, left, right
            )
        if left >= 0 and states:
            _, size, value, _ = things[left]
            states, left = _grown(states, -size, -value, left, trail), left - 1
            best, best_node, states = _pruned(
                states, capacity, best, best_node, grain, things, left, right
            )
    flips = set()
    while best_node > 0:
        best_node, place = trail[best_node]
        flips.add(place)
    return best, flips


def _grown(
    states: list[_State], size: int, value: int, place: int, trail: list[tuple[int, int]]
) -> list[_State]:
    """Each state as it is and with one thing flipped; of those that others outdo, none."""
    node = len(trail)
    trail.extend((old, place) for _, _, old in states)
    both = states + [
        (used + size, lost - value, number) for number, (used, lost, _) in enumerate(states, node)
    ]
    both.sort()
    kept = []
    least = 1
    for state in both:
        if least == 1 or state[1] < least:
            kept.append(state)
            least = state[1]
    return kept


def _pruned(
    states: list[_State],
    capacity: int,
    best: int,
    best_node: int,
    grain: int,
    things: list[_Thing],
    left: int,
    right: int,
) -> tuple[int, int, list[_State]]:
    for used, lost, node in states:
        if used > capacity:
            break
        if -lost > best:
            best, best_node = -lost, node
    alive = [state for state in states if not _hopeless(state, capacity, best, grain, things, left, right)]
    return best, best_node, alive


def _hopeless(
    state: _State, capacity: int, best: int, grain: int, things: list[_Thing], left: int, right: int
) -> bool:
    """Whether nothing that is still open can bring this state past the best."""
    used, lost, _ = state
    if used <= capacity:
        bound = -lost
        if right < len(things):
            _, size, value, _ = things[right]
            bound += (capacity - used) * value // size
    elif left >= 0:
        _, size, value, _ = things[left]
        bound = -lost + (capacity - used) * value // size
    else:
        return True
    return bound - best < grain
