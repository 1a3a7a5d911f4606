"""``standfast bench report``: tables, plots and one page of a finished grid."""

from pathlib import Path

import click

from standfast.cli.output import json_option, print_json


@click.command("report")
@click.argument("results", default="bench-results")
@click.option("--out", default=None, help="Folder for the report; by default 'report' below RESULTS.")
@click.option(
    "--budget", type=int, default=None, help="The budget of leaderboard and plots; by default 10 KB."
)
@json_option
def command(results: str, out: str | None, budget: int | None, as_json: bool) -> None:
    """Write, for each policy in RESULTS, recall_at_budget.csv, confusion_matrix.csv, utility_per_kb.json and
    regret_curve.png; and for all, the leaderboard and report.html, which needs nothing beside itself.
    """  # noqa: D205  # click shows the first paragraph whole.
    from standfast.bench.report.page import write_report  # noqa: PLC0415  # Help must not wait for the benchmark.

    folder = out or str(Path(results) / "report")
    written = write_report(results, folder, max_bytes=budget)
    if as_json:
        print_json({"folder": folder, "files": written})
    else:
        click.echo(f"{len(written)} files; open {folder}/report.html")
