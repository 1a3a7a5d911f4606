"""What a snapshot shows of a ``LexicalIndex`` in bands and scopes: the rows that every statistic counts, and how they lend to each other.

A view of a newer snapshot is made from an older one where it can be: only what changed, and the conversations that it is part of, is looked at again.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from standfast.casing import lowered
from standfast.recall.analysis import Analyzer, words_of
from standfast.recall.filters import Filter
from standfast.recall.index_segment import MAX_FREQUENCY
from standfast.recall.indexed_record import FIELD, SPEAKER_WORD, SUBJECT_WORD, IndexedRecord, filtered_term
from standfast.recall.item_trust import Flags, Numbers, is_untrusted
from standfast.recall.lexical_index import LexicalIndex, Postings
from standfast.recall.query_dates import NO_DAY
from standfast.recall.timestamps import MISSING, time_of
from standfast.vocabulary import Band

SIXTHS: Final = (6, 3, 2, 1)
"""What a record, its direct neighbours, the next and the third ones contribute to its term frequency, in sixths."""
REACH_WORDS: Final = 60
"""A neighbour lends only if no more than so many words are between it and the record."""
_LENT: Final = tuple(sixths for sixths in SIXTHS[1:] for _ in range(2))
"""What the neighbours in each column of ``neighbours`` lend: the later and the earlier one at each distance."""
_NOBODY: Final = -1
"""No neighbour. An array that is written by neighbour has one place more than there are rows, which is this one."""
_DENSE_SHARE: Final = 16
"""A term in the texts of more than one of so many rows is scored in all rows."""
_MAX_FOLLOWED_ROWS: Final = 1 << 12
_DAY_MICROSECONDS: Final = 86_400_000_000
_NO_NUMBERS: Final[Numbers] = np.zeros(0, dtype=np.int64)


class TermRows(NamedTuple):
    """Rows that a term may score in, and its frequency in each, in sixths; 0 where it does not."""

    rows: Numbers | slice
    sixths: Numbers


class IndexView:
    """The rows that one snapshot shows in the asked bands and scopes.

    It is immutable. Rows that are added to the index later are not seen. Where VAULT is read too, a record of another band is hidden by one of
    VAULT with its id and scope.

    Args:
        scopes: The scopes, each with all below it; by default all.
        earlier: A view of the same index, bands and scopes, of an older snapshot. Whoever has it made sure that nothing was erased since.
    """

    def __init__(
        self,
        index: LexicalIndex,
        snapshot: int,
        bands: Collection[str],
        scopes: Collection[str] | None = None,
        *,
        earlier: "IndexView | None" = None,
    ) -> None:
        self.index = index
        self.snapshot = snapshot
        self._bands = frozenset(bands)
        self._scopes = None if scopes is None else frozenset(scopes)
        if earlier is None or not self._follow(earlier):
            self._build()
        self.norms: npt.NDArray[np.float64] = (
            72 * 1024 * self.count * self.lengths // max(1, self.total_length)
        ).astype(np.float64)
        """What the length of each row adds to the denominator of its terms' scores: a whole number."""

    def _build(self) -> None:
        size = len(self.index)
        self.shown = self._would_show(slice(0, size))
        self.law = self._law_in(np.flatnonzero(self.shown))
        self.shown[self._hidden(np.flatnonzero(self.shown))] = False
        self.count = int(self.shown.sum())
        self.neighbours: npt.NDArray[np.int32] = np.full((size, len(_LENT)), _NOBODY, dtype=np.int32)
        self.has_neighbours = False
        self.lengths: Numbers = np.zeros(size, dtype=np.int64)
        rows = np.flatnonzero(self.shown)
        self._link(rows[self.index.column("thread")[rows] >= 0])
        self._measure(rows)
        self.total_length = int(self.lengths.sum())

    def _follow(self, earlier: "IndexView") -> bool:
        """Take over what an earlier view has, and look at what changed since; False if that is too much."""
        index, old, size = self.index, len(earlier.shown), len(self.index)
        ends = index.column("end")[:old]
        ended = np.flatnonzero((ends > earlier.snapshot) & (ends <= self.snapshot))
        ended = ended[earlier.shown[ended]]
        added = np.flatnonzero(index.column("first") > earlier.snapshot)
        added = added[self._would_show(added)]
        changed = np.concatenate([ended, added])
        if len(changed) > _MAX_FOLLOWED_ROWS or (
            Band.VAULT in self._bands and index.rows_of_bands(changed, [Band.VAULT]).any()
        ):
            return False
        self.law, self.has_neighbours = earlier.law, earlier.has_neighbours
        self.shown = np.concatenate([earlier.shown, np.zeros(size - old, dtype=np.bool_)])
        self.shown[ended] = False
        self.shown[added] = True
        self.shown[self._hidden(added)] = False
        self.count = earlier.count - len(ended) + int(self.shown[added].sum())
        self.neighbours = np.concatenate(
            [earlier.neighbours, np.full((size - old, len(_LENT)), _NOBODY, dtype=np.int32)]
        )
        self.lengths = np.concatenate([earlier.lengths, np.zeros(size - old, dtype=np.int64)])
        threads = index.column("thread")
        touched = np.unique(threads[changed])
        rows = np.flatnonzero(np.isin(threads, touched[touched >= 0]))
        self.neighbours[rows] = _NOBODY
        self._link(rows[self.shown[rows]])
        rows = np.union1d(rows, changed)
        self.total_length = earlier.total_length - int(self.lengths[rows].sum())
        self._measure(rows)
        self.total_length += int(self.lengths[rows].sum())
        return True

    def _would_show(self, rows: slice | Numbers) -> Flags:
        """Which of some rows are shown, before law hides some."""
        index = self.index
        shown: Flags = index.column("first")[rows] <= self.snapshot
        shown &= self.snapshot < index.column("end")[rows]
        shown &= index.rows_of_bands(rows, self._bands)
        if self._scopes is not None:
            shown &= index.rows_of_scopes(rows, self._scopes)
        return shown

    def _law_in(self, rows: Numbers) -> frozenset[tuple[str, str]]:
        """Scope and id of the law among some rows, if VAULT is read."""
        if Band.VAULT not in self._bands:
            return frozenset()
        law = rows[self.index.rows_of_bands(rows, [Band.VAULT])]
        return frozenset(self.index.names_of(law.tolist()))

    def _hidden(self, rows: Numbers) -> Numbers:
        """Those of some rows that law hides."""
        if not self.law:
            return _NO_NUMBERS
        return self.index.rows_named(self.law, rows[~self.index.rows_of_bands(rows, [Band.VAULT])])

    def _link(self, rows: Numbers) -> None:
        """Find the neighbours of rows, which are all that is shown of their conversations."""
        threads, positions = self.index.column("thread")[rows], self.index.column("position")[rows]
        order = np.lexsort((positions, threads))
        rows, threads, positions = rows[order], threads[order], positions[order]
        if len(rows):
            # Two records at one position: neither lends or borrows.
            same = (threads[1:] == threads[:-1]) & (positions[1:] == positions[:-1])
            is_alone = ~(np.append(same, False) | np.append(False, same))
            rows, threads, positions = rows[is_alone], threads[is_alone], positions[is_alone]
        words = self.index.column("words")[rows]
        between: Numbers = np.zeros(len(rows), dtype=np.int64)
        is_near: Flags = np.ones(len(rows), dtype=np.bool_)
        for distance in range(1, min(len(SIXTHS), len(rows))):
            is_near, between = is_near[:-1], between[:-1]
            is_near = is_near & (threads[distance:] == threads[:-distance])
            is_near &= (positions[distance:] - positions[:-distance] == distance) & (between <= REACH_WORDS)
            before, after = rows[:-distance][is_near], rows[distance:][is_near]
            self.neighbours[before, 2 * distance - 2] = after
            self.neighbours[after, 2 * distance - 1] = before
            self.has_neighbours |= bool(len(before))
            between = between + words[distance:]

    def _measure(self, rows: Numbers) -> None:
        """Compute the lengths of rows: their own, and what neighbours lend."""
        own = self.index.column("length")
        lengths = SIXTHS[0] * own[rows]
        for column, sixths in enumerate(_LENT):
            others = self.neighbours[rows, column]
            lengths += sixths * np.where(others == _NOBODY, 0, own[others])
        self.lengths[rows] = np.minimum(lengths, MAX_FREQUENCY) * self.shown[rows]

    def _posting(self, term: str) -> Postings:
        """The rows of a posting that are shown, and the counts there."""
        rows, counts = self.index.postings(term)
        # Rows are ascending, so those that came after this view are at the end.
        if len(rows) and rows[-1] >= len(self.shown):
            size = int(np.searchsorted(rows, len(self.shown)))
            rows, counts = rows[:size], counts[:size]
        if self.count == len(self.shown):
            return Postings(rows, counts)
        is_shown = self.shown[rows]
        return Postings(rows[is_shown], counts[is_shown])

    def fetch(self, terms: Iterable[str], words: Iterable[str]) -> None:
        """Read what ``term`` will need of terms and ``named_by`` of words, together."""
        texts = list(terms)
        self.index.fetch(
            [*texts, *(FIELD + term for term in texts)]
            + [prefix + word for word in words for prefix in (SUBJECT_WORD, SPEAKER_WORD)]
        )

    def term(self, term: str, field_weight: int) -> TermRows:
        """Where a term scores, in any order: in texts, in the texts of neighbours, and in other fields with a weight."""
        own, fields = self._posting(term), self._posting(FIELD + term)
        if not len(fields.rows) and not (self.has_neighbours and len(own.rows)):
            return TermRows(own.rows, np.minimum(SIXTHS[0] * own.counts, MAX_FREQUENCY))
        sums = np.zeros(len(self.shown) + 1, dtype=np.int64)
        sums[own.rows] = SIXTHS[0] * own.counts
        places = [own.rows, fields.rows]
        for others, weight in zip(self.neighbours[own.rows].T.astype(np.intp), _LENT, strict=True):
            # No two rows have the same neighbour at one distance and side, so no addition is lost.
            sums[others] += weight * own.counts
            places.append(others)
        sums[fields.rows] += field_weight * fields.counts
        sums[_NOBODY] = 0
        if len(own.rows) * _DENSE_SHARE > len(self.shown):
            return TermRows(slice(0, len(self.shown)), np.minimum(sums[:_NOBODY], MAX_FREQUENCY))
        rows = _different(np.concatenate(places), len(sums))
        return TermRows(rows, np.minimum(sums[rows], MAX_FREQUENCY))

    def spread(self, values: Numbers, has: Flags) -> Numbers:
        """Values of rows that have one, with those of their neighbours: a mean by what each lends, rounded down."""
        total: Numbers = SIXTHS[0] * values * has
        weight = SIXTHS[0] * has.astype(np.int64)
        for column, sixths in enumerate(_LENT):
            others = self.neighbours[:, column]
            lends = (others != _NOBODY) & has & has[others]
            total += sixths * np.where(lends, values[others], 0)
            weight += sixths * lends
        return total // np.maximum(1, weight)

    def named_by(self, words: Sequence[str], prefix: str, rows: Numbers) -> Flags:
        """For each of some rows, whether its subject (or speaker, by the prefix) has words and all of them are among these."""
        counts = np.zeros(len(rows), dtype=np.int64)
        for word in dict.fromkeys(words):
            found = self.index.postings(prefix + word).rows
            if len(found):
                at = np.minimum(np.searchsorted(found, rows), len(found) - 1)
                counts += found[at] == rows
        column = self.index.column("subject_words" if prefix == SUBJECT_WORD else "speaker_words")
        named: Flags = (counts > 0) & (counts == column[rows])
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

    def sizes(self, rows: Numbers) -> Numbers:
        """The bytes of the rows' texts; 0 for those that hold only from or until some time, of which more has to be known."""
        return np.where(self.index.column("bounds")[rows] == 0, self.index.column("size")[rows], 0)

    def is_in(self, rows: Numbers, scopes: Collection[str]) -> Flags:
        """Which rows are in one of these scopes themselves, not below it."""
        return self.index.is_in(rows, scopes)

    @cached_property
    def scopes_of_trusted(self) -> frozenset[str]:
        """The scopes that hold anything that is not untrusted, themselves, not below them."""
        shown = np.flatnonzero(self.shown)
        return self.index.scopes_of(shown[~is_untrusted(self.trust_codes(shown))])

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
        self.index = IndexView(index, 0, {record.band for _, record in self._records})

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows with the paths of their stores."""
        return [self._records[row] for row in rows]


def _different(rows: Numbers, size: int) -> Numbers:
    """Each of some rows below a size once, but for ``_NOBODY``."""
    numbers = np.arange(len(rows), dtype=np.int32)
    last = np.empty(size, dtype=np.int32)
    last[rows] = numbers
    different: Numbers = rows[(last[rows] == numbers) & (rows != _NOBODY)]
    return different
