"""The retention sweep: archives and deletes what is old, in commits of its own that the ledger records.

Old records are archived (LEDGER, to the COLD tier) or deleted (ACTIVE, WITNESS, VOID). A deletion erases the
content of every version. Fingerprints and the reason stay. Notes on refusals are deleted as VOID is.
The age of a record is that of the commit that wrote its newest version, by the clock that is passed in.
Records that a byte budget expired are deleted at the same age, and so are the rows of the budget's stream
that repeat them.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import Final, NamedTuple

import msgspec

from standfast.errors import CommitAborted, Corruption
from standfast.govern.evidence import read_instant
from standfast.govern.policy import RETENTION_VOID_DAYS, RetentionDecision, decide_retention
from standfast.limits import FACT_PAGE_WRITES, MAX_ATTEMPTS, SCAN_PAGE_RECORDS
from standfast.records.canon import parse
from standfast.records.rows import RULES, Retention, RowKind
from standfast.records.scopes import prefix_in, prefix_of, row_key
from standfast.records.vocabulary import ActionType, Band, Receipt, Record, Tier
from standfast.store.commit import Commit, ExtraWrites, Fact, Write, no_extra_writes
from standfast.store.protocol import Version, verified
from standfast.store.store import Store
from standfast.store.stored_records import record_of

POLICY_SET_ID: Final = "retention/v1"
_SECONDS_A_DAY: Final = 86_400
_SWEPT_BANDS: Final = sorted(band for band in Band if RULES[RowKind(band)].retention is Retention.BY_BAND)
_SWEPT_BY_AGE: Final = [kind for kind in RowKind if RULES[kind].retention is Retention.BY_AGE]


class DueRecord(NamedTuple):
    """A row that is to be archived or deleted, and why."""

    key: str
    version: Version
    record: Record | None
    age_days: float
    decision: RetentionDecision

    @property
    def is_deletion(self) -> bool:
        """Whether it is deleted, and not archived."""
        return not self.decision.keep

    @property
    def is_streamed(self) -> bool:
        """Whether it is a row of a budget's stream."""
        return prefix_in(self.key) == RowKind.STREAM

    def write(self) -> Write:
        """Return the write that carries it out."""
        namespace = self.version.namespace
        if self.is_deletion or self.record is None:
            return Write.of(namespace, self.key, ActionType.EXPIRE, erases=self.decision.reason)
        archived = msgspec.structs.replace(self.record, tier=Tier.COLD)
        return Write.of(namespace, self.key, ActionType.MERGE, archived.as_json())

    def as_json(self) -> dict[str, object]:
        """Return what the ledger records and a dry run shows."""
        return {
            "action": "delete" if self.is_deletion else "archive",
            "age_days": round(self.age_days, 3),
            "fingerprint": self.version.fingerprint,
            "key": self.key,
            "reason": self.decision.reason,
        }


def due(store: Store, namespace: str, now: datetime, *, at: int | None = None) -> Iterator[DueRecord]:
    """Yield what is due in a namespace, by band and key. Changes nothing."""
    head = store.head() if at is None else at
    ages = _Ages(store, now)
    budgeted = [
        band for band in _SWEPT_BANDS if store.read(namespace, [row_key(RowKind.BUDGET, band)], at=head)
    ]
    # What a quarantine is about stays as it is, so that a release brings all of it back.
    hidden = store.hidden_at(namespace, head).versions
    for band in _SWEPT_BANDS:
        if band in budgeted:
            found = _due_in_budgeted_band(store, namespace, band, head, ages)
            yield from (one for one in found if one.key not in hidden)
        else:
            for version in store.scan(namespace, prefix=prefix_of(band), at=head):
                yield from _due(version, ages) if version.key not in hidden else ()
    for kind in _SWEPT_BY_AGE:
        for version in store.scan(namespace, prefix=prefix_of(kind), at=head):
            if (age := ages.of(version)) > RETENTION_VOID_DAYS:
                yield _deletion(version, age, f"a {kind} note past {RETENTION_VOID_DAYS} days: deleted")
    for band in budgeted:
        yield from _due_in_stream(store, namespace, band, head, ages)


def _due(version: Version, ages: "_Ages") -> Iterator[DueRecord]:
    record, age = record_of(version), ages.of(version)
    decision = decide_retention(record, age)
    if not decision.keep or decision.move_to_band == Tier.COLD:
        yield DueRecord(version.key, version, record, age, decision)


