"""A small language for set phrases, and the form of a text that they are looked for in.

``spoken`` text is folded words with single spaces, `` . `` where a sentence, clause or line ends, and `` " `` where a
quotation begins or ends or a colon introduces something. A phrase is a regular expression over it with some
conveniences: ``~4`` stands for up to four words of any kind, ``@`` for either mark, a line may be broken at a space or
after ``|``, ``?`` or ``}``, and every group is a plain one. A phrase matches whole words.
"""

import re
from dataclasses import dataclass
from typing import Final

from holdfast.govern.floors.reading.lexicon import word_set
from holdfast.govern.floors.reading.words import INDIC, Reading

_ANY_WORDS: Final = r"(?:[^ ]{1,40} ){0,%s}?"
_SMALL_GAP: Final = re.compile(r"~(\d) ")
_OPENING: Final = re.compile(r"(?<!\\)\((?!\?)")

# Where a sentence, clause or line ends, and where something is quoted or introduced.
_BREAK: Final = re.compile(r"[.!?;,]+(?=\s|$|[^\w\s/])|[\n()<>\[\]{}*#|—–。！？；，、،؟]+|(?<=\s)-(?=\s)")
_QUOTE: Final = re.compile(r"[\"“”„«»`：]+|:+(?=\s|$|[^\w\s/])|(?<!\w)'|'(?!\w)")
_NO_WORD: Final = re.compile(rf"[^\w{INDIC}.\"' ]+|(?<=\w)\.|\.(?=\w)|_")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A set phrase: what kind it is, how sure it makes us, and sets of words; a text that holds it has one of each."""

    kind: str
    weight: float
    signs: tuple[frozenset[str], ...]
    pattern: re.Pattern[str]


class Phrasebook:
    """Set phrases, of which a text is only searched for those that its words allow."""

    def __init__(self, *phrases: Phrase) -> None:
        self._phrases = phrases
        self._having: dict[str, list[int]] = {}
        for place, one in enumerate(phrases):
            for sign in one.signs[0]:
                self._having.setdefault(sign, []).append(place)

    def possible(self, vocabulary: frozenset[str]) -> list[Phrase]:
        """The phrases that a text with these words may hold, in order."""
        signs = self._having.keys() & vocabulary
        if not signs:
            return []
        places = sorted({place for sign in signs for place in self._having[sign]})
        possible = [self._phrases[place] for place in places]
        return [one for one in possible if not any(map(vocabulary.isdisjoint, one.signs))]


def phrase(kind: str, weight: float, signs: str, said: str) -> Phrase:
    """Compile a phrase of the small language; its signs are words, with ``&`` between the sets."""
    line = re.sub(r"\s*\n\s*", " ", re.sub(r"([|?}])\n\s*", r"\1", said.strip()))
    line = _OPENING.sub("(?:", line)
    line = line.replace("@", '[."]')
    line = _SMALL_GAP.sub(lambda gap: _ANY_WORDS % gap[1], line)
    sets = tuple(word_set(one) for one in signs.split("&"))
    return Phrase(kind, weight, sets, re.compile(rf"(?<![^ ])(?:{line})(?![^ ])"))


def spoken(reading: Reading) -> str:
    """The text as phrases are looked for in it."""
    marked = _BREAK.sub(" . ", _QUOTE.sub(' " ', reading.folded))
    return " ".join(f". {_NO_WORD.sub(' ', ' '.join(marked.split()))} .".split())
