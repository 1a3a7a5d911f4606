"""The pages of an auditor and operator: the ledger, an entry with its proof, verification, and API keys."""

from typing import Any

import msgspec

from standfast.errors import InvalidValue, NotFound, StandfastError
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_KEY_DAYS, SAFE_INTEGER
from standfast.records.canon import parse
from standfast.records.origins import Origin
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import ALL_NAMESPACES, KeyRole, Permission, is_allowed
from standfast.server.console.rendering import Page, PageRequest, link, listed
from standfast.server.operations import governance_operations
from standfast.server.operations.schemas import PageQuery, encode_cursor
from standfast.server.operations.store_schemas import (
    CreatedKey,
    CreateKeyBody,
    KeysQuery,
    LedgerEntry,
    LedgerPage,
)

_FIELDS = ("name", "role", "namespaces", "scopes", "days", "origin")


class LedgerPageQuery(Value, frozen=True, kw_only=True):
    """The query of the ledger page: list the entries after this one."""

    after: int | None = None


class EntryPageQuery(Value, frozen=True, kw_only=True):
    """The query of the page of one entry."""

    seq: int


def ledger(request: PageRequest) -> Page:
    """A page of entries, the newest first."""
    return Page(template="ledger.html", context={**_entries(request), "verified": None})


def verify(request: PageRequest) -> Page:
    """Verify everything and show the result; without permission for the ledger, only whether it holds."""
    verified = governance_operations.verify(request.gateway, request.caller)
    entries = _entries(request) if request.sees_whole_store else {"entries": None}
    return Page(template="ledger.html", context={**entries, "verified": verified})


def _entries(request: PageRequest) -> dict[str, Any]:
    if not request.sees_whole_store:
        return {"entries": None}
    after = request.parse_query(LedgerPageQuery).after
    page = _newest(request) if after is None else _page(request, max(0, after))
    first = page.entries[0].seq if page.entries else 1
    last = page.entries[-1].seq if page.entries else 0
    return {
        "entries": [_line(entry) for entry in reversed(page.entries)],
        "older": max(0, first - 1 - CONSOLE_PAGE_ITEMS) if first > 1 else None,
        "newer": last if page.next is not None else None,
    }


def _page(request: PageRequest, after: int) -> LedgerPage:
    query = PageQuery(limit=CONSOLE_PAGE_ITEMS, cursor=encode_cursor(min(after, SAFE_INTEGER)))
    return governance_operations.ledger(request.gateway, request.caller, query)


def _newest(request: PageRequest) -> LedgerPage:
    """The last page. It starts near the last commit's entry; entries of no commit may follow it."""
    store = request.whole_store().store
    head = store.head()
    page = _page(request, max(0, store.commit_of(head).ledger_seq - CONSOLE_PAGE_ITEMS) if head else 0)
    while page.next is not None:
        page = _page(request, page.entries[-1].seq)
    if 0 < len(page.entries) < CONSOLE_PAGE_ITEMS:
        page = _page(request, max(0, page.entries[-1].seq - CONSOLE_PAGE_ITEMS))
    return page


def _line(entry: LedgerEntry) -> dict[str, Any]:
    content = parse(entry.content)
    return {
        "seq": entry.seq,
        "hash": entry.hash,
        "kind": content["kind"],
        "at": content["at"],
        "summary": _summary(content["kind"], content["body"]),
    }


