"""Runs every benchmark, or those named on the command line, and prints their ratios as a table."""

import sys
from importlib import import_module

from rich.console import Console
from rich.table import Table

BENCHMARKS = [
    "canonical",
    "startup",
    "store_sqlite",
    "store_postgres",
    "judge",
    "traces",
    "memory",
    "mailboxes",
    "governance",
    "optimizer",
    "recall",
    "recall_kinds",
    "recall_kept",
    "server",
    "write_policies",
]


def main(names: list[str]) -> None:
    """Print one table a benchmark."""
    console = Console()
    for name in names or BENCHMARKS:
        module = import_module(f"benchmarks.{name}")
        table = Table(title=module.TITLE, title_justify="left", title_style="bold")
        for heading in ("figure", "measured", "target", "", "detail"):
            table.add_column(heading, justify="right" if heading in ("measured", "target") else "left")
        with console.status(f"measuring {module.TITLE} …"):
            ratios = module.run()
        for ratio in ratios:
            mark = {True: "[green]ok[/]", False: "[red]missed[/]", None: ""}[ratio.holds]
            table.add_row(ratio.name, f"{ratio.measured:.2f}", ratio.target, mark, ratio.detail)
        console.print(table)


main(sys.argv[1:])
