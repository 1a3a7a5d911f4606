"""The page that explains every word of the console. A test holds it to the words that the pages use.

The words are data: ``glossary.txt``.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from standfast.server.access.permissions import Permission
from standfast.server.console.rendering import Page, PageRequest


@dataclass(frozen=True, slots=True)
class Term:
    """A word, what it means, and the words for it in data and in the API."""

    word: str
    meaning: str
    data: str = ""


@cache
def sections() -> dict[str, list[Term]]:
    """The terms of each subject, in the order of the file."""
    found: dict[str, list[Term]] = {}
    text = files("standfast.server.console").joinpath("glossary.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            terms = found[line[1:-1]] = list[Term]()
        elif line and not line.startswith(";"):
            terms.append(Term(*line.split(" | ")))
    return found


def words(request: PageRequest) -> Page:
    """Every word of the console, by subject."""
    request.memory(Permission.STATUS)
    return Page(template="words.html", context={"sections": sections()})
