"""The tools of mem0's MCP server, on top of governed memory.

    add_memory search_memories get_memories get_memory update_memory delete_memory delete_all_memories

The ids of users, agents and runs are scopes (``entity_ids.py``), so nobody is shown what belongs to somebody
else. What is added is judged; the event of a memory that waits for review is PENDING, of a rejected one
REJECTED, with the reasons.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from standfast.entity_ids import (
    ENTITY_IDS,
    EntityIds,
    MemoryPlace,
    as_memory,
    metadata_of_update,
    stored_metadata,
)
from standfast.errors import InvalidValue
from standfast.limits import MAX_PAGE_ITEMS
from standfast.memory import Memory
from standfast.recall.filters import UNREVIEWED_VERDICTS
from standfast.recall.index.store_index import key_at
from standfast.recall.lexical import shares_of_best
from standfast.records.filters import Filter
from standfast.records.requests import ForgetRequest, RememberRequest
from standfast.records.scopes import scope_in
from standfast.records.vocabulary import Band, JsonScalar, Record, VisibilityMode
from standfast.server.access.permissions import Permission
from standfast.server.access.scope_limits import narrowed_scopes
from standfast.server.mcp.tools import WORKFLOW, Answer, Place, tool
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import (
    ForgetInRunBody,
    RecallBody,
    RecordQuery,
    RecordsQuery,
    RememberBatchBody,
    RememberResponse,
)

_SEARCH_TOKENS: Final = 100_000
_DELETED_AT_ONCE: Final = 500
_EVENTS: Final = {"SEAL": "ADD", "SABAR": "ADD", "VOID": "REJECTED"}

UserId = Annotated[str | None, Field(description="Whose memory: the user's id.")]
AgentId = Annotated[str | None, Field(description="Whose memory: the agent's id.")]
RunId = Annotated[str | None, Field(description="Whose memory: the id of a run or session.")]
Filters = Annotated[
    dict[str, Any] | None,
    Field(
        description=(
            'Ids and fields of metadata that must be equal, such as {"user_id": "ada", "plan": "gold"} '
            'or {"AND": [{"user_id": "ada"}, {"plan": "gold"}]}.'
        )
    ),
]


class ConversationMessage(BaseModel):
    """A message of a conversation."""

    model_config = ConfigDict(extra="forbid")

    role: str
    content: str
    name: str | None = None


@tool("Add memory", Permission.REMEMBER)
def add_memory(
    place: Place,
    text: Annotated[str | None, Field(description="What to remember, as one statement.")] = None,
    messages: Annotated[
        list[ConversationMessage] | None, Field(description="A conversation, instead of `text`.")
    ] = None,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    metadata: Annotated[
        dict[str, str | int | float | bool | None] | None, Field(description="Fields to filter by.")
    ] = None,
) -> Answer:
    """Remember a statement, or each message of a conversation, for a user, an agent or a run.

    Each is judged first.

    `event` says what happened. ADD: it is in memory. NONE: it is known already. PENDING: it waits for review
    by a person. REJECTED: it was refused, and `reasons` say why; do not send it again unchanged.
    """
    ids = EntityIds.of(user_id=user_id, agent_id=agent_id, run_id=run_id)
    said = _said(text, messages)
    items = tuple(
        RememberRequest(
            text=one.content,
            scope=ids.scope,
            speaker=one.role,
            metadata=stored_metadata(metadata, ids.given, role=one.role, actor_id=one.name),
        )
        for one in said
    )
    responses = memory_operations.remember_batch(
        *place, RememberBatchBody(items=items), workflow=WORKFLOW
    ).items
    results = [_added(one, response, ids.scope) for one, response in zip(said, responses, strict=True)]
    return {"results": results}


@tool("Search memories", Permission.RECALL, reads=True)
def search_memories(
    place: Place,
    query: str,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    filters: Filters = None,
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_ITEMS)] = 10,
) -> Answer:
    """Search the memories of a user, an agent or a run; best matches first."""
    ids, metadata = _filtered(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
    body = RecallBody(
        query=query,
        tokens=_SEARCH_TOKENS,
        max_items=limit,
        scopes=narrowed_scopes(place[1], Permission.RECALL, ids.read_scopes),
        where=Filter(metadata={**ids.read_metadata, **metadata}),
    )
    response = memory_operations.recall(*place, body)
    results = []
    scores = shares_of_best([item["score"] for item in response.selected])
    for item, score in zip(response.selected, scores, strict=True):
        name = item["memory_id"]
        scope = scope_in(key_at(place[2], item["store_path"], name))
        one = RecordQuery(memory_id=name, scope=scope, at=response.memory_snapshot_id)
        record = memory_operations.get_record(*place, one).records[0]
        results.append(as_memory(record, score))
    return {"results": results}


@tool("List memories", Permission.LIST_RECORDS, reads=True)
def get_memories(
    place: Place,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    filters: Filters = None,
    page: Annotated[int, Field(ge=1)] = 1,
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_ITEMS)] = 50,
) -> Answer:
    """List the memories of a user, an agent or a run, page by page."""
    ids, metadata = _filtered(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
    start = (page - 1) * page_size
    shown = (one for one in _records(place, ids, metadata) if one.verdict not in UNREVIEWED_VERDICTS)
    records = list(islice(shown, start, start + page_size + 1))
    return {
        "results": [as_memory(record) for record in records[:page_size]],
        "page": page,
        "has_more": len(records) > page_size,
    }


@tool("Get memory", Permission.GET_RECORD, reads=True)
def get_memory(place: Place, memory_id: str) -> Answer:
    """Return one memory by its id."""
    return as_memory(_record(place, memory_id))


@tool("Update memory", Permission.REMEMBER)
def update_memory(place: Place, memory_id: str, text: str) -> Answer:
    """Replace the text of a memory. The new text is judged first; the history shows the old one."""
    require(place, Permission.REMEMBER)
    record = _record(place, memory_id)
    body = RememberRequest(
        text=text,
        subject=record.memory_id,
        scope=record.scope,
        tags=record.tags,
        metadata=metadata_of_update(record, None),
    )
    response = memory_operations.remember(*place, body, workflow=WORKFLOW)
    event = "UPDATE" if response.verdict in _EVENTS and response.known is None else _event(response)
    event = "REJECTED" if response.verdict == "VOID" else event
    one = {"id": memory_id, "memory": text, "event": event, "reasons": response.reasons}
    return {"results": [one]}


@tool("Delete memory", Permission.FORGET, deletes=True)
def delete_memory(
    place: Place,
    memory_id: str,
    reason: Annotated[str, Field(description="It is recorded in the ledger.")] = "deleted on request",
) -> Answer:
    """Delete one memory by its id and erase its content."""
    scope, name = MemoryPlace.of(memory_id)
    body = ForgetRequest(subject=name, reason=reason, scope=scope)
    memory_operations.forget(*place, body, workflow=WORKFLOW)
    return {"message": "Memory deleted successfully!"}


@tool("Delete all", Permission.FORGET, deletes=True)
def delete_all_memories(
    place: Place,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    reason: Annotated[str, Field(description="It is recorded in the ledger.")] = "deleted on request",
) -> Answer:
    """Delete every memory of a user, an agent or a run and erase its content."""
    require(place, Permission.FORGET)
    ids = EntityIds.of(user_id=user_id, agent_id=agent_id, run_id=run_id)
    count = 0
    if ids.is_one_scope:
        body = ForgetRequest(scope=ids.scope, reason=reason)
        count = memory_operations.forget(*place, body, workflow=WORKFLOW).records
    while records := list(islice(_records(place, ids, {}), _DELETED_AT_ONCE)):
        bodies = [
            ForgetInRunBody(subject=record.memory_id, reason=reason, scope=record.scope) for record in records
        ]
        forget_together(place, bodies)
        count += len(records)
    return {"message": "Memories deleted successfully!", "deleted": count}


MEM0_TOOLS: Final = (
    *(add_memory, search_memories, get_memories, get_memory, update_memory),
    *(delete_memory, delete_all_memories),
)


def require(place: Place, permission: Permission) -> Memory:
    """The memory, if the caller may do this there. A tool that reads before it writes asks this first."""
    gateway, caller, namespace = place
    return gateway.authorize(caller, permission, namespace)


def forget_together(place: Place, bodies: list[ForgetInRunBody]) -> None:
    """Forget several subjects in one commit."""
    memory, caller = require(place, Permission.FORGET), place[1]

    def attempt() -> None:
        with memory.run(workflow=WORKFLOW, mode=VisibilityMode.BUFFERED_WRITE, agent=caller.name) as run:
            for body in bodies:
                memory_operations.forget_in(run, caller, body)

    if bodies:
        memory.retry(attempt, key=min(body.name for body in bodies))


def _said(text: str | None, messages: list[ConversationMessage] | None) -> list[ConversationMessage]:
    if (text is None) == (messages is None):
        raise InvalidValue(what="add_memory", problem="give either text or messages")
    return messages or [ConversationMessage(role="user", content=text or "")]


def _added(said: ConversationMessage, response: RememberResponse, scope: str) -> dict[str, Any]:
    stored = response.memory_id if response.known is None else response.known
    one = {
        "id": MemoryPlace(scope, stored).public_id,
        "memory": said.content,
        "event": _event(response),
        "role": said.role,
    }
    return {**one, "reasons": response.reasons} if response.reasons else one


def _event(response: RememberResponse) -> str:
    return "NONE" if response.known is not None else _EVENTS.get(response.verdict.value, "PENDING")


def _filtered(filters: dict[str, Any] | None, **ids: str | None) -> tuple[EntityIds, dict[str, JsonScalar]]:
    """The ids and the metadata that filters ask for, in mem0's form: equal fields, and AND of such."""
    wanted: dict[str, Any] = {}
    parts = [filters or {}]
    if filters and "AND" in filters:
        parts = [*filters["AND"], {name: value for name, value in filters.items() if name != "AND"}]
    for part in parts:
        for name, value in part.items():
            if name in ("AND", "OR", "NOT") or not isinstance(value, str | int | float | bool | None):
                problem = f"{name!r:.40} is not supported: give fields that must be equal, or AND of such"
                raise InvalidValue(what="filters", problem=problem)
            if wanted.setdefault(name, value) != value:
                raise InvalidValue(what="filters", problem=f"{name!r:.40} is asked for with two values")
    for name, given in ids.items():
        if given is not None and wanted.setdefault(name, given) != given:
            raise InvalidValue(what="filters", problem=f"{name} is given twice, with two values")
    found = EntityIds.of(**{name: wanted.pop(name, None) for name in ENTITY_IDS})
    return found, wanted


def _records(place: Place, ids: EntityIds, metadata: dict[str, JsonScalar]) -> Iterator[Record]:
    """The memories with these ids, by scope and id; also those that wait for a person."""
    where = Filter(metadata={**ids.read_metadata, **metadata})
    for scope in narrowed_scopes(place[1], Permission.LIST_RECORDS, ids.read_scopes):
        cursor: str | None = None
        while True:
            query = RecordsQuery(band=Band.LEDGER, scope=scope, limit=MAX_PAGE_ITEMS, cursor=cursor)
            page = memory_operations.list_records(*place, query)
            yield from (record for record in page.records if where.matches(record))
            if (cursor := page.next) is None:
                break


def _record(place: Place, memory_id: str) -> Record:
    scope, name = MemoryPlace.of(memory_id)
    query = RecordQuery(memory_id=name, scope=scope)
    return memory_operations.get_record(*place, query).records[0]
