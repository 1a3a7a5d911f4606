"""Memory from async code: the same methods, each run in a thread, so that no event loop waits for a disk.

    async with AsyncMemory(Memory.open("agent.db")) as memory:
        async with memory.run(workflow="triage", mode="buffered_write") as run:
            await run.remember("EU refunds take 14 days.", source={"kind": "doc", "id": "handbook#4"})

There is one implementation, the synchronous one; this only carries calls over.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from standfast.memory import Memory, Run


class _Carried:
    """Every method of an object as a coroutine; attributes that are no methods as they are."""

    def __init__(self, carried: object) -> None:
        self._carried = carried

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._carried, name)
        if not callable(found):
            return found
        return _in_thread(found)


class AsyncRun(_Carried):
    """A run whose ``recall``, ``remember``, ``forget``, ``commit`` and ``discard`` are coroutines."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)


class AsyncMemory(_Carried):
    """A memory whose methods are coroutines; ``run`` is an async context manager. Iterators come back as lists."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self._memory = memory

    @asynccontextmanager
    async def run(self, **options: Any) -> AsyncIterator[AsyncRun]:
        """A run that commits when the block is left, and discards on an exception, cancellation too."""
        run = await asyncio.to_thread(lambda: self._memory.run(**options))
        try:
            yield AsyncRun(run)
        except BaseException:
            run.discard()
            raise
        # A commit that was begun is finished, even if the task is cancelled meanwhile; its receipt tells.
        await asyncio.shield(asyncio.to_thread(run.commit))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._memory.close)


def _in_thread(method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    def call(*arguments: Any, **options: Any) -> Any:
        answer = method(*arguments, **options)
        # An iterator would go on reading in the event loop.
        return list(answer) if hasattr(answer, "__next__") else answer

    async def carried(*arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(call, *arguments, **options)

    return carried
