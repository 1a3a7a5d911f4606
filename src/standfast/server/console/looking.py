"""Looking at memory: overview, records and search, one record's history, snapshots, and what changed between two."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from standfast.canon import parse
from standfast.errors import InvalidValue, NoSuchSnapshot, NotFound
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_DIFF_SNAPSHOTS
from standfast.memory import Memory
from standfast.memory.snapshot_view import RECALLED_BANDS
from standfast.server.access.permissions import Permission
from standfast.server.console.charts import line_chart, shares
from standfast.server.console.tally import UNJUDGED, Tally
from standfast.server.console.visit import Page, Visit
from standfast.server.edge.problems import status_of
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import (
    DiffQuery,
    HistoryQuery,
    PageQuery,
    RecallBody,
    RecordsQuery,
    encode_cursor,
)
from standfast.store.records import HistoryEntry, RecordChange
from standfast.vocabulary import Band, Receipt, Record, Snapshot, Value, Verdict

SEARCH_TOKENS: Final = 4_000
RECENT_SNAPSHOTS: Final = 8
SHOWN_BANDS: Final = tuple(band for band in Band if band is not Band.PHOENIX)
VERDICTS: Final = (*(verdict.value for verdict in Verdict), UNJUDGED)


@dataclass(frozen=True, slots=True)
class BandLine:
    """A band on the overview: what it holds, and what it may hold."""

    band: Band
    records: int
    size_bytes: int
    policy: str | None = None
    max_bytes: int | None = None
    used_bytes: int | None = None

    @property
    def share(self) -> float:
        """How much of the budget is spent."""
        return (self.used_bytes or 0) / self.max_bytes if self.max_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a record, what it said before in the same place, and the receipt of its commit."""

    chapter: HistoryEntry
    before: Record | None
    receipt: Receipt | None


class AskedMemory(RecordsQuery, frozen=True, kw_only=True):
    """What the memory page is asked for: a list, or with ``q`` a search."""

    q: str = ""


class AskedMoment(Value, frozen=True, kw_only=True):
    """Which snapshot to look at."""

    at: int | None = None


def overview(visit: Visit) -> Page:
    """Bands, bytes against budgets, growth by snapshot, verdicts, and what waits."""
    status = memory_operations.status(*visit.place)
    memory = visit.gateway.authorize(visit.caller, Permission.LIST_RECORDS, visit.namespace)
    tally = visit.tallies.of(memory)
    verdicts = tally.verdicts
    labels = [f"{grown.memory_snapshot_id}" for grown in tally.growth]
    facts = {
        "status": status,
        "tally": tally,
        "bands": _band_lines(memory, tally),
        "verdicts": [(name, verdicts[name]) for name in VERDICTS if verdicts[name]],
        "verdict_shares": shares([(name, verdicts[name]) for name in VERDICTS]),
        "growth": line_chart(
            [("bytes at snapshot", [grown.size_bytes for grown in tally.growth])],
            labels,
            unit="B",
            filled=True,
        ),
        "grown_bytes": tally.growth[-1].size_bytes - tally.growth[0].size_bytes,
        "recent": _recent(visit, status.head),
    }
    return Page(template="overview.html", facts=facts)


def _band_lines(memory: Memory, tally: Tally) -> list[BandLine]:
    budgets = memory.band_budgets.budgets
    rows = memory.store.read(memory.namespace, [f"budget/{band}" for band in budgets])
    lines = []
    for band, count in tally.bands.items():
        budget, row = budgets.get(band), rows.get(f"budget/{band}")
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


def _recent(visit: Visit, upto: int) -> list[Snapshot]:
    """Some snapshots up to one, newest first."""
    asked = PageQuery(limit=RECENT_SNAPSHOTS, cursor=encode_cursor(max(0, upto - RECENT_SNAPSHOTS)))
    return memory_operations.snapshots(*visit.place, asked).snapshots[::-1]


def memory(visit: Visit) -> Page:
    """Records by band as a snapshot shows them, or what a search finds there."""
    asked = visit.asked(AskedMemory, limit=CONSOLE_PAGE_ITEMS)
    head = memory_operations.status(*visit.place).head
    facts: dict[str, Any] = {
        "asked": asked,
        "query": asked.q.strip(),
        "bands": SHOWN_BANDS,
        "head": head,
        "at": head if asked.at is None else asked.at,
        "page": None,
        "found": None,
    }
    if asked.q.strip():
        facts["found"] = _search(visit, asked, facts["at"])
    else:
        wanted = RecordsQuery(band=asked.band, at=asked.at, limit=asked.limit, cursor=asked.cursor)
        facts["page"] = page = memory_operations.list_records(*visit.place, wanted)
        facts["at"] = page.memory_snapshot_id
    return Page(template="memory.html", facts=facts)


