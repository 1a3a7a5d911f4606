"""Replay: a recorded run is run again, with recorded tool results and memory as of its snapshot, and compared
with the record.

The agent's code really runs; its tools do not. A replay therefore has no side effects, costs nothing and
needs no network. A call that the recorded run never made raises ``ReplayDiverged``.
"""

import builtins
import inspect
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, Protocol, Unpack, runtime_checkable

import orjson
from msgspec import UNSET

from standfast.clock import Clock, ManualClock
from standfast.errors import NotReplayable, RecordedFailure, ReplayDiverged
from standfast.records.canon import canonical_bytes, fingerprint, fingerprint_of_bytes
from standfast.records.requests import (
    ForgetRequest,
    RecallFields,
    RecallRequest,
    RememberFields,
    RememberRequest,
    takes_fields_of,
)
from standfast.records.vocabulary import Remembered, RunIdentity
from standfast.traces.artifact import ToolCall, ToolProfile, Trace
from standfast.traces.equivalence import ClaimVerdict, Comparison, compare, shortfalls, verdict_of
from standfast.traces.recorder import Recorder, RecordingRun
from standfast.traces.recording import CallDraft


class ReplayMemory(Protocol):
    """Memory as of one snapshot. ``answer`` gives the same package for the same request, at any time."""

    def answer(self, request: RecallRequest, *, token_counter: Any = None) -> Any:
        """Return the answer of memory to a request, which has the ``package``."""
        ...

    def retrieval_facts(self, package: Any, request: RecallRequest) -> Mapping[str, Any]:
        """Return the keyword arguments of ``Recorder.retrieval`` that describe a package."""
        ...


@runtime_checkable
class RedactingMemory(Protocol):
    """Memory that knows how a run redacts secrets before it records a call."""

    def redacted_request(self, request: RememberRequest) -> RememberRequest:
        """Return the request as a run records it."""
        ...

    def redacted_json(self, value: Any) -> Any:
        """Return arguments or results of a tool as a run records them."""
        ...


class ReplayingRecorder(Recorder):
    """A recorder that answers tool calls from a recorded run: same tool, same arguments, no more often.

    ``tools`` are called by keyword where the recorded result was not kept.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        clock: Clock,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        redact: Callable[[Any], Any] | None = None,
    ) -> None:
        run = RunIdentity(
            run_id=trace.run_id,
            workflow_id=trace.workflow_id,
            memory_snapshot_id=trace.memory_snapshot_id,
            visibility_mode=trace.visibility_mode,
            policy_set_id=trace.policy_set_id,
            scope=trace.scope,
        )
        self._tools = tools or {}
        self._recorded_profiles: dict[str, ToolProfile] = {}
        self._answers: defaultdict[tuple[str, str], deque[ToolCall]] = defaultdict(deque)
        for call in _calls(trace):
            self._answers[call.tool_name, fingerprint(call.normalized_args)].append(call)
        super().__init__(
            run, clock=clock, model=trace.model_config, profiles=trace.tool_profiles, redact=redact
        )
        self._recorded_profiles = {profile.tool_name: profile for profile in trace.tool_profiles}

    def register(self, profile: ToolProfile) -> None:
        """Add a tool. The agent's own profile replaces the recorded one, so that a changed profile shows."""
        if self._recorded_profiles.pop(profile.tool_name, None) is not None:
            self._recording.profiles[profile.tool_name] = profile
        super().register(profile)

    def perform(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Any],  # noqa: ARG002  # A replay does not make the call.
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Answer a call from the record; ``call`` is not made."""
        begun, answer = self._recorded_answer(profile, args)
        if answer.result is not UNSET:
            return self._answered(begun, answer)
        return self._performed(begun, self._live_call(profile, args), effects)

    async def perform_async(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Awaitable[Any]],  # noqa: ARG002  # A replay does not make the call.
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Answer a call from the record; ``call`` is not made."""
        begun, answer = self._recorded_answer(profile, args)
        if answer.result is not UNSET:
            return self._answered(begun, answer)
        live = self._live_call(profile, args)

        async def awaited() -> Any:
            result = live()
            return await result if inspect.isawaitable(result) else result

        return await self._performed_async(begun, awaited, effects)

    def _live_call(self, profile: ToolProfile, args: object) -> Callable[[], Any]:
        tool, keywords = self._tools[profile.tool_name], args
        assert isinstance(keywords, dict), "tools are called by keyword"
        return lambda: tool(**keywords)

    def _recorded_answer(self, profile: ToolProfile, args: object) -> tuple[CallDraft, ToolCall]:
        begun = self._begin_call(profile, args)
        if begun is None:
            raise ReplayDiverged(tool_name=profile.tool_name, normalized_args="arguments that are not JSON")
        answers = self._answers[profile.tool_name, fingerprint_of_bytes(begun.args)]
        if answers:
            return begun, answers.popleft()
        error = ReplayDiverged(tool_name=profile.tool_name, normalized_args=f"{begun.args.decode():.200}")
        self._close_call(begun, begun.raised(error))
        raise error

    def _answered(self, begun: CallDraft, answer: ToolCall) -> Any:
        """Return the recorded result, or raise the recorded error."""
        if answer.outcome == "raised":
            entry = begun.ended("raised", answer.tool_result_fingerprint, answer.side_effect_fingerprint)
            result = orjson.Fragment(canonical_bytes(answer.result))
            self._close_call(begun, {**entry, "result": result})
            raise _recorded_error(answer)
        entry = begun.returned(answer.result, None, max_result_bytes=self._result_left_bytes)
        if begun.profile.has_side_effects:
            # A replay does nothing, so the recorded side effects stand for this call.
            entry["side_effect_fingerprint"] = answer.side_effect_fingerprint
        self._close_call(begun, entry)
        return answer.result


