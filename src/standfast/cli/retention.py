"""``standfast retention``: what is old is archived or deleted."""

from collections import Counter

import click
from rich.console import Console

from standfast.cli.options import memory, namespace_option, store_option
from standfast.cli.output import json_option, print_json

_SHOWN = 20


@click.group("retention")
def command() -> None:
    """How long memory is kept: ACTIVE 7 days, WITNESS and VOID 90; LEDGER is archived after 90; VAULT stays."""


@command.command("sweep")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@store_option
@namespace_option
@json_option
def sweep(dry_run: bool, store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Archive and delete what is due, as commits of their own; the ledger keeps what went, and why.

    Deleted content is erased from every snapshot. Fingerprints stay, so that everything still verifies, and refused
    content is still recognised if it comes back.
    """
    with memory(store_url, namespace) as opened, Console(stderr=True).status("looking …"):
        due = [one.as_json() for one in opened.due()]
        receipts = [] if dry_run else opened.sweep()
    if as_json:
        print_json({"dry_run": dry_run, "due": due, "receipts": [receipt.as_json() for receipt in receipts]})
        return
    for one in due[:_SHOWN]:
        click.echo(f"{one['action']:8} {one['key']}: {one['reason']}")
    if len(due) > _SHOWN:
        click.echo(f"… and {len(due) - _SHOWN} more")
    counts = Counter(str(one["action"]) for one in due)
    told = ", ".join(f"{number} to {action}" for action, number in sorted(counts.items())) or "nothing is due"
    click.echo(f"{told}; {'nothing was changed' if dry_run else f'{len(receipts)} commits'}")
