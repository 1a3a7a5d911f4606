"""Canonical JSON, ``json-v1``: normalise, then RFC 8785. The only module that makes bytes for hashing.

``canonical_bytes(value)`` gives the same bytes for the same value on every machine, Python version, locale
and hash seed; ``fingerprint(value)`` is their SHA-256. ``parse(text)`` accepts exactly the texts whose value
can be written again. ``docs/canonical-json.md`` lists the rules, and ``tests/vectors/json-v1.jsonl`` has
golden vectors for each.

There are three ways to the bytes. A value that orjson prints as json-v1 needs no preparation; that is nearly
every record. A value with whole or unrounded floats is copied with those normalised. Anything else is rebuilt
in normal form. A property test compares all three with the ``rfc8785`` package.

``normal_string`` and ``lowered`` are the forms in which strings are compared: NFC and lower case, both as of
Unicode 14.0.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NoReturn

import orjson
import rfc8785
from msgspec import to_builtins

from standfast.errors import LoneSurrogate, NotCanonical, TooLarge
from standfast.limits import FLOAT_DECIMALS, MAX_DEPTH_LEVELS, MAX_VALUE_BYTES, SAFE_INTEGER

NORMALIZATION_VERSION: Final = "json-v1"

# Unicode 14.0 is the oldest version among the supported Pythons, so json-v1 means NFC as of 14.0. These are
# all code points to which later versions (to 18.0) gave a meaning in normalisation; 14.0 leaves them, and the
# text on either side of them, unchanged. A test compares this list with the Unicode data of the Python that
# it runs on.
_LATER_RANGES: Final = (
    "5C8-5C9 897 1ACF-1AF0 105C9 105D2 105DA 105E4 10D69-10D6D 10ECB-10ECF 10EF0-10EFB 10EFD-10EFF "
    "11382-11385 1138B 1138E 11390-11391 113B8 113BB 113C2 113C5 113C7-113C9 113CE-113D0 11F41-11F42 "
    "1611E-16129 1612F 16D63 16D67-16D6A 1D127-1D128 1D250-1D252 1D25B-1D25C 1D25F 1D280-1D281 1E08F "
    "1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5"
)
_LATER: Final = frozenset(
    chr(code_point)
    for first, _, last in (span.partition("-") for span in _LATER_RANGES.split())
    for code_point in range(int(first, 16), int(last or first, 16) + 1)
)
_BASIC_PLANE_LATER: Final = "".join(sorted(char for char in _LATER if ord(char) < 0x10000))
_LATER_OR_BEYOND_BASIC_PLANE: Final = re.compile(f"[{_BASIC_PLANE_LATER}\U00010000-\U0010ffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# The closing quote is optional and the match is possessive, so that an unclosed string is scanned once.
_STRING_IN_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)


class CanonicalPart:
    """What ``canonical_bytes`` gave, as a member of a larger value, so that it is not printed again.

    Its levels are not counted: the caller sees to it that the whole is not too deep.
    """

    __slots__ = ("printed",)

    def __init__(self, canonical: bytes) -> None:
        self.printed = orjson.Fragment(canonical)


_UTC_CHARS: Final = len("YYYY-MM-DDTHH:MM:SS.ffffffZ")
_PLAIN_TYPES: Final = frozenset({str, int, bool, type(None), CanonicalPart})
_SORTED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER


def canonical_bytes(
    value: object, *, limit_bytes: int = MAX_VALUE_BYTES, max_levels: int = MAX_DEPTH_LEVELS
) -> bytes:
    """Encode a value as json-v1, in UTF-8. Raises a ``NotCanonical`` that names the path and what to do.

    Args:
        value: Dicts with string keys, lists, tuples, strings, numbers, booleans, None, aware datetimes, and
            ``CanonicalPart``.
        limit_bytes: Larger than the default only for a document of many values, such as a trace.
        max_levels: Less than the default for a value that becomes part of a larger one.

    Example:
        >>> canonical_bytes({"b": 1.0, "a": [True, None]})
        b'{"a":[true,null],"b":1}'
    """
    printed = _printed_directly(value, max_levels)
    if printed is None:
        printed = orjson.dumps(_normalised(value, max_levels))
    if len(printed) > limit_bytes:
        raise TooLarge(size_bytes=len(printed), limit_bytes=limit_bytes)
    return printed


def fingerprint(value: object) -> str:
    """The SHA-256 of the canonical bytes, as 64 hexadecimal digits."""
    return fingerprint_of_bytes(canonical_bytes(value))


def fingerprint_of_bytes(canonical: bytes) -> str:
    """The fingerprint of a value, from its canonical bytes."""
    return hashlib.sha256(canonical).hexdigest()


def utc_text(moment: datetime) -> str:
    """An aware datetime as json-v1 writes it: ``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
    try:
        if moment.tzinfo is not UTC:
            if moment.utcoffset() is None:
                raise NotCanonical("canon_datetime", value=moment.isoformat())
            moment = moment.astimezone(UTC)
        printed: str = to_builtins(moment)
        # msgspec prints whole seconds without a fraction.
        return printed if len(printed) == _UTC_CHARS else f"{printed[:-1]}.000000Z"
    except (OverflowError, ValueError):
        raise NotCanonical("canon_datetime", value=moment.isoformat()) from None


