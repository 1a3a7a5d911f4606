"""``hybrid-v1``: golden packages, the formula in plain Python, and what it adds to ``lexical-v1``."""

import base64
import json
import math
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import InvalidValue
from standfast.recall import (
    EstimatedCounter,
    HybridController,
    LexicalController,
    QueryVector,
    RecordView,
    to_signed_bytes,
)
from standfast.recall.analysis import IndexedRecord, analyzer_of
from standfast.recall.answers import EmbeddedRequest, with_vector
from standfast.recall.index.view import ListedView
from standfast.recall.lexical import lexical_scores
from standfast.recall.ranking import LexicalQuery
from standfast.records.requests import RecallRequest
from tests.recall.hybrid_vectors import CASES, FILE, PETS, ListedVectors, package_of
from tests.recall.same_bytes import digest
from tests.subprocesses import ROOT, run_python, virtualenv


@pytest.mark.parametrize("line", FILE.read_text().splitlines(), ids=lambda line: json.loads(line)["name"])
def test_golden_packages_are_what_they_were(line: str) -> None:
    case = json.loads(line)

    assert package_of(case["records"], case["request"]) == {"package": case["package"], "text": case["text"]}


def test_there_is_a_golden_package_for_each_case() -> None:
    assert [json.loads(line)["name"] for line in FILE.read_text().splitlines()] == [
        name for name, *_ in CASES
    ]


PYTHONS = ["3.11", "3.12", "3.13", *(["3.14"] if shutil.which("python3.14") else [])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "numpy_version"), [*((one, None) for one in PYTHONS), ("3.11", "2.0.2"), ("3.12", "2.1.3")]
)
def test_every_supported_python_and_older_numpys_give_the_same_packages(
    version: str, numpy_version: str | None, tmp_path: Path
) -> None:
    python = virtualenv(version, tmp_path, *([] if numpy_version is None else [f"numpy=={numpy_version}"]))
    paths = f"{ROOT / 'src'}:{ROOT}"

    assert run_python("-m", "tests.recall.same_bytes", python=python, PYTHONPATH=paths).strip() == digest()


@st.composite
def _situations(draw: st.DrawFn) -> tuple[list[IndexedRecord], Any, Any, int, int]:
    count = draw(st.integers(1, 9))
    records = [
        IndexedRecord(
            memory_id=f"m{at}",
            text=" ".join(draw(st.lists(st.sampled_from(["refund", "office", "cat"]), max_size=3))),
            session=draw(st.sampled_from(["s", "t", None])),
            position=at,
        )
        for at in range(count)
    ]
    seed = draw(st.integers(0, 999))
    random = np.random.default_rng(seed)
    vectors = to_signed_bytes(random.normal(size=(count, 6)))
    vectors[random.random(count) < 0.2] = 0
    query = to_signed_bytes(random.normal(size=6))[0]
    return records, vectors, query, draw(st.integers(0, 200)), draw(st.integers(0, 100))


def _plain_scores(
    records: list[IndexedRecord], vectors: Any, query: Any, *, weight: int, floor: int
) -> list[tuple[int, bool]]:
    """The formula of the document, one number at a time: what the vectors add, and whether a record is alike
    enough to be shown like one that shares a word.
    """
    rows = [[int(n) for n in vector] for vector in vectors]
    q = [int(n) for n in query]
    dots = [sum(a * b for a, b in zip(row, q, strict=True)) for row in rows]
    means = []
    for at, one in enumerate(records):
        total, weights = 6 * dots[at], 6
        for other, sixths in (
            (at + step * side, s) for step, s in ((1, 3), (2, 2), (3, 1)) for side in (-1, 1)
        ):
            # Texts here are short, so a neighbour is always within reach.
            is_near = (
                0 <= other < len(records)
                and one.session is not None
                and records[other].session == one.session
            )
            between = range(min(at, other) + 1, max(at, other))
            if is_near and any(rows[other]) and all(records[i].session == one.session for i in between):
                total, weights = total + sixths * dots[other], weights + sixths
        means.append(max(0, total // weights) if any(rows[at]) else 0)
    best = max([1, *means])
    found = []
    for at, row in enumerate(rows):
        square = sum(n * n for n in row) * sum(n * n for n in q)
        percent = math.isqrt(10_000 * max(0, dots[at]) ** 2 // max(1, square))
        found.append((means[at] * 2**20 // best * weight // 100, percent >= floor))
    return found


@given(_situations())
@settings(max_examples=150)
def test_arrays_give_what_plain_python_gives(situation: Any) -> None:
    records, vectors, numbers, weight, floor = situation
    index = ListedView([("p", one) for one in records], analyzer_of("none")).index
    view = RecordView((), vectors=lambda: ListedVectors(vectors))
    vector = QueryVector(
        embedder="e/1/6",
        weight_percent=weight,
        floor_percent=floor,
        signed_bytes=base64.b64encode(numbers.tobytes()).decode(),
    )
    request = with_vector(RecallRequest(query="cat", tokens=100), vector)
    query = LexicalQuery.of(request, index.index.analyzer)
    found = HybridController().scores(query, request, view, index)
    _, shares_word, lexical = lexical_scores(query.terms, index)
    plain = _plain_scores(records, vectors, numbers, weight=weight, floor=floor)
    slots = index.slot_of.tolist()

    assert [int(found.totals[slot] - lexical[slot]) for slot in slots] == [added for added, _ in plain]
    assert [bool(found.is_match[slot]) for slot in slots] == [
        bool(shares_word[slot]) or is_alike for slot, (_, is_alike) in zip(slots, plain, strict=True)
    ]


def _answered(controller: LexicalController, query: str, **vector: Any) -> Any:
    indexed = [msgspec.convert(one, IndexedRecord) for one in PETS]
    listed = ListedView([("store", one) for one in indexed], analyzer_of("english"))
    view = RecordView((), lambda: listed)
    return controller.answer(EmbeddedRequest(query=query, tokens=200, **vector), view, EstimatedCounter())


def test_without_a_vector_it_ranks_by_words_and_by_words_that_mean_something_alike() -> None:
    package = _answered(HybridController(), "kitten").package

    assert package.items[0].memory_id == "p1"
    assert _answered(HybridController(), "cat").package.items[0].memory_id == "p1", "a cat is like a kitten"


def test_lexical_v1_takes_no_vector() -> None:
    vector = QueryVector(embedder="e/1/2", weight_percent=1, floor_percent=1, signed_bytes="AQI=")
    with pytest.raises(InvalidValue, match="hybrid-v1"):
        _answered(LexicalController(), "cat", vector=vector)


def test_a_view_without_vectors_is_ranked_by_words_alone() -> None:
    vector = QueryVector(embedder="e/1/2", weight_percent=1, floor_percent=1, signed_bytes="AQI=")
    hybrid = _answered(HybridController(), "violin", vector=vector).package
    lexical = _answered(LexicalController(), "violin").package

    assert [(one.memory_id, one.score) for one in hybrid.items] == [
        (one.memory_id, one.score) for one in lexical.items
    ]
    assert hybrid.request.vector == vector
    assert "vector" not in lexical.as_json()["request"]
