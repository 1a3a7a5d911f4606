"""Which records are selected, by ``phase6-v1``: their scores, their order, and what fits the token budget.

A score is a number of points: one for each term in the text, half a point for each term among the tags, and
up to one for recency. Scores are counted in millionths, so sums and orders are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from standfast.recall.candidates import Candidate
from standfast.recall.request import MemoryControllerInput, collapsed, normal_text
from standfast.recall.tokens import BYTES_PER_TOKEN, EstimatedCounter
from standfast.records.canon import lowered
from standfast.records.timestamps import MISSING, POINT, recency
from standfast.records.vocabulary import Budget

OFFERED_AT_ONCE: Final = 64
HALF_POINT: Final = POINT // 2
ESTIMATOR: Final = EstimatedCounter()
"""The contract's estimator: a quarter of the UTF-8 bytes, rounded up."""


@dataclass(frozen=True, slots=True)
class ScoredQuery:
    """What a request looks for, in the form in which records are compared with it."""

    terms: tuple[str, ...]
    counts_tags: bool
    now: int | None
    """The time that age is measured from; None where recency does not count."""
    half_life_days: int

    @classmethod
    def of(cls, request: MemoryControllerInput) -> Self:
        """What this request looks for."""
        scoring = request.scoring
        return cls(
            terms=request.terms,
            counts_tags=scoring.enable_tag_overlap,
            now=request.now if scoring.enable_recency_weight else None,
            half_life_days=scoring.recency_half_life_days,
        )

    def score(self, candidate: Candidate) -> "RecordScore":
        """Compare one record with the query."""
        text = normal_text(candidate.text)
        return RecordScore(
            matched_terms=tuple([term for term in self.terms if term in text]),
            matched_tags=tuple([term for term in self.terms if self.counts_tags and term in candidate.tags]),
            recency=self.recency(candidate.time),
        )

    def recency(self, time: int) -> int:
        """What the age of a record adds to its score, in millionths."""
        return 0 if self.now is None else recency(time, self.now, self.half_life_days)


@dataclass(frozen=True, slots=True)
class RecordScore:
    """What a record's score is made of."""

    matched_terms: tuple[str, ...]
    matched_tags: tuple[str, ...]
    recency: int

    @property
    def total(self) -> int:
        """The score in millionths."""
        return (2 * len(self.matched_terms) + len(self.matched_tags)) * HALF_POINT + self.recency


def as_number(millionths: int) -> float:
    """Millionths as the number that a package shows. It is exact, because it has at most six decimals."""
    return millionths / POINT


class RankedCandidate:
    """A record with its score and its place in the order."""

    __slots__ = ("_hash", "candidate", "score", "store_path")

    def __init__(self, candidate: Candidate, store_path: str, score: int) -> None:
        self.candidate = candidate
        self.store_path = store_path
        self.score = score
        self._hash = ""

    @property
    def memory_id(self) -> str:
        """The id of the record."""
        return self.candidate.memory_id

    @property
    def record_hash(self) -> str:
        """The hash of the record, computed once."""
        if not self._hash:
            self._hash = self.candidate.record_hash
        return self._hash

    def __lt__(self, other: "RankedCandidate") -> bool:
        """The last two keys of the order, for candidates that are equal in all others."""
        # Texts with the same hash may still differ in their Unicode form, which an excerpt keeps.
        return (self.record_hash, self.candidate.text) < (other.record_hash, other.candidate.text)


