"""The client for asyncio: the verbs of ``Client`` as coroutines.

    async with AsyncClient("http://127.0.0.1:8765", key="sf_…") as memory:
        await memory.remember("EU refunds take 14 days.", source={"kind": "doc", "id": "handbook#4"})
        async with memory.run(workflow="triage", mode="buffered_write") as run:
            await run.remember("VAT is 19 %.")

Each call runs in a thread of the client's own pool, so it needs no further HTTP library and the event loop never waits. A
cancelled call still ends on the server; repeat a write with its request key to learn what happened.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from standfast.client.async_resources import (
    AsyncRemoteApprovals,
    AsyncRemoteKeys,
    AsyncRemotePrompts,
    AsyncRemoteTraces,
    ClientThreads,
)
from standfast.client.client import TIMEOUT_SECONDS, Client
from standfast.client.event_stream import AsyncEventStream
from standfast.client.remote_run import RemoteRun
from standfast.client.remote_snapshot import RemoteSnapshot
from standfast.clock import Clock, IdSource
from standfast.errors import StandfastError
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.limits import DEFAULT_MAX_ITEMS, DEFAULT_RECALL_TOKENS
from standfast.memory.conversations import AddedMessages
from standfast.memory.sessions import SessionInfo, SessionMessage
from standfast.origins import Origin
from standfast.recall.filters import Filter, Where
from standfast.recall.registry import DEFAULT_CONTROLLER
from standfast.server.operations import schemas
from standfast.server.operations.bench_schemas import BenchResponse
from standfast.store.records import HistoryEntry, RecordChange
from standfast.vocabulary import Band, JsonScalar, Receipt, Record, VisibilityMode

MAX_CONNECTIONS: Final = 8


class AsyncClient:
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
        self._client = Client(
            address, key=key, namespace=namespace, timeout_seconds=timeout_seconds, clock=clock, ids=ids
        )
        self._threads = ClientThreads(max_connections)
        self.address = self._client.address
        self.namespace = namespace

    # Writing.

    @asynccontextmanager
    async def run(
        self,
        *,
        workflow: str,
        mode: VisibilityMode | str | None = None,
        scope: str | None = None,
    ) -> AsyncIterator["AsyncRemoteRun"]:
        """Open a run for an ``async with`` block. Leaving the block commits; an exception discards the run."""
        remote = await self._threads.run(self._client.run, workflow=workflow, mode=mode, scope=scope)
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

    async def remember(
        self,
        text: str,
        *,
        subject: str | None = None,
        source: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        refs: Sequence[Mapping[str, Any]] = (),
        propose: bool = False,
        hold: str | None = None,
        scope: str | None = None,
        metadata: Mapping[str, JsonScalar] | None = None,
        session: str | None = None,
        position: int | None = None,
        speaker: str | None = None,
        valid_from: str | datetime | None = None,
        valid_until: str | datetime | None = None,
        supersedes: str | Sequence[str] = (),
        request_key: str | None = None,
    ) -> schemas.RememberResponse:
        """Judge one text and commit it; see ``Client.remember``."""
        return await self._threads.run(
            self._client.remember,
            text,
            subject=subject,
            source=source,
            tags=tags,
            refs=refs,
            propose=propose,
            hold=hold,
            scope=scope,
            metadata=metadata,
            session=session,
            position=position,
            speaker=speaker,
            valid_from=valid_from,
            valid_until=valid_until,
            supersedes=supersedes,
            request_key=request_key,
        )

    async def remember_batch(
        self, items: Sequence[schemas.RememberBody], *, request_key: str | None = None
    ) -> schemas.RememberBatchResponse:
        """Judge several texts and commit them together; see ``Client.remember_batch``."""
        return await self._threads.run(self._client.remember_batch, items, request_key=request_key)

    async def recall_batch(self, items: Sequence[schemas.RecallBody]) -> list[schemas.RecallResponse]:
        """Recall for several queries; see ``Client.recall_batch``."""
        return await self._threads.run(self._client.recall_batch, items)

    async def add(
        self,
        messages: Iterable[Any],
        *,
        scope: str | None = None,
        session: str | None = None,
        position: int | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, JsonScalar] | None = None,
        supersedes: str | Sequence[str] = (),
        request_key: str | None = None,
    ) -> AddedMessages:
        """Add the messages of a conversation; see ``Client.add``."""
        return await self._threads.run(
            self._client.add,
            messages,
            scope=scope,
            session=session,
            position=position,
            tags=tags,
            metadata=metadata,
            supersedes=supersedes,
            request_key=request_key,
        )

    async def forget(
        self,
        subject: str | None = None,
        *,
        reason: str = "",
        scope: str | None = None,
        memory_id: str | None = None,
        source: Mapping[str, str] | None = None,
        rehearse: bool = False,
        request_key: str | None = None,
    ) -> schemas.ForgetResponse:
        """Erase a subject, all of a scope, or all from a source; see ``Client.forget``."""
        return await self._threads.run(
            self._client.forget,
            subject,
            reason=reason,
            scope=scope,
            memory_id=memory_id,
            source=source,
            rehearse=rehearse,
            request_key=request_key,
        )

    # Reading.

    async def recall(
        self,
        query: str,
        *,
        tokens: int = DEFAULT_RECALL_TOKENS,
        max_items: int = DEFAULT_MAX_ITEMS,
        at: int | None = None,
        scope: str | None = None,
        scopes: Sequence[str] | None = None,
        where: Filter | Where | None = None,
        controller: str = DEFAULT_CONTROLLER,
        now_utc: str | None = None,
        least_origin: Origin | str | None = None,
        include_unreviewed: bool = False,
        explain: bool = False,
    ) -> schemas.RecallResponse:
        """Recall the best records for a query within a token budget; see ``Client.recall``."""
        return await self._threads.run(
            self._client.recall,
            query,
            tokens=tokens,
            max_items=max_items,
            at=at,
            scope=scope,
            scopes=scopes,
            where=where,
            controller=controller,
            now_utc=now_utc,
            least_origin=least_origin,
            include_unreviewed=include_unreviewed,
            explain=explain,
        )

    def at(self, snapshot: int) -> "AsyncRemoteSnapshot":
        """Memory as of a snapshot, to recall from."""
        return AsyncRemoteSnapshot(self._threads, self._client.at(snapshot))

    async def history(self, subject: str, *, scope: str | None = None) -> list[HistoryEntry]:
        """Every version of a scope's subject (or memory id) in every band, oldest first."""
        return await self._threads.run(self._client.history, subject, scope=scope)

    async def diff(self, old: int, new: int | None = None, *, scope: str | None = None) -> list[RecordChange]:
        """The records of a scope, with all below it (``"*"`` for all), that differ between two snapshots."""
        return await self._threads.run(self._client.diff, old, new, scope=scope)

    def records(
        self, *, band: Band | None = None, at: int | None = None, scope: str | None = None
    ) -> AsyncIterator[Record]:
        """Yield the records of one snapshot in a scope, with all below it (``"*"`` for all), by band, scope and id."""
        return self._threads.iterate(self._client.records(band=band, at=at, scope=scope))

    async def record(
        self, memory_id: str, *, at: int | None = None, scope: str | None = None
    ) -> list[Record]:
        """One record of a scope, from each band that holds it."""
        return await self._threads.run(self._client.record, memory_id, at=at, scope=scope)

    async def session(
        self, session: str, *, scope: str | None = None, at: int | None = None
    ) -> list[SessionMessage]:
        """The messages of a session, in order; see ``Client.session``."""
        return await self._threads.run(self._client.session, session, scope=scope, at=at)

    async def sessions(self, *, scope: str | None = None, at: int | None = None) -> list[SessionInfo]:
        """The sessions of a scope; see ``Client.sessions``."""
        return await self._threads.run(self._client.sessions, scope=scope, at=at)

    async def status(self) -> schemas.StatusResponse:
        """The state of the namespace, and the permissions of this key there."""
        return await self._threads.run(self._client.status)

    # Governance.

    def approvals(self) -> "AsyncRemoteApprovals":
        """The proposals that wait for a person's signature."""
        return AsyncRemoteApprovals(self._threads, self._client.approvals())

    async def due(self) -> list[schemas.DueItem]:
        """The records that a retention sweep would move or delete now."""
        return await self._threads.run(self._client.due)

    async def sweep(self) -> list[Receipt]:
        """Run a retention sweep."""
        return await self._threads.run(self._client.sweep)

    async def verify(self) -> schemas.VerifyResponse:
        """Verify the whole store."""
        return await self._threads.run(self._client.verify)

    async def checkpoint(self) -> str | None:
        """Sign the head of the ledger and return the checkpoint."""
        return await self._threads.run(self._client.checkpoint)

    async def receipt(self, ledger_seq: int) -> InclusionReceipt:
        """A proof that an entry is in the ledger."""
        return await self._threads.run(self._client.receipt, ledger_seq)

    def entries(self) -> AsyncIterator[schemas.LedgerEntry]:
        """Yield every entry of the ledger, in order."""
        return self._threads.iterate(self._client.entries())

    def events(self, *, after: int | None = None) -> AsyncEventStream:
        """Follow commits, proposals and refusals as they happen; see ``Client.events``."""
        return AsyncEventStream(self._client.events(after=after))

    # Traces, bench results, prompts.

    def keys(self) -> "AsyncRemoteKeys":
        """The API keys of the server, for operators."""
        return AsyncRemoteKeys(self._threads, self._client.keys())

    async def namespaces(self) -> list[str]:
        """The namespaces of this key; see ``Client.namespaces``."""
        return await self._threads.run(self._client.namespaces)

    def traces(self) -> "AsyncRemoteTraces":
        """The recorded traces of the server."""
        return AsyncRemoteTraces(self._threads, self._client.traces())

    async def bench(self, *, budget_bytes: int | None = None) -> BenchResponse:
        """The benchmark leaderboard of the server, and a report for each policy."""
        return await self._threads.run(self._client.bench, budget_bytes=budget_bytes)

    def prompts(self) -> "AsyncRemotePrompts":
        """The prompt overrides of the server."""
        return AsyncRemotePrompts(self._threads, self._client.prompts())

    async def close(self) -> None:
        """Close all connections."""
        self._threads.close()
        self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncRemoteRun:
    """A run on a server whose verbs are coroutines. ``AsyncClient.run`` opens it."""

    def __init__(self, threads: ClientThreads, run: RemoteRun) -> None:
        self._threads = threads
        self._run = run

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @property
    def response(self) -> schemas.RunResponse:
        """The run as it was opened."""
        return self._run.response

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of the commit, once there is one."""
        return self._run.receipt

    async def recall(
        self,
        query: str,
        *,
        tokens: int = DEFAULT_RECALL_TOKENS,
        max_items: int = DEFAULT_MAX_ITEMS,
        scope: str | None = None,
        scopes: Sequence[str] | None = None,
        where: Filter | Where | None = None,
        controller: str = DEFAULT_CONTROLLER,
        now_utc: str | None = None,
        least_origin: Origin | str | None = None,
        include_unreviewed: bool = False,
    ) -> schemas.RecallResponse:
        """Recall from the run's snapshot."""
        return await self._threads.run(
            self._run.recall,
            query,
            tokens=tokens,
            max_items=max_items,
            scope=scope,
            scopes=scopes,
            where=where,
            controller=controller,
            now_utc=now_utc,
            least_origin=least_origin,
            include_unreviewed=include_unreviewed,
        )

    async def remember(
        self,
        text: str,
        *,
        subject: str | None = None,
        source: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        refs: Sequence[Mapping[str, Any]] = (),
        propose: bool = False,
        hold: str | None = None,
        scope: str | None = None,
        metadata: Mapping[str, JsonScalar] | None = None,
        session: str | None = None,
        position: int | None = None,
        speaker: str | None = None,
        valid_from: str | datetime | None = None,
        valid_until: str | datetime | None = None,
        supersedes: str | Sequence[str] = (),
    ) -> schemas.RememberResponse:
        """Judge one text and buffer it until the run commits; see ``Client.remember``."""
        return await self._threads.run(
            self._run.remember,
            text,
            subject=subject,
            source=source,
            tags=tags,
            refs=refs,
            propose=propose,
            hold=hold,
            scope=scope,
            metadata=metadata,
            session=session,
            position=position,
            speaker=speaker,
            valid_from=valid_from,
            valid_until=valid_until,
            supersedes=supersedes,
        )

    async def forget(self, subject: str, *, reason: str, scope: str | None = None) -> schemas.ForgetResponse:
        """Forget a subject (or memory id) when the run commits, and erase its content."""
        return await self._threads.run(self._run.forget, subject, reason=reason, scope=scope)

    async def commit(self) -> Receipt | None:
        """Commit the run atomically. A commit that was begun ends even if the task is cancelled."""
        return await asyncio.shield(self._threads.run(self._run.commit))

    async def discard(self) -> None:
        """Discard the run. None of its writes were visible to anyone."""
        await self._threads.run(self._run.discard)


class AsyncRemoteSnapshot:
    """Memory as of a snapshot."""

    def __init__(self, threads: ClientThreads, snapshot: RemoteSnapshot) -> None:
        self._threads = threads
        self._snapshot = snapshot
        self.snapshot = snapshot.snapshot

    async def recall(
        self,
        query: str,
        *,
        tokens: int = DEFAULT_RECALL_TOKENS,
        max_items: int = DEFAULT_MAX_ITEMS,
        scope: str | None = None,
        scopes: Sequence[str] | None = None,
        where: Filter | Where | None = None,
        controller: str = DEFAULT_CONTROLLER,
        now_utc: str | None = None,
        least_origin: Origin | str | None = None,
        include_unreviewed: bool = False,
        explain: bool = False,
    ) -> schemas.RecallResponse:
        """Recall from the snapshot within a token budget."""
        return await self._threads.run(
            self._snapshot.recall,
            query,
            tokens=tokens,
            max_items=max_items,
            scope=scope,
            scopes=scopes,
            where=where,
            controller=controller,
            now_utc=now_utc,
            least_origin=least_origin,
            include_unreviewed=include_unreviewed,
            explain=explain,
        )
