"""Errors of the server, its clients and the adapters."""

from standfast.errors.root import StandfastError


class AccessError(StandfastError):
    """The server refuses a call. Nothing was changed."""

    code = "access"
    says = "The server refused the call."


class Unauthenticated(AccessError):
    """The call has no valid API key."""

    code = "unauthenticated"
    says = "The call has no valid API key: {problem}. Send the header 'Authorization: Bearer sf_…'."


class Forbidden(AccessError):
    """The API key is valid, but lacks the permission."""

    code = "forbidden"
    says = "A key of role {role} may not '{act}' in {where}: {problem}."


class RateLimited(AccessError):
    """Too many calls in too short a time."""

    code = "rate_limited"
    says = "Too many calls; try again in {retry_after_seconds} seconds."


class Overloaded(AccessError):
    """The server has reached one of its limits on concurrent work."""

    code = "overloaded"
    says = "The server is at its limit ({what}); try again in a moment."


class TooManyRuns(AccessError):
    """The API key holds as many open runs as one key may."""

    code = "too_many_runs"
    says = "This key has {open_runs} open runs, the most it may have now; commit or discard one."


class NotFound(AccessError):
    """The thing does not exist, or it is not the caller's."""

    code = "not_found"
    says = "There is no {what}."


class NotConfigured(NotFound):
    """The server's settings do not name a place for this."""

    code = "not_configured"
    says = "This server has no {what}; name one in its settings: {setting} = …"


class RequestReused(AccessError):
    """The idempotency key was used for another request."""

    code = "request_reused"
    says = "The idempotency key {request_key} was used for another request; use a new key for new content."


class BadRequest(AccessError):
    """The request is malformed."""

    code = "bad_request"
    says = "The request is malformed: {problem}."


class UnsafeBind(AccessError):
    """The server cannot listen at this address, or must not."""

    code = "unsafe_bind"
    says = "Cannot serve on {host}: {problem}"


class Unreachable(AccessError):
    """The server did not respond. A request with an idempotency key can be sent again."""

    code = "unreachable"
    says = "{address} does not answer: {problem}. Try again, with the same idempotency key."


class ServerFailed(AccessError):
    """The server failed, or it is not a Standfast server."""

    code = "server_failed"
    says = "{address} failed: {problem}."


class PutRefused(StandfastError):
    """The judge refused an item of a batch, so nothing of the batch was remembered."""

    code = "put_refused"
    says = "{subject} was refused ({verdict}), and with it the whole batch: {reasons}"
