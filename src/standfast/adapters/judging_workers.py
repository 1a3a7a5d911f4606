"""Judging in worker processes: the parts of an import are judged at the same time, and committed by one
process, in their order.

Each worker opens the memory and does all of a part's work as it is done without workers, except that its
store does not commit: it sends the commit to the process that imports, and waits for the answer. That process
takes the parts in turn, so that the commits of a part come when all parts before it are done.

A worker judges by the snapshot that was the newest when it began the part. If the parts before it, or anybody
else, have written something since that could have changed a judgement, the commit is refused like any that
conflicts, and the worker judges the part again, by then in its turn. Then it conflicts only with what it
would conflict with without workers, so that others who write at the same time do not keep it from its commit.

The instants of a part are later than those of the parts before it, because what was said last is what holds.
So what is stored is the same for any number of workers, but for instants, for the snapshot that a commit says
it began at, and for ids that are made from these, such as those of proposals.
"""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import islice
from multiprocessing.connection import Connection, Pipe
from typing import Any, Final, NamedTuple, Self, TypeVar

from standfast.clock import Clock
from standfast.errors import CommitAborted, InvalidValue, StandfastError, StoreError, StoreFailed
from standfast.govern.patterns import pattern_prefix
from standfast.memory import Memory
from standfast.records.rows import RowKind
from standfast.records.scopes import prefix_of, scope_in
from standfast.records.vocabulary import AbortReason, Band, Receipt
from standfast.store.pipeline import CommitAnswer, Submission
from standfast.store.protocol import Places

_P = TypeVar("_P")
_R = TypeVar("_R")
_STOP_SECONDS: Final = 5
_NICER: Final = 5
_OF_A_PART: Final = timedelta(milliseconds=1)
_INSTANT: Final = timedelta(microseconds=1)
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
        InvalidValue: ``open_memory`` opens another memory, or one with other policies, another ceiling or
            another embedder.
        StoreFailed: A worker ended before its part was judged. What was committed stays.
    """
    task = _pickled(judge, open_memory)
    remaining, began = iter(parts), _Beginnings(memory.store.clock)
    first = list(islice(remaining, workers))
    with ExitStack() as running:
        busy = deque(running.enter_context(_Worker()) for _ in first)
        for worker in busy:
            # Before any of them is waited for, so that they end at the same time.
            running.callback(worker.close)
        for worker in busy:
            worker.start(task)
        for worker in busy:
            worker.require_same(memory)
        for worker, part in zip(busy, first, strict=True):
            worker.send(began.next(), part)
        while busy:
            worker = busy.popleft()
            report = worker.report(memory)
            for part in remaining:
                worker.send(began.next(), part)
                busy.append(worker)
                break
            yield report


def _pickled(judge: Callable[[Memory, Any], Any], open_memory: Callable[[], Memory]) -> bytes:
    """What a worker is started with; ``InvalidValue`` if that can't be sent to it."""
    try:
        return pickle.dumps((judge, open_memory))
    except Exception as error:
        raise _can_not_open(error) from error


def _can_not_open(error: Exception) -> InvalidValue:
    problem = (
        f"it does not open the memory in a worker ({type(error).__name__}: {error}); give a function of a"
        ' module that the worker can import, such as partial(Memory.open, "agent.db", notary=None), not a'
        " lambda nor a function of the script itself"
    )
    return InvalidValue(what="open_memory", problem=problem)


class _Beginnings:
    """The instants at which parts begin, each later than what is judged in the part before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read = self._began = clock.now()

    def next(self) -> datetime:
        """The instant of the next part. It is that of the one before if the clock stands still."""
        read = self._clock.now()
        if read != self._read:
            self._read, self._began = read, max(read, self._began + _OF_A_PART)
        return self._began


class _PartClock:
    """The clock of a worker. It begins when a part was handed out, and runs so slowly that the next part
    begins later, however long it takes. Otherwise what stands earlier in a file would seem to be said later.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begin(clock.now())
        self.monotonic, self.sleep = clock.monotonic, clock.sleep

    def begin(self, began: datetime) -> None:
        """Begin a part."""
        self._began = began
        self.begin_again()

    def begin_again(self) -> None:
        """Begin the same part again."""
        self._shown, self._read = self._began, self._clock.now()

    def now(self) -> datetime:
        """An instant of the part, later than the one before if the clock has moved."""
        read = self._clock.now()
        if read != self._read and self._shown + _INSTANT < self._began + _OF_A_PART:
            self._read, self._shown = read, self._shown + _INSTANT
        return self._shown


class _WorkerCommit(NamedTuple):
    """A commit of a worker, and where the store was read for it."""

    submission: Submission
    reads: Places


