"""A run and a snapshot whose verbs are coroutines. ``AsyncMemory`` gives them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from standfast.limits import DEFAULT_MAX_ITEMS, DEFAULT_RECALL_TOKENS
from standfast.memory.run import Run
from standfast.memory.sessions import SessionInfo, SessionMessage
from standfast.memory.snapshot_view import SnapshotView
from standfast.origins import Origin
from standfast.recall.controller import RECALLED_BANDS, Package, RecallAnswer
from standfast.recall.filters import Filter, Where
from standfast.recall.package import RecallPackage
from standfast.recall.registry import DEFAULT_CONTROLLER
from standfast.recall.tokens import TokenCounter
from standfast.scopes import SHARED
from standfast.store.commit import Write
from standfast.traces.artifact import ToolProfile, Trace
from standfast.traces.recorder import Recorder
from standfast.traces.recording import EventDraft, Lane
from standfast.traces.shapes import Shape
from standfast.vocabulary import Band, JsonScalar, Receipt, Record, Remembered, RunIdentity

_P = ParamSpec("_P")
_R = TypeVar("_R")
_in_thread = asyncio.to_thread


class AsyncRun:
    """A run whose verbs are coroutines. ``AsyncMemory.run`` opens it."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def identity(self) -> RunIdentity:
        """What the run is, what it reads from, and what it may do."""
        return self._run.identity

    @property
    def recorder(self) -> Recorder:
        """The recorder of the run. Recording does not block."""
        return self._run.recorder

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of the commit, once there is one."""
        return self._run.receipt

    @property
    def answers(self) -> list[Remembered]:
        """What the calls of ``remember`` were answered, as committed; see ``Run.answers``."""
        return self._run.answers

    @property
    def trace(self) -> Trace | None:
        """The trace, once the run is over."""
        return self._run.trace

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
        """Return the best excerpts for a query as of the run's snapshot; see ``Run.recall``."""
        return await _in_thread(
            self._run.recall,
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
    ) -> Remembered:
        """Judge a text and buffer it for the commit; see ``Run.remember``."""
        return await _in_thread(
            self._run.remember,
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
        )

    async def forget(self, subject: str, *, reason: str, scope: str | None = None) -> None:
        """Erase every version of a subject when the run commits; see ``Run.forget``."""
        await _in_thread(self._run.forget, subject, reason=reason, scope=scope)

    async def commit(self, *, extra_writes: Sequence[Write] = ()) -> Receipt | None:
        """Commit everything. A commit that was begun is finished, even if the task is cancelled; see ``Run.commit``."""
        return await asyncio.shield(_in_thread(self._run.commit, extra_writes=extra_writes))

    async def discard(self, error: BaseException | None = None) -> None:
        """Drop the buffer and end the run; see ``Run.discard``."""
        await _in_thread(self._run.discard, error)

    @asynccontextmanager
    async def event(
        self, *, role: str, interceptor: str, decision_type: str | None = None
    ) -> AsyncIterator[EventDraft]:
        """Record an event for as long as the ``async with`` block lasts."""
        with self._run.event(role=role, interceptor=interceptor, decision_type=decision_type) as event:
            yield event

    def lane(self) -> Lane:
        """Create a lane for the events of a parallel task: ``with lane:`` in the task."""
        return self._run.lane()

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Return a decorator that records each call of a function or an ``async def``; see ``Recorder.tool``."""
        return self._run.tool(profile=profile, effects=effects)

    def guardrail(self, guardrail_id: str) -> None:
        """Record that a guardrail was triggered."""
        self._run.guardrail(guardrail_id)

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Record the shape of the run's output."""
        self._run.output(shape)


class AsyncSnapshotView:
    """Memory as of one snapshot, with coroutines. ``AsyncMemory.at`` returns it."""

    def __init__(self, view: SnapshotView) -> None:
        self._view = view

    @property
    def memory_snapshot_id(self) -> int:
        """The snapshot."""
        return self._view.memory_snapshot_id

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
        """Return the best excerpts for a query; see ``SnapshotView.recall``."""
        return await _in_thread(
            self._view.recall,
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

    async def recall_again(
        self, package: RecallPackage, *, token_counter: TokenCounter | None = None
    ) -> Package:
        """Answer the request of a package again; see ``SnapshotView.recall_again``."""
        return await _in_thread(self._view.recall_again, package, token_counter=token_counter)

    async def explain(
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
    ) -> RecallAnswer:
        """Recall, and say why each record was chosen; see ``SnapshotView.explain``."""
        return await _in_thread(
            self._view.explain,
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

    async def records(self, *, band: Band | None = None, scope: str = SHARED) -> list[Record]:
        """Return the records that the snapshot shows in a scope; see ``SnapshotView.records``."""
        return await _in_thread(lambda: list(self._view.records(band=band, scope=scope)))

    async def session(self, session: str, *, scope: str = SHARED, after: str = "") -> list[SessionMessage]:
        """Return the messages of a session, in order; see ``SnapshotView.session``."""
        return await _in_thread(lambda: list(self._view.session(session, scope=scope, after=after)))

    async def sessions(self, *, scope: str = SHARED, after: str = "") -> list[SessionInfo]:
        """Return the sessions of a scope; see ``SnapshotView.sessions``."""
        return await _in_thread(lambda: list(self._view.sessions(scope=scope, after=after)))
