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

Samples that the user marks ``must_pass`` decide alone: a candidate that loses one of them is rejected. No
other single sample does.

Everybody runs the same number of repeats before a decision. Repeating only the samples that look bad would
dilute the failures of a candidate that fails one run in ten, and hide exactly that loss. Decisions are tried
at several *looks*, after 1, 3, 5, 7, 9 and 12 repeats. On held-out samples all looks together spend the level
(:func:`look_levels`). Choosing spends no promise, so each of its looks, the first three, has the whole
choosing level. If the model does not vary, a repeat says nothing new: there is one look, after one run, and
it has the whole level.

A candidate that can't pass any more is given up before more runs are bought for it.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from math import inf, pi, sqrt
from typing import Final

import msgspec

from standfast.limits import GATE_LEAST_GAIN, GATE_LEVEL, GATE_MARGIN, PROBED_SAMPLES
from standfast.optimize.loops.statistics import (
    look_levels,
    loss_p_value,
    losses_allowed,
    mean_and_error,
    mean_p_value,
    samples_needed,
)
from standfast.records.vocabulary import Value

Runs = Mapping[str, tuple[bool, ...]]
"""For each sample, whether its runs passed, ordered by repeat."""

_PROBED_DEVIATIONS: Final = -3.0
"""Given up at once, on a part of the samples: a loss so many standard errors beyond the margin."""
_LOST_SHARE: Final = 1 / 3
"""A sample is lost if the candidate passes it less than this share as often as the baseline."""
_HOPELESS_DEVIATIONS: Final = -1.0
"""Given up after a complete look: an estimated loss so many standard errors beyond the margin."""
_WORST_LOSS_STEPS: Final = 20
"""How often the interval of the smallest proved margin is halved: to a millionth."""


class GateSettings(Value, frozen=True, kw_only=True):
    """What the gate promises: it reports a prompt that loses ``margin`` of the baseline's passing runs with
    probability ``level`` at most.

    Args:
        held_out_share: The share of samples that only confirm.
        choosing_level: The level at which candidates are chosen for confirmation, at each of the looks up to
            ``choosing_repeats``. It costs power, not honesty: the promise is kept by the held-out samples.
        looks: After how many repeats of every sample a decision is tried.
        look_weights: How the levels of the looks compare; together they spend the level.
        least_gain: By how much a prompt that is not shorter must raise the pass rate, at that level.
        max_rounds: How often proposals are made on top of accepted ones.
        remove_untested: Whether sentences that no sample tests may be removed. They are listed either way.
        accept_reworded: Whether sentences with other words than the source's may be accepted although no
            sample tests them. They are listed either way.
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
    accept_reworded: bool = False

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

    def choosing(self, *, varies: bool) -> "Looks":
        """Return the looks at choosing samples.

        Nothing is promised on them, so each has the whole choosing level.

        Args:
            varies: Whether the model's answers to one prompt differ.
        """
        repeats = tuple(look for look in self.looks if look <= self.choosing_repeats) if varies else (1,)
        return Looks(repeats=repeats, levels=(self.choosing_level,) * len(repeats))

    def confirming(self, use: int, *, varies: bool) -> "Looks":
        """Return the looks of the n-th test on the same held-out samples."""
        if not varies:
            return Looks(repeats=(1,), levels=(self.level_of_use(use),))
        levels = look_levels(self.level_of_use(use), self.looks, self.look_weights)
        return Looks(repeats=self.looks, levels=levels)

    def level_of_use(self, use: int) -> float:
        """Return the level of the n-th test on the same held-out samples. Together they spend ``level``."""
        return self.level * 6 / (pi * use) ** 2

    def too_few(
        self, *, held_out: int, choosing: int | None = None, use: int = 1, varies: bool = False
    ) -> str | None:
        """Why no prompt could pass with this many samples, at the n-th use of the held-out ones, or None.

        Without ``choosing``, only the held-out samples are looked at. Samples that the baseline fails prove
        nothing, so leave them out of the counts once they are known.
        """
        parts = [("held-out", held_out, self.confirming(use, varies=varies))]
        if choosing is not None:
            parts.insert(0, ("choosing", choosing, self.choosing(varies=varies)))
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
    REWORDED = "reworded"
    REGRESSED = "regressed"
    DRIFTED = "drifted"
    INFERIOR = "inferior"
    NOT_BETTER = "not_better"
    NOT_ENOUGH_SAMPLES = "not_enough_samples"
    FAILS_TOGETHER = "fails_together"
    NOT_CONFIRMED = "not_confirmed"
    SUPERSEDED = "superseded"
    UNPROVEN = "unproven"


class Ruling(Value, frozen=True, kw_only=True):
    """The gate's decision on a candidate. ``reason`` is None if it passed. Rates are of runs."""

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
    """The smallest margin that the runs prove, at the level of the decision."""
    repeats: int = 0
    lost: tuple[str, ...] = ()
    """The samples that pass less often than with the baseline."""
    gained: tuple[str, ...] = ()
    """The samples that pass more often."""

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
    must_pass: Container[str] = (),
) -> Ruling | MoreRuns:
    """Decide on a candidate from the runs so far, or say which runs are needed next.

    With ``better``, the candidate must gain ``least_gain``; otherwise it must not lose ``margin``. The answer
    depends on the runs only, so that an interrupted comparison continues where it was.
    """
    pair = _Pair(baseline, candidate, settings, better=better)
    # Stable: samples that decide alone come first.
    samples = sorted(samples, key=lambda sample: sample not in must_pass)
    answer = pair.given_up_early(samples, looks, must_pass)
    if answer is not None:
        return answer
    for look, level in zip(looks.repeats, looks.levels, strict=True):
        if missing := pair.missing(samples, look):
            return MoreRuns(samples=missing, repeats=look)
        if (lost := pair.lost(samples, look, must_pass)) is not None:
            return pair.ruling(lost, samples, level)
        counted = pair.count(samples, look)
        if counted.p_value <= level:
            return pair.ruling(counted, samples, level)
        if look < looks.repeats[-1] and pair.deviations(samples, look) < _HOPELESS_DEVIATIONS:
            reason = RejectReason.NOT_BETTER if better else RejectReason.INFERIOR
            return pair.ruling(_because(counted, reason, "given up early"), samples, level)
    refused = _no_gain(counted, settings, level) if better else _no_proof(counted, settings, looks)
    return pair.ruling(refused, samples, level)


