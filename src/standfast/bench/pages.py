"""The console's page of benchmark results."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from standfast.bench.grid import CURVES, RESULTS, read_results
from standfast.bench.leaderboard import (
    budgets_of,
    column_mean,
    entrant_name,
    leaderboard_budget,
    rank_policies,
    select_rows,
)
from standfast.bench.settings import BenchSettings
from standfast.errors import BadFile, InvalidValue
from standfast.limits import MAX_RESULTS_BYTES
from standfast.settings import Settings
from standfast.traces.folder import TraceFolder

CURVE_PLACES: Final = 21
# A chart has eight colours.
DRAWN_POLICIES: Final = 8

Rows = list[dict[str, Any]]


def leaderboard_page(
    settings: Settings,
    query: Mapping[str, str],
    traces: TraceFolder | None,  # noqa: ARG001  # A page's signature.
) -> dict[str, Any]:
    """The leaderboard of a finished benchmark, and its charts. ``budget`` is the budget to rank at."""
    folder = settings.section(BenchSettings).results
    try:
        wanted = int(query["budget"]) if query.get("budget") else None
    except ValueError:
        raise InvalidValue(what="budget", problem="it must be a number of bytes") from None
    try:
        return _board(folder, wanted, *_results(folder))
    except BadFile as error:
        problem = error
    except (ArithmeticError, LookupError, TypeError):
        problem = BadFile(
            file=folder,
            problem="its rows are not benchmark results; run it again with: standfast bench run --fresh",
        )
    return {"folder": folder, "problem": problem, "standings": None}


def _results(folder: str) -> tuple[Rows, Rows]:
    if not folder:
        raise BadFile(
            file="bench.results", problem="no folder is set; the main store of this server may have one"
        )
    for name in (RESULTS, CURVES):
        file = Path(folder) / name
        if file.is_file() and file.stat().st_size > MAX_RESULTS_BYTES:
            raise BadFile(file=str(file), problem="it is too large for a page; use: standfast bench report")
    rows = read_results(folder)
    if not rows:
        raise BadFile(file=folder, problem="it holds no results; run: standfast bench run")
    return rows, read_results(folder, CURVES) if (Path(folder) / CURVES).is_file() else []


def _board(folder: str, wanted: int | None, rows: Rows, curves: Rows) -> dict[str, Any]:
    if rows[0]["condition"] != "plain":
        raise BadFile(file=folder, problem="there is a leaderboard for the plain condition only")
    budget = leaderboard_budget(rows, wanted)
    standings, budgets = rank_policies(rows, budget), budgets_of(rows)
    best = standings[:DRAWN_POLICIES]
    recall = [
        (
            entrant_name(rows, one.policy, one.track),
            [
                column_mean(
                    select_rows(rows, policy=one.policy, track=one.track, budget_bytes=size), "recall"
                ).value
                for size in budgets
            ],
        )
        for one in best
    ]
    return {
        "folder": folder,
        "problem": None,
        "standings": standings,
        "budget": budget,
        "budgets": budgets,
        "episodes": len({(row["file"], row["line"]) for row in rows}),
        "recall": recall,
        "regret": _regret(curves, [name for name, _ in recall], budget),
        "stream": [f"{100 * place // (CURVE_PLACES - 1)} %" for place in range(CURVE_PLACES)],
        "most_utility": max((one.utility_per_kb.value for one in standings), default=0) or 1,
        "drawn": len(best),
    }


def _regret(curves: Rows, names: Sequence[str], budget: int) -> list[tuple[str, list[float]]]:
    """Mean regret over the stream, sampled evenly; empty if the results have no curves."""
    lines = []
    for name in names:
        own = [
            _sampled(one["curve"]["t"], one["curve"]["regret"][name])
            for one in curves
            if one["budget_bytes"] == budget and name in one["curve"]["regret"]
        ]
        if own:
            lines.append((name, [sum(column) / len(own) for column in zip(*own, strict=True)]))
    return lines


def _sampled(times: Sequence[int], values: Sequence[float]) -> list[float]:
    last = times[-1] if times else 0
    sampled = []
    for place in range(CURVE_PLACES):
        found = bisect_right(times, last * place / (CURVE_PLACES - 1))
        sampled.append(float(values[found - 1]) if found else 0.0)
    return sampled
