"""``lexical-v1``: BM25 in whole numbers over each record and its neighbours, boosts for subjects, speakers and
dates, and trust.

``docs/controllers/lexical-v1.md`` has the formula. A change of any number here changes packages and needs a new
version. ``lexical_scores`` is the scoring of words alone. ``RankedRows`` multiplies any scores by boosts and
trust, leaves out what may not be chosen and orders the rest, so that another controller can bring scores of
its own. ``packing`` makes the package.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from standfast.errors import InvalidValue
from standfast.limits import MAX_QUERY_TERMS
from standfast.recall.analysis import SPEAKER_WORD, SUBJECT_WORD, Analyzer, words_of
from standfast.recall.answers import RecallAnswer, RecordView, vector_of
from standfast.recall.arrays import Flags, Numbers, SmallNumbers
from standfast.recall.dates import FULL_FIT, NO_DAY, QueryDate, date_quarters, dates_in
from standfast.recall.filters import (
    FULL_CEILING,
    TRUST_TENTHS,
    Choice,
    ceilings,
    is_at_least,
    is_unreviewed,
    is_untrusted,
    trust_tenths,
)
from standfast.recall.index.view import IndexView, TermScores
from standfast.recall.packing import NAMED_TENTHS, Packing, RankedRow
from standfast.recall.tokens import TokenCounter
from standfast.records.requests import RecallRequest
from standfast.records.timestamps import DAY_MICROSECONDS, MISSING

LEXICAL_VERSION: Final = "lexical-v1"
BEST_SCORE: Final = 1 << 20
FIELD_SIXTHS: Final = 3
"""What a term in tags, subject, source or speaker counts, in sixths of one in the text."""
RANKED_AT_ONCE: Final = 1_024
ORDERED_AT_ONCE: Final = 256
_LEADING_BITS: Final = 12
_HIGHEST: Final = (1 << 62) - 1
"""More than any score."""


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
        today = None if time == MISSING else datetime.fromordinal(time // DAY_MICROSECONDS + 1).date()
        terms = list(dict.fromkeys(analyzer.terms_of(words)))[:MAX_QUERY_TERMS]
        return cls(words, terms, dates_in(request.query, words, today))


def lexical_scores(terms: Sequence[str], view: IndexView) -> tuple[dict[str, int], Numbers]:
    """Score every slot of a view by the terms of a query.

    Returns:
        The worth of each term that occurs at all (its idf), and a score for each slot: the best has
        ``BEST_SCORE``, those without a term 0.
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


@dataclass(frozen=True, slots=True)
class _ScoredRows:
    """Rows that may be chosen, with what their scores are made of."""

    slots: Numbers
    rows: SmallNumbers
    scores: Numbers
    named: Flags
    quarters: Numbers
    untrusted: Flags
    sizes: Numbers

    def between(self, above: int, most: int) -> Iterator["_ScoredRows"]:
        """Those with scores above one, up to another, the best first: in parts that end where a score does."""
        places = np.flatnonzero((self.scores > above) & (self.scores <= most))
        places = places[np.argsort(-self.scores[places], kind="stable")]
        falling = -self.scores[places]
        start = 0
        while start < len(places):
            # Few answers look at all of them.
            last = min(start + ORDERED_AT_ONCE, len(places)) - 1
            end = int(np.searchsorted(falling, falling[last], "right"))
            yield _ScoredRows(*(getattr(self, name)[places[start:end]] for name in self.__slots__))
            start = end


