"""The simplest policies: everything, nothing, every Nth, and a coin."""

from collections.abc import Iterable
from typing import ClassVar

from standfast.clock import seeded
from standfast.errors import InvalidValue
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.protocol import SKIP, Track
from standfast.vocabulary import MemoryAction, Step


class AlwaysWrite:
    """Writes every step that still fits. The reference release calls it ``fifo_store_all``."""

    track: ClassVar = Track.UNPRIVILEGED

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write while there is room."""
        return store.offer(step) or SKIP


class NeverWrite:
    """Writes nothing: what memory is worth is seen against this. The reference release calls it ``no_mem``."""

    track: ClassVar = Track.UNPRIVILEGED

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:  # noqa: ARG002  # The protocol's signature.
        """Skip."""
        return SKIP


class UniformSample:
    """Writes every Nth timestep that still fits."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, *, every: int = 10) -> None:
        if every < 1:
            raise InvalidValue(what="UniformSample", problem="every must be 1 or more")
        self.every = every

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Write one step in N."""
        return SKIP if step.t % self.every else store.offer(step) or SKIP


class RandomPolicy:
    """Writes a step that still fits with probability ``p``."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, *, p: float = 0.5, seed: int = 0) -> None:
        if not 0 <= p <= 1:
            raise InvalidValue(what="RandomPolicy", problem="p must be between 0 and 1")
        self.p = p
        self._dice = seeded(seed)

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Toss a coin at every step, so that what fits does not change the tosses that follow."""
        wanted = self._dice.random() < self.p
        return (store.offer(step) if wanted else ()) or SKIP
