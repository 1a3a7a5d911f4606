"""A BERT encoder in numpy: reads a folder of sentence-transformers as it is, and needs nothing else.

``WordPiece`` splits a text into the tokens of its vocabulary. Unicode is that of version 14.0, as everywhere:
characters that came later are left out.

It is as exact as float arithmetic: its vectors are rounded to signed bytes and stored, and never computed
again to verify.
"""

import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from standfast.errors import InvalidValue
from standfast.recall.analysis import LATER

UNKNOWN: Final = "[UNK]"
FIRST: Final = "[CLS]"
LAST: Final = "[SEP]"
MAX_WORD_CHARS: Final = 100
"""A longer word is one unknown token."""
_PARTS_KEPT: Final = 1 << 16


class WordPiece:
    """The tokens of texts, by their numbers in a vocabulary. Threads may share it.

    Args:
        tokens: The vocabulary in order; a token that continues a word begins with ``##``.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens)}
        missing = [token for token in (UNKNOWN, FIRST, LAST) if token not in self._numbers]
        if missing:
            problem = f"it lacks {', '.join(missing)}; give the vocab.txt of an uncased BERT model"
            raise InvalidValue(what="vocabulary", problem=problem)
        self.unknown, self.first, self.last = (self._numbers[token] for token in (UNKNOWN, FIRST, LAST))
        self._of_part = lru_cache(maxsize=_PARTS_KEPT)(self._uncached)

    def __len__(self) -> int:
        return len(self._numbers)

    def number_of(self, word: str) -> int | None:
        """The number of a word that is one token; None for another."""
        return self._numbers.get(word)

    def ids_of(self, text: str) -> list[int]:
        """The numbers of the tokens of a text, without the marks of its beginning and end."""
        # In ASCII no token reaches over a space, and most stretches between two spaces were met before.
        parts = text.split(" ") if text.isascii() else _words(text)
        return [number for part in parts for number in self._of_part(part)]

    def _uncached(self, part: str) -> tuple[int, ...]:
        """The tokens of a word, or of a stretch of ASCII."""
        words = _words(part) if part.isascii() else [part]
        return tuple([number for word in words for number in self._of_word(word)])

    def _of_word(self, word: str) -> tuple[int, ...]:
        """The longest token that begins the word, then the longest that continues it, and so on."""
        if len(word) > MAX_WORD_CHARS:
            return (self.unknown,)
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return (self.unknown,)
        return tuple(found)


class _Separated(dict[int, str]):
    """What each code point becomes: nothing for controls and marks, itself between spaces if it is alone."""

    def __missing__(self, code_point: int) -> str:
        char = chr(code_point)
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            found = " "
        elif category in ("Cc", "Cf", "Cn", "Co", "Mn") or char == "\ufffd":
            found = ""
        elif _is_alone(code_point) or category[0] == "P":
            found = f" {char} "
        else:
            found = char
        self[code_point] = found
        return found


def _is_alone(code_point: int) -> bool:
    """Whether it is one of ASCII's signs, or a Chinese character, which is a word of its own."""
    return (
        33 <= code_point <= 47
        or 58 <= code_point <= 64
        or 91 <= code_point <= 96
        or 123 <= code_point <= 126
        or 0x4E00 <= code_point <= 0x9FFF
        or 0x3400 <= code_point <= 0x4DBF
        or 0xF900 <= code_point <= 0xFAFF
        or 0x20000 <= code_point <= 0x2A6DF
        or 0x2A700 <= code_point <= 0x2CEAF
        or 0x2F800 <= code_point <= 0x2FA1F
    )


_separated: Final = _Separated()


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFD", LATER.sub("", text))
    return text.lower().translate(_separated).split()


Floats = npt.NDArray[np.float32]
_BATCH_TOKENS: Final = 2048
_DTYPES: Final = {"F32": np.float32, "F16": np.float16}


