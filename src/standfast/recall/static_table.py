"""The embedder that ships: one vector for each word piece, distilled from all-MiniLM-L6-v2, added up in whole numbers.

It needs numpy only, and gives the same bytes on every machine. ``tools/make_static_table.py`` made the table; ``static_minilm/NOTICE`` says from what.
"""

import math
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl

import numpy as np
import numpy.typing as npt

from standfast.errors import InvalidValue
from standfast.recall.embedders import (
    Embedder,
    HttpEmbedder,
    LocalEmbedder,
    SignedBytes,
    checked_embedder,
    length_of,
)
from standfast.recall.wordpiece import WordPiece

STATIC_DIMENSIONS: Final = 128
MAX_STATIC_TOKENS: Final = 1 << 20
"""The tokens of a text that count, so that sums and squares stay below 2^63."""


class _WithoutSymbols(dict[int, str]):
    """Symbols such as emoji become spaces, and so do code points that this Python does not know: a later one may call them symbols."""

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
    weight_percent = 50
    floor_percent = 40

    def embed(self, texts: Sequence[str]) -> SignedBytes:
        """One vector for each text: the sum over its tokens, scaled to one length."""
        wordpiece, table = _shipped_table()
        vectors = np.zeros((len(texts), STATIC_DIMENSIONS), dtype=np.int8)
        for row, text in enumerate(texts):
            plain = text if text.isascii() else text.translate(_without_symbols)
            ids = [one for one in wordpiece.ids_of(plain)[:MAX_STATIC_TOKENS] if one != wordpiece.unknown]
            total = table[ids].sum(axis=0, dtype=np.int64)
            norm = math.isqrt(int((total * total).sum()))
            if norm:
                scaled = (2 * total * length_of(STATIC_DIMENSIONS) + norm) // (2 * norm)
                vectors[row] = np.clip(scaled, -127, 127)
        return vectors


@cache
def _shipped_table() -> tuple[WordPiece, npt.NDArray[np.int8]]:
    """The vocabulary and the vector of each of its tokens. They are read once a process."""
    folder = files("standfast.recall").joinpath("static_minilm")
    wordpiece = WordPiece(folder.joinpath("vocab.txt").read_text(encoding="utf-8").split("\n"))
    table = np.frombuffer(folder.joinpath("table.bin").read_bytes(), dtype=np.int8)
    return wordpiece, table.reshape(-1, STATIC_DIMENSIONS)


def open_embedder(spec: str, *, api_key: str = "") -> Embedder:
    """The embedder that a setting names.

    Args:
        spec: ``"static"`` for the shipped table, ``"local:FOLDER"`` for a model on this machine, or the URL of an OpenAI-compatible server with the
            model and its dimensions, ``"https://host/v1?model=NAME&dimensions=384"``. ``version``, ``weight`` and ``floor`` (both in percent) may be
            added in the same way to all but ``static``.
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
        f"{spec!r:.120} is none of: static, local:FOLDER, http(s)://HOST/v1?model=NAME&dimensions=NUMBER "
        "(weight, floor and version may follow)"
    )
    raise InvalidValue(what="embedder", problem=problem)
