"""``standfast export``: records as JSON lines."""

from typing import BinaryIO

import click

from standfast.cli.options import namespace_option, opened, settings, store_option
from standfast.cli.output import json_option
from standfast.store.transfer import export_lines


@click.command("export")
@click.argument("file", type=click.File("wb", atomic=True), default="-")
@store_option
@namespace_option
@click.option(
    "--at", type=click.IntRange(min=0), default=None, help="The snapshot to export; by default the newest."
)
@json_option
def command(
    file: BinaryIO,
    store_url: str | None,
    namespace: str | None,
    at: int | None,
    as_json: bool,  # noqa: ARG001  # The lines are JSON; errors follow.
) -> None:
    """Write the records of a namespace to FILE (or standard output), one JSON object a line, by key.

    'standfast read' accepts such a file, and 'standfast import' brings it back with the same fingerprints.
    """
    with opened(store_url) as store:
        for line in export_lines(store, namespace or settings().namespace, at=at):
            click.echo(line, file=file, nl=False)
