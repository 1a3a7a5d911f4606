"""OpenTelemetry spans for calls, by the ``gen_ai`` memory conventions, and metrics by namespace in
Prometheus' text format.

Spans never contain what is remembered or asked. The labels of metrics come from closed sets, so that callers
cannot make them grow; of sources, only the worst that the watch names have one.
Of namespaces, the first ones that calls name have their own; the rest are counted
together.
"""

import logging
import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import accumulate, islice
from typing import Any, Final

from standfast.errors import StandfastError
from standfast.limits import (
    MAX_METRIC_NAMESPACES,
    MAX_NAME_CHARS,
    MAX_WATCHED_COMMITS,
    MAX_WATCHED_LABELS,
    SCAN_PAGE_RECORDS,
)
from standfast.memory import Memory
from standfast.memory.band_budgets import budget_key
from standfast.memory.watch import CachedWatch
from standfast.records.canon import parse
from standfast.records.vocabulary import Receipt, Verdict
from standfast.server.access.permissions import Permission

VERSION: Final = version("standfast")
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
BUCKETS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
OTHER_NAMESPACES: Final = ""
"""The label of namespaces that have none of their own.

No namespace can have this name, and no key for some namespaces covers it.
"""
Labels = tuple[tuple[str, str], ...]
Samples = dict[Labels, float]


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
        """Make the span of one call.

        If the call fails, the span has the code of the error and nothing else of it.

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
    """Send the spans of this process to a collector while the block lasts, if variables name one.

    A program that was started by ``opentelemetry-instrument`` sends them already. Spans wait in memory, up to
    a bound; what cannot be sent is dropped, and never delays a call.
    """
    if not any(os.environ.get(name) for name in EXPORT_VARIABLES):
        yield
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415  # As above.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415  # As above.
            OTLPSpanExporter,
        )
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


class Histogram:
    """Durations in Prometheus' text format. Safe to share between threads."""

    def __init__(self, name: str, description: str) -> None:
        self._name = f"standfast_{name}"
        self._description = description
        self._lock = threading.Lock()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def observe(self, seconds: float, label: str = "") -> None:
        """Count a duration, under a label such as ``operation="recall"``."""
        with self._lock:
            buckets = self._buckets.setdefault(label, [0] * (len(BUCKETS_SECONDS) + 1))
            buckets[bisect_left(BUCKETS_SECONDS, seconds)] += 1
            self._seconds[label] = self._seconds.get(label, 0.0) + seconds

    def lines(self) -> list[str]:
        """The lines of all labels."""
        lines = [f"# HELP {self._name} {self._description}", f"# TYPE {self._name} histogram"]
        with self._lock:
            for label, buckets in sorted(self._buckets.items()):
                bounds, counts = [*map(str, BUCKETS_SECONDS), "+Inf"], list(accumulate(buckets))
                more, only = (f"{label},", f"{{{label}}}") if label else ("", "")
                lines += [
                    f'{self._name}_bucket{{{more}le="{bound}"}} {count}'
                    for bound, count in zip(bounds, counts, strict=True)
                ]
                lines.append(f"{self._name}_sum{only} {self._seconds[label]:.6f}")
                lines.append(f"{self._name}_count{only} {counts[-1]}")
        return lines


