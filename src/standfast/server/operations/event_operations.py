"""Live events: what commits changed, proposed and rejected, and which calls were refused, by the ledger.

An event names records and never holds their text. Each caller is told only of the namespaces and scopes that
its key covers; of rejected records only people are told, and of refused calls only who may read the ledger.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from standfast.ledger.chain import Entry
from standfast.limits import MAX_EVENT_ENTRIES, MAX_EVENT_RECORDS, SCAN_PAGE_RECORDS
from standfast.records.canon import parse
from standfast.records.rows import RULES, Place, Reader, RowKind
from standfast.records.scopes import name_in, prefix_in, scope_in
from standfast.records.vocabulary import ActionType, Band, Value
from standfast.server.access.permissions import Caller, KeyRole, Permission, is_allowed
from standfast.server.access.protection import ACCESS_KIND
from standfast.server.access.scope_limits import sees_row
from standfast.server.operations.gateway import Gateway
from standfast.store.commit import COMMIT_KIND
from standfast.store.protocol import Version

COMMIT: Final = "commit"
PROPOSAL: Final = "proposal"
REFUSAL: Final = "refusal"
EXTRACTION: Final = "extraction"
_RECORD_BANDS: Final = frozenset(
    kind for kind, rule in RULES.items() if rule.place is Place.SCOPE and rule.seen_by is Reader.EVERYBODY
)


class EventRecord(Value, frozen=True, kw_only=True):
    """A record that a commit changed. ``action`` is WRITE, MERGE or EXPIRE."""

    memory_id: str
    band: str
    scope: str
    action: ActionType


class ServerEvent(Value, frozen=True, kw_only=True):
    """One event. ``seq`` is the entry of the ledger that tells of it.

    A commit names its first records, and how many there are. An extraction says that the facts in messages of
    a session are found, ``changed`` of them; its commit names their records. A proposal that waits has the
    action WRITE, one that was decided EXPIRE. A refusal is a record that was rejected, or, without a
    namespace, a call that was refused.
    """

    kind: str
    seq: int
    at: str
    namespace: str | None = None
    memory_snapshot_id: int | None = None
    run_id: str | None = None
    records: tuple[EventRecord, ...] = ()
    changed: int = 0
    proposal_id: str | None = None
    action: ActionType | None = None
    refused: dict[str, Any] | None = None
    session: str | None = None
    scope: str | None = None


def events_after(gateway: Gateway, caller: Caller, after: int) -> tuple[list[ServerEvent], int]:
    """Return the events behind an entry of the ledger that the caller may see, and the entry up to which they
    were looked for.
    """
    entries = gateway.store.entries_page(after=after, limit=MAX_EVENT_ENTRIES)
    events = [event for entry in entries for event in _events_of(gateway, caller, entry)]
    return events, entries[-1].seq if entries else after


def newest_entry(gateway: Gateway) -> int:
    """The entry of the newest commit, from which a caller that names none is told."""
    head = gateway.store.head()
    return gateway.store.commit_of(head).ledger_seq if head else 0


def last_entry(gateway: Gateway, caller: Caller) -> int:
    """The entry up to which a page that is loaded now has told the caller everything."""
    newest = newest_entry(gateway)
    if not is_allowed(caller, Permission.LEDGER, None):
        return newest
    # Refused calls are told to this caller, and their entries may follow the newest commit's.
    later = gateway.store.entries_page(after=newest, limit=SCAN_PAGE_RECORDS)
    return later[-1].seq if later else newest


def _events_of(gateway: Gateway, caller: Caller, entry: Entry) -> Iterator[ServerEvent]:
    content = entry.read()
    if content["kind"] == ACCESS_KIND and is_allowed(caller, Permission.LEDGER, None):
        yield ServerEvent(kind=REFUSAL, seq=entry.seq, at=content["at"], refused=content["body"]["told"])
    if content["kind"] != COMMIT_KIND:
        return
    versions = gateway.store.versions_of(content["body"]["memory_snapshot_id"])
    for namespace, group in groupby(versions, key=lambda version: version.namespace):
        if caller.covers(namespace):
            seen = [version for version in group if _sees(caller, gateway, version)]
            yield from _events_in(caller, entry.seq, content, namespace, seen)


def _sees(caller: Caller, gateway: Gateway, version: Version) -> bool:
    if prefix_in(version.key) == RowKind.EXTRACTION:
        return caller.covers_scope(scope_in(version.key))
    return sees_row(caller, gateway.store, version)


def _events_in(
    caller: Caller, seq: int, content: dict[str, Any], namespace: str, versions: Sequence[Version]
) -> Iterator[ServerEvent]:
    """The events of one commit in one namespace. Rows of budgets and notes are no records."""
    place: dict[str, Any] = {
        "seq": seq,
        "at": content["at"],
        "namespace": namespace,
        "memory_snapshot_id": content["body"]["memory_snapshot_id"],
        "run_id": content["body"]["run_id"],
    }
    changed = [version for version in versions if prefix_in(version.key) in _RECORD_BANDS]
    if changed:
        records = tuple(map(_record, changed[:MAX_EVENT_RECORDS]))
        yield ServerEvent(kind=COMMIT, records=records, changed=len(changed), **place)
    for version in versions:
        band = prefix_in(version.key)
        if band == Band.PHOENIX:
            proposal_id = version.key.partition("/")[2]
            yield ServerEvent(kind=PROPOSAL, proposal_id=proposal_id, action=version.action, **place)
        elif band == RowKind.EXTRACTION and version.content is not None:
            found = parse(version.content)
            yield ServerEvent(
                kind=EXTRACTION,
                session=found["session"],
                scope=scope_in(version.key),
                changed=found["facts"],
                **place,
            )
        elif band == Band.VOID and version.action is ActionType.WRITE and caller.role is not KeyRole.AGENT:
            yield ServerEvent(kind=REFUSAL, records=(_record(version),), changed=1, **place)


def _record(version: Version) -> EventRecord:
    return EventRecord(
        memory_id=name_in(version.key),
        band=prefix_in(version.key),
        scope=scope_in(version.key),
        action=version.action,
    )
