"""The search page."""

from standfast.scopes import ALL_SCOPES
from standfast.server.access.permissions import Permission
from standfast.server.access.scope_limits import listed_scopes
from standfast.server.console.page_request import Page, PageRequest
from standfast.server.console.search import Search, SearchKind, SearchOrder, SearchQuery
from standfast.server.operations.memory_operations import readable_bands
from standfast.vocabulary import Band, Verdict


def search(request: PageRequest) -> Page:
    """Everything that the key may see and that matches the words and filters in the address."""
    query = request.parse_query(SearchQuery)
    bands = readable_bands(request.caller)
    memory = request.memory(Permission.LIST_RECORDS)
    memory.require_readable("search")
    namespaces = [query.within] if query.within else request.namespaces()
    results = Search(
        query,
        namespaces=namespaces,
        open_memory=lambda name: request.gateway.authorize(request.caller, Permission.LIST_RECORDS, name),
        bands=bands,
        scopes=listed_scopes(request.caller, Permission.LIST_RECORDS, query.scope or ALL_SCOPES),
    ).run()
    context = {
        "query": query,
        "fields": query.fields,
        "results": results,
        "orders": tuple(SearchOrder),
        "kinds": tuple(SearchKind),
        "verdicts": tuple(Verdict),
        "bands": (*bands, Band.PHOENIX),
    }
    return Page(template="search.html", context=context)
