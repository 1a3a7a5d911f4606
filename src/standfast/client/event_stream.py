"""Live events of a server: an iterator that reconnects by itself and misses nothing."""

import asyncio
import http.client
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self

import msgspec

from standfast.client.transport import (
    MAX_PAUSE_SECONDS,
    PAUSE_SECONDS,
    OpenStream,
    RetryableFailure,
    Transport,
)
from standfast.errors import InvalidValue, StandfastError, Unreachable
from standfast.limits import MAX_ATTEMPTS, MAX_EVENT_ATTEMPTS, SAFE_INTEGER
from standfast.server.operations.event_operations import ServerEvent

_PATH = "/v1/events"


class EventStream:
    """Commits, proposals and refusals as they happen.

    Iterate over it; use it as a context manager, or close it.

        with memory.events() as events:
            for event in events:
                print(event.kind, event.namespace, event.records)

    If the connection breaks, it connects again and continues behind ``last_id``; an event may come twice
    then. It ends when it is closed, also by another thread. ``last_id`` can be kept, and given as ``after``
    to another stream later.
    """

    def __init__(self, transport: Transport, after: int | None, *, sleep: Callable[[float], None]) -> None:
        if after is not None and not (type(after) is int and 0 <= after <= SAFE_INTEGER):
            raise InvalidValue(what="after", problem=f"it must be the id of an event, not {after!r:.80}")
        self.last_id = after
        self._transport = transport
        self._sleep = sleep
        self._open: OpenStream | None = None
        self._was_connected = False
        self._is_closed = False
        self._reading = threading.RLock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ServerEvent:
        with self._reading:
            return self._next()

    def _next(self) -> ServerEvent:
        failures = 0
        while not self._is_closed:
            try:
                event = self._next_event()
            except RetryableFailure as failure:
                self._disconnect()
                failures += 1
                if failures >= (MAX_EVENT_ATTEMPTS if self._was_connected else MAX_ATTEMPTS):
                    raise failure.error from None
                if not self._is_closed:
                    self._sleep(min(MAX_PAUSE_SECONDS, failure.pause_seconds * 2 ** min(failures - 1, 8)))
                continue
            except StandfastError:
                self.close()
                raise
            if event is not None:
                return event
            failures = 0
        raise StopIteration

    def _next_event(self) -> ServerEvent | None:
        """Read up to the end of an event; None for one without data, which keeps the connection alive."""
        if self._open is None:
            self._open = self._connect()
        if self._is_closed:
            return None
        fields: dict[bytes, bytes] = {}
        try:
            while line := self._open.response.readline():
                if not line.strip():
                    break
                name, _, value = line.rstrip(b"\r\n").partition(b": ")
                fields[name] = value
            else:
                raise ConnectionResetError("the server ended the stream")
        # A closed response is None or has no file, depending on when the other thread closed it.
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
            failure = Unreachable(address=self._transport.address, problem=problem)
            raise RetryableFailure(failure, PAUSE_SECONDS) from None
        event = ServerEvent.from_json(msgspec.json.decode(fields[b"data"])) if b"data" in fields else None
        if b"id" in fields:
            self.last_id = int(fields[b"id"])
        return event

    def _connect(self) -> OpenStream:
        headers = {"Accept": "text/event-stream"}
        if self.last_id is not None:
            headers["Last-Event-ID"] = str(self.last_id)
        opened = self._transport.open_stream(_PATH, headers)
        self._was_connected = True
        return opened

    def _disconnect(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.response.close()
            opened.connection.close()

    def close(self) -> None:
        """End the stream. A thread that waits for the next event waits no longer."""
        self._is_closed = True
        opened = self._open
        if opened is not None:
            with suppress(OSError):
                opened.socket.shutdown(socket.SHUT_RDWR)
        with self._reading:
            self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEventStream:
    """The same for ``async for``. It waits in a thread of its own.

    async with memory.events() as events:
        async for event in events:
            print(event.kind, event.namespace)
    """

    def __init__(self, events: EventStream) -> None:
        self._events = events
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="standfast-events")

    @property
    def last_id(self) -> int | None:
        """The id to continue behind."""
        return self._events.last_id

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerEvent:
        event = await asyncio.get_running_loop().run_in_executor(self._thread, next, self._events, None)
        if event is None:
            raise StopAsyncIteration
        return event

    async def close(self) -> None:
        """End the stream."""
        await asyncio.to_thread(self._events.close)
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
