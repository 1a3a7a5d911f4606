"""An example of a submission to the write-policy benchmark."""

from collections.abc import Iterable

from standfast import Step
from standfast.policies import ByteMemoryStore, expire, write
from standfast.records.vocabulary import MemoryAction


class KeepTheShort:
    """Writes a step that fits, or that is shorter than the oldest item, which expires."""

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Decide about one step."""
        oldest = store.oldest_item()
        if store.fits(step):
            yield write(step)
        elif oldest is not None and store.cost_of(step) < oldest.byte_cost:
            yield expire(oldest.step.t)
            yield write(step)
