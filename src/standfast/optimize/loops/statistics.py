"""The tests that the gate decides by, and what they can show: exact binomials, Student's test, looks.

Pure functions of numbers.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from standfast.records.vocabulary import Value

_GRID: Final = 201
"""On how many points the distribution between two looks is computed; more change levels by under 0.1 %."""


class PowerStatement(Value, frozen=True, kw_only=True):
    """What the test can show with this many samples."""

    samples: int
    margin: float
    level: float
    losses_allowed: int
    """The most lost samples with which a candidate still passes; -1 if it can't pass even without losses."""
    samples_needed: int
    """How many samples a candidate without losses needs to pass."""
    accepts_harmless: float
    """The probability that a candidate that loses 1 sample in 200 passes."""
    rejects_at_margin: float
    """The probability that a candidate that loses exactly the margin is refused."""
    rejects_at_twice: float
    """The probability that a candidate that loses twice the margin is refused."""


def loss_p_value(*, samples: int, losses: int, margin: float) -> float:
    """Return the probability of at most ``losses`` losses if each sample is lost with this ``margin``."""
    if losses >= samples:
        return 1.0
    total = sum(exp(_log_term(samples, lost, margin)) for lost in range(losses + 1))
    return min(total, 1.0)


def _log_term(samples: int, lost: int, share: float) -> float:
    choose = lgamma(samples + 1) - lgamma(lost + 1) - lgamma(samples - lost + 1)
    return choose + lost * log(share) + (samples - lost) * log1p(-share)


def losses_allowed(*, samples: int, margin: float, level: float) -> int:
    """Return the most losses with which the null hypothesis is still rejected; -1 if there is none."""
    allowed = -1
    while allowed + 1 < samples and loss_p_value(samples=samples, losses=allowed + 1, margin=margin) <= level:
        allowed += 1
    return allowed


def samples_needed(*, margin: float, level: float) -> int:
    """Return the fewest samples with which a candidate without losses passes."""
    needed = max(int(log(level) / log1p(-margin)), 1)
    while (1 - margin) ** needed > level:
        needed += 1
    return needed


def power_statement(*, samples: int, margin: float, level: float) -> PowerStatement:
    """Return what the test can show with this many samples that the baseline passes."""
    allowed = losses_allowed(samples=samples, margin=margin, level=level)

    def accepts(share: float) -> float:
        return 0.0 if allowed < 0 else loss_p_value(samples=samples, losses=allowed, margin=share)

    return PowerStatement(
        samples=samples,
        margin=margin,
        level=level,
        losses_allowed=allowed,
        samples_needed=samples_needed(margin=margin, level=level),
        accepts_harmless=accepts(1 / 200),
        rejects_at_margin=1 - accepts(margin),
        rejects_at_twice=1 - accepts(min(2 * margin, 0.999)),
    )


@lru_cache(maxsize=64)
def look_levels(level: float, looks: tuple[int, ...], weights: tuple[float, ...]) -> tuple[float, ...]:
    """Return the level of each look, in proportion to the weights; together they spend ``level``.

    The statistic of a look is an average over its repeats, so two looks at ``r < s`` repeats have a
    correlation of ``sqrt(r / s)`` if samples do not differ, and a higher one if they do. By Slepian's
    inequality a higher correlation makes it less likely that any look passes by chance, so the levels for the
    former case hold always.
    """
    lowest, highest = 0.0, 1.0
    for _ in range(20):
        scale = (lowest + highest) / 2
        if passes_by_chance([level * scale * weight for weight in weights], looks) <= level:
            lowest = scale
        else:
            highest = scale
    return tuple(level * lowest * weight for weight in weights)


def passes_by_chance(levels: Sequence[float], looks: Sequence[int]) -> float:
    """Return the probability that Brownian motion passes a one-sided test of these levels at any look."""
    normal = NormalDist()
    below = np.vectorize(normal.cdf)
    times = [look / looks[-1] for look in looks]
    bounds = [-normal.inv_cdf(level) * sqrt(time) for level, time in zip(levels, times, strict=True)]
    # The density of where the motion is without having passed, on a grid that ends at the bound; it begins at
    # a single point.
    places, masses, now, passed = np.zeros(1), np.ones(1), 0.0, 0.0
    for time, bound in zip(times, bounds, strict=True):
        step = sqrt(time - now)
        passed += float(masses @ below((places - bound) / step))
        grid = np.linspace(-9 * sqrt(time), bound, _GRID)
        density = np.exp(-(((grid[:, None] - places) / step) ** 2) / 2) / (step * sqrt(2 * pi)) @ masses
        width = np.full(_GRID, grid[1] - grid[0])
        width[[0, -1]] /= 2
        places, masses, now = grid, density * width, time
    return passed


def mean_p_value(values: Sequence[float]) -> float:
    """Return the p-value of Student's one-sided test that the mean is above 0.

    Equal values leave no doubt about their sign.
    """
    count = len(values)
    if count < 2:
        return 1.0
    mean, deviation = mean_and_error(values)
    if deviation == 0:
        return 0.0 if mean > 0 else 1.0
    score = mean / deviation
    freedom = count - 1
    # Wallace's normal approximation of Student's distribution.
    normal = sqrt(freedom * log1p(score * score / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return 1 - NormalDist().cdf(normal if score > 0 else -normal)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    count = len(values)
    mean = sum(values) / count
    # Rounding errors of equal values are no variance.
    squares = sum((value - mean) ** 2 for value in values)
    return mean, sqrt(squares / (count - 1) / count) if squares > 1e-18 * count else 0.0
