"""The pages about users and other scopes: the list of them, everything of one, and its export as a file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from standfast.canon import canonical_bytes
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_CONSOLE_COUNTED
from standfast.memory import Memory
from standfast.scopes import is_within, outer_scopes, prefix_of, scope_in
from standfast.server.access.permissions import Permission
from standfast.server.console.page_request import Page, PageRequest
from standfast.server.console.search import USER_SCOPE, Search, SearchKind, SearchQuery, SearchResults
from standfast.server.operations import memory_operations
from standfast.store.records import record_of
from standfast.vocabulary import Band, Value

# Sorts behind every name in a scope, so that a scan continues with the next scope.
_LAST: Final = "\U0010ffff"
_COUNTED_BAND: Final = Band.LEDGER
_CHUNK_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """A scope in the list. The count stops at ``MAX_CONSOLE_COUNTED``."""

    scope: str
    records: int
    is_counted: bool

    @property
    def is_user(self) -> bool:
        """Whether the scope is that of a user."""
        return self.scope.startswith(f"{USER_SCOPE}/") and self.scope.count("/") == 1


class ScopesPageQuery(Value, frozen=True, kw_only=True):
    """The query of the list: only scopes that begin with ``start``, behind ``after``."""

    start: str = ""
    after: str = ""


class ScopePageQuery(Value, frozen=True, kw_only=True):
    """The query of the page of one scope."""

    scope: str = ""


def scopes(request: PageRequest) -> Page:
    """The users and other scopes of the namespace, by name."""
    memory = request.memory(Permission.LIST_RECORDS)
    memory.require_readable("list scopes")
    query = request.parse_query(ScopesPageQuery)
    bands = memory_operations.readable_bands(request.caller)
    own = outer_scopes(request.caller.scopes) or ("",)
    starts = {
        max(one, query.start) for one in own if one.startswith(query.start) or query.start.startswith(one)
    }
    found = (
        name
        for start in sorted(starts)
        for name in _scopes(memory, bands, start=start, after=query.after)
        if request.caller.covers_scope(name)
    )
    names = list(islice(found, CONSOLE_PAGE_ITEMS + 1))
    shown = names[:CONSOLE_PAGE_ITEMS]
    context = {
        "lines": [_line(memory, name) for name in shown],
        "start": query.start,
        "next": shown[-1] if len(names) > len(shown) else None,
        "most": MAX_CONSOLE_COUNTED,
    }
    return Page(template="scopes.html", context=context)


def _scopes(memory: Memory, bands: Iterable[Band], *, start: str, after: str) -> Iterator[str]:
    """The scopes in these bands. Each is found by one read that starts behind the scope before it."""
    ahead = {band: _next_scope(memory, band, start, after) for band in bands}
    while found := sorted({scope for scope in ahead.values() if scope is not None}):
        yield found[0]
        for band, scope in ahead.items():
            if scope == found[0]:
                ahead[band] = _next_scope(memory, band, start, scope)


def _next_scope(memory: Memory, band: Band, start: str, after: str) -> str | None:
    behind = f"{band}/{after}//{_LAST}" if after else ""
    rows = memory.store.scan(memory.namespace, prefix=f"{band}/{start}", after=behind)
    return next((scope_in(row.key) for row in rows), None)


def _line(memory: Memory, scope: str) -> ScopeLine:
    rows = memory.store.scan(memory.namespace, prefix=f"{_COUNTED_BAND}/{scope}//")
    count = sum(1 for _ in islice(rows, MAX_CONSOLE_COUNTED + 1))
    return ScopeLine(scope, min(count, MAX_CONSOLE_COUNTED), count <= MAX_CONSOLE_COUNTED)


def scope(request: PageRequest) -> Page:
    """Everything of one scope and of those below it."""
    memory = request.memory(Permission.LIST_RECORDS)
    name = request.own_scope(Permission.LIST_RECORDS, request.parse_query(ScopePageQuery).scope)
    memory.require_readable("list records")
    view = memory.at(memory.store.head())
    facts = _found(request, SearchQuery(scope=name, kind=SearchKind.FACTS))
    messages = _found(request, SearchQuery(scope=name, kind=SearchKind.MESSAGES))
    sessions = list(islice(view.sessions(scope=name), CONSOLE_PAGE_ITEMS + 1))
    context = {
        "scope": name,
        "facts": facts,
        "messages": messages.found,
        "waiting": _found(request, SearchQuery(scope=name, band=Band.PHOENIX, kind=SearchKind.PROPOSALS)),
        "sessions": sessions[:CONSOLE_PAGE_ITEMS],
        "more_sessions": len(sessions) > CONSOLE_PAGE_ITEMS,
        "counts": {Band(band): count for band, count in facts.facets["band"]},
        "inner": [one for one, _ in facts.facets["scope"] if one != name],
        "may_forget": request.may(Permission.FORGET),
        "may_remember": request.may(Permission.REMEMBER),
    }
    return Page(template="scope.html", context=context)


def _found(request: PageRequest, query: SearchQuery) -> SearchResults:
    return Search(
        query,
        namespaces=[request.namespace],
        open_memory=lambda _: request.memory(Permission.LIST_RECORDS),
        bands=memory_operations.readable_bands(request.caller),
        scopes=[query.scope],
    ).run()


def export(request: PageRequest) -> Page:
    """Everything of one scope as JSON lines: records of all bands that the key may read, and what waits for a decision."""
    memory = request.memory(Permission.LIST_RECORDS)
    name = request.own_scope(Permission.LIST_RECORDS, request.parse_query(ScopePageQuery).scope)
    memory.require_readable("export")
    bands = memory_operations.readable_bands(request.caller)
    file_name = "".join(one if one.isascii() and one.isalnum() else "-" for one in name)
    return Page(pieces=_chunks(_lines(memory, bands, name)), file_name=f"{file_name}.jsonl")


def _lines(memory: Memory, bands: Iterable[Band], scope: str) -> Iterator[bytes]:
    at = memory.store.head()
    for band in bands:
        for version in memory.store.scan(memory.namespace, prefix=prefix_of(band, scope), at=at):
            yield canonical_bytes(record_of(version).as_json()) + b"\n"
    for waiting in memory.approvals().waiting():
        if is_within(waiting.record.scope, scope):
            plain = {**waiting.record.as_json(), "band": Band.PHOENIX.value}
            yield canonical_bytes(plain) + b"\n"


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    chunk = bytearray()
    for line in lines:
        chunk += line
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)
