"""Verification of a whole store: storage, ledger, checkpoints, commits and contents.

The ledger says what must be there: which commits, with which fingerprints, and what was erased by which of
them. Rows that differ from it, or that it does not mention, are problems.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

import orjson
from msgspec.structs import asdict

from standfast.errors import Corruption, StandfastError
from standfast.ledger.chain import Branch, Entry, Tip, walk
from standfast.ledger.note import VerifyingKey
from standfast.ledger.witness import LedgerFindings, problems_of_ledger
from standfast.limits import COPY_PAGE_RECORDS, SCAN_PAGE_RECORDS
from standfast.records.canon import normal_string
from standfast.records.vocabulary import ActionType
from standfast.store.commit import (
    COMMIT_KIND,
    ERASURE_KIND,
    RESTORE_KIND,
    Fact,
    payload_fingerprint,
)
from standfast.store.head_file import is_left_behind, lost_entry
from standfast.store.protocol import (
    AppliedCommit,
    Erasure,
    Progress,
    RecordKey,
    Storage,
    Vector,
    VectorQuery,
    Version,
    VersionQuery,
    verified,
    verified_vector,
)

_ERASURE_MARKER: Final = b'"kind":"%s"' % ERASURE_KIND.encode()
_RESTORE_MARKER: Final = b'"kind":"%s"' % RESTORE_KIND.encode()
# What stands around a fact in the entry of a commit, in canonical order.
_BEFORE_FACT: Final = re.compile(
    rb'\{"at":"[0-9T:.Z-]{27}","body":\{"commit_id":"[0-9a-f]{64}","memory_snapshot_id":[0-9]+,"told":'
)
_BEHIND_FACT: Final = re.compile(rb'\},"kind":"([a-z_]+)","previous":"[0-9a-f]{64}","seq":[0-9]+\}')
_COMMIT_FIELDS: Final = ("memory_snapshot_id", "commit_id", "run_id", "commit_payload_fingerprint")


def _problems_of_vectors(storage: Storage, head: int, changed: Collection[RecordKey]) -> Iterator[str]:
    """Each vector up to a snapshot must be whole, and end with its version.

    Args:
        changed: The records that have several versions, or whose content was erased. The only version of
            another one has all of its vectors, which no backend stores without it.
    """
    after = ("", "", 0, "")
    while page := storage.vectors(VectorQuery(after=after, limit=SCAN_PAGE_RECORDS)):
        versions: dict[RecordKey, list[Version]] = {}
        for namespace in sorted({one.namespace for one in page}):
            own = (one for one in page if one.namespace == namespace)
            keys = [one.key for one in own if one.ended is not None or (namespace, one.key) in changed]
            for row in storage.versions(VersionQuery(namespace=namespace, keys=keys, with_content=False)):
                versions.setdefault((namespace, row.key), []).append(row)
        for one in page:
            if one.memory_snapshot_id <= head:
                yield from _problems_of_vector(one, versions.get((one.namespace, one.key)), head)
        last = page[-1]
        after = (last.namespace, last.key, last.memory_snapshot_id, last.embedder)


def _problems_of_vector(vector: Vector, versions: list[Version] | None, head: int) -> Iterator[str]:
    """The versions may be newer than the vector, so what came behind ``head`` does not count for either."""
    try:
        verified_vector(vector)
    except Corruption as error:
        yield str(error)
    if versions is None:
        return
    at = [one for one in versions if one.memory_snapshot_id == vector.memory_snapshot_id]
    if not at or at[0].fingerprint is None or (at[0].erased_by or head + 1) <= head:
        yield f"{vector}: there is no content that it could belong to"
    later = [one.memory_snapshot_id for one in versions if one.memory_snapshot_id > vector.memory_snapshot_id]
    expected = min(later, default=None)
    if vector.ended != expected and min(vector.ended or head + 1, expected or head + 1) <= head:
        yield f"{vector}: it ends with snapshot {vector.ended}, and its record does not"


class RowChecker(Protocol):
    """Looks at the rows that an audit reads, so that none is read twice."""

    def take(self, snapshot: int, rows: Sequence[Version], damaged: Collection[RecordKey]) -> None:
        """Look at the rows of a commit, by namespace and key. Commits come in order.

        Args:
            damaged: The places of those rows whose contents do not match their fingerprints.
        """
        ...

    def problems(self) -> Iterator[str]:
        """Yield one message per problem, when all rows were taken."""
        ...


def problems_of(
    storage: Storage,
    notes: Sequence[str],
    keys: Sequence[VerifyingKey],
    *,
    rebuild_indexes: bool,
    progress: Progress | None = None,
    findings: LedgerFindings | None = None,
    checkers: Sequence[RowChecker] = (),
) -> Iterator[str]:
    """Yield one message per problem of a store and of the signed checkpoints of its ledger, the first break
    first; then what the checkers found.

    Others may write and erase meanwhile. What was there when the ledger was read is checked.
    """
    yield from storage.check(rebuild_indexes=rebuild_indexes)
    expected, head, branches = 1, storage.head(), storage.branches()
    restores: list[Entry] = []
    erasures = _ErasureReader(storage)
    entries = erasures.noting(_all_entries(storage), restores)
    yield from problems_of_ledger(entries, notes, keys, branches, findings)
    deque(entries, maxlen=0)  # Those behind a break tell of restores and erasures too.
    yield from _problems_of_branches(restores, branches)
    yield from _problems_of_head_file(storage, branches)
    last = erasures.tip.seq
    ledger = _LedgerReader(takewhile(lambda entry: entry.seq <= last, _all_entries(storage)))
    versions = _VersionReader(storage)
    for applied in _all_commits(storage):
        if applied.memory_snapshot_id > head and applied.ledger_seq > last:
            break
        if applied.memory_snapshot_id != expected:
            yield f"snapshot {expected} is missing; {applied.memory_snapshot_id} comes next"
        try:
            entries_of_commit = ledger.take_up_to(applied.ledger_seq)
            yield from _problems_of_commit(versions, applied, entries_of_commit, erasures, checkers)
        except StandfastError as error:
            yield f"{_title_of(applied)}: {error}"
        expected = applied.memory_snapshot_id + 1
        if progress is not None:
            progress(applied.memory_snapshot_id, max(head, applied.memory_snapshot_id))
    yield from _problems_of_orphans(ledger.take_rest())
    yield from _problems_of_vectors(storage, head, versions.changed)
    for checker in checkers:
        yield from checker.problems()


def _problems_of_head_file(storage: Storage, branches: list[Branch]) -> Iterator[str]:
    """Nothing that was acknowledged may be missing, except for what a restore left behind."""
    acknowledged = storage.acknowledged
    if acknowledged is None or not acknowledged.seq:
        return
    found = storage.entries(after=acknowledged.seq - 1, limit=1)
    digest = found[0].hash if found and found[0].seq == acknowledged.seq else None
    problem = lost_entry(acknowledged, digest, "PATH")
    if problem is not None and not is_left_behind(acknowledged, branches):
        yield problem


def _problems_of_branches(restores: Iterable[Entry], branches: Sequence[Branch]) -> Iterator[str]:
    """Each branch must be what the ledger tells, and the ledger must not tell of others."""
    if not branches or branches[0].number:
        yield "the store's identity is missing"
        return
    rows = {branch.ledger_seq: branch for branch in branches[1:]}
    for entry in restores:
        if (logged := _EntryReader(entry)).kind != RESTORE_KIND:
            continue
        row = rows.pop(entry.seq, None)
        expected = None if row is None else {**asdict(row), "store_id": branches[0].branch_id}
        if expected is None or any(logged.body.get(name) != value for name, value in expected.items()):
            yield f"entry {entry.seq} of the ledger tells of a restore, but the store's branches do not"
    for branch in rows.values():
        yield f"the ledger does not tell of branch {branch.number} of the store"


def _problems_of_commit(
    versions: "_VersionReader",
    applied: AppliedCommit,
    entries: list[Entry],
    erasures: "_ErasureReader",
    checkers: Sequence[RowChecker],
) -> Iterator[str]:
    """Check one commit. ``entries`` are those after the commit before it, up to its own."""
    own = _EntryReader(entries.pop()) if entries and entries[-1].seq == applied.ledger_seq else None
    count = own.body.get("facts", 0) if own is not None else 0
    first = len(entries) - count if type(count) is int and 0 <= count <= len(entries) else 0
    yield from _problems_of_orphans(entries[:first])
    if own is None or own.commit != applied:
        yield f"{_title_of(applied)}: entry {applied.ledger_seq} of the ledger does not describe it"
    rows, damaged = versions.take(applied.memory_snapshot_id), list[RecordKey]()
    for row in rows:
        try:
            verified(row)
        except Corruption as error:
            damaged.append((row.namespace, row.key))
            yield str(error)
        if row.action is not ActionType.WRITE or row.content is None:
            versions.changed.add((row.namespace, row.key))
        if (problem := erasures.problem_of(row)) is not None:
            yield problem
        if not (row.key.isascii() and row.namespace.isascii()) and not _is_normal(row):
            yield f"{row}: its name is not in NFC"
    for checker in checkers:
        checker.take(applied.memory_snapshot_id, rows, damaged)
    erased, facts = _erased_and_facts(entries[first:])
    lines = [
        (*key, row.action, row.fingerprint, *erased.pop(key, _NOT_ERASED)[:2])
        for row in rows
        for key in [(row.namespace, row.key)]
    ]
    # Where a newer version stays, an erasure leaves no row of its own.
    if alone := [(key, one) for key, one in erased.items() if one.is_alone]:
        lines += [(*key, ActionType.EXPIRE, None, one.reason, one.until) for key, one in alone]
        lines.sort(key=itemgetter(0, 1))
    if payload_fingerprint(lines, facts) != applied.payload_fingerprint:
        yield f"{_title_of(applied)}: its records do not match its payload fingerprint"


def _problems_of_orphans(entries: Iterable[Entry]) -> Iterator[str]:
    """Entries that belong to no commit, but are of a kind that only a commit writes."""
    for entry in entries:
        if _EntryReader(entry).kind in (COMMIT_KIND, ERASURE_KIND):
            yield f"entry {entry.seq} of the ledger describes a commit that is missing"


class _LoggedErasure(NamedTuple):
    """What the ledger says of an erasure. A lone one left a newer version as it was, and has no row."""

    reason: str | None
    until: int | None
    is_alone: bool


_NOT_ERASED: Final = _LoggedErasure(None, None, is_alone=False)


def _erased_and_facts(entries: list[Entry]) -> tuple[dict[RecordKey, _LoggedErasure], list[Fact]]:
    """What the entries before a commit's own say: its erasures, and its facts."""
    erased, facts = {}, []
    for entry in entries:
        if (fact := _fact_in(entry)) is not None:
            facts.append(fact)
            continue
        logged = _EntryReader(entry)
        if logged.kind != ERASURE_KIND:
            facts.append(Fact.of(logged.kind, logged.body.get("told", {})))
        elif (erasure := logged.erasure) is not None:
            body = logged.body
            erased[erasure.namespace, erasure.key] = _LoggedErasure(
                str(body.get("reason")), body.get("until"), is_alone="newer" in body
            )
    return erased, facts


