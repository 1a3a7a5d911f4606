"""What a sentence commits to, and whether a shorter one commits to the same.

A sentence is read as a list of words, each of a kind: number, negation, modal, comparison, quantity, owner,
direction, name, or content. A shorter sentence is compared with the one it comes from:

- Numbers, modals, comparisons and names stay as they are, in their order. What an imperative says anyway
  ("you must", "all of") may be dropped; nothing may be added.
- The same words stand behind each negation. So "Never share keys. Share your name." can't become "Share keys.
  Never share your name."
- Content words keep their order, except that whole clauses may change places. So the buyer can't become the
  seller. A direction ("from", "to") stays before the words that it was before.
- No content word becomes its opposite.

A sentence that breaks one of these rules is *changed*, which is refused. A sentence with a content word that
its source does not have, with less than a third of the source's content words, or without those that said who
acts ("Ask the manager to approve it" and "Approve it") is *reworded*: nobody can tell without a model what it
says, so a person or a sample must.

The words are in ``words/``, for English, German, French and Spanish. Texts in other languages
are compared by numbers, names and content words. The check errs on the side of refusing; no model is needed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final

from standfast.govern.judge.tables import parse_sections
from standfast.recall.analysis import analyzer_of
from standfast.recall.word_lists import Lines, parsed_lines

LANGUAGES: Final = ("English", "German", "French", "Spanish")
"""The languages whose words are known."""

NUMBER, NEGATION, NAME, CONTENT = "number", "negation", "name", "content"
_STRICT_ORDER: Final = (NUMBER, "number word", "modal", "comparison", "some")
"""Kinds whose words must stay, in their order."""
_ADDED_NEVER: Final = ("obligation", "advice", "all", "owner")
"""Kinds whose words may be dropped and not added."""
_LISTED: Final = (
    NEGATION,
    "obligation",
    "advice",
    "modal",
    "comparison",
    "all",
    "some",
    "owner",
    "direction",
)
_UNHEARD: Final = ("function", "filler")

_CODE: Final = re.compile(r"```.*?```|~~~.*?~~~", re.DOTALL)
_BREAK: Final = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+#|>]|\d+[.)])[ \t])")
_SENTENCE: Final = re.compile(r"(?<=[.!?;:。！？])[\"'»”)\]]*\s+")  # Full-width marks end sentences too.
_TOKEN: Final = re.compile(r"\d[\d.,:/]*\d%?|\d%?|[^\W\d_][\w'\u2019-]*")
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*+#>|]+|\d+[.)])[ \t]+")
_CLAUSE: Final = re.compile(r",\s+")
_KEPT_SHARE: Final = 0.5
_REPEATED_SHARE: Final = 0.8


@cache
def _words() -> dict[str, frozenset[str]]:
    """Return the words of each kind, in all languages."""
    found: dict[str, set[str]] = {}
    for section, lines in _lists().items():
        found.setdefault(section.partition(" ")[0], set()).update(*lines)
    return {kind: frozenset(words) for kind, words in found.items()}


@cache
def _lists() -> dict[str, Lines]:
    return parsed_lines("commitments", _file("commitments.txt"))


@cache
def _values() -> dict[str, str]:
    """Return the number that each number word stands for."""
    return {word: value for value, *words in _lists()["value"] for word in words}


@cache
def phrases(section: str) -> tuple[tuple[str, str], ...]:
    """Return expressions of ``words/phrases.forms`` with the plain words for each."""
    sections = dict(parse_sections(_file("phrases.forms"), "phrases.forms"))
    pairs = (line.split(" =>") for line in sections[section])
    return tuple((form, plain.strip().replace("_", " ")) for form, plain in pairs)


@cache
def _readings() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(form, re.IGNORECASE), plain) for form, plain in phrases("reading"))


def _file(name: str) -> str:
    return files("standfast.optimize.loops").joinpath("words", name).read_text(encoding="utf-8")


@cache
def _kinds() -> dict[str, str]:
    """Return the kind of each listed word."""
    kinds = dict.fromkeys(_values(), "number word")
    for kind in (*_UNHEARD, *reversed(_LISTED)):
        kinds |= dict.fromkeys(_words()[kind], kind)
    return kinds


@cache
def _same() -> dict[str, str]:
    return {word: plain for word, _, plain in (pair.partition("=") for pair in _words()["same"])}


@cache
def _opposites() -> frozenset[tuple[str, str]]:
    pairs = [pair.split("/") for pair in _words()["antonym"]]
    return frozenset(
        (one, other) for first, second in pairs for one, other in ((first, second), (second, first))
    )


@lru_cache(maxsize=16_384)
def _is_one_word(word: str, other: str) -> bool:
    """Return whether two words are forms of one in any of the languages, or stand for each other."""
    plain = [_same().get(one, one) for one in (word, other)]
    if plain[0] == plain[1] or any(
        analyzer_of(language.lower()).is_same_word(*plain) for language in LANGUAGES
    ):
        return True
    # The stem of an infinitive such as "répondre" keeps an r that "répondez" does not have.
    short = [one.removesuffix("re") for one in plain]
    return short != plain and analyzer_of("french").is_same_word(*short)


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its kind, the number of its clause, and how many negations stand before it."""

    text: str
    kind: str
    clause: int
    negations: int

    def matches(self, other: "Word") -> bool:
        """Return whether two words are forms of one."""
        return self.text == other.text or _is_one_word(self.text, other.text)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its words."""

    text: str
    words: tuple[Word, ...]

    def of(self, *kinds: str) -> list[Word]:
        """Return the words of some kinds, in order."""
        return [word for word in self.words if word.kind in kinds]

    @property
    def content(self) -> list[Word]:
        """The content words and the names, in order."""
        return self.of(CONTENT, NAME)

    @property
    def commits(self) -> bool:
        """Whether the sentence has words that must not be lost with it: numbers and negations."""
        return bool(self.of(NUMBER, NEGATION))

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What makes two sentences one: their words without those that say nothing."""
        return tuple((word.kind, word.text) for word in self.words if word.kind not in _UNHEARD)


