"""Rerankers: an optional second look at the best records, by a model that reads question and text together.

A reranker is asked once, when a question is answered. Its scores become part of the package, so that a replay
needs nobody and a controller stays a function of its request.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qsl

from standfast.errors import InvalidValue, RerankingFailed
from standfast.recall.bert import BertEncoder
from standfast.recall.embedders import HTTP_TIMEOUT_SECONDS, posted_json
from standfast.records.vocabulary import Value

RERANKED: Final = 50
"""So many of the best records are looked at again."""
RERANKED_TEXT_TOKENS: Final = 256
"""A longer text is given by its best sentences."""
_MICROS: Final = 1_000_000
_MOST: Final = 1 << 40
_SPREAD: Final = 1 << 20


class Reranker(Protocol):
    """Scores how well each of some texts answers a question. Threads may share it.

    It need not give the same numbers twice, because they are stored in the package. Give one that computes
    other numbers another name or version.
    """

    @property
    def name(self) -> str:
        """What it is, e.g. ``"ms-marco-MiniLM-L-6-v2"``."""
        ...

    @property
    def version(self) -> str:
        """Which version of it."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """A finite number for each text; a higher one is better. Only their order and distances count.

        Raises:
            RerankingFailed: The model or its server gave no scores.
        """
        ...


class RerankScores(Value, frozen=True, kw_only=True):
    """What a reranker said about the best records. It is part of a package.

    Attributes:
        reranker: Its name and version.
        scores: By the key of each record (band, scope and id), in millionths.
    """

    reranker: str
    scores: dict[str, int]

    @classmethod
    def of(cls, reranker: Reranker, query: str, texts: dict[str, str]) -> "RerankScores":
        """Ask a reranker about texts, by key; ``RerankingFailed`` if it does not answer as promised."""
        identity = f"{reranker.name}/{reranker.version}"
        try:
            found = [float(score) for score in reranker.scores(query, list(texts.values()))]
        except RerankingFailed:
            raise
        except Exception as error:  # Whatever a model raises must not cost anybody an answer.
            problem = f"{type(error).__name__}: {error}"
            raise RerankingFailed(reranker=identity, problem=problem) from error
        if len(found) != len(texts) or not all(map(math.isfinite, found)):
            problem = f"it must return {len(texts)} finite numbers"
            raise RerankingFailed(reranker=identity, problem=problem)
        whole = (max(-_MOST, min(_MOST, round(score * _MICROS))) for score in found)
        return cls(reranker=identity, scores=dict(zip(texts, whole, strict=True)))

    def points_of(self, key: str, *, above: int, trust_percent: int) -> int | None:
        """The points of a record, above those of all that were not looked at again.

        In whole numbers::

            above + (score - least) · 2^20 // (most - least) · trust // 100

        None for a record that it did not see.

        Args:
            above: The most points that a record had before.
        """
        if key not in self.scores:
            return None
        least, most = min(self.scores.values()), max(self.scores.values())
        scaled = (self.scores[key] - least) * _SPREAD // max(1, most - least)
        return above + scaled * trust_percent // 100


class LocalReranker:
    """A cross-encoder in a folder: a BERT model with one class, such as ms-marco-MiniLM-L-6-v2.

    ``model.safetensors`` is computed with numpy and needs no further package.

    Args:
        path: The folder, with ``config.json`` and ``vocab.txt``.
        name: What to call the model; by default the folder's name.
    """

    def __init__(self, path: str | Path, *, name: str | None = None, version: str = "1") -> None:
        folder = Path(path)
        if not folder.is_dir():
            raise InvalidValue(what="reranker", problem=f"there is no folder {folder} with a model")
        self._encoder = BertEncoder(folder)
        if not self._encoder.is_cross_encoder:
            problem = "it has no classifier with one class; give the folder of a cross-encoder"
            raise InvalidValue(what=f"The model {folder}", problem=problem)
        self.name = folder.resolve().name if name is None else name
        self.version = version

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The relevance of each text."""
        found: list[float] = self._encoder.relevance(query, texts).tolist()
        return found


class HttpReranker:
    """A server with ``/rerank`` as Cohere, Jina, vLLM, llama.cpp and text-embeddings-inference have it.

    Args:
        model: The name of the model on the server.
        base_url: Where the API is, for example ``https://host/v1``; ``/rerank`` is added.
        api_key: The secret that the server asks for, if it does.
        version: Change it when the server's model changes under the same name.
        timeout_seconds: How long to wait for one answer.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str = "",
        version: str = "1",
        timeout_seconds: float = HTTP_TIMEOUT_SECONDS,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            problem = f"base_url must begin with http:// or https://, not {base_url!r:.80}"
            raise InvalidValue(what="reranker", problem=problem)
        self.name = model
        self.version = version
        self._url = base_url.rstrip("/") + "/rerank"
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The relevance of each text."""
        body = {"model": self.name, "query": query, "documents": list(texts), "top_n": len(texts)}
        try:
            answer = posted_json(self._url, body, self._api_key, self._timeout_seconds)
            results = answer["results"] if isinstance(answer, dict) else answer
            found = {one["index"]: float(one.get("relevance_score", one.get("score"))) for one in results}
            return [found[number] for number in range(len(texts))]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problem = f"{self._url} gave no scores ({type(error).__name__}: {error})"
            raise RerankingFailed(reranker=f"{self.name}/{self.version}", problem=problem) from None


def named_reranker(reranker: Reranker | str | None) -> Reranker | None:
    """A reranker that may be given by how ``open_reranker`` names it; ``InvalidValue`` if it is none."""
    if reranker is None or reranker == "":
        return None
    if isinstance(reranker, str):
        return open_reranker(reranker)
    if missing := [fact for fact in ("name", "version", "scores") if not hasattr(reranker, fact)]:
        problem = f"{reranker!r:.40} has no {', '.join(missing)}; give a name or a Reranker"
        raise InvalidValue(what="reranker", problem=problem)
    return reranker


def open_reranker(spec: str, *, api_key: str = "") -> Reranker:
    """The reranker that a setting names.

    Args:
        spec: ``"local:FOLDER"`` for a cross-encoder on this machine, or the URL of a server with the model,
            ``"https://host/v1?model=NAME"``. ``version`` may be added in the same way to both.
        api_key: The secret that the server asks for.
    """
    address, _, query = spec.partition("?")
    try:
        options = dict(parse_qsl(query, strict_parsing=True)) if query else {}
    except ValueError:
        options = {"": query}
    version = options.pop("version", "1")
    if address.startswith("local:") and not options:
        return LocalReranker(address.removeprefix("local:"), version=version)
    if address.startswith(("http://", "https://")) and set(options) == {"model"}:
        return HttpReranker(options["model"], base_url=address, api_key=api_key, version=version)
    problem = (
        f"{json.dumps(spec)[:120]} is none of: local:FOLDER, http(s)://HOST/v1?model=NAME"
        " (version may follow)"
    )
    raise InvalidValue(what="reranker", problem=problem)
