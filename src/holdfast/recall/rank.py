"""The best of many records, in one pass over their segments.

Candidates are ordered by score, then newest first, then by store, id and hash, so that no two that differ are equal. Only
as many are kept as can be selected, and a segment is searched no further than those leave room for: what comes out is what
scoring and sorting everything would give.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

from holdfast.recall.moments import MISSING, POINT, moment_of
from holdfast.recall.records import Record
from holdfast.recall.scoring import HALF_POINT, Question
from holdfast.recall.sources.segment import Segment, TagBook
from holdfast.recall.wording import collapsed

_TERM: Final = 2
_NEVER: Final = MISSING - 1
_DIGITS_OF_TIME: Final = 64


@total_ordering
class _Tie:
    """The last words on an order: hash, then text. Read from the record only where everything else is equal."""

    __slots__ = ("_record", "row", "segment")

    def __init__(self, segment: Segment, row: int) -> None:
        self.segment = segment
        self.row = row
        self._record: Record | None = None

    @property
    def record(self) -> Record:
        if self._record is None:
            self._record = self.segment.record(self.row)
        return self._record

    def _key(self) -> tuple[str, str]:
        # Texts with one hash may still differ in their Unicode form, which an excerpt keeps.
        return self.record.record_hash, self.record.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tie) and self._key() == other._key()

    def __lt__(self, other: "_Tie") -> bool:
        return self._key() < other._key()

    __hash__ = None  # type: ignore[assignment]  # Nobody looks one up.


_Entry = tuple[int, int, str, str, _Tie]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that may be selected, with its score in millionths."""

    store_path: str
    score: int
    record: Record
    line: bytes


class _Needle:
    """A term, ready to be searched for in texts that are strings or UTF-8."""

    __slots__ = ("in_bytes", "in_text", "term", "word")

    def __init__(self, term: str) -> None:
        self.term = term
        # White space is not collapsed in a haystack, so a term of several words is searched for by its longest.
        self.word = max(term.split(" "), key=len)
        self.in_text = re.compile(re.escape(self.word)) if self.word.isascii() else None
        self.in_bytes = re.compile(re.escape(self.word.encode()))

    def rows(self, segment: Segment) -> list[int]:
        """The rows whose text holds the term."""
        haystack, ends = segment.haystack, segment.ends
        pattern = self.in_text if isinstance(haystack, str) else self.in_bytes
        if pattern is None:
            return []
        found, row = [], 0
        match = pattern.search(haystack)  # type: ignore[arg-type]  # Chosen by the haystack's type.
        while match is not None:
            row = bisect_right(ends, match.start(), row)
            found.append(row)
            match = pattern.search(haystack, ends[row])  # type: ignore[arg-type]  # As above.
        return found if self.word == self.term else [row for row in found if self.is_in(segment, row)]

    def is_in(self, segment: Segment, row: int) -> bool:
        """Whether one row's text holds the term."""
        text = segment.text(row)
        return self.term in (text if self.word == self.term else collapsed(text))


class Best:
    """The best candidates so far. ``limit`` is how many are kept; None keeps all."""

    def __init__(self, question: Question, limit: int | None) -> None:
        self._question = question
        self._limit = limit
        self._entries: list[_Entry] = []
        # Longer terms are rarer: those found first should rule out the most.
        self._needles = sorted(
            map(_Needle, question.terms), key=lambda needle: (-len(needle.word), needle.term)
        )
        self._tag_points: tuple[TagBook | None, list[int]] = (None, [])
        self._bar = 0
        self._bar_time = _NEVER

    def offer(self, segment: Segment, store_path: str, denied: Collection[int] = ()) -> None:
        """Look through a segment for better candidates."""
        points = self._points(segment)
        if points is None:
            return
        rows = self._promising(segment, points, {*segment.hidden, *denied})
        question, times = self._question, _times(segment, rows)
        for row in rows:
            score = points.get(row, 0) * HALF_POINT + question.recency_of(times[row])
            self._entries.append((-score, -times[row], store_path, segment.ids[row], _Tie(segment, row)))
        if self._limit is not None and rows and len(self._entries) >= self._limit:
            self._raise_bar(self._limit)

    def ranked(self) -> list[Candidate]:
        """The candidates that were kept, best first."""
        self._entries.sort()
        return [
            Candidate(path, -score, tie.record, tie.segment.lines[tie.row])
            for score, _, path, _, tie in self._entries[: self._limit]
        ]

    def _raise_bar(self, limit: int) -> None:
        """Forget what can't be selected any more, and what a row needs to be better than the last that can."""
        self._entries.sort()
        del self._entries[limit:]
        score, time = -self._entries[-1][0], -self._entries[-1][1]
        if self._question.now is None:
            self._bar, self._bar_time = score // HALF_POINT, time
        else:
            # Recency may add a point to any row.
            self._bar = max(0, -((POINT - score) // HALF_POINT))

    def _points(self, segment: Segment) -> dict[int, int] | None:
        """Half points of the rows that have any, as far as they can matter; None if no row can."""
        of_set = self._points_of_sets(segment.book)
        most_for_tags = max(of_set)
        # Who needs several terms must have one of all but the last few, so those need no search of their own.
        needed = -((most_for_tags - self._bar) // _TERM)
        if needed > len(self._needles):
            return None
        searched = len(self._needles) - max(needed - 1, 0)
        points: dict[int, int] = {}
        if most_for_tags:
            points = {row: of_set[number] for row, number in enumerate(segment.tags) if of_set[number]}
        matched: set[int] = set()
        for needle in self._needles[:searched]:
            for row in needle.rows(segment):
                points[row] = points.get(row, 0) + _TERM
                matched.add(row)
        for needle in self._needles[searched:]:
            for row in matched:
                if needle.is_in(segment, row):
                    points[row] += _TERM
        return points

    def _points_of_sets(self, book: TagBook) -> list[int]:
        """Half points that each set of tags in a book is worth; at least as many as the segment at hand refers to."""
        known, points = self._tag_points
        if known is not book:
            points = []
        if len(points) < len(book.sets):
            terms = self._question.terms if self._question.counts_tags else ()
            points += [
                sum(term in tags for term in terms) if terms else 0 for tags in book.sets[len(points) :]
            ]
            self._tag_points = (book, points)
        return points

    def _promising(self, segment: Segment, points: dict[int, int], hidden: set[int]) -> list[int]:
        """The rows that may be among the best, and not many more."""
        rows: Iterable[int] = points if self._bar > 0 else range(len(segment))
        bar = self._bar
        chosen = [row for row in rows if points.get(row, 0) >= bar and row not in hidden]
        limit = self._limit
        if limit is None or not chosen:
            return chosen
        times = _times(segment, chosen)
        if self._bar_time != _NEVER:
            chosen = [row for row in chosen if points.get(row, 0) > bar or times[row] >= self._bar_time]
        if len(chosen) <= 2 * limit:
            return chosen
        # Ties are kept: what else orders them is not known here.
        keyed = sorted(
            (((points.get(row, 0) << _DIGITS_OF_TIME) + times[row], row) for row in chosen), reverse=True
        )
        last = keyed[limit - 1][0]
        return [row for key, row in keyed if key >= last]


def _times(segment: Segment, rows: Sequence[int]) -> Sequence[int] | dict[int, int]:
    """The moments of these rows; of all, where they are known or that is no more work."""
    if segment.times or 4 * len(rows) > len(segment):
        return segment.timed()
    stamps = segment.stamps
    return {row: moment_of(stamp) if isinstance(stamp := stamps[row], str) else MISSING for row in rows}
