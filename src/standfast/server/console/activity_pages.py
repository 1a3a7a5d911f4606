"""The page of what happened last. With scripts it grows by itself; without, it is loaded again."""

import re
from dataclasses import dataclass
from typing import Final

from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_EVENT_ENTRIES
from standfast.server.access.permissions import Permission
from standfast.server.console.page_request import Page, PageRequest
from standfast.server.console.rendering import link, short_name
from standfast.server.operations.event_operations import (
    COMMIT,
    PROPOSAL,
    REFUSAL,
    ServerEvent,
    events_after,
    last_entry,
)
from standfast.vocabulary import ActionType

_NAMED_RECORDS: Final = 3
# Marks further versions of one record in the same band.
_SUFFIX: Final = re.compile(r"(~[0-9a-f]{12}){0,2}(@[0-9]+\.[0-9]+)?$")
_PAGES_BACK: Final = 10
"""How many pages of ledger entries are looked at, at most."""


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
