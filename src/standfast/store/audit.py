"""Auditing a store: everything that is stored is walked, and each problem told, the first break first.

The ledger says what must be there: which commits, with which fingerprints, and what was erased by whom. Rows that
differ from what the ledger says, or that it does not speak of, are problems.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from standfast.canon import fingerprint_of_bytes
from standfast.errors import Corruption, NotCanonical, StandfastError
from standfast.ledger.chain import Entry
from standfast.limits import SCAN_PAGE_RECORDS
from standfast.store.commit import COMMIT_KIND, ERASURE_KIND, Fact, Write, payload_fingerprint_of
from standfast.store.protocol import AppliedCommit, Erasure, RecordKey, Storage, Version
from standfast.vocabulary import ActionType

if TYPE_CHECKING:
    from standfast.ledger.note import VerifyingKey

_OF_COMMIT: Final = ("memory_snapshot_id", "commit_id", "run_id", "commit_payload_fingerprint")


def verified(version: Version) -> Version:
    """The version, if its content has its fingerprint or was erased; a wrong answer is never given."""
    if version.content is not None and fingerprint_of_bytes(version.content) == version.fingerprint:
        return version
    if version.content is None:
        if version.fingerprint is None and version.action is ActionType.EXPIRE:
            return version
        if version.fingerprint is not None and version.erased_by is not None:
            return version
    raise Corruption(what=_named(version), problem="its content does not have its fingerprint")


def problems_of(
    storage: Storage, notes: Sequence[str] = (), keys: Sequence["VerifyingKey"] = ()
) -> Iterator[str]:
    """Every problem of a store and of the signed checkpoints of its ledger; none told means that all of it holds."""
    from standfast.ledger.notary import problems_of_ledger  # noqa: PLC0415  # Only who verifies pays for signatures.

    yield from storage.check()
    yield from problems_of_ledger(_all_entries(storage), notes, keys)
    erased: dict[RecordKey, list[int]] = {}
    for erasure in erasures_in(_all_entries(storage)):
        erased.setdefault((erasure.namespace, erasure.key), []).append(erasure.memory_snapshot_id)
    ledger = _Ledger(_all_entries(storage))
    expected = 1
    for applied in _all_applied(storage):
        if applied.memory_snapshot_id != expected:
            yield f"snapshot {expected} is missing; {applied.memory_snapshot_id} comes next"
        try:
            yield from _problems_of_commit(storage, applied, ledger.up_to(applied.ledger_seq), erased)
        except StandfastError as error:
            yield f"{_titled(applied)}: {error}"
        expected = applied.memory_snapshot_id + 1
    yield from _problems_of_strays(ledger.rest())


def _problems_of_commit(
    storage: Storage, applied: AppliedCommit, told: list[Entry], erased: dict[RecordKey, list[int]]
) -> Iterator[str]:
    """``told`` are the entries since the commit before, up to the one that should be its own."""
    own = _Told(told.pop()) if told and told[-1].seq == applied.ledger_seq else None
    count = own.body.get("facts", 0) if own is not None else 0
    first = len(told) - count if type(count) is int and 0 <= count <= len(told) else 0
    yield from _problems_of_strays(told[:first])
    if own is None or own.commit != applied:
        yield f"{_titled(applied)}: entry {applied.ledger_seq} of the ledger does not tell of it"
    rows = storage.snapshot_rows(applied.memory_snapshot_id)
    for row in rows:
        try:
            verified(row)
        except Corruption as error:
            yield str(error)
        yield from _problems_of_erasure(row, erased.get((row.namespace, row.key), []))
    reasons, facts = _told_with(told[first:])
    writes = (_write(row, reasons.get((row.namespace, row.key))) for row in rows)
    if payload_fingerprint_of(writes, facts) != applied.payload_fingerprint:
        yield f"{_titled(applied)}: its records do not have its payload fingerprint"


def _problems_of_strays(entries: Iterable[Entry]) -> Iterator[str]:
    """What only a commit can tell, told by entries that belong to none."""
    for entry in entries:
        if _Told(entry).kind in (COMMIT_KIND, ERASURE_KIND):
            yield f"entry {entry.seq} of the ledger tells of a commit that is missing"


def _problems_of_erasure(row: Version, snapshots: list[int]) -> Iterator[str]:
    """The first erasure after a version emptied it, and says so in it; nothing else did."""
    due = [snapshot for snapshot in snapshots if snapshot > row.memory_snapshot_id]
    expected = min(due) if due and row.fingerprint is not None else None
    if row.erased_by != expected:
        told = "the ledger tells of no erasure" if expected is None else f"snapshot {expected} erased it"
        yield f"{_named(row)}: it says that snapshot {row.erased_by} emptied it, and {told}"
    elif expected is not None and row.content is not None:
        yield f"{_named(row)}: snapshot {expected} erased it, and its content is there"


def _told_with(entries: list[Entry]) -> tuple[dict[RecordKey, str], list[Fact]]:
    """What the entries before a commit's own tell of it: the reasons of its erasures, and its facts."""
    reasons, facts = {}, []
    for told in map(_Told, entries):
        if told.kind != ERASURE_KIND:
            facts.append(Fact.of(told.kind, told.body.get("told", {})))
        elif (erasure := told.erasure) is not None:
            reasons[erasure.namespace, erasure.key] = str(told.body.get("reason"))
    return reasons, facts


