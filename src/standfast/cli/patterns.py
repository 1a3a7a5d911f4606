"""``standfast patterns``: list the sources from which attacks keep coming, and lift such a pattern."""

import getpass

import click

from standfast.cli.options import namespace_option, opened_memory, store_option
from standfast.cli.output import json_option, print_json
from standfast.scopes import ALL_SCOPES


@click.group("patterns")
def command() -> None:
    """List and lift patterns of attacks. While one applies, texts from its source need another source."""


@command.command("list")
@store_option
@namespace_option
@json_option
def list_patterns(store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """List the patterns that apply now, ordered by source. Each fades by itself."""
    with opened_memory(store_url, namespace) as memory:
        patterns = memory.patterns()
    if as_json:
        print_json({"patterns": [pattern.as_json() for pattern in patterns]})
        return
    for pattern in patterns:
        click.echo(
            f"{pattern.source} in {pattern.scope}: injections rejected since {pattern.first_day}; fades on {pattern.fades_on}"
        )
    if not patterns:
        click.echo("No pattern applies.")


@command.command("lift")
@click.argument("source")
@click.option("--reason", required=True, help="Why; recorded in the ledger.")
@click.option(
    "--scope",
    default=ALL_SCOPES,
    show_default=True,
    help="Lift it in this scope with all below it; * for all.",
)
@store_option
@namespace_option
@json_option
def lift_pattern(
    source: str, *, reason: str, scope: str, store_url: str | None, namespace: str | None, as_json: bool
) -> None:
    """Lift the pattern of SOURCE (as `patterns list` prints it, such as web:example.com) before it fades."""
    with opened_memory(store_url, namespace) as memory:
        receipt = memory.lift_pattern(source, reason=reason, by=getpass.getuser(), scope=scope)
    if as_json:
        print_json({"source": source, "receipt": receipt.as_json()})
    else:
        click.echo(f"{source}: lifted; ledger entry {receipt.ledger_seq}")
