"""The most that a WRITE-only run could have retained, exactly: for a whole episode, and after each of its steps.

At the end of an episode the core search of ``budgets.knapsack`` gives the optimum and a choice that has it. For the curve
over time, the classic dynamic programme is run once, step by step, in whichever dimension is smaller:

- by value: the fewest bytes with which each total value can be had; the optimum of a prefix is the greatest value whose
  bytes fit. No prefix is worth more than the whole, so the table ends at the optimum of the whole.
- by bytes: the greatest value that each number of bytes can hold.

Both consider every subset, on whole numbers, so both are exact. With the few classes of utility that real labels have, the
table by value is small: 10,000 steps at 1 MB take less than a second.
"""

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any, Final

from standfast.errors import MissingExtra
from standfast.policies.knapsack import Ranking, best_of, best_subset

_INT64_ROOM: Final = 1 << 62


def oracle_worth(
    sizes: Sequence[int],
    values: Sequence[int],
    max_bytes: int,
    ranking: Callable[[], Ranking] | None = None,
) -> int:
    """The greatest worth of any set of steps whose WRITEs fit the budget.

    Whoever asks about several budgets keeps the steps' ``ranking``, which is the same for all of them.
    """
    if sum(sizes) <= max_bytes:
        return sum(value for value in values if value > 0)
    best, _ = best_subset(sizes, values, max_bytes) if ranking is None else best_of(ranking(), max_bytes)
    return best


def oracle_curve(sizes: Sequence[int], values: Sequence[int], max_bytes: int) -> list[int]:
    """The same for every prefix of the stream: one number a step."""
    grain = gcd(*values) or 1
    values = [value // grain for value in values]
    most = sum(value for value in values if value > 0)
    if sum(sizes) > max_bytes:
        most = best_subset(sizes, values, max_bytes)[0]
    curve = _by_value if most <= max_bytes else _by_bytes
    return [best * grain for best in curve(sizes, values, max_bytes, most)]


def _by_value(sizes: Sequence[int], values: Sequence[int], max_bytes: int, most: int) -> list[int]:
    np = _numpy()
    fewest = np.full(most + 1, _INT64_ROOM, dtype=np.int64)
    fewest[0] = 0
    curve, best, reach = [], 0, 0
    for size, value in zip(sizes, values, strict=True):
        if value > 0 and size <= max_bytes:
            # Only totals that the steps so far can add up to need a look.
            reach = min(reach + value, most)
            np.minimum(
                fewest[value : reach + 1], fewest[: reach + 1 - value] + size, out=fewest[value : reach + 1]
            )
            better = np.flatnonzero(fewest[best + 1 : best + value + 1] <= max_bytes)
            if better.size:
                best += int(better[-1]) + 1
        curve.append(best)
    return curve


def _by_bytes(sizes: Sequence[int], values: Sequence[int], max_bytes: int, most: int) -> list[int]:
    np = _numpy()
    # Beyond 62 bits the array holds Python's own numbers: slow, and still exact.
    greatest = np.zeros(max_bytes + 1, dtype=np.int64 if most < _INT64_ROOM else object)
    curve, reach = [], 0
    for size, value in zip(sizes, values, strict=True):
        if value > 0 and size <= max_bytes:
            reach = min(reach + size, max_bytes)
            np.maximum(
                greatest[size : reach + 1],
                greatest[: reach + 1 - size] + value,
                out=greatest[size : reach + 1],
            )
            greatest[reach:] = greatest[reach]
        curve.append(int(greatest[max_bytes]))
    return curve


def _numpy() -> Any:
    try:
        import numpy as np  # noqa: PLC0415  # An extra, and only curves need it.
    except ImportError:
        raise MissingExtra(feature="The regret curve", extra="bench") from None
    return np
