"""Ranking: from what the slots of a view score to rows in their order.

A controller brings scores of its own. ``RankedRows`` multiplies them by boosts and trust, leaves out what may
not be chosen, and orders the rest. ``docs/controllers/lexical-v1.md`` has the formula.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from standfast.limits import MAX_QUERY_TERMS
from standfast.recall.analysis import SPEAKER_WORD, SUBJECT_WORD, Analyzer, IndexedRecord, words_of
from standfast.recall.arrays import Flags, Numbers, SmallNumbers
from standfast.recall.cues import SpeakerRole, asked_role, preference_words
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
from standfast.recall.index.view import IndexView
from standfast.recall.rerankers import RERANKED, RerankScores
from standfast.records.requests import RecallRequest
from standfast.records.timestamps import DAY_MICROSECONDS, MISSING, day_of

SNAPSHOT_BITS: Final = 28
"""The lowest bits of a score say how new a record is: the snapshot that wrote it."""
NAMED_TENTHS: Final = 16
"""What the score is multiplied by, in tenths, where the query names the record's subject or speaker."""
ROLE_TENTHS: Final = 16
"""What the score is multiplied by, in tenths, where the query asks about the speaker's role."""
PREFERENCE_TENTHS: Final = 16
"""What the score is multiplied by, in tenths, where the query asks for advice and the user says what they
prefer.
"""
RANKED_AT_ONCE: Final = 1_024
ORDERED_AT_FIRST: Final = 32
"""Few answers look at more rows than this; each later part has twice as many as the one before."""
_LEADING_BITS: Final = 12
_HIGHEST: Final = (1 << 62) - 1
"""More than any score."""

Reader = Callable[[Sequence[int]], Sequence[tuple[str, IndexedRecord] | None]]
"""Reads the records of rows, with the paths of their stores; None for one that was erased since."""


