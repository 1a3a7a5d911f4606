"""Memory as far as the agent's loop needs it. ``standfast.memory.Memory`` is one."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from standfast.optimize.prompts.prompt import ContextText
from standfast.store.commit import Write
from standfast.store.store import Store
from standfast.traces.identity import ModelConfig
from standfast.traces.recorder import Recorder
from standfast.vocabulary import Receipt


class MemoryRun(Protocol):
    """A run of memory. Its recorder makes the trace of it."""

    @property
    def recorder(self) -> Recorder:
        """Who is told of everything that the run does."""
        ...

    def recall(self, query: str, *, tokens: int) -> ContextText:
        """What memory hands back, of at most so many tokens; recorded."""
        ...

    def remember(self, text: str, *, tags: Sequence[str], subject: str | None, source: dict[str, Any]) -> Any:
        """Put something into the run's buffer, to be judged and committed with it; recorded."""
        ...

    def commit(self, *, extra_writes: Sequence[Write]) -> Receipt | None:
        """Apply all of it, and rows of the caller's own in the same transaction; None if there is nothing to apply."""
        ...


class AgentMemory(Protocol):
    """Memory: its runs, and the store that knows which requests had their effect."""

    @property
    def namespace(self) -> str:
        """Whose memory it is."""
        ...

    @property
    def store(self) -> Store:
        """Where it is kept."""
        ...

    def run(self, *, workflow: str, mode: str, model: ModelConfig) -> AbstractContextManager[MemoryRun]:
        """A run that commits when its block is left, and discards its buffer if an exception leaves it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRemember:
    """Something that the agent wants to keep."""

    text: str
    tags: tuple[str, ...] = ()
    subject: str | None = None
