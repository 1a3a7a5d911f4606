"""The gate: what the runs of a candidate must prove before it is reported.

Pure: no clock, no mailbox, no model.

The measure is the success rate of runs. The unit is a sample: its runs on both sides make one paired
observation, because runs of one sample are alike. The null hypothesis is that the candidate loses a share of
at least ``margin`` of the baseline's passing runs. Two p-values are computed, and the larger one counts:

- *spread thin*: a one-sided t test on ``candidate rate - (1 - margin) * baseline rate``, one value per
  sample;
- *concentrated*: an exact binomial test on the number of samples that the candidate passes less than a third
  as often. It does not let gains on other samples make up for them, and it is what keeps a few samples
  without a loss from proving anything.

A candidate that is not shorter must be better instead: the null hypothesis is then that it gains at most
``least_gain``, tested by the same t test on ``candidate rate - baseline rate - least_gain``.

Everybody runs the same number of repeats before a decision. Repeating only the samples that look bad would
dilute the failures of a candidate that fails one run in ten, and hide exactly that loss. Decisions are tried
at several *looks*, after 1, 3, 5, 7, 9 and 12 repeats. On held-out samples all looks together spend the level
(:func:`look_levels`). Choosing spends no promise, so each of its looks, the first three, has the whole
choosing level.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from math import exp, expm1, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist
from typing import Final

import msgspec
import numpy as np

from standfast.limits import GATE_LEAST_GAIN, GATE_LEVEL, GATE_MARGIN, PROBED_SAMPLES
from standfast.records.vocabulary import Value

Runs = Mapping[str, tuple[bool, ...]]
"""For each sample, whether its runs passed, ordered by repeat."""

_HOPELESS_P: Final = 0.003
"""A candidate whose losses outnumber its gains this improbably is given up at once."""
_LOST_SHARE: Final = 1 / 3
"""A sample is lost if the candidate passes it less than this share as often as the baseline."""
_HOPELESS_DEVIATIONS: Final = -1.0
"""A candidate whose estimated loss is beyond the margin by this many standard errors is given up after a
complete look.
"""
_SURE_REPEATS: Final = 9
"""A sample that the baseline passed in so many runs and the candidate in none is lost for sure."""
_GRID: Final = 201
"""How many points the distribution between two looks is computed on; more change the levels by less than 0.1
%.
"""


class GateSettings(Value, frozen=True, kw_only=True):
    """What the gate promises: it reports a prompt that loses ``margin`` of the baseline's passing runs with
    probability ``level`` at most.

    Args:
        held_out_share: The share of samples that only confirm.
        choosing_level: The level at which candidates are chosen for confirmation, at each of the looks up to
            ``choosing_repeats``. It costs power, not honesty: the promise is kept by the held-out samples.
        looks: After how many repeats of every sample a decision is tried.
        look_weights: How the levels of the looks compare; together they spend the level.
        least_gain: By how much a prompt that is not shorter must raise the pass rate, shown at the same
            level.
        max_rounds: How often proposals are made on top of accepted ones.
        remove_untested: Whether sentences that no sample tests may be removed. They are listed either way.
    """

    level: float = GATE_LEVEL
    margin: float = GATE_MARGIN
    least_gain: float = GATE_LEAST_GAIN
    held_out_share: float = 0.6
    choosing_level: float = 0.3
    choosing_repeats: int = 5
    looks: tuple[int, ...] = (1, 3, 5, 7, 9, 12)
    look_weights: tuple[float, ...] = (0.6, 0.4, 0.5, 0.6, 0.8, 1.0)
    max_rounds: int = 2
    remove_untested: bool = False

    def __post_init__(self) -> None:
        for field in ("level", "margin", "held_out_share", "choosing_level"):
            value = getattr(self, field)
            self._require(0 < value < 1, f"{field} must be between 0 and 1, not {value!r:.40}")
        self._require(
            0 <= self.least_gain < 1,
            f"least_gain must be 0 or more and below 1, not {self.least_gain!r:.40}",
        )
        self._require(
            len(self.looks) > 0 and self.looks[0] >= 1 and all(a < b for a, b in pairwise(self.looks)),
            "looks must be rising numbers of repeats, the first at least 1",
        )
        self._require(
            len(self.look_weights) == len(self.looks)
            and all(0 < weight <= 1 for weight in self.look_weights),
            "look_weights must be one weight per look, above 0 and at most 1",
        )
        self._require(
            self.choosing_repeats >= self.looks[0], "choosing_repeats must be at least the first look"
        )
        self._require_whole("max_rounds", self.max_rounds, least=1)

    @property
    def max_repeats(self) -> int:
        """How often a sample runs at most."""
        return self.looks[-1]

    @property
    def choosing(self) -> "Looks":
        """The looks at choosing samples.

        Nothing is promised on them, so each has the whole choosing level.
        """
        repeats = tuple(look for look in self.looks if look <= self.choosing_repeats)
        return Looks(repeats=repeats, levels=(self.choosing_level,) * len(repeats))

    def confirming(self, use: int) -> "Looks":
        """Return the looks of the n-th test on the same held-out samples."""
        levels = look_levels(self.level_of_use(use), self.looks, self.look_weights)
        return Looks(repeats=self.looks, levels=levels)

    def level_of_use(self, use: int) -> float:
        """Return the level of the n-th test on the same held-out samples.

        All of them together spend ``level``.
        """
        return self.level * 6 / (pi * use) ** 2

    def too_few(self, *, held_out: int, choosing: int | None = None, use: int = 1) -> str | None:
        """Return why no prompt could pass with this many samples, at the n-th use of the held-out ones; None
        if one could.

        Without ``choosing``, only the held-out samples are looked at.
        """
        parts = [("held-out", held_out, self.confirming(use))]
        if choosing is not None:
            parts.insert(0, ("choosing", choosing, self.choosing))
        missing = [
            f"{needed} {part} samples, and there are {count}"
            for part, count, looks in parts
            if count < (needed := samples_needed(margin=self.margin, level=looks.easiest))
        ]
        if not missing:
            return None
        used = f" (use {use} of these held-out samples)" if use > 1 else ""
        return (
            f"a margin of {self.margin:g} at level {self.level:g}{used} needs {' and '.join(missing)}; "
            "add fresh samples or widen the margin"
        )


class Looks(Value, frozen=True, kw_only=True):
    """When a test tries to decide, and at which level each time."""

    repeats: tuple[int, ...]
    levels: tuple[float, ...]

    @property
    def easiest(self) -> float:
        """The largest level of a look."""
        return max(self.levels)


@lru_cache(maxsize=64)
def look_levels(level: float, looks: tuple[int, ...], weights: tuple[float, ...]) -> tuple[float, ...]:
    """Return the level of each look, in proportion to the weights, so that all of them together spend
    ``level``.

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
    """Return the probability that Brownian motion, seen at these times, passes one-sided tests of these
    levels at any of them.
    """
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
    """Return the probability of at most ``losses`` losses if each sample is lost with probability ``margin``."""
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


