"""The ASGI application that ``standfast serve`` runs, where it may listen, and uvicorn with limits on
connections and time.

The application joins the API, and the MCP endpoint and the console where they are installed.
"""

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from types import FrameType
from typing import ClassVar, Final

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from standfast.errors import AccessError, StoreError
from standfast.limits import (
    CLOSE_SECONDS,
    HEADERS_SECONDS,
    MAX_CONNECTIONS,
    MAX_HEADER_BYTES,
    REPLICA_EXCHANGE_SECONDS,
    STOP_SECONDS,
)
from standfast.server.access.replicas import Replicas
from standfast.server.edge.admission import CallQueues
from standfast.server.edge.context import ApiContext
from standfast.server.edge.middleware import LOOPBACK_HOSTS, EdgeMiddleware, without_port
from standfast.server.edge.problems import INTERNAL_ERROR, plain_problem
from standfast.server.http.api import DOCS_PATH, HttpApi
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.telemetry import CallTracer
from standfast.server.settings import ServerSettings
from standfast.settings import Settings

KEEP_ALIVE_SECONDS: Final = 15
BACKLOG: Final = 2_048
API_PATH: Final = "/v1"
HOUSEKEEPING_SECONDS: Final = 5.0
Lifespan = Callable[[], AbstractAsyncContextManager[None]]
RoutesOf = Callable[[ApiContext], Sequence[BaseRoute]]
"""Makes the routes of a further part of the server, such as the console."""
_DETAIL: Final = {
    404: "There is nothing at this path; /openapi.json lists the paths.",
    405: "This path does not support the method; /openapi.json lists the methods.",
}


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(host: str, *, behind_tls: bool, has_keys: bool, host_names: Sequence[str] = ()) -> None:
    """Refuse to serve beyond this machine unless a key exists, a proxy ends TLS and the hosts are known.

    A server on a loopback address behind a proxy is served beyond this machine too.
    """
    if not behind_tls:
        if is_loopback(host):
            return
        raise AccessError(
            "unsafe_bind",
            host=host,
            problem=(
                "keys and memories would cross the network unencrypted. Put a proxy that terminates TLS in"
                " front and pass --behind-tls, or serve on 127.0.0.1"
            ),
        )
    if not has_keys:
        raise AccessError(
            "unsafe_bind",
            host=host,
            problem=(
                "there is no API key yet, and a public server must not print its first key. Create one: "
                "standfast keys create NAME --role operator --namespace '*'"
            ),
        )
    if not host_names:
        raise AccessError(
            "unsafe_bind",
            host=host,
            problem=(
                "the server must know the names it is reached by, to refuse requests for others. Pass"
                " --host-name memory.example.com, or set server.host_names"
            ),
        )


def listening(host: str, port: int) -> socket.socket:
    """Open a listening socket. Port 0 means any free port."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # asyncio sets TCP_NODELAY only on sockets that name their protocol. Without it every response takes
        # 40 ms more.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        raise AccessError(
            "unsafe_bind",
            host=f"{host}:{port}",
            problem=f"{error.strerror or error}; choose another host or port",
        ) from None
    return bound


def address_of(bound: socket.socket, host: str) -> str:
    """The URL of a listening socket."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{bound.getsockname()[1]}"


class HeadDeadlines:
    """An ASGI application that closes connections whose next request head does not arrive in time.

    uvicorn waits for a head without limit, so silent connections would use up its connection limit. Its
    protocol, which ``protocol`` extends, sees connections and data; as an ASGI application this class sees
    which connections have a request in progress.
    """

    def __init__(self, app: ASGIApp, *, started: Callable[[], None] = lambda: None) -> None:
        self._app = app
        self._started = started
        connections = self._connections = dict[object, _Connection]()

        class TimedProtocol(_Connection):
            by_peer = connections

        self.protocol: type[asyncio.Protocol] = TimedProtocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, without its connection's deadline; announce the application's start."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, self._announcing(send))
            return
        connection = self._connections.get(scope.get("client"))
        if connection is not None:
            connection.request_started()
        try:
            await self._app(scope, receive, send)
        finally:
            if connection is not None:
                connection.request_ended()

    def _announcing(self, send: Send) -> Send:
        async def announce(message: Message) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                self._started()

        return announce


