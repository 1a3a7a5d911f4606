"""``standfast keys``: who may come in through the doors."""

from datetime import timedelta

import click
from rich.console import Console
from rich.table import Table

from standfast.cli.options import opened, settings, store_option
from standfast.cli.output import json_option, print_json
from standfast.server.access.keys import Keyring
from standfast.server.access.table import ALL_NAMESPACES, KeyRole


@click.group("keys")
def command() -> None:
    """API keys for the doors: made, listed, revoked. The ledger is told of each."""


@command.command("create")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in KeyRole]),
    default=KeyRole.AGENT.value,
    help="What its holder is. [agent]",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="A namespace it is for, or * for all; may be given several times. By default what the settings say.",
)
@click.option("--days", type=click.IntRange(1, 36_500), help="After how many days it ends; by default never.")
@store_option
@json_option
def create(
    name: str,
    *,
    role: str,
    namespaces: tuple[str, ...],
    days: int | None,
    store_url: str | None,
    as_json: bool,
) -> None:
    """Make a key for NAME and print it, this once: only its hash is kept.

    An agent's NAME is the author of all that it proposes.
    """
    with opened(store_url, create=True) as store:
        key, token = Keyring(store).create(
            name=name,
            role=role,
            namespaces=namespaces or (settings().namespace,),
            lifetime=None if days is None else timedelta(days=days),
        )
    if as_json:
        print_json({"key": key.as_shown(), "token": token})
        return
    where = "all namespaces" if ALL_NAMESPACES in key.namespaces else f"namespace {', '.join(key.namespaces)}"
    ends = "until it is revoked" if key.expires_at is None else f"until {key.expires_at[:10]}"
    click.echo(token)
    click.echo(
        f"Key {key.key_id} of {key.name}: {key.role}, {where}, {ends}. It is not shown again.", err=True
    )


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are revoked or have expired.")
@store_option
@json_option
def list_(everything: bool, store_url: str | None, as_json: bool) -> None:
    """The keys that open a door now."""
    with opened(store_url) as store:
        ring, now = Keyring(store), store.clock.now()
        keys = list(ring.all() if everything else ring.valid())
    if as_json:
        print_json({"keys": [key.as_shown() for key in keys]})
    elif not keys:
        click.echo("There is no key. Make one: standfast keys create NAME")
    else:
        table = Table("id", "name", "role", "namespaces", "since", "state")
        for key in keys:
            ends = "valid" if key.expires_at is None else f"until {key.expires_at[:10]}"
            since = key.created_at[:10]
            state = key.problem_at(now) or ends
            table.add_row(key.key_id, key.name, key.role, ", ".join(key.namespaces), since, state)
        Console().print(table)


@command.command("revoke")
@click.argument("key_id")
@store_option
@json_option
def revoke(key_id: str, store_url: str | None, as_json: bool) -> None:
    """End a key, at once and for good. KEY_ID is what `standfast keys list` shows, not the key itself."""
    with opened(store_url) as store:
        key = Keyring(store).revoke(key_id)
    if as_json:
        print_json({"key": key.as_shown()})
    else:
        click.echo(f"Key {key.key_id} of {key.name} was revoked at {key.revoked_at}.")
