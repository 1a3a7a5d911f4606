"""Memory from async code: the same verbs as coroutines.

Each call runs in a thread, so the event loop never waits for a disk.

    async with await AsyncMemory.open("agent.db") as memory:
        async with memory.run(workflow="triage", mode="buffered_write") as run:
            await run.remember("EU refunds take 14 days.", source={"kind": "doc", "id": "handbook#4"})

There is one implementation, the synchronous one, and its signatures are those of the coroutines. What is an
iterator there is a list here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from standfast.govern.approvals.queue import ApprovalQueue
from standfast.limits import MAX_RETRIES
from standfast.memory.embedding import MemoryVectors
from standfast.memory.erasing import ErasurePlan, Forgotten
from standfast.memory.memory import DEFAULT_WORKFLOW, Memory
from standfast.memory.run import Run
from standfast.memory.snapshot_view import SnapshotView
from standfast.records.origins import Origin
from standfast.records.requests import ForgetFields, ForgetRequest, takes_fields_of
from standfast.records.vocabulary import Receipt, Remembered, RunIdentity, VisibilityMode
from standfast.store.store import Store
from standfast.traces.artifact import ToolProfile, Trace
from standfast.traces.recorder import Recorder
from standfast.traces.recording import EventDraft

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")
_S_co = TypeVar("_S_co", covariant=True)
_in_thread = asyncio.to_thread


class _Wrapper(Generic[_S_co]):
    """Holds the synchronous object that does the work."""

    def __init__(self, wrapped: _S_co) -> None:
        self._wrapped = wrapped


_Coroutine = Callable[Concatenate[_Wrapper[_S], _P], Coroutine[Any, Any, _R]]


def _awaited(verb: Callable[Concatenate[_S, _P], _R]) -> _Coroutine[_S, _P, _R]:
    """The coroutine of a verb, with its signature. A call begun is finished, even if cancelled."""

    @wraps(verb)
    async def call(self: _Wrapper[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await asyncio.shield(_in_thread(verb, self._wrapped, *args, **kwargs))

    return call


def _listed(verb: Callable[Concatenate[_S, _P], Iterator[_R]]) -> _Coroutine[_S, _P, list[_R]]:
    """The coroutine of a verb that yields; it returns a list."""

    @wraps(verb)
    async def call(self: _Wrapper[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> list[_R]:
        return await _in_thread(lambda: list(verb(self._wrapped, *args, **kwargs)))

    return call


def _forwarded(verb: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_Wrapper[_S], _P], _R]:
    """A verb that does not block, as it is."""

    @wraps(verb)
    def call(self: _Wrapper[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return verb(self._wrapped, *args, **kwargs)

    return call


class AsyncRun(_Wrapper[Run]):
    """A run whose verbs are coroutines. ``AsyncMemory.run`` opens it."""

    recall = _awaited(Run.recall)
    remember = _awaited(Run.remember)
    recall_request = _awaited(Run.recall_request)
    remember_request = _awaited(Run.remember_request)
    forget = _awaited(Run.forget)
    forget_request = _awaited(Run.forget_request)
    record = _awaited(Run.record)
    commit = _awaited(Run.commit)
    discard = _awaited(Run.discard)
    lane = _forwarded(Run.lane)
    guardrail = _forwarded(Run.guardrail)
    output = _forwarded(Run.output)

    @property
    def identity(self) -> RunIdentity:
        """What the run is, what it reads from, and what it may do."""
        return self._wrapped.identity

    @property
    def recorder(self) -> Recorder:
        """The recorder of the run. Recording does not block."""
        return self._wrapped.recorder

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of the commit, once there is one."""
        return self._wrapped.receipt

    @property
    def answers(self) -> list[Remembered]:
        """What the calls of ``remember`` were answered, as committed; see ``Run.answers``."""
        return self._wrapped.answers

    @property
    def trace(self) -> Trace | None:
        """The trace, once the run is over."""
        return self._wrapped.trace

    @asynccontextmanager
    async def event(
        self, *, role: str, interceptor: str, decision_type: str | None = None
    ) -> AsyncIterator[EventDraft]:
        """Record an event for as long as the ``async with`` block lasts."""
        with self._wrapped.event(role=role, interceptor=interceptor, decision_type=decision_type) as event:
            yield event

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Return a decorator that records each call of a function or ``async def``; see ``Recorder.tool``."""
        return self._wrapped.tool(profile=profile, effects=effects)


class AsyncSnapshotView(_Wrapper[SnapshotView]):
    """Memory as of one snapshot, with coroutines. ``AsyncMemory.at`` returns it."""

    recall = _awaited(SnapshotView.recall)
    recall_again = _awaited(SnapshotView.recall_again)
    explain = _awaited(SnapshotView.explain)
    records = _listed(SnapshotView.records)
    session = _listed(SnapshotView.session)
    sessions = _listed(SnapshotView.sessions)

    @property
    def memory_snapshot_id(self) -> int:
        """The snapshot."""
        return self._wrapped.memory_snapshot_id


def _opened(open_memory: Callable[_P, Memory]) -> Callable[_P, Coroutine[Any, Any, "AsyncMemory"]]:
    @wraps(open_memory)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> "AsyncMemory":
        return AsyncMemory(await _in_thread(open_memory, *args, **kwargs))

    return call


def _run_block(
    open_run: Callable[Concatenate[Memory, _P], Run],
) -> Callable[Concatenate[_Wrapper[Memory], _P], AbstractAsyncContextManager[AsyncRun]]:
    """A block with a run that commits when it is left. An exception or a cancellation discards it."""

    @asynccontextmanager
    @wraps(open_run)
    async def block(
        self: _Wrapper[Memory], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> AsyncIterator[AsyncRun]:
        run = await _in_thread(open_run, self._wrapped, *args, **kwargs)
        try:
            yield AsyncRun(run)
        except BaseException as error:
            # Not awaited: a task that is being cancelled may be cancelled again at every await.
            run.discard(error)
            raise
        await asyncio.shield(_in_thread(run.commit))

    return block


class AsyncMemory(_Wrapper[Memory]):
    """A memory whose verbs are coroutines. What is an iterator in ``Memory`` is a list here.

    Leaving the block of ``run`` commits; an exception or a cancellation discards the run.
    """

    open = staticmethod(_opened(Memory.open))
    remember = _awaited(Memory.remember)
    add = _awaited(Memory.add)
    run = _run_block(Memory.run)
    recall = _awaited(Memory.recall)
    explain = _awaited(Memory.explain)
    history = _awaited(Memory.history)
    diff = _awaited(Memory.diff)
    records = _listed(Memory.records)
    session = _awaited(Memory.session)
    sessions = _awaited(Memory.sessions)
    profile = _awaited(Memory.profile)
    investigate = _awaited(Memory.investigate)
    quarantine = _awaited(Memory.quarantine)
    release = _awaited(Memory.release)
    revert = _awaited(Memory.revert)
    quarantines = _awaited(Memory.quarantines)
    quarantined = _awaited(Memory.quarantined)
    conflicts = _awaited(Memory.conflicts)
    settle = _awaited(Memory.settle)
    settle_all = _awaited(Memory.settle_all)
    patterns = _awaited(Memory.patterns)
    lift_pattern = _awaited(Memory.lift_pattern)
    refusals = _awaited(Memory.refusals)
    lift_refusal = _awaited(Memory.lift_refusal)
    due = _listed(Memory.due)
    sweep = _awaited(Memory.sweep)
    finish_forgetting = _awaited(Memory.finish_forgetting)
    verify = _listed(Memory.verify)
    verification = _awaited(Memory.verification)
    tail = _awaited(Memory.tail)
    checkpoint = _awaited(Memory.checkpoint)
    receipt = _awaited(Memory.receipt)
    close = _awaited(Memory.close)
    require_readable = _forwarded(Memory.require_readable)

    @property
    def approvals(self) -> ApprovalQueue:
        """The queue of proposals; its methods block."""
        return self._wrapped.approvals

    @property
    def store(self) -> Store:
        """The store; its methods block."""
        return self._wrapped.store

    @property
    def vectors(self) -> MemoryVectors:
        """The vectors of ``hybrid-v1``; its methods block."""
        return self._wrapped.vectors

    @property
    def namespace(self) -> str:
        """The namespace of this memory."""
        return self._wrapped.namespace

    @property
    def ceiling(self) -> VisibilityMode:
        """What memory may be used for at all."""
        return self._wrapped.ceiling

    @property
    def policy_set_id(self) -> str:
        """The id of the judge's floors, the write policy and the budgets."""
        return self._wrapped.policy_set_id

    @property
    def warnings(self) -> list[str]:
        """What failed after something was applied; see ``Memory.warnings``."""
        return self._wrapped.warnings

    async def at(self, snapshot: int) -> AsyncSnapshotView:
        """Return memory as of a snapshot; see ``Memory.at``."""
        return AsyncSnapshotView(await _in_thread(self._wrapped.at, snapshot))

    @takes_fields_of(ForgetRequest)
    async def forget(
        self,
        subject: str | None = None,
        *,
        reason: str = "",
        rehearse: bool = False,
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
        **fields: Unpack[ForgetFields],
    ) -> Forgotten | ErasurePlan:
        """Erase a subject, a scope or all from a source, or say what would go; see ``Memory.forget``."""
        erase: Callable[..., Forgotten | ErasurePlan] = self._wrapped.forget
        who = {"workflow": workflow, "agent": agent, "run_id": run_id, "max_origin": max_origin}
        return await asyncio.shield(
            _in_thread(erase, subject, reason=reason, rehearse=rehearse, **fields, **who)
        )

    async def retry(
        self, attempt: Callable[[], Awaitable[_R]], *, key: str = "", attempts: int = MAX_RETRIES
    ) -> _R:
        """Await a coroutine function until it does not conflict with other runs; see ``Memory.retry``."""
        return await self._wrapped.retry_lines.retry_async(attempt, key=key, attempts=attempts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