def survives(
    baseline: Runs, candidate: Runs, *, samples: Sequence[str], settings: GateSettings
) -> bool | MoreRuns:
    """Whether a candidate may be worth a decision, from one run per sample: a screen, not the gate."""
    pair, look = _Pair(baseline, candidate, settings), settings.looks[0]
    for some in _portions(samples):
        if missing := pair.missing(some, look):
            return MoreRuns(samples=missing, repeats=look)
        if pair.deviations(some, look) < _PROBED_DEVIATIONS:
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

    def given_up_early(
        self, samples: Sequence[str], looks: Looks, must_pass: Container[str]
    ) -> Ruling | MoreRuns | None:
        """Reject a candidate that can't pass any more, from the first run of a growing part of the samples.

        It only ever rejects, so it spends nothing of the level.
        """
        look, level = looks.repeats[0], looks.levels[0]
        for some in _portions(samples):
            if missing := self.missing(some, look):
                return MoreRuns(samples=missing, repeats=look)
            if (lost := self.lost(some, look, must_pass)) is not None:
                return self.ruling(lost, some, level)
            if len(some) == len(samples):
                break
            hopeless = self.deviations(some, look, gain=0.0) < _PROBED_DEVIATIONS
            if hopeless or self._futile(some, samples, looks):
                reason = RejectReason.NOT_BETTER if self._better else RejectReason.INFERIOR
                refused = _because(self.count(some, look), reason, f"given up after {len(some)} samples")
                return self.ruling(refused, some, level)
        return None

    def lost(self, samples: Sequence[str], repeats: int, must_pass: Container[str]) -> Ruling | None:
        """Reject a candidate that loses a sample that must pass.

        Where the baseline passes every run, the candidate must too. Where it does not, the candidate must
        pass a third as often.
        """
        named = [sample for sample in samples if sample in must_pass]
        base, own = self._rates(named, repeats)
        lost = [
            sample
            for sample, was, now in zip(named, base, own, strict=True)
            if now < was * _LOST_SHARE or now < was == 1
        ]
        if not lost:
            return None
        counted = msgspec.structs.replace(self.count(samples, repeats), regression_count=len(lost))
        listed = ", ".join(sorted(lost)[:5])
        return _because(counted, RejectReason.REGRESSED, f"lost samples that must pass: {listed}")

    def _futile(self, some: Sequence[str], samples: Sequence[str], looks: Looks) -> bool:
        """Return whether so many samples are lost that the others can't make up for it.

        With more looks to come, a lost sample may still recover.
        """
        if self._better or len(looks.repeats) > 1:
            return False
        counted, left = self.count(some, looks.repeats[0]), len(samples) - len(some)
        most = counted.samples + left
        return counted.losses > losses_allowed(
            samples=most, margin=self._settings.margin, level=looks.easiest
        )

    def count(self, samples: Sequence[str], repeats: int) -> Ruling:
        """Return the figures of a look, without a decision."""
        base, own = self._rates(samples, repeats)
        samples_passed, losses = _losses(base, own)
        count = max(len(samples), 1)
        return Ruling(
            samples=samples_passed,
            losses=losses,
            p_value=(
                mean_p_value(self._distances(base, own))
                if self._better
                else _shorter_p_value(base, own, self._settings.margin)
            ),
            baseline_pass_rate=sum(base) / count,
            candidate_pass_rate=sum(own) / count,
            repeats=repeats,
        )

    def ruling(self, counted: Ruling, samples: Sequence[str], level: float) -> Ruling:
        """Return the ruling with the smallest margin that the runs prove at this level.

        It is at most the declared margin exactly if the candidate passes.
        """
        base, own = self._rates(samples, counted.repeats)
        low, high = 0.0, 1.0
        for _ in range(_WORST_LOSS_STEPS):
            middle = (low + high) / 2
            proved = _shorter_p_value(base, own, middle) <= level
            low, high = (low, middle) if proved else (middle, high)
        lost, gained = self._changed(samples, counted.repeats)
        return msgspec.structs.replace(counted, worst_loss=high, lost=lost, gained=gained)

    def _changed(self, samples: Sequence[str], repeats: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the samples that pass less and more often than with the baseline."""
        rates = list(zip(samples, *self._rates(samples, repeats), strict=True))
        return (
            tuple(sample for sample, was, now in rates if now < was),
            tuple(sample for sample, was, now in rates if now > was),
        )

    def _distances(
        self, base: Sequence[float], own: Sequence[float], gain: float | None = None
    ) -> list[float]:
        """Return for each sample how far the candidate is on the good side of the null hypothesis."""
        if self._better:
            least = self._settings.least_gain if gain is None else gain
            return [now - was - least for was, now in zip(base, own, strict=True)]
        return _distances(base, own, self._settings.margin)

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

    def deviations(self, samples: Sequence[str], repeats: int, *, gain: float | None = None) -> float:
        """Return how many standard errors the estimate is on the good side of the margin, or of a gain."""
        values = self._distances(*self._rates(samples, repeats), gain)
        if len(values) < 2:
            return 0.0
        mean, error = mean_and_error(values)
        if error:
            return mean / error
        return 0.0 if mean >= 0 else -inf


def _portions(samples: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield growing parts of the samples: the first 16, twice as many, and so on up to all."""
    size = PROBED_SAMPLES
    while size < len(samples):
        yield samples[:size]
        size *= 2
    yield samples


def _losses(base: Sequence[float], own: Sequence[float]) -> tuple[int, int]:
    """Return how many samples the baseline passes, and how many of them the candidate loses."""
    passed = [(was, now) for was, now in zip(base, own, strict=True) if was >= 0.5]
    return len(passed), sum(now < was * _LOST_SHARE for was, now in passed)


def _shorter_p_value(base: Sequence[float], own: Sequence[float], margin: float) -> float:
    """Return the larger of the two p-values of a prompt that must not lose this margin."""
    passed, losses = _losses(base, own)
    concentrated = loss_p_value(samples=passed, losses=losses, margin=margin)
    return max(concentrated, mean_p_value(_distances(base, own, margin)))


def _distances(base: Sequence[float], own: Sequence[float], margin: float) -> list[float]:
    """Return for each sample how far the candidate is above a loss of the margin."""
    return [now - (1 - margin) * was for was, now in zip(base, own, strict=True)]


def _rates(runs: Runs, samples: Sequence[str], repeats: int) -> list[float]:
    return [sum(runs[sample][:repeats]) / repeats for sample in samples]


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
