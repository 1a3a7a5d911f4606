"""Backup: a verified copy of a whole store into another one, of any backend."""

from collections.abc import Callable

from standfast.errors import Corruption
from standfast.ledger.chain import Entry, Tip, check
from standfast.limits import SCAN_PAGE_RECORDS
from standfast.store.audit import erasures_in, verified
from standfast.store.protocol import Changes, Storage, VersionQuery

Progress = Callable[[int, int], None]
"""Called with the number of snapshots copied so far, and the number of all."""


def copy_store(source: Storage, target: Storage, *, progress: Progress | None = None) -> int:
    """Copy everything up to the present head, verified, while writers go on; return the head of the copy.

    A target that holds an earlier copy of the same store is brought up to date; a target that holds anything else is
    refused. Records, commits and the ledger are copied; the buffers of unfinished runs are not.
    """
    head, done = source.head(), target.head()
    tip = _shared_tip(source, target, done)
    while done < head:
        page = source.commits(after=done, limit=min(SCAN_PAGE_RECORDS, head - done))
        entries = _entries_between(source, tip.seq, page[-1].ledger_seq)
        tip = check(entries, start=tip)
        versions = [
            verified(row)
            for applied in page
            for row in source.versions(VersionQuery(snapshot=applied.memory_snapshot_id))
        ]
        with target.transaction() as transaction:
            transaction.append(
                Changes(versions=versions, applied=page, entries=entries, erasures=[*erasures_in(entries)])
            )
        done = page[-1].memory_snapshot_id
        if progress is not None:
            progress(done, head)
    _copy_facts_without_commit(source, target, tip)
    return done


def _entries_between(source: Storage, after: int, last: int) -> list[Entry]:
    entries: list[Entry] = []
    while after < last:
        page = source.entries(after=after, limit=min(SCAN_PAGE_RECORDS, last - after))
        if not page:
            raise Corruption(what="the ledger", problem=f"entry {after + 1} is missing")
        entries += page
        after = page[-1].seq
    return entries


def _copy_facts_without_commit(source: Storage, target: Storage, tip: Tip) -> None:
    """Copy the entries behind the last commit that belong to none. A commit made meanwhile is left for the next copy."""
    following = source.commits(after=target.head(), limit=1)
    page = source.entries(after=tip.seq, limit=SCAN_PAGE_RECORDS)
    facts = [entry for entry in page if not following and "commit_id" not in entry.read()["body"]]
    if facts:
        check(facts, start=tip)
        with target.transaction() as transaction:
            transaction.append(Changes(entries=facts))


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
