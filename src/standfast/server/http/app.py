"""The app: every route of the table, health, metrics and the description, behind the gate."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from standfast.errors import StandfastError, StoreError
from standfast.server.access.table import Act
from standfast.server.http.calls import OPERATION_IN_SCOPE, Door
from standfast.server.http.gate import Gate
from standfast.server.http.metrics import CONTENT_TYPE
from standfast.server.http.openapi import description
from standfast.server.http.problems import plain_problem
from standfast.server.http.routes import OPERATIONS
from standfast.server.http.rows.operation import Operation
from standfast.server.operations.hall import Hall
from standfast.server.operations.spans import Spans

HOUSEKEEPING_SECONDS: Final = 5.0
Lifespan = Callable[[], AbstractAsyncContextManager[None]]
Rooms = Callable[[Door], Sequence[BaseRoute]]
"""What makes further routes, which share the door to memory: MCP's, the console's."""


def build_app(
    hall: Hall,
    *,
    hosts: Iterable[str] | None = None,
    spans: Spans | None = None,
    rooms: Sequence[Rooms] = (),
    beside: Sequence[Lifespan] = (),
) -> ASGIApp:
    """The HTTP door of a hall; ``rooms`` stand behind the same gate, ``beside`` runs as long as the app does."""
    door = Door(hall, spans=spans)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for run in beside:
                await stack.enter_async_context(run())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_keep_house, door)
                yield
                tasks.cancel_scope.cancel()

    app = Starlette(
        routes=[*_routes(door), *_plain_routes(door), *(route for room in rooms for route in room(door))],
        exception_handlers={HTTPException: _http_problem, Exception: _unforeseen},
        lifespan=lifespan,
    )
    # An address with a slash too many is another address; redirecting would echo whatever host the caller named.
    app.router.redirect_slashes = False
    return Gate(app, clock=hall.clock, metrics=door.metrics, hosts=hosts)


async def _keep_house(door: Door) -> None:
    """Discard idle runs, and have the ledger told of refusals that were counted."""

    def tidy() -> None:
        door.runs.expire()
        door.hall.refusals.flush(only_if_over=True)

    while True:
        await anyio.sleep(HOUSEKEEPING_SECONDS)
        await anyio.to_thread.run_sync(tidy)


def _routes(door: Door) -> list[BaseRoute]:
    """One route for each address, so that what an address has no method for is answered with those that it has."""
    by_path: dict[str, dict[str, Operation]] = {}
    for one in OPERATIONS:
        by_path.setdefault(one.path, {})[one.method] = one
    return [
        Route(path, _endpoint(door, operations), methods=list(operations))
        for path, operations in by_path.items()
    ]


def _endpoint(door: Door, operations: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await door.answer(request, operations["GET" if request.method == "HEAD" else request.method])

    return endpoint


def _plain_routes(door: Door) -> list[BaseRoute]:
    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def readyz(_: Request) -> Response:
        try:
            head = await door.threads.do(door.hall.store.head)
        except StoreError as error:
            return plain_problem(503, f"The store can't be read now [{error.code}].")
        return JSONResponse({"status": "ready", "head": head})

    async def openapi(_: Request) -> Response:
        return JSONResponse(description())

    async def metrics(request: Request) -> Response:
        request.scope[OPERATION_IN_SCOPE] = "metrics"
        return await door.threads.do(lambda: _metrics(door, request))

    plain = {"/healthz": healthz, "/readyz": readyz, "/openapi.json": openapi, "/metrics": metrics}
    return [Route(path, endpoint, methods=["GET"]) for path, endpoint in plain.items()]


def _metrics(door: Door, request: Request) -> Response:
    try:
        door.admitted(request, Act.METRICS, None)
    except StandfastError as error:
        return door.refuse(error, request, Act.METRICS.value, None)
    gauges = {
        "head_snapshot": ("The newest snapshot.", float(door.hall.store.head())),
        "open_runs": ("Runs that are open between calls.", float(len(door.runs))),
        "requests_under_way": ("Requests that are not answered yet.", float(door.metrics.under_way)),
        "calls_under_way": ("Calls in a thread, or waiting for one.", float(door.threads.under_way)),
    }
    return Response(door.metrics.text(gauges), headers={"Content-Type": CONTENT_TYPE})


async def _http_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for nothing else"
    return plain_problem(error.status_code, _DETAIL.get(error.status_code, error.detail), error.headers)


async def _unforeseen(_: Request, __: Exception) -> Response:
    """What is told of an error that nobody foresaw; the gate, to which it goes on, tells the log."""
    return plain_problem(500, "The server's log says more.")


_DETAIL: Final = {
    404: "There is nothing at this address; /openapi.json says what there is.",
    405: "This address does not do that; /openapi.json says what it does.",
}
