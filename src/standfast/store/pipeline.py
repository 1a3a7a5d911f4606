"""Every decision of the commit pipeline, as pure functions: they take a view of the state and return the rows
to append.

There is no clock, storage or randomness in here. The same functions run over SQLite, PostgreSQL and memory,
and in a simulation that plays thousands of schedules of crashes and paused workers against them.

    buffer_open ──commit──> commit_applied            one transaction, if nothing can happen in between
    buffer_open ──stage───> commit_pending ──finish──> commit_applied
                                          └──────────> commit_aborted   with one of four reasons
    buffer_open ──crash───> discarded
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from standfast.errors import CommitAborted, PayloadMismatch, StaleFence, StoreError
from standfast.ledger.chain import Branch, Entry, extend
from standfast.limits import LEASE_SECONDS, MAX_CLOCK_SKEW_SECONDS
from standfast.records.canon import CanonicalPart, utc_text
from standfast.records.vocabulary import AbortReason, ActionType, BufferState, Receipt, Value
from standfast.store.commit import (
    COMMIT_KIND,
    ERASURE_KIND,
    RESTORE_KIND,
    Commit,
    Fact,
    RecordVector,
    Write,
)
from standfast.store.protocol import (
    AppliedCommit,
    Buffer,
    Changes,
    Erasure,
    Places,
    StateQuery,
    StateView,
    Vector,
    VectorEnd,
    Version,
)

CommitAnswer = Receipt | StoreError
"""What becomes of a submitted commit."""


class Submission(msgspec.Struct, frozen=True):
    """A commit to apply, with the fence that its submitter holds; None if the commit was never staged.

    ``new`` has keys that were made for the commit, as was its id, so that nothing can be there. ``untouched``
    has namespaces and prefixes of keys under which nobody may have written since the run's snapshot. With a
    ``rejection``, which says why, the commit is to be recorded as rejected by a policy, and not applied.
    """

    commit: Commit
    fence: int | None = None
    new: frozenset[str] = frozenset()
    untouched: Places = ()
    rejection: str = ""


def query_for(batch: Sequence[Submission]) -> StateQuery:
    """The state that deciding on these commits needs."""
    return StateQuery(
        commit_ids=[one.commit.commit_id for one in batch if not one.new],
        record_keys=[
            (row.namespace, row.key)
            for one in batch
            for row in _looked_up(one.commit)
            if row.key not in one.new
        ],
    )


def _looked_up(commit: Commit) -> Iterator[Write | RecordVector]:
    """What is written, and the vectors of older versions."""
    yield from commit.writes
    yield from (one for one in commit.vectors if one.of_snapshot is not None)


def decide_commits(view: StateView, batch: Sequence[Submission]) -> tuple[Changes, list[CommitAnswer]]:
    """Apply each submission on top of the one before it, or refuse it. One answer each, in order.

    A refused submission leaves no trace in the others.
    """
    changes = Changes(
        versions=[], applied=[], entries=[], buffers=[], dropped=[], erasures=[], vectors=[], vector_ends=[]
    )
    at = _instant(view)
    answers = [
        _known_answer(view, submission) or _apply(view, changes, submission, at) for submission in batch
    ]
    return changes, answers


def _known_answer(view: StateView, submission: Submission) -> CommitAnswer | None:
    """The answer, if this commit was decided before or this submitter may not decide it."""
    commit = submission.commit
    if applied := view.applied.get(commit.commit_id):
        return _payload_mismatch(commit, applied.payload_fingerprint) or receipt_of(applied, replayed=True)
    buffer = view.buffers.get(commit.commit_id)
    if buffer is None or buffer.is_discarded:
        fence = 0 if buffer is None else buffer.fence
        return None if submission.fence is None else _stale_fence(commit, fence, submission.fence)
    if refusal := _payload_mismatch(commit, buffer.payload_fingerprint):
        # The payload of an open buffer still grows; only from pending on is it settled.
        return None if buffer.state is BufferState.OPEN and submission.fence == buffer.fence else refusal
    if buffer.state is BufferState.ABORTED:
        return _aborted(commit, AbortReason(buffer.reason_code or ""), buffer.problem or "")
    return None if submission.fence == buffer.fence else _stale_fence(commit, buffer.fence, submission.fence)


def _payload_mismatch(commit: Commit, known: str) -> StoreError | None:
    if known == commit.payload_fingerprint:
        return None
    return PayloadMismatch(
        commit_id=commit.commit_id,
        run_id=commit.run_id,
        known_fingerprint=known,
        payload_fingerprint=commit.payload_fingerprint,
    )


def _apply(view: StateView, changes: Changes, submission: Submission, at: str) -> CommitAnswer:
    """Append the rows of one commit, and advance the view by them; a commit that conflicts is aborted."""
    commit = submission.commit
    problem = _conflict(view, commit) or _touched(view, submission)
    if problem is not None:
        return _abort(view, changes, commit, AbortReason.VALIDATION_FAILED, problem)
    snapshot = view.head + 1
    *before, entry = _ledger_entries(view, commit, snapshot, at)
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
        place = namespace, key = write.namespace, write.key
        if write.erases is not None:
            until = snapshot - 1 if write.until is None else write.until
            changes.erasures.append(Erasure(namespace, key, snapshot, until))
            if _newer_than_erased(view, write) is not None:
                continue
        version = Version(namespace, key, snapshot, write.action, write.fingerprint, write.content)
        changes.versions.append(version)
        if place in view.latest:
            changes.vector_ends.append(VectorEnd(namespace, key, snapshot))
        view.latest[place] = version
    changes.vectors += [
        Vector(one.namespace, one.key, one.of_snapshot or snapshot, one.embedder, snapshot, one.content)
        for one in commit.vectors
        if _is_current(view, one)
    ]
    changes.applied.append(applied)
    changes.entries += [*before, entry]
    if commit.commit_id in view.buffers:
        changes.dropped.append(commit.commit_id)
        del view.buffers[commit.commit_id]
    view.applied[commit.commit_id] = applied
    view.head, view.tip = snapshot, entry.tip
    return receipt_of(applied)


def _newer_than_erased(view: StateView, write: Write) -> int | None:
    """The snapshot of the version that stays because it is newer than what a write erases, if any."""
    latest = view.latest.get(write.record_key)
    if write.until is None or latest is None or latest.memory_snapshot_id <= write.until:
        return None
    return latest.memory_snapshot_id


def _is_current(view: StateView, vector: RecordVector) -> bool:
    """Whether a vector belongs to the newest version of its record.

    One that was changed or erased meanwhile gets none.
    """
    latest = view.latest.get((vector.namespace, vector.key))
    if latest is None or latest.action is ActionType.EXPIRE:
        return False
    return vector.of_snapshot in (None, latest.memory_snapshot_id)


def _ledger_entries(view: StateView, commit: Commit, snapshot: int, at: str) -> list[Entry]:
    """The entries of a commit: its erasures, then its facts, each naming the commit, and its own entry
    last.
    """
    entries: list[Entry] = []

    def add(kind: str, body: dict[str, Any]) -> None:
        entries.append(extend(entries[-1].tip if entries else view.tip, kind=kind, at=at, body=body))

    of_commit = {"commit_id": commit.commit_id, "memory_snapshot_id": snapshot}
    for write in commit.writes:
        if write.erases is None:
            continue
        facts: dict[str, Any] = {"namespace": write.namespace, "key": write.key, "reason": write.erases}
        if write.until is not None:
            facts["until"] = write.until
        if (newer := _newer_than_erased(view, write)) is not None:
            # There is no row of this commit then, which the audit would otherwise miss.
            facts["newer"] = newer
        add(ERASURE_KIND, {**of_commit, **facts})
    for fact in commit.facts:
        add(fact.kind, {**of_commit, "told": CanonicalPart(fact.content)})
    body: dict[str, Any] = {
        **of_commit,
        "commit_payload_fingerprint": commit.payload_fingerprint,
        "policy_set_id": commit.policy_set_id,
        "run_id": commit.run_id,
        "start_snapshot_id": commit.memory_snapshot_id,
        "writes": len(commit.writes),
    }
    if entries:
        body["facts"] = len(entries)
    add(COMMIT_KIND, body)
    return entries


def decide_fact(view: StateView, fact: Fact) -> tuple[Changes, Entry]:
    """Append a fact that belongs to no commit to the ledger."""
    entry = extend(view.tip, kind=fact.kind, at=_instant(view), body={"told": CanonicalPart(fact.content)})
    return Changes(entries=[entry]), entry


def decide_branch(
    view: StateView,
    branches: Sequence[Branch],
    *,
    branch_id: str,
    shared_seq: int,
    left_seq: int,
    reason: str,
) -> tuple[Changes, Branch]:
    """Begin a branch at the present head, and tell of it in the ledger."""
    branch = Branch(
        number=len(branches),
        branch_id=branch_id,
        ledger_seq=view.tip.seq + 1,
        shared_seq=min(shared_seq, view.tip.seq),
        left_seq=max(left_seq, view.tip.seq),
    )
    body = {
        **msgspec.structs.asdict(branch),
        "store_id": branches[0].branch_id,
        "memory_snapshot_id": view.head,
        "reason": reason,
    }
    entry = extend(view.tip, kind=RESTORE_KIND, at=_instant(view), body=body)
    return Changes(entries=[entry], branches=[branch]), branch


def _instant(view: StateView) -> str:
    return utc_text(datetime.fromtimestamp(view.now, UTC))


def _conflict(view: StateView, commit: Commit) -> str | None:
    """Why the commit can't be applied on top of the head, or None."""
    if commit.memory_snapshot_id > view.head:
        return f"the run starts from snapshot {commit.memory_snapshot_id}, but the newest is {view.head}"
    for write in commit.writes:
        if write.until is not None:
            continue
        latest = view.latest.get((write.namespace, write.key))
        if latest is None and write.action is ActionType.WRITE:
            continue
        if problem := _conflict_with(write, latest, commit.memory_snapshot_id):
            other = "" if latest is None else f" (commit {_commit_of(view, latest.memory_snapshot_id)})"
            return f"{write.action} of {write.namespace}/{write.key}: {problem}{other}"
    return None


