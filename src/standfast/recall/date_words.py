"""Words of dates in one language, read from ``words/dates.txt``, and the pattern that finds relative ones.

One reader serves all languages: a language is a part of the file. One without a part has English dates.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from standfast.recall.word_lists import word_lines

_FALLBACK: Final = "english"
UNITS: Final = ("day", "week", "month", "year", "weekend")
_MARKS: Final = re.compile("[\u0300-\u036f]+")
_LETTER: Final = "[0-9A-Za-z\u00c0-\u00ff_]"
"""What a word is made of, said here because what ``\\w`` means differs between versions of Python."""
_WORD: Final = re.compile("[0-9a-z\u00df-\u00ff_]+")
_SPACE: Final = "[ \t\r\n\u00a0\u202f]+"


def folded(text: str) -> str:
    """A text without capitals and accents, with one space between words."""
    plain = unicodedata.normalize("NFKD", " ".join(text.split()).replace("\u2019", "'").casefold())
    return _MARKS.sub("", plain)


@dataclass(frozen=True)
class DateWords:
    """The words of dates in one language, folded; see ``words/dates.txt`` for what each list has.

    Attributes:
        alone: One word of each expression for a day, such as "yesterday".
        nouns: One word of each other expression for a time, such as "week".
        companions: One word of each expression that says which one, such as "last" or "ago".
        spoken: Finds expressions such as "yesterday", "last May" and "two weeks ago". Its groups say what
            they are: ``day``; ``shift``, ``noun``; ``noun_first``, ``shift_after``; ``number``, ``unit``;
            ``weekday``.
    """

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    seasons: Mapping[str, int]
    units: Mapping[str, str]
    numbers: Mapping[str, int]
    days: Mapping[str, int]
    before: Mapping[str, int]
    after: Mapping[str, int]
    few: frozenset[str]
    needs_number: frozenset[str]
    starts: frozenset[str]
    joins: frozenset[str]
    of: frozenset[str]
    past: frozenset[str]
    past_endings: tuple[str, ...]
    not_past: frozenset[str]
    alone: frozenset[str]
    nouns: frozenset[str]
    companions: frozenset[str]
    spoken: re.Pattern[str]

    def may_speak(self, words: Iterable[str]) -> bool:
        """Whether a text with these words, folded, may have a relative expression, at a glance."""
        found = frozenset(words)
        return not self.alone.isdisjoint(found) or not (
            self.nouns.isdisjoint(found) or self.companions.isdisjoint(found)
        )

    @classmethod
    def of_language(cls, language: str) -> "DateWords":
        """Read the words of a language."""
        lines = {
            section.removeprefix(f"{language} "): [
                [word.replace("_", " ") for word in line] for line in found
            ]
            for section, found in word_lines("dates").items()
            if section.startswith(f"{language} ")
        }

        def numbered(name: str, first: int = 0) -> dict[str, int]:
            return {folded(word): at for at, line in enumerate(lines[name], first) for word in line}

        def shifts(name: str) -> dict[str, int]:
            return {folded(word): int(away) for away, *words in lines.get(name, ()) for word in words}

        def listed(name: str) -> frozenset[str]:
            return frozenset(folded(word) for line in lines.get(name, ()) for word in line)

        return cls(
            months=numbered("months", 1),
            weekdays=numbered("weekdays"),
            seasons=numbered("seasons"),
            units={word: UNITS[at] for word, at in numbered("units").items()},
            numbers=numbered("numbers", 1),
            days=shifts("days"),
            before=shifts("before"),
            after=shifts("after"),
            few=listed("few"),
            needs_number=listed("needs_number"),
            starts=listed("from"),
            joins=listed("to"),
            of=listed("of"),
            past=listed("past"),
            past_endings=tuple(sorted(listed("past_endings"))),
            not_past=listed("not_past"),
            alone=_longest_words(phrase for _, *of_line in lines["days"] for phrase in of_line),
            nouns=_longest_words(
                _words(lines["units"] + lines["weekdays"] + lines["months"] + lines["seasons"])
            ),
            companions=_longest_words(
                [
                    *(
                        word
                        for name in ("before", "after")
                        for line in lines.get(name, ())
                        for word in line[1:]
                    ),
                    *(
                        word
                        for name in ("ago_before", "ago_after", "on")
                        for word in _words(lines.get(name, ()))
                    ),
                ]
            ),
            spoken=_pattern(lines),
        )


@lru_cache(maxsize=16)
def date_words(language: str) -> DateWords:
    """The words of dates in a language; the English ones if it has none."""
    return DateWords.of_language(language if f"{language} months" in word_lines("dates") else _FALLBACK)


def words_in(text: str) -> list[str]:
    """The words of a text in lower case."""
    return _WORD.findall(text.lower())


def _longest_words(phrases: Iterable[str]) -> frozenset[str]:
    """The longest word of each phrase. A text with one of the phrases has that word."""
    return frozenset(max(words_in(folded(phrase)), key=len) for phrase in phrases)


def _pattern(lines: Mapping[str, list[list[str]]]) -> re.Pattern[str]:
    def any_of(*names: str, after: int = 0) -> str:
        """A pattern for any word of some lists, the longest first. ``after`` leaves out first words."""
        return _any(word for name in names for line in lines.get(name, ()) for word in line[after:])

    # "The last day" is no date, so days have no shift.
    nouns = _any(
        [*_words(lines["units"][1:]), *_words(lines["weekdays"] + lines["months"] + lines["seasons"])]
    )
    number = f"(?P<number>[0-9]{{1,3}}|{any_of('few', 'numbers')}){_SPACE}(?P<unit>{any_of('units')})"
    not_before = "".join(
        f"(?<!{_edge(before=True)}{re.escape(word)}[ \\t\\n])" for word in _words(lines.get("not_before", []))
    )
    not_after = f"(?!{_SPACE}(?:{any_of('not_after')}){_edge()})" if "not_after" in lines else ""
    found = [f"(?P<day>{any_of('days', after=1)})"]
    if "after" in lines:
        found.append(f"(?P<noun_first>{nouns}){_SPACE}(?P<shift_after>{any_of('after', after=1)})")
    found.append(
        f"{not_before}(?P<shift>{any_of('before', after=1)}){_SPACE}(?P<noun>{nouns}){_edge()}{not_after}"
    )
    if "ago_before" in lines:
        found.append(f"(?:{any_of('ago_before')}){_SPACE}{number}")
    else:
        found.append(f"{number}{_SPACE}(?:{any_of('ago_after')})")
    if "on" in lines:
        found.append(f"(?:{any_of('on')}){_SPACE}(?P<weekday>{any_of('weekdays')})")
    return re.compile(f"{_edge(before=True)}(?:{'|'.join(found)}){_edge()}", re.IGNORECASE)


def _words(lines: Iterable[Iterable[str]]) -> list[str]:
    return [word for line in lines for word in line]


def _edge(*, before: bool = False) -> str:
    """A pattern for the edge of a word."""
    return f"(?<!{_LETTER})" if before else f"(?!{_LETTER})"


def _any(words: Iterable[str]) -> str:
    """A pattern for any of some words, the longest first."""
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(
        re.escape(word).replace("\\ ", _SPACE).replace("'", "['\u2019]") for word in longest_first
    )