def _search(visit: Visit, asked: AskedMemory, at: int) -> dict[str, Any]:
    """What recall finds, with why; of the band that was chosen, or of those that agents are given."""
    wanted = visit.asked(
        RecallBody, query=asked.q.strip(), tokens=SEARCH_TOKENS, max_items=CONSOLE_PAGE_ITEMS
    )
    view = visit.gateway.authorize(visit.caller, Permission.RECALL, visit.namespace).at(at)
    bands: Sequence[Band] = RECALLED_BANDS if asked.band is None else (asked.band,)
    found = view.explain(wanted.query, tokens=wanted.tokens, max_items=wanted.max_items, bands=bands)
    hits = [
        {
            "item": item,
            "band": item.store_path.rpartition("/")[2],
            "why": why,
            "record": view.record_at(item.store_path, item.memory_id),
            "matches": bool(why.score.matched_terms or why.score.matched_tags),
        }
        for item, why in zip(found.package.selection.selected, found.explanation.items, strict=False)
    ]
    return {
        "package": found.package,
        "hits": [hit for hit in hits if hit["matches"]],
        "fillers": [hit for hit in hits if not hit["matches"]],
    }


def record(visit: Visit) -> Page:
    """All that ever was of one thing: every version with its evidence and the receipt of its commit."""
    subject = visit.words.get("id", "")
    history = memory_operations.history(
        *visit.place, visit.asked(HistoryQuery, subject=subject, limit=CONSOLE_PAGE_ITEMS)
    )
    if not history.versions:
        raise NotFound(what=f"record {subject!r:.80}")
    store = visit.gateway.authorize(visit.caller, Permission.GET_RECORD, visit.namespace).store
    last, versions = dict[str, Record](), list[Version]()
    for chapter in history.versions:
        receipt = store.receipt_of(chapter.memory_snapshot_id)
        versions.append(Version(chapter, last.get(chapter.key), receipt))
        if chapter.record is not None:
            last[chapter.key] = chapter.record
    facts = {
        "subject": subject,
        "now": memory_operations.records_of(
            visit.gateway.authorize(*_of(visit, Permission.GET_RECORD)), subject
        ),
        "versions": versions[::-1],
        "next": history.next,
    }
    return Page(template="record.html", facts=facts)


def _of(visit: Visit, act: Permission) -> tuple[Any, Permission, str]:
    return visit.caller, act, visit.namespace


def snapshots(visit: Visit) -> Page:
    """Time travel: choose a snapshot, see what made it and what it changed."""
    asked = visit.asked(AskedMoment)
    head = memory_operations.status(*visit.place).head
    at = head if asked.at is None else asked.at
    if not 0 <= at <= head:
        raise NoSuchSnapshot(memory_snapshot_id=at, head=head)
    changes = memory_operations.diff(*visit.place, DiffQuery(old=at - 1, new=at)).changes if at else []
    chosen = memory_operations.snapshots(
        *visit.place, PageQuery(limit=1, cursor=encode_cursor(at - 1))
    ).snapshots
    receipt = visit.gateway.store.receipt_of(at) if at and chosen else None
    facts = {
        "head": head,
        "at": at,
        "snapshot": chosen[0] if at and chosen else None,
        "receipt": receipt,
        "changes": changes,
        "recent": _recent(visit, min(head, at + RECENT_SNAPSHOTS // 2)),
    }
    return Page(template="snapshots.html", facts=facts)


def diff(visit: Visit) -> Page:
    """What a newer snapshot shows differently from an older one."""
    head = memory_operations.status(*visit.place).head
    facts: dict[str, Any] = {
        "head": head,
        "old": visit.words.get("old") or str(max(0, head - 1)),
        "new": visit.words.get("new") or str(head),
        "found": None,
        "problem": None,
        "most": MAX_DIFF_SNAPSHOTS,
    }
    try:
        found = memory_operations.diff(
            *visit.place, visit.asked(DiffQuery, old=facts["old"], new=facts["new"])
        )
    except (InvalidValue, NoSuchSnapshot) as error:
        return Page(template="diff.html", facts={**facts, "problem": error}, status=status_of(error))
    counts = {"new": 0, "changed": 0, "gone": 0}
    for change in found.changes:
        counts[kind_of(change)] += 1
    return Page(template="diff.html", facts={**facts, "found": found, "counts": counts})


def kind_of(change: RecordChange) -> str:
    """A change in a word."""
    if change.before is None:
        return "new"
    return "gone" if change.after is None else "changed"
