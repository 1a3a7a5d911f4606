"""``standfast import``: records from JSON lines."""

from pathlib import Path

import click

from standfast.cli.options import namespace_option, opened, settings, store_option
from standfast.cli.output import json_option, print_json
from standfast.store.transfer import import_lines


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@store_option
@namespace_option
@click.option(
    "--update", is_flag=True, help="Put a new version on records that are there with other content."
)
@json_option
def command(file: str, store_url: str | None, namespace: str | None, update: bool, as_json: bool) -> None:
    """Store every line of FILE as a record; the store is made if it is not there.

    The whole file is checked before anything is written, and importing it twice changes nothing.
    """
    with opened(store_url, create=True) as store, Path(file).open("rb") as lines:
        counts = import_lines(store, namespace or settings().namespace, lines, name=file, update=update)
    if as_json:
        print_json(counts)
    else:
        click.echo(", ".join(f"{number} {kind}" for kind, number in counts.items()))
