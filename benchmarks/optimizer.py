"""The optimizer keeps its evaluation workers busy and evaluates nothing twice."""

import re
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Ratio, at_least, at_most
from standfast.optimize.evals.results import InMemoryResultCache
from standfast.optimize.evals.samples import Dataset, Sample
from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.optimize import optimize_in_process
from standfast.optimize.loops.proposals import Strategies, rewriting_strategies
from standfast.optimize.loops.strategies import Ablation
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.template import PromptTemplate, Section
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider

TITLE = "The optimiser"
WORKERS = 8
LATENCY_SECONDS = 0.05
TEMPLATE = PromptTemplate(
    ns="bench",
    key="sum",
    sections=(
        Section(
            key="role",
            title="Role",
            body="Please note that you are a calculator.\n\nYou like the sea.\n\nOne and one make two.",
        ),
        Section(key="task", title="Task", body="Add ${a} and ${b}."),
    ),
)
DATASET: Dataset[Any, Any] = Dataset(
    samples=tuple(Sample(id=f"s{n}", input={"a": n, "b": 1}, expected=str(n + 1)) for n in range(96))
)


def _script(request: ModelRequest) -> str:
    found = re.search(r"Add (\d+) and (\d+)", request.prompt)
    assert found is not None
    return str(int(found[1]) + int(found[2])) if "One and one" in request.prompt else "?"


def _optimize(cache: InMemoryResultCache, folder: str) -> tuple[float, int]:
    """Return the seconds taken and the calls of the provider."""
    provider = ScriptedProvider(_script, latency_seconds=LATENCY_SECONDS)
    start = time.perf_counter()
    result = optimize_in_process(
        TEMPLATE,
        DATASET,
        provider=provider,
        strategy=Strategies(*rewriting_strategies(), Ablation()),
        overrides_store=LocalPromptOverridesStore(Path(folder)),
        cache=cache,
        gate=GateSettings(remove_untested=True),
        workers=WORKERS,
    )
    assert result.report.has_modifications, result.error
    return time.perf_counter() - start, provider.calls


def run() -> list[Ratio]:
    """Run one optimization on a provider with fixed latency, then repeat it."""
    cache = InMemoryResultCache()
    with tempfile.TemporaryDirectory() as folder:
        seconds, calls = _optimize(cache, folder)
        again_seconds, again_calls = _optimize(cache, folder)
    ideal = calls * LATENCY_SECONDS / WORKERS
    detail = f"{calls} calls of {LATENCY_SECONDS * 1e3:.0f} ms in {seconds:.2f} s, ideally {ideal:.2f} s"
    return [
        at_least(f"share of the ideal speed-up, {WORKERS} eval workers", ideal / seconds, 0.9, detail),
        at_most("provider calls when it is done again", again_calls, 0, f"{again_seconds:.2f} s", unit=""),
    ]
