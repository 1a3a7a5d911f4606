"""What can be asked without changing anything."""

from collections.abc import Iterator
from itertools import islice

from standfast.errors import BadRequest, InvalidValue, NoSuchSnapshot, NotFound
from standfast.limits import MAX_DIFF_SNAPSHOTS, SCAN_PAGE_RECORDS
from standfast.memory import Memory
from standfast.server.access.table import REACH_OF_ACT, Act, Caller, Reach, is_allowed
from standfast.server.operations.hall import VERSION, Hall
from standfast.server.operations.pages import page_of, place_of
from standfast.server.operations.recalling import recalled
from standfast.server.operations.shapes import (
    AskedDiff,
    AskedHistory,
    AskedPage,
    AskedRecord,
    AskedRecords,
    Diff,
    HistoryPage,
    Recall,
    Recalled,
    RecordsPage,
    SnapshotsPage,
    Status,
)
from standfast.store.protocol import Version
from standfast.store.records import HistoryEntry, record_of
from standfast.vocabulary import Band, Record, Snapshot

_BANDS = tuple(band for band in Band if band is not Band.PHOENIX)


def recall(hall: Hall, caller: Caller, namespace: str, asked: Recall) -> Recalled:
    """What is known, within a budget of tokens."""
    return recalled(hall.enter(caller, Act.RECALL, namespace), asked)


def list_records(hall: Hall, caller: Caller, namespace: str, asked: AskedRecords) -> RecordsPage:
    """Records by band and id, as one snapshot shows them; later pages show the same one."""
    memory = hall.enter(caller, Act.LIST_RECORDS, namespace)
    at, after = _existing(memory, asked.at), ""
    if asked.cursor is not None:
        at, after = place_of(asked.cursor, tuple[int, str])
        if after.partition("/")[0] not in _BANDS or not 0 <= at <= memory.store.head():
            raise BadRequest(problem="the cursor is none of this list's; begin without one")
    page, further = page_of(
        _rows(memory, asked.band, at, after),
        limit=asked.limit,
        size=lambda version: len(version.content or b""),
        place=lambda version: (at, version.key),
    )
    return RecordsPage(memory_snapshot_id=at, records=[record_of(version) for version in page], next=further)


def _rows(memory: Memory, band: Band | None, at: int, after: str) -> Iterator[Version]:
    begun = _BANDS.index(Band(after.partition("/")[0])) if after else 0
    for one in _BANDS[begun:]:
        if band in (None, one):
            behind = after if after.startswith(f"{one}/") else ""
            yield from memory.store.scan(memory.namespace, prefix=f"{one}/", after=behind, at=at)


def get_record(hall: Hall, caller: Caller, namespace: str, asked: AskedRecord) -> RecordsPage:
    """One thing, as it stands in each band that holds it."""
    memory = hall.enter(caller, Act.GET_RECORD, namespace)
    at = _existing(memory, asked.at)
    records = records_of(memory, asked.memory_id, at)
    if not records:
        raise NotFound(what=f"record {asked.memory_id!r:.80} in snapshot {at}")
    return RecordsPage(memory_snapshot_id=at, records=records)


def records_of(memory: Memory, memory_id: str, at: int | None = None) -> list[Record]:
    """What a snapshot shows of one thing, by band."""
    keys = [f"{band}/{memory_id}" for band in _BANDS]
    found = memory.store.read(memory.namespace, keys, at=at)
    return [record_of(found[key]) for key in keys if key in found]


def history(hall: Hall, caller: Caller, namespace: str, asked: AskedHistory) -> HistoryPage:
    """Every version of a subject (or memory id) in every band, oldest first."""
    memory = hall.enter(caller, Act.HISTORY, namespace)
    after = (0, "") if asked.cursor is None else place_of(asked.cursor, tuple[int, str])
    page, further = page_of(
        (chapter for chapter in memory.history(asked.subject) if _place(chapter) > after),
        limit=asked.limit,
        size=lambda chapter: len(chapter.record.text) if chapter.record else 0,
        place=_place,
    )
    return HistoryPage(versions=page, next=further)


def _place(chapter: HistoryEntry) -> tuple[int, str]:
    return chapter.memory_snapshot_id, chapter.key


def snapshots(hall: Hall, caller: Caller, namespace: str, asked: AskedPage) -> SnapshotsPage:
    """The committed states of the store, oldest first."""
    memory = hall.enter(caller, Act.SNAPSHOTS, namespace)
    after = 0 if asked.cursor is None else place_of(asked.cursor, int)
    rows = memory.store.commits(after=max(0, after), limit=min(asked.limit + 1, SCAN_PAGE_RECORDS))
    page, further = page_of(
        rows, limit=asked.limit, size=lambda _: 0, place=lambda applied: applied.memory_snapshot_id
    )
    shown = [
        Snapshot(
            memory_snapshot_id=applied.memory_snapshot_id,
            commit_id=applied.commit_id,
            committed_at=applied.committed_at,
        )
        for applied in page
    ]
    return SnapshotsPage(head=memory.store.head(), snapshots=shown, next=further)


def diff(hall: Hall, caller: Caller, namespace: str, asked: AskedDiff) -> Diff:
    """What a newer snapshot shows differently from an older one."""
    memory = hall.enter(caller, Act.DIFF, namespace)
    old, new = _existing(memory, asked.old), _existing(memory, asked.new)
    if not 0 <= new - old <= MAX_DIFF_SNAPSHOTS:
        problem = f"new must be old or newer, by at most {MAX_DIFF_SNAPSHOTS} snapshots"
        raise InvalidValue(what="diff", problem=problem)
    return Diff(old=old, new=new, changes=memory.diff(old, new))


def status(hall: Hall, caller: Caller, namespace: str) -> Status:
    """Where memory stands, and what the caller may do there."""
    memory = hall.enter(caller, Act.STATUS, namespace)
    waiting = sum(1 for _ in islice(memory.approvals().waiting(), SCAN_PAGE_RECORDS))
    may = [
        act.value
        for act in Act
        if is_allowed(caller, act, namespace if REACH_OF_ACT[act] is Reach.NAMESPACE else None)
    ]
    return Status(
        namespace=namespace,
        head=memory.store.head(),
        policy_set_id=memory.policy_set_id,
        proposals_waiting=waiting,
        name=caller.name,
        role=caller.role.value,
        may=may,
        version=VERSION,
    )


def _existing(memory: Memory, at: int | None) -> int:
    head = memory.store.head()
    if at is not None and at > head:
        raise NoSuchSnapshot(memory_snapshot_id=at, head=head)
    return head if at is None else at
