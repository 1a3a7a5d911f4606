"""Embedders: signed bytes, word pieces, the shipped table, a model on this machine, and a server."""

import hashlib
import json
import math
import struct
import sys
import unicodedata
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import EmbeddingFailed, InvalidValue
from standfast.recall import (
    HttpEmbedder,
    LocalEmbedder,
    QueryVector,
    StaticEmbedder,
    open_embedder,
    to_signed_bytes,
)
from standfast.recall.analysis import MAX_PASSAGES, PASSAGE_WORDS, passages_of
from standfast.recall.bert import BertEncoder, WordPiece
from standfast.recall.embedders import (
    MAX_LENGTH,
    checked_embedder,
    checked_vectors,
    related_words,
)
from tests.servers.process import LOOPBACK, Program, ReservedPort, ServerProcess

ROOT = Path(__file__).parents[2]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "the", "cafe", ".", "東", "##s"]


@given(st.integers(1, 2000), st.integers(0, 2**32 - 1))
def test_signed_bytes_are_never_too_long_and_keep_the_direction(dimensions: int, seed: int) -> None:
    floats = np.random.default_rng(seed).normal(size=(2, dimensions))
    numbers = to_signed_bytes(floats).astype(np.int64)

    assert int((numbers**2).sum(axis=1).max()) <= MAX_LENGTH**2
    assert (numbers * floats).sum() > 0


def test_a_vector_of_zeros_stays_so_and_others_must_be_finite() -> None:
    assert to_signed_bytes(np.zeros(4)).tolist() == [[0, 0, 0, 0]]
    with pytest.raises(InvalidValue, match="finite"):
        to_signed_bytes([1.0, math.nan])


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Unaffable", ["un", "##aff", "##able"]),
        ("The CAFÉ.", ["the", "cafe", "."]),
        ("the東the\u200b\x00", ["the", "東", "the"]),
        ("thes thez", ["the", "##s", "[UNK]"]),
        ("s" * 101, ["[UNK]"]),
        ("the" + "s" * 97, ["the", *["##s"] * 97]),
        ("the\u1c89", ["the"]),
        ("", []),
    ],
)
def test_words_are_split_into_the_longest_pieces(text: str, tokens: list[str]) -> None:
    assert [WORDS[number] for number in WordPiece(WORDS).ids_of(text)] == tokens


@pytest.mark.parametrize(
    "char",
    [*"!/:@[`{~", "\u3400", "\u4dbf", "\u4e00", "\u9fff", "\U00020000", "\U0002a6df", "\U0002a700"],
)
def test_signs_and_chinese_characters_are_words_of_their_own(char: str) -> None:
    vocabulary = [*WORDS, char, "x", "##x", f"##{char}"]
    pieces = [vocabulary[number] for number in WordPiece(vocabulary).ids_of(f"x{char}x")]

    assert pieces == ["x", char, "x"]


@pytest.mark.parametrize("char", [*"09AZaz", "\u33ff", "\uac00", "\u3042"])
def test_other_letters_and_digits_join_their_word(char: str) -> None:
    folded = unicodedata.normalize("NFD", char.lower())
    vocabulary = [*WORDS, f"x{folded}x", "x"]
    pieces = [vocabulary[number] for number in WordPiece(vocabulary).ids_of(f"x{char}x")]

    assert pieces == [f"x{folded}x"]


def test_a_vocabulary_without_its_marks_is_refused() -> None:
    with pytest.raises(InvalidValue, match="CLS"):
        WordPiece(["the", "[UNK]"])


def test_the_shipped_table_gives_these_bytes_everywhere() -> None:
    texts = ["EU refunds take 14 days.", "", "?", "Ça va 東京 naïve 🎉", "word " * 5000]
    digest = hashlib.sha256(StaticEmbedder().embed(texts).tobytes()).hexdigest()

    assert digest == "9d0a883ddf281b337f5e52f98f35fd92a0c399954c733adc66635b3bc4ad0da5"


def test_symbols_that_a_python_may_not_know_yet_separate_words_in_the_shipped_table() -> None:
    plain, known, later = StaticEmbedder().embed(["good cat", "good\U0001f389cat", "good\U0001fadfcat"])

    assert (plain == known).all()
    assert (plain == later).all()


