"""``standfast serve``: the HTTP API, and MCP over HTTP, on one store."""

import os
from typing import TYPE_CHECKING

import click
import msgspec

from standfast.cli.options import settings, store_option
from standfast.cli.output import json_option, print_json
from standfast.errors import MissingExtra
from standfast.limits import CALLS_PER_SECOND
from standfast.server.access.table import ALL_NAMESPACES, KeyRole

if TYPE_CHECKING:
    from standfast.server.operations.hall import Hall

DEFAULT_PORT = 8765


@click.command("serve")
@click.option("--host", default="127.0.0.1", help="Where to listen. [127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, help="The port; 0 is any free one. [8765]"
)
@click.option(
    "--behind-tls",
    is_flag=True,
    help="A proxy terminates TLS in front: needed to listen beyond this machine.",
)
@click.option(
    "--calls-per-second",
    type=click.FloatRange(min=1),
    default=CALLS_PER_SECOND,
    help="How often each key may call. [200]",
)
@store_option
@json_option
def command(
    host: str, port: int, *, behind_tls: bool, calls_per_second: float, store_url: str | None, as_json: bool
) -> None:
    """Serve memory over HTTP: the API under /v1, the console under /console, MCP at /mcp if it is installed.

    The API is described at /openapi.json; the console is for people with a browser.

    Prints the address and, if there is no key yet, the first one. Everything takes an API key (`standfast keys`).
    """
    try:
        from standfast.server.http.doors import doors  # noqa: PLC0415  # An extra: only who serves pays for it.
        from standfast.server.http.server import address_of, check_bind, listening, serve  # noqa: PLC0415  # As above.
        from standfast.server.operations.hall import Hall  # noqa: PLC0415  # As below.
    except ImportError as error:
        raise MissingExtra(feature="standfast serve", extra="server") from error
    told = settings()
    hall = Hall.open(
        msgspec.structs.replace(told, store=store_url or told.store),
        create=True,
        calls_per_second=calls_per_second,
    )
    try:
        has_keys = any(True for _ in hall.keyring.valid())
        check_bind(host, behind_tls=behind_tls, has_keys=has_keys)
        bound = listening(host, port)
        address = address_of(bound, host)
        token = None if has_keys else _first_key(hall)
        app, paths = doors(hall, any_host=behind_tls, settings=told)
        serve(app, bound, started=lambda: _told(address, paths, token, as_json=as_json))
    finally:
        hall.close()


def _first_key(hall: "Hall") -> str:
    _, token = hall.keyring.create(
        name=os.environ.get("USER") or "first", role=KeyRole.OPERATOR, namespaces=[ALL_NAMESPACES]
    )
    return token


def _told(address: str, paths: list[str], token: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"address": address, "paths": paths, "key": token})
        return
    click.echo(f"Standfast serves {address} ({', '.join(paths)}); Ctrl-C ends it.")
    if "/console" in paths:
        click.echo(f"The console: {address}/console")
    if token is not None:
        click.echo(f"The first key, an operator's for all namespaces, is shown this once:\n\n  {token}\n")
        click.echo(
            f'Try: curl -H "Authorization: Bearer {token[:6]}…" {address}/v1/namespaces/default/status'
        )
    click.echo("Further keys: standfast keys create NAME --role agent")
