"""Extraction over HTTP, MCP and the command line, with the operator's model behind a real HTTP endpoint."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from standfast.adapters.extraction_settings import ExtractionSettings, SetExtractor
from standfast.client import Client
from standfast.errors import ExtractionError
from standfast.limits import MAX_MODEL_WAITS
from standfast.memory import Memory
from standfast.records.requests import AddRequest
from standfast.server.mcp.own_tools import memory_add
from standfast.server.mcp.tools import Reply
from standfast.server.operations import memory_operations
from standfast.server.operations.event_operations import events_after
from standfast.server.operations.gateway import Gateway
from tests.memory.conftest import SIGNERS
from tests.server.harness import Harness, Served
from tests.servers.model import MODEL_NAME, ModelServer
from tests.servers.scripted_model import ScriptedModel, scripted_model

CHAT = ({"role": "user", "content": "I moved to Cork in May."},)
FACT = json.dumps({"facts": [{"text": "Ada lives in Cork.", "subject": "address", "messages": [0]}]})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model behind HTTP that finds one fact."""
    with scripted_model(lambda _: FACT) as served:
        yield served


def _harness(model: ScriptedModel, url: str = ":memory:", **fields: Any) -> Harness:
    home = Memory.open(url)
    chosen = ExtractionSettings(provider="openai", model="m", base_url=model.base_url, **fields)
    own = Memory(home.store, extractor=SetExtractor(chosen, home.store))
    return Harness(
        Gateway(
            own,
            memory_in=lambda name: Memory(
                home.store, namespace=name, extractor=SetExtractor(chosen, home.store)
            ),
            signers=lambda: SIGNERS,
        )
    )


def _add(harness: Harness, session: str = "s", namespace: str = "a", **fields: Any) -> Any:
    body = AddRequest(messages=CHAT, scope="user/ada", session=session, **fields)
    return memory_operations.add(harness.gateway, harness.caller("agent", namespace), namespace, body)


def _finish(harness: Harness) -> None:
    for memory in harness.gateway.open_memories().values():
        memory.extractions.finish()


def test_the_event_of_an_extraction_names_its_session_and_only_those_who_may_see_it_get_it(
    model: ScriptedModel,
) -> None:
    harness = _harness(model)
    pending = _add(harness, extract=True, background=True)
    _finish(harness)
    model.answer = lambda _: '{"facts": []}'
    done = _add(harness, "t", extract=True)
    keyring = harness.gateway.keyring
    elsewhere, own = (
        keyring.create(name="k", role="agent", namespaces=["a"], scopes=[scope])[1]
        for scope in ("user/bob", "user/ada")
    )

    def told(caller: Any) -> list[tuple[str | None, str | None, int]]:
        events, _ = events_after(harness.gateway, caller, 0)
        return [(one.session, one.scope, one.changed) for one in events if one.kind == "extraction"]

    assert (pending.facts_pending, pending.facts) == (True, ())
    assert (done.facts_pending, done.facts, done.facts_problem) == (False, (), None)
    expected = [("s", "user/ada", 1), ("t", "user/ada", 0)]
    assert told(harness.caller("agent", "a")) == expected
    assert told(keyring.authenticate(own)) == expected
    assert told(keyring.authenticate(elsewhere)) == []
    assert told(harness.caller("agent", "b")) == []


def test_only_a_few_calls_wait_for_the_model_and_the_others_are_answered_at_once(
    model: ScriptedModel,
) -> None:
    harness = _harness(model)
    release, answers = threading.Event(), list[Any]()

    def slow(_: str) -> str:
        release.wait(60)
        return FACT

    model.answer = slow
    waiting = [
        threading.Thread(target=lambda: answers.append(_add(harness, extract=True)))
        for _ in range(MAX_MODEL_WAITS)
    ]
    for one in waiting:
        one.start()
    while harness.gateway.model_waits < MAX_MODEL_WAITS:
        time.sleep(0.01)
    at_once = _add(harness, "more", extract=True)
    release.set()
    for one in waiting:
        one.join()
    _finish(harness)

    assert (at_once.facts_pending, at_once.facts_problem) == (True, None)
    assert [one.facts_pending for one in answers] == [False] * MAX_MODEL_WAITS


def test_a_server_that_stops_does_not_wait_for_a_model_that_hangs_and_loses_nothing(
    tmp_path: Path, model: ScriptedModel
) -> None:
    url = str(tmp_path / "agent.db")
    harness = _harness(model, url=url)
    asked, release = threading.Event(), threading.Event()

    def hang(_: str) -> str:
        asked.set()
        release.wait(60)
        return FACT

    model.answer = hang
    _add(harness, namespace="default", extract=True, background=True)
    assert asked.wait(60)
    harness.gateway.close()
    was_released = release.is_set()
    release.set()
    with Memory.open(url, create=False) as memory:
        waiting = memory.extractions.status().waiting

    assert not was_released
    assert waiting == 1


