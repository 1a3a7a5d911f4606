"""A process that works on a store and kills itself with SIGKILL at a chosen moment; what it was answered, it
tells first.

``python -m tests.store.doomed`` reads jobs from standard input and forks a child for each. It stays warm, has
one thread and no store of its own open, so that a fork is cheap and safe.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from standfast.clock import ManualClock, RandomIds, seeded
from standfast.errors import CommitAborted
from standfast.records.vocabulary import AbortReason, Receipt
from standfast.store.commit import Commit
from standfast.store.protocol import Buffer, Changes, StateQuery, StateView, Transaction
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from tests.store.builders import commit, merge, write
from tests.store.recording_vfs import Op, WatchedVFS, Watcher, watch_head_file

GENESIS: Final = commit("genesis", *(write(f"shared{number}", 0) for number in range(8)))
THREADS: Final = 4
LEFT: Final = ("left0", "left1", "left2")
"""What the template of the recovery scenario holds as pending."""

_MOMENTS: Final = {
    ("write", "-wal"): "before a write of the log",
    ("sync", "-wal"): "before the sync of the log",
    ("write", ""): "before a write of the database",
    ("sync", ""): "before the sync of the database",
    ("write", "-journal"): "before a write of the journal",
    ("sync", "-journal"): "before the sync of the journal",
    ("truncate", "-wal"): "before the log is cut",
    ("delete", "-wal"): "before the log is deleted",
    ("delete", "-journal"): "before the journal is deleted",
}


class Job(msgspec.Struct, frozen=True):
    """What a child does and when it dies: at its ``die_at``-th moment, in a phase, after so many seconds, or
    never.
    """

    path: str
    scenario: str
    seed: int
    die_at: int = 0
    die_after_seconds: float = 0.0
    die_in: str = ""


class Told(msgspec.Struct, frozen=True):
    """One line from the child.

    ``what``: applied, aborted, staged, discarded, dies, lived; the last by the parent: ended.
    """

    what: str
    name: str = ""
    receipt: Receipt | None = None
    moments: list[str] = []


def planned(seed: int) -> dict[str, Commit]:
    """Every commit that a scenario may submit, by name.

    All start from the first snapshot; only ``rival`` conflicts.
    """
    dice = seeded(seed)

    def unique(name: str, *more: Any) -> Commit:
        records = [
            write(f"{name}-{number}", name * dice.choice((1, 20, 700)))
            for number in range(dice.randint(1, 3))
        ]
        return commit(name, *records, *more, at=1)

    plan = {f"direct{n}": unique(f"direct{n}", merge(f"shared{n}", 1)) for n in range(3)}
    plan["rival"] = commit("rival", write("rival-0"), merge("shared0", "lost"), at=1)
    plan["grows"] = unique("grows", merge("shared4", 1))
    for name in ("abandoned", "rejected", "waits", *LEFT, "last"):
        plan[name] = unique(name)
    plan |= {f"group{n}": unique(f"group{n}") for n in range(2 * THREADS)}
    return plan


class Doomed(Watcher):
    """Counts the moments of a life and ends it at one of them."""

    def __init__(self, job: Job, out: int) -> None:
        self._die_at = job.die_at
        self._die_in = job.die_in
        self._out = out
        self._moments: list[str] = []
        self._lock = threading.Lock()
        self.doing = "opening"

    def reach(self, moment: str) -> None:
        """One more moment; perhaps the last."""
        with self._lock:
            self._moments.append(f"{self.doing}: {moment}")
            if len(self._moments) == self._die_at or self._moments[-1] == self._die_in:
                self.tell(Told("dies", name=self._moments[-1]))
                os.kill(os.getpid(), signal.SIGKILL)

    def tell(self, told: Told) -> None:
        """One line to the parent, written at once: what is told has left this process."""
        os.write(self._out, msgspec.json.encode(told) + b"\n")

    def lived(self) -> None:
        """Tell the moments of a life that did not end early."""
        self.tell(Told("lived", moments=self._moments))

    def before(self, kind: str, name: str) -> None:
        """A write, a sync or a deletion is a moment."""
        if moment := _MOMENTS.get((kind, name)):
            self.reach(moment)

    def happened(self, op: Op) -> None:
        """From the sync of the log on, the commit is durable; that is a moment too."""
        if (op.kind, op.name) == ("sync", "-wal"):
            self.reach("after the sync of the log")
        elif op.kind == "head":
            self.reach("after the head file")


class _DoomedStorage:
    """A storage each of whose steps is a moment."""

    def __init__(self, storage: SQLiteStorage, doomed: Doomed) -> None:
        self._storage = storage
        self._reach = doomed.reach

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    @contextmanager
    def transaction(self) -> Iterator["_DoomedTransaction"]:
        self._reach("before BEGIN")
        with self._storage.transaction() as transaction:
            yield _DoomedTransaction(transaction, self._reach)
        self._reach("after COMMIT, before the answer")


class _DoomedTransaction:
    def __init__(self, transaction: Transaction, reach: Callable[[str], None]) -> None:
        self._transaction = transaction
        self._reach = reach

    def load(self, query: StateQuery) -> StateView:
        view = self._transaction.load(query)
        self._reach("after load")
        return view

    def append(self, changes: Changes) -> None:
        self._transaction.append(changes)
        self._reach("after append")


class Life:
    """One child's work on its store."""

    def __init__(self, job: Job, out: int) -> None:
        self.doomed = Doomed(job, out)
        self.plan = planned(job.seed)
        self.clock = ManualClock()
        WatchedVFS(self.doomed)
        watch_head_file(self.doomed)
        storage = SQLiteStorage(job.path, clock=self.clock, ids=RandomIds())
        if job.scenario in ("staged", "group"):
            # Checkpoints come after a few pages instead of a thousand, so that commits meet them, and not
            # only closing.
            storage._writer.wal_autocheckpoint(6)
        self.store = Store(
            _DoomedStorage(storage, self.doomed), clock=self.clock, ids=RandomIds(), any_rows=True
        )

    def commit(self, name: str, fence: int | None = None) -> None:
        """Commit, and tell the answer."""
        try:
            receipt = self.store.commit(self.plan[name], fence=fence)
        except CommitAborted:
            self.doomed.tell(Told("aborted", name))
        else:
            self.doomed.tell(Told("applied", name, receipt))
        self.doomed.reach("after the answer")

    def stage(self, name: str, **how: Any) -> Buffer:
        """Stage, and tell the answer."""
        buffer = self.store.stage(self.plan[name], **how)
        self.doomed.tell(Told("staged", name))
        self.doomed.reach("after staging")
        return buffer

    def direct(self) -> None:
        """Commits that are applied at once, and one that conflicts."""
        self.doomed.doing = "commit"
        for name in ("direct0", "direct1", "rival", "direct2"):
            self.commit(name)

    def staged(self) -> None:
        """Commits that are staged first: finished, discarded, rejected, left waiting, left alone."""
        self.doomed.doing = "staging"
        small = self.plan["grows"].writes[:1]
        self.store.stage(commit("grows", *small, at=1), settled=False)
        self.doomed.reach("while it grows")
        buffer = self.store.renew(self.stage("grows"))
        self.doomed.doing = "finishing"
        self.commit("grows", buffer.fence)
        self.doomed.doing = "discarding"
        self.store.discard(self.store.stage(self.plan["abandoned"], settled=False))
        self.doomed.tell(Told("discarded", "abandoned"))
        self.doomed.doing = "rejecting"
        self.store.abort(self.stage("rejected"), AbortReason.POLICY_REJECTED, "no")
        self.doomed.tell(Told("aborted", "rejected"))
        self.doomed.doing = "staging"
        self.stage("waits", waits_for="approval")
        self.stage("last")

    def group(self) -> None:
        """Four threads commit at the same time."""
        self.doomed.doing = "group commit"
        together = threading.Barrier(THREADS)

        def commit_twice(number: int) -> None:
            for name in (f"group{number}", f"group{number + THREADS}"):
                together.wait()
                self.commit(name)

        threads = [threading.Thread(target=commit_twice, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def recovery(self) -> None:
        """Finish what the template's owner left, an hour ago."""
        self.doomed.doing = "recovery"
        self.clock.advance(3600)
        names = {self.plan[name].commit_id: name for name in LEFT}
        for answer in self.store.recover():
            if isinstance(answer, Receipt):
                self.doomed.tell(Told("applied", names[answer.commit_id], answer))

    def fresh(self) -> None:
        """The very first commit of a store."""
        self.doomed.doing = "commit"
        self.doomed.tell(Told("applied", "genesis", self.store.commit(GENESIS)))

    def close(self) -> None:
        """Close the store: the log is folded into the database."""
        self.doomed.doing = "closing"
        self.store.close()
        self.doomed.lived()


def _live(job: Job, out: int) -> None:
    life = Life(job, out)
    getattr(life, job.scenario)()
    life.close()


def _serve(out: int) -> None:
    """Fork a child for each job; when it is gone, say so."""
    for line in sys.stdin.buffer:
        job = msgspec.json.decode(line, type=Job)
        child = os.fork()
        if child == 0:
            try:
                _live(job, out)
            finally:
                os._exit(0)
        if job.die_after_seconds:
            time.sleep(job.die_after_seconds)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        os.write(out, msgspec.json.encode(Told("ended", name="killed" if killed else "")) + b"\n")


if __name__ == "__main__":
    _serve(sys.stdout.fileno())
