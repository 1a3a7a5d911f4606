"""Errors as responses: problem+json (RFC 9457) with the stable code of the error and its HTTP status."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from standfast.errors import RateLimited, StandfastError
from standfast.records.vocabulary import Value

CONTENT_TYPE: Final = "application/problem+json"
RETRY_SECONDS: Final = 1
INTERNAL_ERROR: Final = "Internal error; the server's log has the details."

# By error code. An error without a row has the status of its class, or of the nearest parent with one.
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
    "above_ceiling": 403,
    "run_over": 409,
    "commit_aborted": 409,
    "payload_mismatch": 409,
    "message_conflict": 409,
    "profile_conflict": 409,
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
    "extraction": 409,
    "recall": 422,
    "recall_embedding": 503,
    "prompt": 422,
    "version_conflict": 412,
    "overrides_unavailable": 503,
    "damaged_override": 500,
    "no_rollback": 409,
}
RETRYABLE: Final = frozenset(
    {
        "rate_limited",
        "overloaded",
        "store_busy",
        "store_failed",
        "outcome_unknown",
        "checkpoint_file_failed",
        "recall_embedding",
    }
)


class Problem(Value, frozen=True, kw_only=True):
    """An error. Catch it by ``code``, not by its text; ``facts`` are the values in the text."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    facts: dict[str, Any]


def status_of(error: StandfastError) -> int:
    """The HTTP status of an error."""
    classes = [kind.code for kind in type(error).__mro__ if issubclass(kind, StandfastError)]
    return next(STATUS_OF_CODE[code] for code in (error.code, *classes) if code in STATUS_OF_CODE)


def is_internal(error: StandfastError) -> bool:
    """Whether an error is the server's own, so that its details belong in the log only."""
    return status_of(error) >= 500 and error.code not in RETRYABLE


def problem_of(error: StandfastError) -> Problem:
    """The problem that a caller is shown. Details of internal errors go to the log, not to the caller."""
    status = status_of(error)
    hidden = is_internal(error)
    return Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=INTERNAL_ERROR if hidden else str(error),
        code=error.code,
        facts={} if hidden else _plain(error.facts),
    )


def response_of(error: StandfastError) -> Response:
    """The response for an error."""
    headers: dict[str, str] = {}
    if error.code == "unauthenticated":
        headers["WWW-Authenticate"] = 'Bearer realm="standfast"'
    if error.code in RETRYABLE:
        seconds = error.facts["retry_after_seconds"] if isinstance(error, RateLimited) else RETRY_SECONDS
        headers["Retry-After"] = str(seconds)
    return _response(problem_of(error), headers)


def plain_problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The response for a problem of HTTP itself, such as an unknown path or a slow body."""
    phrase = HTTPStatus(status).phrase
    code = phrase.lower().replace(" ", "_").replace("-", "_")
    return _response(
        Problem(type="about:blank", title=phrase, status=status, detail=detail, code=code, facts={}),
        dict(headers or {}),
    )


def _response(problem: Problem, headers: dict[str, str]) -> Response:
    return Response(
        msgspec.json.encode(problem), status_code=problem.status, headers=headers, media_type=CONTENT_TYPE
    )


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON. Values that JSON does not have become text."""
    plain: dict[str, Any] = msgspec.to_builtins(
        facts, enc_hook=lambda value: f"{value!r:.200}", str_keys=True
    )
    return plain
