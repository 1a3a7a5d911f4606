"""Lines of a store: the candidate that each holds, or why it holds none.

A line is one JSON object in UTF-8. Five of its fields are read: ``memory_id`` and ``text``, and ``ts_utc``,
``tags`` and ``refs``, where null counts as absent. Each must occur at most once, have its type, and be a
json-v1 value. Other fields are ignored if the line is JSON of at most 1 MiB and 128 levels.

``read_line`` is the definition. ``read_block`` reads many lines with a typed decoder. The decoder accepts a
little more than the rules allow (a key that occurs twice, for instance), so a block that could hold such a
line is read by the definition.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from standfast.errors import NotCanonical
from standfast.limits import MAX_DEPTH_LEVELS, MAX_VALUE_BYTES, SAFE_INTEGER
from standfast.records.canon import canonical_bytes, fingerprint, lowered
from standfast.records.timestamps import MISSING, normal_timestamp, time_of

FIELDS: Final = ("memory_id", "ts_utc", "text", "tags", "refs")


class Fault(StrEnum):
    """Why a line holds no record."""

    TOO_LONG = "longer than 1 MiB"
    NOT_UTF8 = "not UTF-8"
    NOT_JSON = "not JSON"
    TOO_DEEP = "nested deeper than 128 levels"
    NOT_AN_OBJECT = "not a JSON object"
    DUPLICATE_KEY = "a key occurs twice"
    NO_MEMORY_ID = "memory_id is not a string"
    NO_TEXT = "text is not a string"
    BAD_TIMESTAMP = "ts_utc is not a string"
    BAD_TAGS = "tags is not a list of strings"
    BAD_REFS = "refs is not a list of objects"
    NOT_CANONICAL = "a field is not a json-v1 value"


_LINE_FAULTS: Final = frozenset(
    (Fault.TOO_LONG, Fault.NOT_UTF8, Fault.NOT_JSON, Fault.TOO_DEEP, Fault.NOT_AN_OBJECT)
)
"""Faults of a line from which no field can be read."""


class Candidate(Struct, eq=False, gc=False):
    """A record that may be selected. Fields are the line's; properties give the contract's normal form."""

    memory_id: str
    text: str
    written_ts_utc: str | UnsetType | None = msgspec.field(name="ts_utc", default=UNSET)
    written_tags: list[str] | UnsetType | None = msgspec.field(name="tags", default=UNSET)
    written_refs: list[dict[str, Any]] | UnsetType | None = msgspec.field(name="refs", default=UNSET)

    @property
    def time(self) -> int:
        """Microseconds since the start of year 1, or ``MISSING``."""
        return time_of(self.written_ts_utc) if self.written_ts_utc else MISSING

    @property
    def ts_utc(self) -> str | None:
        """The timestamp in json-v1's form. A string that is none stays as it is, and its time is missing."""
        return None if self.written_ts_utc in (None, UNSET) else normal_timestamp(self.written_ts_utc)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags in lower case, each once, sorted."""
        return _normal_tags(tuple(self.written_tags)) if self.written_tags else ()

    @property
    def refs(self) -> list[dict[str, Any]]:
        """The references of the record."""
        return self.written_refs or []

    @property
    def record_hash(self) -> str:
        """The fingerprint of the five fields in normal form. The path of the store is no part of it."""
        return fingerprint({name: getattr(self, name) for name in FIELDS})


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no record. ``place`` is its number in a file, from 1 on, or its key in a store."""

    place: int | str
    memory_id: str
    record_hash: str
    fault: Fault


def _verbatim(number: str) -> Raw:
    return Raw(number.encode())


_decoder: Final = msgspec.json.Decoder(Candidate)
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_verbatim_decoder: Final = msgspec.json.Decoder(float_hook=_verbatim)
_encode: Final = msgspec.json.Encoder().encode
_NUMBERS: Final = frozenset((int, float))
_SCALARS: Final[frozenset[type]] = frozenset((str, int, float, bool, type(None)))
# A number with an exponent may be written shorter than the encoder writes it.
_EXACT: Final[frozenset[type]] = _SCALARS - {float}
_REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NAMES: Final = tuple(f'"{name}"'.encode() for name in ("text", "memory_id", "ts_utc", "tags", "refs"))
# The only way to write a field's name without its letters.
_ESCAPED_LETTER: Final = re.compile(rb"\\u00[0-7]")
# A line this short stays below the limit of one value in normal form: NFC grows a text at most threefold.
_SHORT_BYTES: Final = MAX_VALUE_BYTES // 8


