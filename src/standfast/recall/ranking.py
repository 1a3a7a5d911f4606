"""Ranking: multiplies the scores of rows by boosts and trust, leaves out what may not be chosen, and orders the rest.

It serves every controller after ``phase6-v1``, whatever its scores come from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from standfast.recall.filters import Choice
from standfast.recall.index_view import IndexView
from standfast.recall.indexed_record import SPEAKER_WORD, SUBJECT_WORD
from standfast.recall.item_trust import (
    FULL_CEILING,
    TRUST_TENTHS,
    Flags,
    Numbers,
    SmallNumbers,
    ceilings,
    is_at_least,
    is_unreviewed,
    is_untrusted,
    trust_tenths,
)
from standfast.recall.packing import NAMED_TENTHS, Placed
from standfast.recall.query_dates import FULL_FIT, QueryDate, date_quarters

RANKED_AT_ONCE: Final = 1_024
ORDERED_AT_ONCE: Final = 256
_LEADING_BITS: Final = 12
_HIGHEST: Final = (1 << 62) - 1
"""More than any score."""


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

    Only what is asked for is looked at: first the rows with the best scores before boosts, then more of them, as far as one that was not
    looked at could come before one that was.

    Args:
        words: The words of the query, which may name subjects and speakers.
        dates: The dates in the query.
        base: A score for each slot of the view, before boosts; those with 0 do not match.
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
                yield Placed(slots[place], rows[place], rank, scores[place], named, quarters, sizes[place])

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
        beside = self._untrusted_beside(rows, codes, may_be_chosen)
        left_out["untrusted_beside"] = int(beside.sum())
        may_be_chosen &= ~beside
        slots, rows, codes = slots[may_be_chosen], rows[may_be_chosen], codes[may_be_chosen]
        scores = self._base[slots]
        named = view.named_by(self._words, SUBJECT_WORD, rows) | view.named_by(
            self._words, SPEAKER_WORD, rows
        )
        scores = np.where(named, scores * NAMED_TENTHS // 10, scores)
        quarters = np.zeros(len(rows), dtype=np.int64)
        if self._dates:
            quarters = date_quarters(self._dates, view.days(rows))
        scores = scores * (4 + quarters) // 4 * trust_tenths(codes) // 10
        scores = scores * ceilings(codes, view.times(rows), self._now) // FULL_CEILING
        return _ScoredRows(
            slots, rows, scores, named, quarters, is_untrusted(codes), view.sizes(rows)
        ), left_out

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

    def _untrusted_beside(self, rows: SmallNumbers, codes: Numbers, may_be_chosen: Flags) -> Flags:
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
    """A score above 0 that at least so many have, or about as many more as share a few leading bits with it."""
    shift = max(0, int(scores.max()).bit_length() - _LEADING_BITS)
    counts = np.bincount(scores >> shift)
    at_least = np.cumsum(counts[::-1])
    return max(1, (len(counts) - 1 - int(np.searchsorted(at_least, size))) << shift)
