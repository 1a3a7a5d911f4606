"""The outermost layer: overload, host names, origins, proxies."""

import asyncio
import io
import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from standfast.server.app import build_full_app
from standfast.server.edge.admission import CallQueues
from standfast.server.edge.middleware import TrustedProxies
from standfast.server.logs import LogFormat, logging_to
from standfast.server.settings import ServerSettings
from standfast.settings import Settings
from tests.server.harness import Harness

IN = "/v1/namespaces/default"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
MCP_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture
def overloaded(harness: Harness) -> Iterator[TestClient]:
    """A server that takes on no more calls."""
    app, _ = build_full_app(harness.gateway, queues=CallQueues(harness.gateway.clock, slots=0, max_waiting=0))
    with TestClient(app, base_url="http://localhost", headers=harness.headers("operator", "*")) as client:
        yield client


@pytest.fixture
def public(harness: Harness) -> Iterator[TestClient]:
    """A server behind a proxy, reached as memory.example.com."""
    names = ServerSettings(host_names=("memory.example.com",), trusted_proxies=("10.0.0.0/8",))
    settings = Settings(sections=(names,))
    app, _ = build_full_app(harness.gateway, behind_tls=True, settings=settings)
    with TestClient(app, base_url="https://memory.example.com", client=("10.1.2.3", 5)) as client:
        yield client


def test_health_and_metrics_do_not_wait_behind_calls(overloaded: TestClient) -> None:
    ready, metrics = overloaded.get("/readyz"), overloaded.get("/metrics")

    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert metrics.status_code == 200
    assert overloaded.get("/healthz").status_code == 200


def test_an_overloaded_server_says_so_at_every_path(overloaded: TestClient) -> None:
    api = overloaded.get(f"{IN}/status")
    mcp = overloaded.post("/mcp", json=INITIALIZE, headers=MCP_HEADERS)
    console = overloaded.get("/console/login")

    assert [one.status_code for one in (api, mcp, console)] == [503, 503, 503]
    assert [one.json()["code"] for one in (api, mcp)] == ["overloaded", "overloaded"]
    assert api.headers["retry-after"] == mcp.headers["retry-after"] == "1"


def test_an_mcp_call_whose_client_left_before_its_turn_is_dropped(harness: Harness) -> None:
    queues = CallQueues(harness.gateway.clock, slots=0)
    app, _ = build_full_app(harness.gateway, queues=queues)
    headers = {**MCP_HEADERS, **harness.headers("agent", "default"), "Host": "localhost"}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }
    messages: Iterator[Message] = iter(
        [
            {"type": "http.request", "body": json.dumps(INITIALIZE).encode(), "more_body": False},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[Message] = []

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))

    assert [one["status"] for one in sent if one["type"] == "http.response.start"] == [499]
    assert queues.waiting == 0


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("https://memory.example.com", 200),
        ("https://evil.example", 403),
        ("https://memory.example.com.evil.example", 403),
        ("https://memory.example.com:8443", 403),
        ("null", 403),
        ("", 403),
        ("memory.example.com", 403),
        ("chrome-extension://memory.example.com", 403),
    ],
)
def test_mcp_is_not_for_web_pages_of_other_origins(
    public: TestClient, harness: Harness, origin: str | None, status: int
) -> None:
    headers = {**MCP_HEADERS, **harness.headers("agent", "default")}
    if origin is not None:
        headers["Origin"] = origin

    assert public.post("/mcp", json=INITIALIZE, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("memory.example.com", 200),
        ("MEMORY.example.com:443", 200),
        ("localhost:8765", 200),
        ("evil.example", 421),
        ("memory.example.com.evil.example", 421),
    ],
)
def test_a_server_behind_a_proxy_answers_to_its_own_names_only(
    public: TestClient, host: str, status: int
) -> None:
    assert public.get("/openapi.json", headers={"Host": host}).status_code == status


def test_health_is_told_under_any_name(public: TestClient) -> None:
    """Load balancers ask by address."""
    assert public.get("/healthz", headers={"Host": "10.0.0.9:8765"}).status_code == 200
    assert public.get("/readyz", headers={"Host": "10.0.0.9:8765"}).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/v1/nothing", f"{IN}/status", "/console/login"])