def erasures_in(entries: Iterable[Entry]) -> Iterator[Erasure]:
    """What these entries tell of erasures."""
    marked = b'"kind":"%s"' % ERASURE_KIND.encode()
    for entry in entries:
        # Most entries are no erasure, and reading each would take longer than hashing it.
        if marked in entry.content and (erasure := _Told(entry).erasure) is not None:
            yield erasure


class _Ledger:
    """The ledger's entries, taken piece by piece."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self._next = next(entries, None)

    def up_to(self, seq: int) -> list[Entry]:
        """The entries that were not taken yet, up to a place; none if the place was passed."""
        taken = []
        while self._next is not None and self._next.seq <= seq:
            taken.append(self._next)
            self._next = next(self._entries, None)
        return taken

    def rest(self) -> Iterator[Entry]:
        """All that was not taken."""
        while self._next is not None:
            yield self._next
            self._next = next(self._entries, None)


class _Told:
    """What an entry says, as far as it can be read; what is damaged, the walk over the chain tells."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        try:
            said = entry.read()
        except NotCanonical:
            said = {}
        self._said: dict[str, Any] = said if isinstance(said, dict) else {}
        body = self._said.get("body")
        self.kind = str(self._said.get("kind", ""))
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}

    @property
    def erasure(self) -> Erasure | None:
        """The erasure, if it tells of one."""
        if self.kind != ERASURE_KIND:
            return None
        namespace, key, snapshot = map(self.body.get, Erasure.__struct_fields__)
        if isinstance(namespace, str) and isinstance(key, str) and isinstance(snapshot, int):
            return Erasure(namespace, key, snapshot)
        return None

    @property
    def commit(self) -> AppliedCommit | None:
        """The commit, if it tells of one."""
        if self.kind != COMMIT_KIND:
            return None
        body: dict[str, Any] = dict.fromkeys(_OF_COMMIT) | self.body
        snapshot, commit_id, run_id, payload_fingerprint = (body[name] for name in _OF_COMMIT)
        at: Any = self._said.get("at")
        return AppliedCommit(
            snapshot, commit_id, run_id, payload_fingerprint, at, self._entry.seq, self._entry.hash
        )


def _all_entries(storage: Storage, after: int = 0) -> Iterator[Entry]:
    while page := storage.entries(after=after, limit=SCAN_PAGE_RECORDS):
        yield from page
        after = page[-1].seq


def _all_applied(storage: Storage) -> Iterator[AppliedCommit]:
    after = 0
    while page := storage.applied(after=after, limit=SCAN_PAGE_RECORDS):
        yield from page
        after = page[-1].memory_snapshot_id


def _write(version: Version, erases: str | None) -> Write:
    content = version.content
    if content is None and version.fingerprint is not None:
        # The content is gone, but the write that is fingerprinted had one; only its fingerprint counts.
        content = b""
    return Write(
        namespace=version.namespace,
        key=version.key,
        action=version.action,
        content=content,
        fingerprint=version.fingerprint,
        erases=erases,
    )


def _named(version: Version) -> str:
    return f"{version.namespace}/{version.key} in snapshot {version.memory_snapshot_id}"


def _titled(applied: AppliedCommit) -> str:
    return f"snapshot {applied.memory_snapshot_id} (commit {applied.commit_id})"
