"""``standfast bench leaderboard``: who keeps most, and how to have it in production."""

import click

from standfast.cli.output import json_option, print_json


@click.command("leaderboard")
@click.argument("results", default="bench-results")
@click.option("--budget", type=int, default=None, help="At which budget; by default 10 KB.")
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "markdown"]), default="table", show_default=True
)
@click.option(
    "--deploy", default=None, metavar="NAME", help="Print the settings that put this policy on a band."
)
@click.option(
    "--band",
    type=click.Choice(["LEDGER", "ACTIVE", "PHOENIX", "WITNESS"]),
    default="LEDGER",
    show_default=True,
    help="The band, for --deploy.",
)
@json_option
def command(  # noqa: PLR0917  # One argument for each option.
    results: str, budget: int | None, form: str, deploy: str | None, band: str, as_json: bool
) -> None:
    """Rank the policies of RESULTS by recall.

    With --deploy NAME, print the lines for standfast.toml that make production use the very policy that was graded.
    """
    from standfast.bench.deploy import settings_lines  # noqa: PLC0415  # Help must not wait for the benchmark.

    if deploy is not None:
        lines = settings_lines(deploy, band=band, max_bytes=budget)
        if as_json:
            print_json({"policy": deploy, "band": band, "settings": lines})
        else:
            click.echo(lines, nl=False)
        return
    _show(results, budget, form, as_json=as_json)


def _show(results: str, budget: int | None, form: str, *, as_json: bool) -> None:
    import msgspec  # noqa: PLC0415  # As above.
    from rich.console import Console  # noqa: PLC0415  # As above.
    from rich.table import Table  # noqa: PLC0415  # As above.

    from standfast.bench.grid import read_results  # noqa: PLC0415  # As above.
    from standfast.bench.report.conditions import condition_table  # noqa: PLC0415  # As above.
    from standfast.bench.report.summary import leaderboard, leaderboard_budget  # noqa: PLC0415  # As above.
    from standfast.bench.report.tables import (  # noqa: PLC0415  # As above.
        COLUMNS,
        cells,
        leaderboard_csv,
        leaderboard_markdown,
        size_name,
    )

    rows = read_results(results)
    max_bytes = leaderboard_budget(rows, budget)
    if rows[0]["condition"] != "plain":
        heads, lines = condition_table(rows, max_bytes)
        standings = []
    else:
        standings = leaderboard(rows, max_bytes)
        heads, lines = COLUMNS, [cells(one) for one in standings]
    if as_json:
        told = [msgspec.to_builtins(one) for one in standings]
        print_json(
            {
                "budget_bytes": max_bytes,
                "standings": told or [dict(zip(heads, one, strict=True)) for one in lines],
            }
        )
    elif form == "csv" and standings:
        click.echo(leaderboard_csv(standings), nl=False)
    elif form == "markdown" and standings:
        click.echo(leaderboard_markdown(standings, max_bytes), nl=False)
    else:
        table = Table(
            title=f"{results} at {size_name(max_bytes)}", title_justify="left", box=None, padding=(0, 1, 0, 0)
        )
        for number, heading in enumerate(heads):
            table.add_column(heading, justify="right" if number > 1 else "left", no_wrap=True)
        for line in lines:
            # Intervals are in the other formats; here they would break the lines.
            table.add_row(*(cell.partition(" ± ")[0] for cell in line))
        Console().print(table)
