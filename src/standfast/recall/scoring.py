"""How well one record answers a question: the definition, on one record at a time. ``rank`` finds the best of many.

A score is a number of points: one for each term in the text, half a point for each term among the tags, and up to one
for recency. Scores are counted in millionths, so that sums and orders are exact.
"""

from dataclasses import dataclass
from typing import Final, Self

from standfast.recall.moments import POINT, recency
from standfast.recall.records import Record
from standfast.recall.request import MemoryControllerInput
from standfast.recall.wording import normal_wording

HALF_POINT: Final = POINT // 2


@dataclass(frozen=True, slots=True)
class Question:
    """What a request looks for, in the form in which records can be compared with it."""

    terms: tuple[str, ...]
    counts_tags: bool
    now: int | None
    """From when age is measured; None where recency does not count."""
    half_life_days: int

    @classmethod
    def of(cls, request: MemoryControllerInput) -> Self:
        """What this request looks for."""
        return cls(
            terms=request.terms,
            counts_tags=request.scoring.enable_tag_overlap,
            now=request.now if request.measures_recency else None,
            half_life_days=request.scoring.recency_half_life_days,
        )

    def recency_of(self, moment: int) -> int:
        """What the age of a record adds to its score, in millionths."""
        return 0 if self.now is None else recency(moment, self.now, self.half_life_days)


@dataclass(frozen=True, slots=True)
class Score:
    """What a record's score is made of."""

    matched_terms: tuple[str, ...]
    matched_tags: tuple[str, ...]
    recency: int

    @property
    def total(self) -> int:
        """The score in millionths."""
        return (2 * len(self.matched_terms) + len(self.matched_tags)) * HALF_POINT + self.recency


def score_of(record: Record, question: Question) -> Score:
    """Compare one record with a question."""
    wording, tags = normal_wording(record.text), record.tags if question.counts_tags else ()
    return Score(
        matched_terms=tuple([term for term in question.terms if term in wording]),
        matched_tags=tuple([term for term in question.terms if term in tags]),
        recency=question.recency_of(record.moment),
    )


def as_number(millionths: int) -> float:
    """A count of millionths as the number that a package shows; exact, because it has six decimals at most."""
    return millionths / POINT
