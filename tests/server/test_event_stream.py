"""Live events in Python: an iterator, sync and async, that continues where it was interrupted."""

import asyncio
import threading
from collections.abc import Iterator
from itertools import islice

import pytest

from standfast.client import AsyncClient, Client, EventStream, ServerEvent
from standfast.errors import InvalidValue, Unauthenticated, Unreachable
from tests.server.cutting_proxy import CuttingProxy
from tests.server.harness import HANDBOOK, Served


@pytest.fixture
def memory(served: Served) -> Iterator[Client]:
    with Client(served.address, key=served.key, namespace="event-stream") as client:
        yield client


def _remember(memory: Client, name: str) -> int:
    """The entry of the ledger that tells of it."""
    answer = memory.remember(f"Crate {name} is blue.", subject=name, source=HANDBOOK)
    assert answer.receipt is not None
    return answer.receipt.ledger_seq


def _commits(events: EventStream, count: int = 1) -> list[ServerEvent]:
    """The next commits. Other tests may have had calls refused, which are told too."""
    return list(islice((event for event in events if event.kind == "commit"), count))


def _ids(events: list[ServerEvent]) -> list[str]:
    return [event.records[0].memory_id for event in events]


def test_events_are_followed_and_continued_behind_the_last_id(memory: Client) -> None:
    before = _remember(memory, "one")
    _remember(memory, "two")
    with memory.events(after=before) as events:
        first = _commits(events)
        _remember(memory, "three")
        second = _commits(events)
    with memory.events(after=events.last_id) as later:
        _remember(memory, "four")
        third = _commits(later)

    assert _ids(first + second + third) == ["two", "three", "four"]
    assert {event.kind for event in first} == {"commit"}
    assert first[0].namespace == "event-stream"


def test_a_broken_connection_is_made_again_and_nothing_is_missed(served: Served, memory: Client) -> None:
    before = _remember(memory, "broken/0")
    with (
        CuttingProxy(served.port.number, cuts=1) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}", key=served.key) as through,
        through.events(after=before) as events,
    ):
        heard = []
        for number in range(1, 4):
            _remember(memory, f"broken/{number}")
            heard += _ids(_commits(events))
            # The next thing that the server sends is lost, with the connection.
            proxy.cuts += 1

    assert proxy.cut >= 3
    assert heard == ["broken/1", "broken/2", "broken/3"]


def test_another_thread_can_close_a_stream(memory: Client) -> None:
    events = memory.events()
    heard: list[ServerEvent] = []
    thread = threading.Thread(target=lambda: heard.extend(events))
    thread.start()
    # Only a stream that is connected has an id.
    while events.last_id is None:
        threading.Event().wait(0.01)
    memory.close()
    thread.join(timeout=60)

    assert not thread.is_alive()
    assert not [event for event in heard if event.kind == "commit"]


def test_async_events(served: Served, memory: Client) -> None:
    before = _remember(memory, "async/0")

    async def follow() -> list[str]:
        async with AsyncClient(served.address, key=served.key, namespace="event-stream") as client:
            names: list[str] = []
            async with client.events(after=before) as events:
                await client.remember("Crate 1 is red.", subject="async/1", source=HANDBOOK)
                async for event in events:
                    if event.kind != "commit":
                        continue
                    names.append(event.records[0].memory_id)
                    if len(names) == 2:
                        break
                    await client.remember("Crate 2 is red.", subject="async/2", source=HANDBOOK)
                assert events.last_id is not None
            return names

    assert asyncio.run(follow()) == ["async/1", "async/2"]


def test_what_cannot_be_followed_is_told(served: Served) -> None:
    with Client(served.address, key="sf_wrong") as stranger, pytest.raises(Unauthenticated):
        next(stranger.events())
    with Client(served.address, key=served.key) as client, pytest.raises(InvalidValue):
        client.events(after=-1)
    with Client("http://127.0.0.1:9", key="sf_x") as nowhere, pytest.raises(Unreachable):
        next(EventStream(nowhere._calls.transport, None, sleep=lambda _: None))
