"""What the results can tell: intervals, paired tests with correction, and places that respect both.

- **The unit is the history.** Windows of one history resemble each other, so the mean is over histories, each
  with the mean of its windows. Where all episodes are of one history, its windows are the units, and what is
  found holds for that history only.
- An interval is Student's, from the spread of the units; from 30 of them on a percentile bootstrap. It does
  not leave 0 to 1 where the figures are shares.
- Two policies are compared on the same units by the mean of their differences: how often is it as large if
  each difference could as well have the other sign? All signs are tried up to 16 units, then 20,000 draws.
- Holm's correction covers the family of a table: all pairs, or, where so few units can't show that any pair
  differs, each policy against one baseline. What is better than the baseline is then also better than what is
  worse than it, or than what is above it on no unit at all.
- A policy's place is a range: 1 + the number of policies that are significantly better, to the last place
  that is not taken by a significantly worse one.

The same figures give the same answers on every machine.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import sqrt
from statistics import correlation, fmean, stdev
from typing import Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

RESAMPLES: Final = 1_000
LEVEL: Final = 0.05
MOST_EXACT: Final = 16
"""Up to so many units all signs are tried."""
DRAWN_SIGNS: Final = 20_000
MANY_UNITS: Final = 30
MOST_RESAMPLED: Final = 2_000
NORMAL95: Final = 1.960
# Student's t at 97.5 % for 1 to 28 degrees of freedom.
STUDENT95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
    2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
)  # fmt: skip
assert len(STUDENT95) == MANY_UNITS - 2
_SEED: Final = 0
_TIE: Final = 1e-12
BASELINES: Final = ("RecencyBias", "AlwaysWrite", "NeverWrite")
"""The policy that others are compared with if none is named: the first of these that took part."""

_Episode = TypeVar("_Episode", bound=Hashable)
_History = Hashable


class Mean(msgspec.Struct, frozen=True):
    """A mean with its 95 % interval; both ends are the mean if there is only one unit."""

    value: float
    low: float
    high: float
    episodes: int
    histories: int = 0
    """How many histories the episodes are of."""

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean_of(values: Sequence[float], histories: Sequence[_History] | None = None) -> Mean:
    """Return the mean over histories with its interval; without histories, each value is one of its own."""
    units, of = _units(values, histories)
    mean = fmean(units) if units else 0.0
    if len(units) < 2 or min(units) == max(units):
        return Mean(mean, mean, mean, len(values), of)
    low, high = _bootstrap(units) if len(units) >= MANY_UNITS else _student(units, mean)
    if min(values) >= 0:
        low = max(low, 0.0)
        if max(values) <= 1:
            high = min(high, 1.0)
    return Mean(mean, low, high, len(values), of)


def _units(values: Sequence[float], histories: Sequence[_History] | None) -> tuple[list[float], int]:
    """Return the mean of each history, or the values if there is only one; and how many there are."""
    if histories is None:
        return list(values), len(values)
    groups: dict[_History, list[float]] = {}
    for value, history in zip(values, histories, strict=True):
        groups.setdefault(history, []).append(value)
    if len(groups) == 1:
        return list(values), 1
    return [fmean(own) for own in groups.values()], len(groups)


def _student(units: Sequence[float], mean: float) -> tuple[float, float]:
    half = STUDENT95[len(units) - 2] * stdev(units) / sqrt(len(units))
    return mean - half, mean + half


def _bootstrap(units: Sequence[float]) -> tuple[float, float]:
    """Return a percentile bootstrap; beyond 2,000 units the normal interval."""
    if len(units) > MOST_RESAMPLED:
        half = NORMAL95 * stdev(units) / sqrt(len(units))
        return fmean(units) - half, fmean(units) + half
    means = np.sort(np.asarray(units)[_resamples(len(units))].mean(axis=1))
    tail = round(RESAMPLES * LEVEL / 2)
    return float(means[tail]), float(means[-1 - tail])


@lru_cache(maxsize=4)
def _resamples(count: int) -> npt.NDArray[np.intp]:
    """Return places to draw with replacement; the same ones for every policy."""
    return np.random.default_rng(_SEED).integers(0, count, (RESAMPLES, count))


def sign_flip_p(columns: Sequence[Sequence[float]]) -> list[float]:
    """Return the two-sided p value of the mean of each column of paired differences.

    It is the share of all choices of signs whose mean is at least as far from 0; the same signs for all.
    """
    if not columns or not len(columns[0]):
        return [1.0] * len(columns)
    table = np.asarray(columns, dtype=np.float64).T
    seen = np.abs(table.sum(axis=0))
    sums = np.abs(_signs(len(table)) @ table)
    # A sum of the same numbers in another order may differ in its last bit.
    as_far = (sums >= seen - _TIE * np.maximum(seen, 1.0)).sum(axis=0)
    if len(table) <= MOST_EXACT:
        return [float(one) for one in as_far / len(sums)]
    return [float(one) for one in (as_far + 1) / (len(sums) + 1)]


@lru_cache(maxsize=4)
def _signs(count: int) -> npt.NDArray[np.float64]:
    """Return all choices of signs but for their mirror images, or as many draws of them."""
    if count <= MOST_EXACT:
        numbers = np.arange(1 << (count - 1))
        bits = (numbers[:, None] >> np.arange(count)[None, :]) & 1
        return (1.0 - 2.0 * bits).astype(np.float64)
    return np.random.default_rng(_SEED).choice(np.array([-1.0, 1.0]), (DRAWN_SIGNS, count))


def least_p(units: int) -> float:
    """Return the smallest p value that so many units can give."""
    return 1 / (1 << (units - 1)) if 0 < units <= MOST_EXACT else 1 / (DRAWN_SIGNS + 1) if units else 1.0


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation; None if one side has no two different values."""
    x, y = _mean_ranks(xs), _mean_ranks(ys)
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return correlation(x, y)


