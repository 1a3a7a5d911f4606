"""OpenTelemetry spans for calls, by the ``gen_ai`` memory conventions. Spans never contain what is remembered or asked."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from standfast.errors import StandfastError
from standfast.server.access.permissions import Permission
from standfast.server.operations.gateway import VERSION

log: Final = logging.getLogger("standfast.server")
PROVIDER: Final = "standfast"
EXPORT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables. If one is set, spans are sent to the collector there."""
_CONTEXT_HEADERS: Final = ("traceparent", "tracestate", "baggage")
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
    def span(
        self, permission: Permission, namespace: str | None, headers: Mapping[str, str] | None = None
    ) -> Iterator[None]:
        """Make the span of one call. If the call fails, the span has the code of the error and nothing else of it.

        Args:
            headers: Those of the request. With a ``traceparent``, the span is a part of the caller's trace.
        """
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
            context=_parent_in(headers),
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


def _parent_in(headers: Mapping[str, str] | None) -> Any:
    """The caller's trace, if the headers name one."""
    if headers is None or "traceparent" not in headers:
        return None
    from opentelemetry.propagate import extract  # noqa: PLC0415  # As above.

    return extract({name: headers[name] for name in _CONTEXT_HEADERS if name in headers})


@contextmanager
def exporting_spans() -> Iterator[None]:
    """Send the spans of this process to a collector while the block lasts, if OpenTelemetry's variables name one.

    A program that was started by ``opentelemetry-instrument`` sends them already. Spans wait in memory, up to a bound; what cannot be
    sent is dropped, and never delays a call.
    """
    if not any(os.environ.get(name) for name in EXPORT_VARIABLES):
        yield
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415  # As above.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # As above.
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415  # As above.
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # As above.
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # As above.
    except ImportError:
        log.warning("no spans are sent: install what it takes with pip install 'standfast[otel]'")
        yield
        return
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        yield
        return
    attributes = {"service.version": VERSION}
    if not (
        os.environ.get("OTEL_SERVICE_NAME") or SERVICE_NAME in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    ):
        attributes[SERVICE_NAME] = PROVIDER
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
