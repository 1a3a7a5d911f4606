"""The store: opens runs, commits them, reads any snapshot, recovers what a crash left. A thin shell around the pipeline."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import (
    CannotOpen,
    CommitAborted,
    NoSuchSnapshot,
    OutcomeUnknown,
    StoreError,
    StoreFailed,
)
from standfast.ledger.chain import Entry
from standfast.limits import (
    LEASE_RENEW_SECONDS,
    MAX_ATTEMPTS,
    MAX_GROUP_COMMITS,
    SCAN_FIRST_RECORDS,
    SCAN_PAGE_RECORDS,
)
from standfast.store import audit, pipeline
from standfast.store.audit import verified
from standfast.store.backup import Progress, copy_store
from standfast.store.commit import Commit, Fact
from standfast.store.group_commit import GroupCommit
from standfast.store.pipeline import Answer, Submission
from standfast.store.protocol import AppliedCommit, Buffer, Changes, StateQuery, StateView, Storage, Version
from standfast.vocabulary import AbortReason, BufferState, Receipt

if TYPE_CHECKING:
    from standfast.ledger.note import VerifyingKey

_T = TypeVar("_T")


class Store:
    """Snapshots, commits and their recovery, over any backend. Safe to share between threads."""

    def __init__(self, storage: Storage, *, clock: Clock, ids: IdSource) -> None:
        self._storage = storage
        self.clock = clock
        self.ids = ids
        self.worker_id = ids.new_id()
        self._known_head = 0
        self._group: GroupCommit[Submission, Answer] = GroupCommit(self._commit_batch)

    # Reading.

    def head(self) -> int:
        """The newest snapshot; 0 if nothing was ever committed."""
        self._known_head = self._storage.head()
        return self._known_head

    def read(self, namespace: str, keys: Sequence[str], *, at: int | None = None) -> dict[str, Version]:
        """The records that a snapshot shows under these keys, verified; expired and unknown ones are left out."""
        found = self._storage.versions_at(namespace, keys, self._existing(at))
        shown = {key: verified(found[key]) for key in keys if key in found}
        return {key: version for key, version in shown.items() if version.content is not None}

    def scan(
        self, namespace: str, *, prefix: str = "", after: str = "", at: int | None = None
    ) -> Iterator[Version]:
        """Every record that a snapshot shows in a namespace, by key, verified; in pages, so memory stays bounded.

        ``prefix`` keeps to the keys that begin with it, without looking at others; ``after`` goes on behind a key.
        """
        for version in self.newest_versions(namespace, prefix=prefix, after=after, at=at):
            if verified(version).content is not None:
                yield version

    def newest_versions(
        self, namespace: str, *, prefix: str = "", after: str = "", at: int | None = None
    ) -> Iterator[Version]:
        """The newest version of each key as of a snapshot, expired ones too, by key.

        The versions are not verified, so that a damaged one does not hide the others.
        """
        snapshot, after = self._existing(at), max(after, prefix)
        # Callers that name a prefix often need the first few records only.
        limit = SCAN_FIRST_RECORDS if prefix else SCAN_PAGE_RECORDS
        while page := self._storage.scan(namespace, snapshot, after=after, prefix=prefix, limit=limit):
            yield from page
            if len(page) < limit:
                return
            after, limit = page[-1].key, min(limit * 8, SCAN_PAGE_RECORDS)

    def history(self, namespace: str, key: str, *, verify: bool = True) -> list[Version]:
        """Every version of one record, oldest first; erased ones have a fingerprint and no content.

        With ``verify=False`` the caller checks the versions itself, one by one.
        """
        versions = self._storage.history(namespace, key)
        return [verified(version) for version in versions] if verify else versions

    def versions_of(self, snapshot: int) -> list[Version]:
        """The versions that the commit of a snapshot wrote, by namespace and key, not verified."""
        return self._storage.snapshot_rows(snapshot)

    def namespaces(self) -> list[str]:
        """Every namespace that ever held a record, sorted."""
        return self._storage.namespaces()

    def commits(self, *, after: int = 0, limit: int = SCAN_PAGE_RECORDS) -> list[AppliedCommit]:
        """The first ``limit`` commits behind snapshot ``after``, in snapshot order."""
        return self._storage.applied(after=after, limit=limit)

    def commit_of(self, snapshot: int) -> AppliedCommit:
        """The commit that made a snapshot."""
        found = self.commits(after=snapshot - 1, limit=1) if snapshot > 0 else []
        if not found:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=self.head())
        return found[0]

    def receipt_of(self, snapshot: int) -> Receipt:
        """The receipt of the commit that made a snapshot, marked as replayed."""
        return pipeline.receipt_of(self.commit_of(snapshot), replayed=True)

    def _existing(self, at: int | None) -> int:
        # Snapshots are never taken back, so that what was there once need not be looked up again.
        if at is None or not 0 <= at <= self._known_head:
            self._known_head = self._storage.head()
        if at is None:
            return self._known_head
        if not 0 <= at <= self._known_head:
            raise NoSuchSnapshot(memory_snapshot_id=at, head=self._known_head)
        return at

    # Committing.

    def commit(self, commit: Commit, *, fence: int | None = None) -> Receipt:
        """Apply a commit, atomically and durably, and give its receipt; the same commit again gives the same receipt.

        Raises ``CommitAborted`` (refused, for a reason), ``PayloadMismatch``, ``StaleFence``, ``StoreFailed`` (nothing was
        changed) or, when even looking it up failed, ``OutcomeUnknown``.
        """
        answer = self._group.submit(Submission(commit, fence))
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def _transact(self, question: StateQuery, decide: Callable[[StateView], tuple[Changes, _T]]) -> _T:
        """Look, decide, append, in one transaction: the only way in which anything here changes."""
        with self._storage.transaction() as transaction:
            changes, answer = decide(transaction.load(question))
            if changes:
                transaction.append(changes)
        return answer

    def _commit_batch(self, batch: Sequence[Submission]) -> list[Answer]:
        question = pipeline.query_for([submission.commit for submission in batch])
        unknown: OutcomeUnknown | None = None
        for _ in range(MAX_ATTEMPTS):
            try:
                answers = self._transact(question, lambda view: pipeline.decide_commits(view, batch))
            except OutcomeUnknown as error:
                # Submitting again is safe: what was applied answers with its receipt.
                unknown = error
                self._reset(error)
            except StoreError as error:
                if unknown is not None:
                    # This attempt changed nothing, but the one before it may have.
                    raise OutcomeUnknown(problem=f"{unknown}; then {error}") from None
                if not isinstance(error, StoreFailed):
                    raise
                return [self._alone(submission) for submission in batch] if len(batch) > 1 else [error]
            else:
                return answers
        assert unknown is not None
        return [unknown] * len(batch)

    def _alone(self, submission: Submission) -> Answer:
        """A batch failed, perhaps for one member's sake; each gets its own transaction and its own answer."""
        try:
            return self._commit_batch([submission])[0]
        except StoreError as own:
            return own

    def _reset(self, error: OutcomeUnknown) -> None:
        try:
            self._storage.reset()
        except StoreError as again:
            raise OutcomeUnknown(problem=f"{error}; then {again}") from None

    def status(self, commit_id: str) -> Receipt | Buffer | None:
        """What is known of a commit: its receipt, its buffer (open, pending or aborted), or nothing."""
        applied, buffers = self._storage.find([commit_id])
        if commit_id in applied:
            return pipeline.receipt_of(applied[commit_id], replayed=True)
        buffer = buffers.get(commit_id)
        return None if buffer is None or buffer.is_vacant else buffer

    # Staging, and recovering what a crash left.

    def stage(self, commit: Commit, *, settled: bool = True, waits_for: str | None = None) -> Buffer:
        """Persist a commit before it is applied: as open while it grows, as pending once it is ``settled``.

        ``waits_for`` names what must happen first (an approval); recovery leaves such a commit alone. The buffer's fence
        is what ``commit`` asks for.
        """
        state = BufferState.PENDING if settled else BufferState.OPEN
        answer = self._transact(
            pipeline.query_for([commit]),
            lambda view: pipeline.decide_stage(
                view, commit, owner=self.worker_id, state=state, waits_for=waits_for
            ),
        )
        if isinstance(answer, Buffer):
            return answer
        if isinstance(answer, StoreError):
            raise answer
        raise CommitAborted(
            commit_id=commit.commit_id,
            run_id=commit.run_id,
            reason_code=AbortReason.VALIDATION_FAILED.value,
            problem=f"it was applied already, as snapshot {answer.memory_snapshot_id}",
        )

    def renew(self, buffer: Buffer) -> Buffer:
        """Keep a staged commit for another lease; ``StaleFence`` if somebody else took it over."""
        question = StateQuery(commit_ids=[buffer.commit_id])
        return _raised(
            self._transact(
                question, lambda view: pipeline.decide_renewal(view, buffer.commit_id, buffer.fence)
            )
        )

    def discard(self, buffer: Buffer) -> bool:
        """Drop an open buffer; False if it is not this owner's any more, or settled."""
        question = StateQuery(commit_ids=[buffer.commit_id])
        return self._transact(
            question, lambda view: pipeline.decide_discard(view, buffer.commit_id, buffer.fence)
        )

    def abort(self, buffer: Buffer, reason: AbortReason, problem: str) -> CommitAborted:
        """Mark a staged commit as aborted, for good."""
        question = StateQuery(commit_ids=[buffer.commit_id])
        answer = self._transact(question, lambda view: pipeline.decide_abort(view, buffer, reason, problem))
        if not isinstance(answer, CommitAborted):
            raise answer
        return answer

    def recover(self, *, limit: int = MAX_GROUP_COMMITS) -> list[Answer | None]:
        """Finish what dead owners left: apply or abort what was settled, discard what was open (answered by None).

        Only buffers whose lease has run out are taken over, each under a higher fence, so that of two workers one at
        most can finish it, and an owner that comes back can't.
        """
        claimed = self._transact(
            StateQuery(abandoned=limit), lambda view: pipeline.decide_claims(view, worker=self.worker_id)
        )
        return [self._finish(buffer) for buffer in claimed]

    def _finish(self, buffer: Buffer) -> Answer | None:
        if buffer.state is BufferState.OPEN:
            self.discard(buffer)
            return None
        try:
            commit = Commit.from_bytes(buffer.content or b"")
        except ValueError as error:
            return self.abort(buffer, AbortReason.STORAGE_APPLY_FAILED, str(error))
        try:
            return self.commit(commit, fence=buffer.fence)
        except StoreError as error:
            return error

    # The ledger.

    def append_fact(self, fact: Fact) -> Entry:
        """Tell the ledger something that belongs to no commit, durably. Told twice, it stands there twice."""
        return self._transact(StateQuery(), lambda view: pipeline.decide_fact(view, fact))

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Every entry of the ledger from after a place on, in order; in pages."""
        while page := self._storage.entries(after=after, limit=SCAN_PAGE_RECORDS):
            yield from page
            after = page[-1].seq

    def verify(self, notes: Sequence[str] = (), keys: Sequence["VerifyingKey"] = ()) -> Iterator[str]:
        """Walk everything that is stored and tell of each problem; nothing told means that all of it holds.

        ``notes`` are checkpoints that were signed by one of ``keys``: the ledger must be a later state of each.
        """
        return audit.problems_of(self._storage, notes, keys)

    def rebuild_indexes(self) -> None:
        """Rebuild every index of the backend from its table."""
        self._storage.rebuild()

    def backup_to(self, target: "Store", *, progress: Progress | None = None) -> int:
        """Copy everything up to the present head into another store, verifying it on the way; return the new head.

        Writers may go on meanwhile. A target that holds an earlier copy of this store is brought up to date; a target
        that holds anything else is refused.
        """
        return copy_store(self._storage, target._storage, progress=progress)  # noqa: SLF001  # Of the same class.

    def close(self) -> None:
        """Let go of files and connections."""
        self._storage.close()


def _raised(answer: Buffer | StoreError) -> Buffer:
    if isinstance(answer, StoreError):
        raise answer
    return answer


class Lease:
    """Renews a staged commit's lease from a thread of its own, as long as the block lasts.

    Losing it (``lost``) is no disaster: the fence keeps a late owner out. It only means that another worker may finish
    the commit now, and that this one will be told so by ``StaleFence``.
    """

    def __init__(self, store: Store, buffer: Buffer, *, renew_seconds: float = LEASE_RENEW_SECONDS) -> None:
        self.buffer = buffer
        self.lost: StoreError | None = None
        self._store = store
        self._renew_seconds = renew_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease-{buffer.commit_id[:8]}", daemon=True)

    def _renew(self) -> None:
        while not self._ended.wait(self._renew_seconds):
            try:
                self.buffer = self._store.renew(self.buffer)
            except StoreError as error:
                self.lost = error
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()


def open_store(
    url: str, *, create: bool, clock: Clock | None = None, ids: IdSource | None = None, recover: bool = True
) -> Store:
    """The store at a path or URL. One that is not there is made only where ``create`` says so.

    What dead owners left is finished on the way in.
    """
    clock, ids = clock or SystemClock(), ids or RandomIds()
    if not create and not _exists(url):
        raise CannotOpen(
            store=url, problem="there is no such store; check the path, or --store and STANDFAST_STORE"
        )
    store = Store(_storage(url, clock, ids), clock=clock, ids=ids)
    if recover:
        store.recover()
    return store


def _exists(url: str) -> bool:
    return url == ":memory:" or _is_postgres(url) or os.path.exists(url)  # noqa: PTH110  # A string from settings.


def _is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _storage(url: str, clock: Clock, ids: IdSource) -> Storage:
    if _is_postgres(url):
        from standfast.store.postgres import PostgresStorage  # noqa: PLC0415  # Only its users pay for it.

        return PostgresStorage(url, clock=clock, ids=ids)
    if url == ":memory:":
        from standfast.store.in_memory import InMemoryStorage  # noqa: PLC0415  # As above.

        return InMemoryStorage(clock)
    from standfast.store.sqlite import SQLiteStorage  # noqa: PLC0415  # As above.

    return SQLiteStorage(url, clock=clock, ids=ids)
