"""Exchanges: what an agent was asked and answered, read from traces, and the grades that people give them.

``MainLoop`` records an exchange in the trace of every request, without secrets. Graded exchanges become
samples: ``Dataset.from_traces``.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.durable import sync_folder, write_new
from standfast.errors import StandfastError
from standfast.optimize.errors import EvalError
from standfast.records.canon import canonical_bytes, parse
from standfast.records.vocabulary import Value
from standfast.traces.artifact import ToolProfile, Trace

# What was asked and answered is stored, and only the prompt is compared: a digest says which text it was.
EXCHANGE: Final = ToolProfile(
    tool_name="agent.exchange",
    tool_profile_version="exchange-v1",
    normalized_args_fields=("workflow",),
    tool_result_fields=("prompt_digest",),
)


class Exchange(Value, frozen=True, kw_only=True):
    """One request to an agent and its answer.

    Args:
        experiment: The id of the experiment that the request belonged to; None for a request of a user.
    """

    run_id: str
    workflow: str
    input: Any
    output: str
    truncated: bool = False
    prompt_digest: str
    scope: str
    session: str | None = None
    speaker: str | None = None
    experiment: str | None = None


class Grade(Value, frozen=True, kw_only=True):
    """What somebody thinks of an answer.

    Args:
        good: Whether the answer is as it should be.
        expected: What it should have been; without it, a good answer is what is expected.
        by: Who graded.
    """

    run_id: str
    good: bool
    by: str
    expected: Any = None
    note: str = ""

    def __post_init__(self) -> None:
        self._require_name("run_id", self.run_id)
        self._require_name("by", self.by)


Grades = Mapping[str, Grade] | Callable[[Exchange], Grade | None]
"""Grades by run id, or a function that grades an exchange, or returns None to leave it out."""


def exchanges_of(traces: Iterable[Trace]) -> list[Exchange]:
    """Return the exchanges in traces, ordered by run id. Those of experiments are left out."""
    found = []
    for trace in traces:
        for event in trace.events:
            for call in event.tool_calls:
                if call.tool_name == EXCHANGE.tool_name and isinstance(call.result, dict):
                    plain = {**call.result, "run_id": trace.run_id, "workflow": trace.workflow_id}
                    found.append(Exchange.from_json(plain))
    return sorted((one for one in found if one.experiment is None), key=lambda one: one.run_id)


def expected_of(exchange: Exchange, grades: Grades) -> Any:
    """Return what a graded exchange expects; None if it is not graded, or bad without a correction.

    Nobody should expect half an answer, so one that was cut off needs a correction as well.
    """
    grade = grades(exchange) if callable(grades) else grades.get(exchange.run_id)
    if grade is None:
        return None
    whole = grade.good and not exchange.truncated
    return exchange.output if grade.expected is None and whole else grade.expected


class GradeBook:
    """Grades in a file, one JSON object a line. The last grade of a run counts.

    A grade that was added is on disk. Several processes may add to one file.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._file, self._lock = Path(file), threading.Lock()

    def add(self, grade: Grade) -> None:
        """Append a grade."""
        line = canonical_bytes(grade.as_json()) + b"\n"
        with self._locked(), self._file.open("ab") as file:
            # A line that a crash cut off was never acknowledged, and must not take this one along.
            file.truncate(self._file.read_bytes().rfind(b"\n") + 1)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def prune(self, has_trace: Callable[[str], bool]) -> int:
        """Remove the grades of runs that have no trace any more, because it was erased or has expired; return
        how many runs that were.

        Args:
            has_trace: Whether the trace of this run is there.
        """
        with self._locked():
            kept = {run: grade for run, grade in self.grades().items() if has_trace(run)}
            gone = len(self.grades()) - len(kept)
            if gone:
                unfinished = self._file.with_name(f".{self._file.name}.unfinished")
                unfinished.unlink(missing_ok=True)
                lines = [canonical_bytes(grade.as_json()) + b"\n" for grade in kept.values()]
                write_new(unfinished, b"".join(lines))
                unfinished.replace(self._file)
                sync_folder(self._file.parent)
        return gone

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Be the only one who changes the file, on this machine."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, self._file.with_name(f".{self._file.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def grades(self) -> dict[str, Grade]:
        """Return the last grade of each run. A line that was cut off by a crash is left out."""
        try:
            content = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        found: dict[str, Grade] = {}
        lines = content.split(b"\n")
        for number, line in enumerate(lines[:-1], 1):
            try:
                grade = Grade.from_json(parse(line))
            except (StandfastError, msgspec.MsgspecError) as error:
                raise EvalError(
                    "invalid_dataset", dataset=str(self._file), problem=f"line {number}: {error}"
                ) from None
            found[grade.run_id] = grade
        return found
