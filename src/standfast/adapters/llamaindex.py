"""LlamaIndex's memory over ``Memory``: where its messages are kept, and a block of what memory says.

    memory = Memory.open("agent.db")
    agent_memory = llama_index.core.memory.Memory.from_defaults(
        session_id="monday",
        chat_store=StandfastChatStore(memory, scope="user/ada"),
        memory_blocks=[StandfastMemoryBlock(memory, scope="user/ada", accept_short_term_memory=False)],
    )

Messages come back exactly as they were given; ``session_items.py`` says how they are kept. What LlamaIndex
moves out of its queue is kept in a second session, ``NAME (archived)``.
"""

from collections.abc import Sequence
from typing import Any, Final

from standfast.adapters.on_refusal import OnRefusal
from standfast.adapters.session_items import ItemSession, StoredItems
from standfast.adapters.threads import in_thread
from standfast.errors import InvalidValue, MissingExtra
from standfast.limits import DEFAULT_RECALL_TOKENS
from standfast.memory import Memory
from standfast.records.canon import fingerprint
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED, checked_scope
from standfast.records.vocabulary import member_of

try:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
except ImportError:
    raise MissingExtra(feature="LlamaIndex's memory", extra="llamaindex") from None

_WORKFLOW: Final = "llamaindex"
_ARCHIVED: Final = " (archived)"
_MESSAGE: Final = "llama_index"
# Roles that other libraries do not have.
_ROLES: Final = {"chatbot": "assistant"}


