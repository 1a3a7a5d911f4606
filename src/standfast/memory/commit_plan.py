"""Commits: how the judged records of a run become one commit, and how it is submitted.

incidents are counted and become patterns        777_FORGE
band budgets decide what is kept                 band_budgets.py
everything becomes rows, then writes, one commit 999_SEAL
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from standfast.errors import CommitAborted, InvalidValue, NotGoverned, PayloadMismatch
from standfast.govern.admission import JudgedRecord
from standfast.govern.approvals.queue import waiting_key
from standfast.govern.authority import Role, require_write
from standfast.govern.evidence import content_fingerprint
from standfast.govern.patterns import Incident, detect_patterns, earlier_counts
from standfast.limits import (
    FACT_PAGE_WRITES,
    MAX_COMMIT_WRITES,
    MAX_REBASES,
)
from standfast.memory.band_budgets import BandBudgets, Spending, budget_key
from standfast.memory.erasure_targets import pending_erasures
from standfast.memory.recall_notes import Recipient
from standfast.memory.run_dependencies import RunServices
from standfast.records.canon import CanonicalPart, canonical_bytes
from standfast.records.rows import APPEND_ONLY, RowKind
from standfast.records.scopes import prefix_of, said_key, scoped_key
from standfast.records.vocabulary import (
    ActionType,
    Band,
    BufferState,
    CommitPolicy,
    Receipt,
    Record,
    RunIdentity,
)
from standfast.store.commit import Commit, Fact, Write
from standfast.store.protocol import Buffer, Version, verified
from standfast.store.store import Store

_Rows: TypeAlias = dict[str, dict[str, Any] | bytes]
"""Rows by key: plain JSON, or its canonical bytes."""


def plan_commit(
    judged: Sequence[JudgedRecord],
    forgotten: Mapping[str, str],
    *,
    run: RunIdentity,
    namespace: str,
    store: Store,
    budgets: BandBudgets,
    extra_writes: Sequence[Write] = (),
    even_if_empty: bool = False,
    until: int | None = None,
    new: frozenset[str] = frozenset(),
) -> Commit | None:
    """Plan the commit of a run as of its snapshot. Returns None if nothing changes.

    Budgets are spent by this: the caller holds ``budgets.lock`` and then calls ``budgets.committed`` or
    ``budgets.discarded``.

    Args:
        forgotten: Keys whose content is erased, each with the reason. They end, or get the new content.
        extra_writes: Rows of the caller's own, written in the same transaction if there is a commit.
        even_if_empty: Whether these rows alone are worth a commit.
        until: Erases only the versions up to this snapshot; what is newer stays, and is no conflict.
        new: Keys with ids that the run made, under which there is nothing to find.
    """
    at = run.memory_snapshot_id
    allowed = [one for one in judged if one.decision.allowed]
    incidents = incidents_in(allowed)
    patterns = _patterns_in(store, namespace, at, incidents) if incidents else ()
    governance = governance_rows(allowed, patterns, incidents)
    placed, spending = [(one, one.placed) for one in allowed], Spending()
    if budgets.budgets or forgotten:
        every = [record for _, records in placed for record in records]
        spending = budgets.spend(store, namespace, at, every, forgotten)
        # A budget may keep a record under another id, but with its evidence.
        judged_of = {id(one.record.evidence): one for one in allowed}
        placed = [(judged_of[id(record.evidence)], (record,)) for record in spending.records]
    rows: _Rows = {**spending.rows, **_contents_of(placed), **governance}
    expired = [*spending.expired, *(key for one in allowed for key in one.superseded if key not in rows)]
    keys = {key for key in rows if key not in new and not key.startswith(APPEND_ONLY)}
    # What is erased without a new content in its place is not looked at.
    keys |= {*(forgotten.keys() & rows.keys()), *expired}
    present = _present(store, namespace, sorted(keys), at) if keys else {}
    planned = partial(
        writes_of, namespace, rows, forgotten=forgotten, expired=dict.fromkeys(expired), until=until
    )
    # What was erased since is never equal.
    before = {key: None if one.content is None else one.fingerprint for key, one in present.items()}
    writes = planned(before)
    left = (rows.keys() & present.keys()) - {write.key for write in writes}
    if left and (doomed := pending_erasures(store, namespace).doomed([present[key] for key in left])):
        # What is about to be erased is written again, even if it is equal, so that it stays.
        writes = planned({**before, **dict.fromkeys(doomed)})
    if ended := [key for key in expired if key not in before and key not in rows]:
        # What ended before is shown all the same if that end is in quarantine, and ends again.
        shown = store.read(namespace, ended, at=at)
        writes += [replace(Write.of(namespace, key, ActionType.EXPIRE), again=True) for key in shown]
    if not writes and not (extra_writes and even_if_empty):
        return None
    if len(writes) + len(extra_writes) > MAX_COMMIT_WRITES:
        raise _too_many(run, len(judged), len(writes))
    return Commit.of(
        run_id=run.run_id,
        memory_snapshot_id=at,
        policy_set_id=run.policy_set_id,
        writes=[*writes, *extra_writes],
        facts=[*audit_facts(allowed, patterns), *spending.facts],
    )


def _too_many(run: RunIdentity, records: int, rows: int) -> InvalidValue:
    problem = (
        f"its {records:,} buffered records need {rows:,} rows, and one commit holds"
        f" {MAX_COMMIT_WRITES:,}; discard it and remember in several runs"
    )
    return InvalidValue(what=f"run {run.run_id}", problem=problem)


def new_keys(judged: Iterable[JudgedRecord]) -> frozenset[str]:
    """The keys of records that have ids of their own, with the notes about what they say."""
    return frozenset(
        key
        for one in judged
        if one.record.subject is None and one.known is None and not one.is_new_version
        for key in (*(record.key for record in one.placed), one.said_key)
    )


def _contents_of(
    placed: Iterable[tuple[JudgedRecord, Sequence[Record]]],
) -> dict[str, dict[str, Any] | bytes]:
    """The canonical bytes of judged records by key, in the bands that each goes to."""
    return {record.key: content for one, records in placed for record, content in one.contents_of(records)}


def _present(store: Store, namespace: str, keys: Sequence[str], at: int) -> dict[str, Version]:
    """What a snapshot showed under these keys, also what was erased since: who changes that must conflict."""
    versions = map(verified, store.versions_under(namespace, keys, newest_at=at))
    return {one.key: one for one in versions if one.action is not ActionType.EXPIRE}


def rows_needed(one: JudgedRecord, budgeted: Collection[Band]) -> int:
    """The most rows that a judged record takes in a commit: in its bands, in the streams of their budgets,
    and notes about it.

    A record in a budgeted band may expire others; one is counted.
    """
    in_bands = len(one.placed)
    if budgeted:
        in_bands += 2 * sum(record.band in budgeted for record in one.placed)
    notes = (one.proposal is not None) + bool(one.reading) + (one.witness is not None)
    return in_bands + notes + (one.refusal is not None) + 2 * len(one.incidents) + len(one.superseded)


def incidents_in(judged: Iterable[JudgedRecord]) -> list[tuple[Incident, str]]:
    """Return the incidents of these judgements, each with the id of the record that caused it."""
    return [(incident, one.logged.memory_id) for one in judged for incident in one.incidents]


def _patterns_in(
    store: Store, namespace: str, at: int, incidents: Sequence[tuple[Incident, str]]
) -> tuple[Record, ...]:
    found = [incident for incident, _ in incidents]
    return detect_patterns(found, earlier_counts(store, namespace, at, found))


def governance_rows(
    judged: Iterable[JudgedRecord], patterns: Iterable[Record], incidents: Iterable[tuple[Incident, str]]
) -> _Rows:
    """Return the rows other than the records: proposals, notes of what was said or refused, patterns,
    incidents.

    Raises:
        NotGoverned: A record was not judged, or was changed after it was judged.
    """
    rows: _Rows = {}
    for one in judged:
        _require_governed(one)
        if one.proposal is not None:
            key = waiting_key(one.proposal.proposal_id)
            rows[key] = {"proposal": one.proposal.as_json(), "record": one.record.as_json()}
        if one.is_accepted and one.placed and one.reading:
            rows[one.said_key] = b"{}"
        if one.witness is not None:
            require_write(Role.FORGE, one.witness.band)
            rows[one.witness.key] = one.witness.as_json()
        if one.refusal is not None:
            rows[one.refusal.key] = one.refusal.row
    for pattern in patterns:
        require_write(Role.FORGE, pattern.band)
        rows[pattern.key] = pattern.as_json()
    for incident, memory_id in incidents:
        rows[incident.key(memory_id)] = incident.row
    return rows


def _require_governed(one: JudgedRecord) -> None:
    if not one.decision.allowed or not one.is_bound:
        raise NotGoverned(memory_id=one.record.memory_id, problem=one.decision.reason)
    for record in one.placed:
        require_write(Role.JUDGE, record.band)


def writes_of(
    namespace: str,
    rows: Mapping[str, dict[str, Any] | bytes],
    present: Mapping[str, str | None],
    *,
    forgotten: Mapping[str, str],
    expired: Iterable[str],
    until: int | None = None,
) -> list[Write]:
    """Return the writes that bring a snapshot to these rows.

    A row that is present with equal content needs no write; with other content it gets a new version (MERGE).

    Args:
        rows: What is to be there: plain JSON, or its canonical bytes.
        present: The fingerprints of what the snapshot shows under the keys that may be replaced.
        forgotten: Keys to erase, with the reason.
        expired: Keys that budgets expire.
        until: The last version to erase; by default all of them.
    """
    writes = []
    for key, row in rows.items():
        erases = forgotten.get(key)
        content = row if isinstance(row, bytes) else canonical_bytes(row)
        write = Write.of_content(namespace, key, ActionType.WRITE, content, erases=erases)
        if key not in present:
            writes.append(write)
        elif present[key] != write.fingerprint or erases is not None:
            writes.append(msgspec.structs.replace(write, action=ActionType.MERGE))
    writes += [
        Write.of(namespace, key, ActionType.EXPIRE, erases=reason)
        if until is None
        else Write.erasing(namespace, key, until=until, reason=reason)
        for key, reason in forgotten.items()
        if key not in rows
    ]
    writes += [
        Write.of(namespace, key, ActionType.EXPIRE)
        for key in expired
        if key in present and key not in forgotten
    ]
    return writes


def audit_facts(judged: Sequence[JudgedRecord], patterns: Sequence[Record] = ()) -> list[Fact]:
    """Return what the ledger records of these judgements, and of the patterns that they make, in the
    document's form, in pages.
    """
    entries = [entry for one in judged for entry in _audit_entries_of_rows(one)]
    entries += [CanonicalPart(canonical_bytes(_audit_entry_of_pattern(one))) for one in patterns]
    for one in judged:
        if (proposal := one.proposal) is not None:
            entries += _audit_entries(one, [Band.PHOENIX], proposal.proposal_id, proposal.payload_fingerprint)
    pages = [entries[start : start + FACT_PAGE_WRITES] for start in range(0, len(entries), FACT_PAGE_WRITES)]
    return [Fact.of("audit", {"writes": page}) for page in pages]


def _audit_entries_of_rows(one: JudgedRecord) -> list[CanonicalPart]:
    entries: list[CanonicalPart] = []
    if placed := one.placed:
        bands = [record.band for record in placed]
        entries += _audit_entries(one, bands, placed[0].memory_id, one.content_hash)
    if (witness := one.witness) is not None:
        entries += _audit_entries(one, [witness.band], witness.memory_id, content_fingerprint(witness))
    return entries


def _audit_entries(
    one: JudgedRecord, bands: Sequence[Band], entry_id: str, entry_hash: str
) -> Iterator[CanonicalPart]:
    """The entries of a judgement in some bands: the same but for the band, which comes first in them."""
    evidence = (one.witness or one.record).evidence
    body = {
        "entry_hash": entry_hash,
        "entry_id": entry_id,
        "evidence_hash": evidence.hash if evidence else None,
        "reasons": one.judgement.reasons,
        "verdict": str(one.verdict),
        "writer_id": str(Role.FORGE if Band.WITNESS in bands else Role.JUDGE),
    }
    rest = canonical_bytes(body)[1:]
    return (CanonicalPart(b'{"band":"%b",%b' % (band.encode(), rest)) for band in bands)


def _audit_entry_of_pattern(pattern: Record) -> dict[str, Any]:
    assert pattern.evidence is not None, "a pattern has evidence"
    return {
        "band": pattern.band.value,
        "entry_hash": content_fingerprint(pattern),
        "entry_id": pattern.memory_id,
        "evidence_hash": pattern.evidence.hash,
        "reasons": [check.reason for check in pattern.evidence.floor_checks[1:]],
        "verdict": pattern.evidence.verdict.value,
        "writer_id": Role.FORGE.value,
    }


def only_budgets_changed(
    commit: Commit, *, base: int, head: int, namespace: str, store: Store, budgets: BandBudgets
) -> bool:
    """Whether a commit was aborted only because other runs spent the same budgets, so that it can be planned
    again.

    Rows of budgeted bands do not count, because the policy decides about them anew; rows that the run erases
    do, unless it erases by version.
    """
    if not budgets.budgets or head == base:
        return False
    spent = tuple(
        prefix
        for band in budgets.budgets
        for prefix in (prefix_of(band), budget_key(band), prefix_of(RowKind.STREAM, band))
    )
    keys = [
        write.key
        for write in commit.writes
        if write.until is None and (write.erases or not write.key.startswith(spent))
    ]
    before, after = (store.read(namespace, keys, at=at) for at in (base, head))
    return {key: row.fingerprint for key, row in before.items()} == {
        key: row.fingerprint for key, row in after.items()
    }


class JudgedCommit:
    """The commit of judged records, planned as of the snapshot of a run.

    Args:
        forgotten: Keys whose content is erased, each with the reason.
        extra_writes: Gives the rows of the caller's own for an attempt, which has an identity of its own.
        even_if_empty: Whether these rows alone are worth a commit.
        until: Erases only the versions up to this snapshot; see ``plan_commit``.
        agent: Who commits, for the recall log.
        has_new_ids: Whether the run made the ids of the records without a subject.
        is_unknown: Whether nobody was told these ids, nor that of the run. Then nobody can have used them.
        is_single_call: Whether it is made again if somebody says the same at the same moment.
    """

    def __init__(
        self,
        services: RunServices,
        judged: Sequence[JudgedRecord],
        forgotten: Mapping[str, str],
        *,
        run: RunIdentity,
        extra_writes: Callable[[RunIdentity], Sequence[Write]] = lambda _: (),
        even_if_empty: bool = False,
        until: int | None = None,
        agent: str = "",
        has_new_ids: bool = False,
        is_unknown: bool = False,
        is_single_call: bool = False,
    ) -> None:
        self._services = services
        self._agent = agent
        self._new = new_keys(judged) if has_new_ids else frozenset[str]()
        self._unknown = self._new if is_unknown else frozenset[str]()
        # Who says the same at the same moment is told that it is known.
        self._untouched = tuple(
            (services.namespace, said_key(one.record.scope, one.reading))
            for one in (judged if is_single_call else ())
            if one.record.subject is None and one.known is None and one.is_accepted and one.reading
        )
        # What is known and ends others, because it holds and they do not, must not have ended meanwhile.
        self._untouched += tuple(
            (services.namespace, scoped_key(Band.LEDGER, one.record.scope, one.known))
            for one in judged
            if one.known is not None and one.superseded
        )
        self._judged = judged
        self._forgotten = forgotten
        self._run = run
        self._extra_writes = extra_writes
        self._even_if_empty = even_if_empty
        self._until = until
        self.commit: Commit | None = None
        """The commit that was submitted last."""

    def submit(self) -> Receipt | None:
        """Plan and commit. Returns None if nothing changes. The caller holds ``budgets_lock``.

        It is planned again if others only spent the same budgets meanwhile, or if another attempt of the run
        was refused at this snapshot. After an error, calling it again submits the very same commit, so that
        it is applied at most once.

        Raises:
            CommitAborted: A record changed since the snapshot, or the commit policy rejects the run. Nothing
                was written.
        """
        store, budgets, run = self._services.store, self._services.budgets, self._run
        if self.commit is not None:
            return store.commit(self.commit)
        problem = self._rejection()
        for attempt in count(1):
            commit = self.commit = self._plan(run)
            if commit is None:
                return None
            try:
                receipt = (
                    store.reject(commit, problem)
                    if problem
                    else store.commit(commit, new=self._unknown, untouched=self._untouched)
                )
            except CommitAborted:
                budgets.discarded()
                if problem or attempt == MAX_REBASES or not self._may_replan(commit, run.memory_snapshot_id):
                    raise
                # Other runs try too; the more attempts failed, the longer the wait, so that each gets its
                # turn.
                store.clock.sleep(0.001 * attempt)
                run = replace(run, run_id=f"{self._run.run_id}~{attempt}", memory_snapshot_id=store.head())
            except PayloadMismatch:
                budgets.discarded()
                if attempt == MAX_REBASES or not self._was_refused(commit):
                    raise
                # Another attempt of the run from the same snapshot, which left nothing, had this commit's id.
                run = replace(run, run_id=f"{self._run.run_id}~{attempt}")
            except BaseException:
                budgets.discarded()
                raise
            else:
                self._services.judging_cache.saw(commit, receipt)
                self._services.reader.notes.committed(receipt, Recipient(self._agent, self._run.run_id))
                if budgets.budgets:
                    budgets.committed(receipt.memory_snapshot_id)
                return receipt
        raise AssertionError("the last attempt returns or raises")

    def _was_refused(self, commit: Commit) -> bool:
        """Whether a commit with this one's id was aborted."""
        known = self._services.store.status(commit.commit_id)
        return isinstance(known, Buffer) and known.state is BufferState.ABORTED

    def _plan(self, run: RunIdentity) -> Commit | None:
        return plan_commit(
            self._judged,
            self._forgotten,
            run=run,
            namespace=self._services.namespace,
            store=self._services.store,
            budgets=self._services.budgets,
            extra_writes=self._extra_writes(run),
            even_if_empty=self._even_if_empty,
            until=self._until,
            new=self._new,
        )

    def _rejection(self) -> str:
        """Why ``all_or_nothing`` rejects these judgements; empty if it does not, because all or none are
        accepted.
        """
        if self._services.commit_policy is not CommitPolicy.ALL_OR_NOTHING:
            return ""
        judged = self._judged
        refused = [one for one in judged if one.known is None and not one.is_accepted]
        if not refused or (len(refused) == len(judged) and not self._forgotten):
            return ""
        first = refused[0]
        reason = "; ".join(first.judgement.reasons) or f"its verdict is {first.verdict}"
        return (
            f"the commit policy is all_or_nothing, and {len(refused)} of {len(judged)} texts were not"
            f" accepted; the first is {first.record.memory_id}: {reason}"
        )

    def _may_replan(self, commit: Commit, base: int) -> bool:
        # If it is also refused for what it was judged by, it has to be judged again.
        looks_at_more = self._untouched or self._services.store.commits_elsewhere
        return not looks_at_more and only_budgets_changed(
            commit,
            base=base,
            head=self._services.store.head(),
            namespace=self._services.namespace,
            store=self._services.store,
            budgets=self._services.budgets,
        )
