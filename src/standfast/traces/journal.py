"""The journal of a run that goes on: what its recorder notes, line by line, so that a killed process leaves a trace too.

A run that ends stores its trace and removes its journal. A journal whose process is gone becomes a trace with the gap ``killed``, from
which no claim is made. The owner holds a lock on the file, which the system releases when the process ends.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from standfast.canon import utc_text
from standfast.limits import MAX_TRACE_BYTES
from standfast.traces.artifact import ModelConfig, ToolProfile, Trace
from standfast.traces.recording import CallDraft, EventDraft, Lane, Recording
from standfast.vocabulary import RunIdentity

KILLED: Final = "killed"
_SUFFIX: Final = ".jsonl"
_PROBLEM: Final = (
    "the process ended before the run's trace was finished; its receipt says whether the run was committed"
)


class TraceJournal:
    """Appends lines to a file of its own. The file is created with the first line; failures never reach the run."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._file: Path | None = None
        self._descriptor: int | None = None
        self._has_failed = False

    def append(self, *line: object) -> None:
        """Write one line. It survives the process, but perhaps not the machine, because it is not synced."""
        if self._has_failed:
            return
        try:
            descriptor = self._descriptor if self._descriptor is not None else self._create()
            os.write(descriptor, orjson.dumps(line) + b"\n")
        except (OSError, orjson.JSONEncodeError):
            # A journal with a hole would tell less than none; the trace at the run's end has everything.
            self.remove()
            self._has_failed = True

    def remove(self) -> None:
        """Remove the file: the trace is stored, or the run is not to leave one."""
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Close the file and leave it. Whoever looks next takes the run for killed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._file = self._descriptor = None

    def _create(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = 0
        while True:
            file = self._folder / f"{self._name}.{number}{_SUFFIX}"
            number += 1
            with suppress(FileExistsError):
                descriptor = os.open(
                    file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
                )
                if _is_locked_now(descriptor) and _is_still(file, descriptor):
                    self._file, self._descriptor = file, descriptor
                    return descriptor
                # A process that looks for the killed was quicker.
                os.close(descriptor)

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()


def abandoned(folder: Path) -> Iterator[tuple[Path, Trace | None]]:
    """Yield the journals whose process is gone, each with its trace, or None if it holds no run. The caller removes them.

    While one is yielded it is locked, so that two processes never take the same one.
    """
    try:
        files = sorted(file for file in folder.iterdir() if file.name.endswith(_SUFFIX))
    except OSError:
        return
    for file in files:
        with suppress(OSError), file.open("rb") as opened:
            if _is_locked_now(opened.fileno()) and _is_still(file, opened.fileno()):
                last = datetime.fromtimestamp(os.fstat(opened.fileno()).st_mtime, UTC)
                yield file, _trace_of(opened.read(2 * MAX_TRACE_BYTES), finished_at=utc_text(last))


def _is_locked_now(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(file: Path, descriptor: int) -> bool:
    """Whether the file was not removed meanwhile, or replaced."""
    try:
        return file.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _trace_of(text: bytes, *, finished_at: str) -> Trace | None:
    """Build the trace from a journal's lines, up to the first that is torn or foreign."""
    lines = text.split(b"\n")
    try:
        kind, run, model, started_at, limit_bytes = orjson.loads(lines[0])
        recording = Recording(
            run=msgspec.convert(run, RunIdentity),
            model=None if model is None else msgspec.convert(model, ModelConfig),
            root=Lane(object(), threading.RLock()),
            started_at=started_at,
            limit_bytes=limit_bytes,
        )
    except (ValueError, TypeError, msgspec.ValidationError):
        return None
    if kind != "run":
        return None
    events: dict[int, EventDraft] = {}
    for line in lines[1:-1]:
        try:
            noted, *fields = orjson.loads(line)
            _repeat(recording, events, noted, fields)
        except (ValueError, TypeError, KeyError, msgspec.ValidationError):
            break
    recording.gap(KILLED, None, _PROBLEM)
    return recording.finish(finished_at=finished_at)


def _repeat(recording: Recording, events: dict[int, EventDraft], noted: str, fields: list[Any]) -> None:
    """Record again what a line says."""
    match noted, fields:
        case "event", [number, role, interceptor, decision]:
            events[number] = EventDraft(role=role, interceptor=interceptor, decision_type=decision)
            recording.root.items.append(events[number])
        case "closed", [number, decision]:
            events[number].decision_type = decision
            events[number].closed = True
        case "profile", [profile]:
            tool = msgspec.convert(profile, ToolProfile)
            recording.profiles[tool.tool_name] = tool
        case "call", [number, entry]:
            call = CallDraft(events[number], recording.profiles[entry["tool_name"]], None)
            call.entry = entry
            events[number].calls.append(call)
        case "retrieval", [number, entry]:
            events[number].retrievals.append(entry)
        case "guardrail", [number, name]:
            events[number].guardrails.add(name)
        case "output", [output]:
            recording.output = output
        case _:
            raise ValueError(noted)
