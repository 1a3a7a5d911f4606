"""``standfast doctor``: whether everything that is stored is what was written."""

import click
from rich.console import Console

from standfast.cli.options import opened, settings, store_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.errors import BrokenChain, Corruption


@click.command("doctor")
@store_option
@click.option("--rebuild", is_flag=True, help="First make every index anew from the records.")
@json_option
def command(store_url: str | None, rebuild: bool, as_json: bool) -> None:
    """Walk the whole store: pages, indexes, every record's fingerprint, every commit, the ledger's chain.

    Tells of each problem; exit code 1 if there is one.
    """
    name = store_url or settings().store
    problems: list[str] = []
    head = None
    try:
        with opened(store_url, recover=False) as store, Console(stderr=True).status(f"examining {name} …"):
            if rebuild:
                store.rebuild_indexes()
            problems += store.verify()
            head = store.head()
    except (Corruption, BrokenChain) as error:
        problems.append(str(error))
    if as_json:
        print_json({"store": name, "head": head, "rebuilt": rebuild, "problems": problems})
    else:
        for problem in problems:
            click.echo(f"✗ {problem}")
        click.echo(
            f"{name}: {len(problems)} problems" if problems else f"{name}: all of {head} snapshots hold"
        )
    if problems:
        raise SystemExit(ANSWER_IS_NO)
