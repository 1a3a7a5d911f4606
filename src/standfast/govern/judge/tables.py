"""Word tables: the data files in ``data/``, and how they are read.

A table is a text file of sections. ``[title]`` begins one; the lines up to the next title belong to it.
``#`` at the start of a line begins a comment. ``NAME = text`` defines a name, and ``{NAME}`` below it stands
for that text. An indented line continues the line above it: after ``|``, ``?`` or ``}`` directly, otherwise
after a space.

    # Words that say which instructions are meant.
    [before]
    previous prior above earlier
    vorherigen bisherigen

``*.words`` hold lists of words, ``*.phrases`` phrases whose titles end in a weight (1 if there is none), and
``*.forms`` regular expressions. Tables are part of the package: they change with a release, not by settings.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_FOLDER: Final = Path(__file__).with_name("data")
_TITLE: Final = re.compile(r"\[([^\[\]^]+)\]")
_NAMED: Final = re.compile(r"([A-Z][A-Z_]+) = ")
_NAME: Final = re.compile(r"\{([A-Z][A-Z_]+)\}")
_WEIGHTED: Final = re.compile(r"(.+?)(?: (0\.\d+|1))?")


class TableSection(NamedTuple):
    """A section of a table: its title and its lines, with names replaced and continued lines joined."""

    title: str
    lines: tuple[str, ...]


class WordTable:
    """A table whose titles are unique: lists of words by their name."""

    def __init__(self, file_name: str) -> None:
        self._lines: dict[str, tuple[str, ...]] = {}
        for section in read_sections(file_name):
            if section.title in self._lines:
                raise ValueError(f"{file_name} has two sections [{section.title}]; join them")
            self._lines[section.title] = section.lines

    def lines(self, title: str) -> tuple[str, ...]:
        """The lines of a section."""
        return self._lines[title]

    def words(self, title: str) -> frozenset[str]:
        """All words of a section."""
        return frozenset(" ".join(self._lines[title]).split())


def read_sections(file_name: str) -> list[TableSection]:
    """Read a table.

    Titles may repeat: where the order of lines counts, it is that of the file.
    """
    return parse_sections((_FOLDER / file_name).read_text(encoding="utf-8"), file_name)


def read_phrases(file_name: str) -> list[tuple[str, float, str]]:
    """Read a table of phrases: kind, weight and expression of each."""
    phrases = []
    for section in read_sections(file_name):
        weighted = _WEIGHTED.fullmatch(section.title)
        assert weighted is not None, "every title has at least one character"
        phrases += [(weighted[1], float(weighted[2] or 1), line) for line in section.lines]
    return phrases


def parse_sections(text: str, file_name: str) -> list[TableSection]:
    """The sections of a table's text.

    Raises:
        ValueError: A line stands before the first title, or a name is used before it is defined.
    """
    named: dict[str, str] = {}
    sections: list[tuple[str, list[str]]] = []
    for line in _joined_lines(text, named, file_name):
        if title := _TITLE.fullmatch(line):
            sections.append((title[1], []))
        elif name := _NAMED.match(line):
            named[name[1]] = line[name.end() :]
        elif sections:
            sections[-1][1].append(line)
        else:
            raise ValueError(f"{file_name}: {line!r:.80} stands before the first [title]")
    return [TableSection(title, tuple(lines)) for title, lines in sections]


def _joined_lines(text: str, named: dict[str, str], file_name: str) -> Iterator[str]:
    """The lines without comments, names replaced by what they stand for, continued lines joined."""

    def meaning(name: re.Match[str]) -> str:
        if name[1] not in named:
            raise ValueError(f"{file_name}: {{{name[1]}}} is used before it is defined")
        return named[name[1]]

    whole = ""
    for raw in text.splitlines():
        if not raw.strip() or raw.startswith("#"):
            continue
        is_continued = raw[0] == " "
        if whole and not is_continued:
            yield whole
            whole = ""
        # A line that was yielded may have defined a name that this one uses.
        line = _NAME.sub(meaning, raw.strip() if is_continued else raw)
        whole += line if not whole or whole[-1] in "|?}" else f" {line}"
    if whole:
        yield whole
