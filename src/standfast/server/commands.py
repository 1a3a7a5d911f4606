"""``standfast serve``, ``mcp`` and ``keys``."""

import functools
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

from standfast.cli.options import load_settings, namespace_option, opened_store, store_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.errors import MissingExtra
from standfast.limits import MAX_KEY_DAYS, STOP_SECONDS
from standfast.records.origins import Origin
from standfast.records.scopes import checked_scope
from standfast.server.access.keys import KEY_ID_CHARS, Keyring
from standfast.server.access.permissions import ALL_NAMESPACES, Caller, KeyRole
from standfast.server.settings import ServerSettings
from standfast.settings import KEY_VARIABLE

if TYPE_CHECKING:
    from standfast.server.mcp.clients import ServerEntry
    from standfast.server.operations.gateway import Gateway

_F = TypeVar("_F", bound=Callable[..., Any])
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
    request needs a key (see `standfast keys`). The setting `stores` adds stores, each under its host name.
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


@click.group("mcp", invoke_without_command=True)
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
@click.pass_context
def mcp_command(
    context: click.Context,
    tools: str,
    agent: str,
    role: str,
    scopes: tuple[str, ...],
    store_url: str | None,
    namespace: str | None,
) -> None:
    """Serve memory to one MCP client over standard input and output. The client starts this command.

    No key is needed, because whoever can run this can read the store's file; --role and --scope limit the
    agent. If the environment variable STANDFAST_API_KEY holds an API key, that key decides instead.
    `standfast mcp install CLIENT` writes the entry that a client needs.
    """
    if context.invoked_subcommand is not None:
        return
    try:
        from standfast.server.logs import logging_to
        from standfast.server.mcp.clients import make_memory_folder
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
    make_memory_folder(settings.store)
    gateway = Gateway.open(settings, create=True)
    try:
        with logging_to(), exporting_spans():
            key = os.environ.get(KEY_VARIABLE)
            run_stdio(gateway, stdio_authenticator(gateway, caller, key), ToolSet(tools))
    finally:
        gateway.close()


def _entry_options(command: _F) -> _F:
    """Add what names an entry in the settings of a client. The command gets it as one ``entry``."""
    from standfast.server.mcp.clients import CLIENTS, DEFAULT_NAME, ClientMachine, entry_for

    @functools.wraps(command)
    def call(client: str, for_user: bool, for_project: bool, name: str, **options: Any) -> None:
        if for_user and for_project:
            raise click.UsageError("give --user or --project, not both")
        chosen = {key: options.pop(key) for key in ("store", "tools") if key in options}
        chosen["tools"] = "" if chosen.get("tools", "core") == "core" else chosen["tools"]
        where = ClientMachine(cwd=Path.cwd(), home=Path.home())
        entry = entry_for(
            where, CLIENTS[client], for_user=for_user, for_project=for_project, name=name, **chosen
        )
        command(entry=entry, **options)

    for option in (
        json_option,
        click.option("--name", default=DEFAULT_NAME, help="The name of the entry."),
        click.option(
            "--project", "for_project", is_flag=True, help="In the settings of the repository, or nowhere."
        ),
        click.option(
            "--user",
            "for_user",
            is_flag=True,
            help="In your own settings, with memory in your home folder. [if there is no repository]",
        ),
        click.argument("client", type=click.Choice(list(CLIENTS))),
    ):
        call = option(call)
    return call  # type: ignore[return-value]  # click's decorators keep the type.


@mcp_command.command("install")
@_entry_options
@click.option("--store", help="Another memory than that of the repository or the user.")
@click.option(
    "--tools", type=click.Choice(_TOOL_SETS), default=_TOOL_SETS[0], help="Which tools the client is offered."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be written.")
def install_command(entry: "ServerEntry", dry_run: bool, as_json: bool) -> None:
    """Write the entry for this server into the settings of CLIENT, and say what was written.

    In a Git repository, the entry goes into the settings of the project, and memory is in the folder
    .standfast of the repository; otherwise both are the user's. Other entries and comments stay as they are.
    `standfast mcp uninstall CLIENT` undoes it.
    """
    from standfast.server.mcp.clients import install

    done = "would be written" if dry_run else install(entry)
    if as_json:
        facts = {"client": entry.client.name, "file": str(entry.file), "name": entry.name}
        print_json({**facts, "entry": entry.content, "memory": entry.store, "done": done})
        return
    click.echo(f"{entry.client.title}: the entry {entry.name} in {entry.file}: {done}.\n\n{entry.shown}\n")
    click.echo(f"Memory: {entry.store}")
    if not dry_run:
        where = "--project" if entry.is_project else "--user"
        click.echo(f"Restart {entry.client.title}. Undo: standfast mcp uninstall {entry.client.name} {where}")


@mcp_command.command("uninstall")
@_entry_options
def uninstall_command(entry: "ServerEntry", as_json: bool) -> None:
    """Take the entry out of the settings of CLIENT again. Memory stays. Exit code 1 if there is none."""
    from standfast.server.mcp.clients import uninstall

    is_removed = uninstall(entry)
    if as_json:
        print_json({"client": entry.client.name, "file": str(entry.file), "removed": is_removed})
    elif is_removed:
        click.echo(f"{entry.client.title}: removed {entry.name} from {entry.file}. Memory was not touched.")
    else:
        click.echo(f"{entry.client.title}: {entry.file} has no entry {entry.name}.")
    if not is_removed:
        raise SystemExit(ANSWER_IS_NO)


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
