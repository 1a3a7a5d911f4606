"""The best of many records, in one pass over their segments.

Candidates are ordered by score, then newest first, then by store, id and hash, so that no two that differ are equal. Only
as many are kept as can be selected, and a segment is searched no further than those leave room for: what comes out is what
scoring and sorting everything would give.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

from standfast.limits import MAX_WAITING_BYTES
from standfast.recall.moments import MISSING, POINT, moment_of, written_like
from standfast.recall.records import Record, read_line
from standfast.recall.scoring import HALF_POINT, Question
from standfast.recall.sources.finding import Finder
from standfast.recall.sources.proved import ProvedBlock, look_at
from standfast.recall.sources.segment import Segment, TagBook
from standfast.recall.wording import collapsed

_TERM: Final = 2
_NEVER: Final = MISSING - 1
_DIGITS_OF_TIME: Final = 64
# For so many blocks after one in which too many lines hold a term, lines are not looked for.
_DETOUR_BLOCKS: Final = 16


@total_ordering
class _Tie:
    """The last words on an order: hash, then text. Read from the line only where everything else is equal."""

    __slots__ = ("_record", "line")

    def __init__(self, line: bytes) -> None:
        self.line = line
        self._record: Record | None = None

    @property
    def record(self) -> Record:
        if self._record is None:
            found = read_line(self.line)
            assert isinstance(found, Record), "only lines that hold a record become rows"
            self._record = found
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
_Times = Sequence[int] | dict[int, int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that may be selected, with its score in millionths."""

    store_path: str
    score: int
    record: Record
    line: bytes