def read_block(block: bytes) -> Sequence[Candidate | Fault | None]:
    """What ``read_line`` gives for each line of a block, every line with its end; None for a blank line."""
    lines = block.split(b"\n")[:-1]
    rest, results = iter(lines), list[Candidate | Fault | None]()
    while len(results) < len(lines):
        found: list[Candidate] = []
        # A line that the decoder refuses ends a run. What was decoded before it is kept, and the next run
        # starts after it.
        with suppress(*_REFUSALS):
            found.extend(map(_decoder.decode, rest))
        results += _checked(found, lines[len(results) : len(results) + len(found)])
        if len(results) < len(lines):
            line = lines[len(results)]
            results.append(read_line(line) if line and not line.isspace() else None)
    return results


def _checked(found: list[Candidate], lines: list[bytes]) -> Sequence[Candidate | Fault]:
    """The candidates of lines that were decoded; lines that may break a rule are read again, one by one."""
    try:
        if not found or _surely_obey_the_rules(found, lines):
            return found
    except _REFUSALS:
        pass
    if len(lines) > 1:
        return [_checked([one], [line])[0] for one, line in zip(found, lines, strict=True)]
    return [read_line(lines[0])]


def _surely_obey_the_rules(found: list[Candidate], lines: list[bytes]) -> bool:
    """Whether decoded lines surely break no rule that the decoder does not know. May raise ``_REFUSALS``."""
    size = sum(map(len, lines)) + len(lines)
    if size > _SHORT_BYTES:
        return False
    rows = [row for row, candidate in enumerate(found) if candidate.written_refs]
    first = _compact(lines[0])
    compact_lines = lines
    if first != lines[0]:
        compact_lines = list(map(_compact, lines))
        size = sum(map(len, compact_lines)) + len(lines)
    # Lines that are no longer than what was decoded of them have no repeated key and no other field. The
    # first line tells whether that is worth a try.
    if len(_encode(found[0])) == len(first) and len(_encode(found)) - 1 == size:
        return all(_are_plain(found[row].written_refs, MAX_DEPTH_LEVELS - 1, _EXACT) for row in rows)
    most_brackets = sum(max(map(bytes.count, lines, repeat(bracket))) for bracket in (b"[", b"{"))
    block = b"\n".join(lines)
    if most_brackets > MAX_DEPTH_LEVELS or not _is_utf8(block):
        return False
    members = list(map(_decode_members, compact_lines))
    # Lines that are no longer than their members have no repeated key. Keys with escapes are shorter once
    # they are decoded.
    if len(_encode(members)) - 1 != size and not _names_occur_once(found, block):
        return False
    return all(
        _are_plain(found[row].written_refs, MAX_DEPTH_LEVELS, _SCALARS)
        and _repeats_no_key(members[row]["refs"])
        for row in rows
    )


def _names_occur_once(found: list[Candidate], block: bytes) -> bool:
    """Whether the names of the fields occur no more often than the fields were read."""
    if b"\\" in block and _ESCAPED_LETTER.search(block) is not None:
        return False
    absent = (
        0,
        0,
        [candidate.written_ts_utc for candidate in found].count(UNSET),
        [candidate.written_tags for candidate in found].count(UNSET),
        [candidate.written_refs for candidate in found].count(UNSET),
    )
    return all(
        block.count(name) == len(found) - missing for name, missing in zip(_NAMES, absent, strict=True)
    )


def _repeats_no_key(refs: Raw) -> bool:
    """Whether refs without white space surely repeat no key: they are no longer than what is decoded."""
    return len(_encode(_verbatim_decoder.decode(refs))) == len(bytes(refs))


def _compact(text: bytes) -> bytes:
    """JSON without the white space between its tokens."""
    return msgspec.json.format(text, indent=-1)


def _are_plain(value: Any, levels: int, scalars: frozenset[type]) -> bool:
    """Whether refs, or a part of them, surely are json-v1 values: keys are ASCII, and numbers are in range.

    Keys that are not ASCII may be equal in NFC.
    """
    if levels == 0 or (type(value) is dict and not "".join(value).isascii()):
        return False
    for item in value.values() if type(value) is dict else value:
        kind = type(item)
        if kind is dict or kind is list:
            if not _are_plain(item, levels - 1, scalars):
                return False
        elif kind not in scalars or (kind in _NUMBERS and not -SAFE_INTEGER <= item <= SAFE_INTEGER):
            return False
    return True


