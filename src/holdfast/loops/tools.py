"""Tools that a model may call, and what their handlers can see: the experiment that is under way, among others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.errors import HoldfastError
from holdfast.providers.adapter import ToolCall, ToolSpec
from holdfast.vocabulary import Experiment

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
    """A tool and who handles its calls."""

    spec: ToolSpec
    handler: Handler


def handled(call: ToolCall, tools: tuple[Tool, ...], context: ToolContext) -> str:
    """What a tool answers. A tool that does not exist or refuses is told to the model, which may do better."""
    tool = next((tool for tool in tools if tool.spec.name == call.name), None)
    if tool is None:
        return f"error: there is no tool {call.name!r:.80}"
    try:
        return tool.handler(call.arguments, context)
    except HoldfastError as error:
        return f"error: {error}"
