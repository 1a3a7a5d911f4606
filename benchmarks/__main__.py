"""Runs all benchmarks, or those named as arguments, and prints a table for each.

python -m benchmarks facts judge
python -m benchmarks --markdown docs/performance-tables.md
"""

import argparse
import os
import platform
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import apsw
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Ratio

BENCHMARKS = [
    "canonical",
    "startup",
    "store_sqlite",
    "store_postgres",
    "judge",
    "attacks",
    "poisoning",
    "incidents",
    "harm",
    "traces",
    "memory",
    "facts",
    "writes",
    "conversations",
    "mailboxes",
    "governance",
    "gate",
    "optimizer",
    "recall",
    "recall_index",
    "server",
    "server_load",
    "write_policies",
]
MARKS = {True: "ok", False: "missed", None: ""}


def main(names: Sequence[str], markdown: Path | None) -> None:
    """Run the benchmarks and print their tables; write them as Markdown too, after each, if a file is
    named.
    """
    console = Console()
    written = [machine()]
    for name in names or BENCHMARKS:
        module = import_module(f"benchmarks.{name}")
        with console.status(f"measuring {module.TITLE} …"):
            ratios = module.run()
        console.print(table_of(module.TITLE, ratios))
        written.append(markdown_of(module.TITLE, ratios))
        if markdown is not None:
            markdown.write_text("\n\n".join(written) + "\n", encoding="utf-8")


def machine() -> str:
    """The machine and the versions, in one line, with the load when the run begins."""
    model = platform.processor() or platform.machine()
    with Path("/proc/cpuinfo").open(encoding="utf-8") as info:
        model = next(
            (line.partition(":")[2].strip() for line in info if line.startswith("model name")), model
        )
    load = os.getloadavg()[0]
    python = f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
    return f"{os.cpu_count()} cores, {model}, {platform.system()}, {python}; load at the start {load:.1f}."


def table_of(title: str, ratios: Sequence[Ratio]) -> Table:
    """The table for a terminal."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("what", "measured", "target", "", "detail"):
        table.add_column(heading, justify="right" if heading in ("measured", "target") else "left")
    colours = {"ok": "[green]ok[/]", "missed": "[red]missed[/]"}
    for ratio in ratios:
        mark = colours.get(MARKS[ratio.holds], "")
        table.add_row(ratio.name, f"{ratio.measured:.2f}", ratio.target, mark, ratio.detail)
    return table


def markdown_of(title: str, ratios: Sequence[Ratio]) -> str:
    """The same table as Markdown."""
    lines = [f"### {title}", "", "| what | measured | target | | detail |", "|---|---:|---:|---|---|"]
    for ratio in ratios:
        cells = (ratio.name, f"{ratio.measured:,.2f}", ratio.target, MARKS[ratio.holds], ratio.detail)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run all benchmarks, or those that are named.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file as well")
    arguments = parser.parse_args()
    main(arguments.names, arguments.markdown)
