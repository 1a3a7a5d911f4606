"""Home: what happens now and happened lately, who is busy and what fails; and the list of events."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Final

from standfast.errors import ApprovalError
from standfast.govern.approvals.queue import WaitingProposal
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_CONSOLE_FACETS, MAX_EVENT_ENTRIES
from standfast.memory import Memory
from standfast.memory.band_budgets import budget_key
from standfast.memory.watch import WatchedSource
from standfast.records.canon import parse, utc_text
from standfast.records.scopes import SHARED, name_in, scope_in, scoped_key
from standfast.records.vocabulary import ActionType, Band, Value
from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.console.charts import LineChart, line_chart
from standfast.server.console.namespace_stats import Happening, NamespaceStats, What
from standfast.server.console.rendering import Page, PageRequest, link, short_name, shortened
from standfast.server.operations import memory_operations
from standfast.server.operations.call_history import RECALLS, WRITES, hour_of, start_of
from standfast.server.operations.event_operations import (
    PROPOSAL,
    REFUSAL,
    ServerEvent,
    events_after,
    last_entry,
)
from standfast.store.stored_records import record_of

# Marks further versions of one record in the same band.
_SUFFIX: Final = re.compile(r"(~[0-9a-f]{12}){0,2}(@[0-9]+\.[0-9]+)?$")
_PAGES_BACK: Final = 10
"""How many pages of ledger entries are looked at, at most."""


class Period(StrEnum):
    """How far back the home page looks."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


_STEPS: Final = {Period.DAY: (24, 1), Period.WEEK: (28, 6), Period.MONTH: (30, 24)}
"""For each period: how many points a chart has, and the hours of each."""
PERIOD_LABELS: Final = {
    Period.DAY: "24 hours",
    Period.WEEK: "7 days",
    Period.MONTH: "30 days",
}
assert set(_STEPS) == set(PERIOD_LABELS) == set(Period)


class HomePageQuery(Value, frozen=True, kw_only=True):
    """The query of the home page."""

    period: Period = Period.WEEK


@dataclass(frozen=True, slots=True)
class BandLine:
    """A part of memory, with its byte budget if it has one."""

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


@dataclass(frozen=True, slots=True)
class Tally:
    """A user or a source, with what was stored and what was rejected."""

    name: str
    stored: int
    rejected: int


def home(request: PageRequest) -> Page:
    """Writes, recalls, refusals, latency and waiting decisions over time; busy users, failing sources."""
    period = request.parse_query(HomePageQuery).period
    status = memory_operations.status(*request.target)
    memory = request.memory(Permission.LIST_RECORDS)
    stats = request.stats.of(memory, request.caller.scopes)
    count, hours = _STEPS[period]
    first = hour_of(request.gateway.clock.now()) + 1 - count * hours
    is_agent = request.caller.role is KeyRole.AGENT
    # Rejected content is for people: an agent is not told how much there is of it.
    recent = [
        one for one in stats.recent if one.hour >= first and not (is_agent and one.what is What.REJECTED)
    ]
    starts = [first + step * hours for step in range(count)]
    context = {
        "status": status,
        "stats": stats,
        "period": period,
        "periods": PERIOD_LABELS,
        "stored": sum(one.what is What.STORED for one in recent),
        "rejected": sum(one.what is What.REJECTED for one in recent),
        "charts": _charts(request, recent, starts, hours, status.proposals_waiting),
        "users": _busiest((one.user, one.what) for one in recent),
        "sources": _failing((one.source, one.what) for one in recent),
        "watched": () if is_agent else _watched(request, memory),
        "bands": _band_lines(memory, stats, has_budgets=not request.caller.scopes),
    }
    return Page(template="home.html", context=context)


