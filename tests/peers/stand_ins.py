"""A plugin of pytest that puts the adapters where a suite of others makes its own stores.

It is loaded with ``-p stand_ins`` before the suite's modules, so that their imports get the
adapters. Which suite it is, ``STANDFAST_PEER`` says.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from standfast import Memory

_places: dict[str, Memory] = {}


def _memory_at(place: object) -> Memory:
    """The memory at a place; one that is named again in a process is the same."""
    if str(place) == ":memory:":
        return Memory.open(":memory:")
    name = f"{place}.standfast"
    if name not in _places:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        _places[name] = Memory.open(name)
    return _places[name]


def _langgraph() -> None:
    import langgraph.store.memory as target

    from standfast.adapters.langgraph import StandfastStore

    class InMemoryStore(StandfastStore):
        def __init__(self, *, index: Any = None) -> None:
            super().__init__(Memory.open(":memory:"), index=index)

    target.InMemoryStore = InMemoryStore  # type: ignore[assignment, misc]


def _openai_agents() -> None:
    import agents

    from standfast.adapters import StandfastSession

    class SQLiteSession(StandfastSession):
        def __init__(self, session_id: str, db_path: object = ":memory:", *_: Any, **given: Any) -> None:
            super().__init__(session_id, _memory_at(db_path), session_settings=given.get("session_settings"))

        def close(self) -> None:
            """The memory is shared, and closed by the process."""

    agents.SQLiteSession = SQLiteSession  # type: ignore[attr-defined]


def _llama_index() -> None:
    import llama_index.core.memory.memory as target
    from llama_index.core.storage.chat_store import sql

    from standfast.adapters.llamaindex import StandfastChatStore

    class SQLAlchemyChatStore(StandfastChatStore):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__(Memory.open(":memory:"))

    target.SQLAlchemyChatStore = SQLAlchemyChatStore
    sql.SQLAlchemyChatStore = SQLAlchemyChatStore


def _crewai() -> None:
    import crewai.memory.storage.lancedb_storage as target

    from standfast.adapters.crewai import StandfastStorage

    class LanceDBStorage(StandfastStorage):
        def __init__(self, path: object = None, *_: Any, **__: Any) -> None:
            super().__init__(_memory_at(path or tempfile.mkdtemp()))

    target.LanceDBStorage = LanceDBStorage


def _anthropic() -> None:
    import anthropic.lib.tools._beta_builtin_memory_tool as target

    from standfast.adapters.anthropic_memory import StandfastMemoryTool

    class BetaLocalFilesystemMemoryTool(StandfastMemoryTool):
        def __init__(self, base_path: str = "./memory") -> None:
            super().__init__(_memory_at(base_path))

    target.BetaLocalFilesystemMemoryTool = BetaLocalFilesystemMemoryTool  # type: ignore[misc, assignment]


_STAND_INS = {
    "langgraph": _langgraph,
    "openai-agents-python": _openai_agents,
    "llama_index": _llama_index,
    "crewAI": _crewai,
    "anthropic-sdk-python": _anthropic,
}
if "STANDFAST_PEER" in os.environ and "pytest" in sys.modules:
    _STAND_INS[os.environ["STANDFAST_PEER"]]()
