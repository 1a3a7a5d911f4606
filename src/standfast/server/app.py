"""The ASGI application that ``standfast serve`` runs: the API, and the MCP endpoint and the console where installed."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Final

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from standfast.errors import StoreError
from standfast.limits import REPLICA_EXCHANGE_SECONDS
from standfast.server.access.replicas import Replicas
from standfast.server.edge.context import ApiContext, WorkerThreads
from standfast.server.edge.middleware import LOOPBACK_HOSTS, EdgeMiddleware
from standfast.server.edge.problems import INTERNAL_ERROR, plain_problem
from standfast.server.http.api import HttpApi
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.telemetry import CallTracer
from standfast.settings import Settings

API_PATH: Final = "/v1"
HOUSEKEEPING_SECONDS: Final = 5.0
Lifespan = Callable[[], AbstractAsyncContextManager[None]]
RoutesOf = Callable[[ApiContext], Sequence[BaseRoute]]
"""Makes the routes of a further part of the server, such as the console."""

_DETAIL: Final = {
    404: "There is nothing at this path; /openapi.json lists the paths.",
    405: "This path does not support the method; /openapi.json lists the methods.",
}


def build_app(
    gateway: Gateway,
    *,
    hosts: Iterable[str] | None = None,
    trusted_proxies: Iterable[str] = (),
    tracer: CallTracer | None = None,
    threads: WorkerThreads | None = None,
    parts: Sequence[RoutesOf] = (),
    lifespans: Sequence[Lifespan] = (),
) -> ASGIApp:
    """Build the application with the API and further parts.

    Args:
        hosts: The host names to answer to; None means any.
        trusted_proxies: Addresses or networks whose ``X-Forwarded-For`` says where a request came from.
        parts: Make the routes of further parts.
        lifespans: Context managers that are entered for as long as the application runs.
    """
    context = ApiContext(gateway, tracer=tracer, threads=threads)
    api = HttpApi(context)

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
    )


def build_full_app(
    gateway: Gateway,
    *,
    behind_tls: bool = False,
    settings: Settings | None = None,
    threads: WorkerThreads | None = None,
) -> tuple[ASGIApp, list[str]]:
    """Build the application with every part that is installed, and return it with the paths that it serves.

    It answers to the names of the loopback interface and to ``host_names`` of the settings.
    """
    settings = settings or Settings()
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
        hosts=LOOPBACK_HOSTS.union(settings.host_names),
        trusted_proxies=settings.trusted_proxies,
        threads=threads,
        parts=parts,
        lifespans=lifespans,
    )
    return app, paths


async def _keep_tidy(api: HttpApi, gateway: Gateway) -> None:
    """Remove idle runs and write the access log's counts, every few seconds."""

    def tidy() -> None:
        # A store that can't be written now is tidied later.
        with suppress(StoreError):
            api.runs.expire()
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
