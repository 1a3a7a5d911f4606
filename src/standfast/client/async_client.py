"""The client for asyncio: the verbs of ``Client`` as coroutines, with the same parameters.

    async with AsyncClient("http://127.0.0.1:8765", key="sf_…") as memory:
        await memory.remember("EU refunds take 14 days.", source={"kind": "doc", "id": "handbook#4"})
        async with memory.run(workflow="triage", mode="buffered_write") as run:
            await run.remember("VAT is 19 %.")

Each call runs in a thread of the client's own pool, so it needs no further HTTP library and the event loop
never waits. A cancelled call still ends on the server; repeat a write with its request key to learn how.
"""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from itertools import islice
from types import GenericAlias
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, get_args

from standfast.client.client import TIMEOUT_SECONDS, Client
from standfast.client.event_stream import AsyncEventStream
from standfast.client.remote_resources import RemoteApprovals, RemoteKeys, RemotePrompts, RemoteTraces
from standfast.client.remote_run import RemoteEvent, RemoteRun, RemoteSnapshot
from standfast.clock import Clock, IdSource
from standfast.errors import InvalidValue, StandfastError
from standfast.limits import DEFAULT_PAGE_ITEMS
from standfast.records.vocabulary import Receipt, VisibilityMode
from standfast.server.operations import schemas
from standfast.traces.artifact import ModelConfig, ToolProfile

MAX_CONNECTIONS: Final = 8
_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
_Inner = TypeVar("_Inner")


