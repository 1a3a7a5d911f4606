"""What an optimization tells while it goes on, and the table that a terminal shows of it."""

import io
import re

from rich.console import Console

from standfast.optimize import (
    CandidateProgress,
    GateSettings,
    ModelSpending,
    OptimizationProgress,
    OptimizationReport,
    SpendingLimits,
    TokenUsage,
    live_table,
    optimize,
)
from standfast.optimize.loops.spending import progress_table
from tests.optimize.loops.harness import TEMPLATE, agent, dataset


def _needs_the_calculator(_number: int, prompt: str, _repeat: int) -> bool:
    return "calculator" in prompt


def _told() -> tuple[list[OptimizationProgress], OptimizationReport]:
    told: list[OptimizationProgress] = []
    report = optimize(
        TEMPLATE,
        dataset(100),
        agent(_needs_the_calculator),
        strategies=["ablation"],
        gate=GateSettings(remove_untested=True),
        progress=told.append,
    )
    return told, report


def test_progress_tells_of_every_candidate_with_its_runs_and_its_end() -> None:
    told, report = _told()

    assert [one.evaluations for one in told] == sorted(one.evaluations for one in told)
    last = told[-1]
    assert (last.evaluations, last.pending) == (report.evaluations, 0)
    assert last.spending.calls == sum(one.runs for one in last.candidates) == report.evaluations
    rows = {one.label: one for one in last.candidates if one.label != "screened"}
    assert rows["baseline"].pass_rate == 1.0
    assert rows["baseline"].state == ""
    assert rows["baseline"].tokens == report.baseline_token_count
    [winner] = [one for label, one in rows.items() if label.endswith("held-out") and "baseline" not in label]
    assert (winner.state, winner.runs, winner.pass_rate) == ("passes", 60, 1.0)
    assert winner.tokens == report.candidate_token_count
    given_up = [one for one in last.candidates if one.state == "given up"]
    assert given_up
    assert all(one.pass_rate == 0.0 and one.runs == 16 for one in given_up)
    assert any(one.state == "running" for row in told for one in row.candidates)


def _shown(progress: OptimizationProgress, limits: SpendingLimits | None = None) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(progress_table(progress, limits))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _candidate(number: int, state: str) -> CandidateProgress:
    return CandidateProgress(label=f"candidate {number}", tokens=number, runs=8, passed=2, state=state)


def test_the_table_shows_rates_calls_and_money() -> None:
    spending = ModelSpending(calls=48, cached=3, usage=TokenUsage(input_tokens=1_000_000, output_tokens=0))
    rows = (CandidateProgress(label="baseline", tokens=30), _candidate(7, "inferior"))
    shown = _shown(
        OptimizationProgress(evaluations=51, pending=9, spending=spending, candidates=rows),
        SpendingLimits(input_price=2.5),
    )

    assert re.search(r"^baseline +30 +0 *$", shown, re.MULTILINE)
    assert re.search(r"^candidate 7 +7 +8 +25\.0% +inferior *$", shown, re.MULTILINE)
    assert "51 evaluations done, 9 to go; 48 calls, 3 cached" in shown
    assert "cost 2.5000" in shown


def test_a_long_table_hides_what_was_decided_first() -> None:
    rows = [_candidate(number, "given up") for number in range(30)] + [_candidate(99, "running")]
    shown = _shown(
        OptimizationProgress(evaluations=0, pending=0, spending=ModelSpending(), candidates=tuple(rows))
    )

    assert "… and 11 more" in shown
    assert "candidate 10 " not in shown
    assert "candidate 11 " in shown
    assert "candidate 99 " in shown


def test_the_live_table_is_drawn_in_a_terminal_and_nowhere_else() -> None:
    last = OptimizationProgress(
        evaluations=5, pending=0, spending=ModelSpending(), candidates=(_candidate(1, "passes"),)
    )
    for is_terminal, quiet in ((True, False), (False, False), (True, True)):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100)
        with live_table(console=console, quiet=quiet) as progress:
            progress(last)
        assert isinstance(console.file, io.StringIO)

        assert ("candidate 1" in console.file.getvalue()) == (is_terminal and not quiet)
