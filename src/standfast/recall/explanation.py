"""Why a package is what it is: each ranked candidate with what its score is made of, and each bad line with its place.

An explanation stands beside the package and is no part of its bytes or its hash. ``Explained.ceiling`` is for whoever
knows how far a memory may be trusted (``govern.ceilings``); this room leaves it open.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from standfast.recall.fit import Fit, Reason
from standfast.recall.rank import Candidate
from standfast.recall.records import BadLine
from standfast.recall.scoring import HALF_POINT, Question, Score, as_number


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How far a recalled memory may be trusted, and what is wrong with it, in words."""

    confidence: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explained:
    """One candidate: where it ranks, what its score is made of, and what became of it."""

    rank: int
    candidate: Candidate
    score: Score
    dropped: Reason | None
    """Why it was not selected; None if it was."""
    ceiling: Ceiling | None = None

    def as_json(self) -> dict[str, Any]:
        """The explanation as the doors print it."""
        record = self.candidate.record
        told: dict[str, Any] = {
            "rank": self.rank,
            "memory_id": record.memory_id,
            "record_hash": record.record_hash,
            "store_path": self.candidate.store_path,
            "ts_utc": record.ts_utc,
            "score": as_number(self.candidate.score),
            "matched_terms": list(self.score.matched_terms),
            "matched_tags": list(self.score.matched_tags),
            "tag_bonus": as_number(len(self.score.matched_tags) * HALF_POINT),
            "recency_bonus": as_number(self.score.recency),
            "outcome": self.dropped or "selected",
        }
        if self.ceiling is not None:
            told["ceiling"] = {
                "confidence": self.ceiling.confidence,
                "warnings": list(self.ceiling.warnings),
            }
        return told


@dataclass(frozen=True, slots=True)
class StoredFault:
    """A line that holds no record, and the store that it stands in."""

    store_path: str
    line: BadLine

    def as_json(self) -> dict[str, Any]:
        """The fault as the doors print it."""
        return {
            "store_path": self.store_path,
            "place": self.line.place,
            "problem": self.line.fault.value,
            "memory_id": self.line.memory_id,
            "record_hash": self.line.record_hash,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The candidates that were ranked (at least those that could be selected), and the first bad lines."""

    terms: tuple[str, ...]
    items: tuple[Explained, ...]
    faults: tuple[StoredFault, ...]
    counts: dict[str, int]
    """How many were dropped, for each reason."""

    @classmethod
    def of(
        cls,
        question: Question,
        scored: Iterable[tuple[Candidate, Score]],
        fit: Fit,
        faults: Sequence[StoredFault],
        counts: dict[str, int],
    ) -> Self:
        """Explain a ranking and what was made of it."""
        items = [
            Explained(
                rank=rank,
                candidate=candidate,
                score=score,
                dropped=None if rank <= len(fit.selected) else fit.stopped_by,
            )
            for rank, (candidate, score) in enumerate(scored, 1)
        ]
        return cls(question.terms, tuple(items), tuple(faults), counts)

    def with_ceilings(self, ceilings: Sequence[Ceiling | None]) -> Self:
        """The same explanation with a ceiling for each item, in their order."""
        items = tuple(
            replace(item, ceiling=ceiling) for item, ceiling in zip(self.items, ceilings, strict=True)
        )
        return replace(self, items=items)

    def as_json(self) -> dict[str, Any]:
        """The explanation as the doors print it."""
        return {
            "terms": list(self.terms),
            "items": [item.as_json() for item in self.items],
            "faults": [fault.as_json() for fault in self.faults],
            "dropped": self.counts,
        }
