"""What is kept of law and patterns is what reading anew gives: whoever commits, in whichever namespace, at
any snapshot.
"""

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.clock import CountedIds
from standfast.govern.judge.judge import Claim, FloorRegistry, Judge, JudgingContext
from standfast.memory import Memory
from standfast.memory.judging_cache import JudgingCache
from standfast.records.vocabulary import ActionType, Band, Record, Verdict
from standfast.store.commit import Commit, Write
from standfast.store.store import Store
from tests.memory.conftest import HANDBOOK, SIGNERS, decision
from tests.store.builders import memory_store

JUDGE = Judge(FloorRegistry.shipped())
NAMESPACES = ("default", "other")
CHANGES = st.tuples(
    st.sampled_from(["mine", "another's", "mine, as an agent"]),
    st.sampled_from(NAMESPACES),
    st.sampled_from([Band.VAULT, Band.WITNESS, Band.LEDGER, Band.LEDGER, Band.LEDGER]),
    st.integers(0, 2),
    st.booleans(),
)


def _record(band: Band, name: int, number: int) -> Record:
    return Record(
        memory_id=f"scar/{name}",
        text=f"Gate {name} opens at {number % 24} h.",
        subject=f"gate/{name}",
        source=HANDBOOK,
        band=band,
    )


def _committed(store: Store, namespace: str, band: Band, name: int, *, ends: bool) -> Commit:
    """A plain commit, as the desk, a sweep or another process would make it."""
    head = store.head()
    key = f"{band}/shared//scar/{name}"
    there = key in store.read(namespace, [key])
    action = ActionType.EXPIRE if there and ends else ActionType.MERGE if there else ActionType.WRITE
    row = None if action is ActionType.EXPIRE else _record(band, name, head).as_json()
    commit = Commit.of(
        run_id=f"run-{head}",
        memory_snapshot_id=head,
        policy_set_id="p",
        writes=[Write.of(namespace, key, action, row)],
    )
    store.commit(commit)
    return commit


def _anew(store: Store, namespace: str, at: int) -> JudgingContext:
    return JudgingCache(store, namespace).at(at)


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.tuples(CHANGES, st.integers(0, 30), st.integers(0, 30)), max_size=25))
def test_what_is_kept_is_what_reading_anew_gives(
    steps: Sequence[tuple[tuple[str, str, Band, int, bool], int, int]],
) -> None:
    mine = memory_store()
    theirs = Store(mine._storage, clock=mine.clock, ids=CountedIds())
    memories = {namespace: Memory(mine, namespace=namespace) for namespace in NAMESPACES}
    numbers = count()
    for (who, namespace, band, name, ends), *looks in steps:
        memory = memories[namespace]
        if who == "mine, as an agent":
            run = memory.run(workflow="w", mode="buffered_write", run_id=f"agent-{next(numbers)}")
            run.remember(
                f"Gate {name} was painted in {mine.head()}.", subject=f"gate/{name}", source=HANDBOOK
            )
            run.commit()
        else:
            _committed(mine if who == "mine" else theirs, namespace, band, name, ends=ends)
        for look in (*looks, mine.head()):
            at = min(look, mine.head())
            for requested, one in memories.items():
                assert one.judging_cache.at(at) == _anew(theirs, requested, at)


def test_law_that_nobody_touched_is_not_worked_out_again() -> None:
    store = memory_store()
    memory, other = Memory(store), Memory(Store(store._storage, clock=store.clock, ids=CountedIds()))
    _committed(store, "default", Band.VAULT, 1, ends=False)
    first = memory.judging_cache.at(store.head())
    with memory.run(workflow="w", mode="buffered_write", run_id="a") as run:
        run.remember("The harbour takes sailing boats only.", source=HANDBOOK)
    with other.run(workflow="w", mode="buffered_write", run_id="b") as run:
        run.remember("Tower 7 needs new windows in spring.", source=HANDBOOK)
    _committed(store, "other", Band.VAULT, 1, ends=False)

    assert memory.judging_cache.at(2) is first
    _committed(store, "default", Band.WITNESS, 1, ends=False)
    assert memory.judging_cache.at(store.head()) is not first
    assert memory.judging_cache.at(store.head()).patterns


