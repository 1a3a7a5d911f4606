"""Whether a text says anything that is not known: near-duplicates on a index of records, and text that was recalled.

A text says nothing new if it keeps the numbers, the qualifiers and the order of a known one, covers most of it, and
adds no word but fillers, endings and slips of the pen. ``EU refunds take 15 days`` is news beside ``14 days``, and so
is one added ``not``; ``please note: refunds in the EU take 14 days!`` is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from standfast.govern.judge.reading.lexicon import SMALL_WORDS, word_set
from standfast.govern.judge.reading.words import TextReading

# How much of the known text must come back. A clause that moves breaks three neighbourhoods of words at most; two words
# that change places break four.
_LEAST_COVERED: Final = 0.8
_BROKEN_BY_A_MOVED_CLAUSE: Final = 3
# What of a text's words may be unknown to what was recalled, and how much of its order must come from there.
_MOST_NEWS: Final = 0.15
_LEAST_RECALLED: Final = 0.6
# Fewer carrying words than this say too little to be called alike; they must be the same.
_LEAST_WORDS: Final = 3
# A slip is looked for in at most this many words a text: more of them are another text.
_MOST_SLIPS: Final = 4
_ENDINGS: Final = word_set("s es d ed ing n en e er r t te ten")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownText:
    """A record that stands on a index: who vouches for it, and whether it was refused for what it says."""

    memory_id: str
    reading: TextReading
    witnesses: frozenset[str] = frozenset()
    refused: bool = False

    @property
    def place(self) -> tuple[str, str, bool, list[str]]:
        """Where it stands among others: by its id, and by all else that could tell two of one id apart."""
        return self.memory_id, self.reading.text, self.refused, sorted(self.witnesses)


class Familiar:
    """The words of some texts, to see at a glance that another has too many that none of them has."""

    def __init__(self, readings: Iterable[TextReading]) -> None:
        self._words = set(SMALL_WORDS)
        for reading in readings:
            self._words |= reading.vocabulary | reading.content
            self._words.update(f"{word}s" for word in reading.content)

    def strange_words(self, reading: TextReading) -> int:
        """How many words would be new, whatever their ending. Numbers and words with an apostrophe are not counted."""
        return sum(map(str.isalpha, reading.vocabulary.difference(self._words)))


class SimilarityIndex:
    """KnownText records, findable by what they say. Looking one up costs by the rare words of the text, not by the index."""

    def __init__(self, known: Iterable[KnownText]) -> None:
        self.known = tuple(sorted(known, key=lambda one: one.place))
        self._familiar = Familiar(one.reading for one in self.known)
        self._exact: dict[tuple[str, ...], list[int]] = {}
        self._holding: dict[str, list[int]] = {}
        for place, one in enumerate(self.known):
            self._exact.setdefault(_key(one.reading), []).append(place)
            for word in one.reading.content:
                self._holding.setdefault(word, []).append(place)

    def alike(self, reading: TextReading) -> list[KnownText]:
        """Everything that already says what this text says, by memory id."""
        if self._familiar.strange_words(reading) > _MOST_SLIPS:
            return []
        places = set(self._exact.get(_key(reading), ()))
        for place in self._places_sharing_a_rare_word(reading):
            if place not in places and says_nothing_new(reading, self.known[place].reading):
                places.add(place)
        return [self.known[place] for place in sorted(places)]

    def _places_sharing_a_rare_word(self, reading: TextReading) -> set[int]:
        """Texts that are alike share all but a few words, so one of the text's few rarest is among the shared."""
        content, holding = reading.content, self._holding
        most_added = _most_added(content)
        if len(content) < _LEAST_WORDS or len(content.difference(holding)) > most_added:
            return set()
        by_rarity = sorted((len(holding.get(word, ())), word) for word in content)
        return {place for _, word in by_rarity[: most_added + 1] for place in holding.get(word, ())}


def _most_added(content: frozenset[str]) -> int:
    """How many words of a text may be slips."""
    return min(_MOST_SLIPS, len(content) // 3)


def _key(reading: TextReading) -> tuple[str, ...]:
    return reading.words or (reading.folded.strip(),)


def says_nothing_new(text: TextReading, known: TextReading) -> bool:
    """Whether the text keeps what is known and adds nothing to it."""
    if text.numbers != known.numbers or text.qualifiers != known.qualifiers:
        return False
    added = text.content - known.content
    missing = known.content - text.content
    if len(text.content) < _LEAST_WORDS or len(added) > _most_added(text.content):
        return False
    if len(missing) - len(added) > (1 - _LEAST_COVERED) * len(known.content):
        return False
    kept = len(text.pairs & known.pairs)
    broken = len(text.pairs) - kept
    if not kept or broken > max(_BROKEN_BY_A_MOVED_CLAUSE, 2 * len(added) + len(missing)):
        return False
    return _keep_the_order_of_names(text, known) and _are_slips(added, missing, text.names)


def _keep_the_order_of_names(text: TextReading, known: TextReading) -> bool:
    """``Alice reports to Bob`` is not ``Bob reports to Alice``, in however long a sentence."""
    names = text.names | known.names
    if len(names) < 2:
        return True
    ours = [word for word in text.carrying if word in names and word in known.content]
    return ours == [word for word in known.carrying if word in names and word in text.content]


def _are_slips(added: frozenset[str], missing: frozenset[str], names: frozenset[str]) -> bool:
    """Whether each added word is a missing one with a slip or another ending. A name is never a slip."""
    return added.isdisjoint(names) and all(any(_is_slip(new, old) for old in missing) for new in added)


def _is_slip(new: str, old: str) -> bool:
    shorter, longer = sorted((new, old), key=len)
    if len(shorter) >= 4 and longer.startswith(shorter) and longer[len(shorter) :] in _ENDINGS:
        return True
    if len(shorter) < 5 or new[0] != old[0] or len(longer) - len(shorter) > 1 or not new.isalpha():
        return False
    start = next((at for at, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    rest_of_shorter, rest_of_longer = shorter[start:], longer[start:]
    if len(shorter) < len(longer):
        return rest_of_shorter == rest_of_longer[1:]
    swapped = rest_of_longer[1:2] + rest_of_longer[:1] + rest_of_longer[2:]
    return rest_of_shorter[1:] == rest_of_longer[1:] or rest_of_shorter == swapped


class RecalledText:
    """The excerpts that a run was handed, as one body of text that its claims are held against."""

    def __init__(self, excerpts: Iterable[str]) -> None:
        readings = [TextReading(excerpt) for excerpt in excerpts]
        self._familiar = Familiar(readings)
        self._whole = frozenset(map(_key, readings))
        self._content = frozenset().union(*(reading.content for reading in readings))
        self._pairs = frozenset().union(*(_following(reading) for reading in readings))
        self._qualifiers = frozenset().union(*(reading.qualifiers for reading in readings))

    def holds(self, text: TextReading) -> bool:
        """Whether the text is made of what was recalled, in its order, with nothing to speak of added."""
        # A word may be split at its apostrophe into two that carry, so a text has fewer than twice as many as pieces.
        if self._familiar.strange_words(text) > _MOST_NEWS * 2 * len(text.vocabulary):
            return False
        if _key(text) in self._whole:
            return True
        following = _following(text)
        if len(following) + 1 < _LEAST_WORDS or not text.qualifiers <= self._qualifiers:
            return False
        news = text.content - self._content
        if len(news) > _MOST_NEWS * len(text.content) or news & (text.numbers | text.names):
            return False
        return len(following & self._pairs) >= _LEAST_RECALLED * len(following)


def _following(reading: TextReading) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(reading.carrying))
