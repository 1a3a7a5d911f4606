"""Auditing a store: everything that is stored is walked, and each problem told, the first break first.

The ledger says what must be there: which commits, with which fingerprints, and what was erased by whom. Rows that
differ from what the ledger says, or that it does not speak of, are problems.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.canon import fingerprint_of_bytes
from holdfast.errors import Corruption, HoldfastError, NotCanonical
from holdfast.ledger.chain import Entry
from holdfast.limits import SCAN_PAGE_RECORDS
from holdfast.store.commit import COMMIT_KIND, ERASURE_KIND, Fact, Write, payload_fingerprint_of
from holdfast.store.protocol import Applied, Erasure, Place, Storage, Version
from holdfast.vocabulary import ActionType

if TYPE_CHECKING:
    from holdfast.ledger.note import VerifyingKey


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
    from holdfast.ledger.notary import problems_of_ledger  # noqa: PLC0415  # Only who verifies pays for signatures.

    yield from storage.check()
    yield from problems_of_ledger(_all_entries(storage), notes, keys)
    erased: dict[Place, list[int]] = {}
    for entry in _all_entries(storage):
        for erasure in _erasures_in(entry):
            erased.setdefault((erasure.namespace, erasure.key), []).append(erasure.memory_snapshot_id)
    expected, told_of = 1, 0
    for applied in _all_applied(storage):
        if applied.memory_snapshot_id != expected:
            yield f"snapshot {expected} is missing; {applied.memory_snapshot_id} comes next"
        try:
            yield from _problems_of_commit(storage, applied, erased)
        except HoldfastError as error:
            yield f"{_titled(applied)}: {error}"
        expected, told_of = applied.memory_snapshot_id + 1, applied.ledger_seq
    for entry in _all_entries(storage, after=told_of):
        if _said(entry).get("kind") in (COMMIT_KIND, ERASURE_KIND):
            yield f"entry {entry.seq} of the ledger tells of a commit that is missing"


def _problems_of_commit(storage: Storage, applied: Applied, erased: dict[Place, list[int]]) -> Iterator[str]:
    rows = storage.snapshot_rows(applied.memory_snapshot_id)
    for row in rows:
        try:
            verified(row)
        except Corruption as error:
            yield str(error)
        yield from _problems_of_erasure(row, erased.get((row.namespace, row.key), ()))
    told, facts = _told_with(storage, applied.ledger_seq)
    reasons = {(body["namespace"], body["key"]): body["reason"] for body in told}
    writes = (_write(row, reasons.get((row.namespace, row.key))) for row in rows)
    if payload_fingerprint_of(writes, facts) != applied.payload_fingerprint:
        yield f"{_titled(applied)}: its records do not have its payload fingerprint"
    entry = next(iter(storage.entries(after=applied.ledger_seq - 1, limit=1)), None)
    if entry is None or _told_by(entry) != applied:
        yield f"{_titled(applied)}: entry {applied.ledger_seq} of the ledger does not tell of it"


def _problems_of_erasure(row: Version, snapshots: tuple[int, ...] | list[int]) -> Iterator[str]:
    """An erased row without an erasure in the ledger was emptied by hand; one with content should have none."""
    due = [snapshot for snapshot in snapshots if snapshot > row.memory_snapshot_id]
    if row.erased_by is not None and row.erased_by not in due:
        yield f"{_named(row)}: it was emptied, and the ledger tells of no erasure"
    if row.content is not None and due:
        yield f"{_named(row)}: snapshot {min(due)} erased it, and its content is there"


def _told_with(storage: Storage, ledger_seq: int) -> tuple[list[dict[str, Any]], list[Fact]]:
    """What the entries before a commit's own tell of it: its erasures, and its facts."""
    own = next(iter(storage.entries(after=ledger_seq - 1, limit=1)), None)
    count = _body(own).get("facts", 0) if own else 0
    erasures, facts = [], []
    if type(count) is int and 0 < count < ledger_seq:
        for entry in storage.entries(after=ledger_seq - 1 - count, limit=count):
            kind, body = _said(entry).get("kind"), _body(entry)
            if kind == ERASURE_KIND:
                erasures.append(body)
            else:
                facts.append(Fact.of(str(kind), body.get("told", {})))
    return erasures, facts


def erasures_in(entries: list[Entry]) -> list[Erasure]:
    """What these entries tell of erasures, for who copies them."""
    return [erasure for entry in entries for erasure in _erasures_in(entry)]


def _erasures_in(entry: Entry) -> Iterator[Erasure]:
    # Most entries are no erasure, and reading each would take longer than hashing it.
    if b'"kind":"%s"' % ERASURE_KIND.encode() in entry.content and _said(entry).get("kind") == ERASURE_KIND:
        body = _body(entry)
        yield Erasure(body["namespace"], body["key"], body["memory_snapshot_id"])


def _all_entries(storage: Storage, after: int = 0) -> Iterator[Entry]:
    while page := storage.entries(after=after, limit=SCAN_PAGE_RECORDS):
        yield from page
        after = page[-1].seq


def _all_applied(storage: Storage) -> Iterator[Applied]:
    after = 0
    while page := storage.applied(after=after, limit=SCAN_PAGE_RECORDS):
        yield from page
        after = page[-1].memory_snapshot_id


def _said(entry: Entry) -> dict[str, Any]:
    """What an entry says; nothing, if it is damaged, which the walk over the chain tells."""
    try:
        return entry.read()
    except NotCanonical:
        return {}


def _body(entry: Entry) -> dict[str, Any]:
    body = _said(entry).get("body", {})
    return body if isinstance(body, dict) else {}


def _told_by(entry: Entry) -> Applied | None:
    """The commit that an entry tells of, if it tells of one."""
    said: dict[str, Any] = {"at": ""} | _said(entry)
    named = ("memory_snapshot_id", "commit_id", "run_id", "commit_payload_fingerprint")
    body: dict[str, Any] = dict.fromkeys(named) | _body(entry)
    if said.get("kind") != COMMIT_KIND:
        return None
    return Applied(
        memory_snapshot_id=body["memory_snapshot_id"],
        commit_id=body["commit_id"],
        run_id=body["run_id"],
        payload_fingerprint=body["commit_payload_fingerprint"],
        committed_at=said["at"],
        ledger_seq=entry.seq,
        ledger_hash=entry.hash,
    )


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


def _titled(applied: Applied) -> str:
    return f"snapshot {applied.memory_snapshot_id} (commit {applied.commit_id})"
