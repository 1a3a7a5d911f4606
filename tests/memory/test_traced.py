"""Runs of memory are recorded: the same script gives equivalent traces, any change is caught, and a run plays
again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from standfast.clock import CountedIds, ManualClock, RandomIds
from standfast.errors import CommitAborted
from standfast.memory import AgentRun, Memory, Run
from standfast.traces.artifact import ModelConfig
from standfast.traces.equivalence import ClaimVerdict, compare
from standfast.traces.folder import TraceFolder
from standfast.traces.replay import replay
from tests.memory.conftest import HANDBOOK, SECRET

MODEL = ModelConfig(provider_name="scripted", model_name="parrot", seed=7)


def agent(run: AgentRun, *, query: str = "refunds", fact: str = "UK refunds take 28 days.") -> None:
    """Recalls, looks something up, remembers two things and answers."""

    @run.tool()
    def look_up(what: str) -> dict[str, str]:
        return {"answer": f"about {what}"}

    with run.event(role="agent", interceptor="main", decision_type="answer"):
        context = run.recall(query, tokens=200)
        look_up(context.items[0].memory_id)
        run.remember(fact, subject="policy/uk-refunds", source=HANDBOOK, tags=["b", "a"])
        run.remember(SECRET)
    run.output({"type": "text", "sections": ["answer"]})


def played(
    store_clock: ManualClock | None = None, act: Callable[..., None] = agent, **changes: Any
) -> tuple[Memory, Run]:
    """A memory that knows one thing, and a run over it."""
    seeded = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())
    with seeded.run(workflow="seed", mode="buffered_write") as run:
        run.remember(
            changes.pop("known", "EU refunds take 14 days."), subject="policy/eu-refunds", source=HANDBOOK
        )
    if store_clock is not None:
        seeded.store.clock = store_clock
    memory = Memory(seeded.store)
    with memory.run(
        workflow="triage", mode="buffered_write", model=changes.pop("model", MODEL), run_id="r"
    ) as run:
        act(run, **changes)
    return memory, run


def test_the_same_script_gives_equivalent_traces_at_another_time() -> None:
    later = ManualClock()
    later.advance(86_400)
    left, right = played()[1].trace, played(later)[1].trace

    assert left is not None
    assert right is not None
    assert left.metadata.started_at != right.metadata.started_at
    comparison = compare(left, right)
    assert comparison.is_equivalent, comparison.differences


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"query": "EU refunds"}, "query_fingerprint"),
        ({"fact": "UK refunds take 29 days."}, "normalized_args"),
        ({"model": ModelConfig(provider_name="scripted", model_name="parrot", seed=8)}, "model_config_id"),
    ],
)
def test_every_change_is_caught_with_its_own_code(changes: dict[str, Any], code: str) -> None:
    left, right = played()[1].trace, played(**changes)[1].trace

    assert left is not None
    assert right is not None
    assert code in {difference.code for difference in compare(left, right).differences}


def test_floors_that_failed_are_guardrails_in_the_trace() -> None:
    trace = played()[1].trace

    assert trace is not None
    assert "F5_Secrecy" in trace.events[0].guardrails_triggered
    assert "AKIA" not in str([event.guardrails_triggered for event in trace.events])


def test_a_run_plays_again_against_its_snapshot() -> None:
    memory, run = played()
    assert run.trace is not None
    again = replay(run.trace, agent, memory=memory.at(run.identity.memory_snapshot_id))

    assert again.verdict is ClaimVerdict.EQUIVALENT, again.comparison.differences
    assert memory.store.head() == 2, "a replay writes nothing"
    parted = replay(run.trace, lambda r: agent(r, fact="Other."), memory=memory.at(1))
    assert parted.verdict is ClaimVerdict.DIFFERENT


def test_traces_are_kept_in_a_folder(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    memory = Memory.open(str(tmp_path / "agent.db"), traces=folder)
    with memory.run(workflow="w", mode="buffered_write", run_id="one") as run:
        run.remember("EU refunds take 14 days.", source=HANDBOOK)

    def fail() -> None:
        with memory.run(workflow="w", run_id="two"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert folder.get("one").run_id == "one"
    assert "run_failed" in {gap.code for gap in folder.get("two").metadata.gaps}
    memory.close()


def test_the_trace_of_a_failed_attempt_gives_way_to_that_of_the_one_that_is_committed(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    with Memory.open(":memory:", traces=folder) as memory:
        runs = [memory.run(workflow="w", mode="buffered_write", run_id="again") for _ in range(3)]
        for run in runs:
            run.remember("EU refunds take 14 days.", source=HANDBOOK)
        runs[0].discard()
        runs[1].commit()
        runs[2].discard()

        assert folder.get("again") == runs[1].trace
        assert [run.trace_problem is None for run in runs] == [True, True, False]


def test_an_attempt_that_fails_again_is_no_other_run_of_its_id(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    with Memory.open(":memory:", traces=folder) as memory:
        runs = []
        for days in (10, 12):
            run = memory.run(workflow="w", mode="buffered_write", run_id="again")
            memory.remember(f"EU refunds take {days} days.", subject="eu", source=HANDBOOK)
            run.remember("EU refunds take 14 days.", subject="eu", source=HANDBOOK)
            with pytest.raises(CommitAborted):
                run.commit()
            runs.append(run)

        assert [run.trace_problem for run in runs] == [None, None]
        assert folder.get("again") == runs[1].trace
        assert memory.warnings == []


@pytest.mark.parametrize(("workflow", "mode"), [("other", "buffered_write"), ("w", "read_only")])
def test_the_trace_of_a_failed_run_does_not_give_way_to_another_run_of_its_id(
    tmp_path: Path, workflow: str, mode: str
) -> None:
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    with Memory.open(":memory:", traces=folder) as memory:
        failed = memory.run(workflow="w", mode="buffered_write", run_id="again")
        failed.discard()
        other = memory.run(workflow=workflow, mode=mode, run_id="again")
        other.commit()

        assert folder.get("again") == failed.trace
        assert other.trace_problem is not None


def test_a_trace_that_can_not_be_kept_fails_nothing_that_was_committed(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    memory = Memory.open(":memory:", traces=folder)
    runs = [memory.run(workflow="w", mode="buffered_write", run_id="twice") for _ in range(2)]
    runs[0].remember("EU refunds take 14 days.", source=HANDBOOK)
    runs[0].commit()
    runs[1].discard()

    assert runs[0].receipt is not None
    assert runs[1].trace_problem is not None
    assert runs[1].trace_problem.code == "trace_exists"
