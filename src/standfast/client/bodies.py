"""The bodies of requests: a recall, and messages in pages."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack

import msgspec

from standfast.errors import InvalidValue
from standfast.limits import MAX_BODY_BYTES, MAX_RUN_ITEMS
from standfast.memory.conversations import AddedMessages
from standfast.memory.messages import read_messages
from standfast.records.requests import RecallFields, RecallRequest
from standfast.server.operations.schemas import RecallBody


def recall_body(
    query: str, *, at: int | None = None, explain: bool = False, **fields: Unpack[RecallFields]
) -> RecallBody:
    """The body of a request to recall, from the arguments of ``Client.recall``."""
    asked = RecallRequest.of(query, **fields)
    return RecallBody(**msgspec.structs.asdict(asked), at=at, explain=explain)


def message_pages(messages: Iterable[Any]) -> Iterator[list[dict[str, Any]]]:
    """Messages as JSON, in pages that fit one request each. All of them are checked before the first page."""
    plain = [_plain_message(one) for one in messages] if _is_list(messages) else messages
    if not read_messages(plain):
        raise InvalidValue(what="messages", problem="there are none; give at least one")
    page: list[dict[str, Any]] = []
    size_bytes = 0
    for one in plain:
        own_bytes = len(msgspec.json.encode(one))
        if page and (len(page) == MAX_RUN_ITEMS or size_bytes + own_bytes > MAX_BODY_BYTES // 2):
            yield page
            page, size_bytes = [], 0
        page.append(one)
        size_bytes += own_bytes
    yield page


def _is_list(messages: object) -> bool:
    return isinstance(messages, Iterable) and not isinstance(messages, str | bytes | Mapping)


def _plain_message(message: Any) -> Any:
    """A message as JSON: a client library's object is dumped, and a datetime becomes text."""
    dump = getattr(message, "model_dump", None)
    plain = dump() if callable(dump) else message
    return msgspec.to_builtins(dict(plain)) if isinstance(plain, Mapping) else plain


def joined(added: AddedMessages, more: AddedMessages) -> AddedMessages:
    """The answers to two requests that add one after the other to a session, as one."""
    return msgspec.structs.replace(
        added,
        messages=added.messages + more.messages,
        receipts=added.receipts + more.receipts,
        facts=added.facts + more.facts,
        facts_problem=added.facts_problem or more.facts_problem,
        facts_code=added.facts_code or more.facts_code,
        facts_pending=added.facts_pending or more.facts_pending,
    )