def _touched(view: StateView, submission: Submission) -> str | None:
    """Which of the places was written to that nobody else may have written to, or None."""
    start = submission.commit.memory_snapshot_id
    if view.head == start:
        return None
    # Commits of the same batch are in the view only.
    newer = [place for place, version in view.latest.items() if version.memory_snapshot_id > start]
    for namespace, prefix in submission.untouched:
        in_batch = any(place[0] == namespace and place[1].startswith(prefix) for place in newer)
        if in_batch or view.is_written(namespace, prefix, start):
            return f"the run started at snapshot {start}, and {namespace}/{prefix} was written to since"
    return None


def _conflict_with(write: Write, latest: Version | None, start: int) -> str | None:
    """Why a write conflicts with the newest version of its record, or None.

    ``start`` is the run's snapshot.
    """
    live = latest is not None and latest.action is not ActionType.EXPIRE
    if write.action is ActionType.WRITE:
        if latest is None or not live or latest.fingerprint == write.fingerprint:
            return None
        return f"another record is there since snapshot {latest.memory_snapshot_id}; use MERGE to change it"
    if latest is None:
        return "there is no such record"
    if latest.memory_snapshot_id > start:
        return f"the run started at snapshot {start}, and the record changed in {latest.memory_snapshot_id}"
    if live or (write.action is ActionType.EXPIRE and (write.again or write.erases is not None)):
        return None
    return f"the record expired in snapshot {latest.memory_snapshot_id}"