class Ranking:
    """The best candidates of all that were offered, in order.

    The order is: score, then newest first, then store path, id and hash, so no two records tie.

    Args:
        limit: How many are kept; None keeps all.
    """

    def __init__(self, query: ScoredQuery, limit: int | None) -> None:
        self._query = query
        self._limit = limit
        self._entries: list[tuple[int, int, str, str, RankedCandidate]] = []
        self._words = tuple(term for term in query.terms if " " not in term)
        # White space is collapsed only in texts that have the longest word of a phrase.
        self._phrases = [(max(term.split(" "), key=len), term) for term in query.terms if " " in term]
        self._tag_terms = frozenset(query.terms if query.counts_tags else ())
        # What a candidate needs to be among the best: half points, and score with time.
        self._bar = 0
        self._worst = (-1, MISSING)

    def offer(self, candidates: Sequence[Candidate], store_path: str) -> None:
        """Add the candidates that may be among the best."""
        for start in range(0, len(candidates), OFFERED_AT_ONCE):
            self._offer_some(candidates[start : start + OFFERED_AT_ONCE], store_path)

    def _offer_some(self, candidates: Sequence[Candidate], store_path: str) -> None:
        # Most terms are in few records. What none of these has is not looked for in each.
        texts = lowered("\n".join([candidate.text for candidate in candidates]))
        words = [word for word in self._words if word in texts]
        phrases = [(word, phrase) for word, phrase in self._phrases if word in texts]
        tags = set[str]().union(*[candidate.written_tags or () for candidate in candidates])
        term_of_tag = {tag: term for tag in tags if (term := lowered(tag)) in self._tag_terms}
        for candidate in candidates:
            half_points = 0
            if words or phrases:
                text = lowered(candidate.text)
                for word in words:
                    if word in text:
                        half_points += 2
                for word, phrase in phrases:
                    if word in text and phrase in collapsed(text):
                        half_points += 2
            if term_of_tag and candidate.written_tags:
                half_points += len({term_of_tag.get(tag) for tag in candidate.written_tags} - {None})
            if half_points >= self._bar:
                self._add(candidate, store_path, half_points)

    def _add(self, candidate: Candidate, store_path: str, half_points: int) -> None:
        time = candidate.time
        score = half_points * HALF_POINT + self._query.recency(time)
        if (score, time) < self._worst:
            return
        ranked = RankedCandidate(candidate, store_path, score)
        self._entries.append((-score, -time, store_path, candidate.memory_id, ranked))
        if self._limit is not None and len(self._entries) > 2 * self._limit:
            self._drop_the_rest(self._limit)

    def _drop_the_rest(self, limit: int) -> None:
        """Keep only the best, and raise the bar to what a candidate needs to be among them."""
        self._entries.sort()
        del self._entries[limit:]
        score, time = self._entries[-1][:2]
        self._worst = (-score, -time)
        # Recency adds at most a point, which is two half points.
        self._bar = -(score // HALF_POINT) - (0 if self._query.now is None else 2)

    def best(self) -> list[RankedCandidate]:
        """The candidates that were kept, best first."""
        self._entries.sort()
        return [entry[-1] for entry in self._entries[: self._limit]]


class DropReason(StrEnum):
    """Why a record was not selected."""

    INVALID = "invalid_record_schema"
    DENIED = "trust_denied"
    BUDGET = "budget_exhausted"
    ITEMS = "max_items_reached"


@dataclass(frozen=True, slots=True)
class FittedExcerpt:
    """A candidate that was selected, with what is shown of it."""

    ranked: RankedCandidate
    excerpt: str
    excerpt_tokens: int


@dataclass(frozen=True, slots=True)
class Fit:
    """What was selected, what it costs, and why selection stopped, if it did before the end."""

    selected: tuple[FittedExcerpt, ...]
    used_tokens: int
    stopped_by: DropReason | None


def excerpt_of(text: str, max_tokens: int) -> str:
    """The start of a text, stripped of white space, cut before the code point that would not fit whole."""
    stripped = text.strip()
    encoded = stripped.encode()
    max_bytes = max_tokens * BYTES_PER_TOKEN
    return stripped if len(encoded) <= max_bytes else encoded[:max_bytes].decode(errors="ignore")


def per_item_tokens(budget: Budget) -> int:
    """How many tokens one excerpt may cost."""
    limit = budget.per_item_max_excerpt_tokens
    return budget.max_excerpt_tokens if limit is None else min(limit, budget.max_excerpt_tokens)


def fit(candidates: Sequence[RankedCandidate], budget: Budget) -> Fit:
    """Select from ordered candidates, up to the first that would overflow the budget or ``max_items``."""
    selected: list[FittedExcerpt] = []
    used, stopped_by = 0, None
    for ranked in candidates:
        if len(selected) == budget.max_items:
            stopped_by = DropReason.ITEMS
            break
        excerpt = excerpt_of(ranked.candidate.text, per_item_tokens(budget))
        cost = ESTIMATOR.count(excerpt)
        if used + cost > budget.max_excerpt_tokens:
            stopped_by = DropReason.BUDGET
            break
        selected.append(FittedExcerpt(ranked, excerpt, cost))
        used += cost
    return Fit(tuple(selected), used, stopped_by)
