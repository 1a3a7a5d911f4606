"""A small language for phrases, and the form of a text in which they are searched.

``spoken`` gives folded words with single spaces, `` . `` where a sentence, clause or line ends, `` " `` where
a quotation begins or ends, and `` : `` where something is introduced. A phrase is a regular expression over
that form, with additions: ``~4`` means up to four words of any kind, ``@`` means any of the three marks, a
line may be broken at a space or after ``|``, ``?`` or ``}``, and groups do not capture. A phrase matches
whole words, and so does each group in it: ``(reply|replies)``, not ``repl(y|ies)``, which is refused.

A text is searched only for phrases whose words it has. Those words are derived from the phrase itself, so
that the two cannot diverge.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final

from standfast.govern.judge.text_reading import INDIC, SMALL_WORDS, TextReading, word_set

_ANY_WORDS: Final = r"(?:[^ ]{1,40} ){0,%s}?"
_GAP: Final = re.compile(r"~(\d) ")
_NO_GAP: Final = re.compile(r"~(?!\d )|(?<![ (|?])~")
_OPENING: Final = re.compile(r"(?<!\\)\((?!\?)")
# The parts of a phrase that require no particular word, and runs of letters that do.
_OPTIONAL_PART: Final = re.compile(r'~\d|\[\^ \](?:\+|\{\d+,\d+\})?|\{\d+,\d+\}|\["\]|[@":. ?]')
_LETTERS: Final = re.compile(r"(?:(?:[^\W_]|'|\[[a-z]+\])\??)+")
_GROUP: Final = re.compile(r"\(([^()]*)\)(\?|\{\d+,\d+\})?")
_GROUP_END: Final = re.compile(r"\)(?:\?|\{\d+,\d+\})?$")
_NO_LETTERS: Final = ' @.:"(|)'
_MAX_WORD_SETS: Final = 8
# Words that are too common to narrow the search.
_EVERYWHERE: Final = SMALL_WORDS | word_set(
    "all any every each must should always get use used read open run set user text"
)

# Where a sentence, clause or line ends, and where something is quoted or introduced.
_BREAK: Final = re.compile(r"[.!?;,]+(?=\s|$|[^\w\s/])|[\n()<>\[\]{}*#|—–。！？；，、،؟]+|(?<=\s)-(?=\s)")
_QUOTE: Final = re.compile(r"[\"“”„«»`]+|(?<!\w)'|'(?!\w)")
_COLON: Final = re.compile(r"：+|:+(?=\s|$|[^\w\s/])")
_LONE_DASH: Final = re.compile(r"(?<!\w)-(?!\w)")
_NO_WORD: Final = re.compile(rf"[^\w{INDIC}.:\"' ]+|(?<=\w)[.:]|[.:](?=\w)|_")


@dataclass(frozen=True)
class Phrase:
    """A phrase with its kind and weight.

    A text that holds it has a word of each set in ``required_words``.
    """

    kind: str
    weight: float
    required_words: tuple[frozenset[str], ...]
    expression: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled phrase. Compiled on first use, because most programs never need most phrases."""
        return re.compile(self.expression)


class Phrasebook:
    """Phrases given as (kind, weight, expression), findable by the words that they require."""

    def __init__(self, *phrases: tuple[str, float, str]) -> None:
        self.phrases = tuple(
            one for kind, weight, expression in phrases for one in _compile(kind, weight, expression)
        )
        # Each phrase has a bit, and each of its word sets has that bit in a row of its own. A word has the
        # bits of all sets that it is in, so that the sets which a text has a word of are one number.
        self._width = len(self.phrases)
        self._rows = max(len(one.required_words) for one in self.phrases)
        self._bits_of_word: dict[str, int] = {}
        self._bits_of_every_text = 0
        for place, one in enumerate(self.phrases):
            for row in range(self._rows):
                bit = 1 << (row * self._width + place)
                if row >= len(one.required_words):
                    self._bits_of_every_text |= bit
                for word in one.required_words[row] if row < len(one.required_words) else ():
                    self._bits_of_word[word] = self._bits_of_word.get(word, 0) | bit
        self._words = frozenset(self._bits_of_word)
        # The first set of each phrase has the rarest words.
        self._rarest_words = frozenset[str]().union(*(one.required_words[0] for one in self.phrases))

    def possible(self, vocabulary: frozenset[str]) -> list[Phrase]:
        """The phrases that a text with these words can hold, in order."""
        if self._rarest_words.isdisjoint(vocabulary):
            return []
        found = self._bits_of_every_text
        for word in self._words & vocabulary:
            found |= self._bits_of_word[word]
        # A phrase is possible if its bit is set in every row.
        places = found & ((1 << self._width) - 1)
        for _ in range(1, self._rows):
            found >>= self._width
            places &= found
        phrases = []
        while places:
            lowest = places & -places
            phrases.append(self.phrases[lowest.bit_length() - 1])
            places ^= lowest
        return phrases


def spoken(reading: TextReading) -> str:
    """The text in the form in which phrases are searched."""
    return reading.once(_spoken)


