"""A text as the floors read it: its words, what of them carries the fact, its numbers, quantities and qualifiers.

Words are split at spaces and punctuation; Chinese, Japanese kana and Thai, which do not space their words, are read
character by character. Numbers stand in one notation, so that ``1,000`` is ``1000`` and ``two weeks`` are 14 days.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, Generic, Self, TypeVar, overload

from holdfast.canon import fingerprint
from holdfast.govern.floors.reading.folding import fold
from holdfast.govern.floors.reading.lexicon import (
    FILLERS,
    MONTHS,
    NEGATIONS,
    NUMBER_WORDS,
    QUALIFIERS,
    STOPS,
    UNITS,
)

# How much of a text is read. A floor that guards refuses a longer one, so that nothing passes unread.
READ_CHARS: Final = 32_768

_UNSPACED: Final = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
# A number with its separators is one word: 18.1, 2026-01-15, 06:30.
_JOINED: Final = re.compile(r"\d[.,:/-]\d")
_JOINED_NUMBER: Final = re.compile(r"(\d+(?:[.,:/-]\d+)+)")
# Vowel signs, which are no letters to a regular expression, and letters to a reader.
INDIC: Final = "\u0900-\u0963\u0966-\u0dff"
_LETTER: Final = rf"(?:[^\W_{_UNSPACED}]|[{INDIC}])"
_WORD: Final = re.compile(rf"[{_UNSPACED}]|{_LETTER}+(?:'{_LETTER}+)*|[%$€£]")
# In ASCII, everything but letters, digits and the apostrophe keeps words apart; two signs are words themselves.
_NO_LETTER: Final = "".join(char for char in map(chr, range(128)) if not char.isalnum() and char not in "'%$")
_APART: Final = str.maketrans(_NO_LETTER, " " * len(_NO_LETTER))
_APOSTROPHES: Final = re.compile("'{2,}")
# What a word is that does not just carry its meaning: a small word, a qualifier, a number.
_MEANING: Final = (
    {word: ("number", figure) for word, figure in NUMBER_WORDS.items()}
    | dict.fromkeys(STOPS | FILLERS, ("nothing", ""))
    | {word: ("qualifier", "not" if word in NEGATIONS else word) for word in QUALIFIERS}
)
_GROUPED: Final = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
_DECIMAL: Final = re.compile(r"\d{1,18}(?:\.\d{1,12})?")
_GERMAN_DATE: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_NAME_INSIDE_A_SENTENCE: Final = re.compile(
    r"(?<=[^\W_.!?:][ ,;] )[A-ZÀ-Þ][^\W_]*|(?<=[^\W_,;] )[A-ZÀ-Þ][^\W_]*"
)


Kept = TypeVar("Kept")


class once(Generic[Kept]):  # noqa: N801  # Used as a decorator, and named as one.
    """A property that is computed when it is first asked for, and kept in the instance's own dictionary.

    ``functools.cached_property`` takes a lock on Python 3.11, which costs more than most of what is computed here. Two
    threads that ask at once may both compute; the value is a pure function of the instance, so nobody can tell.
    """

    def __init__(self, compute: Callable[[Any], Kept]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Kept: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Kept:
        """The value, computed now; the next look finds it in the instance and does not come here."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class Reading:
    """One text, read once: each form is computed when a floor first asks for it, and kept."""

    def __init__(self, text: str) -> None:
        self.text = text[:READ_CHARS]
        self.is_cut = len(text) > READ_CHARS

    @classmethod
    def joined(cls, first: Self, second: Self) -> Self:
        """Two texts, a line each, as one; nothing is read twice."""
        whole = cls(f"{first.text}\n{second.text}")
        whole.is_cut = whole.is_cut or first.is_cut or second.is_cut
        whole.folded = f"{first.folded}\n{second.folded}"
        whole.words = first.words + second.words
        return whole

    @once
    def folded(self) -> str:
        """The text as ``fold`` leaves it."""
        return fold(self.text)

    @once
    def words(self) -> tuple[str, ...]:
        """All words and numbers, folded, in order."""
        folded = self.folded
        split = _ascii_words if folded.isascii() else _WORD.findall
        if not _JOINED.search(folded):
            return tuple(split(folded))
        words: list[str] = []
        for place, piece in enumerate(_JOINED_NUMBER.split(folded)):
            if place % 2:
                words.append(piece)
            else:
                words += split(piece)
        return tuple(words)

    @once
    def longest_run_chars(self) -> int:
        """The length of the longest stretch without a space."""
        return max(map(len, self.text.split()), default=0)

    @once
    def vocabulary(self) -> frozenset[str]:
        """Each word once."""
        return frozenset(self.words)

    @once
    def fingerprint(self) -> str:
        """The same for texts that differ only in case, spacing, punctuation, accents or disguise; no content in it."""
        return fingerprint(f"content/v1 {' '.join(self.words) or self.folded.strip()}")

    @once
    def _sorted_out(self) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
        """The words that carry the fact, numbers among them; the numbers; the qualifiers."""
        carrying: list[str] = []
        numbers, qualifiers = set(), set()
        for word in self.words:
            meaning = _MEANING.get(word)
            if meaning is not None:
                kind, said = meaning
                if kind == "number":
                    numbers.add(said)
                    carrying.append(said)
                elif kind == "qualifier":
                    qualifiers.add(said)
            elif word.isalpha():
                carrying.append(stem(word))
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
        return self._sorted_out[0]

    @property
    def numbers(self) -> frozenset[str]:
        """Every number and every word with a digit in it."""
        return self._sorted_out[1]

    @property
    def qualifiers(self) -> frozenset[str]:
        """The words that turn or bound the statement; every negation is ``not``."""
        return self._sorted_out[2]

    @once
    def content(self) -> frozenset[str]:
        """Each carrying word once."""
        return frozenset(self.carrying)

    @once
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Carrying words that follow each other, the last followed by the first: the same if a clause moves."""
        carrying = self.carrying
        return frozenset(zip(carrying, carrying[1:] + carrying[:1], strict=True))

    @once
    def names(self) -> frozenset[str]:
        """Words that are capitalised inside a sentence, as ``carrying`` has them."""
        return frozenset(stem(fold(name)) for name in _NAME_INSIDE_A_SENTENCE.findall(self.text))

    @once
    def quantities(self) -> dict[str, frozenset[str]]:
        """The numbers of each unit, in the unit's smallest: ``{"second": {"1209600"}}`` for 14 days or two weeks."""
        found: dict[str, set[str]] = {}
        words = self.words
        skip_until = 0
        for index, word in enumerate(words):
            figure = NUMBER_WORDS.get(word) or (number(word) if word[0].isdigit() else None)
            if index < skip_until:
                continue
            if (date := _date_at(words, index)) is not None:
                found.setdefault("date", set()).add(date)
                skip_until = index + 3
            elif figure is not None:
                unit, amount = _measured(words, index, figure)
                found.setdefault(unit, set()).add(amount)
        return {unit: frozenset(amounts) for unit, amounts in found.items()}


def _ascii_words(folded: str) -> list[str]:
    """What ``_WORD`` finds, in a third of the time."""
    if "%" in folded or "$" in folded:
        folded = folded.replace("%", " % ").replace("$", " $ ")
    words = folded.translate(_APART).split()
    if "'" in folded:
        return [part for word in words for part in _APOSTROPHES.split(word.strip("'")) if part]
    return words


def stem(word: str) -> str:
    """A word without the ending of an English plural."""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


def number(token: str) -> str:
    """A number in one notation: no grouping, a point for decimals, ISO for a German date."""
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
    """The ISO date that three words spell from here on, in either order of day and month."""
    if index + 2 >= len(words) or len(words[index + 2]) != 4 or not words[index + 2].isdecimal():
        return None
    first, second = words[index], words[index + 1]
    day, name = (first, second) if second in MONTHS else (second, first)
    if name not in MONTHS or not day.isdecimal() or len(day) > 2:
        return None
    return f"{words[index + 2]}-{MONTHS[name]:02}-{int(day):02}"


def _measured(words: Sequence[str], index: int, figure: str) -> tuple[str, str]:
    """The unit of a number, which stands after it or before it, and the amount in the unit's smallest."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", figure):
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
