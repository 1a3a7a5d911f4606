"""``standfast judge``: what the judge would say about a text, without a store."""

import click

from standfast.cli.options import load_settings, scope_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.govern.admission import lenient_judgement
from standfast.govern.authority import Role
from standfast.govern.judge import Claim, Judge
from standfast.origins import origin_of, origin_table
from standfast.vocabulary import Band, Record, Verdict, normal_tags
from standfast.wiring import floors_of


@click.command("judge")
@click.argument("text")
@click.option("--subject", help="What the text is about.")
@click.option("--source", help="Where it comes from, as KIND:ID; default: the agent's own word.")
@click.option("--tag", "tags", multiple=True, help="A tag; repeatable.")
@scope_option
@click.option("--propose", is_flag=True, help="Judge it as a proposal of law.")
@click.option("--as-human", is_flag=True, help="The text is your own, not an agent's.")
@json_option
def command(
    text: str,
    *,
    subject: str | None,
    source: str | None,
    tags: tuple[str, ...],
    scope: str,
    propose: bool,
    as_human: bool,
    as_json: bool,
) -> None:
    """Say what would happen to TEXT and why, by the floors of the settings. Nothing is stored.

    Memory is not read, so what is known or sealed already plays no part. Exit code 1 if it would be rejected.
    """
    kind, colon, name = (source or "agent:cli").partition(":")
    if not (kind and colon and name):
        raise click.UsageError(f"--source must be KIND:ID, such as doc:handbook#4, not {source!r}")
    settings = load_settings()
    named = {"kind": kind, "id": name}
    record = Record(
        memory_id=subject or "judged",
        text=text,
        subject=subject,
        source=named,
        origin=origin_of(named, origin_table(settings.origins)),
        scope=scope,
        tags=normal_tags(tags),
        band=Band.PHOENIX if propose else Band.LEDGER,
    )
    judge = Judge(floors_of(settings))
    claim = Claim(record=record, role=Role.HUMAN if as_human else Role.AGENT)
    judgement = judge.judge(claim)
    if not settings.strict:
        judgement = lenient_judgement(judgement, claim)
    if as_json:
        print_json(judgement.as_json())
    else:
        click.echo(judgement.verdict.label)
        for reason in judgement.reasons:
            click.echo(f"  {reason}")
        for check in judgement.floor_checks:
            reason = f": {check.reason}" if check.reason else ""
            click.echo(f"  {'✓' if check.passed else '✗'} {check.floor} {check.score:g}{reason}")
        if failed := [check.floor for check in judgement.floor_checks if not check.passed]:
            click.echo(
                f"If that is wrong here: {failed[0]} can be set, switched off or given an allow-list in standfast.toml, "
                f"[floors.{failed[0]}]; see docs/judge.md."
            )
    if judgement.verdict is Verdict.VOID:
        raise SystemExit(ANSWER_IS_NO)
