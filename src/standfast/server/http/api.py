"""The API under /v1: decodes a request, authorizes its caller, runs the operation, encodes the response.

Also the plain routes: health, readiness, metrics and the OpenAPI document.
"""

import re
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final, get_args, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from standfast.errors import (
    AccessError,
    InvalidValue,
    NotCanonical,
    NotFound,
    Overloaded,
    StandfastError,
    StoreError,
)
from standfast.limits import MAX_NAME_CHARS, SAFE_INTEGER
from standfast.optimize.prompts.overrides import PromptOverride
from standfast.records.canon import normal_string, parse
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import Caller, Permission
from standfast.server.edge.admission import ClientLeft
from standfast.server.edge.context import CLIENT_LEFT, ApiContext, client_left
from standfast.server.edge.event_streams import EVENTS_PATH, EventStreams
from standfast.server.edge.middleware import (
    ARRIVED_IN_SCOPE,
    METRICS_TYPE,
    NAMESPACE_IN_SCOPE,
    OPERATION_IN_SCOPE,
)
from standfast.server.edge.problems import plain_problem, response_of
from standfast.server.http.docs_page import docs_response
from standfast.server.http.endpoints import ENDPOINTS, REQUEST_KEY_HEADER, VERSION_HEADER, Endpoint
from standfast.server.http.open_runs import OpenRuns
from standfast.server.http.openapi import openapi_document

_MAX_QUERY_FIELDS: Final = 20
_REQUEST_KEY: Final = re.compile(f"[!-~]{{1,{MAX_NAME_CHARS}}}")
_INTEGER: Final = re.compile("0|-?[1-9][0-9]{0,15}")
_VERSION: Final = re.compile('"(0|[1-9][0-9]{0,14})"')
DOCS_PATH: Final = "/docs"
Handler = Callable[[Request], Awaitable[Response]]


