"""Recorded runs: which there are, one of them, and two of them compared.

A trace does not say whose memory its run read, and may hold what it read there; so that traces are for those who answer
for the whole store.
"""

from collections.abc import Iterator

from standfast.errors import NotConfigured, NotFound, TraceError, TraceFolderFailed
from standfast.limits import MAX_NAME_CHARS
from standfast.server.access.table import Act, Caller
from standfast.server.operations.beside.shapes import AskedComparison, AskedTraces, TraceLine, TracesPage
from standfast.server.operations.hall import Hall
from standfast.server.operations.pages import page_of, place_of
from standfast.traces.artifact import Trace
from standfast.traces.equivalence import Comparison, compare_artifacts
from standfast.traces.folder import TraceFolder, read_artifact


def list_traces(hall: Hall, caller: Caller, asked: AskedTraces) -> TracesPage:
    """The runs that left a trace, by the names of their files. What a page may have to read is bounded like a page."""
    folder = _folder(hall, caller)
    after = "" if asked.cursor is None else place_of(asked.cursor, str)
    page, further = page_of(
        _lines(folder, after),
        limit=asked.limit,
        size=lambda line: line.size_bytes,
        place=lambda line: line.file,
    )
    return TracesPage(traces=page, next=further)


def _lines(folder: TraceFolder, after: str) -> Iterator[TraceLine]:
    for file in folder.run_files():
        if file.name <= after:
            continue
        size_bytes = 0
        try:
            text = read_artifact(file)
            size_bytes = len(text)
            trace = Trace.read(text)
        except TraceError as error:
            # Its words would name a path of the server's.
            yield TraceLine(file=file.name, size_bytes=size_bytes, problem=error.code)
            continue
        yield TraceLine(
            file=file.name,
            size_bytes=size_bytes,
            run_id=trace.run_id,
            workflow_id=trace.workflow_id,
            memory_snapshot_id=trace.memory_snapshot_id,
            started_at=trace.metadata.started_at,
            finished_at=trace.metadata.finished_at,
            events=len(trace.events),
            complete=trace.metadata.complete,
            artifact_hash=trace.artifact_hash,
        )


def get_trace(hall: Hall, caller: Caller, run_id: str) -> Trace:
    """The trace of a run, verified."""
    return Trace.read(_text(_folder(hall, caller), run_id))


def compare_traces(hall: Hall, caller: Caller, asked: AskedComparison) -> Comparison:
    """Whether two runs did the same, or every difference. A damaged side makes the claim rejected."""
    folder = _folder(hall, caller)
    return compare_artifacts(_text(folder, asked.left), _text(folder, asked.right))


def _folder(hall: Hall, caller: Caller) -> TraceFolder:
    folder = hall.enter_store(caller, Act.READ_TRACES).traces
    if folder is None:
        raise NotConfigured(what="folder of traces", setting="traces")
    return folder


def _text(folder: TraceFolder, run_id: str) -> bytes:
    file = folder.file_of(run_id)
    if len(run_id) > MAX_NAME_CHARS or not file.is_file():
        raise NotFound(what=f"trace of a run {run_id!r:.80}")
    try:
        return read_artifact(file)
    except TraceFolderFailed:
        # A sweep may have taken it meanwhile; what else it is, the next look tells.
        if file.is_file():
            raise
        raise NotFound(what=f"trace of a run {run_id!r:.80}") from None
