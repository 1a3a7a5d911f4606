"""What recall reads of a namespace of a store: its index, and for ``phase6-v1`` its records one by one.

The index is segments that are stored beside the records, and the newest commits in memory.

A recall reads the columns of segments and the postings of its own words. Commits that no segment covers are
read from the records and kept. Whatever is wrong with a segment, its snapshots are read from the records
instead: an answer never depends on the state of the index.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Final, TypeVar

import msgspec
import numpy as np

from standfast.errors import NoSuchSnapshot, StandfastError
from standfast.limits import (
    MAX_ATTEMPTS,
    MAX_INDEX_VIEWS,
    MAX_QUARANTINE_STATES,
    MAX_TAIL_ROWS,
    MAX_TAIL_SNAPSHOTS,
)
from standfast.recall.analysis import DEFAULT_LANGUAGE, Analyzer, IndexedRecord, analyzer_of
from standfast.recall.arrays import Rows
from standfast.recall.candidates import BadLine, Candidate, Fault, bad_line, read_block
from standfast.recall.filters import Choice
from standfast.recall.index.lexical_index import LexicalIndex, read_commits, record_of_version
from standfast.recall.index.segment import NEVER, RowEnd, Segment, SegmentLost, tombstoned
from standfast.recall.index.shown_rows import QuarantinedRows, ShownRows
from standfast.recall.index.upkeep import PERSISTED_BANDS, IndexUpkeep, SegmentRange, uncovered
from standfast.recall.index.view import IndexView
from standfast.recall.jsonl import Source
from standfast.records.filters import RecordFacts
from standfast.records.scopes import ALL_SCOPES, SHARED, prefix_in, prefix_of, scoped_key
from standfast.records.vocabulary import Band
from standfast.store.commit import Commit
from standfast.store.protocol import PartName, SegmentHead
from standfast.store.quarantine import HiddenVersions, shown_of
from standfast.store.store import Store
from standfast.store.stored_records import record_line

_T = TypeVar("_T")
_log: Final = logging.getLogger("standfast.recall")
PATH_PREFIX: Final = "standfast:"


class _Banded(msgspec.Struct):
    band: str = Band.LEDGER


_decode_facts: Final = msgspec.json.Decoder(RecordFacts).decode
_decode_band: Final = msgspec.json.Decoder(_Banded).decode


def path_of(namespace: str, band: Band | None = None, scope: str = SHARED) -> str:
    """The store path of a namespace, of one band of it, or of one scope of a band, in a package."""
    place = "" if scope == SHARED else f"/{scope}"
    return PATH_PREFIX + namespace + place + (f"/{band}" if band else "")


def key_at(namespace: str, store_path: str, memory_id: str) -> str:
    """The key of the record behind an item of a package: ``path_of`` read back."""
    scope, _, band = store_path.removeprefix(f"{PATH_PREFIX}{namespace}/").rpartition("/")
    return scoped_key(band, scope or SHARED, memory_id)


@dataclass(frozen=True, slots=True)
class _ListedSource:
    store_path: str
    listed: list[Candidate | BadLine]

    def batches(self) -> Iterator[Sequence[Candidate | BadLine]]:
        yield self.listed


def band_sources(
    store: Store,
    namespace: str,
    band: Band,
    scopes: Sequence[str] = (SHARED,),
    *,
    at: int | None = None,
    hiding: Collection[str] = (),
    choice: Choice | None = None,
) -> list[Source]:
    """What a snapshot shows of a band in scopes with all below them, for ``phase6-v1``: one source for each
    scope that there is.

    Args:
        scopes: None of them is below another.
        at: The snapshot; by default the newest.
        hiding: Records to leave out, each as ``scope//memory_id``.
        choice: Which records to show; by default all.
    """
    band_prefix = prefix_of(band)
    listed: dict[str, list[Candidate | BadLine]] = {scope: [] for scope in scopes}
    for scope in scopes:
        for version in store.scan(namespace, prefix=f"{band_prefix}{scope}/", at=at):
            key = version.key.removeprefix(band_prefix)
            line = record_line(version)
            facts = _facts_of(line)
            if facts.band == Band.VOID or key in hiding or not (choice is None or choice.admits(facts)):
                continue
            (record,) = read_block(line + b"\n")
            assert record is not None, "content is never blank"
            found = bad_line(line, key, record) if isinstance(record, Fault) else record
            listed.setdefault(key.partition("//")[0], []).append(found)
    return [_ListedSource(path_of(namespace, band, scope), listed[scope]) for scope in sorted(listed)]


def _facts_of(line: bytes) -> RecordFacts:
    """What filters look at. A line that is no record has at most a band."""
    try:
        return _decode_facts(line)
    except msgspec.MsgspecError:
        try:
            return RecordFacts(band=_decode_band(line).band)
        except msgspec.MsgspecError:
            return RecordFacts()


@dataclass(frozen=True, slots=True)
class StoreIndexView:
    """An index view, and the store that has its records."""

    index: IndexView
    store: Store
    namespace: str
    at: int

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows with the paths of their stores; None for one that was erased since."""
        keys = self.index.index.keys_of(rows)
        found = self.store.read(self.namespace, keys, at=self.at)
        records = [record_of_version(found[key]) if key in found else None for key in keys]
        return [
            None if one is None else (path_of(self.namespace, Band(one.band), one.scope), one)
            for one in records
        ]


