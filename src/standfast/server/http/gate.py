"""What every request passes before anything else, and every answer on its way out.

A request must name a host that is ours, in UTF-8, and send its body in time and within bounds; all bodies together are
bounded too. An answer has headers that let no browser do anything with it, and is taken in time. Whatever goes wrong
inside is a problem+json without a word of its insides.
"""

import logging
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from standfast.clock import Clock
from standfast.limits import BODY_SECONDS, MAX_BODIES_BYTES, MAX_BODY_BYTES, SEND_SECONDS
from standfast.server.http.calls import OPERATION_IN_SCOPE
from standfast.server.http.metrics import Metrics
from standfast.server.http.problems import plain_problem

log: Final = logging.getLogger("standfast.server.http")
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
DEFAULT_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class _Refused(HTTPException):
    """The request goes no further. Whatever is inside the gate may answer it, as an error of HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail, {"Connection": "close"})


class Gate:
    """The outermost application. ``hosts`` are the names that it answers to; None is any."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        clock: Clock,
        metrics: Metrics,
        hosts: Iterable[str] | None = None,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._app = app
        self._clock = clock
        self._metrics = metrics
        self._hosts = None if hosts is None else frozenset(hosts)
        self._body_seconds = body_seconds
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passage = _Passage(self, scope, receive, send)
        began = self._clock.monotonic()
        self._metrics.under_way += 1
        try:
            await self._pass(passage)
        finally:
            self._metrics.under_way -= 1
            self._held_bytes -= passage.body_bytes
            seconds = self._clock.monotonic() - began
            self._metrics.ended(scope.get(OPERATION_IN_SCOPE, "other"), passage.status, seconds)

    async def _pass(self, passage: "_Passage") -> None:
        try:
            self._check(passage.scope)
            await self._app(passage.scope, passage.receive, passage.send)
        except _Refused as refused:
            await passage.end_with(plain_problem(refused.status_code, refused.detail, refused.headers))
        except Exception:
            log.exception("a call failed in a way that nobody foresaw")
            await passage.end_with(plain_problem(500, "The server's log says more.", {"Connection": "close"}))

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if self._hosts is not None and (len(hosts) != 1 or _name(hosts[0]) not in self._hosts):
            raise _Refused(421, "This server does not answer to that host.")
        try:
            unquote_to_bytes(scope.get("raw_path") or b"").decode()
        except UnicodeDecodeError:
            raise _Refused(400, "The address is no UTF-8 text.") from None
        declared = headers.get("content-length", "0")
        if not (declared.isascii() and declared.isdigit()) or int(declared[:12]) > MAX_BODY_BYTES:
            raise _Refused(413, f"A body has {MAX_BODY_BYTES} bytes at most.")

    def hold(self, size_bytes: int) -> None:
        """Count bytes of a body that are held in memory now."""
        self._held_bytes += size_bytes

    def check_room(self, passage: "_Passage") -> None:
        """Refuse a body that is too long, or that would be too much beside the others."""
        if passage.body_bytes > MAX_BODY_BYTES:
            raise _Refused(413, f"A body has {MAX_BODY_BYTES} bytes at most.")
        if self._held_bytes > MAX_BODIES_BYTES:
            raise _Refused(
                503, "The server holds all the bodies that it takes on at once; try again in a moment."
            )

    def deadline(self) -> float:
        """When a body that begins now must be here."""
        return anyio.current_time() + self._body_seconds


class _Passage:
    """One request and its answer, watched."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._gate = gate
        self._receive = receive
        self._send = send
        self._deadline = gate.deadline()
        self._body_ended = False
        self._answered = False
        self.body_bytes = 0
        self.status = 0

    async def receive(self) -> Message:
        """What comes in; while it is the body, in time and within bounds."""
        if self._body_ended:
            return await self._receive()
        try:
            with anyio.fail_after(max(0.0, self._deadline - anyio.current_time())):
                message = await self._receive()
        except TimeoutError:
            raise _Refused(408, "The body did not come in time.") from None
        size = len(message.get("body", b""))
        self.body_bytes += size
        self._gate.hold(size)
        self._gate.check_room(self)
        self._body_ended = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """What goes out; whoever does not take it in time is cut off."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in DEFAULT_HEADERS.items():
                headers.setdefault(name, value)
        with anyio.fail_after(SEND_SECONDS):
            await self._send(message)
        self._answered = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def end_with(self, answer: Response) -> None:
        """Answer, if nothing was answered yet; an answer that was begun ends with its connection."""
        if self._answered:
            return
        if self.status:
            raise ConnectionAbortedError("the answer had begun")
        await answer(self.scope, self._receive, self.send)


def _name(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
