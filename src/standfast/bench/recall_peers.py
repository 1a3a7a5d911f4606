"""Other memories that the evaluation of recall can be run next to, where they are installed.

A peer stores the same texts and ranks them for a question. Its answer is what fits the budget in its order,
counted as recall counts it (four bytes are a token), without any frame around the texts, which favours it.
"""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import apsw

from standfast.bench.recall_sets import EvalCorpus
from standfast.errors import InvalidValue
from standfast.recall.analysis import words_of
from standfast.recall.embedders import Embedder
from standfast.recall.word_lists import word_sections

_MOST_RANKED: Final = 200
_USER: Final = "evaluation"


class RecallPeer(Protocol):
    """A memory that stores the records of one corpus and ranks them."""

    def ranked(self, question: str) -> Sequence[str]:
        """The ids of the records that it finds, best first."""
        ...


class FullTextPeer:
    """SQLite's FTS5 with ``bm25()``: any word of the question may match.

    Args:
        drops_stop_words: Whether words such as "the" are taken out of the question.
    """

    def __init__(self, corpus: EvalCorpus, *, drops_stop_words: bool) -> None:
        self._drops_stop_words = drops_stop_words
        self._ids = [one.memory_id for one in corpus.records]
        self._file = apsw.Connection(":memory:")
        self._file.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')")
        self._file.executemany(
            "INSERT INTO texts (rowid, text) VALUES (?, ?)",
            [(place, one.text) for place, one in enumerate(corpus.records)],
        )

    def ranked(self, question: str) -> Sequence[str]:
        """The records that share a word with the question."""
        dropped = word_sections("stop_words")["english"] if self._drops_stop_words else ()
        words = [one for one in words_of(question) if one not in dropped]
        if not words:
            return []
        rows = self._file.execute(
            "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts), rowid LIMIT ?",
            (" OR ".join(f'"{one}"' for one in words), _MOST_RANKED),
        )
        return [self._ids[place] for (place,) in rows]


class LangGraphPeer:
    """LangGraph's store with the vectors of an embedder: cosine over all texts."""

    def __init__(self, corpus: EvalCorpus, embedder: Embedder) -> None:
        in_memory = _module("langgraph.store.memory", "langgraph")
        index = {"embed": _floats(embedder), "dims": embedder.dimensions, "fields": ["text"]}
        self._store = in_memory.InMemoryStore(index=index)
        for one in corpus.records:
            self._store.put((_USER,), one.memory_id, {"text": one.text})

    def ranked(self, question: str) -> Sequence[str]:
        """The records with the most similar vectors."""
        found = self._store.search((_USER,), query=question, limit=_MOST_RANKED)
        return [one.key for one in found]


class Mem0Peer:
    """mem0 with the vectors of an embedder, Qdrant in a folder, and no model that extracts facts."""

    def __init__(self, corpus: EvalCorpus, embedder: Embedder) -> None:
        self._folder = tempfile.TemporaryDirectory()
        os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=self._folder.name, OPENAI_API_KEY="not used")
        memory = _module("mem0", "mem0ai")
        qdrant = {
            "path": str(Path(self._folder.name) / "qdrant"),
            "embedding_model_dims": embedder.dimensions,
        }
        self._memory = memory.Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": qdrant},
                "history_db_path": str(Path(self._folder.name) / "history.db"),
            }
        )
        self._memory.embedding_model = _Mem0Embedding(embedder)
        self._ids: dict[str, str] = {}
        for one in corpus.records:
            added = self._memory.add([{"role": "user", "content": one.text}], user_id=_USER, infer=False)
            for each in added["results"]:
                self._ids[each["id"]] = one.memory_id

    def ranked(self, question: str) -> Sequence[str]:
        """The records that its search finds."""
        found = self._memory.search(question, filters={"user_id": _USER}, top_k=_MOST_RANKED)
        return [self._ids[one["id"]] for one in found["results"]]


class _Mem0Embedding:
    """An embedder as mem0 calls it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embed = _floats(embedder)
        self.config = None

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        del memory_action
        return self._embed([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        del memory_action
        return self._embed(texts)


def _floats(embedder: Embedder) -> Callable[[Sequence[str]], list[list[float]]]:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = embedder.embed(list(texts)).astype(float).tolist()
        return vectors

    return embed


def _module(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        problem = f"it is not installed; install it with: pip install {package}"
        raise InvalidValue(what=f"peer {package}", problem=problem) from None


PEERS: Final[Mapping[str, Callable[[EvalCorpus, Embedder], RecallPeer]]] = {
    "fts5": lambda corpus, _: FullTextPeer(corpus, drops_stop_words=False),
    "fts5-no-stop-words": lambda corpus, _: FullTextPeer(corpus, drops_stop_words=True),
    "langgraph": LangGraphPeer,
    "mem0": Mem0Peer,
}
"""The peers by name. Each is filled with a corpus when it is built."""


def peer_named(name: str) -> Callable[[EvalCorpus, Embedder], RecallPeer]:
    """The peer of this name; ``InvalidValue`` lists them otherwise."""
    if name not in PEERS:
        raise InvalidValue(what="peer", problem=f"it must be one of {', '.join(PEERS)}, not {name!r:.80}")
    return PEERS[name]
