"""Golden packages, and a digest of many more: ``python -m tests.recall.same_bytes`` prints it, under any
Python and numpy.
"""

import hashlib
import json
import sys

from standfast.clock import seeded
from standfast.recall import (
    EstimatedCounter,
    HybridController,
    LexicalController,
    QueryVector,
    RecallRequest,
    RecordView,
    StaticEmbedder,
)
from standfast.recall.analysis import IndexedRecord, analyzer_of
from standfast.recall.answers import EmbeddedRequest
from standfast.recall.index.view import ListedView
from tests.recall import hybrid_vectors, lexical_vectors
from tests.recall.hybrid_vectors import ListedVectors

WORDS = [
    "refund",
    "support",
    "group",
    "Berlin",
    "kitten",
    "harbour",
    "invoice",
    "2023",
    "May",
    "tea",
    "the",
    "of",
    "bus",
    "garden",
    "office",
    "müde",
    "東京",
]


def digest(records: int = 4_000, questions: int = 40) -> str:
    """A digest of packages of a made-up conversation, after the golden packages were found to be what they
    were.
    """
    for one in (hybrid_vectors, lexical_vectors):
        for line in one.FILE.read_text().splitlines():
            case = json.loads(line)
            golden = {"package": case["package"], "text": case["text"]}
            assert one.package_of(case["records"], case["request"]) == golden, case["name"]
    dice = seeded(20261116)
    told = [_record(at, " ".join(dice.choices(WORDS, k=dice.randrange(1, 30)))) for at in range(records)]
    listed, embedder = ListedView([("store", one) for one in told], analyzer_of("english")), StaticEmbedder()
    vectors = ListedVectors(embedder.embed([one.text for one in told]))
    view = RecordView((), lambda: listed, "2026-11-16T00:00:00Z", vectors=lambda: vectors)
    found = hashlib.sha256()
    for number in range(questions):
        query = " ".join(dice.choices([*WORDS, "Ada"], k=1 + number % 6))
        lexical = RecallRequest(query=query, tokens=300 + 100 * number, max_items=50)
        hybrid = EmbeddedRequest(query=query, tokens=500, vector=QueryVector.of(embedder, query))
        for controller, request in ((LexicalController(), lexical), (HybridController(), hybrid)):
            package = controller.answer(request, view, EstimatedCounter()).package
            found.update(package.package_hash.encode() + package.text.encode())
    return found.hexdigest()


def _record(at: int, text: str) -> IndexedRecord:
    return IndexedRecord(
        memory_id=f"m{at * 7919 % 10_007}",
        text=text,
        session=f"s{at // 50}",
        position=at % 50,
        speaker=("Ada", "Bob", None)[at % 3],
        origin=("ordinary", "trusted")[at % 2],
        ts_utc=f"2026-{1 + at // 400 % 12:02}-{1 + at % 28:02}T10:00:00Z",
    )


if __name__ == "__main__":
    sys.stdout.write(digest())