def _fact_in(entry: Entry) -> Fact | None:
    """The fact that an entry of a commit holds, cut out of its bytes without parsing them; None if they have
    another form.
    """
    start = _BEFORE_FACT.match(entry.content)
    end = _BEHIND_FACT.fullmatch(entry.content, entry.content.rfind(b'},"kind":"'))
    if start is None or end is None or end[1].decode() in (COMMIT_KIND, ERASURE_KIND, RESTORE_KIND):
        return None
    return Fact(kind=end[1].decode(), content=entry.content[start.end() : end.start()])


def erasures_in(entries: Iterable[Entry]) -> Iterator[Erasure]:
    """The erasures that these entries describe."""
    for entry in entries:
        # Few entries are erasures, and parsing each would take longer than hashing it.
        if _ERASURE_MARKER in entry.content and (erasure := _EntryReader(entry).erasure) is not None:
            yield erasure


class _ErasureReader:
    """What the ledger tells of erasures, as far as it was read."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._erased: dict[RecordKey, list[Erasure]] = {}
        self.tip = Tip()

    def noting(self, entries: Iterable[Entry], restores: list[Entry]) -> Iterator[Entry]:
        """The same entries; what they tell of restores and erasures is noted on the way."""
        entry = None
        for entry in entries:
            if _RESTORE_MARKER in entry.content:
                restores.append(entry)
            for erasure in erasures_in([entry]):
                self._erased.setdefault((erasure.namespace, erasure.key), []).append(erasure)
            yield entry
        self.tip = self.tip if entry is None else entry.tip

    def problem_of(self, row: Version) -> str | None:
        """A version is emptied by the first erasure that reaches it, names that one, and by nothing else."""
        if row.erased_by is None and (row.namespace, row.key) not in self._erased:
            return None
        if self._disagreement_with(row) is None:
            return None
        # It may have been erased since the ledger was read, or since the row was.
        again = self._storage.versions(VersionQuery(namespace=row.namespace, keys=[row.key]))
        row = next((one for one in again if one.memory_snapshot_id == row.memory_snapshot_id), row)
        if row.erased_by is not None:
            self._read_on()
        return self._disagreement_with(row)

    def _read_on(self) -> None:
        deque(self.noting(walk(_all_entries(self._storage, self.tip.seq), start=self.tip), []), maxlen=0)

    def _disagreement_with(self, row: Version) -> str | None:
        erasures = self._erased.get((row.namespace, row.key), ())
        due = [one.memory_snapshot_id for one in erasures if row.memory_snapshot_id <= one.until]
        expected = min(due) if due and row.fingerprint is not None else None
        if row.erased_by != expected:
            ledger = (
                "the ledger has no such erasure" if expected is None else f"snapshot {expected} erased it"
            )
            return f"{row}: it says that snapshot {row.erased_by} erased it, but {ledger}"
        if expected is not None and row.content is not None:
            return f"{row}: snapshot {expected} erased it, but its content is still there"
        return None


class _VersionReader:
    """The versions that one commit after the other wrote. Small ones are read together, in one query."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ahead: dict[int, list[Version]] = {}
        self._until = 0
        self._snapshots = 1
        self.changed: set[RecordKey] = set()
        """The records with an older version, or without content, as far as they were checked."""

    def take(self, snapshot: int) -> list[Version]:
        """The versions of a snapshot, by namespace and key."""
        if snapshot > self._until and not self._has_read_ahead(snapshot):
            # A commit can hold gigabytes, and a row that can't be read is a problem of its own commit.
            self._snapshots, self._ahead = 1, {}
            rows = self._storage.versions(VersionQuery(snapshot=snapshot))
            self._snapshots = 2 if len(rows) < COPY_PAGE_RECORDS else 1
            return rows
        return self._ahead.pop(snapshot, [])

    def _has_read_ahead(self, snapshot: int) -> bool:
        """Read the versions of some snapshots, unless they are many; of more, the better that went."""
        if self._snapshots == 1:
            return False
        until = snapshot + self._snapshots - 1
        query = VersionQuery(since=snapshot - 1, at=until, limit=SCAN_PAGE_RECORDS)
        try:
            rows = self._storage.versions(query)
        except StandfastError:
            return False
        if len(rows) == SCAN_PAGE_RECORDS:
            return False
        self._ahead = {}
        for row in rows:
            self._ahead.setdefault(row.memory_snapshot_id, []).append(row)
        self._until = until
        if len(rows) < SCAN_PAGE_RECORDS // 2:
            self._snapshots *= 2
        return True


