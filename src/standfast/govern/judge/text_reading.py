"""Text reading: the forms of a text that floors compare and search.

A ``TextReading`` gives the words of a text, the words that carry its fact, its numbers, quantities and qualifiers. Each form
is a pure function of the text, computed at most once, in time linear in the text.

Words are split at spaces and punctuation. Chinese, Japanese kana and Thai are read character by character, because they do
not put spaces between words. Numbers have one notation: ``1,000`` is ``1000``, ``15.01.2026`` and ``15 January 2026`` are
``2026-01-15``, and two weeks are 14 days.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final

from standfast.canon import fingerprint
from standfast.govern.judge.folding import as_of_unicode_14, fold
from standfast.govern.judge.lexicon import (
    FILLERS,
    MONTHS,
    NEGATIONS,
    NUMBER_WORDS,
    QUALIFIERS,
    STOPS,
    UNITS,
    WEEKDAYS,
)

# How much of a text is read. Floors that guard against something refuse a longer text, so that nothing passes unread.
READ_CHARS: Final = 32_768

_UNSPACED: Final = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
# A number with its separators is one word: 18.1, 2026-01-15, 06:30.
_JOINED: Final = re.compile(r"\d[.,:/-]\d")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)+")
# Vowel signs are letters to a reader, but not to a regular expression.
INDIC: Final = "\u0900-\u0963\u0966-\u0dff"
_LETTER: Final = rf"(?:[^\W_{_UNSPACED}]|[{INDIC}])"
_WORD: Final = re.compile(rf"[{_UNSPACED}]|{_LETTER}+(?:'{_LETTER}+)*|[%$€£]")
# In ASCII, everything but letters, digits and the apostrophe separates words; % and $ are words themselves.
_NO_LETTER: Final = "".join(char for char in map(chr, range(128)) if not char.isalnum() and char not in "'%$")
_APART: Final = str.maketrans(_NO_LETTER, " " * len(_NO_LETTER))
_APOSTROPHES: Final = re.compile("'{2,}")
# The words that are a number, a qualifier or a small word; all others carry the fact.
_MEANING: Final = (
    {word: ("number", figure) for word, figure in NUMBER_WORDS.items()}
    | dict.fromkeys(STOPS | FILLERS, ("nothing", ""))
    | {word: ("qualifier", "not" if word in NEGATIONS else word) for word in QUALIFIERS}
)
_NAME_INSIDE_A_SENTENCE: Final = re.compile(r"(?<=[^\W_] |[,;] )[A-ZÀ-Þ][^\W_]*")
_GROUPED: Final = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
_DECIMAL: Final = re.compile(r"\d{1,18}(?:\.\d{1,12})?")
_GERMAN_DATE: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def stem(word: str) -> str:
    """Removes the ending of an English plural."""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


_MEASURES: Final = frozenset(map(stem, (*UNITS, *MONTHS, *WEEKDAYS)))


class TextReading:
    """The forms of one text. Each is computed on first use."""

    def __init__(self, text: str) -> None:
        self.text = as_of_unicode_14(text[:READ_CHARS])
        self.is_cut = len(text) > READ_CHARS

    def followed_by(self, other: "TextReading") -> "TextReading":
        """Joins two texts by a line break, without reading either again."""
        both = TextReading("")
        both.text = f"{self.text}\n{other.text}"
        both.is_cut = self.is_cut or other.is_cut or len(both.text) > READ_CHARS
        both.folded = f"{self.folded}\n{other.folded}"
        both.pieces = self.pieces + other.pieces
        return both

    @cached_property
    def folded(self) -> str:
        """The folded text."""
        return fold(self.text)

    @cached_property
    def pieces(self) -> list[str]:
        """Every run of letters and digits, folded, in order. A number with separators is several pieces."""
        folded = self.folded
        return _ascii_words(folded) if folded.isascii() else _WORD.findall(folded)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The set of pieces."""
        return frozenset(self.pieces)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All words and numbers, folded, in order. A number with separators is one word."""
        folded = self.folded
        separator = _JOINED.search(folded)
        if separator is None:
            return tuple(self.pieces)
        split = _ascii_words if folded.isascii() else _WORD.findall
        words: list[str] = []
        end = 0
        while separator is not None:
            start = separator.start()
            while start > end and folded[start - 1].isdecimal():
                start -= 1
            words += split(folded[end:start])
            end = _NUMBER.match(folded, start).end()  # type: ignore[union-attr]  # A separator between digits was found, so there is a number.
            words.append(folded[start:end])
            separator = _JOINED.search(folded, end)
        return tuple(words + split(folded[end:]))

    @cached_property
    def longest_run_chars(self) -> int:
        """The length of the longest stretch without white space."""
        return max(map(len, self.text.split()), default=0)

    @cached_property
    def fingerprint(self) -> str:
        """A hash that ignores case, spacing, punctuation, accents and lookalike letters."""
        return fingerprint(f"content/v1 {' '.join(self.words) or self.folded.strip()}")

    @cached_property
    def _classified(self) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
        """The words that carry the fact (numbers included), the numbers, and the qualifiers."""
        carrying: list[str] = []
        numbers, qualifiers = set(), set()
        for word in self.words if self.vocabulary.isdisjoint(MONTHS) else with_dates(self.words):
            meaning = _MEANING.get(word)
            if meaning is not None:
                kind, said = meaning
                if kind == "number":
                    numbers.add(said)
                    carrying.append(said)
                elif kind == "qualifier":
                    qualifiers.add(said)
            elif word.isalpha():
                # ``stem``, inlined because it is needed for nearly every word.
                plural = word[-1] == "s" and len(word) > 3 and word[-2] != "s"
                carrying.append(word[:-1] if plural else word)
            elif "'" in word:
                if word.endswith("n't") or word.startswith("n'"):
                    qualifiers.add("not")
                carrying.extend(stem(part) for part in word.split("'") if len(part) > 2 and part not in STOPS)
            else:
                figure = number(word)
                numbers.add(figure)
                carrying.append(figure)
        return tuple(carrying), frozenset(numbers), frozenset(qualifiers)

    @property
    def carrying(self) -> tuple[str, ...]:
        """The words that carry the fact, in order: stemmed, without small words, numbers in one notation."""
        return self._classified[0]

    @property
    def numbers(self) -> frozenset[str]:
        """Every number, and every word that contains a digit."""
        return self._classified[1]

    @property
    def qualifiers(self) -> frozenset[str]:
        """The words that negate or limit the statement. Every negation is ``not``."""
        return self._classified[2]

    @cached_property
    def content(self) -> frozenset[str]:
        """The set of carrying words."""
        return frozenset(self.carrying)

    @cached_property
    def topic(self) -> frozenset[str]:
        """What the text is about: its carrying words without numbers and units."""
        return self.content - self.numbers - _MEASURES

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Neighbouring carrying words; the last is followed by the first, so that a moved clause changes little."""
        carrying = self.carrying
        return frozenset(zip(carrying, carrying[1:] + carrying[:1], strict=True))

    @cached_property
    def names(self) -> frozenset[str]:
        """Words that are capitalised inside a sentence, in the form of ``carrying``."""
        return frozenset(stem(fold(name)) for name in _NAME_INSIDE_A_SENTENCE.findall(self.text))

    @cached_property
    def quantities(self) -> dict[str, frozenset[str]]:
        """The numbers of each unit, in its smallest one: ``{"second": {"1209600"}}`` for 14 days or two weeks."""
        return quantities_in(self.words)