def _mean_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value less one; those that are equal share their mean."""
    order = sorted(values)
    return [bisect_left(order, one) + bisect_right(order, one) for one in values]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number by Holm's method, in the same order."""
    corrected = [0.0] * len(p_values)
    greatest = 0.0
    for done, number in enumerate(sorted(range(len(p_values)), key=lambda one: (p_values[one], one))):
        greatest = max(greatest, min(1.0, (len(p_values) - done) * p_values[number]))
        corrected[number] = greatest
    return corrected


class PolicyPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two policies on the same episodes. ``difference`` is the first less the second."""

    first: str
    second: str
    difference: Mean
    p: float
    corrected_p: float

    @property
    def significant(self) -> bool:
        """Whether the difference is significant after correction."""
        return self.corrected_p < LEVEL


class PolicyComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of a table, compared in pairs."""

    pairs: tuple[PolicyPair, ...]
    means: dict[str, float]
    """The mean of each policy over histories, of which the pairs are the differences."""
    episodes: int
    histories: int
    baseline: str | None = None
    """With which each policy was compared; None if all were compared with each other."""
    never_above: frozenset[str] = frozenset()
    """Policies that are above the baseline on no unit."""

    @property
    def units(self) -> int:
        """How many independent figures there are: histories, or the windows of the only one."""
        return self.histories if self.histories > 1 else self.episodes

    def places(self) -> dict[str, tuple[int, int]]:
        """Return the range of places of each policy."""
        wins = self._wins()
        better = {name: sum((other, name) in wins for other in self.means) for name in self.means}
        worse = {name: sum((name, other) in wins for other in self.means) for name in self.means}
        return {name: (1 + better[name], len(better) - worse[name]) for name in better}

    def _wins(self) -> set[tuple[str, str]]:
        """Return who is significantly better than whom, also by way of the baseline."""
        wins = {
            (pair.first, pair.second) if pair.difference.value > 0 else (pair.second, pair.first)
            for pair in self.pairs
            if pair.significant
        }
        if self.baseline is not None:
            above = [first for first, second in wins if second == self.baseline]
            below = {second for first, second in wins if first == self.baseline} | self.never_above
            wins |= {(one, other) for one in above for other in below}
        return wins

    def ties(self) -> list[list[str]]:
        """Return the tie groups of a critical-difference diagram: the longest runs by mean without a
        significant pair. Policies that were compared with a baseline only have none.
        """
        if self.baseline is not None:
            return []
        order = sorted(self.means, key=lambda name: (-self.means[name], name))
        wins = self._wins()
        groups: list[tuple[int, int]] = []
        for start in range(len(order)):
            end = start
            while end + 1 < len(order) and not any(
                {(order[end + 1], one), (one, order[end + 1])} & wins for one in order[start : end + 1]
            ):
                end += 1
            if end > start and not (groups and groups[-1][1] >= end):
                groups.append((start, end))
        return [order[start : end + 1] for start, end in groups]

    def limits(self) -> str:
        """Return in a sentence or two what so many episodes can and can't tell."""
        what = "histories" if self.histories > 1 else "windows of one history"
        said = f"n = {self.units} {what}"
        if self.histories > 1 and self.episodes > self.histories:
            said += f" with {self.episodes} windows"
        if self.histories == 1:
            said += ", so this holds for that history only"
        tests = max(len(self.pairs), 1)
        family = f"each policy with {self.baseline}" if self.baseline is not None else "all policies in pairs"
        can = least_p(self.units) * tests < LEVEL
        return (
            f"{said}. Compared: {family}, {len(self.pairs)} tests. The smallest p value that so many can give"
            f" is {least_p(self.units):.2g}, corrected {min(1.0, least_p(self.units) * tests):.2g}: "
            + ("an order can show." if can else "no order can show; add histories, or name fewer policies.")
        )


