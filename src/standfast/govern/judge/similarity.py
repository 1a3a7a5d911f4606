"""Similarity: whether a text says anything new, compared with known records and with recalled excerpts, or
contradicts one.

A text says nothing new if it keeps the numbers, the qualifiers and the word order of a known text, covers
most of it, and adds only fillers, other endings and typing errors. ``EU refunds take 15 days`` is new next to
``14 days``, and so is an added ``not``. ``Please note: refunds in the EU take 14 days!`` is not new.
"""

import threading
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from standfast.govern.judge.text_reading import (
    AMBIGUOUS_MONTHS,
    MONTHS,
    OPPOSITES,
    SMALL_WORDS,
    WEEKDAYS,
    TextReading,
    word_set,
)
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED

# The share of the known text that must be covered. A moved clause breaks at most three pairs of neighbouring
# words; two words that change places break four.
_MIN_COVERED_SHARE: Final = 0.8
_PAIRS_BROKEN_BY_A_MOVED_CLAUSE: Final = 3
# The share of words that may be new compared with the recalled excerpts, and the share of pairs that must
# come from them.
_MAX_NEW_SHARE: Final = 0.15
_MIN_RECALLED_SHARE: Final = 0.6
# Texts with fewer carrying words than this are only compared for equality.
_MIN_WORDS: Final = 3
# The most words of a text that may be typing errors.
_MAX_MISSPELLINGS: Final = 4
_ENDINGS: Final = word_set("s es d ed ing n en e er r t te ten")


class KnownText(NamedTuple):
    """A known record: its text, its independent sources, and where it stands."""

    memory_id: str
    reading: TextReading
    subject: str | None = None
    tags: frozenset[str] = frozenset()
    witnesses: frozenset[str] = frozenset()
    scope: str = SHARED
    origin: Origin = Origin.ORDINARY

    @property
    def sort_key(self) -> tuple[str, str, list[str], str, list[str], str, str]:
        """A total order: the id first, then everything else that can differ between two texts of one id."""
        return (
            self.memory_id,
            self.reading.text,
            sorted(self.witnesses),
            self.subject or "",
            sorted(self.tags),
            self.scope,
            self.origin,
        )


_Bucket: TypeAlias = tuple[frozenset[str], frozenset[str]]


class SimilarityIndex:
    """Known records, findable by what they say.

    A lookup costs by the rare words of the text, not by the size of the index.
    """

    def __init__(self, known: Iterable[KnownText] = ()) -> None:
        self.known: list[KnownText] = []
        self.growing = threading.Lock()
        self._exact: dict[tuple[str, ...], list[int]] = {}
        # Similar texts have equal numbers and qualifiers, so words are looked up among those only. They are
        # indexed when they are first asked for: few texts have the numbers of another one.
        self._places_by_word: dict[_Bucket, dict[str, list[int]]] = {}
        self._unindexed: dict[_Bucket, list[int]] = {}
        for one in known:
            self.add(one)

    def add(self, one: KnownText) -> None:
        """Adds a text."""
        place, reading = len(self.known), one.reading
        self.known.append(one)
        self._exact.setdefault(_key(reading), []).append(place)
        self._unindexed.setdefault((reading.numbers, reading.qualifiers), []).append(place)

    def similar_to(self, reading: TextReading) -> list[KnownText]:
        """The known texts to which this text adds nothing, in the order in which they were added."""
        return [self.known[place] for place in self.places_similar_to(reading)]

    def places_similar_to(self, reading: TextReading) -> list[int]:
        """Their places in ``known``, ascending."""
        places = set(self._exact.get(_key(reading), ()))
        for place in self._places_sharing_a_rare_word(reading):
            if place not in places and says_nothing_new(reading, self.known[place].reading):
                places.add(place)
        return sorted(places)

    def _places_sharing_a_rare_word(self, reading: TextReading) -> set[int]:
        """Similar texts share all but a few words, so they share at least one of the rarest."""
        bucket = reading.numbers, reading.qualifiers
        if bucket in self._unindexed:
            self._index(bucket)
        places = self._places_by_word.get(bucket)
        if places is None:
            return set()
        content = reading.content
        max_added = _max_added(content)
        if len(content) < _MIN_WORDS or len(content.difference(places)) > max_added:
            return set()
        by_rarity = sorted((len(places.get(word, ())), word) for word in content)
        return {place for _, word in by_rarity[: max_added + 1] for place in places.get(word, ())}

    def _index(self, bucket: _Bucket) -> None:
        with self.growing:
            places = self._places_by_word.setdefault(bucket, {})
            for place in self._unindexed.get(bucket, ()):
                for word in self.known[place].reading.content:
                    places.setdefault(word, []).append(place)
            # Removed last, so that whoever else asks meanwhile waits for the lock.
            self._unindexed.pop(bucket, None)


