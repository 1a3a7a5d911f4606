"""Key formats: the forms of keys, tokens and passwords, read from ``data/keys.forms``.

A form has a part of the text that all its matches have, so that most forms are ruled out by a search for that
part, and are never compiled.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from standfast.govern.judge.tables import WordTable

_TABLE: Final = WordTable("keys.forms")
_CHARACTERS: Final = {
    "a": "[A-Za-z0-9]",
    "h": "[0-9a-f]",
    "H": "[0-9a-fA-F]",
    "w": r"[\w-]",
    "u": "[A-Z0-9]",
    "l": "[a-z0-9]",
    "b": "[A-Za-z0-9+/=]",
    "L": "[A-Za-z]",
}
_BEGINS: Final = r"(?<![A-Za-z0-9_])"
# A password as people choose one: letters with digits or symbols among them.
_CHOSEN: Final = (
    r"((?=[^\s'\"]{0,60}[A-Za-z])(?=[^\s'\"]{0,60}[\d!@#$%^&*+?~=])[^\s'\"<>|-][^\s'\"<>|]{4,99})"
)


class KeyFormat(NamedTuple):
    """A form of one part: the service, the prefix, and the class and number of the characters after it."""

    kind: str
    prefix: str
    characters: str
    least: int
    most: int

    @property
    def expression(self) -> str:
        """The form as a regular expression; the first group is the random part."""
        body = f"{_CHARACTERS[self.characters]}{{{self.least},{self.most}}}"
        return rf"{_BEGINS}{re.escape(self.prefix)}({body})(?![A-Za-z0-9])"


@dataclass(frozen=True)
class SecretForm:
    """A form of a secret: a part that every match has, the kind, and the expression.

    The first group of the expression is what has to be random or chosen.
    """

    part: str
    kind: str
    expression: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression. Compiled on first use, because most texts have the parts of few forms."""
        return re.compile(self.expression)


def _one_part(line: str) -> Iterator[KeyFormat]:
    prefixes, characters, least, most, kind = line.split(" ", 4)
    for prefix in prefixes.split("|"):
        yield KeyFormat(kind, prefix, characters, int(least), int(most))


def _rows(title: str) -> Iterator[list[str]]:
    columns = 2 if title == "command lines" else 3
    for line in _TABLE.lines(title):
        yield line.split(" ; ", columns - 1)


# A longer prefix comes first, so that a key is named by the most exact form.
KEY_FORMATS: Final = tuple(
    sorted(
        (form for line in _TABLE.lines("one part") for form in _one_part(line)),
        key=lambda form: (-len(form.prefix), form.prefix),
    )
)
ISSUED_FORMS: Final = (
    *(SecretForm(one.prefix, one.kind, one.expression) for one in KEY_FORMATS),
    *(
        SecretForm(prefix, kind, f"{_BEGINS}{re.escape(prefix)}{rest}")
        for prefix, kind, rest in _rows("several parts")
    ),
    *(SecretForm(*row) for row in _rows("anywhere")),
)
"""Forms without spaces, as services issue them."""
SHORT_FORMS: Final = (
    *(SecretForm(*row) for row in _rows("short")),
    *(
        SecretForm(part, "password on a command line", rf"(?<![\w-]){program}['\"]?{_CHOSEN}")
        for part, program in _rows("command lines")
    ),
)
"""Forms that are short or contain spaces."""
HARMLESS_PREFIXES: Final = _TABLE.words("harmless prefixes")
"""Prefixes of random ids that give access to nothing."""
KEY_PREFIXES: Final = _TABLE.words("key prefixes")
"""Prefixes that say that a key follows, whatever its form."""
