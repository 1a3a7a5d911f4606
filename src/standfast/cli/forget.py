"""``standfast forget``: end what is known of a subject, and erase what it said."""

import click

from standfast.cli.options import memory, namespace_option, store_option
from standfast.cli.output import json_option, print_json
from standfast.vocabulary import VisibilityMode


@click.command("forget")
@click.argument("subject")
@click.option("--reason", required=True, help="Why; the ledger keeps it.")
@click.option("--yes", is_flag=True, help="Do not ask: erased content does not come back.")
@store_option
@namespace_option
@json_option
def command(
    subject: str, *, reason: str, yes: bool, store_url: str | None, namespace: str | None, as_json: bool
) -> None:
    """Erase what SUBJECT (or a memory id) says, from every snapshot. What is sealed stays: only humans end law."""
    if not yes:
        click.confirm(f"Erase all that is known of {subject}?", abort=True, err=True)
    with (
        memory(store_url, namespace) as opened,
        opened.run(workflow="cli", mode=VisibilityMode.BUFFERED_WRITE) as run,
    ):
        run.forget(subject, reason=reason)
        receipt = run.commit()
    assert receipt is not None, "forgetting changes something, or raises"
    if as_json:
        print_json({"subject": subject, "receipt": receipt.as_json()})
    else:
        click.echo(
            f"{subject}: forgotten; snapshot {receipt.memory_snapshot_id}, ledger entry {receipt.ledger_seq}"
        )
