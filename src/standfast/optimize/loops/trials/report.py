"""What an optimisation says in the end: what can be changed, what can't and why, and how sure that is."""

from standfast.optimize.loops.gate.rulings import RejectReason
from standfast.optimize.loops.gate.settings import GateSettings
from standfast.optimize.loops.gate.statistics import PowerStatement
from standfast.optimize.prompts.section import HexDigest, Path
from standfast.optimize.providers.adapter import TokenUsage
from standfast.vocabulary import Value


class Modification(Value, frozen=True, kw_only=True):
    """A validated prompt modification ready for application.

    ``original_hash`` is the hash of the section's source, as an override must name it; ``original_body`` is what the
    baseline said.
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


class RejectedModification(Value, frozen=True, kw_only=True):
    """A modification that was rejected, and why."""

    section_path: Path
    token_reduction: int
    regression_count: int = 0
    reason: RejectReason
    detail: str = ""
    proposed_body: str = ""
    strategy: str = ""


class ParetoPoint(Value, frozen=True, kw_only=True):
    """A prompt that was tried and that no other one beats in both tokens and pass rate."""

    label: str
    tokens: int
    pass_rate: float


class OptimizationReport(Value, frozen=True, kw_only=True):
    """Result of an optimization run. The same request on the same answers gives the same report, to the byte."""

    experiment_id: str
    prompt_ns: str
    prompt_key: str
    baseline_pass_rate: float
    baseline_token_count: int
    modifications: tuple[Modification, ...] = ()
    rejected: tuple[RejectedModification, ...] = ()
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
    pareto: tuple[ParetoPoint, ...] = ()
    evaluations: int = 0
    usage: TokenUsage = TokenUsage()

    @property
    def total_token_reduction(self) -> int:
        """The tokens that all modifications save together."""
        return sum(modification.token_reduction for modification in self.modifications)

    @property
    def has_modifications(self) -> bool:
        """Whether anything can be changed."""
        return len(self.modifications) > 0

    def cost(self, *, input_price: float, output_price: float) -> float:
        """What the evaluations cost, at prices for a million tokens."""
        return (self.usage.input_tokens * input_price + self.usage.output_tokens * output_price) / 1e6

    @classmethod
    def failed(cls, *, ns: str, prompt_key: str) -> "OptimizationReport":
        """The empty report of an optimisation that came to no result."""
        return cls(
            experiment_id="failed",
            prompt_ns=ns,
            prompt_key=prompt_key,
            baseline_pass_rate=0.0,
            baseline_token_count=0,
        )


def pareto_front(points: list[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """The points that no other beats: none has fewer tokens at the same or a better pass rate, nor the other way round."""
    front: list[ParetoPoint] = []
    best = -1.0
    for point in sorted(points, key=lambda point: (point.tokens, -point.pass_rate, point.label)):
        if point.pass_rate > best:
            front.append(point)
            best = point.pass_rate
    return tuple(front)


def as_lines(report: OptimizationReport) -> list[str]:
    """The report in a few lines, for people at a terminal."""
    label = report.tokenizer + ("" if report.tokens_are_exact else ", an estimate")
    tokens = f"{report.baseline_token_count} → {report.candidate_token_count} tokens ({label})"
    rates = f"pass rate {report.baseline_pass_rate:.1%} → {report.candidate_pass_rate:.1%}"
    counts = f"{report.choosing_samples} samples to choose by and {report.confirming_samples} to confirm by"
    lines = [
        f"{report.prompt_ns}/{report.prompt_key}, tag {report.baseline_tag}: {tokens}",
        f"{rates} on {counts}, {report.evaluations} evaluations",
    ]
    lines += [
        f"  + {'/'.join(one.section_path)}: {one.token_reduction} tokens less ({one.strategy})"
        for one in report.modifications
    ]
    lines += [
        f"  - {'/'.join(one.section_path)}: {one.reason.value} ({one.strategy}) {one.detail}".rstrip()
        for one in report.rejected
    ]
    if report.confirming_power is not None:
        lines.append(_promise(report.confirming_power))
    return lines


def _promise(power: PowerStatement) -> str:
    if power.losses_allowed < 0:
        return (
            f"{power.samples} samples to confirm by prove nothing at margin {power.margin:g} and level {power.level:g}; "
            f"{power.samples_needed} would"
        )
    return (
        f"a prompt that loses {power.margin:.0%} is refused with a probability of {power.rejects_at_margin:.1%} or more, "
        f"one that loses {2 * power.margin:.0%} with {power.rejects_at_twice:.1%}"
    )