def sentences_of(body: str) -> list[Sentence]:
    """Split a text into sentences. Code blocks are left out; they are protected as a whole."""
    parts = [
        part
        for block in _BREAK.split(_CODE.sub("\n\n", body))
        for part in _SENTENCE.split(_BULLET.sub("", " ".join(block.split())))
    ]
    return [sentence(part.strip()) for part in parts if part.strip(" \t-*_#|>")]


@lru_cache(maxsize=4_096)
def sentence(text: str) -> Sentence:
    """Read a sentence."""
    plain = text
    for phrase, replacement in _readings():
        plain = phrase.sub(replacement, plain)
    words: list[Word] = []
    negations = 0
    for number, clause in enumerate(_CLAUSE.split(plain)):
        for found in _TOKEN.finditer(clause):
            lower = found[0].casefold().strip("'\u2019-")
            kind = _kind(found[0], lower, is_first=not words)
            words.append(Word(_values().get(lower, lower), kind, number, negations))
            negations += kind == NEGATION
    return Sentence(text, tuple(words))


def _kind(token: str, lower: str, *, is_first: bool) -> str:
    if token[0].isdigit():
        return NUMBER
    listed = _kinds().get(lower)
    if listed is not None:
        return listed
    # A name that starts a sentence can't be told from another word.
    return NAME if token[0].isupper() and not is_first else CONTENT


@dataclass(frozen=True, slots=True)
class MeaningChange:
    """A sentence that commits to something else; ``about`` is the kind of word, or e.g. ``order``."""

    about: str
    detail: str


def meaning_change(before: Sequence[Sentence], after: Sequence[Sentence]) -> MeaningChange | None:
    """Return the first change of meaning between two prompts, or None.

    Dropped sentences are ``dropped``'s business, and reworded ones that of ``reworded``.
    """
    pairs = list(_pairs(before, after))
    for new, candidates in pairs:
        if not candidates and (kind := _first_commitment(new)):
            return MeaningChange(kind, f"{new.text!r:.120} is new")
        found = [_changed_kind(old, new) for old in candidates]
        if candidates and None not in found:
            return MeaningChange(found[0] or "", f"{candidates[0].text!r:.120} became {new.text!r:.120}")
    for old in before:
        if old.commits and not any(_keeps(old, new) for new in after):
            lost = old.of(NUMBER, NEGATION)[0]
            return MeaningChange(lost.kind, f"{old.text!r:.120} lost {lost.text!r}")
    return _exchange(pairs)


def reworded(before: Sequence[Sentence], after: Sequence[Sentence]) -> list[tuple[str, str]]:
    """Return the sentences that can't be compared word by word, each with the one it comes from.

    The source of a sentence that is new is empty.
    """
    found = []
    for new, candidates in _pairs(before, after):
        if not candidates and new.content:
            found.append(("", new.text))
        elif candidates and all(_is_reworded(old, new) for old in candidates):
            found.append((candidates[0].text, new.text))
    return found


