"""The tools for conversations."""

from typing import Annotated, Any

from pydantic import Field

from standfast.memory.conversations import AddedMessages
from standfast.server.access.permissions import Permission
from standfast.server.mcp.tools import (
    WORKFLOW,
    Answer,
    AnyContext,
    McpTool,
    Namespace,
    RequestKey,
    Tags,
    ToolAuth,
    ToolScope,
)
from standfast.server.operations import conversation_operations
from standfast.server.operations.conversation_schemas import (
    AddBody,
    SessionPage,
    SessionQuery,
    SessionsPage,
    SessionsQuery,
)

Cursor = Annotated[str | None, Field(description="The `next` value of the previous page.")]
At = Annotated[int | None, Field(description="The snapshot to read; leave it out for the newest.")]


class ConversationTools:
    """Add messages, read a session back, list sessions."""

    def __init__(self, auth: ToolAuth) -> None:
        self._call = auth.call

    def tools(self) -> tuple[McpTool, ...]:
        """All tools of this class."""
        reads = {"is_read_only": True, "is_idempotent": True}
        return (
            McpTool("memory_add", "Add messages", Permission.REMEMBER, self.memory_add, AddedMessages),
            McpTool(
                "memory_session",
                "Read a session",
                Permission.LIST_RECORDS,
                self.memory_session,
                SessionPage,
                **reads,
            ),
            McpTool(
                "memory_sessions",
                "List sessions",
                Permission.LIST_RECORDS,
                self.memory_sessions,
                SessionsPage,
                **reads,
            ),
        )

    def memory_add(  # noqa: PLR0917  # The SDK calls by name.
        self,
        messages: Annotated[
            list[dict[str, Any]],
            Field(
                description='OpenAI- or Anthropic-style messages, such as {"role": "user", "content": "Hello"}.'
            ),
        ],
        context: AnyContext,
        scope: ToolScope = None,
        session: Annotated[
            str | None, Field(description="The conversation; leave it out to begin a new one.")
        ] = None,
        position: Annotated[
            int | None,
            Field(
                ge=0, description="The position of the first message; leave it out to continue the session."
            ),
        ] = None,
        tags: Tags = None,
        metadata: Annotated[
            dict[str, str | int | float | bool | None] | None,
            Field(description="Fields of your own, to filter by."),
        ] = None,
        supersedes: Annotated[
            list[str] | None,
            Field(description="The ids or subjects of records that the messages replace; they end."),
        ] = None,
        request_key: RequestKey = None,
        namespace: Namespace = None,
    ) -> Answer:
        """Add the messages of a conversation to memory. Each is judged; those that the session has are not added again."""
        body = {
            "messages": messages,
            "scope": scope,
            "session": session,
            "position": position,
            "tags": tags or [],
            "metadata": metadata or {},
            "supersedes": supersedes or [],
        }
        return self._call(
            context,
            Permission.REMEMBER,
            namespace,
            lambda place: conversation_operations.add(
                *place, AddBody.from_json(body), request_key=request_key, workflow=WORKFLOW
            ),
        )

    def memory_session(  # noqa: PLR0917  # The SDK calls by name.
        self,
        session: str,
        context: AnyContext,
        scope: ToolScope = None,
        at: At = None,
        limit: int = 50,
        cursor: Cursor = None,
        namespace: Namespace = None,
    ) -> Answer:
        """Read a conversation back, in order. A message that was not accepted has no text, but its verdict."""
        query = {"session": session, "scope": scope, "at": at, "limit": limit, "cursor": cursor}
        return self._call(
            context,
            Permission.LIST_RECORDS,
            namespace,
            lambda place: conversation_operations.session(*place, SessionQuery.from_json(query)),
        )

    def memory_sessions(  # noqa: PLR0917  # The SDK calls by name.
        self,
        context: AnyContext,
        scope: ToolScope = None,
        at: At = None,
        limit: int = 50,
        cursor: Cursor = None,
        namespace: Namespace = None,
    ) -> Answer:
        """List the conversations of a scope and all below it."""
        query = {"scope": scope, "at": at, "limit": limit, "cursor": cursor}
        return self._call(
            context,
            Permission.LIST_RECORDS,
            namespace,
            lambda place: conversation_operations.sessions(*place, SessionsQuery.from_json(query)),
        )
