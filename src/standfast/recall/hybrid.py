"""``hybrid-v1``: ranks by words as ``lexical-v1`` does, and by how alike the vectors of query and record are.

``docs/controllers/hybrid-v1.md`` has the formula.
"""

from typing import Final

import numpy as np

from standfast.errors import InvalidValue
from standfast.recall.answers import RecordView, vector_of
from standfast.recall.arrays import Numbers
from standfast.recall.embedders import passages_of
from standfast.recall.index.view import IndexView
from standfast.recall.lexical import BEST_SCORE, LexicalController
from standfast.recall.vectors import Similarities
from standfast.records.requests import RecallRequest

HYBRID_VERSION: Final = "hybrid-v1"


class VectorScores:
    """What vectors add to the lexical scores of the slots of a view."""

    def __init__(
        self, index: IndexView, similar: Similarities, *, weight_percent: int, floor_percent: int
    ) -> None:
        self._percents, self._best = similar.percents, similar.best
        self._floor_percent = floor_percent
        borrowed = np.maximum(index.mean_with_neighbours(similar.dots, similar.has), 0)
        best = max(1, int(borrowed.max(initial=0)))
        self._scores: Numbers = borrowed * BEST_SCORE // best * weight_percent // 100
        self._lexical: Numbers = np.zeros(len(borrowed), dtype=np.int64)

    def given(self, lexical: Numbers) -> Numbers:
        """What to add to each slot. One without a word of the query needs a similarity of its own."""
        self._lexical = lexical
        self._scores = np.where((lexical > 0) | (self._percents >= self._floor_percent), self._scores, 0)
        return self._scores

    def explained(self, slot: int) -> dict[str, int]:
        """The parts of a slot's score before boosts."""
        return {
            "lexical": int(self._lexical[slot]),
            "vector": int(self._scores[slot]),
            "similarity": int(self._percents[slot]),
        }

    def focus(self, slot: int, text: str) -> str:
        """The passage that is most like the query."""
        passages = passages_of(text)
        return passages[min(int(self._best[slot]), len(passages) - 1)]


class HybridController(LexicalController):
    """``hybrid-v1`` as a controller: ranks by words and vectors, and packs as ``lexical-v1`` does."""

    version = HYBRID_VERSION

    def added_scores(self, request: RecallRequest, view: RecordView, index: IndexView) -> VectorScores | None:
        """The scores of the vectors that the view has."""
        vector = vector_of(request)
        if vector is None:
            problem = (
                f"{self.version} needs an embedder; open memory with embedder=StaticEmbedder(), or set"
                ' embedder = "static" in standfast.toml'
            )
            raise InvalidValue(what="embedder", problem=problem)
        vectors = view.vectors(vector.embedder)
        if vectors is None:
            return None
        return VectorScores(
            index,
            vectors.similarities(index, vector.numbers),
            weight_percent=vector.weight_percent,
            floor_percent=vector.floor_percent,
        )