def bad_line(line: bytes, place: int | str, fault: Fault) -> BadLine:
    """What is reported of a line without a record: its id, if it can be read, and the hash of its bytes."""
    memory_id = ""
    if fault not in _LINE_FAULTS:
        value = _decode_strictly(line.decode())
        found = value.get("memory_id")
        if isinstance(found, str) and _is_unicode(found) and "memory_id" not in _repeated_keys(value):
            memory_id = found
    return BadLine(place, memory_id, hashlib.sha256(line).hexdigest(), fault)


@lru_cache(maxsize=1 << 12)
def _normal_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({lowered(tag) for tag in tags}))


def _is_utf8(line: bytes) -> bool:
    if not line.isascii():
        try:
            line.decode()
        except UnicodeDecodeError:
            return False
    return True


class _RepeatedKeys(dict[str, Any]):
    """An object some of whose keys occur more than once."""

    repeated: frozenset[str] = frozenset()


def read_line(line: bytes) -> Candidate | Fault:
    """Return the candidate that a line holds, or why it holds none."""
    if len(line) > MAX_VALUE_BYTES:
        return Fault.TOO_LONG
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return Fault.NOT_UTF8
    if _is_too_deep(text):
        return Fault.TOO_DEEP
    try:
        value = _decode_strictly(text)
    except ValueError:
        return Fault.NOT_JSON
    if not isinstance(value, dict):
        return Fault.NOT_AN_OBJECT
    return _fault_in(value) or _candidate_of(value, line)


def _candidate_of(value: dict[str, Any], line: bytes) -> Candidate | Fault:
    """The candidate of fields that have their types, unless json-v1 can't write them."""
    candidate = Candidate(
        value["memory_id"], value["text"], value.get("ts_utc"), value.get("tags"), value.get("refs")
    )
    strings = (candidate.memory_id, candidate.text, candidate.written_ts_utc or "", *candidate.tags)
    is_plain = not candidate.written_refs or _are_plain(candidate.written_refs, MAX_DEPTH_LEVELS, _SCALARS)
    if len(line) <= _SHORT_BYTES and is_plain and all(map(_is_unicode, strings)):
        return candidate
    try:
        canonical_bytes({name: getattr(candidate, name) for name in FIELDS})
    except NotCanonical:
        return Fault.NOT_CANONICAL
    return candidate


def _fault_in(value: dict[str, Any]) -> Fault | None:
    """What is wrong with the fields of an object, but for what json-v1 can't write."""
    memory_id, ts_utc, text, tags, refs = map(value.get, FIELDS)
    if not _repeated_keys(value).isdisjoint(FIELDS):
        return Fault.DUPLICATE_KEY
    if not isinstance(memory_id, str):
        return Fault.NO_MEMORY_ID
    if not isinstance(text, str):
        return Fault.NO_TEXT
    if ts_utc is not None and not isinstance(ts_utc, str):
        return Fault.BAD_TIMESTAMP
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        return Fault.BAD_TAGS
    if refs is not None and not (isinstance(refs, list) and all(isinstance(ref, dict) for ref in refs)):
        return Fault.BAD_REFS
    return Fault.DUPLICATE_KEY if _has_repeated_key(refs) else None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    with_repeats = _RepeatedKeys(members)
    counts = Counter(key for key, _ in pairs)
    with_repeats.repeated = frozenset(key for key, count in counts.items() if count > 1)
    return with_repeats


def _repeated_keys(value: dict[str, Any]) -> frozenset[str]:
    return value.repeated if isinstance(value, _RepeatedKeys) else frozenset()


def _has_repeated_key(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value, _RepeatedKeys) or any(map(_has_repeated_key, value.values()))
    return isinstance(value, list) and any(map(_has_repeated_key, value))


def _integer(digits: str) -> float:
    # json-v1 has no numbers beyond 2^53 - 1. Infinity is refused as well, and costs nothing however many
    # digits there are.
    return int(digits) if len(digits) <= 17 else math.inf


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_decode_strictly: Final = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_constant=_refuse_constant
).decode


def _is_unicode(text: str) -> bool:
    """Whether a text has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# The closing quote is optional and the match is possessive, so an unclosed string is scanned only once.
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")


def _is_too_deep(text: str) -> bool:
    """Whether brackets are nested too deeply. This is checked before a decoder recurses into them."""
    if text.count("[") + text.count("{") <= MAX_DEPTH_LEVELS:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH_LEVELS:
            return True
    return False
