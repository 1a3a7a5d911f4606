"""The pages that change memory: add a fact, correct one, and forget a fact or a whole scope after a rehearsal."""

from typing import Any, Final

from standfast.clock import fresh_secret
from standfast.errors import InvalidValue, NotFound, StandfastError
from standfast.limits import MAX_NAME_CHARS
from standfast.scopes import SHARED, checked_scope
from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.console.page_request import Page, PageRequest
from standfast.server.console.rendering import link
from standfast.server.edge.problems import status_of
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import ForgetBody, ForgetResponse, RememberBody
from standfast.vocabulary import Band, Record, Value

WORKFLOW: Final = "console"
REASON: Final = "reason"
"""The field of metadata that says why somebody added or corrected a fact."""
_REHEARSAL_REASON: Final = "a rehearsal"


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
    """Judge the text of the form and store it. A text that is not accepted stays in the form, with the reasons."""
    request.memory(Permission.REMEMBER)
    form = request.form
    scope = request.own_scope(Permission.REMEMBER, form.get("scope"))
    current = _current(request, form["id"], scope) if form.get("id") else None
    try:
        answer = memory_operations.remember(
            *request.target, _body(request, scope), request_key=_request_key(request), workflow=WORKFLOW
        )
    except StandfastError as error:
        return _write_page(dict(form), current, problem=error, status=status_of(error))
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


def _body(request: PageRequest, scope: str) -> RememberBody:
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
        "tags": _listed(form.get("tags", "")),
        "supersedes": _listed(form.get("supersedes", "")),
        "source": {"kind": kind.strip(), "id": name.strip()},
        "metadata": {REASON: reason},
        "valid_from": form.get("valid_from") or None,
        "valid_until": form.get("valid_until") or None,
    }
    return RememberBody.from_json({name: value for name, value in plain.items() if value is not None})


def _listed(text: str) -> list[str]:
    """What is separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _write_page(
    fields: dict[str, str],
    current: Record | None,
    *,
    problem: StandfastError | None = None,
    reasons: list[str] | None = None,
    status: int = 200,
) -> Page:
    names = (
        "id",
        "scope",
        "subject",
        "text",
        "tags",
        "source",
        REASON,
        "valid_from",
        "valid_until",
        "supersedes",
    )
    context = {
        "fields": {name: fields.get(name, "") for name in names},
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
    return Page(
        template="forget.html", context=context, status=200 if problem is None else status_of(problem)
    )


def _plan(request: PageRequest, query: ChangePageQuery) -> ForgetResponse:
    return memory_operations.forget(*request.target, _target(query, _REHEARSAL_REASON, rehearse=True))


def _target(query: ChangePageQuery, reason: str, *, rehearse: bool = False) -> ForgetBody:
    if not (query.id or query.scope):
        raise InvalidValue(what="address", problem="name the record or the scope to forget")
    return ForgetBody(
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
