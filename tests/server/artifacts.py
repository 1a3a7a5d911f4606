"""A harness with recorded runs, a finished benchmark and a prompt: three recorded runs, a finished grid, a
prompt with an override.
"""

from pathlib import Path
from typing import Any

from standfast.bench.episodes import write_jsonl
from standfast.bench.grid import ResultsFolder, in_process, plan_grid, run_grid
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import SectionOverride
from standfast.optimize.prompts.template import PromptTemplate, Section
from tests.bench.episodes import small_episode
from tests.server.harness import Harness, make_gateway
from tests.traces.scripted import Script, a_run, recorded

TEMPLATE = PromptTemplate(
    ns="agent",
    key="support",
    sections=(Section(key="role", title="Role", body="Answer in ${language}, please."),),
)
PROMPT = "/v1/prompts/agent/support"


def shorter(body: str = "Answer in ${language}.") -> SectionOverride:
    """An override of the prompt's only section."""
    (section,) = TEMPLATE.descriptor.sections
    return SectionOverride(path=section.path, expected_hash=section.source_hash, body=body)


def put_body(body: str = "Answer in ${language}.", **more: Any) -> dict[str, Any]:
    """What is sent to set it."""
    return {"prompt": TEMPLATE.as_json(), "overrides": [shorter(body).as_json()], **more}


def artifact_harness(folder: Path) -> Harness:
    """The harness."""
    overrides = LocalPromptOverridesStore(folder / "overrides")
    overrides.replace(TEMPLATE, [shorter()], tag="stable")
    episodes = folder / "episodes.jsonl"
    write_jsonl(episodes, [small_episode(20)])
    grid, units = plan_grid([episodes], budgets=[512, 1_024], policies=["AlwaysWrite", "ExpireOldest"])
    results = ResultsFolder(folder / "results")
    results.open(grid)
    run_grid(grid, units, results, in_process)
    gateway = make_gateway(
        folder / "store.db", has_traces=True, bench_results=str(folder / "results"), overrides=overrides
    )
    assert gateway.home.traces is not None
    for run_id, query in (("run-a", "parcel"), ("run-b", "parcel"), ("run-c", "another")):
        script = Script(question="refunds", query=query)
        gateway.home.traces.put(recorded(script, a_run(run_id, workflow_id="triage", memory_snapshot_id=4)))
    return Harness(gateway)