def _commit_of(view: StateView, snapshot: int) -> str:
    """The id of the commit that made a snapshot, be it stored or decided earlier in the same batch."""
    decided = (a.commit_id for a in view.applied.values() if a.memory_snapshot_id == snapshot)
    return next(decided, None) or view.commit_of(snapshot)


def decide_stage(
    view: StateView, commit: Commit, *, owner: str, state: BufferState, waits_for: str | None
) -> tuple[Changes, CommitAnswer | Buffer]:
    """Persist a commit before it is applied: open while it grows, pending once it is settled.

    Staging a settled commit again can add what it waits for, but can't open it or lift the wait.
    """
    held = view.buffers.get(commit.commit_id)
    fence = held.fence if held is not None and held.owner == owner else None
    known = _known_answer(view, Submission(commit, fence))
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
    """Take over every buffer whose lease has expired. The higher fence shuts the old owner out.

    Buffers that ended longer ago than they are kept for are dropped.
    """
    claimed = [
        msgspec.structs.replace(
            buffer, owner=worker, fence=buffer.fence + 1, lease_until=view.now + LEASE_SECONDS
        )
        for buffer in view.buffers.values()
        if buffer.state is not BufferState.ABORTED
        and buffer.content is not None
        and buffer.waits_for is None
        and not _is_leased(view, buffer)
    ]
    ended = [buffer.commit_id for buffer in view.buffers.values() if buffer.content is None]
    return Changes(buffers=claimed, dropped=ended), claimed


