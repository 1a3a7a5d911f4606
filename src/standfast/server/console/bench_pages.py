"""The pages about benchmark results, prompt overrides and optimisation reports."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from standfast.errors import BadFile, InvalidValue, NotFound, StandfastError
from standfast.limits import MAX_REPORT_BYTES, MAX_RESULTS_BYTES, MAX_SHOWN_REPORTS
from standfast.server.console.charts import SERIES_COLOURS, line_chart
from standfast.server.console.page_request import Page, PageRequest
from standfast.server.console.rendering import bytes_text
from standfast.vocabulary import Value
from standfast.wiring import open_overrides

if TYPE_CHECKING:
    from standfast.optimize.loops.report import OptimizationReport

CURVE_PLACES: Final = 21
REPORT_NAMES: Final = "optimization*.json"


class LeaderboardQuery(Value, frozen=True, kw_only=True):
    """The query of the benchmark page: the budget to rank at."""

    budget: int | None = None


def bench(request: PageRequest) -> Page:
    """The leaderboard of a finished benchmark, and its charts."""
    request.whole_store()
    folder = request.settings.bench_results
    try:
        return Page(template="bench.html", context=_board(request, folder, *_results(folder)))
    except BadFile as error:
        problem = error
    except (ArithmeticError, LookupError, TypeError):
        problem = BadFile(
            file=folder,
            problem="its rows are not benchmark results; run it again with: standfast bench run --fresh",
        )
    return Page(template="bench.html", context={"folder": folder, "problem": problem, "standings": None})


def _results(folder: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from standfast.bench.grid import CURVES, RESULTS, read_results  # noqa: PLC0415  # Slow to import.

    for name in (RESULTS, CURVES):
        file = Path(folder) / name
        if file.is_file() and file.stat().st_size > MAX_RESULTS_BYTES:
            raise BadFile(file=str(file), problem="it is too large for a page; use: standfast bench report")
    rows = read_results(folder)
    if not rows:
        raise BadFile(file=folder, problem="it holds no results; run: standfast bench run")
    return rows, read_results(folder, CURVES) if (Path(folder) / CURVES).is_file() else []


def _board(
    request: PageRequest, folder: str, rows: list[dict[str, Any]], curves: list[dict[str, Any]]
) -> dict[str, Any]:
    from standfast.bench.leaderboard import (  # noqa: PLC0415  # As above.
        budgets_of,
        column_mean,
        entrant_name,
        leaderboard_budget,
        rank_policies,
        select_rows,
    )

    if rows[0]["condition"] != "plain":
        raise BadFile(file=folder, problem="there is a leaderboard for the plain condition only")
    budget = leaderboard_budget(rows, request.parse_query(LeaderboardQuery).budget)
    standings, budgets = rank_policies(rows, budget), budgets_of(rows)
    best = standings[:SERIES_COLOURS]
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
    names = [entrant_name(rows, one.policy, one.track) for one in best]
    return {
        "folder": folder,
        "problem": None,
        "standings": standings,
        "budget": budget,
        "budgets": budgets,
        "episodes": len({(row["file"], row["line"]) for row in rows}),
        "recall": line_chart(recall, [bytes_text(size) for size in budgets], top=1.0),
        "regret": _regret(curves, names, budget),
        "most_utility": max((one.utility_per_kb.value for one in standings), default=0) or 1,
        "drawn": len(best),
    }


def _regret(curves: Sequence[dict[str, Any]], names: Sequence[str], budget: int) -> Any:
    """Mean regret over the stream, sampled evenly; None if the results have no curves."""
    lines = []
    for name in names:
        own = [
            _sampled(one["curve"]["t"], one["curve"]["regret"][name])
            for one in curves
            if one["budget_bytes"] == budget and name in one["curve"]["regret"]
        ]
        if own:
            lines.append((name, [sum(column) / len(own) for column in zip(*own, strict=True)]))
    labels = [f"{100 * place // (CURVE_PLACES - 1)} %" for place in range(CURVE_PLACES)]
    return line_chart(lines, labels) if lines else None


def _sampled(times: Sequence[int], values: Sequence[float]) -> list[float]:
    last = times[-1] if times else 0
    sampled = []
    for place in range(CURVE_PLACES):
        found = bisect_right(times, last * place / (CURVE_PLACES - 1))
        sampled.append(float(values[found - 1]) if found else 0.0)
    return sampled


def prompts(request: PageRequest) -> Page:
    """The prompt overrides in use, and the optimisation reports."""
    request.whole_store()
    problem: StandfastError | None = None
    try:
        overrides = open_overrides(request.settings.prompt_overrides).list()
    except StandfastError as error:
        overrides, problem = [], error
    reports: list[tuple[str, OptimizationReport | None]] = []
    for file in _report_files(request):
        try:
            reports.append((file.name, _report(file)))
        except StandfastError:
            reports.append((file.name, None))
    context = {
        "overrides": overrides,
        "problem": problem,
        "reports": reports,
        "overrides_at": request.settings.prompt_overrides,
        "reports_at": request.settings.prompt_reports,
    }
    return Page(template="prompts.html", context=context)


def report(request: PageRequest) -> Page:
    """One optimisation report, with the difference of each section."""
    request.whole_store()
    name = request.query.get("file", "")
    # Only a listed file is opened, so that an address can't name another one.
    file = next((file for file in _report_files(request) if file.name == name), None)
    if file is None:
        raise NotFound(what=f"report {name!r:.80}")
    return Page(template="report.html", context={"name": name, "report": _report(file)})


def _report_files(request: PageRequest) -> list[Path]:
    folder = Path(request.settings.prompt_reports)
    return sorted(file for file in folder.glob(REPORT_NAMES) if file.is_file())[:MAX_SHOWN_REPORTS]


def _report(file: Path) -> "OptimizationReport":
    from standfast.optimize.loops.report import OptimizationReport  # noqa: PLC0415  # Slow to import.

    try:
        if file.stat().st_size > MAX_REPORT_BYTES:
            raise InvalidValue(what=f"report {file.name}", problem="it is too large for a page")
        return OptimizationReport.from_json(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidValue(what=f"report {file.name}", problem=str(error)) from None
