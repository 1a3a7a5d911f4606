"""What changed in a period or by one commit, and what memory held on a day."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from standfast.errors import InvalidValue, NoSuchSnapshot, StandfastError
from standfast.limits import MAX_DIFF_SNAPSHOTS
from standfast.records.scopes import ALL_SCOPES, name_in, prefix_in, scope_in
from standfast.records.vocabulary import Band, Record, Value
from standfast.server.access.permissions import Permission
from standfast.server.access.scope_limits import sees_any
from standfast.server.console.rendering import Page, PageRequest
from standfast.server.console.times import point_of
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import DiffQuery, NewestQuery
from standfast.store.stored_records import RecordChange

PERIOD_DAYS: Final = 7
"""How far back the page looks unless a day is chosen."""
_SHOWN_BANDS: Final = (Band.VAULT, Band.LEDGER, Band.VOID)
"""Working memory repeats long-term memory; observations are notes about it."""


class ChangesPageQuery(Value, frozen=True, kw_only=True):
    """A period, by its first and last day; or one commit, by its snapshot."""

    since: str = ""
    until: str = ""
    zone: int = 0
    scope: str = ""
    at: int | None = None


class KnownPageQuery(Value, frozen=True, kw_only=True):
    """A day or a minute, and a scope."""

    day: str = ""
    zone: int = 0
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one memory: its text before and after, whatever bands it is in."""

    scope: str
    name: str
    before: Record | None
    after: Record | None
    bands: tuple[str, ...]

    @property
    def what(self) -> str:
        """The kind of change, in a word."""
        if Band.VOID in self.bands:
            return "rejected" if self.after else "removed"
        if self.before is None:
            return "new"
        return "removed" if self.after is None else "changed"


def merged(changes: Iterable[RecordChange]) -> list[Change]:
    """The changes with one for each memory; the newest text first."""
    found: dict[tuple[str, str, str, str], Change] = {}
    for one in changes:
        band = prefix_in(one.key)
        if band not in _SHOWN_BANDS:
            continue
        scope, name = scope_in(one.key), name_in(one.key)
        texts = (one.before.text if one.before else "", one.after.text if one.after else "")
        known = found.get((scope, name, *texts))
        bands = (*known.bands, band) if known else (band,)
        found[scope, name, *texts] = Change(scope, name, one.before, one.after, bands)
    # Records of one time stand in the order of their names.
    ordered = sorted(found.values(), key=lambda one: (one.scope, one.name))
    return sorted(ordered, key=_time, reverse=True)


def _time(change: Change) -> str:
    record = change.after or change.before
    return (record.ts_utc or "") if record else ""


def changes(request: PageRequest) -> Page:
    """What is new, changed, removed and rejected: in a period, or by one commit."""
    memory = request.memory(Permission.DIFF)
    query = request.parse_query(ChangesPageQuery)
    context: dict[str, Any] = {
        "query": query,
        "problem": None,
        "changes": [],
        "counts": {},
        "commit": None,
        "first": None,
        "last": None,
        "cut": 0,
        "most": MAX_DIFF_SNAPSHOTS,
    }
    try:
        if query.at is not None:
            old, new = _commit(request, query.at, context)
        else:
            store = memory.store
            week = store.clock.now() - timedelta(days=PERIOD_DAYS)
            # A period begins with its first day, so it is compared with the end of the day before.
            context["first"] = first = point_of(
                store, f"{query.since}T00:00" if query.since else "", query.zone, otherwise=week
            )
            context["last"] = last = point_of(store, query.until, query.zone)
            new = max(last.snapshot, first.snapshot)
            old = max(first.snapshot, new - MAX_DIFF_SNAPSHOTS)
            context["cut"] = old - first.snapshot
        wanted = DiffQuery(old=old, new=new, scope=query.scope or ALL_SCOPES)
        found = merged(memory_operations.diff(*request.target, wanted).changes)
    except (InvalidValue, NoSuchSnapshot) as error:
        return Page(template="changes.html", context={**context, "problem": error})
    kinds = ("new", "changed", "removed", "rejected")
    context["counts"] = {kind: sum(one.what == kind for one in found) for kind in kinds}
    return Page(template="changes.html", context={**context, "changes": found})


def _commit(request: PageRequest, at: int, context: dict[str, Any]) -> tuple[int, int]:
    """The snapshots before and after a commit; the commit itself is for those who see what it wrote."""
    store = request.gateway.store
    if not 0 < at <= store.head():
        raise NoSuchSnapshot(memory_snapshot_id=at, head=store.head())
    written = (one for one in store.versions_of(at) if one.namespace == request.namespace)
    if sees_any(request.caller, store, written):
        context["commit"] = store.commit_of(at)
    return at - 1, at


def known(request: PageRequest) -> Page:
    """What an agent could know on a day: law and accepted memory of that time, newest first."""
    memory = request.memory(Permission.LIST_RECORDS)
    query = request.parse_query(KnownPageQuery)
    context: dict[str, Any] = {"query": query, "point": None, "records": [], "problem": None}
    try:
        context["point"] = point = point_of(memory.store, query.day, query.zone)
        wanted = NewestQuery(scope=query.scope or ALL_SCOPES, at=point.snapshot)
        context["records"] = memory_operations.newest_records(*request.target, wanted).records
    except StandfastError as error:
        context["problem"] = error
    return Page(template="known.html", context=context)
