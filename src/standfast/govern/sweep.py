"""The sweep: retention carried out, as commits of their own that the ledger tells of.

What is old is archived (LEDGER, to the COLD tier) or deleted (ACTIVE, WITNESS, VOID). A deletion erases what the record
ever said; its fingerprints, its reason and the note by which refused content is recognised stay. Age is counted from
the commit that made the newest version, by the clock that is handed in. What a byte budget let go is deleted at the same
age, and so is what the budget's stream tells of it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from typing import Final, NamedTuple

import msgspec

from standfast.canon import parse
from standfast.errors import CommitAborted, Corruption
from standfast.govern.evidence import read_instant
from standfast.govern.retention import RETENTION_VOID_DAYS, RetentionDecision, decide_retention
from standfast.limits import FACT_PAGE_WRITES, MAX_ATTEMPTS, SCAN_PAGE_RECORDS
from standfast.store.audit import verified
from standfast.store.commit import Commit, ExtraWrites, Fact, Write, no_extra_writes
from standfast.store.protocol import Version
from standfast.store.records import STREAM, record_of
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Band, Receipt, Record, Tier

POLICY_SET_ID: Final = "retention/v1"
_SECONDS_A_DAY: Final = 86_400
# PHOENIX holds proposals, which only a human ends.
_SWEPT_BANDS: Final = (Band.ACTIVE, Band.LEDGER, Band.VOID, Band.WITNESS)


class Due(NamedTuple):
    """One thing that is to be moved or deleted, and why."""

    key: str
    version: Version
    record: Record | None
    age_days: float
    decision: RetentionDecision

    @property
    def is_deletion(self) -> bool:
        """Whether it goes for good."""
        return not self.decision.keep

    @property
    def is_streamed(self) -> bool:
        """Whether it is a row of a budget's stream."""
        return self.key.startswith(STREAM)

    def write(self) -> Write:
        """The change that carries it out."""
        namespace = self.version.namespace
        if self.is_deletion or self.record is None:
            return Write.of(namespace, self.key, ActionType.EXPIRE, erases=self.decision.reason)
        archived = msgspec.structs.replace(self.record, tier=Tier.COLD)
        return Write.of(namespace, self.key, ActionType.MERGE, archived.as_json())

    def as_json(self) -> dict[str, object]:
        """What the ledger is told, and what a rehearsal shows."""
        return {
            "action": "delete" if self.is_deletion else "archive",
            "age_days": round(self.age_days, 3),
            "fingerprint": self.version.fingerprint,
            "key": self.key,
            "reason": self.decision.reason,
        }


def due(store: Store, namespace: str, now: datetime, *, at: int | None = None) -> Iterator[Due]:
    """All that is due in a namespace, in the order of its bands and keys; nothing is changed."""
    head = store.head() if at is None else at
    ages = _Ages(store, now)
    budgeted = [band for band in _SWEPT_BANDS if store.read(namespace, [f"budget/{band}"], at=head)]
    for band in _SWEPT_BANDS:
        if band in budgeted:
            yield from _due_where_budgets_expire(store, namespace, band, head, ages)
        else:
            for version in store.scan(namespace, prefix=f"{band}/", at=head):
                yield from _due(version, ages)
    for version in store.scan(namespace, prefix="mark/", at=head):
        if (age := ages.of(version)) > RETENTION_VOID_DAYS:
            yield _deletion(version, age, f"a mark past {RETENTION_VOID_DAYS} days: deleted")
    for band in budgeted:
        yield from _due_in_stream(store, namespace, band, head, ages)


def _due(version: Version, ages: "_Ages") -> Iterator[Due]:
    record, age = record_of(version), ages.of(version)
    decision = decide_retention(record, age)
    if not decision.keep or decision.move_to_band == Tier.COLD:
        yield Due(version.key, version, record, age, decision)


def _due_where_budgets_expire(
    store: Store, namespace: str, band: Band, head: int, ages: "_Ages"
) -> Iterator[Due]:
    """What a budget let go has ended, but what it said is still there: it is deleted when it would have been."""
    for version in store.newest_versions(namespace, prefix=f"{band}/", at=head):
        said = _newest_said(store, verified(version))
        found = () if said is None else _due(said, ages)
        yield from (one for one in found if one.is_deletion or version.content is not None)


def _due_in_stream(store: Store, namespace: str, band: Band, head: int, ages: "_Ages") -> Iterator[Due]:
    """Rows go with the records of which they tell; what was never kept, at the age at which it would have gone."""
    for version in store.scan(namespace, prefix=f"{STREAM}{band}/", at=head):
        key, age = parse(version.content or b"").get("key"), ages.of(version)
        known = store.history(namespace, key) if key else []
        if key and not known:
            goes = not decide_retention({"band": band}, age).keep
        else:
            said = _newest_said(store, known[-1]) if known else None
            goes = bool(known) and (said is None or any(one.is_deletion for one in _due(said, ages)))
        if goes:
            yield _deletion(version, age, f"told of what {band} holds no more: deleted")


def _newest_said(store: Store, version: Version) -> Version | None:
    """The newest version at a place of which the content is there; ``version`` is the newest of all."""
    if version.content is not None:
        return version
    told = [one for one in store.history(version.namespace, version.key) if one.content is not None]
    return told[-1] if told else None


def _deletion(version: Version, age: float, reason: str) -> Due:
    return Due(version.key, version, None, age, RetentionDecision(False, None, reason, 0))


def sweep(
    store: Store,
    namespace: str,
    now: datetime,
    *,
    progress: Callable[[int], None] = lambda _: None,
    beside: ExtraWrites = no_extra_writes,
) -> list[Receipt]:
    """Carry out what is due, in as many commits as it takes; each is complete in itself, so a crash loses nothing.

    What a run changes meanwhile is looked at anew; ``progress`` is told how many things are done. ``beside`` is asked, for
    rows of streams that are to go, what else must be written as of a snapshot.
    """
    receipts: list[Receipt] = []
    done = 0
    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        head = store.head()
        found = due(store, namespace, now, at=head)
        try:
            for is_streamed, group in groupby(found, key=lambda one: one.is_streamed):
                while page := list(islice(group, FACT_PAGE_WRITES)):
                    # Each page of a stream changes its budget, and so begins where the one before it ended.
                    at = store.head() if is_streamed else head
                    extra = beside(at, [one.key for one in page])
                    receipts.append(store.commit(_commit(store, namespace, at, page, extra)))
                    done += len(page)
                    progress(done)
        except CommitAborted:
            if not attempts_left:
                raise
        else:
            break
    return receipts


def _commit(store: Store, namespace: str, at: int, page: list[Due], extra: Sequence[Write]) -> Commit:
    told = {"namespace": namespace, "swept": [one.as_json() for one in page]}
    return Commit.of(
        run_id=f"sweep-{store.ids.new_id()}",
        memory_snapshot_id=at,
        policy_set_id=POLICY_SET_ID,
        writes=[*(one.write() for one in page), *extra],
        facts=[Fact.of("retention", told)],
    )


class _Ages:
    """How old versions are, by the commits that made them; each page of commits is looked up once."""

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
            raise Corruption(what=f"snapshot {snapshot}", problem="its commit does not tell when it was made")
        return (self._now - self._made[snapshot]).total_seconds() / _SECONDS_A_DAY
