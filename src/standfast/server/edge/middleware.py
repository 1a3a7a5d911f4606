"""The outermost layer of the server: checks every request, guards every response, and counts both.

A request must name one of the server's hosts, have a UTF-8 path, and send its body in time and within limits;
the bodies of all requests together are limited too. Every response gets security headers and must be read in
time. An unexpected error becomes a problem+json without internal details.
"""

import asyncio
import ipaddress
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from standfast.clock import Clock, IdSource
from standfast.limits import BODY_SECONDS, MAX_BODIES_BYTES, MAX_BODY_BYTES, MAX_HEADER_BYTES, SEND_SECONDS
from standfast.server.edge.problems import INTERNAL_ERROR, plain_problem
from standfast.server.logs import REQUEST_LOG
from standfast.server.operations.call_history import CallHistory
from standfast.server.operations.telemetry import Histogram, NamespaceMetrics

log: Final = logging.getLogger("standfast.server")
OPERATION_IN_SCOPE: Final = "standfast.operation"
CALLER_IN_SCOPE: Final = "standfast.caller"
NAMESPACE_IN_SCOPE: Final = "standfast.namespace"
"""The namespace that an authorized call is for."""
ARRIVED_IN_SCOPE: Final = "standfast.arrived"
"""When the head of a request had arrived, by the monotonic clock."""
STOPPING_IN_SCOPE: Final = "standfast.stopping"
REQUEST_ID_IN_SCOPE: Final = "standfast.request_id"
REQUEST_ID_HEADER: Final = "X-Request-Id"
_REQUEST_ID: Final = re.compile("[A-Za-z0-9._-]{1,64}")
HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
DEFAULT_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
STOPPING: Final = (
    "The server is stopping; send the request again, with the same idempotency key if it has one."
)
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ServerMetrics:
    """Request counts and durations in Prometheus' text format. Safe to share between threads.

    Labels come from closed sets, so callers cannot make them grow.
    """

    def __init__(
        self, by_namespace: NamespaceMetrics | None = None, call_history: CallHistory | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._by_namespace = by_namespace or NamespaceMetrics()
        self._call_history = call_history
        self._finished: Counter[tuple[str, int]] = Counter()
        self._durations = Histogram("request_seconds", "Duration of requests, by operation.")
        self.in_progress = 0

    def finished(self, operation: str, status: int, seconds: float, namespace: str | None = None) -> None:
        """Count a request that was answered. ``namespace`` is that of an authorized call."""
        if namespace is not None:
            self._by_namespace.answered(namespace, status, seconds)
            if self._call_history is not None:
                self._call_history.note(namespace, operation, status, seconds)
        self._durations.observe(seconds, f'operation="{operation}"')
        with self._lock:
            self._finished[operation, status] += 1

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """All metrics as text. ``gauges`` are current values, each with its description."""
        with self._lock:
            finished = sorted(self._finished.items())
        lines = [
            "# HELP standfast_requests_total Answered requests, by operation and status.",
            "# TYPE standfast_requests_total counter",
            *(
                f'standfast_requests_total{{operation="{operation}",status="{status}"}} {count}'
                for (operation, status), count in finished
            ),
            *self._durations.lines(),
        ]
        for name, (description, value) in sorted(gauges.items()):
            lines += [
                f"# HELP standfast_{name} {description}",
                f"# TYPE standfast_{name} gauge",
                f"standfast_{name} {value:g}",
            ]
        return "\n".join(lines) + "\n"


class TrustedProxies:
    """The proxies whose ``X-Forwarded-For`` is believed. Anyone else could write any address into it.

    Args:
        networks: Addresses (``10.0.0.7``) or networks (``10.0.0.0/8``).
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ipaddress.ip_network(one) for one in networks]

    def peer_behind(self, client: tuple[str, int] | None, forwarded: Sequence[str]) -> str | None:
        """The address behind the proxies: the last one in the header that is not a trusted proxy itself.

        None if the request did not come through a trusted proxy, or the header is malformed.
        """
        if client is None or not forwarded or not self._is_trusted(client[0]):
            return None
        peer = None
        for hop in reversed(",".join(forwarded).split(",")):
            try:
                peer = str(ipaddress.ip_address(hop.strip()))
            except ValueError:
                return None
            if not self._is_trusted(peer):
                break
        return peer

    def _is_trusted(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)


class _RequestRefused(HTTPException):
    """The request is not passed on. Inner handlers may turn it into their own kind of page."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail, {"Connection": "close"})


class EdgeMiddleware:
    """The outermost ASGI application.

    Args:
        hosts: The host names that the server answers to; None for any. Health checks need none.
        trusted_proxies: Addresses or networks whose ``X-Forwarded-For`` is believed.
        body_seconds: How long a client may take to send the body of a request.
        on_stop: Called, maybe in a signal handler, when the server begins to stop.
    """

    def __init__(
        self,
        app: Starlette,
        *,
        clock: Clock,
        ids: IdSource,
        metrics: ServerMetrics,
        hosts: Iterable[str] | None = None,
        trusted_proxies: Iterable[str] = (),
        body_seconds: float = BODY_SECONDS,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._proxies = TrustedProxies(trusted_proxies)
        self._body_seconds = body_seconds
        self._buffered_bytes = 0
        self._on_stop = on_stop
        self._is_stopping = False

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Runs the background tasks of the application inside."""
        return self._app.router.lifespan_context(self._app)

    def stop(self) -> None:
        """Let responses that do not end by themselves end now, and refuse the calls that wait."""
        self._is_stopping = True
        self._on_stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID_IN_SCOPE] = self._request_id(scope)
        scope[STOPPING_IN_SCOPE] = lambda: self._is_stopping
        exchange = _Exchange(self, scope, receive, send)
        started = scope[ARRIVED_IN_SCOPE] = self._clock.monotonic()
        self._metrics.in_progress += 1
        try:
            await self._handle(exchange)
        finally:
            self._metrics.in_progress -= 1
            self._buffered_bytes -= exchange.body_bytes
            seconds = self._clock.monotonic() - started
            self._metrics.finished(
                scope.get(OPERATION_IN_SCOPE, "other"),
                exchange.status,
                seconds,
                scope.get(NAMESPACE_IN_SCOPE),
            )
            _log_request(scope, exchange.status, seconds)

    def _request_id(self, scope: Scope) -> str:
        """The request's id from the client or its proxy, if it has the form of one; otherwise a new one."""
        given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
        return given if _REQUEST_ID.fullmatch(given) else self._ids.new_id()

    async def _handle(self, exchange: "_Exchange") -> None:
        try:
            self._check(exchange.scope)
            await self._app(exchange.scope, exchange.receive, exchange.send)
        except _RequestRefused as refused:
            await exchange.end_with(plain_problem(refused.status_code, refused.detail, refused.headers))
        except asyncio.CancelledError:
            # The server stops, and its grace is over. Only uvicorn cancels this task, and waits for it no
            # longer.
            if exchange.status:
                raise
            await exchange.end_with(plain_problem(503, STOPPING, {"Connection": "close", "Retry-After": "1"}))
        except Exception:
            log.exception("unexpected error in a request", extra={"fields": request_fields(exchange.scope)})
            await exchange.end_with(plain_problem(500, INTERNAL_ERROR, {"Connection": "close"}))

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            raise _RequestRefused(431, f"The headers are larger than {MAX_HEADER_BYTES} bytes.")
        hosts = headers.getlist("host")
        is_checked = self._hosts is not None and scope["path"] not in HEALTH_PATHS
        if is_checked and (len(hosts) != 1 or without_port(hosts[0]) not in (self._hosts or ())):
            raise _RequestRefused(
                421,
                "This server does not answer to that host name; the setting server.host_names lists"
                " those it does.",
            )
        if peer := self._proxies.peer_behind(scope.get("client"), headers.getlist("x-forwarded-for")):
            scope["client"] = (peer, 0)
        try:
            unquote_to_bytes(scope.get("raw_path") or b"").decode()
        except UnicodeDecodeError:
            raise _RequestRefused(400, "The path is not valid UTF-8.") from None
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may believe the other one: what it takes for a body would be a request to us.
            raise _RequestRefused(400, "Send Content-Length or Transfer-Encoding, not both.")
        declared = headers.get("content-length", "0")
        if not (declared.isascii() and declared.isdigit()) or int(declared[:12]) > MAX_BODY_BYTES:
            raise _too_large()

    def count_body(self, exchange: "_Exchange", size_bytes: int) -> None:
        """Count received bytes; refuse a body that is too long or does not fit with the others."""
        exchange.body_bytes += size_bytes
        self._buffered_bytes += size_bytes
        if exchange.body_bytes > MAX_BODY_BYTES:
            raise _too_large()
        if self._buffered_bytes > MAX_BODIES_BYTES:
            raise _RequestRefused(503, "The server is busy with other large requests; try again in a moment.")

    def deadline(self) -> float:
        """When a body that starts now must be complete."""
        return asyncio.get_running_loop().time() + self._body_seconds


class _Exchange:
    """One request and its response, limited in time and size."""

    def __init__(self, edge: EdgeMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._edge = edge
        self._receive = receive
        self._send = send
        self._deadline = edge.deadline()
        self._body_ended = False
        self._response_ended = False
        self.body_bytes = 0
        self.status = 0

    async def receive(self) -> Message:
        """Receive the next part of the body, in time and within the limits."""
        if self._body_ended:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise _RequestRefused(408, "The body did not arrive in time.") from None
        self._edge.count_body(self, len(message.get("body", b"")))
        self._body_ended = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response. A client that does not read it in time is disconnected."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID_HEADER] = self.scope[REQUEST_ID_IN_SCOPE]
            for name, value in DEFAULT_HEADERS.items():
                headers.setdefault(name, value)
        async with asyncio.timeout(SEND_SECONDS):
            await self._send(message)
        self._response_ended = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def end_with(self, response: Response) -> None:
        """Send a response if none was sent. A response that has started ends with its connection."""
        if self._response_ended:
            return
        if self.status:
            raise ConnectionAbortedError("the response had started")
        await response(self.scope, self._receive, self.send)


def request_fields(scope: Scope) -> dict[str, Any]:
    """What a log line says about a request. The query is left out, because it may hold what is remembered."""
    caller, client = scope.get(CALLER_IN_SCOPE), scope.get("client")
    return {
        "request_id": scope.get(REQUEST_ID_IN_SCOPE),
        "method": scope["method"],
        "path": scope["path"],
        "operation": scope.get(OPERATION_IN_SCOPE, "other"),
        "key_id": getattr(caller, "key_id", None),
        "peer": client[0] if client else None,
    }


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    if REQUEST_LOG.isEnabledFor(logging.INFO):
        fields = {**request_fields(scope), "status": status, "milliseconds": round(seconds * 1_000, 3)}
        REQUEST_LOG.info("answered", extra={"fields": fields})


def _too_large() -> _RequestRefused:
    return _RequestRefused(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")


def without_port(host: str) -> str:
    """The name in a ``Host`` header, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
