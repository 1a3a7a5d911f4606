"""Which call runs next: a bounded number at once, fair between callers, and nobody waits for long.

Each caller (a key, or an address without one) has a queue of its own. A free place goes to the caller that
was served least so far, counted in seconds of work (start-time fair queueing). A caller that was idle starts
where the others are, so idling saves nothing up. Beside other callers nobody may take the last places, so
that a quiet caller need not even wait for a busy one's call to end.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from standfast.clock import Clock
from standfast.errors import Overloaded
from standfast.limits import (
    MAX_QUEUED_SECONDS,
    MAX_RATE_LIMITED_NAMES,
    MAX_WAITING_CALLS,
    MCP_CALLS_AT_ONCE,
    READS_AT_ONCE,
    SERVER_THREADS,
)

_Result = TypeVar("_Result")
Gone = Callable[[], Awaitable[None]]
"""Returns once the client of a call has hung up."""
_RECENT_SECONDS: Final = 2.0
"""So long after its last call a caller still has places kept free for it."""
_MEAN_PARTS: Final = 8


class ClientLeft(Exception):
    """The client hung up before its call began; the call was dropped."""


class _Line:
    """The queue of one caller, and how much the caller was served."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: deque[asyncio.Future[float]] = deque()
        self.running = 0
        self.served_seconds = 0.0
        self.mean_seconds = 0.0
        self.seen_at = 0.0

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiting


