"""Recorded runs: which there are, what one did, and two of them side by side with the first difference marked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standfast.errors import InvalidValue, NotFound, TraceError, TraceFolderFailed
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_NAME_CHARS
from standfast.server.console.visit import Page, Visit
from standfast.traces.artifact import Event, Trace
from standfast.traces.equivalence import Comparison, Difference, compare_artifacts, shortfalls
from standfast.traces.folder import TraceFolder, read_artifact
from standfast.vocabulary import Value


@dataclass(frozen=True, slots=True)
class RunLine:
    """A trace in the list; without a trace, its file is damaged and this is why."""

    file: str
    size_bytes: int
    trace: Trace | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """What both runs did at one place, and how that differs."""

    name: str
    left: Any
    right: Any
    differences: tuple[Difference, ...] = ()
    is_first: bool = False


@dataclass(slots=True)
class SideBySide:
    """Two runs, place by place."""

    comparison: Comparison
    envelope: list[Pair] = field(default_factory=list)
    events: list[Pair] = field(default_factory=list)
    output: Pair | None = None


class AskedRuns(Value, frozen=True, kw_only=True):
    """From which of the runs on to list them."""

    begin: int = 0


def runs(visit: Visit) -> Page:
    """The runs that left a trace, newest first."""
    folder = visit.enter_house().traces
    if folder is None:
        return Page(template="runs.html", facts={"lines": None})
    files = _newest_first(folder)
    begin = max(0, visit.asked(AskedRuns).begin)
    facts = {
        "lines": [_line(file) for file in files[begin : begin + CONSOLE_PAGE_ITEMS]],
        "count": len(files),
        "begin": begin,
        "newer": max(0, begin - CONSOLE_PAGE_ITEMS) if begin else None,
        "older": begin + CONSOLE_PAGE_ITEMS if begin + CONSOLE_PAGE_ITEMS < len(files) else None,
    }
    return Page(template="runs.html", facts=facts)


def _newest_first(folder: TraceFolder) -> list[Path]:
    """By when the file was written, then by name: what is gone in the meantime is left out."""
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


def trace(visit: Visit) -> Page:
    """What one run decided, called, read and put out, in order."""
    folder, run_id = _folder(visit), _run_id(visit, "run")
    if not folder.file_of(run_id).is_file():
        raise NotFound(what=f"trace of a run {run_id!r:.80}")
    try:
        shown = folder.get(run_id)
    except TraceError as error:
        raise InvalidValue(what=f"trace of run {run_id!r:.80}", problem=str(error)) from None
    facts = {
        "trace": shown,
        "shortfalls": shortfalls(shown),
        "reads": {read.retrieval_event_id: read for read in shown.retrievals},
    }
    return Page(template="trace.html", facts=facts)


def compare(visit: Visit) -> Page:
    """Two runs side by side."""
    folder = _folder(visit)
    left, right = visit.words.get("left", ""), visit.words.get("right", "")
    listed = [line.trace for line in map(_line, _newest_first(folder)[:CONSOLE_PAGE_ITEMS]) if line.trace]
    facts: dict[str, Any] = {"left": left, "right": right, "choices": listed, "sides": None}
    if left and right:
        texts = [_text(folder, _run_id(visit, side)) for side in ("left", "right")]
        facts["sides"] = _side_by_side(texts[0], texts[1])
    return Page(template="compare.html", facts=facts)


def _folder(visit: Visit) -> TraceFolder:
    folder = visit.enter_house().traces
    if folder is None:
        raise NotFound(what='folder of traces; name one in the settings: traces = "traces"')
    return folder


def _run_id(visit: Visit, name: str) -> str:
    run_id = visit.words.get(name, "")
    if not 0 < len(run_id) <= MAX_NAME_CHARS:
        raise NotFound(what=f"trace of a run {run_id!r:.80}")
    return run_id


def _text(folder: TraceFolder, run_id: str) -> bytes:
    try:
        return read_artifact(folder.file_of(run_id))
    except TraceFolderFailed:
        raise NotFound(what=f"trace of a run {run_id!r:.80}") from None


def _side_by_side(left_text: bytes, right_text: bytes) -> SideBySide:
    told = compare_artifacts(left_text, right_text)
    sides = SideBySide(told)
    left, right = _read(left_text), _read(right_text)
    if left is None or right is None:
        return sides
    for name in ("workflow_id", "model_config_id", "policy_set_id", "memory_snapshot_id", "visibility_mode"):
        sides.envelope.append(_pair(told, name, getattr(left, name), getattr(right, name), None))
    for index in range(max(len(left.events), len(right.events))):
        sides.events.append(
            _pair(told, f"event {index}", _at(left, index), _at(right, index), index),
        )
    if left.output is not None or right.output is not None:
        sides.output = _pair(told, "output", left.output, right.output, None)
    return sides


def _pair(told: Comparison, name: str, left: Any, right: Any, index: int | None) -> Pair:
    own = tuple(
        one
        for one in told.differences
        if one.event_index == index
        and (index is not None or (one.place == name if name != "output" else one.place.startswith("output")))
    )
    return Pair(name, left, right, own, is_first=told.first is not None and told.first in own)


def _read(text: bytes) -> Trace | None:
    try:
        return Trace.read(text)
    except TraceError:
        return None


def _at(side: Trace, index: int) -> Event | None:
    return side.events[index] if index < len(side.events) else None
