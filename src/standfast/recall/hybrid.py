"""``hybrid-v1``: ranks by words as ``lexical-v1`` does, by words that mean something alike, and by how alike
the vectors of query and record are.

``docs/controllers/hybrid-v1.md`` has the formula. It is what recall uses unless another controller is named.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

import numpy as np

from standfast.recall.analysis import NO_LANGUAGE, Analyzer, passages_of
from standfast.recall.answers import RecordView, vector_of
from standfast.recall.arrays import Numbers
from standfast.recall.embedders import related_words
from standfast.recall.index.view import IndexView
from standfast.recall.lexical import BEST_SCORE, LexicalController, lexical_scores
from standfast.recall.ranking import LexicalQuery, SlotScores
from standfast.records.requests import RecallRequest

HYBRID_VERSION: Final = "hybrid-v1"
RELATED_TERMS: Final = 5
"""For each word of a query, so many words that mean something alike count, if they occur."""
RELATED_WEIGHT_PERCENT: Final = 30
"""What a related word counts, in percent of its cosine."""


class HybridController(LexicalController):
    """``hybrid-v1`` as a controller: ranks by words and meaning, and packs as ``lexical-v1`` does."""

    version = HYBRID_VERSION

    def scores(
        self, query: LexicalQuery, request: RecallRequest, view: RecordView, index: IndexView
    ) -> SlotScores:
        """What the slots of the view score before boosts, by words and by vectors.

        The sum of two scaled numbers: the score of words, and the weight of the embedder times the mean of
        each slot's dot product with those of its neighbours.
        """
        analyzer = index.index.analyzer
        related = related_terms(query, analyzer)
        index.fetch(query.terms, query.words, (term for of_word in related for term, _ in of_word))
        occurring = _occurring(related, index)
        index.fetch(occurring)
        weights, shares_word, lexical = lexical_scores(query.terms, index, occurring)
        vector = vector_of(request)
        vectors = None if vector is None else view.vectors()
        if vector is None or vectors is None:
            return SlotScores(lexical, shares_word, shares_word, weights, occurring)
        similar = vectors.similarities(index, vector)
        borrowed: Numbers = np.maximum(index.mean_with_neighbours(similar.dots, similar.has), 0)
        best = max(1, int(borrowed.max(initial=0)))
        by_vector = borrowed * BEST_SCORE // best * vector.weight_percent // 100

        def parts(slot: int) -> dict[str, int]:
            return {
                "lexical": int(lexical[slot]),
                "vector": int(by_vector[slot]),
                "similarity": similar.percent(slot),
            }

        def focus(slot: int, text: str) -> str:
            passages = passages_of(text)
            return passages[min(similar.best(slot), len(passages) - 1)]

        def means_alike(slot: int) -> bool:
            return bool(similar.dots[slot] > 0)

        is_match, totals = shares_word | similar.is_alike, lexical + by_vector
        return SlotScores(totals, shares_word, is_match, weights, occurring, parts, focus, means_alike)


def related_terms(query: LexicalQuery, analyzer: Analyzer) -> list[list[tuple[str, int]]]:
    """For each word of a query, terms that mean something alike and what each counts in percent, the most
    alike first. No term of the query is among them.
    """
    if analyzer.language == NO_LANGUAGE:
        return []
    known = set(query.terms)
    return [
        [(term, percent) for term, percent in _related_to(word, analyzer) if term not in known]
        for word in dict.fromkeys(query.words)
    ]


@lru_cache(maxsize=1 << 12)
def _related_to(word: str, analyzer: Analyzer) -> tuple[tuple[str, int], ...]:
    """The terms that mean something like a word, and what each counts; none for a function word."""
    if not analyzer.terms_of([word]):
        return ()
    found: dict[str, int] = {}
    for other, cosine in related_words(word):
        for term in analyzer.terms_of([other]):
            found.setdefault(term, RELATED_WEIGHT_PERCENT * cosine // 100)
    return tuple(found.items())


def _occurring(related: Sequence[Sequence[tuple[str, int]]], index: IndexView) -> dict[str, int]:
    """The first few terms of each word that occur in the view, with the most that each counts."""
    kept: dict[str, int] = {}
    for of_word in related:
        occurring = ((term, percent) for term, percent in of_word if index.has_term(term))
        for term, percent in islice(occurring, RELATED_TERMS):
            kept[term] = max(kept.get(term, 0), percent)
    return kept
