"""The page of rejected content, for people. Secrets in it were replaced before it was stored; agents can't read it."""

from dataclasses import dataclass

from standfast.errors import Forbidden
from standfast.memory import Memory
from standfast.scopes import ALL_SCOPES
from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.access.scope_limits import listed_scopes
from standfast.server.console.commit_notes import CommitNotes, JudgeReason, notes_of
from standfast.server.console.page_request import Page, PageRequest
from standfast.server.console.search import Search, SearchHit, SearchKind, SearchQuery
from standfast.vocabulary import Band, Value


class RefusedPageQuery(Value, frozen=True, kw_only=True):
    """The filters of the page, as those of a search."""

    q: str = ""
    scope: str = ""
    source: str = ""
    begin: int = 0


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A rejected text with the judge's reasons, and the snapshot that logged it."""

    hit: SearchHit
    reasons: tuple[JudgeReason, ...]
    snapshot: int


def refused(request: PageRequest) -> Page:
    """What the judge rejected, newest first, with the reasons."""
    memory = request.memory(Permission.LIST_RECORDS)
    if request.caller.role is KeyRole.AGENT:
        problem = "rejected content is shown to people, with a key of role operator or auditor"
        raise Forbidden(
            role=request.caller.role.value, act="list_records", where="band VOID", problem=problem
        )
    memory.require_readable("list records")
    query = request.parse_query(RefusedPageQuery)
    results = Search(
        SearchQuery(
            q=query.q,
            scope=query.scope,
            source=query.source,
            begin=query.begin,
            band=Band.VOID,
            kind=SearchKind.RECORDS,
        ),
        namespaces=[request.namespace],
        open_memory=lambda _: memory,
        bands=[Band.VOID],
        scopes=listed_scopes(request.caller, Permission.LIST_RECORDS, query.scope or ALL_SCOPES),
    ).run()
    notes = dict[int, CommitNotes]()
    context = {
        "query": query,
        "results": results,
        "lines": [_line(memory, hit, notes) for hit in results.hits],
        "fields": {name: text for name in ("q", "scope", "source") if (text := getattr(query, name))},
    }
    return Page(template="refused.html", context=context)


def _line(memory: Memory, hit: SearchHit, notes: dict[int, CommitNotes]) -> RefusedLine:
    (row,) = memory.store.read(memory.namespace, [hit.key]).values()
    snapshot = row.memory_snapshot_id
    if snapshot not in notes:
        notes[snapshot] = notes_of(memory.store, snapshot)
    return RefusedLine(hit, notes[snapshot].reasons_of(hit.key), snapshot)
