"""Segments from commits: reads the versions that commits wrote, and makes the rows and postings of the index from them."""

from array import array
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np

from standfast.limits import COMMITS_READ_AT_ONCE, VERSIONS_READ_AT_ONCE
from standfast.recall.analysis import Analyzer
from standfast.recall.index_segment import (
    COLUMNS,
    FREQUENCY_BITS,
    MAX_FREQUENCY,
    NEVER,
    Numbered,
    RowEnd,
    SegmentRows,
    SegmentTables,
    crc_of,
)
from standfast.recall.indexed_record import IndexedRecord, analysed, decode_record
from standfast.scopes import prefix_in
from standfast.store.audit import verified
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.transfer import record_line
from standfast.vocabulary import ActionType, Band


class IndexedVersion(NamedTuple):
    """A version of a record as the index sees it. ``place`` is its key without the band."""

    band: str
    place: str
    snapshot: int
    record: IndexedRecord | None
    """None if the version ends a record, was erased, or holds no record."""
    previous: int | None
    """The snapshot of the version that it takes the place of."""

    @property
    def key(self) -> str:
        """The key in the store."""
        return f"{self.band}/{self.place}"


def read_commits(
    store: Store, namespace: str, bands: Collection[str], after: int, until: int
) -> Iterator[list[IndexedVersion]]:
    """Yield what each commit after a snapshot wrote in bands, up to another one, in the order that segments have."""
    size = 8
    while after < until:
        end = min(until, after + size)
        versions = store.versions_between(after, end)
        size = (
            min(size * 2, COMMITS_READ_AT_ONCE)
            if len(versions) < VERSIONS_READ_AT_ONCE
            else max(1, size // 2)
        )
        commits: dict[int, list[Version]] = {snapshot: [] for snapshot in range(after + 1, end + 1)}
        for version in versions:
            if version.namespace == namespace and prefix_in(version.key) in bands:
                commits[version.memory_snapshot_id].append(version)
        latest = _latest_before(
            store, namespace, {one.key for found in commits.values() for one in found}, after
        )
        for snapshot in sorted(commits):
            yield sorted(
                (_indexed_version(one, latest) for one in commits[snapshot]),
                key=lambda one: (crc_of(one.place), one.place, one.band),
            )
        after = end


def _latest_before(store: Store, namespace: str, keys: Collection[str], at: int) -> dict[str, int]:
    """The snapshots of the versions that a snapshot shows under these keys, erased ones too."""
    if not keys or at == 0:
        return {}
    found = store.newest_of(namespace, sorted(keys), at=at)
    return {one.key: one.memory_snapshot_id for one in found if one.action is not ActionType.EXPIRE}


def _indexed_version(version: Version, latest: dict[str, int]) -> IndexedVersion:
    band, _, place = version.key.partition("/")
    previous = latest.pop(version.key, None)
    if version.action is not ActionType.EXPIRE:
        latest[version.key] = version.memory_snapshot_id
    record = None if version.content is None else record_of_version(verified(version))
    return IndexedVersion(band, place, version.memory_snapshot_id, record, previous)


def record_of_version(version: Version) -> IndexedRecord | None:
    """The record of a version that was verified; None for one that is never recalled, or is no record."""
    band = prefix_in(version.key)
    if version.action is ActionType.EXPIRE or band not in Band.__members__ or band == Band.VOID:
        return None
    try:
        record = decode_record(record_line(version))
    except msgspec.MsgspecError:
        return None
    return None if record.band == Band.VOID else msgspec.structs.replace(record, band=band)


_FROM_RECORD: Final = tuple(name for name in COLUMNS if name not in ("first", "end", "scope", "thread"))


class SegmentDraft:
    """The rows of one band from a snapshot on, while they are gathered."""

    def __init__(self, analyzer: Analyzer, first: int) -> None:
        self._analyzer = analyzer
        self._first = first
        self._columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self._places: list[str] = []
        self._rows: dict[tuple[str, int], int] = {}
        self._scopes, self._threads = Numbered[str](), Numbered[tuple[str, str]]()
        self._ids: dict[int, tuple[str, str]] = {}
        self._ends: list[RowEnd] = []
        self._postings: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, version: IndexedVersion) -> None:
        """Add a version. Those of one snapshot come in the order of ``read_commits``."""
        if version.previous is not None and version.previous < self._first:
            self._ends.append(RowEnd(version.previous, version.place, version.snapshot))
        elif version.previous is not None:
            # A row that was erased is not there.
            row = self._rows.get((version.place, version.previous))
            if row is not None:
                self._columns["end"][row] = version.snapshot
        if version.record is not None:
            self._add_row(version.place, version.snapshot, version.record)

    def _add_row(self, place: str, first: int, record: IndexedRecord) -> None:
        row, found = len(self._places), analysed(record, self._analyzer)
        for term, count in found.terms.items():
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = array("q")
            posting.append(row << FREQUENCY_BITS | min(count, MAX_FREQUENCY))
        is_threaded = record.session is not None and record.position is not None
        columns = self._columns
        columns["first"].append(first)
        columns["end"].append(NEVER)
        columns["scope"].append(self._scopes.of(record.scope))
        columns["thread"].append(
            self._threads.of((record.scope, record.session or "")) if is_threaded else -1
        )
        for name in _FROM_RECORD:
            columns[name].append(getattr(found, name))
        if place != f"{record.scope}//{record.memory_id}":
            self._ids[row] = record.scope, record.memory_id
        self._places.append(place)
        self._rows[place, first] = row

    def rows(self) -> SegmentRows:
        """What was gathered."""
        terms = sorted(self._postings)
        return SegmentRows(
            columns={name: np.array(values, dtype=np.int64) for name, values in self._columns.items()},
            places=self._places,
            tables=SegmentTables(self._scopes.names, self._threads.names, self._ids, self._ends),
            terms=terms,
            lengths=np.array([len(self._postings[term]) for term in terms], dtype=np.int64),
            packed=np.frombuffer(b"".join(self._postings[term].tobytes() for term in terms), dtype=np.int64),
        )
