"""Scopes and filters through the client, HTTP and MCP: nothing of one scope shows in another."""

import anyio
import pytest

from standfast.client import AsyncClient, Client
from standfast.errors import InvalidValue, StandfastError
from standfast.server.operations.schemas import RecallBody
from tests.server.harness import HANDBOOK, Served
from tests.server.test_mcp import over_http, refused, told


def _fill(client: Client) -> None:
    for name, language in (("ada", "German"), ("bob", "French")):
        client.remember(
            f"{name} prefers answers in {language}.",
            subject="preference/language",
            scope=f"user/{name}",
            source=HANDBOOK,
            tags=["style"],
            metadata={"plan": "gold" if name == "ada" else "free"},
            session="s-1",
            position=0,
            speaker=name,
            valid_from="2026-11-16",
        )


def test_a_client_reads_writes_and_forgets_in_scopes(served: Served, request: pytest.FixtureRequest) -> None:
    with Client(served.address, key=served.key, namespace=request.node.name[:100]) as client:
        before = client.status().head
        _fill(client)
        ada = client.recall("answers", scope="user/ada").text
        both = client.recall("answers", scopes=["user/ada", "user/bob"]).text
        free = client.recall("answers", scope="user", where={"metadata": {"plan": "free"}}).text
        (record,) = (one for one in client.records(scope="user/ada") if one.band == "LEDGER")

        assert ("German" in ada, "French" in ada) == (True, False)
        assert ("German" in both, "French" in both) == (True, True)
        assert ("German" in free, "French" in free) == (False, True)
        assert client.recall("answers").selected == []
        many = client.recall_batch(
            [RecallBody(query="answers", tokens=99, scope=one) for one in ("user/bob", "a")]
        )
        assert [len(one.selected) for one in many] == [1, 0]
        assert client.at(client.status().head).recall("answers", scope="user/bob").selected != []
        assert (record.session, record.position, record.speaker) == ("s-1", 0, "ada")
        assert record.valid_from == "2026-11-16T00:00:00.000000Z"
        assert list(client.records()) == []
        assert {one.scope for one in client.records(scope="*")} == {"user/ada", "user/bob"}
        assert client.history("preference/language") == []
        assert {
            one.record.scope for one in client.history("preference/language", scope="user/ada") if one.record
        } == {"user/ada"}
        assert client.diff(before) == []
        assert {"/user/ada//" in change.key for change in client.diff(before, scope="user/ada")} == {True}
        assert client.record("preference/language", scope="user/bob") != []

        with client.run(workflow="w", mode="buffered_write", scope="user/ada") as run:
            assert len(run.recall("answers").selected) == 1
            run.forget("preference/language", reason="erasure request")
            run.remember("Ada drinks green tea.", source=HANDBOOK)
        assert [one.text for one in client.records(scope="user/ada") if one.band == "LEDGER"] == [
            "Ada drinks green tea."
        ]
        client.forget("preference/language", reason="erasure request", scope="user/bob")
        assert list(client.records(scope="user/bob")) == []
        with pytest.raises(InvalidValue):
            client.recall("answers", where={"tagg": "x"})  # type: ignore[arg-type]  # What a caller may mistype.
        for wrong in ("user//bob", "*"):
            with pytest.raises(StandfastError):
                client.recall("answers", scope=wrong)


def test_the_async_client_does_the_same(served: Served, request: pytest.FixtureRequest) -> None:
    async def use() -> None:
        async with AsyncClient(served.address, key=served.key, namespace=request.node.name[:100]) as client:
            async with client.run(workflow="w", mode="buffered_write", scope="user/ada") as run:
                await run.remember("Ada prefers German.", subject="preference/language", source=HANDBOOK)
                await run.remember("Shops close at nine.", scope="shared", source=HANDBOOK, metadata={"n": 1})
            assert len((await client.recall("German", scope="user/ada")).selected) == 1
            assert len((await client.recall("shops", where={"metadata": {"n": 1}})).selected) == 1
            assert await client.history("preference/language") == []
            assert len(await client.history("preference/language", scope="user/ada")) == 2
            assert {one.scope async for one in client.records()} == {"shared"}
            await client.forget("preference/language", reason="a test", scope="user/ada")
            assert [one async for one in client.records(scope="user/ada")] == []

    anyio.run(use)


def test_the_tools_take_scopes(served: Served) -> None:
    async def use() -> None:
        async with over_http(served, served.key) as client:
            fields = {"metadata": {"plan": "gold"}, "session": "s-1", "position": 2, "speaker": "Ada"}
            await told(
                client,
                "memory_remember",
                text="Ada prefers German in chats.",
                subject="preference/chat",
                source=HANDBOOK,
                scope="user/ada",
                **fields,
            )
            found = await told(
                client,
                "memory_read",
                query="German chats",
                scopes=["user/ada"],
                where={"metadata": {"plan": "gold"}},
            )
            other = await told(client, "memory_read", query="German chats", scopes=["user/bob"])
            history = await told(client, "memory_history", subject="preference/chat", scope="user/ada")

            assert "prefers German" in found["text"]
            assert "prefers German" not in other["text"]
            assert {one["record"]["scope"] for one in history["versions"]} == {"user/ada"}
            assert "scope" in await refused(client, "memory_read", query="German", scopes=["/"])
            await told(client, "memory_forget", subject="preference/chat", reason="a test", scope="user/ada")
            assert (
                "prefers German"
                not in (await told(client, "memory_read", query="German", scopes=["user"]))["text"]
            )

    anyio.run(use)


def test_a_text_supersedes_another_through_every_door(served: Served, request: pytest.FixtureRequest) -> None:
    namespace = request.node.name[:100]
    names: list[str] = []

    async def use() -> None:
        async with over_http(served, served.key) as tools:
            made = await told(
                tools, "memory_remember", text="Ada is in Oslo.", supersedes=names, namespace=namespace
            )
        async with AsyncClient(served.address, key=served.key, namespace=namespace) as client:
            last = await client.remember("Ada is in Rome.", supersedes=made["memory_id"])
            await client.add([{"role": "user", "content": "I am in Bonn."}], supersedes=[last.memory_id])

    with Client(served.address, key=served.key, namespace=namespace) as client:
        names.append(client.remember("Ada is in Bergen.").memory_id)
        with client.run(workflow="w", mode="buffered_write") as run:
            names[0] = run.remember("Ada is in Cork.", supersedes=names[0]).memory_id
        anyio.run(use)

        assert [one.text for one in client.records() if one.band == "LEDGER"] == ["I am in Bonn."]
        made = served.standfast("remember", "Ada is in Paris.", "--namespace", namespace)
        name = made.stdout.split()[1]
        served.standfast("remember", "Ada is ill.", "--supersedes", name, "--namespace", namespace)
        texts = {one.text for one in client.records() if one.band == "LEDGER"}
        assert texts == {"I am in Bonn.", "Ada is ill."}
