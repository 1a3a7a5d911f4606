"""The recorder: notes what a run does while it goes on, and builds the artifact at its end.

Recording never changes a run. What can't be recorded becomes a gap in the trace, from which then no claim is
made; the tool's own result or error goes back to the agent unchanged. Only calls that are wrong in themselves
raise, such as an empty name.
"""

import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, Final, ParamSpec, TypeVar

import msgspec
import orjson

from standfast.clock import Clock
from standfast.errors import InvalidValue, NotCanonical, TraceError
from standfast.limits import (
    MAX_KNOWN_PROFILES,
    MAX_OUTPUT_SHAPE_BYTES,
    MAX_TRACE_BYTES,
    MAX_TRACE_RESULT_BYTES,
)
from standfast.records.canon import canonical_bytes, utc_text
from standfast.records.conversion import converted, decoded
from standfast.records.requests import ForgetRequest, RememberRequest
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import ErasedSince, Remembered, RunIdentity, Value
from standfast.traces.artifact import (
    ModelConfig,
    Retrieval,
    RetrievalBudget,
    SelectedRecord,
    ToolProfile,
    Trace,
)
from standfast.traces.entries import ToolEntry, TraceEntry, recorded_tool
from standfast.traces.folder import TraceJournal
from standfast.traces.recording import (
    POSITION,
    RUN_FAILED,
    CallDraft,
    EventDraft,
    Lane,
    Position,
    Recording,
    Redact,
    checked_name,
    position_of,
    shortened,
    shown,
)
from standfast.traces.shapes import Shape, output_shape_hash, output_type

# What a run remembers is compared by the text and the verdict, and not by ids that no two runs share.
REMEMBER: Final = ToolProfile(
    tool_name="memory.remember",
    tool_profile_version="remember-v1",
    tool_result_fields=("bands", "reasons", "verdict"),
)
FORGET: Final = ToolProfile(tool_name="memory.forget", tool_profile_version="forget-v1")
_MEMORY_TOOLS: Final = (REMEMBER.tool_name, FORGET.tool_name)
# What an entry takes in addition to what is counted, generously: digests, names and punctuation.
_ENTRY_BYTES: Final = 800
# The links of a retrieval are filled in when the artifact is built.
_UNLINKED: Final = {"retrieval_event_id": "-", "run_id": "-", "event_id": "-"}
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _profile_and_args(request: RememberRequest | ForgetRequest) -> tuple[ToolProfile, dict[str, Any]]:
    """What is recorded of a writing call. The scope ``shared`` is left out."""
    plain = request.as_recorded()
    if isinstance(request, RememberRequest):
        return REMEMBER, plain
    if request.scope == SHARED:
        del plain["scope"]
    return FORGET, plain


@lru_cache(maxsize=MAX_KNOWN_PROFILES)
def _size_bytes(profile: ToolProfile) -> int:
    """The size of a profile in an artifact. Cached, because the same few are registered in run after run."""
    return len(canonical_bytes(profile.as_json())) + 1


