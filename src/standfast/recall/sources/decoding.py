"""From blocks of lines to segments: by columns where lines have a shape that is known, by a decoder where they have not.

``records.read_line`` says what a line holds. Everything here is a faster way to the same answer, and each line that can't be
surely told in a faster way is given to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Final

import msgspec
from msgspec import UNSET

from standfast.casing import lowered
from standfast.limits import MAX_LEARNT_SHAPES, MAX_TAG_SETS
from standfast.recall.records import Fault, bad_line, normal_tags, read_line
from standfast.recall.sources.proved import ProvedBlock
from standfast.recall.sources.segment import NO_TAGS, BlockLines, Segment, TagBook
from standfast.recall.sources.shape import Columns, Shape, learn
from standfast.recall.sources.soundness import (
    NOTHING,
    REFUSALS,
    SURELY_SMALL_BYTES,
    Row,
    SoundRefs,
    are_sound,
    are_values,
    decode_row,
    is_utf8,
)

_decode_tags: Final = msgspec.json.Decoder(list[str] | None).decode
# Lower case; a control character, which no JSON string may hold, becomes a zero byte.
_LOWER: Final = bytes(byte if byte >= 32 else 0 for byte in range(256)).lower()
# What stands after a text that was decoded; it breaks the company that decides on the form of a sigma, as an end does.
_END: Final = "\x1e"
_SAMPLE_LINES: Final = 24
# So many blocks after one that was proved in vain are taken apart at once.
_UNPROVED_BLOCKS: Final = 8
_WORTH_A_LESSON: Final = 32
"""Shapes that fewer than one in so many lines of a block have are not learnt."""


@dataclass(slots=True)
class _Parts:
    """The lines of a block, the numbers of those that shapes are still tried on, and what was made of the others."""

    lines: list[bytes]
    first_place: int
    left: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    pieces: list[Segment] = field(default_factory=list)

    def is_worth_a_lesson(self, count: int) -> bool:
        """Whether so many lines are enough for a shape of their own."""
        return count * _WORTH_A_LESSON > len(self.lines)


class Decoder:
    """Makes segments of one store, and keeps what it learns about the store from one to the next."""

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        self._lessons_left = MAX_LEARNT_SHAPES
        self._refs = SoundRefs()
        self._unproved_left = 0
        self._forget()

    def _forget(self) -> None:
        self._book = TagBook()
        self._numbers: dict[bytes | None, int] = dict.fromkeys(NOTHING, NO_TAGS)
        """From the JSON text of a list of tags to its number in the book."""

    def segment(self, block: bytes, *, first_place: int) -> Segment:
        """The records of a block of lines, each with its end, that stand in their store from a place on."""
        if len(self._numbers) > MAX_TAG_SETS:
            self._forget()
        if self._shapes and _fits_shapes(block):
            columns = self._shapes[0].columns(block)
            if columns is not None and columns.gaps is None:
                segment = self._laid_out(BlockLines(block), columns, first_place, ())
                if segment is not None:
                    return segment
        return self._by_parts(block, first_place)

    def proved(self, block: bytes, *, first_place: int) -> ProvedBlock | Segment:
        """The same records, not taken apart if they can be proved as they stand."""
        if self._unproved_left:
            self._unproved_left -= 1
        elif len(block) <= SURELY_SMALL_BYTES:
            if not self._shapes and self._lessons_left:
                self._lessons_left -= 1
                shape = learn(block.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES])
                self._shapes += [] if shape is None else [shape]
            rows = self._shapes[0].rows_proved(block) if self._shapes else 0
            if rows:
                return ProvedBlock(block, rows, first_place, partial(self._after_all, block, first_place))
        return self.segment(block, first_place=first_place)

    def _after_all(self, block: bytes, first_place: int) -> Segment:
        """The segment of a block that was proved, and had to be taken apart nevertheless; so will be the next."""
        self._unproved_left = _UNPROVED_BLOCKS
        return self.segment(block, first_place=first_place)

    def _by_parts(self, block: bytes, first_place: int) -> Segment:
        """The segment of lines of several shapes, or none."""
        parts = _Parts(block.split(b"\n")[:-1], first_place)
        parts.left = list(range(len(parts.lines)))
        if not _fits_shapes(block):
            parts.left = [number for number in parts.left if _fits_shapes(parts.lines[number])]
        for shape in self._shapes:
            self._take(parts, shape)
        if self._lessons_left and parts.is_worth_a_lesson(len(parts.left)):
            # Together with others, so that what all lines have is told from what only some have.
            self._lessons_left -= 1
            sample = (*parts.left[:_SAMPLE_LINES], *parts.taken[:_SAMPLE_LINES])
            learnt = learn([parts.lines[number] for number in sample])
            if learnt is not None and parts.is_worth_a_lesson(self._take(parts, learnt)):
                self._shapes.insert(0, learnt)
        parts.pieces.append(self._by_decoder(parts))
        return Segment.joined(parts.pieces, lines_read=len(parts.lines))

    def _take(self, parts: "_Parts", shape: Shape) -> int:
        """Make a piece of those of the lines that are left that have a shape, and say how many."""
        columns = shape.columns(b"".join([parts.lines[number] + b"\n" for number in parts.left]))
        if columns is None:
            return 0
        own, others = _told_apart(columns, parts.left)
        lines, places = (
            [parts.lines[number] for number in own],
            [parts.first_place + number for number in own],
        )
        piece = self._laid_out(lines, columns, parts.first_place, places)
        if piece is None:
            return 0
        parts.pieces.append(piece)
        parts.taken += own
        parts.left = others
        return len(own)

    def _laid_out(
        self, lines: Sequence[bytes], columns: Columns, first_place: int, places: Sequence[int]
    ) -> Segment | None:
        """The segment of lines that were taken apart; None if one of them is in doubt."""
        if self._refs.doubtful(columns.refs) or not all(map(are_values, columns.unread)):
            return None
        try:
            tags = self._numbered(columns.tags)
        except REFUSALS:
            return None
        joined = b"".join(columns.texts)
        haystack = joined.translate(_LOWER)
        if b"\0" in haystack:
            return None
        sizes = map(len, columns.texts)
        if not joined.isascii():
            haystack = lowered(joined.decode()).encode()
            sizes = map((1).__add__, map(len, haystack.split(b'"')[:-1]))
        return Segment(
            lines=lines,
            haystack=haystack,
            ends=list(accumulate(sizes)),
            stamps=columns.stamps,
            times=(),
            tags=tags,
            book=self._book,
            first_place=first_place,
            places=places,
        )

    def _numbered(self, tag_texts: Sequence[bytes | None]) -> list[int]:
        """The numbers of sets of tags, from their JSON texts."""
        try:
            return list(map(self._numbers.__getitem__, tag_texts))
        except KeyError:
            for text in set(tag_texts).difference(self._numbers):
                assert text is not None, "no tags at all are known from the start"
                if b"\n" in text:
                    raise msgspec.DecodeError("two lines were taken for one") from None
                self._numbers[text] = self._book.number_of(normal_tags(_decode_tags(text) or ()))
            return list(map(self._numbers.__getitem__, tag_texts))

    def _by_decoder(self, parts: "_Parts") -> Segment:
        """The segment of lines of any kind that nothing was made of: bad ones are told, blank ones passed over."""
        rest = sorted(set(range(len(parts.lines))).difference(parts.taken))
        told = [number for number in rest if parts.lines[number] and not parts.lines[number].isspace()]
        lines, places = (
            [parts.lines[number] for number in told],
            [parts.first_place + number for number in told],
        )
        rows = self._rows(lines)
        kept = [row for row, read in enumerate(rows) if not isinstance(read, Fault)]
        bad = [
            bad_line(lines[row], places[row], read)
            for row, read in enumerate(rows)
            if isinstance(read, Fault)
        ]
        texts, stamps, tags = ([rows[row][column] for row in kept] for column in range(3))
        haystack, ends = _haystack(texts)
        return Segment(
            lines=[lines[row] for row in kept],
            haystack=haystack,
            ends=ends,
            stamps=stamps,
            times=(),
            tags=tags,
            book=self._book,
            first_place=parts.first_place,
            places=[places[row] for row in kept],
            bad_lines=bad,
        )

    def _rows(self, lines: list[bytes]) -> list[Any]:
        """Text, timestamp and tags of each line, or why it holds none."""
        try:
            found = list(map(decode_row, lines))
            tags = [None if row.tags is UNSET else bytes(row.tags) for row in found]
            refs = [None if row.refs is UNSET else bytes(row.refs) for row in found]
            if are_sound(lines, found) and not self._refs.doubtful(refs):
                numbers = self._numbered(tags)
                return [(row.text, _stamp(row), number) for row, number in zip(found, numbers, strict=True)]
        except REFUSALS:
            pass
        if len(lines) > 1:
            # Halves: one line in doubt costs its neighbours little.
            middle = len(lines) // 2
            return self._rows(lines[:middle]) + self._rows(lines[middle:])
        return [self._read(line) for line in lines]

    def _read(self, line: bytes) -> Any:
        record = read_line(line)
        if isinstance(record, Fault):
            return record
        return record.text, record.ts_utc, self._book.number_of(record.tags)


def _fits_shapes(lines: bytes) -> bool:
    """Whether shapes say something about these lines: they are short, in UTF-8, and without a backslash."""
    return b"\\" not in lines and len(lines) <= SURELY_SMALL_BYTES and is_utf8(lines)


def _stamp(row: Row) -> str | None:
    return None if row.ts_utc is UNSET else row.ts_utc


def _told_apart(columns: Columns, numbers: list[int]) -> tuple[list[int], list[int]]:
    """Of the lines with these numbers, those that were taken apart, and the others."""
    if columns.gaps is None:
        return numbers, []
    own: list[int] = []
    others: list[int] = []
    at = 0
    for gap in columns.gaps:
        if gap:
            end = at + gap.count(b"\n")
            others += numbers[at:end]
            at = end
        own += numbers[at : at + 1]
        at += 1
    return own, others


def _haystack(texts: list[str]) -> tuple[bytes, list[int]]:
    """Texts of any kind, one after the other, and where each ends."""
    joined = _END.join([*texts, ""])
    low = lowered(joined)
    haystack = low.encode()
    if joined.isascii():
        sizes = list(map(len, texts))
    elif low.count(_END) == len(texts):
        sizes = list(map(len, haystack.split(_END.encode())[:-1]))
    else:
        sizes = [len(lowered(text).encode()) for text in texts]
    return haystack, list(accumulate(map((1).__add__, sizes)))
