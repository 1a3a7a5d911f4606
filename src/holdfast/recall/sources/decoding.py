"""From lines to a segment: many at a time where nothing can be wrong with them, one by one where something might be.

``records.read_line`` says what a line holds; everything here is a faster way to the same answer, and goes back to it
wherever it can't be sure. What a fast decoder lets through unseen is a key that stands twice. It shows in the number of
quotation marks: a run of lines has exactly as many as the fields that were read need, unless there is a key, or a field,
that was not read.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from holdfast.canon import canonical_bytes
from holdfast.errors import NotCanonical
from holdfast.limits import MAX_DEPTH_LEVELS, MAX_TAG_SETS, MAX_VALUE_BYTES, SAFE_INTEGER
from holdfast.recall.records import FIELDS, BadLine, Fault, bad_line, normal_tags, read_line
from holdfast.recall.sources.segment import NO_TAGS, Segment, TagBook
from holdfast.recall.wording import lowered

_InRange: Final = Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)
_Flat = str | Annotated[int, _InRange] | Annotated[float, _InRange] | bool | None

# A line so short can't grow beyond what one value may take, whatever its normal form is (NFC grows a text threefold at
# most, a number fourfold).
_SURELY_SMALL_BYTES: Final = MAX_VALUE_BYTES // 8


_ABSENT: Final = Raw(b"")


class _Row(Struct, gc=False):
    """What is decoded of a line in the fast way. Tags stay as they are: the same few sets come again and again."""

    memory_id: str
    text: str
    ts_utc: str | UnsetType | None = UNSET
    tags: Raw = _ABSENT
    refs: list[dict[str, _Flat]] | UnsetType | None = UNSET


_decode_row: Final = msgspec.json.Decoder(_Row).decode
_decode_tags: Final = msgspec.json.Decoder(list[str] | None).decode
_REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_KEYS: Final = tuple(f'"{name}"'.encode() for name in FIELDS)


class Decoder:
    """Makes segments of one store. Keeps what it learnt about tags from one to the next."""

    def __init__(self) -> None:
        self._learn_anew()

    def _learn_anew(self) -> None:
        self._book = TagBook()
        # By the JSON text of a list of tags: its number in the book, and its quotation marks with those of the key.
        self._numbers: dict[bytes, int] = {b"": NO_TAGS}
        self._quotes: dict[bytes, int] = {b"": 0}

    def segment(self, lines: Sequence[bytes], *, first_place: int) -> Segment:
        """The records of these lines, which stand in their store from a place on; blank lines hold none."""
        if len(self._numbers) > MAX_TAG_SETS:
            self._learn_anew()
        return self._all_at_once(lines, first_place) or self._one_by_one(lines, first_place)

    def _all_at_once(self, lines: Sequence[bytes], first_place: int) -> Segment | None:
        """The segment, if every line is a record beyond doubt and has none but the five fields."""
        try:
            rows = [_decode_row(line) for line in lines]
            tag_texts = [bytes(row.tags) for row in rows]
            tags = self._numbered(tag_texts)
        except _REFUSALS:
            return None
        joined = b"\n".join(lines)
        if len(joined) > _SURELY_SMALL_BYTES and max(map(len, lines)) > _SURELY_SMALL_BYTES:
            return None
        has_escapes = b"\\" in joined
        if has_escapes and b"\\u0022" in joined:
            return None
        texts = [row.text for row in rows]
        stamps = [row.ts_utc for row in rows]
        ids = [row.memory_id for row in rows]
        refs = [row.refs for row in rows]
        quotes = sum(map(self._quotes.__getitem__, tag_texts)) + _quotes_of_refs(refs)
        quotes += 8 * len(rows) + 4 * (len(rows) - stamps.count(UNSET)) - 2 * stamps.count(None)
        if has_escapes:
            quotes += sum(part.count('"') for column in (texts, ids, stamps) for part in column if part)
        if joined.count(b'"') != quotes or not (joined.isascii() or _refs_are_canonical(refs)):
            return None
        return self._laid_out(lines, texts, ids=ids, stamps=stamps, tags=tags, first_place=first_place)

    def _numbered(self, tag_texts: list[bytes]) -> list[int]:
        """The numbers of sets of tags, from their JSON texts."""
        try:
            return list(map(self._numbers.__getitem__, tag_texts))
        except KeyError:
            for text in set(tag_texts).difference(self._numbers):
                self._numbers[text] = self._book.number_of(normal_tags(_decode_tags(text) or ()))
                self._quotes[text] = 2 + text.count(b'"')
            return list(map(self._numbers.__getitem__, tag_texts))

    def _one_by_one(self, lines: Sequence[bytes], first_place: int) -> Segment:
        """The segment, with a look at each line: the bad ones are told, the blank ones passed over."""
        kept: list[bytes] = []
        columns: tuple[list[str], list[str], list[object], list[int]] = ([], [], [], [])
        places: list[int] = []
        bad: list[BadLine] = []
        for place, line in enumerate(lines, first_place):
            if not line or line.isspace():
                continue
            row = self._sound_row(line)
            if isinstance(row, Fault):
                bad.append(bad_line(line, place, row))
                continue
            kept.append(line)
            places.append(place)
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)  # type: ignore[attr-defined]  # Four columns of three types.
        texts, ids, stamps, tags = columns
        segment = self._laid_out(kept, texts, ids=ids, stamps=stamps, tags=tags, first_place=first_place)
        return replace(segment, places=places, bad_lines=bad)

    def _sound_row(self, line: bytes) -> tuple[str, str, object, int] | Fault:
        """Text, id, timestamp and tags of one line, or why it holds none."""
        try:
            row = _decode_row(line)
            if _is_sound(line, row):
                return row.text, row.memory_id, row.ts_utc, self._numbered([bytes(row.tags)])[0]
        except _REFUSALS:
            pass
        record = read_line(line)
        if isinstance(record, Fault):
            return record
        return record.text, record.memory_id, record.ts_utc, self._book.number_of(record.tags)

    def _laid_out(self, lines: Sequence[bytes], texts: list[str], **columns: Any) -> Segment:
        haystack: str | bytes = "\n".join(texts)
        if haystack.isascii():
            haystack = haystack.lower()
            sizes = map(len, texts)
        else:
            parts = [lowered(text).encode() for text in texts]
            haystack = b"\n".join(parts)
            sizes = map(len, parts)
        ends = list(accumulate(map((1).__add__, sizes)))
        return Segment(lines=lines, haystack=haystack, ends=ends, times=(), book=self._book, **columns)


def _is_sound(line: bytes, row: _Row) -> bool:
    """Whether a line that was decoded is a record beyond doubt, though it may have fields that were passed over.

    A name of ours that stands only as often as it was read is no key twice; refs, which could hide one, must be empty.
    """
    present = (True, row.ts_utc is not UNSET, True, len(bytes(row.tags)) > 0, row.refs is not UNSET)
    return (
        len(line) <= _SURELY_SMALL_BYTES
        and line.isascii()
        and b"\\u" not in line
        and not row.refs
        and line.count(b"[") + line.count(b"{") <= MAX_DEPTH_LEVELS
        and all(line.count(key) == is_there for key, is_there in zip(_KEYS, present, strict=True))
    )


def _quotes_of_refs(column: list[list[dict[str, _Flat]] | UnsetType | None]) -> int:
    """How many quotation marks the refs of all rows take, with those of their keys."""
    quotes = 2 * (len(column) - column.count(UNSET))
    for refs in column:
        for ref in refs or ():
            strings = [*ref, *(value for value in ref.values() if type(value) is str)]
            quotes += sum(2 + string.count('"') for string in strings)
    return quotes


def _refs_are_canonical(column: list[list[dict[str, _Flat]] | UnsetType | None]) -> bool:
    """Whether refs that are not ASCII can be hashed: two keys could be the same after NFC."""
    try:
        for refs in filter(None, column):
            canonical_bytes(refs)
    except NotCanonical:
        return False
    return True
