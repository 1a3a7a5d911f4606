"""Bench results: the leaderboard of the finished grid in the folder that the settings name, and each policy's report."""

import threading
from functools import lru_cache
from pathlib import Path
from typing import Final

from standfast.bench.report.summary import (
    Row,
    budgets_of,
    chosen,
    entrants_of,
    figure,
    leaderboard,
    leaderboard_budget,
)
from standfast.errors import BadFile, InvalidValue, NotConfigured, NotFound
from standfast.limits import MAX_RESULTS_BYTES
from standfast.server.access.table import Act, Caller
from standfast.server.operations.beside.shapes import AskedBench, BenchResults, BudgetReport, PolicyReport
from standfast.server.operations.hall import Hall

RANKED_CONDITION: Final = "plain"
# Reading a large grid takes its memory; one caller at a time does.
_reading: Final = threading.Lock()


def bench(hall: Hall, caller: Caller, asked: AskedBench) -> BenchResults:
    """The leaderboard at a budget, and the reports at all budgets."""
    hall.enter_store(caller, Act.READ_BENCH)
    if not hall.bench_results:
        raise NotConfigured(what="folder of bench results", setting="bench_results")
    from standfast.bench.grid import RESULTS  # noqa: PLC0415  # The engine; only who looks at results pays for it.

    file = Path(hall.bench_results) / RESULTS
    try:
        told = file.stat()
    except OSError:
        raise NotFound(what="finished grid; run 'standfast bench run'") from None
    if told.st_size > MAX_RESULTS_BYTES:
        raise BadFile(file=str(file), problem="it is too large for an answer; use 'standfast bench report'")
    with _reading:
        return _results(hall.bench_results, (told.st_mtime_ns, told.st_size), asked.budget_bytes)


@lru_cache(maxsize=8)
def _results(folder: str, _written: tuple[int, int], wanted_bytes: int | None) -> BenchResults:
    """Remembered for as long as the file is what it was."""
    from standfast.bench.grid import read_results  # noqa: PLC0415  # As above.

    rows = read_results(folder)
    if not rows:
        raise NotFound(what="finished grid; run 'standfast bench run'")
    if rows[0]["condition"] != RANKED_CONDITION:
        raise NotFound(what=f"leaderboard of a grid under condition {rows[0]['condition']!r:.80}")
    budgets = budgets_of(rows)
    if wanted_bytes is not None and wanted_bytes not in budgets:
        problem = f"no run had {wanted_bytes} bytes; there are {', '.join(map(str, budgets))}"
        raise InvalidValue(what="budget_bytes", problem=problem)
    budget = leaderboard_budget(rows, wanted_bytes)
    return BenchResults(
        budget_bytes=budget,
        budgets_bytes=budgets,
        episodes=len({(row["file"], row["line"]) for row in rows}),
        leaderboard=leaderboard(rows, budget),
        reports=[
            PolicyReport(
                policy=policy,
                track=track,
                budgets=[
                    _report(size, chosen(rows, policy=policy, track=track, budget_bytes=size))
                    for size in budgets
                ],
            )
            for policy, track in entrants_of(rows)
        ],
    )


def _report(budget_bytes: int, rows: list[Row]) -> BudgetReport:
    return BudgetReport(
        budget_bytes=budget_bytes,
        recall=figure(rows, "recall"),
        f1=figure(rows, "f1"),
        utility_per_kb=figure(rows, "utility_per_kb"),
        true_positives=sum(row["true_positives"] for row in rows),
        false_positives=sum(row["false_positives"] for row in rows),
        false_negatives=sum(row["false_negatives"] for row in rows),
        true_negatives=sum(row["true_negatives"] for row in rows),
    )
