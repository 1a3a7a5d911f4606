"""Every door recalls with the same default controller, and lets a caller name another."""

import anyio
import pytest

from standfast.client import AsyncClient, Client
from standfast.errors import StandfastError
from tests.server.harness import HANDBOOK, Served
from tests.server.test_mcp import over_http, told


def test_a_client_names_the_controller_and_the_time(served: Served, request: pytest.FixtureRequest) -> None:
    with Client(served.address, key=served.key, namespace=request.node.name[:100]) as client:
        client.remember("EU refunds take 14 days.", source=HANDBOOK)
        at = client.at(client.status().head)
        with client.run(workflow="w") as run:
            found = [
                door.recall("EU refunds", controller=name).package["controller_version"]
                for door in (client, at, run)
                for name in ("phase6-v1", "lexical-v1", "hybrid-v1")
            ]

        assert found == ["phase6-v1", "lexical-v1", "hybrid-v1"] * 3
        client.remember("Ada adopted a kitten last spring.", source=HANDBOOK)
        assert "kitten" in client.recall("cat", controller="hybrid-v1").text
        assert client.recall("EU refunds").package["controller_version"] == "hybrid-v1"
        dated = client.recall("refunds of yesterday", now_utc="2026-11-17T00:00:00Z")
        assert dated.package["request"]["now_utc"] == "2026-11-17T00:00:00Z"
        why = client.recall("EU refunds", explain=True).explanation
        assert why is not None
        assert why["terms"] == ["eu", "refund"]
        assert (why["items"][0]["outcome"], why["items"][0]["ceiling"]["confidence"]) == ("selected", 0.85)
        assert at.recall("EU refunds", explain=True, controller="phase6-v1").explanation is not None
        assert client.recall("EU refunds").explanation is None
        with pytest.raises(StandfastError, match="no controller 'none-v1'"):
            client.recall("EU refunds", controller="none-v1")


def test_async_clients_and_mcp_name_the_controller(served: Served) -> None:
    async def use() -> None:
        async with AsyncClient(served.address, key=served.key) as client:
            await client.remember("EU refunds take 14 days.", source=HANDBOOK)
            asked = await client.recall("EU refunds", controller="phase6-v1")
            assert asked.package["controller_version"] == "phase6-v1"
        async with over_http(served, served.key) as tools:
            default = await told(tools, "memory_read", query="EU refunds")
            contract = await told(tools, "memory_read", query="EU refunds", controller="phase6-v1")
            explained = await told(tools, "memory_read", query="EU refunds", explain=True)
            assert default["package"]["controller_version"] == "hybrid-v1"
            assert explained["explanation"]["items"][0]["matched"].keys() == {"eu", "refund"}
            assert contract["package"]["controller_version"] == "phase6-v1"
            hybrid = await told(tools, "memory_read", query="EU refunds", controller="hybrid-v1")
            assert hybrid["package"]["request"]["vector"]["embedder"] == "static-minilm/1/128"

    anyio.run(use)
