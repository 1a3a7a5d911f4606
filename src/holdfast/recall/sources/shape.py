"""The shape that lines of a store share: which keys, in which order, with which spaces between them.

Whoever writes a store writes all its lines alike. Once the shape is known, one regular expression takes a block of lines
apart into columns, many times faster than a decoder makes objects of them. It also proves what a decoder does not tell:
that every line has just these keys, each once. A block that has another shape does not fit, and is read in another way.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.recall.records import FIELDS

# Printable ASCII without quotation marks and backslashes: what a JSON string may hold as it is.
_PRINTABLE: Final = rb"[ !#-\[\]-~]*"
# The mark that ends a text stays with it, and stands between texts when they are joined.
_TEXT: Final = rb'"([^"]*")'
_ARRAY: Final = rb"(\[[^\]]*\])"
_PLAIN: Final = {
    "memory_id": rb'"' + _PRINTABLE + rb'"',
    "text": _TEXT,
    "ts_utc": rb'("' + _PRINTABLE + rb'")',
    "tags": _ARRAY,
    "refs": _ARRAY,
}
_ANY: Final = _PLAIN | {"memory_id": rb'("[^"]*")', "ts_utc": rb'("[^"]*")'}
assert set(_PLAIN) == set(_ANY) == set(FIELDS)
_OTHER: Final = rb'("[^"]*"|[^"\[\]{},\s]+)'
_NEEDED: Final = ("memory_id", "text")
_READ: Final = ("text", "ts_utc", "tags", "refs")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_.-]+")
_START: Final = re.compile(rb'\{"[^"]*":( ?)')
_SAMPLE_LINES: Final = 64

# An escape's first two bytes, and bytes that can't stand in a line, which take their place while quotation marks are
# looked for.
_ESCAPED_BACKSLASH: Final = (b"\\\\", b"\x02\x02")
_ESCAPED_QUOTE: Final = (b'\\"', b"\x01\x01")


Column = Sequence[bytes | None]
"""The JSON of each line's value; None where a line has none."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A block taken apart. If it is plain, its strings are ASCII and hold no escapes: their JSON is their text."""

    is_plain: bool
    texts: list[bytes]
    """Each with the quotation mark that ends it, but without the first. Only here a control character may be left."""
    stamps: Column
    tags: Column
    refs: Column
    unread: list[Column]
    """Of keys that are not ours; and ids, where they have to be looked at."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Keys in order, and the expressions that lines of them match: plain lines, and any."""

    keys: tuple[str, ...]
    plain: re.Pattern[bytes]
    any_kind: re.Pattern[bytes]

    def columns(self, block: bytes) -> Columns | None:
        """A block of whole lines taken apart; None if one of them has another shape."""
        if block.isascii() and b"\\" not in block:
            return self._taken_apart(block, self.plain, tuple(key for key in self.keys if key != "memory_id"))
        if b"\x01" in block or b"\x02" in block:
            return None
        hidden = block.replace(*_ESCAPED_BACKSLASH).replace(*_ESCAPED_QUOTE)
        return self._taken_apart(hidden, self.any_kind, self.keys)

    def _taken_apart(self, block: bytes, pattern: re.Pattern[bytes], keys: tuple[str, ...]) -> Columns | None:
        parts: list[Any] = pattern.split(block)
        stride = len(keys) + 1
        if len(parts) == 1 or any(parts[::stride]):
            # There is no line of this shape, or something stands between two.
            return None
        is_plain = pattern is self.plain
        if not is_plain:
            parts = [part and _shown(part) for part in parts]
        by_key = {key: parts[number::stride] for number, key in enumerate(keys, 1)}
        nothing = [None] * len(by_key["text"])
        return Columns(
            is_plain=is_plain,
            texts=by_key["text"],
            stamps=by_key.get("ts_utc", nothing),
            tags=by_key.get("tags", nothing),
            refs=by_key.get("refs", nothing),
            unread=[column for key, column in by_key.items() if key not in _READ],
        )


def _shown(part: bytes) -> bytes:
    """What was hidden, back in its place."""
    return part.replace(*_ESCAPED_QUOTE[::-1]).replace(*_ESCAPED_BACKSLASH[::-1])


def learn(block: bytes) -> Shape | None:
    """The shape of a block's first lines, if they have one."""
    sample = [line for line in block.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES] if line]
    orders = {order for order in map(_keys_of, sample) if order is not None}
    space = _START.match(sample[0]) if sample else None
    if not orders or space is None:
        return None
    keys = max(orders, key=lambda order: (len(order), order))
    if not all(_is_part(order, keys) and order[0] == keys[0] for order in orders):
        return None
    always = set(keys).intersection(*orders)
    if not always.issuperset(_NEEDED):
        return None
    plain, any_kind = (_pattern(keys, always, space[1], values) for values in (_PLAIN, _ANY))
    return Shape(keys, plain, any_kind)


def _keys_of(line: bytes) -> tuple[str, ...] | None:
    try:
        keys = json.loads(line, object_pairs_hook=lambda pairs: tuple(key for key, _ in pairs))
    except (ValueError, RecursionError):
        return None
    if not isinstance(keys, tuple) or len(set(keys)) < len(keys) or not keys:
        return None
    return keys if all(_PLAIN_KEY.fullmatch(key) for key in keys) else None


def _is_part(some: Iterable[str], order: Iterable[str]) -> bool:
    """Whether these keys come in this order, others between them or not."""
    left = iter(order)
    return all(key in left for key in some)


def _pattern(
    keys: tuple[str, ...], always: set[str], space: bytes, values: dict[str, bytes]
) -> re.Pattern[bytes]:
    parts = []
    for number, key in enumerate(keys):
        comma = b"," + space if number else b""
        part = comma + b'"' + re.escape(key.encode()) + b'":' + space + values.get(key, _OTHER)
        parts.append(part if key in always else b"(?:" + part + b")?")
    return re.compile(rb"\{" + b"".join(parts) + rb"\}\n")
