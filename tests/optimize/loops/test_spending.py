"""What an optimization spends: estimated before, limited while it runs, and reported as it really was."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from standfast.errors import InvalidValue
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
from standfast.optimize.evals.evaluators import AllOf, Exact, ModelJudge
from standfast.optimize.loops.optimize import estimate_optimization, optimize_in_process
from standfast.optimize.loops.report import summary_lines
from standfast.optimize.loops.spending import progress_table
from standfast.optimize.loops.strategies import LLMCompressStrategy
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from tests.optimize.loops.harness import RIGHT, TEMPLATE, Harness, Planted, agent, dataset

EDIT = ("role", "You are a calculator.")


def test_what_was_spent_is_reported_and_a_cached_run_spends_nothing(tmp_path: Path) -> None:
    harness = Harness(tmp_path, agent(), Planted(EDIT))
    first, again = harness.result(dataset(100)), harness.result(dataset(100), request_id="again")

    assert (first.spending.calls, first.spending.cached) == (harness.provider.calls, 0) == (204, 0)
    assert first.spending.usage == first.report.usage
    assert (again.spending.calls, again.spending.cached) == (0, 204)
    assert again.spending.usage.input_tokens == 0
    assert again.report.usage == first.report.usage


def test_a_limit_on_calls_is_kept_and_the_next_run_continues_from_the_cache(tmp_path: Path) -> None:
    harness = Harness(tmp_path, agent(), Planted(EDIT), limits=SpendingLimits(max_calls=150))
    stopped = harness.optimize(dataset(100))

    assert harness.provider.calls == 150
    assert not stopped.has_modifications
    assert stopped.stopped is not None
    assert "after 150 calls" in stopped.stopped
    assert not any("pass rate" in line for line in summary_lines(stopped))
    assert harness.optimize(dataset(100), request_id="r2").has_modifications
    assert harness.provider.calls == 204


def test_a_limit_on_money_is_kept_up_to_a_few_calls(tmp_path: Path) -> None:
    limits = SpendingLimits(max_cost=0.001, input_price=1.0, output_price=2.0)
    harness = Harness(tmp_path, agent(), Planted(EDIT), limits=limits)
    result = harness.result(dataset(100))

    assert result.report.stopped is not None
    assert 0 < limits.cost(result.spending.usage) <= 0.001 * 1.1
    assert 0 < harness.provider.calls < 100


@pytest.mark.parametrize(
    "wrong",
    [{"max_calls": 0}, {"max_cost": 1.0}, {"max_cost": -1.0, "input_price": 1.0}, {"input_price": -1.0}],
    ids=str,
)
def test_limits_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        SpendingLimits(**wrong)


def test_the_calls_of_a_judge_and_of_a_strategy_count(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> str:
        if "You grade an answer" in request.prompt:
            return "PASS"
        if "You shorten one section" in request.prompt:
            return "<shortened>You are a calculator.</shortened>" if "calculator" in request.prompt else "No."
        found = RIGHT.search(request.prompt)
        assert found is not None
        return str(int(found[1]) + int(found[2]))

    provider = ScriptedProvider(script)
    result = optimize_in_process(
        TEMPLATE,
        dataset(100),
        provider=provider,
        strategy=LLMCompressStrategy(least_tokens=10),
        overrides_store=LocalPromptOverridesStore(tmp_path),
        evaluator=AllOf(Exact(), ModelJudge(provider)),
        gate=GateSettings(remove_untested=True),
    )

    assert result.error is None
    assert result.spending.calls == provider.calls > 400


def test_a_dry_run_calls_nobody_and_is_about_right(tmp_path: Path) -> None:
    store = LocalPromptOverridesStore(tmp_path)
    estimated = estimate_optimization(
        TEMPLATE, dataset(100), strategies=["rewrite", "ablation"], overrides_store=store
    )
    few = estimate_optimization(TEMPLATE, dataset(20), strategies=["compress"], overrides_store=store)

    assert estimated.problem is None
    assert 160 <= estimated.calls <= estimated.most_calls
    assert estimated.usage.input_tokens > estimated.calls * 40
    assert few.candidates == len(TEMPLATE.sections)
    assert few.problem is not None


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


@pytest.mark.parametrize(("most", "asked"), [(1, 1), (None, 4)])
def test_a_proposer_has_limits_of_its_own_and_what_it_proposed_is_tested(
    tmp_path: Path, most: int | None, asked: int
) -> None:
    texts = ("You are a calculator.", "Do not guess.")
    proposer = ScriptedProvider(
        lambda request: f"<shortened>{texts['Do not guess' in request.prompt]}</shortened>"
    )
    evaluations = agent()
    result = optimize_in_process(
        TEMPLATE,
        dataset(100),
        provider=evaluations,
        proposer=proposer,
        strategy=LLMCompressStrategy(least_tokens=5),
        overrides_store=LocalPromptOverridesStore(tmp_path),
        gate=GateSettings(remove_untested=True, max_rounds=1),
        proposer_limits=SpendingLimits(max_calls=most),
    )

    assert result.error is None
    assert (proposer.calls, result.proposing.calls) == (asked, asked)
    assert result.spending.calls == evaluations.calls + asked
    assert result.report.has_modifications
    assert result.report.stopped is None


def test_the_price_of_proposals_is_limited_by_itself() -> None:
    limits = SpendingLimits(max_cost=1.0, input_price=1e6)
    spent = [ModelSpending(calls=1, usage=TokenUsage(input_tokens=tokens)) for tokens in (0, 1, 2)]

    assert [limits.allow_another(one) for one in spent] == [True, False, False]
