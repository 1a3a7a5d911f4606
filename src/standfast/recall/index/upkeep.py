"""Upkeep of the persisted index: makes segments of commits that none covers, merges small ones, compares them
with the records.

Segments are derived: whatever is missing, damaged or of another version is made anew. Each is put in a
transaction of its own, never in that of a commit.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from standfast.errors import Corruption
from standfast.limits import (
    MAX_SEGMENT_ROWS,
    MAX_TAIL_SNAPSHOTS,
    MERGED_SEGMENTS,
)
from standfast.recall.analysis import (
    COLUMNS,
    FREQUENCY_BITS,
    LANGUAGES,
    MAX_FREQUENCY,
    Analyzer,
    IndexedRecord,
    analysed,
    analyzer_of,
)
from standfast.recall.arrays import Numbered
from standfast.recall.index.lexical_index import IndexedVersion, indexed_versions, latest_before, read_commits
from standfast.recall.index.segment import (
    FORMAT,
    NEVER,
    RowEnd,
    Segment,
    SegmentLost,
    SegmentRows,
    SegmentTables,
    grouped_by_term,
    id_of,
    merged,
    sealed,
)
from standfast.recall.index.vector_parts import VectorRows, vector_parts
from standfast.records.scopes import prefix_in
from standfast.records.vocabulary import Band
from standfast.store.protocol import CHECKSUM_BYTES, PartName, RecordKey, SegmentHead, Vector, Version
from standfast.store.store import Store


class SegmentDraft:
    """The rows of one band from a snapshot on, while they are gathered."""

    def __init__(self, analyzer: Analyzer, first: int) -> None:
        self._analyzer = analyzer
        self._first = first
        self._numbers: list[tuple[int, ...]] = []
        """The columns of each row, but for the ends."""
        self._row_ends: dict[int, int] = {}
        self._places: list[str] = []
        self._rows: dict[tuple[str, int], int] = {}
        self._scopes, self._threads = Numbered[str](), Numbered[tuple[str, str]]()
        self._ids: dict[int, tuple[str, str]] = {}
        self._ends: list[RowEnd] = []
        self._terms: list[str] = []
        """The terms of all rows, one row after the other, and how often each is in its row."""
        self._counts: list[int] = []
        self._term_counts: list[int] = []

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
                self._row_ends[row] = version.snapshot
        if version.record is not None:
            self._add_row(version.place, version.snapshot, version.record)

    def _add_row(self, place: str, first: int, record: IndexedRecord) -> None:
        row, found = len(self._places), analysed(record, self._analyzer)
        self._terms += found.terms
        self._counts += found.terms.values()
        self._term_counts.append(len(found.terms))
        thread = self._threads.of((record.scope, record.session or "")) if record.is_threaded else -1
        self._numbers.append((first, NEVER, self._scopes.of(record.scope), thread, *found.numbers))
        if place != f"{record.scope}//{record.memory_id}":
            self._ids[row] = record.scope, record.memory_id
        self._places.append(place)
        self._rows[place, first] = row

    def rows(self) -> SegmentRows:
        """What was gathered."""
        numbers = np.array(self._numbers, dtype=np.int64).reshape(-1, len(COLUMNS))
        columns = dict(zip(COLUMNS, numbers.T, strict=True))
        for row, snapshot in self._row_ends.items():
            columns["end"][row] = snapshot
        rows = np.repeat(np.arange(len(self)), np.array(self._term_counts, dtype=np.int64))
        counts = np.minimum(np.array(self._counts, dtype=np.int64), MAX_FREQUENCY)
        tables = SegmentTables(self._scopes.names, self._threads.names, self._ids, self._ends)
        postings = grouped_by_term([self._terms], rows << FREQUENCY_BITS | counts)
        return SegmentRows(columns, self._places, tables, *postings)


PERSISTED_BANDS: Final = (Band.LEDGER.value, Band.VAULT.value)
"""What recall reads unless told otherwise.

The index of another band is made by each process that asks for it.
"""
Progress = Callable[[int, int], None]
"""Called with the snapshot up to which all are indexed, and the newest one."""
_LEVELS: Final = (MAX_SEGMENT_ROWS // MERGED_SEGMENTS, MAX_SEGMENT_ROWS)


class BandCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """What the persisted index has of one band."""

    band: str
    segments: int
    rows: int
    snapshot: int
    """It covers all snapshots up to this one."""
    size_bytes: int


class IndexStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the persisted index of a namespace."""

    namespace: str
    analysis: str
    head: int
    bands: list[BandCoverage]
    unused_segments: int
    """Segments that another version of the analysis made."""

    @property
    def behind(self) -> int:
        """How many of the newest snapshots are read from the records instead."""
        return self.head - min((band.snapshot for band in self.bands), default=0)


