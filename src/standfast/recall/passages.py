"""Passages of long texts. A model reads only the beginning of a text, and one vector of many topics is like none of them."""

from typing import Final

from standfast.recall.excerpts import sentences_of

WHOLE_WORDS: Final = 100
"""A text of at most so many words is one passage."""
PASSAGE_WORDS: Final = 60
"""A passage is as many whole sentences as have so many words, and at least one."""
MAX_PASSAGES: Final = 256
"""The passages of an enormous text are longer, so that there are no more of them."""


def passages_of(text: str) -> list[str]:
    """A text in passages of whole sentences, in order; together they are the text."""
    words = len(text.split())
    if words <= WHOLE_WORDS:
        return [text]
    limit = max(PASSAGE_WORDS, -(-2 * words // MAX_PASSAGES))
    passages, taken, size = list[str](), list[str](), 0
    for sentence in sentences_of(text):
        for piece, count in _bounded(sentence, limit):
            if taken and size + count > limit:
                passages.append("".join(taken))
                taken, size = [], 0
            taken.append(piece)
            size += count
    return [*passages, "".join(taken)]


def _bounded(sentence: str, limit: int) -> list[tuple[str, int]]:
    """A sentence with its number of words, cut if it is too long for one passage."""
    words = sentence.split()
    if len(words) <= 2 * limit:
        return [(sentence, len(words))]
    return [
        (" ".join(words[start : start + limit]) + " ", min(limit, len(words) - start))
        for start in range(0, len(words), limit)
    ]
