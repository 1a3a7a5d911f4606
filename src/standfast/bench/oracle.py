"""The most that a WRITE-only run could have retained, exactly: for a whole episode, and after each of its steps.

For a whole episode, ``policies.knapsack`` finds the optimum. For the curve over time, classic dynamic programming runs once,
step by step, in whichever dimension is smaller:

- by value: the fewest bytes for each total value. The optimum of a prefix is the greatest value whose bytes fit. No prefix is
  worth more than the whole, so the table ends at the optimum of the whole.
- by bytes: the greatest value for each number of bytes.

Both consider every subset, on integers, so both are exact. Real labels have few classes of utility, so the table by value is
small: 10,000 steps at 1 MB take less than a second.
"""

from collections.abc import Sequence
from math import gcd
from typing import Any, Final

from standfast.errors import MissingExtra
from standfast.policies.knapsack import best_subset

_INT64_LIMIT: Final = 1 << 62


def oracle_worth(sizes: Sequence[int], values: Sequence[int], max_bytes: int) -> int:
    """Return the greatest worth of any set of steps whose WRITEs fit the budget."""
    if sum(sizes) <= max_bytes:
        return sum(value for value in values if value > 0)
    return best_subset(sizes, values, max_bytes)[0]


def oracle_curve(sizes: Sequence[int], values: Sequence[int], max_bytes: int) -> list[int]:
    """Return the optimum of every prefix of the stream: one number a step."""
    grain = gcd(*values) or 1
    values = [value // grain for value in values]
    most = oracle_worth(sizes, values, max_bytes)
    curve = _by_value if most <= max_bytes else _by_bytes
    return [best * grain for best in curve(sizes, values, max_bytes, most)]


def _by_value(sizes: Sequence[int], values: Sequence[int], max_bytes: int, most: int) -> list[int]:
    np = _numpy()
    fewest = np.full(most + 1, _INT64_LIMIT, dtype=np.int64)
    fewest[0] = 0
    curve, best, reach = [], 0, 0
    for size, value in zip(sizes, values, strict=True):
        if value > 0 and size <= max_bytes:
            # Only totals that the steps so far can add up to are updated.
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
    # Beyond 62 bits the array holds Python's own integers: slow, but still exact.
    greatest = np.zeros(max_bytes + 1, dtype=np.int64 if most < _INT64_LIMIT else object)
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
        import numpy as np  # noqa: PLC0415  # Only curves need it.
    except ImportError:
        raise MissingExtra(feature="The regret curve", extra="bench") from None
    return np
