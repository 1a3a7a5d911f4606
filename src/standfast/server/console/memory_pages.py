"""The pages about memory: overview, activity, records and recall, snapshots, differences."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from standfast.errors import InvalidValue, NoSuchSnapshot, NotFound
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_DIFF_SNAPSHOTS, MAX_EVENT_ENTRIES
from standfast.memory import Memory
from standfast.memory.band_budgets import budget_key
from standfast.recall.answers import ExplainedItem, ExplainedMatch
from standfast.records.canon import parse
from standfast.records.requests import RECALLED_BANDS
from standfast.records.scopes import ALL_SCOPES
from standfast.records.vocabulary import ActionType, Band, Snapshot, Value, Verdict
from standfast.server.access.permissions import Permission
from standfast.server.console.charts import UNJUDGED, NamespaceStats, line_chart, shares
from standfast.server.console.rendering import Page, PageRequest, bytes_text, link, short_name
from standfast.server.edge.problems import status_of
from standfast.server.operations import memory_operations
from standfast.server.operations.event_operations import (
    COMMIT,
    PROPOSAL,
    REFUSAL,
    ServerEvent,
    events_after,
    last_entry,
)
from standfast.server.operations.schemas import DiffQuery, PageQuery, RecallBody, RecordsQuery, encode_cursor
from standfast.store.stored_records import RecordChange

SEARCH_TOKENS: Final = 4_000
RECENT_SNAPSHOTS: Final = 8
SEARCHED_SNAPSHOTS: Final = 200
VERDICTS: Final = (*(verdict.value for verdict in Verdict), UNJUDGED)
_NAMED_RECORDS: Final = 3
# Marks further versions of one record in the same band.
_SUFFIX: Final = re.compile(r"(~[0-9a-f]{12}){0,2}(@[0-9]+\.[0-9]+)?$")
_PAGES_BACK: Final = 10
"""How many pages of ledger entries are looked at, at most."""


@dataclass(frozen=True, slots=True)
class BandLine:
    """A band on the overview, with its byte budget if it has one."""

    band: Band
    records: int
    size_bytes: int
    policy: str | None = None
    max_bytes: int | None = None
    used_bytes: int | None = None

    @property
    def share(self) -> float:
        """The spent share of the budget."""
        return (self.used_bytes or 0) / self.max_bytes if self.max_bytes else 0.0


class MemoryPageQuery(RecordsQuery, frozen=True, kw_only=True):
    """The query of the memory page: a list of records, or with ``q`` a search.

    It lists every scope unless it names one.
    """

    q: str = ""
    scope: str = ""


class SnapshotPageQuery(Value, frozen=True, kw_only=True):
    """The query of the time-travel page."""

    at: int | None = None


def overview(request: PageRequest) -> Page:
    """Bands, bytes and budgets, growth by snapshot, verdicts, waiting proposals."""
    status = memory_operations.status(*request.target)
    memory = request.memory(Permission.LIST_RECORDS)
    stats = request.stats.of(memory, request.caller.scopes)
    verdicts = stats.verdicts
    growth = [("bytes at snapshot", [point.size_bytes for point in stats.growth])]
    labels = [f"{point.memory_snapshot_id}" for point in stats.growth]
    context = {
        "status": status,
        "stats": stats,
        "bands": _band_lines(memory, stats, has_budgets=not request.caller.scopes),
        "verdicts": [(name, verdicts[name]) for name in VERDICTS if verdicts[name]],
        "verdict_shares": shares([(name, verdicts[name]) for name in VERDICTS]),
        "growth": line_chart(growth, labels, text=bytes_text, base=1024, filled=True),
        "growth_bytes": stats.growth[-1].size_bytes - stats.growth[0].size_bytes,
        "recent": _recent_snapshots(request, status.head),
    }
    return Page(template="overview.html", context=context)


def _band_lines(memory: Memory, stats: NamespaceStats, *, has_budgets: bool) -> list[BandLine]:
    """The bands. A budget is spent by all scopes together, so a key limited to some does not see it."""
    budgets = memory.band_budgets.budgets if has_budgets else {}
    rows = memory.store.read(memory.namespace, [budget_key(band) for band in budgets])
    lines = []
    for band, count in stats.bands.items():
        budget, row = budgets.get(band), rows.get(budget_key(band))
        lines.append(
            BandLine(
                band,
                count.records,
                count.size_bytes,
                policy=None if budget is None else budget.policy,
                max_bytes=None if budget is None else budget.max_bytes,
                used_bytes=0 if row is None else parse(row.content or b"")["used_bytes"],
            )
        )
    return lines


def _recent_snapshots(request: PageRequest, last: int) -> list[Snapshot]:
    """The snapshots up to ``last`` that changed the namespace, newest first, as far as a bounded search finds
    them.
    """
    query = PageQuery(limit=SEARCHED_SNAPSHOTS, cursor=encode_cursor(max(0, last - SEARCHED_SNAPSHOTS)))
    listed = memory_operations.snapshots(*request.target, query).snapshots
    recent = [one for one in listed if one.memory_snapshot_id <= last]
    return recent[-RECENT_SNAPSHOTS:][::-1]


def memory(request: PageRequest) -> Page:
    """The records of a snapshot by band, or the results of a search in it."""
    query = request.parse_query(MemoryPageQuery, limit=CONSOLE_PAGE_ITEMS)
    head = memory_operations.status(*request.target).head
    context: dict[str, Any] = {
        "band": query.band,
        "query": query.q.strip(),
        "scope": query.scope or None,
        "bands": memory_operations.readable_bands(request.caller),
        "head": head,
        "at": head if query.at is None else query.at,
        "page": None,
        "found": None,
    }
    if query.q.strip():
        context["found"] = _search(request, query, context["at"])
    else:
        wanted = RecordsQuery(
            band=query.band,
            at=query.at,
            scope=query.scope or ALL_SCOPES,
            limit=query.limit,
            cursor=query.cursor,
        )
        context["page"] = page = memory_operations.list_records(*request.target, wanted)
        context["at"] = page.memory_snapshot_id
    return Page(template="memory.html", context=context)


def _search(request: PageRequest, query: MemoryPageQuery, at: int) -> dict[str, Any]:
    """What recall finds, and why: in the chosen band, or in the bands that agents read."""
    body = request.parse_query(
        RecallBody, query=query.q.strip(), tokens=SEARCH_TOKENS, max_items=CONSOLE_PAGE_ITEMS
    )
    view = request.memory(Permission.RECALL).at(at)
    scope = request.own_scope(Permission.RECALL, query.scope)
    bands: Sequence[Band] = RECALLED_BANDS if query.band is None else (query.band,)
    if not set(bands) <= {*memory_operations.readable_bands(request.caller)}:
        raise NotFound(what=f"band {query.band} for your key")
    found = view.explain(body.query, tokens=body.tokens, max_items=body.max_items, bands=bands, scope=scope)
    why = {(one.store_path, one.memory_id): one for one in found.explanation.items}
    best = max((item.score for item in found.package.items), default=1)
    hits: list[dict[str, Any]] = [
        {
            "item": item,
            "score": _shown_score(item.score, best),
            "band": item.store_path.rpartition("/")[2],
            "ceiling": why[item.store_path, item.memory_id].ceiling,
            "matched": _matched(why[item.store_path, item.memory_id]),
            "is_filler": _is_filler(why[item.store_path, item.memory_id]),
            "boosts": _boosts(why[item.store_path, item.memory_id]),
            "record": view.record_at(item.store_path, item.memory_id),
        }
        for item in found.package.items
    ]
    return {
        "package": found.package,
        "hits": [hit for hit in hits if not hit["is_filler"]],
        "fillers": [hit for hit in hits if hit["is_filler"]],
        "passed_over": [
            (one, _shown_score(one.score, best))
            for one in found.explanation.items
            if isinstance(one, ExplainedMatch) and one.outcome != "selected"
        ],
        "dropped": {reason: count for reason, count in found.explanation.counts.items() if count},
        "tokens": body.tokens,
    }


def _shown_score(score: float, best: float) -> str:
    """A score as people read it: as a share of the best one, where a controller counts in whole numbers."""
    return f"{score / max(1, best) if isinstance(score, int) else score:.3f}"


def _boosts(why: ExplainedItem | ExplainedMatch) -> str:
    """What multiplied the score of a record."""
    boosts = why.boosts if isinstance(why, ExplainedMatch) else {}
    return ", ".join(f"{name} ×{factor:g}" for name, factor in boosts.items())


def _is_filler(why: ExplainedItem | ExplainedMatch) -> bool:
    """Whether a record is there only because the budget had room for it."""
    if isinstance(why, ExplainedMatch):
        return not set(why.why) - {"newest"}
    return not _matched(why)


def _matched(why: ExplainedItem | ExplainedMatch) -> list[str]:
    """The terms and tags of the query that a record has."""
    if isinstance(why, ExplainedMatch):
        # An idf has 16 binary places.
        return [f"{term} {weight / 65536:.1f}" for term, weight in why.matched.items()]
    return list(dict.fromkeys([*why.score.matched_terms, *why.score.matched_tags]))


def snapshots(request: PageRequest) -> Page:
    """Time travel: choose a snapshot, see its commit and what it changed."""
    at, head = request.parse_query(SnapshotPageQuery).at, memory_operations.status(*request.target).head
    if at is None:
        at = head
    if not 0 <= at <= head:
        raise NoSuchSnapshot(memory_snapshot_id=at, head=head)
    changes = (
        memory_operations.diff(*request.target, DiffQuery(old=at - 1, new=at, scope=ALL_SCOPES)).changes
        if at
        else []
    )
    recent = _recent_snapshots(request, min(head, at + RECENT_SNAPSHOTS // 2))
    chosen = next((one for one in recent if one.memory_snapshot_id == at), None)
    context = {
        "head": head,
        "at": at,
        "snapshot": chosen,
        "receipt": request.gateway.store.receipt_of(at) if chosen else None,
        "changes": changes,
        "recent": recent,
    }
    return Page(template="snapshots.html", context=context)


def diff(request: PageRequest) -> Page:
    """The differences between two snapshots."""
    head = memory_operations.status(*request.target).head
    context: dict[str, Any] = {
        "head": head,
        "old": request.query.get("old") or str(max(0, head - 1)),
        "new": request.query.get("new") or str(head),
        "found": None,
        "problem": None,
        "most": MAX_DIFF_SNAPSHOTS,
    }
    try:
        query = request.parse_query(DiffQuery, old=context["old"], new=context["new"], scope=ALL_SCOPES)
        found = memory_operations.diff(*request.target, query)
    except (InvalidValue, NoSuchSnapshot) as error:
        return Page(template="diff.html", context={**context, "problem": error}, status=status_of(error))
    counts = {"new": 0, "changed": 0, "removed": 0}
    for change in found.changes:
        counts[_kind_of(change)] += 1
    return Page(template="diff.html", context={**context, "found": found, "counts": counts})


def _kind_of(change: RecordChange) -> str:
    if change.before is None:
        return "new"
    return "removed" if change.after is None else "changed"


@dataclass(frozen=True, slots=True)
class ActivityLine:
    """An event in plain words, with the page that shows more."""

    event: ServerEvent
    label: str
    text: str
    to: str


def activity(request: PageRequest) -> Page:
    """The newest commits, proposals and refusals in the namespace, newest first."""
    request.memory(Permission.STATUS)
    newest = last_entry(request.gateway, request.caller)
    events = _newest_events(request, newest)
    context = {"lines": [line_of(event, request.namespace) for event in events], "live": "list"}
    return Page(template="activity.html", context=context)


def _newest_events(request: PageRequest, newest: int) -> list[ServerEvent]:
    """The last events, found backwards by pages of the ledger."""
    found, end = list[ServerEvent](), newest
    for _ in range(_PAGES_BACK):
        begin = max(0, end - MAX_EVENT_ENTRIES)
        page, _ = events_after(request.gateway, request.caller, begin)
        own = [one for one in page if one.seq <= end and one.namespace in (None, request.namespace)]
        found = own + found
        end = begin
        if begin == 0 or len(found) >= CONSOLE_PAGE_ITEMS:
            break
    return found[::-1][:CONSOLE_PAGE_ITEMS]


def line_of(event: ServerEvent, namespace: str) -> ActivityLine:
    """An event as a line. ``console.js`` writes the same lines for events that arrive later."""
    if event.kind == PROPOSAL:
        decided = event.action is ActionType.EXPIRE
        text = "A proposal was decided." if decided else "A proposal waits for a decision."
        to = link("approvals", namespace, decided=1 if decided else None)
        return ActivityLine(event, "decided" if decided else "waiting", text, to)
    names = list(dict.fromkeys(short_name(_SUFFIX.sub("", one.memory_id)) for one in event.records))
    shown = ", ".join(names[:_NAMED_RECORDS])
    if event.kind == REFUSAL and event.namespace is None:
        return ActivityLine(event, "refused", "A call was refused.", link("ledger", namespace))
    if event.kind == REFUSAL:
        return ActivityLine(event, "rejected", f"Rejected: {shown}", link("refused", namespace))
    assert event.kind == COMMIT
    text = f"Snapshot {event.memory_snapshot_id}: {shown}"
    more = len(names) - _NAMED_RECORDS
    return ActivityLine(
        event,
        "commit",
        f"{text} and {more} more" if more > 0 else text,
        link("snapshots", namespace, at=event.memory_snapshot_id),
    )
