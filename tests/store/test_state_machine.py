"""The published state machine is what stores do: every step that is taken is listed, and every listed step is
taken.
"""

import jsonschema
import pytest

from standfast.errors import CommitAborted
from standfast.limits import LEASE_SECONDS
from standfast.records.vocabulary import AbortReason, BufferState
from standfast.store.pipeline import BUFFER_SCHEMA, NOTHING, TRANSITIONS, described
from standfast.store.store import Store
from tests.store.builders import commit, merge, write
from tests.store.conftest import Ager
from tests.traces.schema_files import schema

OPEN, PENDING = BufferState.OPEN, BufferState.PENDING
APPLIED, ABORTED = BufferState.APPLIED, BufferState.ABORTED
SCHEMA = jsonschema.Draft202012Validator(schema(BUFFER_SCHEMA))


class Watch:
    """Notes each step of one commit, and checks its published form."""

    def __init__(self, store: Store, run_id: str, *, conflicts: bool = False) -> None:
        self.store = store
        self.commit = commit(run_id, merge("shared", run_id) if conflicts else write(run_id), at=1)
        self.steps: list[tuple[str, str]] = []
        self.state: str = NOTHING

    def look(self) -> str:
        """Note where the commit is now. Returns the state."""
        known = self.store.status(self.commit.commit_id)
        state: str = NOTHING
        if known is not None:
            published = described(known)
            SCHEMA.validate(published.as_json())
            state = published.state
        self.steps.append((self.state, state))
        self.state = state
        return state


def test_the_steps_of_a_buffer_are_those_of_the_published_table(store: Store, age_leases: Ager) -> None:
    store.commit(commit("genesis", write("shared", 0)))
    store.commit(commit("second", merge("shared", 1), at=1))
    watches = [_at_once(store), _refused_at_once(store), _rejected(store), _grown(store), _settled(store)]
    watches += [_open_then_applied(store), _open_then_refused(store), _discarded(store), _aborted(store)]
    abandoned = Watch(store, "abandoned"), Watch(store, "left"), Watch(store, "left-and-late", conflicts=True)
    for one in abandoned:
        store.stage(one.commit, settled=one is not abandoned[0])
        one.look()
    age_leases(LEASE_SECONDS + 1)
    store.recover()
    assert [one.look() for one in abandoned] == [NOTHING, APPLIED, ABORTED]

    taken = {step for one in [*watches, *abandoned] for step in one.steps}
    assert taken == {(step.before, step.after) for step in TRANSITIONS}


def _at_once(store: Store) -> Watch:
    one = Watch(store, "at-once")
    store.commit(one.commit)
    assert one.look() == APPLIED
    return one


def _refused_at_once(store: Store) -> Watch:
    one = Watch(store, "refused", conflicts=True)
    with pytest.raises(CommitAborted, match="validation_failed"):
        store.commit(one.commit)
    assert one.look() == ABORTED
    return one


def _rejected(store: Store) -> Watch:
    one = Watch(store, "rejected")
    with pytest.raises(CommitAborted, match=r"policy_rejected.*not on Sundays"):
        store.reject(one.commit, "not on Sundays")
    assert one.look() == ABORTED
    with pytest.raises(CommitAborted, match="not on Sundays"):
        store.commit(one.commit)
    return one


def _grown(store: Store) -> Watch:
    one = Watch(store, "grown")
    store.stage(one.commit, settled=False)
    assert one.look() == OPEN
    buffer = store.stage(one.commit, settled=False)
    assert one.look() == OPEN
    store.stage(one.commit)
    assert one.look() == PENDING
    store.commit(one.commit, fence=buffer.fence)
    assert one.look() == APPLIED
    return one


def _settled(store: Store) -> Watch:
    one = Watch(store, "settled")
    buffer = store.stage(one.commit)
    assert one.look() == PENDING
    buffer = store.renew(buffer)
    assert one.look() == PENDING
    store.commit(one.commit, fence=buffer.fence)
    assert one.look() == APPLIED
    return one


def _open_then_applied(store: Store) -> Watch:
    one = Watch(store, "open-applied")
    buffer = store.stage(one.commit, settled=False)
    assert one.look() == OPEN
    store.commit(one.commit, fence=buffer.fence)
    assert one.look() == APPLIED
    return one


def _open_then_refused(store: Store) -> Watch:
    one = Watch(store, "open-refused", conflicts=True)
    buffer = store.stage(one.commit, settled=False)
    assert one.look() == OPEN
    with pytest.raises(CommitAborted, match="validation_failed"):
        store.commit(one.commit, fence=buffer.fence)
    assert one.look() == ABORTED
    return one


def _discarded(store: Store) -> Watch:
    one = Watch(store, "discarded")
    buffer = store.stage(one.commit, settled=False)
    assert one.look() == OPEN
    assert store.discard(buffer)
    assert one.look() == NOTHING
    return one


def _aborted(store: Store) -> Watch:
    one = Watch(store, "aborted")
    buffer = store.stage(one.commit)
    assert one.look() == PENDING
    store.abort(buffer, AbortReason.POLICY_REJECTED, "not on Sundays")
    assert one.look() == ABORTED
    return one


def test_a_commit_that_was_applied_is_not_rejected_afterwards(store: Store) -> None:
    one = commit("r1", write("a"))
    receipt = store.commit(one)

    assert store.reject(one, "too late").memory_snapshot_id == receipt.memory_snapshot_id


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "commit_aborted"},
        {"state": "commit_aborted", "reason_code": "bad_mood", "problem": "none"},
        {"state": "commit_applied"},
        {"state": "buffer_open", "reason_code": "policy_rejected"},
        {"state": "commit_pending", "memory_snapshot_id": 4},
        {"state": "lost"},
    ],
)
def test_the_schema_refuses_what_no_buffer_can_be(wrong: dict[str, object]) -> None:
    assert not SCHEMA.is_valid({"commit_id": "c", "commit_payload_fingerprint": "f", **wrong})
