"""Plain functions as tools: a decorator that records every call."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from holdfast.traces.identity import ToolProfile
from holdfast.traces.recorder import Recorder

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
        signature = inspect.signature(function)

        @wraps(function)
        def recorded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            result: _R = recorder.perform(
                known, bound.arguments, lambda: function(*args, **kwargs), effects=effects
            )
            return result

        return recorded

    return decorate