class _Connection(H11Protocol):
    """One connection. It is closed when a head takes too long."""

    by_peer: ClassVar[dict[object, "_Connection"]]
    _timer: asyncio.TimerHandle | None = None
    _is_idle = False
    _in_progress = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's.
        """Register the connection and wait for its first head."""
        super().connection_made(transport)
        self.by_peer[self.client] = self
        self._close_after(HEADERS_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Take data. The first bytes after a response begin a new head."""
        if self._is_idle:
            self._is_idle = False
            self._close_after(HEADERS_SECONDS)
        super().data_received(data)

    def request_started(self) -> None:
        """The head is complete; the edge limits the rest of the request."""
        self._in_progress += 1
        self._cancel()

    def request_ended(self) -> None:
        """The response is complete. uvicorn closes idle connections; a part of the next head may be here."""
        self._in_progress -= 1
        if self._in_progress == 0 and self.by_peer.get(self.client) is self:
            self._is_idle = True
            self._close_after(KEEP_ALIVE_SECONDS + HEADERS_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel()
        if self.by_peer.get(self.client) is self:
            del self.by_peer[self.client]
        super().connection_lost(exc)

    def _close_after(self, seconds: float) -> None:
        self._cancel()
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def server_config(
    app: ASGIApp, *, started: Callable[[], None] = lambda: None, stop_seconds: float = STOP_SECONDS
) -> uvicorn.Config:
    """The configuration of uvicorn: bounded in connections, sizes and time, and silent."""
    deadlines = HeadDeadlines(app, started=started)
    return uvicorn.Config(
        deadlines,
        http=deadlines.protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=stop_seconds,  # type: ignore[arg-type]  # It may be a fraction.
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )


class _Server(uvicorn.Server):
    """Stops on the first signal, in bounded time, and ends the process at once on the second."""

    def __init__(self, config: uvicorn.Config, *, stopping: Callable[[], None], stop_seconds: float) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._stop_seconds = stop_seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop. From now on a signal has its default effect, even while this thread is busy."""
        super().handle_exit(sig, frame)
        self._stopping()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # Threads can't be interrupted, and the process waits for them. One that hangs in the store must not
        # keep it alive.
        # Ending it loses nothing: what was acknowledged is durable, and the rest is repeated by its clients.
        ending = threading.Timer(self._stop_seconds + CLOSE_SECONDS, os._exit, args=(1,))
        ending.daemon = True
        ending.start()


def serve(
    app: ASGIApp,
    bound: socket.socket,
    *,
    started: Callable[[], None] = lambda: None,
    stop_seconds: float = STOP_SECONDS,
) -> None:
    """Serve until a signal arrives. A second signal ends the process at once.

    Args:
        started: Called once requests are served.
        stop_seconds: How long calls in progress may take after a signal. The rest are answered with 503 then.
            Some seconds later the process ends in any case.
    """
    # Malformed requests are answered and counted; a log line for each would let clients fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = server_config(app, started=started, stop_seconds=stop_seconds)
    with _signals_only_stop():
        stopping = app.stop if isinstance(app, EdgeMiddleware | StoreRouter) else lambda: None
        _Server(config, stopping=stopping, stop_seconds=stop_seconds).run(sockets=[bound])


@contextlib.contextmanager
def _signals_only_stop() -> Iterator[None]:
    """Let the first SIGTERM or SIGINT end the serving, but not the process.

    uvicorn shuts down on a signal and then raises it again. SIGTERM would end the process before the access
    log is written and the ledger's head is signed.
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


def build_app(
    gateway: Gateway,
    *,
    hosts: Iterable[str] | None = None,
    trusted_proxies: Iterable[str] = (),
    tracer: CallTracer | None = None,
    queues: CallQueues | None = None,
    parts: Sequence[RoutesOf] = (),
    lifespans: Sequence[Lifespan] = (),
    home_path: str = DOCS_PATH,
) -> EdgeMiddleware:
    """Build the application with the API and further parts.

    Args:
        hosts: The host names to answer to; None means any.
        trusted_proxies: Addresses or networks whose ``X-Forwarded-For`` says where a request came from.
        parts: Make the routes of further parts.
        lifespans: Context managers that are entered for as long as the application runs.
        home_path: Where a browser is sent that asks for no path.
    """
    context = ApiContext(gateway, tracer=tracer, queues=queues)
    api = HttpApi(context, home_path=home_path)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for enter in lifespans:
                await stack.enter_async_context(enter())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_keep_tidy, api, gateway)
                if gateway.replicas is not None:
                    tasks.start_soon(_tell_replicas, gateway.replicas)
                yield
                tasks.cancel_scope.cancel()

    app = Starlette(
        routes=[*api.routes(), *(route for routes_of in parts for route in routes_of(context))],
        exception_handlers={HTTPException: _http_problem, Exception: _internal_error},
        lifespan=lifespan,
    )
    # A redirect to the path without its last slash would echo whatever host the client named.
    app.router.redirect_slashes = False
    return EdgeMiddleware(
        app,
        clock=gateway.clock,
        ids=gateway.store.ids,
        metrics=context.metrics,
        hosts=hosts,
        trusted_proxies=trusted_proxies,
        on_stop=context.queues.stop,
    )


def build_full_app(
    gateway: Gateway,
    *,
    behind_tls: bool = False,
    settings: Settings | None = None,
    queues: CallQueues | None = None,
) -> tuple[EdgeMiddleware, list[str]]:
    """Build the application with every part that is installed, and return it with the paths that it serves.

    It answers to the names of the loopback interface and to ``host_names`` of the settings.
    """
    settings = settings or Settings()
    own = settings.section(ServerSettings)
    paths, parts, lifespans = [API_PATH], list[RoutesOf](), list[Lifespan]()
    try:
        from standfast.server.mcp.server import MCP_PATH, McpApp  # noqa: PLC0415  # An optional dependency.
    except ImportError:
        pass
    else:
        mcp = McpApp(gateway)
        paths.append(MCP_PATH)
        parts.append(mcp.routes)
        lifespans.append(mcp.lifespan)
    try:
        from standfast.server.console.routes import console_routes  # noqa: PLC0415  # As above.
    except ImportError:
        pass
    else:
        paths.append("/console")
        parts.append(console_routes(settings, behind_tls=behind_tls))
    app = build_app(
        gateway,
        hosts=LOOPBACK_HOSTS.union(own.host_names),
        trusted_proxies=own.trusted_proxies,
        queues=queues,
        parts=parts,
        lifespans=lifespans,
        home_path="/console" if "/console" in paths else DOCS_PATH,
    )
    return app, paths


class StoreRouter:
    """Several stores behind one address: a request goes to the application of its host, or the main one.

    Nothing is shared between the stores but the process.
    """

    def __init__(self, main: EdgeMiddleware, by_host: Mapping[str, EdgeMiddleware]) -> None:
        self._main = main
        self._by_host = {host.lower(): app for host, app in by_host.items()}
        self._lifespans = Starlette(lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "lifespan":
            await self._lifespans(scope, receive, send)
            return
        hosts = Headers(scope=scope).getlist("host")
        app = self._by_host.get(without_port(hosts[0]), self._main) if len(hosts) == 1 else self._main
        await app(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in (self._main, *self._by_host.values()):
                await stack.enter_async_context(app.lifespan())
            yield

    def stop(self) -> None:
        """Let responses that do not end by themselves end now."""
        for app in (self._main, *self._by_host.values()):
            app.stop()


async def _keep_tidy(api: HttpApi, gateway: Gateway) -> None:
    """Remove idle runs, resume what waits for a model, write the access log's counts, every few seconds."""

    def tidy() -> None:
        # A store that can't be written now is tidied later.
        with suppress(StoreError):
            api.runs.expire()
            gateway.resume_extractions()
        gateway.access_log.flush(only_if_over=True)

    while True:
        await anyio.sleep(HOUSEKEEPING_SECONDS)
        await anyio.to_thread.run_sync(tidy)


async def _tell_replicas(replicas: Replicas) -> None:
    """Share rate limits with the other servers of the store."""
    while True:
        await anyio.to_thread.run_sync(replicas.exchange)
        await anyio.sleep(REPLICA_EXCHANGE_SECONDS)


async def _http_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for no other class"
    return plain_problem(error.status_code, _DETAIL.get(error.status_code, error.detail), error.headers)


async def _internal_error(_: Request, __: Exception) -> Response:
    """The response to an unexpected error. Starlette raises it again, and the edge logs it."""
    return plain_problem(500, INTERNAL_ERROR)
