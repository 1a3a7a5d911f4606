"""What the results can tell: intervals over episodes, paired tests with correction, and places that respect
both.

- An interval is a percentile bootstrap over episodes, so it never leaves the range of the figures.
- Two policies are compared on the same episodes by Wilcoxon's signed-rank test: exact, with ties, up to 200
  episodes that differ; by its normal approximation beyond. Holm's correction covers all pairs of one table.
- A policy's place is a range: 1 + the number of policies that are significantly better, to the last place
  that is not taken by a significantly worse one. Where nothing is significant, everybody has the whole range.

Nothing here needs numpy, and the same figures give the same answers on every machine.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import erfc, sqrt
from operator import itemgetter
from statistics import correlation, fmean, stdev
from typing import Any, Final, TypeVar

import msgspec

from standfast.clock import seeded

RESAMPLES: Final = 1_000
TAIL: Final = 25
"""How many of the resampled means lie outside of each end of the interval: 2.5 % of them."""
MOST_RESAMPLED: Final = 2_000
MOST_EXACT: Final = 200
NORMAL95: Final = 1.960
LEVEL: Final = 0.05
assert 2 * TAIL == LEVEL * RESAMPLES

_Episode = TypeVar("_Episode", bound=Hashable)


class Mean(msgspec.Struct, frozen=True):
    """A mean over episodes with its 95 % interval; both ends are the mean if there is only one episode."""

    value: float
    low: float
    high: float
    episodes: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean with its interval: a percentile bootstrap, or beyond 2,000 values the normal one inside
    their range.
    """
    count = len(values)
    mean = fmean(values) if values else 0.0
    if count < 2 or min(values) == max(values):
        return Mean(mean, mean, mean, count)
    if count > MOST_RESAMPLED:
        half = NORMAL95 * stdev(values) / sqrt(count)
        return Mean(mean, max(mean - half, min(values)), min(mean + half, max(values)), count)
    sums = sorted(sum(pick(values)) for pick in _resamples(count))
    return Mean(mean, sums[TAIL] / count, sums[-1 - TAIL] / count, count)


@lru_cache(maxsize=4)
def _resamples(count: int) -> tuple[Any, ...]:
    """Return functions that draw as many values with replacement; the same ones for every policy."""
    random = seeded(count)
    return tuple(itemgetter(*random.choices(range(count), k=count)) for _ in range(RESAMPLES))


def signed_rank_p(differences: Sequence[float]) -> float:
    """Return the two-sided p value of Wilcoxon's signed-rank test; 1 if nothing differs.

    Zeros are left out.
    """
    differing = [one for one in differences if one]
    if not differing:
        return 1.0
    # Twice the mean rank of those that are equal, so that it is whole.
    ranks = [rank + 1 for rank in _mean_ranks([abs(one) for one in differing])]
    above = sum(rank for rank, one in zip(ranks, differing, strict=True) if one > 0)
    total = sum(ranks)
    least = min(above, total - above)
    if len(ranks) > MOST_EXACT:
        spread = sqrt(sum(rank * rank for rank in ranks)) / 2
        return min(1.0, erfc((total / 2 - least) / spread / sqrt(2)))
    return min(1.0, _subsets_up_to(ranks, least) / (1 << (len(ranks) - 1)))


def _subsets_up_to(ranks: Sequence[int], limit: int) -> int:
    """Return how many subsets of the ranks have a sum of at most ``limit``.

    The counts are the digits of one large number, wide enough that no digit and no sum of digits overflows.
    """
    width = len(ranks) + 2
    mask = (1 << (width * (limit + 1))) - 1
    counts = 1
    for rank in ranks:
        counts = (counts + (counts << (rank * width))) & mask
    # A number and the sum of its digits are equal modulo the base less one.
    return counts % ((1 << width) - 1)


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
    """All policies of a table, compared in pairs."""

    pairs: tuple[PolicyPair, ...]
    average_ranks: dict[str, float]
    """The mean over episodes of a policy's rank on each; 1 is best, and those that are equal share theirs."""
    episodes: int

    def places(self) -> dict[str, tuple[int, int]]:
        """Return the range of places of each policy."""
        better = dict.fromkeys(self.average_ranks, 0)
        worse = dict.fromkeys(self.average_ranks, 0)
        for pair in self.pairs:
            if pair.significant:
                first_wins = pair.difference.value > 0
                winner, loser = (pair.first, pair.second) if first_wins else (pair.second, pair.first)
                better[loser] += 1
                worse[winner] += 1
        return {name: (1 + better[name], len(better) - worse[name]) for name in better}

    def ties(self) -> list[list[str]]:
        """Return the tie groups of a critical-difference diagram: the longest runs by average rank without a
        significant pair.
        """
        order = sorted(self.average_ranks, key=lambda name: (self.average_ranks[name], name))
        apart = {frozenset((pair.first, pair.second)) for pair in self.pairs if pair.significant}
        groups: list[tuple[int, int]] = []
        for start in range(len(order)):
            end = start
            while end + 1 < len(order) and not any(
                frozenset((order[end + 1], one)) in apart for one in order[start : end + 1]
            ):
                end += 1
            if end > start and not (groups and groups[-1][1] >= end):
                groups.append((start, end))
        return [order[start : end + 1] for start, end in groups]


def compare(scores: Mapping[str, Mapping[_Episode, float]]) -> PolicyComparison:
    """Compare policies in pairs, by their scores on the episodes that all of them ran on."""
    names = list(scores)
    shared = [one for one in scores[names[0]] if all(one in scores[name] for name in names)] if names else []
    columns = {name: [scores[name][one] for one in shared] for name in names}
    pairs = list(combinations(names, 2))
    differences = [[a - b for a, b in zip(columns[x], columns[y], strict=True)] for x, y in pairs]
    p_values = [signed_rank_p(one) for one in differences]
    return PolicyComparison(
        pairs=tuple(
            PolicyPair(first=first, second=second, difference=mean_of(one), p=p, corrected_p=corrected)
            for (first, second), one, p, corrected in zip(
                pairs, differences, p_values, holm(p_values), strict=True
            )
        ),
        average_ranks=_average_ranks(columns, len(shared)),
        episodes=len(shared),
    )


def _average_ranks(columns: Mapping[str, Sequence[float]], episodes: int) -> dict[str, float]:
    sums = dict.fromkeys(columns, 0.0)
    for number in range(episodes):
        own = {name: column[number] for name, column in columns.items()}
        for name, score in own.items():
            above = sum(other > score for other in own.values())
            equal = sum(other == score for other in own.values())
            sums[name] += above + (equal + 1) / 2
    return {name: total / episodes if episodes else 0.0 for name, total in sums.items()}
