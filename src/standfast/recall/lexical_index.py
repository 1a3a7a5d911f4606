"""The index of ``lexical-v1``: which records have which words, for any set of snapshots, as arrays of whole numbers.

Rows are only ever added. A row is shown from one snapshot to another, so one index answers as of every snapshot that it covers.
Postings are one array of 64-bit numbers for each term: the row, and how often the term stands there. ``LexicalIndex.view`` gives what a
snapshot shows in bands and scopes; statistics count exactly that.
"""

import threading
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np

from standfast.recall.analysis import Analyzer, words_of
from standfast.recall.item_trust import EvidenceFacts, Flags, Numbers, trust_code
from standfast.recall.query_dates import NO_DAY
from standfast.recall.timestamps import MISSING, time_of
from standfast.vocabulary import Band

FREQUENCY_BITS: Final = 20
MAX_FREQUENCY: Final = (1 << FREQUENCY_BITS) - 1
"""The most that a term frequency or a length counts, so that every product stays below 2^63."""
SIXTHS: Final = (6, 3, 2, 1)
"""What a record, its direct neighbours, the next and the third ones contribute to its term frequency, in sixths."""
REACH_WORDS: Final = 60
"""A neighbour lends only if no more than so many words are between it and the record."""
NEVER: Final = (1 << 62) - 1
_DAY_MICROSECONDS: Final = 86_400_000_000
# Prefixes of the terms of other fields than the text. No term of a text begins with a control character.
FIELD: Final = "\x01"
SUBJECT_WORD: Final = "\x02"
SPEAKER_WORD: Final = "\x03"


class IndexedRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a stored record that recall uses. Others are ignored."""

    memory_id: str
    text: str
    ts_utc: str | None = None
    tags: tuple[str, ...] = ()
    refs: tuple[dict[str, Any], ...] = ()
    subject: str | None = None
    source: dict[str, Any] | None = None
    band: str = Band.LEDGER.value
    scope: str = "shared"
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    session: str | None = None
    position: int | None = None
    speaker: str | None = None
    origin: str = "ordinary"
    verdict: str | None = None
    evidence: EvidenceFacts | None = None
    valid_from: str | None = None
    valid_until: str | None = None

    @property
    def time(self) -> int:
        """When it was said, in microseconds since the start of year 1; ``MISSING`` without a timestamp."""
        return MISSING if self.ts_utc is None else time_of(self.ts_utc)

    @property
    def date(self) -> str | None:
        """Its date, as YYYY-MM-DD."""
        time = self.time
        # Both count from the first day of year 1, whose ordinal is 1.
        return (
            None
            if time == MISSING
            else datetime.fromordinal(time // _DAY_MICROSECONDS + 1).date().isoformat()
        )

    @property
    def source_name(self) -> str:
        """Its source in a few words: kind and id."""
        source = self.source or {}
        parts = [part for part in (source.get("kind"), source.get("id")) if isinstance(part, str) and part]
        return ":".join(parts)


decode_record: Final = msgspec.json.Decoder(IndexedRecord).decode


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

    @property
    def values(self) -> Numbers:
        return self._values[: self._size]


class _Numbered:
    """Gives every name a number, from 0 on."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def of(self, name: Any) -> int:
        return self.numbers.setdefault(name, len(self.numbers))


