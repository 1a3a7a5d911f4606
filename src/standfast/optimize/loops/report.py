"""OptimizationReport: what can change, what can't and why, and how certain that is; as data, text, HTML."""

from typing import Any, Self

from standfast.html_pages import page_from
from standfast.optimize.evals.results import EvalResult
from standfast.optimize.evals.samples import Sample
from standfast.optimize.loops.gate import GateSettings, RejectReason
from standfast.optimize.loops.statistics import PowerStatement, loss_p_value
from standfast.optimize.prompts.template import HexDigest, Path, as_text
from standfast.optimize.providers.adapter import TokenUsage
from standfast.records.vocabulary import Value


class Modification(Value, frozen=True, kw_only=True):
    """A validated modification, ready to be applied.

    ``original_hash`` is the hash of the section's source; ``original_body`` is the baseline's text, which may
    be an override.
    """

    section_path: Path
    original_hash: HexDigest
    proposed_body: str
    token_reduction: int
    baseline_pass_rate: float
    candidate_pass_rate: float
    original_body: str = ""
    recall_tokens: int | None = None
    original_recall_tokens: int | None = None
    strategy: str = ""


class SampleComparison(Value, frozen=True, kw_only=True):
    """A sample with the answers of two prompts, cut to a few lines."""

    sample_id: str
    input: str
    expected: str
    baseline_output: str
    candidate_output: str
    baseline_passed: bool
    candidate_passed: bool
    baseline_truncated: bool = False
    """Whether the answer ends at the limit of output tokens."""
    candidate_truncated: bool = False

    @classmethod
    def of(
        cls, sample: Sample[Any, Any], was: EvalResult, now: EvalResult, *, most_chars: int | None = None
    ) -> Self:
        """Return a sample with two of its results, each text cut to this length."""
        return cls(
            sample_id=sample.id,
            input=as_text(sample.input)[:most_chars],
            expected=as_text(sample.expected)[:most_chars],
            baseline_output=was.output[:most_chars],
            candidate_output=now.output[:most_chars],
            baseline_passed=was.passed,
            candidate_passed=now.passed,
            baseline_truncated=was.truncated,
            candidate_truncated=now.truncated,
        )

    @property
    def change(self) -> str:
        """Both answers in one line, and whether they were cut off."""
        sides = (
            (self.baseline_output, self.baseline_truncated),
            (self.candidate_output, self.candidate_truncated),
        )
        return " became ".join(f"{output!r:.60}{' (cut off)' if cut else ''}" for output, cut in sides)


class RejectedModification(Value, frozen=True, kw_only=True):
    """A rejected modification with the reason."""

    section_path: Path
    token_reduction: int
    regression_count: int = 0
    reason: RejectReason
    detail: str = ""
    original_body: str = ""
    proposed_body: str = ""
    strategy: str = ""
    lost: tuple[SampleComparison, ...] = ()
    """A few samples that pass less often than with the baseline."""


class UnchangedSection(Value, frozen=True, kw_only=True):
    """A section that stays as it is, and why."""

    section_path: Path
    why: str


class UntestedText(Value, frozen=True, kw_only=True):
    """A sentence that no sample tests: without it, no choosing sample did worse."""

    section_path: Path
    text: str
    removed: bool


class RewordedText(Value, frozen=True, kw_only=True):
    """A sentence with words that its source does not have, and whether a sample tests it."""

    section_path: Path
    before: str
    after: str
    tested: bool
    accepted: bool


class ParetoPoint(Value, frozen=True, kw_only=True):
    """A tried prompt that no other beats in both tokens and pass rate."""

    label: str
    tokens: int
    pass_rate: float


