"""Runs all benchmarks, or those named as arguments, and prints a table for each."""

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
    "poisoning",
    "traces",
    "memory",
    "facts",
    "conversations",
    "mailboxes",
    "governance",
    "gate",
    "optimizer",
    "recall",
    "recall_warm",
    "recall_index",
    "server",
    "write_policies",
]


def main(names: list[str]) -> None:
    """Run the benchmarks and print their tables."""
    console = Console()
    for name in names or BENCHMARKS:
        module = import_module(f"benchmarks.{name}")
        table = Table(title=module.TITLE, title_justify="left", title_style="bold")
        for heading in ("what", "measured", "target", "", "detail"):
            table.add_column(heading, justify="right" if heading in ("measured", "target") else "left")
        with console.status(f"measuring {module.TITLE} …"):
            ratios = module.run()
        for ratio in ratios:
            mark = {True: "[green]ok[/]", False: "[red]missed[/]", None: ""}[ratio.holds]
            table.add_row(ratio.name, f"{ratio.measured:.2f}", ratio.target, mark, ratio.detail)
        console.print(table)


main(sys.argv[1:])
