"""A section's text as units that can be taken out whole: paragraphs, bullets, code blocks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_CODE: Final = re.compile(r"(```|~~~).*?(?:\n\1|\Z)", re.DOTALL)
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]")


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of text with the empty lines that follow it. Joined together, units are the text again, to the byte."""

    text: str
    is_code: bool = False


def units_of(body: str) -> list[Unit]:
    """The units of a text, in order."""
    units: list[Unit] = []
    at = 0
    for block in _CODE.finditer(body):
        units += _prose(body[at : block.start()])
        end = _after_blank(body, block.end())
        units.append(Unit(body[block.start() : end], is_code=True))
        at = end
    return units + _prose(body[at:])


def joined(units: Sequence[Unit]) -> str:
    """The text of units, without empty lines at its end."""
    return "".join(unit.text for unit in units).rstrip("\n")


def _after_blank(body: str, at: int) -> int:
    blank = re.compile(r"(?:[ \t]*\n)+").match(body, at)
    return blank.end() if blank else at


def _prose(text: str) -> list[Unit]:
    """A bullet with the lines that continue it is a unit, and so is a paragraph."""
    units: list[list[str]] = []
    fresh = True
    for line in text.splitlines(keepends=True):
        if not line.strip():
            if units:
                units[-1].append(line)
            else:
                units.append([line])
            fresh = True
            continue
        if fresh or _BULLET.match(line):
            units.append([line])
        else:
            units[-1].append(line)
        fresh = False
    return [Unit("".join(lines)) for lines in units]
