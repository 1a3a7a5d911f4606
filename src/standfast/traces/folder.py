"""A folder of trace artifacts: one file per run, written atomically and kept for at least fourteen days.

A run that goes on has a journal in its subfolder ``open``: what its recorder notes, line by line. A run that
ends stores its trace and removes its journal. A journal whose process is gone becomes a trace with the gap
``killed``, from which no claim is made. The owner holds a lock on the file, which the system releases when
the process ends.
"""

import fcntl
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import msgspec
import orjson

from standfast.clock import IdSource, RandomIds
from standfast.durable import sync_folder, write_new
from standfast.errors import TraceError, TraceFolderFailed
from standfast.limits import DEFAULT_TRACES_BYTES, MAX_TRACE_BYTES, MIN_TRACE_RETENTION_DAYS
from standfast.records.canon import CanonicalPart, canonical_bytes, fingerprint, utc_text
from standfast.records.conversion import converted, decoded
from standfast.records.vocabulary import RunIdentity
from standfast.side_files import SideFiles
from standfast.traces.artifact import ModelConfig, ToolProfile, Trace
from standfast.traces.recording import RUN_FAILED, CallDraft, EventDraft, Lane, Recording

_OPEN: Final = "open"
_SUFFIX: Final = ".json"
_COMPRESSED_SUFFIX: Final = ".json.gz"
_GZIP_BITS: Final = 16 + zlib.MAX_WBITS
_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{32}\.part")
_PLAIN_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,99}")
_NAME_CHARS: Final = 100
KILLED: Final = "killed"
_JOURNAL_SUFFIX: Final = ".jsonl"
_PROBLEM: Final = (
    "the process ended before the run's trace was finished; its receipt says whether the run was committed"
)