class ReplayedRun(RecordingRun):
    """The run that an agent gets in a replay.

    It has the agent's part of ``standfast.Run`` and answers from the record.

    ``recall`` reads ``memory``. ``remember`` and ``forget`` return what was recorded and change nothing.
    """

    def __init__(self, recorder: Recorder, *, memory: ReplayMemory | None = None) -> None:
        self.recorder = recorder
        self.scope = recorder.run.scope
        self._memory = memory

    @takes_fields_of(RecallRequest)
    def recall(self, query: str, *, token_counter: object = None, **fields: Unpack[RecallFields]) -> Any:
        """Read memory as of the run's snapshot, and record what was returned; see ``Run.recall``."""
        if self._memory is None:
            self._needs_memory()
        request = RecallRequest.of(query, **fields).within(self.scope)
        package = self._memory.answer(request, token_counter=token_counter).package
        self.recorder.retrieval(**self._memory.retrieval_facts(package, request))
        return package

    @takes_fields_of(RememberRequest)
    def remember(self, text: str, **fields: Unpack[RememberFields]) -> Remembered:
        """Return the recorded result of remembering this; see ``Run.remember``."""
        request = RememberRequest.of(text, **fields).within(self.scope)
        memory: object = self._memory
        if isinstance(memory, RedactingMemory):
            request = memory.redacted_request(request)
        answer = self.recorder.answer(request, self._needs_memory)
        assert answer is not None, "every text that is remembered gets an answer"
        return answer

    def forget(self, subject: str, *, reason: str, scope: str | None = None) -> None:
        """Record the same forgetting again; see ``Run.forget``."""
        within = self.scope if scope is None else scope
        request = ForgetRequest(subject=subject, reason=reason, scope=within)
        self.recorder.answer(request, self._needs_memory)

    def _needs_memory(self) -> NoReturn:
        run = self.recorder.run
        problem = (
            f"the agent uses memory; pass memory as of snapshot {run.memory_snapshot_id} (memory=…, or"
            " --store)"
        )
        raise NotReplayable(run_id=run.run_id, problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A replayed run: its new trace, how it compares with the record, and the agent's error, if any."""

    trace: Trace
    comparison: Comparison
    error: Exception | None

    @property
    def verdict(self) -> ClaimVerdict:
        """The comparison's verdict; but if the agent failed after it diverged, the verdict is that of the
        first difference.
        """
        if self.error is not None and (first := self.comparison.first) is not None:
            return verdict_of(first)
        return self.comparison.verdict


def replay(
    trace: Trace,
    agent: Callable[[ReplayedRun], object],
    tools: Mapping[str, Callable[..., Any]] | None = None,
    *,
    memory: ReplayMemory | None = None,
) -> Replay:
    """Run an agent again on what a recorded run saw, and compare the two.

    Time stands still at the recorded start.

    Args:
        tools: Functions by tool name, for tools whose results were not kept.
        memory: Memory as of the run's snapshot, ``memory.at(trace.memory_snapshot_id)``.

    Raises:
        NotReplayable: The trace falls short of the contract, or lacks a result.
    """
    short = shortfalls(trace)
    if short:
        problem = "; ".join(f"{fall.place}: {fall.problem} ({fall.code})" for fall in short)
        raise NotReplayable(run_id=trace.run_id, problem=problem)
    absent = {call.tool_name for call in _calls(trace) if call.result is UNSET}.difference(tools or {})
    if absent:
        problem = f"the results of {', '.join(sorted(absent))} were not kept; pass those tools"
        raise NotReplayable(run_id=trace.run_id, problem=problem)
    clock = ManualClock(datetime.fromisoformat(trace.metadata.started_at))
    redact = memory.redacted_json if isinstance(memory, RedactingMemory) else None
    recorder = ReplayingRecorder(trace, clock=clock, tools=tools, redact=redact)
    failed = None
    try:
        agent(ReplayedRun(recorder, memory=memory))
    except NotReplayable:
        raise
    except Exception as error:  # noqa: BLE001  # Whatever the agent raises, the replay reports how far it came.
        failed = error
    again = recorder.finish(error=failed)
    return Replay(trace=again, comparison=compare(trace, again), error=failed)


def _calls(trace: Trace) -> Iterator[ToolCall]:
    return (call for event in trace.events for call in event.tool_calls)


def _recorded_error(answer: ToolCall) -> Exception:
    """Rebuild a built-in error, for the agent to handle as then; any other is a ``RecordedFailure``."""
    recorded: dict[str, str] = answer.result if isinstance(answer.result, dict) else {}
    name, message = str(recorded.get("error", "")), str(recorded.get("message", ""))
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            # Some errors, such as UnicodeDecodeError, can't be built from a message.
            pass
    return RecordedFailure(tool_name=answer.tool_name, error=name, problem=message)