@dataclass(frozen=True, slots=True)
class ScopeRows:
    """The records that a snapshot shows in one scope, not below it, found by single terms.

    Nothing is ranked, so that it costs by the records with a term and not by all of the scope. What law
    replaces is among them.
    """

    shown: ShownRows
    scope: str
    store: Store
    namespace: str

    @property
    def analyzer(self) -> Analyzer:
        """What makes the terms of texts."""
        return self.shown.index.analyzer

    def rows_with(self, terms: Sequence[str]) -> list[Rows]:
        """For each of some terms, the rows of the records that have it."""
        index, size = self.shown.index, self.shown.size
        index.fetch(terms)
        having = [index.postings(term).rows for term in terms]
        # All terms at once: there are few rows, so that each step costs more than its numbers.
        every = np.concatenate(having)
        is_shown = every < size
        is_shown[is_shown] = index.is_in(every[is_shown], [self.scope])
        is_shown[is_shown] = self.shown.are_shown(every[is_shown])
        ends = np.cumsum([len(rows) for rows in having])[:-1]
        return [rows[flags] for rows, flags in zip(having, np.split(is_shown, ends), strict=True)]

    def newest(self, rows: Rows, most: int) -> list[IndexedRecord]:
        """The newest records of some rows, the newest first."""
        order = np.lexsort((rows, -self.shown.snapshots(rows)))[:most]
        keys = self.shown.index.keys_of(rows[order].tolist())
        found = self.store.read(self.namespace, keys, at=self.shown.snapshot)
        records = [record_of_version(found[key]) for key in keys if key in found]
        return [one for one in records if one is not None]


@dataclass(slots=True)
class _Loaded:
    """The index of some bands as a process has it in memory."""

    index: LexicalIndex
    bands: frozenset[str]
    covered: dict[str, int]
    """The last snapshot of each band that segments cover."""
    newest: int
    erasure: int
    """The newest erasure when it was loaded. A later one may have erased something that is in it."""
    views: dict[tuple[int, tuple[str, ...], tuple[str, ...]], IndexView] = field(default_factory=dict)
    """By snapshot, bands and scopes, those that were used last at the end."""
    quarantined: dict[int, QuarantinedRows] = field(default_factory=dict)
    """What a quarantine hides and brings back, by the snapshot that changed it last."""

    def view(
        self,
        snapshot: int,
        bands: tuple[str, ...],
        scopes: tuple[str, ...],
        quarantined: QuarantinedRows | None,
    ) -> IndexView:
        """The view of a snapshot that is loaded.

        One of an earlier snapshot makes it cheap, and is not kept beside the newest.
        """
        view = self.views.pop((snapshot, bands, scopes), None)
        if view is None:
            alike = [key for key in self.views if key[1:] == (bands, scopes) and key[0] < snapshot]
            earlier = self.views[max(alike)] if alike else None
            view = IndexView(self.index, snapshot, bands, scopes, earlier=earlier, quarantined=quarantined)
            if alike and snapshot == self.newest:
                del self.views[max(alike)]
            if len(self.views) >= MAX_INDEX_VIEWS:
                del self.views[next(iter(self.views))]
        self.views[snapshot, bands, scopes] = view
        return view


