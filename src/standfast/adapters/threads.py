"""Coroutines over verbs that block: each runs in a thread, so the event loop never waits for a disk.

What was begun is finished, even if the task is cancelled.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


async def in_thread(work: Callable[[], _R]) -> _R:
    """Await a function that blocks."""
    return await asyncio.shield(asyncio.to_thread(work))


def awaited(verb: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """The coroutine of a function or method, with its signature."""

    @wraps(verb)
    async def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await asyncio.shield(asyncio.to_thread(verb, *args, **kwargs))

    return call