class RejectReason(StrEnum):
    """Why a prompt is rejected."""

    PLACEHOLDER_DROPPED = "placeholder_dropped"
    NEGATION_REMOVED = "negation_removed"
    PROTECTED_TEXT_LOST = "protected_text_lost"
    MEANING_CHANGED = "meaning_changed"
    PROTECTED_SECTION = "protected_section"
    UNTESTED = "untested"
    NOT_SHORTER = "not_shorter"
    STALE = "stale"
    REGRESSED = "regressed"
    INFERIOR = "inferior"
    NOT_BETTER = "not_better"
    NOT_ENOUGH_SAMPLES = "not_enough_samples"
    FAILS_TOGETHER = "fails_together"
    NOT_CONFIRMED = "not_confirmed"
    SUPERSEDED = "superseded"
    UNPROVEN = "unproven"


class Ruling(Value, frozen=True, kw_only=True):
    """The gate's decision on a candidate.

    ``reason`` is None if it passed. Rates are of runs, not of samples.
    """

    reason: RejectReason | None = None
    detail: str = ""
    regression_count: int = 0
    samples: int = 0
    """How many samples the baseline passes at least half of the time."""
    losses: int = 0
    """How many of them the candidate passes less than a third as often."""
    p_value: float = 1.0
    baseline_pass_rate: float = 0.0
    candidate_pass_rate: float = 0.0
    worst_loss: float = 1.0
    """The largest loss of pass rate that the runs do not exclude, at the level of the decision."""
    repeats: int = 0

    @property
    def passed(self) -> bool:
        """Whether the candidate passed the gate."""
        return self.reason is None


class MoreRuns(Value, frozen=True, kw_only=True):
    """What is missing before a decision: these samples need this many runs on both sides."""

    samples: tuple[str, ...]
    repeats: int


