"""Authentication of tool calls, and what a tool is made of.

A model reads the tools' docstrings to decide when to call them, and pays for every word of them.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import anyio.from_thread
import msgspec
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import Field, WithJsonSchema

from standfast.errors import InvalidValue, NoSuchSnapshot, NotFound, StandfastError
from standfast.records.requests import defaults_of
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import ALL_NAMESPACES, Caller, Permission
from standfast.server.mcp import texts
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.schemas import field_schemas
from standfast.server.operations.telemetry import CallTracer
from standfast.store.protocol import Progress

_T = TypeVar("_T")
WORKFLOW: Final = "mcp"
_FOR_PROGRAMS: Final = ("request_key", "cursor")
"""Arguments that a model has no use for."""
Answer = dict[str, Any]
"""An answer in the shape of another server."""
AnyContext = Context[Any, Any]

Namespace = Annotated[
    str | None, Field(description="The namespace of the memory; leave it out for your own.")
]
Explain = Annotated[bool, WithJsonSchema({"type": "boolean"})]
Authenticate = Callable[[Any], Caller]
"""Returns who makes a call, given the call's context; raises ``Unauthenticated``."""
Place = tuple[Gateway, Caller, str]


class Reply(NamedTuple):
    """What a tool answers: the text that a model reads, and the data for a program that asks for it."""

    text: str
    data: Value


class ToolAuth:
    """Authenticates each call of a tool, runs its operation, and turns errors into those of the SDK."""

    def __init__(
        self, gateway: Gateway, authenticate: Authenticate, *, tracer: CallTracer | None = None
    ) -> None:
        self.gateway = gateway
        self._authenticate = authenticate
        self._tracer = tracer or CallTracer()

    def call(
        self, context: Any, permission: Permission, namespace: str | None, operation: Callable[[Place], _T]
    ) -> _T:
        """Run the operation of a tool. ``ToolError`` has the message and the code."""
        try:
            return self._run(context, permission, namespace, operation)
        except StandfastError as error:
            raise ToolError(f"{error} [{error.code}]") from None

    def read(
        self, context: Any, permission: Permission, namespace: str, operation: Callable[[Place], _T]
    ) -> _T:
        """The same for a resource."""
        try:
            return self._run(context, permission, namespace, operation)
        except (InvalidValue, NotFound, NoSuchSnapshot) as error:
            raise ResourceNotFoundError(f"{error} [{error.code}]") from None
        except StandfastError as error:
            raise ResourceError(f"{error} [{error.code}]") from None

    def _run(
        self, context: Any, permission: Permission, namespace: str | None, operation: Callable[[Place], _T]
    ) -> _T:
        caller = None
        try:
            caller = self._authenticate(context)
            where = namespace or self._default_namespace(caller)
            began = self.gateway.clock.monotonic()
            with self._tracer.span(permission, where):
                answer = operation((self.gateway, caller, where))
        except StandfastError as error:
            self.gateway.log_refusal(
                error, interface="mcp", operation=permission.value, caller=caller, namespace=namespace
            )
            raise
        seconds = self.gateway.clock.monotonic() - began
        self.gateway.call_history.note(where, permission.value, HTTPStatus.OK, seconds)
        return answer

    def _default_namespace(self, caller: Caller) -> str:
        own = [namespace for namespace in caller.namespaces if namespace != ALL_NAMESPACES]
        home = self.gateway.home.namespace
        return home if caller.covers(home) or not own else own[0]


