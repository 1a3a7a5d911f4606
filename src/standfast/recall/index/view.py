"""What a snapshot shows of a ``LexicalIndex`` in bands and scopes: the rows that every statistic counts, and
what each borrows from its neighbours.

A record of a conversation is scored with its neighbours, because an answer is understood with its question.
Frequencies and lengths are counted in sixths: 6 for each occurrence of a term in the record itself, 3 in a
direct neighbour, 2 in the next, 1 in the third::

    T6(term) = 6 · own + 3 · (one before + one behind) + 2 · (two before + …) + 1 · (three before + …)
    L6       = the same sum over lengths

A neighbour counts only if it is of the same thread, if no position between the two is missing or taken twice,
and if its own words and those between the two are at most ``REACH_WORDS``. So a long answer lends nothing to
the short question before it, which borrows its words from short neighbours only.

A view of a newer snapshot is made from an older one where it can be: only what changed, and the conversations
that it is part of, is looked at again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from standfast.limits import MAX_CACHED_SCORES
from standfast.recall.analysis import (
    ADDRESSED_WORD,
    DATE_TERM,
    FIELD,
    MAX_FREQUENCY,
    PASSAGE_TERM,
    SPEAKER_WORD,
    STANDING_TERM,
    SUBJECT_WORD,
    Analyzer,
    IndexedRecord,
    filtered_term,
    words_of,
)
from standfast.recall.arrays import Flags, Numbers, Rows, SizedCache, SmallNumbers
from standfast.recall.cues import SpeakerRole
from standfast.recall.filters import is_untrusted
from standfast.recall.index.lexical_index import LexicalIndex, Postings
from standfast.recall.index.shown_rows import QuarantinedRows, ShownRows
from standfast.records.canon import lowered
from standfast.records.filters import Filter
from standfast.records.timestamps import MISSING, time_of
from standfast.records.vocabulary import Band

NEIGHBOUR_SIXTHS: Final = (6, 3, 2, 1)
"""What a record, its direct neighbours, the next and the third ones contribute to its term frequency, in
sixths.
"""
REACH_WORDS: Final = 120
"""A neighbour counts only if it and what is between have no more words than this."""
NAME_PREFIXES: Final = (SUBJECT_WORD, SPEAKER_WORD, ADDRESSED_WORD)
"""The terms of the index by which a word of a question may name a record."""
LEAST_ADDRESSES: Final = 2
"""Somebody who is addressed by a name so often has it, if the other one is hardly ever."""
ADDRESSES_OF_OTHER: Final = 3
"""Hardly ever: at most a third as often."""
_PAD: Final = len(NEIGHBOUR_SIXTHS) - 1
"""Arrays of what is lent have so many zeros more at both ends, so that the first and the last have neighbours
too.
"""
_DENSE_SHARE: Final = 32
"""A term in the texts of more than one of so many rows is scored in all rows."""
_THREAD_BITS: Final = 32
_MAX_POSITION: Final = 1 << 31
_MAX_FOLLOWED_ROWS: Final = 1 << 12
_NO_NUMBERS: Final[Numbers] = np.zeros(0, dtype=np.int64)


class TermSlots(NamedTuple):
    """Slots that a term may score in, and its frequency in each, in sixths; 0 where it does not."""

    slots: Numbers | slice
    sixths: SmallNumbers


class TermScores(NamedTuple):
    """What a term is worth (its idf, None if it does not occur), and what it scores in slots: whole numbers
    below 2^24.
    """

    idf: int | None
    slots: Numbers | slice
    scores: npt.NDArray[np.float32]


class _SlotColumns(NamedTuple):
    """The slots of a view in columns. They are in the order of their keys: by thread, then by position.

    The keys of neighbours differ by as much as their positions do. ``lengths`` are those of the records
    alone.
    """

    rows: SmallNumbers
    keys: Numbers
    words: SmallNumbers
    lengths: SmallNumbers

    def changed(self, gone: SmallNumbers, added: "_SlotColumns") -> "_SlotColumns":
        """The same without some slots, and with others."""
        is_kept: Flags = np.ones(len(self.rows), dtype=np.bool_)
        is_kept[gone] = False
        places = np.searchsorted(self.keys[is_kept], added.keys)
        return _SlotColumns(
            np.insert(self.rows[is_kept], places, added.rows),
            np.insert(self.keys[is_kept], places, added.keys),
            np.insert(self.words[is_kept], places, added.words),
            np.insert(self.lengths[is_kept], places, added.lengths),
        )


class IndexView(ShownRows):
    """The rows that one snapshot shows in the asked bands and scopes.

    Each has a slot. The slots of a conversation follow each other by position, so that neighbours lend from
    slot to slot. A view is immutable: rows that are added to the index later are not seen. Where VAULT is
    read too, a record of another band is hidden by one of VAULT with its id and scope.

    Args:
        scopes: The scopes, each with all below it; by default all.
        earlier: A view of the same index, bands and scopes, of an older snapshot. Whoever has it made sure
            that nothing was erased since.
        quarantined: What the snapshot's quarantine hides and brings back.

    Attributes:
        rows: The row of each slot.
        lengths: The length of each slot's record, with what its neighbours lend, in sixths of a term.
    """

    def __init__(
        self,
        index: LexicalIndex,
        snapshot: int,
        bands: Collection[str],
        scopes: Collection[str] | None = None,
        *,
        earlier: "IndexView | None" = None,
        quarantined: QuarantinedRows | None = None,
    ) -> None:
        super().__init__(index, snapshot, bands, scopes, quarantined=quarantined)
        if earlier is None or earlier.quarantined is not quarantined or not self._follow(earlier):
            self._build()
        self.rows: SmallNumbers = self.columns.rows
        self.count = len(self.rows)
        self.slot_of: SmallNumbers = np.full(self.size, -1, dtype=np.int32)
        self.slot_of[self.rows] = np.arange(self.count, dtype=np.int32)
        self._neighbour_weights = self._weights_by_distance()
        own = np.pad(self.columns.lengths, _PAD)
        lengths = NEIGHBOUR_SIXTHS[0] * own + self._borrowed_from_neighbours(own)
        self.lengths: SmallNumbers = np.minimum(lengths[_PAD : _PAD + self.count], MAX_FREQUENCY)
        self.total_length = int(self.lengths.sum(dtype=np.int64))
        norms = 72 * 1024 * self.count * self.lengths.astype(np.int64) // max(1, self.total_length)
        self.norms: npt.NDArray[np.float64] = norms.astype(np.float64)
        """What the length of each slot adds to the denominator of its terms' scores: a whole number."""
        self._weights_of_means: tuple[Flags, SmallNumbers] = (np.zeros(0, dtype=np.bool_), self.lengths[:0])
        self.term_scores = SizedCache[str, TermScores](MAX_CACHED_SCORES)
        """What terms that were asked for lately score here, by term."""
        self._has_terms: dict[str, bool] = {}

    def _build(self) -> None:
        rows = np.flatnonzero(self.are_shown(slice(0, self.size)))
        self.law = self._law_in(rows)
        self.columns = self._columns_of(self._without_hidden(rows))

    def _follow(self, earlier: "IndexView") -> bool:
        """Take over what an earlier view has, and look at what changed since; False if that is too much."""
        index = self.index
        ends = self._ends_of(slice(0, earlier.size))
        ended = np.flatnonzero((ends > earlier.snapshot) & (ends <= self.snapshot))
        ended = ended[earlier.slot_of[ended] >= 0]
        added = np.flatnonzero(index.column("first") > earlier.snapshot)
        added = added[self.are_shown(added)]
        changed = np.concatenate([ended, added])
        is_law_new = Band.VAULT in self._bands and index.rows_of_bands(changed, [Band.VAULT]).any()
        if len(changed) > _MAX_FOLLOWED_ROWS or is_law_new or not earlier.has_exact_keys:
            return False
        self.law = earlier.law
        columns = self._columns_of(self._without_hidden(added))
        if not self.has_exact_keys:
            return False
        self.columns = earlier.columns.changed(earlier.slot_of[ended], columns)
        return True

    def _columns_of(self, rows: Rows) -> "_SlotColumns":
        """The columns of rows, by key."""
        index, keys = self.index, self._keys_of(rows)
        order = np.argsort(keys)
        rows = rows[order]
        words, lengths = index.column("words")[rows], index.column("length")[rows]
        return _SlotColumns(
            rows.astype(np.int32), keys[order], words.astype(np.int32), lengths.astype(np.int32)
        )

    def _law_in(self, rows: Rows) -> frozenset[tuple[str, str]]:
        """Scope and id of the law among some rows, if VAULT is read."""
        if Band.VAULT not in self._bands:
            return frozenset()
        law = rows[self.index.rows_of_bands(rows, [Band.VAULT])]
        return frozenset(self.index.names_of(law.tolist()))

    def _without_hidden(self, rows: Rows) -> Rows:
        """Those of some rows that law does not hide."""
        if not self.law:
            return rows
        others = rows[~self.index.rows_of_bands(rows, [Band.VAULT])]
        return np.setdiff1d(rows, self.index.rows_named(self.law, others), assume_unique=True)

    def _keys_of(self, rows: Rows) -> Numbers:
        """The keys of rows; see ``_SlotColumns``."""
        threads, positions = self.index.column("thread")[rows], self.index.column("position")[rows]
        self.has_exact_keys = bool(((positions >= 0) & (positions < _MAX_POSITION)).all())
        """Whether keys hold positions as they are."""
        if not self.has_exact_keys:
            # Others are numbered in their order, so that neighbours stay neighbours.
            known, numbers = np.unique(positions, return_inverse=True)
            steps = np.minimum(np.diff(known.astype(np.float64), prepend=known[0]), _PAD + 1)
            positions = np.cumsum(steps.astype(np.int64))[numbers]
        # What is part of no conversation is nobody's neighbour.
        return np.where(threads >= 0, threads << _THREAD_BITS | positions, -(rows + 1) << _THREAD_BITS)

    def _weights_by_distance(self) -> list[tuple[SmallNumbers, SmallNumbers]]:
        """For each distance from 1 on, in sixths: what each slot weighs for the one so far behind it, and
        what the one so far behind it weighs for each slot; 0 where they are no neighbours. Padded.
        """
        keys, words = self.columns.keys, self.columns.words
        same = keys[1:] == keys[:-1]
        # Two records at one position: neither is a neighbour.
        is_alone = ~(np.append(same, False) | np.append(False, same))[: self.count]
        words_between: SmallNumbers = np.zeros(self.count, dtype=np.int32)
        is_connected = is_alone
        found = []
        for distance in range(1, len(NEIGHBOUR_SIXTHS)):
            behind, ahead = (np.zeros(self.count + 2 * _PAD, dtype=np.int32) for _ in range(2))
            if self.count > distance:
                size = self.count - distance
                # Connected at this distance: connected at the one before, and nothing is missing in between.
                is_connected = is_connected[:size] & is_alone[distance:]
                is_connected &= keys[distance:] - keys[:-distance] == distance
                words_between = words_between[:size]
                for weights, lender in ((behind, words[:size]), (ahead, words[distance:])):
                    is_near = is_connected & (words_between + lender <= REACH_WORDS)
                    weights[_PAD : _PAD + size] = NEIGHBOUR_SIXTHS[distance] * is_near
                words_between = words_between + words[distance:]
            if not behind.any() and not ahead.any():
                # What is near at a distance is near at each smaller one.
                break
            found.append((behind, ahead))
        return found

    def _borrowed_from_neighbours(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For a number that each slot has, the sum over its neighbours by weight. Both arrays are padded."""
        sums = np.zeros_like(values)
        for distance, (behind, ahead) in enumerate(self._neighbour_weights, 1):
            sums[distance:] += (behind * values)[:-distance]
            sums[:-distance] += ahead[:-distance] * values[distance:]
        return sums

    def _posting(self, term: str) -> Postings:
        """The slots that have a term, and how often."""
        rows, counts = self.index.postings(term)
        if not len(rows):
            return Postings(rows, counts)
        # Rows are ascending, so those that came after this view are at the end.
        if rows[-1] >= self.size:
            size = int(np.searchsorted(rows, self.size))
            rows, counts = rows[:size], counts[:size]
        slots = self.slot_of[rows].astype(np.intp)
        if self.count < self.size:
            is_shown = slots >= 0
            slots, counts = slots[is_shown], counts[is_shown]
        return Postings(slots, counts)

    def fetch(self, terms: Collection[str], words: Iterable[str] = (), others: Iterable[str] = ()) -> None:
        """Read what ``term`` will need of terms, ``rows_by_name`` of words and ``has_term`` of other terms,
        together.
        """
        self.index.fetch(
            [*terms, *(FIELD + term for term in terms)]
            + [term for term in others if term not in self._has_terms]
            + [prefix + word for word in words for prefix in NAME_PREFIXES]
        )

    def term(self, term: str, field_weight: int) -> TermSlots:
        """Where a term scores: in texts, in the texts of neighbours, and in other fields with a weight."""
        own, fields = self._posting(term), self._posting(FIELD + term)
        slots: Numbers | slice = slice(0, self.count)
        sums = np.zeros(self.count + 2 * _PAD, dtype=np.int32)
        at, counts = own.rows + _PAD, own.counts.astype(np.int32)
        if len(at) * _DENSE_SHARE > self.count:
            sums[at] = counts
            sums = NEIGHBOUR_SIXTHS[0] * sums + self._borrowed_from_neighbours(sums)
        else:
            sums[at] = NEIGHBOUR_SIXTHS[0] * counts
            for distance, (behind, ahead) in enumerate(self._neighbour_weights, 1):
                sums[at + distance] += behind[at] * counts
                sums[at - distance] += ahead[at - distance] * counts
            around = [own.rows + distance for distance in range(-_PAD, _PAD + 1)]
            slots = _each_once(np.concatenate([*around, fields.rows]), self.count)
        sums[fields.rows + _PAD] += field_weight * fields.counts.astype(np.int32)
        return TermSlots(slots, np.minimum(sums[_PAD:][slots], MAX_FREQUENCY))

    def mean_with_neighbours(self, values: SmallNumbers, has: Flags) -> Numbers:
        """The mean of each slot's value and those of its neighbours, by weight, rounded down.

            (6 · own + 3 · direct neighbours + …) // (6 + 3 + …), over those that have a value

        Slots without a value of their own have 0.
        """
        # Dot products are below 2^24, and all weights together 18, so that 32 bits hold the sums.
        total = self._sum_with_neighbours(values * has)
        known, weights = self._weights_of_means
        if known is not has and not np.array_equal(known, has):
            weights = np.maximum(1, self._sum_with_neighbours(has.astype(np.int32)))
            # Most questions find the same slots with values.
            self._weights_of_means = has, weights
        # Both are small, so that the quotient of floats is exact where it is whole, and never rounded up.
        means: Numbers = np.floor(total / weights).astype(np.int64)
        return means * has

    def _sum_with_neighbours(self, values: SmallNumbers) -> SmallNumbers:
        padded = np.pad(values, _PAD)
        sums = NEIGHBOUR_SIXTHS[0] * padded + self._borrowed_from_neighbours(padded)
        found: SmallNumbers = sums[_PAD : _PAD + self.count]
        return found

    def has_term(self, term: str) -> bool:
        """Whether any text of the view has a term. It is remembered, so ask only for terms of a table."""
        found = self._has_terms.get(term)
        if found is None:
            found = self._has_terms[term] = bool(len(self.slots_with(term)))
        return found

    def slots_with(self, term: str) -> Numbers:
        """The slots whose records have a term."""
        return self._posting(term).rows

    def passages_with(self, term: str) -> Postings:
        """The slots of long texts that have a term, and a bit for each passage that has it."""
        return self._posting(PASSAGE_TERM + term)

    def rows_with_dates(self, names: Mapping[str, int], rows: Rows) -> Numbers:
        """For each of some rows, how well the dates that its text speaks of fit, in quarters.

        Args:
            names: What is asked for; see ``dates.named_dates``.
        """
        best = np.zeros(len(rows), dtype=np.int64)
        for name, quarters in names.items():
            has = _has_row(self.index.postings(DATE_TERM + name).rows, rows)
            best = np.maximum(best, np.where(has, quarters, 0))
        return best

    def roles(self, rows: Rows) -> Numbers:
        """Who said the rows; see ``cues.SpeakerRole``."""
        return self.index.column("role")[rows]

    @cached_property
    def pinned(self) -> Numbers:
        """The slots that are pinned, the newest first."""
        slots = np.flatnonzero(self.index.column("pinned")[self.rows])
        rows = self.rows[slots].tolist()
        falling = (-self.snapshots(self.rows[slots])).tolist()
        keys = list(zip(falling, self.newest_order(rows), strict=True))
        order = sorted(range(len(rows)), key=keys.__getitem__)
        return slots[np.array(order, dtype=np.intp)]

    @property
    def standing(self) -> Numbers:
        """The slots with an instruction of a user that stands."""
        return self.slots_with(STANDING_TERM)

    @cached_property
    def size_bytes(self) -> int:
        """The bytes of all texts."""
        return int(self.index.column("size")[self.rows].sum())

    def newest_order(self, rows: Sequence[int]) -> list[tuple[int, int, str, str]]:
        """What orders rows of one snapshot, the newest first: when each was said and its place in the
        conversation, falling; then the id of its record, and its key.
        """
        numbers = np.array(rows, dtype=np.intp)
        times, positions = (-self.times(numbers)).tolist(), (-self.index.column("position")[numbers]).tolist()
        keys = self.index.keys_of(rows)
        ids = [memory_id for _, memory_id in self.index.names_of(rows, keys)]
        return list(zip(times, positions, ids, keys, strict=True))

    def rows_by_name(self, words: Iterable[str]) -> dict[str, list[Numbers]]:
        """For each prefix of names, the rows with a word, of each of some words that occurs there."""
        each_once, postings = dict.fromkeys(words), self.index.postings
        return {
            prefix: [rows for word in each_once if len(rows := postings(prefix + word).rows)]
            for prefix in NAME_PREFIXES
        }

    def is_named(self, by_word: Sequence[Numbers], prefix: str, rows: Rows) -> Flags:
        """For each of some rows, whether its subject (or speaker, by the prefix) has words and all of them
        are among those that were looked up with ``rows_by_name``.
        """
        counts = np.zeros(len(rows), dtype=np.int64)
        if not by_word:
            return counts > 0
        for found in by_word:
            counts += _has_row(found, rows)
        column = self.index.column("subject_words" if prefix == SUBJECT_WORD else "speaker_words")
        named: Flags = (counts > 0) & (counts == column[rows])
        return named

    def addressed(self, words: Iterable[str]) -> Numbers:
        """The sides of conversations that have one of these words as their name.

        Messages that name no speaker get a name from those of the other side: who is addressed as Ada by the
        assistant, in the same scope, is the user. A name that both sides use says nothing.
        """
        named: list[int] = []
        for word in dict.fromkeys(words):
            slots = self.slots_with(ADDRESSED_WORD + word)
            if len(slots) < LEAST_ADDRESSES:
                continue
            sides = self._sides(self.rows[slots])
            counts = dict(
                zip(*(found.tolist() for found in np.unique(sides, return_counts=True)), strict=True)
            )
            named += [
                side ^ 1
                for side, count in counts.items()
                if count >= max(LEAST_ADDRESSES, ADDRESSES_OF_OTHER * counts.get(side ^ 1, 0))
            ]
        return np.array(named, dtype=np.int64)

    def is_of_side(self, sides: Numbers, rows: Rows) -> Flags:
        """Which of some rows were said by one of these sides, without a name; see ``addressed``."""
        if not len(sides):
            return np.zeros(len(rows), dtype=np.bool_)
        is_unnamed: Flags = (self.roles(rows) > 0) & (self.index.column("speaker_words")[rows] == 0)
        return is_unnamed & np.isin(self._sides(rows), sides)

    def _sides(self, rows: Rows) -> Numbers:
        """A number for the user's side of a scope, and the next for the assistant's."""
        sides: Numbers = 2 * self.index.column("scope")[rows] + (self.roles(rows) == SpeakerRole.ASSISTANT)
        return sides

    def times(self, rows: Rows) -> Numbers:
        """When the rows were said, in microseconds since the start of year 1, or ``MISSING``."""
        return self.index.column("time")[rows]

    def trust_codes(self, rows: Rows) -> Numbers:
        """The rows' trust codes; see ``filters``."""
        return self.index.column("trust")[rows]

    def sizes(self, rows: Rows) -> Numbers:
        """The bytes of the rows' texts; 0 for those that hold only from or until some time, of which more has
        to be known.
        """
        return np.where(self.index.column("bounds")[rows] == 0, self.index.column("size")[rows], 0)

    def is_in(self, rows: Rows, scopes: Collection[str]) -> Flags:
        """Which rows are in one of these scopes themselves, not below it."""
        return self.index.is_in(rows, scopes)

    @cached_property
    def scopes_of_trusted(self) -> frozenset[str]:
        """The scopes that hold anything that is not untrusted, themselves, not below them."""
        return self.index.scopes_of(self.rows[~is_untrusted(self.trust_codes(self.rows))])

    def may_match(self, where: Filter) -> Flags:
        """For each row, whether its record may match a filter. Those that may are still to be checked."""
        may: Flags = np.ones(self.size, dtype=np.bool_)
        asked = [filtered_term(f"metadata {name}", value) for name, value in where.metadata.items()]
        for name, value in (
            ("tag", where.tag),
            ("kind", None if where.source_kind is None else lowered(where.source_kind.strip())),
            ("session", where.session),
            ("speaker", None if where.speaker is None else lowered(where.speaker)),
        ):
            if value is not None:
                asked.append(filtered_term(name, value))
        for rows in (*(self.index.postings(term).rows for term in asked), *self._with_subject(where)):
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
            yield self.index.postings(SUBJECT_WORD + word).rows
        if "'" not in prefix and len(last) > 1:
            yield self.index.rows_with_prefix(SUBJECT_WORD + last[:-1])


class LexicalView(Protocol):
    """What ``lexical-v1`` reads: an index of one snapshot, and the records behind its rows."""

    @property
    def index(self) -> IndexView:
        """The rows that the snapshot shows in the asked bands and scopes."""
        ...

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows with the paths of their stores, in the order of the rows; None for one that was
        erased since.
        """
        ...


class ListedView:
    """An index of records that are listed, for views that have none. It is made anew each time.

    Args:
        keys: The key of each; by default its path and id.
        firsts: The snapshot that wrote each; by default all are equally new.
    """

    def __init__(
        self,
        records: Iterable[tuple[str, IndexedRecord]],
        analyzer: Analyzer,
        keys: Sequence[str] | None = None,
        firsts: Sequence[int] | None = None,
    ) -> None:
        self._records = list(records)
        index = LexicalIndex(analyzer)
        for row, (store_path, record) in enumerate(self._records):
            key = f"{store_path}\0{record.memory_id}" if keys is None else keys[row]
            index.add(record, key, 0 if firsts is None else firsts[row])
        bands = {record.band for _, record in self._records}
        self.index = IndexView(index, max(firsts or [0]), bands)

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows with the paths of their stores."""
        return [self._records[row] for row in rows]


def _has_row(found: Numbers, rows: Rows) -> Flags:
    """Which of some rows are among others, which are ascending."""
    if not len(found):
        return np.zeros(len(rows), dtype=np.bool_)
    has: Flags = found[np.minimum(np.searchsorted(found, rows), len(found) - 1)] == rows
    return has


def _each_once(slots: Numbers, count: int) -> Numbers:
    """Those of some slots that there are, each once."""
    slots = slots[(slots >= 0) & (slots < count)]
    numbers = np.arange(len(slots), dtype=np.int32)
    last = np.empty(count, dtype=np.int32)
    last[slots] = numbers
    different: Numbers = slots[last[slots] == numbers]
    return different
