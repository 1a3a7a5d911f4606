"""What a controller is given, and what it gives: requests, the records of a snapshot, answers and why they
are what they are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import msgspec

from standfast.recall.analysis import DEFAULT_LANGUAGE, IndexedRecord, analyzer_of
from standfast.recall.candidates import BadLine, Candidate
from standfast.recall.embedders import QueryVector
from standfast.recall.index.view import LexicalView, ListedView
from standfast.recall.jsonl import Source
from standfast.recall.package import ContextPackage, RecallPackage
from standfast.recall.rerankers import RerankScores
from standfast.recall.selection import HALF_POINT, DropReason, RankedCandidate, RecordScore, as_number
from standfast.recall.vectors import VectorView
from standfast.records.origins import Origin
from standfast.records.requests import RecallRequest
from standfast.records.timestamps import time_of

Package = ContextPackage | RecallPackage
"""What recall returns: ``phase6-v1`` gives the contract's package, later controllers give a
``RecallPackage``.
"""


class EmbeddedRequest(RecallRequest, frozen=True, kw_only=True):
    """A request with what models said about it: the vector of its query, and the scores of a reranker.

    A memory makes it; a replay takes both from the package.
    """

    vector: QueryVector | None = None
    reranking: RerankScores | None = None
    is_replay: bool = False
    """Whether models are not to be asked again."""


def vector_of(request: RecallRequest) -> QueryVector | None:
    """The vector of a request's query, if it has one."""
    return request.vector if isinstance(request, EmbeddedRequest) else None


def with_vector(request: RecallRequest, vector: QueryVector) -> EmbeddedRequest:
    """The same request with the vector of its query."""
    return EmbeddedRequest(**{**msgspec.structs.asdict(request), "vector": vector})


def reranking_of(request: RecallRequest) -> RerankScores | None:
    """What a reranker said about the best records, if one was asked."""
    return request.reranking if isinstance(request, EmbeddedRequest) else None


def with_reranking(request: RecallRequest, scores: RerankScores) -> EmbeddedRequest:
    """The same request with the scores of a reranker."""
    return EmbeddedRequest(**{**msgspec.structs.asdict(request), "reranking": scores})


class RecordView:
    """The records that one snapshot shows in the bands that were asked for. It is read-only.

    Args:
        sources: One for each band, in the order of the request; or a function that gives them, called when
            they are first needed.
        lexical: Gives the index of these records for ``lexical-v1``; by default made from the sources.
        instant: When the snapshot was committed, in ISO 8601, for age if the request names no time.
        vectors: Gives the vectors of these records, for ``hybrid-v1``.
    """

    def __init__(
        self,
        sources: Sequence[Source] | Callable[[], Sequence[Source]],
        lexical: Callable[[], LexicalView] | None = None,
        instant: str | None = None,
        vectors: Callable[[], VectorView] | None = None,
    ) -> None:
        self._sources = sources
        self._lexical = lexical
        self._instant = instant
        self._vectors = vectors

    def now(self, request: RecallRequest) -> int:
        """The time that age is measured from: the request's, or else that of the snapshot's commit;
        ``MISSING`` without either.
        """
        return request.now if self._instant is None or request.now_utc is not None else time_of(self._instant)

    @property
    def sources(self) -> tuple[Source, ...]:
        """One source for each band."""
        if callable(self._sources):
            self._sources = self._sources()
        return tuple(self._sources)

    def records(self) -> Iterator[tuple[str, Candidate]]:
        """Yield every record with the path of its source. Rows that hold no record are left out."""
        for source in self.sources:
            for batch in source.batches():
                for record in batch:
                    if isinstance(record, Candidate):
                        yield source.store_path, record

    def lexical(self) -> LexicalView:
        """The index of these records."""
        if self._lexical is not None:
            return self._lexical()
        return ListedView(
            ((path, _indexed(one)) for path, one in self.records()), analyzer_of(DEFAULT_LANGUAGE)
        )

    def vectors(self) -> VectorView | None:
        """The vectors of these records; None if the view has none."""
        return None if self._vectors is None else self._vectors()


def _indexed(candidate: Candidate) -> IndexedRecord:
    return IndexedRecord(
        memory_id=candidate.memory_id,
        text=candidate.text,
        ts_utc=candidate.ts_utc,
        tags=candidate.tags,
        refs=tuple(candidate.refs),
    )


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How far a recalled memory may be trusted, and why not further."""

    confidence: float
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The ceiling as commands and servers print it."""
        return {"confidence": self.confidence, "warnings": list(self.warnings)}


