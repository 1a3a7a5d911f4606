"""What an optimization may spend, has spent and will probably spend; its progress, with a live table."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from standfast.limits import PROBED_SAMPLES
from standfast.optimize.errors import SpendingLimitReached
from standfast.optimize.evals.samples import Dataset
from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.meaning import prompt_tokens
from standfast.optimize.loops.proposals import CompressStrategy, StrategySession
from standfast.optimize.prompts.template import PromptDescriptor, as_text
from standfast.optimize.providers.adapter import TokenUsage
from standfast.recall.tokens import TokenCounter
from standfast.records.vocabulary import Value

_EXPECTED_OUTPUT_TOKENS = 100


class SpendingLimits(Value, frozen=True, kw_only=True):
    """What an optimization may spend on models, and their prices per million tokens.

    Without a value there is no limit.

    The evaluations in flight when a limit is reached are finished: it is kept up to a few calls.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    input_price: float = 0.0
    output_price: float = 0.0

    def __post_init__(self) -> None:
        if self.max_calls is not None:
            self._require_whole("max_calls", self.max_calls, least=1)
        self._require(self.input_price >= 0 and self.output_price >= 0, "prices must be 0 or more")
        if self.max_cost is not None:
            self._require(self.max_cost > 0, "max_cost must be above 0")
            self._require(
                self.input_price + self.output_price > 0, "max_cost needs input_price and output_price"
            )

    def allow_another(self, spent: "ModelSpending") -> bool:
        """Return whether one more call may be made after these."""
        if self.max_calls is not None and spent.calls >= self.max_calls:
            return False
        return self.max_cost is None or self.cost(spent.usage) < self.max_cost

    def affordable(self, wanted: int, spent: "ModelSpending") -> int:
        """Return how many of these calls may be made at once, or raise ``SpendingLimitReached``."""
        if self.max_calls is not None:
            wanted = min(wanted, self.max_calls - spent.calls)
        if self.max_cost is not None:
            left = self.max_cost - self.cost(spent.usage)
            each = self.cost(spent.usage) / spent.calls if spent.calls else 0.0
            # Before the first answer nobody knows what a call costs, so a few are tried.
            some = PROBED_SAMPLES if not each else int(left / each)
            wanted = min(wanted, some if left > 0 else 0)
        if wanted < 1:
            raise SpendingLimitReached(calls=spent.calls, cost=round(self.cost(spent.usage), 6))
        return wanted

    def cost(self, usage: TokenUsage) -> float:
        """Return the price of tokens."""
        return (usage.input_tokens * self.input_price + usage.output_tokens * self.output_price) / 1e6


class ModelSpending(Value, frozen=True, kw_only=True):
    """What was really spent: calls of models with their tokens; and how many evaluations were cached."""

    calls: int = 0
    cached: int = 0
    usage: TokenUsage = TokenUsage()

    def __add__(self, other: "ModelSpending") -> "ModelSpending":
        return ModelSpending(
            calls=self.calls + other.calls, cached=self.cached + other.cached, usage=self.usage + other.usage
        )


class SpendingEstimate(Value, frozen=True, kw_only=True):
    """What an optimization is likely to spend, computed without a model."""

    candidates: int
    calls: int
    """If every candidate is decided after one run of every sample."""
    most_calls: int
    """If nothing is decided before the last repeat of the last round."""
    usage: TokenUsage
    """The tokens of ``calls``."""
    problem: str | None = None
    """Why no call would be made: the samples could prove nothing."""


def estimate_spending(
    prompt: PromptDescriptor,
    dataset: Dataset[Any, Any],
    *,
    strategy: CompressStrategy,
    gate: GateSettings,
    counter: TokenCounter,
    asked_sections: int = 0,
    use: int = 1,
) -> SpendingEstimate:
    """Estimate what an optimization spends.

    The strategies must not need a model; ``asked_sections`` counts sections for one that does.

    ``use`` says which use of the held-out samples it would be.
    """
    screened = 0

    def survives(prompts: Sequence[PromptDescriptor]) -> list[bool]:
        nonlocal screened
        screened += len(prompts)
        return [False] * len(prompts)

    session = StrategySession(counter=counter, survives=survives)
    candidates = len(strategy.propose(prompt, adapter=None, session=session)) + asked_sections
    choose, confirm = dataset.split(gate.held_out_share)
    choosing, confirming = len(choose) * (1 + candidates + screened), 2 * len(confirm)
    calls = choosing + confirming + asked_sections
    most = ((choosing + asked_sections) * gate.max_rounds + confirming) * gate.max_repeats
    inputs = sum(counter.count(as_text(sample.input)) for sample in dataset) // max(len(dataset), 1)
    usage = TokenUsage(
        input_tokens=calls * (prompt_tokens(prompt, counter) + inputs),
        output_tokens=calls * _EXPECTED_OUTPUT_TOKENS,
    )
    return SpendingEstimate(
        candidates=candidates,
        calls=calls,
        most_calls=most,
        usage=usage,
        problem=gate.too_few(choosing=len(choose), held_out=len(confirm), use=use),
    )


