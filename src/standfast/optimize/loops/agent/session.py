"""One request on its way through the agent."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from standfast.optimize.loops.requests import MainLoopRequest
from standfast.optimize.loops.tools import Resources
from standfast.optimize.prompts.prompt import RenderedPrompt
from standfast.traces.recorder import Recorder


@dataclass(slots=True)
class Session:
    """What one request has at hand: resources for its tools, and what happened so far, for its trace."""

    resources: Resources = field(default_factory=Resources)
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A request whose prompt is rendered, and which is about to be sent to the model."""

    request: MainLoopRequest[Any]
    prompt: RenderedPrompt
    session: Session
    recorder: Recorder


Bus = Callable[[dict[str, Any]], None]
"""Hears of every event of every request."""