class _Needle:
    """A term, ready to be searched for."""

    __slots__ = ("_word_is_term", "encoded", "term", "word")

    def __init__(self, term: str) -> None:
        self.term = term
        # White space is not collapsed in a haystack, so a term of several words is searched for by its longest; and a
        # quotation mark may be what stands between two texts.
        self.word = max(term.split(" "), key=len)
        self._word_is_term = self.word == term and '"' not in term
        self.encoded = self.word.encode()

    def rows(self, segment: Segment, finder: Finder) -> list[int]:
        """The rows whose text holds the term."""
        found = finder.rows_with(self.encoded, segment.ends)
        return found if self._word_is_term else [row for row in found if self.is_in(segment.text(row))]

    def is_in(self, text: str) -> bool:
        """Whether a text in lower case holds the term."""
        return self.term in (text if " " not in self.term else collapsed(text))


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
        # Blocks whose records without points may still be needed.
        self._waiting: list[tuple[ProvedBlock, str]] = []
        self._room_bytes = 0 if limit is None or question.now is not None else MAX_WAITING_BYTES
        self._detours_left = 0
        self._has_spaces = any(" " in term for term in question.terms)

    def offer(self, segment: Segment, store_path: str, denied: Collection[int] = ()) -> None:
        """Look through a segment for better candidates."""
        points = self._points(segment)
        if points is None:
            return
        rows = self._promising(segment, points)
        if segment.hidden or denied:
            hidden = {*segment.hidden, *denied}
            rows = [row for row in rows if row not in hidden]
        self._take(segment, store_path, rows, points)

    def offer_block(self, block: ProvedBlock, store_path: str) -> None:
        """Look through a block for better candidates: only at the lines that hold a term, where that is enough."""
        waits = self._bar == 0
        if waits and len(block.block) > self._room_bytes:
            self._stop_waiting()
            self.offer(block.taken_apart(), store_path)
            return
        lines = None if self._detours_left else block.lines_with([needle.encoded for needle in self._needles])
        if lines is None:
            # The terms are everywhere, and will be in the next blocks too.
            self._detours_left = (self._detours_left or _DETOUR_BLOCKS) - 1
            self.offer(block.taken_apart(), store_path)
            return
        if waits:
            self._waiting.append((block, store_path))
            self._room_bytes -= len(block.block)
        held = len(self._entries)
        for line in lines:
            self._look_at(line, store_path)
        if self._limit is not None and len(self._entries) > held and len(self._entries) >= self._limit:
            self._raise_bar(self._limit)

    def _look_at(self, text: bytes, store_path: str) -> None:
        # What was proved is ASCII, so that lower case is what every Python makes of it.
        line, terms = look_at(text), self._question.terms
        low = line.text.lower()
        held = _TERM * sum(map((collapsed(low) if self._has_spaces else low).__contains__, terms))
        if line.tags and self._question.counts_tags:
            held += len(set(terms).intersection([tag.lower() for tag in line.tags]))
        time = MISSING if line.ts_utc is None else moment_of(line.ts_utc)
        # Records without points are taken in later, if any are.
        if held and (held, time) >= (self._bar, self._bar_time):
            score = held * HALF_POINT + self._question.recency_of(time)
            self._entries.append((-score, -time, store_path, line.memory_id, _Tie(text)))

    def _stop_waiting(self) -> None:
        """Take in the records without points of the blocks that waited, which too few others have made superfluous."""
        self._room_bytes = 0
        while self._waiting:
            block, store_path = self._waiting.pop()
            segment = block.taken_apart()
            points = self._points(segment)
            if points is not None and self._bar == 0:
                rows = [row for row in range(len(segment)) if row not in points]
                self._take(segment, store_path, rows, points)

    def _take(self, segment: Segment, store_path: str, rows: Sequence[int], points: dict[int, int]) -> None:
        """Make candidates of those rows that may be among the best."""
        if self._limit is not None and self._question.now is None and len(rows) > self._limit:
            rows = self._newest(segment, rows, points, self._limit)
        if not rows:
            return
        rows, times = self._pressed(rows, points, _times(segment, rows))
        recency_of, entries = self._question.recency_of, self._entries
        for row in rows:
            score = points.get(row, 0) * HALF_POINT + recency_of(times[row])
            entries.append(
                (-score, -times[row], store_path, segment.memory_id(row), _Tie(segment.lines[row]))
            )
        if rows and self._limit is not None and len(entries) >= self._limit:
            self._raise_bar(self._limit)

    def ranked(self) -> list[Candidate]:
        """The candidates that were kept, best first."""
        self._stop_waiting()
        self._entries.sort()
        return [
            Candidate(path, -score, tie.record, tie.line)
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
        if self._bar:
            self._waiting.clear()

    def _points(self, segment: Segment) -> dict[int, int] | None:
        """Half points of the rows that have any, exact for those that have enough to matter; None if no row can."""
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
        finder = Finder(segment.haystack)
        for needle in self._needles[:searched]:
            found = needle.rows(segment, finder)
            matched.update(found)
            for row in found:
                points[row] = points.get(row, 0) + _TERM
        for needle in self._needles[searched:]:
            for row in matched:
                if needle.is_in(segment.text(row)):
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

    def _promising(self, segment: Segment, points: dict[int, int]) -> Sequence[int]:
        """The rows that have enough points to be among the best."""
        bar = self._bar
        return [row for row, held in points.items() if held >= bar] if bar else range(len(segment))

    def _newest(
        self, segment: Segment, rows: Sequence[int], points: dict[int, int], limit: int
    ) -> Sequence[int]:
        """Of many rows, those that may be among the best, told from their timestamps as they stand, where that can be."""
        stamps = segment.sortable_stamps()
        if stamps is None:
            return rows
        if self._bar_time != _NEVER:
            since = written_like(self._bar_time, stamps)
            better = {row for row, held in points.items() if held > self._bar}
            rows = [row for row in rows if stamps[row] >= since or row in better]
        if len(rows) > 2 * limit:
            keyed = sorted([(points.get(row, 0), stamps[row], row) for row in rows], reverse=True)
            last = keyed[limit - 1][:2]
            newest = [row for held, stamp, row in keyed if (held, stamp) >= last]
            # One that only looks like a timestamp stands in the place of one that is.
            if all(segment.moment(row) != MISSING for row in newest if stamps[row]):
                rows = newest
        return rows

    def _pressed(
        self, rows: Sequence[int], points: dict[int, int], times: _Times
    ) -> tuple[Sequence[int], _Times]:
        """Of these rows, those that are new enough to be among the best, and not many more."""
        if self._bar_time != _NEVER:
            bar, bar_time = self._bar, self._bar_time
            rows = [row for row in rows if times[row] >= bar_time or points.get(row, 0) > bar]
        limit = self._limit
        if limit is not None and len(rows) > 2 * limit:
            # Ties are kept: what else orders them is not known here.
            keyed = sorted(
                [((points.get(row, 0) << _DIGITS_OF_TIME) + times[row], row) for row in rows], reverse=True
            )
            last = keyed[limit - 1][0]
            rows = [row for key, row in keyed if key >= last]
        return rows, times


def _times(segment: Segment, rows: Sequence[int]) -> _Times:
    """The moments of these rows; of all, where they are known or that is no more work."""
    if segment.times or 4 * len(rows) > len(segment):
        return segment.moments()
    return {row: segment.moment(row) for row in rows}