class _Worker:
    """A worker process, as the process that imports sees it."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        # In a session of its own, because Ctrl-C is for this process; the worker ends with the pipe.
        self._process = subprocess.Popen(  # noqa: S603  # This very program.
            [sys.executable, "-c", _START, str(theirs.fileno()), *sys.path],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()

    def start(self, task: bytes) -> None:
        """Let the worker open the memory."""
        try:
            self._pipe.send_bytes(task)
        except ConnectionError:
            raise self._ended() from None

    def require_same(self, memory: Memory) -> None:
        """Raise ``InvalidValue`` unless the worker has opened the memory that commits."""
        received = self._received()
        if isinstance(received, StandfastError):
            raise received
        if received != _described(memory):
            problem = (
                "it opens another memory in a worker, or one with other settings; it must open the same store"
                " and namespace with the same policies, ceiling and embedder, and no store in memory"
            )
            raise InvalidValue(what="open_memory", problem=problem)

    def send(self, began: datetime, part: object) -> None:
        """Give the worker a part. It has none."""
        self._sent((began, part))

    def report(self, memory: Memory) -> Any:
        """Apply the commits of the worker's part, and return what it reports at the end."""
        turn = memory.store.head()
        while isinstance(received := self._received(), _WorkerCommit):
            answer = _applied(memory, received, turn=turn)
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

    def close(self) -> None:
        """Let the worker end."""
        self._pipe.close()

    def __exit__(self, *_: object) -> None:
        self.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _applied(memory: Memory, judged: _WorkerCommit, *, turn: int) -> CommitAnswer:
    """Commit or reject what a worker judged.

    What it judged by a snapshot before its turn is refused if something was written since where it looked,
    or if it is to be rejected.
    """
    item, commit = judged.submission, judged.submission.commit
    is_early = commit.memory_snapshot_id < turn
    if item.rejection and is_early:
        # The parts before it may have what it was rejected for.
        return CommitAborted(
            commit_id=commit.commit_id,
            run_id=commit.run_id,
            reason_code=AbortReason.VALIDATION_FAILED.value,
            problem="it was judged before its turn",
        )
    try:
        if item.rejection:
            return memory.store.reject(commit, item.rejection)
        return memory.store.commit(
            commit,
            fence=item.fence,
            new=item.new,
            untouched=(*item.untouched, *judged.reads) if is_early else item.untouched,
        )
    except StoreError as error:
        return error


def _described(memory: Memory) -> list[str]:
    """What must be the same in every process."""
    embedders = sorted(memory.store.vector_makers)
    return [
        memory.store.identity.store_id,
        memory.namespace,
        memory.policy_set_id,
        memory.ceiling.value,
        *embedders,
    ]


class _CommitSender:
    """Sends the commits of a worker's store to the process that imports, and waits for the answers."""

    def __init__(self, pipe: Connection, memory: Memory) -> None:
        self._pipe = pipe
        self._namespace = memory.namespace
        self._clock = _PartClock(memory.store.clock)
        self._reads = memory.store.commit_through(self._submit)
        memory.store.clock = self._clock

    def begin(self, began: datetime) -> None:
        """Begin a part."""
        self._clock.begin(began)
        self._reads.clear()

    def _submit(self, item: Submission) -> CommitAnswer:
        """Return the answer for one commit. It is refused if what it was judged by has changed."""
        self._pipe.send(_WorkerCommit(item, tuple(sorted({*self._reads, *self._always_read(item)}))))
        answer: CommitAnswer = self._pipe.recv()
        if not isinstance(answer, Receipt):
            self._clock.begin_again()
        return answer

    def _always_read(self, item: Submission) -> Iterator[tuple[str, str]]:
        """Where law, patterns of attacks, and acts that hide records are, which are kept in memory from part
        to part.
        """
        yield self._namespace, prefix_of(Band.VAULT)
        yield self._namespace, prefix_of(RowKind.QUARANTINE)
        for scope in {scope_in(write.key) for write in item.commit.writes}:
            yield self._namespace, pattern_prefix(scope)


def work(descriptor: int) -> None:
    """Judge the parts that come through a pipe, until it is closed. It is what a worker process does."""
    # The process that commits keeps the others waiting, so it goes first.
    os.nice(_NICER)
    pipe = Connection(descriptor)
    try:
        opened = _opened(pipe)
        if opened is not None:
            _judge_parts(pipe, *opened)
    except (EOFError, ConnectionError):
        return


def _opened(pipe: Connection) -> tuple[Callable[[Memory, Any], Any], Memory] | None:
    """Who judges, and the memory; None if it can't be opened, which the process that imports is told."""
    task = pipe.recv_bytes()
    try:
        judge, open_memory = pickle.loads(task)  # noqa: S301  # From the process that started this one.
        memory = open_memory()
        described = _described(memory)
    except StandfastError as error:
        pipe.send(error)
        return None
    except Exception as error:  # noqa: BLE001  # Whatever it is, the caller of import_file is to know.
        pipe.send(_can_not_open(error))
        return None
    pipe.send(described)
    return judge, memory


def _judge_parts(pipe: Connection, judge: Callable[[Memory, Any], Any], memory: Memory) -> None:
    """Judge parts until the pipe is closed."""
    memory.reader.index.leave_upkeep()
    sender = _CommitSender(pipe, memory)
    try:
        while True:
            began, part = pipe.recv()
            sender.begin(began)
            try:
                report = judge(memory, part)
            except StandfastError as error:
                report = error
            pipe.send(report)
    finally:
        memory.store.close()
