"""One line of a store: the record that it holds, or why it holds none. The definition that every faster way must meet.

A line is one JSON object in UTF-8. Five of its fields are read (``memory_id``, ``text``; and ``ts_utc``, ``tags``,
``refs``, where null is as good as absent), and those must stand at most once, have their types, and be json-v1 values.
Other fields are passed over, whatever they hold, as long as the line is JSON, no longer than a value may be, and not
nested deeper.
"""

import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from standfast.canon import fingerprint, normal_string
from standfast.casing import lowered
from standfast.errors import LoneSurrogate, NotCanonical
from standfast.limits import MAX_DEPTH_LEVELS, MAX_VALUE_BYTES
from standfast.recall.moments import MISSING, moment_of, normal_stamp

FIELDS: Final = ("memory_id", "ts_utc", "text", "tags", "refs")
# The closing quote is optional and nothing is given back, so that an unclosed string is passed over once.
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")


class Fault(StrEnum):
    """Why a line holds no record."""

    TOO_LONG = "longer than 1 MiB"
    NOT_UTF8 = "not UTF-8"
    NOT_JSON = "not JSON"
    TOO_DEEP = "nested deeper than 128 levels"
    NOT_AN_OBJECT = "not an object"
    DUPLICATE_KEY = "a key stands twice"
    NO_MEMORY_ID = "memory_id is no string"
    NO_TEXT = "text is no string"
    BAD_TIMESTAMP = "ts_utc is no string"
    BAD_TAGS = "tags are no list of strings"
    BAD_REFS = "refs are no list of objects"
    NOT_CANONICAL = "a field can't be written as json-v1"


class Record(Struct, frozen=True):
    """What the controller knows of a record, in normal form."""

    memory_id: str
    ts_utc: str | None
    """In json-v1's form; a string that is no timestamp stays as it is, and counts as missing wherever time counts."""
    text: str
    tags: tuple[str, ...]
    refs: list[dict[str, Any]]
    moment: int
    record_hash: str
    """The fingerprint of the five fields. The path is no part of it."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no record, where it stands and why; ``place`` is its number, from 1 on, or its key."""

    place: int | str
    memory_id: str
    record_hash: str
    fault: Fault


class _Doubled(dict[str, Any]):
    """An object some of whose keys stood twice."""

    keys_doubled: frozenset[str] = frozenset()


def read_line(line: bytes) -> Record | Fault:
    """The record that a line holds, or why it holds none."""
    if len(line) > MAX_VALUE_BYTES:
        return Fault.TOO_LONG
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return Fault.NOT_UTF8
    if _is_too_deep(text):
        return Fault.TOO_DEEP
    try:
        value = _decode(text)
    except ValueError:
        return Fault.NOT_JSON
    return _checked(value) if isinstance(value, dict) else Fault.NOT_AN_OBJECT


def bad_line(line: bytes, place: int, fault: Fault) -> BadLine:
    """What is told of a line that holds no record: its id, if one can be read, and the hash of its bytes."""
    memory_id = ""
    if fault not in (Fault.TOO_LONG, Fault.NOT_UTF8, Fault.NOT_JSON, Fault.TOO_DEEP, Fault.NOT_AN_OBJECT):
        value = _decode(line.decode())
        found = value.get("memory_id")
        if isinstance(found, str) and _is_text(found) and "memory_id" not in _keys_doubled(value):
            memory_id = found
    return BadLine(place, memory_id, hashlib.sha256(line).hexdigest(), fault)


def _checked(value: dict[str, Any]) -> Record | Fault:
    memory_id, stamp, text, tags, refs = map(value.get, FIELDS)
    if not _keys_doubled(value).isdisjoint(FIELDS):
        return Fault.DUPLICATE_KEY
    if not isinstance(memory_id, str):
        return Fault.NO_MEMORY_ID
    if not isinstance(text, str):
        return Fault.NO_TEXT
    if stamp is not None and not isinstance(stamp, str):
        return Fault.BAD_TIMESTAMP
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        return Fault.BAD_TAGS
    if refs is not None and not (isinstance(refs, list) and all(isinstance(ref, dict) for ref in refs)):
        return Fault.BAD_REFS
    if _has_doubles(refs):
        return Fault.DUPLICATE_KEY
    moment = MISSING if stamp is None else moment_of(stamp)
    fields: dict[str, Any] = {
        "memory_id": memory_id,
        "ts_utc": None if stamp is None else normal_stamp(stamp, moment),
        "text": text,
        "tags": normal_tags(tags or ()),
        "refs": refs or [],
    }
    try:
        return Record(**fields, moment=moment, record_hash=fingerprint(fields))
    except NotCanonical:
        return Fault.NOT_CANONICAL


def normal_tags(tags: Any) -> tuple[str, ...]:
    """Tags as they are compared: in lower case, each once, in order."""
    return tuple(sorted({lowered(tag) for tag in tags}))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    doubled = _Doubled(members)
    counts = Counter(key for key, _ in pairs)
    doubled.keys_doubled = frozenset(key for key, count in counts.items() if count > 1)
    return doubled


def _keys_doubled(value: dict[str, Any]) -> frozenset[str]:
    return value.keys_doubled if isinstance(value, _Doubled) else frozenset()


def _has_doubles(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value, _Doubled) or any(map(_has_doubles, value.values()))
    return isinstance(value, list) and any(map(_has_doubles, value))


def _integer(digits: str) -> float:
    # Beyond 2^53 - 1 a number is no json-v1 value, wherever that matters; infinity says so, whatever its length.
    return int(digits) if len(digits) <= 17 else math.inf


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_constant=_refuse_constant
).decode


def _is_text(text: str) -> bool:
    try:
        normal_string(text)
    except LoneSurrogate:
        return False
    return True


def _is_too_deep(text: str) -> bool:
    """Whether brackets are nested too deeply, told before a decoder recurses into them."""
    if text.count("[") + text.count("{") <= MAX_DEPTH_LEVELS:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH_LEVELS:
            return True
    return False
