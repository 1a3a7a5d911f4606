"""What a run records of its agent: events, parallel lanes, tool calls, guardrails and the shape of the output."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

from standfast.traces.artifact import ToolProfile
from standfast.traces.recorder import Recorder
from standfast.traces.recording import EventDraft, Lane
from standfast.traces.shapes import Shape

_P = ParamSpec("_P")
_R = TypeVar("_R")


class RecordingRun:
    """The part of a run that goes into its trace and not into memory."""

    recorder: Recorder

    def event(
        self, *, role: str, interceptor: str, decision_type: str | None = None
    ) -> AbstractContextManager[EventDraft]:
        """Record an event for as long as the block lasts; ``event.decide(...)`` may name the decision later."""
        return self.recorder.event(role=role, interceptor=interceptor, decision_type=decision_type)

    def lane(self) -> Lane:
        """Create a lane for the events of parallel work: ``with lane:`` in the worker."""
        return self.recorder.lane()

    def tool(
        self, *, profile: ToolProfile | None = None, effects: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Return a decorator that records each call of a function, which may be an ``async def``; see ``Recorder.tool``."""
        return self.recorder.tool(profile=profile, effects=effects)

    def guardrail(self, guardrail_id: str) -> None:
        """Record that a guardrail was triggered."""
        self.recorder.guardrail(guardrail_id)

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Record the shape of the run's output."""
        self.recorder.output(shape)