def test_every_answer_has_a_request_id(public: TestClient, path: str) -> None:
    """The caller's, if it has the form of one, so that its logs and ours can be joined."""
    given = public.get(path, headers={"X-Request-Id": "trace-7.a"}).headers["x-request-id"]
    made = [
        public.get(path, headers={"X-Request-Id": bad}).headers["x-request-id"]
        for bad in ("", "a b", "x" * 65)
    ]

    assert given == "trace-7.a"
    assert all(len(one) == 32 for one in made)
    assert len(set(made)) == 3


def test_each_request_is_one_line_of_the_log_without_its_query(public: TestClient, harness: Harness) -> None:
    stream = io.StringIO()
    headers = harness.headers("agent", "default") | {"X-Request-Id": "r-1", "X-Forwarded-For": "203.0.113.7"}
    with logging_to(stream, log_format=LogFormat.JSON, requests=True):
        public.get(f"{IN}/history", params={"subject": "user/ada"}, headers=headers)
        public.get("/nothing")
    first, second = map(json.loads, stream.getvalue().splitlines())
    with logging_to(silent := io.StringIO()):
        public.get("/nothing")

    assert first["milliseconds"] >= 0
    assert {name: first[name] for name in first if name not in {"at", "milliseconds"}} == {
        "level": "info",
        "logger": "standfast.server.requests",
        "message": "answered",
        "request_id": "r-1",
        "method": "GET",
        "path": f"{IN}/history",
        "operation": "history",
        "key_id": harness.caller("agent", "default").key_id,
        "peer": "203.0.113.7",
        "status": 200,
    }
    assert (second["status"], second["operation"], second["key_id"]) == (404, "other", None)
    assert silent.getvalue() == ""


@pytest.mark.parametrize(
    ("client", "forwarded", "peer"),
    [
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["2001:DB8::1"], "2001:db8::1"),
        ("10.0.0.1", ["unknown"], None),
        ("10.0.0.1", ["203.0.113.9, <script>"], None),
        ("10.0.0.1", [""], None),
        ("10.0.0.1", [], None),
        ("203.0.113.9", ["198.51.100.1"], None),
        ("testclient", ["198.51.100.1"], None),
    ],
)
def test_only_trusted_proxies_say_where_a_request_came_from(
    client: str, forwarded: list[str], peer: str | None
) -> None:
    assert TrustedProxies(["10.0.0.0/8"]).peer_behind((client, 1), forwarded) == peer
    assert TrustedProxies([]).peer_behind((client, 1), forwarded) is None


def test_refusals_name_the_peer_behind_the_proxy_also_when_they_are_only_counted(
    public: TestClient, harness: Harness
) -> None:
    for number in range(30):
        public.get(f"{IN}/status", headers={"X-Forwarded-For": f"203.0.113.{number % 2}"})
    told = harness.refusals()
    counts = [group for fact in told for group in fact.get("refused_too", [])]

    assert {fact["refused"]["peer"] for fact in told if "refused" in fact} == {"203.0.113.0", "203.0.113.1"}
    assert {group["peer"]: group["times"] for group in counts} == {"203.0.113.0": 10, "203.0.113.1": 10}


def test_metrics_count_authorized_calls_by_namespace_and_show_a_key_its_own(harness: Harness) -> None:
    app, _ = build_full_app(harness.gateway)
    with TestClient(app, base_url="http://localhost") as client:
        for namespace in ("default", "legal"):
            client.get(f"/v1/namespaces/{namespace}/status", headers=harness.headers("agent", namespace))
        client.get("/v1/namespaces/secret/status", headers=harness.headers("agent", "default"))
        client.get("/v1/namespaces/default/record", headers=harness.headers("agent", "default"))
        whole = client.get("/metrics", headers=harness.headers("auditor", "*")).text
        own = client.get("/metrics", headers=harness.headers("auditor", "legal")).text

    assert 'standfast_namespace_requests_total{namespace="default",status="200"} 1' in whole
    assert 'standfast_namespace_requests_total{namespace="default",status="422"} 1' in whole
    assert 'standfast_namespace_requests_total{namespace="legal",status="200"} 1' in own
    assert 'standfast_namespace_request_seconds_total{namespace="legal"}' in own
    assert 'namespace="default"' not in own
    assert "secret" not in whole


def test_a_body_with_two_lengths_is_refused(public: TestClient) -> None:
    """A proxy in front may believe the other one, and take a part of the body for a request."""
    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    answer = public.post("/v1/namespaces/default/recall", content=b"{}", headers=headers)

    assert answer.status_code == 400
    assert "not both" in answer.json()["detail"]
