"""Word lists: the tables of words that recall uses, read from the files in ``words/``.

A file is UTF-8 text. A line that begins with ``#`` is a comment, ``[english]`` begins a section, and
every other line has words of that section, separated by white space. The lists are part of the
identity of ``lexical-v1`` and ``hybrid-v1``: a change of one changes packages.
"""

from functools import cache
from importlib.resources import files
from itertools import chain

from standfast.errors import InvalidValue

Lines = tuple[tuple[str, ...], ...]
"""The words of a section, line by line."""


@cache
def word_lines(name: str) -> dict[str, Lines]:
    """The words of a file in ``words/``, by section and line."""
    text = files("standfast.recall").joinpath("words", f"{name}.txt").read_text(encoding="utf-8")
    return parsed_lines(name, text)


@cache
def word_sections(name: str) -> dict[str, tuple[str, ...]]:
    """The words of a file in ``words/``, by section, in the order in which they stand there."""
    return {section: tuple(chain(*lines)) for section, lines in word_lines(name).items()}


def parsed_lines(name: str, text: str) -> dict[str, Lines]:
    """Read the text of a word list.

    Args:
        name: What to call the list in an error.

    Raises:
        InvalidValue: A word stands before the first section, or a section or a word stands twice.
    """
    sections: dict[str, list[tuple[str, ...]]] = {}
    lines: list[tuple[str, ...]] | None = None
    known = set[str]()
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        if plain.startswith("[") and plain.endswith("]"):
            section = plain[1:-1]
            if section in sections:
                raise _fault(name, number, f"the section {section} stands twice")
            lines, known = sections.setdefault(section, []), set()
            continue
        if lines is None:
            raise _fault(name, number, "a section such as [english] must come first")
        for word in plain.split():
            if word in known:
                raise _fault(name, number, f"{word} stands twice")
            known.add(word)
        lines.append(tuple(plain.split()))
    return {section: tuple(found) for section, found in sections.items()}


def _fault(name: str, line: int, problem: str) -> InvalidValue:
    return InvalidValue(what=f"word list {name}", problem=f"line {line}: {problem}")