def test_a_server_that_asks_always_does_so_in_the_background(model: ScriptedModel) -> None:
    harness = _harness(model, always=True)
    added = _add(harness)
    _finish(harness)
    memory = harness.gateway.open_memories()["a"]

    assert added.facts_pending
    assert "Cork" in memory.recall("Where does Ada live?", scope="user/ada").text
    assert any(one.subject == "address" for one in memory.records(scope="user/ada"))


def test_the_facts_of_a_call_are_trusted_no_more_than_its_key(model: ScriptedModel) -> None:
    harness = _harness(model)
    _, token = harness.gateway.keyring.create(
        name="crawler", role="agent", namespaces=["a"], origin="untrusted"
    )
    caller = harness.gateway.keyring.authenticate(token)
    body = AddRequest(messages=CHAT, scope="user/ada", session="s", extract=True, background=True)
    memory_operations.add(harness.gateway, caller, "a", body)
    _finish(harness)
    records = harness.gateway.open_memories()["a"].records(scope="user/ada")

    assert {one.origin.value for one in records if one.session is None and one.origin} == {"untrusted"}


def test_a_served_model_extracts_over_http_and_mcp_and_the_budget_is_kept_over_a_restart(
    tmp_path: Path, model: ScriptedModel
) -> None:
    text = f'traces = "off"\nembedder = "none"\n{model.settings(calls_per_day=3)}'
    (tmp_path / "standfast.toml").write_text(text)
    server = Served(tmp_path, has_mcp=True)
    server.start()
    try:
        with Client(server.address, key=server.key) as memory:
            stream = memory.events(after=0)
            done = memory.add(CHAT, scope="user/ada", session="s", extract=True)
            pending = memory.add(CHAT, scope="user/bob", session="t", extract=True, background=True)
            found = [next(one for one in stream if one.kind == "extraction").session for _ in range(2)]
            stream.close()
        server.process.stop()
        server.start()
        with Client(server.address, key=server.key) as memory:
            memory.add(CHAT, scope="user/cyd", session="u", extract=True)
            spent = memory.add(CHAT, scope="user/dan", session="v", extract=True)
            status = memory.status()
        (tmp_path / "chat.json").write_text(json.dumps(CHAT))
        command = server.standfast("add", "chat.json", "--scope", "user/eve", "--extract", "--json")
        waiting = server.standfast("extract", "--json")
    finally:
        server.process.stop()

    assert [one.verdict for one in done.facts] == ["SEAL"]
    assert (pending.facts_pending, sorted(filter(None, found))) == (True, ["s", "t"])
    assert (spent.facts_code, spent.facts_pending, spent.added) == ("extraction_budget_spent", True, 1)
    assert status.extraction.waiting == 1
    assert status.extraction.spending is not None
    assert (status.extraction.spending.calls, len(model.prompts)) == (3, 3)
    assert json.loads(command.stdout)["facts_code"] == "extraction_budget_spent"
    assert (command.returncode, waiting.returncode, json.loads(waiting.stdout)["waiting"]) == (0, 1, 2)


def test_a_tool_tells_the_model_of_the_client_what_became_of_the_facts(model: ScriptedModel) -> None:
    harness = _harness(model, calls_per_day=1)
    place = harness.gateway, harness.caller("agent", "a"), "a"

    def told(session: str, **fields: Any) -> str:
        request = AddRequest(messages=CHAT, scope="user/ada", session=session, extract=True, **fields)
        reply = memory_add.function(place, request)
        assert isinstance(reply, Reply)
        return reply.text

    found, spent = told("s"), told("t")

    assert "1 fact found" in found
    assert "The budget of" in spent
    assert "in the background" in spent


@pytest.mark.slow
def test_a_real_small_model_is_asked_over_http_and_whatever_it_says_is_judged_or_reported(
    tmp_path: Path, model_server: ModelServer
) -> None:
    section = f'provider = "openai"\nmodel = "{MODEL_NAME}"\nbase_url = "{model_server.base_url}"\n'
    (tmp_path / "standfast.toml").write_text(
        f'traces = "off"\nembedder = "none"\n[extraction]\n{section}max_output_tokens = 200\n'
    )
    server = Served(tmp_path)
    server.start()
    try:
        with Client(server.address, key=server.key, timeout_seconds=120) as memory:
            added = memory.add(CHAT, scope="user/ada", session="s", extract=True)
            status = memory.status().extraction
            verified = memory.verify()
    finally:
        server.process.stop()

    assert added.added == 1
    assert added.facts_pending or added.facts_problem is not None or all(one.verdict for one in added.facts)
    assert status.spending is not None
    assert status.spending.calls == 1
    assert verified.holds


def test_a_server_without_a_model_says_what_to_set(served: Served) -> None:
    with Client(served.address, key=served.key) as memory, pytest.raises(ExtractionError) as caught:
        memory.add(CHAT, scope="user/ada", extract=True)

    assert caught.value.code == "no_extractor"
