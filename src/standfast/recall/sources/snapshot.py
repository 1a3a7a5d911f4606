"""Snapshots of Standfast's own store as sources: read anew each time, or kept and carried along as the store grows.

A record of the store is the line that ``standfast export`` writes for it, so that a snapshot and its export give the same
selection. What lies in the VOID band is diagnostic and is never recalled.
"""

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from standfast.errors import NoSuchSnapshot
from standfast.limits import BLOCK_BYTES, MAX_FOLLOWED_SNAPSHOTS
from standfast.recall.records import BadLine
from standfast.recall.sources.decoding import Decoder
from standfast.recall.sources.segment import Segment
from standfast.store.audit import verified
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.transfer import record_line
from standfast.vocabulary import ActionType, Band

PREFIX: Final = "standfast:"


class _Banded(msgspec.Struct):
    band: str = Band.LEDGER


_decode_band: Final = msgspec.json.Decoder(_Banded).decode


def path_of(namespace: str, band: Band | None = None) -> str:
    """What a package calls a namespace, or one band of it."""
    return PREFIX + namespace + (f"/{band}" if band else "")


def _prefix(band: Band | None) -> str:
    """Keys in a band are ids behind its name, so ids stand in the order of keys."""
    return f"{band}/" if band else ""


class SnapshotSource:
    """What one snapshot shows in a namespace, or in one band of it, read from the store page by page."""

    def __init__(
        self, store: Store, namespace: str, at: int, *, band: Band | None = None, hiding: Collection[str] = ()
    ) -> None:
        self.store_path = path_of(namespace, band)
        self._store = store
        self._namespace = namespace
        self._at = at
        self._prefix = _prefix(band)
        self._hidden = {self._prefix + memory_id for memory_id in hiding}

    def segments(self) -> Iterator[Segment]:
        """The records in runs, by key."""
        rows = self._store.scan(self._namespace, prefix=self._prefix, at=self._at)
        shown = (row for row in rows if row.key not in self._hidden) if self._hidden else rows
        return _segments(shown, Decoder(), self._prefix)


@dataclass(frozen=True, slots=True)
class _View:
    """Segments that a corpus holds, as one snapshot shows them."""

    store_path: str
    shown: list[Segment]

    def segments(self) -> Iterator[Segment]:
        """The records in runs."""
        return iter(self.shown)


@dataclass(slots=True)
class _Kept:
    """A segment that is kept, with the snapshots that made and ended its rows, where those were seen."""

    segment: Segment
    born: "array[int] | None" = None
    ended: dict[int, int] = field(default_factory=dict)

    def at(self, snapshot: int, left_out: Collection[int] = ()) -> Segment:
        """What one snapshot shows of it, but for the rows that are left out."""
        hidden = {row for row, end in self.ended.items() if end <= snapshot}
        hidden.update(left_out)
        if self.born is not None:
            hidden.update(row for row, birth in enumerate(self.born) if birth > snapshot)
        return self.segment.hiding(hidden) if hidden else self.segment


class _CannotFollow(Exception):
    """A commit touched what can't be carried along; everything is read anew."""


