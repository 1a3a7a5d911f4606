"""A folder of artifacts: one file a run, written whole or not at all, and kept for at least fourteen days."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

from standfast.canon import fingerprint
from standfast.clock import IdSource
from standfast.durable import sync_folder, write_new
from standfast.errors import RetentionTooShort, TraceError, TraceExists, TraceFolderFailed
from standfast.limits import MAX_TRACE_BYTES, MIN_TRACE_RETENTION_DAYS
from standfast.traces.artifact import Trace

_SUFFIX: Final = ".json"
_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{32}\.part")
_PLAIN_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,99}")
_NAME_CHARS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a sweep has removed, or would remove, by file name, and how many files stay."""

    removed: tuple[str, ...]
    kept: int


class TraceFolder:
    """Keeps artifacts as ``<run_id>.json``. Any number of processes may use one folder at once."""

    def __init__(self, path: str | os.PathLike[str], *, ids: IdSource) -> None:
        self.path = Path(path)
        self._ids = ids

    def put(self, trace: Trace) -> Path:
        """Keep a trace durably; keeping it again changes nothing. Raises ``TraceExists`` if the run has another."""
        file = self.file_of(trace.run_id)
        text = trace.as_bytes()
        unfinished = self.path / f".{self._ids.new_id()}.part"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                write_new(unfinished, text)
                # A link, unlike a rename, never takes the place of another file.
                os.link(unfinished, file)
            finally:
                unfinished.unlink(missing_ok=True)
            sync_folder(self.path)
        except FileExistsError:
            if read_artifact(file) != text:
                raise TraceExists(file=str(file)) from None
        except OSError as error:
            raise _failed(file, error) from error
        return file

    def get(self, run_id: str) -> Trace:
        """The trace of a run, verified. Raises a ``TraceError`` if it is not there, or not as it was written."""
        return Trace.read(read_artifact(self.file_of(run_id)))

    def run_files(self) -> Iterator[Path]:
        """The files of all traces, by name."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.path) if entry.is_file())
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failed(self.path, error) from error
        yield from (self.path / name for name in names if name.endswith(_SUFFIX) and name[0] != ".")

    def sweep(self, *, now: datetime, older_than_days: float, rehearse: bool = False) -> Sweep:
        """Remove what is older than so many days, which are at least fourteen, and what crashed writers left.

        A trace is as old as its run's end or its file, whichever is younger; one that can't be read, as its file.
        """
        if not older_than_days >= MIN_TRACE_RETENTION_DAYS:
            raise RetentionTooShort(least_days=MIN_TRACE_RETENTION_DAYS, asked_days=older_than_days)
        # Beyond the calendar's reach nothing is that old.
        oldest = now - timedelta(days=min(older_than_days, now.toordinal() - 1))
        files = list(self.run_files())
        old = [file for file in files if _written_at(file) < oldest and _finished_at(file) < oldest]
        parts = [file for file in self._unfinished() if _written_at(file) < oldest]
        if not rehearse:
            for file in [*old, *parts]:
                file.unlink(missing_ok=True)
        return Sweep(removed=tuple(file.name for file in [*old, *parts]), kept=len(files) - len(old))

    def file_of(self, run_id: str) -> Path:
        """Where the trace of a run is kept. Ids that are no safe file names, on any system, are written otherwise."""
        if _PLAIN_NAME.fullmatch(run_id):
            return self.path / f"{run_id}{_SUFFIX}"
        readable = quote(run_id, safe="").replace("%", "~")[: _NAME_CHARS - 17]
        return self.path / f"~{readable}-{fingerprint(run_id)[:16]}{_SUFFIX}"

    def _unfinished(self) -> Iterator[Path]:
        yield from (file for file in self.path.glob(".*.part") if _UNFINISHED.fullmatch(file.name))


def read_artifact(file: Path) -> bytes:
    """The text of an artifact's file; one byte more than an artifact may have is enough to see that it is too large."""
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_TRACE_BYTES + 1)
    except OSError as error:
        raise _failed(file, error) from error


def _written_at(file: Path) -> datetime:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, tz=UTC)
    except FileNotFoundError:
        # Another sweep was faster; a file that is gone need not be removed.
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
