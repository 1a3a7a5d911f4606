"""The agent's loop: recall, render, ask, remember, and what tools can see."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.optimize.errors import (
    ProviderError,
)
from standfast.optimize.loops.agent import AgentTool, Resources, ToolContext, ToRemember
from standfast.optimize.loops.main import MainLoop, MainLoopRequest
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import SectionOverride
from standfast.optimize.prompts.prompt import Experiment
from standfast.optimize.prompts.template import PromptTemplate, Section, memory_section
from standfast.optimize.providers.adapter import (
    ModelReply,
    ModelRequest,
    ModelToolCall,
    ScriptedProvider,
    TokenUsage,
    ToolSpec,
)
from standfast.records.vocabulary import Band, Budget
from standfast.traces.artifact import ToolProfile
from tests.optimize.loops.harness import START, id_of
from tests.raising import raises_code

TEMPLATE = PromptTemplate(
    ns="agent",
    key="support",
    sections=(memory_section(tokens=100), Section(key="task", title="Task", body="Q: ${question}")),
)
EXPERIMENT = Experiment(id="e", name="trial", overrides_tag="opt-1", created_at=START)


def known(*texts: str) -> Memory:
    """A memory that holds these texts, in one snapshot."""
    memory = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())
    with memory.run(workflow="seed", mode="buffered_write") as run:
        for number, text in enumerate(texts):
            run.remember(text, subject=f"fact/{number}", source={"kind": "doc", "id": f"handbook#{number}"})
    return memory


def refunds() -> Memory:
    """A memory that holds what the agent needs."""
    return known("EU refunds take 14 days.")


class Support(MainLoop[Any]):
    """Remembers every answer."""

    def to_remember(self, request: Any, output: str) -> Sequence[ToRemember]:
        """The answer, under its question."""
        return [ToRemember(text=output, tags=("answer",), subject=f"q/{request['question']}")]


def _support(memory: Memory, **options: Any) -> Support:
    provider = ScriptedProvider(lambda request: "14 days" if "14 days" in request.prompt else "?")
    return Support(
        adapter=options.pop("adapter", provider),
        template=TEMPLATE,
        memory=memory,
        workflow="support",
        **options,
    )


def test_a_request_goes_through_memory_prompt_and_model(tmp_path: Path) -> None:
    memory, events = refunds(), list[dict[str, Any]]()
    loop = _support(memory, bus=events.append, overrides_store=LocalPromptOverridesStore(tmp_path))
    result = loop.execute(MainLoopRequest(request={"question": "refunds?"}, request_id=id_of("r1")))

    assert (result.output, result.remembered, result.error) == ("14 days", 1, None)
    assert result.package_hash == memory.at(1).recall("refunds?", tokens=100).package_hash
    assert result.fell_back == "missing"
    [kept] = [record for record in memory.records(band=Band.LEDGER) if record.tags == ("answer",)]
    assert kept.source == {"kind": "model", "id": result.rendered_digest}
    assert [event["event"] for event in events] == ["rendered", "answered"]
    assert events[-1]["run_id"] == result.run_id


def test_under_an_experiment_nothing_is_remembered_and_its_tag_is_used(tmp_path: Path) -> None:
    store, memory = LocalPromptOverridesStore(tmp_path), refunds()
    section = TEMPLATE.sections[0]
    smaller = SectionOverride(
        path=("memory",), expected_hash=section.content_hash, body=section.body, recall_tokens=3
    )
    store.store(TEMPLATE, smaller, tag="opt-1")
    loop = _support(memory, overrides_store=store)
    result = loop.execute(MainLoopRequest(request={"question": "refunds?"}, experiment=EXPERIMENT))

    assert (result.output, result.remembered) == ("?", 0)
    assert result.package_hash == memory.recall("refunds?", tokens=3).package_hash
    assert memory.store.head() == 1


def test_an_experiment_without_its_override_is_an_error_not_another_prompt() -> None:
    with raises_code("missing_override"):
        _support(refunds()).execute(MainLoopRequest(request={"question": "?"}, experiment=EXPERIMENT))


def test_what_fails_is_not_remembered() -> None:
    memory = refunds()

    def fails(_: ModelRequest) -> str:
        raise ProviderError("provider_garbled", provider="scripted", problem="nonsense")

    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="main")
    replies = requests.reply_mailbox("me")
    requests.send(MainLoopRequest(request={"question": "?"}), reply_to="me")
    _support(memory, adapter=ScriptedProvider(fails), requests=requests).run(
        max_iterations=1, wait_time_seconds=0
    )

    assert "nonsense" in replies.receive()[0].body.error
    assert memory.store.head() == 1


def test_a_budget_caps_what_memory_hands_back_and_a_deadline_is_kept() -> None:
    memory = refunds()
    loop = _support(memory, clock=ManualClock())
    request: dict[str, Any] = {"request": {"question": "refunds?"}}
    capped = loop.execute(MainLoopRequest(**request, budget=Budget(max_excerpt_tokens=2)))

    assert capped.package_hash == memory.at(1).recall("refunds?", tokens=2).package_hash
    with raises_code("deadline_passed"):
        loop.execute(MainLoopRequest(**request, deadline=START - timedelta(seconds=1)))
    with pytest.raises(InvalidValue):
        MainLoopRequest(**request, deadline=datetime(2026, 1, 2))  # noqa: DTZ001  # It is refused because it has no time zone.
    assert loop.execute(MainLoopRequest(**request, deadline=START + timedelta(days=1))).output == "14 days"


def test_tool_handlers_see_the_experiment(tmp_path: Path) -> None:
    seen: list[ToolContext] = []

    def look_up(arguments: dict[str, Any], context: ToolContext) -> str:
        seen.append(context)
        return f"{arguments['word']} means roots"

    def script(request: ModelRequest) -> str | ModelReply:
        if len(request.messages) > 1:
            return request.messages[-1].text
        calls = (
            ModelToolCall(call_id="1", name="no such tool", arguments={}),
            ModelToolCall(call_id="2", name="look_up", arguments={"word": "standfast"}),
        )
        return ModelReply(text="", tool_calls=calls, model="m", usage=TokenUsage(input_tokens=5))

    spec = ToolSpec(name="look_up", description="Looks a word up.", parameters={"type": "object"})
    store = LocalPromptOverridesStore(tmp_path)
    store.replace(TEMPLATE, [], tag="opt-1")
    loop = _support(
        refunds(),
        adapter=ScriptedProvider(script),
        tools=[AgentTool(spec=spec, handler=look_up)],
        overrides_store=store,
    )
    result = loop.execute(
        MainLoopRequest(request={"question": "?"}, experiment=EXPERIMENT, request_id=id_of("r7"))
    )

    assert result.output == "standfast means roots"
    assert result.usage.input_tokens > 5
    assert [(context.experiment, context.request_id) for context in seen] == [(EXPERIMENT, str(id_of("r7")))]


def _calling(tool: str) -> ScriptedProvider:
    """A model that calls a tool once and then repeats what it was told."""

    def script(request: ModelRequest) -> str | ModelReply:
        if len(request.messages) > 1:
            return request.messages[-1].text
        return ModelReply(
            text="", tool_calls=(ModelToolCall(call_id="1", name=tool, arguments={}),), model="m"
        )

    return ScriptedProvider(script)


LOOK_UP = ToolSpec(name="look_up", description="Looks a word up.", parameters={"type": "object"})


def test_a_tools_plain_exception_is_told_to_the_model() -> None:
    def fails(_arguments: dict[str, Any], _context: ToolContext) -> str:
        raise KeyError("no such word")

    loop = _support(refunds(), adapter=_calling("look_up"), tools=[AgentTool(spec=LOOK_UP, handler=fails)])

    assert (
        loop.execute(MainLoopRequest(request={"question": "?"})).output == "error: KeyError: 'no such word'"
    )


def test_the_loop_beats_between_tool_rounds() -> None:
    """A watchdog must not take a chain of slow tools for a stuck worker."""
    clock = ManualClock()
    quiet: list[float] = []

    def slow(_arguments: dict[str, Any], _context: ToolContext) -> str:
        clock.sleep(50.0)
        return "found"

    class Watched(ScriptedProvider):
        def complete(self, request: ModelRequest) -> ModelReply:
            quiet.append(loop.quiet_seconds)
            return super().complete(request)

    adapter = Watched(_calling("look_up")._script)
    loop = _support(refunds(), adapter=adapter, tools=[AgentTool(spec=LOOK_UP, handler=slow)], clock=clock)
    loop.execute(MainLoopRequest(request={"question": "?"}))

    assert quiet == [0.0, 0.0]


def test_a_model_that_only_calls_tools_is_stopped() -> None:
    call = ModelToolCall(call_id="1", name="again", arguments={})
    adapter = ScriptedProvider(lambda _: ModelReply(text="", tool_calls=(call,), model="m"))

    with raises_code("provider_garbled", match="without answering"):
        _support(refunds(), adapter=adapter).execute(MainLoopRequest(request={"question": "?"}))


def test_every_tool_has_a_name_of_its_own() -> None:
    spec = ToolSpec(name="look_up", description="Looks a word up.", parameters={"type": "object"})
    ours = ToolSpec(name="prompt.render", description="Not the user's.", parameters={"type": "object"})
    tool = AgentTool(spec=spec, handler=lambda _arguments, _context: "")
    for tools in ([tool, tool], [replace(tool, spec=ours)], [replace(tool, profile=ToolProfile.whole("x"))]):
        with pytest.raises(InvalidValue, match="unique name"):
            _support(refunds(), tools=tools)


def test_the_resources_of_a_request_reach_its_tools_and_can_not_be_sent() -> None:
    seen = []

    def count(_: dict[str, Any], context: ToolContext) -> str:
        seen.append(context.resources.get(Counter))
        return "done"

    def script(request: ModelRequest) -> str | ModelReply:
        if len(request.messages) > 1:
            return request.messages[-1].text
        call = ModelToolCall(call_id="1", name="count", arguments={})
        return ModelReply(text="", tool_calls=(call,), model="m")

    spec = ToolSpec(name="count", description="Counts.", parameters={"type": "object"})
    section = Section(key="task", title="Task", body="Count.")
    loop: MainLoop[Any] = MainLoop(
        adapter=ScriptedProvider(script),
        template=PromptTemplate(ns="agent", key="count", sections=(section,)),
        tools=[AgentTool(spec=spec, handler=count)],
    )
    request: MainLoopRequest[Any] = MainLoopRequest(request={}, resources=Resources(Counter("abc")))
    mailbox: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="main")

    assert loop.execute(request).output == "done"
    assert seen == [Counter("abc")]
    with raises_code("unsendable_body", match="Resources"):
        mailbox.send(request)
