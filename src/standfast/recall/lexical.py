"""``lexical-v1``: windowed BM25 in whole numbers, boosts for subjects, speakers and dates, and trust.

``docs/controllers/lexical-v1.md`` has the formula. A change of any number here changes packages and needs a new version.
``lexical_scores`` is the scoring of words alone; ``RankedRows.of`` multiplies any scores by boosts and trust and orders them, so that
another controller can bring scores of its own. ``packing`` makes the package.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from typing import Final, Protocol

import numpy as np

from standfast.errors import InvalidValue
from standfast.limits import MAX_QUERY_TERMS
from standfast.recall.analysis import Analyzer, words_of
from standfast.recall.controller import RecallAnswer, RecallRequest, RecordView
from standfast.recall.filters import Choice
from standfast.recall.indexed_record import SPEAKER_WORD, SUBJECT_WORD
from standfast.recall.item_trust import (
    FULL_CEILING,
    Flags,
    Numbers,
    ceilings,
    is_at_least,
    is_unreviewed,
    is_untrusted,
    trust_tenths,
)
from standfast.recall.lexical_index import IndexView, LexicalView
from standfast.recall.packing import NAMED_TENTHS, Looked, Packing, Placed
from standfast.recall.query_dates import QueryDate, date_quarters, dates_in
from standfast.recall.timestamps import MISSING
from standfast.recall.tokens import TokenCounter

LEXICAL_VERSION: Final = "lexical-v1"
BEST_SCORE: Final = 1 << 20
FIELD_SIXTHS: Final = 3
"""What a term in tags, subject, source or speaker counts, in sixths of one in the text."""
READ_AT_ONCE: Final = 64
ORDERED_AT_ONCE: Final = 1_024


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
    """Score every row by the terms of a query.

    Returns:
        The worth of each term that occurs at all (its idf), and a score for each row: the best has ``BEST_SCORE``, those without a term 0.
    """
    totals = np.zeros(len(view.shown), dtype=np.int64)
    weights: dict[str, int] = {}
    norms = 72 * 1024 * view.count * view.lengths // max(1, view.total_length)
    for term in terms:
        found, sixths = view.term(term, FIELD_SIXTHS)
        if len(found):
            weights[term] = idf = log2_fixed(2 * view.count + 2, 2 * len(found) + 1)
            totals[found] += idf * 22 * sixths * 1024 // (10240 * sixths + norms[found])
    return weights, totals * BEST_SCORE // max(1, int(totals.max(initial=0)))


@dataclass(frozen=True, slots=True)
class RankedRows:
    """Rows that match and may be chosen, the best score first, with what their scores are made of.

    ``ordered`` orders rows of equal score.
    """

    view: IndexView
    weights: dict[str, int]
    """The worth of each term of the query that occurs at all: its idf."""
    rows: Numbers
    scores: Numbers
    named: Flags
    quarters: Numbers
    matched: int
    """How many rows match at all."""
    left_out: dict[str, int]
    """How many of them may not be chosen, by reason."""
    untrusted: Flags
    most_untrusted: int
    best: int
    """How many of the rows are in order. All that come after them have lower scores, in no order yet."""

    @classmethod
    def of(
        cls,
        query: LexicalQuery,
        view: IndexView,
        weights: dict[str, int],
        base: Numbers,
        *,
        choice: Choice,
        now: int,
        most_untrusted: int,
    ) -> "RankedRows":
        """Multiply the scores of rows by boosts and trust, leave out what may not be chosen, and order the rest.

        Args:
            base: A score for each row of the view; rows with 0 do not match.
            now: The time that age is measured from, or ``MISSING``.
            most_untrusted: Only so many of the best untrusted rows are kept, so that a flood of them crowds out nothing.
        """
        rows = np.flatnonzero(base > 0)
        matched, left_out = len(rows), dict[str, int]()
        codes = view.trust_codes(rows)
        may_be_chosen: Flags = np.ones(len(rows), dtype=np.bool_)
        for reason, may_not in (
            ("unreviewed", ~np.bool_(choice.include_unreviewed) & is_unreviewed(codes)),
            ("untrusted_elsewhere", is_untrusted(codes) & ~view.is_in(rows, choice.scopes)),
            ("least_origin", ~is_at_least(codes, choice.where.least_origin)),
            ("filtered", ~view.may_match(choice.where)[rows]),
        ):
            left_out[reason] = int((may_be_chosen & may_not).sum())
            may_be_chosen &= ~may_not
        may_be_chosen &= ~(beside := _untrusted_beside(view, rows, codes, may_be_chosen, choice))
        left_out["untrusted_beside"] = int(beside.sum())
        rows, codes = rows[may_be_chosen], codes[may_be_chosen]
        scores = base[rows]
        named = (
            view.named_by(query.words, SUBJECT_WORD)[rows] | view.named_by(query.words, SPEAKER_WORD)[rows]
        )
        scores = np.where(named, scores * NAMED_TENTHS // 10, scores)
        quarters = date_quarters(query.dates, view.days(rows))
        scores = scores * (4 + quarters) // 4 * trust_tenths(codes) // 10
        scores = scores * ceilings(codes, view.times(rows), now) // FULL_CEILING
        order = np.flatnonzero(scores > 0)
        untrusted = order[is_untrusted(codes[order])]
        if len(untrusted) > most_untrusted:
            least = np.partition(scores[untrusted], -most_untrusted)[-most_untrusted]
            order = order[~is_untrusted(codes[order]) | (scores[order] >= least)]
        order, best = _best_first(order, scores)
        return cls(
            view=view,
            weights=weights,
            rows=rows[order],
            scores=scores[order],
            named=named[order],
            quarters=quarters[order],
            matched=matched,
            left_out=left_out,
            untrusted=is_untrusted(codes[order]),
            best=best,
            most_untrusted=most_untrusted,
        )

    def ordered(self) -> Iterator[Placed]:
        """Rows with their ranks, best first: by score, then by record id. Only what is asked for is ordered."""
        rank = untrusted = 0
        for tied in self._tied():
            for place in self._by_id(tied):
                untrusted += int(self.untrusted[place])
                if self.untrusted[place] and untrusted > self.most_untrusted:
                    continue
                rank += 1
                yield Placed(
                    row=int(self.rows[place]),
                    rank=rank,
                    score=int(self.scores[place]),
                    is_named=bool(self.named[place]),
                    quarters=int(self.quarters[place]),
                )

    def _tied(self) -> Iterator[Numbers]:
        """Places of equal score, the best first."""
        for start in (0, self.best):
            places = np.arange(start, self.best if start == 0 else len(self.rows))
            if start:
                places = places[np.argsort(-self.scores[places], kind="stable")]
            bounds = [0, *(np.flatnonzero(np.diff(self.scores[places])) + 1).tolist(), len(places)]
            yield from (places[first:end] for first, end in pairwise(bounds) if end > first)
            if self.best == len(self.rows):
                return

    def _by_id(self, places: Numbers) -> Iterator[int]:
        """Places of equal score in the order of their record ids."""
        if len(places) > 1:
            return (int(places[at]) for at in self.view.index.by_id(self.rows[places]))
        return iter(places.tolist())


def _untrusted_beside(
    view: IndexView, rows: Numbers, codes: Numbers, may_be_chosen: Flags, choice: Choice
) -> Flags:
    """Untrusted rows that are left out because something else matches: those of scopes that hold anything else.

    A scope that holds nothing else was named for what it holds. Whoever asks for ``least_origin="untrusted"`` gets all of them.
    """
    untrusted = is_untrusted(codes)
    asked_for = choice.where.least_origin is not None
    if asked_for or not (may_be_chosen & untrusted).any() or not (may_be_chosen & ~untrusted).any():
        return np.zeros(len(rows), dtype=np.bool_)
    shown = np.flatnonzero(view.shown)
    others = shown[~is_untrusted(view.trust_codes(shown))]
    mixed = [scope for scope in choice.scopes if view.is_in(others, [scope]).any()]
    return may_be_chosen & untrusted & view.is_in(rows, mixed)


def _best_first(order: Numbers, scores: Numbers) -> tuple[Numbers, int]:
    """Put the places with the best scores first, in order, and say how many they are. Few answers look at more."""
    best = len(order)
    if best > 2 * ORDERED_AT_ONCE:
        least = np.partition(scores[order], -ORDERED_AT_ONCE)[-ORDERED_AT_ONCE]
        is_best = scores[order] >= least
        best = int(is_best.sum())
        order = np.concatenate([order[is_best], order[~is_best]])
    first = order[:best]
    return np.concatenate([first[np.argsort(-scores[first], kind="stable")], order[best:]]), best


class LexicalController:
    """``lexical-v1`` as a controller. ``tokens`` bounds the whole text, frames included, by the counter in use."""

    version = LEXICAL_VERSION

    def answer(self, request: RecallRequest, view: RecordView, counter: TokenCounter) -> RecallAnswer:
        """Rank the records of the view, pack the best, and explain the result."""
        lexical = view.lexical()
        analyzer = lexical.index.index.analyzer
        query = LexicalQuery.of(request, analyzer)
        weights, scores = lexical_scores(query.terms, lexical.index)
        added = self.added_scores(request, view, lexical.index)
        if added is not None:
            scores = scores + added.given(scores)
        now = view.now(request)
        ranking = RankedRows.of(
            query,
            lexical.index,
            weights,
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
        packing.take(looked_up(ranking, lexical))
        package = packing.package(self.version, ranking.matched)
        return RecallAnswer(
            package, lambda: packing.explanation(query.terms, len(ranking.rows), ranking.left_out)
        )

    def added_scores(
        self,
        request: RecallRequest,
        view: RecordView,  # noqa: ARG002  # For controllers that add something.
        index: IndexView,  # noqa: ARG002  # As above.
    ) -> "AddedScores | None":
        """What another kind of match adds to the lexical scores; ``lexical-v1`` has none."""
        if request.vector is not None:
            problem = f"{self.version} uses none; ask hybrid-v1, or leave it out"
            raise InvalidValue(what="vector", problem=problem)
        return None


class AddedScores(Protocol):
    """Scores from another kind of match."""

    def given(self, lexical: Numbers) -> Numbers:
        """What to add to the lexical score of each row, before boosts. It may bring in rows without a score."""
        ...

    def explained(self, row: int) -> dict[str, int]:
        """What ``explain`` says of a row."""
        ...

    def focus(self, row: int, text: str) -> str:
        """The passage of a row's text that matches best."""
        ...


def looked_up(ranking: RankedRows, view: LexicalView) -> Iterator[Looked]:
    """What matches, best first, read in batches."""
    places = ranking.ordered()
    while batch := list(islice(places, READ_AT_ONCE)):
        found = view.read([placed.row for placed in batch])
        for placed, record in zip(batch, found, strict=True):
            if record is not None:
                yield Looked(placed, *record)