def compare(
    scores: Mapping[str, Mapping[_Episode, float]],
    histories: Mapping[_Episode, _History] | None = None,
    baseline: str | None = None,
) -> PolicyComparison:
    """Compare policies by their scores on the episodes that all of them ran on.

    Args:
        scores: The score of each policy on each episode.
        histories: The history of each episode; without it, each episode is one of its own.
        baseline: Compare each policy with this one only. Without it, all are compared in pairs, if that many
            tests can show anything with so few units; otherwise with the first of ``BASELINES`` there.
    """
    names = list(scores)
    shared = [one for one in scores[names[0]] if all(one in scores[name] for name in names)] if names else []
    of = [histories[one] for one in shared] if histories is not None else None
    columns = {name: [scores[name][one] for one in shared] for name in names}
    units = {name: _units(column, of)[0] for name, column in columns.items()}
    count = len(next(iter(units.values()), []))
    pairs = list(combinations(names, 2))
    if baseline is None and least_p(count) * len(pairs) >= LEVEL:
        baseline = next((name for name in BASELINES if name in scores), None)
    if baseline is not None:
        pairs = [(name, baseline) for name in names if name != baseline]
    by_unit = [[a - b for a, b in zip(units[x], units[y], strict=True)] for x, y in pairs]
    p_values = sign_flip_p(by_unit)
    differences = [[a - b for a, b in zip(columns[x], columns[y], strict=True)] for x, y in pairs]
    return PolicyComparison(
        pairs=tuple(
            PolicyPair(first=first, second=second, difference=mean_of(one, of), p=p, corrected_p=corrected)
            for (first, second), one, p, corrected in zip(
                pairs, differences, p_values, holm(p_values), strict=True
            )
        ),
        means={name: fmean(own) if own else 0.0 for name, own in units.items()},
        episodes=len(shared),
        histories=len(set(of)) if of is not None else len(shared),
        baseline=baseline,
        never_above=frozenset(
            name
            for name in names
            if baseline is not None
            and name != baseline
            and all(own <= other for own, other in zip(units[name], units[baseline], strict=True))
        ),
    )
