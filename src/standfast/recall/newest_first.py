"""Newest first: ranked rows that speak of one matter stand together, the one said last first.

Two records speak of one matter if both have a statement on it (``records/statements.py``), or if their texts
are nearly equal and the question has no word that only one of them has ("order 17"). If nothing else tells
them apart (dates, names, roles, trust), they share the best points of them all (the least, if they have no
statement and no word of the question), so that how new each is
decides, which stands in the lowest digits of a score: the order is still by score, then the newest. Of a
statement's matter, what was said later is brought in even if the query does not find it. Only the best rows
are looked at, and of the matters of all that is shown the last statements. ``SaidLast`` tells what was said
later about a matter of a record that is shown.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import Final, NamedTuple

import numpy as np

from standfast.recall.analysis import Analyzer, IndexedRecord, matter_term, words_of
from standfast.recall.arrays import Numbers
from standfast.recall.filters import UNREVIEWED_VERDICTS, is_unreviewed, is_untrusted
from standfast.recall.index.view import IndexView
from standfast.recall.ranking import SNAPSHOT_BITS, RankedRow, Reader
from standfast.records.filters import trust_of
from standfast.records.origins import Origin
from standfast.records.statements import differs
from standfast.records.timestamps import clock_of
from standfast.records.vocabulary import Record

WINDOW: Final = 32
"""So many of the best rows are compared with each other."""
MAX_COMPARED_WORDS: Final = 24
"""Longer texts are not compared: they say more than one thing."""
NEWEST_OF_MATTER: Final = 16
"""So many of the last statements on a matter are read, because they may hold no more or be filtered out."""
LATER_CHARS: Final = 80
"""So much is shown of a text that was said later."""
_NEWNESS: Final = (1 << SNAPSHOT_BITS) - 1


class NewestFirst:
    """Reads the best of some ranked rows, and orders those of one matter by how new they are.

    Args:
        rows_at: Gives the rows of slots that may be chosen, with their scores.
        read: Reads the records of rows.
        asked: The terms of the question.
    """

    def __init__(
        self,
        view: IndexView,
        rows_at: Callable[[Numbers], list[RankedRow]],
        read: Reader,
        analyzer: Analyzer,
        asked: Sequence[str],
    ) -> None:
        self._asked = frozenset(asked)
        self._view, self._rows_at, self._read_rows, self._analyzer = view, rows_at, read, analyzer
        self._known: dict[int, tuple[str, IndexedRecord] | None] = {}

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows; those that were looked at already are not read again."""
        missing = [row for row in rows if row not in self._known]
        if missing:
            self._known.update(zip(missing, self._read_rows(missing), strict=True))
        return [self._known[row] for row in rows]

    def ordered(
        self, rows: Iterator[RankedRow], without: frozenset[int] = frozenset()
    ) -> Iterator[RankedRow]:
        """The rows in their new order.

        Args:
            without: Rows that must not be brought in, because they were taken already.
        """
        window = list(islice(rows, WINDOW))
        if not window:
            return
        window += self._later_ones(window, without)
        seen = {ranked.row for ranked in window}
        yield from self._regrouped(window)
        for ranked in rows:
            if ranked.row not in seen:
                yield ranked

    def said_last(self, records: Iterable[IndexedRecord]) -> list[RankedRow]:
        """The rows of the last statements on the matters of some records, whatever their place."""
        slots = set[int]()
        for term in {matter_term(one) for record in records for one in record.statements}:
            slots.update(self._newest_of(self._view.slots_with(term)).tolist())
        return self._rows_at(np.array(sorted(slots), dtype=np.intp)) if slots else []

    def _newest_of(self, slots: Numbers) -> Numbers:
        """Of the slots with a statement on one matter, those that were said last; none of a single one."""
        codes = self._view.trust_codes(self._view.rows[slots])
        counting: Numbers = slots[~(is_untrusted(codes) | is_unreviewed(codes))]
        if len(slots) < 2 or not len(counting):
            return slots[:0]
        rows = self._view.rows[counting]
        times, snapshots = self._view.times(rows), self._view.snapshots(rows)
        first = np.lexsort((snapshots, times))[-NEWEST_OF_MATTER:][0]
        # With all that are as new as the first of them: which of these comes first is not decided here.
        is_newest = (times > times[first]) | ((times == times[first]) & (snapshots >= snapshots[first]))
        newest: Numbers = counting[is_newest]
        return newest

    def _record(self, ranked: RankedRow) -> IndexedRecord | None:
        (found,) = self.read([ranked.row])
        return None if found is None else found[1]

    def _later_ones(self, window: Sequence[RankedRow], without: frozenset[int]) -> list[RankedRow]:
        """Rows outside the window with a statement on a matter of one inside it that were written later."""
        self.read([ranked.row for ranked in window])
        firsts: dict[str, int] = {}
        for ranked in window:
            for statement in record.statements if (record := self._record(ranked)) is not None else ():
                term, first = matter_term(statement), ranked.score & _NEWNESS
                firsts[term] = min(firsts.get(term, first), first)
        inside = {ranked.slot for ranked in window}
        slots = set[int]()
        for term, first in firsts.items():
            of_term = self._view.slots_with(term)
            is_later = self._view.snapshots(self._view.rows[of_term]) > first
            slots.update(of_term[is_later].tolist())
        found = self._rows_at(np.array(sorted(slots - inside), dtype=np.intp)) if slots - inside else ()
        return [ranked for ranked in found if ranked.row not in without]

    def _regrouped(self, window: Sequence[RankedRow]) -> list[RankedRow]:
        """The window with shared points, by score, then the newest."""
        records = [self._record(ranked) for ranked in window]
        groups = list(range(len(window)))
        compared = list(self._comparable(window, records))
        for one, other in _about_the_same(compared):
            old, new = groups[other.place], groups[one.place]
            if old != new:
                groups = [new if group == old else group for group in groups]
        # Near-equal texts without a word of the question may have their points from a neighbour, such as the
        # question itself in a conversation. What one borrowed does not count for all of them.
        answering = {groups[one.place] for one in compared if one.asked or one.matters}
        members: dict[int, list[RankedRow]] = {}
        for ranked, group in zip(window, groups, strict=True):
            members.setdefault(group, []).append(ranked)
        shared = list[RankedRow]()
        for group, rows in members.items():
            if len(rows) == 1:
                shared += rows
                continue
            score = (max if group in answering else min)(ranked.score for ranked in rows)
            shares_word = any(ranked.shares_word for ranked in rows)
            shared += [
                ranked._replace(
                    score=(score & ~_NEWNESS) | (ranked.score & _NEWNESS), shares_word=shares_word
                )
                for ranked in rows
            ]
        counts = Counter(ranked.score for ranked in shared)
        tied = [ranked.row for ranked in shared if counts[ranked.score] > 1]
        newness = dict(zip(tied, self._view.newest_order(tied), strict=True))
        return sorted(shared, key=lambda ranked: (-ranked.score, newness.get(ranked.row, ())))

    def _comparable(
        self, window: Sequence[RankedRow], records: Sequence[IndexedRecord | None]
    ) -> Iterator["_Comparable"]:
        for place, (ranked, record) in enumerate(zip(window, records, strict=True)):
            if record is None or trust_of(record) == Origin.UNTRUSTED:
                continue
            words = frozenset(self._analyzer.gist_of(words_of(record.text)))
            is_short = len(words) <= MAX_COMPARED_WORDS
            if is_short or record.statements:
                asked = self._asked.intersection(self._analyzer.terms_of(list(words)))
                yield _Comparable(place, ranked, record, words if is_short else frozenset(), asked)


