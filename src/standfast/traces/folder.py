"""A folder of trace artifacts: one file per run, written atomically and kept for at least fourteen days."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
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
class TraceSweep:
    """The names of the files that a sweep removed, or would remove, and the number of files that stay."""

    removed: tuple[str, ...]
    kept: int


class TraceFolder:
    """Stores artifacts as ``<run_id>.json``. Any number of processes may use one folder at once.

    Args:
        retention_days: After how many days ``expire`` removes a trace; at least fourteen.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ids: IdSource,
        retention_days: float = MIN_TRACE_RETENTION_DAYS,
    ) -> None:
        _check_retention(retention_days)
        self.path = Path(path)
        self._ids = ids
        self._retention_days = retention_days

    def put(self, trace: Trace) -> Path:
        """Store a trace durably and return its file. Storing it again changes nothing.

        Raises:
            TraceExists: The folder holds a different trace of the same run.
        """
        file = self.file_of(trace.run_id)
        text = trace.as_bytes()
        unfinished = self.path / f".{self._ids.new_id()}.part"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                write_new(unfinished, text)
                # A link, unlike a rename, never replaces another file.
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
        """Return the verified trace of a run. Raises a ``TraceError`` if it is missing or was changed."""
        return Trace.read(read_artifact(self.file_of(run_id)))

    def run_files(self) -> Iterator[Path]:
        """Yield the files of all traces, by name."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.path) if entry.is_file())
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failed(self.path, error) from error
        yield from (self.path / name for name in names if name.endswith(_SUFFIX) and name[0] != ".")

    def readable(self) -> Iterator[tuple[Path, Trace]]:
        """Yield the traces that can be read, each with its file, by file name."""
        for file in self.run_files():
            with suppress(TraceError):
                yield file, Trace.read(read_artifact(file))

    def expire(self, *, now: datetime, rehearse: bool = False) -> TraceSweep:
        """Remove the traces that are past the folder's retention period; see ``sweep``."""
        return self.sweep(now=now, older_than_days=self._retention_days, rehearse=rehearse)

    def sweep(self, *, now: datetime, older_than_days: float, rehearse: bool = False) -> TraceSweep:
        """Remove traces older than ``older_than_days`` (at least fourteen), and files that crashed writers left.

        The age of a trace is that of its run's end or of its file, whichever is younger; if it can't be read, that of its file.
        With ``rehearse=True`` nothing is removed.
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
            return self.path / f"{run_id}{_SUFFIX}"
        readable = quote(run_id, safe="").replace("%", "~")[: _NAME_CHARS - 17]
        return self.path / f"~{readable}-{fingerprint(run_id)[:16]}{_SUFFIX}"

    def _unfinished(self) -> Iterator[Path]:
        yield from (file for file in self.path.glob(".*.part") if _UNFINISHED.fullmatch(file.name))


def _check_retention(days: float) -> None:
    if not days >= MIN_TRACE_RETENTION_DAYS:
        raise RetentionTooShort(least_days=MIN_TRACE_RETENTION_DAYS, asked_days=days)


def read_artifact(file: Path) -> bytes:
    """Read an artifact's file, at most one byte more than an artifact may have, which shows that it is too large."""
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_TRACE_BYTES + 1)
    except OSError as error:
        raise _failed(file, error) from error


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
