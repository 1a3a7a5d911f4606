"""``lexical-v1``: BM25 in whole numbers over each record and its neighbours, and the passages of long texts.

``docs/controllers/lexical-v1.md`` has the formula. A change of any number changes packages and needs a new
version. ``lexical_scores`` scores by words alone; ``ranking`` multiplies by boosts and orders; ``packing``
makes the package.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast.errors import InvalidValue
from standfast.recall.analysis import MASKED_PASSAGES
from standfast.recall.answers import RecallAnswer, RecordView, reranking_of, vector_of
from standfast.recall.arrays import Flags, Numbers, SmallNumbers
from standfast.recall.excerpts import excerpt_of
from standfast.recall.filters import Choice
from standfast.recall.index.view import IndexView, LexicalView, TermScores
from standfast.recall.newest_first import NewestFirst
from standfast.recall.packing import Packing
from standfast.recall.ranking import SNAPSHOT_BITS, LexicalQuery, RankedRows, SlotScores, reranked_rows
from standfast.recall.rerankers import RERANKED, RERANKED_TEXT_TOKENS, RerankScores
from standfast.recall.tokens import BYTES_PER_TOKEN, EstimatedCounter, TokenCounter
from standfast.records.requests import RecallRequest

LEXICAL_VERSION: Final = "lexical-v1"
BEST_SCORE: Final = 1 << 20
FIELD_SIXTHS: Final = 3
"""What a term in tags, subject, source or speaker counts, in sixths of one in the text."""
SMALL_SCOPE_BUDGETS: Final = 8
"""A scope whose texts have at most so many times the token budget is small: everything in it is ranked."""
NO_RELATED: Final[Mapping[str, int]] = {}
_NO_NUMBERS: Final[Numbers] = np.zeros(0, dtype=np.int64)


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


def lexical_scores(
    terms: Sequence[str], view: IndexView, related: Mapping[str, int] = NO_RELATED
) -> tuple[dict[str, int], Flags, Numbers]:
    """Score every slot of a view by the terms of a query.

    A text of more than 100 words counts by half as a whole and by half by its best passage::

        whole   = sum of BM25 over terms, scaled so that the best slot has 2^20
        passage = 2^20 · sum of idf over the terms in the passage // sum of idf over all terms

    Args:
        related: Terms that mean something alike, and what each counts, in percent of a term of the query.

    Returns:
        The worth of each term that occurs at all (its idf), which slots have one, and a score for each slot.
    """
    totals = np.zeros(view.count)
    weights: dict[str, int] = {}
    for term in terms:
        found = view.term_scores.get(term) or _term_scores(term, view)
        if found.idf is not None:
            weights[term] = found.idf
            totals[found.slots] += found.scores
    shares_word: Flags = totals > 0
    for term, percent in related.items():
        found = view.term_scores.get(term) or _term_scores(term, view)
        # Whole numbers below 2^31, so no quotient is rounded up to a whole number.
        totals[found.slots] += np.floor(found.scores.astype(np.float64) * percent / 100)
    # Sums of whole numbers below 2^53 are exact.
    whole = totals.astype(np.int64)
    scores = whole * BEST_SCORE // max(1, int(whole.max(initial=0)))
    slots, passages = _best_passages(weights, view)
    scores[slots] = (scores[slots] + passages) // 2
    return weights, shares_word, scores


def _best_passages(weights: Mapping[str, int], view: IndexView) -> tuple[Numbers, Numbers]:
    """The slots of long texts with a term of the query, and the score of the best passage of each."""
    found = [
        (weight, postings)
        for term, weight in weights.items()
        if len((postings := view.passages_with(term)).rows)
    ]
    if not found:
        return _NO_NUMBERS, _NO_NUMBERS
    slots = np.unique(np.concatenate([postings.rows for _, postings in found]))
    sums = np.zeros((len(slots), MASKED_PASSAGES), dtype=np.int64)
    bits = np.arange(MASKED_PASSAGES)
    for weight, postings in found:
        has_term = postings.counts[:, np.newaxis] >> bits & 1
        sums[np.searchsorted(slots, postings.rows)] += weight * has_term
    return slots, sums.max(axis=1, initial=0) * BEST_SCORE // max(1, sum(weights.values()))


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

    Floats are faster, and exact: where numerator and denominator together are below 2^53, no quotient is
    rounded up to a whole number.
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


def _parts_with(
    said: RerankScores | None, parts: Callable[[int], dict[str, int]], view: IndexView
) -> Callable[[int], dict[str, int]]:
    """What a slot's score was added up from, and what a reranker said."""
    if said is None:
        return parts

    def with_reranker(slot: int) -> dict[str, int]:
        score = said.scores.get(view.index.keys_of([int(view.rows[slot])])[0])
        return parts(slot) | ({} if score is None else {"reranker": score})

    return with_reranker


