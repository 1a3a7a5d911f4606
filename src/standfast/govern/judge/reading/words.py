"""A text as the floors read it: its words, what of them carries the fact, its numbers, quantities and qualifiers.

Words are split at spaces and punctuation; Chinese, Japanese kana and Thai, which do not space their words, are read
character by character. Numbers stand in one notation, so that ``1,000`` is ``1000`` and ``two weeks`` are 14 days.
"""

import re
from typing import Final

from standfast.canon import fingerprint
from standfast.govern.judge.reading.ages import as_of_14
from standfast.govern.judge.reading.folding import fold
from standfast.govern.judge.reading.lexicon import (
    FILLERS,
    MONTHS,
    NEGATIONS,
    NUMBER_WORDS,
    QUALIFIERS,
    STOPS,
    UNITS,
    WEEKDAYS,
)
from standfast.govern.judge.reading.once import once
from standfast.govern.judge.reading.quantities import number, quantities_in, stem, with_dates

# How much of a text is read. A floor that guards refuses a longer one, so that nothing passes unread.
READ_CHARS: Final = 32_768

_UNSPACED: Final = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
# A number with its separators is one word: 18.1, 2026-01-15, 06:30.
_JOINED: Final = re.compile(r"\d[.,:/-]\d")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)+")
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
_NAME_INSIDE_A_SENTENCE: Final = re.compile(r"(?<=[^\W_] |[,;] )[A-ZÀ-Þ][^\W_]*")
_MEASURES: Final = frozenset(map(stem, (*UNITS, *MONTHS, *WEEKDAYS)))


class TextReading:
    """One text, read once: each form is computed when a floor first asks for it, and kept."""

    def __init__(self, text: str) -> None:
        self.text = as_of_14(text[:READ_CHARS])
        self.is_cut = len(text) > READ_CHARS

    def followed_by(self, other: "TextReading") -> "TextReading":
        """Two texts as one, a line each; nothing is read twice."""
        both = TextReading("")
        both.text = f"{self.text}\n{other.text}"
        both.is_cut = self.is_cut or other.is_cut or len(both.text) > READ_CHARS
        both.folded = f"{self.folded}\n{other.folded}"
        both.pieces = self.pieces + other.pieces
        return both

    @once
    def folded(self) -> str:
        """The text as ``fold`` leaves it."""
        return fold(self.text)

    @once
    def pieces(self) -> list[str]:
        """Every run of letters and digits, folded, in order; a number with separators is several."""
        folded = self.folded
        return _ascii_words(folded) if folded.isascii() else _WORD.findall(folded)

    @once
    def vocabulary(self) -> frozenset[str]:
        """Each piece once."""
        return frozenset(self.pieces)

    @once
    def words(self) -> tuple[str, ...]:
        """All words and numbers, folded, in order; a number with separators is one."""
        folded = self.folded
        joint = _JOINED.search(folded)
        if joint is None:
            return tuple(self.pieces)
        split = _ascii_words if folded.isascii() else _WORD.findall
        words: list[str] = []
        end = 0
        while joint is not None:
            start = joint.start()
            while start > end and folded[start - 1].isdecimal():
                start -= 1
            words += split(folded[end:start])
            end = _NUMBER.match(folded, start).end()  # type: ignore[union-attr]  # There is a joint, so there is a number.
            words.append(folded[start:end])
            joint = _JOINED.search(folded, end)
        return tuple(words + split(folded[end:]))

    @once
    def longest_run_chars(self) -> int:
        """The length of the longest stretch without a space."""
        return max(map(len, self.text.split()), default=0)

    @once
    def fingerprint(self) -> str:
        """The same for texts that differ only in case, spacing, punctuation, accents or disguise; no content in it."""
        return fingerprint(f"content/v1 {' '.join(self.words) or self.folded.strip()}")

    @once
    def _sorted_out(self) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
        """The words that carry the fact, numbers among them; the numbers; the qualifiers."""
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
                # This is ``stem``, spelled out because it is called for nearly every word there is.
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
    def topic(self) -> frozenset[str]:
        """What the text speaks of: its carrying words without the numbers and what they count."""
        return self.content - self.numbers - _MEASURES

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
        return quantities_in(self.words)


def _ascii_words(folded: str) -> list[str]:
    """What ``_WORD`` finds, in a third of the time."""
    if "%" in folded or "$" in folded:
        folded = folded.replace("%", " % ").replace("$", " $ ")
    words = folded.translate(_APART).split()
    if "'" in folded:
        return [part for word in words for part in _APOSTROPHES.split(word.strip("'")) if part]
    return words