class StandfastChatStore(AsyncDBChatStore):
    """LlamaIndex's chat store: the messages of each key are a session of a scope.

    Args:
        memory: Where the messages are stored.
        scope: Whose they are, e.g. ``"user/ada"``.
        on_refusal: What becomes of a message that the judge refuses. ``"redact"``, the default, keeps it
            without its secrets; ``"skip"`` leaves it out; ``"raise"`` adds nothing of the call.
        max_origin: The most that a message may be trusted, whatever its role.
    """

    _memory: Memory = PrivateAttr()
    _scope: str = PrivateAttr()
    _on_refusal: OnRefusal = PrivateAttr()
    _max_origin: Origin = PrivateAttr()

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str = SHARED,
        on_refusal: OnRefusal | str = OnRefusal.REDACT,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> None:
        super().__init__()
        self._memory = memory
        self._scope = checked_scope(scope)
        self._on_refusal = OnRefusal.of(on_refusal)
        self._max_origin = member_of(Origin, max_origin, what="max_origin")

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex serialises it."""
        return "StandfastChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return the messages of a key, oldest first; with ``status=None`` the archived ones come first."""
        found = await in_thread(lambda: [_message(item) for item, _ in self._items(key, status)])
        first = offset or 0
        return found[first:] if limit is None else found[first : first + limit]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """Count the messages of a key."""
        return len(await self.get_messages(key, status))

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Judge a message and add it."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Judge messages and add them behind the others."""
        items = [_item(message) for message in messages]
        await in_thread(lambda: self._session(key, status).add(items))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Erase the messages of a key, and add others."""
        items = [_item(message) for message in messages]
        await in_thread(lambda: self._session(key, status).replace(items))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Erase the active message at an index and return it; None if there is none."""
        taken = await in_thread(lambda: self._taken(key, slice(idx, idx + 1) if idx >= 0 else slice(0)))
        return taken[0] if taken else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Erase the messages of a key, by default the archived ones too."""

        def delete() -> None:
            for one in _statuses(status):
                self._session(key, one).clear()

        await in_thread(delete)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Erase the oldest active messages and return them."""
        return await in_thread(lambda: self._taken(key, slice(max(0, n))))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Move the oldest active messages to the archive and return them."""

        def archive() -> list[ChatMessage]:
            archived = self._session(key, MessageStatus.ARCHIVED)
            oldest = self._items(key, MessageStatus.ACTIVE)[: max(0, n)]
            for item, records in oldest:
                # If the process ends before they are taken, they are in both; nothing is lost. The id keeps
                # callers who archive at once from archiving one twice.
                archived.add([item], run_id=f"archive-{fingerprint([self._scope, records[0].memory_id])}")
            names = {records[0].memory_id for _, records in oldest}
            return self._taken(key, names)

        return await in_thread(archive)

    async def get_keys(self) -> list[str]:
        """Return the keys that have messages."""

        def keys() -> list[str]:
            names = {one.session.removesuffix(_ARCHIVED) for one in self._memory.sessions(scope=self._scope)}
            return [name for name in sorted(names) if self._items(name, None)]

        return await in_thread(keys)

    def _session(self, key: str, status: MessageStatus) -> ItemSession:
        is_archive = status == MessageStatus.ARCHIVED
        return ItemSession(
            f"{key}{_ARCHIVED}" if is_archive else key,
            self._memory,
            scope=self._scope,
            workflow=_WORKFLOW,
            shown=_shown,
            on_refusal=self._on_refusal,
            max_origin=self._max_origin,
        )

    def _items(self, key: str, status: MessageStatus | None) -> StoredItems:
        found = [one for part in _statuses(status) for one in self._session(key, part).items()]
        return [one for one in found if _MESSAGE in one[0]]

    def _taken(self, key: str, chosen: slice | set[str]) -> list[ChatMessage]:
        """Erase active messages, by place or by the ids of their records, and return them."""

        def among(found: StoredItems) -> StoredItems:
            ours = [one for one in found if _MESSAGE in one[0]]
            if isinstance(chosen, slice):
                return ours[chosen]
            return [one for one in ours if one[1][0].memory_id in chosen]

        return [_message(item) for item, _ in self._session(key, MessageStatus.ACTIVE).take(among)]


def _statuses(status: MessageStatus | None) -> Sequence[MessageStatus]:
    return (MessageStatus.ARCHIVED, MessageStatus.ACTIVE) if status is None else (status,)


def _item(message: ChatMessage) -> dict[str, Any]:
    if not isinstance(message, ChatMessage):
        raise InvalidValue(what="message", problem=f"it must be a ChatMessage, not {message!r:.80}")
    return {**_said(message), _MESSAGE: message.model_dump(mode="json")}


def _said(message: ChatMessage) -> dict[str, Any]:
    """Who said it, and the words."""
    role = str(message.role.value)
    return {"role": _ROLES.get(role, role), "content": message.content or ""}


def _shown(item: dict[str, Any]) -> dict[str, Any]:
    """The message that an item is, which says at least that it is there."""
    content = item["content"] if item["content"].strip() else "[message without text]"
    return {"role": item["role"], "content": content}


def _message(item: dict[str, Any]) -> ChatMessage:
    return ChatMessage.model_validate(item[_MESSAGE])


class StandfastMemoryBlock(BaseMemoryBlock[str]):
    """A block of LlamaIndex's memory: what memory says about the newest message of the user.

    The text is framed as quoted memory, and fits the token budget. Messages that leave LlamaIndex's queue are
    added to memory, unless ``accept_short_term_memory=False``, which a ``StandfastChatStore`` of the same
    scope asks for, because it keeps them already.

    Args:
        memory: What is recalled from.
        scope: Whose memory.
        tokens: The token budget.
    """

    name: str = Field(default="memory")
    scope: str = Field(default=SHARED)
    tokens: int = Field(default=DEFAULT_RECALL_TOKENS)
    _memory: Memory = PrivateAttr()

    def __init__(self, memory: Memory, **fields: Any) -> None:
        super().__init__(**fields)
        checked_scope(self.scope)
        self._memory = memory

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        asked = [message.content for message in messages or () if message.role.value == "user"]
        query = next((text for text in reversed(asked) if text and text.strip()), None)
        if query is None:
            return ""
        package = await in_thread(
            lambda: self._memory.recall(
                query, scope=self.scope, tokens=block_kwargs.get("tokens", self.tokens)
            )
        )
        return package.text if package.items else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        said = [_said(message) for message in messages]
        kept = [one for one in said if one["content"].strip()]
        session = next((message.additional_kwargs.get("session_id") for message in messages), None)
        if kept:
            await in_thread(
                lambda: self._memory.add(kept, scope=self.scope, session=session, workflow=_WORKFLOW)
            )