class _Comparable:
    """What is compared of a record: its scope, what its score was multiplied by, its matters, its words and
    those of the question among them.
    """

    __slots__ = ("asked", "kind", "matters", "place", "words")

    def __init__(
        self,
        place: int,
        ranked: RankedRow,
        record: IndexedRecord,
        words: frozenset[str],
        asked: frozenset[str],
    ) -> None:
        self.place, self.words, self.asked = place, words, asked
        boosts = ranked.is_named, ranked.is_asked_role, ranked.is_preference, ranked.quarters
        self.kind = record.scope, boosts, trust_of(record)
        self.matters = frozenset(statement.matter for statement in record.statements)


def _about_the_same(compared: Sequence[_Comparable]) -> Iterator[tuple[_Comparable, _Comparable]]:
    """Pairs of one kind that have a statement on one matter, or half of all their words and all that the
    question asks for in common. Each that has a matter in common with others is paired with the first.
    """
    of_matter: dict[tuple[object, str], _Comparable] = {}
    alike: dict[tuple[object, frozenset[str]], list[_Comparable]] = {}
    for one in compared:
        for matter in one.matters:
            first = of_matter.setdefault((one.kind, matter), one)
            if first is not one:
                yield first, one
        alike.setdefault((one.kind, one.asked), []).append(one)
    for of_kind in alike.values():
        for one, other in combinations(of_kind, 2):
            if are_nearly_equal(one.words, other.words):
                yield one, other


