"""The thread that erases expired items: what it does, and what ends it."""

import asyncio
import logging
import threading
from concurrent.futures import wait
from contextlib import ExitStack
from typing import Final, cast

import pytest
from langgraph.store.base import TTLConfig

from standfast.adapters.langgraph import StandfastStore, TtlSweeper
from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.memory import Memory

OFTEN: Final = 1e-5
"""Minutes between two sweeps."""
NEVER: Final = 1e9
PATIENCE: Final = 60
"""Seconds that a test waits for another thread before it fails."""


class SweptStore(StandfastStore):
    """A store that tells when a sweep erased something."""

    erased: threading.Event

    def sweep_ttl(self) -> int:
        """Sweep, and tell."""
        count = super().sweep_ttl()
        if count:
            self.erased.set()
        return count


def expired_store(minutes: float = OFTEN) -> SweptStore:
    """A store with one item, which has expired."""
    clock = ManualClock()
    memory = Memory.open(":memory:", clock=clock, ids=CountedIds())
    config = cast("TTLConfig", {"default_ttl": 1, "sweep_interval_minutes": minutes})
    store = SweptStore(memory, ttl=config)
    store.erased = threading.Event()
    store.put(("docs",), "short", {"text": "Kept for a minute."})
    clock.advance(120)
    return store


def is_erased(store: StandfastStore) -> bool:
    return store.memory.history("langgraph/docs/short")[-1].record is None


def test_the_sweeper_erases_expired_items_until_it_is_stopped() -> None:
    store = expired_store()
    running = store.start_ttl_sweeper()

    assert store.start_ttl_sweeper() is running
    assert store.erased.wait(PATIENCE)
    assert not running.done()
    assert store.stop_ttl_sweeper()
    assert running.done()
    assert is_erased(store)
    assert list(store.memory.verify()) == []


def test_the_argument_goes_before_the_configuration_and_a_stopped_sweeper_can_start_again() -> None:
    store = expired_store(minutes=NEVER)
    assert store.stop_ttl_sweeper()
    first = store.start_ttl_sweeper()
    assert store.stop_ttl_sweeper()
    second = store.start_ttl_sweeper(sweep_interval_minutes=OFTEN)

    assert store.erased.wait(PATIENCE)
    assert first.done()
    assert not second.done()
    assert store.stop_ttl_sweeper()


def test_the_sweeper_has_an_async_form() -> None:
    async def play(store: SweptStore) -> bool:
        running = await store.astart_ttl_sweeper(OFTEN)
        await asyncio.to_thread(store.erased.wait, PATIENCE)
        return await store.astop_ttl_sweeper() and running.done()

    store = expired_store(minutes=NEVER)
    assert asyncio.run(play(store))
    assert is_erased(store)


def test_closing_the_memory_ends_the_sweeper() -> None:
    store = expired_store(minutes=NEVER)
    running = store.start_ttl_sweeper()

    store.memory.close()

    assert running.done()


def test_to_cancel_the_future_stops_the_thread() -> None:
    store = expired_store(minutes=NEVER)
    running = store.start_ttl_sweeper()

    assert running.cancel()
    again = store.start_ttl_sweeper()
    assert again is not running
    assert store.stop_ttl_sweeper()
    assert again.result(PATIENCE) is None


def test_a_sweep_that_fails_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []
    swept = threading.Event()

    def sweep() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("the disk is full")
        swept.set()
        return 0

    with ExitStack() as at_close, caplog.at_level(logging.ERROR, logger="standfast.adapters"):
        running = TtlSweeper(sweep, at_close=at_close).start(OFTEN)
        assert swept.wait(PATIENCE)
        assert not running.done()

    assert running.done()
    assert "The next sweep tries again" in caplog.text
    assert "the disk is full" in caplog.text


def test_stop_does_not_wait_longer_than_it_may_for_a_long_sweep() -> None:
    began, may_end = threading.Event(), threading.Event()

    def sweep() -> int:
        began.set()
        may_end.wait(PATIENCE)
        return 1

    with ExitStack() as at_close:
        sweeper = TtlSweeper(sweep, at_close=at_close)
        running = sweeper.start(OFTEN)
        assert began.wait(PATIENCE)
        assert not sweeper.stop(timeout=0)
        may_end.set()
        assert sweeper.stop()
        assert wait([running], PATIENCE).done == {running}


@pytest.mark.parametrize("minutes", [0, -1, float("nan")])
def test_an_interval_that_is_no_time_is_refused(minutes: float) -> None:
    with pytest.raises(InvalidValue, match="sweep_interval_minutes"):
        expired_store().start_ttl_sweeper(minutes)


def test_a_filter_takes_any_name_and_none_is_code() -> None:
    store = expired_store()
    store.put(("people",), "ada", {"first name": "Ada", "Größe": 170})

    assert [one.key for one in store.search(("people",), filter={"first name": "Ada", "Größe": 170})] == [
        "ada"
    ]
    assert store.search(("people",), filter={"x') = 'y' OR '1'='1' OR json_extract(value, '$.": "y"}) == []