def _spoken(reading: TextReading) -> str:
    folded = reading.folded
    if "\n" in folded or ("-" in folded and _LONE_DASH.search(folded)):
        return marked(folded)
    # Otherwise each word can be marked by itself, and nearly all stay as they are.
    said = [word if word.isalnum() and word.isascii() else marked(word)[2:-2] for word in folded.split()]
    return " ".join(f". {' '.join(said)} .".split())


def marked(folded: str) -> str:
    """A folded text with its marks, in the form in which phrases are searched."""
    marked = _BREAK.sub(" . ", _COLON.sub(" : ", _QUOTE.sub(' " ', folded)))
    return " ".join(f". {_NO_WORD.sub(' ', ' '.join(marked.split()))} .".split())


def _compile(kind: str, weight: float, expression: str) -> Iterator[Phrase]:
    """Compiles one phrase for each top-level alternative."""
    line = re.sub(r"\s*\n\s*", " ", re.sub(r"([|?}])\n\s*", r"\1", expression.strip()))
    assert not _NO_GAP.search(line), f"a gap is a digit behind ~ and then a space: {line}"
    for way in _alternatives(line):
        required = sorted({words for words in _needed(way) if words}, key=_commonness)
        pattern = _GAP.sub(lambda gap: _ANY_WORDS % gap[1], _OPENING.sub("(?:", way).replace("@", '[.:"]'))
        assert required, f"the phrase requires no word: {way}"
        assert " ?" not in way, f"an optional space splits a word that the search relies on: {way}"
        _require_whole_words(way)
        yield Phrase(kind, weight, tuple(required[:_MAX_WORD_SETS]), rf"(?<![^ ])(?:{pattern})(?![^ ])")


def _require_whole_words(way: str) -> None:
    """Refuses a group that is a part of a word: the search would look for the other part as a word."""
    rest = way
    # The last group holds no other one. What stands for a group is whether it begins and ends with letters.
    while group := _GROUP.match(rest, rest.rfind("(")):
        ways, before, after = group[1].split("|"), rest[: group.start()], rest[group.end() :]
        is_after_letters = before[-1:] not in _NO_LETTERS and not _GROUP_END.search(before[-8:])
        is_before_letters = after[:1] not in _NO_LETTERS
        # A group that may be left out begins as what stands after it.
        is_optional = group[2] == "?" or "" in ways
        begins = any(one[:1] not in _NO_LETTERS for one in ways) or (is_optional and is_before_letters)
        ends = any(one[-1:] not in _NO_LETTERS for one in ways)
        is_within = (begins and is_after_letters) or (ends and is_before_letters)
        assert not is_within, f"a group is a part of a word; write out each word: {way}"
        rest = f"{before}{'x' if begins else ' '}{'x' if ends else ' '}{after}"


def _commonness(words: frozenset[str]) -> tuple[int, int, list[str]]:
    return len(words & _EVERYWHERE), len(words), sorted(words)


def _alternatives(pattern: str) -> list[str]:
    """Splits the expression at each ``|`` outside of groups."""
    ways, depth = [""], 0
    for char in pattern:
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            ways.append("")
        else:
            ways[-1] += char
    return ways


def _needed(way: str) -> Iterator[frozenset[str]]:
    """Yields, for each required part of the expression, the words of which a matching text has one."""
    place = 0
    while place < len(way):
        if anything := _OPTIONAL_PART.match(way, place):
            place = anything.end()
        elif way[place] == "(":
            end = _closing(way, place)
            if way[end + 1 : end + 2] != "?":
                yield from _one_of_each(way[place + 1 : end])
            place = end + 1
        else:
            letters = _LETTERS.match(way, place)
            assert letters, f"not part of the phrase language: {way[place:]}"
            # At the end of a word it is read as a quotation mark, so such a word would never be found.
            assert not letters[0].endswith("'"), f"an apostrophe at the end of a word: {way}"
            yield _variants(letters[0])
            place = letters.end()


def _closing(way: str, opening: int) -> int:
    depth = 0
    for place in range(opening, len(way)):
        depth += (way[place] == "(") - (way[place] == ")")
        if depth == 0:
            return place
    raise AssertionError(f"unclosed group: {way}")


def _one_of_each(inside: str) -> Iterator[frozenset[str]]:
    """Word sets for all alternatives together: their rarest words, the next rarest and so on.

    None if an alternative requires no word.
    """
    ways = [sorted(filter(None, _needed(way)), key=_commonness) for way in _alternatives(inside)]
    for rank in range(max(map(len, ways)) if all(ways) else 0):
        yield frozenset().union(*(words[min(rank, len(words) - 1)] for words in ways))


def _variants(letters: str) -> frozenset[str]:
    """The words that letters with ``s?`` or ``[sz]`` stand for."""
    if "?" not in letters and "[" not in letters:
        return frozenset((letters,))
    choices = []
    for part, optional in re.findall(r"(\[[a-z]+\]|[^\[\]?])(\??)", letters):
        ways = list(part.strip("[]"))
        choices.append([*ways, ""] if optional else ways)
    return frozenset(map("".join, product(*choices)))
