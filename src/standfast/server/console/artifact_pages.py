"""The pages about recorded runs, benchmark results, prompt overrides and reports of the optimiser."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from standfast.bench.settings import BenchSettings
from standfast.errors import (
    BadFile,
    InvalidValue,
    NotConfigured,
    NotFound,
    StandfastError,
    TraceError,
    TraceFolderFailed,
)
from standfast.limits import (
    CONSOLE_PAGE_ITEMS,
    MAX_NAME_CHARS,
    MAX_REPORT_BYTES,
    MAX_RESULTS_BYTES,
    MAX_SHOWN_REPORTS,
)
from standfast.optimize.opening import open_overrides
from standfast.optimize.settings import PromptSettings
from standfast.records.vocabulary import Value
from standfast.server.console.charts import SERIES_COLOURS, line_chart
from standfast.server.console.rendering import Page, PageRequest, bytes_text
from standfast.traces.artifact import Event, Trace
from standfast.traces.equivalence import Comparison, Difference, compare_artifacts, shortfalls
from standfast.traces.folder import TraceFolder, read_artifact

if TYPE_CHECKING:
    from standfast.optimize.loops.report import OptimizationReport
CURVE_PLACES: Final = 21
REPORT_NAMES: Final = "optimization*.json"


@dataclass(frozen=True, slots=True)
class RunLine:
    """A trace in the list; if its file is damaged, ``problem`` says why."""

    file: str
    size_bytes: int
    trace: Trace | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ComparedPart:
    """The same part of both runs, with its differences."""

    name: str
    left: Any
    right: Any
    differences: tuple[Difference, ...] = ()
    is_first: bool = False


@dataclass(slots=True)
class RunComparison:
    """Two runs, part by part."""

    comparison: Comparison
    envelope: list[ComparedPart] = field(default_factory=list)
    events: list[ComparedPart] = field(default_factory=list)
    output: ComparedPart | None = None


class RunsPageQuery(Value, frozen=True, kw_only=True):
    """The query of the list: the index of its first run."""

    begin: int = 0


def runs(request: PageRequest) -> Page:
    """The recorded runs, newest first."""
    folder = request.whole_store().traces
    if folder is None:
        return Page(template="runs.html", context={"lines": None})
    files = _newest_first(folder)
    begin = max(0, request.parse_query(RunsPageQuery).begin)
    context = {
        "lines": [_line(file) for file in files[begin : begin + CONSOLE_PAGE_ITEMS]],
        "count": len(files),
        "begin": begin,
        "newer": max(0, begin - CONSOLE_PAGE_ITEMS) if begin else None,
        "older": begin + CONSOLE_PAGE_ITEMS if begin + CONSOLE_PAGE_ITEMS < len(files) else None,
    }
    return Page(template="runs.html", context=context)


def _newest_first(folder: TraceFolder) -> list[Path]:
    """The trace files by modification time, then by name. A file deleted meanwhile is left out."""
    dated = []
    for file in folder.run_files():
        try:
            dated.append((-file.stat().st_mtime_ns, file.name, file))
        except OSError:
            continue
    return [file for _, _, file in sorted(dated)]


def _line(file: Path) -> RunLine:
    try:
        text = read_artifact(file)
        return RunLine(file.name, len(text), Trace.read(text))
    except TraceError as error:
        return RunLine(file.name, 0, None, str(error))


def trace(request: PageRequest) -> Page:
    """One run: its decisions, tool calls, reads and output, in order."""
    folder, run_id = _folder(request), _run_id(request, "run")
    if not folder.file_of(run_id).is_file():
        raise NotFound(what=f"trace of a run {run_id!r:.80}")
    try:
        shown = folder.get(run_id)
    except TraceError as error:
        raise InvalidValue(what=f"trace of run {run_id!r:.80}", problem=str(error)) from None
    context = {
        "trace": shown,
        "shortfalls": shortfalls(shown),
        "reads": {read.retrieval_event_id: read for read in shown.retrievals},
    }
    return Page(template="trace.html", context=context)


def compare(request: PageRequest) -> Page:
    """The comparison of two runs."""
    folder = _folder(request)
    left, right = request.query.get("left", ""), request.query.get("right", "")
    listed = [line.trace for line in map(_line, _newest_first(folder)[:CONSOLE_PAGE_ITEMS]) if line.trace]
    context: dict[str, Any] = {"left": left, "right": right, "choices": listed, "compared": None}
    if left and right:
        texts = [_text(folder, _run_id(request, side)) for side in ("left", "right")]
        context["compared"] = _compared(texts[0], texts[1])
    return Page(template="compare.html", context=context)


def _folder(request: PageRequest) -> TraceFolder:
    folder = request.whole_store().traces
    if folder is None:
        raise NotFound(what='folder of traces; set one in the settings: traces = "traces"')
    return folder


def _run_id(request: PageRequest, name: str) -> str:
    run_id = request.query.get(name, "")
    if not 0 < len(run_id) <= MAX_NAME_CHARS:
        raise NotFound(what=f"trace of a run {run_id!r:.80}")
    return run_id


def _text(folder: TraceFolder, run_id: str) -> bytes:
    try:
        return read_artifact(folder.file_of(run_id))
    except TraceFolderFailed:
        raise NotFound(what=f"trace of a run {run_id!r:.80}") from None


def _compared(left_text: bytes, right_text: bytes) -> RunComparison:
    comparison = compare_artifacts(left_text, right_text)
    compared = RunComparison(comparison)
    left, right = _read(left_text), _read(right_text)
    if left is None or right is None:
        return compared
    for name in ("workflow_id", "model_config_id", "policy_set_id", "memory_snapshot_id", "visibility_mode"):
        compared.envelope.append(_part(comparison, name, getattr(left, name), getattr(right, name), None))
    for index in range(max(len(left.events), len(right.events))):
        compared.events.append(
            _part(comparison, f"event {index}", _at(left, index), _at(right, index), index)
        )
    if left.output is not None or right.output is not None:
        compared.output = _part(comparison, "output", left.output, right.output, None)
    return compared


def _part(comparison: Comparison, name: str, left: Any, right: Any, index: int | None) -> ComparedPart:
    own = tuple(
        one
        for one in comparison.differences
        if one.event_index == index
        and (index is not None or (one.place == name if name != "output" else one.place.startswith("output")))
    )
    return ComparedPart(
        name, left, right, own, is_first=comparison.first is not None and comparison.first in own
    )


def _read(text: bytes) -> Trace | None:
    try:
        return Trace.read(text)
    except TraceError:
        return None


def _at(side: Trace, index: int) -> Event | None:
    return side.events[index] if index < len(side.events) else None


class LeaderboardQuery(Value, frozen=True, kw_only=True):
    """The query of the benchmark page: the budget to rank at."""

    budget: int | None = None


def bench(request: PageRequest) -> Page:
    """The leaderboard of a finished benchmark, and its charts."""
    request.whole_store()
    folder = request.settings.section(BenchSettings).results
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
        if not request.settings.section(PromptSettings).overrides:
            raise NotConfigured(what="store of prompt overrides", setting="prompts.overrides")
        overrides = open_overrides(request.settings.section(PromptSettings).overrides).list()
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
        "overrides_at": request.settings.section(PromptSettings).overrides,
        "reports_at": request.settings.section(PromptSettings).reports,
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
    if not request.settings.section(PromptSettings).reports:
        return []
    folder = Path(request.settings.section(PromptSettings).reports)
    return sorted(file for file in folder.glob(REPORT_NAMES) if file.is_file())[:MAX_SHOWN_REPORTS]


def _report(file: Path) -> "OptimizationReport":
    from standfast.optimize.loops.report import OptimizationReport  # noqa: PLC0415  # Slow to import.

    try:
        if file.stat().st_size > MAX_REPORT_BYTES:
            raise InvalidValue(what=f"report {file.name}", problem="it is too large for a page")
        return OptimizationReport.from_json(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidValue(what=f"report {file.name}", problem=str(error)) from None
