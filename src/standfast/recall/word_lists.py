"""Word lists: the tables of words that recall uses, read from the files in ``words/``.

A file is UTF-8 text. A line that begins with ``#`` is a comment, ``[english]`` begins the section of a
language, and every other line has words of that section, separated by white space. The lists are part of the
identity of ``lexical-v1`` and ``hybrid-v1``: a change of one changes packages.
"""

from functools import cache
from importlib.resources import files

from standfast.errors import InvalidValue


@cache
def word_sections(name: str) -> dict[str, tuple[str, ...]]:
    """The words of a file in ``words/``, by section, in the order in which they stand there."""
    text = files("standfast.recall").joinpath("words", f"{name}.txt").read_text(encoding="utf-8")
    return parsed_sections(name, text)


def parsed_sections(name: str, text: str) -> dict[str, tuple[str, ...]]:
    """Read the text of a word list.

    Args:
        name: What to call the list in an error.

    Raises:
        InvalidValue: A word stands before the first section, or a section or a word stands twice.
    """
    sections: dict[str, dict[str, None]] = {}
    words: dict[str, None] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        if plain.startswith("[") and plain.endswith("]"):
            section = plain[1:-1]
            if section in sections:
                raise _fault(name, number, f"the section {section} stands twice")
            words = sections[section] = {}
            continue
        if words is None:
            raise _fault(name, number, "a section such as [english] must come first")
        for word in plain.split():
            if word in words:
                raise _fault(name, number, f"{word} stands twice")
            words[word] = None
    return {section: tuple(found) for section, found in sections.items()}


def _fault(name: str, line: int, problem: str) -> InvalidValue:
    return InvalidValue(what=f"word list {name}", problem=f"line {line}: {problem}")
