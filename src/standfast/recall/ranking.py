"""Ranking: multiplies the scores of rows by boosts and trust, leaves out what may not be chosen, and orders the rest.

It serves every controller after ``phase6-v1``, whatever its scores come from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from standfast.recall.filters import Choice
from standfast.recall.index_view import IndexView
from standfast.recall.indexed_record import SPEAKER_WORD, SUBJECT_WORD
from standfast.recall.item_trust import (
    FULL_CEILING,
    TRUST_TENTHS,
    Flags,
    Numbers,
    ceilings,
    is_at_least,
    is_unreviewed,
    is_untrusted,
    trust_tenths,
)
from standfast.recall.packing import NAMED_TENTHS, Placed
from standfast.recall.query_dates import FULL_FIT, QueryDate, date_quarters

RANKED_AT_ONCE: Final = 1_024
_LEADING_BITS: Final = 12
_HIGHEST: Final = (1 << 62) - 1
"""More than any score."""


class _ScoredRow(NamedTuple):
    """One of ``_ScoredRows``."""

    rows: int
    scores: int
    named: bool
    quarters: int
    untrusted: bool
    sizes: int


@dataclass(frozen=True, slots=True)
class _ScoredRows:
    """Rows that may be chosen, with what their scores are made of."""

    rows: Numbers
    scores: Numbers
    named: Flags
    quarters: Numbers
    untrusted: Flags
    sizes: Numbers

    def ordered(self, above: int, most: int) -> Iterator[list["_ScoredRow"]]:
        """Those with scores above one, up to another: rows of equal score together, the best first."""
        places = np.flatnonzero((self.scores > above) & (self.scores <= most))
        places = places[np.argsort(-self.scores[places], kind="stable")]
        falling = -self.scores[places]
        start = 0
        while start < len(places):
            # Few answers look at all of them. A chunk ends where a score does.
            last = min(start + RANKED_AT_ONCE, len(places)) - 1
            end = int(np.searchsorted(falling, falling[last], "right"))
            chunk = places[start:end]
            columns = (getattr(self, name)[chunk].tolist() for name in _ScoredRow._fields)
            for _, tied in groupby(map(_ScoredRow._make, zip(*columns, strict=True)), attrgetter("scores")):
                yield list(tied)
            start = end


class RankedRows:
    """Rows that match and may be chosen, the best score first.

    Only what is asked for is looked at: first the rows with the best scores before boosts, then more of them, as far as one that was not
    looked at could come before one that was.

    Args:
        words: The words of the query, which may name subjects and speakers.
        dates: The dates in the query.
        base: A score for each row of the view, before boosts; rows with 0 do not match.
        now: The time that age is measured from, or ``MISSING``.
        most_untrusted: Only so many of the best untrusted rows are kept, so that a flood of them crowds out nothing.
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

    def ordered(self) -> Iterator[Placed]:
        """Rows with their ranks, best first: by score, then by record id."""
        rank = untrusted = 0
        for tied in self._by_score():
            order = self._view.index.by_id([one.rows for one in tied]) if len(tied) > 1 else (0,)
            for row, score, named, quarters, is_untrusted_row, size in (tied[place] for place in order):
                untrusted += is_untrusted_row
                if not is_untrusted_row or untrusted <= self._most_untrusted:
                    rank += 1
                    yield Placed(row, rank, score, named, quarters, size)

    def _by_score(self) -> Iterator[list[_ScoredRow]]:
        """Rows of equal score, the best first."""
        size, highest = RANKED_AT_ONCE, _HIGHEST
        while self.matched > 2 * size:
            least = _least_of_best(self._base, size)
            # The others have lower scores before boosts, and so at most this one after them.
            others = self._most_after_boosts(least - 1)
            scored, _ = self._scored(np.flatnonzero(self._base >= least))
            yield from scored.ordered(others, highest)
            size, highest = size * 8, others
        scored, _ = self._scored(np.flatnonzero(self._base))
        yield from scored.ordered(0, highest)

    def _most_after_boosts(self, score: int) -> int:
        """What a score can become at most."""
        prefixed = (prefix + word for word in self._words for prefix in (SUBJECT_WORD, SPEAKER_WORD))
        if any(len(self._view.index.postings(term).rows) for term in prefixed):
            score = score * NAMED_TENTHS // 10
        if self._dates:
            score = score * (4 + FULL_FIT) // 4
        return score * max(TRUST_TENTHS.values()) // 10

    def _scored(self, rows: Numbers) -> tuple[_ScoredRows, dict[str, int]]:
        """Those of some rows that may be chosen, with their scores; and how many may not, by reason."""
        view = self._view
        codes = view.trust_codes(rows)
        may_be_chosen, left_out = self._may_be_chosen(rows, codes)
        beside = self._untrusted_beside(rows, codes, may_be_chosen)
        left_out["untrusted_beside"] = int(beside.sum())
        may_be_chosen &= ~beside
        rows, codes = rows[may_be_chosen], codes[may_be_chosen]
        scores = self._base[rows]
        named = view.named_by(self._words, SUBJECT_WORD, rows) | view.named_by(
            self._words, SPEAKER_WORD, rows
        )
        scores = np.where(named, scores * NAMED_TENTHS // 10, scores)
        quarters = date_quarters(self._dates, view.days(rows))
        scores = scores * (4 + quarters) // 4 * trust_tenths(codes) // 10
        scores = scores * ceilings(codes, view.times(rows), self._now) // FULL_CEILING
        return _ScoredRows(rows, scores, named, quarters, is_untrusted(codes), view.sizes(rows)), left_out

    def _may_be_chosen(self, rows: Numbers, codes: Numbers) -> tuple[Flags, dict[str, int]]:
        """Which of some rows may be chosen, each looked at alone; and how many may not, by reason."""
        choice, left_out = self._choice, dict[str, int]()
        may_be_chosen: Flags = np.ones(len(rows), dtype=np.bool_)
        for reason, may_not in (
            ("unreviewed", ~np.bool_(choice.include_unreviewed) & is_unreviewed(codes)),
            ("untrusted_elsewhere", is_untrusted(codes) & ~self._view.is_in(rows, choice.scopes)),
            ("least_origin", ~is_at_least(codes, choice.where.least_origin)),
            ("filtered", ~(may_be_chosen if self._may_match is None else self._may_match[rows])),
        ):
            left_out[reason] = int((may_be_chosen & may_not).sum())
            may_be_chosen = may_be_chosen & ~may_not
        return may_be_chosen, left_out

    def _untrusted_beside(self, rows: Numbers, codes: Numbers, may_be_chosen: Flags) -> Flags:
        """Untrusted rows that are left out because something else matches: those of scopes that hold anything else.

        A scope that holds nothing else was named for what it holds. Whoever asks for ``least_origin="untrusted"`` gets all of them.
        """
        untrusted = may_be_chosen & is_untrusted(codes)
        is_asked_for = self._choice.where.least_origin is not None
        if is_asked_for or not untrusted.any() or not self._something_else_matches:
            return np.zeros(len(rows), dtype=np.bool_)
        mixed = self._view.scopes_of_trusted.intersection(self._choice.scopes)
        return untrusted & self._view.is_in(rows, mixed)

    @cached_property
    def _something_else_matches(self) -> bool:
        """Whether anything that is not untrusted matches and may be chosen."""
        rows = np.flatnonzero(self._base)
        codes = self._view.trust_codes(rows)
        may_be_chosen, _ = self._may_be_chosen(rows, codes)
        return bool((may_be_chosen & ~is_untrusted(codes)).any())

    def counts(self) -> tuple[int, dict[str, int]]:
        """How many rows are ranked, and how many match and may not be chosen, by reason."""
        scored, left_out = self._scored(np.flatnonzero(self._base))
        untrusted = int((scored.untrusted & (scored.scores > 0)).sum())
        return int((scored.scores > 0).sum()) - max(0, untrusted - self._most_untrusted), left_out


def _least_of_best(scores: Numbers, size: int) -> int:
    """A score above 0 that at least so many have, or about as many more as share a few leading bits with it."""
    shift = max(0, int(scores.max()).bit_length() - _LEADING_BITS)
    counts = np.bincount(scores >> shift)
    at_least = np.cumsum(counts[::-1])
    return max(1, (len(counts) - 1 - int(np.searchsorted(at_least, size))) << shift)
