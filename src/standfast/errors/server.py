"""Errors of the server, its clients and the adapters."""

from standfast.errors.root import StandfastError


class AccessError(StandfastError):
    """A door refuses a call. Nothing was changed."""

    code = "access"
    says = "The call is refused."


class Unauthenticated(AccessError):
    """No valid API key came with the call."""

    code = "unauthenticated"
    says = "The call has no valid API key: {problem}; send the header 'Authorization: Bearer sf_…'."


class Forbidden(AccessError):
    """The key is valid, but not for this."""

    code = "forbidden"
    says = "A key of role {role} does not open '{act}' in {where}: {problem}."


class RateLimited(AccessError):
    """Too many calls in too short a time."""

    code = "rate_limited"
    says = "Too many calls; try again in {retry_after_seconds} seconds."


class Overloaded(AccessError):
    """More is under way than the server takes on at once."""

    code = "overloaded"
    says = "The server is at work on all that it takes on at once ({what}); try again in a moment."


class TooManyRuns(AccessError):
    """One caller holds all the open runs that one may."""

    code = "too_many_runs"
    says = "This key has {open_runs} open runs, which is all that one may have; commit or discard one."


class NotFound(AccessError):
    """There is no such thing, or it is not the caller's."""

    code = "not_found"
    says = "There is no {what}."


class NotConfigured(NotFound):
    """The server's settings name no place for this."""

    code = "not_configured"
    says = "This server has no {what}; name one in its settings: {setting} = …"


class RequestReused(AccessError):
    """The same idempotency key came with another request."""

    code = "request_reused"
    says = "The idempotency key {request_key} was used for another request; send a new key with new content."


class BadRequest(AccessError):
    """The request can't be read as what this operation takes."""

    code = "bad_request"
    says = "The request can't be read: {problem}."


class UnsafeBind(AccessError):
    """Serving like this would let anybody listen in, or in."""

    code = "unsafe_bind"
    says = "Not serving on {host}: {problem}"


class Unreachable(AccessError):
    """No answer came from the server. What was sent with an idempotency key can be sent again."""

    code = "unreachable"
    says = "{address} does not answer: {problem}; try again, with the same idempotency key."


class ServerFailed(AccessError):
    """The server failed, or is no Standfast server."""

    code = "server_failed"
    says = "{address} failed: {problem}."


class PutRefused(StandfastError):
    """The judge refused something of a batch, so that nothing of the batch was remembered."""

    code = "put_refused"
    says = "{subject} was refused ({verdict}), and with it its whole batch: {reasons}"
