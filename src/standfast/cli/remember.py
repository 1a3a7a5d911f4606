"""``standfast remember``: have something judged, and remembered if it may be."""

import click

from standfast.cli.options import memory, namespace_option, store_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.govern.authority import Role
from standfast.vocabulary import Verdict, VisibilityMode


@click.command("remember")
@click.argument("text")
@click.option("--subject", help="What it is about; a subject has one content at a time, and a history.")
@click.option(
    "--source", help="Where it comes from, as KIND:ID (doc:handbook#4, web:https://…, person:alice)."
)
@click.option("--tag", "tags", multiple=True, help="A tag; may be given several times.")
@click.option("--propose", is_flag=True, help="Ask for a human's seal (VAULT).")
@click.option("--hold", help="Hold it for a human, for this reason.")
@click.option("--as-human", is_flag=True, help="You say this, not an agent.")
@store_option
@namespace_option
@json_option
def command(
    text: str,
    *,
    subject: str | None,
    source: str | None,
    tags: tuple[str, ...],
    propose: bool,
    hold: str | None,
    as_human: bool,
    store_url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Have TEXT judged and remembered where its verdict leads. Exit code 1 if it is refused (VOID)."""
    kind, colon, name = (source or "").partition(":")
    if source and not (kind and colon and name):
        raise click.UsageError(f"--source is KIND:ID, such as doc:handbook#4, not {source!r}")
    with memory(store_url, namespace, create=True) as opened:
        with opened.run(workflow="cli", mode=VisibilityMode.BUFFERED_WRITE) as run:
            told = run.remember(
                text,
                subject=subject,
                source={"kind": kind, "id": name} if source else None,
                tags=tags,
                propose=propose,
                hold=hold,
                role=Role.HUMAN if as_human else Role.AGENT,
            )
        receipt = run.receipt
    if as_json:
        print_json({**told.as_json(), "receipt": receipt.as_json() if receipt else None})
    else:
        click.echo(f"{told.verdict}: {told.memory_id} → {', '.join(told.bands)}")
        for reason in told.reasons:
            click.echo(f"  {reason}")
        if told.proposal_id is not None:
            click.echo(f"  waits for a human: standfast approvals show {told.proposal_id[:12]}")
        if receipt is not None:
            click.echo(f"  snapshot {receipt.memory_snapshot_id}, ledger entry {receipt.ledger_seq}")
    if told.verdict is Verdict.VOID:
        raise SystemExit(ANSWER_IS_NO)
