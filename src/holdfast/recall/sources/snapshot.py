"""Snapshots of Holdfast's own store as sources: read anew each time, or kept and carried along as the store grows.

A record of the store is the line that ``holdfast export`` writes for it, so that a snapshot and its export give the same
selection. What lies in the VOID band is diagnostic and is never recalled.
"""

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from holdfast.errors import NoSuchSnapshot
from holdfast.limits import BLOCK_BYTES, MAX_FOLLOWED_SNAPSHOTS
from holdfast.recall.records import BadLine
from holdfast.recall.sources.decoding import Decoder
from holdfast.recall.sources.segment import Segment
from holdfast.store.protocol import Version
from holdfast.store.store import Store, verified
from holdfast.store.transfer import record_line
from holdfast.vocabulary import ActionType, Band

PREFIX: Final = "holdfast:"


class _Banded(msgspec.Struct):
    band: str = Band.LEDGER


_decode_band: Final = msgspec.json.Decoder(_Banded).decode


class SnapshotSource:
    """What one snapshot shows in a namespace, read from the store page by page."""

    def __init__(self, store: Store, namespace: str, at: int, *, store_path: str | None = None) -> None:
        self.store_path = store_path or PREFIX + namespace
        self._store = store
        self._namespace = namespace
        self._at = at

    def segments(self) -> Iterator[Segment]:
        """The records in runs, by key."""
        return _segments(self._store.scan(self._namespace, at=self._at), Decoder())


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

    def at(self, snapshot: int) -> Segment:
        """What one snapshot shows of it."""
        hidden = {row for row, end in self.ended.items() if end <= snapshot}
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

    def __init__(self, store: Store, namespace: str = "default") -> None:
        self.store_path = PREFIX + namespace
        self._store = store
        self._namespace = namespace
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

    def source(self, at: int | None = None) -> SnapshotSource | _View:
        """What a snapshot shows; by default the newest."""
        head = self._store.head()
        snapshot = head if at is None else at
        if not 0 <= snapshot <= head:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        with self._lock:
            if snapshot > self._newest:
                self._carry_to(snapshot)
            if snapshot < self._oldest:
                return SnapshotSource(self._store, self._namespace, snapshot)
            return _View(self.store_path, [kept.at(snapshot) for kept in self._kept])

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
        versions = self._store.scan(self._namespace, at=snapshot)
        self._kept = [_Kept(segment.kept()) for segment in _segments(versions, self._decoder)]
        self._first_keys = [_first_key(kept.segment) for kept in self._kept]
        self._oldest = self._newest = snapshot

    def _follow(self, snapshot: int) -> None:
        """Take in what the commits since the newest snapshot changed."""
        for made in range(self._newest + 1, snapshot + 1):
            for version in self._store.storage.snapshot_rows(made):
                if version.namespace == self._namespace:
                    self._change(verified(version), made)
            self._newest = made
        if self._open:
            self._rebuild_open()

    def _change(self, version: Version, made: int) -> None:
        self._end(version.key, made)
        line = _line(version)
        if line is None:
            return
        if self._open_bytes > BLOCK_BYTES:
            self._rebuild_open()
            self._open, self._open_bytes = [], 0
        if not self._open:
            empty = self._decoder.segment(b"", first_place=1)
            self._kept.append(_Kept(replace(empty, is_keyed=True)))
        self._added[version.key] = (self._kept[-1], len(self._open))
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

    def _end(self, key: str, made: int) -> None:
        """The record under a key, if there is one, is not shown from a snapshot on."""
        found = self._added.pop(key, None)
        if found is None:
            place = bisect_right(self._first_keys, key) - 1
            if place < 0:
                return
            kept = self._kept[place]
            segment = kept.segment
            if any(bad.place == key for bad in segment.bad_lines):
                raise _CannotFollow
            row = bisect_left(range(len(segment)), key, key=segment.memory_id)
            if row == len(segment) or segment.memory_id(row) != key or row in kept.ended:
                return
            found = (kept, row)
        found[0].ended[found[1]] = made
        self._ended += 1


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


def _segments(versions: Iterable[Version], decoder: Decoder) -> Iterator[Segment]:
    """Versions in runs of about a block each."""
    keys: list[str] = []
    lines: list[bytes] = []
    size = 0
    for version in versions:
        line = _line(version)
        if line is None:
            continue
        keys.append(version.key)
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
