"""The shape that lines of a store share: which keys, in which order, with which spaces between them.

Whoever writes a store writes all its lines alike. Once the shape is known, one regular expression takes a block of lines
apart into columns, many times faster than a decoder makes objects of them. It also proves what a decoder does not tell:
that every line it matches has just these keys, each once. Lines of another shape are left over, to be read in another way.

A line that matches is the shape's own words with a value in each hole. Where every hole holds one JSON value, the line is
JSON and can be read in this one way only; so nothing needs to be proved but the holes, and most of them the expression
proves itself.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from standfast.limits import MAX_LEARNT_REFS
from standfast.recall.records import FIELDS

_STRING: Final = rb'"[^"\\\x00-\x1f]*+"'
# The same without spaces and in ASCII, which is told faster; no line that is looked at has a backslash.
_WORD: Final = rb'"[#-~]*+"'
_IS_WORD: Final = re.compile(r"[#-\[\]-~]*")
# The same, where nothing is to be found that a string must not hold.
_PROVED_STRING: Final = rb'"[^"]*+"'
# The mark that ends a text stays with it, and stands between texts when they are joined. A text is by far the longest
# string, so what else it must not hold is looked for in all texts together.
_TEXT: Final = rb'"([^"]*+")'
_LIST: Final = rb"\[[^\]\n]*+\]"
_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_SCALAR: Final = rb"(?:" + _STRING + rb"|" + _NUMBER + rb"|true|false|null)"
# A number of so few digits is a json-v1 value.
_SMALL_NUMBER: Final = rb"-?(?:0|[1-9][0-9]{0,14}+)(?:\.[0-9]++)?(?![0-9eE])"
_SMALL_SCALAR: Final = rb"(?:" + _STRING + rb"|" + _SMALL_NUMBER + rb"|true|false|null)"
# ASCII without control characters and the backslash.
_PRINTABLE: Final = bytes(range(32, 127)).replace(b"\\", b"")
_NEEDED: Final = ("memory_id", "text")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_.-]+")
_START: Final = re.compile(rb'\{"[^"]*":( ?)')

Column = Sequence[bytes | None]
"""The JSON of each line's value; None where a line has none."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The lines of a block that have a shape, taken apart."""

    texts: list[bytes]
    """Each with the quotation mark that ends it, but without the first. A control character may be left in one."""
    stamps: Column
    tags: Column
    refs: Column
    """Empty where nothing can be wrong with any."""
    unread: list[Column]
    """Of keys that are not ours, where they have to be looked at."""
    gaps: list[bytes] | None
    """Lines of other shapes: those before each line of this one, and after the last. None if there are none."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The expression that lines of a shape match, and the keys whose values it takes out."""

    pattern: re.Pattern[bytes]
    taken: tuple[str, ...]
    proof: re.Pattern[bytes] | None
    """For blocks of printable ASCII without a backslash: takes nothing out, and leaves nothing to be proved."""

    def rows_proved(self, block: bytes) -> int:
        """How many lines a block has, if all are records beyond doubt; 0 if not."""
        if self.proof is None:
            return 0
        ends = block.translate(None, _PRINTABLE)
        if ends != b"\n" * len(ends):
            return 0
        # As many matches as lines, and nothing between them: no string has a line's end in it.
        gaps = self.proof.split(block)
        return 0 if len(gaps) != len(ends) + 1 or any(gaps) else len(ends)

    def columns(self, block: bytes) -> Columns | None:
        """Whole lines without a backslash, in UTF-8, taken apart; None if that can't be."""
        parts: list[Any] = self.pattern.split(block)
        stride = len(self.taken) + 1
        gaps: list[bytes] = parts[::stride]
        if len(gaps) == 1:
            return None
        by_key = {key: parts[number::stride] for number, key in enumerate(self.taken, 1)}
        texts = by_key["text"]
        return Columns(
            texts=texts,
            stamps=by_key.get("ts_utc") or [None] * len(texts),
            tags=by_key.get("tags") or [None] * len(texts),
            refs=by_key.get("refs", ()),
            unread=[column for key, column in by_key.items() if key not in FIELDS],
            gaps=gaps if any(gaps) else None,
        )


def learn(sample: Sequence[bytes]) -> Shape | None:
    """The shape of lines like the first that has one, and of others that have some of their keys, or more."""
    lines = [line for line in map(_members_of, sample) if line is not None]
    spaces = [found[1] for found in map(_START.match, sample) if found is not None]
    if not lines or not spaces:
        return None
    space = spaces[0]
    orders = list(dict.fromkeys(tuple(key for key, _ in line) for line in lines))
    first = orders[0]
    related = [order for order in orders if _is_part(first, order) and order[0] == first[0]]
    keys = max(related, key=lambda order: (len(order), order))
    fitting = [order for order in orders if _is_part(order, keys) and order[0] == keys[0]]
    always = set(keys).intersection(*fitting)
    if not always.issuperset(_NEEDED):
        return None
    seen = {key: [value for line in lines for name, value in line if name == key] for key in keys}
    holes = {
        key: _Hole.of(key, seen[key], space, _after(keys[place + 1 :], always, space))
        for place, key in enumerate(keys)
    }
    taken = tuple(key for key, hole in holes.items() if hole.is_taken)
    pattern = _line({key: hole.pattern for key, hole in holes.items()}, always, space)
    proofs = {key: hole.proof for key, hole in holes.items() if hole.proof is not None}
    proof = _line(proofs, always, space) if len(proofs) == len(keys) else None
    return Shape(pattern, taken, proof)


