"""Vectors in segments: read in a few pieces, the same answers as from the table, erased with their rows."""

import base64
import math
import random
import zlib
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.memory import Memory
from standfast.recall.embedders import (
    QueryVector,
    StaticEmbedder,
    identity_of,
    percents_of,
    to_signed_bytes,
)
from standfast.recall.index import vector_parts
from standfast.recall.index.segment import Segment, expanded, sealed
from standfast.recall.index.upkeep import problems_of_index
from standfast.recall.vectors import is_alike
from standfast.records.vocabulary import Band
from standfast.store.protocol import CHECKSUM_BYTES
from standfast.store.store import Store
from tests.memory.conftest import HANDBOOK
from tests.memory.test_vectors import Failing
from tests.store.builders import memory_store, sqlite_store

FACTS = {
    "ada/pets": "Ada adopted a kitten last spring.",
    "bob/hobby": "Bob plays the violin in an orchestra.",
    "office": "The office closes at six.",
}
LONG = " ".join(f"Turn {number} is about the weather, as always." for number in range(60))
QUESTION = "Who makes music with a cat?"


def _told(store: Store, **options: Any) -> Memory:
    memory = Memory(store, **options)
    for subject, text in FACTS.items():
        memory.remember(text, subject=subject, source=HANDBOOK)
    memory.remember(LONG, subject="long", source=HANDBOOK)
    return memory


def _parts(store: Store) -> dict[tuple[str, str], bytes]:
    """All parts of vectors, expanded."""
    found: dict[tuple[str, str], bytes] = {}
    for head in store.segments.heads():
        segment = Segment(head, store.segments.parts(Segment.needed([head])))
        listed = segment.vector_list(store.segments.parts)
        for embedder in listed.embedders:
            names = [(head.segment_id, name) for name in listed.names(embedder)]
            stored = store.segments.parts(names)
            found |= {name: expanded(name, stored) for name in names}
    return found


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with closing(sqlite_store(tmp_path / "store.db")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_parts, "PIECE_BYTES", 200)


def test_a_process_reads_vectors_from_segments_and_answers_as_from_the_table(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _told(store).recall(QUESTION)
    Memory(store).reader.index.upkeep.rebuild()
    read: list[tuple[int, int]] = []
    between = store.vectors_between

    def noted(namespace: str, first: int, last: int) -> Any:
        read.append((first, last))
        return between(namespace, first, last)

    monkeypatch.setattr(store, "vectors_between", noted)
    fresh = Memory(store)

    assert fresh.recall(QUESTION) == before
    assert read == [], "the segments have them all"
    fresh.remember("Ada sings.", subject="ada/voice", source=HANDBOOK)
    assert fresh.recall("song").items[0].memory_id == "ada/voice"
    assert read[-1] == (5, 5), "a commit is carried along"


def test_what_is_forgotten_leaves_no_byte_of_its_vector_in_a_segment(store: Store) -> None:
    memory = _told(store)
    memory.reader.index.upkeep.rebuild()
    (vector,) = StaticEmbedder().embed([FACTS["bob/hobby"]])
    held = b"".join(part for name, part in sorted(_parts(store).items()) if name[1].count("/") == 2)
    memory.forget("bob/hobby", reason="asked for")
    kept = b"".join(part for name, part in sorted(_parts(store).items()) if name[1].count("/") == 2)

    assert vector.tobytes() in held
    assert vector.tobytes() not in kept
    assert len(kept) == len(held)
    assert list(problems_of_index(store)) == []
    assert "bob/hobby" not in [item.memory_id for item in Memory(store).recall(QUESTION).items]


def test_vectors_that_are_filled_in_after_the_segment_was_made_count_from_then_on(store: Store) -> None:
    embedder = Failing()
    memory = Memory(store, embedder=embedder)
    memory.remember(FACTS["office"], subject="office", source=HANDBOOK)
    embedder.left = 0
    for subject in ("ada/pets", "bob/hobby"):
        memory.remember(FACTS[subject], subject=subject, source=HANDBOOK)
    memory.reader.index.upkeep.rebuild()
    embedder.left = 10**6
    without = Memory(store, embedder=embedder).recall("cat")
    memory.vectors.fill(by="op")
    from_table = Memory(store, embedder=embedder).recall("cat")
    memory.reader.index.upkeep.rebuild()
    from_segments = Memory(store, embedder=embedder).recall("cat")

    assert from_table.items[0].memory_id == "ada/pets"
    assert from_segments == from_table == memory.recall("cat")
    assert Memory(store, embedder=embedder).at(3).recall("cat") == without, "as of then there were none"
    assert list(problems_of_index(store)) == []


@pytest.mark.parametrize("name", ["vectors", "vectors/0", "vectors/0/1"])
def test_a_damaged_part_is_reported_and_changes_no_answer(store: Store, tmp_path: Path, name: str) -> None:
    memory = _told(store)
    before = memory.recall(QUESTION)
    memory.reader.index.upkeep.rebuild()
    connection = apsw.Connection(str(tmp_path / "store.db"))
    connection.execute("UPDATE segment_parts SET content = substr(content, 2) WHERE name = ?", [name])
    connection.close()
    after = Memory(store)

    assert any("disagree" in one or "checksum" in one for one in problems_of_index(store))
    assert after.recall(QUESTION) == before
    assert any("can't be used" in one for one in after.warnings)


def test_verify_finds_vectors_that_are_not_those_of_the_table(store: Store, tmp_path: Path) -> None:
    memory = _told(store)
    memory.reader.index.upkeep.rebuild()
    ((segment_id, name), part) = next(one for one in _parts(store).items() if one[0][1] == "vectors/0/0")
    forged = sealed(segment_id, {name: bytes(len(part))})[name]
    connection = apsw.Connection(str(tmp_path / "store.db"))
    connection.execute("UPDATE segment_parts SET content = ? WHERE name = ?", [forged, name])
    connection.close()

    assert any("does not agree" in one for one in problems_of_index(store))


@given(
    st.lists(
        st.tuples(st.integers(0, 1_032_256), st.one_of(st.integers(-1000, 1000), st.integers(1, 999))),
        min_size=1,
        max_size=9,
    ),
    st.integers(0, 1_032_256),
    st.integers(0, 110),
    st.integers(0, 1),
)
@settings(max_examples=500)
def test_a_floor_is_compared_as_the_rounded_cosine_is(
    drawn: list[tuple[int, int]], other: int, floor: int, step: int
) -> None:
    squares = np.array([square for square, _ in drawn])
    # No product is larger than the lengths of both. Around the floor, one more or less decides.
    products = [math.isqrt(square * other) for square, _ in drawn]
    near = [product * floor // 100 + step for product in products]
    far = [product * share // 1000 for product, (_, share) in zip(products, drawn, strict=True)]
    shortest = min((square for square, _ in drawn if square), default=1)
    for dots in (np.minimum(near, products).astype(np.int32), np.array(far, dtype=np.int32)):
        expected = percents_of(dots.astype(np.int64), squares, other) >= floor

        assert is_alike(dots, squares, other, floor, shortest=shortest).tolist() == expected.tolist()
        assert is_alike(dots, squares, other, floor).tolist() == expected.tolist()


class Drawn(Failing):
    """Vectors that have nothing to do with their texts, some of them zeros."""

    name, dimensions = "drawn", 8

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.int8]:
        """The same vector for the same text."""
        super().embed(texts)
        drawn = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=8) for text in texts]
        vectors = to_signed_bytes(np.array(drawn).reshape(len(texts), 8))
        vectors[[zlib.crc32(text.encode()) % 7 == 0 for text in texts]] = 0
        return vectors


