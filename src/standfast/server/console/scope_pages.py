"""The pages about users and other scopes: the list, everything of one, its export; and the forms that add,
correct and forget.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from standfast.clock import fresh_secret
from standfast.errors import InvalidValue, NotFound, StandfastError
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_CONSOLE_COUNTED, MAX_NAME_CHARS, MAX_RECALL_TOKENS
from standfast.memory import Memory
from standfast.recall.index.store_index import key_at
from standfast.records.canon import canonical_bytes
from standfast.records.requests import ForgetRequest, RememberRequest
from standfast.records.scopes import SHARED, checked_scope, is_within, outer_scopes, prefix_of, scope_in
from standfast.records.vocabulary import Band, Record, Value
from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.console.namespace_stats import HELD_BANDS, UNDECIDED, USER_SCOPE
from standfast.server.console.record_pages import timeline_of
from standfast.server.console.rendering import Page, PageRequest, link, listed
from standfast.server.console.search import Search, SearchHit, SearchKind, SearchQuery, SearchResults
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import ForgetResponse
from standfast.store.stored_records import record_of

# Sorts behind every name in a scope, so that a scan continues with the next scope.
_LAST: Final = "\U0010ffff"
_COUNTED_BAND: Final = Band.LEDGER
_MOST_REPLACED: Final = 3
_CHUNK_BYTES: Final = 64 << 10
WORKFLOW: Final = "console"
REASON: Final = "reason"
"""The field of metadata that says why somebody added or corrected a fact."""
_REHEARSAL_REASON: Final = "a rehearsal"


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
    """The query of the list: only scopes that begin with ``start``, behind ``after``; users, unless ``all``.

    A name without a slash is looked for among the users.
    """

    start: str = ""
    after: str = ""
    all: str = ""

    @property
    def prefix(self) -> str:
        """What the scopes begin with."""
        return self.start if self.all or "/" in self.start else f"{USER_SCOPE}/{self.start}"


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
    prefix = query.prefix
    starts = {max(one, prefix) for one in own if one.startswith(prefix) or prefix.startswith(one)}
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
        "query": query,
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


@dataclass(frozen=True, slots=True)
class CurrentFact:
    """A fact that holds, and the texts that it replaced, each with when that was; the last one first."""

    hit: SearchHit
    replaced: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FactGroup:
    """The facts about one thing: those whose subjects begin with the same word."""

    name: str
    facts: tuple[CurrentFact, ...]


def scope(request: PageRequest) -> Page:
    """What is known of a user, or in another scope and those below it: what holds, what it replaced, what
    waits, what was said.
    """
    memory = request.memory(Permission.LIST_RECORDS)
    name = request.own_scope(Permission.LIST_RECORDS, request.parse_query(ScopePageQuery).scope)
    memory.require_readable("list records")
    view = memory.at(memory.store.head())
    readable = memory_operations.readable_bands(request.caller)
    facts = _found(request, SearchQuery(scope=name, kind=SearchKind.FACTS), HELD_BANDS)
    held = [hit for hit in facts.hits if hit.row.verdict not in UNDECIDED]
    messages = _found(request, SearchQuery(scope=name, kind=SearchKind.MESSAGES), HELD_BANDS)
    said, later = _statements(memory, name) if facts.next_cursor is None else ((), set())
    outdated = [hit for hit in held if hit.row.memory_id in later]
    sessions = list(islice(view.sessions(scope=name), CONSOLE_PAGE_ITEMS + 1))
    rejected = SearchQuery(scope=name, band=Band.VOID, kind=SearchKind.RECORDS)
    context = {
        "scope": name,
        "is_user": name.startswith(f"{USER_SCOPE}/"),
        "groups": _grouped(memory, [hit for hit in held if hit.row.memory_id not in later]),
        "said": said,
        "outdated": [*outdated, *(hit for hit in messages.hits if hit.row.memory_id in later)],
        "facts": facts.found - len(facts.hits) + len(held) - len(outdated) + len(said),
        "has_more": facts.next_begin is not None or facts.next_cursor is not None,
        "messages": messages.found,
        "waiting": _found(request, SearchQuery(scope=name, band=Band.PHOENIX, kind=SearchKind.PROPOSALS), ()),
        "rejected": _found(request, rejected, (Band.VOID,)).found if Band.VOID in readable else None,
        "sessions": sorted(
            sessions[:CONSOLE_PAGE_ITEMS], key=lambda one: (one.last_time, one.key), reverse=True
        ),
        "more_sessions": len(sessions) > CONSOLE_PAGE_ITEMS,
        "inner": [one for one, _ in facts.facets["scope"] if one != name],
        "may_forget": request.may(Permission.FORGET),
        "may_remember": request.may(Permission.REMEMBER),
    }
    return Page(template="scope.html", context=context)


def _found(request: PageRequest, query: SearchQuery, bands: Sequence[Band]) -> SearchResults:
    return Search(
        query,
        namespaces=[request.namespace],
        open_memory=lambda _: request.memory(Permission.LIST_RECORDS),
        bands=bands,
        scopes=[query.scope],
    ).run()


def _statements(memory: Memory, scope: str) -> tuple[tuple[Record, ...], set[str]]:
    """What the profile of a scope has from conversations, and the ids of what is contradicted later."""
    profile = memory.profile(scope, tokens=MAX_RECALL_TOKENS)
    keys = [key_at(memory.namespace, one.store_path, one.memory_id) for one in profile.items if one.session]
    found = memory.store.read(memory.namespace, keys)
    later = {one.memory_id for one in profile.left_out if one.reason.startswith("said later")}
    return tuple(record_of(found[key]) for key in keys if key in found), later


def _grouped(memory: Memory, hits: Sequence[SearchHit]) -> list[FactGroup]:
    """The facts by the first word of their subjects; those without a subject last."""
    groups: dict[str, list[CurrentFact]] = {}
    for hit in hits:
        groups.setdefault((hit.row.subject or "").partition("/")[0], []).append(
            CurrentFact(hit, _replaced_by(memory, hit))
        )
    ordered = sorted(groups, key=lambda name: (name == "", name))
    return [FactGroup(name, tuple(groups[name])) for name in ordered]


def _replaced_by(memory: Memory, hit: SearchHit) -> tuple[tuple[str, str], ...]:
    """The texts that a fact replaced: those of its subject, and those that it names."""
    found = dict[str, str]()
    for name in (hit.name, *hit.row.supersedes) if hit.row.subject or hit.row.supersedes else ():
        steps = timeline_of(memory.history(name, scope=hit.scope), name)
        for step in reversed(steps):
            if step.record and step.superseded_by and step.record.text != hit.row.text:
                found.setdefault(step.record.text, step.committed_at)
    return tuple(found.items())[:_MOST_REPLACED]


def export(request: PageRequest) -> Page:
    """Everything of one scope as JSON lines: records that the key may read, and what waits."""
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
    for waiting in memory.approvals.waiting():
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


class ChangePageQuery(Value, frozen=True, kw_only=True):
    """What to add, correct or forget: a record of a scope, or a scope."""

    id: str = ""
    scope: str = ""


def write(request: PageRequest) -> Page:
    """The form that adds a fact; with an id, the one that corrects it."""
    request.memory(Permission.REMEMBER)
    query = request.parse_query(ChangePageQuery)
    scope = request.own_scope(Permission.REMEMBER, query.scope)
    current = _current(request, query.id, scope) if query.id else None
    kind = "operator" if request.caller.role is KeyRole.OPERATOR else "agent"
    fields = {
        "id": query.id,
        "scope": scope,
        "subject": (current.subject or query.id) if current else "",
        "text": current.text if current else "",
        "tags": ", ".join(current.tags) if current else "",
        "source": f"{kind}:{request.caller.name}",
    }
    return _write_page(fields, current)


def _current(request: PageRequest, memory_id: str, scope: str) -> Record:
    memory = request.memory(Permission.GET_RECORD)
    found = [
        one
        for one in memory_operations.records_of(memory, memory_id, scope=scope)
        if one.band in (Band.LEDGER, Band.ACTIVE, Band.VAULT)
    ]
    if not found:
        raise NotFound(what=f"record {memory_id!r:.80} in scope {scope}")
    return found[0]


def remember(request: PageRequest) -> Page:
    """Judge the text of the form and store it. One that is not accepted stays there, with reasons."""
    request.memory(Permission.REMEMBER)
    form = request.form
    scope = request.own_scope(Permission.REMEMBER, form.get("scope"))
    current = _current(request, form["id"], scope) if form.get("id") else None
    try:
        answer = memory_operations.remember(
            *request.target, _body(request, scope), request_key=_request_key(request), workflow=WORKFLOW
        )
    except StandfastError as error:
        return _write_page(dict(form), current, problem=error)
    if answer.proposal_id is not None:
        return Page(redirect_to=link("proposal", request.namespace, id=answer.proposal_id))
    if Band.VOID.value in answer.bands:
        return _write_page(dict(form), current, reasons=answer.reasons, status=422)
    return Page(
        redirect_to=link(
            "record",
            request.namespace,
            id=answer.known or answer.memory_id,
            scope=None if scope == SHARED else scope,
            done="known" if answer.known else "written",
        )
    )


def _body(request: PageRequest, scope: str) -> RememberRequest:
    form = request.form
    reason = form.get(REASON, "").strip()
    if not reason:
        raise InvalidValue(what=REASON, problem="say why; it is stored with the fact")
    kind, _, name = form.get("source", "").partition(":")
    if not (kind.strip() and name.strip()):
        raise InvalidValue(what="source", problem="write it as kind:id, for example doc:handbook")
    plain: dict[str, Any] = {
        "text": form.get("text", "").replace("\r\n", "\n"),
        "scope": scope,
        "subject": form.get("subject", "").strip() or None,
        "tags": listed(form.get("tags", "")),
        "supersedes": listed(form.get("supersedes", "")),
        "source": {"kind": kind.strip(), "id": name.strip()},
        "metadata": {REASON: reason},
        "valid_from": form.get("valid_from") or None,
        "valid_until": form.get("valid_until") or None,
    }
    return RememberRequest.from_json({name: value for name, value in plain.items() if value is not None})


def _write_page(
    fields: dict[str, str],
    current: Record | None,
    *,
    problem: StandfastError | None = None,
    reasons: list[str] | None = None,
    status: int = 0,
) -> Page:
    names = ("id", "scope", "subject", "text", "tags", "source", "valid_from", "valid_until", "supersedes")
    context = {
        "fields": {name: fields.get(name, "") for name in (*names, REASON)},
        "current_record": current,
        "problem": problem,
        "reasons": reasons,
        "request_key": fresh_secret(),
    }
    return Page(template="write.html", context=context, status=status)


def rehearse(request: PageRequest) -> Page:
    """What forgetting a record or a scope would erase. Nothing is changed."""
    request.memory(Permission.FORGET)
    return _forget_page(request, request.parse_query(ChangePageQuery))


def forget(request: PageRequest) -> Page:
    """Forget what the rehearsal showed, if it would still erase the same."""
    query = ChangePageQuery(id=request.form.get("id", ""), scope=request.form.get("scope", ""))
    reason = request.form.get(REASON, "").strip()
    if not 0 < len(reason) <= MAX_NAME_CHARS:
        problem = InvalidValue(what=REASON, problem=f"give one of 1 to {MAX_NAME_CHARS} characters")
        return _forget_page(request, query, problem=problem)
    planned = _plan(request, query)
    if request.form.get("seen") != _numbers(planned) and planned.rows:
        problem = InvalidValue(what="rehearsal", problem="memory changed since; look at the new numbers")
        return _forget_page(request, query, problem=problem, reason=reason)
    done = memory_operations.forget(
        *request.target, _target(query, reason), request_key=_request_key(request), workflow=WORKFLOW
    )
    context = {"query": query, "done": done, "reason": reason, "scope": query.scope or SHARED}
    return Page(template="forget.html", context={**context, "plan": None, "problem": None})


def _forget_page(
    request: PageRequest, query: ChangePageQuery, *, problem: StandfastError | None = None, reason: str = ""
) -> Page:
    plan = _plan(request, query)
    context = {
        "query": query,
        "scope": query.scope or SHARED,
        "plan": plan,
        "seen": _numbers(plan),
        "done": None,
        "problem": problem,
        "reason": reason,
        "request_key": fresh_secret(),
    }
    return Page(template="forget.html", context=context)


def _plan(request: PageRequest, query: ChangePageQuery) -> ForgetResponse:
    return memory_operations.forget(*request.target, _target(query, _REHEARSAL_REASON, rehearse=True))


def _target(query: ChangePageQuery, reason: str, *, rehearse: bool = False) -> ForgetRequest:
    if not (query.id or query.scope):
        raise InvalidValue(what="address", problem="name the record or the scope to forget")
    return ForgetRequest(
        memory_id=query.id or None,
        scope=checked_scope(query.scope) if query.scope else None,
        reason=reason,
        rehearse=rehearse,
    )


def _numbers(plan: ForgetResponse) -> str:
    """What a rehearsal showed, for comparison."""
    return f"{plan.records}-{plan.rows}-{plan.traces}-{len(plan.law)}"


def _request_key(request: PageRequest) -> str | None:
    """The key of the form, which makes sending it twice harmless."""
    return request.form.get("request_key") or None
