"""Progress of an optimization: what is known so far of each prompt under trial, and a live table of it for a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from standfast.optimize.loops.spending import ModelSpending, SpendingLimits
from standfast.vocabulary import Value

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
        f"{progress.evaluations} evaluations done, {progress.pending} to go; {spent.calls} calls, {spent.cached} cached "
        f"({spent.usage.input_tokens} tokens in, {spent.usage.output_tokens} out{priced})"
    )
