"""What MCP clients need besides tools: structured answers, progress, cancellation, templates, completions and
prompts.

All of it with the client of the official SDK, over HTTP and over stdio.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.to_thread
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from standfast.errors import Overloaded
from standfast.ledger import VerifyingKey
from standfast.memory import Memory
from standfast.server.mcp.server import ToolSet, build_server
from standfast.server.mcp.tools import progress_of
from standfast.store.protocol import Progress
from tests.server.harness import FACT, Harness, Served
from tests.server.test_mcp import over_http, reads, stdio, text_of, told

RECORD = "standfast://{namespace}/records/{+memory_id}{?scope}"
PLACE = {"namespace": "protocol"}
PATIENCE_SECONDS = 60.0


async def _all_that_clients_need(client: Client) -> None:
    await _fill(client)
    await _data_comes_with_explain_and_only_then(client)
    await _a_long_call_tells_how_far_it_has_come(client)
    await _templates_address_records_histories_conversations_and_snapshots(client)
    await _arguments_are_completed(client)
    await _prompts_bring_what_memory_knows(client)


def test_over_http(served: Served) -> None:
    async def run() -> None:
        async with over_http(served, served.key) as client:
            await _all_that_clients_need(client)

    anyio.run(run)


def test_over_stdio(tmp_path: Path) -> None:
    async def run() -> None:
        async with Client(stdio(tmp_path, "--role", "operator", "--namespace", "protocol")) as client:
            await reads(client)
            await _all_that_clients_need(client)

    anyio.run(run)


async def _fill(client: Client) -> None:
    german = {"text": "Ada speaks German.", "subject": "speaks", "scope": "user/ada"}
    dutch = {"text": "Bob speaks Dutch.", "subject": "speaks", "scope": "user/bob"}
    for fact in (FACT, german, dutch):
        await told(client, "memory_remember", **fact, **PLACE)
    message = {"role": "user", "content": "When do I get my money?"}
    await told(client, "memory_add", messages=[message], session="monday", **PLACE)


async def _data_comes_with_explain_and_only_then(client: Client) -> None:
    place = {"namespace": "protocol"}
    for home in ("Munich", "Lisbon"):
        await told(client, "memory_remember", text=f"I live in {home}.", scope="user/ada", **place)
    found = await told(client, "memory_conflicts", scope="user/ada", **place)
    (conflict,) = found["conflicts"]
    settled = {"conflict_id": conflict["conflict_id"], "keep": "neither", "reason": "asked to"}
    calls: dict[str, dict[str, Any]] = {
        "memory_read": {"query": "refunds", **place},
        "memory_remember": {**FACT, **place},
        "memory_history": {"subject": FACT["subject"], **place},
        "memory_list": place,
        "memory_forget": {"scope": "user/nobody", "reason": "rehearsal", "rehearse": True, **place},
        "memory_status": place,
        "memory_add": {"messages": [{"role": "user", "content": "Hello"}], "session": "x", **place},
        "memory_session": {"session": "monday", **place},
        "memory_sessions": place,
        "memory_verify": {},
        "memory_profile": {"scope": "user/ada", **place},
        "memory_conflicts": {"scope": "user/ada", **place},
        "memory_settle": {**settled, "scope": "user/ada", "rehearse": True, **place},
        "memory_investigate": {"memory_id": FACT["subject"], **place},
    }
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert calls.keys() == {name for name in tools if name.startswith("memory_")}
    for name, arguments in calls.items():
        plain = await client.call_tool(name, arguments)
        assert plain.structured_content is None
        assert text_of(plain)
        assert tools[name].output_schema is None
        assert await told(client, name, **arguments)


async def _a_long_call_tells_how_far_it_has_come(client: Client) -> None:
    heard: list[tuple[float, float | None]] = []
    last_heard = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total))
        if progress == total:
            last_heard.set()

    answer = await client.call_tool("memory_verify", {"explain": True}, progress_callback=hear)
    # Notifications and the answer are handled side by side.
    with anyio.fail_after(PATIENCE_SECONDS):
        await last_heard.wait()

    assert answer.structured_content is not None
    assert answer.structured_content["holds"]
    assert heard == sorted(heard)
    assert len(heard) <= 100
    assert {total for _, total in heard} == {heard[-1][0]}


async def _templates_address_records_histories_conversations_and_snapshots(client: Client) -> None:
    templates = (await client.list_resource_templates()).resource_templates
    texts = [
        (await client.read_resource(f"standfast://protocol/{path}")).contents[0].text  # type: ignore[union-attr]  # It is text.
        for path in (
            "records/policy/eu-refunds",
            "records/speaks?scope=user/ada",
            "history/speaks?scope=user/bob",
            "sessions/monday",
            "snapshots/newest?scope=user/ada",
        )
    ]

    assert [one.name for one in templates] == ["record", "history", "session", "snapshot"]
    assert RECORD in {one.uri_template for one in templates}
    for text, words in zip(texts, ("14 days", "German", "Dutch", "my money", "German"), strict=True):
        assert words in text
    assert "Dutch" not in texts[1] + texts[4]


async def _arguments_are_completed(client: Client) -> None:
    reference = ResourceTemplateReference(type="ref/resource", uri=RECORD)
    cases: list[tuple[str, str, dict[str, str], list[str]]] = [
        ("namespace", "proto", {}, ["protocol"]),
        ("memory_id", "policy/", PLACE, ["policy/eu-refunds"]),
        ("memory_id", "speak", {"scope": "user/bob", **PLACE}, ["speaks"]),
        ("scope", "user/", PLACE, ["user/ada", "user/bob"]),
        ("session", "mon", PLACE, ["monday"]),
        ("snapshot", "new", PLACE, ["newest"]),
        ("memory_id", "nothing", PLACE, []),
        ("color", "", PLACE, []),
    ]
    for argument, begun, resolved, expected in cases:
        found = await client.complete(reference, {"name": argument, "value": begun}, resolved)

        assert found.completion.values == expected
        assert found.completion.has_more is False


def test_who_may_not_read_gets_no_completions(harness: Harness) -> None:
    async def run() -> None:
        async with Client(
            build_server(harness.gateway, lambda _: harness.caller("agent", "default"), ToolSet.ALL)
        ) as client:
            await told(client, "memory_remember", **FACT)
            reference = PromptReference(type="ref/prompt", name="review_subject")
            own = await client.complete(reference, {"name": "subject", "value": "pol"})
            foreign = await client.complete(
                reference, {"name": "subject", "value": "pol"}, {"namespace": "foreign"}
            )
            namespaces = await client.complete(reference, {"name": "namespace", "value": ""})
            for scope in ("user/ada", "user/bob"):
                await told(client, "memory_remember", text="It is green.", subject="color", scope=scope)

            assert own.completion.values == [FACT["subject"]]
            assert foreign.completion.values == []
            assert namespaces.completion.values == ["default"]
        async with Client(build_server(harness.gateway, lambda _: limited, ToolSet.ALL)) as client:
            scopes = await client.complete(reference, {"name": "scope", "value": "user"})
            subjects = await client.complete(reference, {"name": "subject", "value": ""})

            assert scopes.completion.values == ["user/bob"]
            assert subjects.completion.values == ["color"]

    _, token = harness.gateway.keyring.create(
        name="bob", role="agent", namespaces=["default"], scopes=["user/bob"]
    )
    limited = harness.gateway.keyring.authenticate(token)
    anyio.run(run)
    assert [one["refused"]["code"] for one in harness.refusals()] == ["forbidden"]


async def _prompts_bring_what_memory_knows(client: Client) -> None:
    prompts = {one.name: one for one in (await client.list_prompts()).prompts}

    async def text(name: str, **arguments: str) -> str:
        (message,) = (await client.get_prompt(name, arguments)).messages
        return str(message.content.text)  # type: ignore[union-attr]  # It is text.

    place = {"namespace": "protocol"}
    answered = await text("answer_from_memory", question="How long do EU refunds take?", **place)
    unknown = await text("answer_from_memory", question="Zebra?", scope="user/nobody", **place)
    reviewed = await text("review_subject", subject="speaks", scope="user/ada", **place)
    remembered = await text("remember_conversation", scope="user/ada")

    assert set(prompts) == {"answer_from_memory", "remember_conversation", "review_subject"}
    assert [one.name for one in prompts["review_subject"].arguments or [] if one.required] == ["subject"]
    assert "14 days" in answered
    assert "nothing on it" in unknown
    assert "Ada speaks German." in reviewed
    assert "Dutch" not in reviewed
    assert "memory_remember" in remembered
    assert "user/ada" in remembered


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("no_such", {}, "the prompts are"),
        ("review_subject", {}, "needs 'subject'"),
        ("review_subject", {"subject": "x", "colour": "red"}, "has no 'colour'"),
        ("review_subject", {"subject": "x", "scope": "a//b"}, r"\[invalid_value\]"),
        ("answer_from_memory", {"question": "x", "namespace": "foreign"}, r"\[forbidden\]"),
    ],
)
def test_a_wrong_prompt_is_refused_in_words(
    harness: Harness, name: str, arguments: dict[str, str], problem: str
) -> None:
    async def run() -> None:
        async with Client(
            build_server(harness.gateway, lambda _: harness.caller("agent", "default"), ToolSet.ALL)
        ) as client:
            with pytest.raises(MCPError, match=problem) as refused:
                await client.get_prompt(name, arguments)
            assert refused.value.error.code == -32_602

    anyio.run(run)


class EndlessMemory(Memory):
    """A memory whose verification ends only if somebody ends it."""

    def verify(
        self,
        checkpoints: Sequence[str] = (),  # noqa: ARG002  # It is the signature of ``Memory``.
        public_keys: Sequence[VerifyingKey] = (),  # noqa: ARG002  # As above.
        *,
        progress: Progress | None = None,
    ) -> Iterator[str]:
        """Report progress for ever."""
        assert progress is not None
        number = 0
        while True:
            number += 1
            progress(number, number + 1)
            time.sleep(0.001)
            yield from ()


def test_a_cancelled_call_ends(harness: Harness) -> None:
    """The client goes on at once, and so does the server: the next verification is not refused because one is
    running.
    """
    gateway = harness.gateway
    gateway.home = EndlessMemory(gateway.store)
    is_running = threading.Event()

    async def run() -> None:
        async with Client(
            build_server(gateway, lambda _: harness.caller("operator", "*"), ToolSet.ALL)
        ) as client:

            async def hear(progress: float, total: float | None, message: str | None) -> None:
                is_running.set()
                scope.cancel()

            with anyio.CancelScope() as scope:
                await client.call_tool("memory_verify", {"explain": True}, progress_callback=hear)
            assert is_running.is_set()
            assert (await told(client, "memory_status"))["role"] == "operator"
            with anyio.fail_after(PATIENCE_SECONDS):
                await anyio.to_thread.run_sync(_until_free)

    def _until_free() -> None:
        while True:
            try:
                with gateway.verifying():
                    return
            except Overloaded:  # It is running still.
                time.sleep(0.01)

    anyio.run(run)


def test_progress_is_reported_once_a_percent() -> None:
    class Hearing:
        heard: ClassVar[list[tuple[int, int]]] = []

        async def report_progress(self, done: int, total: int) -> None:
            self.heard.append((done, total))

    async def run() -> None:
        report = progress_of(Hearing())  # type: ignore[arg-type]  # All that is used of a context.
        await anyio.to_thread.run_sync(lambda: [report(done, 1_000) for done in range(1_001)])

    anyio.run(run)
    assert Hearing.heard == [(done, 1_000) for done in range(10, 1_001, 10)]
