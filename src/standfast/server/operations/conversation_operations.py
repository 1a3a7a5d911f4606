"""Operations on conversations: add messages, read a session back, list sessions."""

from itertools import chain

from standfast.memory import Memory
from standfast.memory.conversations import AddedMessages
from standfast.server.access.permissions import Caller, Permission
from standfast.server.access.scope_limits import listed_scopes, own_scope
from standfast.server.operations.conversation_schemas import (
    AddBody,
    SessionPage,
    SessionQuery,
    SessionsPage,
    SessionsQuery,
)
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.memory_operations import (
    DEFAULT_WORKFLOW,
    existing_snapshot,
    request_run_id,
)
from standfast.server.operations.pages import decode_place, paginate, wrong_cursor


def add(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    body: AddBody,
    *,
    request_key: str | None = None,
    workflow: str = DEFAULT_WORKFLOW,
) -> AddedMessages:
    """Judge the messages of a conversation and commit them. Messages that the session has already are not added again."""
    memory = gateway.authorize(caller, Permission.REMEMBER, namespace)
    scope = own_scope(caller, Permission.REMEMBER, body.scope)
    with request_run_id(caller, namespace, request_key, "add") as run_id:
        added = memory.add(
            body.messages,
            scope=scope,
            session=body.session,
            position=body.position,
            tags=body.tags,
            metadata=body.metadata,
            supersedes=body.supersedes,
            workflow=workflow,
            agent=caller.name,
            run_id=run_id,
            max_origin=caller.origin,
        )
    gateway.metrics.wrote(namespace, [one.verdict for one in added.messages if not one.known], added.receipts)
    return added


def session(gateway: Gateway, caller: Caller, namespace: str, query: SessionQuery) -> SessionPage:
    """Return the messages of a session, in order. Those that were not accepted have no text, but their verdict."""
    memory = gateway.authorize(caller, Permission.LIST_RECORDS, namespace)
    scope = own_scope(caller, Permission.LIST_RECORDS, query.scope)
    at, after = _place(memory, query.at, query.cursor)
    page, cursor = paginate(
        memory.at(at).session(query.session, scope=scope, after=after),
        limit=query.limit,
        size=lambda message: len(message.text or ""),
        position=lambda message: (at, message.memory_ids[0]),
    )
    return SessionPage(memory_snapshot_id=at, messages=page, next=cursor)


def sessions(gateway: Gateway, caller: Caller, namespace: str, query: SessionsQuery) -> SessionsPage:
    """List the sessions of a scope with all below it."""
    memory = gateway.authorize(caller, Permission.LIST_RECORDS, namespace)
    scopes = listed_scopes(caller, Permission.LIST_RECORDS, query.scope)
    at, after = _place(memory, query.at, query.cursor)
    page, cursor = paginate(
        chain.from_iterable(memory.at(at).sessions(scope=one, after=after) for one in scopes),
        limit=query.limit,
        size=lambda info: len(info.session),
        position=lambda info: (at, info.key),
    )
    return SessionsPage(memory_snapshot_id=at, sessions=page, next=cursor)


def _place(memory: Memory, at: int | None, cursor: str | None) -> tuple[int, str]:
    """The snapshot of a page and the item before it."""
    memory.require_readable("read sessions")
    if cursor is None:
        return existing_snapshot(memory, at), ""
    at, after = decode_place(cursor)
    if at > memory.store.head():
        raise wrong_cursor()
    return at, after