def _is_leased(view: StateView, buffer: Buffer) -> bool:
    """Whether a lease runs.

    One that ends later than any honest one could was given out by a clock far ahead.
    """
    return view.now < buffer.lease_until <= view.now + LEASE_SECONDS + MAX_CLOCK_SKEW_SECONDS


def decide_renewal(view: StateView, commit_id: str, fence: int) -> tuple[Changes, Buffer | StoreError]:
    """Extend a lease, if the fence is still the current one."""
    held = view.buffers.get(commit_id)
    if held is None or held.fence != fence or held.state is BufferState.ABORTED:
        return Changes(), StaleFence(commit_id=commit_id, fence=held.fence if held else 0, given_fence=fence)
    renewed = msgspec.structs.replace(held, lease_until=view.now + LEASE_SECONDS)
    return Changes(buffers=[renewed]), renewed


def decide_discard(view: StateView, commit_id: str, fence: int) -> tuple[Changes, bool]:
    """Empty an open buffer, if the fence is still the current one. A settled buffer can only be aborted.

    Its row stays with a fence that nobody holds: if the run were staged anew from fence 1, the fence of a
    late owner would be valid again.
    """
    held = view.buffers.get(commit_id)
    if held is None or held.fence != fence or held.state is not BufferState.OPEN:
        return Changes(), False
    discarded = msgspec.structs.replace(
        held, content=None, owner="", fence=fence + 1, lease_until=view.now, waits_for=None
    )
    return Changes(buffers=[discarded]), True


def decide_abort(
    view: StateView, buffer: Buffer, reason: AbortReason, problem: str
) -> tuple[Changes, StoreError]:
    """Mark a pending commit as aborted, if the fence is still the current one and it was not applied
    meanwhile.
    """
    held = view.buffers.get(buffer.commit_id)
    if held is None or held.fence != buffer.fence or held.state is BufferState.ABORTED:
        fence = held.fence if held else 0
        return Changes(), StaleFence(commit_id=buffer.commit_id, fence=fence, given_fence=buffer.fence)
    return Changes(buffers=[_aborted_buffer(view, held, reason, problem)]), _aborted(buffer, reason, problem)


def decide_rejection(
    view: StateView, commit: Commit, reason: AbortReason, problem: str
) -> tuple[Changes, CommitAnswer]:
    """Mark a commit as aborted that was never staged. What was decided about it before stands."""
    known = _known_answer(view, Submission(commit))
    if known is not None:
        return Changes(), known
    changes = Changes()
    return changes, _abort(view, changes, commit, reason, problem)


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
    aborted = _aborted_buffer(view, held, reason, problem)
    changes.buffers.append(aborted)
    view.buffers[commit.commit_id] = aborted
    return _aborted(commit, reason, problem)


def _aborted_buffer(view: StateView, buffer: Buffer, reason: AbortReason, problem: str) -> Buffer:
    return msgspec.structs.replace(
        buffer,
        state=BufferState.ABORTED,
        content=None,
        lease_until=view.now,
        waits_for=None,
        reason_code=reason.value,
        problem=problem,
    )


def _aborted(aborted: Commit | Buffer, reason: AbortReason, problem: str) -> StoreError:
    return CommitAborted(
        commit_id=aborted.commit_id, run_id=aborted.run_id, reason_code=reason.value, problem=problem
    )


def _stale_fence(commit: Commit, fence: int, given: int | None) -> StoreError:
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
"""All steps there are.

Nothing leaves ``commit_applied``; an aborted buffer is only forgotten, after a time, and never applied.
"""


class BufferStatus(Value, frozen=True, kw_only=True):
    """What is known of a commit.

    ``reason_code`` and ``problem`` belong to an aborted one, ``memory_snapshot_id`` to an applied one.
    """

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
