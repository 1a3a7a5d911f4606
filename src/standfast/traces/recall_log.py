"""The recall log: which package was handed to whom, and which run committed what. It holds no content.

It is a folder among the side files of a store, with a file of lines for each day. Entries are written in
batches, by appending under a lock that all processes on the folder share, so that ``forget`` can rewrite a
file meanwhile. A process that is killed may lose its last batch. The oldest days are removed when they are
past their time, or when all files together are too large.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from standfast.clock import Clock
from standfast.durable import write_new
from standfast.errors import InvalidValue, TraceFolderFailed
from standfast.limits import (
    MIN_TRACE_RETENTION_DAYS,
    RECALL_LOG_BATCH,
    RECALL_LOG_BYTES,
    RECALL_LOG_DAYS,
    RECALL_LOG_SECONDS,
)
from standfast.records.canon import utc_text
from standfast.side_files import SideFiles

HASH_DIGITS: Final = 16
"""How much of a record's hash the log has."""
_SUFFIX: Final = ".jsonl"
_LOCK: Final = "lock"


class ShownRecord(NamedTuple):
    """A record of a package: its key in the store, and the first digits of its hash there."""

    key: str
    record_hash: str


class RecallEntry(msgspec.Struct, frozen=True, array_like=True, tag="recall", gc=False):
    """A package that was handed out.

    Attributes:
        caller: Who asked: the name of a key, an agent, or "" for the library itself.
        run_id: The run that asked; "" outside of runs.
        snapshot: The snapshot that the package is of.
    """

    at: str
    namespace: str
    package_hash: str
    snapshot: int
    caller: str
    run_id: str
    scopes: tuple[str, ...]
    records: tuple[ShownRecord, ...]


class CommitEntry(msgspec.Struct, frozen=True, array_like=True, tag="commit", gc=False):
    """A commit that a caller made: the key of the server, or the agent."""

    at: str
    namespace: str
    caller: str
    run_id: str
    snapshot: Annotated[int, Meta(ge=1)]


LogEntry = RecallEntry | CommitEntry
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(LogEntry).decode


class RecallIndex:
    """What the log has of one namespace, in memory, by record, by package and by run."""

    def __init__(self) -> None:
        self.recalls: list[RecallEntry] = []
        self.commits: list[CommitEntry] = []
        self.by_record: dict[str, list[int]] = {}
        """Numbers of recalls by the key of a record that they showed."""
        self.by_package: dict[str, list[int]] = {}
        self.by_run: dict[str, list[int]] = {}
        self.writers: dict[int, str] = {}
        """Who made the commit of a snapshot."""

    def add(self, entry: LogEntry) -> None:
        """Add an entry."""
        if isinstance(entry, CommitEntry):
            self.commits.append(entry)
            self.writers[entry.snapshot] = entry.caller
            return
        number = len(self.recalls)
        self.recalls.append(entry)
        self.by_package.setdefault(entry.package_hash, []).append(number)
        if entry.run_id:
            self.by_run.setdefault(entry.run_id, []).append(number)
        for record in entry.records:
            self.by_record.setdefault(record.key, []).append(number)


class _ReadFile(NamedTuple):
    identity: tuple[int, int]
    """Device and inode, by which a rewritten file is noticed."""
    size: int
    entries: list[LogEntry]


