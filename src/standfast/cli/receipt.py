"""``standfast receipt``: proof that an entry is in the ledger."""

import click

from standfast.canon import canonical_bytes
from standfast.cli.options import memory, store_option
from standfast.cli.output import json_option


@click.command("receipt")
@click.argument("entry", type=click.IntRange(1))
@store_option
@json_option
def command(entry: int, store_url: str | None, as_json: bool) -> None:  # noqa: ARG001  # A receipt is JSON; errors follow.
    """Print a receipt for ledger entry number ENTRY: the entry, its inclusion proof, a signed checkpoint.

    Keep it in a file; `standfast verify --receipt FILE` checks it years later with the public key alone.
    """
    with memory(store_url, None) as opened:
        click.echo(canonical_bytes(opened.receipt(entry).as_json()).decode())
