"""From blocks of lines to segments: by columns where all lines have one shape, one by one where something differs.

``records.read_line`` says what a line holds. Everything here is a faster way to the same answer, and goes back to it
wherever it can't be sure.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from holdfast.limits import (
    MAX_DEPTH_LEVELS,
    MAX_KNOWN_REFS,
    MAX_LEARNT_SHAPES,
    MAX_TAG_SETS,
    MAX_VALUE_BYTES,
    SAFE_INTEGER,
)
from holdfast.recall.records import FIELDS, BadLine, Fault, Record, bad_line, normal_tags, read_line
from holdfast.recall.sources.segment import NO_TAGS, BlockLines, Segment, TagBook
from holdfast.recall.sources.shape import Columns, Shape, learn
from holdfast.recall.wording import lowered

_InRange: Final = Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)
_Flat = str | Annotated[int, _InRange] | Annotated[float, _InRange] | bool | None

# A line so short can't grow beyond what one value may take, whatever its normal form is (NFC grows a text threefold at
# most, a number fourfold).
_SURELY_SMALL_BYTES: Final = MAX_VALUE_BYTES // 8


class _Row(Struct, gc=False):
    """What is decoded of a single line in the faster way."""

    memory_id: str
    text: str
    ts_utc: str | UnsetType | None = UNSET
    tags: Raw | UnsetType = UNSET
    refs: Raw | UnsetType = UNSET


_decode_row: Final = msgspec.json.Decoder(_Row).decode
_decode_strings: Final = msgspec.json.Decoder(list[str]).decode
_decode_stamps: Final = msgspec.json.Decoder(list[str | None]).decode
_decode_scalars: Final = msgspec.json.Decoder(list[str | int | float | bool | None]).decode
_decode_tags: Final = msgspec.json.Decoder(list[str] | None).decode
_decode_refs: Final = msgspec.json.Decoder(list[list[dict[str, _Flat]]]).decode
_REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# Lower case; a control character, which no JSON string may hold, becomes a zero byte.
_LOWER: Final = bytes(byte if byte >= 32 else 0 for byte in range(256)).lower()
_KEYS: Final = tuple(f'"{name}"'.encode() for name in FIELDS)
_NO_REFS: Final = frozenset({None, b"[]", b"null"})


class Decoder:
    """Makes segments of one store, and keeps what it learns about the store from one to the next."""

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        self._lessons_left = MAX_LEARNT_SHAPES
        self._sound_refs: set[bytes | None] = set(_NO_REFS)
        """JSON texts of refs with which nothing is wrong."""
        self._forget()

    def _forget(self) -> None:
        self._book = TagBook()
        self._numbers: dict[bytes | None, int] = dict.fromkeys(_NO_REFS, NO_TAGS)
        """From the JSON text of a list of tags to its number in the book."""

    def segment(self, block: bytes, *, first_place: int) -> Segment:
        """The records of a block of lines, each with its end, that stand in their store from a place on."""
        if len(self._numbers) > MAX_TAG_SETS:
            self._forget()
        try:
            segment = self._by_columns(block, first_place)
        except _REFUSALS:
            segment = None
        return segment or self._one_by_one(block.split(b"\n")[:-1], first_place)

    def _by_columns(self, block: bytes, first_place: int) -> Segment | None:
        """The segment, if all lines have one shape and are records beyond doubt."""
        columns = self._columns(block)
        if columns is None:
            return None
        if len(block) > _SURELY_SMALL_BYTES and max(map(len, block.split(b"\n"))) > _SURELY_SMALL_BYTES:
            return None
        if not self._are_sound(set(columns.refs) - self._sound_refs):
            return None
        for unread in columns.unread:
            _decode_scalars(b"[" + b",".join(filter(None, unread)) + b"]")
        lines = BlockLines(block)
        tags = self._numbered(columns.tags)
        if columns.is_plain:
            return self._laid_out_as_is(lines, columns, tags, first_place)
        return self._laid_out(
            lines,
            _decode_strings(b'["' + b',"'.join(columns.texts) + b"]"),
            stamps=_decode_stamps(b"[" + b",".join(stamp or b"null" for stamp in columns.stamps) + b"]"),
            tags=tags,
            first_place=first_place,
        )

    def _columns(self, block: bytes) -> Columns | None:
        """The block taken apart by a shape that is known, or that it teaches."""
        for shape in self._shapes:
            if (columns := shape.columns(block)) is not None:
                return columns
        if self._lessons_left == 0:
            return None
        self._lessons_left -= 1
        learnt = learn(block)
        columns = None if learnt is None else learnt.columns(block)
        if learnt is not None and columns is not None:
            self._shapes.insert(0, learnt)
        return columns

    def _laid_out_as_is(
        self, lines: BlockLines, columns: Columns, tags: list[int], first_place: int
    ) -> Segment | None:
        """A segment of plain lines, whose texts need no decoding."""
        haystack = b"".join(columns.texts).translate(_LOWER)
        if b"\0" in haystack:
            return None
        return Segment(
            lines=lines,
            haystack=haystack,
            ends=list(accumulate(map(len, columns.texts))),
            stamps=columns.stamps,
            times=(),
            tags=tags,
            book=self._book,
            first_place=first_place,
        )

    def _laid_out(self, lines: Sequence[bytes], texts: list[str], **columns: Any) -> Segment:
        """A segment of texts of any kind."""
        joined = "\n".join(texts)
        if joined.isascii():
            haystack, sizes = joined.lower().encode(), map(len, texts)
        else:
            parts = [lowered(text).encode() for text in texts]
            haystack, sizes = b"\n".join(parts), map(len, parts)
        ends = list(accumulate(map((1).__add__, sizes)))
        return Segment(lines=lines, haystack=haystack, ends=ends, times=(), book=self._book, **columns)

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

    def _are_sound(self, ref_texts: set[bytes | None]) -> bool:
        """Whether nothing is wrong with these refs. Those of flat objects in ASCII are looked at all together."""
        texts = list(filter(None, ref_texts))
        joined = b",".join(texts)
        if b"\n" in joined:
            return False
        is_sound = not texts
        if texts and joined.isascii() and b"\\" not in joined:
            try:
                refs = _decode_refs(b"[" + joined + b"]")
                is_sound = joined.count(b'":') == sum(map(len, chain.from_iterable(refs)))
            except _REFUSALS:
                pass
        if not is_sound:
            lines = (b'{"memory_id":"","text":"","refs":' + text + b"}" for text in texts)
            is_sound = all(isinstance(read_line(line), Record) for line in lines)
        if is_sound and len(self._sound_refs) + len(texts) <= MAX_KNOWN_REFS:
            self._sound_refs.update(texts)
        return is_sound

    def _one_by_one(self, lines: Sequence[bytes], first_place: int) -> Segment:
        """The segment, with a look at each line: bad ones are told, blank ones passed over."""
        kept: list[bytes] = []
        columns: tuple[list[Any], ...] = ([], [], [])
        places: list[int] = []
        bad: list[BadLine] = []
        for place, line in enumerate(lines, first_place):
            if not line or line.isspace():
                continue
            row = self._row(line)
            if isinstance(row, Fault):
                bad.append(bad_line(line, place, row))
                continue
            kept.append(line)
            places.append(place)
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
        texts, stamps, tags = columns
        segment = self._laid_out(kept, texts, stamps=stamps, tags=tags, first_place=first_place)
        return replace(segment, places=places, bad_lines=bad, lines_read=len(lines))

    def _row(self, line: bytes) -> tuple[str, str | None, int] | Fault:
        """Text, timestamp and tags of one line, or why it holds none."""
        try:
            row = _decode_row(line)
            if _is_sound(line, row):
                stamp = None if row.ts_utc is UNSET else row.ts_utc
                tags = None if row.tags is UNSET else bytes(row.tags)
                return row.text, stamp, self._numbered([tags])[0]
        except _REFUSALS:
            pass
        record = read_line(line)
        if isinstance(record, Fault):
            return record
        return record.text, record.ts_utc, self._book.number_of(record.tags)


def _is_sound(line: bytes, row: _Row) -> bool:
    """Whether a line that was decoded is a record beyond doubt, though it may have fields that were passed over.

    A name of ours that stands only as often as it was read is no key twice; refs, which could hide one, must be empty.
    """
    refs = None if row.refs is UNSET else bytes(row.refs)
    present = (True, row.ts_utc is not UNSET, True, row.tags is not UNSET, refs is not None)
    return (
        len(line) <= _SURELY_SMALL_BYTES
        and line.isascii()
        and b"\\u" not in line
        and refs in _NO_REFS
        and line.count(b"[") + line.count(b"{") <= MAX_DEPTH_LEVELS
        and all(line.count(key) == is_there for key, is_there in zip(_KEYS, present, strict=True))
    )