class HttpApi:
    """The routes of the API, and the runs that clients hold open.

    Args:
        home_path: Where a browser is sent that asks for no path.
    """

    def __init__(self, context: ApiContext, *, home_path: str = DOCS_PATH) -> None:
        self._context = context
        self._home_path = home_path
        self.runs = OpenRuns(context.gateway)
        self._events = EventStreams(context, interface="http")

    async def _stream_events(self, request: Request) -> Response:
        def authenticate() -> Callable[[], Caller]:
            caller = self._context.authorize(request, Permission.EVENTS, None)
            return lambda: self._context.gateway.keyring.caller_of(caller.key_id)

        return await self._events.respond(request, authenticate)

    def routes(self) -> list[BaseRoute]:
        """All routes. Each path has one, so that a wrong method is answered with 405 and the right ones."""
        by_path: dict[str, dict[str, Endpoint]] = {}
        for endpoint in ENDPOINTS:
            by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        plain: dict[str, Handler] = {
            "/": self._home,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/openapi.json": self._openapi,
            DOCS_PATH: self._docs,
            "/metrics": self._metrics,
            EVENTS_PATH: self._stream_events,
        }
        return [
            *(Route(path, _EndpointApp(self._answer, by), methods=list(by)) for path, by in by_path.items()),
            *(Route(path, handler, methods=["GET"]) for path, handler in plain.items()),
        ]

    async def _answer(self, request: Request, endpoint: Endpoint) -> Response:
        context = self._context
        request.scope[OPERATION_IN_SCOPE] = endpoint.name
        namespace = request.path_params.get("namespace")
        try:
            # Only the holders of keys may wait, and no body of a stranger is read.
            caller, still_valid = await context.admit(request, endpoint.permission, namespace)
            body = await request.body() if endpoint.has_body else b""
            queue = context.queues.reads if endpoint.reads else context.queues.writes
            return await queue.run(
                caller.key_id,
                lambda: self._run(request, endpoint, still_valid(), body),
                gone=lambda: client_left(request),
                arrived_at=request.scope.get(ARRIVED_IN_SCOPE),
            )
        except (ClientLeft, ClientDisconnect):
            return Response(status_code=CLIENT_LEFT)
        except StandfastError as error:
            return await context.refusal(error, request, endpoint.permission.value, namespace)

    def _run(self, request: Request, endpoint: Endpoint, caller: Caller, body: bytes) -> Response:
        context = self._context
        namespace = request.path_params.get("namespace")
        request.scope[NAMESPACE_IN_SCOPE] = namespace
        if endpoint.has_body and not _is_json(request):
            return plain_problem(415, "Send the body as application/json.")
        arguments = self._arguments(request, endpoint, caller, body)
        with context.tracer.span(endpoint.permission, namespace, request.headers):
            answer = endpoint.operation(**arguments)
        headers = {"ETag": f'"{answer.version}"'} if isinstance(answer, PromptOverride) else None
        return Response(
            msgspec.json.encode(answer), endpoint.status, media_type="application/json", headers=headers
        )

    def _arguments(self, request: Request, endpoint: Endpoint, caller: Caller, body: bytes) -> dict[str, Any]:
        """The arguments of the operation. All of them are checked before it is called."""
        values: dict[str, Any] = {
            "self": self.runs,
            "gateway": self._context.gateway,
            "caller": caller,
            **request.path_params,
        }
        if "ledger_seq" in endpoint.parameters:
            values["ledger_seq"] = _ledger_seq(values["seq"])
        if "body" in endpoint.parameters:
            values["body"] = _decode(parse(body), endpoint.request)
        if "query" in endpoint.parameters:
            values["query"] = _decode(_typed(_query(request), endpoint.request), endpoint.request)
        if endpoint.takes_request_key:
            values["request_key"] = _request_key(request)
        if endpoint.takes_version:
            values["if_version"] = _version(request)
        return {name: values[name] for name in endpoint.parameters}

    async def _home(self, _: Request) -> Response:
        return RedirectResponse(self._home_path)

    async def _healthz(self, _: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def _readyz(self, _: Request) -> Response:
        try:
            head = await self._context.health_threads.run(self._context.gateway.store.head)
        except StoreError as error:
            return plain_problem(503, f"The store cannot be read now [{error.code}].")
        except Overloaded as error:
            return response_of(error)
        return JSONResponse({"status": "ready", "head": head})

    async def _openapi(self, _: Request) -> Response:
        return JSONResponse(openapi_document())

    async def _docs(self, _: Request) -> Response:
        return docs_response()

    async def _metrics(self, request: Request) -> Response:
        request.scope[OPERATION_IN_SCOPE] = "metrics"
        try:
            return await self._context.health_threads.run(lambda: self._metrics_text(request))
        except Overloaded as error:
            return response_of(error)
        except StandfastError as error:
            return await self._context.refusal(error, request, Permission.METRICS.value, None)

    def _metrics_text(self, request: Request) -> Response:
        context = self._context
        caller = context.authorize(request, Permission.METRICS, None)
        gateway = context.gateway
        head = gateway.store.head()
        entries = gateway.store.commit_of(head).ledger_seq if head else 0
        gauges = {
            "head_snapshot": ("The newest snapshot.", float(head)),
            "ledger_entries": ("Entries of the ledger up to the newest commit.", float(entries)),
            "open_runs": ("Runs that clients hold open.", float(len(self.runs))),
            "requests_under_way": ("Requests in progress.", float(context.metrics.in_progress)),
            "calls_under_way": ("Calls that run now.", float(context.queues.running)),
            "calls_waiting": ("Calls that wait for their turn.", float(context.queues.waiting)),
        }
        commits: list[str] = []
        if caller.covers_all:
            # What all tenants do together is for whoever may see all of them.
            gauges["store_bytes"] = (
                "Bytes of the store, with its history.",
                float(gateway.store.size_bytes()),
            )
            commits = [*gateway.commit_seconds.lines(), ""]
        text = (
            context.metrics.text(gauges)
            + "\n".join(commits)
            + gateway.metrics.text(gateway.open_memories(), caller.covers, names_sources=not caller.scopes)
        )
        return Response(text, headers={"Content-Type": METRICS_TYPE})


class _EndpointApp:
    """The endpoints of one path, as an ASGI application: a function would get several more layers."""

    def __init__(
        self, answer: Callable[[Request, Endpoint], Awaitable[Response]], by_method: dict[str, Endpoint]
    ) -> None:
        self._answer = answer
        self._by_method = by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        response = await self._answer(Request(scope, receive), self._by_method[method])
        await response(scope, receive, send)


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _ledger_seq(digits: str) -> int:
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 17
    if not (is_number and 0 < int(digits) <= SAFE_INTEGER):
        raise NotFound(what=f"ledger entry {digits!r:.40}")
    return int(digits)


def _decode(plain: object, kind: type[Value]) -> Value:
    try:
        return kind.from_json(plain)
    except InvalidValue:
        # JSON has one kind of numbers: 8.0 is a whole one.
        if repr(whole := _whole_numbers(plain)) == repr(plain):
            raise
    return _decode(whole, kind)


def _whole_numbers(plain: object) -> object:
    """The same JSON with whole numbers as integers, however they are written."""
    if isinstance(plain, list):
        return [_whole_numbers(one) for one in plain]
    if isinstance(plain, dict):
        return {name: _whole_numbers(one) for name, one in plain.items()}
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _typed(query: dict[str, str], kind: type[Value]) -> dict[str, Any]:
    """A query whose texts are integers and booleans where its class has them, written as JSON writes them.

    msgspec's own conversion would also take ``null``, ``1e3`` and ``TRUE``, against the OpenAPI document.
    """
    types = _plain_types(kind)
    return {name: _typed_value(text, types.get(name, frozenset())) for name, text in query.items()}


def _typed_value(text: str, types: frozenset[type]) -> str | int | bool:
    if bool in types and text in {"true", "false"}:
        return text == "true"
    return int(text) if int in types and _INTEGER.fullmatch(text) else text


@cache
def _plain_types(kind: type[Value]) -> dict[str, frozenset[type]]:
    """Which of int and bool each field may be."""
    types: dict[str, frozenset[type]] = {}
    for name, hint in get_type_hints(kind).items():
        members = {hint, *get_args(hint)}
        types[name] = frozenset(one for one in (int, bool) if one in members)
    return types


def _query(request: Request) -> dict[str, str]:
    raw: bytes = request.scope["query_string"]
    query: dict[str, str] = {}
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_QUERY_FIELDS
        )
        normal = [(normal_string(name), normal_string(value)) for name, value in pairs]
    except (ValueError, NotCanonical):
        problem = f"the query must be URL-encoded UTF-8 with at most {_MAX_QUERY_FIELDS} parameters"
        raise AccessError("bad_request", problem=problem) from None
    for name, value in normal:
        if name in query:
            raise AccessError("bad_request", problem=f"query parameter given twice: {name!r:.80}")
        query[name] = value
    return query


def _request_key(request: Request) -> str | None:
    keys = request.headers.getlist(REQUEST_KEY_HEADER)
    if not keys:
        return None
    if len(keys) > 1 or not _REQUEST_KEY.fullmatch(keys[0]):
        problem = f"send {REQUEST_KEY_HEADER} once, with 1 to {MAX_NAME_CHARS} visible ASCII characters"
        raise AccessError("bad_request", problem=problem)
    return keys[0]


def _version(request: Request) -> int:
    """The version to change. It is required, so that nobody overwrites a change they have not seen."""
    values = request.headers.getlist(VERSION_HEADER)
    match = _VERSION.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        problem = f'send {VERSION_HEADER} once, with the version to change as in its ETag, such as "3"'
        raise AccessError("bad_request", problem=problem)
    return int(match[1])
