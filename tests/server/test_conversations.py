"""Conversations through the clients, HTTP and MCP."""

from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from standfast.client import AsyncClient, Client
from standfast.errors import InvalidValue, MessageConflict
from tests.raising import raises_code
from tests.server.harness import Served
from tests.server.test_mcp import over_http, refused, told

CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "I moved to Berlin.", "time": datetime(2026, 11, 16, tzinfo=UTC)},
    {"role": "assistant", "content": "Welcome!"},
]
MORE = [{"role": "user", "content": "Thanks!"}]


def test_a_client_adds_messages_once_and_reads_them_back(
    served: Served, request: pytest.FixtureRequest
) -> None:
    with Client(served.address, key=served.key, namespace=request.node.name[:100]) as client:
        added = client.add(CHAT, scope="user/ada", session="s", tags=["chat"], metadata={"plan": "gold"})
        again = client.add(CHAT, scope="user/ada", session="s", position=0)
        more = [client.add(MORE, scope="user/ada", session="s", request_key="turn") for _ in range(2)]

        assert (added.added, again.added) == (2, 0)
        assert [one.messages[0].position for one in more] == [2, 2]
        said = client.session("s", scope="user/ada")
        assert [(one.speaker, one.text) for one in said] == [
            ("user", "I moved to Berlin."),
            ("assistant", "Welcome!"),
            ("user", "Thanks!"),
        ]
        assert said[0].time == "2026-11-16T00:00:00.000000Z"
        assert (said[0].tags, said[0].metadata) == (("chat",), {"plan": "gold"})
        assert [one.messages for one in client.sessions(scope="user")] == [3]
        assert client.session("s", scope="user/bob") == []
        assert client.sessions() == []
        assert client.session("s", scope="user/ada", at=0) == []
        with pytest.raises(MessageConflict):
            client.add(MORE, scope="user/ada", session="s", position=0)
        with raises_code("request_reused"):
            client.add(MORE, scope="user/bob", session="s", request_key="turn")
        for odd in ([], "Hello", [{"role": "robot"}]):
            with pytest.raises(InvalidValue):
                client.add(odd)


def test_a_long_conversation_takes_several_requests_and_pages(
    served: Served, request: pytest.FixtureRequest
) -> None:
    text = "Ada and Bob talked about the garden for a long time. " * 40
    with Client(served.address, key=served.key, namespace=request.node.name[:100]) as client:
        messages = [{"role": "user", "content": f"{number}: {text}"} for number in range(260)]
        added = client.add(messages, session="s")
        again = client.add(messages, session="s", position=0)

        assert [one.position for one in added.messages] == list(range(260))
        assert again.added == 0
        assert [one.position for one in client.session("s")] == list(range(260))


def test_a_whole_scope_and_a_source_are_forgotten_through_every_door(
    served: Served, request: pytest.FixtureRequest
) -> None:
    async def forget(namespace: str) -> None:
        async with over_http(served, served.key) as tools:
            plan = await told(
                tools, "memory_forget", scope="user/eve", reason="x", rehearse=True, namespace=namespace
            )
            done = await told(tools, "memory_forget", scope="user/eve", reason="x", namespace=namespace)
            assert (plan["records"], plan["receipt"], done["records"]) == (2, None, 2)
        async with AsyncClient(served.address, key=served.key, namespace=namespace) as client:
            assert (await client.forget(scope="user/bob", rehearse=True)).records == 2

    namespace = request.node.name[:100]
    with Client(served.address, key=served.key, namespace=namespace) as client:
        for name in ("ada", "bob", "eve"):
            client.add(CHAT, scope=f"user/{name}", session="s")
        client.remember("Tea is warm.", source={"kind": "doc", "id": "book#1"})
        done = client.forget(scope="user/ada", reason="asked for", request_key="17")
        again = client.forget(scope="user/ada", reason="asked for", request_key="17")
        book = client.forget(source={"kind": "doc", "id": "book"}, reason="withdrawn")

        assert (done.records, done.law) == (2, ())
        assert again.receipt is not None
        assert again.receipt.replayed
        assert book.records == 1
        assert client.sessions(scope="user/ada") == []
        assert list(client.records(scope="user/ada")) == list(client.records()) == []
        with pytest.raises(InvalidValue):
            client.forget(reason="x")
        with pytest.raises(InvalidValue):
            client.forget("a", source={"kind": "a", "id": "b"}, reason="x")
        with client.run(workflow="w", mode="buffered_write") as run, pytest.raises(InvalidValue):
            run.forget("nobody", reason="x")
        anyio.run(forget, namespace)


def test_an_async_client_has_the_same_verbs(served: Served, request: pytest.FixtureRequest) -> None:
    async def talk() -> None:
        async with AsyncClient(served.address, key=served.key, namespace=request.node.name[:100]) as client:
            added = await client.add(CHAT, session="s", position=5)
            assert [one.position for one in added.messages] == [5, 6]
            assert [one.position for one in await client.session("s")] == [5, 6]
            assert [one.next_position for one in await client.sessions()] == [7]

    anyio.run(talk)


def test_tools_add_and_read_conversations(served: Served) -> None:
    async def talk() -> None:
        async with over_http(served, served.key) as client:
            plain = [{"role": "user", "content": "I like tea."}, {"role": "assistant", "content": "Noted."}]
            added = await told(client, "memory_add", messages=plain, session="mcp", scope="user/eve")
            first = await told(client, "memory_session", session="mcp", scope="user/eve", limit=1)
            second = await told(
                client, "memory_session", session="mcp", scope="user/eve", cursor=first["next"]
            )
            listed = await told(client, "memory_sessions", scope="user/eve")

            assert [one["verdict"] for one in added["messages"]] == ["SEAL", "SEAL"]
            assert [one["text"] for one in first["messages"] + second["messages"]] == [
                "I like tea.",
                "Noted.",
            ]
            assert second["next"] is None
            assert [one["session"] for one in listed["sessions"]] == ["mcp"]
            assert "message_conflict" in await refused(
                client, "memory_add", messages=plain[1:], session="mcp", scope="user/eve", position=0
            )

    anyio.run(talk)
