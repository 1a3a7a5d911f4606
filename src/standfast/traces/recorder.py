"""The recorder: what a run tells while it goes on, and the artifact that comes of it.

Recording never changes a run: what can't be recorded becomes a gap in the trace, which then claims nothing, and the tool's
own result or error goes back to the agent as it is. Only calls that are wrong in themselves, such as an empty name, raise.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import msgspec
import orjson

from standfast.canon import canonical_bytes, utc_text
from standfast.clock import Clock
from standfast.errors import InvalidValue, NotCanonical, ProfileConflict, RecorderFinished
from standfast.limits import (
    MAX_KNOWN_PROFILES,
    MAX_OUTPUT_SHAPE_BYTES,
    MAX_TRACE_BYTES,
    MAX_TRACE_RESULT_BYTES,
)
from standfast.traces.artifact import Retrieval, SelectedRecord, Trace
from standfast.traces.assembly import Recording, assembled
from standfast.traces.drafts import (
    PLACE,
    CallDraft,
    EventDraft,
    Lane,
    Place,
    checked_name,
    place_of,
    shown,
)
from standfast.traces.identity import ModelConfig, ToolProfile
from standfast.traces.shapes import Shape, output_shape_hash, output_type
from standfast.vocabulary import RunIdentity

# What an entry takes beside what is counted, generously: digests, names and punctuation.
_ENTRY_BYTES: Final = 800
# The linkage of a retrieval is put in when the artifact is made.
_UNLINKED: Final = {"retrieval_event_id": "-", "run_id": "-", "event_id": "-"}


@lru_cache(maxsize=MAX_KNOWN_PROFILES)
def _size_bytes(profile: ToolProfile) -> int:
    """What a profile takes in an artifact; the same few are registered in run after run."""
    return len(canonical_bytes(profile.as_json())) + 1


class Recorder:
    """Records one run. Every method may be called from any thread.

    Calls, retrievals and guardrails go to the event that is open in this thread or task, or make one of their own. Threads
    that record in parallel each need a ``lane``: without one, events stand in the order in which they came.
    """

    def __init__(
        self,
        run: RunIdentity,
        *,
        clock: Clock,
        model: ModelConfig | None = None,
        profiles: Iterable[ToolProfile] = (),
        limit_bytes: int = MAX_TRACE_BYTES,
    ) -> None:
        if not 2 * MAX_OUTPUT_SHAPE_BYTES <= limit_bytes <= MAX_TRACE_BYTES:
            problem = f"limit_bytes must be {2 * MAX_OUTPUT_SHAPE_BYTES} to {MAX_TRACE_BYTES}"
            raise InvalidValue(what="Recorder", problem=problem)
        self.run = run
        self._clock = clock
        self._lock = threading.RLock()
        self._trace: Trace | None = None
        # A key, not the recorder itself: without cycles a trace's memory goes when the recorder goes.
        self._key = object()
        self._root = Lane(self._key, self._lock)
        self._room_bytes = limit_bytes - MAX_OUTPUT_SHAPE_BYTES
        self._result_room_bytes = min(MAX_TRACE_RESULT_BYTES, self._room_bytes // 2)
        self._recording = Recording(
            run=run, model=model, root=self._root, started_at=utc_text(clock.now()), limit_bytes=limit_bytes
        )
        for profile in profiles:
            self.register(profile)

    def register(self, profile: ToolProfile) -> None:
        """Say that the run may call this tool; calling it says so too. A tool has one profile in a run."""
        known = self._recording.profiles.get(profile.tool_name)
        if known is profile:
            return
        if known is not None and known != profile:
            raise ProfileConflict(
                tool_name=profile.tool_name,
                known_version=known.tool_profile_version,
                given_version=profile.tool_profile_version,
            )
        size_bytes = _size_bytes(profile)
        with self._lock:
            if profile.tool_name not in self._recording.profiles and self._has_room(size_bytes, None):
                self._recording.profiles[profile.tool_name] = profile

    def lane(self) -> Lane:
        """A place for the events of work that goes on in parallel: make it here, enter it (``with lane:``) there."""
        return place_of(self._key, self._root).lane.branch()

    @contextmanager
    def event(self, *, role: str, interceptor: str, decision_type: str | None = None) -> Iterator[EventDraft]:
        """Record an event for as long as the block lasts. Its ``decide`` may name the decision later."""
        place = place_of(self._key, self._root)
        draft = self._opened(place.lane, role, interceptor, decision_type)
        token = PLACE.set(Place(self._key, place.lane, draft, PLACE.get()))
        try:
            yield draft
        finally:
            PLACE.reset(token)
            draft.closed = True

    def tool_call(
        self, *, profile: ToolProfile, args: object, result: object, side_effects: object = None
    ) -> None:
        """Record a call that has been made elsewhere. ``side_effects`` default to the result."""
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
        """Make a call and record it: its result or its error comes back as if nobody had watched.

        ``effects`` tells from the result what the call has done, where the profile has side effects in scope; without it
        they are read off the result itself.
        """
        return self._performed(self._begin_call(profile, args), call, effects)

    def retrieval(
        self,
        *,
        policy_id: str,
        policy_version: str,
        query_fingerprint: str,
        query_normalization_version: str,
        retrieval_mode: str,
        candidate_count: int,
        selected_records: Iterable[SelectedRecord],
        filters: Mapping[str, Any],
    ) -> None:
        """Record a read of memory, with what it handed back, best first."""
        plain = {
            **_UNLINKED,
            "policy_id": policy_id,
            "policy_version": policy_version,
            "query_fingerprint": query_fingerprint,
            "query_normalization_version": query_normalization_version,
            "retrieval_mode": retrieval_mode,
            "candidate_count": candidate_count,
            "selected_records": [record.as_json() for record in selected_records],
            "filters": dict(filters),
        }
        canonical = canonical_bytes(plain)
        told = orjson.loads(canonical)
        Retrieval.from_json(told)
        event = self._event_here("retrieval")
        with self._lock:
            if self._has_room(len(canonical) + _ENTRY_BYTES, "dropped_retrievals"):
                event.retrievals.append(told)

    def guardrail(self, guardrail_id: str) -> None:
        """Record that a guardrail was triggered; how often in one event does not matter."""
        name = checked_name("guardrail_id", guardrail_id)
        event = self._event_here("guardrail")
        with self._lock:
            if name not in event.guardrails and self._has_room(_ENTRY_BYTES, None):
                event.guardrails.add(name)

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Record what the run put out, by its shape. A run has one output."""
        try:
            plain = shape if isinstance(shape, dict) else shape.as_json()
            canonical = canonical_bytes(plain, limit_bytes=MAX_OUTPUT_SHAPE_BYTES)
            checked: Shape = msgspec.convert(orjson.loads(canonical), Shape)
        except (NotCanonical, msgspec.ValidationError) as error:
            raise InvalidValue(what="Output shape", problem=str(error)) from error
        with self._lock:
            self._refuse_if_finished()
            if self._recording.output is not None:
                raise InvalidValue(what="Output shape", problem="the run has put something out already")
            self._recording.output = {
                "output_type": output_type(checked),
                "output_shape": checked.as_json(),
                "output_shape_hash": output_shape_hash(checked),
                "normalization_version": "json-v1",
            }

    def answered_by(self, model_revision: str) -> None:
        """Say which revision of the model has answered, where its provider tells only then. A run has one."""
        name = checked_name("model_revision", model_revision)
        place = place_of(self._key, self._root)
        with self._lock:
            self._refuse_if_finished()
            model = self._recording.model
            if model is not None and model.model_revision is None:
                self._recording.model = msgspec.structs.replace(model, model_revision=name)
            elif model is not None and model.model_revision != name:
                problem = f"{model.model_revision} was to answer, and {name} did"
                self._recording.gap("model_changed", place.event, problem)

    def gap(self, code: str, problem: str) -> None:
        """Say that something happened that can't be recorded; the trace then claims nothing."""
        place = place_of(self._key, self._root)
        with self._lock:
            self._recording.gap(checked_name("code", code), place.event, problem)

    def finish(self, *, error: BaseException | None = None) -> Trace:
        """The artifact. Asking again gives the same one; ``error`` says that the run did not come to its end."""
        with self._lock:
            if self._trace is None:
                if error is not None:
                    self._recording.gap("run_failed", None, f"{type(error).__qualname__}: {shown(error)}")
                self._trace = assembled(self._recording, finished_at=utc_text(self._clock.now()))
                self._root.items.clear()
            return self._trace

    def _opened(self, lane: Lane, role: str, interceptor: str, decision: str | None) -> EventDraft:
        draft = EventDraft(role=role, interceptor=interceptor, decision_type=decision)
        with self._lock:
            if self._has_room(_ENTRY_BYTES, "dropped_events"):
                lane.items.append(draft)
        return draft

    def _event_here(self, decision_type: str) -> EventDraft:
        """The event that is open here; a new one, for an entry that comes outside of any."""
        place = place_of(self._key, self._root)
        if place.event is not None:
            return place.event
        draft = self._opened(place.lane, "agent", "recorder", decision_type)
        draft.closed = True
        return draft

    def _begin_call(self, profile: ToolProfile, args: object) -> CallDraft | None:
        """Take the call's place in its event; None if it can't be recorded."""
        self.register(profile)
        event = self._event_here("tool_call")
        try:
            call = CallDraft(event, profile, args)
        except NotCanonical as error:
            with self._lock:
                self._recording.gap("unrecordable_args", event, f"{profile.tool_name}: {error}")
            return None
        with self._lock:
            if not self._has_room(call.args_bytes + _ENTRY_BYTES, "dropped_tool_calls"):
                return None
            event.calls.append(call)
        return call

    def _performed(
        self, begun: CallDraft | None, call: Callable[[], Any], effects: Callable[[Any], object] | None
    ) -> Any:
        try:
            result = call()
        except Exception as error:
            if begun is not None:
                self._close_call(begun, begun.raised(error))
            raise
        self._end_call(begun, result, lambda: result if effects is None else effects(result))
        return result

    def _end_call(self, call: CallDraft | None, result: object, effects: Callable[[], object]) -> None:
        if call is None:
            return
        try:
            seen = effects() if call.profile.has_side_effects else None
            told = call.returned(result, seen, result_room_bytes=self._result_room_bytes)
        except Exception as error:  # noqa: BLE001  # Watching must not break what is watched; the gap tells of it.
            code = "unrecordable_result" if isinstance(error, NotCanonical) else "unrecordable_effects"
            with self._lock:
                problem = f"{call.profile.tool_name}: {shown(error)}"
                self._recording.gap(code, call.event, problem)
                if call.event is not None:
                    call.event.calls.remove(call)
        else:
            self._close_call(call, told)

    def _close_call(self, call: CallDraft, told: dict[str, Any]) -> None:
        # A call that comes back after the trace was made is told there as unfinished; it gets its result all the same.
        with self._lock:
            call.told, call.event = told, None
            self._room_bytes -= call.result_bytes
            self._result_room_bytes -= call.result_bytes

    def _has_room(self, size_bytes: int, kind: str | None) -> bool:
        """Whether an entry may still be recorded; once one may not, none after it may."""
        self._refuse_if_finished()
        recording = self._recording
        if recording.is_full or size_bytes > self._room_bytes:
            recording.is_full = True
            if kind is not None:
                recording.dropped[kind] += 1
            return False
        self._room_bytes -= size_bytes
        return True

    def _refuse_if_finished(self) -> None:
        if self._trace is not None:
            raise RecorderFinished(run_id=self.run.run_id)
