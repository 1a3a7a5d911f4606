"""OpenTelemetry spans for calls, by the ``gen_ai`` memory conventions. Spans never contain what is remembered or asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from standfast.errors import StandfastError
from standfast.server.access.permissions import Permission
from standfast.server.operations.gateway import VERSION

PROVIDER: Final = "standfast"
# The conventions name only these operations. Spans of other calls are named after their permission.
OPERATION_NAMES: Final = {
    Permission.RECALL: "search_memory",
    Permission.REMEMBER: "upsert_memory",
    Permission.PROPOSE: "upsert_memory",
    Permission.FORGET: "delete_memory",
}


class CallTracer:
    """Makes a span for each call. Does nothing if OpenTelemetry is not installed.

    Args:
        provider: The tracer provider to use; by default the global one.
    """

    def __init__(self, provider: Any = None) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415  # An optional dependency.
        except ImportError:
            self._tracer: Any = None
        else:
            self._tracer = trace.get_tracer("standfast", VERSION, tracer_provider=provider)

    @contextmanager
    def span(self, permission: Permission, namespace: str | None) -> Iterator[None]:
        """Make the span of one call. If the call fails, the span has the code of the error and nothing else of it."""
        if self._tracer is None:
            yield
            return
        name = OPERATION_NAMES.get(permission)
        attributes = {"gen_ai.provider.name": PROVIDER, "standfast.act": permission.value}
        if namespace is not None:
            attributes["gen_ai.memory.store.id"] = namespace
        if name is not None:
            attributes["gen_ai.operation.name"] = name
        with self._tracer.start_as_current_span(
            f"{name} {namespace}" if name else f"standfast {permission.value}",
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except StandfastError as error:
                from opentelemetry.trace import StatusCode  # noqa: PLC0415  # As above.

                span.set_attribute("error.type", error.code)
                span.set_status(StatusCode.ERROR)
                raise
