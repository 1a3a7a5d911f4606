"""What a namespace holds, and what happened in it lately, counted commit by commit for the home page."""

import copy
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from standfast.limits import CALL_HISTORY_HOURS, MAX_CONSOLE_RECENT_COMMITS
from standfast.memory import Memory
from standfast.memory.watch import commit_pages, committed_rows, named_source
from standfast.records.canon import utc_text
from standfast.records.conversion import decoded
from standfast.records.requests import RECORD_BANDS
from standfast.records.scopes import (
    ALL_SCOPES,
    is_within,
    name_in,
    outer_scopes,
    prefix_in,
    prefix_of,
    scope_in,
)
from standfast.records.vocabulary import ActionType, Band, Verdict
from standfast.server.console.times import snapshot_at
from standfast.server.operations.call_history import hour_of, start_of
from standfast.store.protocol import Version

USER_SCOPE: Final = "user"
"""Where a user's memory is: ``user/ada``."""
HELD_BANDS: Final = (Band.VAULT, Band.LEDGER)
"""The bands of what was accepted. Working memory repeats it for a while."""
UNDECIDED: Final = (Verdict.PARTIAL, Verdict.HOLD)
"""The verdicts of what waits for a person, though it is kept in long-term memory."""
_MOST_PLACES: Final = 8
_MOST_RECENT: Final = 4 * MAX_CONSOLE_RECENT_COMMITS


class What(StrEnum):
    """What a commit did with a text."""

    STORED = "stored"
    REJECTED = "rejected"
    PROPOSED = "proposed"
    DECIDED = "decided"


class Happening(NamedTuple):
    """One thing that a commit did, and in which hour."""

    hour: int
    what: What
    scope: str
    source: str

    @property
    def user(self) -> str:
        """The user whose memory it is; empty if it is nobody's."""
        parts = self.scope.split("/")
        return f"{USER_SCOPE}/{parts[1]}" if parts[0] == USER_SCOPE and len(parts) > 1 else ""


