"""CallTracer by the gen_ai memory conventions, without a word of what is remembered."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from standfast.server.access.permissions import Permission
from standfast.server.app import build_app
from standfast.server.operations.telemetry import CallTracer
from tests.server.harness import FACT, Harness

IN = "/v1/namespaces/default"


def test_calls_are_spans(harness: Harness) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = build_app(harness.gateway, tracer=CallTracer(provider))
    with TestClient(app, headers=harness.headers("agent", "default")) as client:
        client.post(f"{IN}/remember", json=FACT)
        client.post(f"{IN}/recall", json={"query": "refunds", "tokens": 100})
        client.post(f"{IN}/forget", json={"subject": "nobody", "reason": "asked to"})
        client.get(f"{IN}/status")
    remembered, recalled, failed, status = exporter.get_finished_spans()
    spans: list[dict[str, Any]] = [
        dict(span.attributes or {}) for span in (remembered, recalled, failed, status)
    ]

    assert [span.name for span in (remembered, recalled, failed, status)] == [
        "upsert_memory default",
        "search_memory default",
        "delete_memory default",
        "standfast status",
    ]
    assert spans[0] == {
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.provider.name": "standfast",
        "gen_ai.memory.store.id": "default",
        "standfast.act": "remember",
    }
    assert spans[2]["error.type"] == "invalid_value"
    assert not failed.status.is_ok
    assert "refunds" not in str([spans, [span.events for span in exporter.get_finished_spans()]])


def test_without_opentelemetry_calls_are_just_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with CallTracer().span(Permission.STATUS, "default"):
        pass
