"""Serving: where to listen, and with how much patience."""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from standfast.errors import UnsafeBind
from standfast.limits import HEADERS_SECONDS, MAX_CONNECTIONS, MAX_HEADER_BYTES

KEEP_ALIVE_SECONDS: Final = 15
STOP_SECONDS: Final = 10
BACKLOG: Final = 2_048


class PatientProtocol(H11Protocol):
    """HTTP with an end to its patience: who connects and does not send a whole head in time is cut off.

    uvicorn waits for ever for the rest of a head, so that a thousand silent connections would hold it for nothing.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too.
        """Begin to wait for a head."""
        self._waits: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._wait_or_not()

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait for the rest of the head if it is not all there."""
        super().data_received(data)
        self._wait_or_not()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait_or_not(self) -> None:
        waits_for_head = self.conn.their_state is h11.IDLE
        if not waits_for_head:
            self._wait_no_more()
        elif self._waits is None:
            self._waits = self.loop.call_later(HEADERS_SECONDS, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _give_up(self) -> None:
        self._waits = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(host: str, *, behind_tls: bool, has_keys: bool) -> None:
    """Refuse to serve where others can reach it, unless keys exist and TLS is terminated in front."""
    if is_loopback(host):
        return
    if not behind_tls:
        raise UnsafeBind(
            host=host,
            problem="others could read every key and memory on the way. Let a proxy terminate TLS in front, and say so "
            "with --behind-tls; or serve on 127.0.0.1",
        )
    if not has_keys:
        raise UnsafeBind(
            host=host,
            problem="there is no API key yet, and printing the first one into the log of a public server would give it "
            "away. Make one first: standfast keys create NAME --role operator --namespace '*'",
        )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Named, because asyncio turns Nagle's algorithm off only where the protocol is, and it costs every answer 40 ms.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        raise UnsafeBind(
            host=f"{host}:{port}", problem=f"{error.strerror or error}; choose another"
        ) from None
    return bound


def address_of(bound: socket.socket, host: str) -> str:
    """The address to be told to people."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{bound.getsockname()[1]}"


def configured(app: ASGIApp) -> uvicorn.Config:
    """How we serve: bounded, quiet, and with an end to patience."""
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )


def serve(app: ASGIApp, bound: socket.socket, *, started: Callable[[], None] = lambda: None) -> None:
    """Serve until a signal ends it; calls that are under way are finished first."""
    # What callers send wrongly is answered and counted; a line in the log for each would let them fill it.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    with _quietly():
        _Server(configured(app), started).run(sockets=[bound])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._tell_started()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Let a signal end the serving, and nothing else.

    uvicorn stops in good order and then raises the signal once more, which for SIGTERM would end the process at once:
    before the access log is told, and the ledger's head signed.
    """

    def interrupt(_: int, __: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
