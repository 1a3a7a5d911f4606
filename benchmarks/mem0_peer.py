"""mem0's ``add(infer=False)``, timed by an interpreter that has mem0: reads a JSON list of texts, prints wall
seconds a text.

It is not imported, and needs nothing of Standfast. The vector store is Qdrant in a folder. The embedder gives
every text the same vector at once, so that mem0 is not charged for a model.
"""

import json
import os
import sys
import tempfile
import time
from typing import Any, Final

DIMENSIONS: Final = 384


class ConstantEmbedding:
    """An embedder of mem0 that costs nothing."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """The vector of every text."""
        del text, memory_action
        return [1.0] * DIMENSIONS

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        """The vectors of several texts."""
        return [self.embed(text, memory_action) for text in texts]


def seconds_a_text(texts: list[str], folder: str) -> float:
    """Add each text by a call of its own."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": folder, "OPENAI_API_KEY": "not used"}
    from mem0 import Memory  # type: ignore[import-not-found]  # noqa: PLC0415  # Only the peer's interpreter has it.
    from mem0.utils.factory import EmbedderFactory  # type: ignore[import-not-found]  # noqa: PLC0415  # As above.

    EmbedderFactory.provider_to_class["openai"] = "__main__.ConstantEmbedding"
    qdrant = {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": DIMENSIONS}
    peer = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": qdrant},
            "history_db_path": f"{folder}/history.db",
        }
    )
    peer.add("The benchmark begins.", user_id="ada", infer=False)
    begun = time.perf_counter()
    for text in texts:
        peer.add([{"role": "user", "content": text}], user_id="ada", infer=False)
    return (time.perf_counter() - begun) / len(texts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(seconds_a_text(json.load(sys.stdin), place))
