"""What a ``Client`` opens to work in: a run on a server, and memory as of one snapshot.

Each writing call of a run has an idempotency key, so that any server of the store can answer a retry.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, Self, TypeVar, Unpack

from standfast.client.bodies import recall_body
from standfast.client.transport import ApiCalls
from standfast.clock import IdSource
from standfast.errors import StandfastError, TooLarge, TraceError
from standfast.govern.judge.secrecy import redacted_json
from standfast.limits import MAX_BODY_BYTES, MAX_TRACE_BYTES
from standfast.records.canon import canonical_bytes, parse
from standfast.records.requests import (
    RecallFields,
    RecallRequest,
    RememberFields,
    RememberRequest,
    takes_fields_of,
)
from standfast.records.vocabulary import Receipt, Value
from standfast.server.operations import schemas
from standfast.traces.artifact import ToolProfile, selected
from standfast.traces.entries import EventBegin, EventEnd, GapEntry, ToolEntry, TraceEntry, recorded_tool
from standfast.traces.recording import shortened
from standfast.traces.shapes import Shape

MAX_CALL_BYTES: Final = MAX_BODY_BYTES * 3 // 4
"""The most that a request says of a tool call: its values grow where secrets are replaced by their kind."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


class RemoteRun:
    """A run on a server.

    Used as a context manager, leaving the block commits; an exception discards the run. Events, tools,
    guardrails and the output are recorded as in ``Run``, so that both make the same trace; but a run over
    HTTP has no lanes. If something is recorded while an event is open elsewhere (in another thread or task),
    the server can't tell which event it belongs to: the trace then has a gap.
    """

    def __init__(self, calls: ApiCalls, response: schemas.RunResponse, *, ids: IdSource) -> None:
        self._calls = calls
        self._ids = ids
        self.is_over = False
        self.response = response
        self.receipt: Receipt | None = None
        self._offered: dict[str, ToolProfile] = {}
        """Tools that were not called yet, by name. A trace covers what a model was offered, too."""
        self._open_events: list[RemoteEvent] = []
        self._has_overlap = False

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.response.run_id

    @takes_fields_of(RecallRequest)
    def recall(self, query: str, **fields: Unpack[RecallFields]) -> schemas.RecallResponse:
        """Recall from the run's snapshot; see ``Client.recall``."""
        body = RecallRequest.of(query, **fields)
        self._note_overlap()
        return self._calls.post(self._path("/recall"), schemas.RecallResponse, body, safe=True)

    @takes_fields_of(RememberRequest)
    def remember(self, text: str, **fields: Unpack[RememberFields]) -> schemas.RememberResponse:
        """Judge one text and buffer it until the run commits; see ``Client.remember``."""
        request, key = RememberRequest.of(text, **fields), self._ids.new_id()
        self._note_overlap()
        return self._calls.post(self._path("/remember"), schemas.RememberResponse, request, request_key=key)

    def forget(self, subject: str, *, reason: str, scope: str | None = None) -> schemas.ForgetResponse:
        """Forget a subject (or memory id) when the run commits, and erase its content."""
        request = schemas.ForgetInRunBody(subject=subject, reason=reason, scope=scope)
        self._note_overlap()
        return self._calls.post(
            self._path("/forget"), schemas.ForgetResponse, request, request_key=self._ids.new_id()
        )

    @contextmanager
    def event(
        self, *, role: str, interceptor: str, decision_type: str | None = None
    ) -> Iterator["RemoteEvent"]:
        """Record an event while the block lasts; ``event.decide(...)`` may name the decision later."""
        event = self.begin_event(role=role, interceptor=interceptor, decision_type=decision_type)
        with event.entered():
            try:
                yield event
            finally:
                self.end_event(event)

    def begin_event(self, *, role: str, interceptor: str, decision_type: str | None = None) -> "RemoteEvent":
        """Begin an event; ``event`` does this, enters it and ends it."""
        begin = {"role": role, "interceptor": interceptor, "decision_type": decision_type}
        self.record(TraceEntry(begin=EventBegin.from_json(begin)))
        event = RemoteEvent()
        self._open_events.append(event)
        return event

    def end_event(self, event: "RemoteEvent") -> None:
        """End an event that was begun."""
        self.record(TraceEntry(end=EventEnd(decision_type=event.decision_type)))
        self._open_events.remove(event)

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Return a decorator that records each call of a function, async or not; see ``Recorder.tool``."""
        return recorded_tool(_RemoteCalls(self, self._offered), profile, effects)

    def guardrail(self, guardrail_id: str) -> None:
        """Record that a guardrail was triggered."""
        self.record(TraceEntry.from_json({"guardrail": guardrail_id}))

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Record the shape of the run's output. A run has one output."""
        self.record(TraceEntry.from_json({"output": shape if isinstance(shape, dict) else shape.as_json()}))

    def record(self, entry: TraceEntry) -> None:
        """Add an entry to the run's trace."""
        if entry.tool is not None:
            self._offered.pop(entry.tool.profile.tool_name, None)
        self._note_overlap()
        self._send(entry)

    def _note_overlap(self) -> None:
        """Record a gap, once, if the event that began last is not one that the caller is in."""
        last = self._open_events[-1] if self._open_events else None
        if last is None or self._has_overlap or last in _ENTERED.get():
            return
        self._has_overlap = True
        problem = "something was recorded while an event was open in another thread or task"
        self._send(TraceEntry(gap=GapEntry(code="overlapping_events", problem=problem)))

    def _send(self, entry: TraceEntry) -> None:
        self._calls.post(self._path("/record"), schemas.RunResponse, entry, request_key=self._ids.new_id())

    def commit(self) -> Receipt | None:
        """Commit the run atomically.

        Returns None if there was nothing to apply; repeating it gives the same receipt.
        """
        for profile in [*self._offered.values()]:
            self.record(TraceEntry(offered=profile))
        self._offered.clear()
        response = self._calls.post(self._path("/commit"), schemas.CommitResponse, safe=True)
        self.is_over = True
        self.receipt = response.receipt
        return self.receipt

    def discard(self) -> None:
        """Discard the run. None of its writes were visible to anyone."""
        self.is_over = True
        self._calls.delete(self._path(""))

    def _path(self, path: str) -> str:
        return f"/runs/{self.run_id}{path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.is_over:
            return
        if kind is None:
            self.commit()
        else:
            # The caller should see the error of the block. An open run expires on the server.
            with suppress(StandfastError):
                self.discard()


