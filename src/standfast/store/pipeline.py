"""Every decision of the commit pipeline, as pure functions: what was seen goes in, what to append comes out.

No clock, no storage, no randomness. The same functions run over SQLite, PostgreSQL, memory, and a simulation that
plays thousands of schedules of crashes and stopped workers against them.

    buffer_open ──commit──> commit_applied            one transaction, if nothing can happen in between
    buffer_open ──stage───> commit_pending ──finish──> commit_applied
                                          └──────────> commit_aborted   with one of four reasons
    buffer_open ──crash───> discarded
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from standfast.canon import utc_text
from standfast.errors import CommitAborted, PayloadMismatch, StaleFence, StoreError
from standfast.ledger.chain import Entry, Tip, extend
from standfast.limits import LEASE_SECONDS
from standfast.store.commit import COMMIT_KIND, ERASURE_KIND, Commit, Fact, Write
from standfast.store.protocol import AppliedCommit, Buffer, Changes, Erasure, StateQuery, StateView, Version
from standfast.vocabulary import AbortReason, ActionType, BufferState, Receipt

Answer = Receipt | StoreError


class Submission(msgspec.Struct, frozen=True):
    """A commit to be applied, with the fence that its submitter holds; None if it was never staged."""

    commit: Commit
    fence: int | None = None


def query_for(commits: Sequence[Commit]) -> StateQuery:
    """What deciding on these commits needs to see."""
    return StateQuery(
        commit_ids=[commit.commit_id for commit in commits],
        places=[(write.namespace, write.key) for commit in commits for write in commit.writes],
    )


def decide_commits(view: StateView, batch: Sequence[Submission]) -> tuple[Changes, list[Answer]]:
    """Apply each submission on top of the one before it, or refuse it; one answer each, in order.

    Refusing one leaves no trace of it in the others: nothing is appended before it is decided.
    """
    changes = Changes(versions=[], applied=[], entries=[], buffers=[], dropped=[], erasures=[])
    at = _instant(view)
    return changes, [_known(view, asked) or _decide(view, changes, asked.commit, at) for asked in batch]


def _known(view: StateView, submission: Submission) -> Answer | None:
    """The answer, if this commit was decided before, or may not be decided by this submitter."""
    commit = submission.commit
    if applied := view.applied.get(commit.commit_id):
        return _same_payload(commit, applied.payload_fingerprint) or receipt_of(applied, replayed=True)
    buffer = view.buffers.get(commit.commit_id)
    if buffer is None or buffer.is_vacant:
        fence = 0 if buffer is None else buffer.fence
        return None if submission.fence is None else _stale(commit, fence, submission.fence)
    if refusal := _same_payload(commit, buffer.payload_fingerprint):
        # An open buffer still grows: only from pending on is its payload settled.
        return None if buffer.state is BufferState.OPEN and submission.fence == buffer.fence else refusal
    if buffer.state is BufferState.ABORTED:
        return _aborted(commit, AbortReason(buffer.reason_code or ""), buffer.problem or "")
    return None if submission.fence == buffer.fence else _stale(commit, buffer.fence, submission.fence)


def _same_payload(commit: Commit, known: str) -> StoreError | None:
    if known == commit.payload_fingerprint:
        return None
    return PayloadMismatch(
        commit_id=commit.commit_id,
        run_id=commit.run_id,
        known_fingerprint=known,
        payload_fingerprint=commit.payload_fingerprint,
    )


def _decide(view: StateView, changes: Changes, commit: Commit, at: str) -> Answer:
    problem = _conflict(view, commit)
    if problem is not None:
        return _abort(view, changes, commit, AbortReason.VALIDATION_FAILED, problem)
    snapshot = view.head + 1
    told = _told_first(view.tip, commit, snapshot, at)
    body = {
        "commit_id": commit.commit_id,
        "commit_payload_fingerprint": commit.payload_fingerprint,
        "memory_snapshot_id": snapshot,
        "policy_set_id": commit.policy_set_id,
        "run_id": commit.run_id,
        "start_snapshot_id": commit.memory_snapshot_id,
        "writes": len(commit.writes),
    }
    if told:
        body["facts"] = len(told)
    entry = extend(told[-1].tip if told else view.tip, kind=COMMIT_KIND, at=at, body=body)
    applied = AppliedCommit(
        memory_snapshot_id=snapshot,
        commit_id=commit.commit_id,
        run_id=commit.run_id,
        payload_fingerprint=commit.payload_fingerprint,
        committed_at=at,
        ledger_seq=entry.seq,
        ledger_hash=entry.hash,
    )
    for write in commit.writes:
        version = _version(write, snapshot)
        changes.versions.append(version)
        view.latest[write.place] = version
        if write.erases is not None:
            changes.erasures.append(Erasure(write.namespace, write.key, snapshot))
    changes.applied.append(applied)
    changes.entries += [*told, entry]
    if commit.commit_id in view.buffers:
        changes.dropped.append(commit.commit_id)
        del view.buffers[commit.commit_id]
    view.applied[commit.commit_id] = applied
    view.head, view.tip = snapshot, entry.tip
    return receipt_of(applied)


def _told_first(tip: Tip, commit: Commit, snapshot: int, at: str) -> list[Entry]:
    """The entries that stand right before the commit's own: its erasures, then its facts, each naming the commit."""
    told: list[Entry] = []
    of_commit = {"commit_id": commit.commit_id, "memory_snapshot_id": snapshot}
    for write in commit.writes:
        if write.erases is not None:
            body = {**of_commit, "namespace": write.namespace, "key": write.key, "reason": write.erases}
            told.append(extend(told[-1].tip if told else tip, kind=ERASURE_KIND, at=at, body=body))
    for fact in commit.facts:
        body = {**of_commit, "told": fact.read()}
        told.append(extend(told[-1].tip if told else tip, kind=fact.kind, at=at, body=body))
    return told