class BertEncoder:
    """The encoder in a folder of ``config.json``, ``vocab.txt`` and ``model.safetensors``. Thread-safe."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        config = _read_json(self.folder / "config.json")
        if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
            problem = (
                "only BERT models with gelu run without further packages; export others to ONNX, or serve"
                " them over HTTP"
            )
            raise InvalidValue(what=f"The model {self.folder}", problem=problem)
        self.dimensions = int(config["hidden_size"])
        self._layers, self._heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self._epsilon = np.float32(config.get("layer_norm_eps", 1e-12))
        self.wordpiece = vocabulary_in(self.folder)
        self.max_tokens = max_tokens_in(self.folder, int(config["max_position_embeddings"]))
        self._weights = dict(_read_safetensors(self.folder / "model.safetensors"))

    def encode(self, texts: Sequence[str]) -> Floats:
        """The mean vector of each text's tokens, of length 1."""
        return self.encode_ids([self.wordpiece.ids_of(text) for text in texts])

    def encode_ids(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """The same for texts that are split into tokens already."""
        pieces = self.wordpiece
        framed = [[pieces.first, *ids[: self.max_tokens - 2], pieces.last] for ids in sequences]
        vectors = np.zeros((len(framed), self.dimensions), dtype=np.float32)
        for batch in batches(framed):
            ids, mask = padded([framed[place] for place in batch])
            vectors[batch] = mean_of(self._hidden(ids, mask), mask)
        return vectors

    @property
    def is_cross_encoder(self) -> bool:
        """Whether it says with one number how well two texts belong together."""
        needed = ("pooler.dense.weight", "classifier.bias", "classifier.weight")
        return all(name in self._weights for name in needed) and len(self._weights["classifier.bias"]) == 1

    def relevance(self, query: str, texts: Sequence[str]) -> Floats:
        """How well each text answers a query, by a cross-encoder."""
        pieces, asked = self.wordpiece, self.wordpiece.ids_of(query)[: self.max_tokens // 2]
        first = [pieces.first, *asked, pieces.last]
        room = self.max_tokens - len(first) - 1
        framed = [[*first, *pieces.ids_of(text)[:room], pieces.last] for text in texts]
        found = np.zeros(len(framed), dtype=np.float32)
        for batch in batches(framed):
            ids, mask = padded([framed[place] for place in batch])
            types = (np.arange(ids.shape[1]) >= len(first)).astype(np.int64)
            pooled = np.tanh(self._linear(self._hidden(ids, mask, types)[:, 0], "pooler.dense"))
            found[batch] = self._linear(pooled, "classifier")[:, 0]
        return found

    def _hidden(
        self, ids: npt.NDArray[np.int64], mask: Floats, types: npt.NDArray[np.int64] | int = 0
    ) -> Floats:
        weights = self._weights
        hidden = weights["embeddings.word_embeddings.weight"][ids]
        hidden = hidden + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        hidden = self._normed(
            hidden + weights["embeddings.token_type_embeddings.weight"][types], "embeddings.LayerNorm"
        )
        penalty = ((1 - mask) * np.float32(-1e9))[:, None, None, :]
        for layer in range(self._layers):
            name = f"encoder.layer.{layer}"
            attended = self._linear(self._attention(hidden, penalty, name), f"{name}.attention.output.dense")
            hidden = self._normed(hidden + attended, f"{name}.attention.output.LayerNorm")
            inner = _gelu(self._linear(hidden, f"{name}.intermediate.dense"))
            hidden = self._normed(
                hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm"
            )
        return hidden

    def _attention(self, hidden: Floats, penalty: Floats, name: str) -> Floats:
        texts, tokens, size = hidden.shape
        split = (texts, tokens, self._heads, size // self._heads)
        query, key, value = (
            self._linear(hidden, f"{name}.attention.self.{part}").reshape(split).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(math.sqrt(size // self._heads)) + penalty
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        joined: Floats = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        return joined.transpose(0, 2, 1, 3).reshape(texts, tokens, size)

    def _linear(self, values: Floats, name: str) -> Floats:
        # One product of two matrices is many times faster than one for each text.
        flat = values.reshape(-1, values.shape[-1]) @ self._weights[f"{name}.weight"].T
        product: Floats = (flat + self._weights[f"{name}.bias"]).reshape(*values.shape[:-1], -1)
        return product

    def _normed(self, values: Floats, name: str) -> Floats:
        centred = values - values.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + self._epsilon)
        normed: Floats = centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normed


def _gelu(values: Floats) -> Floats:
    """The exact form with the error function: 7.1.26 of Abramowitz and Stegun (error below 2e-7)."""
    size = np.abs(values) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * size)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    error_function = np.copysign(1 - tail * np.exp(-size * size), values)
    result: Floats = (0.5 * values * (1 + error_function)).astype(np.float32)
    return result


def batches(sequences: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Places of sequences of similar length, a bounded number of tokens at a time."""
    order = sorted(range(len(sequences)), key=lambda place: (-len(sequences[place]), place))
    while order:
        size = max(1, _BATCH_TOKENS // len(sequences[order[0]]))
        yield order[:size]
        order = order[size:]


def padded(sequences: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.int64], Floats]:
    """Token numbers as one array, and which of them are there."""
    width = max(map(len, sequences))
    ids = np.zeros((len(sequences), width), dtype=np.int64)
    mask = np.zeros((len(sequences), width), dtype=np.float32)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return ids, mask


def mean_of(hidden: Floats, mask: Floats) -> Floats:
    """The mean of the tokens that are there, of length 1."""
    mean = (hidden * mask[:, :, None]).sum(axis=1)
    result: Floats = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), np.float32(1e-12))
    return result


def vocabulary_in(folder: Path) -> WordPiece:
    """The vocabulary of a model's folder."""
    try:
        return WordPiece((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(
            what=f"The model {folder}", problem=f"its vocab.txt can't be read ({error})"
        ) from None


def max_tokens_in(folder: Path, positions: int) -> int:
    """How many tokens of a text the model reads."""
    file = folder / "sentence_bert_config.json"
    return (
        min(positions, int(_read_json(file).get("max_seq_length") or positions))
        if file.exists()
        else positions
    )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        problem = f"it can't be read ({error}); give the folder of a sentence-transformers model"
        raise InvalidValue(what=f"The file {file}", problem=problem) from None
    return content if isinstance(content, dict) else {}


def _read_safetensors(file: Path) -> Iterator[tuple[str, Floats]]:
    """The tensors of a file: a length, a JSON header with places, then the numbers."""
    try:
        content = file.read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        for name, layout in header.items():
            if name == "__metadata__" or layout["dtype"] not in _DTYPES:
                continue
            first, end = layout["data_offsets"]
            numbers = np.frombuffer(
                content[8 + size + first : 8 + size + end], dtype=_DTYPES[layout["dtype"]]
            )
            yield name.removeprefix("bert."), numbers.reshape(layout["shape"]).astype(np.float32)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidValue(
            what=f"The file {file}", problem=f"it is no readable safetensors file ({error})"
        ) from None
