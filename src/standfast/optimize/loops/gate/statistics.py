"""The paired exact test, and what it can and can't see.

The unit is a sample that the baseline passes. A candidate either keeps it or loses it, as a majority of repeats decides.
The null hypothesis is that the candidate loses a share of at least ``margin``; it is rejected if so few losses as were seen
would then have a probability of at most ``level``. Gains do not make up for losses.
"""

from math import exp, lgamma, log, log1p

from standfast.vocabulary import Value


class PowerStatement(Value, frozen=True, kw_only=True):
    """What the test on so many samples can see."""

    samples: int
    margin: float
    level: float
    losses_allowed: int
    """The most losses with which a candidate can still pass; -1 if even none would not be enough."""
    samples_needed: int
    """How many samples it takes for a candidate without losses to pass."""
    accepts_harmless: float
    """The probability that a candidate passes which loses 1 sample in 200."""
    rejects_at_margin: float
    """The probability that a candidate is refused which loses just the margin."""
    rejects_at_twice: float
    """The probability that a candidate is refused which loses twice the margin."""


def loss_p_value(*, samples: int, losses: int, margin: float) -> float:
    """The probability of at most so many losses among so many samples, if each is lost with probability ``margin``."""
    if samples == 0:
        return 1.0
    if losses >= samples:
        return 1.0
    total = sum(exp(_log_term(samples, lost, margin)) for lost in range(losses + 1))
    return min(total, 1.0)


def _log_term(samples: int, lost: int, share: float) -> float:
    choose = lgamma(samples + 1) - lgamma(lost + 1) - lgamma(samples - lost + 1)
    return choose + lost * log(share) + (samples - lost) * log1p(-share)


def losses_allowed(*, samples: int, margin: float, level: float) -> int:
    """The most losses with which the null hypothesis is still rejected; -1 if there is no such number."""
    allowed = -1
    while allowed + 1 < samples and loss_p_value(samples=samples, losses=allowed + 1, margin=margin) <= level:
        allowed += 1
    return allowed


def samples_needed(*, margin: float, level: float) -> int:
    """The fewest samples with which a candidate without losses passes."""
    needed = max(int(log(level) / log1p(-margin)), 1)
    while (1 - margin) ** needed > level:
        needed += 1
    return needed


def power_statement(*, samples: int, margin: float, level: float) -> PowerStatement:
    """What the test on so many samples can see."""
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
