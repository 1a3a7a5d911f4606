"""Standfast's own tools: seven for every day, and those for programs and operators."""

from typing import Annotated, Any, Final

import msgspec
from pydantic import Field, WithJsonSchema

from standfast.errors import InvalidValue
from standfast.limits import DEFAULT_RECALL_TOKENS, MAX_RECALL_TOKENS
from standfast.records.incident_requests import InvestigateRequest
from standfast.records.requests import AddRequest, ForgetRequest, RememberRequest
from standfast.records.scopes import SHARED
from standfast.server.access.permissions import Permission
from standfast.server.mcp import texts
from standfast.server.mcp.tools import WORKFLOW, AnyContext, Place, Reply, progress_of, tool
from standfast.server.operations import (
    current_operations,
    governance_operations,
    incident_operations,
    memory_operations,
)
from standfast.server.operations.current_operations import ConflictsQuery, ProfileQuery, SettleBody
from standfast.server.operations.schemas import (
    HistoryQuery,
    NewestQuery,
    RecallBody,
    SessionQuery,
    SessionsQuery,
)

Tokens = Annotated[int, WithJsonSchema({"type": "integer", "description": "The token budget"})]
ToolScope = Annotated[
    str | None, WithJsonSchema({"type": "string", "description": "Such as user/ada; by default shared"})
]
Where = Annotated[
    dict[str, Any] | None,
    WithJsonSchema({"type": "object", "description": 'Such as {"tag": "billing"} or {"session": "x"}'}),
]
At = Annotated[int | None, WithJsonSchema({"type": "integer", "description": "The snapshot to read"})]
RequestKey = Annotated[
    str | None,
    Field(description="A key of your choice. Repeating the call with the same key has one effect."),
]
Cursor = Annotated[str | None, Field(description="The `next` value of the previous page.")]
_SHOWN_PROBLEMS: Final = 5
_TOO_LONG: Final = "What was found does not fit with its frame. Ask with more tokens."


@tool(
    "Recall",
    Permission.RECALL,
    reads=True,
    core=("query", "tokens", "scope", "scopes", "where", "at", "explain"),
)
def memory_read(place: Place, request: RecallBody) -> Reply:
    """Recall what memory knows about a question. Call it before you answer."""
    response = memory_operations.recall(*place, request, token_counter=texts.model_counter())
    # phase6-v1 bounds the excerpts and not their frames; a model is not handed more than it asked for.
    text = texts.within(response.text, request.tokens)
    if not text:
        advice = _TOO_LONG if response.text else response.package.get("advice") or texts.NOTHING
        text = texts.within(advice, request.tokens)
    return Reply(text, response)


@tool(
    "Remember",
    Permission.REMEMBER,
    core=(
        *("text", "subject", "source", "scope", "tags", "supersedes", "valid_from", "valid_until"),
        "propose",
    ),
)
def memory_remember(place: Place, request: RememberRequest, request_key: RequestKey = None) -> Reply:
    """Remember one plain statement. It is judged; the answer says accepted, needs review or rejected, and
    why.

    To correct something, give its subject again, or name what it supersedes.
    """
    response = memory_operations.remember(*place, request, request_key=request_key, workflow=WORKFLOW)
    return Reply(texts.remembered_text(response), response)


@tool("Add messages", Permission.REMEMBER, core=("messages", "scope", "session"))
def memory_add(place: Place, request: AddRequest, request_key: RequestKey = None) -> Reply:
    """Add the newest messages of a conversation, each once, in order. Each is judged."""
    response = memory_operations.add(*place, request, request_key=request_key, workflow=WORKFLOW)
    return Reply(texts.added_text(response), response)


@tool("List", Permission.LIST_RECORDS, reads=True)
def memory_list(
    place: Place,
    scope: ToolScope = None,
    where: Where = None,
    tokens: Tokens = DEFAULT_RECALL_TOKENS,
    at: At = None,
) -> Reply:
    """List what memory holds, the newest first."""
    query = NewestQuery.from_json(_given(scope=scope, where=where, at=at))
    page = memory_operations.newest_records(*place, query)
    lines = list(map(texts.record_line, page.records))
    budget = _checked(tokens)
    if lines:
        return Reply(texts.framed(lines, budget), page)
    none = (
        "Nothing there passes the filter." if where else f"Nothing is in the scope {query.scope or SHARED}."
    )
    return Reply(texts.within(page.advice or texts.one_line(none), budget), page)