def test_a_human_s_seal_binds_the_very_next_run_that_speaks_of_its_subject() -> None:
    memory = Memory(memory_store())
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.remember("Gate 1 opens at 8 h.", subject="gate/1", source=HANDBOOK, propose=True)
    (waiting,) = memory.approvals.waiting()
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)
    run = memory.run(workflow="w", mode="buffered_write")
    denied = run.remember("Gate 1 opens at 9 h.", subject="gate/1", source={"kind": "mail", "id": "7"})
    amended = run.remember("Gate 1 opens at 9 h.", subject="gate/1", source=HANDBOOK, propose=True)

    assert denied.verdict is Verdict.VOID
    (reason,) = denied.reasons
    assert reason.startswith("rejected: contradicts sealed memory gate/1 (another number or date). ")
    assert reason.endswith("[F2_Truth]")
    assert amended.verdict is Verdict.SEAL, "amending is what a proposal is for, and a human decides"
    assert amended.bands == (Band.PHOENIX,)


def test_what_a_run_accepted_is_known_to_its_next_claim() -> None:
    """The last claim of a run is never put on a shelf; every other is, before the next one is judged."""
    run = Memory(memory_store()).run(workflow="w", mode="buffered_write")
    run.remember("The harbour takes sailing boats only.", source=HANDBOOK)
    again = run.remember("The harbour takes sailing boats only!", source=HANDBOOK)

    assert again.known is not None


@settings(max_examples=settings().max_examples // 2)
@given(st.frozensets(st.text(max_size=5), max_size=2), st.lists(st.text(max_size=20), max_size=2))
def test_seeing_nothing_else_changes_nothing(refused: frozenset[str], recalled: list[str]) -> None:
    law = JudgingContext(vault=(_record(Band.VAULT, 1, 8),)).precomputed()
    seen = law.updated(refused=refused, recalled=tuple(recalled))
    fresh = JudgingContext(vault=law.vault, refused=refused, recalled=tuple(recalled))
    claim = Claim(record=_record(Band.LEDGER, 1, 9))

    assert seen == fresh
    assert (seen is law) == (not refused and not recalled)
    assert JUDGE.judge(claim, seen) == JUDGE.judge(claim, fresh)


def test_law_that_another_process_sealed_right_after_the_cached_snapshot_is_seen() -> None:
    mine = memory_store()
    theirs = Store(mine._storage, clock=mine.clock, ids=CountedIds())
    for name in range(3):
        _committed(mine, "default", Band.VAULT, name, ends=False)
    cache = JudgingCache(mine, "default")
    cache.at(3)
    _committed(theirs, "default", Band.VAULT, 7, ends=False)
    _committed(theirs, "default", Band.LEDGER, 8, ends=False)

    assert [law.memory_id for law in cache.at(5).vault] == [
        law.memory_id for law in _anew(mine, "default", 5).vault
    ]
    assert len(cache.at(5).vault) == 4


def test_a_commit_of_its_own_hides_no_law_that_another_process_sealed_right_before_it() -> None:
    mine = memory_store()
    theirs = Store(mine._storage, clock=mine.clock, ids=CountedIds())
    _committed(mine, "default", Band.VAULT, 1, ends=False)
    cache = JudgingCache(mine, "default")
    cache.at(1)
    _committed(theirs, "default", Band.VAULT, 2, ends=False)
    own = Commit.of(
        run_id="own",
        memory_snapshot_id=1,
        policy_set_id="p",
        writes=[Write.of("default", "LEDGER/shared//m-1", ActionType.WRITE, {"text": "It rains."})],
    )
    cache.saw(own, mine.commit(own))

    assert [law.memory_id for law in cache.at(3).vault] == ["scar/1", "scar/2"]


def test_a_subject_s_own_record_is_known_though_many_others_say_the_same() -> None:
    memory = Memory(memory_store())
    for number in range(9):
        memory.remember("The gate opens at 8 h.", subject=f"gate/{number}", source=HANDBOOK)

    assert memory.remember("The gate opens at 8 h.", subject="gate/8", source=HANDBOOK).known == "gate/8"


def test_the_contexts_of_many_scopes_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standfast.memory.judging_cache._MAX_SCOPES", 3)
    store = memory_store()
    cache = JudgingCache(store, "default")
    for number in range(9):
        cache.at(0, f"user/{number}")
        assert cache._cached is not None
        assert len(cache._cached.contexts) <= 5
