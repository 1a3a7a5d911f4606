"""What owners ask for in the lease simulation: one transaction each, with the pure function that decides
it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from standfast.records.vocabulary import AbortReason, BufferState
from standfast.store import pipeline
from standfast.store.commit import Commit
from standfast.store.pipeline import Submission
from standfast.store.protocol import Buffer, Changes, StateQuery, StateView


@dataclass(slots=True)
class Request:
    """What an owner wants done in one transaction, and the grants under which it believes it may."""

    what: str
    owner: str
    query: StateQuery
    decide: Callable[[StateView], tuple[Changes, Any]]
    held: dict[str, int] = field(default_factory=dict)
    granted: dict[str, int] = field(default_factory=dict)
    stages: bool = False


def committing(owner: str, batch: list[Submission], held: dict[str, int]) -> Request:
    """Apply these, together."""
    return Request(
        what="commit " + ", ".join(f"{asked.commit.run_id} fence {asked.fence}" for asked in batch),
        owner=owner,
        query=pipeline.query_for(batch),
        decide=lambda view: pipeline.decide_commits(view, batch),
        held=dict(held),
    )


def staging(
    owner: str, staged: Commit, state: BufferState, waits_for: str | None, held: dict[str, int]
) -> Request:
    """Persist a commit before it is applied."""
    return Request(
        what=f"stage {staged.run_id} as {state}, {len(staged.writes)} writes, waits for {waits_for}",
        owner=owner,
        query=pipeline.query_for([pipeline.Submission(staged)]),
        decide=lambda view: pipeline.decide_stage(
            view, staged, owner=owner, state=state, waits_for=waits_for
        ),
        held=dict(held),
        stages=True,
    )


def claiming(owner: str, limit: int) -> Request:
    """Take over what others left."""
    return Request(
        what=f"claim {limit}",
        owner=owner,
        query=StateQuery(abandoned=limit),
        decide=lambda view: pipeline.decide_claims(view, worker=owner),
    )


def renewing(owner: str, buffer: Buffer, held: dict[str, int]) -> Request:
    """Keep a staged commit for another lease."""
    return _about(
        buffer,
        "renew",
        owner,
        held,
        lambda view: pipeline.decide_renewal(view, buffer.commit_id, buffer.fence),
    )


def discarding(owner: str, buffer: Buffer, held: dict[str, int]) -> Request:
    """Empty an open buffer."""
    return _about(
        buffer,
        "discard",
        owner,
        held,
        lambda view: pipeline.decide_discard(view, buffer.commit_id, buffer.fence),
    )


def aborting(owner: str, buffer: Buffer, held: dict[str, int]) -> Request:
    """Mark a staged commit as aborted."""
    return _about(
        buffer,
        "abort",
        owner,
        held,
        lambda view: pipeline.decide_abort(view, buffer, AbortReason.POLICY_REJECTED, "no"),
    )


def _about(
    buffer: Buffer,
    what: str,
    owner: str,
    held: dict[str, int],
    decide: Callable[[StateView], tuple[Changes, Any]],
) -> Request:
    return Request(
        what=f"{what} {buffer.run_id} fence {buffer.fence}",
        owner=owner,
        query=StateQuery(commit_ids=[buffer.commit_id]),
        decide=decide,
        held=dict(held),
    )