def decide(
    baseline: Runs,
    candidate: Runs,
    *,
    samples: Sequence[str],
    settings: GateSettings,
    looks: Looks,
    better: bool = False,
) -> Ruling | MoreRuns:
    """Decide on a candidate from the runs so far, or say which runs are needed next.

    With ``better``, the candidate must gain ``least_gain``; otherwise it must not lose ``margin``. The answer
    depends on the runs only, so that an interrupted comparison continues where it was.
    """
    pair = _Pair(baseline, candidate, settings, better=better)
    probe, first = samples[:PROBED_SAMPLES], looks.repeats[0]
    if missing := pair.missing(probe, first):
        return MoreRuns(samples=missing, repeats=first)
    if pair.hopeless(probe, first):
        counted = pair.count(probe, first, looks.levels[0])
        return _because(counted, RejectReason.INFERIOR, f"given up after {len(probe)} samples")
    for look, level in zip(looks.repeats, looks.levels, strict=True):
        if missing := pair.missing(samples, look):
            return MoreRuns(samples=missing, repeats=look)
        counted = pair.count(samples, look, level)
        answer = pair.regression(samples, counted)
        if answer is not None:
            return answer
        if counted.p_value <= level:
            return counted
        if pair.hopeless(samples, look) or pair.deviations(samples, look) < _HOPELESS_DEVIATIONS:
            reason = RejectReason.NOT_BETTER if better else RejectReason.INFERIOR
            return _because(counted, reason, "given up early")
    return _no_gain(counted, settings, level) if better else _no_proof(counted, settings, looks)


def survives(
    baseline: Runs, candidate: Runs, *, samples: Sequence[str], settings: GateSettings
) -> bool | MoreRuns:
    """Return whether a candidate may be worth a decision, from one run per sample.

    A screen for strategies, not the gate.
    """
    pair, look = _Pair(baseline, candidate, settings), settings.looks[0]
    for some in (samples[:PROBED_SAMPLES], samples):
        if missing := pair.missing(some, look):
            return MoreRuns(samples=missing, repeats=look)
        if pair.hopeless(some, look):
            return False
    lost, gained = pair.discordant(samples, look)
    # Where runs differ in both directions, so much is noise.
    return lost - gained <= max(settings.margin / 2 * len(samples) * look, sqrt(2 * (lost + gained)))


class _Pair:
    """The runs of a baseline and of a candidate that are compared."""

    def __init__(
        self, baseline: Runs, candidate: Runs, settings: GateSettings, *, better: bool = False
    ) -> None:
        self._baseline, self._candidate, self._settings, self._better = baseline, candidate, settings, better

    def missing(self, samples: Sequence[str], repeats: int) -> tuple[str, ...]:
        """Return the samples that have fewer runs on one side."""
        return tuple(sample for sample in samples if self._done(sample) < repeats)

    def _done(self, sample: str) -> int:
        return min(len(self._baseline[sample]), len(self._candidate[sample]))

    def _rates(self, samples: Sequence[str], repeats: int) -> tuple[list[float], list[float]]:
        return _rates(self._baseline, samples, repeats), _rates(self._candidate, samples, repeats)

    def count(self, samples: Sequence[str], repeats: int, level: float) -> Ruling:
        """Return the figures of a look, without a decision."""
        base, own = self._rates(samples, repeats)
        passed = [(was, now) for was, now in zip(base, own, strict=True) if was >= 0.5]
        losses = sum(now < was * _LOST_SHARE for was, now in passed)
        concentrated = loss_p_value(samples=len(passed), losses=losses, margin=self._settings.margin)
        thin = mean_p_value(self._distances(base, own))
        count = max(len(samples), 1)
        return Ruling(
            samples=len(passed),
            losses=losses,
            p_value=thin if self._better else max(concentrated, thin),
            baseline_pass_rate=sum(base) / count,
            candidate_pass_rate=sum(own) / count,
            worst_loss=_worst_loss(base, own, level),
            repeats=repeats,
        )

    def _distances(self, base: Sequence[float], own: Sequence[float]) -> list[float]:
        """Return for each sample how far the candidate is on the good side of what the null hypothesis says."""
        if self._better:
            return [now - was - self._settings.least_gain for was, now in zip(base, own, strict=True)]
        return [now - (1 - self._settings.margin) * was for was, now in zip(base, own, strict=True)]

    def discordant(self, samples: Sequence[str], repeats: int) -> tuple[int, int]:
        """Return how many pairs of runs were lost and gained."""
        pairs = [
            (was, now)
            for sample in samples
            for was, now in zip(
                self._baseline[sample][:repeats], self._candidate[sample][:repeats], strict=True
            )
        ]
        return sum(was and not now for was, now in pairs), sum(now and not was for was, now in pairs)

    def hopeless(self, samples: Sequence[str], repeats: int) -> bool:
        """Return whether losses outnumber gains by more than chance explains (a sign test)."""
        lost, gained = self.discordant(samples, repeats)
        return lost > gained and loss_p_value(samples=lost + gained, losses=gained, margin=0.5) <= _HOPELESS_P

    def deviations(self, samples: Sequence[str], repeats: int) -> float:
        """Return how many standard errors the estimate is on the good side of the margin."""
        values = self._distances(*self._rates(samples, repeats))
        if len(values) < 2:
            return 0.0
        mean, error = _mean_and_error(values)
        return mean / error if error else 0.0

    def regression(self, samples: Sequence[str], counted: Ruling) -> Ruling | MoreRuns | None:
        """Reject a candidate that loses a sample for sure; ask for repeats of samples that may be lost.

        A sample may be lost if the baseline always passed it and the candidate never did. An exact test on
        its repeats decides, at a level that is shared among all samples.
        """
        looks = self._settings.looks
        doubtful = [
            sample for sample in samples if all(self._baseline[sample]) and not any(self._candidate[sample])
        ]
        repeats = next((look for look in looks if look >= _SURE_REPEATS), self._settings.max_repeats)
        if missing := self.missing(doubtful, repeats):
            done = min(map(self._done, missing))
            return MoreRuns(samples=missing, repeats=min(look for look in looks if look > done))
        if not doubtful or repeats == 1:
            return None
        named = ", ".join(sorted(doubtful)[:5])
        detail = f"{len(doubtful)} samples that passed {repeats} of {repeats} runs pass none now: {named}"
        counted = msgspec.structs.replace(counted, regression_count=len(doubtful))
        return _because(counted, RejectReason.REGRESSED, detail)


