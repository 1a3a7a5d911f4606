"""The index of ``lexical-v1``: which records have which words, for any set of snapshots, as arrays of whole numbers.

Rows are only ever added: first those of stored segments, then one by one those of newer commits. A row is shown from one snapshot to another, so one
index answers as of every snapshot that it covers. Of segments only columns are in memory; postings and keys are read when they are asked for.
``LexicalIndex.view`` gives what a snapshot shows in bands and scopes; statistics count exactly that.
"""

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from standfast.casing import lowered
from standfast.limits import MAX_CACHED_KEY_PARTS, MAX_CACHED_POSTINGS
from standfast.recall.analysis import Analyzer, words_of
from standfast.recall.filters import Filter
from standfast.recall.index_segment import (
    COLUMNS,
    FREQUENCY_BITS,
    KEYS_A_PART,
    MAX_FREQUENCY,
    NEVER,
    Block,
    Numbered,
    RowEnd,
    Segment,
    crc_of,
    expanded,
)
from standfast.recall.indexed_record import (
    FIELD,
    SUBJECT_WORD,
    IndexedRecord,
    analysed,
    filtered_term,
)
from standfast.recall.item_trust import Flags, Numbers
from standfast.recall.query_dates import NO_DAY
from standfast.recall.timestamps import MISSING, time_of
from standfast.scopes import key_parts
from standfast.store.segments import PartName
from standfast.vocabulary import Band

PartReader = Callable[[Sequence[PartName]], Mapping[PartName, bytes]]

_DAY_MICROSECONDS: Final = 86_400_000_000
SIXTHS: Final = (6, 3, 2, 1)
"""What a record, its direct neighbours, the next and the third ones contribute to its term frequency, in sixths."""
REACH_WORDS: Final = 60
"""A neighbour lends only if no more than so many words are between it and the record."""


class _Column:
    """An array of numbers that grows."""

    def __init__(self) -> None:
        self._values: Numbers = np.zeros(64, dtype=np.int64)
        self._size = 0

    def append(self, number: int) -> None:
        if self._size == len(self._values):
            self._values = np.concatenate([self._values, np.zeros(self._size, dtype=np.int64)])
        self._values[self._size] = number
        self._size += 1

    def extend(self, values: Sequence[Numbers]) -> None:
        self._values = np.concatenate([self.values, *values, np.zeros(64, dtype=np.int64)])
        self._size = len(self._values) - 64

    @property
    def values(self) -> Numbers:
        return self._values[: self._size]