def decide_fact(view: StateView, fact: Fact) -> tuple[Changes, Entry]:
    """Tell the ledger something that belongs to no commit."""
    entry = extend(view.tip, kind=fact.kind, at=_instant(view), body={"told": fact.read()})
    return Changes(entries=[entry]), entry


def _instant(view: StateView) -> str:
    return utc_text(datetime.fromtimestamp(view.now, UTC))


def _version(write: Write, snapshot: int) -> Version:
    return Version(
        namespace=write.namespace,
        key=write.key,
        memory_snapshot_id=snapshot,
        action=write.action,
        fingerprint=write.fingerprint,
        content=write.content,
    )


def _conflict(view: StateView, commit: Commit) -> str | None:
    """Why the commit can't be applied on top of the head, or None."""
    if commit.memory_snapshot_id > view.head:
        return f"the run starts from snapshot {commit.memory_snapshot_id}, but the newest is {view.head}"
    for write in commit.writes:
        latest = view.latest.get(write.place)
        if problem := _conflict_at(write, latest, commit.memory_snapshot_id):
            other = "" if latest is None else f" (commit {_commit_of(view, latest.memory_snapshot_id)})"
            return f"{write.action} of {write.namespace}/{write.key}: {problem}{other}"
    return None


def _conflict_at(write: Write, latest: Version | None, start: int) -> str | None:
    live = latest is not None and latest.action is not ActionType.EXPIRE
    if write.action is ActionType.WRITE:
        if latest is None or not live or latest.fingerprint == write.fingerprint:
            return None
        return f"another record is there since snapshot {latest.memory_snapshot_id}; use MERGE to change it"
    if latest is None:
        return "there is no such record"
    if latest.memory_snapshot_id > start:
        return f"the run started at snapshot {start}, and the record changed in {latest.memory_snapshot_id}"
    if live or (write.action is ActionType.EXPIRE and write.erases is not None):
        return None
    return f"the record expired in snapshot {latest.memory_snapshot_id}"


def _commit_of(view: StateView, snapshot: int) -> str:
    """The commit that made a snapshot, be it stored already or decided earlier in the same batch."""
    decided = (a.commit_id for a in view.applied.values() if a.memory_snapshot_id == snapshot)
    return next(decided, None) or view.commit_of(snapshot)


def decide_stage(
    view: StateView, commit: Commit, *, owner: str, state: BufferState, waits_for: str | None
) -> tuple[Changes, Answer | Buffer]:
    """Persist a commit before it is applied: open while it grows, pending once it is settled.

    What is settled stays so: staging it again can add what it waits for, but neither open it nor lift the wait.
    """
    held = view.buffers.get(commit.commit_id)
    fence = held.fence if held is not None and held.owner == owner else None
    known = _known(view, Submission(commit, fence))
    if known is not None:
        return Changes(), known
    settled = held if held is not None and held.state is BufferState.PENDING else None
    buffer = Buffer(
        commit_id=commit.commit_id,
        run_id=commit.run_id,
        payload_fingerprint=commit.payload_fingerprint,
        state=state if settled is None else settled.state,
        content=commit.as_bytes(),
        owner=owner,
        fence=1 if held is None else held.fence,
        lease_until=view.now + LEASE_SECONDS,
        waits_for=waits_for if settled is None else settled.waits_for or waits_for,
    )
    return Changes(buffers=[buffer]), buffer


