"""The index of ``lexical-v1``: which records have which words, for any snapshots, as whole numbers.

Rows are only ever added: first those of stored segments, then one by one those of newer commits. A row is
shown from one snapshot to another, so one index answers as of every snapshot that it covers. Of segments only
columns are in memory; postings and keys are read when they are asked for. ``read_commits`` reads what to add;
``index_view.IndexView`` is what a snapshot shows of it in bands and scopes.
"""

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from standfast.limits import (
    COMMITS_READ_AT_ONCE,
    MAX_CACHED_BLOCK_BYTES,
    MAX_CACHED_KEY_PARTS,
    MAX_CACHED_POSTINGS,
    VERSIONS_READ_AT_ONCE,
)
from standfast.recall.analysis import (
    COLUMNS,
    FREQUENCY_BITS,
    MAX_FREQUENCY,
    Analyzer,
    IndexedRecord,
    analysed,
    decode_record,
)
from standfast.recall.arrays import Flags, GrowingArray, Numbered, Numbers, Rows, SizedCache
from standfast.recall.index.segment import (
    KEYS_A_PART,
    NEVER,
    Block,
    RowEnd,
    Segment,
    checksums_in,
    crc_of,
    expanded,
)
from standfast.records.scopes import key_parts, prefix_in, scoped_key
from standfast.records.vocabulary import ActionType, Band
from standfast.store.protocol import PartName, PartReader, Version, verified
from standfast.store.store import Store
from standfast.store.stored_records import record_line