def dropped(before: Sequence[Sentence], after: Sequence[Sentence]) -> list[str]:
    """Return the sentences that have no counterpart any more."""
    unchanged = {sentence.identity for sentence in before}
    fresh = [other for other in after if other.identity not in unchanged]
    stayed = [other for other in after if other.identity in unchanged]
    return [
        sentence.text
        for sentence in before
        if sentence.identity
        and not any(_is_about(sentence, other) for other in fresh)
        and not any(_repeats(sentence, other) for other in stayed)
    ]


def _pairs(
    before: Sequence[Sentence], after: Sequence[Sentence]
) -> Iterator[tuple[Sentence, list[Sentence]]]:
    """Yield each sentence that is not in the source, with those of the source that share most words."""
    known = {sentence.identity for sentence in before}
    taken: set[str] = set()
    for new in after:
        if new.identity in known or not new.identity:
            continue
        scores = [_shared(new, old) / max(len(new.content), len(old.content), 1) for old in before]
        best = max(scores, default=0.0)
        found = [old for old, score in zip(before, scores, strict=True) if score == best > 0]
        if not found:
            marks = [word.text for word in new.of(*_LISTED, NUMBER, "number word")]
            found = [old for old in before if marks and [w.text for w in old.of(*_LISTED, NUMBER)] == marks]
        free = [old for old in found if old.text not in taken] or found
        taken.update(old.text for old in free[:1])
        yield new, free


def _shared(new: Sentence, old: Sentence) -> int:
    """Return how many content words of a sentence another one has."""
    return sum(any(word.matches(other) for other in old.content) for word in new.content)


def _first_commitment(new: Sentence) -> str | None:
    found = new.of(*_LISTED, NUMBER, "number word", NAME)
    return found[0].kind if found else None


def _changed_kind(old: Sentence, new: Sentence) -> str | None:
    """Return what differs between a sentence and a shorter one, or None if it commits to the same."""
    if not _same_negations(old, new):
        return NEGATION
    for kind in _STRICT_ORDER:
        if [word.text for word in old.of(kind)] != [word.text for word in new.of(kind)]:
            return kind
    for kind in _ADDED_NEVER:
        if not {word.text for word in new.of(kind)} <= {word.text for word in old.of(kind)}:
            return kind
    if not _same_names(old, new):
        return NAME
    if any((was.text, now.text) in _opposites() for was, now in _replaced(old, new)):
        return "opposite"
    if not _same_directions(old, new):
        return "direction"
    return None if _order(old, new) is not _Order.CHANGED else "order"


class _Order(Enum):
    """How the words of a sentence stand to those of its source."""

    KEPT = "kept"
    FRONTED = "fronted"
    CHANGED = "changed"


def _same_negations(old: Sentence, new: Sentence) -> bool:
    """Return whether both have the same negations, and the same words behind each of them."""
    was, now = old.of(NEGATION), new.of(NEGATION)
    if [_same().get(word.text, word.text) for word in was] != [
        _same().get(word.text, word.text) for word in now
    ]:
        return False
    if not was:
        return True
    return all(
        any(word.matches(other) and word.negations == other.negations for other in old.content)
        for word in new.content
        if any(word.matches(other) for other in old.content)
    )


def _same_names(old: Sentence, new: Sentence) -> bool:
    """Return whether both have the same names in the same order.

    A name may have become the first word, where it can't be told from another one, or the other way round.
    """
    firsts = {one.words[0].text for one in (old, new) if one.words}
    was, now = ([word for word in one.of(NAME) if word.text not in firsts] for one in (old, new))
    return len(was) == len(now) and all(a.matches(b) for a, b in zip(was, now, strict=True))


def _replaced(old: Sentence, new: Sentence) -> Iterator[tuple[Word, Word]]:
    """Yield each word that is gone with each that is new."""
    gone = [word for word in old.words if all(not word.matches(other) for other in new.words)]
    for word in new.words:
        if all(not word.matches(other) for other in old.words):
            yield from ((lost, word) for lost in gone)


