"""Judging in worker processes: the parts of an import are judged at the same time, and committed by one
process, in their order.

Each worker opens the memory and does all of a part's work as it is done without workers, except that its
store does not commit: it sends the commit to the process that imports, and waits for the answer. That process
takes the parts in turn, so that the commits of a part come when all parts before it are done.

A worker judges by the snapshot that was the newest when it began the part. If the parts before it, or anybody
else, have written something since that could have changed a judgement, the commit is refused like any that
conflicts, and the worker judges the part again, by then in its turn. So what is stored is the same for any
number of workers, but for instants and for the snapshot that a commit says it began at.
"""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection, Pipe
from typing import Any, Final, Self, TypeVar

from msgspec.structs import replace

from standfast.errors import InvalidValue, StandfastError, StoreError, StoreFailed
from standfast.govern.patterns import pattern_prefix
from standfast.memory import Memory
from standfast.records.scopes import prefix_of, scope_in
from standfast.records.vocabulary import Band, Receipt
from standfast.store.pipeline import CommitAnswer, Submission

_P = TypeVar("_P")
_R = TypeVar("_R")
_STOP_SECONDS: Final = 5
_NICER: Final = 5
_START: Final = (
    "import sys; sys.path[:] = sys.argv[2:];"
    " from standfast.adapters.judging_workers import work; work(int(sys.argv[1]))"
)


def judged_by_workers(
    memory: Memory,
    judge: Callable[[Memory, _P], _R],
    parts: Iterable[_P],
    workers: int,
    open_memory: Callable[[], Memory],
) -> Iterator[_R]:
    """Yield what ``judge`` returns for each part, in their order. It is called in worker processes.

    Args:
        memory: Commits what the workers judged.
        judge: Judges a part and commits. Like the parts and what it returns, it must be picklable.
        workers: How many processes judge.
        open_memory: Opens the same memory in a worker.

    Raises:
        InvalidValue: ``open_memory`` opens another memory, or one with other policies.
        StoreFailed: A worker ended before its part was judged. What was committed stays.
    """
    with ExitStack() as running:
        started = [running.enter_context(_Worker(judge, open_memory)) for _ in range(workers)]
        for worker in started:
            worker.require_same(memory)
        remaining, busy = iter(parts), deque[_Worker]()
        for worker, part in zip(started, remaining, strict=False):
            worker.send(part)
            busy.append(worker)
        while busy:
            worker = busy.popleft()
            report = worker.report(memory)
            for part in remaining:
                worker.send(part)
                busy.append(worker)
                break
            yield report


class _Worker:
    """A worker process, as the process that imports sees it."""

    def __init__(self, judge: Callable[[Memory, Any], Any], open_memory: Callable[[], Memory]) -> None:
        self._pipe, theirs = Pipe()
        # In a session of its own, because Ctrl-C is for this process; the worker ends with the pipe.
        self._process = subprocess.Popen(  # noqa: S603  # This very program.
            [sys.executable, "-c", _START, str(theirs.fileno()), *sys.path],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._sent((judge, open_memory))

    def require_same(self, memory: Memory) -> None:
        """Raise ``InvalidValue`` unless the worker has opened the memory that commits."""
        if self._received() != _described(memory):
            problem = (
                "it opens another memory in a worker, or one with other policies; it must open the same store"
                " and namespace with the same settings, and no store in memory"
            )
            raise InvalidValue(what="open_memory", problem=problem)

    def send(self, part: object) -> None:
        """Give the worker a part. It has none."""
        self._sent(part)

    def report(self, memory: Memory) -> Any:
        """Apply the commits of the worker's part, and return what it reports at the end."""
        while isinstance(received := self._received(), Submission):
            answer = _applied(memory, received)
            # The worker goes on while the index follows.
            self._sent(answer)
            if isinstance(answer, Receipt):
                memory.reader.after_commit(answer.memory_snapshot_id)
        if isinstance(received, StandfastError):
            raise received
        return received

    def _received(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            raise self._ended() from None

    def _sent(self, message: object) -> None:
        try:
            self._pipe.send(message)
        except ConnectionError:
            raise self._ended() from None

    def _ended(self) -> StoreFailed:
        return StoreFailed("worker_ended", exit_code=self._process.wait())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _applied(memory: Memory, submission: Submission) -> CommitAnswer:
    """Commit what a worker judged, unless something was written since where it looked."""
    try:
        return memory.store.commit(
            submission.commit,
            fence=submission.fence,
            new=submission.new,
            untouched=submission.untouched,
        )
    except StoreError as error:
        return error


def _described(memory: Memory) -> list[str]:
    """What must be the same in every process."""
    return [memory.store.identity.store_id, memory.namespace, memory.policy_set_id]


class _CommitSender:
    """Sends the commits of a worker's store to the process that imports, and waits for the answers."""

    def __init__(self, pipe: Connection, memory: Memory) -> None:
        self._pipe = pipe
        self._namespace = memory.namespace
        self.reads = memory.store.commit_through(self._submit)
        """Where the store was read since the part began."""

    def _submit(self, item: Submission) -> CommitAnswer:
        """Return the answer for one commit. It is refused if what it was judged by has changed."""
        self._pipe.send(replace(item, untouched=sorted({*item.untouched, *self.reads, *self._law(item)})))
        answer: CommitAnswer = self._pipe.recv()
        return answer

    def _law(self, item: Submission) -> Iterator[tuple[str, str]]:
        """Where law and patterns of attacks are, which are kept in memory from part to part."""
        yield self._namespace, prefix_of(Band.VAULT)
        for scope in {scope_in(write.key) for write in item.commit.writes}:
            yield self._namespace, pattern_prefix(scope)


def work(descriptor: int) -> None:
    """Judge the parts that come through a pipe, until it is closed. It is what a worker process does."""
    # The process that commits keeps the others waiting, so it goes first.
    os.nice(_NICER)
    pipe = Connection(descriptor)
    judge, open_memory = pipe.recv()
    memory = open_memory()
    memory.reader.index.leave_upkeep()
    sender = _CommitSender(pipe, memory)
    try:
        pipe.send(_described(memory))
        while True:
            part = pipe.recv()
            sender.reads.clear()
            try:
                report = judge(memory, part)
            except StandfastError as error:
                report = error
            pipe.send(report)
    except (EOFError, ConnectionError):
        return
    finally:
        memory.store.close()
