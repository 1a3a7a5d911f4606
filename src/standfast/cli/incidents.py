"""``standfast investigate``, ``quarantine``, ``release`` and ``revert``: a wrong answer, found and undone."""

import getpass
from typing import Any

import click

from standfast.cli.options import MemoryTarget, memory_options
from standfast.cli.output import counted, print_json
from standfast.cli.request_options import request_options
from standfast.errors import NotFound
from standfast.limits import SAFE_INTEGER
from standfast.memory.quarantine import Quarantined, QuarantinePlan
from standfast.records.incident_requests import InvestigateRequest, QuarantineRequest, RevertRequest

_by_option = click.option(
    "--by", default=getpass.getuser, show_default="your user name", help="Who does it, for the ledger."
)
_act_option = click.option(
    "--act-id", help="An id for the act; repeating the command with it has one effect. Default: a new one."
)


@click.command("investigate")
@click.argument("memory_id", required=False)
@request_options(InvestigateRequest, but=("memory_id",))
@click.option("--dot", is_flag=True, help="Print the graph in Graphviz DOT.")
@memory_options
def investigate_command(
    memory_id: str | None, *, fields: dict[str, Any], dot: bool, target: MemoryTarget
) -> None:
    """Say where a record, a package, a run or a source came from, and what it has touched since.

    Links that are certain, such as a citation, are told from those that are only possible.
    """
    request = InvestigateRequest.of(memory_id, **fields)
    with target.opened() as memory:
        found = memory.incidents.answer(request)
    if target.as_json:
        print_json(found.as_json())
    else:
        click.echo(found.dot() if dot else found.text(), nl=False)


@click.command("quarantine")
@click.argument("memory_id", required=False)
@request_options(QuarantineRequest, but=("memory_id", "descendants"))
@click.option("--without-descendants", is_flag=True, help="Leave what cites it in recall.")
@click.option("--list", "is_list", is_flag=True, help="Only list the acts, and what is in quarantine.")
@_act_option
@_by_option
@memory_options
def quarantine_command(
    memory_id: str | None,
    *,
    fields: dict[str, Any],
    without_descendants: bool,
    is_list: bool,
    act_id: str | None,
    by: str,
    target: MemoryTarget,
) -> None:
    """Take a record, a run's or a source's records out of recall, with what cites them.

    Nothing is erased: standfast release ACT_ID takes it back. Any number of records is hidden, in several
    commits if needed; a command that was interrupted is finished by the next one. Law stays.
    """
    if is_list:
        _list(target, fields.get("scope", "*"))
        return
    fields["descendants"] = not without_descendants
    request = QuarantineRequest.of(memory_id, **fields)
    with target.opened() as memory:
        _print(memory.incidents.act(request, by=by, act_id=act_id), target, "hidden")


@click.command("revert")
@request_options(RevertRequest)
@_act_option
@_by_option
@memory_options
def revert_command(*, fields: dict[str, Any], act_id: str | None, by: str, target: MemoryTarget) -> None:
    """Undo what a run wrote, or what was written since a snapshot. What others changed since is kept.

    What was forgotten stays forgotten. standfast release ACT_ID takes it back.
    """
    request = RevertRequest.of(**fields)
    with target.opened() as memory:
        _print(memory.incidents.act(request, by=by, act_id=act_id), target, "reverted")


@click.command("release")
@click.argument("act_id")
@click.option("--reason", required=True, help="Why; recorded in the ledger.")
@click.option("--dry-run", is_flag=True, help="Only say what would be shown again.")
@_by_option
@memory_options
def release_command(act_id: str, *, reason: str, dry_run: bool, by: str, target: MemoryTarget) -> None:
    """Take the quarantine or revert ACT_ID back: what it hid is shown again."""
    with target.opened() as memory:
        if dry_run:
            if act_id not in {one.act_id for one in memory.quarantines()}:
                raise NotFound(what=f"quarantine {act_id!r:.80}; standfast quarantine --list lists them")
            own = [one for one in memory.quarantined(limit=SAFE_INTEGER) if one.acts == (act_id,)]
            shown = sorted({f"{one.scope}//{one.memory_id}" for one in own})
            if target.as_json:
                print_json({"act_id": act_id, "shown_again": shown})
            else:
                click.echo(f"{act_id}: would show {counted(len(shown), 'record')} again")
            return
        done = memory.release(act_id, reason=reason, by=by)
    if target.as_json:
        print_json(done.as_json())
    else:
        click.echo(
            f"{act_id}: released, shows {counted(done.records, 'record')} again; snapshot"
            f" {done.memory_snapshot_id}, ledger entry {done.ledger_seq}"
        )


def _list(target: MemoryTarget, scope: str) -> None:
    with target.opened() as memory:
        acts, records = memory.quarantines(), memory.quarantined(scope=scope)
    if target.as_json:
        print_json({"acts": [one.as_json() for one in acts], "records": [one.as_json() for one in records]})
        return
    for act in acts:
        click.echo(
            f"{act.act_id}  {act.verb}, {act.state}: {counted(act.records, 'record')}; {act.reason}"
            f" ({act.by}, {act.at})"
        )
    for record in records:
        text = "" if record.record is None else record.record.text
        click.echo(f"  {record.band}/{record.scope}//{record.memory_id}@{record.snapshot}: {text[:100]}")
    click.echo(counted(len(acts), "act"))


def _print(answer: Quarantined | QuarantinePlan, target: MemoryTarget, verb: str) -> None:
    if target.as_json:
        print_json(answer.as_json())
        return
    what = f"{counted(answer.records, 'record')}, {answer.restored} brought back"
    if isinstance(answer, QuarantinePlan):
        click.echo(f"would be {verb}: {what}")
        for one in answer.hidden:
            click.echo(f"  {one}")
    else:
        click.echo(f"{answer.act_id}: {verb}: {what}; snapshot {answer.memory_snapshot_id}")
        click.echo(f"  take it back with: standfast release {answer.act_id} --reason …")
    for key in answer.law:
        click.echo(f"  stays, because it is law: {key}")
    for kept in answer.kept:
        click.echo(f"  stays, because {kept.source} said it too: {kept.scope}//{kept.memory_id}")
    for conflict in answer.conflicts:
        click.echo(
            f"  kept, because it was changed in snapshot {conflict.changed_in}:"
            f" {conflict.scope}//{conflict.memory_id}"
        )