@dataclass(slots=True)
class BandStats:
    """The rows of a band and their bytes."""

    records: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NamespaceStats:
    """What a namespace holds at a snapshot, and what happened before it, oldest first.

    ``memories`` counts each memory once: law and what was accepted, not what waits or was rejected.
    """

    at: int
    memories: int
    bands: dict[Band, BandStats]
    recent: tuple[Happening, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes in all bands."""
        return sum(count.size_bytes for count in self.bands.values())


class _Judged(msgspec.Struct, frozen=True, gc=False):
    """The fields of a record that are counted."""

    source: dict[str, object] | None = None
    verdict: str | None = None

    @classmethod
    def of(cls, row: Version) -> "_Judged":
        """Those of a row; of one that was erased, none."""
        return decoded(row.content or b"{}", cls)

    @property
    def source_name(self) -> str:
        """The source as ``kind:id``."""
        return named_source(self.source)


@dataclass(slots=True)
class _RunningCount:
    """The counts of a namespace, or of scopes in it, up to a snapshot.

    It knows the size of each row: once a row is erased, the store no longer does.
    """

    scopes: Sequence[str]
    at: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    held: dict[tuple[str, str], set[Band]] = field(default_factory=dict)
    bands: dict[Band, BandStats] = field(default_factory=lambda: {band: BandStats() for band in RECORD_BANDS})
    recent: list[Happening] = field(default_factory=list)

    def begin(self, memory: Memory, head: int, now: datetime) -> None:
        """Count what the head shows, and what happened in the last commits."""
        for prefix in [prefix_of(band, scope) for band in self.bands for scope in self.scopes]:
            for version in memory.store.scan(memory.namespace, prefix=prefix, at=head):
                self._replace(version)
        since = utc_text(start_of(hour_of(now) - CALL_HISTORY_HOURS))
        self.at = max(head - MAX_CONSOLE_RECENT_COMMITS, snapshot_at(memory.store, since, head))
        for commit, hour in self._commits(memory, head):
            self._note(commit, hour)

    def advance(self, memory: Memory, head: int) -> None:
        """Apply the changes of every commit up to the head."""
        for rows, hour in self._commits(memory, head):
            for row in rows:
                if prefix_in(row.key) in self.bands and self._covers(row):
                    self._replace(row)
            self._note(rows, hour)
        del self.recent[:-_MOST_RECENT]

    def _commits(self, memory: Memory, head: int) -> Iterator[tuple[list[Version], int]]:
        """What each commit up to the head wrote, and its hour."""
        pages = commit_pages(memory.store, self.at, head)
        for commit, rows in committed_rows(memory.store, memory.namespace, pages, bands=tuple(Band)):
            yield rows, hour_of(datetime.fromisoformat(commit.committed_at))
        self.at = max(self.at, head)

    def _covers(self, row: Version) -> bool:
        return any(is_within(scope_in(row.key), scope) for scope in self.scopes)

    def _replace(self, version: Version) -> None:
        """Count a version instead of the one before it; a version without content only removes that one."""
        band = Band(prefix_in(version.key))
        count, place = self.bands[band], (scope_in(version.key), name_in(version.key))
        if (before := self.sizes.pop(version.key, None)) is not None:
            count.records -= 1
            count.size_bytes -= before
            if band in self.held.get(place, ()):
                self.held[place].remove(band)
                if not self.held[place]:
                    del self.held[place]
        if version.content is not None:
            size = self.sizes[version.key] = len(version.content)
            count.records += 1
            count.size_bytes += size
            if band in HELD_BANDS and _Judged.of(version).verdict not in UNDECIDED:
                self.held.setdefault(place, set()).add(band)

    def _note(self, rows: Iterable[Version], hour: int) -> None:
        """Note what a commit did with each text: once, if it is in two bands."""
        noted = set[tuple[What, str, str]]()
        for row in rows:
            band, is_written = prefix_in(row.key), row.action is not ActionType.EXPIRE
            if band == Band.PHOENIX:
                # Its key has no scope, so only those who see all scopes are told.
                if ALL_SCOPES in self.scopes:
                    self.recent.append(Happening(hour, What.PROPOSED if is_written else What.DECIDED, "", ""))
                continue
            if not is_written or band not in (*HELD_BANDS, Band.VOID) or not self._covers(row):
                continue
            judged = _Judged.of(row)
            if band != Band.VOID and judged.verdict in UNDECIDED:
                continue
            what = What.REJECTED if band == Band.VOID else What.STORED
            identity = what, scope_in(row.key), name_in(row.key)
            if identity not in noted:
                noted.add(identity)
                self.recent.append(Happening(hour, what, scope_in(row.key), judged.source_name))


class StatsCache:
    """The statistics that were requested last, by namespace and scopes. Safe to share between threads."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[str, ...], tuple[_RunningCount, NamespaceStats]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, memory: Memory, scopes: Sequence[str] = ()) -> NamespaceStats:
        """The statistics of a memory at its newest snapshot: of these scopes and below, or of all."""
        scopes = outer_scopes(scopes) or (ALL_SCOPES,)
        place = (memory.namespace, *scopes)
        with self._lock:
            head = memory.store.head()
            cached = self._cached.pop(place, None)
            if cached is None or cached[0].at != head:
                running = cached[0] if cached else _RunningCount(scopes)
                if cached is None:
                    running.begin(memory, head, memory.store.clock.now())
                running.advance(memory, head)
                # A page renders a copy, because other requests go on counting.
                cached = (
                    running,
                    NamespaceStats(
                        at=head,
                        memories=len(running.held),
                        bands=copy.deepcopy(running.bands),
                        recent=tuple(running.recent),
                    ),
                )
            self._cached[place] = cached
            if len(self._cached) > _MOST_PLACES:
                self._cached.popitem(last=False)
            return cached[1]