def progress_of(context: AnyContext) -> Progress:
    """A function that tells the client how far a call has come, for the thread of a tool.

    If the client has cancelled the call, the function ends it.
    """
    reported = 0

    def report(done: int, total: int) -> None:
        nonlocal reported
        anyio.from_thread.check_cancelled()
        percent = done * 100 // max(1, total)
        if percent > reported:
            reported = percent
            anyio.from_thread.run(context.report_progress, done, total)

    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """A tool: a function of the place that it works in and of its arguments, the permission it needs, and
    hints for clients.

    A function that takes a ``request`` is offered with the fields of the request's class. One that returns
    a dict answers in the shape of another server.
    """

    function: Callable[..., Reply | Answer]
    title: str
    permission: Permission
    reads: bool = False
    deletes: bool = False
    is_idempotent: bool = False
    whole_store: bool = False
    """Whether it belongs to no namespace, so that clients name none."""
    core: tuple[str, ...] = ()
    """The fields of its request that a model needs every day. Only these are in the small set of tools."""

    @property
    def name(self) -> str:
        """What clients call it by."""
        return self.function.__name__

    @property
    def is_own(self) -> bool:
        """Whether it answers in words, and with ``explain`` in data as well."""
        return bool(inspect.signature(self.function).return_annotation == Reply)

    def signature(self, *, is_small: bool = False) -> inspect.Signature:
        """What clients may give it, and the context that the SDK adds.

        Args:
            is_small: Whether a model pays for the definition: everyday arguments, described in a sentence.
        """
        own = inspect.signature(self.function)
        hidden = ("place", "context", "request", *(_FOR_PROGRAMS if is_small else ()))
        given = [one for name, one in own.parameters.items() if name not in hidden]
        request = self.request
        if request is not None:
            given += _parameters_of(request, self.core if is_small else None)
        extra = [_parameter("context", AnyContext, inspect.Parameter.empty)]
        if not (is_small or self.whole_store):
            extra.append(_parameter("namespace", Namespace, None))
        if self.is_own and "explain" not in {one.name for one in given}:
            extra.append(_parameter("explain", Explain, False))
        parameters = sorted((*given, *extra), key=lambda one: one.default is not inspect.Parameter.empty)
        return own.replace(parameters=parameters, return_annotation=CallToolResult)

    @property
    def request(self) -> type[Value] | None:
        """The class of its request; None for a tool with arguments of its own."""
        taken = inspect.signature(self.function).parameters.get("request")
        return None if taken is None else taken.annotation

    def bound_to(self, auth: ToolAuth, *, is_small: bool = False) -> Callable[..., CallToolResult]:
        """The function that the SDK calls and reads arguments and descriptions from."""
        own, request = set(inspect.signature(self.function).parameters), self.request

        def operation(place: Place, arguments: dict[str, Any]) -> Reply | Answer:
            given = {name: one for name, one in arguments.items() if name in own}
            if request is not None:
                # Models send null for what they leave out.
                fields = {name: one for name, one in arguments.items() if not (name in own or one is None)}
                given["request"] = request.from_json(fields)
            return self.function(place, **given)

        def call(*, context: AnyContext, namespace: str | None = None, **arguments: Any) -> CallToolResult:
            if "context" in own:
                arguments["context"] = context
            explains = bool(arguments.get("explain"))
            if request is None or "explain" not in request.__struct_fields__:
                arguments.pop("explain", None)
            answer = auth.call(context, self.permission, namespace, lambda place: operation(place, arguments))
            if not isinstance(answer, Reply):
                return result_of(texts.fitted_json(answer, reads=self.reads))
            return result_of(answer.text, answer.data if explains else None)

        signature = self.signature(is_small=is_small)
        call.__name__, call.__doc__ = self.name, inspect.getdoc(self.function)
        call.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
        call.__annotations__["return"] = CallToolResult
        vars(call)["__signature__"] = signature
        return call


def result_of(text: str, data: Value | None = None) -> CallToolResult:
    """A result whose text a model reads, with data for a program that asked for it."""
    structured = None if data is None else data.as_json()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default
    )


def _parameters_of(request: type[Value], core: Sequence[str] | None) -> Iterator[inspect.Parameter]:
    """The fields of a request as parameters, with the schemas that HTTP has for them.

    The request itself checks what is given.

    Args:
        core: Only these, each with a schema of its own that a model pays little for.
    """
    schemas, defaults = field_schemas(request), defaults_of(request)
    for name, schema in schemas.items():
        if core is not None and name not in core:
            continue
        default = defaults[name]
        if default is not inspect.Parameter.empty:
            default = msgspec.to_builtins(default)
        # The SDK takes a text apart as JSON unless it is sure that a text is wanted.
        kind = str if schema.get("type") == "string" else Any
        shown = schema if core is None else _brief_schema(schema)
        yield _parameter(name, Annotated[kind, WithJsonSchema(shown)], default)


def _brief_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The type of a field and the first sentence about it. The request checks limits and patterns."""
    plain = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    brief: dict[str, Any] = {"type": plain["type"]}
    if plain["type"] == "array":
        brief["items"] = {"type": plain["items"]["type"]}
    sentence, _, _ = schema["description"].partition(". ")
    return {**brief, "description": sentence}


def tool(
    title: str,
    permission: Permission,
    *,
    reads: bool = False,
    deletes: bool = False,
    is_idempotent: bool = False,
    whole_store: bool = False,
    core: tuple[str, ...] = (),
) -> Callable[[Callable[..., Reply | Answer]], McpTool]:
    """Make a tool of a function. What only reads is idempotent."""
    return lambda function: McpTool(
        function=function,
        title=title,
        permission=permission,
        reads=reads,
        deletes=deletes,
        is_idempotent=is_idempotent or reads,
        whole_store=whole_store,
        core=core,
    )