@dataclass(frozen=True, slots=True)
class ExplainedItem:
    """One candidate: its rank, what its score is made of, and what became of it."""

    rank: int
    ranked: RankedCandidate
    score: RecordScore
    dropped: DropReason | None
    """Why it was not selected; None if it was."""
    ceiling: Ceiling | None = None
    """Filled in by ``govern``; controllers leave it empty."""

    @property
    def memory_id(self) -> str:
        """The id of the record."""
        return self.ranked.memory_id

    @property
    def store_path(self) -> str:
        """The store that the record is in."""
        return self.ranked.store_path

    def as_json(self) -> dict[str, Any]:
        """The item as commands and servers print it."""
        plain: dict[str, Any] = {
            "rank": self.rank,
            "memory_id": self.ranked.memory_id,
            "record_hash": self.ranked.record_hash,
            "store_path": self.ranked.store_path,
            "ts_utc": self.ranked.candidate.ts_utc,
            "score": as_number(self.ranked.score),
            "matched_terms": list(self.score.matched_terms),
            "matched_tags": list(self.score.matched_tags),
            "tag_bonus": as_number(len(self.score.matched_tags) * HALF_POINT),
            "recency_bonus": as_number(self.score.recency),
            "outcome": self.dropped or "selected",
        }
        return plain if self.ceiling is None else {**plain, "ceiling": self.ceiling.as_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMatch:
    """One candidate of a controller after ``phase6-v1``: its rank, its score's parts, and its fate.

    Attributes:
        matched: The query's terms in the record, and the weight of each (its idf, in 1/65536 bits).
        boosts: What the score was multiplied by: ``named`` (the query names its subject or speaker),
            ``role`` (the query asks about what the user, or the assistant, said), ``date``, ``trust``, and
            ``ceiling`` (its ceiling, but for age, as a share of the highest).
        parts: What ``hybrid-v1`` added up before boosts: ``lexical``, ``vector``, and the ``similarity`` in
            percent; and ``reranker``, what a reranker said, in millionths. Empty for ``lexical-v1`` alone.
        why: Why it is there, in a word for each reason: ``pinned``, ``words`` (its own text or labels have a
            word of the query), ``meaning`` (its own text is alike, or has a word that means something alike),
            ``neighbours`` (only what stands next to it in the conversation has), ``speaker``, ``date``,
            ``newest``.
        outcome: ``selected``, or why it was passed over.
        verdict: The judge's decision about the record.
        trust: ``law``, or how far its origin is trusted.
        ceiling: How far it may be trusted, and why not further.
    """

    rank: int
    memory_id: str
    record_hash: str
    store_path: str
    ts_utc: str | None
    score: int
    matched: dict[str, int]
    boosts: dict[str, float]
    parts: dict[str, int]
    outcome: str
    why: tuple[str, ...] = ()
    verdict: str | None = None
    trust: str = Origin.ORDINARY.value
    ceiling: Ceiling | None = None

    def as_json(self) -> dict[str, Any]:
        """The item as commands and servers print it."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.parts:
            del plain["parts"]
        plain["why"] = list(self.why)
        if plain.pop("ceiling") is not None and self.ceiling is not None:
            plain["ceiling"] = self.ceiling.as_json()
        return plain


@dataclass(frozen=True, slots=True)
class LineFault:
    """A line that holds no record, and the store that it is in."""

    store_path: str
    line: BadLine

    def as_json(self) -> dict[str, Any]:
        """The fault as commands and servers print it."""
        return {
            "store_path": self.store_path,
            "place": self.line.place,
            "problem": self.line.fault.value,
            "memory_id": self.line.memory_id,
            "record_hash": self.line.record_hash,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a package is what it is. It is no part of the package's bytes or hash."""

    terms: tuple[str, ...]
    items: tuple[ExplainedItem | ExplainedMatch, ...]
    """The candidates that were ranked, in order: at least all that were selected."""
    faults: tuple[LineFault, ...]
    """The first lines that hold no record."""
    counts: dict[str, int]
    """How many records were dropped, for each reason."""

    def with_ceilings(self, ceilings: Sequence[Ceiling | None]) -> Self:
        """The same explanation with a ceiling for each item that has none, in their order."""
        pairs = zip(self.items, ceilings, strict=True)
        items = (replace(item, ceiling=item.ceiling or ceiling) for item, ceiling in pairs)
        return replace(self, items=tuple(items))

    def as_json(self) -> dict[str, Any]:
        """The explanation as commands and servers print it."""
        return {
            "terms": list(self.terms),
            "items": [item.as_json() for item in self.items],
            "faults": [fault.as_json() for fault in self.faults],
            "dropped": self.counts,
        }


class RecallAnswer:
    """A package, and why it is what it is.

    Args:
        explanation: May be a function, which is called when the explanation is first asked for.
    """

    def __init__(self, package: Package, explanation: Explanation | Callable[[], Explanation]) -> None:
        self.package = package
        self._explanation = explanation

    def with_package(self, package: Package) -> Self:
        """The same answer with another package."""
        return type(self)(package, self._explanation)

    @property
    def explanation(self) -> Explanation:
        """Why the package is what it is."""
        if not isinstance(self._explanation, Explanation):
            self._explanation = self._explanation()
        return self._explanation
