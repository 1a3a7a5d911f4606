"""The console's page on which people grade what the agent answered.

Graded answers become samples: ``standfast optimize dataset``, or ``Dataset.from_traces``.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from standfast.errors import InvalidSettings, InvalidValue, NotFound, TraceError
from standfast.limits import MAX_NAME_CHARS
from standfast.optimize.evals.exchanges import Exchange, Grade, GradeBook, exchanges_of
from standfast.optimize.loops.agent import without_secrets
from standfast.optimize.prompts.template import as_text
from standfast.optimize.settings import PromptSettings
from standfast.settings import Settings
from standfast.traces.artifact import Trace
from standfast.traces.folder import TraceFolder, read_artifact

SHOWN_EXCHANGES: Final = 20
# A page opens so many traces at most, because most may be of evaluations, or graded already.
OPENED_TRACES: Final = 400
MAX_GRADE_CHARS: Final = 20_000


@dataclass(frozen=True, slots=True)
class GradedExchange:
    """What was asked and answered, and what somebody thinks of it."""

    exchange: Exchange
    asked: str
    grade: Grade | None
    expected: str


def grades_page(settings: Settings, query: Mapping[str, str], traces: TraceFolder | None) -> dict[str, Any]:
    """What the agent answered, newest first; with ``open=1`` only what nobody graded.

    ``begin`` is the number of traces to pass over.
    """
    own = settings.section(PromptSettings)
    only_open, begin = query.get("open") == "1", _begin(query)
    context = {"grades_at": own.grades, "only_open": only_open, "begin": begin}
    if traces is None or not own.grades:
        return {**context, "shown": None, "graded": 0, "older": None}
    grades = GradeBook(own.grades).grades()
    files = _newest_first(traces)
    shown: list[GradedExchange] = []
    passed = begin
    for file in files[begin : begin + OPENED_TRACES]:
        if len(shown) >= SHOWN_EXCHANGES:
            break
        passed += 1
        with suppress(TraceError):
            found = exchanges_of([Trace.read(read_artifact(file))])
            shown += [_graded(one, grades) for one in found if not only_open or one.run_id not in grades]
    older = passed if passed < len(files) else None
    return {**context, "shown": shown, "graded": len(grades), "older": older}


def take_grade(
    settings: Settings, form: Mapping[str, str], traces: TraceFolder | None, by: str
) -> dict[str, Any]:
    """Store a grade of a recorded answer, without secrets.

    Grades of runs whose traces are gone are removed with it, so that an erasure reaches them.
    """
    own = settings.section(PromptSettings)
    if traces is None or not own.grades:
        raise InvalidSettings(
            name="prompts.grades", source="settings", problem="set it, and a folder for traces, to grade here"
        )
    if form.get("good") not in ("yes", "no"):
        raise InvalidValue(what="grade", problem="choose whether the answer is as it should be")
    run_id, expected, note = (form.get(name, "").strip() for name in ("run", "expected", "note"))
    if len(expected) > MAX_GRADE_CHARS or len(note) > MAX_GRADE_CHARS:
        raise InvalidValue(what="grade", problem=f"a text has more than {MAX_GRADE_CHARS} characters")
    if not (0 < len(run_id) <= MAX_NAME_CHARS and traces.file_of(run_id).is_file()):
        raise NotFound(what=f"trace of a run {run_id!r:.80}")
    if not exchanges_of([traces.get(run_id)]):
        raise NotFound(what=f"answer in the trace of run {run_id!r:.80}")
    book = GradeBook(own.grades)
    book.add(
        Grade(
            run_id=run_id,
            good=form["good"] == "yes",
            by=by,
            expected=without_secrets(expected) if expected else None,
            note=without_secrets(note),
        )
    )
    book.prune(lambda run: traces.file_of(run).is_file())
    return {"open": form.get("open") or None, "begin": form.get("begin") or None}


def _graded(exchange: Exchange, grades: Mapping[str, Grade]) -> GradedExchange:
    grade = grades.get(exchange.run_id)
    expected = "" if grade is None or grade.expected is None else as_text(grade.expected)
    asked = exchange.input
    if not isinstance(asked, str):
        asked = json.dumps(asked, ensure_ascii=False, indent=2)
    return GradedExchange(exchange, asked, grade, expected)


def _begin(query: Mapping[str, str]) -> int:
    begin = query.get("begin") or "0"
    if not (begin.isascii() and begin.isdigit() and len(begin) <= 9):
        raise InvalidValue(what="begin", problem="it must be a number of traces")
    return int(begin)


def _newest_first(traces: TraceFolder) -> list[Path]:
    """Return the files of traces by the time of their change, then by name."""
    dated = []
    for file in traces.run_files():
        with suppress(OSError):  # It was removed meanwhile.
            dated.append((-file.stat().st_mtime_ns, file.name, file))
    return [file for _, _, file in sorted(dated)]
