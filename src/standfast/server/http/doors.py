"""What ``standfast serve`` opens: the HTTP API, the console, and MCP beside them where it is installed."""

from typing import Final

from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from standfast.errors import StandfastError
from standfast.server.http.app import Lifespan, Rooms, build_app
from standfast.server.http.calls import CALLER_IN_SCOPE, OPERATION_IN_SCOPE, Door, peer_of, token_of
from standfast.server.http.gate import LOOPBACK_HOSTS
from standfast.server.operations.hall import Hall
from standfast.settings import Settings

MCP_PATH: Final = "/mcp"
CONSOLE_PATH: Final = "/console"


class McpEntrance:
    """Lets callers in before the SDK sees anything of them; their tools' acts are asked for one by one."""

    def __init__(self, door: Door, app: ASGIApp) -> None:
        self._door = door
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one message on, with who sent it."""
        request = Request(scope)
        scope[OPERATION_IN_SCOPE] = "mcp"
        door = self._door
        try:
            scope[CALLER_IN_SCOPE] = await door.threads.do(
                lambda: door.hall.caller_of(token_of(request), peer=peer_of(request))
            )
        except StandfastError as error:
            refused = error
            answer = await door.threads.do(lambda: door.refuse(refused, request, "call", None, door="mcp"))
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def doors(hall: Hall, *, any_host: bool, settings: Settings | None = None) -> tuple[ASGIApp, list[str]]:
    """The app, and the addresses that it opens. Without ``any_host`` it answers only to this machine's own names."""
    hosts = None if any_host else LOOPBACK_HOSTS
    paths, rooms, beside = ["/v1"], list[Rooms](), list[Lifespan]()
    try:
        from standfast.server.mcp.server import build_http  # noqa: PLC0415  # An extra: served where it is installed.
    except ImportError:
        pass
    else:
        server, mcp_app = build_http(hall)

        def mcp_room(door: Door) -> list[BaseRoute]:
            return [Route(MCP_PATH, McpEntrance(door, mcp_app), methods=["POST"])]

        paths.append(MCP_PATH)
        rooms.append(mcp_room)
        beside.append(server.session_manager.run)
    try:
        from standfast.server.console.room import console_room  # noqa: PLC0415  # As above: it takes Jinja2.
    except ImportError:
        pass
    else:
        paths.append(CONSOLE_PATH)
        rooms.append(console_room(settings or Settings(), behind_tls=any_host))
    return build_app(hall, hosts=hosts, rooms=rooms, beside=beside), paths