class IndexSnapshot:
    """The first texts of an index, however far it grows.

    So a growing context costs no copy of what it knows.
    """

    def __init__(self, index: SimilarityIndex) -> None:
        self._index = index
        self._size = len(index.known)

    def with_text(self, one: KnownText) -> "IndexSnapshot":
        """A snapshot that has one more text."""
        with self._index.growing:
            if len(self._index.known) != self._size:
                return IndexSnapshot(SimilarityIndex([*self._index.known[: self._size], one]))
            self._index.add(one)
            return IndexSnapshot(self._index)

    def similar_to(self, reading: TextReading) -> list[KnownText]:
        """The texts of the snapshot to which this text adds nothing."""
        places = self._index.places_similar_to(reading)
        return [self._index.known[place] for place in places if place < self._size]


def _max_added(content: frozenset[str]) -> int:
    """The most words of a text that may be typing errors."""
    return min(_MAX_MISSPELLINGS, len(content) // 3)


def _key(reading: TextReading) -> tuple[str, ...]:
    return reading.words or (reading.folded.strip(),)


def says_nothing_new(text: TextReading, known: TextReading) -> bool:
    """Whether ``text`` keeps what ``known`` says and adds nothing to it."""
    if text.numbers != known.numbers or text.qualifiers != known.qualifiers:
        return False
    added = text.content - known.content
    missing = known.content - text.content
    if len(text.content) < _MIN_WORDS or len(added) > _max_added(text.content):
        return False
    if len(missing) - len(added) > (1 - _MIN_COVERED_SHARE) * len(known.content):
        return False
    shared = len(text.pairs & known.pairs)
    broken = len(text.pairs) - shared
    if not shared or broken > max(_PAIRS_BROKEN_BY_A_MOVED_CLAUSE, 2 * len(added) + len(missing)):
        return False
    return _same_order_of_names(text, known) and _are_misspellings(added, missing, text.names)


def _same_order_of_names(text: TextReading, known: TextReading) -> bool:
    """Whether names come in the same order: ``Alice reports to Bob`` is not ``Bob reports to Alice``."""
    names = text.names | known.names
    if len(names) < 2:
        return True
    ours = [word for word in text.carrying if word in names and word in known.content]
    return ours == [word for word in known.carrying if word in names and word in text.content]


def _are_misspellings(added: frozenset[str], missing: frozenset[str], names: frozenset[str]) -> bool:
    """Whether each added word is a missing one with a typing error or another ending. Names never are."""
    return added.isdisjoint(names) and all(any(_is_misspelling(new, old) for old in missing) for new in added)


def _is_misspelling(new: str, old: str) -> bool:
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
    """The excerpts that a run recalled, as one body of text that its claims are compared with."""

    def __init__(self, excerpts: Iterable[str], memory_ids: Sequence[str] = ()) -> None:
        readings = [TextReading(excerpt) for excerpt in excerpts]
        self._readings = readings
        self._memory_ids = memory_ids
        self._words = set(SMALL_WORDS)
        for reading in readings:
            self._words |= reading.vocabulary | reading.content
            self._words.update([f"{word}s" for word in reading.content])
        self._whole = frozenset(map(_key, readings))
        self._content = frozenset().union(*(reading.content for reading in readings))
        self._pairs = frozenset().union(*(_following(reading) for reading in readings))
        self._qualifiers = frozenset().union(*(reading.qualifiers for reading in readings))

    def contains(self, text: TextReading) -> bool:
        """Whether the text consists of recalled words in their order, with next to nothing added."""
        # A quick check: words that are new whatever their ending. Numbers and words with an apostrophe are
        # not counted. A word is split at its apostrophe into at most two carrying words, hence the factor of
        # two.
        new_words = sum(map(str.isalpha, text.vocabulary.difference(self._words)))
        if new_words > _MAX_NEW_SHARE * 2 * len(text.vocabulary):
            return False
        if _key(text) in self._whole:
            return True
        following = _following(text)
        if len(following) + 1 < _MIN_WORDS or not text.qualifiers <= self._qualifiers:
            return False
        news = text.content - self._content
        if len(news) > _MAX_NEW_SHARE * len(text.content) or news & (text.numbers | text.names):
            return False
        return len(following & self._pairs) >= _MIN_RECALLED_SHARE * len(following)

    def record_of(self, text: TextReading) -> str:
        """The id of the record whose excerpt shares most words with the text; the smallest one of several.

        Empty if unknown.
        """
        shared = [
            (-len(reading.content & text.content), memory_id)
            for reading, memory_id in zip(self._readings, self._memory_ids, strict=False)
        ]
        return min(shared)[1] if shared else ""


def _following(reading: TextReading) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(reading.carrying))