def decide_claims(view: StateView, *, worker: str) -> tuple[Changes, list[Buffer]]:
    """Take over every buffer whose owner let its lease run out: a higher fence shuts the old owner out."""
    claimed = [
        msgspec.structs.replace(
            buffer, owner=worker, fence=buffer.fence + 1, lease_until=view.now + LEASE_SECONDS
        )
        for buffer in view.buffers.values()
        if buffer.state is not BufferState.ABORTED
        and buffer.waits_for is None
        and buffer.lease_until <= view.now
    ]
    return Changes(buffers=claimed), claimed


def decide_renewal(view: StateView, commit_id: str, fence: int) -> tuple[Changes, Buffer | StoreError]:
    """Push the end of a lease back, if it is still this owner's."""
    held = view.buffers.get(commit_id)
    if held is None or held.fence != fence or held.state is BufferState.ABORTED:
        return Changes(), StaleFence(commit_id=commit_id, fence=held.fence if held else 0, given_fence=fence)
    renewed = msgspec.structs.replace(held, lease_until=view.now + LEASE_SECONDS)
    return Changes(buffers=[renewed]), renewed


def decide_discard(view: StateView, commit_id: str, fence: int) -> tuple[Changes, bool]:
    """Empty an open buffer, if it is still this owner's. What is settled can't be discarded, only aborted.

    Its row stays, with a fence that nobody holds: were the run staged anew from fence 1, a late owner's old fence
    would fit again.
    """
    held = view.buffers.get(commit_id)
    if held is None or held.fence != fence or held.state is not BufferState.OPEN:
        return Changes(), False
    vacant = msgspec.structs.replace(
        held, content=None, owner="", fence=fence + 1, lease_until=math.inf, waits_for=None
    )
    return Changes(buffers=[vacant]), True


def decide_abort(
    view: StateView, buffer: Buffer, reason: AbortReason, problem: str
) -> tuple[Changes, StoreError]:
    """Mark a pending commit as aborted, if it is still this owner's and was not applied meanwhile."""
    held = view.buffers.get(buffer.commit_id)
    if held is None or held.fence != buffer.fence or held.state is BufferState.ABORTED:
        fence = held.fence if held else 0
        return Changes(), StaleFence(commit_id=buffer.commit_id, fence=fence, given_fence=buffer.fence)
    return Changes(buffers=[_aborted_buffer(held, reason, problem)]), CommitAborted(
        commit_id=buffer.commit_id, run_id=buffer.run_id, reason_code=reason.value, problem=problem
    )


def _abort(
    view: StateView, changes: Changes, commit: Commit, reason: AbortReason, problem: str
) -> StoreError:
    held = view.buffers.get(commit.commit_id) or Buffer(
        commit_id=commit.commit_id,
        run_id=commit.run_id,
        payload_fingerprint=commit.payload_fingerprint,
        state=BufferState.PENDING,
    )
    held = msgspec.structs.replace(held, payload_fingerprint=commit.payload_fingerprint)
    aborted = _aborted_buffer(held, reason, problem)
    changes.buffers.append(aborted)
    view.buffers[commit.commit_id] = aborted
    return _aborted(commit, reason, problem)


def _aborted_buffer(buffer: Buffer, reason: AbortReason, problem: str) -> Buffer:
    return msgspec.structs.replace(
        buffer,
        state=BufferState.ABORTED,
        content=None,
        waits_for=None,
        reason_code=reason.value,
        problem=problem,
    )


def _aborted(commit: Commit, reason: AbortReason, problem: str) -> StoreError:
    return CommitAborted(
        commit_id=commit.commit_id, run_id=commit.run_id, reason_code=reason.value, problem=problem
    )


def _stale(commit: Commit, fence: int, given: int | None) -> StoreError:
    return StaleFence(commit_id=commit.commit_id, fence=fence, given_fence=given)


def receipt_of(applied: AppliedCommit, *, replayed: bool = False) -> Receipt:
    """The receipt of an applied commit."""
    return Receipt(
        commit_id=applied.commit_id,
        memory_snapshot_id=applied.memory_snapshot_id,
        payload_fingerprint=applied.payload_fingerprint,
        committed_at=applied.committed_at,
        ledger_seq=applied.ledger_seq,
        ledger_hash=applied.ledger_hash,
        replayed=replayed,
    )