def are_nearly_equal(words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two short texts have at least two words and half of all their words in common."""
    size = len(words) + len(others)
    # If n words are shared, the two have size - n different ones.
    if 3 * min(len(words), len(others)) < size:
        return False
    shared = len(words & others)
    return shared > 1 and 3 * shared >= size


def are_of_one_set(one: IndexedRecord, other: IndexedRecord | Record) -> bool:
    """Whether two records are values of one subject that holds several: both hold."""
    return one.subject is not None and one.subject == other.subject and bool(one.several or other.several)


class LaterStatement(NamedTuple):
    """What was said later about a matter of a record: the text with its date, and the id of its record."""

    text: str
    memory_id: str


class _Said(NamedTuple):
    newness: tuple[int, int, int]
    record: IndexedRecord
    value: str


class SaidLast:
    """The newest statement on each matter of each scope; of what is untrusted or not reviewed, none."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], _Said] = {}

    def note(self, record: IndexedRecord, snapshot: int) -> None:
        """Take in what a record says.

        Args:
            snapshot: The snapshot that wrote it, which decides between records of one time; of one
                snapshot, the place in the conversation does.
        """
        if record.verdict in UNREVIEWED_VERDICTS or trust_of(record) == Origin.UNTRUSTED:
            return
        newness = record.time, snapshot, record.position or 0
        for statement in record.statements:
            place = record.scope, statement.matter
            known = self._newest.get(place)
            if known is None or known.newness < newness:
                self._newest[place] = _Said(newness, record, statement.value)

    def later_than(self, record: IndexedRecord, snapshot: int) -> LaterStatement | None:
        """What was said last about a matter of a record, if it is something else and was said later."""
        if not record.statements or trust_of(record) == Origin.UNTRUSTED:
            return None
        for statement in record.statements:
            newest = self._newest.get((record.scope, statement.matter))
            if newest is None or newest.newness <= (record.time, snapshot, record.position or 0):
                continue
            if differs(newest.value, statement.value) and not are_of_one_set(newest.record, record):
                return LaterStatement(_shown(newest.record, record), newest.record.memory_id)
        return None


def _shown(later: IndexedRecord, record: IndexedRecord) -> str:
    """The beginning of a later text with its date, and the time if both are of one day."""
    text = " ".join(later.text.split())
    date = later.date or "no date"
    if later.date is not None and later.date == record.date:
        date += f" {clock_of(later.local_time)}"
    if len(text) > LATER_CHARS:
        text = f"{text[:LATER_CHARS].rsplit(' ', 1)[0]}…"
    return f"{date}: {text}"