def _charts(
    request: PageRequest, recent: Sequence[Happening], starts: Sequence[int], hours: int, waiting: int
) -> dict[str, LineChart]:
    """A chart for each question, by its title. Only callers who see all scopes see what they add up to."""
    times = [utc_text(start_of(start)) for start in starts]
    labels = [text[11:16] if hours == 1 else text[5:10] for text in times]
    done = {what: [0] * len(starts) for what in What}
    for one in recent:
        # The store's clock may be ahead of this server's.
        done[one.what][min((one.hour - starts[0]) // hours, len(starts) - 1)] += 1

    def chart(*lines: tuple[str, Sequence[float]]) -> LineChart:
        return line_chart(lines, labels, times=times)

    charts = {
        "Remembered and rejected": chart(
            ("remembered", done[What.STORED]), ("rejected", done[What.REJECTED])
        ),
    }
    if request.caller.scopes:
        return charts
    left = accumulate(
        (d - p for p, d in zip(done[What.PROPOSED][:0:-1], done[What.DECIDED][:0:-1], strict=True)),
        initial=waiting,
    )
    calls = request.gateway.call_history.periods(request.namespace, starts, hours)
    charts["Waiting for a decision"] = chart(("waiting", [max(0, one) for one in left][::-1]))
    if any(one.count(RECALLS) + one.count(WRITES) + one.refused for one in calls):
        charts["Calls answered and refused"] = chart(
            ("recalls", [one.count(RECALLS) for one in calls]),
            ("writes", [one.count(WRITES) for one in calls]),
            ("refused", [one.refused for one in calls]),
        )
        charts["Latency in milliseconds"] = chart(
            ("half of the calls within", [1_000 * one.quantile_seconds(0.5) for one in calls]),
            ("95 of 100 within", [1_000 * one.quantile_seconds(0.95) for one in calls]),
        )
    return charts


def _watched(request: PageRequest, memory: Memory) -> Sequence[WatchedSource]:
    """The sources whose trouble jumped. They are counted over all scopes, for who may see all."""
    if request.caller.scopes:
        return ()
    found = request.gateway.metrics.watch.of(memory.store, [memory.namespace]).sources
    return sorted(found, key=lambda one: (-one.recent.troubled, one.source))[:MAX_CONSOLE_FACETS]


def _busiest(named: Iterable[tuple[str, What]]) -> list[Tally]:
    """Those with most texts, without the nameless."""
    return sorted(_tallies(named), key=lambda one: (-one.stored - one.rejected, one.name))[
        :MAX_CONSOLE_FACETS
    ]


def _failing(named: Iterable[tuple[str, What]]) -> list[Tally]:
    """Those with most rejected texts."""
    failing = (one for one in _tallies(named) if one.rejected)
    return sorted(failing, key=lambda one: (-one.rejected, one.name))[:MAX_CONSOLE_FACETS]


def _tallies(named: Iterable[tuple[str, What]]) -> list[Tally]:
    counts = Counter(named)
    names = {name for name, _ in counts if name}
    return [Tally(name, counts[name, What.STORED], counts[name, What.REJECTED]) for name in names]


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


@dataclass(frozen=True, slots=True)
class ActivityLine:
    """An event in plain words, with the page that shows more."""

    event: ServerEvent
    label: str
    text: str
    to: str
    scope: str = ""


def activity(request: PageRequest) -> Page:
    """What was remembered, proposed, decided and refused in the namespace, newest first."""
    memory = request.memory(Permission.STATUS)
    newest = last_entry(request.gateway, request.caller)
    lines = [line_of(memory, event) for event in _newest_events(request, newest)]
    return Page(template="activity.html", context={"lines": lines})


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


def line_of(memory: Memory, event: ServerEvent) -> ActivityLine:
    """An event as a line: the text that it is about, if it is still there."""
    namespace = memory.namespace
    if event.kind == PROPOSAL:
        return _proposal_line(memory, event)
    if event.kind == REFUSAL and event.namespace is None:
        call = (event.refused or {}).get("refused", {})
        text = (
            f"A call was refused: {call.get('operation', 'several')}, {call.get('code', 'see the ledger')}."
        )
        return ActivityLine(event, "refused", text, link("ledger", namespace))
    first = event.records[0]
    names = list(dict.fromkeys((one.scope, _SUFFIX.sub("", one.memory_id)) for one in event.records))
    key = scoped_key(first.band, first.scope, first.memory_id)
    row = memory.store.read(namespace, [key], at=event.memory_snapshot_id).get(key)
    text = shortened(record_of(row).text) if row else short_name(names[0][1])
    if len(names) > 1:
        text += f" (and {len(names) - 1} more)"
    ended = all(one.action is ActionType.EXPIRE for one in event.records)
    label = "rejected" if event.kind == REFUSAL else "ended" if ended else "remembered"
    to = (
        link("changes", namespace, at=event.memory_snapshot_id)
        if len(names) > 1
        else link("record", namespace, id=names[0][1], scope=None if first.scope == SHARED else first.scope)
    )
    return ActivityLine(event, label, text, to, "" if first.scope == SHARED else first.scope)


def _proposal_line(memory: Memory, event: ServerEvent) -> ActivityLine:
    label = "decided" if event.action is ActionType.EXPIRE else "proposed"
    to = link("proposal", memory.namespace, id=event.proposal_id)
    try:
        found = memory.approvals.find(event.proposal_id or "")
    except ApprovalError:
        return ActivityLine(event, label, "The proposal was erased.", link("approvals", memory.namespace))
    proposal = found.proposal
    text = found.record.text if isinstance(found, WaitingProposal) else proposal.summary
    name = short_name(name_in(proposal.key))
    scope = scope_in(proposal.key)
    return ActivityLine(event, label, shortened(text or name), to, "" if scope == SHARED else scope)