class LexicalIndex:
    """Postings and columns of records. Its owner lets one thread at a time change it or make a view; views may be read meanwhile.

    Args:
        read: Reads parts of the segments that are attached.
    """

    def __init__(self, analyzer: Analyzer, read: PartReader = lambda _: {}) -> None:
        self.analyzer = analyzer
        self._read = read
        self._lock = threading.Lock()
        self._columns = {name: _Column() for name in (*COLUMNS, "band", "crc")}
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
        self._cached: OrderedDict[str, TermRows] = OrderedDict()
        self._cached_size = 0
        self._key_parts: OrderedDict[PartName, list[str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._columns["first"].values)

    def column(self, name: str) -> Numbers:
        """The numbers of all rows in a column."""
        return self._columns[name].values

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
            segment.columns["crc"] = segment.crcs
            for name, values in gathered.items():
                values.append(segment.columns[name])
            self._names.update({base + row: names for row, names in segment.tables.ids.items()})
            self._segments.append(segment)
            self._bases.append(base)
            self._stored += head.rows
            self._spans[head.band] = self._spans.get(head.band, (base, 0))[0], self._stored
        for name, values in gathered.items():
            self._columns[name].extend(values)
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
        is_threaded = record.session is not None and record.position is not None
        thread = (record.band, record.scope, record.session or "")
        place = key.partition("/")[2]
        for name, number in (
            ("first", first),
            ("end", NEVER),
            ("band", self._bands.of(record.band)),
            ("crc", crc_of(place)),
            ("scope", self._scopes.of(record.scope)),
            ("thread", self._threads.of(thread) if is_threaded else -1),
            ("position", found.position),
            ("words", found.words),
            ("length", found.length),
            ("time", found.time),
            ("subject_words", found.subject_words),
            ("speaker_words", found.speaker_words),
            ("trust", found.trust),
        ):
            self._columns[name].append(number)
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
        low, high = self._spans.get(band, (0, 0))
        if not stored or low == high:
            return
        firsts, crcs = self._columns["first"].values[low:high], self._columns["crc"].values[low:high]
        previous = np.array([end.previous for end in stored], dtype=np.int64)
        starts = (low + np.searchsorted(firsts, previous, "left")).tolist()
        stops = (low + np.searchsorted(firsts, previous, "right")).tolist()
        for end, start, stop in zip(stored, starts, stops, strict=True):
            wanted = crc_of(end.place)
            at = start + int(np.searchsorted(crcs[start - low : stop - low], wanted))
            while at < stop and crcs[at - low] == wanted:
                if self.keys_of([at])[0] == f"{band}/{end.place}":
                    column[at] = min(int(column[at]), end.snapshot)
                at += 1

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

    def ids_of(self, rows: Sequence[int]) -> list[str]:
        """The ids of the records of rows, in their order."""
        return [name[1] for name in self._names_of(rows)]

    def _names_of(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        """Scope and id of rows."""
        names = []
        for row, key in zip(rows, self.keys_of(rows), strict=True):
            parts = key_parts(key)
            names.append(self._names.get(row) or ((parts.scope, parts.name) if parts else ("", key)))
        return names

    def by_id(self, rows: Numbers) -> Iterator[int]:
        """Places in an array of rows, by the ids of their records, then by their keys."""
        listed = rows.tolist()
        named = zip(self.ids_of(listed), self.keys_of(listed), range(len(listed)), strict=True)
        return (at for _, _, at in sorted(named))

    def postings(self, term: str) -> "TermRows":
        """The rows that have a term, ascending, and how often."""
        stored = self._cached.get(term)
        if stored is None:
            stored = self._stored_postings(term)
        posting = self._postings.get(term)
        if posting is None:
            return stored
        with self._lock:
            packed = np.array(posting, dtype=np.int64)
        rows, counts = packed >> FREQUENCY_BITS, packed & MAX_FREQUENCY
        if not len(stored.rows):
            return TermRows(rows, counts)
        return TermRows(np.concatenate([stored.rows, rows]), np.concatenate([stored.sixths, counts]))

    def _stored_postings(self, term: str) -> "TermRows":
        found = list(self._read_postings(term))
        rows = np.concatenate([one.rows for one in found] or [_NO_NUMBERS])
        counts = np.concatenate([one.sixths for one in found] or [_NO_NUMBERS])
        stored = TermRows(rows, counts)
        with self._lock:
            if term not in self._cached:
                self._cached[term] = stored
                self._cached_size += len(rows) + 16
            while self._cached_size > MAX_CACHED_POSTINGS:
                self._cached_size -= len(self._cached.popitem(last=False)[1].rows) + 16
        return stored

    def _read_postings(self, term: str, *, as_prefix: bool = False) -> Iterator["TermRows"]:
        names = [segment.blocks_of(term, as_prefix=as_prefix) for segment in self._segments]
        stored = self._read([name for of_segment in names for name in of_segment])
        for base, of_segment in zip(self._bases, names, strict=True):
            for name in of_segment:
                for rows, counts in Block.of(expanded(name, stored)).matching(term, as_prefix=as_prefix):
                    yield TermRows(rows + base, counts)

    def rows_with_prefix(self, term: str) -> Numbers:
        """The rows that have a term that begins so, in no order."""
        stored = [one.rows for one in self._read_postings(term, as_prefix=True)]
        with self._lock:
            names = [name for name in self._postings if name.startswith(term)]
        return np.concatenate([*stored, *(self.postings(name).rows for name in names), _NO_NUMBERS])

    def view(
        self, snapshot: int, bands: Collection[str], scopes: Collection[str] | None = None
    ) -> "IndexView":
        """What a snapshot shows in bands, and in scopes with all below them (by default in all).

        Where VAULT is read too, a record of another band is hidden by one of VAULT with its id and scope.
        """
        shown = (self.column("first") <= snapshot) & (snapshot < self.column("end"))
        shown &= np.isin(self.column("band"), _numbers_of(self._bands, bands))
        if scopes is not None:
            wanted = [
                name
                for name in self._scopes.names
                if any(name == scope or name.startswith(f"{scope}/") for scope in scopes)
            ]
            shown &= np.isin(self.column("scope"), _numbers_of(self._scopes, wanted))
        vault = self._bands.find(Band.VAULT.value)
        if Band.VAULT in bands and vault is not None:
            is_law = self.column("band") == vault
            hidden = self._hidden_by(np.flatnonzero(shown & is_law).tolist(), shown & ~is_law)
            shown[hidden] = False
        return IndexView(self, shown)

    def is_in(self, rows: Numbers, scopes: Collection[str]) -> Flags:
        """Which rows are in one of these scopes themselves, not below it."""
        return np.isin(self.column("scope")[rows], _numbers_of(self._scopes, scopes))

    def _hidden_by(self, law: list[int], others: Flags) -> list[int]:
        """The rows among others that have the scope and id of a law."""
        names = set(self._names_of(law))
        crcs = [crc_of(f"{scope}//{memory_id}") for scope, memory_id in names]
        alike = set(np.flatnonzero(others & np.isin(self.column("crc"), crcs)).tolist()) if names else set()
        alike |= {row for row, name in self._names.items() if name in names and others[row]}
        listed = sorted(alike)
        return [row for row, name in zip(listed, self._names_of(listed), strict=True) if name in names]


_NO_NUMBERS: Final[Numbers] = np.zeros(0, dtype=np.int64)


def _numbers_of(numbered: Numbered[str], names: Collection[str]) -> list[int]:
    return [number for name in names if (number := numbered.find(name)) is not None]


class TermRows(NamedTuple):
    """The rows that a term scores in, ascending, and its frequency in each, in sixths."""

    rows: Numbers
    sixths: Numbers


class IndexView:
    """The rows that one snapshot shows in the asked bands and scopes: what every statistic counts.

    It is immutable. Rows that are added to the index later are not seen.
    """

    def __init__(self, index: LexicalIndex, shown: Flags) -> None:
        self.index = index
        self.shown = shown
        self.count = int(shown.sum())
        own = index.column("length")[: len(shown)] * shown
        lengths = SIXTHS[0] * own
        self._neighbours: list[tuple[int, Numbers]] = []
        for weight, rows, others in self._found_neighbours():
            lengths[rows] += weight * own[others]
            neighbour_of = np.full(len(shown), -1, dtype=np.int64)
            neighbour_of[rows] = others
            self._neighbours.append((weight, neighbour_of))
        self.lengths: Numbers = np.minimum(lengths, MAX_FREQUENCY)
        self.total_length = int(self.lengths.sum())

    def _found_neighbours(self) -> list[tuple[int, Numbers, Numbers]]:
        """(weight, rows, others): for each distance and direction, the rows that have a neighbour there, and which."""
        index, shown = self.index, self.shown
        threads, positions = index.column("thread")[: len(shown)], index.column("position")[: len(shown)]
        rows = np.flatnonzero(shown & (threads >= 0))
        rows = rows[np.lexsort((positions[rows], threads[rows]))]
        threads, positions = threads[rows], positions[rows]
        if len(rows):
            # Two records at one position: neither lends or borrows.
            same = (threads[1:] == threads[:-1]) & (positions[1:] == positions[:-1])
            is_alone = ~(np.append(same, False) | np.append(False, same))
            rows, threads, positions = rows[is_alone], threads[is_alone], positions[is_alone]
        words = index.column("words")[rows]
        found = []
        between: Numbers = np.zeros(len(rows), dtype=np.int64)
        is_near: Flags = np.ones(len(rows), dtype=np.bool_)
        for distance in range(1, min(len(SIXTHS), len(rows))):
            is_near, between = is_near[:-1], between[:-1]
            is_near = is_near & (threads[distance:] == threads[:-distance])
            is_near &= (positions[distance:] - positions[:-distance] == distance) & (between <= REACH_WORDS)
            earlier, later = rows[:-distance][is_near], rows[distance:][is_near]
            found += [(SIXTHS[distance], earlier, later), (SIXTHS[distance], later, earlier)]
            between = between + words[distance:]
        return found

    def _posting(self, term: str) -> TermRows:
        """The rows of a posting that are shown, and the counts there."""
        rows, counts = self.index.postings(term)
        # Rows are ascending, so those that came after this view are at the end.
        size = int(np.searchsorted(rows, len(self.shown)))
        rows, counts = rows[:size], counts[:size]
        is_shown = self.shown[rows]
        return TermRows(rows[is_shown], counts[is_shown])

    def term(self, term: str, field_weight: int) -> TermRows:
        """Where a term scores: in texts, in the texts of neighbours, and in other fields with a weight."""
        own, fields = self._posting(term), self._posting(FIELD + term)
        if not len(fields.rows) and not (self._neighbours and len(own.rows)):
            return TermRows(own.rows, np.minimum(SIXTHS[0] * own.sixths, MAX_FREQUENCY))
        sixths = np.zeros(len(self.shown), dtype=np.int64)
        sixths[own.rows] = SIXTHS[0] * own.sixths
        for weight, neighbour_of in self._neighbours:
            others = neighbour_of[own.rows]
            # No two rows have the same neighbour at one distance and side, so no addition is lost.
            sixths[others[others >= 0]] += weight * own.sixths[others >= 0]
        sixths[fields.rows] += field_weight * fields.sixths
        rows = np.flatnonzero(sixths)
        return TermRows(rows, np.minimum(sixths[rows], MAX_FREQUENCY))

    def spread(self, values: Numbers, has: Flags) -> Numbers:
        """Values of rows that have one, with those of their neighbours: a mean by what each lends, rounded down."""
        total: Numbers = SIXTHS[0] * values * has
        weight = SIXTHS[0] * has.astype(np.int64)
        for sixths, neighbour_of in self._neighbours:
            lends = (neighbour_of >= 0) & has & has[neighbour_of]
            total += sixths * np.where(lends, values[neighbour_of], 0)
            weight += sixths * lends
        return total // np.maximum(1, weight)

    def named_by(self, words: Sequence[str], prefix: str) -> Flags:
        """For each row, whether its subject (or speaker, by the prefix) has words and all of them are among these."""
        counts = np.zeros(len(self.shown), dtype=np.int64)
        for word in dict.fromkeys(words):
            counts[self._posting(prefix + word).rows] += 1
        column = self.index.column("subject_words" if prefix == SUBJECT_WORD else "speaker_words")
        named: Flags = (counts > 0) & (counts == column[: len(self.shown)])
        return named

    def days(self, rows: Numbers) -> Numbers:
        """The ordinals of the rows' dates."""
        times = self.times(rows)
        return np.where(times == MISSING, NO_DAY, times // _DAY_MICROSECONDS + 1)

    def times(self, rows: Numbers) -> Numbers:
        """When the rows were said, in microseconds since the start of year 1, or ``MISSING``."""
        return self.index.column("time")[rows]

    def trust_codes(self, rows: Numbers) -> Numbers:
        """The rows' trust codes; see ``item_trust``."""
        return self.index.column("trust")[rows]

    def is_in(self, rows: Numbers, scopes: Collection[str]) -> Flags:
        """Which rows are in one of these scopes themselves, not below it."""
        return self.index.is_in(rows, scopes)

    def may_match(self, where: Filter) -> Flags:
        """For each row, whether its record may match a filter. Those that may are still to be checked."""
        may = self.shown.copy()
        if not where:
            return may
        asked = [filtered_term(f"metadata {name}", value) for name, value in where.metadata.items()]
        for name, value in (
            ("tag", where.tag),
            ("kind", None if where.source_kind is None else lowered(where.source_kind.strip())),
            ("session", where.session),
            ("speaker", None if where.speaker is None else lowered(where.speaker)),
        ):
            if value is not None:
                asked.append(filtered_term(name, value))
        for rows in (*(self._posting(term).rows for term in asked), *self._with_subject(where)):
            has: Flags = np.zeros(len(may), dtype=np.bool_)
            has[rows[rows < len(may)]] = True
            may &= has
        times = self.index.column("time")[: len(may)]
        if where.after is not None:
            may &= (times != MISSING) & (times >= time_of(where.after))
        if where.before is not None:
            may &= (times != MISSING) & (times < time_of(where.before))
        return may

    def _with_subject(self, where: Filter) -> Iterator[Numbers]:
        """The rows with each whole word of a subject's prefix, and with words that begin as its last one."""
        prefix = where.subject_prefix or ""
        if not prefix.isascii():
            return
        *whole, last = words_of(f"{prefix}x") or [""]
        for word in whole:
            yield self._posting(SUBJECT_WORD + word).rows
        if "'" not in prefix and len(last) > 1:
            yield self.index.rows_with_prefix(SUBJECT_WORD + last[:-1])


class LexicalView(Protocol):
    """What ``lexical-v1`` reads: an index of one snapshot, and the records behind its rows."""

    @property
    def index(self) -> IndexView:
        """The rows that the snapshot shows in the asked bands and scopes."""
        ...

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows with the paths of their stores, in the order of the rows; None for one that was erased since."""
        ...


class ListedView:
    """An index of records that are listed, for views that have none. It is made anew each time."""

    def __init__(
        self,
        records: Iterable[tuple[str, IndexedRecord]],
        analyzer: Analyzer,
        keys: Sequence[str] | None = None,
    ) -> None:
        self._records = list(records)
        index = LexicalIndex(analyzer)
        for row, (store_path, record) in enumerate(self._records):
            key = f"{store_path}\0{record.memory_id}" if keys is None else keys[row]
            index.add(record, key, 0)
        self.index = index.view(0, {record.band for _, record in self._records})

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows with the paths of their stores."""
        return [self._records[row] for row in rows]