class StoreIndex:
    """The index of one namespace. Threads may share it.

    Args:
        may_write: Whether segments that are made here may be stored.
        warn: Called with what was wrong with a segment.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        *,
        language: str = DEFAULT_LANGUAGE,
        may_write: bool = True,
        warn: Callable[[str], None] = lambda problem: _log.warning("%s", problem),
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._analyzer = analyzer_of(language)
        self.upkeep = IndexUpkeep(store, namespace, self._analyzer)
        self._may_write = may_write
        self._warn = warn
        self._lock = threading.Lock()
        self._upkeep_lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._lost: set[str] = set()
        self._own: list[SegmentHead] = []
        """Segments that are not stored: of other bands, or of a store that can't be written."""
        self._own_parts: dict[PartName, bytes] = {}
        self._own_erasure = 0
        self._covered = -1
        self._new_rows = 0
        """How many rows were written since the last segment was stored, about."""
        store.segments.eraser = tombstoned
        if may_write:
            store.before_commit[namespace] = self._watch

    def view(
        self,
        bands: Sequence[Band],
        *,
        at: int | None = None,
        scopes: Sequence[str] = (SHARED,),
        head: int | None = None,
    ) -> StoreIndexView:
        """The index of what a snapshot shows in bands and in scopes with all below them; by default the
        newest snapshot.

        Args:
            head: The newest snapshot, if the caller has just looked it up.
        """
        head = self._store.head() if head is None else head
        snapshot = head if at is None else at
        if not 0 <= snapshot <= head:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        names, within = tuple(sorted(band.value for band in bands)), tuple(sorted(scopes))
        with self._lock:
            # Not only up to the snapshot: a newer commit may have erased what an older snapshot showed.
            loaded = self._prepared(frozenset(names), head)
            view = loaded.view(snapshot, names, within, self._quarantined(loaded, snapshot))
            return StoreIndexView(view, self._store, self._namespace, snapshot)

    def in_scope(self, bands: Sequence[Band], scope: str, *, at: int) -> ScopeRows:
        """What a snapshot shows in bands and in one scope, to be found by single terms."""
        names = frozenset(band.value for band in bands)
        with self._lock:
            loaded = self._prepared(names, at)
            shown = ShownRows(loaded.index, at, names, quarantined=self._quarantined(loaded, at))
            return ScopeRows(shown, scope, self._store, self._namespace)

    def versions_with(
        self, terms: Sequence[str], *, bands: Sequence[Band], until: int
    ) -> list[tuple[str, int]]:
        """Key and snapshot of every version up to a snapshot, ended ones too, that has one of some terms.

        Two values may share a term, so what is found is still to be checked.
        """

        def found() -> list[tuple[str, int]]:
            index = self.view(bands).index.index
            with self._lock:
                rows = np.unique(np.concatenate([index.postings(term).rows for term in terms]))
                rows = rows[index.column("first")[rows] <= until]
                rows = rows[index.rows_of_bands(rows, [band.value for band in bands])]
                firsts = index.column("first")[rows].tolist()
                return sorted(zip(index.keys_of(rows.tolist()), firsts, strict=True))

        return self.retry(found) if terms else []

    def versions_in(
        self, scope: str, *, bands: Sequence[Band], after: int, until: int
    ) -> list[tuple[str, int]]:
        """Key and snapshot of every version in a scope, with all below it, that commits after a snapshot
        wrote, up to another one.
        """

        def found() -> list[tuple[str, int]]:
            index = self.view(bands).index.index
            with self._lock:
                firsts = index.column("first")
                rows = np.flatnonzero((firsts > after) & (firsts <= until))
                rows = rows[index.rows_of_bands(rows, [band.value for band in bands])]
                if scope != ALL_SCOPES:
                    rows = rows[index.rows_of_scopes(rows, [scope])]
                return sorted(zip(index.keys_of(rows.tolist()), firsts[rows].tolist(), strict=True))

        return self.retry(found)

    def _quarantined(self, loaded: _Loaded, snapshot: int) -> QuarantinedRows | None:
        """What the quarantine of a snapshot hides of the rows that are loaded, and brings back."""
        hidden = self._store.hidden_at(self._namespace, snapshot)
        if not hidden.versions:
            return None
        known = loaded.quarantined.pop(hidden.since, None)
        if known is None:
            versions = {
                key: snapshots for key, snapshots in hidden.versions.items() if prefix_in(key) in loaded.bands
            }
            named = [(key, one) for key in versions for one in sorted(versions[key])]
            rows = [row for row in loaded.index.rows_of(named) if row is not None]
            known = QuarantinedRows(len(loaded.index), rows, self._restored(loaded, hidden, sorted(versions)))
            if len(loaded.quarantined) >= MAX_QUARANTINE_STATES:
                del loaded.quarantined[next(iter(loaded.quarantined))]
        loaded.quarantined[hidden.since] = known
        return known

    def _restored(
        self, loaded: _Loaded, hidden: HiddenVersions, keys: Sequence[str]
    ) -> dict[str, tuple[int, int]]:
        """The rows that are shown in place of hidden ones, by key, with the snapshot that ends each."""
        found = list[tuple[str, int, int]]()
        versions = self._store.versions_under(self._namespace, keys) if keys else []
        for key, group in groupby(versions, key=lambda one: one.key):
            of_key = list(group)
            then = [one for one in of_key if one.memory_snapshot_id <= hidden.since]
            shown = shown_of(then, hidden)
            if shown is not None and shown is not then[-1] and shown.content is not None:
                later = (one.memory_snapshot_id for one in of_key if one.memory_snapshot_id > hidden.since)
                found.append((key, shown.memory_snapshot_id, next(later, NEVER)))
        rows = loaded.index.rows_of([(key, first) for key, first, _ in found])
        return {key: (row, end) for (key, _, end), row in zip(found, rows, strict=True) if row is not None}

    def _prepared(self, bands: frozenset[str], head: int) -> _Loaded:
        loaded, self._loaded = self._loaded, None
        bands = bands.difference([Band.VOID])
        if loaded is not None and bands <= loaded.bands and head <= loaded.newest:
            self._loaded = loaded
            return loaded
        erasure = self._store.segments.last_erasure(self._namespace)
        if (
            loaded is None
            or not bands <= loaded.bands
            or erasure != loaded.erasure
            or head - min(loaded.covered.values(), default=0) > 2 * MAX_TAIL_SNAPSHOTS
        ):
            loaded = self._load(bands if loaded is None else bands | loaded.bands, head, erasure)
        else:
            self._follow(loaded, head)
        self._loaded = loaded
        return loaded

    def _load(self, bands: frozenset[str], head: int, erasure: int) -> _Loaded:
        for _ in range(MAX_ATTEMPTS):
            try:
                return self._attempt_load(bands, head, erasure)
            except SegmentLost as error:
                self._forget_segment(error)
        raise AssertionError("every attempt leaves a segment out")

    def _attempt_load(self, bands: frozenset[str], head: int, erasure: int) -> _Loaded:
        heads = self._usable(bands, head)
        index = LexicalIndex(self._analyzer, self._read)
        stored = self._read(Segment.needed(heads))
        index.attach([Segment(one, stored) for one in heads])
        covered = {band: max((one.last for one in heads if one.band == band), default=0) for band in bands}
        index.covered = min(covered.values(), default=head)
        loaded, rows = _Loaded(index, bands, covered, index.covered, erasure), len(index)
        self._follow(loaded, head)
        # What other processes left to be stored counts like what is committed here.
        self._new_rows = max(self._new_rows, len(index) - rows)
        return loaded

    def _usable(self, bands: frozenset[str], head: int) -> list[SegmentHead]:
        """Segments that leave nothing open but the newest snapshots.

        What is missing is made, and stored if it may be.
        """
        heads = self._known(bands)
        missing = _gaps(heads, bands, head)
        if self._may_write and any(band in PERSISTED_BANDS for _, band in missing):
            self.keep_up()
            heads = self._known(bands)
            missing = _gaps(heads, bands, head)
        for snapshots, band in missing:
            for one, parts in self.upkeep.derived([band], snapshots):
                self._own.append(one)
                self._own_parts |= {(one.segment_id, name): part for name, part in parts.items()}
                heads.append(one)
        return sorted(heads, key=lambda one: (one.band, one.first))

    def _known(self, bands: frozenset[str]) -> list[SegmentHead]:
        last = self._store.segments.last_erasure(self._namespace)
        if last != self._own_erasure:
            self._own, self._own_parts, self._own_erasure = [], {}, last
        found: list[SegmentHead] = []
        for one in (*self.upkeep.heads(), *self._own):
            is_free = all(
                one.band != other.band or one.last < other.first or other.last < one.first for other in found
            )
            if one.band in bands and one.segment_id not in self._lost and is_free:
                found.append(one)
        return sorted(found, key=lambda one: (one.band, one.first))

    def _read(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        found = {name: self._own_parts[name] for name in names if name in self._own_parts}
        missing = [name for name in names if name not in found]
        return found | self.upkeep.read(missing) if missing else found

    def _follow(self, loaded: _Loaded, head: int) -> None:
        """Add the rows of the commits since the newest snapshot that is loaded."""
        for commit in read_commits(self._store, self._namespace, loaded.bands, loaded.newest, head):
            for version in commit:
                for quarantined in loaded.quarantined.values():
                    quarantined.end(version.key, version.snapshot)
                if version.snapshot <= loaded.covered[version.band]:
                    continue
                if version.previous is not None:
                    end = RowEnd(version.previous, version.place, version.snapshot)
                    loaded.index.end_rows(version.band, [end])
                if version.record is not None:
                    loaded.index.add(version.record, version.key, version.snapshot)
        loaded.newest = max(loaded.newest, head)

    def retry(self, answer: Callable[[], _T]) -> _T:
        """Call a function that reads views, again if a segment was merged, dropped or damaged meanwhile."""
        for _ in range(MAX_ATTEMPTS):
            try:
                return answer()
            except SegmentLost as error:
                with self._lock:
                    self._loaded = None
                    self._forget_segment(error)
        return answer()

    def _forget_segment(self, error: SegmentLost) -> None:
        """Leave a damaged segment out. One that is gone was merged or dropped, which is no problem."""
        present = [one for one in self.upkeep.heads() if one.segment_id == error.segment_id]
        if not present:
            return
        self._lost.add(error.segment_id)
        (head,) = present
        self._warn(
            f"The index of {head.band}, snapshots {head.first} to {head.last}, can't be used: {error}. Recall"
            " reads the records instead."
        )
        if self._may_write:
            self._quietly(lambda: self._store.segments.drop([error.segment_id]))

    def _watch(self, commit: Commit) -> None:
        """Count what a commit writes."""
        written = (write.key for write in commit.writes if write.namespace == self._namespace)
        self._new_rows += sum(prefix_in(key) in PERSISTED_BANDS for key in written)

    def after_commit(self, snapshot: int) -> None:
        """Store what was committed since the last segment, if it is much. Never raises an error."""
        is_much = snapshot - self._covered >= MAX_TAIL_SNAPSHOTS or self._new_rows >= MAX_TAIL_ROWS
        if not self._may_write or not is_much:
            return
        if self._upkeep_lock.acquire(blocking=False):
            try:
                self._keep_up_after(snapshot)
            except Exception as error:  # noqa: BLE001  # What was committed is never reported as an error.
                _log.warning("the index was not stored: %s", error)
            finally:
                self._upkeep_lock.release()

    def _keep_up_after(self, snapshot: int) -> None:
        self._covered = snapshot - self.upkeep.status().behind
        has_many_rows = self._new_rows >= MAX_TAIL_ROWS
        if snapshot - self._covered >= MAX_TAIL_SNAPSHOTS or has_many_rows:
            self._new_rows = 0
            self.upkeep.fill(whole=has_many_rows)
            self._covered = snapshot

    def leave_upkeep(self) -> None:
        """Store no segments from now on, because another process keeps the index."""
        self._may_write = False

    def keep_up(self) -> None:
        """Make and store the segments that are missing, if the store can be written."""
        with self._upkeep_lock:
            self._quietly(self.upkeep.fill)

    def close(self) -> None:
        """Store what was committed since the last segment, if the next process would notice its absence."""
        if self._new_rows >= MAX_TAIL_ROWS // 8:
            with self._upkeep_lock:
                self._quietly(partial(self.upkeep.fill, whole=True))

    def _quietly(self, action: Callable[[], None]) -> None:
        """What is derived can be made later, so no failure to store it is an error."""
        try:
            action()
        except (StandfastError, SegmentLost) as error:
            _log.info("the index was not stored: %s", error)


def _gaps(heads: Sequence[SegmentHead], bands: frozenset[str], head: int) -> list[tuple[SegmentRange, str]]:
    """The snapshots of bands that no segment covers, but for the newest ones if they are few."""
    return [
        (one, band)
        for band in sorted(bands)
        for one in uncovered([own for own in heads if own.band == band], head)
        if one.until < head or len(one) > MAX_TAIL_SNAPSHOTS
    ]
