"""The permission matrix: every endpoint and every tool, for every role, in its own and a foreign namespace.

The expected permissions are repeated here in full, so that a mistake in the table shows.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import anyio
import pytest
from mcp.client.client import Client as McpClient
from starlette.testclient import TestClient

from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.app import build_app
from standfast.server.http.endpoints import ENDPOINTS, Endpoint
from standfast.server.mcp.server import ALL_TOOLS, ToolSet, build_server
from standfast.server.operations.gateway import Gateway
from tests.server.artifacts import TEMPLATE, artifact_harness, put_body
from tests.server.harness import FACT, HANDBOOK, Harness

ALL, WRITERS, OVERSEERS, OPERATOR = "agent operator auditor", "agent operator", "operator auditor", "operator"
ROLES_OF_ROUTE = {
    "status": ALL,
    "recall": ALL,
    "recall_batch": ALL,
    "list_records": ALL,
    "get_record": ALL,
    "history": ALL,
    "snapshots": ALL,
    "diff": ALL,
    "remember": WRITERS,
    "remember_batch": WRITERS,
    "forget": WRITERS,
    "add": WRITERS,
    "session": ALL,
    "sessions": ALL,
    "profile": ALL,
    "conflicts": ALL,
    "settle": WRITERS,
    "open_run": WRITERS,
    "get_run": WRITERS,
    "discard_run": WRITERS,
    "recall_in_run": ALL,
    "remember_in_run": WRITERS,
    "record_in_run": WRITERS,
    "forget_in_run": WRITERS,
    "commit_run": WRITERS,
    "list_proposals": ALL,
    "get_proposal": ALL,
    "decide": OPERATOR,
    "due": OVERSEERS,
    "sweep": OPERATOR,
    "list_refusals": OVERSEERS,
    "lift_refusal": OPERATOR,
    "investigate": ALL,
    "quarantine": OPERATOR,
    "release": OPERATOR,
    "revert": OPERATOR,
    "list_quarantines": OVERSEERS,
    "ledger": OVERSEERS,
    "receipt": ALL,
    "checkpoint": OPERATOR,
    "verify": ALL,
    "list_namespaces": ALL,
    "list_keys": OVERSEERS,
    "create_key": OPERATOR,
    "revoke_key": OPERATOR,
    "list_traces": OVERSEERS,
    "compare_traces": OVERSEERS,
    "get_trace": OVERSEERS,
    "bench": OVERSEERS,
    "get_prompt": ALL,
    "put_prompt": OPERATOR,
    "roll_back_prompt": OPERATOR,
    "metrics": OVERSEERS,
}
NEEDS_ALL_NAMESPACES = {
    *("ledger", "checkpoint"),
    *("list_traces", "compare_traces", "get_trace", "bench", "get_prompt", "put_prompt", "roll_back_prompt"),
}
ROLES_OF_TOOL = {
    "memory_read": ALL,
    "memory_remember": WRITERS,
    "memory_history": ALL,
    "memory_list": ALL,
    "memory_forget": WRITERS,
    "memory_verify": ALL,
    "memory_status": ALL,
    "memory_add": WRITERS,
    "memory_session": ALL,
    "memory_sessions": ALL,
    "memory_profile": ALL,
    "memory_conflicts": ALL,
    "memory_settle": WRITERS,
    "memory_investigate": ALL,
    "add_memory": WRITERS,
    "search_memories": ALL,
    "get_memories": ALL,
    "get_memory": ALL,
    "update_memory": WRITERS,
    "delete_memory": WRITERS,
    "delete_all_memories": WRITERS,
    "create_entities": WRITERS,
    "create_relations": WRITERS,
    "add_observations": WRITERS,
    "delete_entities": WRITERS,
    "delete_observations": WRITERS,
    "delete_relations": WRITERS,
    "read_graph": ALL,
    "search_nodes": ALL,
    "open_nodes": ALL,
}
BODIES: dict[str, dict[str, Any]] = {
    "recall": {"query": "refunds", "tokens": 100},
    "remember": {"text": "US refunds take 30 days.", "source": HANDBOOK},
    "recall_batch": {"items": [{"query": "refunds", "tokens": 100}]},
    "remember_batch": {"items": [{"text": "CH refunds take 20 days.", "source": HANDBOOK}]},
    "forget": {"subject": "policy/eu-refunds", "reason": "asked to"},
    "add": {"messages": [{"role": "user", "content": "I live in Oslo."}], "session": "s"},
    "settle": {"all": True, "reason": "newest holds", "rehearse": True},
    "record": {"guardrail": "no_refund_above_100"},
    "investigate": {"source": {"kind": "doc", "id": "handbook"}},
    "quarantine": {"source": {"kind": "doc", "id": "handbook"}, "rehearse": True},
    "release": {"act_id": "none", "reason": "it was right"},
    "revert": {"since_snapshot": 0, "rehearse": True},
    "open_run": {"workflow": "triage", "mode": "buffered_write"},
    "create_key": {"name": "bot", "namespaces": ["own"]},
    "decide": {"signature": "no signature"},
    "put_prompt": put_body(),
    "roll_back_prompt": {"prompt": TEMPLATE.as_json()},
}
QUERIES = {
    "get_record": "memory_id=policy/eu-refunds",
    "history": "subject=x",
    "session": "session=s",
    "diff": "old=0",
    "compare_traces": "left=run-a&right=run-b",
}
PLACES = {
    "namespace": "own",
    "run_id": "run-a",
    "proposal_id": "0" * 64,
    "seq": "2",
    "key_id": "nobody",
    "ns": "agent",
    "prompt_key": "support",
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "memory_read": {"query": "refunds"},
    "memory_remember": {"text": "US refunds take 30 days."},
    "memory_history": {"subject": "policy/eu-refunds"},
    "memory_forget": {"subject": "policy/eu-refunds", "reason": "asked to"},
    "memory_add": {"messages": [{"role": "user", "content": "I live in Oslo."}], "session": "s"},
    "memory_session": {"session": "s"},
    "memory_settle": {"conflict_id": "none", "keep": "neither", "reason": "asked to"},
    "memory_investigate": {"source": {"kind": "doc", "id": "handbook"}},
    "add_memory": {"text": "FR refunds take 20 days.", "user_id": "ann"},
    "search_memories": {"query": "refunds", "user_id": "ann"},
    "get_memories": {"user_id": "ann"},
    "get_memory": {"memory_id": "shared//policy/eu-refunds"},
    "update_memory": {"memory_id": "shared//policy/eu-refunds", "text": "EU refunds take 15 days."},
    "delete_memory": {"memory_id": "shared//policy/eu-refunds"},
    "delete_all_memories": {"user_id": "ann"},
    "create_entities": {"entities": [{"name": "Ann", "entityType": "Person", "observations": []}]},
    "create_relations": {"relations": [{"from": "Ann", "to": "Bob", "relationType": "knows"}]},
    "add_observations": {"observations": [{"entityName": "Ann", "contents": ["Ann likes tea."]}]},
    "delete_entities": {"entityNames": ["Ann"]},
    "delete_observations": {"deletions": [{"entityName": "Ann", "observations": ["Likes tea."]}]},
    "delete_relations": {"relations": [{"from": "Ann", "to": "Bob", "relationType": "knows"}]},
    "search_nodes": {"query": "Ann"},
    "open_nodes": {"names": ["Ann"]},
}


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """One for all: what is refused does not depend on what was done before."""
    return artifact_harness(tmp_path_factory.mktemp("matrix"))


@pytest.fixture(scope="module")
def http(harness: Harness) -> Iterator[TestClient]:
    with TestClient(build_app(harness.gateway)) as client:
        yield client


def test_every_route_and_tool_stands_in_the_matrix() -> None:
    assert {one.name for one in ENDPOINTS} | {"metrics"} == set(ROLES_OF_ROUTE)
    assert {offer.name for offer in ALL_TOOLS} == set(ROLES_OF_TOOL)


def _refusals(harness: Harness) -> int:
    """How many calls the access log says were refused."""
    return sum(
        sum(group["times"] for group in fact["refused_too"]) if "refused_too" in fact else 1
        for fact in harness.refusals()
    )


def _call(http: TestClient, harness: Harness, one: Endpoint, role: str, *, namespace: str, scope: str) -> int:
    """The status of a call that is right but for who makes it."""
    headers = harness.headers(role, scope)
    if one.takes_version:
        headers["If-Match"] = '"1"'
    path = {**PLACES, "namespace": namespace}
    if "/runs/{run_id}" in one.path:
        opened = http.post(f"/v1/namespaces/{scope}/runs", json=BODIES["open_run"], headers=headers)
        path["run_id"] = opened.json().get("run_id", "none")
    if one.name == "decide":
        shown = _proposal(http, harness, namespace)
        path["proposal_id"] = shown["proposal"]["proposal_id"]
        body: Any = {**BODIES["decide"], "statement": shown["to_sign"][0]["statement"]}
    else:
        body = BODIES.get(one.name.removesuffix("_in_run")) if one.has_body else None
    if one.name == "receipt":
        path["seq"] = _own_commit(http, harness)
    if one.permission is Permission.FORGET:
        writer = harness.headers("operator", "*")
        http.post(f"/v1/namespaces/{namespace}/remember", json=FACT, headers=writer)
    query = f"?{QUERIES[one.name]}" if one.name in QUERIES else ""
    return http.request(one.method, one.path.format(**path) + query, json=body, headers=headers).status_code


_NUMBERS = count(100)


def _own_commit(http: TestClient, harness: Harness) -> str:
    """The ledger entry of a commit in the namespace that the limited keys are for."""
    number = next(_NUMBERS)
    body = {**FACT, "subject": None, "text": f"Pallet {number} stands in row {number}."}
    made = http.post("/v1/namespaces/own/remember", json=body, headers=harness.headers("operator", "*"))
    return str(made.json()["receipt"]["ledger_seq"])


def _proposal(http: TestClient, harness: Harness, namespace: str) -> Any:
    headers = harness.headers("operator", "*")
    # What memory holds already in other words would be refused as a duplicate.
    number = next(_NUMBERS)
    body = {**FACT, "text": f"Parcels of kind {number} cost {number} euros to ship.", "propose": True}
    made = http.post(f"/v1/namespaces/{namespace}/remember", json=body, headers=headers).json()
    found = http.get(f"/v1/namespaces/{namespace}/proposals/{made['proposal_id']}", headers=headers)
    return found.json()


@pytest.mark.parametrize("role", list(KeyRole))
@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.name)
def test_routes(harness: Harness, http: TestClient, one: Endpoint, role: str) -> None:
    before = _refusals(harness)
    allowed = role in ROLES_OF_ROUTE[one.name].split()
    in_namespace = "{namespace}" in one.path
    own = _call(http, harness, one, role, namespace="own", scope="own")
    foreign = _call(http, harness, one, role, namespace="foreign", scope="own")
    of_all = _call(http, harness, one, role, namespace="own", scope="*")
    without_key = http.request(one.method, one.path.format(**PLACES))

    assert without_key.status_code == 401
    assert (own not in (401, 403)) == (allowed and one.name not in NEEDS_ALL_NAMESPACES)
    assert (foreign not in (401, 403)) == (
        allowed and not in_namespace and one.name not in NEEDS_ALL_NAMESPACES
    )
    assert (of_all not in (401, 403)) == allowed
    assert max(own, foreign, of_all) < 500
    assert _refusals(harness) - before >= [own, foreign, of_all].count(403) + 1


@pytest.mark.parametrize("role", list(KeyRole))
def test_metrics(harness: Harness, http: TestClient, role: str) -> None:
    allowed = role in ROLES_OF_ROUTE["metrics"].split()

    assert http.get("/metrics").status_code == 401
    assert (http.get("/metrics", headers=harness.headers(role, "own")).status_code == 200) == allowed


@pytest.mark.parametrize("role", list(KeyRole))
def test_standfasts_own_namespace_is_nobodys(harness: Harness, http: TestClient, role: str) -> None:
    for one in ENDPOINTS:
        if "{namespace}" in one.path:
            path = one.path.format(**{**PLACES, "namespace": "standfast"})
            answer = http.request(one.method, path, headers=harness.headers(role, "*"), json={})
            assert answer.status_code == 403, one.name


async def _tools(gateway: Gateway, harness: Harness, role: str) -> dict[tuple[str, str], bool]:
    """Whether each tool was refused, by name and namespace."""
    server = build_server(gateway, lambda _: harness.caller(role, "own"), ToolSet.ALL)
    refused = {}
    async with McpClient(server) as client:
        for name in ROLES_OF_TOOL:
            for namespace in ("own", "foreign"):
                arguments = dict(ARGUMENTS.get(name, {}))
                if name != "memory_verify":
                    arguments["namespace"] = namespace
                answer = await client.call_tool(name, arguments)
                refused[name, namespace] = answer.is_error and "[forbidden]" in str(answer.content)
                assert not answer.is_error or "[" in str(answer.content), answer
    return refused


@pytest.mark.parametrize("role", list(KeyRole))
def test_tools(harness: Harness, role: str) -> None:
    before = _refusals(harness)
    refused = anyio.run(_tools, harness.gateway, harness, role)

    for name, roles in ROLES_OF_TOOL.items():
        assert refused[name, "own"] == (role not in roles.split()), name
        assert refused[name, "foreign"] == (role not in roles.split() or name != "memory_verify"), name
    assert _refusals(harness) - before == sum(refused.values())