class _LedgerReader:
    """The ledger's entries, taken piece by piece."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self._next = next(entries, None)

    def take_up_to(self, seq: int) -> list[Entry]:
        """The entries not taken yet, up to a sequence number."""
        taken = []
        while self._next is not None and self._next.seq <= seq:
            taken.append(self._next)
            self._next = next(self._entries, None)
        return taken

    def take_rest(self) -> Iterator[Entry]:
        """All entries not taken yet."""
        while self._next is not None:
            yield self._next
            self._next = next(self._entries, None)


class _EntryReader:
    """What an entry says, as far as it can be read. The check of the chain reports damaged entries."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        try:
            content = orjson.loads(entry.content)
        except orjson.JSONDecodeError:
            content = {}
        self._content: dict[str, Any] = content if isinstance(content, dict) else {}
        body = self._content.get("body")
        self.kind = str(self._content.get("kind", ""))
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}

    @property
    def erasure(self) -> Erasure | None:
        """The erasure, if it describes one."""
        if self.kind != ERASURE_KIND:
            return None
        namespace, key, snapshot, until = map(self.body.get, Erasure.__struct_fields__)
        if not (isinstance(namespace, str) and isinstance(key, str) and isinstance(snapshot, int)):
            return None
        # Erasures of whole records name no last version.
        return Erasure(namespace, key, snapshot, until if isinstance(until, int) else snapshot - 1)

    @property
    def commit(self) -> AppliedCommit | None:
        """The commit, if it describes one."""
        if self.kind != COMMIT_KIND:
            return None
        values: list[Any] = [self.body.get(name) for name in _COMMIT_FIELDS]
        snapshot, commit_id, run_id, payload_fingerprint = values
        at: Any = self._content.get("at")
        return AppliedCommit(
            snapshot, commit_id, run_id, payload_fingerprint, at, self._entry.seq, self._entry.hash
        )


def _all_entries(storage: Storage, after: int = 0) -> Iterator[Entry]:
    while page := storage.entries(after=after, limit=SCAN_PAGE_RECORDS):
        yield from page
        after = page[-1].seq


def _all_commits(storage: Storage) -> Iterator[AppliedCommit]:
    after = 0
    while page := storage.commits(after=after, limit=SCAN_PAGE_RECORDS):
        yield from page
        after = page[-1].memory_snapshot_id


def _is_normal(version: Version) -> bool:
    """Whether the line of a version in the payload names it as it is stored."""
    return all(normal_string(name) == name for name in (version.namespace, version.key))


def _title_of(applied: AppliedCommit) -> str:
    return f"snapshot {applied.memory_snapshot_id} (commit {applied.commit_id})"
