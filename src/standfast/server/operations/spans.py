"""Spans for OpenTelemetry, where it is installed, by the conventions for memory of generative AI (``gen_ai.memory``).

What is remembered or asked for is never put into a span.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from standfast.errors import StandfastError
from standfast.server.access.table import Act
from standfast.server.operations.hall import VERSION

PROVIDER: Final = "standfast"
# Acts that the conventions have a word for; the others are spans of their own name.
WORD_OF_ACT: Final = {
    Act.RECALL: "search_memory",
    Act.REMEMBER: "upsert_memory",
    Act.PROPOSE: "upsert_memory",
    Act.FORGET: "delete_memory",
}


class Spans:
    """Makes a span for each call. Without OpenTelemetry, or a provider of it, that costs next to nothing."""

    def __init__(self, provider: Any = None) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415  # An extra: only who has it pays for it.
        except ImportError:
            self._tracer: Any = None
        else:
            self._tracer = trace.get_tracer("standfast", VERSION, tracer_provider=provider)

    @contextmanager
    def of(self, act: Act, namespace: str | None) -> Iterator[None]:
        """The span of one call; an error leaves its code in it, and nothing else."""
        if self._tracer is None:
            yield
            return
        word = WORD_OF_ACT.get(act)
        told = {"gen_ai.provider.name": PROVIDER, "standfast.act": act.value}
        if namespace is not None:
            told["gen_ai.memory.store.id"] = namespace
        if word is not None:
            told["gen_ai.operation.name"] = word
        name = f"{word} {namespace}" if word else f"standfast {act.value}"
        with self._tracer.start_as_current_span(
            name, attributes=told, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except StandfastError as error:
                span.set_attribute("error.type", error.code)
                self._fail(span)
                raise

    @staticmethod
    def _fail(span: Any) -> None:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415  # As above.

        span.set_status(StatusCode.ERROR)
