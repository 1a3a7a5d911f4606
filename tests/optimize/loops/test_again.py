"""Doing an optimisation again: what is known is not paid for again."""

from pathlib import Path

import pytest

from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.proposals import Strategies, rewriting_strategies
from standfast.optimize.loops.report import OptimizationReport
from standfast.optimize.loops.strategies import Ablation, LLMCompressStrategy
from standfast.optimize.opening import open_result_cache
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from tests.optimize.loops.harness import RIGHT, Harness, agent, dataset


def test_doing_it_again_costs_no_call(tmp_path: Path) -> None:
    strategy = Strategies(*rewriting_strategies(), Ablation())
    harness = Harness(
        tmp_path, agent(lambda _number, prompt, _repeat: "Ten and ten" in prompt, noise=0.02), strategy
    )
    harness.optimize(dataset(100))
    calls = harness.provider.calls
    harness.optimize(dataset(100), request_id="another request")

    assert harness.provider.calls == calls > 0


@pytest.mark.parametrize("kind", ["folder", "redis"])
def test_doing_it_again_in_another_process_costs_no_call_with_a_model_that_proposes(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Grades and proposals are in the same cache; the second worker has nothing but that."""
    url = request.getfixturevalue("redis_url") if kind == "redis" else str(tmp_path / "cache")

    def script(asked: ModelRequest) -> str:
        if "You shorten one section" in asked.prompt:
            return "<shortened>You are a calculator.</shortened>" if "calculator" in asked.prompt else "No."
        found = RIGHT.search(asked.prompt)
        assert found is not None
        return str(int(found[1]) + int(found[2]))

    def optimized(request_id: str) -> tuple[OptimizationReport, int]:
        provider, cache = ScriptedProvider(script), open_result_cache(url)
        strategy = LLMCompressStrategy(provider, least_tokens=10, cache=cache)
        gate = GateSettings(margin=0.2, remove_untested=True)
        harness = Harness(tmp_path / request_id, provider, strategy, gate=gate, cache=cache)
        return harness.optimize(dataset(45), request_id=request_id), provider.calls

    (first, paid), (again, unpaid) = optimized("one"), optimized("another")

    assert [one.strategy for one in first.modifications] == ["compress:script"]
    assert first.modifications == again.modifications
    assert first.rejected == again.rejected
    assert paid > 0
    assert unpaid == 0
