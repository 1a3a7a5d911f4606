"""The state machine of a commit's buffer, as published in ``schemas/memory.buffer.v1.json``.

buffer_open     staged, and may still grow; a crash discards it
commit_pending  staged and settled; recovery applies or aborts it
commit_applied  part of a snapshot, for good
commit_aborted  never part of one, with the reason, for good
"""

from typing import Any, Final, Literal, NamedTuple

from standfast.store.protocol import Buffer
from standfast.vocabulary import BufferState, Receipt, Value

BUFFER_SCHEMA: Final = "memory.buffer.v1"
NOTHING: Final = "nothing"
"""Before a commit is staged, and after an open one was discarded."""


class Transition(NamedTuple):
    """One step that a buffer may take, and what causes it."""

    before: str
    after: str
    cause: str


TRANSITIONS: Final = (
    Transition(NOTHING, BufferState.OPEN, "a commit is staged that may still grow"),
    Transition(NOTHING, BufferState.PENDING, "a settled commit is staged"),
    Transition(NOTHING, BufferState.APPLIED, "a commit is applied at once"),
    Transition(NOTHING, BufferState.ABORTED, "a commit is refused at once"),
    Transition(BufferState.OPEN, BufferState.OPEN, "it grows, or its lease is renewed"),
    Transition(BufferState.OPEN, BufferState.PENDING, "it is settled"),
    Transition(BufferState.OPEN, BufferState.APPLIED, "its owner commits it"),
    Transition(BufferState.OPEN, BufferState.ABORTED, "its owner's commit is refused"),
    Transition(
        BufferState.OPEN, NOTHING, "its owner discards it, or recovery does because its owner is gone"
    ),
    Transition(BufferState.PENDING, BufferState.PENDING, "its lease is renewed, or recovery takes it over"),
    Transition(BufferState.PENDING, BufferState.APPLIED, "its owner or recovery applies it"),
    Transition(
        BufferState.PENDING, BufferState.ABORTED, "its owner or recovery finds that it can't be applied"
    ),
)
"""All steps there are. Nothing leaves ``commit_applied``; an aborted buffer is only forgotten, after a time, and never applied."""


class BufferStatus(Value, frozen=True, kw_only=True):
    """What is known of a commit. ``reason_code`` and ``problem`` belong to an aborted one, ``memory_snapshot_id`` to an applied one."""

    commit_id: str
    commit_payload_fingerprint: str
    state: BufferState
    reason_code: (
        Literal["policy_rejected", "validation_failed", "storage_apply_failed", "payload_mismatch"] | None
    ) = None
    problem: str | None = None
    waits_for: str | None = None
    memory_snapshot_id: int | None = None


def described(known: Buffer | Receipt) -> BufferStatus:
    """Return the published form of what ``Store.status`` answers."""
    if isinstance(known, Receipt):
        return BufferStatus(
            commit_id=known.commit_id,
            commit_payload_fingerprint=known.payload_fingerprint,
            state=BufferState.APPLIED,
            memory_snapshot_id=known.memory_snapshot_id,
        )
    plain: Any = known.reason_code
    return BufferStatus(
        commit_id=known.commit_id,
        commit_payload_fingerprint=known.payload_fingerprint,
        state=known.state,
        reason_code=plain,
        problem=known.problem,
        waits_for=known.waits_for,
    )