# Looked up once: members of an enumeration cost a call.
_EXPIRE: Final = ActionType.EXPIRE
_VOID: Final = Band.VOID.value
_BANDS: Final = frozenset(band.value for band in Band)


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
    """Yield what each commit between two snapshots wrote in bands, in the order that segments have."""
    size = 8
    while after < until:
        end = min(until, after + size)
        versions = store.versions_between(namespace, after, end, bands=sorted(bands)) if bands else []
        size = (
            min(size * 2, COMMITS_READ_AT_ONCE)
            if len(versions) < VERSIONS_READ_AT_ONCE
            else max(1, size // 2)
        )
        commits: dict[int, list[Version]] = {snapshot: [] for snapshot in range(after + 1, end + 1)}
        for version in versions:
            commits[version.memory_snapshot_id].append(version)
        latest = latest_before(store, namespace, {one.key for one in versions}, after)
        for snapshot in sorted(commits):
            yield indexed_versions(
                [one if one.content is None else verified(one) for one in commits[snapshot]], latest
            )
        after = end


def indexed_versions(versions: Sequence[Version], latest: dict[str, int]) -> list[IndexedVersion]:
    """What the index sees of the verified versions of one commit, in the order that segments have.

    Args:
        latest: The snapshots of the versions before them; see ``latest_before``. Is brought up to date.
    """
    found = [_indexed_version(one, latest) for one in versions]
    found.sort(key=lambda one: (crc_of(one.place), one.place, one.band))
    return found


def latest_before(store: Store, namespace: str, keys: Collection[str], at: int) -> dict[str, int]:
    """The snapshots of the versions that a snapshot shows under these keys, erased ones too."""
    if not keys or at == 0:
        return {}
    found = store.versions_under(namespace, sorted(keys), newest_at=at, with_content=False)
    return {one.key: one.memory_snapshot_id for one in found if one.action is not _EXPIRE}


def _indexed_version(version: Version, latest: dict[str, int]) -> IndexedVersion:
    band, _, place = version.key.partition("/")
    previous = latest.pop(version.key, None)
    if version.action is not _EXPIRE:
        latest[version.key] = version.memory_snapshot_id
    record = None if version.content is None else record_of_version(version)
    return IndexedVersion(band, place, version.memory_snapshot_id, record, previous)


def record_of_version(version: Version) -> IndexedRecord | None:
    """The record of a version that was verified; None for one that is never recalled, or is no record."""
    band = prefix_in(version.key)
    if version.action is _EXPIRE or band not in _BANDS or band == _VOID:
        return None
    try:
        # Nearly every content is a record with the key that it is stored under.
        record = decode_record(version.content or b"null")
        if record.band == band and scoped_key(band, record.scope, record.memory_id) == version.key:
            return record
    except msgspec.MsgspecError:
        pass
    try:
        record = decode_record(record_line(version))
    except msgspec.MsgspecError:
        return None
    return None if record.band == _VOID else msgspec.structs.replace(record, band=band)


class LexicalIndex:
    """Postings and columns of records.

    Its owner lets one thread at a time change it or make a view; views may be read meanwhile.

    Args:
        read: Reads parts of the segments that are attached.
    """

    def __init__(self, analyzer: Analyzer, read: PartReader = lambda _: {}) -> None:
        self.analyzer = analyzer
        self.covered = 0
        """The newest snapshot up to which segments cover all bands."""
        self._read = read
        self._lock = threading.Lock()
        self._columns = {name: GrowingArray() for name in (*COLUMNS, "band")}
        self._crcs = GrowingArray()
        """The checksums of the keys: of the newest rows, or, once they were needed, of all."""
        self._has_stored_crcs = False
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._spans: dict[str, tuple[int, int]] = {}
        self._stored = 0
        self._keys: list[str] = []
        self._rows: dict[tuple[str, int], int] = {}
        self._postings: dict[str, array[int]] = {}
        self._names: dict[int, tuple[str, str]] = {}
        """Scope and id of rows whose key says something else."""
        self._bands, self._scopes = Numbered[str](), Numbered[str]()
        self._threads = Numbered[tuple[str, str, str]]()
        self._cached = SizedCache[str, Postings](MAX_CACHED_POSTINGS)
        self._blocks = SizedCache[PartName, Block](MAX_CACHED_BLOCK_BYTES)
        self._key_parts: OrderedDict[PartName, list[str]] = OrderedDict()

    def __len__(self) -> int:
        return self._columns["first"].size

    def column(self, name: str) -> Numbers:
        """The numbers of all rows in a column."""
        values: Numbers = self._columns[name].values
        return values

    def attach(self, segments: Sequence[Segment]) -> None:
        """Add the rows of segments, those of one band after those of another, before any record is added."""
        assert not len(self), "stored rows come first, and once"
        gathered: dict[str, list[Numbers]] = {name: [] for name in self._columns}
        for segment in sorted(segments, key=lambda one: (one.head.band, one.head.first)):
            head, base = segment.head, self._stored
            threads = [(head.band, *thread) for thread in segment.tables.threads]
            segment.columns["scope"] = self._scopes.renumbered(
                segment.tables.scopes, segment.columns["scope"]
            )
            segment.columns["thread"] = self._threads.renumbered(threads, segment.columns["thread"])
            segment.columns["band"] = np.full(head.rows, self._bands.of(head.band), dtype=np.int64)
            for name, values in gathered.items():
                values.append(segment.columns[name])
            self._names.update({base + row: names for row, names in segment.tables.ids.items()})
            self._segments.append(segment)
            self._bases.append(base)
            self._stored += head.rows
            self._spans[head.band] = self._spans.get(head.band, (base, 0))[0], self._stored
        for name, values in gathered.items():
            self._columns[name].extend(np.concatenate([_NO_NUMBERS, *values]))
        for segment in self._segments:
            segment.columns = {}
            self.end_rows(segment.head.band, segment.tables.ends)

    def add(self, record: IndexedRecord, key: str, first: int) -> int:
        """Add a record that is shown from a snapshot on, and return its row."""
        row, found = len(self), analysed(record, self.analyzer)
        with self._lock:
            for term, count in found.terms.items():
                posting = self._postings.get(term)
                if posting is None:
                    posting = self._postings[term] = array("q")
                posting.append(row << FREQUENCY_BITS | min(count, MAX_FREQUENCY))
        scope, thread = self._scopes.of(record.scope), -1
        if record.is_threaded:
            thread = self._threads.of((record.band, record.scope, record.session or ""))
        numbers = (first, NEVER, scope, thread, *found.numbers)
        for name, number in zip(COLUMNS, numbers, strict=True):
            self._columns[name].append(number)
        self._columns["band"].append(self._bands.of(record.band))
        place = key.partition("/")[2]
        self._crcs.append(crc_of(place))
        if place != f"{record.scope}//{record.memory_id}":
            self._names[row] = record.scope, record.memory_id
        self._keys.append(key)
        self._rows[key, first] = row
        return row

    def end_rows(self, band: str, ends: Sequence[RowEnd]) -> None:
        """Rows of a band are shown no more from a snapshot on. Those that are not there were erased."""
        if not ends:
            return
        column, stored = self._columns["end"].values, []
        for end in ends:
            row = self._rows.get((f"{band}/{end.place}", end.previous))
            if row is None:
                stored.append(end)
            else:
                column[row] = min(int(column[row]), end.snapshot)
        rows = self._stored_rows(band, [(end.place, end.previous) for end in stored])
        for end, row in zip(stored, rows, strict=True):
            if row is not None:
                column[row] = min(int(column[row]), end.snapshot)

    def rows_of(self, versions: Sequence[tuple[str, int]]) -> list[int | None]:
        """The rows of versions, each given by its key and snapshot; None for those that are not here."""
        rows = [self._rows.get(version) for version in versions]
        for band in self._spans:
            stored = [at for at, row in enumerate(rows) if row is None and prefix_in(versions[at][0]) == band]
            places = [(versions[at][0].partition("/")[2], versions[at][1]) for at in stored]
            for at, row in zip(stored, self._stored_rows(band, places), strict=True):
                rows[at] = row
        return rows

    def _stored_rows(self, band: str, places: Sequence[tuple[str, int]]) -> list[int | None]:
        """The rows of segments that have these keys, without the band, from these snapshots on."""
        found: list[int | None] = [None] * len(places)
        low, high = self._spans.get(band, (0, 0))
        if not places or low == high:
            return found
        firsts, crcs = self._columns["first"].values[low:high], self._checksums()[low:high]
        snapshots = np.array([snapshot for _, snapshot in places], dtype=np.int64)
        starts = (low + np.searchsorted(firsts, snapshots, "left")).tolist()
        stops = (low + np.searchsorted(firsts, snapshots, "right")).tolist()
        for number, ((place, _), start, stop) in enumerate(zip(places, starts, stops, strict=True)):
            wanted = crc_of(place)
            at = start + int(np.searchsorted(crcs[start - low : stop - low], wanted))
            while at < stop and crcs[at - low] == wanted:
                if self.keys_of([at])[0] == f"{band}/{place}":
                    found[number] = at
                at += 1
        return found

    @property
    def segments(self) -> list[tuple[int, Segment]]:
        """The segments that are attached, each with the number of its first row."""
        return list(zip(self._bases, self._segments, strict=True))

    def read(self, names: Sequence[PartName]) -> Mapping[PartName, bytes]:
        """Parts of the segments that are attached."""
        return self._read(names)

    def _checksums(self) -> Numbers:
        """The checksums of the keys of all rows."""
        if not self._has_stored_crcs:
            names = [segment.crc_part for segment in self._segments]
            stored = self._read(names)
            newest = self._crcs.values
            self._crcs = GrowingArray()
            self._crcs.extend(
                np.concatenate([*(checksums_in(expanded(name, stored)) for name in names), newest])
            )
            self._has_stored_crcs = True
        values: Numbers = self._crcs.values
        return values

    def keys_of(self, rows: Sequence[int]) -> list[str]:
        """The keys of rows, in their order."""
        places: list[tuple[PartName, str, int] | None] = []
        for row in rows:
            if row >= self._stored:
                places.append(None)
                continue
            number = bisect_right(self._bases, row) - 1
            segment, local = self._segments[number], row - self._bases[number]
            places.append((segment.keys_part(local), segment.head.band, local % KEYS_A_PART))
        parts = self._read_key_parts({place[0] for place in places if place is not None})
        return [
            self._keys[row - self._stored] if place is None else f"{place[1]}/{parts[place[0]][place[2]]}"
            for row, place in zip(rows, places, strict=True)
        ]

    def _read_key_parts(self, names: set[PartName]) -> dict[PartName, list[str]]:
        with self._lock:
            found = {name: self._key_parts[name] for name in names if name in self._key_parts}
        if missing := sorted(names.difference(found)):
            stored = self._read(missing)
            read = {name: expanded(name, stored).decode().split("\n") for name in missing}
            found |= read
            with self._lock:
                self._key_parts |= read
                while len(self._key_parts) > MAX_CACHED_KEY_PARTS:
                    self._key_parts.popitem(last=False)
        return found

    def names_of(self, rows: Sequence[int], keys: Sequence[str] | None = None) -> list[tuple[str, str]]:
        """Scope and id of the records of rows, in their order.

        Args:
            keys: Their keys, if the caller has looked them up.
        """
        names = []
        for row, key in zip(rows, self.keys_of(rows) if keys is None else keys, strict=True):
            parts = key_parts(key)
            names.append(self._names.get(row) or ((parts.scope, parts.name) if parts else ("", key)))
        return names

    def postings(self, term: str) -> "Postings":
        """The rows that have a term, ascending, and how often."""
        stored = self._cached.get(term) or self.fetch([term])[term]
        posting = self._postings.get(term)
        if posting is None:
            return stored
        with self._lock:
            packed = np.array(posting, dtype=np.int64)
        rows, counts = packed >> FREQUENCY_BITS, packed & MAX_FREQUENCY
        if not len(stored.rows):
            return Postings(rows, counts)
        return Postings(np.concatenate([stored.rows, rows]), np.concatenate([stored.counts, counts]))

    def fetch(self, terms: Collection[str]) -> dict[str, "Postings"]:
        """The stored postings of terms.

        What is not in memory is read together, so that a block with several of them is read once.
        """
        known = self._cached.get_all(terms)
        if missing := sorted(set(terms).difference(known)):
            read = {term: _joined(found) for term, found in self._read_postings(missing).items()}
            for term, found in read.items():
                self._cached.put(term, found, len(found.rows) + 16)
            known |= read
        return known

    def _read_postings(self, terms: Sequence[str]) -> dict[str, list["Postings"]]:
        found: dict[str, list[Postings]] = {term: [] for term in terms}
        for base, segment in zip(self._bases, self._segments, strict=True):
            names = {term: segment.blocks_of(term) for term in terms}
            blocks = self._read_blocks({name for of_term in names.values() for name in of_term})
            for term in terms:
                for name in names[term]:
                    matching = blocks[name].matching(term)
                    found[term] += [Postings(rows + base, counts) for rows, counts in matching]
        return found

    def _read_blocks(self, names: set[PartName]) -> dict[PartName, Block]:
        """Blocks of postings, those that were read lately from memory."""
        found = {name: block for name in names if (block := self._blocks.get(name)) is not None}
        if missing := sorted(names.difference(found)):
            stored = self._read(missing)
            for name in missing:
                raw = expanded(name, stored)
                found[name] = block = Block.of(raw)
                self._blocks.put(name, block, len(raw))
        return found

    def rows_with_prefix(self, term: str) -> Numbers:
        """The rows that have a term that begins so, in no order."""
        names = [segment.blocks_of(term, as_prefix=True) for segment in self._segments]
        parts = self._read([name for of_segment in names for name in of_segment])
        stored = [
            rows + base
            for base, of_segment in zip(self._bases, names, strict=True)
            for name in of_segment
            for rows, _ in Block.of(expanded(name, parts)).matching(term, as_prefix=True)
        ]
        with self._lock:
            newest = [np.array(of_term) for name, of_term in self._postings.items() if name.startswith(term)]
        return np.concatenate([*stored, *(packed >> FREQUENCY_BITS for packed in newest), _NO_NUMBERS])

    def rows_of_bands(self, rows: slice | Rows, bands: Collection[str]) -> Flags:
        """Which of some rows are in one of these bands."""
        return np.isin(self.column("band")[rows], _numbers_of(self._bands, bands))

    def rows_of_scopes(self, rows: slice | Rows, scopes: Collection[str]) -> Flags:
        """Which of some rows are in one of these scopes or below it."""
        wanted = [
            name
            for name in self._scopes.names
            if any(name == scope or name.startswith(f"{scope}/") for scope in scopes)
        ]
        return np.isin(self.column("scope")[rows], _numbers_of(self._scopes, wanted))

    def is_in(self, rows: Rows, scopes: Collection[str]) -> Flags:
        """Which rows are in one of these scopes themselves, not below it."""
        return np.isin(self.column("scope")[rows], _numbers_of(self._scopes, scopes))

    def scopes_of(self, rows: Rows) -> frozenset[str]:
        """The scopes that rows are in."""
        counts = np.bincount(self.column("scope")[rows], minlength=1)
        return frozenset(self._scopes.names[number] for number in np.flatnonzero(counts).tolist())

    def rows_named(self, names: Collection[tuple[str, str]], rows: Rows) -> Numbers:
        """Those of some rows that have one of these scopes and ids."""
        if not names or not len(rows):
            return _NO_NUMBERS
        wanted = [crc_of(f"{scope}//{memory_id}") for scope, memory_id in names]
        alike = rows[np.isin(self._checksums()[rows], wanted)].tolist()
        among = set(rows.tolist()) if self._names else set()
        listed = sorted(
            {*alike, *(row for row, name in self._names.items() if name in names and row in among)}
        )
        found = zip(listed, self.names_of(listed), strict=True)
        return np.array([row for row, name in found if name in names], dtype=np.int64)


_NO_NUMBERS: Final[Numbers] = np.zeros(0, dtype=np.int64)


def _numbers_of(numbered: Numbered[str], names: Collection[str]) -> list[int]:
    return [number for name in names if (number := numbered.find(name)) is not None]


class Postings(NamedTuple):
    """The rows that a term is in, and its frequency in each."""

    rows: Numbers
    counts: Numbers


def _joined(found: Sequence[Postings]) -> Postings:
    if len(found) == 1:
        return found[0]
    rows = np.concatenate([one.rows for one in found] or [_NO_NUMBERS])
    return Postings(rows, np.concatenate([one.counts for one in found] or [_NO_NUMBERS]))