class Recorder:
    """Records one run. Every method may be called from any thread.

    Calls, retrievals and guardrails belong to the event that is open in this thread or task; outside of any
    event they get one of their own. Threads that record in parallel need a ``lane`` each; without one, events
    are in the order in which they came.
    """

    def __init__(
        self,
        run: RunIdentity,
        *,
        clock: Clock,
        model: ModelConfig | None = None,
        profiles: Iterable[ToolProfile] = (),
        limit_bytes: int = MAX_TRACE_BYTES,
        journal: TraceJournal | None = None,
        redact: Redact | None = None,
    ) -> None:
        if not 2 * MAX_OUTPUT_SHAPE_BYTES <= limit_bytes <= MAX_TRACE_BYTES:
            problem = f"limit_bytes must be {2 * MAX_OUTPUT_SHAPE_BYTES} to {MAX_TRACE_BYTES}"
            raise InvalidValue(what="Recorder", problem=problem)
        self.run = run
        self._clock = clock
        self._lock = threading.RLock()
        self._trace: Trace | None = None
        self.text = b""
        """The text of the artifact, once it is built."""
        # A key and not the recorder itself: without reference cycles, a trace is freed with its recorder.
        self._key = object()
        self._root = Lane(self._key, self._lock)
        self._left_bytes = limit_bytes - MAX_OUTPUT_SHAPE_BYTES
        self._result_left_bytes = min(MAX_TRACE_RESULT_BYTES, self._left_bytes // 2)
        self.redact = redact
        if model is not None and redact is not None:
            model = ModelConfig.from_json(redact(model.as_json()))
        self._recording = Recording(
            run=run, model=model, root=self._root, started_at=utc_text(clock.now()), limit_bytes=limit_bytes
        )
        self.journal = journal
        self._is_noted = False
        self._held: list[tuple[object, ...]] = []
        self._events = 0
        self._begun: list[EventDraft] = []
        for profile in profiles:
            self.register(profile)

    def register(self, profile: ToolProfile) -> None:
        """Add a tool that the run may call. Calling a tool adds it too. A tool has one profile in a run."""
        known = self._recording.profiles.get(profile.tool_name)
        if known is profile:
            return
        if known is not None and known != profile:
            raise TraceError(
                "profile_conflict",
                tool_name=profile.tool_name,
                known_version=known.tool_profile_version,
                given_version=profile.tool_profile_version,
            )
        names = [profile.tool_name, profile.tool_profile_version]
        if self._clean(names) != names:
            raise InvalidValue(what="ToolProfile", problem="its name or version holds a secret; use another")
        size_bytes = _size_bytes(profile)
        with self._lock:
            if profile.tool_name not in self._recording.profiles and self._reserve(size_bytes, None):
                self._recording.profiles[profile.tool_name] = profile
                self._note("profile", profile.as_json())

    def lane(self) -> Lane:
        """Create a lane for parallel work: call this where the work starts, and enter it (``with lane:``) in
        the worker.
        """
        return position_of(self._key, self._root).lane.branch()

    @contextmanager
    def event(self, *, role: str, interceptor: str, decision_type: str | None = None) -> Iterator[EventDraft]:
        """Record an event while the block lasts. ``event.decide(...)`` may name the decision later."""
        position = position_of(self._key, self._root)
        draft = self._new_event(position.lane, role, interceptor, decision_type)
        token = POSITION.set(Position(self._key, position.lane, draft, POSITION.get()))
        try:
            yield draft
        finally:
            POSITION.reset(token)
            self._closed(draft)

    def _new_event(self, lane: Lane, role: str, interceptor: str, decision_type: str | None) -> EventDraft:
        draft = EventDraft(
            role=self._clean(role),
            interceptor=self._clean(interceptor),
            decision_type=self._clean(decision_type),
            redact=self.redact,
        )
        return self._opened(lane, draft)

    def _closed(self, draft: EventDraft) -> None:
        draft.closed = True
        self._note("closed", draft.number, draft.decision_type)

    def record(self, entry: TraceEntry) -> None:
        """Record an entry that was sent from elsewhere. Between ``begin`` and ``end`` everything that is
        recorded outside of an event of this process belongs to that event.
        """
        if entry.begin is not None:
            begin = entry.begin
            self._begun.append(
                self._new_event(self._root, begin.role, begin.interceptor, begin.decision_type)
            )
        elif entry.end is not None:
            if not self._begun:
                raise InvalidValue(what="end", problem="no event has begun")
            draft = self._begun.pop()
            if entry.end.decision_type is not None:
                draft.decide(entry.end.decision_type)
            self._closed(draft)
        elif entry.tool is not None:
            self._record_call(entry.tool)
        elif entry.guardrail is not None:
            self.guardrail(entry.guardrail)
        elif entry.offered is not None:
            self.register(entry.offered)
        elif entry.output is not None:
            self.output(entry.output)
        elif entry.model_revision is not None:
            self.answered_by(entry.model_revision)
        elif entry.gap is not None:
            self.gap(entry.gap.code, entry.gap.problem)

    def _record_call(self, call: ToolEntry) -> None:
        begun = self._begin_call(call.profile, call.args)
        if call.error is None and call.result_fingerprint is None:
            self._end_call(begun, call.result, lambda: call.effects)
        elif begun is not None and call.error is not None:
            self._close_call(begun, begun.failed(call.error, shortened(call.message)))
        elif begun is not None and call.result_fingerprint is not None:
            entry = begun.ended("returned", call.result_fingerprint, call.side_effects_fingerprint)
            entry["result_omitted"] = "size" if call.profile.keeps_result else "profile"
            self._close_call(begun, entry)

    def tool_call(
        self, *, profile: ToolProfile, args: object, result: object, side_effects: object = None
    ) -> None:
        """Record a call that was made elsewhere. ``side_effects`` defaults to the result."""
        effects = result if side_effects is None else side_effects
        self._end_call(self._begin_call(profile, args), result, lambda: effects)

    def perform(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Any],
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Make a call and record it. The call's result is returned, and its error raised, unchanged.

        ``effects`` extracts the side effects from the result, if the profile has some in scope; the default
        is the result itself.
        """
        return self._performed(self._begin_call(profile, args), call, effects)

    async def perform_async(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Awaitable[Any]],
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Await a call and record it; see ``perform``."""
        return await self._performed_async(self._begin_call(profile, args), call, effects)

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Return a decorator that records each call of a function, which may be an ``async def``.

        Arguments are recorded by name, with defaults filled in. In a replay the function is not called; its
        recorded result is returned instead.

        Args:
            profile: Which fields are compared. By default all arguments and the whole result.
            effects: Extracts the side effects from the result, for a profile that has some in scope.
        """
        return recorded_tool(self, profile, effects)

    def wrote(
        self,
        request: RememberRequest | ForgetRequest,
        answer: Remembered | None = None,
        *,
        error: Exception | None = None,
    ) -> None:
        """Record a call of ``remember`` or ``forget`` that is over, with its answer or what it raised.

        The floors that a text fails are recorded as guardrails.
        """
        begun = self._begin_call(*_profile_and_args(request), is_over=True)
        if error is not None:
            self._fail_call(begun, error)
            return
        self._end_call(begun, answer, lambda: None)
        self._guardrails_of(answer)

    def answer(self, request: RememberRequest | ForgetRequest, call: Callable[[], Any]) -> Remembered | None:
        """Make and record a call of ``remember`` or ``forget``; a replay answers from the record."""
        answer: Any = self.perform(*_profile_and_args(request), call)
        if isinstance(request, ForgetRequest):
            return None
        remembered = answer if isinstance(answer, Remembered) else Remembered.from_json(answer)
        self._guardrails_of(remembered)
        return remembered

    def _guardrails_of(self, answer: object) -> None:
        for reason in answer.reasons if isinstance(answer, Remembered) else ():
            self.guardrail(reason.rpartition("[")[2].rstrip("]"))

    def retrieval(
        self,
        *,
        policy_id: str,
        policy_version: str,
        query_fingerprint: str,
        query_normalization_version: str,
        retrieval_mode: str,
        namespace: str,
        budget: RetrievalBudget,
        candidate_count: int,
        selected_records: Iterable[SelectedRecord],
        filters: Mapping[str, Any],
        scopes: Sequence[str] = (),
        package_hash: str | None = None,
        store_id: str | None = None,
        branch_id: str | None = None,
        erased_since: ErasedSince | None = None,
    ) -> None:
        """Record a read of memory, with the records that it returned, best first."""
        plain = {
            **_UNLINKED,
            "policy_id": policy_id,
            "policy_version": policy_version,
            "query_fingerprint": query_fingerprint,
            "query_normalization_version": query_normalization_version,
            "retrieval_mode": retrieval_mode,
            "namespace": namespace,
            "scopes": self._clean(list(scopes)),
            "filters": self._clean(dict(filters)),
            "budget": budget.as_json(),
            "candidate_count": candidate_count,
            "selected_records": [record.as_json() for record in selected_records],
            "package_hash": package_hash,
            "store_id": store_id,
            "branch_id": branch_id,
            "erased_since": None if erased_since is None else erased_since.as_json(),
        }
        canonical = canonical_bytes(plain)
        entry = orjson.loads(canonical)
        Retrieval.from_json(entry)
        event = self._event_here("retrieval")
        with self._lock:
            if self._reserve(len(canonical) + _ENTRY_BYTES, "dropped_retrievals"):
                event.retrievals.append(entry)
                self._note("retrieval", event.number, entry)

    def guardrail(self, guardrail_id: str) -> None:
        """Record that a guardrail was triggered. Repeating it within one event changes nothing."""
        name = self._clean(checked_name("guardrail_id", guardrail_id))
        event = self._event_here("guardrail")
        with self._lock:
            if name not in event.guardrails and self._reserve(_ENTRY_BYTES, None):
                event.guardrails.add(name)
                self._note("guardrail", event.number, name)

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Record the shape of the run's output. A run has one output."""
        try:
            plain = shape if isinstance(shape, dict) else shape.as_json()
            canonical = canonical_bytes(self._clean(plain), limit_bytes=MAX_OUTPUT_SHAPE_BYTES)
            checked: Shape = converted(orjson.loads(canonical), Shape)  # type: ignore[arg-type]  # A union.
        except (NotCanonical, msgspec.ValidationError) as error:
            raise InvalidValue(what="Output shape", problem=str(error)) from error
        with self._lock:
            self._refuse_if_finished()
            if self._recording.output is not None:
                raise InvalidValue(
                    what="Output shape", problem="the run has recorded its output already; it has only one"
                )
            self._recording.output = {
                "output_type": output_type(checked),
                "output_shape": checked.as_json(),
                "output_shape_hash": output_shape_hash(checked),
                "normalization_version": "json-v1",
            }
            self._note("output", self._recording.output)

    def answered_by(self, model_revision: str) -> None:
        """Record which revision of the model answered, if the provider says so only then. A run has one."""
        name = self._clean(checked_name("model_revision", model_revision))
        position = position_of(self._key, self._root)
        with self._lock:
            self._refuse_if_finished()
            model = self._recording.model
            if model is not None and model.model_revision is None:
                self._recording.model = msgspec.structs.replace(model, model_revision=name)
            elif model is not None and model.model_revision != name:
                problem = f"{model.model_revision} was expected to answer, and {name} did"
                self._recording.gap("model_changed", position.event, problem)

    def gap(self, code: str, problem: str) -> None:
        """Record that something happened that can't be recorded. No claim is then made from the trace."""
        position = position_of(self._key, self._root)
        with self._lock:
            self._recording.gap(self._clean(checked_name("code", code)), position.event, self._clean(problem))

    def finish(self, *, error: BaseException | None = None) -> Trace:
        """Build the artifact; calling again returns the same one. ``error`` means that the run failed."""
        with self._lock:
            if self._trace is None:
                if error is not None:
                    problem = f"{type(error).__qualname__}: {shown(error, self.redact)}"
                    self._recording.gap(RUN_FAILED, None, problem)
                self.text = self._recording.finish(finished_at=utc_text(self._clock.now()))
                self._trace = decoded(self.text, Trace)
                self._root.items.clear()
            return self._trace

    def _opened(self, lane: Lane, draft: EventDraft, *, is_held: bool = False) -> EventDraft:
        with self._lock:
            if self._reserve(_ENTRY_BYTES, "dropped_events"):
                lane.items.append(draft)
                self._events += 1
                draft.number = self._events
                self._note(
                    "event",
                    draft.number,
                    draft.role,
                    draft.interceptor,
                    draft.decision_type,
                    draft.closed,
                    is_held=is_held,
                )
        return draft

    def _event_here(self, decision_type: str, *, is_held: bool = False) -> EventDraft:
        """Return the event that is open here, or a new one for an entry outside of any event."""
        position = position_of(self._key, self._root)
        if position.event is not None:
            return position.event
        if self._begun:
            return self._begun[-1]
        draft = EventDraft(role="agent", interceptor="recorder", decision_type=decision_type)
        draft.closed = True
        return self._opened(position.lane, draft, is_held=is_held)

    def _begin_call(self, profile: ToolProfile, args: object, *, is_over: bool = False) -> CallDraft | None:
        """Add a call to its event. Returns None if it can't be recorded.

        Args:
            is_over: Whether its end is recorded next, so that the journal gets both at once.
        """
        self.register(profile)
        event = self._event_here("tool_call", is_held=is_over)
        try:
            # Calls of memory itself are redacted before.
            clean = args if profile.tool_name in _MEMORY_TOOLS else self._clean(args)
            call = CallDraft(event, profile, clean)
        except NotCanonical as error:
            with self._lock:
                self._recording.gap("unrecordable_args", event, f"{profile.tool_name}: {error}")
            return None
        with self._lock:
            if not self._reserve(len(call.args) + _ENTRY_BYTES, "dropped_tool_calls"):
                return None
            event.calls.append(call)
        return call

    def _clean(self, value: Any) -> Any:
        """A value as it may be stored, without secrets."""
        return value if self.redact is None else self.redact(value)

    def _performed(
        self, begun: CallDraft | None, call: Callable[[], Any], effects: Callable[[Any], object] | None
    ) -> Any:
        try:
            result = call()
        except Exception as error:
            self._fail_call(begun, error)
            raise
        self._end_call(begun, result, lambda: result if effects is None else effects(result))
        return result

    async def _performed_async(
        self,
        begun: CallDraft | None,
        call: Callable[[], Awaitable[Any]],
        effects: Callable[[Any], object] | None,
    ) -> Any:
        try:
            result = await call()
        except Exception as error:
            self._fail_call(begun, error)
            raise
        self._end_call(begun, result, lambda: result if effects is None else effects(result))
        return result

    def _fail_call(self, begun: CallDraft | None, error: Exception) -> None:
        if begun is not None:
            self._close_call(begun, begun.raised(error, self.redact))

    def _end_call(self, call: CallDraft | None, result: object, effects: Callable[[], object]) -> None:
        if call is None:
            return
        try:
            seen = effects() if call.profile.has_side_effects else None
            plain = result.as_json() if isinstance(result, Value) else result
            most_bytes = self._result_left_bytes
            if call.profile.tool_name in _MEMORY_TOOLS:
                # Without their answers, nobody could tell which traces record a forgotten text.
                most_bytes = MAX_TRACE_BYTES
            else:
                plain, seen = self._clean(plain), self._clean(seen)
            entry = call.returned(plain, seen, max_result_bytes=most_bytes)
        except Exception as error:  # noqa: BLE001  # Recording must not break the run; it becomes a gap.
            code = "unrecordable_result" if isinstance(error, NotCanonical) else "unrecordable_effects"
            with self._lock:
                problem = f"{call.profile.tool_name}: {shown(error, self.redact)}"
                self._recording.gap(code, call.event, problem)
                if call.event is not None:
                    call.event.calls.remove(call)
        else:
            self._close_call(call, entry)

    def _close_call(self, call: CallDraft, entry: dict[str, Any]) -> None:
        # The trace may be finished already and say that the call is not; its caller gets the result all the
        # same.
        with self._lock:
            event, printed = call.event, call.end(entry).printed
            if self._trace is None and event is not None:
                self._note("call", event.number, printed)
            self._left_bytes -= call.result_bytes
            self._result_left_bytes -= call.result_bytes

    def _reserve(self, size_bytes: int, kind: str | None) -> bool:
        """Reserve bytes for an entry. Returns False if the trace is full; once it is, it stays so."""
        self._refuse_if_finished()
        recording = self._recording
        if recording.is_full or size_bytes > self._left_bytes:
            recording.is_full = True
            if kind is not None:
                recording.dropped[kind] += 1
            return False
        self._left_bytes -= size_bytes
        return True

    def _note(self, *line: object, is_held: bool = False) -> None:
        """Write what was just recorded into the journal, if any; the first line says which run it is.

        Args:
            is_held: Write it together with the next line.
        """
        if self.journal is None:
            return
        with self._lock:
            if not self._is_noted:
                self._is_noted = True
                recording = self._recording
                model = None if recording.model is None else recording.model.as_json()
                run = self.run.as_json()
                self._held.append(("run", run, model, recording.started_at, recording.limit_bytes))
            self._held.append(line)
            if not is_held:
                self.journal.append(self._held)
                self._held.clear()

    def _refuse_if_finished(self) -> None:
        if self._trace is not None:
            raise TraceError("recorder_finished", run_id=self.run.run_id)


class RecordingRun:
    """The part of a run that goes into its trace and not into memory: events, lanes, tool calls, guardrails
    and the output.
    """

    recorder: Recorder

    def event(
        self, *, role: str, interceptor: str, decision_type: str | None = None
    ) -> AbstractContextManager[EventDraft]:
        """Record an event while the block lasts; ``event.decide(...)`` may name the decision later."""
        return self.recorder.event(role=role, interceptor=interceptor, decision_type=decision_type)

    def lane(self) -> Lane:
        """Create a lane for the events of parallel work: ``with lane:`` in the worker."""
        return self.recorder.lane()

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Return a decorator that records each call of a function or ``async def``; see ``Recorder.tool``."""
        return self.recorder.tool(profile=profile, effects=effects)

    def guardrail(self, guardrail_id: str) -> None:
        """Record that a guardrail was triggered."""
        self.recorder.guardrail(guardrail_id)

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Record the shape of the run's output."""
        self.recorder.output(shape)
