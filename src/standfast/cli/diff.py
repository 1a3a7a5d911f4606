"""``standfast diff``: what two snapshots show differently."""

import click

from standfast.cli.options import memory, namespace_option, store_option
from standfast.cli.output import json_option, print_json


@click.command("diff")
@click.argument("old", type=click.IntRange(0))
@click.argument("new", type=click.IntRange(0), required=False)
@store_option
@namespace_option
@json_option
def command(old: int, new: int | None, store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """What snapshot NEW (by default the newest) shows differently from snapshot OLD."""
    with memory(store_url, namespace) as opened:
        changes = opened.diff(old, new)
    if as_json:
        plain = [
            {
                "key": change.key,
                "before": change.before.as_json() if change.before else None,
                "after": change.after.as_json() if change.after else None,
            }
            for change in changes
        ]
        print_json({"old": old, "new": new, "changes": plain})
        return
    for change in changes:
        if change.before is not None:
            click.secho(f"- {change.key}: {change.before.text}", fg="red")
        if change.after is not None:
            click.secho(f"+ {change.key}: {change.after.text}", fg="green")
    if not changes:
        click.echo("No difference.")
