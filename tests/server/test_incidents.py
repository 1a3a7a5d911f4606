"""Incidents over HTTP: the server keeps a recall log, an operator acts, and no key sees more than it may."""

from typing import Any

import anyio
import pytest
from mcp.client.client import Client as McpClient
from starlette.testclient import TestClient

from standfast.client import Client
from standfast.server.mcp.server import ToolSet, build_server
from tests.server.harness import Harness, Served
from tests.server.test_mcp import refused, text_of, told

CRM = {"kind": "doc", "id": "crm"}
IN = "/v1/namespaces/default"


def test_from_an_answer_to_its_source_and_back_over_http(served: Served) -> None:
    with Client(served.address, key=served.key, namespace="incidents") as client:
        _drill(client)


def _drill(client: Client) -> None:
    client.remember("EU refunds take 14 days.", subject="policy/eu", source={"kind": "doc", "id": "handbook"})
    client.remember("EU refunds take 90 days.", subject="policy/eu", source=CRM)
    answer = client.recall("EU refunds", tokens=500)

    found = client.investigate(package_hash=answer.package_hash)
    plan = client.quarantine(source=CRM, rehearse=True)
    act = client.quarantine(source=CRM, reason="incident 4").done

    assert "doc:crm" in {node.label for node in found.causes}
    assert plan.plan is not None
    assert act is not None
    assert (plan.plan.records, act.records) == (1, 1)
    assert "14 days" in client.recall("EU refunds", tokens=500).text
    assert {one.memory_id for one in client.quarantined()} == {"policy/eu"}
    client.release(act.act_id, reason="it was right")
    assert "90 days" in client.recall("EU refunds", tokens=500).text
    assert [one.act_id for one in client.quarantines()] == [act.act_id]


def test_an_agent_can_neither_act_nor_read_what_is_in_quarantine(harness: Harness, http: TestClient) -> None:
    operator, agent = harness.headers("operator"), harness.headers("agent")
    said = {"text": "The zorro rumour is true.", "subject": "rumour", "source": CRM}
    assert http.post(f"{IN}/remember", json=said, headers=operator).status_code == 200
    body = {"source": CRM, "reason": "incident 4"}

    refused = http.post(f"{IN}/quarantine", json=body, headers=agent)
    done = http.post(f"{IN}/quarantine", json=body, headers=operator)
    seen = {
        role: http.post(f"{IN}/investigate", json={"source": CRM}, headers=headers).text
        for role, headers in (("operator", operator), ("agent", agent))
    }
    history = http.get(f"{IN}/history", params={"subject": "rumour"}, headers=agent)
    listed = http.get(f"{IN}/quarantine", headers=agent)

    assert (refused.status_code, done.status_code, listed.status_code) == (403, 200, 403)
    assert "zorro" in seen["operator"]
    assert "zorro" not in seen["agent"]
    assert (history.status_code, history.json()["versions"]) == (200, [])


def test_a_key_of_one_scope_investigates_nothing_of_another(harness: Harness, http: TestClient) -> None:
    operator = harness.headers("operator")
    for name in ("ada", "bob"):
        said = {"text": f"The zorro of {name} is blue.", "scope": f"user/{name}", "source": CRM}
        http.post(f"{IN}/remember", json=said, headers=operator)
        asked = {"query": "zorro", "scopes": [f"user/{name}"], "tokens": 300}
        http.post(f"{IN}/recall", json=asked, headers=operator)
    http.post(f"{IN}/recall", json={"query": "zorro", "scopes": ["user/ada", "user/bob"]}, headers=operator)
    keyring = harness.gateway.keyring
    _, token = keyring.create(name="ada-key", role="auditor", namespaces=["default"], scopes=["user/ada"])
    own = {"Authorization": f"Bearer {token}"}

    found = http.post(f"{IN}/investigate", json={"source": CRM}, headers=own)
    whole = http.post(f"{IN}/investigate", json={"source": CRM}, headers=operator)

    assert found.status_code == 200
    assert "ada" in found.text
    assert "bob" not in found.text
    assert "bob" in whole.text


def test_a_foreign_scope_is_refused_by_an_investigation(harness: Harness, http: TestClient) -> None:
    """An empty graph would say that nothing is there."""
    operator = harness.headers("operator")
    for name in ("ada", "bob"):
        said = {"text": "The zorro is blue.", "subject": "zorro", "scope": f"user/{name}", "source": CRM}
        http.post(f"{IN}/remember", json=said, headers=operator)
    keyring = harness.gateway.keyring
    _, token = keyring.create(name="ada-key", role="auditor", namespaces=["default"], scopes=["user/ada"])
    own = {"Authorization": f"Bearer {token}"}
    asked: list[dict[str, Any]] = [
        {"source": CRM},
        {"memory_id": "zorro"},
        {"scope": "user", "since": "2026-01-01"},
    ]

    foreign = [
        http.post(f"{IN}/investigate", json={"scope": "user/bob", **one}, headers=own) for one in asked
    ]
    in_own = http.post(f"{IN}/investigate", json=asked[1], headers=own)

    assert [one.status_code for one in foreign] == [403] * 3
    assert "the key is for user/ada" in foreign[0].json()["detail"]
    assert [node["scope"] for node in in_own.json()["nodes"] if node["kind"] == "record"] == ["user/ada"]


def test_the_longest_request_key_names_an_act_to_release(harness: Harness, http: TestClient) -> None:
    operator = harness.headers("operator")
    http.post(f"{IN}/remember", json={"text": "The rumour is true.", "source": CRM}, headers=operator)
    keyed = {**operator, "Idempotency-Key": "k" * 256}

    done = [
        http.post(f"{IN}/quarantine", json={"source": CRM, "reason": "x"}, headers=keyed) for _ in range(2)
    ]

    assert [one.status_code for one in done] == [200, 200]
    first, second = (one.json()["done"]["act_id"] for one in done)
    assert first == second
    body = {"act_id": first, "reason": "it was right"}
    assert http.post(f"{IN}/quarantine/release", json=body, headers=operator).status_code == 200


@pytest.mark.parametrize("role", ["operator", "agent"])
def test_a_model_investigates_what_its_key_may_see(harness: Harness, http: TestClient, role: str) -> None:
    operator = harness.headers("operator")
    for name in ("ada", "bob"):
        said = {"text": f"The zorro of {name} is blue.", "scope": f"user/{name}", "source": CRM}
        http.post(f"{IN}/remember", json=said, headers=operator)
    _, token = harness.gateway.keyring.create(
        name="ada-key", role=role, namespaces=["default"], scopes=["user/ada"]
    )
    caller = harness.gateway.keyring.authenticate(token)

    async def use() -> None:
        async with McpClient(build_server(harness.gateway, lambda _: caller, ToolSet.ALL)) as client:
            before = text_of(await client.call_tool("memory_investigate", {"source": CRM}))
            body = {"source": CRM, "reason": "incident 4"}
            assert http.post(f"{IN}/quarantine", json=body, headers=operator).status_code == 200
            after = text_of(await client.call_tool("memory_investigate", {"source": CRM}))
            whole = str(await told(client, "memory_investigate", source=CRM))
            missing = await refused(client, "memory_investigate", package_hash="0" * 64)
            foreign = await refused(client, "memory_investigate", source=CRM, namespace="other")

        assert "zorro of ada" in before
        assert "bob" not in before + after + whole
        # An agent does not read what is in quarantine.
        assert ("zorro of ada" in after, "zorro of ada" in whole) == (role == "operator",) * 2
        assert "[not_found]" in missing
        assert "[forbidden]" in foreign

    anyio.run(use)
