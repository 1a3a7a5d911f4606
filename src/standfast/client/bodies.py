"""The bodies of requests, checked before anything is sent."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from standfast.origins import Origin
from standfast.recall.filters import Filter, Where
from standfast.remember_request import instant_text
from standfast.server.operations import schemas
from standfast.vocabulary import JsonScalar


def remember_body(
    text: str,
    *,
    subject: str | None,
    source: Mapping[str, Any] | None,
    tags: Sequence[str],
    refs: Sequence[Mapping[str, Any]],
    propose: bool,
    hold: str | None,
    scope: str | None,
    metadata: Mapping[str, JsonScalar] | None,
    session: str | None,
    position: int | None,
    speaker: str | None,
    valid_from: str | datetime | None,
    valid_until: str | datetime | None,
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
        }
    )


def recall_body(
    query: str,
    *,
    tokens: int,
    max_items: int,
    at: int | None = None,
    scope: str | None,
    scopes: Sequence[str] | None,
    where: Filter | Where | None,
    controller: str,
    now_utc: str | None,
    least_origin: Origin | str | None,
    include_unreviewed: bool,
) -> schemas.RecallBody:
    """The body of a request to recall, from the arguments of ``Client.recall``."""
    return schemas.RecallBody.from_json(
        {
            "query": query,
            "tokens": tokens,
            "max_items": max_items,
            "at": at,
            "scope": scope,
            "scopes": scopes,
            "where": Filter.of(where).at_least(least_origin).as_json() or None,
            "controller": controller,
            "now_utc": now_utc,
            "include_unreviewed": include_unreviewed,
        }
    )