class LexicalIndex:
    """Postings and columns of records. Its owner lets one thread at a time change it or make a view; views may be read meanwhile."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.lock = threading.Lock()
        """An array can't grow while it is copied."""
        self.keys: list[str] = []
        """The key of each row, for whoever reads the record behind it."""
        self.ids: list[str] = []
        self.postings: dict[str, array[int]] = {}
        self._first, self._end = _Column(), _Column()
        self._band, self._scope, self._name = _Column(), _Column(), _Column()
        self.thread, self.position = _Column(), _Column()
        self.words, self.length, self.time = _Column(), _Column(), _Column()
        self.subject_words, self.speaker_words, self.trust = _Column(), _Column(), _Column()
        self._bands, self._scopes, self._names, self._threads = (_Numbered() for _ in range(4))

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, record: IndexedRecord, key: str, first: int) -> int:
        """Add a record that is shown from a snapshot on, and return its row."""
        row = len(self.keys)
        words = words_of(record.text)
        terms = self.analyzer.terms_of(words)
        for term, count in Counter(terms).items():
            self._post(term, row, count)
        labels = [*record.tags, record.subject or "", record.source_name, record.speaker or ""]
        for term, count in Counter(self.analyzer.terms_of(words_of(" ".join(labels)))).items():
            self._post(FIELD + term, row, count)
        subject, speaker = set(words_of(record.subject or "")), set(words_of(record.speaker or ""))
        for prefix, names in ((SUBJECT_WORD, subject), (SPEAKER_WORD, speaker)):
            for word in names:
                self._post(prefix + word, row, 1)
        is_threaded = record.session is not None and record.position is not None
        thread = self._threads.of((record.band, record.scope, record.session)) if is_threaded else -1
        position = record.position if is_threaded and record.position is not None else 0
        for column, number in (
            (self._first, first),
            (self._end, NEVER),
            (self._band, self._bands.of(record.band)),
            (self._scope, self._scopes.of(record.scope)),
            (self._name, self._names.of((record.scope, record.memory_id))),
            (self.thread, thread),
            (self.position, position),
            (self.words, len(words)),
            (self.length, min(len(terms), MAX_FREQUENCY)),
            (self.time, record.time),
            (self.subject_words, len(subject)),
            (self.speaker_words, len(speaker)),
            (self.trust, trust_code(record)),
        ):
            column.append(number)
        self.keys.append(key)
        self.ids.append(record.memory_id)
        return row

    def _post(self, term: str, row: int, count: int) -> None:
        posting = self.postings.get(term)
        if posting is None:
            posting = self.postings[term] = array("q")
        with self.lock:
            posting.append(row << FREQUENCY_BITS | min(count, MAX_FREQUENCY))

    def end(self, row: int, snapshot: int) -> None:
        """The row is shown no more from a snapshot on."""
        self._end.values[row] = min(int(self._end.values[row]), snapshot)

    def erase(self, row: int) -> None:
        """No snapshot shows the row any more."""
        self._end.values[row] = self._first.values[row]

    def view(
        self, snapshot: int, bands: Collection[str], scopes: Collection[str] | None = None
    ) -> "IndexView":
        """What a snapshot shows in bands, and in scopes with all below them (by default in all).

        Where VAULT is read too, a record of another band is hidden by one of VAULT with its id and scope.
        """
        shown = (self._first.values <= snapshot) & (snapshot < self._end.values)
        shown &= np.isin(self._band.values, _numbers_of(self._bands, bands))
        if scopes is not None:
            wanted = [
                name
                for name in self._scopes.numbers
                if any(name == scope or name.startswith(f"{scope}/") for scope in scopes)
            ]
            shown &= np.isin(self._scope.values, _numbers_of(self._scopes, wanted))
        vault = self._bands.numbers.get(Band.VAULT.value, -1)
        if Band.VAULT in bands and vault >= 0:
            is_law = self._band.values == vault
            law = np.unique(self._name.values[shown & is_law])
            if len(law):
                shown &= is_law | ~np.isin(self._name.values, law)
        return IndexView(self, shown)

    def is_in(self, rows: Numbers, scopes: Collection[str]) -> Flags:
        """Which rows are in one of these scopes themselves, not below it."""
        return np.isin(self._scope.values[rows], _numbers_of(self._scopes, scopes))


def _numbers_of(numbered: _Numbered, names: Collection[str]) -> list[int]:
    return [numbered.numbers[name] for name in names if name in numbered.numbers]


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
        own = index.length.values[: len(shown)] * shown
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
        threads, positions = index.thread.values[: len(shown)], index.position.values[: len(shown)]
        rows = np.flatnonzero(shown & (threads >= 0))
        rows = rows[np.lexsort((positions[rows], threads[rows]))]
        threads, positions = threads[rows], positions[rows]
        if len(rows):
            # Two records at one position: neither lends or borrows.
            same = (threads[1:] == threads[:-1]) & (positions[1:] == positions[:-1])
            is_alone = ~(np.append(same, False) | np.append(False, same))
            rows, threads, positions = rows[is_alone], threads[is_alone], positions[is_alone]
        words = index.words.values[rows]
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
        posting = self.index.postings.get(term)
        if posting is None:
            return TermRows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        with self.index.lock:
            packed = np.array(posting, dtype=np.int64)
        rows = packed >> FREQUENCY_BITS
        # Rows are ascending, so those that came after this view are at the end.
        size = int(np.searchsorted(rows, len(self.shown)))
        rows, counts = rows[:size], (packed & MAX_FREQUENCY)[:size]
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
        column = self.index.subject_words if prefix == SUBJECT_WORD else self.index.speaker_words
        named: Flags = (counts > 0) & (counts == column.values[: len(self.shown)])
        return named

    def days(self, rows: Numbers) -> Numbers:
        """The ordinals of the rows' dates."""
        times = self.times(rows)
        return np.where(times == MISSING, NO_DAY, times // _DAY_MICROSECONDS + 1)

    def times(self, rows: Numbers) -> Numbers:
        """When the rows were said, in microseconds since the start of year 1, or ``MISSING``."""
        return self.index.time.values[rows]

    def trust_codes(self, rows: Numbers) -> Numbers:
        """The rows' trust codes; see ``item_trust``."""
        return self.index.trust.values[rows]

    def is_in(self, rows: Numbers, scopes: Collection[str]) -> Flags:
        """Which rows are in one of these scopes themselves, not below it."""
        return self.index.is_in(rows, scopes)


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

    def __init__(self, records: Iterable[tuple[str, IndexedRecord]], analyzer: Analyzer) -> None:
        self._records = list(records)
        index = LexicalIndex(analyzer)
        for store_path, record in self._records:
            index.add(record, f"{store_path}\0{record.memory_id}", 0)
        self.index = index.view(0, {record.band for _, record in self._records})

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows with the paths of their stores."""
        return [self._records[row] for row in rows]