def _rates(runs: Runs, samples: Sequence[str], repeats: int) -> list[float]:
    return [sum(runs[sample][:repeats]) / repeats for sample in samples]


def mean_p_value(values: Sequence[float]) -> float:
    """Return the p-value of Student's one-sided test that the mean is above 0.

    Equal values leave no doubt about their sign.
    """
    count = len(values)
    if count < 2:
        return 1.0
    mean, deviation = _mean_and_error(values)
    if deviation == 0:
        return 0.0 if mean > 0 else 1.0
    score = mean / deviation
    freedom = count - 1
    # Wallace's normal approximation of Student's distribution.
    normal = sqrt(freedom * log1p(score * score / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return 1 - NormalDist().cdf(normal if score > 0 else -normal)


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    count = len(values)
    mean = sum(values) / count
    # Rounding errors of equal values are no variance.
    squares = sum((value - mean) ** 2 for value in values)
    return mean, sqrt(squares / (count - 1) / count) if squares > 1e-18 * count else 0.0


def _worst_loss(base: Sequence[float], own: Sequence[float], level: float) -> float:
    """Return the upper end of a one-sided confidence interval of the loss, never below what unseen samples
    may hide.
    """
    count = len(base)
    if count < 2:
        return 1.0
    mean, error = _mean_and_error([was - now for was, now in zip(base, own, strict=True)])
    hidden = -expm1(log(level) / count)
    return min(max(mean + NormalDist().inv_cdf(1 - level) * error, hidden), 1.0)


def _because(counted: Ruling, reason: RejectReason, detail: str) -> Ruling:
    if reason in (RejectReason.INFERIOR, RejectReason.NOT_BETTER):
        rates = f"{counted.baseline_pass_rate:.1%} → {counted.candidate_pass_rate:.1%} of runs pass"
        detail = f"{rates}, {counted.losses} of {counted.samples} samples lost; {detail}"
    return msgspec.structs.replace(counted, reason=reason, detail=detail)


def _no_proof(counted: Ruling, settings: GateSettings, looks: Looks) -> Ruling:
    needed = samples_needed(margin=settings.margin, level=looks.easiest)
    if counted.samples < needed:
        detail = (
            f"{counted.samples} samples that the baseline passes can't prove a margin of {settings.margin:g} "
            f"at level {looks.easiest:.2g}; {needed} could"
        )
        return _because(counted, RejectReason.NOT_ENOUGH_SAMPLES, detail)
    detail = (
        f"a loss of {settings.margin:.0%} is not excluded: p = {counted.p_value:.2g} > {looks.levels[-1]:.2g}"
    )
    return _because(counted, RejectReason.INFERIOR, detail)


def _no_gain(counted: Ruling, settings: GateSettings, level: float) -> Ruling:
    detail = (
        f"a gain of more than {settings.least_gain:.1%} is not shown: p = {counted.p_value:.2g} > {level:.2g}"
    )
    return _because(counted, RejectReason.NOT_BETTER, detail)


def pass_rate(runs: Runs, *, repeats: int) -> float:
    """Return the share of runs that pass, among the first ``repeats`` of each sample."""
    rates = _rates(runs, list(runs), repeats)
    return sum(rates) / len(rates) if rates else 0.0


def passing(runs: Runs, *, repeats: int) -> int:
    """Return how many samples pass at least half of their first ``repeats`` runs."""
    return sum(rate >= 0.5 for rate in _rates(runs, list(runs), repeats))
