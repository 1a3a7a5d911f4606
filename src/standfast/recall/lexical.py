"""``lexical-v1``: BM25 in whole numbers over each record and its neighbours, boosts for subjects, speakers
and dates, and trust.

``docs/controllers/lexical-v1.md`` has the formula. A change of any number here changes packages and needs a
new
version. ``lexical_scores`` is the scoring of words alone. ``RankedRows`` multiplies any scores by boosts and
trust, leaves out what may not be chosen and orders the rest, so that another controller can bring scores of
its own. ``packing`` makes the package.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast.errors import InvalidValue
from standfast.limits import MAX_QUERY_TERMS
from standfast.recall.analysis import (
    MASKED_PASSAGES,
    SPEAKER_WORD,
    SUBJECT_WORD,
    Analyzer,
    SpeakerRole,
    words_of,
)
from standfast.recall.answers import RecallAnswer, RecordView, reranking_of, vector_of
from standfast.recall.arrays import Flags, Numbers, SmallNumbers
from standfast.recall.dates import (
    FULL_FIT,
    NO_DAY,
    QueryDate,
    date_quarters,
    dates_in,
    named_dates,
)
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
from standfast.recall.index.view import IndexView, LexicalView, TermScores
from standfast.recall.newest_first import NewestFirst
from standfast.recall.packing import NAMED_TENTHS, ROLE_TENTHS, SNAPSHOT_BITS, Packing, RankedRow, excerpt_of
from standfast.recall.rerankers import RERANKED, RERANKED_TEXT_TOKENS, RerankScores
from standfast.recall.tokens import BYTES_PER_TOKEN, EstimatedCounter, TokenCounter
from standfast.recall.word_lists import word_sections
from standfast.records.requests import RecallRequest
from standfast.records.timestamps import DAY_MICROSECONDS, MISSING, day_of

LEXICAL_VERSION: Final = "lexical-v1"
BEST_SCORE: Final = 1 << 20
FIELD_SIXTHS: Final = 3
"""What a term in tags, subject, source or speaker counts, in sixths of one in the text."""
SMALL_SCOPE_BUDGETS: Final = 8
"""A scope whose texts have at most so many times the token budget is small: everything in it is ranked."""
RANKED_AT_ONCE: Final = 1_024
ORDERED_AT_FIRST: Final = 32
"""Few answers look at more rows than this; each later part has twice as many as the one before."""
_LEADING_BITS: Final = 12
NO_RELATED: Final[Mapping[str, int]] = {}
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
    """A query as ``lexical-v1`` reads it.

    Attributes:
        words: Its words, folded, which may name subjects and speakers.
        terms: Its terms, each once.
        dates: The dates that it names.
        role: Whose messages it asks about.
    """

    words: list[str]
    terms: list[str]
    dates: list[QueryDate]
    role: SpeakerRole = SpeakerRole.NONE

    @classmethod
    def of(cls, request: RecallRequest, analyzer: Analyzer) -> "LexicalQuery":
        """The query of a request."""
        words = words_of(request.query)
        today = None if request.now == MISSING else day_of(request.now)
        terms = list(dict.fromkeys(analyzer.terms_of(words)))[:MAX_QUERY_TERMS]
        return cls(words, terms, dates_in(request.query, words, today), asked_role(words, analyzer.language))


def asked_role(words: Sequence[str], language: str) -> SpeakerRole:
    """Whose messages a question is about, by its pronouns.

    "What did you suggest" asks about the assistant, "where do I live" about the user, and "your plan" about
    the assistant, unless something is asked to be done: "can you explain".
    """
    sections = word_sections("askers")
    said, user, assistant, request = (
        sections.get(f"{language} {kind}", ()) for kind in ("said", "user", "assistant", "request")
    )
    spoken = {*words, *map("_".join, pairwise(words))}
    if not spoken.isdisjoint(said):
        return SpeakerRole.ASSISTANT
    if not spoken.isdisjoint(user):
        return SpeakerRole.USER
    is_about_assistant = spoken.isdisjoint(request) and not spoken.isdisjoint(assistant)
    return SpeakerRole.ASSISTANT if is_about_assistant else SpeakerRole.NONE


@dataclass(frozen=True, slots=True)
class SlotScores:
    """What the slots of a view score before boosts, and why.

    Attributes:
        totals: The score of each slot.
        shares_word: Which slots share a word with the query, themselves or by a neighbour.
        is_match: Which do, or are alike enough in meaning.
        weights: The terms of the query that occur, and what each is worth (its idf).
        related: Terms that mean something alike, and what each counts in percent.
        parts: Says what a slot's score was added up from.
        focus: Gives the passage of a slot's text that matches best, if words alone do not say.
    """

    totals: Numbers
    shares_word: Flags
    is_match: Flags
    weights: dict[str, int]
    related: Mapping[str, int] = field(default_factory=dict)
    parts: Callable[[int], dict[str, int]] = lambda _: {}
    focus: Callable[[int, str], str] = lambda _, __: ""


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
    found = [(weight, view.passages_with(term)) for term, weight in weights.items()]
    slots = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *(postings.rows for _, postings in found)]))
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


@dataclass(frozen=True, slots=True)
class _ScoredRows:
    """Rows that may be chosen, with what their scores are made of."""

    slots: Numbers
    rows: SmallNumbers
    scores: Numbers
    named: Flags
    asked_role: Flags
    quarters: Numbers
    shares_word: Flags
    untrusted: Flags
    sizes: Numbers

    def between(self, above: int, most: int) -> Iterator["_ScoredRows"]:
        """Those with scores above one, up to another, the best first: in parts that end where a score
        does.
        """
        places = np.flatnonzero((self.scores > above) & (self.scores <= most))
        places = places[np.argsort(-self.scores[places], kind="stable")]
        falling = -self.scores[places]
        start, size = 0, ORDERED_AT_FIRST
        while start < len(places):
            last = min(start + size, len(places)) - 1
            end = int(np.searchsorted(falling, falling[last], "right"))
            yield _ScoredRows(*(getattr(self, name)[places[start:end]] for name in self.__slots__))
            start, size = end, 2 * size

    def ranked(self) -> list[RankedRow]:
        """Each row with what its score is made of; ranks are still to be given."""
        columns = (
            self.slots,
            self.rows,
            np.zeros_like(self.rows),
            self.scores,
            self.named,
            self.asked_role,
            self.quarters,
            self.shares_word,
            self.sizes,
        )
        return [RankedRow(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


class RankedRows:
    """The rows of a view that may be chosen, the best score first.

    The score of a row is::

        points = total · 16/10 if the query names its subject or speaker · 16/10 if the query asks about its
        role
                 · (4 + q)/4 for dates · trust/10 · ceiling
        score  = points · 2^28 + the snapshot that wrote it

    each step rounded down. So of two rows with equal points the newer one comes first. In a small scope, or
    if no row has points, rows without points are ranked too: after the others, what the user said first, the
    newest first.

    Only what is asked for is looked at: first the rows with the best totals, then more of them, as far as one
    that was not looked at could come before one that was.

    Args:
        ranks_all: Whether rows without points are ranked too.
        most_untrusted: Only so many of the best untrusted rows are kept, so that a flood of them crowds out
            nothing.
    """

    def __init__(
        self,
        query: LexicalQuery,
        view: IndexView,
        scores: SlotScores,
        *,
        choice: Choice,
        ranks_all: bool,
        most_untrusted: int,
    ) -> None:
        self._query, self._view, self._scores = query, view, scores
        self._base = scores.totals
        self._choice, self._most_untrusted, self._ranks_all = choice, most_untrusted, ranks_all
        self._may_match = view.may_match(choice.where) if choice.where else None
        self._date_names = named_dates(query.dates)
        self.matched = int(np.count_nonzero(scores.is_match))
        """How many rows match at all."""
        self._ranked = view.count if ranks_all else int(np.count_nonzero(self._base))

    def pinned(self) -> Iterator[RankedRow]:
        """The pinned rows that may be chosen, the newest first."""
        slots = self._view.pinned
        if not len(slots):
            return
        for rank, row in enumerate(self.rows_at(slots), 1):
            yield row._replace(rank=rank)

    def rows_at(self, slots: Numbers) -> list[RankedRow]:
        """Those of some slots that may be chosen, with their scores; ranks are still to be given."""
        part, _ = self._scored(slots)
        return part.ranked()

    def ordered(self, first_rank: int = 1, without: Collection[int] = ()) -> Iterator[RankedRow]:
        """Rows with their ranks, best first: by score, then by record id.

        Args:
            without: Rows to leave out, because they were taken already.
        """
        rank, untrusted = first_rank - 1, 0
        for part in self._by_score():
            order = self._by_id(part)
            ranked = part.ranked()
            is_untrusted_row = part.untrusted.tolist()
            for place in order:
                if ranked[place].row in without:
                    continue
                if is_untrusted_row[place]:
                    untrusted += 1
                    if untrusted > self._most_untrusted:
                        continue
                rank += 1
                yield ranked[place]._replace(rank=rank)

    def _by_id(self, part: _ScoredRows) -> list[int]:
        """The places of rows that are ordered by score, with those of equal score by record id, then by
        key.
        """
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
        while self._ranked > 2 * size:
            least = _least_of_best(self._base, size)
            # The others have lower totals, and so at most this score.
            others = (self._most_points(least - 1) + 1 << SNAPSHOT_BITS) - 1
            scored, _ = self._scored(np.flatnonzero(self._base >= least))
            yield from scored.between(others, highest)
            size, highest = size * 8, others
        scored, _ = self._scored(self._all_slots())
        yield from scored.between(-1 if self._ranks_all else (1 << SNAPSHOT_BITS) - 1, highest)

    def _all_slots(self) -> Numbers:
        """The slots that may be ranked at all."""
        return np.arange(self._view.count) if self._ranks_all else np.flatnonzero(self._base)

    def _most_points(self, total: int) -> int:
        """The most points that a total can become."""
        prefixed = (prefix + word for word in self._query.words for prefix in (SUBJECT_WORD, SPEAKER_WORD))
        if any(len(self._view.index.postings(term).rows) for term in prefixed):
            total = total * NAMED_TENTHS // 10
        if self._query.role is not SpeakerRole.NONE:
            total = total * ROLE_TENTHS // 10
        if self._query.dates:
            total = total * (4 + FULL_FIT) // 4
        return total * max(TRUST_TENTHS.values()) // 10

    def _scored(self, slots: Numbers) -> tuple[_ScoredRows, dict[str, int]]:
        """Those of some slots that may be chosen, with their scores; and how many may not, by reason."""
        view = self._view
        rows = view.rows[slots]
        codes = view.trust_codes(rows)
        may_be_chosen, left_out = self._may_be_chosen(rows, codes)
        hidden = self._untrusted_to_hide(slots, codes, may_be_chosen)
        left_out["untrusted_beside"] = int(hidden.sum())
        may_be_chosen &= ~hidden
        slots, rows, codes = slots[may_be_chosen], rows[may_be_chosen], codes[may_be_chosen]
        words = self._query.words
        named = view.named_by(words, SUBJECT_WORD, rows) | view.named_by(words, SPEAKER_WORD, rows)
        roles = view.roles(rows)
        asked_role = (roles == self._query.role) & (roles != SpeakerRole.NONE)
        quarters = self._date_quarters(rows)
        points = self._base[slots]
        points = np.where(named, points * NAMED_TENTHS // 10, points)
        points = np.where(asked_role, points * ROLE_TENTHS // 10, points)
        points = points * (4 + quarters) // 4 * trust_tenths(codes) // 10
        points = points * ceilings(codes) // FULL_CEILING
        if self._ranks_all:
            points = np.maximum(points, roles == SpeakerRole.USER)
        scores = (points << SNAPSHOT_BITS) + np.minimum(view.snapshots(rows), (1 << SNAPSHOT_BITS) - 1)
        shares_word, sizes = self._scores.shares_word[slots], view.sizes(rows)
        return (
            _ScoredRows(
                slots, rows, scores, named, asked_role, quarters, shares_word, is_untrusted(codes), sizes
            ),
            left_out,
        )

    def _date_quarters(self, rows: SmallNumbers) -> Numbers:
        """How well the dates of rows, and those that their texts speak of, fit those of the query."""
        if not self._query.dates:
            return np.zeros(len(rows), dtype=np.int64)
        times = self._view.times(rows)
        days = np.where(times == MISSING, NO_DAY, times // DAY_MICROSECONDS + 1)
        return np.maximum(
            date_quarters(self._query.dates, days), self._view.rows_with_dates(self._date_names, rows)
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

    def _untrusted_to_hide(self, slots: Numbers, codes: Numbers, may_be_chosen: Flags) -> Flags:
        """Untrusted rows that are left out of scopes that also hold other records: all if something else
        matches, and those that do not match themselves.

        A scope that holds nothing else was named for what it holds. Whoever asks for
        ``least_origin="untrusted"`` gets all of them.
        """
        untrusted = may_be_chosen & is_untrusted(codes)
        is_asked_for = self._choice.where.least_origin is not None
        if is_asked_for or not untrusted.any():
            return np.zeros(len(slots), dtype=np.bool_)
        if not self._something_trusted_matches:
            untrusted &= ~self._scores.is_match[slots]
        mixed = self._view.scopes_of_trusted.intersection(self._choice.scopes)
        return untrusted & self._view.is_in(self._view.rows[slots], mixed)

    @cached_property
    def _something_trusted_matches(self) -> bool:
        """Whether anything that is not untrusted matches and may be chosen."""
        rows = self._view.rows[np.flatnonzero(self._scores.is_match)]
        codes = self._view.trust_codes(rows)
        may_be_chosen, _ = self._may_be_chosen(rows, codes)
        return bool((may_be_chosen & ~is_untrusted(codes)).any())

    def counts(self) -> tuple[int, dict[str, int]]:
        """How many rows are ranked, and how many match and may not be chosen, by reason."""
        scored, left_out = self._scored(self._all_slots())
        is_ranked = scored.scores >= (0 if self._ranks_all else 1 << SNAPSHOT_BITS)
        untrusted = int((scored.untrusted & is_ranked).sum())
        return int(is_ranked.sum()) - max(0, untrusted - self._most_untrusted), left_out


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


def _reranked(rows: Iterator[RankedRow], scores: RerankScores, view: IndexView) -> Iterator[RankedRow]:
    """Ranked rows, the best of them ordered by a reranker: by points, then how new each is, then record id.

    Trust counts as it does without a reranker.
    """
    best = list(islice(rows, RERANKED))
    numbers = [ranked.row for ranked in best]
    codes = view.trust_codes(np.array(numbers, dtype=np.int64))
    percents = trust_tenths(codes) * 10 * ceilings(codes) // FULL_CEILING
    above = best[0].score >> SNAPSHOT_BITS if best else 0
    seen, others = [], []
    for ranked, name, percent in zip(best, view.index.ids_and_keys(numbers), percents.tolist(), strict=True):
        points = scores.points_of(name[1], above=above, trust_percent=percent)
        if points is None:
            others.append(ranked)
        else:
            score = points << SNAPSHOT_BITS | ranked.score & ((1 << SNAPSHOT_BITS) - 1)
            seen.append((-score, name, ranked._replace(score=score)))
    ordered = [ranked for _, _, ranked in sorted(seen, key=lambda one: one[:2])] + others
    for rank, ranked in enumerate(ordered, best[0].rank if best else 1):
        yield ranked._replace(rank=rank)
    yield from rows


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
        )
        packing.pin(ranking.pinned(), lexical.read)
        newest_first = NewestFirst(index, ranking.rows_at, lexical.read, analyzer, query.terms)
        rows = ranking.ordered(len(packing.pinned) + 1, packing.pinned)
        if (said := reranking_of(request)) is not None:
            rows = _reranked(rows, said, index)
        packing.take(newest_first.ordered(rows, frozenset(packing.pinned)), newest_first.read)
        package = packing.package(self.version, ranking.matched)
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
