"""What the request handlers of the API, the MCP endpoint and the console share."""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from standfast.errors import Overloaded, StandfastError
from standfast.limits import HEALTH_THREADS, MAX_CONNECTIONS, MAX_WAITING_CALLS, MAX_WAITING_HEALTH_CALLS
from standfast.server.access.permissions import Caller, Permission, namespace_for, require
from standfast.server.edge.admission import CallQueues
from standfast.server.edge.middleware import CALLER_IN_SCOPE, ServerMetrics, request_fields
from standfast.server.edge.problems import is_internal, response_of
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.telemetry import CallTracer

log: Final = logging.getLogger("standfast.server")
_Result = TypeVar("_Result")
CLIENT_LEFT: Final = 499
"""The status, in metrics and logs, of a call that was dropped because its client hung up."""


class WorkerThreads:
    """A few threads for what never waits behind calls: health checks, keys, refusals."""

    def __init__(self, max_waiting: int = MAX_WAITING_CALLS) -> None:
        self._limiter = anyio.CapacityLimiter(HEALTH_THREADS)
        self._max_waiting = max_waiting
        self._in_progress = 0

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Run ``work`` in a thread. Raises ``Overloaded`` if too much is in progress."""
        if self._in_progress >= self._max_waiting:
            raise Overloaded(what=f"{self._max_waiting} checks")
        self._in_progress += 1
        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=False, limiter=self._limiter)
        finally:
            self._in_progress -= 1


class ApiContext:
    """The gateway, worker threads, metrics and tracer of one server.

    Health checks, metrics, keys and refusals have threads of their own, so that they never wait behind calls.
    """

    def __init__(
        self, gateway: Gateway, *, tracer: CallTracer | None = None, queues: CallQueues | None = None
    ) -> None:
        self.gateway = gateway
        self.queues = queues or CallQueues(gateway.clock)
        self.health_threads = WorkerThreads(MAX_WAITING_HEALTH_CALLS)
        self.key_threads = WorkerThreads()
        self._refusal_threads = WorkerThreads(MAX_CONNECTIONS)
        self.metrics = ServerMetrics(gateway.metrics, gateway.call_history)
        self.tracer = tracer or CallTracer()
        self.open_streams = 0
        """Streams of events that are open now. Only the event loop's thread counts them."""

    def authenticate(self, request: Request) -> Caller:
        """Return who makes a request, by its bearer token."""
        caller = self.gateway.authenticate(_bearer_token(request), peer=peer_of(request))
        request.scope[CALLER_IN_SCOPE] = caller
        return caller

    def authorize(self, request: Request, permission: Permission, namespace: str | None) -> Caller:
        """Return who makes a request. Raises ``Forbidden`` if the caller lacks the permission."""
        caller = self.authenticate(request)
        require(caller, permission, namespace_for(permission, namespace))
        return caller

    async def admit(
        self, request: Request, permission: Permission, namespace: str | None
    ) -> tuple[Caller, Callable[[], Caller]]:
        """Return who makes a request, and what tells in a thread that the key is still valid.

        Only the holders of keys get here, so that nobody else can wait for a turn. Most keys are known, and
        need no thread of their own to be checked.
        """
        caller = self.gateway.known_caller(_bearer_token(request) or "")
        if caller is None:
            checked = await self.key_threads.run(lambda: self.authorize(request, permission, namespace))
            return checked, lambda: checked
        request.scope[CALLER_IN_SCOPE] = known = caller
        require(known, permission, namespace_for(permission, namespace))
        return known, lambda: self.gateway.keyring.caller_of(known.key_id)

    async def refusal(
        self,
        error: StandfastError,
        request: Request,
        operation: str,
        namespace: str | None,
        *,
        interface: str = "http",
    ) -> Response:
        """Return the response for a failed request.

        Refusals go to the access log, internal errors to the log. Never raises ``Overloaded``: there are
        threads for all connections' refusals.
        """
        if is_internal(error):
            fields = {"fields": request_fields(request.scope)}
            log.error("%s: %s [%s]", operation, error, error.code, extra=fields)
        await self._refusal_threads.run(
            lambda: self.gateway.log_refusal(
                error,
                interface=interface,
                operation=operation,
                caller=request.scope.get(CALLER_IN_SCOPE),
                namespace=namespace,
                peer=peer_of(request),
            )
        )
        return response_of(error)


async def client_left(request: Request) -> None:
    """Return once the client of a request has hung up. The body must have been read, if it is needed."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _bearer_token(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def peer_of(request: Request) -> str:
    """The address that a request came from."""
    return request.client.host if request.client else "unknown"


def is_same_origin(request: Request) -> bool:
    """Whether a request comes from no web page, or from a page of this very server."""
    origins = request.headers.getlist("origin")
    if not origins:
        return True
    scheme, separator, authority = origins[0].partition("://")
    is_web = separator == "://" and scheme in {"http", "https"}
    return len(origins) == 1 and is_web and authority.lower() == request.headers.get("host", "").lower()
