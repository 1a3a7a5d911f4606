"""``lexical-v1``: windowed BM25 in whole numbers, boosts for subjects, speakers and dates, and trust; and ``hybrid-v1``, which adds vectors.

``docs/controllers/`` has their formulas. A change of any number here changes packages and needs a new version.
``lexical_scores`` is the scoring of words alone. ``ranking`` multiplies any scores by boosts and trust and orders them, so that another
controller can bring scores of its own, and ``packing`` makes the package.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt

from standfast.errors import InvalidValue
from standfast.limits import MAX_QUERY_TERMS
from standfast.recall.analysis import Analyzer, words_of
from standfast.recall.controller import RecallAnswer, RecallRequest, RecordView
from standfast.recall.excerpts import passages_of
from standfast.recall.index_view import IndexView, TermScores
from standfast.recall.item_trust import Numbers, SmallNumbers
from standfast.recall.packing import Packing
from standfast.recall.query_dates import QueryDate, dates_in
from standfast.recall.ranking import RankedRows
from standfast.recall.timestamps import MISSING
from standfast.recall.tokens import TokenCounter
from standfast.recall.vectors import Similarities

LEXICAL_VERSION: Final = "lexical-v1"
BEST_SCORE: Final = 1 << 20
FIELD_SIXTHS: Final = 3
"""What a term in tags, subject, source or speaker counts, in sixths of one in the text."""


def log2_fixed(numerator: int, denominator: int, bits: int = 16) -> int:
    """``floor(2^bits * log2(numerator / denominator))``, by repeated squaring of whole numbers."""
    whole = numerator.bit_length() - denominator.bit_length()
    if (numerator << max(0, -whole)) < (denominator << max(0, whole)):
        whole -= 1
    result, scale = whole << bits, 1 << 62
    mantissa = (numerator << max(0, -whole)) * scale // (denominator << max(0, whole))
    for bit in range(bits - 1, -1, -1):
        mantissa = mantissa * mantissa // scale
        if mantissa >= 2 * scale:
            mantissa //= 2
            result |= 1 << bit
    return result


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """A query as ``lexical-v1`` reads it."""

    words: list[str]
    terms: list[str]
    dates: list[QueryDate]

    @classmethod
    def of(cls, request: RecallRequest, analyzer: Analyzer) -> "LexicalQuery":
        """The query of a request."""
        words = words_of(request.query)
        time = request.now
        today = None if time == MISSING else datetime.fromordinal(time // 86_400_000_000 + 1).date()
        terms = list(dict.fromkeys(analyzer.terms_of(words)))[:MAX_QUERY_TERMS]
        return cls(words, terms, dates_in(request.query, words, today))


def lexical_scores(terms: Sequence[str], view: IndexView) -> tuple[dict[str, int], Numbers]:
    """Score every slot of a view by the terms of a query.

    Returns:
        The worth of each term that occurs at all (its idf), and a score for each slot: the best has ``BEST_SCORE``, those without a term 0.
    """
    totals = np.zeros(view.count)
    weights: dict[str, int] = {}
    for term in terms:
        found = view.term_scores.get(term) or _term_scores(term, view)
        if found.idf is not None:
            weights[term] = found.idf
            totals[found.slots] += found.scores
    # Sums of whole numbers below 2^53 are exact.
    scores = totals.astype(np.int64)
    return weights, scores * BEST_SCORE // max(1, int(scores.max(initial=0)))


def _term_scores(term: str, view: IndexView) -> TermScores:
    slots, sixths = view.term(term, FIELD_SIXTHS)
    if count := int(np.count_nonzero(sixths)):
        idf = log2_fixed(2 * view.count + 2, 2 * count + 1)
        found = TermScores(idf, slots, _bm25(idf, sixths, view.norms[slots]).astype(np.float32))
    else:
        found = TermScores(None, slice(0), np.zeros(0, dtype=np.float32))
    view.term_scores.put(term, found, len(found.scores) + 16)
    return found


def _bm25(idf: int, sixths: SmallNumbers, norms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``idf · 22 · T6 · 1024 // (10240 · T6 + norm)`` for each number of sixths, and 0 where there are none.

    Floats are faster, and exact: where numerator and denominator together are below 2^53, no quotient is rounded up to a whole number.
    """
    most, factor = int(sixths.max()), idf * 22 * 1024
    if factor * most + 10240 * most + int(norms.max()) >= 1 << 53:
        exact, whole = sixths.astype(np.int64), norms.astype(np.int64)
        quotients: Numbers = factor * exact // np.maximum(1, 10240 * exact + whole)
        return quotients.astype(np.float64)
    frequencies = sixths.astype(np.float64)
    denominators = 10240 * frequencies
    denominators += norms
    np.maximum(denominators, 1, out=denominators)
    frequencies *= factor
    frequencies /= denominators
    return np.floor(frequencies, out=frequencies)