@tool("History", Permission.HISTORY, reads=True)
def memory_history(
    place: Place,
    subject: str,
    scope: ToolScope = None,
    tokens: Tokens = DEFAULT_RECALL_TOKENS,
    cursor: Cursor = None,
) -> Reply:
    """List every version of a subject, a line each, oldest first."""
    query = HistoryQuery.from_json(_given(subject=subject, cursor=cursor, scope=scope))
    page = memory_operations.history(*place, query)
    lines = list(texts.version_lines(page.versions))
    budget = _checked(tokens)
    place_name = texts.one_line(query.scope or SHARED)
    none = f"There never was a memory about {texts.one_line(subject)} in the scope {place_name}."
    return Reply(texts.framed(lines, budget) if lines else texts.within(none, budget), page)


@tool("Forget", Permission.FORGET, deletes=True, core=("subject", "scope", "source", "reason", "rehearse"))
def memory_forget(place: Place, request: ForgetRequest, request_key: RequestKey = None) -> Reply:
    """Erase a subject, all from a source, or a whole scope for good. Ask the user first.

    The subject may be the exact text of a memory, too.
    """
    if request.subject is not None:
        named = memory_operations.named_by_text(*place, request)
        request = msgspec.structs.replace(request, subject=named)
    response = memory_operations.forget(*place, request, request_key=request_key, workflow=WORKFLOW)
    return Reply(texts.forgotten_text(response), response)


@tool("Status", Permission.STATUS, reads=True)
def memory_status(place: Place) -> Reply:
    """Tell the newest snapshot, your permissions, and what waits for a person's review."""
    status = memory_operations.status(*place)
    waiting = memory_operations.waiting_records(*place)
    text = (
        f"Memory {status.namespace}, snapshot {status.head}. You are {texts.one_line(status.name)}, role"
        f" {status.role}: {', '.join(status.may)}. {status.proposals_waiting} wait for a review."
    )
    if waiting:
        lines, more = list(map(texts.record_line, waiting)), status.proposals_waiting - len(waiting)
        text += "\n" + texts.framed(lines, DEFAULT_RECALL_TOKENS, more=max(0, more))
    return Reply(text, status)


CORE_TOOLS: Final = (
    *(memory_read, memory_remember, memory_add, memory_list, memory_history, memory_forget),
    *(memory_status,),
)


@tool("Verify", Permission.VERIFY, reads=True, whole_store=True)
def memory_verify(place: Place, context: AnyContext) -> Reply:
    """Verify that the whole store is intact. This reads everything, so call it rarely."""
    response = governance_operations.verify(*place[:2], progress=progress_of(context))
    found = "Nothing is wrong" if response.holds else f"{response.problems_found:,} problems were found"
    problems = [texts.one_line(one) for one in response.problems[:_SHOWN_PROBLEMS]]
    return Reply("\n".join([f"{found} in {response.snapshots:,} snapshots.", *problems]), response)


@tool("Read a session", Permission.LIST_RECORDS, reads=True)
def memory_session(
    place: Place,
    session: str,
    scope: ToolScope = None,
    at: At = None,
    limit: int = 50,
    cursor: Cursor = None,
    tokens: Tokens = DEFAULT_RECALL_TOKENS,
) -> Reply:
    """Read a conversation back, in order. A message that was not accepted has no text, but its verdict."""
    query = _given(session=session, scope=scope, at=at, limit=limit, cursor=cursor)
    page = memory_operations.session(*place, SessionQuery.from_json(query))
    return Reply(_page_text(list(map(texts.message_line, page.messages)), page.next, tokens), page)


@tool("List sessions", Permission.LIST_RECORDS, reads=True)
def memory_sessions(
    place: Place,
    scope: ToolScope = None,
    at: At = None,
    limit: int = 50,
    cursor: Cursor = None,
    tokens: Tokens = DEFAULT_RECALL_TOKENS,
) -> Reply:
    """List the conversations of a scope and all below it."""
    query = _given(scope=scope, at=at, limit=limit, cursor=cursor)
    page = memory_operations.sessions(*place, SessionsQuery.from_json(query))
    return Reply(_page_text(list(map(texts.session_line, page.sessions)), page.next, tokens), page)


