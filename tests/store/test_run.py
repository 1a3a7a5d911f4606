"""A run at store level: what it sees, what it may write, and how it ends."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import CommitAborted, InvalidValue, NotAllowed, PayloadMismatch, RunOver
from standfast.store.run import StoreRun
from standfast.store.store import Store
from standfast.vocabulary import VisibilityMode
from tests.store.builders import NAMESPACE, commit, contents, memory_store, sqlite_store, write

OFF, READ_ONLY = VisibilityMode.OFF, VisibilityMode.READ_ONLY
BUFFERED, LIVE = VisibilityMode.BUFFERED_WRITE, VisibilityMode.LIVE_READ_WRITE


def _open(store: Store, mode: VisibilityMode = BUFFERED, run_id: str | None = None) -> StoreRun:
    return StoreRun.open(
        store, workflow_id="tests", policy_set_id="policies", namespace=NAMESPACE, mode=mode, run_id=run_id
    )


def _seen(run: StoreRun) -> dict[str, str]:
    return {version.key: (version.content or b"").decode() for version in run.scan()}


def _changes_of(run: StoreRun) -> list[Callable[[], None]]:
    """All three ways to change a record."""
    return [lambda: run.write("a", 2), lambda: run.merge("a", 2), lambda: run.expire("a")]


def test_a_run_starts_from_the_newest_snapshot(store: Store) -> None:
    store.commit(commit("r1", write("a")))
    run = _open(store)

    assert run.run.memory_snapshot_id == 1
    assert run.mode is BUFFERED
    assert len(run.run.run_id) == 32


def test_leaving_the_block_commits(store: Store) -> None:
    with _open(store) as run:
        run.write("a", 1)
        run.write("b", 2)

    assert contents(store) == {"a": "1", "b": "2"}
    assert store.head() == 1


def test_an_exception_discards(store: Store) -> None:
    with suppress(ZeroDivisionError), _open(store) as run:
        run.write("a", 1)
        raise ZeroDivisionError

    assert contents(store) == {}
    with pytest.raises(RunOver):
        run.write("b", 2)


def test_a_run_that_writes_nothing_commits_nothing(store: Store) -> None:
    with _open(store) as run:
        run.read(["a"])

    assert store.head() == 0
    assert run.commit() is None


def test_committing_again_gives_the_same_receipt(store: Store) -> None:
    with _open(store) as run:
        run.write("a", 1)
        first = run.commit()
    again = run.commit()

    assert first is not None
    assert again is not None
    assert (first.ledger_hash, first.replayed, again.replayed) == (again.ledger_hash, False, True)
    assert store.head() == 1


def test_a_run_is_over_after_its_commit_and_after_its_discard(store: Store) -> None:
    committed, discarded = _open(store), _open(store)
    committed.write("a", 1)
    committed.commit()
    discarded.write("b", 1)
    discarded.discard()

    for run in (committed, discarded):
        with pytest.raises(RunOver, match=run.run.run_id):
            run.write("c", 1)
    assert discarded.commit() is None
    assert contents(store) == {"a": "1"}


def test_a_place_is_written_once_in_a_run(store: Store) -> None:
    run = _open(store)
    run.write("a", 1)
    for again in _changes_of(run):
        with pytest.raises(InvalidValue, match="written twice"):
            again()
    run.commit()

    assert contents(store) == {"a": "1"}


@pytest.mark.parametrize("mode", [OFF, READ_ONLY])
def test_who_may_not_write_is_refused(store: Store, mode: VisibilityMode) -> None:
    with _open(store, mode) as run:
        for change in _changes_of(run):
            with pytest.raises(NotAllowed, match=mode):
                change()

    assert store.head() == 0


def test_a_run_that_is_off_sees_nothing(store: Store) -> None:
    store.commit(commit("r1", write("a")))
    run = _open(store, OFF)

    assert run.read(["a"]) == {}
    assert list(run.scan()) == []


def test_a_run_sees_its_snapshot_whatever_happens_meanwhile(store: Store) -> None:
    store.commit(commit("r1", write("a", 1)))
    runs = [_open(store, READ_ONLY), _open(store, BUFFERED)]
    with _open(store) as other:
        other.merge("a", 2)
        other.write("b", 2)

    assert [_seen(run) for run in runs] == [{"a": "1"}] * 2
    assert [list(run.read(["a", "b"])) for run in runs] == [["a"]] * 2
    assert contents(store) == {"a": "2", "b": "2"}


def test_buffered_writes_are_invisible_to_the_run_and_to_everyone(store: Store) -> None:
    store.commit(commit("r1", write("a", 1), write("gone", 1)))
    run = _open(store)
    run.merge("a", 2)
    run.write("b", 2)
    run.expire("gone")

    for looker in (run, _open(store, READ_ONLY), _open(store, LIVE)):
        assert _seen(looker) == {"a": "1", "gone": "1"}
    assert store.status(run.pending_commit().commit_id) is None  # type: ignore[union-attr]


def test_a_live_run_sees_its_own_writes_and_those_of_others_at_once(store: Store) -> None:
    run = _open(store, LIVE)
    run.write("a", 1)
    run.merge("a", 2)
    with _open(store) as other:
        other.write("b", 3)
    run.expire("a")

    assert _seen(run) == {"b": "3"}
    assert [version.action for version in store.history(NAMESPACE, "a")] == ["WRITE", "MERGE", "EXPIRE"]


def test_a_live_run_goes_on_after_a_refusal(store: Store) -> None:
    """The refused write has used up the commit id of this run at this snapshot; the next one must not collide with it."""
    store.commit(commit("r1", write("a", 1)))
    run = _open(store, LIVE)
    for _ in range(2):
        with pytest.raises(CommitAborted, match="use MERGE"):
            run.write("a", 2)
    run.merge("a", 2)

    assert _seen(run) == {"a": "2"}


def test_two_runs_that_read_modify_write_lose_no_update(store: Store) -> None:
    store.commit(commit("r1", write("counter", 0)))
    left, right = _open(store), _open(store)
    for run in (left, right):
        run.merge("counter", int(run.read(["counter"])["counter"].content or b"0") + 1)
    left.commit()

    with pytest.raises(CommitAborted, match="validation_failed"):
        right.commit()
    assert contents(store) == {"counter": "1"}


def test_leaving_the_block_tells_of_a_conflict(store: Store) -> None:
    with pytest.raises(CommitAborted, match="no such record"), _open(store) as run:
        run.merge("nothing", 1)

    assert store.head() == 0


def test_a_run_that_is_resumed_under_its_id_is_the_same_run(store: Store) -> None:
    """A process that starts again with the same run and the same writes finds its commit; with others it is refused."""
    first, second, third = (_open(store, run_id="r1") for _ in range(3))
    first.write("a", 1)
    first.commit()
    second.write("a", 1)
    third.write("a", 2)
    receipt = second.commit()

    assert receipt is not None
    assert receipt.replayed
    with pytest.raises(PayloadMismatch):
        third.commit()


def test_namespaces_of_runs_are_apart(store: Store) -> None:
    with StoreRun.open(
        store, workflow_id="tests", policy_set_id="policies", namespace="elsewhere", mode=BUFFERED
    ) as run:
        run.write("a", 1)

    assert _seen(_open(store, READ_ONLY)) == {}


# Whatever runs do side by side, each sees what its mode says, at every moment.

KEYS = ["a", "b", "c"]
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.sampled_from(list(VisibilityMode))),
        st.tuples(
            st.sampled_from(["write", "merge", "expire"]),
            st.integers(0, 5),
            st.sampled_from(KEYS),
            st.integers(),
        ),
        st.tuples(st.sampled_from(["commit", "discard"]), st.integers(0, 5)),
    ),
    max_size=30,
)


class Model:
    """What every snapshot shows and what every run has buffered, kept beside the store as plain dictionaries."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.states: list[dict[str, str]] = [{}]
        self.runs: list[StoreRun] = []
        self.buffers: list[dict[str, str | None]] = []

    def act(self, what: str, *how: Any) -> None:
        """Let a run do something; what it may not do changes nothing."""
        if what == "open":
            self.runs.append(_open(self.store, how[0]))
            self.buffers.append({})
        elif self.runs:
            number = how[0] % len(self.runs)
            with suppress(CommitAborted, NotAllowed, RunOver, InvalidValue):
                self._change(self.runs[number], self.buffers[number], what, *how[1:])

    def _change(self, run: StoreRun, buffer: dict[str, str | None], what: str, *how: Any) -> None:
        match what:
            case "commit":
                receipt = run.commit()
                if receipt is not None and not receipt.replayed:
                    self._apply(buffer)
            case "discard":
                run.discard()
                buffer.clear()
            case _:
                key, value = how
                getattr(run, what)(key, *([] if what == "expire" else [value % 100]))
                buffer[key] = None if what == "expire" else str(value % 100)
                if run.mode is LIVE:
                    self._apply(buffer)
                    buffer.clear()

    def _apply(self, buffer: dict[str, str | None]) -> None:
        after = {**self.states[-1], **buffer}
        self.states.append({key: value for key, value in after.items() if value is not None})

    def check(self) -> None:
        """Every run sees what its mode says, and so does who looks from outside."""
        assert self.store.head() == len(self.states) - 1
        assert contents(self.store) == self.states[-1]
        for run in self.runs:
            shown = {OFF: {}, LIVE: self.states[-1]}.get(run.mode, self.states[run.run.memory_snapshot_id])
            assert _seen(run) == shown
            assert {key: (v.content or b"").decode() for key, v in run.read(KEYS).items()} == shown


def _play(store: Store, acts: list[Any]) -> None:
    model = Model(store)
    for act in acts:
        model.act(*act)
        model.check()
    for snapshot, state in enumerate(model.states):
        assert contents(store, snapshot) == state


@given(ACTS)
def test_every_mode_sees_what_it_should_in_memory(acts: list[Any]) -> None:
    _play(memory_store(), acts)


@settings(max_examples=30)
@given(ACTS)
def test_every_mode_sees_what_it_should_on_sqlite(acts: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = sqlite_store(Path(folder) / "store.db")
        try:
            _play(store, acts)
        finally:
            store.close()
