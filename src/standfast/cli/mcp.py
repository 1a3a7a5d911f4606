"""``standfast mcp``: memory for one MCP client, over standard input and output."""

import os

import click
import msgspec

from standfast.cli.options import namespace_option, settings, store_option
from standfast.errors import MissingExtra
from standfast.server.access.table import Caller, KeyRole
from standfast.settings import KEY_VARIABLE


@click.command("mcp")
@click.option("--agent", default="mcp", help="The name of the agent: the author of what it proposes. [mcp]")
@click.option(
    "--role",
    type=click.Choice([role.value for role in KeyRole]),
    default="agent",
    help="What the agent may do, where no key says. [agent]",
)
@store_option
@namespace_option
def command(agent: str, role: str, store_url: str | None, namespace: str | None) -> None:
    """Serve memory to one MCP client over standard input and output; the client starts this itself.

    Whoever can start this can read the store's file anyway, so no key is needed; the role keeps the agent to its place. If
    STANDFAST_API_KEY holds an API key, that decides instead. See docs/mcp.md for clients' configuration.
    """
    try:
        from standfast.server.mcp.server import local_caller, run_stdio  # noqa: PLC0415  # An extra, and slow to import.
        from standfast.server.operations.hall import Hall  # noqa: PLC0415  # As above.
    except ImportError as error:
        raise MissingExtra(feature="standfast mcp", extra="mcp") from error
    told = settings()
    told = msgspec.structs.replace(told, store=store_url or told.store, namespace=namespace or told.namespace)
    caller = Caller(key_id=f"stdio-{agent}", name=agent, role=KeyRole(role), namespaces=(told.namespace,))
    hall = Hall.open(told, create=True)
    try:
        run_stdio(hall, local_caller(hall, caller, os.environ.get(KEY_VARIABLE)))
    finally:
        hall.close()
