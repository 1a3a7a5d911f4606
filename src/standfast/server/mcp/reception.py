"""Who calls a tool, in which namespace, and what they are told when it fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ToolError

from standfast.errors import StandfastError, Unauthenticated
from standfast.server.access.table import ALL_NAMESPACES, Act, Caller
from standfast.server.operations.hall import Hall
from standfast.server.operations.spans import Spans
from standfast.vocabulary import Value

CALLER_IN_SCOPE: Final = "standfast.caller"
CallerOf = Callable[[Any], Caller]
"""What finds out, from a call's context, who makes it; raises ``Unauthenticated``."""


class Reception:
    """Lets callers of tools in, one call at a time."""

    def __init__(self, hall: Hall, caller_of: CallerOf, *, spans: Spans | None = None) -> None:
        self.hall = hall
        self._caller_of = caller_of
        self._spans = spans or Spans()

    def ask(
        self,
        context: Any,
        act: Act,
        namespace: str | None,
        verb: Callable[[Hall, Caller, str], Value],
    ) -> dict[str, Any]:
        """What a verb answers, as plain JSON; an error is told in words, with its code."""
        caller = None
        with self._telling(ToolError):
            try:
                caller = self._caller_of(context)
                where = namespace or self.default_namespace(caller)
                with self._spans.of(act, where):
                    return verb(self.hall, caller, where).as_json()
            except StandfastError as error:
                self.hall.refused(error, door="mcp", act=act.value, caller=caller, namespace=namespace)
                raise

    def read(
        self, context: Any, act: Act, namespace: str, verb: Callable[[Hall, Caller, str], Value]
    ) -> dict[str, Any]:
        """The same for a resource."""
        with self._telling(ResourceError):
            try:
                return self.ask(context, act, namespace, verb)
            except ToolError as error:
                raise ResourceError(str(error)) from None

    def default_namespace(self, caller: Caller) -> str:
        """Where a caller is who does not say."""
        own = [namespace for namespace in caller.namespaces if namespace != ALL_NAMESPACES]
        home = self.hall.home.namespace
        return home if caller.reaches(home) or not own else own[0]

    @staticmethod
    @contextmanager
    def _telling(kind: type[Exception]) -> Iterator[None]:
        try:
            yield
        except StandfastError as error:
            raise kind(f"{error} [{error.code}]") from None


def caller_of_request(context: Context[Any, Any]) -> Caller:
    """Who makes a call over HTTP: whoever the gate in front of the SDK let in with this very request."""
    request = context.request_context.request
    caller = None if request is None else request.scope.get(CALLER_IN_SCOPE)
    if not isinstance(caller, Caller):
        raise Unauthenticated(problem="the call came around the door")
    return caller
