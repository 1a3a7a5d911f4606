"""Backup: a verified copy of a whole store into another one, of any backend."""

from collections.abc import Iterator
from itertools import takewhile

from msgspec.structs import replace

from standfast.errors import Corruption
from standfast.ledger.chain import Branch, Tip, check
from standfast.limits import COPY_PAGE_RECORDS, SCAN_PAGE_RECORDS
from standfast.store.audit import erasures_in
from standfast.store.protocol import (
    AppliedCommit,
    Changes,
    Progress,
    Storage,
    Transaction,
    VectorEnd,
    VectorQuery,
    Version,
    VersionQuery,
    verified,
    verified_vector,
)


def copy_store(source: Storage, target: Storage, *, progress: Progress | None = None) -> int:
    """Copy everything up to the present head, verified, while writers go on; return the head of the copy.

    A target that holds an earlier copy of the same store is brought up to date; a target that holds anything
    else is refused. Records, commits and the ledger are copied; the buffers of unfinished runs are not. The
    copy is intact after each of its transactions, so an interrupted one can be continued.
    """
    head, done = source.head(), target.head()
    tip = _shared_tip(source, target, done)
    while done < head:
        page = _CopiedPage(source, done, tip)
        with target.transaction() as transaction:
            page.copy_to(transaction, min(head, done + SCAN_PAGE_RECORDS))
        done, tip = page.done, page.tip
        head = max(head, done)
        if progress is not None:
            progress(done, head)
    _copy_facts_without_commit(source, target, tip)
    return done


class _CopiedPage:
    """Snapshots that are copied in one transaction, in small portions.

    A version whose content was erased names the commit that erased it. So the page grows until it holds each
    commit that erased something in it, also one that was made while the page was copied.
    """

    def __init__(self, source: Storage, done: int, tip: Tip) -> None:
        self._source = source
        self.done = done
        self.tip = tip
        self._with_erasures: list[int] = []
        """The places in the ledger behind which a portion with erasures begins."""

    def copy_to(self, transaction: Transaction, last: int) -> None:
        """Copy the snapshots up to ``last``, and as many more as the erasures in them require."""
        first, copied = self.done + 1, self.done
        self._copy_commits(transaction, last)
        while copied < self.done:
            for rows in _portions(self._source, copied + 1):
                erased_by = max((row.erased_by or 0 for row in rows), default=0)
                self._copy_commits(transaction, erased_by)
                # What was copied before did not know yet when it would end.
                ends = [VectorEnd(row.namespace, row.key, row.memory_snapshot_id) for row in rows]
                transaction.append(Changes(versions=rows, vector_ends=ends))
            copied += 1
            # A vector outlives the commit that added it, so what ended it comes behind it.
            vectors = [
                replace(verified_vector(one), ended=None)
                for one in self._source.vectors(VectorQuery(since=copied))
            ]
            transaction.append(Changes(vectors=vectors))
        # What a copied commit erased may have been read before that commit was made, or copied long ago.
        for after in self._with_erasures:
            entries = self._source.entries(after=after, limit=COPY_PAGE_RECORDS)
            within = (one for one in erasures_in(entries) if first <= one.memory_snapshot_id <= self.done)
            transaction.append(Changes(erasures=list(within)))
        transaction.append(Changes(branches=_branches_up_to(self._source, self.tip)))

    def _copy_commits(self, transaction: Transaction, last: int) -> None:
        """Copy commits and their ledger entries up to a snapshot."""
        while self.done < last:
            limit = min(COPY_PAGE_RECORDS, last - self.done)
            applied = self._source.commits(after=self.done, limit=limit)
            if not applied:
                raise Corruption(what="the store", problem=f"snapshot {self.done + 1} is missing")
            self._copy_entries(transaction, applied)
            self.done = applied[-1].memory_snapshot_id

    def _copy_entries(self, transaction: Transaction, applied: list[AppliedCommit]) -> None:
        last = applied[-1].ledger_seq
        while self.tip.seq < last:
            limit = min(COPY_PAGE_RECORDS, last - self.tip.seq)
            entries = self._source.entries(after=self.tip.seq, limit=limit)
            if not entries:
                raise Corruption(what="the ledger", problem=f"entry {self.tip.seq + 1} is missing")
            if next(erasures_in(entries), None) is not None:
                self._with_erasures.append(self.tip.seq)
            self.tip = check(entries, start=self.tip)
            transaction.append(Changes(entries=entries))
        transaction.append(Changes(applied=applied))


def _portions(source: Storage, snapshot: int) -> Iterator[list[Version]]:
    """The versions that a commit wrote, verified, a few at a time: a commit can hold gigabytes."""
    after = ("", "")
    while True:
        query = VersionQuery(snapshot=snapshot, after=after, limit=COPY_PAGE_RECORDS)
        rows = [verified(row) for row in source.versions(query)]
        if rows:
            yield rows
        if len(rows) < COPY_PAGE_RECORDS:
            return
        after = (rows[-1].namespace, rows[-1].key)


def _copy_facts_without_commit(source: Storage, target: Storage, tip: Tip) -> None:
    """Copy the entries behind the last commit that belong to none. A commit made meanwhile has to wait."""
    while page := source.entries(after=tip.seq, limit=SCAN_PAGE_RECORDS):
        facts = list(takewhile(lambda entry: "commit_id" not in entry.read()["body"], page))
        tip = check(facts, start=tip)
        with target.transaction() as transaction:
            transaction.append(Changes(entries=facts, branches=_branches_up_to(source, tip)))
        if len(facts) < len(page):
            return


def _branches_up_to(source: Storage, tip: Tip) -> list[Branch]:
    """The identity of the source, and the branches that began up to this end of its ledger."""
    return [branch for branch in source.branches() if branch.ledger_seq <= tip.seq]


def _shared_tip(source: Storage, target: Storage, done: int) -> Tip:
    """The end of the target's ledger, if the target is a copy of this source."""
    tip = Tip()
    if done:
        last = target.commits(after=done - 1, limit=1)[0]
        tip = Tip(seq=last.ledger_seq, hash=last.ledger_hash)
    while page := target.entries(after=tip.seq, limit=SCAN_PAGE_RECORDS):
        tip = page[-1].tip
    same = source.entries(after=tip.seq - 1, limit=1) if tip.seq else []
    if tip.seq and (not same or same[0].tip != tip):
        raise Corruption(what="the backup's target", problem="it holds another store; choose another path")
    return tip