if TYPE_CHECKING:
    # Imported late at run time: only who looks at the table needs it.
    from rich.console import Console, Group

RUNNING: Final = "running"
"""The state of a candidate that is not decided."""
_MOST_ROWS: Final = 20


class CandidateProgress(Value, frozen=True, kw_only=True):
    """What is known so far of one prompt under trial."""

    label: str
    tokens: int
    runs: int = 0
    """How many runs have a grade; errors have none."""
    passed: int = 0
    state: str = ""
    """``running``, ``passes``, or why the candidate is out. The baseline has none."""

    @property
    def pass_rate(self) -> float | None:
        """The share of runs that passed; None before the first grade."""
        return self.passed / self.runs if self.runs else None


class OptimizationProgress(Value, frozen=True, kw_only=True):
    """What an optimization has done so far."""

    evaluations: int
    """How many evaluations are finished."""
    pending: int
    """How many evaluations were sent and are not answered yet."""
    spending: ModelSpending
    candidates: tuple[CandidateProgress, ...]
    """The baseline and everything that was tried, in order; what runs on held-out samples is listed again."""


Progress = Callable[[OptimizationProgress], None]
"""Called often while evaluations run, from the optimization's thread."""


@contextmanager
def live_table(
    limits: SpendingLimits | None = None, *, console: "Console | None" = None, quiet: bool = False
) -> Iterator[Progress]:
    """Show a table of the candidates while the block lasts: success rates, runs, calls, tokens and money.

    Yields what to pass as ``progress``. Where standard error is no terminal, nothing is shown.

    Args:
        limits: The prices, for the cost of the calls.
        console: Where to draw; standard error by default.
        quiet: Draw nothing.
    """
    from rich.console import Console  # noqa: PLC0415  # See above.
    from rich.live import Live  # noqa: PLC0415  # As above.

    screen = console or Console(stderr=True)
    latest = OptimizationProgress(evaluations=0, pending=0, spending=ModelSpending(), candidates=())

    def note(progress: OptimizationProgress) -> None:
        nonlocal latest
        latest = progress

    if quiet or not screen.is_terminal:
        yield note
        return
    with Live(get_renderable=lambda: progress_table(latest, limits), console=screen, refresh_per_second=8):
        yield note


def progress_table(progress: OptimizationProgress, limits: SpendingLimits | None = None) -> "Group":
    """Return the progress as a table of Rich with a line below it."""
    from rich.console import Group  # noqa: PLC0415  # See above.
    from rich.table import Table  # noqa: PLC0415  # As above.
    from rich.text import Text  # noqa: PLC0415  # As above.

    table = Table(box=None, pad_edge=False)
    table.add_column("prompt", overflow="ellipsis", no_wrap=True)
    for name in ("tokens", "runs", "pass rate"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", overflow="ellipsis", no_wrap=True)
    rows, hidden = _most_interesting(progress.candidates)
    for row in rows:
        rate = "" if row.pass_rate is None else f"{row.pass_rate:.1%}"
        table.add_row(row.label, str(row.tokens), str(row.runs), rate, row.state, style=_style(row))
    if hidden:
        table.add_row(f"… and {hidden} more", "", "", "", "", style="dim")
    return Group(table, Text(_spent_line(progress, limits)))


def _most_interesting(rows: tuple[CandidateProgress, ...]) -> tuple[list[CandidateProgress], int]:
    """Return the rows to show, in order, and how many are not: those that were decided first give way."""
    decided = [number for number, row in enumerate(rows) if row.state not in ("", RUNNING)]
    hidden = set(decided[: max(len(rows) - _MOST_ROWS, 0)])
    return [row for number, row in enumerate(rows) if number not in hidden], len(hidden)


def _style(row: CandidateProgress) -> str:
    match row.state:
        case "" | "running":
            return ""
        case "passes":
            return "green"
        case _:
            return "dim"


def _spent_line(progress: OptimizationProgress, limits: SpendingLimits | None) -> str:
    spent = progress.spending
    cost = limits.cost(spent.usage) if limits is not None else 0.0
    priced = f", cost {cost:.4f}" if cost else ""
    return (
        f"{progress.evaluations} evaluations done, {progress.pending} to go; {spent.calls} calls,"
        f" {spent.cached} cached ({spent.usage.input_tokens} tokens in, {spent.usage.output_tokens}"
        f" out{priced})"
    )
