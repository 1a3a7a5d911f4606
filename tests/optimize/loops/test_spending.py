"""What an optimization spends: estimated before, limited while it runs, and reported as it really was."""

from pathlib import Path
from typing import Any

import pytest

from standfast.errors import InvalidValue
from standfast.optimize.evals.evaluators import AllOf, Exact, ModelJudge
from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.optimize import estimate_optimization, optimize_in_process
from standfast.optimize.loops.report import summary_lines
from standfast.optimize.loops.spending import SpendingLimits
from standfast.optimize.loops.strategies import LLMCompressStrategy
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from tests.optimize.loops.harness import RIGHT, TEMPLATE, Harness, Planted, agent, dataset

EDIT = ("role", "You are a calculator.")


def test_what_was_spent_is_reported_and_a_cached_run_spends_nothing(tmp_path: Path) -> None:
    harness = Harness(tmp_path, agent(), Planted(EDIT))
    first, again = harness.result(dataset(100)), harness.result(dataset(100), request_id="again")

    assert (first.spending.calls, first.spending.cached) == (harness.provider.calls, 0) == (200, 0)
    assert first.spending.usage == first.report.usage
    assert (again.spending.calls, again.spending.cached) == (0, 200)
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
    assert harness.provider.calls == 200


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
