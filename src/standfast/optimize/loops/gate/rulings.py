"""From the runs of a baseline and a candidate to a ruling. Pure: no clock, no mailbox, no model."""

from collections.abc import Mapping
from enum import StrEnum
from math import ceil

import msgspec

from standfast.optimize.loops.gate.settings import GateSettings
from standfast.optimize.loops.gate.statistics import loss_p_value, samples_needed
from standfast.vocabulary import Value

Runs = Mapping[str, tuple[bool, ...]]
"""Of each sample, whether its runs passed, in the order of their repeats."""


class RejectReason(StrEnum):
    """Why a shorter prompt is not reported as good."""

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
    """What the runs say of a candidate. ``reason`` is None if it has proved what it must."""

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
        """Whether the candidate has proved what it must."""
        return self.reason is None


def in_doubt(baseline: Runs, candidate: Runs, settings: GateSettings) -> frozenset[str]:
    """The samples that must be run more often, on both sides, before anything is said of them.

    Those are the samples where the sides differ, or where only the candidate ever failed.
    """
    return frozenset(
        sample
        for sample, runs in candidate.items()
        if len(runs) < settings.max_repeats
        and (_majority(runs) != _majority(baseline[sample]) or (all(baseline[sample]) and not all(runs)))
    )


def rule(baseline: Runs, candidate: Runs, *, settings: GateSettings, level: float) -> Ruling:
    """The ruling on a candidate whose samples are in doubt no more."""
    assert baseline.keys() == candidate.keys(), "both sides must have run the same samples"
    kept = [sample for sample in candidate if _majority(baseline[sample])]
    losses = sum(not _majority(candidate[sample]) for sample in kept)
    counted = Ruling(
        regression_count=len(_regressions(baseline, candidate, settings)),
        samples=len(kept),
        losses=losses,
        gains=sum(_majority(candidate[sample]) for sample in candidate if not _majority(baseline[sample])),
        p_value=loss_p_value(samples=len(kept), losses=losses, margin=settings.margin),
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
    told = ", ".join(
        f"{sample} ({_passes(candidate[sample])}, was {_passes(baseline[sample])})"
        for sample in regressed[:5]
    )
    always = any(not any(candidate[sample]) for sample in regressed)
    reason = RejectReason.REGRESSED if always else RejectReason.TURNED_FLAKY
    return reason, f"{len(regressed)} samples that always passed do not any more: {told}"


def _no_proof(counted: Ruling, margin: float, level: float) -> tuple[RejectReason, str]:
    if counted.losses:
        told = f"{counted.losses} of {counted.samples} samples lost, p = {counted.p_value:.2g} > {level:.2g}"
        return RejectReason.INFERIOR, told
    needed = samples_needed(margin=margin, level=level)
    told = f"{counted.samples} samples prove no margin of {margin:g} at level {level:.2g}; {needed} would"
    return RejectReason.NOT_ENOUGH_SAMPLES, f"nothing was lost, but {told}"


def _regressions(baseline: Runs, candidate: Runs, settings: GateSettings) -> list[str]:
    return [
        sample for sample in sorted(candidate) if _regressed(baseline[sample], candidate[sample], settings)
    ]


def _regressed(baseline: tuple[bool, ...], candidate: tuple[bool, ...], settings: GateSettings) -> bool:
    """Whether a sample that the baseline passes every time is failed by the candidate more than noise explains."""
    failures = len(candidate) - sum(candidate)
    return all(baseline) and failures >= ceil(settings.regression_share * len(candidate))


def _majority(runs: tuple[bool, ...]) -> bool:
    return sum(runs) * 2 > len(runs)


def _passes(runs: tuple[bool, ...]) -> str:
    return f"{sum(runs)} of {len(runs)}"


def passing(runs: Runs) -> int:
    """How many samples pass by majority."""
    return sum(map(_majority, runs.values()))


def pass_rate(runs: Runs) -> float:
    """The share of samples that pass by majority."""
    return passing(runs) / len(runs) if runs else 0.0
