"""``standfast trace replay --store``: a run of memory is played again from its snapshot, through the command
line.
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from standfast.clock import RandomIds
from standfast.memory import AgentRun, Memory
from standfast.traces.artifact import ModelConfig
from standfast.traces.folder import TraceFolder
from tests.memory.conftest import HANDBOOK

AGENT = f"{__name__}:agent"


def agent(run: AgentRun) -> None:
    """Recalls, remembers what it made of it, and answers."""
    context = run.recall("EU refunds", tokens=200, max_items=3)
    run.remember(f"Customers were told of {len(context.items)} rules.", subject="told", source=HANDBOOK)
    run.output({"type": "text", "sections": ["answer"]})


def other_agent(run: AgentRun) -> None:
    """Asks something else."""
    run.recall("US refunds", tokens=200)
    run.output({"type": "text", "sections": ["answer"]})


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that went on after a recorded run, in the working folder; the trace's path."""
    monkeypatch.chdir(tmp_path)
    with Memory.open("agent.db", namespace="acme", traces=TraceFolder(tmp_path, ids=RandomIds())) as memory:
        for text in ("EU refunds take 14 days.", "EU refunds are free.", "Not for us."):
            with memory.run(workflow="seed", mode="buffered_write") as run:
                run.remember(text, subject=text, source=HANDBOOK)
        model = ModelConfig(provider_name="scripted", model_name="parrot", seed=7)
        with memory.run(workflow="w", mode="buffered_write", run_id="golden", model=model) as run:
            agent(run)
        with memory.run(workflow="later", mode="buffered_write") as run:
            run.remember("EU refunds need a receipt since May.", subject="new", source=HANDBOOK)
    return "golden.json"


def replay(*words: str) -> Result:
    return CliRunner().invoke(main, ["trace", "replay", *words])


def test_a_run_of_memory_plays_again_from_its_snapshot(recorded: str) -> None:
    before = Path("agent.db").read_bytes()
    same = replay(recorded, AGENT, "--store", "agent.db", "--namespace", "acme")
    other = replay(
        recorded, f"{__name__}:other_agent", "--store", "agent.db", "--namespace", "acme", "--json"
    )

    assert same.exit_code == 0, same.output
    assert other.exit_code == 1
    assert "query_fingerprint" in {one["code"] for one in json.loads(other.output)["differences"]}
    assert Path("agent.db").read_bytes() == before


def test_memory_of_another_tenant_gives_another_answer(recorded: str) -> None:
    result = replay(recorded, AGENT, "--store", "agent.db", "--namespace", "other", "--json")

    assert result.exit_code == 1
    assert "selected_records" in {one["code"] for one in json.loads(result.output)["differences"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "memory as of snapshot 3"),
        (["--namespace", "acme"], "--store"),
        (["--store", "agent.db", "--memory", AGENT], "not both"),
        (["--store", "no-such.db"], "no such store"),
        (["--store", "empty.db"], "no_such_snapshot"),
        (["--store", "golden.json"], "cannot_open"),
    ],
)
def test_a_mistake_is_told_in_words(recorded: str, words: list[str], message: str) -> None:
    Memory.open("empty.db").close()
    result = replay(recorded, AGENT, *words)

    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
