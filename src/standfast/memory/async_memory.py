"""Memory from async code: the same verbs as coroutines. Each call runs in a thread, so the event loop never waits for a disk.

    async with await AsyncMemory.open("agent.db") as memory:
        async with memory.run(workflow="triage", mode="buffered_write") as run:
            await run.remember("EU refunds take 14 days.", source={"kind": "doc", "id": "handbook#4"})

There is one implementation, the synchronous one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from standfast.clock import Clock, IdSource
from standfast.govern.approvals.queue import ApprovalQueue
from standfast.govern.judge.judge import Floor
from standfast.govern.patterns import AttackPattern
from standfast.govern.sweep import DueRecord
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.ledger.notary import LedgerTail, Notary
from standfast.ledger.note import VerifyingKey
from standfast.limits import DEFAULT_MAX_ITEMS, DEFAULT_RECALL_TOKENS, MAX_RETRIES
from standfast.memory.async_run import AsyncRun, AsyncSnapshotView
from standfast.memory.conversations import AddedMessages
from standfast.memory.embedding import MemoryVectors
from standfast.memory.erasing import ErasurePlan, Forgotten
from standfast.memory.extraction import FactExtractor
from standfast.memory.memory import DEFAULT_WORKFLOW, Memory
from standfast.memory.sessions import SessionInfo, SessionMessage
from standfast.origins import Origin
from standfast.policies.band_budget import BandBudget
from standfast.recall.analysis import DEFAULT_LANGUAGE
from standfast.recall.controller import RECALLED_BANDS, Package
from standfast.recall.embedders import Embedder
from standfast.recall.filters import Filter, Where
from standfast.recall.registry import DEFAULT_CONTROLLER, ControllerRegistry
from standfast.recall.tokens import TokenCounter
from standfast.scopes import ALL_SCOPES, SHARED
from standfast.store.protocol import Progress
from standfast.store.records import HistoryEntry, RecordChange
from standfast.store.store import Store
from standfast.traces.artifact import ModelConfig
from standfast.traces.folder import TraceFolder
from standfast.vocabulary import (
    Band,
    CommitPolicy,
    JsonScalar,
    Receipt,
    Record,
    Remembered,
    VisibilityMode,
)

_R = TypeVar("_R")
_in_thread = asyncio.to_thread


class AsyncMemory:
    """A memory whose verbs are coroutines. What is an iterator in ``Memory`` is a list here."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        namespace: str = "default",
        create: bool = True,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        floors: Iterable[Floor] | None = None,
        strict: bool = True,
        allow_live: bool = False,
        mode: VisibilityMode | str = VisibilityMode.READ_ONLY,
        ceiling: VisibilityMode | str = VisibilityMode.BUFFERED_WRITE,
        notary: Notary | Literal["auto"] | None = "auto",
        traces: TraceFolder | Literal["auto"] | None = "auto",
        commit_policy: CommitPolicy | str = CommitPolicy.ACCEPTED,
        budgets: Iterable[BandBudget] = (),
        controllers: ControllerRegistry | None = None,
        origins: Mapping[str, Origin | str] | None = None,
        embedder: Embedder | str | None = None,
        language: str = DEFAULT_LANGUAGE,
    ) -> Self:
        """Open the memory at a path or URL; see ``Memory.open``."""
        memory = await _in_thread(
            Memory.open,
            url,
            namespace=namespace,
            create=create,
            clock=clock,
            ids=ids,
            floors=floors,
            strict=strict,
            allow_live=allow_live,
            mode=mode,
            ceiling=ceiling,
            notary=notary,
            traces=traces,
            commit_policy=commit_policy,
            budgets=budgets,
            controllers=controllers,
            origins=origins,
            embedder=embedder,
            language=language,
        )
        return cls(memory)

    @property
    def store(self) -> Store:
        """The store; its methods block."""
        return self._memory.store

    @property
    def vectors(self) -> MemoryVectors:
        """The vectors of ``hybrid-v1``; its methods block."""
        return self._memory.vectors

    @property
    def namespace(self) -> str:
        """The namespace of this memory."""
        return self._memory.namespace

    @property
    def ceiling(self) -> VisibilityMode:
        """What memory may be used for at all."""
        return self._memory.ceiling

    def require_readable(self, operation: str) -> None:
        """Raise if the ceiling forbids to read; see ``Memory.require_readable``."""
        self._memory.require_readable(operation)

    @property
    def policy_set_id(self) -> str:
        """The id of the judge's floors, the write policy and the budgets."""
        return self._memory.policy_set_id

    @property
    def warnings(self) -> list[str]:
        """What failed after something was applied; see ``Memory.warnings``."""
        return self._memory.warnings

    async def remember(
        self,
        text: str,
        *,
        subject: str | None = None,
        source: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        refs: Sequence[Mapping[str, Any]] = (),
        propose: bool = False,
        role: str = "agent",
        hold: str | None = None,
        scope: str | None = None,
        metadata: Mapping[str, JsonScalar] | None = None,
        session: str | None = None,
        position: int | None = None,
        speaker: str | None = None,
        valid_from: str | datetime | None = None,
        valid_until: str | datetime | None = None,
        supersedes: str | Sequence[str] = (),
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> Remembered:
        """Judge a text and commit it; see ``Memory.remember``."""
        return await _in_thread(
            self._memory.remember,
            text,
            subject=subject,
            source=source,
            tags=tags,
            refs=refs,
            propose=propose,
            role=role,
            hold=hold,
            scope=scope,
            metadata=metadata,
            session=session,
            position=position,
            speaker=speaker,
            valid_from=valid_from,
            valid_until=valid_until,
            supersedes=supersedes,
            workflow=workflow,
            agent=agent,
            run_id=run_id,
            max_origin=max_origin,
        )

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
        extract: FactExtractor | None = None,
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> AddedMessages:
        """Add the messages of a conversation; see ``Memory.add``. What was begun is finished, even if the task is cancelled."""
        return await asyncio.shield(
            _in_thread(
                self._memory.add,
                messages,
                scope=scope,
                session=session,
                position=position,
                tags=tags,
                metadata=metadata,
                supersedes=supersedes,
                extract=extract,
                workflow=workflow,
                agent=agent,
                run_id=run_id,
                max_origin=max_origin,
            )
        )

    async def session(
        self, session: str, *, scope: str = SHARED, at: int | None = None
    ) -> list[SessionMessage]:
        """Return the messages of a session, in order; see ``Memory.session``."""
        return await _in_thread(self._memory.session, session, scope=scope, at=at)

    async def sessions(self, *, scope: str = SHARED, at: int | None = None) -> list[SessionInfo]:
        """Return the sessions of a scope; see ``Memory.sessions``."""
        return await _in_thread(self._memory.sessions, scope=scope, at=at)

    async def forget(
        self,
        subject: str | None = None,
        *,
        reason: str = "",
        scope: str | None = None,
        memory_id: str | None = None,
        source: Mapping[str, str] | None = None,
        rehearse: bool = False,
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
    ) -> Forgotten | ErasurePlan:
        """Erase a subject, all of a scope or all from a source, or say what would be erased; see ``Memory.forget``."""
        erase: Callable[..., Forgotten | ErasurePlan] = self._memory.forget
        return await asyncio.shield(
            _in_thread(
                erase,
                subject,
                reason=reason,
                scope=scope,
                memory_id=memory_id,
                source=source,
                rehearse=rehearse,
                workflow=workflow,
                agent=agent,
                run_id=run_id,
            )
        )

    async def finish_forgetting(self) -> list[Forgotten]:
        """Finish what processes that died had begun to forget; see ``Memory.finish_forgetting``."""
        return await _in_thread(self._memory.finish_forgetting)

    async def retry(
        self, attempt: Callable[[], Awaitable[_R]], *, key: str = "", attempts: int = MAX_RETRIES
    ) -> _R:
        """Await a coroutine function until it does not conflict with other runs; see ``Memory.retry``."""
        return await self._memory.retry_lines.retry_async(attempt, key=key, attempts=attempts)

    @asynccontextmanager
    async def run(
        self,
        *,
        workflow: str,
        mode: VisibilityMode | str | None = None,
        agent: str | None = None,
        model: ModelConfig | None = None,
        run_id: str | None = None,
        scope: str = SHARED,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> AsyncIterator[AsyncRun]:
        """Open a run that commits when the block is left. An exception or a cancellation discards it."""
        run = AsyncRun(
            await _in_thread(
                self._memory.run,
                workflow=workflow,
                mode=mode,
                agent=agent,
                model=model,
                run_id=run_id,
                scope=scope,
                max_origin=max_origin,
            )
        )
        try:
            yield run
        except BaseException as error:
            # Not awaited: a task that is being cancelled may be cancelled again at every await.
            run._run.discard(error)  # noqa: SLF001  # The two classes are one implementation.
            raise
        await run.commit()

    async def recall(
        self,
        query: str,
        *,
        tokens: int = DEFAULT_RECALL_TOKENS,
        max_items: int = DEFAULT_MAX_ITEMS,
        bands: Sequence[Band | str] = RECALLED_BANDS,
        now_utc: str | None = None,
        controller: str = DEFAULT_CONTROLLER,
        token_counter: TokenCounter | None = None,
        scope: str | None = None,
        scopes: Sequence[str] | None = None,
        where: Filter | Where | None = None,
        least_origin: Origin | str | None = None,
        include_unreviewed: bool = False,
    ) -> Package:
        """Return the best excerpts for a query from the newest snapshot; see ``Memory.recall``."""
        return await _in_thread(
            self._memory.recall,
            query,
            tokens=tokens,
            max_items=max_items,
            bands=bands,
            now_utc=now_utc,
            controller=controller,
            token_counter=token_counter,
            scope=scope,
            scopes=scopes,
            where=where,
            least_origin=least_origin,
            include_unreviewed=include_unreviewed,
        )

    async def at(self, snapshot: int) -> AsyncSnapshotView:
        """Return memory as of a snapshot; see ``Memory.at``."""
        return AsyncSnapshotView(await _in_thread(self._memory.at, snapshot))

    async def history(self, subject: str, *, scope: str = SHARED) -> list[HistoryEntry]:
        """Return every version of a subject, oldest first; see ``Memory.history``."""
        return await _in_thread(self._memory.history, subject, scope=scope)

    async def diff(self, old: int, new: int | None = None, *, scope: str = SHARED) -> list[RecordChange]:
        """Return the records of a scope that differ between two snapshots; see ``Memory.diff``."""
        return await _in_thread(self._memory.diff, old, new, scope=scope)

    async def records(
        self, *, band: Band | None = None, at: int | None = None, scope: str = SHARED
    ) -> list[Record]:
        """Return the records that a snapshot shows in a scope; see ``Memory.records``."""
        return await _in_thread(lambda: list(self._memory.records(band=band, at=at, scope=scope)))

    def approvals(self) -> ApprovalQueue:
        """Return the queue of proposals. Its methods block: call them with ``asyncio.to_thread``."""
        return self._memory.approvals()

    async def patterns(self) -> list[AttackPattern]:
        """Return the sources from which attacks keep coming; see ``Memory.patterns``."""
        return await _in_thread(self._memory.patterns)

    async def lift_pattern(
        self, source: str, *, reason: str, by: str = "operator", scope: str = ALL_SCOPES
    ) -> Receipt:
        """End the pattern of a source before it fades; see ``Memory.lift_pattern``."""
        return await _in_thread(self._memory.lift_pattern, source, reason=reason, by=by, scope=scope)

    async def due(self) -> list[DueRecord]:
        """Return what a retention sweep would archive or delete now; see ``Memory.due``."""
        return await _in_thread(lambda: list(self._memory.due()))

    async def sweep(self) -> list[Receipt]:
        """Carry out retention; see ``Memory.sweep``."""
        return await _in_thread(self._memory.sweep)

    async def verify(
        self,
        checkpoints: Sequence[str] = (),
        public_keys: Sequence[VerifyingKey] = (),
        *,
        progress: Progress | None = None,
    ) -> list[str]:
        """Return one message per problem; empty if everything is intact. ``progress`` is called in a thread. See ``Memory.verify``."""
        return await _in_thread(
            lambda: list(self._memory.verify(checkpoints, public_keys, progress=progress))
        )

    async def tail(
        self, checkpoints: Sequence[str] = (), public_keys: Sequence[VerifyingKey] = ()
    ) -> LedgerTail:
        """What vouches for the newest entry of the ledger; see ``Memory.tail``."""
        return await _in_thread(lambda: self._memory.tail(checkpoints, public_keys))

    async def checkpoint(self) -> str | None:
        """Sign the ledger's head; see ``Memory.checkpoint``."""
        return await _in_thread(self._memory.checkpoint)

    async def receipt(self, ledger_seq: int) -> InclusionReceipt:
        """Return the proof that an entry is in the ledger; see ``Memory.receipt``."""
        return await _in_thread(self._memory.receipt, ledger_seq)

    async def close(self) -> None:
        """Sign the ledger's head if needed and release files and connections; see ``Memory.close``."""
        await _in_thread(self._memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
