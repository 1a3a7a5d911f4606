"""``standfast profile`` and ``standfast conflicts``: what is current, and what disagrees."""

import getpass
from collections.abc import Sequence
from typing import Final

import click

from standfast.cli.options import MemoryTarget, listed_scope_option, memory_options, scope_option
from standfast.cli.output import ANSWER_IS_NO, counted, print_json
from standfast.govern.authority import Role
from standfast.limits import DEFAULT_RECALL_TOKENS, MAX_RECALL_TOKENS
from standfast.memory.current import Settlement

_NOTHING_CURRENT: Final = (
    "Nothing here is pinned, has a subject or is a plain statement such as “I live in Lisbon.” --explain says"
    " what was left out; standfast recall finds the rest."
)


@click.command("profile")
@click.option("--tokens", type=click.IntRange(1, MAX_RECALL_TOKENS), default=DEFAULT_RECALL_TOKENS)
@click.option("--at", type=click.IntRange(0), help="The snapshot to read; default: the newest.")
@click.option("--explain", is_flag=True, help="Say what was left out, and why.")
@scope_option
@memory_options
def profile_command(*, tokens: int, at: int | None, explain: bool, scope: str, target: MemoryTarget) -> None:
    """Print what is pinned in a scope and the current value of each subject and matter, newest first.

    Exit code 1 if nothing is known.
    """
    with target.opened() as memory:
        profile = memory.profile(scope, tokens=tokens, at=at)
        advice = "" if profile.items else memory.records(scope=scope, at=at).advice
    if target.as_json:
        print_json({**profile.as_json(), "text": profile.text})
    else:
        click.echo(profile.text, nl=False)
        for one in profile.left_out if explain else ():
            click.echo(f"left out: {one.memory_id}: {one.reason}")
        if explain and profile.others:
            click.echo(
                f"left out: {counted(profile.others, 'record')} without a subject or a plain statement"
            )
    if not profile.items:
        if not target.as_json:
            click.echo(advice or _NOTHING_CURRENT, err=True)
        raise SystemExit(ANSWER_IS_NO)


@click.group("conflicts")
def conflicts_command() -> None:
    """List what disagrees, and settle it."""


@conflicts_command.command("list")
@listed_scope_option
@memory_options
def list_conflicts(*, scope: str, target: MemoryTarget) -> None:
    """List records that say different things about one matter, the newest first."""
    with target.opened() as memory:
        conflicts = memory.conflicts(scope=scope)
        advice = "" if conflicts else memory.records(scope=scope).advice
    if target.as_json:
        print_json({"conflicts": [one.as_json() for one in conflicts]})
        return
    for one in conflicts:
        click.echo(f"{one.conflict_id}  {one.scope}  {one.about}")
        for entry in one.entries:
            date = (entry.ts_utc or "no date")[:10]
            click.echo(f"  {entry.memory_id}  {date}  {entry.trust}, {entry.source}: {entry.text}")
    click.echo(counted(len(conflicts), "conflict"))
    if advice:
        click.echo(advice, err=True)


@conflicts_command.command("settle")
@click.argument("conflict_id", required=False)
@click.option("--keep", help="The id of the record that holds, or both, or neither.")
@click.option("--all", "settles_all", is_flag=True, help="Settle every conflict: keep what was said last.")
@click.option("--reason", required=True, help="Why; it is part of the record.")
@click.option("--as-human", is_flag=True, help="You decide as a person, not as an agent.")
@click.option("--by", default=getpass.getuser, show_default="your user name", help="Who settles it.")
@click.option("--rehearse", is_flag=True, help="Change nothing, and say what would be done.")
@click.option("--propose", is_flag=True, help="End nothing yet: a person accepts or rejects the proposal.")
@listed_scope_option
@memory_options
def settle_conflict(
    conflict_id: str | None,
    *,
    keep: str | None,
    settles_all: bool,
    reason: str,
    as_human: bool,
    by: str,
    rehearse: bool,
    propose: bool,
    scope: str,
    target: MemoryTarget,
) -> None:
    """Settle the conflict CONFLICT_ID, or all of them. What ends stays in history.

    Exit code 1 if something could not be settled.
    """
    if settles_all in (conflict_id is not None, keep is not None):
        raise click.UsageError("give a CONFLICT_ID with --keep, or --all")
    role = Role.HUMAN if as_human else Role.AGENT
    with target.opened() as memory:
        if conflict_id is not None and keep is not None:
            done = [
                memory.settle(
                    conflict_id,
                    keep,
                    reason=reason,
                    by=by,
                    role=role,
                    scope=scope,
                    rehearse=rehearse,
                    propose=propose,
                )
            ]
        else:
            done = memory.settle_all(
                reason=reason, by=by, role=role, scope=scope, rehearse=rehearse, propose=propose
            )
    if target.as_json:
        print_json({"settled": [one.as_json() for one in done]})
    else:
        _print(done, rehearse=rehearse)
    if any(one.problem for one in done):
        raise SystemExit(ANSWER_IS_NO)


def _print(done: Sequence[Settlement], *, rehearse: bool) -> None:
    for one in done:
        if one.problem:
            click.echo(f"{one.conflict_id}: not settled: {one.problem}")
        else:
            proposal = one.remembered.proposal_id if one.remembered is not None else None
            waits = f"; proposal {proposal[:12]} waits for a person" if proposal else ""
            verb = "would end" if rehearse or proposal else "ended"
            click.echo(f"{one.conflict_id}: keeps {one.keep}; {verb} {', '.join(one.ended)}{waits}")
    click.echo(counted(len(done), "conflict"))
