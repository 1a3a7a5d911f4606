"""Vectors in segments: read in a few pieces, the same answers as from the table, erased with their rows."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.memory import Memory
from standfast.recall.embedders import StaticEmbedder, percents_of
from standfast.recall.index import vector_parts
from standfast.recall.index.segment import Segment, expanded, sealed
from standfast.recall.index.upkeep import problems_of_index
from standfast.recall.vectors import is_alike
from standfast.store.store import Store
from tests.memory.conftest import HANDBOOK
from tests.memory.test_vectors import Failing
from tests.store.builders import sqlite_store

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
    st.integers(-1_032_256, 1_032_256),
    st.integers(0, 1_032_256),
    st.integers(0, 1_032_256),
    st.integers(0, 110),
)
@settings(max_examples=500)
def test_a_floor_is_compared_as_the_rounded_cosine_is(dot: int, square: int, other: int, floor: int) -> None:
    dots, squares = np.array([dot]), np.array([square])

    assert is_alike(dots, squares, other, floor) == (percents_of(dots, squares, other) >= floor)