class OptimizationReport(Value, frozen=True, kw_only=True):
    """The result of an optimization. Equal requests and answers give equal reports, to the byte."""

    experiment_id: str
    prompt_ns: str
    prompt_key: str
    baseline_pass_rate: float
    baseline_token_count: int
    modifications: tuple[Modification, ...] = ()
    rejected: tuple[RejectedModification, ...] = ()
    unchanged: tuple[UnchangedSection, ...] = ()
    untested: tuple[UntestedText, ...] = ()
    reworded: tuple[RewordedText, ...] = ()
    samples: tuple[SampleComparison, ...] = ()
    """The held-out samples with both answers, those that changed first."""
    candidate_pass_rate: float = 0.0
    candidate_token_count: int = 0
    tokenizer: str = ""
    tokens_are_exact: bool = False
    baseline_tag: str = ""
    baseline_version: int | None = None
    baseline_fell_back: str | None = None
    baseline_digest: HexDigest | None = None
    candidate_digest: HexDigest | None = None
    dataset_digest: HexDigest | None = None
    choosing_samples: int = 0
    confirming_samples: int = 0
    settings: GateSettings | None = None
    choosing_power: PowerStatement | None = None
    confirming_power: PowerStatement | None = None
    confirming_p_value: float | None = None
    worst_loss: float | None = None
    """The largest share of the baseline's passes whose loss the held-out runs do not exclude."""
    tried_pass_rate: float | None = None
    """The pass rate on the held-out samples of what was tried there, accepted or not."""
    approved_digest: HexDigest | None = None
    """The version that a human last approved, if it is not the baseline."""
    model_varies: bool = True
    """Whether the model's answers to one prompt differ."""
    truncated_answers: int = 0
    """How many answers ended at the limit of output tokens, of all prompts that were tried."""
    baseline_truncated: int = 0
    """How many answers of the baseline did."""
    candidate_truncated: int = 0
    """How many answers of the last candidate did."""
    repeated_samples: int = 0
    """How many samples were left out because they are the same as another one."""
    memory_snapshot: int | None = None
    """The snapshot of memory that every evaluation read."""
    held_out_use: int = 1
    """How many tests these held-out samples have decided for this prompt, this one included."""
    stopped: str | None = None
    """Why the optimization ended before its time; nothing was accepted then."""
    pareto: tuple[ParetoPoint, ...] = ()
    evaluations: int = 0
    usage: TokenUsage = TokenUsage()

    @property
    def total_token_reduction(self) -> int:
        """The tokens that all modifications save."""
        return sum(modification.token_reduction for modification in self.modifications)

    @property
    def has_modifications(self) -> bool:
        """Whether there is anything to apply."""
        return len(self.modifications) > 0

    def __str__(self) -> str:
        return "\n".join(summary_lines(self))

    @classmethod
    def failed(cls, *, ns: str, prompt_key: str) -> "OptimizationReport":
        """Return the empty report of an optimization that failed."""
        return cls(
            experiment_id="failed",
            prompt_ns=ns,
            prompt_key=prompt_key,
            baseline_pass_rate=0.0,
            baseline_token_count=0,
        )