class TraceJournal:
    """Appends lines to a file of its own, made with the first line. Failures never reach the run."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._file: Path | None = None
        self._descriptor: int | None = None
        self._has_failed = False

    def append(self, lines: Iterable[Sequence[object]]) -> None:
        """Write lines. They survive the process, but perhaps not the machine, because they are not synced."""
        if self._has_failed:
            return
        try:
            descriptor = self._descriptor if self._descriptor is not None else self._create()
            os.write(descriptor, b"".join([orjson.dumps(line) + b"\n" for line in lines]))
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
            file = self._folder / f"{self._name}.{number}{_JOURNAL_SUFFIX}"
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
    """Yield the journals whose process is gone, each with its trace, or None if it holds no run.

    The caller removes them.

    While one is yielded it is locked, so that two processes never take the same one.
    """
    try:
        files = sorted(file for file in folder.iterdir() if file.name.endswith(_JOURNAL_SUFFIX))
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
            run=converted(run, RunIdentity),
            model=None if model is None else converted(model, ModelConfig),
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
    return decoded(recording.finish(finished_at=finished_at), Trace)


def _repeat(recording: Recording, events: dict[int, EventDraft], noted: str, fields: list[Any]) -> None:
    """Record again what a line says."""
    match noted, fields:
        case "event", [number, role, interceptor, decision, *closed]:
            events[number] = EventDraft(role=role, interceptor=interceptor, decision_type=decision)
            # Journals of earlier versions say so in a line of its own.
            events[number].closed = closed == [True]
            recording.root.items.append(events[number])
        case "closed", [number, decision]:
            events[number].decision_type = decision
            events[number].closed = True
        case "profile", [profile]:
            tool = converted(profile, ToolProfile)
            recording.profiles[tool.tool_name] = tool
        case "call", [number, entry]:
            call = CallDraft(events[number], recording.profiles[entry["tool_name"]], None)
            call.entry = CanonicalPart(canonical_bytes(entry, limit_bytes=MAX_TRACE_BYTES))
            events[number].calls.append(call)
        case "retrieval", [number, entry]:
            events[number].retrievals.append(entry)
        case "guardrail", [number, name]:
            events[number].guardrails.add(name)
        case "output", [output]:
            recording.output = output
        case _:
            raise ValueError(noted)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSweep:
    """The names of the files that a sweep removed, or would remove, and the number of files that stay."""

    removed: tuple[str, ...]
    kept: int


class TraceFolder:
    """Stores artifacts, by default as ``<run_id>.json``. Any number of processes may use one folder at once.

    Args:
        retention_days: After how many days ``expire`` removes a trace; at least fourteen.
        max_bytes: How much the folder may hold. When it is full, traces past the retention period are
            removed; if there are none, new ones are not stored.
        synced: Whether a stored trace survives a power cut. Without it, a trace survives the death of its
            process only.
        only_named_runs: Whether runs that ``Memory.run`` opened are stored, but not single calls such as
            ``memory.remember``.
        compressed: Whether traces are stored as ``<run_id>.json.gz``, in about a twentieth of the bytes.
            Either form is read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ids: IdSource,
        retention_days: float = MIN_TRACE_RETENTION_DAYS,
        max_bytes: int = DEFAULT_TRACES_BYTES,
        synced: bool = True,
        only_named_runs: bool = False,
        compressed: bool = False,
    ) -> None:
        _check_retention(retention_days)
        self.path = Path(path)
        self.only_named_runs = only_named_runs
        self._ids = ids
        self._retention_days = retention_days
        self._max_bytes = max_bytes
        self._synced = synced
        self._suffix = _COMPRESSED_SUFFIX if compressed else _SUFFIX
        self._bytes: int | None = None

    @classmethod
    def for_store(
        cls,
        url: str,
        *,
        retention_days: float = MIN_TRACE_RETENTION_DAYS,
        max_bytes: int = DEFAULT_TRACES_BYTES,
    ) -> Self | None:
        """The folder that a store's traces are in by default, among its side files.

        It has its own ids, so that tracing changes nothing about a run. A store in memory has none.
        """
        if (files := SideFiles.of(url)) is None:
            return None
        return cls(
            files.traces,
            ids=RandomIds(),
            retention_days=retention_days,
            max_bytes=max_bytes,
            synced=False,
            only_named_runs=True,
            compressed=True,
        )

    def journal(self, run_id: str) -> TraceJournal:
        """The journal of a run that begins. Its file is created with the first line."""
        return TraceJournal(self.path / _OPEN, self.file_of(run_id).name.removesuffix(self._suffix))

    def recover(self, *, is_wanted: Callable[[Trace], bool] = lambda _: True) -> int:
        """Store the traces of runs whose process was killed. Returns how many there were.

        Args:
            is_wanted: Those that are not are dropped. See ``keep``.
        """
        recovered = 0
        for file, trace in abandoned(self.path / _OPEN):
            try:
                if trace is not None:
                    recovered += self._put_wanted(trace, None, partial(is_wanted, trace))
            except TraceFolderFailed:
                continue
            except TraceError:
                # The run's own trace was stored already, or that of a later attempt; or the folder is full.
                pass
            with suppress(OSError):
                file.unlink(missing_ok=True)
        return recovered

    def put(self, trace: Trace, text: bytes | None = None) -> Path:
        """Store a trace, whose text may be known already, and return its file.

        Storing it again changes nothing. That of an attempt that was killed is replaced, and that of one that
        failed if the new one is of the same workflow in the same mode.

        Raises:
            TraceError: The folder holds a different trace of the same run, or as much as it may.
        """
        file = self.file_of(trace.run_id)
        text = text or trace.as_bytes()
        stored = text if self._suffix == _SUFFIX else _compressed(text)
        self._require_room(len(stored), now=datetime.fromisoformat(trace.metadata.finished_at))
        unfinished = self.path / f".{self._ids.new_id()}.part"
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                write_new(unfinished, stored, mode=0o600, synced=self._synced)
                self._name(unfinished, file, trace, text)
            finally:
                unfinished.unlink(missing_ok=True)
            if self._synced:
                sync_folder(self.path)
        except OSError as error:
            raise _failed(file, error) from error
        return file

    def _name(self, unfinished: Path, file: Path, trace: Trace, text: bytes) -> None:
        """Give the new file its name, unless a trace of the run has it."""
        try:
            # A link, unlike a rename, never replaces another file.
            os.link(unfinished, file)
        except FileExistsError:
            known = read_artifact(file)
            if known == text:
                return
            if not _replaces(trace, known):
                raise TraceError("trace_exists", file=str(file)) from None
            unfinished.replace(file)
        self._bytes = (self._bytes or 0) + file.stat().st_size

    def _require_room(self, more_bytes: int, *, now: datetime) -> None:
        """Make sure that a trace fits.

        The size is counted when a process stores its first trace, and again when it is full.
        """
        if self._bytes is None:
            self._bytes = self._counted_bytes()
        if self._bytes + more_bytes > self._max_bytes:
            self.expire(now=now)
            self._bytes = self._counted_bytes()
            if self._bytes + more_bytes > self._max_bytes:
                raise TraceError("trace_folder_full", folder=str(self.path), max_bytes=self._max_bytes)

    def _counted_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.run_files())

    def keep(
        self,
        trace: Trace,
        text: bytes,
        journal: TraceJournal | None,
        *,
        replayed: bool,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> TraceError | None:
        """Store the trace of a run that has ended, and remove its journal.

        Returns what went wrong, if anything did.

        Args:
            replayed: Whether the run repeated one that was committed before, whose trace then stays.
            is_wanted: Whether it is to be stored. Asked again when it is: whoever makes it unwanted first
                says so, and then looks for it here, so that one of the two sees the other.
        """
        problem: TraceError | None = None
        try:
            self._put_wanted(trace, text, is_wanted)
        except TraceError as error:
            problem = None if replayed and error.code == "trace_exists" else error
        if journal is not None and not isinstance(problem, TraceFolderFailed):
            journal.remove()
        # If the folder failed, the journal stays: it may be usable when the next process looks.
        return problem

    def _put_wanted(self, trace: Trace, text: bytes | None, is_wanted: Callable[[], bool]) -> bool:
        """Store a trace if it is wanted, before and after. Returns whether it is."""
        if not is_wanted():
            return False
        file = self.put(trace, text)
        if is_wanted():
            return True
        file.unlink(missing_ok=True)
        return False

    def get(self, run_id: str) -> Trace:
        """Return the verified trace of a run. Raises a ``TraceError`` if it is missing or was changed."""
        own = self.file_of(run_id)
        name = own.name.removesuffix(self._suffix)
        stored = [own.with_name(name + suffix) for suffix in (_SUFFIX, _COMPRESSED_SUFFIX)]
        return Trace.read(read_artifact(next((file for file in (own, *stored) if file.exists()), own)))

    def run_files(self) -> Iterator[Path]:
        """Yield the files of all traces, by name."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.path) if entry.is_file())
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failed(self.path, error) from error
        yield from (
            self.path / name
            for name in names
            if name.endswith((_SUFFIX, _COMPRESSED_SUFFIX)) and name[0] != "."
        )

    def readable(
        self, *, holding: bytes = b"", seen: set[tuple[Path, int, int]] | None = None
    ) -> Iterator[tuple[Path, Trace]]:
        """Yield the traces that can be read, each with its file, by file name.

        Args:
            holding: Pass over those whose text lacks these bytes, which is much quicker than reading them.
            seen: Pass over these files, as they were, and note all others.
        """
        for file in self.run_files():
            with suppress(TraceError, FileNotFoundError):
                if seen is not None:
                    state = file.stat()
                    if (known := (file, state.st_ino, state.st_mtime_ns)) in seen:
                        continue
                    seen.add(known)
                text = read_artifact(file)
                if holding in text:
                    yield file, Trace.read(text)

    def expire(self, *, now: datetime, rehearse: bool = False) -> TraceSweep:
        """Remove the traces that are past the folder's retention period; see ``sweep``."""
        return self.sweep(now=now, older_than_days=self._retention_days, rehearse=rehearse)

    def sweep(self, *, now: datetime, older_than_days: float, rehearse: bool = False) -> TraceSweep:
        """Remove traces older than ``older_than_days`` (at least fourteen), and leftovers of crashed writers.

        The age of a trace is that of its run's end or of its file, whichever is younger; if it can't be read,
        that of its file. With ``rehearse=True`` nothing is removed.
        """
        _check_retention(older_than_days)
        # The calendar ends at year 1; nothing is older than that.
        oldest = now - timedelta(days=min(older_than_days, now.toordinal() - 1))
        files = list(self.run_files())
        old = [file for file in files if _written_at(file) < oldest and _finished_at(file) < oldest]
        parts = [file for file in self._unfinished() if _written_at(file) < oldest]
        if not rehearse:
            for file in [*old, *parts]:
                file.unlink(missing_ok=True)
        return TraceSweep(removed=tuple(file.name for file in [*old, *parts]), kept=len(files) - len(old))

    def file_of(self, run_id: str) -> Path:
        """Return the file of a run's trace. Ids that are not safe file names on every system are encoded."""
        if _PLAIN_NAME.fullmatch(run_id):
            return self.path / f"{run_id}{self._suffix}"
        readable = quote(run_id, safe="").replace("%", "~")[: _NAME_CHARS - 17]
        return self.path / f"~{readable}-{fingerprint(run_id)[:16]}{self._suffix}"

    def _unfinished(self) -> Iterator[Path]:
        yield from (file for file in self.path.glob(".*.part") if _UNFINISHED.fullmatch(file.name))


def _check_retention(days: float) -> None:
    if not days >= MIN_TRACE_RETENTION_DAYS:
        raise TraceError("retention_too_short", least_days=MIN_TRACE_RETENTION_DAYS, asked_days=days)


# How far a run got.
_KILLED, _FAILED, _ENDED = range(3)


def _replaces(trace: Trace, known: bytes) -> bool:
    """Whether a trace is of an attempt after the known one, which was killed or failed.

    A failed one gives way to an attempt of the same run only: of the same workflow, in the same mode. That
    attempt may fail too.
    """
    try:
        before = Trace.read(known)
    except TraceError:
        return False
    if _progress(before) == _KILLED:
        return _progress(trace) > _KILLED
    is_same = (trace.workflow_id, trace.visibility_mode) == (before.workflow_id, before.visibility_mode)
    return is_same and _progress(before) == _FAILED and _progress(trace) >= _FAILED


def _progress(trace: Trace) -> int:
    """How far the run of a trace got."""
    gaps = {gap.code for gap in trace.metadata.gaps}
    return _KILLED if KILLED in gaps else _FAILED if RUN_FAILED in gaps else _ENDED


def _compressed(text: bytes) -> bytes:
    """A text in the format of gzip, without a time or name: the same bytes for the same text."""
    deflate = zlib.compressobj(wbits=_GZIP_BITS)
    return deflate.compress(text) + deflate.flush()


def read_artifact(file: Path) -> bytes:
    """Read an artifact's file, compressed or not, at most one byte more than an artifact may have, which
    shows that it is too large. What can't be expanded is returned as it is, and is no artifact.
    """
    try:
        with file.open("rb") as opened:
            stored = opened.read(MAX_TRACE_BYTES + 1)
    except OSError as error:
        raise _failed(file, error) from error
    if not file.name.endswith(_COMPRESSED_SUFFIX):
        return stored
    inflate = zlib.decompressobj(_GZIP_BITS)
    try:
        text = inflate.decompress(stored, MAX_TRACE_BYTES + 1)
    except zlib.error:
        return stored
    return text if inflate.eof or len(text) > MAX_TRACE_BYTES else stored


def _written_at(file: Path) -> datetime:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, tz=UTC)
    except FileNotFoundError:
        # Another sweep removed the file first.
        return datetime.max.replace(tzinfo=UTC)
    except OSError as error:
        raise _failed(file, error) from error


def _finished_at(file: Path) -> datetime:
    try:
        return datetime.fromisoformat(Trace.read(read_artifact(file)).metadata.finished_at)
    except (TraceError, ValueError):
        return datetime.min.replace(tzinfo=UTC)


def _failed(file: Path, error: OSError) -> TraceFolderFailed:
    return TraceFolderFailed(file=str(file), problem=error.strerror or str(error))
