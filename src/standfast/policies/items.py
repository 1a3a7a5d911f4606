"""What a store holds: a step written whole, or what a step changes in one; each with its price."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from standfast.limits import MAX_PRICED_STEPS
from standfast.policies.bytes import (
    FIXED_BYTES,
    MERGE_BYTES,
    ByteModel,
    canonical_delta,
    endpoint_of,
    json_bytes,
)
from standfast.vocabulary import ActionType, MemoryAction, Step

PARENT: Final = "merge_parent_t"
_WRITE: Final = ActionType.WRITE


class MemoryItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One held thing: a base that a WRITE stored whole, or a delta that a MERGE hung on a base."""

    step: Step
    written_at: int
    byte_cost: int
    metadata: dict[str, Any] = {}
    api: str | None = None
    merge_parent_t: int | None = None
    writing: tuple[MemoryAction, ...] = ()
    """The WRITE that stores a base: made when the step is priced, for every policy that comes to yield it."""


class Prices:
    """Steps and changes as the items that they would be, worked out once each.

    A policy asks what a step costs, then the store charges it, and a benchmark runs many policies over the same steps; so
    each answer is kept. An answer belongs to one step object: another object at the same timestep is priced anew, and one
    that was tampered with after it was priced keeps its price.
    """

    def __init__(self, model: ByteModel = ByteModel.SPEC, *, beside: "Prices | None" = None) -> None:
        """Prices of the same observations with other metadata can stand ``beside``: they have the same deltas."""
        self.model = model
        self.known: dict[int, MemoryItem] = {}
        """What was priced so far, by timestep; a store looks here first."""
        self.changes: dict[tuple[int, int], tuple[Any, Any, MemoryItem]] = (
            beside.changes if beside is not None else {}
        )

    def of(self, step: Step) -> int:
        """What a WRITE of this step costs."""
        return self.base(step).byte_cost

    def base(self, step: Step) -> MemoryItem:
        """What a WRITE of this step would hold."""
        known = self.known.get(step.t)
        return known if known is not None and known.step is step else self.note(step)

    def note(self, step: Step) -> MemoryItem:
        """Price a step anew."""
        if len(self.known) >= MAX_PRICED_STEPS:
            self.known.clear()
        return self.note_all((step,), (json_bytes(step.observation),))[0]

    def note_all(self, steps: Sequence[Step], observation_bytes: Sequence[int]) -> list[MemoryItem]:
        """Price steps whose observations were measured already."""
        fixed, known, items = FIXED_BYTES[self.model], self.known, []
        for step, size in zip(steps, observation_bytes, strict=True):
            item = MemoryItem(
                step=step,
                written_at=step.t,
                byte_cost=size + json_bytes(step.metadata) + fixed,
                api=endpoint_of(step.observation),
                writing=(MemoryAction(action=_WRITE, step=step),),
            )
            known[step.t] = item
            items.append(item)
        return items

    def delta(self, base: MemoryItem, step: Step) -> MemoryItem:
        """What a MERGE of this step into that base would hold; an empty observation means that nothing changes."""
        old, new = base.step.observation, step.observation
        key = (base.step.t, step.t)
        known = self.changes.get(key)
        if known is not None and known[0] is old and known[1] is new:
            return known[2]
        if len(self.changes) >= MAX_PRICED_STEPS:
            self.changes.clear()
        # Most deltas of most streams are empty, and two equal observations are seen to be so at once.
        patch = canonical_delta(old, new) if old != new else {}
        changed = Step(t=step.t, observation=patch, metadata={PARENT: base.step.t})
        item = MemoryItem(
            step=changed,
            written_at=step.t,
            byte_cost=(json_bytes(patch) if patch else len("{}")) + MERGE_BYTES,
            metadata=changed.metadata,
            api=base.api,
            merge_parent_t=base.step.t,
        )
        self.changes[key] = (old, new, item)
        return item
