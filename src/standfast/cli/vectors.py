"""``standfast vectors``: count the vectors of ``hybrid-v1``, fill in what is missing, migrate to another embedder."""

import getpass

import click

from standfast.cli.options import namespace_option, opened_memory, progress_bar, store_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.memory import VectorStatus


@click.group("vectors")
def command() -> None:
    """Count, fill in and migrate the vectors of hybrid-v1. The setting `embedder` says who makes them."""


@command.command("status")
@store_option
@namespace_option
@json_option
def status_command(store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Count the records that have a vector of the embedder in use. Exit code 1 if some have none."""
    with opened_memory(store_url, namespace, sign=False) as memory:
        status = memory.vectors.status()
    _print(status, as_json=as_json, done="")
    if status.missing:
        raise SystemExit(ANSWER_IS_NO)


@command.command("fill")
@store_option
@namespace_option
@json_option
def fill_command(store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Give every record that lacks a vector one. It can be interrupted, and goes on where it stopped."""
    with (
        opened_memory(store_url, namespace) as memory,
        progress_bar("making vectors", quiet=as_json) as progress,
    ):
        status = memory.vectors.fill(by=getpass.getuser(), progress=progress)
    _print(status, as_json=as_json, done="")


@command.command("migrate")
@click.option("--to", required=True, help="The next embedder, in the form of the setting `embedder`.")
@store_option
@namespace_option
@json_option
def migrate_command(to: str, store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Give every record a vector of another embedder. Recall goes on with the one in use until the setting is changed.

    It can be interrupted, and goes on where it stopped. The ledger records who migrates from what to what.
    """
    with (
        opened_memory(store_url, namespace) as memory,
        progress_bar("making vectors", quiet=as_json) as progress,
    ):
        status = memory.vectors.migrate(to, by=getpass.getuser(), progress=progress)
    next_step = f'Next: set embedder = "{to}", restart, and run: standfast vectors fill'
    _print(status, as_json=as_json, done=next_step)


def _print(status: VectorStatus, *, as_json: bool, done: str) -> None:
    if as_json:
        print_json({**status.as_json(), "missing": status.missing})
        return
    click.echo(f"{status.embedder}: {status.with_vector:,} of {status.records:,} records have a vector")
    if done:
        click.echo(done)
    elif status.missing:
        click.echo("Next: standfast vectors fill")
