"""``standfast serve``, ``mcp`` and ``keys``."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

from standfast.cli.options import load_settings, namespace_option, opened_store, store_option
from standfast.cli.output import json_option, print_json
from standfast.errors import MissingExtra
from standfast.limits import MAX_KEY_DAYS, STOP_SECONDS
from standfast.records.origins import Origin
from standfast.records.scopes import checked_scope
from standfast.server.access.keys import KEY_ID_CHARS, Keyring
from standfast.server.access.permissions import ALL_NAMESPACES, Caller, KeyRole
from standfast.server.settings import ServerSettings
from standfast.settings import KEY_VARIABLE

if TYPE_CHECKING:
    from standfast.server.operations.gateway import Gateway

DEFAULT_PORT: Final = 8765
_TOOL_SETS: Final = ("core", "mem0", "graph", "all")
_ROLES: Final = [role.value for role in KeyRole]


@click.command("serve")
@click.option("--host", default="127.0.0.1", help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, help="The port; 0 picks a free one."
)
@click.option(
    "--behind-tls",
    is_flag=True,
    help="A proxy in front terminates TLS; required to listen on other than this machine's addresses.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    help=(
        "A name the server is reached by, such as memory.example.com; repeatable. Default: the setting"
        " `server.host_names`."
    ),
)
@click.option(
    "--calls-per-second",
    type=click.FloatRange(min=1),
    help="Rate limit of each key. [what this process can serve, measured at the start; at most 200]",
)
@click.option(
    "--stop-seconds",
    type=click.FloatRange(min=0.1, max=3_600),
    default=STOP_SECONDS,
    help=(
        "How long calls in progress may take after SIGTERM or Ctrl-C. A second signal ends the server at"
        " once."
    ),
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="The form of the log on standard error: one line a record.",
)
@click.option(
    "--log-requests", is_flag=True, help="Log each request: id, path, status, duration, key and peer."
)
@store_option
@json_option
def serve_command(
    host: str,
    port: int,
    *,
    behind_tls: bool,
    host_names: tuple[str, ...],
    calls_per_second: float | None,
    stop_seconds: float,
    log_format: str,
    log_requests: bool,
    store_url: str | None,
    as_json: bool,
) -> None:
    """Serve the HTTP API under /v1, the console under /console, and MCP at /mcp if it is installed.

    /openapi.json describes the API. Prints the address and, if no API key exists yet, a first one. Every
    request needs a key (see `standfast keys`). The setting `stores` adds stores of their own, each under its
    host name.
    """
    try:
        from standfast.server import app
        from standfast.server.logs import LogFormat, logging_to
        from standfast.server.operations.gateway import Gateway
        from standfast.server.operations.telemetry import exporting_spans
    except ImportError as error:
        raise MissingExtra(feature="standfast serve", extra="server") from error
    settings = load_settings(store_url=store_url)
    server = settings.section(ServerSettings)
    if host_names:
        settings = settings.with_section(msgspec.structs.replace(server, host_names=host_names))
    with (
        logging_to(log_format=LogFormat(log_format), requests=log_requests),
        exporting_spans(),
        ExitStack() as stack,
    ):
        own_settings = [settings, *(settings.of_store(name) for name in settings.stores)]
        gateways = []
        for own in own_settings:
            gateways.append(Gateway.open(own, create=True, calls_per_second=calls_per_second))
            stack.callback(gateways[-1].close)
        keyless = [gateway for gateway in gateways if not any(True for _ in gateway.keyring.valid())]
        names = settings.section(ServerSettings).host_names
        app.check_bind(host, behind_tls=behind_tls, has_keys=not keyless, host_names=names)
        bound = app.listening(host, port)
        address = app.address_of(bound, host)
        token = _create_first_key(gateways[0]) if gateways[0] in keyless else None
        built = [
            app.build_full_app(gateway, behind_tls=behind_tls, settings=own)
            for gateway, own in zip(gateways, own_settings, strict=True)
        ]
        (main, paths), others = built[0], [one for one, _ in built[1:]]
        app.serve(
            app.StoreRouter(main, dict(zip(settings.stores, others, strict=True))) if others else main,
            bound,
            started=lambda: _print_started(address, paths, token, settings.stores, as_json=as_json),
            stop_seconds=stop_seconds,
        )


def _create_first_key(gateway: "Gateway") -> str:
    name = os.environ.get("USER") or "first"
    _, token = gateway.keyring.create(name=name, role=KeyRole.OPERATOR, namespaces=[ALL_NAMESPACES])
    return token


def _print_started(
    address: str, paths: list[str], token: str | None, hosts: Iterable[str], *, as_json: bool
) -> None:
    if as_json:
        print_json({"address": address, "paths": paths, "token": token, "stores": list(hosts)})
        return
    click.echo(f"Standfast serves {address} ({', '.join(paths)}). Press Ctrl-C to stop.")
    if "/console" in paths:
        click.echo(f"Console: {address}/console")
    if token is not None:
        click.echo(f"First API key (operator, all namespaces); it is not shown again:\n\n  {token}\n")
        click.echo(f'Try: curl -H "Authorization: Bearer {token}" {address}/v1/namespaces/default/status')
    for host in hosts:
        click.echo(f"Store of its own: {host}; its keys: standfast keys create NAME --store {host}")
    click.echo("More keys: standfast keys create NAME --role agent")


@click.command("mcp")
@click.option(
    "--tools",
    type=click.Choice(_TOOL_SETS),
    default=_TOOL_SETS[0],
    help="Which tools to offer: seven for every day, those of mem0's server, of the graph server, or all.",
)
@click.option("--agent", default="mcp", help="Name of the agent, the author of its proposals.")
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    default=KeyRole.AGENT.value,
    help="What the agent may do if there is no API key.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    help=(
        "A scope the agent is limited to, with all below it, if there is no API key; repeatable. [all scopes]"
    ),
)
@store_option
@namespace_option
def mcp_command(
    tools: str, agent: str, role: str, scopes: tuple[str, ...], store_url: str | None, namespace: str | None
) -> None:
    """Serve memory to one MCP client over standard input and output. The client starts this command.

    No key is needed, because whoever can run this can read the store's file; --role and --scope limit the
    agent. If the environment variable STANDFAST_API_KEY holds an API key, that key decides instead.
    docs/mcp.md shows how to configure clients.
    """
    try:
        from standfast.server.logs import logging_to
        from standfast.server.mcp.server import ToolSet, run_stdio, stdio_authenticator
        from standfast.server.operations.gateway import Gateway
        from standfast.server.operations.telemetry import exporting_spans
    except ImportError as error:
        raise MissingExtra(feature="standfast mcp", extra="mcp") from error
    settings = load_settings(store_url=store_url, namespace=namespace)
    caller = Caller(
        key_id=f"stdio-{agent}",
        name=agent,
        role=KeyRole(role),
        namespaces=(settings.namespace,),
        scopes=tuple(checked_scope(scope) for scope in scopes),
    )
    gateway = Gateway.open(settings, create=True)
    try:
        with logging_to(), exporting_spans():
            key = os.environ.get(KEY_VARIABLE)
            run_stdio(gateway, stdio_authenticator(gateway, caller, key), ToolSet(tools))
    finally:
        gateway.close()


@click.group("keys")
def keys_command() -> None:
    """Create, list and revoke API keys. The ledger records each change."""


@keys_command.command("create")
@click.argument("name")
@click.option(
    "--role", type=click.Choice(_ROLES), default=KeyRole.AGENT.value, help="What the key's holder may do."
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="A namespace the key is for, or * for all; repeatable. Default: the setting `namespace`.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    help="A scope the key is limited to, with all below it, such as user/ada; repeatable. [all scopes]",
)
@click.option("--days", type=click.IntRange(1, MAX_KEY_DAYS), help="Expire after this many days. [never]")
@click.option(
    "--origin",
    type=click.Choice([one.value for one in Origin]),
    help="The most that what the holder remembers is trusted. [agent: ordinary, operator: trusted]",
)
@store_option
@json_option
def create_key(
    name: str,
    *,
    role: str,
    namespaces: tuple[str, ...],
    scopes: tuple[str, ...],
    days: int | None,
    origin: str | None,
    store_url: str | None,
    as_json: bool,
) -> None:
    """Create a key for NAME and print it once: only its hash is stored.

    An agent's NAME is the author of its proposals.
    """
    with opened_store(store_url, create=True) as store:
        key, token = Keyring(store).create(
            name=name,
            role=role,
            namespaces=namespaces or (load_settings().namespace,),
            lifetime=None if days is None else timedelta(days=days),
            origin=origin,
            scopes=scopes,
        )
    if as_json:
        print_json({"key": key.as_shown(), "token": token})
        return
    where = "all namespaces" if ALL_NAMESPACES in key.namespaces else f"namespace {', '.join(key.namespaces)}"
    if key.scopes:
        where += f", only scope {', '.join(key.scopes)}"
    ends = "until it is revoked" if key.expires_at is None else f"until {key.expires_at[:10]}"
    click.echo(token)
    click.echo(
        f"Key {key.key_id} of {key.name}: {key.role}, {where}, {ends}. It is not shown again.", err=True
    )


@keys_command.command("list")
@click.option("--all", "everything", is_flag=True, help="Include revoked and expired keys.")
@store_option
@json_option
def list_keys(everything: bool, store_url: str | None, as_json: bool) -> None:
    """List the valid keys."""
    with opened_store(store_url) as store:
        keyring, now = Keyring(store), store.clock.now()
        keys = list(keyring.all() if everything else keyring.valid())
    if as_json:
        print_json({"keys": [key.as_shown() for key in keys]})
    elif not keys:
        click.echo("There is no key. Create one: standfast keys create NAME")
    else:
        # `keys revoke` takes whole ids, so they are never cut, however narrow the terminal is.
        table = Table(Column("id", no_wrap=True, min_width=KEY_ID_CHARS), box=None, pad_edge=False)
        is_limited = any(key.scopes for key in keys)
        limits = ("namespaces", "scopes") if is_limited else ("namespaces",)
        for title in ("name", "role", *limits, "since", "state"):
            table.add_column(title, overflow="fold")
        for key in keys:
            ends = "valid" if key.expires_at is None else f"until {key.expires_at[:10]}"
            namespaces, state = ", ".join(key.namespaces), key.problem_at(now) or ends
            scopes = [", ".join(key.scopes) or "all"] if is_limited else []
            table.add_row(key.key_id, key.name, key.role, namespaces, *scopes, key.created_at[:10], state)
        Console().print(table)


@keys_command.command("revoke")
@click.argument("key_id")
@store_option
@json_option
def revoke_key(key_id: str, store_url: str | None, as_json: bool) -> None:
    """Revoke a key, at once and for good. KEY_ID is the id from `standfast keys list`, not the key itself."""
    with opened_store(store_url) as store:
        key = Keyring(store).revoke(key_id)
    if as_json:
        print_json({"key": key.as_shown()})
    else:
        click.echo(f"Key {key.key_id} of {key.name} was revoked at {key.revoked_at}.")
