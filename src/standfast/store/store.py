"""The store: reads any snapshot, applies commits, stages and recovers them, and keeps the ledger.

``Store`` is a thin shell: ``pipeline.py`` decides, a backend stores. ``opening.py`` opens one by path or URL.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeVar

from msgspec.structs import replace

from standfast.clock import Clock, IdSource
from standfast.errors import (
    CommitAborted,
    NoSuchSnapshot,
    OutcomeUnknown,
    StoreError,
    StoreFailed,
)
from standfast.ledger.chain import Branch, Entry, Tip
from standfast.ledger.note import VerifyingKey
from standfast.ledger.witness import LOG_KEY_KIND, LedgerFindings
from standfast.limits import (
    DEFAULT_ENDED_DAYS,
    MAX_ATTEMPTS,
    MAX_GROUP_COMMITS,
    SCAN_FIRST_RECORDS,
    SCAN_PAGE_RECORDS,
)
from standfast.records.vocabulary import AbortReason, BufferState, Receipt
from standfast.store import audit, pipeline
from standfast.store.audit import RowChecker
from standfast.store.backup import copy_store
from standfast.store.commit import Commit, Fact, VectorMaker
from standfast.store.group_commit import GroupCommit
from standfast.store.pipeline import CommitAnswer, Submission
from standfast.store.protocol import (
    BEHIND_ALL_KEYS,
    AppliedCommit,
    Buffer,
    Changes,
    Places,
    Progress,
    SegmentTable,
    StateQuery,
    StateView,
    Storage,
    StoreIdentity,
    TemporaryRows,
    Vector,
    VectorQuery,
    Version,
    VersionQuery,
    verified,
    verified_vector,
)
from standfast.store.quarantine import HiddenVersions, QuarantineLookup

_T = TypeVar("_T")
_NONE: Final = frozenset[str]()


class Store:
    """Snapshots, commits, their recovery and the ledger, over any backend. Threads may share a store.

    Args:
        any_rows: Whether keys may begin with anything, for tests of the store itself. Otherwise a row must be
            of a kind in ``records/rows.py``.

    Example:
        >>> store = open_store(":memory:", create=True)
        >>> store.head()
        0
    """

    def __init__(self, storage: Storage, *, clock: Clock, ids: IdSource, any_rows: bool = False) -> None:
        self._storage = storage
        self._any_rows = any_rows
        self.clock = clock
        self.ids = ids
        self.worker_id = ids.new_id()
        self._known_head = 0
        self._identity: StoreIdentity | None = None
        self.vector_makers: dict[str, VectorMaker] = {}
        """What gives the records of a commit their vectors, by the embedder's identity.

        ``Memory`` adds its embedders.
        """
        self.on_commit: Callable[[float], None] | None = None
        """Told of each commit how many seconds it took."""
        self.before_commit: dict[str, Callable[[Commit], None]] = {}
        """Called with each commit of a namespace, before it is submitted. Indexes watch there."""
        self.after_commit: list[Callable[[int], None]] = []
        """Told of each commit how many entries it added to the ledger, about."""
        self._group: GroupCommit[Submission, CommitAnswer] = GroupCommit(self._commit_batch)
        self._submit: Callable[[Submission], CommitAnswer] = self._group.submit
        self._reads: set[tuple[str, str]] | None = None
        self._quarantine = QuarantineLookup(storage.versions)

    @property
    def identity(self) -> StoreIdentity:
        """The store's id, made when it was created, and the branch that the last restore began."""
        if self._identity is None:
            branches = self._storage.branches()
            self._identity = StoreIdentity(store_id=branches[0].branch_id, branch_id=branches[-1].branch_id)
        return self._identity

    def branches(self) -> list[Branch]:
        """The store's own line, and one branch for each time that an older copy was restored."""
        return self._storage.branches()

    @property
    def temporary(self) -> TemporaryRows:
        """Rows that live for a while, outside of snapshots and the ledger, by which processes share state."""
        return self._storage.temporary

    @property
    def acknowledged(self) -> Tip | None:
        """The end of the ledger by the head file, which is kept outside the database; None in memory."""
        return self._storage.acknowledged

    @property
    def is_shared(self) -> bool:
        """Whether processes on other machines may use it."""
        return self._storage.is_shared

    def size_bytes(self) -> int:
        """How much space the store takes now, with its history, indexes and ledger."""
        return self._storage.size_bytes()

    def commit_through(self, submit: Callable[[Submission], CommitAnswer]) -> set[tuple[str, str]]:
        """Hand all commits and rejections to somebody else from now on, and note where the store is read.

        Returns:
            The places that were read, for the caller to look at and clear: namespaces, prefixes of keys.
        """
        self._submit, self._reads = submit, set()
        return self._reads

    @property
    def commits_elsewhere(self) -> bool:
        """Whether all commits are handed to somebody else."""
        return self._reads is not None

    # Reading.

    def note_read(self, namespace: str, prefixes: Iterable[str]) -> None:
        """Note where the store is read, or what is made from it, if ``commit_through`` asked for it."""
        if self._reads is not None:
            self._reads.update((namespace, prefix) for prefix in prefixes)

    def head(self) -> int:
        """The newest snapshot; 0 if nothing was ever committed."""
        self._known_head = self._storage.head()
        return self._known_head

    def presence(self, namespace: str, prefixes: Sequence[str]) -> tuple[int, list[bool]]:
        """The newest snapshot, and for each prefix whether any key ever began with it, in one look."""
        self.note_read(namespace, prefixes)
        self._known_head, found = self._storage.presence(namespace, prefixes)
        return self._known_head, found

    def read(
        self, namespace: str, keys: Sequence[str], *, at: int | None = None, even_hidden: bool = False
    ) -> dict[str, Version]:
        """What a snapshot shows under keys, verified; with ``even_hidden`` also what is in quarantine."""
        snapshot = self._existing(at)
        self.note_read(namespace, keys)
        query = VersionQuery(namespace=namespace, keys=keys, at=snapshot, newest=True)
        found = {version.key: version for version in self._storage.versions(query)}
        if not even_hidden:
            found |= self._quarantine.replaced(namespace, found.values(), snapshot)
        shown = {key: verified(found[key]) for key in keys if key in found}
        return {key: version for key, version in shown.items() if version.content is not None}

    def scan(
        self, namespace: str, *, prefix: str = "", after: str = "", at: int | None = None
    ) -> Iterator[Version]:
        """Every record that a snapshot shows in a namespace, by key, verified. It is read in pages.

        ``after``: only keys behind this one.
        """
        snapshot = self._existing(at)
        for version in self.newest_versions(namespace, prefix=prefix, after=after, at=snapshot):
            shown = self._quarantine.shown(version, snapshot)
            if verified(shown).content is not None:
                yield shown

    def hidden_at(self, namespace: str, snapshot: int) -> HiddenVersions:
        """The versions of records that are in quarantine as of a snapshot."""
        return self._quarantine.at(namespace, self._existing(snapshot))

    def newest_versions(
        self, namespace: str, *, prefix: str = "", after: str = "", at: int | None = None
    ) -> Iterator[Version]:
        """The newest version of each key as of a snapshot, expired ones too, by key.

        The versions are not verified, so that a damaged one does not hide the others.
        """
        self.note_read(namespace, [prefix])
        query = VersionQuery(namespace=namespace, prefix=prefix, at=self._existing(at), newest=True)
        # Callers that name a prefix often need the first few records only.
        limit = SCAN_FIRST_RECORDS if prefix else SCAN_PAGE_RECORDS
        while True:
            page = self._storage.versions(replace(query, after=(namespace, after), limit=limit))
            yield from page
            if len(page) < limit:
                return
            after, limit = page[-1].key, min(limit * 8, SCAN_PAGE_RECORDS)

    def history(self, namespace: str, key: str, *, verify: bool = True) -> list[Version]:
        """Every version of one record, oldest first; erased ones have a fingerprint and no content.

        With ``verify=False`` the caller verifies the versions itself, one by one.
        """
        versions = self._storage.versions(VersionQuery(namespace=namespace, keys=[key]))
        return [verified(version) for version in versions] if verify else versions

    def versions_by_key(
        self, namespace: str, *, prefix: str = "", after: str = "", with_content: bool = True
    ) -> Iterator[list[Version]]:
        """Every version of each record in a range of keys, by key; a record's oldest first.

        They are not verified.
        """
        limit = SCAN_PAGE_RECORDS
        while True:
            query = VersionQuery(namespace=namespace, prefix=prefix, after=(namespace, after), limit=limit)
            page = self._storage.versions(replace(query, with_content=with_content))
            groups = [list(group) for _, group in groupby(page, key=lambda version: version.key)]
            is_last = len(page) < limit
            if not is_last and len(groups) == 1:
                limit *= 2
                continue
            # The last record of a full page may have further versions.
            yield from groups if is_last else groups[:-1]
            if is_last:
                return
            after, limit = groups[-2][0].key, SCAN_PAGE_RECORDS

    def versions_of(self, snapshot: int) -> list[Version]:
        """The versions that the commit of a snapshot wrote, by namespace and key, not verified."""
        return self._storage.versions(VersionQuery(snapshot=snapshot))

    def vectors(self, namespace: str) -> Iterator[Vector]:
        """Every vector of a namespace, by key, snapshot and embedder, verified. They are read in pages."""
        after = (namespace, "", 0, "")
        while page := self._storage.vectors(
            VectorQuery(namespace=namespace, after=after, limit=SCAN_PAGE_RECORDS)
        ):
            yield from map(verified_vector, page)
            after = (namespace, page[-1].key, page[-1].memory_snapshot_id, page[-1].embedder)

    def vectors_between(self, namespace: str, first: int, last: int) -> list[Vector]:
        """The vectors that the commits of some snapshots added and that are still there, verified."""
        query = VectorQuery(namespace=namespace, since=first, until=last)
        return [verified_vector(one) for one in self._storage.vectors(query)] if first <= last else []

    def versions_under(
        self, namespace: str, keys: Sequence[str], *, newest_at: int | None = None, with_content: bool = True
    ) -> list[Version]:
        """Every version of each of these keys, or the newest as of a snapshot, by key and snapshot, not
        verified.
        """
        self.note_read(namespace, keys)
        query = VersionQuery(namespace=namespace, keys=keys, at=newest_at, newest=newest_at is not None)
        return self._storage.versions(replace(query, with_content=with_content))

    def versions_between(
        self, namespace: str, after: int, until: int, *, with_content: bool = True, bands: Sequence[str] = ()
    ) -> list[Version]:
        """The versions that the commits after a snapshot wrote, in bands if any are given, up to another one,
        by snapshot and key, not verified.
        """
        query = VersionQuery(
            namespace=namespace, since=after, at=until, with_content=with_content, bands=bands
        )
        return sorted(self._storage.versions(query), key=lambda one: one.memory_snapshot_id)

    @property
    def segments(self) -> SegmentTable:
        """The segments of derived indexes."""
        return self._storage.segments

    def namespaces(self) -> list[str]:
        """Every namespace that ever held a record, sorted."""
        found: list[str] = []
        after = ("", "")
        while page := self._storage.versions(VersionQuery(after=after, limit=1)):
            found.append(page[0].namespace)
            after = (page[0].namespace, BEHIND_ALL_KEYS)
        return found

    def commits(
        self, *, after: int = 0, limit: int = SCAN_PAGE_RECORDS, run_ids: Sequence[str] = ()
    ) -> list[AppliedCommit]:
        """The first ``limit`` commits behind snapshot ``after``, of some runs if any are given, in order."""
        return self._storage.commits(after=after, limit=limit, run_ids=run_ids)

    def commit_of(self, snapshot: int) -> AppliedCommit:
        """The commit that made a snapshot; ``NoSuchSnapshot`` if none did."""
        found = self.commits(after=snapshot - 1, limit=1) if snapshot > 0 else []
        if not found:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=self.head())
        return found[0]

    def receipt_of(self, snapshot: int) -> Receipt:
        """The receipt of the commit that made a snapshot, marked as replayed."""
        return pipeline.receipt_of(self.commit_of(snapshot), replayed=True)

    def _existing(self, at: int | None) -> int:
        # Snapshots are never taken back, so one that existed needs no second look-up.
        if at is None or not 0 <= at <= self._known_head:
            self._known_head = self._storage.head()
        if at is None:
            return self._known_head
        if not 0 <= at <= self._known_head:
            raise NoSuchSnapshot(memory_snapshot_id=at, head=self._known_head)
        return at

    # Committing.

    def commit(
        self, commit: Commit, *, fence: int | None = None, new: frozenset[str] = _NONE, untouched: Places = ()
    ) -> Receipt:
        """Apply a commit atomically and durably. The same commit again gives the same receipt.

        Args:
            fence: The fence of its buffer, if the commit was staged.
            new: Keys made for this commit, as was its id, that nobody else knows. They are not looked up.
            untouched: Where nobody may have written since the run's snapshot: namespaces, prefixes of keys.

        Raises:
            CommitAborted: It was refused; ``reason_code`` says why.
            PayloadMismatch: Its id was used for another payload.
            StaleFence: Another worker owns it.
            StoreFailed: The storage failed; nothing was changed.
            OutcomeUnknown: The storage failed, and looking the commit up failed too.
            InvalidValue: A row is of no kind.
        """
        if not self._any_rows:
            commit.require_kinds()
        if self.before_commit:
            for namespace in sorted({write.namespace for write in commit.writes} & self.before_commit.keys()):
                self.before_commit[namespace](commit)
        began = self.clock.monotonic() if self.on_commit else 0.0
        receipt = _or_raise(self._submit(Submission(self._with_vectors(commit), fence, new, untouched)))
        self._quarantine.saw(commit, receipt.memory_snapshot_id)
        if self.on_commit:
            self.on_commit(self.clock.monotonic() - began)
        for notify in self.after_commit:
            notify(1 + len(commit.facts))
        return receipt

    def _with_vectors(self, commit: Commit) -> Commit:
        """The commit with the vectors of its records.

        They are made before the transaction, so that nobody waits for a model.
        """
        if not self.vector_makers or commit.vectors:
            return commit
        vectors = [one for make in self.vector_makers.values() for one in make(commit)]
        return commit.with_vectors(vectors) if vectors else commit

    def _transact(self, query: StateQuery, decide: Callable[[StateView], tuple[Changes, _T]]) -> _T:
        """Load, decide and append in one transaction. Nothing in a store changes in any other way."""
        with self._storage.transaction() as transaction:
            changes, answer = decide(transaction.load(query))
            if changes:
                transaction.append(changes)
        return answer

    def _commit_batch(self, batch: Sequence[Submission]) -> list[CommitAnswer]:
        query = pipeline.query_for(batch)
        unknown: OutcomeUnknown | None = None
        for _ in range(MAX_ATTEMPTS):
            try:
                answers = self._transact(query, lambda view: pipeline.decide_commits(view, batch))
            except OutcomeUnknown as error:
                # Submitting again is safe: a commit that was applied answers with its receipt.
                unknown = error
                self._reset(error)
                # From now on each of them may have been applied.
                query = pipeline.query_for([Submission(one.commit, one.fence) for one in batch])
            except StoreError as error:
                if unknown is not None:
                    # This attempt changed nothing, but the one before it may have.
                    raise OutcomeUnknown(problem=f"{unknown}; then {error}") from None
                if not isinstance(error, StoreFailed):
                    raise
                return [self._commit_alone(one) for one in batch] if len(batch) > 1 else [error]
            else:
                return answers
        assert unknown is not None
        return [unknown] * len(batch)

    def _commit_alone(self, submission: Submission) -> CommitAnswer:
        """One member of a failed batch may be to blame, so each gets a transaction and an answer."""
        try:
            return self._commit_batch([submission])[0]
        except StoreError as error:
            return error

    def _reset(self, error: OutcomeUnknown) -> None:
        try:
            self._storage.reset()
        except StoreError as again:
            raise OutcomeUnknown(problem=f"{error}; then {again}") from None

    def status(self, commit_id: str) -> Receipt | Buffer | None:
        """The receipt of a commit that was applied, its buffer if it was only staged, None if unknown."""
        applied, buffer = self._transact(
            StateQuery(commit_ids=[commit_id]),
            lambda view: (Changes(), (view.applied.get(commit_id), view.buffers.get(commit_id))),
        )
        if applied is not None:
            return pipeline.receipt_of(applied, replayed=True)
        return None if buffer is None or buffer.is_discarded else buffer

    # Staging, and recovery after a crash.

    def stage(self, commit: Commit, *, settled: bool = True, waits_for: str | None = None) -> Buffer:
        """Persist a commit without applying it, and return its buffer, whose fence ``commit`` asks for.

        Args:
            settled: Whether it is complete (pending) or still grows (open).
            waits_for: What has to happen first, e.g. an approval. Recovery leaves such a commit alone.
        """
        if not self._any_rows:
            commit.require_kinds()
        state = BufferState.PENDING if settled else BufferState.OPEN
        commit = self._with_vectors(commit)
        answer = self._transact(
            pipeline.query_for([Submission(commit)]),
            lambda view: pipeline.decide_stage(
                view, commit, owner=self.worker_id, state=state, waits_for=waits_for
            ),
        )
        if isinstance(answer, Receipt):
            raise CommitAborted(
                commit_id=commit.commit_id,
                run_id=commit.run_id,
                reason_code=AbortReason.VALIDATION_FAILED.value,
                problem=f"it was applied already, as snapshot {answer.memory_snapshot_id}",
            )
        return _or_raise(answer)

    def renew(self, buffer: Buffer) -> Buffer:
        """Extend the lease of a staged commit; ``StaleFence`` if another worker took it over."""
        commit_id, fence = buffer.commit_id, buffer.fence
        query = StateQuery(commit_ids=[commit_id])
        return _or_raise(self._transact(query, lambda view: pipeline.decide_renewal(view, commit_id, fence)))

    def discard(self, buffer: Buffer) -> bool:
        """Drop an open buffer; return False if it is settled, or no longer this owner's."""
        commit_id, fence = buffer.commit_id, buffer.fence
        query = StateQuery(commit_ids=[commit_id])
        return self._transact(query, lambda view: pipeline.decide_discard(view, commit_id, fence))

    def abort(self, buffer: Buffer, reason: AbortReason, problem: str) -> CommitAborted:
        """Mark a staged commit as aborted for good, and return the error that it now answers with."""
        query = StateQuery(commit_ids=[buffer.commit_id])
        answer = self._transact(query, lambda view: pipeline.decide_abort(view, buffer, reason, problem))
        if not isinstance(answer, CommitAborted):
            raise answer
        return answer

    def reject(self, commit: Commit, problem: str) -> Receipt:
        """Record that a policy rejects a commit, in one transaction, so that no recovery can apply it.

        Returns its receipt if it was applied before.

        Raises:
            CommitAborted: It is rejected now, or was aborted before.
        """
        if self.commits_elsewhere:
            return _or_raise(self._submit(Submission(commit, rejection=problem)))
        reason = AbortReason.POLICY_REJECTED
        return _or_raise(
            self._transact(
                pipeline.query_for([Submission(commit)]),
                lambda view: pipeline.decide_rejection(view, commit, reason, problem),
            )
        )

    def recover(
        self, *, limit: int = MAX_GROUP_COMMITS, ended_days: float = DEFAULT_ENDED_DAYS
    ) -> list[CommitAnswer | None]:
        """Finish what crashed workers left: apply or abort settled commits, discard open ones (answered by
        None).

        Only buffers with an expired lease are taken over, each under a higher fence. So at most one of two
        workers can finish a buffer, and an owner that comes back can't. What was aborted or discarded more
        than ``ended_days`` ago is forgotten.
        """
        query = StateQuery(abandoned=limit, ended_seconds=ended_days * 86_400)
        claimed = self._transact(query, lambda view: pipeline.decide_claims(view, worker=self.worker_id))
        return [self._finish(buffer) for buffer in claimed]

    def _finish(self, buffer: Buffer) -> CommitAnswer | None:
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

    # The ledger, and the store as a whole.

    def append_fact(self, fact: Fact) -> Entry:
        """Append a fact that belongs to no commit to the ledger, durably. Each call appends an entry."""
        return self._transact(StateQuery(), lambda view: pipeline.decide_fact(view, fact))

    def announce_key(self, key: VerifyingKey) -> None:
        """Append the entry that names the key that signs the ledger from here on."""
        self.append_fact(Fact.of(LOG_KEY_KIND, {"key": key.text}))

    def begin_branch(self, *, shared_seq: int, left_seq: int, reason: str) -> Branch:
        """Begin a branch, because an older copy was restored; see ``restore.py``.

        Args:
            shared_seq: The ledger that was left has the same entries up to this one.
            left_seq: The last entry that it is known to have had.
            reason: Why it was restored, for the ledger.
        """
        branches, branch_id = self._storage.branches(), self.ids.new_id()
        branch = self._transact(
            StateQuery(),
            lambda view: pipeline.decide_branch(
                view, branches, branch_id=branch_id, shared_seq=shared_seq, left_seq=left_seq, reason=reason
            ),
        )
        self._identity = None
        return branch

    def entries_page(self, *, after: int, limit: int) -> list[Entry]:
        """The first ``limit`` entries of the ledger behind a sequence number, in order."""
        return self._storage.entries(after=after, limit=limit)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """The entries of the ledger behind a sequence number, in order. They are read in pages."""
        while page := self._storage.entries(after=after, limit=SCAN_PAGE_RECORDS):
            yield from page
            after = page[-1].seq

    def verify(
        self,
        notes: Sequence[str] = (),
        keys: Sequence[VerifyingKey] = (),
        *,
        rebuild_indexes: bool = False,
        progress: Progress | None = None,
        findings: LedgerFindings | None = None,
        checkers: Sequence[RowChecker] = (),
    ) -> Iterator[str]:
        """Check everything that is stored. Yields one message per problem; nothing if the store is intact.

        Args:
            notes: Signed checkpoints; the ledger must be a later state of each.
            keys: The keys that may have signed them.
            rebuild_indexes: Rebuild the backend's indexes from its tables before the check.
            progress: Called after each snapshot with its number and the newest. What it raises ends it.
            findings: Filled with what is no problem.
            checkers: Are shown each row as it is read, and tell their problems last.
        """
        return audit.problems_of(
            self._storage,
            notes,
            keys,
            rebuild_indexes=rebuild_indexes,
            progress=progress,
            findings=findings,
            checkers=checkers,
        )

    def backup_to(self, target: "Store", *, progress: Progress | None = None) -> int:
        """Copy everything up to the present head into another store, verified; return the head of the copy.

        Writers may go on meanwhile. A target that holds an earlier copy of this store is brought up to date;
        a target that holds anything else is refused with ``Corruption``.
        """
        return copy_store(self._storage, target._storage, progress=progress)  # noqa: SLF001  # Of the same class.

    def close(self) -> None:
        """Close files and connections."""
        self._storage.close()


def _or_raise(answer: _T | StoreError) -> _T:
    if isinstance(answer, StoreError):
        raise answer
    return answer