class RemoteEvent:
    """An event that is being recorded on a server."""

    def __init__(self) -> None:
        self.decision_type: str | None = None

    def decide(self, decision_type: str) -> None:
        """Name the decision, if it was not known when the event began."""
        self.decision_type = decision_type

    @contextmanager
    def entered(self) -> Iterator[None]:
        """What happens in this block, and in tasks that it starts, happens in the event."""
        token = _ENTERED.set((*_ENTERED.get(), self))
        try:
            yield
        finally:
            _ENTERED.reset(token)


_ENTERED: ContextVar[tuple[RemoteEvent, ...]] = ContextVar("entered_events", default=())
"""The events that the caller is in."""


class _RemoteCalls:
    """Makes calls of tools here, and records them on the server."""

    def __init__(self, run: RemoteRun, offered: dict[str, ToolProfile]) -> None:
        self._run = run
        self._offered = offered

    def register(self, profile: ToolProfile) -> None:
        """Add a tool that the run may call. The server hears of it with its first call, or at the end."""
        known = self._offered.setdefault(profile.tool_name, profile)
        if known != profile:
            raise TraceError(
                "profile_conflict",
                tool_name=profile.tool_name,
                known_version=known.tool_profile_version,
                given_version=profile.tool_profile_version,
            )

    def perform(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Any],
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Make a call and record it. Its result is returned, and its error raised, unchanged."""
        given = _taken(profile, args)
        try:
            result = call()
        except Exception as error:
            self._raised(profile, given, error)
            raise
        self._returned(profile, given, result, effects)
        return result

    async def perform_async(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Awaitable[Any]],
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Await a call and record it."""
        given = _taken(profile, args)
        try:
            result = await call()
        except Exception as error:
            await asyncio.to_thread(self._raised, profile, given, error)
            raise
        await asyncio.to_thread(self._returned, profile, given, result, effects)
        return result

    def _raised(self, profile: ToolProfile, args: Callable[[], Any], error: Exception) -> None:
        self._send(lambda: ToolEntry.raised(profile, args(), error))

    def _returned(
        self,
        profile: ToolProfile,
        args: Callable[[], Any],
        result: object,
        effects: Callable[[Any], object] | None,
    ) -> None:
        def entry() -> ToolEntry:
            seen = (
                {} if effects is None or not profile.has_side_effects else {"side_effects": effects(result)}
            )
            plain = {name: _plain(one) for name, one in {"result": result, **seen}.items()}
            return ToolEntry(profile=profile, args=args(), **plain)

        self._send(entry)

    def _send(self, entry: Callable[[], ToolEntry]) -> None:
        try:
            made = TraceEntry(tool=_sendable(entry()))
        except Exception as error:  # noqa: BLE001  # Recording must not break the run; it becomes a gap.
            gap = GapEntry(code="unrecordable_call", problem=shortened(str(error)))
            made = TraceEntry(gap=gap)
        self._run.record(made)


def _plain(value: object) -> Any:
    """A value as JSON, in the form in which it is compared."""
    plain = value.as_json() if isinstance(value, Value) else value
    return parse(canonical_bytes(plain, limit_bytes=MAX_TRACE_BYTES), limit_bytes=MAX_TRACE_BYTES)


def _sendable(call: ToolEntry) -> ToolEntry:
    """The call, with fingerprints instead of what it returned if a request would be too large otherwise."""
    if _size_bytes(call) > MAX_CALL_BYTES:
        call = call.fingerprinted(redacted_json)
        if (size_bytes := _size_bytes(call)) > MAX_CALL_BYTES:
            raise TooLarge(path="args", size_bytes=size_bytes, limit_bytes=MAX_CALL_BYTES)
    return call


def _size_bytes(call: ToolEntry) -> int:
    return len(json.dumps(call.as_json()))


def _taken(profile: ToolProfile, args: object) -> Callable[[], Any]:
    """Gives the compared arguments as they are now, as JSON: the tool may change them.

    If they are none, it raises when they are recorded: a call is made whatever can be recorded of it.
    """
    taken: Future[Any] = Future()
    try:
        taken.set_result(_plain(selected(profile.normalized_args_fields, args)))
    except Exception as error:  # noqa: BLE001  # Whatever it is, it becomes a gap.
        taken.set_exception(error)
    return taken.result


class RemoteSnapshot:
    """Memory as of a snapshot. The same query returns the same package as it did then."""

    def __init__(self, calls: ApiCalls, snapshot: int) -> None:
        self._calls = calls
        self.snapshot = snapshot

    @takes_fields_of(RecallRequest)
    def recall(
        self, query: str, *, explain: bool = False, **fields: Unpack[RecallFields]
    ) -> schemas.RecallResponse:
        """Recall from the snapshot within a token budget; see ``Client.recall``."""
        body = recall_body(query, at=self.snapshot, explain=explain, **fields)
        return self._calls.post("/recall", schemas.RecallResponse, body, safe=True)
