"""Live events as server-sent events: ``GET /v1/events``, and ``/console/events`` for signed-in browsers.

Each event has the number of its entry in the ledger as its id. A client that was disconnected sends the last
id that it got as ``Last-Event-ID``, as browsers do, and misses nothing: the ledger has every event.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from standfast.errors import AccessError, Overloaded, StandfastError, StoreError
from standfast.limits import EVENT_POLL_SECONDS, EVENT_PULSE_SECONDS, MAX_EVENT_STREAMS, SAFE_INTEGER
from standfast.server.access.permissions import Caller, Permission, require
from standfast.server.edge.context import ApiContext
from standfast.server.edge.middleware import OPERATION_IN_SCOPE, STOPPING_IN_SCOPE
from standfast.server.operations.event_operations import ServerEvent, events_after, newest_entry

EVENTS_PATH: Final = "/v1/events"
EVENT_STREAM: Final = "text/event-stream"
LAST_ID_HEADER: Final = "Last-Event-ID"
_RETRY_MILLISECONDS: Final = 1_000


Authenticate = Callable[[], Callable[[], Caller]]
"""Authenticates a request, and returns a function that gives its caller as of now.

Both raise if there is none.
"""


class EventStreams:
    """Streams of events of one interface. Each follows the ledger, so all servers of a store agree."""

    def __init__(self, context: ApiContext, *, interface: str) -> None:
        self._context = context
        self._interface = interface

    async def respond(self, request: Request, authenticate: Authenticate) -> Response:
        """Begin a stream, or refuse the request. It ends when the caller may no longer hear it."""
        context = self._context
        request.scope[OPERATION_IN_SCOPE] = "events"
        try:
            if context.open_streams >= MAX_EVENT_STREAMS:
                raise Overloaded(what=f"{MAX_EVENT_STREAMS} streams of events")
            caller, after = await context.key_threads.run(lambda: self._begin(request, authenticate))
        except StandfastError as error:
            return await context.refusal(
                error, request, Permission.EVENTS.value, None, interface=self._interface
            )
        stopping: Callable[[], bool] = request.scope.get(STOPPING_IN_SCOPE, lambda: False)
        # Proxies would hold events back until their buffer is full.
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._stream(caller, after, stopping), media_type=EVENT_STREAM, headers=headers
        )

    def _begin(self, request: Request, authenticate: Authenticate) -> tuple[Callable[[], Caller], int]:
        caller = authenticate()
        require(caller(), Permission.EVENTS, None)
        given = request.headers.getlist(LAST_ID_HEADER) or request.query_params.getlist("after")
        if not given:
            return caller, newest_entry(self._context.gateway)
        is_number = len(given) == 1 and given[0].isascii() and given[0].isdigit() and len(given[0]) < 17
        if not (is_number and int(given[0]) <= SAFE_INTEGER):
            raise AccessError(
                "bad_request", problem=f"send {LAST_ID_HEADER}, or after=, once, with the id of an event"
            )
        return caller, int(given[0])

    async def _stream(
        self, caller: Callable[[], Caller], after: int, stopping: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        self._context.open_streams += 1
        clock = self._context.gateway.clock
        try:
            yield f"retry: {_RETRY_MILLISECONDS}\nid: {after}\n\n".encode()
            sent_at = clock.monotonic()
            while not stopping():
                try:
                    events, seen = await self._context.health_threads.run(
                        partial(self._events, caller, after)
                    )
                except (StoreError, Overloaded):
                    await anyio.sleep(EVENT_POLL_SECONDS)
                    continue
                except StandfastError:
                    return
                is_due = clock.monotonic() - sent_at >= EVENT_PULSE_SECONDS
                if events or is_due:
                    yield encoded(events, seen)
                    sent_at = clock.monotonic()
                if seen == after:
                    await anyio.sleep(EVENT_POLL_SECONDS)
                after = seen
        finally:
            self._context.open_streams -= 1

    def _events(self, caller: Callable[[], Caller], after: int) -> tuple[list[ServerEvent], int]:
        """The next events. The caller is looked up each time: a key that was revoked hears no more."""
        return events_after(self._context.gateway, caller(), after)


def encoded(events: Sequence[ServerEvent], seen: int) -> bytes:
    """Events as a stream has them.

    The id comes with the last one of an entry, so that an interruption repeats and never skips.
    """
    lines = [b": pulse"] if not events else []
    last = {event.seq: number for number, event in enumerate(events)}
    for number, event in enumerate(events):
        if last[event.seq] == number:
            lines.append(b"id: %d" % event.seq)
        data = {name: value for name, value in event.as_json().items() if value is not None}
        lines += [b"event: " + event.kind.encode(), b"data: " + msgspec.json.encode(data), b""]
    # An id without data moves a client on over entries that it may not see.
    return b"\n".join([*lines, b"id: %d" % seen, b"", b""])
