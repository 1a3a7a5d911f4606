"""The bodies of requests, checked before anything is sent."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from standfast.errors import InvalidValue
from standfast.limits import DEFAULT_MAX_ITEMS, DEFAULT_RECALL_TOKENS, MAX_BODY_BYTES, MAX_RUN_ITEMS
from standfast.memory.conversations import AddedMessages
from standfast.memory.messages import read_messages
from standfast.records.filters import Filter, Where
from standfast.records.origins import Origin
from standfast.records.requests import DEFAULT_CONTROLLER, ForgetRequest
from standfast.records.timestamps import instant_text
from standfast.records.vocabulary import JsonScalar
from standfast.server.operations import schemas
from standfast.server.operations.schemas import AddBody


def remember_body(
    text: str,
    *,
    subject: str | None = None,
    source: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    refs: Sequence[Mapping[str, Any]] = (),
    propose: bool = False,
    hold: str | None = None,
    scope: str | None = None,
    metadata: Mapping[str, JsonScalar] | None = None,
    session: str | None = None,
    position: int | None = None,
    speaker: str | None = None,
    valid_from: str | datetime | None = None,
    valid_until: str | datetime | None = None,
    supersedes: str | Sequence[str] = (),
) -> schemas.RememberBody:
    """The body of a request to remember, from the arguments of ``Client.remember``."""
    return schemas.RememberBody.from_json(
        {
            "text": text,
            "subject": subject,
            "source": dict(source) if isinstance(source, Mapping) else source,
            "tags": tags,
            "refs": refs,
            "propose": propose,
            "hold": hold,
            "scope": scope,
            "metadata": dict(metadata) if isinstance(metadata, Mapping) else metadata or {},
            "session": session,
            "position": position,
            "speaker": speaker,
            "valid_from": None if valid_from is None else instant_text(valid_from, what="valid_from"),
            "valid_until": None if valid_until is None else instant_text(valid_until, what="valid_until"),
            "supersedes": [supersedes] if isinstance(supersedes, str) else list(supersedes),
        }
    )


def recall_body(
    query: str,
    *,
    tokens: int = DEFAULT_RECALL_TOKENS,
    max_items: int = DEFAULT_MAX_ITEMS,
    scope: str | None = None,
    scopes: Sequence[str] | None = None,
    where: Filter | Where | None = None,
    controller: str = DEFAULT_CONTROLLER,
    now_utc: str | None = None,
    least_origin: Origin | str | None = None,
    include_unreviewed: bool = False,
    explain: bool = False,
) -> schemas.RecallBody:
    """The body of a request to recall, from the arguments of ``Client.recall``, but for ``at``."""
    return schemas.RecallBody.from_json(
        {
            "query": query,
            "tokens": tokens,
            "max_items": max_items,
            "scope": scope,
            "scopes": scopes,
            "where": Filter.of(where).at_least(least_origin).as_json() or None,
            "controller": controller,
            "now_utc": now_utc,
            "include_unreviewed": include_unreviewed,
            "explain": explain,
        }
    )


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


def add_body(
    messages: Sequence[dict[str, Any]],
    *,
    scope: str | None,
    session: str | None,
    position: int | None,
    tags: Sequence[str],
    metadata: Mapping[str, JsonScalar] | None,
    supersedes: str | Sequence[str],
) -> AddBody:
    """The body of a request to add messages, from the arguments of ``Client.add``."""
    return AddBody.from_json(
        {
            "messages": messages,
            "scope": scope,
            "session": session,
            "position": position,
            "tags": tags,
            "metadata": dict(metadata) if isinstance(metadata, Mapping) else metadata or {},
            "supersedes": [supersedes] if isinstance(supersedes, str) else list(supersedes),
        }
    )


def joined(added: AddedMessages, more: AddedMessages) -> AddedMessages:
    """The answers to two requests that add one after the other to a session, as one."""
    return msgspec.structs.replace(
        added, messages=added.messages + more.messages, receipts=added.receipts + more.receipts
    )


def forget_body(
    subject: str | None,
    *,
    reason: str,
    scope: str | None,
    memory_id: str | None,
    source: Mapping[str, str] | None,
    rehearse: bool,
) -> schemas.ForgetBody:
    """The body of a request to forget, from the arguments of ``Client.forget``."""
    ForgetRequest.of(
        subject=subject, memory_id=memory_id, scope=scope, source=source, reason=reason, rehearse=rehearse
    )
    return schemas.ForgetBody.from_json(
        {
            "subject": subject,
            "reason": reason or "rehearsal",
            "scope": scope,
            "memory_id": memory_id,
            "source": None if source is None else dict(source),
            "rehearse": rehearse,
        }
    )