class RankedRows:
    """Rows that match and may be chosen, the best score first.

    Only what is asked for is looked at: first the rows with the best scores before boosts, then more of them,
    as far as one that was not looked at could come before one that was.

    Args:
        words: The words of the query, which may name subjects and speakers.
        dates: The dates in the query.
        base: A score for each slot of the view, before boosts; those with 0 do not match.
        now: The time that age is measured from, or ``MISSING``.
        most_untrusted: Only so many of the best untrusted rows are kept, so that a flood of them crowds out
            nothing.
    """

    def __init__(
        self,
        words: Sequence[str],
        dates: list[QueryDate],
        view: IndexView,
        base: Numbers,
        *,
        choice: Choice,
        now: int,
        most_untrusted: int,
    ) -> None:
        self._words, self._dates, self._view, self._base = words, dates, view, base
        self._choice, self._now, self._most_untrusted = choice, now, most_untrusted
        self._may_match = view.may_match(choice.where) if choice.where else None
        self.matched = int(np.count_nonzero(base))
        """How many rows match at all."""

    def ordered(self) -> Iterator[RankedRow]:
        """Rows with their ranks, best first: by score, then by record id."""
        rank = untrusted = 0
        for part in self._by_score():
            order = self._by_id(part)
            slots, rows, scores, sizes, is_untrusted_row = (
                column.tolist() for column in (part.slots, part.rows, part.scores, part.sizes, part.untrusted)
            )
            for place in order:
                if is_untrusted_row[place]:
                    untrusted += 1
                    if untrusted > self._most_untrusted:
                        continue
                rank += 1
                named, quarters = bool(part.named[place]), int(part.quarters[place])
                yield RankedRow(slots[place], rows[place], rank, scores[place], named, quarters, sizes[place])

    def _by_id(self, part: _ScoredRows) -> list[int]:
        """The places of rows that are ordered by score, with those of equal score by record id, then by key."""
        order = list(range(len(part.scores)))
        ties = _ties(part.scores)
        tied = [place for first, end in ties for place in range(first, end)]
        names = dict(zip(tied, self._view.index.ids_and_keys(part.rows[tied].tolist()), strict=True))
        for first, end in ties:
            order[first:end] = sorted(order[first:end], key=names.__getitem__)
        return order

    def _by_score(self) -> Iterator[_ScoredRows]:
        """Rows, the best first, in parts that end where a score does."""
        size, highest = RANKED_AT_ONCE, _HIGHEST
        while self.matched > 2 * size:
            least = _least_of_best(self._base, size)
            # The others have lower scores before boosts, and so at most this one after them.
            others = self._most_after_boosts(least - 1)
            scored, _ = self._scored(np.flatnonzero(self._base >= least))
            yield from scored.between(others, highest)
            size, highest = size * 8, others
        scored, _ = self._scored(np.flatnonzero(self._base))
        yield from scored.between(0, highest)

    def _most_after_boosts(self, score: int) -> int:
        """What a score can become at most."""
        prefixed = (prefix + word for word in self._words for prefix in (SUBJECT_WORD, SPEAKER_WORD))
        if any(len(self._view.index.postings(term).rows) for term in prefixed):
            score = score * NAMED_TENTHS // 10
        if self._dates:
            score = score * (4 + FULL_FIT) // 4
        return score * max(TRUST_TENTHS.values()) // 10

    def _scored(self, slots: Numbers) -> tuple[_ScoredRows, dict[str, int]]:
        """Those of some slots that may be chosen, with their scores; and how many may not, by reason."""
        view = self._view
        rows = view.rows[slots]
        codes = view.trust_codes(rows)
        may_be_chosen, left_out = self._may_be_chosen(rows, codes)
        hidden = self._untrusted_to_hide(rows, codes, may_be_chosen)
        left_out["untrusted_beside"] = int(hidden.sum())
        may_be_chosen &= ~hidden
        slots, rows, codes = slots[may_be_chosen], rows[may_be_chosen], codes[may_be_chosen]
        scores = self._base[slots]
        named = view.named_by(self._words, SUBJECT_WORD, rows) | view.named_by(
            self._words, SPEAKER_WORD, rows
        )
        scores = np.where(named, scores * NAMED_TENTHS // 10, scores)
        quarters = np.zeros(len(rows), dtype=np.int64)
        if self._dates:
            times = view.times(rows)
            quarters = date_quarters(
                self._dates, np.where(times == MISSING, NO_DAY, times // DAY_MICROSECONDS + 1)
            )
        scores = scores * (4 + quarters) // 4 * trust_tenths(codes) // 10
        scores = scores * ceilings(codes, view.times(rows), self._now) // FULL_CEILING
        return (
            _ScoredRows(slots, rows, scores, named, quarters, is_untrusted(codes), view.sizes(rows)),
            left_out,
        )

    def _may_be_chosen(self, rows: SmallNumbers, codes: Numbers) -> tuple[Flags, dict[str, int]]:
        """Which of some rows may be chosen, each looked at alone; and how many may not, by reason."""
        choice, left_out = self._choice, dict[str, int]()
        may_be_chosen: Flags = np.ones(len(rows), dtype=np.bool_)
        untrusted = is_untrusted(codes)
        elsewhere = untrusted & ~self._view.is_in(rows, choice.scopes) if untrusted.any() else untrusted
        for reason, may_not in (
            ("unreviewed", ~np.bool_(choice.include_unreviewed) & is_unreviewed(codes)),
            ("untrusted_elsewhere", elsewhere),
            ("least_origin", ~is_at_least(codes, choice.where.least_origin)),
            ("filtered", ~(may_be_chosen if self._may_match is None else self._may_match[rows])),
        ):
            left_out[reason] = int((may_be_chosen & may_not).sum())
            may_be_chosen = may_be_chosen & ~may_not
        return may_be_chosen, left_out

    def _untrusted_to_hide(self, rows: SmallNumbers, codes: Numbers, may_be_chosen: Flags) -> Flags:
        """Untrusted rows that are left out because something else matches: those of scopes that hold anything
        else.

        A scope that holds nothing else was named for what it holds. Whoever asks for
        ``least_origin="untrusted"`` gets all of them.
        """
        untrusted = may_be_chosen & is_untrusted(codes)
        is_asked_for = self._choice.where.least_origin is not None
        if is_asked_for or not untrusted.any() or not self._something_trusted_matches:
            return np.zeros(len(rows), dtype=np.bool_)
        mixed = self._view.scopes_of_trusted.intersection(self._choice.scopes)
        return untrusted & self._view.is_in(rows, mixed)

    @cached_property
    def _something_trusted_matches(self) -> bool:
        """Whether anything that is not untrusted matches and may be chosen."""
        rows = self._view.rows[np.flatnonzero(self._base)]
        codes = self._view.trust_codes(rows)
        may_be_chosen, _ = self._may_be_chosen(rows, codes)
        return bool((may_be_chosen & ~is_untrusted(codes)).any())

    def counts(self) -> tuple[int, dict[str, int]]:
        """How many rows are ranked, and how many match and may not be chosen, by reason."""
        scored, left_out = self._scored(np.flatnonzero(self._base))
        untrusted = int((scored.untrusted & (scored.scores > 0)).sum())
        return int((scored.scores > 0).sum()) - max(0, untrusted - self._most_untrusted), left_out


def _ties(scores: Numbers) -> list[tuple[int, int]]:
    """The beginning and end of each run of equal scores."""
    starts = np.flatnonzero(np.append(True, np.diff(scores) != 0))
    ends = np.append(starts[1:], len(scores))
    is_run = ends - starts > 1
    return list(zip(starts[is_run].tolist(), ends[is_run].tolist(), strict=True))


def _least_of_best(scores: Numbers, size: int) -> int:
    """A lower bound, above 0, for the scores of the ``size`` best slots. It may let a few more through."""
    shift = max(0, int(scores.max()).bit_length() - _LEADING_BITS)
    counts = np.bincount(scores >> shift)
    at_least = np.cumsum(counts[::-1])
    return max(1, (len(counts) - 1 - int(np.searchsorted(at_least, size))) << shift)


class AddedScores(Protocol):
    """What another kind of match adds to the lexical scores of the slots of a view."""

    def given(self, lexical: Numbers) -> Numbers:
        """What to add to each slot."""

    def explained(self, slot: int) -> dict[str, int]:
        """The parts of a slot's score before boosts."""

    def focus(self, slot: int, text: str) -> str:
        """The passage of a slot's text that matches best."""


class LexicalController:
    """``lexical-v1`` as a controller.

    ``tokens`` bounds the whole text, frames included, by the counter in use.
    """

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
            choice=Choice.of(request, now),
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
    ) -> AddedScores | None:
        """What another kind of match adds to the lexical scores; ``lexical-v1`` has none."""
        if vector_of(request) is not None:
            problem = f"{self.version} uses none; ask hybrid-v1, or leave it out"
            raise InvalidValue(what="vector", problem=problem)
        return None
