"""The gate: what the runs of a candidate must prove before it is reported. Pure: no clock, no mailbox, no model.

The unit of the exact test is a sample that the baseline passes. A candidate keeps it or loses it, as a majority of its
repeats decides. The null hypothesis is that the candidate loses a share of at least ``margin``. It is rejected if the
number of losses seen, or fewer, would then have a probability of at most ``level``. Gains do not make up for losses.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import ceil, exp, lgamma, log, log1p

import msgspec

from standfast.limits import GATE_LEVEL, GATE_MARGIN
from standfast.vocabulary import Value


class GateSettings(Value, frozen=True, kw_only=True):
    """What the gate promises: it reports a prompt that loses ``margin`` of the baseline's passes with probability ``level`` at most.

    Args:
        held_out_share: The share of samples that only confirm.
        repeats: How often every sample runs; ``max_repeats`` where baseline and candidate differ.
        regression_share: The share of failed repeats from which a sample that always passed counts as regressed.
        max_rounds: How often proposals are made on top of accepted ones.
    """

    level: float = GATE_LEVEL
    margin: float = GATE_MARGIN
    held_out_share: float = 0.4
    repeats: int = 3
    max_repeats: int = 9
    regression_share: float = 0.4
    max_rounds: int = 2

    def __post_init__(self) -> None:
        for field in ("level", "margin", "held_out_share", "regression_share"):
            value = getattr(self, field)
            self._require(0 < value < 1, f"{field} must be between 0 and 1, not {value!r:.40}")
        self._require_whole("repeats", self.repeats, least=1)
        self._require_whole("max_rounds", self.max_rounds, least=1)
        self._require(
            self.repeats % 2 == 1 and self.max_repeats % 2 == 1,
            "repeats and max_repeats must be odd, so that there is a majority",
        )
        self._require(self.max_repeats >= self.repeats, "max_repeats must not be below repeats")

    def level_of(self, round_number: int, candidates: int) -> float:
        """Return the level of one candidate: halved with every round and shared among the round's candidates."""
        return self.level * 0.5**round_number / max(candidates, 1)


class PowerStatement(Value, frozen=True, kw_only=True):
    """What the test can show with this many samples."""

    samples: int
    margin: float
    level: float
    losses_allowed: int
    """The most losses with which a candidate still passes; -1 if it can't pass even without losses."""
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
    """Return what the test can show with this many samples."""
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


Runs = Mapping[str, tuple[bool, ...]]
"""For each sample, whether its runs passed, ordered by repeat."""


class RejectReason(StrEnum):
    """Why a shorter prompt is rejected."""

    PLACEHOLDER_DROPPED = "placeholder_dropped"
    NEGATION_REMOVED = "negation_removed"
    PROTECTED_TEXT_LOST = "protected_text_lost"
    NOT_SHORTER = "not_shorter"
    STALE = "stale"
    REGRESSED = "regressed"
    TURNED_FLAKY = "turned_flaky"
    INFERIOR = "inferior"
    NOT_ENOUGH_SAMPLES = "not_enough_samples"
    FAILS_TOGETHER = "fails_together"
    NOT_CONFIRMED = "not_confirmed"
    SUPERSEDED = "superseded"
    UNPROVEN = "unproven"


class Ruling(Value, frozen=True, kw_only=True):
    """The gate's decision on a candidate. ``reason`` is None if it passed."""

    reason: RejectReason | None = None
    detail: str = ""
    regression_count: int = 0
    samples: int = 0
    losses: int = 0
    gains: int = 0
    p_value: float = 1.0
    baseline_pass_rate: float = 0.0
    candidate_pass_rate: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the candidate passed the gate."""
        return self.reason is None


def in_doubt(baseline: Runs, candidate: Runs, settings: GateSettings) -> frozenset[str]:
    """Return the samples that need more repeats on both sides.

    These are the samples where the majorities differ, or where only the candidate failed at least once.
    """
    return frozenset(
        sample
        for sample, runs in candidate.items()
        if len(runs) < settings.max_repeats
        and (_majority(runs) != _majority(baseline[sample]) or (all(baseline[sample]) and not all(runs)))
    )


def rule(baseline: Runs, candidate: Runs, *, settings: GateSettings, level: float) -> Ruling:
    """Decide on a candidate, after ``in_doubt`` samples were repeated."""
    assert baseline.keys() == candidate.keys(), "baseline and candidate must have run the same samples"
    passed = [sample for sample in candidate if _majority(baseline[sample])]
    losses = sum(not _majority(candidate[sample]) for sample in passed)
    counted = Ruling(
        regression_count=len(_regressions(baseline, candidate, settings)),
        samples=len(passed),
        losses=losses,
        gains=sum(_majority(candidate[sample]) for sample in candidate if not _majority(baseline[sample])),
        p_value=loss_p_value(samples=len(passed), losses=losses, margin=settings.margin),
        baseline_pass_rate=pass_rate(baseline),
        candidate_pass_rate=pass_rate(candidate),
    )
    if counted.regression_count:
        reason, detail = _regression(baseline, candidate, settings)
    elif counted.p_value <= level:
        return counted
    else:
        reason, detail = _no_proof(counted, settings.margin, level)
    return msgspec.structs.replace(counted, reason=reason, detail=detail)


def _regression(baseline: Runs, candidate: Runs, settings: GateSettings) -> tuple[RejectReason, str]:
    regressed = _regressions(baseline, candidate, settings)
    details = ", ".join(
        f"{sample} ({_passes(candidate[sample])}, was {_passes(baseline[sample])})"
        for sample in regressed[:5]
    )
    always = any(not any(candidate[sample]) for sample in regressed)
    reason = RejectReason.REGRESSED if always else RejectReason.TURNED_FLAKY
    return reason, f"{len(regressed)} samples that always passed fail now: {details}"


def _no_proof(counted: Ruling, margin: float, level: float) -> tuple[RejectReason, str]:
    if counted.losses:
        detail = (
            f"{counted.losses} of {counted.samples} samples lost, p = {counted.p_value:.2g} > {level:.2g}"
        )
        return RejectReason.INFERIOR, detail
    needed = samples_needed(margin=margin, level=level)
    detail = f"no sample was lost, but {counted.samples} samples can't prove a margin of {margin:g} at level {level:.2g}; {needed} could"
    return RejectReason.NOT_ENOUGH_SAMPLES, detail


def _regressions(baseline: Runs, candidate: Runs, settings: GateSettings) -> list[str]:
    return [
        sample for sample in sorted(candidate) if _regressed(baseline[sample], candidate[sample], settings)
    ]


def _regressed(baseline: tuple[bool, ...], candidate: tuple[bool, ...], settings: GateSettings) -> bool:
    """Return whether the candidate fails too many repeats of a sample that the baseline always passes."""
    failures = len(candidate) - sum(candidate)
    return all(baseline) and failures >= ceil(settings.regression_share * len(candidate))


def _majority(runs: tuple[bool, ...]) -> bool:
    return sum(runs) * 2 > len(runs)


def _passes(runs: tuple[bool, ...]) -> str:
    return f"{sum(runs)} of {len(runs)}"


def passing(runs: Runs) -> int:
    """Return how many samples pass by majority."""
    return sum(map(_majority, runs.values()))


def pass_rate(runs: Runs) -> float:
    """Return the share of samples that pass by majority."""
    return passing(runs) / len(runs) if runs else 0.0
