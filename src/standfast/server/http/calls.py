"""One call: read it within bounds, let the caller in, do it in a thread, answer."""

import logging
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from standfast.canon import normal_string, parse
from standfast.errors import BadRequest, InvalidValue, NotCanonical, Overloaded, StandfastError
from standfast.limits import DOOR_THREADS, MAX_NAME_CHARS, MAX_WAITING_CALLS
from standfast.server.access.table import REACH_OF_ACT, Act, Caller, Reach, require
from standfast.server.http.metrics import Metrics
from standfast.server.http.problems import TRY_AGAIN, answer_of, plain_problem, status_of
from standfast.server.http.rows.operation import REQUEST_KEY_HEADER, VERSION_HEADER, Call, Operation
from standfast.server.http.runs import OpenRuns
from standfast.server.operations import shapes
from standfast.server.operations.hall import Hall
from standfast.server.operations.spans import Spans
from standfast.vocabulary import Value

log: Final = logging.getLogger("standfast.server.http")
OPERATION_IN_SCOPE: Final = "standfast.operation"
CALLER_IN_SCOPE: Final = "standfast.caller"
# A body of this size or less is read before the key is looked at, which saves a turn in a thread.
_SMALL_BYTES: Final = 16 << 10
_MAX_QUERY_FIELDS: Final = 20
_REQUEST_KEY: Final = re.compile(f"[!-~]{{1,{MAX_NAME_CHARS}}}")
_VERSION: Final = re.compile('"(0|[1-9][0-9]{0,14})"')
_T = TypeVar("_T")


class Threads:
    """Where the synchronous core works: so many threads, and so many calls that wait for one."""

    def __init__(self, most: int = DOOR_THREADS, most_waiting: int = MAX_WAITING_CALLS) -> None:
        self._limiter = anyio.CapacityLimiter(most)
        self._most_waiting = most_waiting
        self.under_way = 0

    async def do(self, work: Callable[[], _T]) -> _T:
        """The result of ``work``, done in a thread; ``Overloaded`` if too many wait already."""
        if self.under_way >= self._most_waiting:
            raise Overloaded(what=f"{self._most_waiting} calls")
        self.under_way += 1
        try:
            # What was begun is finished even if its caller is gone: an answer may be lost, an effect is never half done.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=False, limiter=self._limiter)
        finally:
            self.under_way -= 1


class Door:
    """All that the endpoints share."""

    def __init__(self, hall: Hall, *, spans: Spans | None = None) -> None:
        self.hall = hall
        self.runs = OpenRuns(hall)
        self.threads = Threads()
        self.metrics = Metrics()
        self.spans = spans or Spans()

    def admitted(self, request: Request, act: Act, namespace: str | None) -> Caller:
        """Who calls, if the table lets them do this there. What is refused is told to the access log by ``refuse``."""
        caller = self.hall.caller_of(token_of(request), peer=peer_of(request))
        request.scope[CALLER_IN_SCOPE] = caller
        require(caller, act, namespace if REACH_OF_ACT[act] is Reach.NAMESPACE else None)
        return caller

    def refuse(
        self, error: StandfastError, request: Request, act: str, namespace: str | None, *, door: str = "http"
    ) -> Response:
        """The answer to a call that failed; the log is told of our troubles, the access log of refusals."""
        caller = request.scope.get(CALLER_IN_SCOPE)
        self.hall.refused(
            error, door=door, act=act, caller=caller, namespace=namespace, peer=peer_of(request)
        )
        if status_of(error) >= 500 and error.code not in TRY_AGAIN:
            log.error("%s: %s [%s]", act, error, error.code)
        return answer_of(error)

    async def answer(self, request: Request, operation: Operation) -> Response:
        """The answer to one call of one operation."""
        request.scope[OPERATION_IN_SCOPE] = operation.name
        namespace = request.path_params.get("namespace")
        try:
            if operation.has_body and _declared_bytes(request) > _SMALL_BYTES:
                await self.threads.do(lambda: self.admitted(request, operation.act, namespace))
            body = await request.body() if operation.has_body else b""
            return await self.threads.do(lambda: self._work(request, operation, body))
        except StandfastError as error:
            refused = error
        return await anyio.to_thread.run_sync(
            lambda: self.refuse(refused, request, operation.act.value, namespace)
        )

    def _work(self, request: Request, operation: Operation, body: bytes) -> Response:
        namespace = request.path_params.get("namespace")
        try:
            caller = request.scope.get(CALLER_IN_SCOPE) or self.admitted(request, operation.act, namespace)
            if operation.has_body and not _is_json(request):
                return plain_problem(415, "Send the body as application/json.")
            call = Call(
                hall=self.hall,
                runs=self.runs,
                caller=caller,
                path=request.path_params,
                asked=_asked(request, operation, body),
                request_key=_request_key(request) if operation.takes_request_key else None,
                if_version=_version(request) if operation.takes_version else 0,
            )
            with self.spans.of(operation.act, namespace):
                answer = operation.does(call)
        except StandfastError as error:
            return self.refuse(error, request, operation.act.value, namespace)
        version_of = operation.version_of
        headers = None if version_of is None else {"ETag": f'"{version_of(answer)}"'}
        return Response(
            msgspec.json.encode(answer), operation.status, media_type="application/json", headers=headers
        )


def token_of(request: Request) -> str | None:
    """The token that came with a request."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def peer_of(request: Request) -> str:
    """Where a request came from."""
    return request.client.host if request.client else "unknown"


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _declared_bytes(request: Request) -> int:
    """How long the body says it is; one that does not say may be long."""
    declared = request.headers.get("content-length", "")
    return int(declared[:12]) if declared.isascii() and declared.isdigit() else _SMALL_BYTES + 1


def _asked(request: Request, operation: Operation, body: bytes) -> Value:
    if operation.has_body:
        return _shaped(parse(body), operation.asks, is_text=False)
    if operation.asks is shapes.Nothing:
        return shapes.Nothing()
    return _shaped(_query(request), operation.asks, is_text=True)


def _shaped(plain: object, kind: type[Value], *, is_text: bool) -> Value:
    try:
        return msgspec.convert(plain, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        raise InvalidValue(what=kind.__name__, problem=str(error)) from None


def _query(request: Request) -> dict[str, Any]:
    raw: bytes = request.scope["query_string"]
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_QUERY_FIELDS
        )
        asked = {normal_string(name): normal_string(value) for name, value in pairs}
    except (ValueError, NotCanonical):
        raise BadRequest(problem="the query is no form of UTF-8 text, or has too many fields") from None
    if len(asked) != len(pairs):
        raise BadRequest(problem="a field of the query stands there twice")
    return asked


def _request_key(request: Request) -> str | None:
    keys = request.headers.getlist(REQUEST_KEY_HEADER)
    if not keys:
        return None
    if len(keys) > 1 or not _REQUEST_KEY.fullmatch(keys[0]):
        raise BadRequest(
            problem=f"{REQUEST_KEY_HEADER} is 1 to {MAX_NAME_CHARS} visible ASCII characters, once"
        )
    return keys[0]


def _version(request: Request) -> int:
    """The version that is to be changed. Without one, a caller would undo what it never saw."""
    given = request.headers.getlist(VERSION_HEADER)
    found = _VERSION.fullmatch(given[0]) if len(given) == 1 else None
    if found is None:
        problem = f'{VERSION_HEADER} is the version that is to be changed, as its ETag says: "3", once'
        raise BadRequest(problem=problem)
    return int(found[1])
