"""Tools that a model may call, and what their handlers can see: the experiment that is under way, among others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from standfast.errors import InvalidValue, StandfastError
from standfast.optimize.loops.agent.record import NO_SUCH_TOOL, RENDER
from standfast.optimize.providers.adapter import ToolCall, ToolSpec
from standfast.traces.identity import ToolProfile
from standfast.traces.recorder import Recorder
from standfast.traces.traced_run import REMEMBER
from standfast.vocabulary import Experiment

_T = TypeVar("_T")


class Resources:
    """Things by their type, one of each."""

    def __init__(self, *things: object) -> None:
        self._things = {type(thing): thing for thing in things if thing is not None}

    def get(self, kind: type[_T]) -> _T | None:
        """The thing of that type, if there is one."""
        thing = self._things.get(kind)
        return thing if isinstance(thing, kind) else None

    def plus(self, *things: object) -> "Resources":
        """These and others; of the same type, the new one stays."""
        return Resources(*self._things.values(), *things)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool handler can see of the request that it works for."""

    resources: Resources
    request_id: str

    @property
    def experiment(self) -> Experiment | None:
        """The experiment that is under way, if there is one."""
        return self.resources.get(Experiment)


Handler = Callable[[dict[str, Any], ToolContext], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool and who handles its calls. Its profile says what of them counts in a trace: everything, unless it is given.

    A handler can be called twice for one request, by a worker that dies and by the one that takes over.
    """

    spec: ToolSpec
    handler: Handler
    profile: ToolProfile | None = None
    effects: Callable[[Any], object] | None = None
    """Tells from the answer what the call has done, where the profile has side effects in scope."""


class Toolbox:
    """The tools of an agent, by name. Every call is recorded with its profile."""

    def __init__(self, *tools: Tool) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._profiles = {tool.spec.name: tool.profile or ToolProfile.whole(tool.spec.name) for tool in tools}
        own = {profile.tool_name: profile for profile in (RENDER, REMEMBER, NO_SUCH_TOOL)}
        renamed = any(profile.tool_name != name for name, profile in self._profiles.items())
        if renamed or len(self._tools) < len(tools) or self._tools.keys() & own.keys():
            problem = f"each needs a name of its own, also in its profile, which is none of {', '.join(sorted(own))}"
            raise InvalidValue(what="tools", problem=problem)
        # All are registered with every run, so that its model is the same whichever of them it comes to call.
        self._registered = (*own.values(), *self._profiles.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of them."""
        return tuple(tool.spec for tool in self._tools.values())

    def register(self, recorder: Recorder) -> None:
        """Say which tools a run may call."""
        for profile in self._registered:
            recorder.register(profile)

    def handle(self, call: ToolCall, context: ToolContext, recorder: Recorder) -> str:
        """What a tool answers. A tool that does not exist or refuses is told to the model, which may do better."""
        tool = self._tools.get(call.name)
        if tool is None:
            answer = f"error: there is no tool {call.name!r:.80}"
            asked = {"name": call.name, "arguments": call.arguments}
            recorder.tool_call(profile=NO_SUCH_TOOL, args=asked, result=answer)
            return answer
        handler = tool.handler
        try:
            said: str = recorder.perform(
                self._profiles[call.name],
                call.arguments,
                lambda: handler(call.arguments, context),
                effects=tool.effects,
            )
        except StandfastError as error:
            return f"error: {error}"
        return said
