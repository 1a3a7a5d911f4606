"""Whether lines and their values are beyond doubt what ``records.read_line`` would take them for, told for many at once.

No answer here is "wrong": what is in doubt is read by the definition.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from standfast.limits import MAX_DEPTH_LEVELS, MAX_KNOWN_REFS, MAX_VALUE_BYTES, SAFE_INTEGER
from standfast.recall.records import FIELDS, Record, read_line

REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
NOTHING: Final = frozenset({None, b"[]", b"null"})
"""JSON texts of refs, or tags, that hold none."""

# A line so short can't grow beyond what one value may take, whatever its normal form is (NFC grows a text threefold at
# most, a number fourfold).
SURELY_SMALL_BYTES: Final = MAX_VALUE_BYTES // 8


class Row(Struct, gc=False):
    """What is decoded of a line. Keys that stand twice are not seen, and other fields are passed over."""

    memory_id: str
    text: str
    ts_utc: str | UnsetType | None = UNSET
    tags: Raw | UnsetType = UNSET
    refs: Raw | UnsetType = UNSET


decode_row: Final = msgspec.json.Decoder(Row).decode
_decode_any: Final = msgspec.json.Decoder(Raw).decode
_InRange: Final = Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)
_Flat = str | Annotated[int, _InRange] | Annotated[float, _InRange] | bool | None
_decode_flat_refs: Final = msgspec.json.Decoder(list[list[dict[str, _Flat]]]).decode
_NAMES: Final = tuple(f'"{name}"'.encode() for name in FIELDS)
# The only way to write a name of ours without its letters.
_HIDDEN_LETTER: Final = re.compile(rb"\\u00[0-7]")
_SPACES: Final = (b" :", b"\t", b"\r")
_SMALL: Final = 10**15


def are_sound(lines: Sequence[bytes], rows: Sequence[Row]) -> bool:
    """Whether these lines, which were decoded, are records beyond doubt, but for what their tags and refs hold.

    A name of ours that stands only as often as it was read is no key twice.
    """
    block = b"\n".join(lines)
    if len(block) > SURELY_SMALL_BYTES and max(map(len, lines)) > SURELY_SMALL_BYTES:
        return False
    if not is_utf8(block) or (b"\\u00" in block and _HIDDEN_LETTER.search(block) is not None):
        return False
    absent = [0, [row.ts_utc for row in rows].count(UNSET), 0]
    absent += [[row.tags for row in rows].count(UNSET), [row.refs for row in rows].count(UNSET)]
    if any(block.count(name) != len(rows) - without for name, without in zip(_NAMES, absent, strict=True)):
        return False
    return not _is_deep(lines)


def is_utf8(block: bytes) -> bool:
    """Whether bytes are UTF-8."""
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            return False
    return True


def are_values(texts: Iterable[bytes | None]) -> bool:
    """Whether each of these is one JSON value, and could stand in a line. They are UTF-8 without a backslash."""
    told = list(filter(None, texts))
    if _is_deep(told, MAX_DEPTH_LEVELS - 1):
        return False
    try:
        for text in told:
            _decode_any(text)
    except REFUSALS:
        return False
    return True


def _is_deep(texts: Sequence[bytes], levels: int = MAX_DEPTH_LEVELS) -> bool:
    """Whether values may be nested too deeply: whether one has so many brackets."""
    return any(text.count(b"[") + text.count(b"{") > levels for text in texts)


class SoundRefs:
    """Tells which refs are beyond doubt, from their JSON, and remembers some of those."""

    def __init__(self) -> None:
        self._known: set[bytes | None] = set(NOTHING)

    def doubtful(self, texts: Iterable[bytes | None]) -> set[bytes | None]:
        """Those of these refs that are in doubt."""
        new = set(texts) - self._known
        told: list[bytes] = list(filter(None, new))
        doubtful: set[bytes | None] = set()
        if told and not _are_flat(told):
            doubtful = {text for text in told if not (_is_distinct(text) or _is_read(text))}
        if len(self._known) + len(told) <= MAX_KNOWN_REFS:
            self._known |= new - doubtful
        return doubtful


def _are_flat(texts: list[bytes]) -> bool:
    """Whether these are lists of flat objects with keys in ASCII, each once."""
    # No string has a line's end in it, and nothing in a flat object ends in a bracket: so no two texts that are none
    # alone are one together.
    joined = b",\n".join(texts)
    if joined.count(b"\n") != len(texts) - 1 or b"\\" in joined or any(map(joined.__contains__, _SPACES)):
        return False
    try:
        lists = _decode_flat_refs(b"[" + joined + b"]")
    except REFUSALS:
        return False
    keys = list(chain.from_iterable(chain.from_iterable(lists)))
    return len(lists) == len(texts) and joined.count(b'":') == len(keys) and "".join(keys).isascii()


def _is_distinct(text: bytes) -> bool:
    """Whether this is a list of objects, nested or not, with keys in ASCII, each once."""
    if b"\\u" in text or b"\n" in text or _is_deep([text], MAX_DEPTH_LEVELS - 2):
        return False
    try:
        refs = _decode_distinct(text.decode())
    except ValueError:
        return False
    return isinstance(refs, list) and all(isinstance(ref, dict) for ref in refs)


def _is_read(text: bytes) -> bool:
    if b"\n" in text:
        return False
    return isinstance(read_line(b'{"memory_id":"","text":"","refs":' + text + b"}"), Record)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs) or not "".join(members).isascii():
        raise ValueError
    return members


def _small_integer(digits: str) -> int:
    if len(digits) > 15:
        raise ValueError
    return int(digits)


def _small_number(digits: str) -> float:
    number = float(digits)
    if not -_SMALL < number < _SMALL:
        raise ValueError
    return number


_decode_distinct: Final = json.JSONDecoder(
    object_pairs_hook=_distinct,
    parse_int=_small_integer,
    parse_float=_small_number,
    parse_constant=_small_integer,
).decode
