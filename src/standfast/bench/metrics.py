"""The metrics of the document's section 4 for one run, the worth of what is retained over time, and the exact
optimum of both.

Utilities are summed in whole units and divided once, so that sums do not depend on their order. A metric
whose denominator is zero is 0.

The optimum is the most that a WRITE-only run could have retained. For a whole episode, ``policies.knapsack``
finds it. For the curve over time, classic dynamic programming runs once, step by step, in whichever dimension
is smaller:

- by value: the fewest bytes for each total value. The optimum of a prefix is the greatest value whose bytes
  fit. No prefix is worth more than the whole, so the table ends at the optimum of the whole.
- by bytes: the greatest value for each number of bytes.

Both consider every subset, on integers, so both are exact. Real labels have few classes of utility, so the
table by value is small: 10,000 steps at 1 MB take less than a second.
"""

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final

import msgspec
import numpy as np

from standfast.bench.episodes import Labels
from standfast.policies import ByteMemoryStore
from standfast.policies.knapsack import best_subset
from standfast.records.vocabulary import ActionType, MemoryAction, Step


class ActionCounts(msgspec.Struct, frozen=True):
    """How often each action was emitted, and how often it was rejected."""

    emitted: dict[ActionType, int] = msgspec.field(default_factory=lambda: dict.fromkeys(ActionType, 0))
    refused: dict[ActionType, int] = msgspec.field(default_factory=lambda: dict.fromkeys(ActionType, 0))


class EpisodeMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """How one policy did on one episode under one budget."""

    recall: float
    precision: float
    f1: float
    utility: float
    utility_per_kb: float
    oracle_utility: float
    regret: float
    avg_staleness: float
    drift_coverage: float
    expire_rate: float
    utilization: float
    write_density: float
    bytes_used: int
    retained: int
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int


def evaluate(
    retained: set[int],
    labels: Labels,
    counts: ActionCounts,
    *,
    steps: int,
    current_t: int,
    bytes_used: int,
    max_bytes: int,
    oracle_worth: int,
) -> EpisodeMetrics:
    """Grade the retained timesteps. ``oracle_worth`` is the WRITE-only optimum in the labels' units."""
    critical, worth = labels.critical_steps, labels.worth
    hits = len(critical & retained)
    recall, precision = ratio(hits, len(critical)), ratio(hits, len(retained))
    own_worth = sum(worth.get(t, 0) for t in retained)
    utility = own_worth / labels.unit
    return EpisodeMetrics(
        recall=recall,
        precision=precision,
        f1=ratio(2 * precision * recall, precision + recall),
        utility=utility,
        utility_per_kb=ratio(utility, bytes_used / 1024),
        oracle_utility=oracle_worth / labels.unit,
        regret=max(0, oracle_worth - own_worth) / labels.unit,
        avg_staleness=ratio(current_t * len(retained) - sum(retained), len(retained)),
        drift_coverage=ratio(hits, labels.total_drift_events),
        expire_rate=ratio(counts.emitted[ActionType.EXPIRE], counts.emitted[ActionType.WRITE]),
        utilization=bytes_used / max_bytes,
        write_density=ratio(len(retained), steps),
        bytes_used=bytes_used,
        retained=len(retained),
        true_positives=hits,
        false_positives=len(retained) - hits,
        false_negatives=len(critical) - hits,
        true_negatives=steps - len(retained) - len(critical) + hits,
    )


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``; 0 if the denominator is zero."""
    return part / whole if whole else 0.0


class WorthCurve:
    """Observes a run: records the worth of what is retained after each step, at the cost of its actions."""

    def __init__(self, worth: Mapping[int, int]) -> None:
        self._worth = worth
        self._retained_worth = 0
        self._parent: dict[int, int | None] = {}
        self._children: dict[int, set[int]] = {}
        self.points: list[int] = []

    def after(self, step: Step, applied: Sequence[tuple[MemoryAction, bool]], _: ByteMemoryStore) -> None:
        """Add the point of one step."""
        for action, accepted in applied:
            if accepted and action.action is ActionType.EXPIRE:
                assert action.target_t is not None, "the store accepted it"
                self._remove(action.target_t)
            elif accepted and action.action is not ActionType.SKIP:
                self._add(step.t, action.target_t if action.action is ActionType.MERGE else None)
        self.points.append(self._retained_worth)

    def _add(self, t: int, parent: int | None) -> None:
        self._parent[t] = parent
        if parent is not None:
            self._children.setdefault(parent, set()).add(t)
        self._retained_worth += self._worth.get(t, 0)

    def _remove(self, t: int) -> None:
        parent = self._parent.pop(t)
        if parent is None:
            orphans = self._children.pop(t, set())
            self._retained_worth -= self._worth.get(t, 0) + sum(
                self._worth.get(child, 0) for child in orphans
            )
        elif parent in self._parent:
            self._retained_worth -= self._worth.get(t, 0)
            self._children[parent].discard(t)
        # Otherwise it is an orphan, which no longer counted.


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
