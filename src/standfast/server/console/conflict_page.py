"""What disagrees in memory, side by side, and the form that settles it."""

from typing import Any, Final

from standfast.errors import InvalidValue, StandfastError
from standfast.govern.authority import Role
from standfast.limits import CONSOLE_PAGE_ITEMS
from standfast.memory.current import BOTH, NEITHER, Conflict
from standfast.records.scopes import ALL_SCOPES
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import Permission
from standfast.server.access.scope_limits import listed_scopes
from standfast.server.console.rendering import Page, PageRequest, link

_TICKED: Final = "c-"


class ConflictsPageQuery(Value, frozen=True, kw_only=True):
    """The query of the page: a scope, with all below it."""

    scope: str = ""
    settled: int = 0


def conflicts(request: PageRequest) -> Page:
    """The conflicts of the namespace, each with all that is said about its matter."""
    return _page(request, request.parse_query(ConflictsPageQuery))


def settle(request: PageRequest) -> Page:
    """Settle one conflict by keeping what was chosen; or those that are ticked, each by what was said last.

    The console is for people, so what they settle may end what a trusted user said. Law still needs a
    signature: its end waits as a proposal.
    """
    memory = request.memory(Permission.DECIDE)
    query = ConflictsPageQuery(scope=request.form.get("scope", ""))
    reason = request.form.get("reason", "").strip()
    chosen, _, keep = request.form.get("settle", "").partition(" ")
    ticked = {name.removeprefix(_TICKED) for name in request.form if name.startswith(_TICKED)}
    wanted = [
        (one, keep if one.conflict_id == chosen else one.entries[0].memory_id)
        for one in _conflicts(request, query.scope)
        if one.conflict_id == chosen or (not chosen and one.conflict_id in ticked)
    ]
    try:
        if not reason:
            raise InvalidValue(what="reason", problem="say why; it is stored with what is kept")
        if not wanted:
            raise InvalidValue(what="conflict", problem="there is none of these any more; look again")
        for conflict, kept in wanted:
            settled = memory.settle(
                conflict.conflict_id,
                kept,
                reason=reason,
                by=request.caller.name,
                role=Role.HUMAN,
                scope=conflict.scope,
            )
            if settled.problem:
                raise InvalidValue(what="settlement", problem=settled.problem)
    except StandfastError as error:
        return _page(request, query, problem=error, reason=reason)
    return Page(
        redirect_to=link("conflicts", request.namespace, scope=query.scope or None, settled=len(wanted))
    )


def _page(
    request: PageRequest,
    query: ConflictsPageQuery,
    *,
    problem: StandfastError | None = None,
    reason: str = "",
) -> Page:
    found = _conflicts(request, query.scope)
    context: dict[str, Any] = {
        "query": query,
        "conflicts": found[:CONSOLE_PAGE_ITEMS],
        "count": len(found),
        "problem": problem,
        "reason": reason,
        "may_decide": request.may(Permission.DECIDE),
        "both": BOTH,
        "neither": NEITHER,
    }
    return Page(template="conflicts.html", context=context)


def _conflicts(request: PageRequest, scope: str) -> list[Conflict]:
    """The conflicts in a scope, as far as the key may see them."""
    memory = request.memory(Permission.LIST_RECORDS)
    scopes = listed_scopes(request.caller, Permission.LIST_RECORDS, scope or ALL_SCOPES)
    found = {one.conflict_id: one for place in scopes for one in memory.conflicts(scope=place)}
    return list(found.values())
