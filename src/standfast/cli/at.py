"""``standfast at``: what a snapshot shows."""

import click

from standfast.cli.options import memory, namespace_option, store_option
from standfast.cli.output import json_option, print_json
from standfast.vocabulary import Band


@click.command("at")
@click.argument("snapshot", type=click.IntRange(0))
@click.option(
    "--band",
    type=click.Choice([band.value for band in Band if band is not Band.PHOENIX]),
    help="One band only.",
)
@store_option
@namespace_option
@json_option
def command(
    snapshot: int, *, band: str | None, store_url: str | None, namespace: str | None, as_json: bool
) -> None:
    """Every record that SNAPSHOT shows, by band and id, as it was then; content that was erased since is absent."""
    with memory(store_url, namespace) as opened:
        records = list(opened.records(band=Band(band) if band else None, at=snapshot))
    if as_json:
        print_json({"snapshot": snapshot, "records": [record.as_json() for record in records]})
        return
    for record in records:
        click.echo(f"{record.key}: {record.text}")
    click.echo(f"{len(records)} records in snapshot {snapshot}")
