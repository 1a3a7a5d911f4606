"""The pages about recorded runs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from standfast.errors import (
    InvalidValue,
    NotFound,
    TraceError,
    TraceFolderFailed,
)
from standfast.limits import (
    CONSOLE_PAGE_ITEMS,
    MAX_NAME_CHARS,
)
from standfast.records.vocabulary import Value
from standfast.server.console.rendering import Page, PageRequest
from standfast.traces.artifact import Event, Trace
from standfast.traces.equivalence import Comparison, Difference, compare_artifacts, shortfalls
from standfast.traces.folder import TraceFolder, read_artifact

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