def pareto_front(points: list[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """Return the points that no other point beats in both tokens and pass rate."""
    front: list[ParetoPoint] = []
    best = -1.0
    for point in sorted(points, key=lambda point: (point.tokens, -point.pass_rate, point.label)):
        if point.pass_rate > best:
            front.append(point)
            best = point.pass_rate
    return tuple(front)


def summary_lines(report: OptimizationReport) -> list[str]:
    """Return the report in a few lines for a terminal."""
    label = report.tokenizer + ("" if report.tokens_are_exact else ", an estimate")
    tokens = f"{report.baseline_token_count} → {report.candidate_token_count} tokens ({label})"
    counts = f"{report.choosing_samples} choosing and {report.confirming_samples} held-out samples"
    rates = f"pass rate {report.baseline_pass_rate:.1%} → {report.candidate_pass_rate:.1%}"
    if not report.has_modifications:
        rates = f"nothing is changed; the baseline's pass rate is {report.baseline_pass_rate:.1%}"
    lines = [
        f"{report.prompt_ns}/{report.prompt_key}, tag {report.baseline_tag}: {tokens}",
        f"{rates} on {counts}, {report.evaluations} evaluations" if not report.stopped else counts,
    ]
    lines += [
        f"  + {'/'.join(one.section_path)}: {_tokens(one.token_reduction)} ({one.strategy})"
        for one in report.modifications
    ]
    for rejected in report.rejected:
        lines.append(
            f"  - {'/'.join(rejected.section_path)}: {rejected.reason.value} ({rejected.strategy})"
            f" {rejected.detail}".rstrip()
        )
        lines += [f"      {one.sample_id}: {one.change}" for one in rejected.lost]
    lines += [f"  = {'/'.join(one.section_path)}: {one.why}" for one in report.unchanged]
    lines += [
        f"  {'removed, though' if one.removed else 'kept, but'} no sample tests it: {one.text!r:.100}"
        for one in report.untested
    ]
    lines += [f"  {_reworded_line(one)}" for one in report.reworded]
    if report.truncated_answers:
        lines.append(
            f"{report.truncated_answers} of {report.evaluations} answers were cut off,"
            f" {report.baseline_truncated} of the baseline and {report.candidate_truncated} of the last"
            " candidate; raise the limit of output tokens"
        )
    if report.repeated_samples:
        lines.append(f"{report.repeated_samples} samples are the same as another one and count once")
    return [*lines, *_certainty(report)]


def _reworded_line(one: RewordedText) -> str:
    what = "reworded" if one.accepted else "not reworded"
    why = "samples test it" if one.tested else "no sample tests it"
    return f"{what} ({why}): {one.before!r:.100} → {one.after!r:.100}"


def _certainty(report: OptimizationReport) -> list[str]:
    """Return how certain the result is, in one line."""
    if report.stopped is not None:
        return [report.stopped]
    if report.settings is None:
        return []
    if report.worst_loss is None or report.tried_pass_rate is None:
        return [] if report.confirming_power is None else [_power_line(report.confirming_power)]
    if not report.has_modifications:
        return [_refused_line(report, report.tried_pass_rate, report.worst_loss, report.settings)]
    if report.candidate_token_count > report.baseline_token_count:
        return [_gain_line(report.settings)]
    return [_loss_line(report, report.worst_loss, report.settings)]


def _refused_line(report: OptimizationReport, rate: float, worst_loss: float, settings: GateSettings) -> str:
    tried = (
        f"what was tried passes {rate:.1%} of the held-out runs, the baseline {report.baseline_pass_rate:.1%}"
    )
    if any(one.reason is RejectReason.REGRESSED for one in report.rejected):
        return "what was tried loses a sample that must pass, which decides alone"
    if worst_loss <= settings.margin:
        return f"{tried}; it was rejected for the reason above"
    return (
        f"{tried}; a loss of up to {worst_loss:.1%} is not excluded, and the margin is {settings.margin:.0%}"
    )


def _tokens(reduction: int) -> str:
    return f"{reduction} fewer tokens" if reduction >= 0 else f"{-reduction} more tokens"


def _loss_line(report: OptimizationReport, worst_loss: float, settings: GateSettings) -> str:
    used = f", use {report.held_out_use} of these held-out samples" if report.held_out_use > 1 else ""
    return (
        f"the held-out runs exclude a loss of more than {worst_loss:.1%} of the passes; "
        f"margin {settings.margin:.0%}, level {settings.level:.0%}{used}"
    )


def _gain_line(settings: GateSettings) -> str:
    return (
        f"the held-out runs show a gain of more than {settings.least_gain:.1%} of the pass rate at level "
        f"{settings.level:.0%}"
    )


def _power_line(power: PowerStatement) -> str:
    if power.losses_allowed < 0:
        return (
            f"{power.samples} held-out samples can't prove anything at margin {power.margin:g} and level"
            f" {power.level:g}; {power.samples_needed} could"
        )
    return (
        f"a prompt that loses {power.margin:.0%} is rejected with probability {power.rejects_at_margin:.1%}"
        f" or more, one that loses {2 * power.margin:.0%} with {power.rejects_at_twice:.1%}"
    )


def html_report(report: OptimizationReport) -> str:
    """Return the report as one HTML page that needs no server and no network. Needs the extra ``evals``."""
    return page_from(
        "standfast.optimize",
        "standalone_report.html",
        extra="evals",
        filters={"tokens": _tokens},
        report=report,
        lines=summary_lines(report),
        curve=_operating_curve(report.confirming_power),
    )


def _operating_curve(power: PowerStatement | None) -> dict[str, Any] | None:
    """Return where to draw the probability of acceptance against the share of samples really lost."""
    if power is None or power.losses_allowed < 0:
        return None
    width, height, most_loss = 480, 200, min(3 * power.margin, 0.99)

    def place(loss: float, accepted: float) -> tuple[str, str]:
        return f"{40 + loss / most_loss * width:.1f}", f"{10 + (1 - accepted) * height:.1f}"

    losses = [max(step / 60 * most_loss, 1e-9) for step in range(61)]
    points = (
        place(loss, loss_p_value(samples=power.samples, losses=power.losses_allowed, margin=loss))
        for loss in losses
    )
    return {
        "points": " ".join(map(",".join, points)),
        "margin_x": place(power.margin, 0)[0],
        "level_y": place(0, power.level)[1],
        "most_loss": most_loss,
    }