class LexicalController:
    """``lexical-v1`` as a controller. ``tokens`` bounds the whole text, frames included, by the counter in use."""

    version = LEXICAL_VERSION

    def answer(self, request: RecallRequest, view: RecordView, counter: TokenCounter) -> RecallAnswer:
        """Rank the records of the view, pack the best, and explain the result."""
        lexical = view.lexical()
        analyzer = lexical.index.index.analyzer
        query = LexicalQuery.of(request, analyzer)
        lexical.index.fetch(query.terms, query.words)
        weights, scores = lexical_scores(query.terms, lexical.index)
        added = self.added_scores(request, view, lexical.index)
        if added is not None:
            scores = scores + added.given(scores)
        now = view.now(request)
        ranking = RankedRows(
            query.words,
            query.dates,
            lexical.index,
            scores,
            choice=request.choice(now),
            now=now,
            most_untrusted=request.max_items,
        )
        packing = Packing(
            request,
            weights,
            analyzer,
            counter,
            now=now,
            asks_for_then=bool(query.dates),
            parts=added.explained if added else None,
            focus=added.focus if added else None,
        )
        packing.take(ranking.ordered(), lexical.read)
        package = packing.package(self.version, ranking.matched)
        return RecallAnswer(package, lambda: packing.explanation(query.terms, *ranking.counts()))

    def added_scores(
        self,
        request: RecallRequest,
        view: RecordView,  # noqa: ARG002  # For controllers that add something.
        index: IndexView,  # noqa: ARG002  # As above.
    ) -> "VectorScores | None":
        """What another kind of match adds to the lexical scores; ``lexical-v1`` has none."""
        if request.vector is not None:
            problem = f"{self.version} uses none; ask hybrid-v1, or leave it out"
            raise InvalidValue(what="vector", problem=problem)
        return None


HYBRID_VERSION: Final = "hybrid-v1"


class VectorScores:
    """What vectors add to the lexical scores of the slots of a view."""

    def __init__(
        self, index: IndexView, similar: Similarities, *, weight_percent: int, floor_percent: int
    ) -> None:
        self._percents, self._best = similar.percents, similar.best
        self._floor_percent = floor_percent
        lent = np.maximum(index.spread(similar.dots, similar.has), 0)
        best = max(1, int(lent.max(initial=0)))
        self._scores: Numbers = lent * BEST_SCORE // best * weight_percent // 100
        self._lexical: Numbers = np.zeros(len(lent), dtype=np.int64)

    def given(self, lexical: Numbers) -> Numbers:
        """What to add to each slot. One without a word of the query needs a similarity of its own."""
        self._lexical = lexical
        self._scores = np.where((lexical > 0) | (self._percents >= self._floor_percent), self._scores, 0)
        return self._scores

    def explained(self, slot: int) -> dict[str, int]:
        """The parts of a slot's score before boosts."""
        return {
            "lexical": int(self._lexical[slot]),
            "vector": int(self._scores[slot]),
            "similarity": int(self._percents[slot]),
        }

    def focus(self, slot: int, text: str) -> str:
        """The passage that is most like the query."""
        passages = passages_of(text)
        return passages[min(int(self._best[slot]), len(passages) - 1)]


class HybridController(LexicalController):
    """``hybrid-v1`` as a controller: ranks by words and vectors, and packs as ``lexical-v1`` does."""

    version = HYBRID_VERSION

    def added_scores(self, request: RecallRequest, view: RecordView, index: IndexView) -> VectorScores | None:
        """The scores of the vectors that the view has."""
        vector = request.vector
        if vector is None:
            problem = (
                f'{self.version} needs an embedder; open memory with embedder=StaticEmbedder(), or set embedder = "static" '
                "in standfast.toml"
            )
            raise InvalidValue(what="embedder", problem=problem)
        vectors = view.vectors(vector.embedder)
        if vectors is None:
            return None
        return VectorScores(
            index,
            vectors.similarities(index, vector.numbers),
            weight_percent=vector.weight_percent,
            floor_percent=vector.floor_percent,
        )
