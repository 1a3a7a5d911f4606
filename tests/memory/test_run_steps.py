"""A run is carried on elsewhere: what another process takes over is what the first one would have done."""

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import PayloadMismatch, RunOver
from standfast.memory import Memory, Run
from standfast.memory.run_step import RunStep
from standfast.traces.artifact import ModelConfig
from standfast.traces.entries import TraceEntry
from standfast.traces.equivalence import compare
from standfast.traces.shapes import TextShape
from tests.memory.conftest import HANDBOOK, SECRET

MODEL = ModelConfig(provider_name="scripted", model_name="parrot", seed=7)


def memory_that_knows(*texts: str) -> Memory:
    """A memory with some facts, the same each time."""
    memory = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())
    with memory.run(workflow="seed", mode="buffered_write") as run:
        for number, text in enumerate(texts):
            run.remember(text, subject=f"known/{number}", source=HANDBOOK)
    return memory


def opened(memory: Memory, run_id: str | None = None, scope: str = "shared") -> Run:
    return memory.run(workflow="triage", mode="buffered_write", model=MODEL, run_id=run_id, scope=scope)


def act(run: Run) -> None:
    """One call of each kind."""
    run.recall("refunds", tokens=200)
    run.record(TraceEntry(guardrail="no-promises"))
    run.remember("UK refunds take 28 days.", subject="policy/uk", source=HANDBOOK)
    run.remember(SECRET)
    run.forget("known/1", reason="it is out of date")
    run.record(TraceEntry(output=TextShape(sections=("answer",))))


def carried_on(memory: Memory, steps: list[RunStep], run: Run, *, run_id: str | None = None) -> Run:
    """A run of another process that has taken over the steps of this one, as they are stored."""
    other = opened(memory, run_id)
    other.resume((), identity=run.identity)
    other.resume([RunStep.from_bytes(step.as_bytes()) for step in steps])
    return other


def kept(memory: Memory) -> list[tuple[str, str, str]]:
    return sorted((one.scope, one.memory_id, one.text) for one in memory.records(scope="*"))


@pytest.mark.parametrize("run_id", [None, "r"])
def test_a_run_that_was_taken_over_commits_and_records_what_the_first_one_did(run_id: str | None) -> None:
    facts = ("EU refunds take 14 days.", "Refunds are paid by cheque.")
    alone, shared = memory_that_knows(*facts), memory_that_knows(*facts)
    with opened(alone, run_id) as run:
        act(run)
    first = opened(shared, run_id)
    first.resume(())
    act(first)
    second = carried_on(shared, first.steps or [], first, run_id=run_id)
    with second:
        pass

    assert [step.verb for step in first.steps or ()] == [
        "recall",
        "record",
        "remember",
        "remember",
        "forget",
        "record",
    ]
    assert first.steps == second.steps
    assert kept(shared) == kept(alone)
    assert ("shared", "known/1", facts[1]) not in kept(shared)
    assert second.identity == first.identity
    assert run.trace is not None
    assert second.trace is not None
    comparison = compare(run.trace, second.trace)
    assert comparison.is_equivalent, comparison.differences
    assert SECRET not in str([step.as_bytes() for step in first.steps or ()])


def test_what_was_recalled_elsewhere_is_not_remembered_as_if_it_were_new() -> None:
    fact = "EU refunds take 14 days after the parcel has arrived."
    memory = memory_that_knows(fact)
    first = opened(memory)
    first.resume(())
    package = first.recall("refunds", tokens=200)
    second = carried_on(memory, first.steps or [], first)
    said = package.items[0].excerpt + " It is so."

    assert [run.remember(said).known for run in (first, second, opened(memory))] == ["known/0"] * 2 + [None]


def test_ids_that_were_given_out_elsewhere_are_not_given_again() -> None:
    memory = memory_that_knows("EU refunds take 14 days.")
    first = opened(memory)
    first.resume(())
    given = first.remember("The shop is in Lyon.").memory_id
    second = carried_on(memory, first.steps or [], first)

    assert second.remember("The shop opens at nine.").memory_id != given
    second.commit()
    assert {text for _, _, text in kept(memory)} >= {"The shop is in Lyon.", "The shop opens at nine."}


def test_a_run_that_was_taken_over_keeps_its_scope_and_snapshot() -> None:
    memory = memory_that_knows("EU refunds take 14 days.")
    first = opened(memory, scope="user/a")
    first.resume(())
    memory.remember("US refunds take 30 days.", subject="known/us")
    second = carried_on(memory, [], first)
    second.remember("The shop is in Lyon.", subject="shop")

    assert second.scope == "user/a"
    assert [item.memory_id for item in second.recall("refunds", tokens=200).items] == []
    second.commit()
    assert ("user/a", "shop", "The shop is in Lyon.") in kept(memory)


def test_the_same_calls_are_found_again_by_whoever_carries_the_run_on() -> None:
    memory = memory_that_knows("EU refunds take 14 days.")
    first = opened(memory, "r")
    first.resume(())
    first.remember("The shop is in Lyon.", subject="shop")
    second = carried_on(memory, first.steps or [], first, run_id="r")
    receipt = second.commit()
    again, other = opened(memory, "r"), opened(memory, "r")

    assert first.steps is not None
    assert first.steps[0].fingerprint
    assert again.remember("The shop is in Lyon.", subject="shop").memory_id == "shop"
    repeated = again.commit()
    assert receipt is not None
    assert repeated is not None
    assert repeated.commit_id == receipt.commit_id
    with pytest.raises(PayloadMismatch):
        other.remember("The shop is in Rome.", subject="shop")


def test_a_run_whose_policies_changed_is_not_carried_on() -> None:
    memory = memory_that_knows("EU refunds take 14 days.")
    first = opened(memory)
    other = opened(memory)
    changed = first.identity.__class__(
        **{
            name: getattr(first.identity, name)
            for name in first.identity.__struct_fields__
            if name != "policy_set_id"
        },
        policy_set_id="0" * 64,
    )

    with pytest.raises(RunOver):
        other.resume((), identity=changed)


def test_nothing_is_recorded_in_a_run_that_is_over() -> None:
    run = opened(memory_that_knows("EU refunds take 14 days."))
    run.commit()

    with pytest.raises(RunOver):
        run.record(TraceEntry(guardrail="no-promises"))