class StoreCorpus:
    """A namespace of a store, kept in memory and carried along commit by commit, for reading again and again.

    ``source`` gives any snapshot from the one that was first read to the newest at the price of searching it; an older
    one is read from the store. Safe to share between threads.
    """

    def __init__(self, store: Store, namespace: str = "default", *, band: Band | None = None) -> None:
        self.store_path = path_of(namespace, band)
        self._store = store
        self._namespace = namespace
        self._band = band
        self._prefix = _prefix(band)
        self._lock = threading.Lock()
        self._oldest = self._newest = -1
        self._forget()

    def _forget(self) -> None:
        self._decoder = Decoder()
        self._kept: list[_Kept] = []
        # Keys of what was read first stand in order, so one is found by its segment's first; later ones are listed.
        self._first_keys: list[str] = []
        self._added: dict[str, tuple[_Kept, int]] = {}
        self._open: list[tuple[int, bytes]] = []
        self._open_bytes = self._ended = 0

    @property
    def rows(self) -> int:
        """About how many records are kept."""
        return sum(len(kept.segment) for kept in self._kept)

    def source(
        self, at: int | None = None, *, head: int | None = None, hiding: Collection[str] = ()
    ) -> SnapshotSource | _View:
        """What a snapshot shows; by default the newest. Records of the ids in ``hiding`` are left out.

        ``head`` is the newest snapshot, where the caller has just looked it up.
        """
        head = self._store.head() if head is None else head
        snapshot = head if at is None else at
        if not 0 <= snapshot <= head:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        with self._lock:
            if head > self._newest:
                # Not only as far as is asked: a newer commit may have erased what an older snapshot showed.
                self._carry_to(head)
            if snapshot < self._oldest:
                return SnapshotSource(self._store, self._namespace, snapshot, band=self._band, hiding=hiding)
            hidden = self._rows_of(hiding)
            shown = [kept.at(snapshot, hidden.get(place, ())) for place, kept in enumerate(self._kept)]
            return _View(self.store_path, shown)

    def _rows_of(self, memory_ids: Collection[str]) -> dict[int, set[int]]:
        """Where records of these ids are, whichever snapshot shows them."""
        rows: dict[int, set[int]] = {}
        for place, kept in enumerate(self._kept if memory_ids else ()):
            segment = kept.segment
            for memory_id in memory_ids:
                if kept.born is None:
                    row = bisect_left(range(len(segment)), memory_id, key=segment.memory_id)
                    found = {row} if row < len(segment) and segment.memory_id(row) == memory_id else set()
                else:
                    found = {row for row in range(len(segment)) if segment.memory_id(row) == memory_id}
                rows.setdefault(place, set()).update(found)
        return rows

    def _carry_to(self, snapshot: int) -> None:
        rows = sum(len(kept.segment) for kept in self._kept)
        is_worn = self._ended * 4 > rows + MAX_FOLLOWED_SNAPSHOTS
        if self._oldest < 0 or is_worn or snapshot - self._newest > MAX_FOLLOWED_SNAPSHOTS:
            self._read_anew(snapshot)
            return
        try:
            self._follow(snapshot)
        except _CannotFollow:
            self._read_anew(snapshot)

    def _read_anew(self, snapshot: int) -> None:
        self._oldest = self._newest = -1
        self._forget()
        versions = self._store.scan(self._namespace, prefix=self._prefix, at=snapshot)
        self._kept = [_Kept(segment.kept()) for segment in _segments(versions, self._decoder, self._prefix)]
        self._first_keys = [_first_key(kept.segment) for kept in self._kept]
        self._oldest = self._newest = snapshot

    def _follow(self, snapshot: int) -> None:
        """Take in what the commits since the newest snapshot changed."""
        for made in range(self._newest + 1, snapshot + 1):
            for version in self._store.versions_of(made):
                if version.namespace == self._namespace and version.key.startswith(self._prefix):
                    self._change(verified(version), made)
            self._newest = made
        if self._open:
            self._rebuild_open()

    def _change(self, version: Version, made: int) -> None:
        key = version.key.removeprefix(self._prefix)
        if self._end(key, made) or version.action is ActionType.EXPIRE:
            self._refuse_if_erased(version, made)
        line = _line(version)
        if line is None:
            return
        if self._open_bytes > BLOCK_BYTES:
            self._rebuild_open()
            self._open, self._open_bytes = [], 0
        if not self._open:
            empty = self._decoder.segment(b"", first_place=1)
            self._kept.append(_Kept(replace(empty, is_keyed=True)))
        self._added[key] = (self._kept[-1], len(self._open))
        self._open.append((made, line))
        self._open_bytes += len(line)

    def _rebuild_open(self) -> None:
        block = b"".join(line + b"\n" for _, line in self._open)
        segment = self._decoder.segment(block, first_place=1)
        if segment.bad_lines:
            raise _CannotFollow
        kept = self._kept[-1]
        kept.segment = replace(segment.kept(), is_keyed=True)
        kept.born = array("q", (made for made, _ in self._open))

    def _refuse_if_erased(self, version: Version, made: int) -> None:
        """What was erased is gone from every snapshot, so nothing of it may be kept here either."""
        history = self._store.history(self._namespace, version.key, verify=False)
        if version.erased_by is not None or any(past.erased_by == made for past in history):
            raise _CannotFollow

    def _end(self, key: str, made: int) -> bool:
        """The record under a key is not shown from a snapshot on; False if there was none."""
        found = self._added.pop(key, None)
        if found is None:
            place = bisect_right(self._first_keys, key) - 1
            if place < 0:
                return False
            kept = self._kept[place]
            segment = kept.segment
            if any(bad.place == key for bad in segment.bad_lines):
                raise _CannotFollow
            row = bisect_left(range(len(segment)), key, key=segment.memory_id)
            if row == len(segment) or segment.memory_id(row) != key or row in kept.ended:
                return False
            found = (kept, row)
        found[0].ended[found[1]] = made
        self._ended += 1
        return True


def _first_key(segment: Segment) -> str:
    keys = [str(bad.place) for bad in segment.bad_lines[:1]]
    return min([*keys, segment.memory_id(0)] if len(segment) else keys)


def _line(version: Version) -> bytes | None:
    """The line that a version is read as; None for one that is never recalled."""
    if version.action == ActionType.EXPIRE:
        return None
    line = record_line(version)
    try:
        return None if _decode_band(line).band == Band.VOID else line
    except msgspec.MsgspecError:
        return line


def _segments(versions: Iterable[Version], decoder: Decoder, prefix: str = "") -> Iterator[Segment]:
    """Versions in runs of about a block each."""
    keys: list[str] = []
    lines: list[bytes] = []
    size = 0
    for version in versions:
        line = _line(version)
        if line is None:
            continue
        keys.append(version.key.removeprefix(prefix))
        lines.append(line)
        size += len(line) + 1
        if size >= BLOCK_BYTES:
            yield _segment(keys, lines, decoder)
            keys, lines, size = [], [], 0
    if lines:
        yield _segment(keys, lines, decoder)


def _segment(keys: list[str], lines: list[bytes], decoder: Decoder) -> Segment:
    segment = decoder.segment(b"".join(line + b"\n" for line in lines), first_place=0)
    # Lines were counted from 0, so that a bad one's number is the place of its key.
    bad = [
        BadLine(keys[int(line.place)], line.memory_id, line.record_hash, line.fault)
        for line in segment.bad_lines
    ]
    return replace(segment, is_keyed=True, bad_lines=bad)
