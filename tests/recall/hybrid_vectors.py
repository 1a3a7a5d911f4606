"""Golden packages of ``hybrid-v1``.

``python -m tests.recall.hybrid_vectors`` writes them anew; only a new version may change one.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from standfast.recall import (
    EstimatedCounter,
    Filter,
    HybridController,
    QueryVector,
    RecordView,
    StaticEmbedder,
)
from standfast.recall.analysis import IndexedRecord, analyzer_of
from standfast.recall.answers import EmbeddedRequest
from standfast.recall.embedders import SignedBytes, percents_of
from standfast.recall.index.view import IndexView, ListedView
from standfast.recall.vectors import Similarities
from tests.recall.lexical_vectors import FACTS, TALK

FILE = Path(__file__).parents[1] / "vectors" / "hybrid-v1.jsonl"
PETS: list[dict[str, Any]] = [
    {"memory_id": "p1", "text": "Ada adopted a kitten last spring.", "ts_utc": "2024-04-02T10:00:00Z"},
    {"memory_id": "p2", "text": "The office closes at six.", "source": {"kind": "doc", "id": "handbook#9"}},
    {"memory_id": "p3", "text": "Bob plays the violin in an orchestra.", "subject": "bob/hobby"},
]
CASES: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("words and vectors", TALK, {"query": "Did Ada run for a good cause?", "tokens": 200}),
    ("a neighbour lends its vector", TALK, {"query": "groups that help people", "tokens": 200}),
    ("no word in common, similar enough", PETS, {"query": "cat", "tokens": 200}),
    ("no word in common, not similar enough", PETS, {"query": "quantum chromodynamics", "tokens": 200}),
    ("a subject that the query names, law, a duplicate and a long record", FACTS, {"query": "EU refunds policy", "tokens": 300}),
    ("a filter", PETS, {"query": "cat or violin music", "tokens": 200, "where": {"subject_prefix": "bob"}}),
    ("only stop words", FACTS, {"query": "what is the", "tokens": 100}),
]  # fmt: skip


class ListedVectors:
    """The vectors of records that are listed, one for each row of their index.

    A row of zeros is a record without one.
    """

    def __init__(self, vectors: SignedBytes) -> None:
        self._vectors = vectors.astype(np.int64)

    def similarities(self, index: IndexView, vector: QueryVector) -> Similarities:
        """How alike the slots are to a query."""
        assert index.size == len(self._vectors), "each row has its vector"
        wanted, vectors = vector.numbers.astype(np.int64), self._vectors[index.rows]
        dots, squares = vectors @ wanted, (vectors**2).sum(axis=1)
        percents = percents_of(dots, squares, int((wanted * wanted).sum()))
        alike = percents >= vector.floor_percent
        return Similarities(
            squares > 0, dots.astype(np.int32), alike, lambda slot: int(percents[slot]), lambda _: 0
        )


def package_of(records: list[dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    """The package of a case, with its text."""
    indexed = [msgspec.convert(one, IndexedRecord) for one in records]
    listed = ListedView([(f"store/{one.band}", one) for one in indexed], analyzer_of("english"))
    embedder = StaticEmbedder()
    vectors = ListedVectors(embedder.embed([one.text for one in indexed]))
    view = RecordView((), lambda: listed, vectors=lambda: vectors)
    asked = EmbeddedRequest(
        **{**request, "where": Filter.of(request.get("where"))},
        vector=QueryVector.of(embedder, request["query"]),
    )
    package = HybridController().answer(asked, view, EstimatedCounter()).package
    return {"package": package.as_json(), "text": package.text}


if __name__ == "__main__":
    lines = [
        json.dumps(
            {"name": name, "records": records, "request": request, **package_of(records, request)},
            ensure_ascii=False,
        )
        for name, records, request in CASES
    ]
    FILE.write_text("\n".join(lines) + "\n")