def test_what_the_shipped_table_does_not_know_changes_no_vector() -> None:
    known, with_unknown, unknown = StaticEmbedder().embed(["a green door", "a green \u0e05 door", "\u0e05"])

    assert known.tolist() == with_unknown.tolist()
    assert not unknown.any()


def test_the_shipped_table_knows_what_is_alike() -> None:
    kitten, office, cat, nothing = StaticEmbedder().embed(["kitten", "office", "cat", ""]).astype(int)

    assert kitten @ cat > 2 * abs(office @ cat)
    assert not nothing.any()


@pytest.mark.parametrize("first", range(0, 400, 40))
def test_related_words_are_those_with_the_most_alike_vectors(first: int) -> None:
    """The shipped lists, against the cosines of all words of the table, one word after the other."""
    folder = ROOT / "src/standfast/recall/static_minilm"
    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    table = np.frombuffer((folder / "table.bin").read_bytes(), np.int8).reshape(-1, 128).astype(np.int64)
    others = [number for number, token in enumerate(tokens) if token.isalpha() and len(token) > 2]
    squares = (table * table).sum(axis=1).tolist()
    for number in [*others[first :: len(others) // 4], tokens.index("go"), tokens.index("1999")]:
        dots = (table[others] @ table[number]).tolist()
        percents = {
            other: math.isqrt(10_000 * max(0, dot) ** 2 // max(1, squares[other] * squares[number]))
            for other, dot in zip(others, dots, strict=True)
            if other != number
        }
        best = sorted((other for other in percents if percents[other] >= 50), key=lambda one: -percents[one])

        assert related_words(tokens[number]) == tuple((tokens[one], percents[one]) for one in best[:12])


def test_words_that_the_table_does_not_have_as_a_whole_have_no_related_ones() -> None:
    assert related_words("zyzzyvaish") == ()


def test_the_query_s_vector_survives_json() -> None:
    vector = QueryVector.of(StaticEmbedder(), "cat")

    assert QueryVector.from_json(vector.as_json()) == vector
    assert (vector.numbers == StaticEmbedder().embed(["cat"])[0]).all()
    with pytest.raises(InvalidValue, match="base64"):
        QueryVector.from_json({**vector.as_json(), "signed_bytes": "?"})


class Wrong(StaticEmbedder):
    """Breaks its promises."""

    def __init__(self, vectors: npt.NDArray[np.int8]) -> None:
        super().__init__()
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.int8]:
        """The same for all texts."""
        return self._vectors[: len(texts)]


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (np.zeros((1, 4), dtype=np.int8), "shape"),
        (np.zeros((1, 128), dtype=np.float32), "int8"),
        (np.full((1, 128), 127, dtype=np.int8), "longer than 1016"),
    ],
)
def test_what_an_embedder_gives_is_checked(vectors: npt.NDArray[np.int8], problem: str) -> None:
    with pytest.raises(EmbeddingFailed, match=problem):
        checked_vectors(Wrong(vectors), ["cat"])


def test_whatever_an_embedder_raises_is_a_failure_of_the_embedder() -> None:
    class Broken(StaticEmbedder):
        def embed(self, texts: Sequence[str]) -> npt.NDArray[np.int8]:
            raise KeyError(len(texts))

    with pytest.raises(EmbeddingFailed, match="KeyError: 1"):
        checked_vectors(Broken(), ["cat"])


@given(
    st.lists(
        st.sampled_from(["a b c. ", "word ", "\n", "One two three four five! ", "x" * 300 + " "]),
        max_size=400,
    )
)
def test_passages_have_all_the_words_of_a_text_in_order(parts: list[str]) -> None:
    text = "".join(parts)
    passages = passages_of(text)

    assert " ".join(passages).split() == text.split()
    assert len(passages) <= MAX_PASSAGES
    assert len(passages) == 1 or max(len(one.split()) for one in passages) <= 2 * PASSAGE_WORDS


def test_an_enormous_text_has_a_bounded_number_of_passages() -> None:
    assert len(passages_of("word " * 200_000)) <= MAX_PASSAGES
    assert len(passages_of("A b c d. " * 50_000)) <= MAX_PASSAGES


