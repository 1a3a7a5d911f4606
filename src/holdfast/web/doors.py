"""What ``holdfast serve`` opens: the HTTP API, and beside it whatever else is installed."""

from starlette.types import ASGIApp

from holdfast.verbs.hall import Hall
from holdfast.web.app import build_app
from holdfast.web.gate import LOOPBACK_HOSTS


def doors(hall: Hall, *, any_host: bool) -> tuple[ASGIApp, list[str]]:
    """The app, and the addresses that it opens. Without ``any_host`` it answers only to this machine's own names."""
    hosts = None if any_host else LOOPBACK_HOSTS
    return build_app(hall, hosts=hosts), ["/v1"]