def parse(text: bytes | str, *, limit_bytes: int = MAX_VALUE_BYTES) -> Any:
    """Read one JSON text strictly. ``canonical_bytes`` can encode whatever this returns.

    Raises a ``NotCanonical`` for duplicate keys, NaN and infinities, numbers out of range, lone surrogates,
    nesting that is too deep, bytes that are not UTF-8, a byte-order mark, and more bytes than the limit. It
    does not normalise.
    """
    decoded = _decoded(text, limit_bytes)
    _check_depth(decoded)
    try:
        value = json.loads(
            decoded,
            object_pairs_hook=_object_without_duplicates,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise NotCanonical("canon_syntax", problem=error.msg, offset=error.pos) from None
    # Numbers and depth are checked by now. The rest can only be wrong if a character is not ASCII.
    if not decoded.isascii() or "\\u" in decoded:
        _normalised(value, MAX_DEPTH_LEVELS)
    return value


def _printed_directly(value: object, levels: int) -> bytes | None:
    """The canonical bytes, if orjson can make them; None if the value has to be rebuilt first."""
    try:
        if not _is_plain(value, levels):
            value = _with_normal_floats(value, levels)
        printed = orjson.dumps(value, default=_printed_part, option=_SORTED)
    except (orjson.JSONEncodeError, NotCanonical):
        return None
    if printed.isascii():
        return printed
    text = printed.decode()
    # orjson sorts by code point and RFC 8785 by UTF-16 unit, which differ only beyond the basic plane.
    if _LATER_OR_BEYOND_BASIC_PLANE.search(text) or not unicodedata.is_normalized("NFC", text):
        return None
    return printed


_printed_part = attrgetter("printed")


def _is_plain(value: object, levels: int) -> bool:
    """Whether orjson prints ``value`` as json-v1, apart from what the printed text itself shows.

    orjson itself refuses keys that are not strings and integers that are out of range.
    """
    members: Iterable[object]
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return True
    if kind is dict:
        members = value.values()  # type: ignore[attr-defined]  # `kind is dict` is faster than isinstance
    elif kind is list or kind is tuple:
        members = value  # type: ignore[assignment]  # as above
    else:
        return kind is float and _float_is_plain(value)  # type: ignore[arg-type]  # as above
    if levels == 0:
        return False
    for member in members:
        if type(member) not in _PLAIN_TYPES and not _is_plain(member, levels - 1):
            return False
    return True


def _with_normal_floats(value: object, levels: int) -> object:
    """The same value with each float as json-v1 writes it; a ``NotCanonical`` if it has to be rebuilt."""
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if isinstance(value, float) and kind is float:
        return _normalised_float(value)
    below = _one_level_down(levels)
    plain = _PLAIN_TYPES
    if isinstance(value, dict) and kind is dict:
        return {
            key: member if type(member) in plain else _with_normal_floats(member, below)
            for key, member in value.items()
        }
    if isinstance(value, list | tuple) and kind in (list, tuple):
        return [member if type(member) in plain else _with_normal_floats(member, below) for member in value]
    raise NotCanonical("canon_type", type=kind.__qualname__)


def _float_is_plain(number: float) -> bool:
    """Whether a float needs no rounding, is not whole, and has no exponent in any printer."""
    return (
        1e-4 <= abs(number) <= SAFE_INTEGER
        and not number.is_integer()
        and round(number, FLOAT_DECIMALS) == number
    )


def _normalised(value: object, levels: int) -> object:
    """The same value in normal form: NFC strings, sorted keys, numbers that print one way.

    Raises ``NotCanonical``.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, CanonicalPart):
        return value.printed
    if isinstance(value, str) and kind is str:
        return normal_string(value)
    if isinstance(value, int) and kind is int:
        return _in_range(value)
    if isinstance(value, float) and kind is float:
        return _normalised_float(value)
    if isinstance(value, datetime) and kind is datetime:
        return utc_text(value)
    if isinstance(value, dict) and kind is dict:
        return _normalised_object(value, _one_level_down(levels))
    if isinstance(value, list | tuple) and kind in (list, tuple):
        return _normalised_array(value, _one_level_down(levels))
    raise NotCanonical("canon_type", type=kind.__qualname__)


def _one_level_down(levels: int) -> int:
    if levels == 0:
        raise NotCanonical("canon_depth", limit_levels=MAX_DEPTH_LEVELS)
    return levels - 1


def _normalised_array(values: Iterable[object], levels: int) -> list[object]:
    normal = []
    for index, member in enumerate(values):
        try:
            normal.append(_normalised(member, levels))
        except NotCanonical as error:
            raise error.inside(f"[{index}]") from None
    return normal


def _normalised_object(value: dict[object, object], levels: int) -> dict[str, object]:
    normal: dict[str, object] = {}
    for name, member in value.items():
        if type(name) is not str:
            raise NotCanonical("canon_type", type=f"a key of type {type(name).__qualname__}")
        key = normal_string(name)
        if key in normal:
            raise NotCanonical("canon_duplicate_key", key=key)
        try:
            normal[key] = _normalised(member, levels)
        except NotCanonical as error:
            raise error.inside(f".{key}") from None
    # Big-endian UTF-16 bytes compare as UTF-16 code units do, which is RFC 8785's order.
    return dict(sorted(normal.items(), key=lambda item: item[0].encode("utf-16-be")))


def normal_string(text: str) -> str:
    """A string in json-v1's form: NFC as of Unicode 14.0. Strings are equal if these forms are."""
    if text.isascii():
        return text
    if surrogate := _SURROGATE.search(text):
        raise LoneSurrogate(index=surrogate.start())
    if _LATER.isdisjoint(text):
        return unicodedata.normalize("NFC", text)
    runs = groupby(text, _LATER.__contains__)
    return "".join(
        "".join(run) if later else unicodedata.normalize("NFC", "".join(run)) for later, run in runs
    )


def _in_range(number: int) -> int:
    if not -SAFE_INTEGER <= number <= SAFE_INTEGER:
        shown = str(number) if number.bit_length() < 128 else f"an integer of {number.bit_length()} bits"
        raise NotCanonical("canon_number", number=shown)
    return number


def _normalised_float(number: float) -> object:
    if not -SAFE_INTEGER <= number <= SAFE_INTEGER:
        raise NotCanonical("canon_number", number=repr(number))
    rounded = round(number, FLOAT_DECIMALS)
    if rounded.is_integer():
        return int(rounded)
    if abs(rounded) < 1e-4:
        # Printers disagree about exponents here, so the reference implementation prints it.
        return orjson.Fragment(rfc8785.dumps(rounded))
    return rounded


def _decoded(text: bytes | str, limit_bytes: int) -> str:
    try:
        raw = text.encode() if isinstance(text, str) else bytes(text)
        decoded = raw.decode()
    except UnicodeEncodeError as error:
        raise LoneSurrogate(index=error.start) from None
    except UnicodeDecodeError as error:
        raise NotCanonical("canon_syntax", problem=error.reason, offset=error.start) from None
    if len(raw) > limit_bytes:
        raise TooLarge(size_bytes=len(raw), limit_bytes=limit_bytes)
    return decoded


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the decoder recurses, so that the result never depends on the stack."""
    if text.count("[") + text.count("{") <= MAX_DEPTH_LEVELS:
        return
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", _STRING_IN_TEXT.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_DEPTH_LEVELS:
            raise NotCanonical("canon_depth", limit_levels=MAX_DEPTH_LEVELS)


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotCanonical("canon_duplicate_key", key=key)
            seen.add(key)
    return members


def _integer(digits: str) -> int:
    # Python raises an untyped error for very long digit strings, so the length is checked first.
    if len(digits) > len(str(-SAFE_INTEGER)):
        raise NotCanonical("canon_number", number=f"{digits[:20]}… ({len(digits)} characters)")
    return _in_range(int(digits))


def _float(digits: str) -> float:
    number = float(digits)
    _normalised_float(number)
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise NotCanonical("canon_number", number=name)


# Lower case.

# Code points that came after Unicode 14.0 (to 18.0) and are cased or case-ignorable: in 14.0 they have no
# lower case, and a capital sigma next to one is next to nothing. A test compares this list with the Unicode
# data of its Python.
_LATER_CASED_RANGES: Final = (
    "558 58B-58C 5C8-5C9 897 B53-B54 ECE 1ACF-1AF0 1C89-1C8A 208F 209D-209F A7CB-A7CF A7D2 A7D4 A7DA-A7DD"
    " A7E2 A7F1 AB6C-AB6D 107BB-107BF 10D4E 10D50-10D65 10D69-10D6D 10D6F-10D85 10EC5 10EC9-10ECF 10EF0-10EFF"
    " 11241 113BB-113C0 113CE 113D0 113D2 113E1-113E2 11B60 11B62-11B64 11B66 11DD9 11DF0 11F00-11F01"
    " 11F36-11F3A 11F40 11F42 11F5A 13439-13440 13447-13455 1611E-16129 1612D-1612F 16D40-16D42 16D6B-16D6C"
    " 16EA0-16EB8 16EBB-16ED3 16FF2-16FF3 1D127-1D128 1D25B-1D25C 1D6A6 1DF1F-1DF7F 1DF90-1DF96 1DFCD-1DFFF"
    " 1E030-1E06D 1E08F 1E4EB-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1E6FF"
)
_LATER_CASED_SPANS: Final = tuple(
    (int(first, 16), int(last or first, 16))
    for first, _, last in (span.partition("-") for span in _LATER_CASED_RANGES.split())
)
_LATER_CASED: Final = re.compile(
    f"([{''.join(f'{chr(first)}-{chr(last)}' for first, last in _LATER_CASED_SPANS)}]+)"
)
# The same, and every code point beyond the first plane: a superset that is searched for many times faster.
_PERHAPS_LATER_CASED: Final = re.compile(
    f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _LATER_CASED_SPANS if last <= 0xFFFF)}\U00010000-\U0010ffff]"  # noqa: E501  # A pattern is read as a whole.
)
_SIGMA: Final = "\u03a3"
# Two code points whose role in the rule of the final sigma changed after 14.0, and others that still have
# that role.
_STAND_INS: Final = str.maketrans({"\u0295": "\u0250", "\U0001171e": "\u0301"})


def lowered(text: str) -> str:
    """The text in lower case as of Unicode 14.0, on every version of Python.

    A query must have one hash on all of them, and a tag one form. It is ``str.lower``, except that code
    points which play a part in casing only in later versions of Unicode are left alone.
    """
    if text.isascii():
        return text.lower()
    if _is_latin(text) or _PERHAPS_LATER_CASED.search(text) is None or _LATER_CASED.search(text) is None:
        return _lowered_run(text)
    # Every second piece is a run of later code points, which stay as they are.
    return "".join(
        piece if number % 2 else _lowered_run(piece) for number, piece in enumerate(_LATER_CASED.split(text))
    )


def _is_latin(text: str) -> bool:
    """Whether a text has only the first 256 code points. Encoding it is the fastest way to know."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _lowered_run(text: str) -> str:
    if _SIGMA not in text:
        return text.lower()
    stand_in = text.translate(_STAND_INS)
    if stand_in == text:
        return text.lower()
    # Only the form of a sigma depends on its neighbours, so only sigmas are taken from the text with the
    # stand-ins.
    low, pieces, at = stand_in.lower(), [], 0
    for char in text:
        piece = low[at] if char == _SIGMA else char.lower()
        pieces.append(piece)
        at += len(piece)
    return "".join(pieces)