class FairQueue:
    """Runs calls in threads. Everything but ``stop`` belongs to the event loop's thread.

    Args:
        slots: How many calls run at once.
        max_waiting: How many calls may wait; more are refused at once.
        max_wait_seconds: How long a call may wait before it is refused.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        slots: int,
        max_waiting: int = MAX_WAITING_CALLS,
        max_wait_seconds: float = MAX_QUEUED_SECONDS,
    ) -> None:
        self._clock = clock
        self._slots = slots
        self._kept_free = max(1, slots // 4) if slots > 1 else 0
        self._max_waiting = max_waiting
        self._max_wait_seconds = max_wait_seconds
        self._limiter = anyio.CapacityLimiter(max(1, slots))
        self._callers: OrderedDict[str, _Line] = OrderedDict()
        self._queued: dict[str, _Line] = {}
        self.running = 0
        self._served_floor = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self.waiting = 0

    async def run(
        self,
        name: str,
        work: Callable[[], _Result],
        *,
        gone: Gone | None = None,
        arrived_at: float | None = None,
    ) -> _Result:
        """Run ``work`` in a thread when it is the caller's turn.

        Args:
            name: Whose call it is.
            arrived_at: When the call came, by the monotonic clock, if that was not just now.

        Raises:
            Overloaded: Too many calls wait, or this one waited too long; it did not begin.
            ClientLeft: ``gone`` returned before the turn came.
        """
        async with self.turn(name, gone=gone, arrived_at=arrived_at):
            # A call that has begun finishes even if its client disconnects: no effect is left half done.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=False, limiter=self._limiter)

    @asynccontextmanager
    async def turn(
        self, name: str, *, gone: Gone | None = None, arrived_at: float | None = None
    ) -> AsyncIterator[None]:
        """Wait for a turn, and hold its place for as long as the block takes. Raises as ``run`` does."""
        caller = self._seen(name)
        if caller.waiting or not self._may_start(caller):
            charged = await self._wait(caller, gone, caller.seen_at if arrived_at is None else arrived_at)
        else:
            charged = self._start(caller)
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._end(caller, self._clock.monotonic() - began, charged)

    def stop(self) -> None:
        """Refuse the calls that wait, and those that would have to. Safe to call from a signal handler."""
        self._is_stopping = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._refuse_waiting)

    def _refuse_waiting(self) -> None:
        for caller in self._queued.values():
            for turn in caller.waiting:
                if not turn.done():
                    turn.set_exception(Overloaded(what="it is stopping"))

    def _seen(self, name: str) -> _Line:
        now = self._clock.monotonic()
        caller = self._callers.get(name)
        if caller is None:
            caller = self._callers[name] = _Line(name)
        self._callers.move_to_end(name)
        if caller.is_idle:
            caller.served_seconds = max(caller.served_seconds, self._served_floor)
        caller.seen_at = now
        if len(self._callers) > MAX_RATE_LIMITED_NAMES:
            oldest = next((key for key, one in self._callers.items() if one.is_idle and key != name), None)
            if oldest is not None:
                del self._callers[oldest]
        return caller

    def _may_start(self, caller: _Line) -> bool:
        if self.running >= self._slots:
            return False
        is_alone = self.running == caller.running and not self._has_recent_other(caller)
        return is_alone or caller.running < self._slots - self._kept_free

    def _has_recent_other(self, caller: _Line) -> bool:
        since = self._clock.monotonic() - _RECENT_SECONDS
        for one in reversed(self._callers.values()):
            if one is not caller:
                return one.seen_at >= since or not one.is_idle
        return False

    def _start(self, caller: _Line) -> float:
        """Give a caller a place, and return the seconds that it was charged with."""
        self._served_floor = max(self._served_floor, caller.served_seconds)
        # Charged in advance with what its calls took so far, so that free places go to different callers.
        charged = caller.mean_seconds
        caller.served_seconds += charged
        caller.running += 1
        self.running += 1
        return charged

    def _end(self, caller: _Line, seconds: float, charged: float) -> None:
        caller.served_seconds += seconds - charged
        caller.mean_seconds += (seconds - caller.mean_seconds) / _MEAN_PARTS
        caller.running -= 1
        self.running -= 1
        self._start_next()

    def _start_next(self) -> None:
        while self.running < self._slots:
            eligible = [one for one in self._queued.values() if self._may_start(one)]
            if not eligible:
                return
            caller = min(eligible, key=lambda one: one.served_seconds)
            turn = caller.waiting[0]
            self._leave(caller, turn)
            if not turn.done():
                turn.set_result(self._start(caller))

    def _leave(self, caller: _Line, turn: "asyncio.Future[float]") -> None:
        if turn in caller.waiting:
            caller.waiting.remove(turn)
            self.waiting -= 1
            if not caller.waiting:
                del self._queued[caller.name]

    async def _wait(self, caller: _Line, gone: Gone | None, arrived_at: float) -> float:
        """Wait for a turn, and return what it was charged with."""
        if self._is_stopping:
            raise Overloaded(what="it is stopping")
        if self.waiting >= self._max_waiting:
            raise Overloaded(what=f"{self._max_waiting} calls wait")
        self._loop = asyncio.get_running_loop()
        turn: asyncio.Future[float] = self._loop.create_future()
        caller.waiting.append(turn)
        self._queued[caller.name] = caller
        self.waiting += 1
        watch = None if gone is None else asyncio.ensure_future(gone())
        try:
            watched: list[asyncio.Future[float] | asyncio.Future[None]] = [turn]
            if watch is not None:
                watched.append(watch)
            left = max(0.0, arrived_at + self._max_wait_seconds - self._clock.monotonic())
            await asyncio.wait(watched, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if turn.done() and turn.exception() is None:
                self._end(caller, 0.0, turn.result())
            raise
        finally:
            self._leave(caller, turn)
            has_left = watch is not None and watch.done()
            if watch is not None:
                watch.cancel()
        if turn.done():
            return turn.result()
        turn.cancel()
        if has_left:
            raise ClientLeft
        raise Overloaded(what=f"a call waited {self._max_wait_seconds:g} s for its turn")


class CallQueues:
    """The queues of one server.

    Reading is computing, and Python computes on one core: more of it at once makes all of it slower. Writing
    waits for the disk and for other writers, whose commits share one sync. The SDK of MCP runs its tools in
    threads of its own; they are counted here.

    Args:
        slots: How many calls run at once in each queue, instead of each queue's own number.
    """

    def __init__(
        self, clock: Clock, *, slots: int | None = None, max_waiting: int = MAX_WAITING_CALLS
    ) -> None:
        def queue(default_slots: int) -> FairQueue:
            return FairQueue(clock, slots=default_slots if slots is None else slots, max_waiting=max_waiting)

        self.reads = queue(READS_AT_ONCE)
        self.writes = queue(SERVER_THREADS)
        self.mcp = queue(MCP_CALLS_AT_ONCE)
        self.all: Final = (self.reads, self.writes, self.mcp)

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return sum(one.waiting for one in self.all)

    @property
    def running(self) -> int:
        """How many calls run."""
        return sum(one.running for one in self.all)

    def stop(self) -> None:
        """Refuse the calls that wait. Safe to call from a signal handler."""
        for one in self.all:
            one.stop()