class NamespaceMetrics:
    """Counts what is done in each namespace. Safe to share between threads."""

    def __init__(self, max_namespaces: int = MAX_METRIC_NAMESPACES) -> None:
        self._lock = threading.Lock()
        self._max_namespaces = max_namespaces
        self._names: set[str] = set()
        self._answered: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._judged: Counter[tuple[str, str]] = Counter()
        self._commits: Counter[str] = Counter()
        self.watch = CachedWatch()

    def answered(self, namespace: str, status: int, seconds: float) -> None:
        """Count an authorized call that was answered."""
        with self._lock:
            label = self._label_of(namespace)
            self._answered[label, str(status)] += 1
            self._seconds[label] += seconds  # type: ignore[assignment]  # A counter adds fractions too.

    def wrote(
        self, namespace: str, verdicts: Iterable[Verdict | None] = (), receipts: Iterable[Receipt | None] = ()
    ) -> None:
        """Count the verdicts and commits of a call; None stands for none. Repeated ones do not count."""
        given = [receipt for receipt in receipts if receipt is not None]
        if any(receipt.replayed for receipt in given):
            return
        with self._lock:
            label = self._label_of(namespace)
            self._judged.update((label, verdict.value) for verdict in verdicts if verdict is not None)
            self._commits[label] += len(given)

    def _troubled(self, memories: Sequence[Memory]) -> tuple[str, str, str, Samples]:
        """The sources that the watch names."""
        watch = self.watch.of(memories[0].store, [memory.namespace for memory in memories])
        worst = sorted(watch.sources, key=lambda one: (-one.recent.troubled, one.source))
        labels, samples = Counter[str](), Samples()
        for one in worst:
            labels[one.namespace] += 1
            if labels[one.namespace] <= MAX_WATCHED_LABELS:
                samples[_namespace(one.namespace, source=one.source)] = one.recent.troubled
        about = f"Troubled writes of 7 days, of sources that jumped, in {MAX_WATCHED_COMMITS} commits."
        return "source_troubled_writes", "gauge", about, samples

    def _label_of(self, namespace: str) -> str:
        is_name = 0 < len(namespace) <= MAX_NAME_CHARS and namespace.isprintable()
        if is_name and len(self._names) < self._max_namespaces:
            self._names.add(namespace)
        return namespace if namespace in self._names else OTHER_NAMESPACES

    def text(
        self,
        memories: Mapping[str, Memory],
        is_shown: Callable[[str], bool],
        *,
        names_sources: bool = True,
    ) -> str:
        """All metrics of the namespaces that the caller may know of.

        Args:
            memories: The memories whose present state is told, by namespace; of those that have a label.
            names_sources: Whether the caller may know of the sources of all scopes.
        """
        with self._lock:
            answered = {_namespace(name, status=status): n for (name, status), n in self._answered.items()}
            seconds = {_namespace(name): float(value) for name, value in self._seconds.items()}
            judged = {_namespace(name, verdict=verdict): n for (name, verdict), n in self._judged.items()}
            commits = {_namespace(name): n for name, n in self._commits.items() if n}
            named = sorted(self._names & memories.keys())
        shown = [memories[name] for name in named if is_shown(name)]
        families: list[tuple[str, str, str, Mapping[Labels, float]]] = [
            ("namespace_requests_total", "counter", "Answered calls, by namespace and status.", answered),
            ("namespace_request_seconds_total", "counter", "Time that calls took, by namespace.", seconds),
            ("judged_total", "counter", "Verdicts on texts and messages, by namespace.", judged),
            ("commits_total", "counter", "Commits that calls made, by namespace.", commits),
            *_present(shown),
        ]
        if names_sources and named:
            families.append(self._troubled([memories[name] for name in named]))
        lines: list[str] = []
        for name, kind, description, samples in families:
            lines += [f"# HELP standfast_{name} {description}", f"# TYPE standfast_{name} {kind}"]
            for labels in sorted(samples):
                if is_shown(dict(labels)["namespace"]):
                    lines.append(f"standfast_{name}{{{_text_of(labels)}}} {_number(samples[labels])}")
        return "\n".join(lines) + "\n"


def _present(memories: Iterable[Memory]) -> Iterator[tuple[str, str, str, Samples]]:
    """The present state of memories."""
    behind, rows, index_bytes = Samples(), Samples(), Samples()
    waiting, limits, used = Samples(), Samples(), Samples()
    for memory in memories:
        own = _namespace(memory.namespace)
        status = memory.reader.index.upkeep.status()
        behind[own] = status.behind
        rows[own] = sum(band.rows for band in status.bands)
        index_bytes[own] = sum(band.size_bytes for band in status.bands)
        waiting[own] = sum(1 for _ in islice(memory.approvals.waiting(), SCAN_PAGE_RECORDS))
        budgets = memory.band_budgets.budgets
        keys = {band: budget_key(band) for band in budgets}
        stored = memory.store.read(memory.namespace, sorted(keys.values())) if keys else {}
        for band, key in keys.items():
            labels = _namespace(memory.namespace, band=band.value)
            limits[labels] = budgets[band].max_bytes
            used[labels] = parse(stored[key].content or b"{}").get("used_bytes", 0) if key in stored else 0
    yield "index_behind_snapshots", "gauge", "Newest snapshots that the stored index does not have.", behind
    yield "index_rows", "gauge", "Rows of the stored index, by namespace.", rows
    yield "index_bytes", "gauge", "Bytes of the stored index, by namespace.", index_bytes
    yield "proposals_waiting", "gauge", f"Proposals that wait, up to {SCAN_PAGE_RECORDS}.", waiting
    yield "budget_max_bytes", "gauge", "The byte budget of a band.", limits
    yield "budget_used_bytes", "gauge", "Bytes that a band's records use of its budget.", used


def _namespace(name: str, **labels: str) -> Labels:
    return (("namespace", name), *sorted(labels.items()))


def _text_of(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6f}"