def _ascii_words(folded: str) -> list[str]:
    """Finds the same words as ``_WORD``, in a third of the time."""
    if "%" in folded or "$" in folded:
        folded = folded.replace("%", " % ").replace("$", " $ ")
    words = folded.translate(_APART).split()
    if "'" in folded:
        return [part for word in words for part in _APOSTROPHES.split(word.strip("'")) if part]
    return words


def quantities_in(words: Sequence[str]) -> dict[str, frozenset[str]]:
    """The numbers of each unit, in its smallest one. Numbers without a unit are listed under ``""``."""
    found: dict[str, set[str]] = {}
    after_date = 0
    for index, word in enumerate(words):
        if index < after_date:
            continue
        if (date := _date_at(words, index)) is not None:
            found.setdefault("date", set()).add(date)
            after_date = index + 3
        elif (figure := NUMBER_WORDS.get(word) or (number(word) if word[0].isdigit() else None)) is not None:
            unit, amount = _measured(words, index, figure)
            found.setdefault(unit, set()).add(amount)
    return {unit: frozenset(amounts) for unit, amounts in found.items()}


def with_dates(words: Sequence[str]) -> list[str]:
    """The words, with each date of three words replaced by one ISO date."""
    dated: list[str] = []
    index = 0
    while index < len(words):
        date = _date_at(words, index)
        dated.append(date or words[index])
        index += 3 if date else 1
    return dated


def number(token: str) -> str:
    """Writes a number in one notation: no grouping, a decimal point, ISO form for a German date."""
    if _GROUPED.fullmatch(token):
        token = token.replace(",", "").replace(".", "")
    elif date := _GERMAN_DATE.fullmatch(token):
        day, month, year = date.groups()
        return f"{year}-{int(month):02}-{int(day):02}"
    elif token.count(",") == 1 and "." not in token:
        token = token.replace(",", ".")
    if _DECIMAL.fullmatch(token):
        whole, _, fraction = token.partition(".")
        return f"{int(whole)}.{fraction}".rstrip("0").rstrip(".") if fraction else str(int(whole))
    return token


def _date_at(words: Sequence[str], index: int) -> str | None:
    """The ISO date that the three words at ``index`` spell, in either order of day and month."""
    if index + 2 >= len(words) or len(words[index + 2]) != 4 or not words[index + 2].isdecimal():
        return None
    first, second = words[index], words[index + 1]
    day, name = (first, second) if second in MONTHS else (second, first)
    if name not in MONTHS or not day.isdecimal() or len(day) > 2:
        return None
    return f"{words[index + 2]}-{MONTHS[name]:02}-{int(day):02}"


def _measured(words: Sequence[str], index: int, figure: str) -> tuple[str, str]:
    """The unit after or before a number, and the amount in the smallest such unit."""
    if _ISO_DATE.fullmatch(figure):
        return "date", figure
    after = words[index + 1] if index + 1 < len(words) else ""
    before = words[index - 1] if index else ""
    for neighbour in (after, before):
        if neighbour in UNITS:
            unit, factor = UNITS[neighbour]
            return unit, _times(figure, factor)
    for neighbour in (after, before):
        if neighbour.isalpha() and neighbour not in STOPS and neighbour not in NUMBER_WORDS:
            return stem(neighbour), figure
    return "", figure


def _times(figure: str, factor: int) -> str:
    return str((Decimal(figure) * factor).normalize()) if _DECIMAL.fullmatch(figure) else figure
