"""Errors as answers: problem+json (RFC 9457), with the stable code of the error and a status that follows from it."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from standfast.errors import RateLimited, StandfastError
from standfast.vocabulary import Value

CONTENT_TYPE: Final = "application/problem+json"
RETRY_SECONDS: Final = 1

# By code, so that a room's errors can stand here before the room does; an error without a row has its parent's.
STATUS_OF_CODE: Final = {
    "standfast": 500,
    "invalid_value": 422,
    "invalid_settings": 500,
    "missing_extra": 500,
    "not_authorised": 403,
    "not_governed": 422,
    "access": 500,
    "unauthenticated": 401,
    "forbidden": 403,
    "rate_limited": 429,
    "overloaded": 503,
    "too_many_runs": 429,
    "not_found": 404,
    "not_configured": 404,
    "request_reused": 422,
    "bad_request": 400,
    "store": 500,
    "no_such_snapshot": 404,
    "not_allowed": 409,
    "run_over": 409,
    "commit_aborted": 409,
    "payload_mismatch": 409,
    "stale_fence": 409,
    "store_busy": 503,
    "store_failed": 503,
    "outcome_unknown": 503,
    "checkpoint_file_failed": 503,
    "approval": 422,
    "invalid_signers": 500,
    "no_such_proposal": 404,
    "not_pending": 409,
    "approval_replayed": 409,
    "not_proven": 500,
    "not_canonical": 400,
    "canon_size": 413,
    "recall": 422,
    "prompt": 422,
    "version_conflict": 412,
    "overrides_unavailable": 503,
    "damaged_override": 500,
    "no_rollback": 409,
}
TRY_AGAIN: Final = frozenset(
    {"rate_limited", "overloaded", "store_busy", "store_failed", "outcome_unknown", "checkpoint_file_failed"}
)


class Problem(Value, frozen=True, kw_only=True):
    """An error: caught by its ``code``, never by its text. ``facts`` are what the text is made of."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    facts: dict[str, Any]


def status_of(error: StandfastError) -> int:
    """The status of the nearest class that has one."""
    return next(
        STATUS_OF_CODE[kind.code]
        for kind in type(error).__mro__
        if issubclass(kind, StandfastError) and kind.code in STATUS_OF_CODE
    )


def problem_of(error: StandfastError) -> Problem:
    """What may be told of an error. What is the server's own trouble is told in its log, not to callers."""
    status = status_of(error)
    is_ours = status >= 500 and error.code not in TRY_AGAIN
    return Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail="The server's log says more." if is_ours else str(error),
        code=error.code,
        facts={} if is_ours else _plain(error.facts),
    )


def answer_of(error: StandfastError, headers: Mapping[str, str] | None = None) -> Response:
    """The error as a response."""
    told = dict(headers or {})
    if error.code == "unauthenticated":
        told["WWW-Authenticate"] = 'Bearer realm="standfast"'
    if error.code in TRY_AGAIN:
        seconds = error.facts["retry_after_seconds"] if isinstance(error, RateLimited) else RETRY_SECONDS
        told["Retry-After"] = str(seconds)
    return response_of(problem_of(error), told)


def plain_problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A problem of HTTP itself: no such address, no such method, too slow."""
    phrase = HTTPStatus(status).phrase
    code = phrase.lower().replace(" ", "_").replace("-", "_")
    return response_of(
        Problem(type="about:blank", title=phrase, status=status, detail=detail, code=code, facts={}),
        dict(headers or {}),
    )


def response_of(problem: Problem, headers: dict[str, str]) -> Response:
    """A problem as a response."""
    return Response(
        msgspec.json.encode(problem), status_code=problem.status, headers=headers, media_type=CONTENT_TYPE
    )


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON; what is none is shown as text."""
    plain: dict[str, Any] = msgspec.to_builtins(
        facts, enc_hook=lambda value: f"{value!r:.200}", str_keys=True
    )
    return plain
