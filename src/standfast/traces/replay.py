"""Replay: a recorded run played again, with recorded tool results and memory as of its snapshot, and compared with itself.

The agent's code runs for real; its tools do not, so that a replay has no side effects, costs nothing and needs no network.
An agent that calls something which the recorded run never called is told so by a ``ReplayDiverged``.
"""

import builtins
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import UNSET

from standfast.canon import canonical_bytes, fingerprint
from standfast.clock import Clock, ManualClock
from standfast.errors import NotReplayable, RecordedFailure, ReplayDiverged
from standfast.traces.artifact import ToolCall, Trace
from standfast.traces.contract import shortfalls
from standfast.traces.drafts import CallDraft
from standfast.traces.equivalence import ClaimVerdict, Comparison, compare
from standfast.traces.identity import ToolProfile
from standfast.traces.recorder import Recorder
from standfast.traces.traced_run import MemoryAt, TracedRun
from standfast.vocabulary import RunIdentity


class ReplayingRecorder(Recorder):
    """A recorder that answers tool calls from a recorded run: the same tool with the same arguments, as often as then.

    ``tools`` are called, by keyword, where the recorded result was not kept.
    """

    def __init__(
        self, trace: Trace, *, clock: Clock, tools: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        run = RunIdentity(
            run_id=trace.run_id,
            workflow_id=trace.workflow_id,
            memory_snapshot_id=trace.memory_snapshot_id,
            visibility_mode=trace.visibility_mode,
            policy_set_id=trace.policy_set_id,
        )
        self._tools = tools or {}
        self._recorded_profiles: dict[str, ToolProfile] = {}
        self._answers: defaultdict[tuple[str, str], deque[ToolCall]] = defaultdict(deque)
        for call in _calls(trace):
            self._answers[call.tool_name, fingerprint(call.normalized_args)].append(call)
        super().__init__(run, clock=clock, model=trace.model_config, profiles=trace.tool_profiles)
        self._recorded_profiles = {profile.tool_name: profile for profile in trace.tool_profiles}

    def register(self, profile: ToolProfile) -> None:
        """As always, but that the agent's own profile takes the place of the recorded one, so that a change shows."""
        if self._recorded_profiles.pop(profile.tool_name, None) is not None:
            self._recording.profiles[profile.tool_name] = profile
        super().register(profile)

    def perform(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Any],  # noqa: ARG002  # A replay does not make the call, which is its point.
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Answer a call from the record; ``call`` is never made."""
        begun = self._begin_call(profile, args)
        if begun is None:
            raise ReplayDiverged(tool_name=profile.tool_name, normalized_args="arguments that are no JSON")
        answers = self._answers[profile.tool_name, fingerprint(begun.args)]
        try:
            answer = answers.popleft()
        except IndexError:
            shown = canonical_bytes(begun.args).decode()
            error = ReplayDiverged(tool_name=profile.tool_name, normalized_args=f"{shown:.200}")
            self._close_call(begun, begun.raised(error))
            raise error from None
        if answer.result is UNSET:
            live = self._tools[profile.tool_name]
            keywords: Any = args
            return self._performed(begun, lambda: live(**keywords), effects)
        return self._as_recorded(begun, answer)

    def _as_recorded(self, begun: CallDraft, answer: ToolCall) -> Any:
        """What the tool gave when the run was recorded, or the error that it raised."""
        if answer.outcome == "raised":
            told = begun.record("raised", answer.tool_result_fingerprint, answer.side_effect_fingerprint)
            self._close_call(begun, {**told, "result": answer.result})
            raise _recorded_error(answer)
        told = begun.returned(answer.result, None, result_room_bytes=self._result_room_bytes)
        if begun.profile.has_side_effects:
            # Nothing was done this time; what was done then is what this call stands for.
            told["side_effect_fingerprint"] = answer.side_effect_fingerprint
        self._close_call(begun, told)
        return answer.result


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A run played again: its new trace, how it compares, and the error that ended the agent, if one did."""

    trace: Trace
    comparison: Comparison
    error: Exception | None

    @property
    def verdict(self) -> ClaimVerdict:
        """As the comparison says; but an agent that failed because it had parted from the record is different."""
        if self.error is not None and self.comparison.differences:
            return ClaimVerdict.DIFFERENT
        return self.comparison.verdict


def replay(
    trace: Trace,
    agent: Callable[[TracedRun], object],
    tools: Mapping[str, Callable[..., Any]] | None = None,
    *,
    memory: MemoryAt | None = None,
) -> Replay:
    """Run an agent again on what a recorded run saw, and compare the two.

    ``memory`` is memory as of the run's snapshot; ``tools`` stand in for those whose results were not kept. Time stands still
    at the recorded start. Raises ``NotReplayable`` for a trace that falls short of the contract, or lacks a result.
    """
    short = shortfalls(trace)
    if short:
        problem = "; ".join(f"{fall.place}: {fall.problem} ({fall.code})" for fall in short)
        raise NotReplayable(run_id=trace.run_id, problem=problem)
    absent = {call.tool_name for call in _calls(trace) if call.result is UNSET}.difference(tools or {})
    if absent:
        problem = f"the results of {', '.join(sorted(absent))} were not kept; hand in those tools"
        raise NotReplayable(run_id=trace.run_id, problem=problem)
    clock = ManualClock(datetime.fromisoformat(trace.metadata.started_at))
    recorder = ReplayingRecorder(trace, clock=clock, tools=tools)
    failed = None
    try:
        agent(TracedRun(recorder, memory=memory))
    except NotReplayable:
        raise
    except Exception as error:  # noqa: BLE001  # Whatever the agent raises, how far it came is what is asked for.
        failed = error
    again = recorder.finish(error=failed)
    return Replay(trace=again, comparison=compare(trace, again), error=failed)


def _calls(trace: Trace) -> Iterator[ToolCall]:
    return (call for event in trace.events for call in event.tool_calls)


def _recorded_error(answer: ToolCall) -> Exception:
    """A built-in error as it was, so that the agent handles it as it did then; any other as a ``RecordedFailure``."""
    told: dict[str, str] = answer.result if isinstance(answer.result, dict) else {}
    name, message = str(told.get("error", "")), str(told.get("message", ""))
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            # Some, such as UnicodeDecodeError, are not built from words.
            pass
    return RecordedFailure(tool_name=answer.tool_name, error=name, problem=message)