def _same_directions(old: Sentence, new: Sentence) -> bool:
    """Return whether each direction stands before a word that it stands before in the source."""
    known = [
        (word.text, behind)
        for place, word in enumerate(old.words)
        if word.kind == "direction"
        for behind in _behind(old, place)
    ]
    for place, word in enumerate(new.words):
        if word.kind != "direction":
            continue
        if not any(one.text == word.text for one in old.words):
            return False
        behind = next(iter(_behind(new, place)), None)
        same = [other for text, other in known if text == word.text]
        # A word that is new itself is for ``reworded`` to list.
        is_known = behind is not None and any(behind.matches(other) for other in old.content)
        if behind is not None and is_known and same and not any(behind.matches(other) for other in same):
            return False
    return True


def _behind(one: Sentence, place: int) -> Iterator[Word]:
    """Yield the content words behind a direction, up to the next one."""
    for word in one.words[place + 1 :]:
        if word.kind == "direction":
            return
        if word.kind in (CONTENT, NAME):
            yield word


def _order(old: Sentence, new: Sentence) -> _Order:
    """Return whether the words that both have are in the same order, whole clauses apart.

    An imperative may have come to the front: "The list should be sorted" and "Sort the list" are reworded.
    """
    kept = [word for word in new.content if any(word.matches(other) for other in old.content)]
    if any(_is_subsequence(kept, turned) for turned in _rotations(old)):
        return _Order.KEPT
    rest = kept[1:]
    fronted = bool(rest) and _is_subsequence(rest, [one for one in old.content if not one.matches(kept[0])])
    return _Order.FRONTED if fronted else _Order.CHANGED


def _rotations(old: Sentence) -> Iterator[list[Word]]:
    """Yield the content words with the clauses in each order that begins elsewhere."""
    content = old.content
    starts = [0, *(place for place, (a, b) in enumerate(pairwise(content), 1) if a.clause != b.clause)]
    for start in starts:
        yield content[start:] + content[:start]


def _is_subsequence(words: Sequence[Word], of: Sequence[Word]) -> bool:
    left = iter(of)
    return all(any(word.matches(other) for other in left) for word in words)


def _is_reworded(old: Sentence, new: Sentence) -> bool:
    if any(all(not word.matches(other) for other in old.words) for word in new.content):
        return True
    if _order(old, new) is not _Order.KEPT or 3 * _shared(old, new) < len(old.content):
        return True
    return _loses_who_acts(old, new)


def _loses_who_acts(old: Sentence, new: Sentence) -> bool:
    """Return whether a clause begins in the middle of its source's clause, and what stood before is gone.

    What stood there said who acts: "The manager must approve it", or "Ask the manager to approve it".
    """
    firsts = {word.clause: word for word in reversed(new.content)}
    for first in firsts.values():
        start = next((at for at, word in enumerate(old.content) if first.matches(word)), 0)
        before = [word for word in old.content[:start] if word.clause == old.content[start].clause]
        if any(
            word.text not in _words()["self"] and all(not word.matches(other) for other in new.content)
            for word in before
        ):
            return True
    return False


def _is_about(sentence: Sentence, other: Sentence) -> bool:
    fewer = min(len(sentence.content), len(other.content))
    if not fewer:
        return sentence.identity == other.identity
    return min(_shared(sentence, other), fewer) / fewer >= _KEPT_SHARE


def _repeats(sentence: Sentence, other: Sentence) -> bool:
    """Return whether a sentence that stayed says the same, so that nothing is lost with this one."""
    common, most = _shared(sentence, other), max(len(sentence.content), len(other.content))
    same = all(
        [word.text for word in sentence.of(kind)] == [word.text for word in other.of(kind)]
        for kind in (NEGATION, *_STRICT_ORDER)
    )
    return same and common >= _REPEATED_SHARE * most


def _keeps(old: Sentence, new: Sentence) -> bool:
    was, now = (
        [_same().get(word.text, word.text) for word in one.of(NUMBER, NEGATION)] for one in (old, new)
    )
    return was == now and _is_about(old, new)


def _exchange(pairs: Sequence[tuple[Sentence, list[Sentence]]]) -> MeaningChange | None:
    """Return two sentences that exchanged words: what one gained the other lost, and the other way round."""
    moves = []
    for new, candidates in pairs:
        for old in candidates[:1]:
            gained = {word.text for word in new.content if all(not word.matches(o) for o in old.content)}
            lost = {word.text for word in old.content if all(not word.matches(o) for o in new.content)}
            moves.append((gained, lost, new))
    for number, (gained, lost, new) in enumerate(moves):
        for other_gained, other_lost, other in moves[number + 1 :]:
            if gained & other_lost and other_gained & lost:
                return MeaningChange("exchange", f"{new.text!r:.120} and {other.text!r:.120} exchanged words")
    return None