def _summary(kind: str, body: dict[str, Any]) -> str:
    """An entry in a few words; empty for an unknown kind."""
    match kind, body.get("told"):
        case "commit", _:
            return f"snapshot {body.get('memory_snapshot_id')}, run {body.get('run_id')}"
        case "erasure", _:
            return f"{body.get('key')}: {body.get('reason')}"
        case "audit", {"writes": list(writes)}:
            return f"{len(writes)} judged"
        case "key", {"event": event, "name": name, "role": role}:
            return f"{event}: {name}, {role}"
        case "access", {"refused": {"interface": interface, "operation": operation, "code": code}}:
            return f"{interface}, {operation}: {code}"
        case "access", {"refused_too": list(groups)}:
            return f"{sum(group.get('times', 0) for group in groups)} more refused"
        case "decision", {"approval": {"principal": who, "statement": {"decision": decision}}}:
            return f"{decision} by {who}"
        case "spending", {"band": band, "used_bytes": used, "max_bytes": most}:
            return f"{band}: {used} of {most} bytes"
        case "retention", {"swept": list(swept)}:
            return f"{len(swept)} moved or deleted"
        case _:
            return ""


def entry(request: PageRequest) -> Page:
    """An entry with its receipt."""
    seq = request.parse_query(EntryPageQuery).seq
    receipt = governance_operations.receipt(request.gateway, request.caller, _existing(request, seq))
    context = {"seq": seq, "receipt": receipt, "content": parse(receipt.entry)}
    return Page(template="entry.html", context=context)


def receipt_file(request: PageRequest) -> Page:
    """The receipt as a file; it proves the entry to anyone who has the log's public key."""
    seq = request.parse_query(EntryPageQuery).seq
    receipt = governance_operations.receipt(request.gateway, request.caller, _existing(request, seq))
    text = msgspec.json.format(msgspec.json.encode(receipt), indent=2).decode() + "\n"
    return Page(context={"text": text}, file_name=f"receipt-{seq}.json")


def _existing(request: PageRequest, seq: int) -> int:
    if not 0 < seq <= SAFE_INTEGER or next(iter(request.gateway.store.entries(seq - 1)), None) is None:
        raise NotFound(what=f"ledger entry {seq}")
    return seq


def keys(request: PageRequest) -> Page:
    """The keys for namespaces and scopes of the caller; the valid ones, or all that ever were."""
    return _keys_page(request)


def change(request: PageRequest) -> Page:
    """Create a key, or revoke one."""
    if request.form.get("revoke"):
        governance_operations.revoke_key(request.gateway, request.caller, request.form["revoke"])
        if request.form["revoke"] == request.caller.key_id:
            return Page(redirect_to=link("login"))
        return Page(redirect_to=link("keys", request.namespace, all=1))
    try:
        created = governance_operations.create_key(request.gateway, request.caller, _body(request))
    except StandfastError as error:
        if not is_allowed(request.caller, Permission.CREATE_KEY, None):
            raise
        return _keys_page(request, problem=error)
    return _keys_page(request, created=created)


def _body(request: PageRequest) -> CreateKeyBody:
    form = request.form
    plain: dict[str, Any] = {
        "name": form.get("name", "").strip(),
        "role": form.get("role", ""),
        "namespaces": listed(form.get("namespaces", "")),
        "scopes": listed(form.get("scopes", "")),
    }
    if days := form.get("days", "").strip():
        if not (days.isascii() and days.isdigit() and len(days) <= len(str(MAX_KEY_DAYS))):
            raise InvalidValue(what="days", problem=f"it must be a whole number up to {MAX_KEY_DAYS}")
        plain["days"] = int(days)
    if form.get("origin"):
        plain["origin"] = form["origin"]
    return CreateKeyBody.from_json(plain)


def _keys_page(
    request: PageRequest, *, created: CreatedKey | None = None, problem: StandfastError | None = None
) -> Page:
    is_all = request.query.get("all") == "1"
    query = request.parse_query(KeysQuery, all=is_all, limit=CONSOLE_PAGE_ITEMS)
    caller = request.caller
    default = ALL_NAMESPACES if caller.covers_all else ", ".join(caller.namespaces)
    fields = {"role": KeyRole.AGENT.value, "namespaces": default, "scopes": ", ".join(caller.scopes)}
    given = dict(request.form) if problem is not None else fields
    context = {
        "page": governance_operations.list_keys(request.gateway, caller, query),
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
    return Page(template="keys.html", context=context)