def _due_in_budgeted_band(
    store: Store, namespace: str, band: Band, head: int, ages: "_Ages"
) -> Iterator[DueRecord]:
    """Records that a budget expired have ended; their stored content is deleted at the usual age."""
    for version in store.newest_versions(namespace, prefix=prefix_of(band), at=head):
        newest = _newest_with_content(store, verified(version))
        found = () if newest is None else _due(newest, ages)
        yield from (one for one in found if one.is_deletion or version.content is not None)


def _due_in_stream(store: Store, namespace: str, band: Band, head: int, ages: "_Ages") -> Iterator[DueRecord]:
    """Rows go with the records that they repeat, those of records never kept at those records' age."""
    for version in store.scan(namespace, prefix=prefix_of(RowKind.STREAM, band), at=head):
        key, age = parse(version.content or b"").get("key"), ages.of(version)
        history = store.history(namespace, key) if key else []
        if key and not history:
            is_due = not decide_retention({"band": band}, age).keep
        else:
            newest = _newest_with_content(store, history[-1]) if history else None
            is_due = bool(history) and (newest is None or any(one.is_deletion for one in _due(newest, ages)))
        if is_due:
            yield _deletion(version, age, f"repeats a record that {band} no longer holds: deleted")


def _newest_with_content(store: Store, version: Version) -> Version | None:
    """Return the newest version of a key that still has its content; ``version`` is the newest of all."""
    if version.content is not None:
        return version
    with_content = [one for one in store.history(version.namespace, version.key) if one.content is not None]
    return with_content[-1] if with_content else None


def _deletion(version: Version, age: float, reason: str) -> DueRecord:
    return DueRecord(version.key, version, None, age, RetentionDecision(False, None, reason, 0))


def sweep(
    store: Store,
    namespace: str,
    now: datetime,
    *,
    progress: Callable[[int], None] = lambda _: None,
    extra_writes: ExtraWrites = no_extra_writes,
) -> list[Receipt]:
    """Archive and delete what is due, in as many commits as it takes.

    Each is complete in itself, so a crash loses nothing.

    If a run changes a record meanwhile, what is due is read again.

    Args:
        progress: Called with the number of rows done so far.
        extra_writes: Returns what else must be written when these keys are erased as of a snapshot.
    """
    receipts: list[Receipt] = []
    done = 0
    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        head = store.head()
        found = due(store, namespace, now, at=head)
        try:
            for is_streamed, group in groupby(found, key=lambda one: one.is_streamed):
                while page := list(islice(group, FACT_PAGE_WRITES)):
                    # Each page of a stream changes the band's budget, so it begins at the snapshot of the
                    # page before.
                    at = store.head() if is_streamed else head
                    others = extra_writes(at, [one.key for one in page])
                    receipts.append(store.commit(_commit(store, namespace, at, page, others)))
                    done += len(page)
                    progress(done)
        except CommitAborted:
            if not attempts_left:
                raise
        else:
            break
    return receipts


def _commit(store: Store, namespace: str, at: int, page: list[DueRecord], others: Sequence[Write]) -> Commit:
    content = {"namespace": namespace, "swept": [one.as_json() for one in page]}
    return Commit.of(
        run_id=f"sweep-{store.ids.new_id()}",
        memory_snapshot_id=at,
        policy_set_id=POLICY_SET_ID,
        writes=[*(one.write() for one in page), *others],
        facts=[Fact.of("retention", content)],
    )


class _Ages:
    """The ages of versions, from their commits. Each page of commits is read once."""

    def __init__(self, store: Store, now: datetime) -> None:
        self._store = store
        self._now = now
        self._made: dict[int, datetime] = {}

    def of(self, version: Version) -> float:
        snapshot = version.memory_snapshot_id
        if snapshot not in self._made:
            first = snapshot - 1 - (snapshot - 1) % SCAN_PAGE_RECORDS
            for applied in self._store.commits(after=first, limit=SCAN_PAGE_RECORDS):
                made = read_instant(applied.committed_at)
                if made is not None:
                    self._made[applied.memory_snapshot_id] = made
        if snapshot not in self._made:
            raise Corruption(what=f"snapshot {snapshot}", problem="its commit has no time")
        return (self._now - self._made[snapshot]).total_seconds() / _SECONDS_A_DAY