# Contradiction.

# The share of the shorter text's topic that both must have to be about the same thing. Without a subject,
# more is needed.
_MIN_SHARED: Final = 0.5
_MIN_SHARED_WITHOUT_SUBJECT: Final = 0.7
MIN_WORDS_WITHOUT_SUBJECT: Final = 3
# From this share on, a replaced word changes the statement.
_MIN_SHARED_FOR_A_REPLACEMENT: Final = 0.6
_MIN_SHARED_FOR_AN_UNEVEN_REPLACEMENT: Final = 0.75
_MAX_REPLACED_WORDS: Final = 2
ADDITION: Final = "adds to sealed memory"
_NO_WORDS: Final[frozenset[str]] = frozenset()


def contradiction(text: TextReading, sealed: TextReading, has_subject: bool) -> tuple[float, str]:
    """How far a text agrees with a sealed one, from 0 (it denies it) to 1, and what it says instead.

    ``has_subject`` says that both have the same subject; otherwise they must be closer to contradict each
    other.
    """
    ours, theirs = text.topic, sealed.topic
    shared = ours & theirs
    share = len(shared) / max(1, min(len(ours), len(theirs)))
    addition = (0.8, ADDITION) if has_subject else (1.0, "")
    if has_subject and share < _MIN_SHARED:
        return (1.0, "") if text.words == sealed.words else addition
    if not has_subject and (share < _MIN_SHARED_WITHOUT_SUBJECT or len(shared) < MIN_WORDS_WITHOUT_SUBJECT):
        return addition
    if text.words == sealed.words or says_nothing_new(text, sealed):
        return 1.0, ""
    if _has_other_figure(text, sealed):
        return 0.0, "another number or date"
    if _has_other_member(text, sealed, WEEKDAYS) or _has_other_member(text, sealed, MONTHS):
        return 0.0, "another day or month"
    if ("not" in text.qualifiers) != ("not" in sealed.qualifiers) and share >= _MIN_SHARED_FOR_A_REPLACEMENT:
        return 0.0, "its negation"
    if any(
        not OPPOSITES.get(word, _NO_WORDS).isdisjoint(sealed.vocabulary - text.vocabulary)
        for word in text.vocabulary
    ):
        return 0.1, "its opposite"
    if _replaces_words(text, sealed, share):
        return 0.2, "another statement in its place"
    return addition


def _replaces_words(text: TextReading, sealed: TextReading, share: float) -> bool:
    """Whether one or two words replace others: in the same places, or in a text that is similar enough."""
    only_ours, only_theirs = text.topic - sealed.topic, sealed.topic - text.topic
    if not 0 < len(only_ours) <= _MAX_REPLACED_WORDS or not 0 < len(only_theirs) <= _MAX_REPLACED_WORDS:
        return False
    if len(only_ours) != len(only_theirs):
        return share >= _MIN_SHARED_FOR_AN_UNEVEN_REPLACEMENT
    if share >= _MIN_SHARED_FOR_A_REPLACEMENT:
        return True
    pairs = zip(text.carrying, sealed.carrying, strict=False)
    same_places = all(one == other or (one in only_ours and other in only_theirs) for one, other in pairs)
    return same_places and len(text.carrying) == len(sealed.carrying)


def _has_other_figure(text: TextReading, sealed: TextReading) -> bool:
    """Whether a shared unit has no number in common; or each has one number, not both of them with a unit."""
    ours, theirs = text.quantities, sealed.quantities
    both = ours.keys() & theirs.keys()
    if both:
        return any(ours[unit].isdisjoint(theirs[unit]) for unit in both)
    return len(text.numbers) == len(sealed.numbers) == 1 and ("" in ours or "" in theirs)


def _has_other_member(text: TextReading, sealed: TextReading, members: dict[str, int]) -> bool:
    certain = members.keys() - AMBIGUOUS_MONTHS
    ours = {members[word] for word in text.vocabulary & certain}
    theirs = {members[word] for word in sealed.vocabulary & certain}
    return bool(ours) and bool(theirs) and ours.isdisjoint(theirs)
