"""Plain functions as tools: a decorator that records every call."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from standfast.traces.identity import ToolProfile
from standfast.traces.recorder import Recorder

_P = ParamSpec("_P")
_R = TypeVar("_R")


def tool(
    recorder: Recorder,
    *,
    profile: ToolProfile | None = None,
    effects: Callable[[Any], object] | None = None,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Record each call of the decorated function under a profile; by default all of its arguments and result count.

    Arguments are told by their names, however they were given, with defaults filled in. ``effects`` tells from the result
    what the call has done, for a profile with side effects in scope. In a replay the function is not called at all: its
    recorded result is given back.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        known = profile or ToolProfile.whole(function.__name__)
        recorder.register(known)
        named = _naming(function)

        @wraps(function)
        def recorded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            result: _R = recorder.perform(
                known, named(args, kwargs), lambda: function(*args, **kwargs), effects=effects
            )
            return result

        return recorded

    return decorate


def _naming(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """What gives a call's arguments by name. A call that does not fit the function raises the ``TypeError`` it would."""
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    is_simple = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    names = tuple(signature.parameters)
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}

    def named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        # Binding costs as much as all the rest of recording, so that calls of the common kind do without it.
        if is_simple and len(args) <= len(names) and kwargs.keys().isdisjoint(names[: len(args)]):
            given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
            if len(given) == len(names) and given.keys() == signature.parameters.keys():
                return given
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    return named
