"""What a trace holds of a read, what of it is compared, and what an erasure does to both."""

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.limits import MAX_FOLLOWED_SNAPSHOTS
from standfast.memory import AgentRun, Memory
from standfast.records.vocabulary import ErasedSince
from standfast.store import stored_records
from standfast.store.store import Store
from standfast.traces.artifact import ModelConfig, Retrieval, Trace
from standfast.traces.equivalence import ClaimVerdict, ReasonCode, compare
from standfast.traces.replay import replay
from tests.memory.conftest import HANDBOOK

MODEL = ModelConfig(provider_name="scripted", model_name="parrot", seed=7)


def agent(run: AgentRun, *, tokens: int = 200, bands: tuple[str, ...] = ("VAULT", "LEDGER")) -> None:
    with run.event(role="agent", interceptor="main", decision_type="answer"):
        run.recall("refunds", tokens=tokens, bands=bands)
    run.output({"type": "text", "sections": ["answer"]})


def recorded(memory: Memory, *, tokens: int = 200, bands: tuple[str, ...] = ("VAULT", "LEDGER")) -> Trace:
    with memory.run(workflow="w", model=MODEL) as run:
        agent(run, tokens=tokens, bands=bands)
    assert run.trace is not None
    return run.trace


def seeded(text: str, *, namespace: str = "default") -> Memory:
    memory = Memory.open(":memory:", namespace=namespace, clock=ManualClock(), ids=CountedIds())
    memory.remember(text, subject="policy/refunds", source=HANDBOOK)
    return memory


def read_of(trace: Trace) -> Retrieval:
    (read,) = trace.retrievals
    return read


def codes(left: Trace, right: Trace) -> set[ReasonCode]:
    return {difference.code for difference in compare(left, right).differences}


def test_stores_with_opposite_contents_under_one_subject_are_not_equivalent() -> None:
    left, right = seeded("Refunds are allowed."), seeded("Refunds are forbidden.")

    assert codes(recorded(left), recorded(right)) == {ReasonCode.RECORD_HASH}
    assert compare(recorded(left), recorded(seeded("Refunds are allowed."))).is_equivalent


def test_another_namespace_budget_or_band_is_a_difference() -> None:
    memory = seeded("Refunds are allowed.")
    trace = recorded(memory)

    assert codes(trace, recorded(seeded("Refunds are allowed.", namespace="other"))) == {ReasonCode.NAMESPACE}
    assert codes(trace, recorded(memory, tokens=201)) == {ReasonCode.BUDGET}
    assert codes(trace, recorded(memory, bands=("LEDGER",))) == {ReasonCode.FILTERS}


def test_a_read_carries_what_an_audit_needs(store: Store) -> None:
    memory = Memory(store, namespace="support")
    memory.remember("Refunds are allowed.", subject="policy/refunds", source=HANDBOOK)
    package = memory.at(1).recall("refunds", tokens=200)
    read = read_of(recorded(memory))

    assert (read.namespace, read.scopes, read.filters) == (
        "support",
        ("shared",),
        {"bands": ["VAULT", "LEDGER"]},
    )
    assert (read.budget.tokens, read.budget.max_items) == (200, 50)
    assert (read.store_id, read.branch_id) == (store.identity.store_id, store.identity.branch_id)
    assert read.package_hash == package.package_hash
    assert [one.record_hash for one in read.selected_records] == [one.record_hash for one in package.items]
    assert read.candidate_count == 1
    assert read.erased_since is None


def test_candidates_that_were_dropped_are_counted() -> None:
    memory = seeded("Refunds are allowed.")
    memory.remember("Refunds take fourteen days.", source=HANDBOOK)
    with memory.run(workflow="w") as run:
        run.recall("refunds", max_items=1)

    assert run.trace is not None
    assert read_of(run.trace).candidate_count == 2


