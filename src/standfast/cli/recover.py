"""``standfast recover``: finish what crashed processes left behind."""

import click

from standfast.cli.options import opened, store_option
from standfast.cli.output import json_option, print_json
from standfast.vocabulary import Receipt


@click.command("recover")
@store_option
@json_option
def command(store_url: str | None, as_json: bool) -> None:
    """Apply or abort commits whose owner is gone, and discard buffers that were still open.

    Opening a store does the same; run this as a worker where processes come and go. Only buffers whose lease has run
    out (30 seconds after their owner's last sign of life) are touched, so it is safe to run at any time.
    """
    counts = {"applied": 0, "aborted": 0, "discarded": 0}
    with opened(store_url, recover=False) as store:
        while answers := store.recover():
            for answer in answers:
                kind = (
                    "discarded" if answer is None else "applied" if isinstance(answer, Receipt) else "aborted"
                )
                counts[kind] += 1
    if as_json:
        print_json(counts)
    else:
        click.echo(", ".join(f"{number} {kind}" for kind, number in counts.items()))
