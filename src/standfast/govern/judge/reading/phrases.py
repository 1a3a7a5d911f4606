"""A small language for set phrases, and the form of a text that they are looked for in.

``spoken`` text is folded words with single spaces, `` . `` where a sentence, clause or line ends, `` " `` where a
quotation begins or ends, and `` : `` where something is introduced. A phrase is a regular expression over it with some
conveniences: ``~4`` stands for up to four words of any kind, ``@`` for any of the marks, a line may be broken at a space or
after ``|``, ``?`` or ``}``, and every group is a plain one. A phrase matches whole words.

A text is searched only for phrases whose words it has. Which words those are is read off the phrase itself, so that
the two can't drift apart.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from standfast.govern.judge.reading.lexicon import SMALL_WORDS, word_set
from standfast.govern.judge.reading.once import once
from standfast.govern.judge.reading.words import INDIC, TextReading

_ANY_WORDS: Final = r"(?:[^ ]{1,40} ){0,%s}?"
_GAP: Final = re.compile(r"~(\d) ")
_OPENING: Final = re.compile(r"(?<!\\)\((?!\?)")
# The parts of a phrase, groups aside: what stands for any word or mark, how often the part before it comes, and words.
_NO_CERTAIN_WORD: Final = re.compile(r'~\d|\[\^ \](?:\+|\{\d+,\d+\})?|\{\d+,\d+\}|\["\]|[@":. ?]')
_LETTERS: Final = re.compile(r"(?:(?:[^\W_]|'|\[[a-z]+\])\??)+")
_MOST_SIGNS: Final = 3
# Words that so many texts have that they tell nothing.
_EVERYWHERE: Final = SMALL_WORDS | word_set(
    "all any every each must should always get use used read open run set user text"
)

# Where a sentence, clause or line ends, and where something is quoted or introduced.
_BREAK: Final = re.compile(r"[.!?;,]+(?=\s|$|[^\w\s/])|[\n()<>\[\]{}*#|—–。！？；，、،؟]+|(?<=\s)-(?=\s)")
_QUOTE: Final = re.compile(r"[\"“”„«»`]+|(?<!\w)'|'(?!\w)")
_COLON: Final = re.compile(r"：+|:+(?=\s|$|[^\w\s/])")
_NO_WORD: Final = re.compile(rf"[^\w{INDIC}.:\"' ]+|(?<=\w)[.:]|[.:](?=\w)|_")


@dataclass(frozen=True)
class Phrase:
    """A set phrase: what kind it is, how sure it makes us, and sets of words; a text that holds it has one of each."""

    kind: str
    weight: float
    signs: tuple[frozenset[str], ...]
    written: str

    @once
    def pattern(self) -> re.Pattern[str]:
        """The phrase as it is looked for. Made when a text first has its words: most programs never need most of them."""
        return re.compile(self.written)


class Phrasebook:
    """Set phrases, each given as a kind, a weight and what is said, of which a text is searched for the possible ones."""

    def __init__(self, *phrases: tuple[str, float, str]) -> None:
        self.phrases = tuple(one for kind, weight, said in phrases for one in _compiled(kind, weight, said))
        self._having: dict[str, list[int]] = {}
        for place, one in enumerate(self.phrases):
            for sign in one.signs[0]:
                self._having.setdefault(sign, []).append(place)
        self._signs = frozenset(self._having)

    def possible(self, vocabulary: frozenset[str]) -> list[Phrase]:
        """The phrases that a text with these words may hold, in order."""
        signs = self._signs & vocabulary
        if not signs:
            return []
        places = {place for sign in signs for place in self._having[sign]}
        return [self.phrases[place] for place in sorted(places) if self._is_possible(place, vocabulary)]

    def _is_possible(self, place: int, vocabulary: frozenset[str]) -> bool:
        return not any(map(vocabulary.isdisjoint, self.phrases[place].signs))


def spoken(reading: TextReading) -> str:
    """The text as phrases are looked for in it."""
    marked = _BREAK.sub(" . ", _COLON.sub(" : ", _QUOTE.sub(' " ', reading.folded)))
    return " ".join(f". {_NO_WORD.sub(' ', ' '.join(marked.split()))} .".split())


def _compiled(kind: str, weight: float, said: str) -> Iterator[Phrase]:
    """One phrase for each way of saying it that stands apart from the others."""
    line = re.sub(r"\s*\n\s*", " ", re.sub(r"([|?}])\n\s*", r"\1", said.strip()))
    for way in _alternatives(line):
        signs = sorted({words for words in _needed(way) if words}, key=_commonness)
        pattern = _GAP.sub(lambda gap: _ANY_WORDS % gap[1], _OPENING.sub("(?:", way).replace("@", '[.:"]'))
        assert signs, f"no word tells that this may be there: {way}"
        yield Phrase(kind, weight, tuple(signs[:_MOST_SIGNS]), rf"(?<![^ ])(?:{pattern})(?![^ ])")


def _commonness(words: frozenset[str]) -> tuple[int, int, list[str]]:
    return len(words & _EVERYWHERE), len(words), sorted(words)


def _alternatives(pattern: str) -> list[str]:
    """The pattern cut at each ``|`` that stands in no group."""
    ways, depth = [""], 0
    for char in pattern:
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            ways.append("")
        else:
            ways[-1] += char
    return ways


def _needed(way: str) -> Iterator[frozenset[str]]:
    """For each part of the pattern that can't be left out: words of which a text that matches has one."""
    place = 0
    while place < len(way):
        if anything := _NO_CERTAIN_WORD.match(way, place):
            place = anything.end()
        elif way[place] == "(":
            end = _closing(way, place)
            if way[end + 1 : end + 2] != "?":
                yield _one_of_each(way[place + 1 : end])
            place = end + 1
        else:
            letters = _LETTERS.match(way, place)
            assert letters, f"this is no part of a phrase: {way[place:]}"
            yield _variants(letters[0])
            place = letters.end()


def _closing(way: str, opening: int) -> int:
    depth = 0
    for place in range(opening, len(way)):
        depth += (way[place] == "(") - (way[place] == ")")
        if depth == 0:
            return place
    raise AssertionError(f"a group is not closed: {way}")


def _one_of_each(inside: str) -> frozenset[str]:
    """A word of every alternative; nothing if one of them has none."""
    chosen = [
        min(filter(None, _needed(way)), key=_commonness, default=frozenset()) for way in _alternatives(inside)
    ]
    return frozenset().union(*chosen) if all(chosen) else frozenset()


def _variants(letters: str) -> frozenset[str]:
    """The words that letters with ``s?`` or ``[sz]`` in them stand for."""
    if "?" not in letters and "[" not in letters:
        return frozenset((letters,))
    choices = []
    for part, optional in re.findall(r"(\[[a-z]+\]|[^\[\]?])(\??)", letters):
        ways = list(part.strip("[]"))
        choices.append([*ways, ""] if optional else ways)
    return frozenset(map("".join, product(*choices)))
