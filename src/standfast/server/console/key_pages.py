"""The page of API keys: the list, a form that creates one and shows it once, and revoking."""

from typing import Any

from standfast.errors import InvalidValue, StandfastError
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_KEY_DAYS
from standfast.origins import Origin
from standfast.server.access.permissions import ALL_NAMESPACES, KeyRole, Permission, is_allowed
from standfast.server.console.page_request import Page, PageRequest
from standfast.server.console.rendering import link
from standfast.server.edge.problems import status_of
from standfast.server.operations import key_operations
from standfast.server.operations.schemas import CreatedKey, CreateKeyBody, KeysQuery

_FIELDS = ("name", "role", "namespaces", "scopes", "days", "origin")


def keys(request: PageRequest) -> Page:
    """The keys for namespaces and scopes of the caller; the valid ones, or all that ever were."""
    return _page(request)


def change(request: PageRequest) -> Page:
    """Create a key, or revoke one."""
    if request.form.get("revoke"):
        key_operations.revoke_key(request.gateway, request.caller, request.form["revoke"])
        if request.form["revoke"] == request.caller.key_id:
            return Page(redirect_to=link("login"))
        return Page(redirect_to=link("keys", request.namespace, all=1))
    try:
        created = key_operations.create_key(request.gateway, request.caller, _body(request))
    except StandfastError as error:
        if not is_allowed(request.caller, Permission.CREATE_KEY, None):
            raise
        return _page(request, problem=error)
    return _page(request, created=created)


def _body(request: PageRequest) -> CreateKeyBody:
    form = request.form
    plain: dict[str, Any] = {
        "name": form.get("name", "").strip(),
        "role": form.get("role", ""),
        "namespaces": _listed(form.get("namespaces", "")),
        "scopes": _listed(form.get("scopes", "")),
    }
    if days := form.get("days", "").strip():
        if not (days.isascii() and days.isdigit() and len(days) <= len(str(MAX_KEY_DAYS))):
            raise InvalidValue(what="days", problem=f"it must be a whole number up to {MAX_KEY_DAYS}")
        plain["days"] = int(days)
    if form.get("origin"):
        plain["origin"] = form["origin"]
    return CreateKeyBody.from_json(plain)


def _listed(text: str) -> list[str]:
    """Names that are separated by commas or line breaks."""
    return [name.strip() for name in text.replace("\n", ",").split(",") if name.strip()]


def _page(
    request: PageRequest, *, created: CreatedKey | None = None, problem: StandfastError | None = None
) -> Page:
    is_all = request.query.get("all") == "1"
    query = request.parse_query(KeysQuery, all=is_all, limit=CONSOLE_PAGE_ITEMS)
    caller = request.caller
    default = ALL_NAMESPACES if caller.covers_all else ", ".join(caller.namespaces)
    fields = {"role": KeyRole.AGENT.value, "namespaces": default, "scopes": ", ".join(caller.scopes)}
    given = dict(request.form) if problem is not None else fields
    context = {
        "page": key_operations.list_keys(request.gateway, caller, query),
        "all": is_all,
        "created": created,
        "problem": problem,
        "fields": {name: given.get(name, "") for name in _FIELDS},
        "roles": tuple(KeyRole),
        "origins": tuple(one for one in Origin if one.rank <= caller.origin.rank),
        "most_days": MAX_KEY_DAYS,
        "may_create": is_allowed(caller, Permission.CREATE_KEY, None),
        "may_revoke": is_allowed(caller, Permission.REVOKE_KEY, None),
    }
    return Page(template="keys.html", context=context, status=200 if problem is None else status_of(problem))
