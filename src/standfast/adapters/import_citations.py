"""What the lines of an export cite, and whether that can be cited where it is imported.

What cites a memory is trusted no more than it, and an unknown one is not trusted at all. A message, one of
several values and law get other ids when they are imported, and a line may cite one that comes after it. Such
a citation becomes a plain source of kind ``agent``, which is ordinary and no witness, unless what it cites
is untrusted. How far the record that cites was trusted stays a limit for it; see ``ImportedFact``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from standfast.limits import MAX_NAME_CHARS, MAX_VALUE_BYTES
from standfast.records.origins import CITING_KINDS, Origin, kind_of, origin_of
from standfast.records.requests import MESSAGE_ID
from standfast.records.vocabulary import Band

_NEVER: Final = float("inf")


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, with their numbers. One that is too long is cut."""
    most = MAX_VALUE_BYTES + 2
    with path.open("rb") as file:
        number = 0
        while line := file.readline(most):
            number += 1
            # What is left of a line is not the next one.
            rest = line
            while len(rest) == most and not rest.endswith(b"\n"):
                rest = file.readline(most)
            if line.strip():
                yield number, line.rstrip(b"\r\n")


class _Place(NamedTuple):
    scope: str
    memory_id: str


class _CitingLine(msgspec.Struct):
    """What a line cites, and what makes it citable. Whoever wrote it may have given anything."""

    memory_id: Any = None
    scope: Any = None
    band: Any = None
    several: Any = None
    origin: Any = None
    source: Any = None
    refs: Any = None

    def cited(self, scope: str) -> Iterator[_Place]:
        for one in (self.source, *(self.refs if isinstance(self.refs, list) else ())):
            if (place := _cited_in(one, self.scope or scope)) is not None:
                yield place

    @property
    def is_untrusted(self) -> bool:
        """Whether it, or the kind of its source, is."""
        if not isinstance(self.source, Mapping) or kind_of(self.source) in CITING_KINDS:
            return bool(self.origin == Origin.UNTRUSTED)
        return Origin.UNTRUSTED in (self.origin, origin_of(self.source))

    @property
    def gets_other_id(self) -> bool:
        return (
            bool(self.several) or self.band == Band.VAULT or MESSAGE_ID.fullmatch(self.memory_id) is not None
        )


def _read_lines(path: Path) -> Iterator[tuple[int, _CitingLine]]:
    decode = msgspec.json.Decoder(_CitingLine).decode
    for number, line in lines_of(path):
        try:
            yield number, decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # The reader of the file says so.
            continue


def _cited_in(source: object, scope: object) -> _Place | None:
    """The memory that a source or ref cites; None if it cites none."""
    if not isinstance(source, Mapping) or kind_of(source) not in CITING_KINDS:
        return None
    within, memory_id = source.get("scope", scope), source.get("id")
    return _Place(within, memory_id) if isinstance(within, str) and isinstance(memory_id, str) else None


@dataclass(frozen=True, slots=True)
class Citations:
    """From which line on each memory can be cited that a file holds and cites.

    It depends on the file alone, so that an import that was interrupted makes the same requests again.
    """

    first_lines: Mapping[_Place, float]

    @classmethod
    def of(cls, path: Path, scope: str) -> Self:
        """Read a file. ``scope`` is that of lines that name none."""
        cited = {place for _, line in _read_lines(path) for place in line.cited(scope)}
        first: dict[_Place, float] = {}
        for number, line in _read_lines(path) if cited else ():
            if isinstance(line.memory_id, str) and isinstance(line.scope or scope, str):
                place = _Place(line.scope or scope, line.memory_id)
                if place in cited and not line.is_untrusted:
                    first[place] = _NEVER if line.gets_other_id else number
        return cls(first)

    def held(self, source: Any, scope: object, number: int) -> Any:
        """The source of a line, or its refs, as they are imported."""
        if isinstance(source, list):
            return [self.held(one, scope, number) for one in source]
        place = _cited_in(source, scope)
        if place is None or self.first_lines.get(place, 0) < number:
            return source
        name = f"{kind_of(source)}:{place.scope}//{place.memory_id}"
        return {**source, "kind": "agent", "id": name[:MAX_NAME_CHARS]}