class SegmentRange(msgspec.Struct, frozen=True, order=True):
    """Snapshots after one, up to another."""

    after: int
    until: int

    def __len__(self) -> int:
        return self.until - self.after


class IndexUpkeep:
    """Looks after the segments of one namespace."""

    def __init__(self, store: Store, namespace: str, analyzer: Analyzer) -> None:
        self._store = store
        self._namespace = namespace
        self._analyzer = analyzer
        self.analysis = f"{FORMAT}; {analyzer.name}"
        self._read_vectors: tuple[tuple[int, int], list[Vector]] | None = None

    def heads(self) -> list[SegmentHead]:
        """The segments that can be used, by band and first snapshot."""
        return [one for one in self._store.segments.heads(self._namespace) if one.analysis == self.analysis]

    def read(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """Parts of segments; ``SegmentLost`` if the storage finds one damaged."""
        try:
            return self._store.segments.parts(names)
        except Corruption:
            for name in names:
                try:
                    self._store.segments.parts([name])
                except Corruption as error:
                    raise SegmentLost(name[0], str(error), is_damaged=True) from None
            raise

    def status(self) -> IndexStatus:
        """What the index covers."""
        heads, head = self.heads(), self._store.head()
        coverages = []
        for band in PERSISTED_BANDS:
            own = [one for one in heads if one.band == band]
            open_ranges = uncovered(own, head)
            coverages.append(
                BandCoverage(
                    band=band,
                    segments=len(own),
                    rows=sum(one.rows for one in own),
                    snapshot=open_ranges[0].after if open_ranges else head,
                    size_bytes=sum(one.size_bytes for one in own),
                )
            )
        return IndexStatus(
            namespace=self._namespace,
            analysis=self.analysis,
            head=head,
            bands=coverages,
            unused_segments=len(self._store.segments.heads(self._namespace)) - len(heads),
        )

    def fill(self, *, whole: bool = False, progress: Progress | None = None) -> None:
        """Make segments of what none covers; of the newest snapshots only if many, or if ``whole``."""
        head = self._store.head()
        self._drop_unused()
        heads = self.heads()
        bands_of: dict[SegmentRange, list[str]] = {}
        for band in PERSISTED_BANDS:
            for one in uncovered([own for own in heads if own.band == band], head):
                if whole or one.until < head or len(one) >= MAX_TAIL_SNAPSHOTS:
                    bands_of.setdefault(one, []).append(band)
        for one in sorted(bands_of):
            for segment_head, parts in self.derived(bands_of[one], one):
                if not self._store.segments.put(segment_head, parts, replaces=(), at=head):
                    # Another process was faster, or something was erased meanwhile.
                    return
                if progress is not None:
                    progress(segment_head.last, head)
        for band in PERSISTED_BANDS:
            self._merge(band)

    def rebuild(self, *, progress: Progress | None = None) -> IndexStatus:
        """Drop all segments, and make them anew from the records."""
        self._store.segments.drop([one.segment_id for one in self._store.segments.heads(self._namespace)])
        self.fill(whole=True, progress=progress)
        return self.status()

    def _drop_unused(self) -> None:
        """Drop what another version made: it would be in the way of what this one makes."""
        unused = [
            one.segment_id
            for one in self._store.segments.heads(self._namespace)
            if one.analysis != self.analysis
        ]
        if unused:
            self._store.segments.drop(unused)

    def derived(
        self, bands: Sequence[str], snapshots: SegmentRange
    ) -> Iterator[tuple[SegmentHead, dict[str, bytes]]]:
        """Yield segments of bands from the records, each as soon as it is full."""
        first = snapshots.after + 1
        drafts = {band: SegmentDraft(self._analyzer, first) for band in bands}
        snapshot = snapshots.after
        for commit in read_commits(self._store, self._namespace, bands, snapshots.after, snapshots.until):
            if any(len(draft) + len(commit) > MAX_SEGMENT_ROWS for draft in drafts.values()):
                for band, draft in drafts.items():
                    yield self._sealed(band, first, snapshot, draft.rows())
                first = snapshot + 1
                drafts = {band: SegmentDraft(self._analyzer, first) for band in bands}
            for version in commit:
                drafts[version.band].add(version)
            snapshot += 1
        for band, draft in drafts.items():
            yield self._sealed(band, first, snapshot, draft.rows())

    def _sealed(
        self, band: str, first: int, last: int, rows: SegmentRows
    ) -> tuple[SegmentHead, dict[str, bytes]]:
        # The id follows from the content, so that two with one id are the same.
        encoded = rows.encoded()
        segment_id = id_of([self._namespace, band, self.analysis, first, last], encoded)
        # Vectors are no part of its identity: they may be filled in later.
        parts = sealed(segment_id, encoded | self._vector_parts(band, first, last, rows))
        size = sum(map(len, parts.values()))
        head = SegmentHead(segment_id, self._namespace, band, self.analysis, first, last, len(rows), size)
        return head, parts

    def _vector_parts(self, band: str, first: int, last: int, rows: SegmentRows) -> dict[str, bytes]:
        if band not in PERSISTED_BANDS:
            # Only these have vectors.
            return vector_parts((), {}, last=last, until=last)
        until = self._store.head()
        if not len(rows):
            return vector_parts((), {}, last=last, until=until)
        firsts = rows.columns["first"].tolist()
        row_of = {
            (f"{band}/{place}", snapshot): row
            for row, (place, snapshot) in enumerate(zip(rows.places, firsts, strict=True))
        }
        vectors = (one for one in self._vectors_added(first, until) if prefix_in(one.key) == band)
        return vector_parts(vectors, row_of, last=last, until=until)

    def _vectors_added(self, first: int, until: int) -> list[Vector]:
        """The vectors that some snapshots added. Segments of two bands are made one after the other, so they
        are read once; the second band drops them.
        """
        held, self._read_vectors = self._read_vectors, None
        if held is not None and held[0] == (first, until):
            return held[1]
        added = self._store.vectors_between(self._namespace, first, until)
        self._read_vectors = ((first, until), added)
        return added

    def _merge(self, band: str) -> None:
        """Merge runs of adjacent segments of about one size, the smallest first: as many as make one of the
        next size, or as fit into one.
        """
        for level, limit in enumerate(_LEVELS):
            run: list[SegmentHead] = []
            least = _LEVELS[level - 1] if level else 0
            for one in [one for one in self.heads() if one.band == band]:
                is_next = least <= one.rows < limit and (not run or run[-1].last + 1 == one.first)
                fits = sum(own.rows for own in run) + one.rows <= MAX_SEGMENT_ROWS
                if is_next and not fits and len(run) > 1 and not self._put_merged(run):
                    return
                if not (is_next and fits):
                    run = []
                if least <= one.rows < limit:
                    run.append(one)
                if len(run) == MERGED_SEGMENTS:
                    if not self._put_merged(run):
                        return
                    run = []

    def _put_merged(self, heads: Sequence[SegmentHead]) -> bool:
        at = self._store.head()
        try:
            rows = merged([self._rows_of(self._opened(one)) for one in heads], heads[0].first)
        except SegmentLost:
            return False
        head, parts = self._sealed(heads[0].band, heads[0].first, heads[-1].last, rows)
        return self._store.segments.put(head, parts, replaces=[one.segment_id for one in heads], at=at)

    def _opened(self, head: SegmentHead) -> Segment:
        return Segment(head, self.read(Segment.needed([head])))

    def _rows_of(self, segment: Segment) -> SegmentRows:
        return segment.rows(self.read(segment.all_parts()))

    def problems(self, agreeing: Collection[str] = ()) -> Iterator[str]:
        """Yield one message for each segment that disagrees with the records, or can't be read.

        Args:
            agreeing: The ids of segments that were found to agree with the records already.
        """
        for head in self.heads():
            if head.segment_id in agreeing:
                continue
            title = f"the index of {self._namespace}/{head.band}, snapshots {head.first} to {head.last}"
            advice = "run: standfast index rebuild"
            try:
                agrees = self._agrees_now(head)
            except SegmentLost as error:
                problem = f"{error}; {advice}"
            except Corruption as error:
                problem = f"it can't be compared with the records. {error}"
            else:
                problem = "" if agrees else f"it does not agree with the records; {advice}"
            # A segment that was merged into another one meanwhile is not there any more.
            if problem and head.segment_id in {one.segment_id for one in self.heads()}:
                yield f"{title}: {problem}"

    def _agrees_now(self, head: SegmentHead) -> bool:
        """Whether a segment has what the records give. If something of it is erased while both are read,
        they are read again.
        """
        while True:
            before, draft = self._opened(head), self.draft_of(head)
            until = min(head.last, self._store.head())
            for commit in read_commits(self._store, self._namespace, [head.band], head.first - 1, until):
                for version in commit:
                    draft.add(version)
            if self._has(before, draft):
                return True
            if np.array_equal(self._opened(head).gone, before.gone):
                return False

    def draft_of(self, head: SegmentHead) -> SegmentDraft:
        """An empty draft of what a segment should have."""
        return SegmentDraft(self._analyzer, head.first)

    def agrees(self, head: SegmentHead, draft: SegmentDraft) -> bool:
        """Whether a segment can be read and has what was gathered from the records."""
        try:
            return self._has(self._opened(head), draft)
        except SegmentLost:
            return False

    def _has(self, segment: Segment, draft: SegmentDraft) -> bool:
        rows = self._rows_of(segment)
        return draft.rows().encoded() == rows.encoded() and self._vectors_agree(segment, rows)

    def _vectors_agree(self, segment: Segment, rows: SegmentRows) -> bool:
        """Whether the vectors of a segment are those of the table, but for rows that were erased."""
        head = segment.head
        kept = np.setdiff1d(np.arange(head.rows), segment.gone).tolist()
        firsts = segment.columns["first"][kept].tolist()
        row_of = {
            (f"{head.band}/{place}", first): row
            for row, place, first in zip(kept, rows.places, firsts, strict=True)
        }
        listed, remaining = segment.vector_list(self.read), set(kept)
        stored: dict[tuple[str, int], tuple[int, bytes]] = {}
        for embedder in listed.embedders:
            found = VectorRows.of(segment.vector_parts(embedder, self.read)).by_row(embedder)
            stored |= {(embedder, row): one for row, one in found.items() if row in remaining}
        added = self._store.vectors_between(self._namespace, head.first, listed.until)
        return stored == {
            (one.embedder, row): (one.since, one.content[:-CHECKSUM_BYTES])
            for one in added
            if (row := row_of.get((one.key, one.memory_snapshot_id))) is not None
        }


class IndexAudit:
    """Compares the segments of a store with the rows that an audit reads. What does not agree with them, or
    has changed meanwhile, is compared again with what is stored then.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._upkeeps = list(_upkeeps_of(store))
        self._open = [
            _OpenSegments(upkeep, band, deque(one for one in upkeep.heads() if one.band == band))
            for upkeep in self._upkeeps
            for band in PERSISTED_BANDS
        ]
        self._agreeing: set[str] = set()

    def take(self, snapshot: int, rows: Sequence[Version], damaged: Collection[RecordKey]) -> None:
        """Gather the rows of a commit for the segments that cover it."""
        for one in self._open:
            head = one.covering(snapshot)
            if head is None:
                continue
            namespace, start = head.namespace, f"{head.band}/"
            own = [row for row in rows if row.key.startswith(start) and row.namespace == namespace]
            if damaged and not {(row.namespace, row.key) for row in own}.isdisjoint(damaged):
                one.heads.popleft()
                continue
            latest = latest_before(self._store, namespace, {row.key for row in own}, snapshot - 1)
            for version in indexed_versions(own, latest):
                one.draft.add(version)
            if snapshot == head.last and one.upkeep.agrees(head, one.draft):
                self._agreeing.add(head.segment_id)

    def problems(self) -> Iterator[str]:
        """Yield one message for each segment that disagrees with the records, or can't be read."""
        for upkeep in self._upkeeps:
            yield from upkeep.problems(self._agreeing)


@dataclass(slots=True)
class _OpenSegments:
    """The segments of one band that are still to be compared, by first snapshot, and the rows of the first
    one as far as they were read.
    """

    upkeep: IndexUpkeep
    band: str
    heads: deque[SegmentHead]
    draft: SegmentDraft = field(init=False)

    def covering(self, snapshot: int) -> SegmentHead | None:
        """The segment that covers a snapshot, with a draft that has what came before it."""
        while self.heads and self.heads[0].last < snapshot:
            self.heads.popleft()
        if not self.heads or snapshot < self.heads[0].first:
            return None
        if snapshot == self.heads[0].first:
            self.draft = self.upkeep.draft_of(self.heads[0])
        return self.heads[0]


def _upkeeps_of(store: Store) -> Iterator[IndexUpkeep]:
    analyzers = {f"{FORMAT}; {analyzer_of(one).name}": analyzer_of(one) for one in LANGUAGES}
    found = {(one.namespace, one.analysis) for one in store.segments.heads()}
    for namespace, analysis in sorted(found):
        # What another version made is never used.
        if analysis in analyzers:
            yield IndexUpkeep(store, namespace, analyzers[analysis])


def problems_of_index(store: Store) -> Iterator[str]:
    """Yield one message for each segment of a store that disagrees with the records, or can't be read."""
    for upkeep in _upkeeps_of(store):
        yield from upkeep.problems()


def uncovered(heads: Sequence[SegmentHead], until: int) -> list[SegmentRange]:
    """The snapshots that segments of one band, by first snapshot, leave open."""
    found, after = [], 0
    for one in heads:
        if one.first > after + 1:
            found.append(SegmentRange(after, one.first - 1))
        after = max(after, one.last)
    if after < until:
        found.append(SegmentRange(after, until))
    return found
