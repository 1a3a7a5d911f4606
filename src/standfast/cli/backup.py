"""``standfast backup``: a verified copy of the whole store, made while writers go on."""

import click
from rich.console import Console
from rich.progress import Progress

from standfast.cli.options import opened, store_option
from standfast.cli.output import json_option, print_json
from standfast.store.store import open_store


@click.command("backup")
@click.argument("target")
@store_option
@json_option
def command(target: str, store_url: str | None, as_json: bool) -> None:
    """Copy the store to TARGET: the path of a new SQLite file, or postgresql://….

    The copy is of one moment, however long it takes, and every record and ledger entry is verified on the way. A TARGET
    that holds an earlier copy of the same store is brought up to date.
    """
    with (
        opened(store_url) as source,
        Progress(
            console=Console(stderr=True), transient=True, disable=not Console(stderr=True).is_terminal
        ) as bar,
    ):
        task = bar.add_task("copying snapshots", total=None)
        copy = open_store(target, create=True, recover=False)
        try:
            before = copy.head()
            head = source.backup_to(
                copy,
                progress=lambda done, of: bar.update(task, completed=done, total=of),
            )
        finally:
            copy.close()
    if as_json:
        print_json({"target": target, "head": head, "copied": head - before})
    else:
        click.echo(f"{target}: {head - before} snapshots copied, now at {head}")
