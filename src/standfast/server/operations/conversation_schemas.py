"""The requests and responses of conversations. The response to adding messages is ``AddedMessages``."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from standfast.limits import DEFAULT_PAGE_ITEMS, MAX_MESSAGE_POSITION, MAX_RUN_ITEMS, MAX_SUPERSEDED, MAX_TAGS
from standfast.memory.sessions import SessionInfo, SessionMessage
from standfast.server.operations.schemas import (
    Limit,
    ListedScope,
    Name,
    PlaceCursor,
    Scope,
    SnapshotId,
    Tag,
)
from standfast.vocabulary import JsonScalar, Value


class AddBody(Value, frozen=True, kw_only=True):
    """The messages of a conversation, OpenAI- or Anthropic-style.

    Without ``session`` they begin a new one. Without ``position``, messages that begin as the session begins are taken for the
    session from its start, and only what is new is added; any others continue it.
    """

    messages: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1, max_length=MAX_RUN_ITEMS)]
    scope: Scope | None = None
    session: Name | None = None
    position: Annotated[int, Meta(ge=0, le=MAX_MESSAGE_POSITION)] | None = None
    tags: Annotated[tuple[Tag, ...], Meta(max_length=MAX_TAGS)] = ()
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    supersedes: Annotated[tuple[Name, ...], Meta(max_length=MAX_SUPERSEDED)] = ()
    """The ids, or subjects, of records of the scope that end when a new message is accepted."""


class SessionQuery(Value, frozen=True, kw_only=True):
    """Which session to read back."""

    session: Name
    scope: Scope | None = None
    at: SnapshotId | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: PlaceCursor | None = None


class SessionsQuery(Value, frozen=True, kw_only=True):
    """Which sessions to list."""

    scope: ListedScope | None = None
    at: SnapshotId | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: PlaceCursor | None = None


class SessionPage(Value, frozen=True, kw_only=True):
    """Messages of a session, in order. All pages show the same snapshot."""

    memory_snapshot_id: int
    messages: list[SessionMessage]
    next: str | None = None


class SessionsPage(Value, frozen=True, kw_only=True):
    """Sessions, by scope and then in a fixed order. All pages show the same snapshot."""

    memory_snapshot_id: int
    sessions: list[SessionInfo]
    next: str | None = None