class ClientThreads:
    """The threads of one client. Each keeps one connection, so they bound the connections as well."""

    def __init__(self, max_connections: int) -> None:
        if not (type(max_connections) is int and max_connections > 0):
            problem = f"it must be a positive number, not {max_connections!r:.80}"
            raise InvalidValue(what="max_connections", problem=problem)
        self._executor = ThreadPoolExecutor(max_connections, thread_name_prefix="standfast-client")

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function in a thread, in the caller's context."""
        call = functools.partial(copy_context().run, functools.partial(function, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def iterate(self, items: Iterator[_T]) -> AsyncIterator[_T]:
        """Yield from an iterator that sends requests, one page at a time."""
        while page := await self.run(lambda: list(islice(items, DEFAULT_PAGE_ITEMS))):
            for item in page:
                yield item

    def close(self) -> None:
        """Let calls in progress end, without waiting for them."""
        self._executor.shutdown(wait=False)


class InThreads(Generic[_Inner]):
    """Something of a client whose methods are called in its threads."""

    def __init__(self, threads: ClientThreads, inner: _Inner) -> None:
        self._threads = threads
        self._inner = inner


def _coroutine(
    method: Callable[Concatenate[_Inner, _P], _T],
) -> Callable[Concatenate[InThreads[_Inner], _P], Coroutine[Any, Any, _T]]:
    """The same method as a coroutine, with its parameters and docstring."""

    async def call(self: InThreads[_Inner], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._threads.run(method, self._inner, *args, **kwargs)

    functools.update_wrapper(call, method)
    return call


def _iterator(
    method: Callable[Concatenate[_Inner, _P], Iterator[_T]],
) -> Callable[Concatenate[InThreads[_Inner], _P], AsyncIterator[_T]]:
    """The same method for ``async for``, with its parameters and docstring."""

    def call(self: InThreads[_Inner], /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncIterator[_T]:
        return self._threads.iterate(method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    signature = inspect.signature(method)
    returns = GenericAlias(AsyncIterator, get_args(signature.return_annotation))
    vars(call)["__signature__"] = signature.replace(return_annotation=returns)
    return call


class AsyncRemoteApprovals(InThreads[RemoteApprovals]):
    """The proposals of the client's namespace; see ``RemoteApprovals``."""

    waiting = _iterator(RemoteApprovals.waiting)
    decided = _iterator(RemoteApprovals.decided)
    find = _coroutine(RemoteApprovals.find)
    decide = _coroutine(RemoteApprovals.decide)


class AsyncRemoteKeys(InThreads[RemoteKeys]):
    """The API keys; see ``RemoteKeys``."""

    list = _iterator(RemoteKeys.list)
    create = _coroutine(RemoteKeys.create)
    revoke = _coroutine(RemoteKeys.revoke)


class AsyncRemoteTraces(InThreads[RemoteTraces]):
    """The recorded traces; see ``RemoteTraces``."""

    list = _iterator(RemoteTraces.list)
    get = _coroutine(RemoteTraces.get)
    compare = _coroutine(RemoteTraces.compare)


class AsyncRemotePrompts(InThreads[RemotePrompts]):
    """Prompt overrides; see ``RemotePrompts``."""

    get = _coroutine(RemotePrompts.get)
    put = _coroutine(RemotePrompts.put)
    rollback = _coroutine(RemotePrompts.rollback)


class AsyncRemoteSnapshot(InThreads[RemoteSnapshot]):
    """Memory as of a snapshot."""

    recall = _coroutine(RemoteSnapshot.recall)

    @property
    def snapshot(self) -> int:
        """The snapshot that is read."""
        return self._inner.snapshot


class AsyncRemoteRun(InThreads[RemoteRun]):
    """A run on a server whose verbs are coroutines. ``AsyncClient.run`` opens it."""

    recall = _coroutine(RemoteRun.recall)
    remember = _coroutine(RemoteRun.remember)
    forget = _coroutine(RemoteRun.forget)
    discard = _coroutine(RemoteRun.discard)
    guardrail = _coroutine(RemoteRun.guardrail)
    output = _coroutine(RemoteRun.output)
    record = _coroutine(RemoteRun.record)
    begin_event = _coroutine(RemoteRun.begin_event)
    end_event = _coroutine(RemoteRun.end_event)

    @asynccontextmanager
    async def event(
        self, *, role: str, interceptor: str, decision_type: str | None = None
    ) -> AsyncIterator[RemoteEvent]:
        """Record an event for as long as the ``async with`` block lasts."""
        event = await self.begin_event(role=role, interceptor=interceptor, decision_type=decision_type)
        with event.entered():
            try:
                yield event
            finally:
                await self.end_event(event)

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Return a decorator that records each call of an ``async def``; see ``Recorder.tool``."""
        return self._inner.tool(profile=profile, effects=effects)

    async def commit(self) -> Receipt | None:
        """Commit the run atomically. A commit that was begun ends even if the task is cancelled."""
        return await asyncio.shield(self._threads.run(self._inner.commit))

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._inner.run_id

    @property
    def response(self) -> schemas.RunResponse:
        """The run as it was opened."""
        return self._inner.response

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of the commit, once there is one."""
        return self._inner.receipt


class AsyncClient(InThreads[Client]):
    """Memory on a server, in one namespace, for asyncio. The parameters are those of ``Client``.

    Args:
        max_connections: How many calls can be in progress at once; further ones wait.
    """

    def __init__(
        self,
        address: str,
        *,
        key: str | None = None,
        namespace: str = "default",
        timeout_seconds: float = TIMEOUT_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        client = Client(
            address, key=key, namespace=namespace, timeout_seconds=timeout_seconds, clock=clock, ids=ids
        )
        super().__init__(ClientThreads(max_connections), client)
        self.address = client.address
        self.namespace = namespace

    # Writing.

    @asynccontextmanager
    async def run(
        self,
        *,
        workflow: str,
        mode: VisibilityMode | str | None = None,
        scope: str | None = None,
        model: ModelConfig | None = None,
    ) -> AsyncIterator[AsyncRemoteRun]:
        """Open a run for an ``async with`` block. Leaving it commits; an exception discards the run."""
        remote = await self._threads.run(
            self._inner.run, workflow=workflow, mode=mode, scope=scope, model=model
        )
        run = AsyncRemoteRun(self._threads, remote)
        try:
            yield run
        except BaseException:
            if not remote.is_over:
                # The caller should see the error of the block. An open run expires on the server.
                with suppress(StandfastError):
                    await asyncio.shield(run.discard())
            raise
        if not remote.is_over:
            await run.commit()

    remember = _coroutine(Client.remember)
    remember_batch = _coroutine(Client.remember_batch)
    add = _coroutine(Client.add)
    forget = _coroutine(Client.forget)

    # Reading.

    recall = _coroutine(Client.recall)
    explain = _coroutine(Client.explain)
    recall_batch = _coroutine(Client.recall_batch)
    history = _coroutine(Client.history)
    diff = _coroutine(Client.diff)
    records = _iterator(Client.records)
    record = _coroutine(Client.record)
    session = _coroutine(Client.session)
    sessions = _coroutine(Client.sessions)
    status = _coroutine(Client.status)
    profile = _coroutine(Client.profile)
    conflicts = _coroutine(Client.conflicts)
    settle = _coroutine(Client.settle)
    settle_all = _coroutine(Client.settle_all)

    def at(self, snapshot: int) -> AsyncRemoteSnapshot:
        """Memory as of a snapshot, to recall from."""
        return AsyncRemoteSnapshot(self._threads, self._inner.at(snapshot))

    # Governance.

    due = _coroutine(Client.due)
    sweep = _coroutine(Client.sweep)
    refusals = _coroutine(Client.refusals)
    lift_refusal = _coroutine(Client.lift_refusal)
    investigate = _coroutine(Client.investigate)
    quarantine = _coroutine(Client.quarantine)
    revert = _coroutine(Client.revert)
    release = _coroutine(Client.release)
    quarantines = _coroutine(Client.quarantines)
    quarantined = _coroutine(Client.quarantined)
    verify = _coroutine(Client.verify)
    checkpoint = _coroutine(Client.checkpoint)
    receipt = _coroutine(Client.receipt)
    entries = _iterator(Client.entries)

    @property
    def approvals(self) -> AsyncRemoteApprovals:
        """The proposals that wait for a person's signature."""
        return AsyncRemoteApprovals(self._threads, self._inner.approvals)

    def events(self, *, after: int | None = None) -> AsyncEventStream:
        """Follow commits, proposals and refusals as they happen; see ``Client.events``."""
        return AsyncEventStream(self._inner.events(after=after))

    # Keys, traces, bench results, prompts.

    namespaces = _coroutine(Client.namespaces)
    bench = _coroutine(Client.bench)

    def keys(self) -> AsyncRemoteKeys:
        """The API keys of the server, for operators."""
        return AsyncRemoteKeys(self._threads, self._inner.keys())

    def traces(self) -> AsyncRemoteTraces:
        """The recorded traces of the server."""
        return AsyncRemoteTraces(self._threads, self._inner.traces())

    def prompts(self) -> AsyncRemotePrompts:
        """The prompt overrides of the server."""
        return AsyncRemotePrompts(self._threads, self._inner.prompts())

    async def close(self) -> None:
        """Close all connections."""
        self._threads.close()
        self._inner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