@tool("Profile", Permission.RECALL, reads=True)
def memory_profile(
    place: Place, scope: ToolScope = None, tokens: Tokens = DEFAULT_RECALL_TOKENS, at: At = None
) -> Reply:
    """Tell what memory knows about the owner of a scope now, the newest first."""
    query = ProfileQuery.from_json(_given(scope=scope, tokens=_checked(tokens), at=at))
    response = current_operations.profile(*place, query, token_counter=texts.model_counter())
    return Reply(texts.within(response.text or texts.NOTHING, tokens), response)


@tool("Conflicts", Permission.LIST_RECORDS, reads=True)
def memory_conflicts(
    place: Place, scope: ToolScope = None, tokens: Tokens = DEFAULT_RECALL_TOKENS, at: At = None
) -> Reply:
    """List memories that disagree, with their ids. Ask the user which one holds."""
    response = current_operations.conflicts(*place, ConflictsQuery.from_json(_given(scope=scope, at=at)))
    lines = [
        f"conflict {one.conflict_id}, {one.about}: {entry.memory_id} ({(entry.ts_utc or 'no date')[:10]},"
        f" {entry.trust}): {entry.text}"
        for one in response.conflicts
        for entry in one.entries
    ]
    budget = _checked(tokens)
    text = texts.framed(lines, budget) if lines else texts.within("Nothing disagrees there.", budget)
    return Reply(text, response)


@tool("Settle a conflict", Permission.REMEMBER)
def memory_settle(
    place: Place,
    conflict_id: str,
    keep: Annotated[str, Field(description="The id that holds, both, or neither")],
    reason: str,
    scope: ToolScope = None,
    propose: Annotated[bool, Field(description="Let a person decide")] = False,
    rehearse: Annotated[bool, Field(description="Only say what would end")] = False,
) -> Reply:
    """Settle a conflict: what no longer holds ends and stays in history."""
    given = _given(conflict_id=conflict_id, keep=keep, reason=reason, scope=scope)
    body = SettleBody.from_json({**given, "propose": propose, "rehearse": rehearse})
    response = current_operations.settle(*place, body)
    ended = [name for one in response.settled for name in one.ended]
    if problem := next((one.problem for one in response.settled if one.problem), ""):
        return Reply(f"Not settled: {texts.one_line(problem)}", response)
    verb = "Would end" if rehearse else "A person decides about" if propose else "Ended"
    return Reply(f"{verb}: {', '.join(map(texts.one_line, ended))}.", response)


@tool("Investigate", Permission.INVESTIGATE, reads=True)
def memory_investigate(
    place: Place, request: InvestigateRequest, tokens: Tokens = DEFAULT_RECALL_TOKENS
) -> Reply:
    """Tell where a memory, an answer, a run or a source came from, and what it has touched since.

    Start with the package_hash of a wrong answer.
    """
    budget = _checked(tokens)
    found = incident_operations.investigate(*place, request)
    lines = [line for line in found.text().splitlines() if line]
    return Reply(texts.framed(lines, budget), found)


OWN_TOOLS: Final = (
    *CORE_TOOLS,
    *(memory_verify, memory_session, memory_sessions),
    *(memory_profile, memory_conflicts, memory_settle, memory_investigate),
)


def _given(**arguments: Any) -> dict[str, Any]:
    """The arguments that were given. Models send null for what they leave out."""
    return {name: one for name, one in arguments.items() if one is not None}


def _checked(tokens: int) -> int:
    if not 1 <= tokens <= MAX_RECALL_TOKENS:
        problem = f"it must be a number from 1 to {MAX_RECALL_TOKENS:,}, not {tokens:,}"
        raise InvalidValue(what="tokens", problem=problem)
    return tokens


def _page_text(lines: list[str], cursor: str | None, tokens: int) -> str:
    """A page of a list. The cursor of the next one stands at the end, if everything before it is shown."""
    end = "" if cursor is None else f"\nNext page: cursor {cursor}"
    budget = _checked(tokens)
    if not lines:
        return texts.within("There is none.", budget)
    text = texts.framed(lines, max(1, budget - texts.model_counter().count(end)))
    return text + end if len(text.splitlines()) > len(lines) else text
