"""Which call runs next: fair between callers, bounded in number and time, nothing for clients that left."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from standfast.clock import ManualClock
from standfast.errors import Overloaded
from standfast.server.edge.admission import ClientLeft, FairQueue


class Calls:
    """Calls of several callers on one queue. Each runs until it is told to end."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.queue = FairQueue(self.clock, **{"slots": 2, **options})
        self.began: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def send(
        self, caller: str, number: int = 0, gone: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Send a call and see whether it begins."""
        name = f"{caller}{number}"
        self._ends[name] = asyncio.Event()

        async def call() -> None:
            async with self.queue.turn(caller, gone=gone):
                self.began.append(name)
                await self._ends[name].wait()

        self.tasks[name] = asyncio.create_task(call())
        await settled()

    async def end(self, name: str, *, seconds: float = 1.0) -> None:
        """Let a call end after so many seconds."""
        self.clock.advance(seconds)
        self._ends[name].set()
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_lone_caller_may_use_every_place() -> None:
    async def scene() -> None:
        calls = Calls(slots=3)
        for number in range(4):
            await calls.send("a", number)

        assert calls.began == ["a0", "a1", "a2"]

    asyncio.run(scene())


def test_beside_another_caller_nobody_takes_the_last_place() -> None:
    async def scene() -> None:
        calls = Calls(slots=2)
        await calls.send("quiet")
        await calls.end("quiet0")
        for number in range(3):
            await calls.send("noisy", number)
        assert calls.began == ["quiet0", "noisy0"]
        await calls.send("quiet", 1)

        assert calls.began == ["quiet0", "noisy0", "quiet1"]

    asyncio.run(scene())


def test_a_caller_with_few_calls_does_not_wait_behind_one_with_many() -> None:
    async def scene() -> None:
        calls = Calls(slots=1)
        for number in range(10):
            await calls.send("noisy", number)
        await calls.send("quiet")
        await calls.end("noisy0")

        assert calls.began == ["noisy0", "quiet0"]

    asyncio.run(scene())


def test_callers_get_equal_time_whatever_the_length_of_their_calls() -> None:
    """One caller's calls take ten times as long, so it gets a tenth as many."""

    async def scene() -> None:
        calls = Calls(slots=1)
        for number in range(60):
            await calls.send("long", number)
            await calls.send("short", number)
        for _ in range(44):
            name = calls.began[-1]
            await calls.end(name, seconds=10.0 if name.startswith("long") else 1.0)
        served = Counter(name.rstrip("0123456789") for name in calls.began)

        assert 2 <= served["long"] <= 6
        assert served["short"] >= 36

    asyncio.run(scene())


def test_a_caller_that_was_idle_has_saved_nothing_up() -> None:
    async def scene() -> None:
        calls = Calls(slots=1)
        for number in range(20):
            await calls.send("early", number)
            await calls.end(f"early{number}")
        for number in range(20):
            await calls.send("early", 100 + number)
            await calls.send("late", number)
        for _ in range(9):
            await calls.end(calls.began[-1])
        served = Counter(name.rstrip("0123456789") for name in calls.began[20:])

        assert abs(served["early"] - served["late"]) <= 1

    asyncio.run(scene())


def test_a_call_whose_client_hung_up_before_its_turn_never_begins() -> None:
    async def scene() -> None:
        calls = Calls(slots=1)
        left = asyncio.Event()

        async def gone() -> None:
            await left.wait()

        await calls.send("a")
        await calls.send("b", gone=gone)
        await calls.send("c")
        left.set()
        await settled()
        await calls.end("a0")

        assert calls.began == ["a0", "c0"]
        assert isinstance(calls.tasks["b0"].exception(), ClientLeft)
        assert calls.queue.waiting == 0

    asyncio.run(scene())


def test_a_call_that_waits_too_long_is_refused_and_never_begins() -> None:
    async def scene() -> None:
        calls = Calls(slots=1, max_wait_seconds=0.01)
        await calls.send("a")
        await calls.send("b")
        with pytest.raises(Overloaded, match=r"waited 0\.01 s"):
            await calls.tasks["b0"]
        await calls.end("a0")

        assert calls.began == ["a0"]

    asyncio.run(scene())


def test_more_calls_than_may_wait_are_refused_at_once() -> None:
    async def scene() -> None:
        calls = Calls(slots=1, max_waiting=1)
        for number in range(3):
            await calls.send("a", number)
        with pytest.raises(Overloaded, match="1 calls wait"):
            await calls.tasks["a2"]

        assert calls.queue.waiting == 1

    asyncio.run(scene())


def test_stopping_refuses_what_waits_and_lets_finish_what_runs() -> None:
    async def scene() -> None:
        calls = Calls(slots=1)
        await calls.send("a")
        await calls.send("b")
        calls.queue.stop()
        await settled()
        with pytest.raises(Overloaded, match="stopping"):
            await calls.tasks["b0"]
        await calls.send("c")
        with pytest.raises(Overloaded, match="stopping"):
            await calls.tasks["c0"]
        await calls.end("a0")
        await calls.tasks["a0"]

    asyncio.run(scene())


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_places_are_bounded_and_every_call_ends(seed: int) -> None:
    """Calls begin, end, hang up and are cancelled in random order."""

    async def scene() -> None:
        random_ = random.Random(seed)
        calls = Calls(slots=random_.choice([1, 2, 3, 5]))
        left = {}
        for number in range(60):
            chance = random_.random()
            if chance < 0.5:
                event = left[number] = asyncio.Event()

                async def gone(event: asyncio.Event = event) -> None:
                    await event.wait()

                await calls.send(random_.choice("abc"), number, gone)
            elif chance < 0.7 and calls.began:
                await calls.end(random_.choice(calls.began), seconds=random_.random())
            elif chance < 0.85 and left:
                left[random_.choice(list(left))].set()
                await settled()
            elif calls.tasks:
                calls.tasks[random_.choice(list(calls.tasks))].cancel()
                await settled()
            running = calls.queue.running
            assert 0 <= running <= calls.queue._slots
            assert running or not calls.queue.waiting
        for name in calls.tasks:
            await calls.end(name)
        results = await asyncio.gather(*calls.tasks.values(), return_exceptions=True)

        assert len(results) == len(calls.tasks)
        assert calls.queue.running == calls.queue.waiting == 0
        assert all(one is None or isinstance(one, ClientLeft | asyncio.CancelledError) for one in results)

    asyncio.run(scene())
