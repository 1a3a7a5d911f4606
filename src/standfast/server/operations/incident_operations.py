"""Operations about incidents: investigations for everybody within their scopes, acts for operators."""

from typing import Annotated

import msgspec
from msgspec import Meta

from standfast.limits import MAX_NAME_CHARS, MAX_PAGE_ITEMS
from standfast.memory import (
    Investigation,
    QuarantineAct,
    Quarantined,
    QuarantinedRecord,
    QuarantinePlan,
    Released,
)
from standfast.records.canon import fingerprint
from standfast.records.incident_requests import InvestigateRequest, QuarantineRequest, RevertRequest
from standfast.records.requests import Name, Scope
from standfast.records.scopes import ALL_SCOPES
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import Caller, KeyRole, Permission
from standfast.server.access.scope_limits import own_scope
from standfast.server.operations.gateway import Gateway


class ActResponse(Value, frozen=True, kw_only=True):
    """What an act did, or would do if it was a rehearsal."""

    done: Quarantined | None = None
    plan: QuarantinePlan | None = None


class ReleaseBody(Value, frozen=True, kw_only=True):
    """Which act to take back, and why.

    Args:
        act_id: The id of a quarantine or a revert, as its answer and the list name it.
        reason: Why; recorded in the ledger.
    """

    act_id: Name
    reason: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]


class QuarantinesQuery(Value, frozen=True, kw_only=True):
    """Which records in quarantine to list.

    Args:
        scope: Only those of this scope and below it; by default all.
    """

    scope: Scope | None = None


class QuarantinesPage(Value, frozen=True, kw_only=True):
    """The acts, the newest last, and what is in quarantine now, the first of it."""

    acts: list[QuarantineAct]
    records: list[QuarantinedRecord]
    more: bool = False


def investigate(gateway: Gateway, caller: Caller, namespace: str, body: InvestigateRequest) -> Investigation:
    """Find the causes and the reach of a record, a package, a run, a source or a scope.

    What the key may not see is neither shown nor followed. A scope that it is not for is refused.
    """
    memory = gateway.authorize(caller, Permission.INVESTIGATE, namespace)
    names_scope = body.scope not in (None, ALL_SCOPES)
    if names_scope or (caller.scopes and body.memory_id is not None):
        own = own_scope(caller, Permission.INVESTIGATE, body.scope if names_scope else None)
        body = msgspec.structs.replace(body, scope=own)
    return memory.incidents.answer(
        body, sees=caller.covers_scope, shows_quarantined=caller.role is not KeyRole.AGENT
    )


def quarantine(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    body: QuarantineRequest,
    *,
    request_key: str | None = None,
) -> ActResponse:
    """Take records out of recall, with what cites them, or rehearse it."""
    return _acted(gateway, caller, namespace, body, request_key)


def revert(
    gateway: Gateway, caller: Caller, namespace: str, body: RevertRequest, *, request_key: str | None = None
) -> ActResponse:
    """Undo what a run wrote, or what was written since a snapshot, or rehearse it."""
    return _acted(gateway, caller, namespace, body, request_key)


def _acted(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    body: QuarantineRequest | RevertRequest,
    request_key: str | None,
) -> ActResponse:
    memory = gateway.authorize(caller, Permission.QUARANTINE, namespace)
    act_id = None if request_key is None else f"{caller.key_id}-{request_key}"
    if act_id is not None and len(act_id) > MAX_NAME_CHARS:
        act_id = fingerprint(act_id)
    answer = memory.incidents.act(body, by=caller.name, act_id=act_id)
    if isinstance(answer, Quarantined):
        return ActResponse(done=answer)
    return ActResponse(plan=answer)


def release(gateway: Gateway, caller: Caller, namespace: str, body: ReleaseBody) -> Released:
    """Take a quarantine or a revert back."""
    memory = gateway.authorize(caller, Permission.QUARANTINE, namespace)
    return memory.release(body.act_id, reason=body.reason, by=caller.name)


def list_quarantines(
    gateway: Gateway, caller: Caller, namespace: str, query: QuarantinesQuery
) -> QuarantinesPage:
    """List the acts of quarantine and revert, and what is in quarantine now."""
    memory = gateway.authorize(caller, Permission.LIST_QUARANTINES, namespace)
    found = memory.quarantined(scope=query.scope or ALL_SCOPES, limit=MAX_PAGE_ITEMS + 1)
    return QuarantinesPage(
        acts=memory.quarantines(), records=found[:MAX_PAGE_ITEMS], more=len(found) > MAX_PAGE_ITEMS
    )