def test_what_was_erased_since_is_counted_in_the_package(memory: Memory) -> None:
    for subject, text in {"a": "Refunds are allowed.", "b": "Refunds take 14 days."}.items():
        memory.remember(text, subject=subject, source=HANDBOOK)
    then = memory.at(2).recall("refunds")
    memory.remember("Parcels take 5 days.", subject="c", source=HANDBOOK)
    before = memory.at(2).recall("refunds")
    memory.forget("a", reason="asked for")
    memory.remember("Letters take 2 days.", subject="d", source=HANDBOOK)
    after = memory.at(2).recall("refunds")

    assert then.erased_since is None
    assert "erased_since" not in then.as_json()
    assert before.package_hash == then.package_hash
    assert after.erased_since == ErasedSince(records=1, memory_snapshot_id=4)
    assert after.package_hash != then.package_hash
    assert type(after).from_json(after.as_json()) == after
    assert (then.compare(before), then.compare(after), after.compare(then)) == ("same", "erased", "erased")
    assert then.compare(memory.at(2).recall("refunds", tokens=50)) == "different"
    assert memory.recall("refunds").erased_since is None, "the newest snapshot never showed it"
    assert memory.at(1).recall("refunds").erased_since == ErasedSince(records=1, memory_snapshot_id=4)
    assert memory.at(0).recall("refunds").erased_since is None


def test_an_erasure_elsewhere_changes_no_package(store: Store) -> None:
    memory, other = Memory(store), Memory(store, namespace="other")
    memory.remember("Refunds are allowed.", subject="a", source=HANDBOOK)
    other.remember("Refunds are forbidden.", subject="a", source=HANDBOOK)
    then = memory.at(2).recall("refunds")
    other.forget("a", reason="asked for")

    assert memory.at(2).recall("refunds").package_hash == then.package_hash


def test_what_ended_before_the_snapshot_is_not_counted(memory: Memory) -> None:
    memory.remember("Refunds are allowed.", subject="a", source=HANDBOOK)
    memory.forget("a", reason="asked for")
    memory.remember("Parcels take 5 days.", source=HANDBOOK)

    assert memory.at(2).recall("refunds").erased_since is None


def test_old_snapshots_count_the_same(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.remember("Refunds are allowed.", subject="a", source=HANDBOOK)
    memory.remember("Refunds take 14 days.", subject="b", source=HANDBOOK)
    memory.forget("a", reason="asked for")
    by_ledger = memory.at(2).recall("refunds")
    monkeypatch.setattr(stored_records, "MAX_FOLLOWED_SNAPSHOTS", 0)

    assert MAX_FOLLOWED_SNAPSHOTS > 0
    assert memory.at(2).recall("refunds").package_hash == by_ledger.package_hash
    assert by_ledger.erased_since == ErasedSince(records=1, memory_snapshot_id=3)


def test_a_replay_after_an_erasure_says_so_instead_of_different(memory: Memory) -> None:
    memory.remember("Refunds are allowed.", subject="a", source=HANDBOOK)
    trace = recorded(memory)
    before = replay(trace, agent, memory=memory.at(trace.memory_snapshot_id))
    memory.forget("a", reason="asked for")
    after = replay(trace, agent, memory=memory.at(trace.memory_snapshot_id))

    assert before.verdict is ClaimVerdict.EQUIVALENT
    assert after.verdict is ClaimVerdict.ERASED
    assert after.comparison.first is not None
    assert after.comparison.first.code is ReasonCode.ERASED_SINCE
    assert after.comparison.first.right == {"records": 1, "memory_snapshot_id": 2}


def test_the_newest_of_several_erasures_is_named(memory: Memory) -> None:
    for name in ("oboe", "harp", "lute"):
        memory.remember(f"The {name} is in tune.", subject=name)
    for name in ("lute", "oboe"):
        memory.forget(name, reason="asked for")

    read = memory.at(3).recall("Which is in tune?")
    assert read.erased_since == ErasedSince(records=2, memory_snapshot_id=5)


def test_every_controller_reads_the_empty_first_snapshot_and_the_age_of_the_next(memory: Memory) -> None:
    memory.remember("The lute is in tune.", subject="lute", time="2025-01-01T00:00:00Z")

    for controller in ("phase6-v1", "lexical-v1", "hybrid-v1"):
        explained = memory.at(1).explain("lute", controller=controller).explanation
        assert [one.ceiling.confidence for one in explained.items if one.ceiling] == [0.56]
        assert memory.at(0).explain("lute", controller=controller).explanation.items == ()