class _RankedView(NamedTuple):
    """A question with the records of a view in their order."""

    query: LexicalQuery
    lexical: LexicalView
    scores: SlotScores
    rows: RankedRows
    now: int
    is_small: bool


class LexicalController:
    """``lexical-v1`` as a controller.

    ``tokens`` bounds the whole text, frames included, by the counter in use.
    """

    version = LEXICAL_VERSION

    def answer(self, request: RecallRequest, view: RecordView, counter: TokenCounter) -> RecallAnswer:
        """Rank the records of the view, pack the best, and explain the result."""
        query, lexical, scores, ranking, now, is_small = self._ranked(request, view)
        index, analyzer = lexical.index, lexical.index.index.analyzer
        packing = Packing(
            request,
            scores.weights,
            scores.related,
            analyzer,
            counter,
            now=now,
            scope_bytes=index.size_bytes,
            bounds_others=not is_small,
            asks_for_then=bool(query.dates),
            parts=_parts_with(reranking_of(request), scores.parts, index),
            focus=scores.focus,
            means_alike=scores.means_alike,
        )
        packing.pin(ranking.pinned(), lexical.read)
        packing.stand(ranking.standing(packing.taken_first), lexical.read)
        newest_first = NewestFirst(index, ranking.rows_at, lexical.read, analyzer, query.terms)
        rows = ranking.ordered(packing.taken_first)
        if (said := reranking_of(request)) is not None:
            rows = reranked_rows(rows, said, index)
        packing.take(newest_first.ordered(rows, frozenset(packing.taken_first)), newest_first.read)
        package = packing.package(self.version, ranking.matched, newest_first.said_last)
        return RecallAnswer(package, lambda: packing.explanation(query.terms, *ranking.counts()))

    def _ranked(self, request: RecallRequest, view: RecordView) -> _RankedView:
        lexical = view.lexical()
        index = lexical.index
        query = LexicalQuery.of(request, index.index.analyzer)
        scores, now = self.scores(query, request, view, index), view.now(request)
        is_small = index.size_bytes <= SMALL_SCOPE_BUDGETS * BYTES_PER_TOKEN * request.tokens
        rows = RankedRows(
            query,
            index,
            scores,
            choice=Choice.of(request, now),
            # A question of which nothing can be made ("???") gets the newest, within the share of others.
            ranks_all=is_small or not scores.totals.any(),
            most_untrusted=request.max_items,
        )
        return _RankedView(query, lexical, scores, rows, now, is_small)

    def best_texts(self, request: RecallRequest, view: RecordView) -> dict[str, str]:
        """The texts of the best records, by key, for a reranker: who speaks, and the best sentences."""
        _, lexical, scores, ranking, _, _ = self._ranked(request, view)
        best = list(islice(ranking.ordered(), RERANKED))
        rows = [ranked.row for ranked in best]
        texts: dict[str, str] = {}
        keys = lexical.index.index.keys_of(rows)
        for ranked, key, found in zip(best, keys, lexical.read(rows), strict=True):
            if found is not None:
                text = excerpt_of(
                    found[1].text,
                    scores.weights,
                    lexical.index.index.analyzer,
                    EstimatedCounter().count,
                    RERANKED_TEXT_TOKENS,
                    focus=scores.focus(ranked.slot, found[1].text),
                )
                texts[key] = f"{found[1].speaker}: {text}" if found[1].speaker else text
        return texts

    def scores(
        self,
        query: LexicalQuery,
        request: RecallRequest,
        view: RecordView,  # noqa: ARG002  # For controllers that look at more than words.
        index: IndexView,
    ) -> SlotScores:
        """What the slots of the view score before boosts: here by words alone."""
        if vector_of(request) is not None:
            problem = f"{self.version} uses none; ask hybrid-v1, or leave it out"
            raise InvalidValue(what="vector", problem=problem)
        index.fetch(query.terms, query.words)
        weights, shares_word, scores = lexical_scores(query.terms, index)
        return SlotScores(scores, shares_word, shares_word, weights)


def shares_of_best(scores: Sequence[int]) -> list[float]:
    """Scores of the items of one recall as numbers from 0 to 1, for interfaces that know no others.

    1 is a record that has all that the best match by words and meaning can have, or more (names, roles, dates
    and trust raise a score above that): then the others count as parts of it.
    """
    points = [score >> SNAPSHOT_BITS for score in scores]
    best = max([BEST_SCORE, *points])
    return [one / best for one in points]
