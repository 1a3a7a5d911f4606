"""Two lives of a store whose disk is watched: the first ends in the middle of a sync, the second finds what
it left.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec
import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import CommitAborted
from standfast.records.vocabulary import Receipt
from standfast.store.commit import Commit
from standfast.store.protocol import AppliedCommit, Buffer
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from tests.store.builders import commit, contents, expire, merge, noise, sqlite_store, write
from tests.store.recording_vfs import (
    DATABASE,
    Op,
    WatchedVFS,
    Watcher,
    in_child,
    io_error,
    save,
    watch_head_file,
)

KILLED = 9
PENDING = commit("pending", write("p", "applied by recovery"))
FINISHED = commit("finished", write("f", "staged, then applied by its owner"), at=4)
KILLED_COMMIT = commit("killed", write("killed", "y" * 3000), at=14)


class Outcome(NamedTuple):
    """A state of the store: its newest snapshot, and the commits that are staged and not yet applied."""

    head: int
    pending: frozenset[str] = frozenset()


class Begun(NamedTuple):
    """From here on the store may be found in any of these states, in this order."""

    outcomes: tuple[Outcome, ...]


class Reached(NamedTuple):
    """A state was acknowledged; the store must never be found before it again."""

    outcome: Outcome


Log = list[Op | Begun | Reached]


class Recording(msgspec.Struct):
    """What happened to the files, and what the store promised meanwhile."""

    log: Log
    applied: list[AppliedCommit]
    contents: list[dict[str, Any]]
    """What each snapshot shows, from 0 on."""


class Recorder(Watcher):
    """Keeps a log. ``on_sync`` is done once, in place of or before the next sync of the write-ahead log."""

    def __init__(self) -> None:
        self.log: Log = []
        self.on_sync: Callable[[], None] | None = None

    def before(self, kind: str, name: str) -> None:
        """Let the plan for the next sync happen."""
        if kind == "sync" and name == "-wal" and self.on_sync is not None:
            plan, self.on_sync = self.on_sync, None
            plan()

    def happened(self, op: Op) -> None:
        """Keep it."""
        self.log.append(op)

    def fail(self) -> None:
        """A sync that fails."""
        self.log.append(Op("failed_sync", "-wal"))
        raise io_error(apsw.SQLITE_IOERR_FSYNC, "no sync today")


class Life:
    """A store at work in this process, and the log of its disk."""

    def __init__(self, folder: Path, *, outcome: Outcome, lives_before: int) -> None:
        self.recorder = Recorder()
        WatchedVFS(self.recorder)
        watch_head_file(self.recorder)
        self.clock = ManualClock()
        self.ids = CountedIds()
        for _ in range(100 * lives_before):
            self.ids.new_id()
        self._path = folder / DATABASE
        self.outcome = outcome
        self.store = sqlite_store(self._path, self.clock, self.ids)

    def reopen(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = sqlite_store(self._path, self.clock, self.ids)

    def checkpoint(self, mode: int) -> None:
        """Fold the write-ahead log into the database."""
        assert isinstance(self.store._storage, SQLiteStorage)
        self.store._storage._writer.wal_checkpoint(mode=mode)

    def step(
        self,
        work: Callable[[], object],
        *,
        commits: int = 0,
        stages: Commit | None = None,
        settles: Commit | None = None,
    ) -> None:
        """Do something that changes the store in one transaction, and check that it has."""
        pending = self.outcome.pending | {stages.commit_id} if stages else self.outcome.pending
        pending = pending - {settles.commit_id} if settles else pending
        then = Outcome(self.outcome.head + commits, frozenset(pending))
        self.recorder.log.append(Begun((then,)))
        work()
        self.reached(then)
        assert self.store.head() == then.head

    def reached(self, outcome: Outcome) -> None:
        """Note that the store has acknowledged a state."""
        self.outcome = outcome
        self.recorder.log.append(Reached(outcome))

    def commit(self, asked: Commit) -> None:
        """One commit, acknowledged."""
        self.step(lambda: self.store.commit(asked), commits=1)

    def group(self, leader: Commit, followers: list[Commit]) -> None:
        """One committer is held in its sync until the others wait; they then share the next one."""
        held, go_on = threading.Event(), threading.Event()
        head, pending = self.outcome
        alone = Outcome(head + 1, pending)
        together = Outcome(alone.head + len(followers), pending)

        def hold() -> None:
            held.set()
            go_on.wait()

        self.recorder.on_sync = hold
        self.recorder.log.append(Begun((alone, together)))
        first = threading.Thread(target=self.store.commit, args=(leader,))
        first.start()
        held.wait()
        others = [threading.Thread(target=self.store.commit, args=(follower,)) for follower in followers]
        for number, other in enumerate(others, 1):
            other.start()
            while len(self.store._group._waiting) < number:
                time.sleep(0.001)
        go_on.set()
        for thread in (first, *others):
            thread.join()
        self.reached(together)
        assert self.store.head() == together.head


def record(folder: Path) -> Recording:
    """Both lives, each in a process of its own."""
    log, outcome = in_child(first_life, folder, folder=folder, exit_code=KILLED)
    recording = in_child(second_life, folder, outcome, folder=folder)
    recording.log[:0] = log
    assert isinstance(recording, Recording)
    return recording


def first_life(folder: Path) -> None:
    """Commits of all kinds and sizes; the last one is killed when it is written and not yet synced."""
    life = Life(folder, outcome=Outcome(0), lives_before=0)
    store = life.store
    life.commit(commit("r1", write("a", 1)))
    life.commit(commit("r2", *(write(f"b{n}", {"n": n}) for n in range(5)), at=1))
    life.commit(commit("r3", write("long", noise(9000)), merge("a", 2), at=2))
    life.commit(commit("r4", expire("b0"), merge("b1", "changed"), write("c"), at=3))
    life.step(lambda: store.stage(FINISHED), stages=FINISHED)
    life.commit(commit("r5", write("d", "between"), at=4))
    life.step(lambda: store.commit(FINISHED, fence=1), commits=1, settles=FINISHED)
    life.checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
    life.commit(commit("r6", merge("a", "the log starts anew"), at=6))
    life.step(lambda: store.stage(PENDING), stages=PENDING)
    life.group(commit("g0", write("g0")), [commit(f"g{n}", write(f"g{n}", n)) for n in range(1, 4)])
    life.step(lambda: _refused(store))
    life.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
    life.commit(commit("r7", write("b0", "back again"), expire("long"), at=11))
    life.reopen()
    life.commit(commit("r8", merge("b2", noise(2000)), at=12))
    life.recorder.on_sync = life.recorder.fail
    life.commit(commit("r9", write("e", "its first sync fails"), at=13))
    life.recorder.on_sync = lambda: _die(life, folder)
    life.commit(KILLED_COMMIT)


def second_life(folder: Path, outcome: Outcome) -> Recording:
    """Finds what the killed commit left, is asked for its receipt, and goes on."""
    life = Life(folder, outcome=outcome, lives_before=1)
    life.commit(KILLED_COMMIT)
    life.checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
    life.clock.advance(60)
    life.step(life.store.recover, commits=1, settles=PENDING)
    life.commit(commit("r10", merge("p", "and on"), at=16))
    life.store.close()
    log = list(life.recorder.log)
    after = sqlite_store(folder / DATABASE, life.clock)
    assert list(after.verify()) == []
    applied = after.commits(after=0, limit=100)
    return Recording(
        log=log, applied=applied, contents=[contents(after, at) for at in range(len(applied) + 1)]
    )


def pending_of(store: Store) -> frozenset[str]:
    """Which of the commits that are ever staged are pending in this store."""
    found = (store.status(staged.commit_id) for staged in (FINISHED, PENDING))
    return frozenset(status.commit_id for status in found if isinstance(status, Buffer))


def recovered(store: Store) -> list[str]:
    """The commits that recovery applies."""
    store.clock.sleep(3600)
    return sorted(answer.commit_id for answer in store.recover() if isinstance(answer, Receipt))


def _refused(store: Store) -> None:
    with pytest.raises(CommitAborted):
        store.commit(commit("refused", merge("nothing")))


def _die(life: Life, folder: Path) -> None:
    save(first_life, folder, (life.recorder.log, life.outcome))
    os._exit(KILLED)