@pytest.mark.parametrize(
    "spec",
    ["", "dynamic", "static?weight=3", "local:/no/such/folder", "http://host/v1", "https://h/v1?model=m&dimensions=x", "http://h/v1?model=m&dimensions=0", "ftp://h?model=m&dimensions=3"],  # noqa: E501  # Data.
)  # fmt: skip
def test_an_embedder_that_makes_no_sense_is_refused(spec: str) -> None:
    with pytest.raises(InvalidValue):
        open_embedder(spec)


def test_an_embedder_is_named_by_one_line() -> None:
    embedder = open_embedder("https://host/v1?model=m&dimensions=384&weight=90&floor=20&version=7")

    assert (embedder.name, embedder.version, embedder.dimensions) == ("m", "7", 384)
    assert (embedder.weight_percent, embedder.floor_percent) == (90, 20)
    assert isinstance(open_embedder("static"), StaticEmbedder)
    negative = HttpEmbedder("m", dimensions=3, weight_percent=-1)
    with pytest.raises(InvalidValue, match="weight_percent"):
        checked_embedder(negative)


# A model in a folder.


def _model(folder: Path, *, kind: str = "bert", heads: dict[str, tuple[int, ...]] | None = None) -> Path:
    """A tiny BERT with random weights: 2 layers, 8 dimensions, 2 heads."""
    random = np.random.default_rng(5)
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), 8),
        "embeddings.position_embeddings.weight": (16, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
        "embeddings.LayerNorm.weight": (8,),
        "embeddings.LayerNorm.bias": (8,),
    }
    for layer in range(2):
        for name, size in (
            *((f"attention.self.{part}", (8, 8)) for part in ("query", "key", "value")),
            ("attention.output.dense", (8, 8)),
            ("attention.output.LayerNorm", (8,)),
            ("intermediate.dense", (12, 8)),
            ("output.dense", (8, 12)),
            ("output.LayerNorm", (8,)),
        ):
            shapes[f"encoder.layer.{layer}.{name}.weight"] = size
            shapes[f"encoder.layer.{layer}.{name}.bias"] = size[:1]
    shapes |= heads or {}
    header, blob = {}, b""
    for name, shape in shapes.items():
        content = random.normal(size=shape).astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(blob), len(blob) + len(content)]}
        blob += content
    told = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(told)) + told + blob)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    config = {"model_type": kind, "hidden_act": "gelu", "hidden_size": 8, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 2, "max_position_embeddings": 16}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _plainly(encoder: BertEncoder, ids: list[int]) -> list[float]:
    """The same in plain Python, one number at a time."""
    w = {name: values.astype(float).tolist() for name, values in encoder._weights.items()}

    def linear(x: list[float], name: str) -> list[float]:
        rows = zip(w[f"{name}.weight"], w[f"{name}.bias"], strict=True)
        return [sum(a * b for a, b in zip(row, x, strict=True)) + bias for row, bias in rows]

    def normed(x: list[float], name: str) -> list[float]:
        mean = sum(x) / len(x)
        scale = math.sqrt(sum((one - mean) ** 2 for one in x) / len(x) + 1e-12)
        parts = zip(x, w[f"{name}.weight"], w[f"{name}.bias"], strict=True)
        return [(one - mean) / scale * weight + bias for one, weight, bias in parts]

    def added(*vectors: list[float]) -> list[float]:
        return [sum(parts) for parts in zip(*vectors, strict=True)]

    e = "embeddings"
    hidden = [
        normed(
            added(w[f"{e}.word_embeddings.weight"][token], w[f"{e}.position_embeddings.weight"][at], w[f"{e}.token_type_embeddings.weight"][0]),  # noqa: E501  # A formula.
            f"{e}.LayerNorm",
        )
        for at, token in enumerate(ids)
    ]  # fmt: skip
    for layer in range(2):
        name = f"encoder.layer.{layer}"
        q, k, v = (
            [linear(x, f"{name}.attention.self.{part}") for x in hidden] for part in ("query", "key", "value")
        )
        attended = []
        for query in q:
            out: list[float] = []
            for first in (0, 4):
                part = slice(first, first + 4)
                scores = [sum(a * b for a, b in zip(query[part], key[part], strict=True)) / 2 for key in k]
                weights = [math.exp(one - max(scores)) for one in scores]
                out += [
                    sum(a * value[i] for a, value in zip(weights, v, strict=True)) / sum(weights)
                    for i in range(first, first + 4)
                ]
            attended.append(linear(out, f"{name}.attention.output.dense"))
        hidden = [
            normed(added(x, a), f"{name}.attention.output.LayerNorm")
            for x, a in zip(hidden, attended, strict=True)
        ]
        inner = [
            [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in linear(h, f"{name}.intermediate.dense")]
            for h in hidden
        ]
        hidden = [
            normed(added(h, linear(i, f"{name}.output.dense")), f"{name}.output.LayerNorm")
            for h, i in zip(hidden, inner, strict=True)
        ]
    mean = added(*hidden)
    length = math.sqrt(sum(one * one for one in mean))
    return [one / length for one in mean]


