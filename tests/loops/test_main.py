"""The agent's loop: recall, render, ask, remember, and what tools can see."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.clock import ManualClock
from holdfast.errors import DeadlinePassed, InvalidValue, MissingOverride, ProviderGarbled
from holdfast.loops.main import MainLoop, ToRemember
from holdfast.loops.requests import MainLoopRequest
from holdfast.loops.strategies.recall import RecallBudget
from holdfast.loops.tools import Tool, ToolContext
from holdfast.mailboxes.in_memory import InMemoryMailbox
from holdfast.prompts.local import LocalPromptOverridesStore
from holdfast.prompts.overrides import SectionOverride
from holdfast.prompts.section import Section, memory_section
from holdfast.prompts.template import PromptTemplate
from holdfast.providers.adapter import ModelReply, ModelRequest, TokenUsage, ToolCall, ToolSpec
from holdfast.providers.scripted import ScriptedProvider
from holdfast.vocabulary import Budget, Experiment
from tests.loops.world import World, dataset

TEMPLATE = PromptTemplate(
    ns="agent",
    key="support",
    sections=(memory_section(tokens=100), Section(key="task", title="Task", body="Q: ${question}")),
)
EXPERIMENT = Experiment(id="e", name="trial", overrides_tag="opt-1", created_at="2026")


@dataclass(frozen=True)
class Package:
    """What memory hands back."""

    text: str
    package_hash: str = "h" * 64


@dataclass
class FakeMemory:
    """Memory of a few words; a run's buffer is committed or discarded as the real one's."""

    words: str = "EU refunds take 14 days"
    modes: list[str] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)
    _buffer: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def run(self, *, workflow: str, mode: str) -> Iterator["FakeMemory"]:
        """A run."""
        assert workflow == "support"
        self.modes.append(mode)
        self._buffer = []
        yield self
        self.kept += self._buffer

    def recall(self, query: str, *, tokens: int) -> Package:
        """As many words as the budget allows."""
        self.asked.append((query, tokens))
        return Package(" ".join(self.words.split()[:tokens]))

    def remember(
        self, text: str, *, tags: Sequence[str], subject: str | None, source: dict[str, Any]
    ) -> None:
        """Into the buffer."""
        self._buffer.append({"text": text, "tags": tuple(tags), "subject": subject, "source": source})


class Support(MainLoop[Any]):
    """Remembers every answer."""

    def to_remember(self, request: Any, output: str) -> Sequence[ToRemember]:
        """The answer, under its question."""
        return [ToRemember(text=output, tags=("answer",), subject=f"q/{request['question']}")]


def _support(memory: FakeMemory, **options: Any) -> Support:
    provider = ScriptedProvider(lambda request: "14 days" if "14 days" in request.prompt else "?")
    return Support(
        adapter=options.pop("adapter", provider),
        template=TEMPLATE,
        memory=memory,
        workflow="support",
        **options,
    )


def test_a_request_goes_through_memory_prompt_and_model(tmp_path: Path) -> None:
    memory, events = FakeMemory(), list[dict[str, Any]]()
    loop = _support(memory, bus=events.append, overrides_store=LocalPromptOverridesStore(tmp_path))
    result = loop.execute(MainLoopRequest(request={"question": "refunds?"}, request_id="r1"))

    assert (result.output, result.remembered, result.error) == ("14 days", 1, None)
    assert result.package_hash == "h" * 64
    assert result.fell_back == "missing"
    assert memory.asked == [("refunds?", 100)]
    assert memory.modes == ["buffered_write"]
    [kept] = memory.kept
    assert kept["source"] == {"kind": "main-loop", "id": "r1"}
    assert [event["event"] for event in events] == ["rendered", "answered"]


def test_under_an_experiment_nothing_is_remembered_and_its_tag_is_used(tmp_path: Path) -> None:
    store, memory = LocalPromptOverridesStore(tmp_path), FakeMemory()
    section = TEMPLATE.sections[0]
    smaller = SectionOverride(
        path=("memory",), expected_hash=section.content_hash, body=section.body, recall_tokens=3
    )
    store.store(TEMPLATE, smaller, tag="opt-1")
    loop = _support(memory, overrides_store=store)
    result = loop.execute(MainLoopRequest(request={"question": "refunds?"}, experiment=EXPERIMENT))

    assert (result.output, result.remembered) == ("?", 0)
    assert memory.asked == [("refunds?", 3)]
    assert memory.modes == ["read_only"]
    assert memory.kept == []


def test_an_experiment_without_its_override_is_an_error_not_another_prompt() -> None:
    with pytest.raises(MissingOverride):
        _support(FakeMemory()).execute(MainLoopRequest(request={"question": "?"}, experiment=EXPERIMENT))


def test_what_fails_is_not_remembered() -> None:
    memory = FakeMemory()

    def fails(_: ModelRequest) -> str:
        raise ProviderGarbled(provider="scripted", problem="nonsense")

    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="main")
    replies = requests.reply_mailbox("me")
    requests.send(MainLoopRequest(request={"question": "?"}), reply_to="me")
    _support(memory, adapter=ScriptedProvider(fails), requests=requests).run(
        max_iterations=1, wait_time_seconds=0
    )

    assert "nonsense" in replies.receive()[0].body.error
    assert memory.kept == []


def test_a_budget_caps_what_memory_hands_back_and_a_deadline_is_kept() -> None:
    memory = FakeMemory()
    loop = _support(memory, clock=ManualClock())
    request: dict[str, Any] = {"request": {"question": "?"}}
    loop.execute(MainLoopRequest(**request, budget=Budget(max_excerpt_tokens=2)))

    assert memory.asked == [("?", 2)]
    with pytest.raises(DeadlinePassed):
        loop.execute(MainLoopRequest(**request, deadline="2025-12-31T23:59:59.000000Z"))
    with pytest.raises(InvalidValue):
        MainLoopRequest(**request, deadline="tomorrow")
    assert (
        loop.execute(MainLoopRequest(**request, deadline="2026-12-31T23:59:59.000000Z")).output == "14 days"
    )


def test_tool_handlers_see_the_experiment(tmp_path: Path) -> None:
    seen: list[ToolContext] = []

    def look_up(arguments: dict[str, Any], context: ToolContext) -> str:
        seen.append(context)
        return f"{arguments['word']} means roots"

    def script(request: ModelRequest) -> str | ModelReply:
        if len(request.turns) > 1:
            return request.turns[-1].text
        calls = (
            ToolCall(call_id="1", name="no such tool", arguments={}),
            ToolCall(call_id="2", name="look_up", arguments={"word": "holdfast"}),
        )
        return ModelReply(text="", tool_calls=calls, model="m", usage=TokenUsage(input_tokens=5))

    spec = ToolSpec(name="look_up", description="Looks a word up.", parameters={"type": "object"})
    store = LocalPromptOverridesStore(tmp_path)
    store.replace(TEMPLATE, [], tag="opt-1")
    loop = _support(
        FakeMemory(),
        adapter=ScriptedProvider(script),
        tools=[Tool(spec=spec, handler=look_up)],
        overrides_store=store,
    )
    result = loop.execute(MainLoopRequest(request={"question": "?"}, experiment=EXPERIMENT, request_id="r7"))

    assert result.output == "holdfast means roots"
    assert result.usage.input_tokens > 5
    assert [(context.experiment, context.request_id) for context in seen] == [(EXPERIMENT, "r7")]


def test_a_model_that_only_calls_tools_is_stopped() -> None:
    call = ToolCall(call_id="1", name="again", arguments={})
    adapter = ScriptedProvider(lambda _: ModelReply(text="", tool_calls=(call,), model="m"))

    with pytest.raises(ProviderGarbled, match="never answered"):
        _support(FakeMemory(), adapter=adapter).execute(MainLoopRequest(request={"question": "?"}))


def test_the_smallest_recall_budget_that_does_not_regress_is_found(tmp_path: Path) -> None:
    """Of eight words, the first four are all that the agent needs."""
    memory = FakeMemory(words="the sum is easy and the sea is wide")
    template = PromptTemplate(
        ns="agent",
        key="sum",
        sections=(memory_section(tokens=8), Section(key="task", title="Task", body="Add ${a} and ${b}.")),
    )

    def script(request: ModelRequest) -> str:
        import re

        found = re.search(r"Add (\d+) and (\d+)", request.prompt)
        assert found is not None
        return str(int(found[1]) + int(found[2])) if "the sum is easy" in request.prompt else "?"

    world = World(tmp_path, ScriptedProvider(script), RecallBudget(0.25, 0.5, 0.75), template=template)
    world.main._memory, world.main._workflow = memory, "support"
    report = world.optimize(dataset(100))

    [modification] = report.modifications
    assert (modification.original_recall_tokens, modification.recall_tokens) == (8, 4)
    assert modification.token_reduction == 4
