"""CallTracer by the gen_ai memory conventions, without a word of what is remembered."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from starlette.testclient import TestClient

from standfast.client import Client
from standfast.errors import InvalidValue
from standfast.server.access.permissions import Permission
from standfast.server.app import build_app
from standfast.server.operations.telemetry import CallTracer
from tests.server.harness import FACT, HANDBOOK, Harness, Served

IN = "/v1/namespaces/default"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_calls_are_spans(harness: Harness) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = build_app(harness.gateway, tracer=CallTracer(provider))
    with TestClient(app, headers=harness.headers("agent", "default")) as client:
        client.post(f"{IN}/remember", json=FACT)
        client.post(f"{IN}/recall", json={"query": "refunds", "tokens": 100})
        client.post(f"{IN}/remember", json={**FACT, "supersedes": ["nobody"]})
        client.get(f"{IN}/status")
    remembered, recalled, failed, status = exporter.get_finished_spans()
    spans: list[dict[str, Any]] = [
        dict(span.attributes or {}) for span in (remembered, recalled, failed, status)
    ]

    assert [span.name for span in (remembered, recalled, failed, status)] == [
        "upsert_memory default",
        "search_memory default",
        "upsert_memory default",
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


def test_a_call_is_part_of_its_callers_trace(harness: Harness) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = build_app(harness.gateway, tracer=CallTracer(provider))
    with TestClient(app, headers=harness.headers("agent", "default")) as client:
        client.get(f"{IN}/status", headers={"traceparent": TRACEPARENT})
        client.get(f"{IN}/status", headers={"traceparent": "nonsense"})
    within, alone = exporter.get_finished_spans()

    assert within.parent is not None
    assert f"{within.parent.trace_id:032x}" == TRACEPARENT.split("-")[1]
    assert alone.parent is None


@pytest.mark.slow
def test_spans_reach_a_receiver_of_the_protocol_in_another_process(tmp_path: Path) -> None:
    """As users have it: the variable names the collector, the server sends what it did, and has sent it when
    it ends.
    """
    file = tmp_path / "spans.jsonl"
    command = [sys.executable, "-m", "tests.server.otlp_receiver", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        try:
            assert receiver.stdout is not None
            endpoint = f"http://127.0.0.1:{receiver.stdout.readline().strip()}"
            server = Served(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
            server.start()
            try:
                with Client(server.address, key=server.key) as memory:
                    memory.remember("EU refunds take 14 days.", source=HANDBOOK)
                    memory.recall("refunds")
                    with pytest.raises(InvalidValue):
                        memory.remember("EU refunds take 30 days.", supersedes="nobody", source=HANDBOOK)
            finally:
                server.process.stop()
        finally:
            receiver.terminate()
    spans = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    assert [span["name"] for span in spans] == [
        "upsert_memory default",
        "search_memory default",
        "upsert_memory default",
    ]
    assert {span["resource"]["service.name"] for span in spans} == {"standfast"}
    assert spans[0]["attributes"]["gen_ai.memory.store.id"] == "default"
    assert spans[2]["attributes"]["error.type"] == "invalid_value"
    assert [span["status"] for span in spans] == [0, 0, StatusCode.ERROR.value]
    assert "refunds" not in file.read_text(encoding="utf-8")


def test_without_opentelemetry_calls_are_just_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with CallTracer().span(Permission.STATUS, "default"):
        pass