def test_a_model_in_a_folder_computes_what_its_formula_says(tmp_path: Path) -> None:
    encoder = BertEncoder(_model(tmp_path))
    vectors = encoder.encode(["the cafe.", "unaffable the the 東"])

    assert np.allclose(vectors[0], _plainly(encoder, [2, 7, 8, 9, 3]), atol=1e-5)
    assert np.allclose(vectors[1], _plainly(encoder, [2, 4, 5, 6, 7, 7, 10, 3]), atol=1e-5)


def test_a_model_in_a_folder_is_an_embedder(tmp_path: Path) -> None:
    embedder = open_embedder(f"local:{_model(tmp_path)}?weight=70")
    (alone,) = embedder.embed(["the cafe."])
    together = embedder.embed(["the " * 100, "the cafe.", ""])

    assert (embedder.name, embedder.dimensions, embedder.weight_percent) == (tmp_path.name, 8, 70)
    assert np.abs(together[1].astype(int) - alone).max() <= 1
    assert embedder.embed([]).shape == (0, 8)


def test_a_model_that_can_t_run_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="ONNX"):
        LocalEmbedder(_model(tmp_path, kind="mpnet"))
    (_model(tmp_path) / "model.safetensors").write_bytes(b"\0" * 3)
    with pytest.raises(InvalidValue, match="safetensors"):
        LocalEmbedder(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(InvalidValue, match="sentence-transformers"):
        LocalEmbedder(tmp_path)


# A server.


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of embeddings in a process of its own."""
    port = ReservedPort()
    url = f"http://{LOOPBACK}:{port.number}/v1"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/models", timeout=5):
                return True
        except OSError:
            return False

    program = Program(
        server="The embeddings",
        command=[sys.executable, "-m", "tests.servers.embeddings", str(port.number)],
        log=tmp_path_factory.mktemp("embeddings") / "server.log",
        folder=ROOT,
    )
    process = ServerProcess(program, answers=answers)
    process.start()
    yield url
    process.stop()


def test_a_server_gives_the_vectors_in_the_order_of_the_texts(base_url: str) -> None:
    texts = [f"text number {number}" for number in range(130)] + [" "]
    served = HttpEmbedder("tests-static", dimensions=128, base_url=base_url, api_key="secret").embed(texts)
    table = StaticEmbedder().embed([*texts[:-1], "-"])

    assert (served == to_signed_bytes(table)).all()


def test_a_server_s_refusal_is_told(base_url: str) -> None:
    for model, key, problem in (
        ("tests-static", "", "401.*a key is needed"),
        ("other", "secret", "404"),
        ("short", "secret", "1 vectors of 128 numbers were expected, not 1 of"),
    ):
        with pytest.raises(EmbeddingFailed, match=problem):
            HttpEmbedder(model, dimensions=128, base_url=base_url, api_key=key).embed(["cat"])
    with pytest.raises(EmbeddingFailed, match="gave no vectors"):
        HttpEmbedder("m", dimensions=3, base_url=f"http://{LOOPBACK}:9/v1").embed(["cat"])