class RankedRow(NamedTuple):
    """A slot of a view and its row, and what its score is made of."""

    slot: int
    row: int
    score: int
    is_named: bool
    is_asked_role: bool
    is_preference: bool
    """Whether it says what the user prefers, and the query asks for advice."""
    quarters: int
    shares_word: bool
    """Whether it shares a word with the query, itself or by a neighbour."""
    size: int
    """The bytes of its text, or 0 if it has to be read whatever its size."""


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """A query as controllers read it.

    Attributes:
        words: Its words, folded, which may name subjects and speakers.
        terms: Its terms, each once.
        dates: The dates that it names.
        role: Whose messages it asks about.
        preferences: Terms that say what somebody prefers, if it asks for advice.
    """

    words: list[str]
    terms: list[str]
    dates: list[QueryDate]
    role: SpeakerRole = SpeakerRole.NONE
    preferences: frozenset[str] = frozenset()

    @classmethod
    def of(cls, request: RecallRequest, analyzer: Analyzer) -> "LexicalQuery":
        """The query of a request."""
        words = words_of(request.query)
        today = None if request.now == MISSING else day_of(request.now)
        terms = list(dict.fromkeys(analyzer.terms_of(words)))[:MAX_QUERY_TERMS]
        language = analyzer.language
        preferences = frozenset(analyzer.terms_of(list(preference_words(words, language))))
        dates = dates_in(request.query, words, today, language)
        return cls(words, terms, dates, asked_role(words, language), preferences)


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
        means_alike: Says whether the vector of a slot itself is like the query's.
    """

    totals: Numbers
    shares_word: Flags
    is_match: Flags
    weights: dict[str, int]
    related: Mapping[str, int] = field(default_factory=dict)
    parts: Callable[[int], dict[str, int]] = lambda _: {}
    focus: Callable[[int, str], str] = lambda _, __: ""
    means_alike: Callable[[int], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class _ScoredRows:
    """Rows that may be chosen, with what their scores are made of."""

    slots: Numbers
    rows: SmallNumbers
    scores: Numbers
    named: Flags
    asked_role: Flags
    preferred: Flags
    quarters: Numbers
    shares_word: Flags
    untrusted: Flags
    sizes: Numbers

    def between(self, above: int, most: int) -> Iterator["_ScoredRows"]:
        """Those with scores above one, up to another, best first: in parts that end where a score does."""
        places = np.flatnonzero((self.scores > above) & (self.scores <= most))
        while len(places) > 2 * RANKED_AT_ONCE:
            # Few answers look at more, and it is cheaper to find the best than to order all.
            scores = self.scores[places]
            least = np.partition(scores, -RANKED_AT_ONCE)[-RANKED_AT_ONCE]
            yield from self._by_score(places[scores >= least])
            places = places[scores < least]
        yield from self._by_score(places)

    def _by_score(self, places: Numbers) -> Iterator["_ScoredRows"]:
        """Those at some places, best first, in parts that end where a score does."""
        places = places[np.argsort(-self.scores[places], kind="stable")]
        falling = -self.scores[places]
        start, size = 0, ORDERED_AT_FIRST
        while start < len(places):
            last = min(start + size, len(places)) - 1
            end = int(np.searchsorted(falling, falling[last], "right"))
            yield _ScoredRows(*(getattr(self, name)[places[start:end]] for name in self.__slots__))
            start, size = end, 2 * size

    def ranked(self) -> list[RankedRow]:
        """Each row with what its score is made of."""
        columns = (
            self.slots,
            self.rows,
            self.scores,
            self.named,
            self.asked_role,
            self.preferred,
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
                 · 16/10 if the query asks for advice and the user says what they prefer
                 · (4 + q)/4 for dates · trust/10 · ceiling
        score  = points · 2^28 + the snapshot that wrote it

    each step rounded down. So of two rows with equal points the newer one comes first; of one snapshot, what
    was said later. In a small scope, or if no row has points, rows without points are ranked too: after the
    others, what the user said first, the newest first.

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

    def pinned(self) -> list[RankedRow]:
        """The pinned rows that may be chosen, the newest first."""
        slots = self._view.pinned
        return self.rows_at(slots) if len(slots) else []

    def standing(self, without: Collection[int]) -> Iterator[RankedRow]:
        """The rows with a standing instruction that may be chosen, the best first.

        Args:
            without: Rows to leave out, because they were taken already.
        """
        slots = self._view.standing
        if not len(slots):
            return
        part, _ = self._scored(slots)
        for of_score in part.between(-1, _HIGHEST):
            ranked = of_score.ranked()
            for place in self._newest_first(of_score):
                if ranked[place].row not in without:
                    yield ranked[place]

    def rows_at(self, slots: Numbers) -> list[RankedRow]:
        """Those of some slots that may be chosen, with their scores."""
        part, _ = self._scored(slots)
        return part.ranked()

    def ordered(self, without: Collection[int] = ()) -> Iterator[RankedRow]:
        """The rows, best first: by score, then the newest.

        Args:
            without: Rows to leave out, because they were taken already.
        """
        untrusted = 0
        for part in self._by_score():
            order = self._newest_first(part)
            ranked = part.ranked()
            is_untrusted_row = part.untrusted.tolist()
            for place in order:
                if ranked[place].row in without:
                    continue
                if is_untrusted_row[place]:
                    untrusted += 1
                    if untrusted > self._most_untrusted:
                        continue
                yield ranked[place]

    def _newest_first(self, part: _ScoredRows) -> list[int]:
        """The places of rows that are ordered by score, with those of equal score newest first."""
        order = list(range(len(part.scores)))
        ties = _ties(part.scores)
        tied = [place for first, end in ties for place in range(first, end)]
        keys = dict(zip(tied, self._view.newest_order(part.rows[tied].tolist()), strict=True))
        for first, end in ties:
            order[first:end] = sorted(order[first:end], key=keys.__getitem__)
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
        if any(self._rows_by_name.values()):
            total = total * NAMED_TENTHS // 10
        if self._query.role is not SpeakerRole.NONE:
            total = total * ROLE_TENTHS // 10
        if self._query.preferences:
            total = total * PREFERENCE_TENTHS // 10
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
        named = view.is_of_side(self._named_sides, rows)
        for prefix in (SUBJECT_WORD, SPEAKER_WORD):
            named |= view.is_named(self._rows_by_name[prefix], prefix, rows)
        roles = view.roles(rows)
        asked_role = (roles == self._query.role) & (roles != SpeakerRole.NONE)
        preferred = (roles == SpeakerRole.USER) & self._states_preference[slots]
        quarters = self._date_quarters(rows)
        points = self._base[slots]
        points = np.where(named, points * NAMED_TENTHS // 10, points)
        points = np.where(asked_role, points * ROLE_TENTHS // 10, points)
        points = np.where(preferred, points * PREFERENCE_TENTHS // 10, points)
        points = points * (4 + quarters) // 4 * trust_tenths(codes) // 10
        points = points * ceilings(codes) // FULL_CEILING
        if self._ranks_all:
            points = np.maximum(points, roles == SpeakerRole.USER)
        scores = (points << SNAPSHOT_BITS) + np.minimum(view.snapshots(rows), (1 << SNAPSHOT_BITS) - 1)
        shares_word, sizes = self._scores.shares_word[slots], view.sizes(rows)
        boosts = named, asked_role, preferred, quarters
        return _ScoredRows(slots, rows, scores, *boosts, shares_word, is_untrusted(codes), sizes), left_out

    @cached_property
    def _rows_by_name(self) -> dict[str, list[Numbers]]:
        """The rows that have a word of the query in a name, by prefix and word."""
        return self._view.rows_by_name(self._query.words)

    @cached_property
    def _named_sides(self) -> Numbers:
        """The sides of conversations that the query names, though their messages do not."""
        return self._view.addressed(self._query.words)

    @cached_property
    def _states_preference(self) -> Flags:
        """Which slots have a word that says what somebody prefers, if the query asks for advice."""
        states: Flags = np.zeros(self._view.count, dtype=np.bool_)
        for term in self._query.preferences:
            states[self._view.slots_with(term)] = True
        return states

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


def reranked_rows(rows: Iterator[RankedRow], scores: RerankScores, view: IndexView) -> Iterator[RankedRow]:
    """Ranked rows, the best of them ordered by a reranker. Those that it scores alike stay in their order.

    Trust counts as it does without a reranker.
    """
    best = list(islice(rows, RERANKED))
    numbers = [ranked.row for ranked in best]
    codes = view.trust_codes(np.array(numbers, dtype=np.int64))
    percents = trust_tenths(codes) * 10 * ceilings(codes) // FULL_CEILING
    above = best[0].score >> SNAPSHOT_BITS if best else 0
    seen, others = list[tuple[int, int, RankedRow]](), list[RankedRow]()
    keys = view.index.keys_of(numbers)
    for place, (ranked, key, percent) in enumerate(zip(best, keys, percents.tolist(), strict=True)):
        points = scores.points_of(key, above=above, trust_percent=percent)
        if points is None:
            others.append(ranked)
        else:
            seen.append((points, -place, ranked))
    ordered, least = list[RankedRow](), 0
    for points, _, ranked in sorted(seen, key=lambda one: one[:2]):
        # From the last to the first, so that each has more points than the one after it.
        least = max(points, least + 1)
        score = least << SNAPSHOT_BITS | ranked.score & ((1 << SNAPSHOT_BITS) - 1)
        ordered.append(ranked._replace(score=score))
    yield from reversed(ordered)
    yield from others
    yield from rows