class RecallLog:
    """The recall log of a store. Threads and processes may share it.

    Args:
        folder: Where its files are.
        days: How long entries are kept, at least 14 days.
        max_bytes: How large all files together may get; the oldest days go first.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        days: float = RECALL_LOG_DAYS,
        max_bytes: int = RECALL_LOG_BYTES,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not days >= MIN_TRACE_RETENTION_DAYS:
            problem = f"keep the recall log for at least {MIN_TRACE_RETENTION_DAYS} days, not {days!r:.40}"
            raise InvalidValue(what="recall_log_days", problem=problem)
        self.folder = folder
        self._clock = clock
        self._days, self._max_bytes = days, max_bytes
        self._warn = warn
        self._lock = threading.Lock()
        self._waiting: list[LogEntry] = []
        self._since = 0.0
        self._files: dict[str, _ReadFile] = {}
        self._indexes: dict[str, RecallIndex] = {}
        self._shown: dict[ShownRecord, ShownRecord] = {}
        self._expired_on = ""

    @classmethod
    def chosen(cls, log: "RecallLog | bool", url: str, clock: Clock) -> "RecallLog | None":
        """The log that a caller gave; for True, the one among the side files of a store.

        A store in memory has no side files, and no log.
        """
        files = SideFiles.of(url)
        if isinstance(log, RecallLog):
            return log
        return cls(files.recalls, clock) if log and files is not None else None

    # Writing.

    def note(self, entry: LogEntry) -> None:
        """Add an entry. It is written with the next batch; a failure is a warning, never an error."""
        with self._lock:
            now = self._clock.monotonic()
            if not self._waiting:
                self._since = now
            self._waiting.append(entry)
            is_due = len(self._waiting) >= RECALL_LOG_BATCH or now - self._since >= RECALL_LOG_SECONDS
            batch, self._waiting = (self._waiting, []) if is_due else ([], self._waiting)
        if batch:
            self._write(batch)

    def now(self) -> str:
        """The instant for an entry."""
        return utc_text(self._clock.now())

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            batch, self._waiting = self._waiting, []
        if batch:
            self._write(batch)

    close = flush

    def _write(self, batch: Sequence[LogEntry]) -> None:
        try:
            with self._locked():
                by_day: dict[str, list[bytes]] = {}
                for entry in batch:
                    by_day.setdefault(entry.at[:10], []).append(_encode(entry))
                for day, lines in by_day.items():
                    self._append(self.folder / f"{day}{_SUFFIX}", b"\n".join(lines) + b"\n")
                newest = max(by_day)
                if newest != self._expired_on:
                    self._expired_on = newest
                    self._expire()
        except OSError as error:
            self._warn(f"{len(batch)} entries of the recall log were not written: {error}")

    def _append(self, file: Path, lines: bytes) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(file, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                # A process was killed while it wrote; its last line is incomplete.
                lines = b"\n" + lines
            while lines:
                lines = lines[os.write(descriptor, lines) :]
        finally:
            os.close(descriptor)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock that all processes on the folder share."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _expire(self) -> None:
        """Remove days that are past their time, and the oldest ones if all are too large."""
        oldest = (self._clock.now() - timedelta(days=self._days)).date().isoformat()
        files = self._day_files()
        total = sum(file.stat().st_size for file in files)
        for file in files[:-1]:
            if file.stem >= oldest and total <= self._max_bytes:
                break
            total -= file.stat().st_size
            file.unlink(missing_ok=True)

    def _day_files(self) -> list[Path]:
        with suppress(FileNotFoundError):
            return sorted(file for file in self.folder.iterdir() if file.name.endswith(_SUFFIX))
        return []

    # Reading.

    def index(self, namespace: str) -> RecallIndex:
        """What the log has of a namespace, by record, package and run. It is shared: do not change it."""
        self.flush()
        with self._lock:
            files = self._day_files()
            gone = self._files.keys() - {file.name for file in files}
            for name in gone:
                del self._files[name]
            # A file that was rewritten or removed changes what was read before; others only grow.
            read = [self._read(file) for file in files]
            if gone or any(is_anew for is_anew, _ in read):
                self._indexes = {}
                for known in (self._files[file.name] for file in files if file.name in self._files):
                    self._add(known.entries)
            else:
                for _, entries in read:
                    self._add(entries)
            return self._indexes.setdefault(namespace, RecallIndex())

    def _add(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            self._indexes.setdefault(entry.namespace, RecallIndex()).add(entry)

    def _read(self, file: Path) -> tuple[bool, list[LogEntry]]:
        """Read what was added to a file since it was read last.

        Returns:
            Whether what was read before is no longer valid, and the new entries.
        """
        known = self._files.get(file.name)
        try:
            with file.open("rb") as opened:
                stat = os.fstat(opened.fileno())
                identity = stat.st_dev, stat.st_ino
                is_anew = known is not None and (known.identity != identity or known.size > stat.st_size)
                start = 0 if known is None or is_anew else known.size
                opened.seek(start)
                text = opened.read(stat.st_size - start)
        except FileNotFoundError:
            return self._files.pop(file.name, None) is not None, []
        except OSError as error:
            raise TraceFolderFailed(file=str(file), problem=str(error)) from None
        end = text.rfind(b"\n") + 1
        found = (_entry_in(line) for line in text[:end].split(b"\n"))
        entries = [self._shared(entry) for entry in found if entry is not None]
        before = [] if known is None or is_anew else known.entries
        self._files[file.name] = _ReadFile(identity, start + end, before + entries)
        return is_anew, entries

    def _shared(self, entry: LogEntry) -> LogEntry:
        """The entry, with each record that many entries name held in memory once."""
        if isinstance(entry, CommitEntry):
            return entry
        records = tuple([self._shown.setdefault(one, one) for one in entry.records])
        return msgspec.structs.replace(entry, records=records)

    # Forgetting.

    def forget(self, namespace: str, forgets: Callable[[str], bool]) -> int:
        """Remove records from the entries of a namespace, and scopes that nothing else is left of.

        Args:
            forgets: Tells of a record's key, or of a scope with a slash behind it, whether it goes.

        Returns:
            How many entries changed.
        """
        self.flush()
        changed = 0
        if not self._day_files():
            return 0
        with self._locked():
            for file in self._day_files():
                lines, is_changed = list[bytes](), 0
                for line in file.read_bytes().split(b"\n"):
                    entry = _entry_in(line)
                    if not isinstance(entry, RecallEntry) or entry.namespace != namespace:
                        lines += [line] if entry is not None else []
                        continue
                    kept = _without(entry, forgets)
                    is_changed += kept != entry
                    lines += [] if kept is None else [line if kept == entry else _encode(kept)]
                if is_changed:
                    part = file.with_name(f".{file.name}.part")
                    part.unlink(missing_ok=True)
                    write_new(part, b"".join(line + b"\n" for line in lines))
                    part.replace(file)
                    changed += is_changed
        return changed


def _entry_in(line: bytes) -> LogEntry | None:
    """The entry of a line; None for one that is empty or incomplete."""
    try:
        return _decode(line) if line else None
    except msgspec.MsgspecError:
        return None


def _without(entry: RecallEntry, forgets: Callable[[str], bool]) -> RecallEntry | None:
    """An entry without what is forgotten; None if nothing is left of it."""
    records = tuple(one for one in entry.records if not forgets(one.key))
    scopes = tuple(scope for scope in entry.scopes if not forgets(f"{scope}/"))
    if not scopes:
        return None
    return msgspec.structs.replace(entry, records=records, scopes=scopes)