def _line(holes: dict[str, bytes], always: set[str], space: bytes) -> re.Pattern[bytes]:
    parts = []
    for number, (key, hole) in enumerate(holes.items()):
        comma = b"," + space if number else b""
        part = comma + b'"' + re.escape(key.encode()) + b'":' + space + hole
        parts.append(part if key in always else b"(?:" + part + b")?")
    # Tried at the start of each line and nowhere else, so that no line takes longer than its length.
    return re.compile(rb"^\{" + b"".join(parts) + rb"\}\n", re.MULTILINE)


def _members_of(line: bytes) -> Any:
    """The members of a line in order, if their keys are simple and differ."""
    try:
        members = _decode(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(members, _Members):
        return None
    keys = {key for key, _ in members}
    is_plain = members and len(keys) == len(members) and all(map(_PLAIN_KEY.fullmatch, keys))
    return members if is_plain else None


class _Members(tuple[tuple[str, Any], ...]):
    """An object, as it was written."""

    __slots__ = ()


_decode: Final = json.JSONDecoder(object_pairs_hook=_Members).decode


def _is_part(some: Iterable[str], order: Iterable[str]) -> bool:
    """Whether these keys come in this order, others between them or not."""
    left = iter(order)
    return all(key in left for key in some)


def _after(keys: Sequence[str], always: set[str], space: bytes) -> bytes:
    """What may follow on a value: the keys up to the first that is always there, or the line's end."""
    follows = []
    for key in keys:
        follows.append(b"," + space + b'"' + re.escape(key.encode()) + b'":')
        if key in always:
            break
    else:
        follows.append(rb"\}\n")
    return b"|".join(follows)


@dataclass(frozen=True, slots=True)
class _Hole:
    """What stands for a value in the expressions of a shape."""

    pattern: bytes
    is_taken: bool = False
    proof: bytes | None = None
    """The same, but nothing is taken out and what it matches is beyond doubt; None if there is no such expression."""

    @classmethod
    def of(cls, key: str, seen: list[Any], space: bytes, after: bytes) -> "_Hole":
        """The hole of a key, from the values that were seen under it and what may follow on it."""
        null = b"|null" if None in seen else b""
        match key:
            case "memory_id":
                return cls(_string(seen), proof=_PROVED_STRING)
            case "text":
                return cls(_TEXT, is_taken=True, proof=_PROVED_STRING)
            case "ts_utc":
                proof = b"(?:" + _PROVED_STRING + null + b")"
                return cls(b"(" + _string(seen) + null + b")", is_taken=True, proof=proof)
            case "tags":
                proof = b"(?:" + _list(_PROVED_STRING, space) + null + b")"
                return cls(b"(" + _LIST + null + b")", is_taken=True, proof=proof)
            case "refs":
                refs = _flat_refs(seen, space)
                if refs is not None:
                    refs = b"(?:" + refs + null + b")"
                    return cls(
                        refs, proof=refs.replace(_STRING, _PROVED_STRING).replace(_WORD, _PROVED_STRING)
                    )
                return cls(_nested(rb"\[.*?\]" + null, after), is_taken=True)
        if any(isinstance(value, list | tuple) for value in seen):
            return cls(_nested(rb"[\[{].*?[\]}]|" + _SCALAR, after), is_taken=True)
        return cls(_SCALAR, proof=_SCALAR)


def _string(seen: list[Any]) -> bytes:
    """An expression for strings like these."""
    strings = [value for value in seen if isinstance(value, str)]
    return _WORD if all(map(_IS_WORD.fullmatch, strings)) else _STRING


def _nested(value: bytes, after: bytes) -> bytes:
    """A value whose end is where it can be first: no other is tried, so that no line takes long."""
    return rb"((?>(?:" + value + rb")(?=" + after + rb")))"


def _list(member: bytes, space: bytes) -> bytes:
    """An expression for lists of such members, written without other spaces."""
    return rb"\[(?:" + member + b"(?:," + space + member + rb")*+)?\]"


def _flat_refs(seen: list[Any], space: bytes) -> bytes | None:
    """An expression for lists of such flat objects as were seen; None if they are not flat, or of too many kinds."""
    orders: set[tuple[str, ...]] = set()
    for refs in filter(None, seen):
        for ref in refs if isinstance(refs, list) else (None,):
            if not isinstance(ref, _Members) or any(isinstance(value, list | tuple) for _, value in ref):
                return None
            orders.add(tuple(key for key, _ in ref))
    if len(orders) > MAX_LEARNT_REFS or not all(
        len(set(order)) == len(order) and all(map(_PLAIN_KEY.fullmatch, order)) for order in orders
    ):
        return None
    values = [value for refs in filter(None, seen) for ref in refs for _, value in ref]
    value = _string(values) if all(isinstance(value, str) for value in values) else _SMALL_SCALAR
    colon, comma = b":" + space, b"," + space
    kinds = [
        rb"\{" + comma.join(b'"' + re.escape(key.encode()) + b'"' + colon + value for key in order) + rb"\}"
        for order in sorted(orders)
    ]
    return _list(b"(?:" + b"|".join(kinds) + b")", space) if kinds else rb"\[\]"