def _similarities(memory: Memory, at: int, vector: QueryVector) -> tuple[list[str], list[tuple[int, ...]]]:
    """The keys of a view, and for each what ``_plain_similarities`` gives."""
    index = memory.reader.index.view([Band.LEDGER], at=at).index
    similar = memory.vectors.view(at=at).similarities(index, vector)
    columns = zip(similar.has.tolist(), similar.dots.tolist(), similar.is_alike.tolist(), strict=True)
    return index.index.keys_of(index.rows.tolist()), [
        (has, dot, similar.best(slot), similar.percent(slot), is_like)
        for slot, (has, dot, is_like) in enumerate(columns)
    ]


def _plain_similarities(
    memory: Memory, rows: list[str], at: int, vector: QueryVector
) -> list[tuple[int, ...]]:
    """For each key: whether it has a vector at a snapshot, the product of its best passage and which one that
    is, its cosine in percent, and whether that is at least the floor.
    """
    wanted, found = [int(n) for n in vector.numbers], list[tuple[int, ...]]()
    for key in rows:
        passages = [
            list(one.content[start : start + 8])
            for one in memory.store.vectors("default")
            if one.key == key and one.since <= at
            for start in range(0, len(one.content) - CHECKSUM_BYTES, 8)
        ]
        exact = [[n - 256 if n > 127 else n for n in passage] for passage in passages]
        dots = [sum(a * b for a, b in zip(one, wanted, strict=True)) for one in exact]
        percents = [
            math.isqrt(
                10_000 * max(0, dot) ** 2 // max(1, sum(n * n for n in one) * sum(n * n for n in wanted))
            )
            for one, dot in zip(exact, dots, strict=True)
        ]
        percent = max(percents, default=0)
        is_like = bool(dots) and percent >= vector.floor_percent
        found.append(
            (bool(dots), max(dots, default=0), dots.index(max(dots)) if dots else 0, percent, is_like)
        )
    return found


@given(st.integers(0, 2**32), st.integers(0, 100))
@settings(max_examples=25)
def test_similarities_are_what_plain_python_gives_whenever_they_are_asked_for(seed: int, floor: int) -> None:
    draw, embedder = random.Random(seed), Drawn()
    memory = Memory(memory_store(), embedder=embedder)
    for number in range(12):
        embedder.left = 0 if draw.random() < 0.2 else 10**6
        words = draw.choice([3, 3, 150, 400])
        text = " ".join(f"Word {draw.randrange(10**6)} comes." for _ in range(words // 3))
        memory.remember(text, subject=f"s{number}", source=HANDBOOK)
        if draw.random() < 0.2:
            memory.reader.index.upkeep.rebuild()
        embedder.left = 10**6
        if draw.random() < 0.2:
            memory.vectors.fill(by="op")
        head = memory.store.head()
        at = draw.choice([head, draw.randint(1, head)])
        vector = QueryVector(
            embedder=identity_of(embedder),
            weight_percent=60,
            floor_percent=floor,
            signed_bytes=base64.b64encode(embedder.embed([str(draw.random())]).tobytes()).decode(),
        )
        keys, found = memory.reader.index.retry(partial(_similarities, memory, at, vector))

        assert found == _plain_similarities(memory, keys, at, vector)
