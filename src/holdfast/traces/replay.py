"""Replay: a recorded run played again, with recorded tool results and memory as of its snapshot, and compared with itself.

The agent's code runs for real; its tools do not, so that a replay has no side effects, costs nothing and needs no network.
An agent that calls something which the recorded run never called is told so by a ``ReplayDiverged``.
"""

import builtins
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar

from msgspec import UNSET

from holdfast.canon import canonical_bytes, fingerprint
from holdfast.clock import Clock, ManualClock
from holdfast.errors import NotReplayable, RecordedFailure, ReplayDiverged
from holdfast.traces.adapters.functions import tool
from holdfast.traces.artifact import ToolCall, Trace
from holdfast.traces.contract import shortfalls
from holdfast.traces.drafts import EventDraft, Lane
from holdfast.traces.equivalence import Comparison, compare
from holdfast.traces.identity import ToolProfile
from holdfast.traces.recorder import Recorder
from holdfast.traces.shapes import Shape
from holdfast.vocabulary import Run

_P = ParamSpec("_P")
_R = TypeVar("_R")


class MemoryAt(Protocol):
    """Memory as of one snapshot. ``recall`` gives the same package for the same question, whenever it is asked."""

    def recall(self, query: str, *, tokens: int) -> Any:
        """What memory holds on a question, within so many tokens."""
        ...

    def retrieval_facts(self, package: Any) -> Mapping[str, Any]:
        """How a trace tells of that package: the keyword arguments of ``Recorder.retrieval``."""
        ...


class TracedRun:
    """What an agent is handed to work with: it decides, calls tools, recalls and puts out, and all of it is recorded."""

    def __init__(self, recorder: Recorder, *, memory: MemoryAt | None = None) -> None:
        self.recorder = recorder
        self._memory = memory

    def event(
        self, *, role: str, interceptor: str, decision_type: str | None = None
    ) -> AbstractContextManager[EventDraft]:
        """Record an event for as long as the block lasts."""
        return self.recorder.event(role=role, interceptor=interceptor, decision_type=decision_type)

    def lane(self) -> Lane:
        """A place for the events of parallel work."""
        return self.recorder.lane()

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Make a function a tool of this run: each call is recorded, and in a replay answered from the record."""
        return tool(self.recorder, profile=profile, effects=effects)

    def recall(self, query: str, *, tokens: int) -> Any:
        """Read memory as of the run's snapshot, and record what came back."""
        if self._memory is None:
            raise NotReplayable(
                run_id=self.recorder.run.run_id,
                problem=f"it reads memory; hand in snapshot {self.recorder.run.memory_snapshot_id} of it",
            )
        package = self._memory.recall(query, tokens=tokens)
        self.recorder.retrieval(**self._memory.retrieval_facts(package))
        return package

    def guardrail(self, guardrail_id: str) -> None:
        """Record that a guardrail was triggered."""
        self.recorder.guardrail(guardrail_id)

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Record what the run put out, by its shape."""
        self.recorder.output(shape)


class ReplayingRecorder(Recorder):
    """A recorder that answers tool calls from a recorded run: the same tool with the same arguments, as often as then.

    ``tools`` are called, by keyword, where the recorded result was not kept.
    """

    def __init__(
        self, trace: Trace, *, clock: Clock, tools: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        run = Run(
            run_id=trace.run_id,
            workflow_id=trace.workflow_id,
            memory_snapshot_id=trace.memory_snapshot_id,
            visibility_mode=trace.visibility_mode,
            policy_set_id=trace.policy_set_id,
        )
        self._tools = tools or {}
        self._recorded_profiles = {profile.tool_name: profile for profile in trace.tool_profiles}
        self._answers: defaultdict[tuple[str, str], deque[ToolCall]] = defaultdict(deque)
        for event in trace.events:
            for call in event.tool_calls:
                self._answers[call.tool_name, fingerprint(call.normalized_args)].append(call)
        super().__init__(run, clock=clock, model=trace.model_config, profiles=trace.tool_profiles)

    def register(self, profile: ToolProfile) -> None:
        """As always, but that the agent's own profile takes the place of the recorded one, so that a change shows."""
        recorded = self._recorded_profiles.pop(profile.tool_name, None)
        known = self._recording.profiles.get(profile.tool_name)
        if known is not None and known is recorded:
            self._recording.profiles[profile.tool_name] = profile
        super().register(profile)

    def perform(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Any],
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Answer a call from the record; ``call`` is never made."""
        raise AssertionError
