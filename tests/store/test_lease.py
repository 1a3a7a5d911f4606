"""A lease that renews itself keeps others away; one that is lost says so."""

import threading

from standfast.clock import ManualClock
from standfast.errors import StaleFence
from standfast.limits import LEASE_SECONDS
from standfast.store.lease import Lease
from tests.store.builders import commit, contents, memory_store, write


def _until(condition: threading.Event, lease: Lease, before: float) -> None:
    """Wait until the lease was renewed or lost."""
    while lease.lost is None and lease.buffer.lease_until == before:
        condition.wait(0.001)


def test_a_kept_commit_is_not_taken_over() -> None:
    clock = ManualClock()
    store = memory_store(clock)
    pending = commit("r1", write("a"))
    with Lease(store, store.stage(pending), renew_seconds=0.001) as lease:
        for _ in range(5):
            before = lease.buffer.lease_until
            clock.advance(LEASE_SECONDS / 3)
            _until(threading.Event(), lease, before)
            assert store.recover() == []
        store.commit(pending, fence=lease.buffer.fence)

    assert contents(store) == {"a": '"x"'}


def test_a_lease_that_was_lost_says_so_and_can_not_be_used() -> None:
    clock = ManualClock()
    store, other = memory_store(clock), None
    other = type(store)(store._storage, clock=clock, ids=store.ids, any_rows=True)
    buffer = store.stage(commit("r1", write("a")))
    clock.advance(LEASE_SECONDS + 1)
    other.recover()
    with Lease(store, buffer, renew_seconds=0.001) as lease:
        _until(threading.Event(), lease, buffer.lease_until)

    assert isinstance(lease.lost, StaleFence)
    assert store.head() == 1
