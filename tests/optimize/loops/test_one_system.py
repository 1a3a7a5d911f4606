"""The loops and memory are one system: scopes, sessions, pinned snapshots, and traces that become samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.clock import CountedIds, ManualClock, RandomIds
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.optimize import (
    ChatMessage,
    Dataset,
    EvalLoop,
    EvalRequest,
    Experiment,
    InMemoryMailbox,
    LocalPromptOverridesStore,
    MainLoop,
    MainLoopRequest,
    MessageRole,
    ModelRequest,
    PromptTemplate,
    Sample,
    ScriptedProvider,
    Section,
    ToRemember,
    memory_section,
    optimize_in_process,
    rewriting_strategies,
)
from standfast.optimize.loops.proposals import Strategies
from standfast.traces.folder import TraceFolder

TEMPLATE = PromptTemplate(
    ns="agent",
    key="support",
    sections=(memory_section(tokens=800), Section(key="task", title="Task", body="Q: ${question}")),
)
SCOPES = ("user/ada", "user/bob", "user/ada2", "project/x/agent/7", "shared")


def _memory(**options: Any) -> Memory:
    return Memory.open(":memory:", clock=ManualClock(), ids=CountedIds(), **options)


class Agent(MainLoop[dict[str, str]]):
    """Remembers every question, and notes every prompt."""

    def __init__(self, memory: Memory, **options: Any) -> None:
        self.seen: list[ModelRequest] = []
        super().__init__(
            adapter=ScriptedProvider(self._scripted),
            template=TEMPLATE,
            memory=memory,
            workflow="w",
            **options,
        )

    def _scripted(self, request: ModelRequest) -> str:
        self.seen.append(request)
        return "noted"

    def to_remember(self, request: dict[str, str], output: str) -> Sequence[ToRemember]:  # noqa: ARG002
        """The question, as Ada's words."""
        return (ToRemember(text=f"They said {request['question']}", tags=("said",), speaker="Ada"),)


def _ask(agent: Agent, question: str, **options: Any) -> str:
    agent.execute(MainLoopRequest({"question": question}, **options))
    return agent.seen[-1].turns[-1].text


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SCOPES), st.integers(0, 9)), min_size=2, max_size=12))
def test_no_request_sees_what_another_scope_said(asked: list[tuple[str, int]]) -> None:
    """Every question names its scope; a prompt may hold earlier questions of its own scope only."""
    agent = Agent(_memory())
    marks = {scope: f"blood type of {scope.replace('/', ' ')} is" for scope in SCOPES}
    for scope, number in asked:
        prompt = _ask(agent, f"{marks[scope]} number {number}.", scope=scope)
        remembered = prompt.partition("Q: ")[0]

        assert not [other for other in SCOPES if other != scope and f"{marks[other]} number" in remembered]


def test_a_request_reads_and_remembers_in_its_scope_and_session() -> None:
    memory = _memory()
    agent = Agent(memory)
    _ask(agent, "Ada's blood type is AB.", scope="user/ada", session="monday")
    again = _ask(agent, "what is the blood type?", scope="user/ada", session="tuesday")
    other = _ask(agent, "what is the blood type?", scope="user/bob")
    record = next(one for one in memory.records(scope="user/ada") if one.session == "monday")

    assert "AB" in again.partition("Q: ")[0]
    assert "AB" not in other
    assert (record.scope, record.speaker) == ("user/ada", "Ada")
    with pytest.raises(InvalidValue):
        MainLoopRequest({"question": "x"}, scope="../bob")


def test_further_scopes_and_filters_of_a_recall_are_the_agents() -> None:
    memory = _memory()
    memory.remember("Refunds of blue cars take 14 days.", scope="shared", tags=["policy"])
    memory.remember("Refunds of blue cars were a joke.", scope="shared", tags=["chat"])
    agent = Agent(memory, recall={"scopes": ["shared"], "where": {"tag": "policy"}})
    prompt = _ask(agent, "how long do refunds of blue cars take?", scope="user/ada")

    assert "14 days" in prompt
    assert "joke" not in prompt


def test_system_message_schema_and_conversation_reach_the_model() -> None:
    schema = {"type": "object"}
    agent = Agent(_memory(), system="Be brief.", output_schema=schema)
    earlier = (
        ChatMessage(role=MessageRole.USER, text="Hello."),
        ChatMessage(role=MessageRole.ASSISTANT, text="Hello, Ada."),
    )
    _ask(agent, "How are you?", conversation=earlier)
    [request] = agent.seen

    assert (request.system, request.output_schema) == ("Be brief.", schema)
    assert request.turns[:2] == earlier
    assert agent.tools_digest != Agent(_memory()).tools_digest


def _pinned(memory: Memory) -> Experiment:
    return Experiment("e1", "pinned", "stable", memory_snapshot=memory.store.head())


def test_every_evaluation_of_an_experiment_reads_the_snapshot_that_it_names(tmp_path: Path) -> None:
    memory, overrides = _memory(), LocalPromptOverridesStore(tmp_path)
    overrides.replace(TEMPLATE, [], tag="stable")
    memory.remember("The limit is 10.", scope="user/ada", subject="limit")

    def script(request: ModelRequest) -> str:
        return "10" if "limit is 10" in request.prompt else "?"

    main: MainLoop[Any] = MainLoop(
        adapter=ScriptedProvider(script), template=TEMPLATE, overrides_store=overrides, memory=memory
    )
    worker: EvalLoop[Any, Any] = EvalLoop(loop=main, requests=InMemoryMailbox(name="evals"))
    sample = Sample(id="s", input={"question": "What is the limit?"}, expected="10", scope="user/ada")
    experiment = _pinned(memory)
    before = worker.handle(EvalRequest(sample=sample, experiment=experiment))
    memory.remember("The limit is 20.", scope="user/ada", subject="limit")
    after = worker.handle(EvalRequest(sample=sample, experiment=experiment))

    assert (before.outcome, before.rendered_digest) == (after.outcome, after.rendered_digest)
    assert after.passed
    assert not worker.handle(EvalRequest(sample=sample, experiment=_pinned(memory))).passed


def test_an_optimization_pins_memory_as_it_is_when_it_begins(tmp_path: Path) -> None:
    memory = _memory()
    memory.remember("The limit is 10.", scope="user/ada", subject="limit")

    def script(request: ModelRequest) -> str:
        memory.remember("Nobody knows the limit.", scope="user/ada", subject="limit")
        return "10" if "limit is 10" in request.prompt else "?"

    body = "In order to answer, please read what is remembered.\n\nQ: ${question}"
    template = PromptTemplate(
        ns="agent", key="k", sections=(memory_section(tokens=400), Section(key="task", body=body))
    )
    rows = [
        {"question": f"What is the limit, number {n}?", "expected": "10", "scope": "user/ada"}
        for n in range(60)
    ]
    result = optimize_in_process(
        template,
        rows,
        provider=ScriptedProvider(script),
        strategy=Strategies(*rewriting_strategies()),
        overrides_store=LocalPromptOverridesStore(tmp_path),
        memory=memory,
        workers=1,
    )

    assert result.report.memory_snapshot == 1
    assert result.report.baseline_pass_rate == 1.0
    assert result.report.has_modifications


def test_what_was_asked_and_answered_is_in_the_trace_without_secrets(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path, ids=RandomIds())
    agent = Agent(_memory(traces=folder))
    secret = "ghp_" + "Q4ZT7WXYB2KD9MPLq4zt7wxyb2kd9mpl5678"
    result = agent.execute(
        MainLoopRequest({"question": f"Is {secret} my key?"}, scope="user/ada", speaker="Ada")
    )
    assert result.run_id is not None
    trace = folder.get(result.run_id)
    [call] = [
        call for event in trace.events for call in event.tool_calls if call.tool_name == "agent.exchange"
    ]
    told: Any = call.result

    assert told["output"] == "noted"
    assert (told["scope"], told["speaker"]) == ("user/ada", "Ada")
    assert secret not in str(trace.as_json())
    assert "redacted" in told["input"]["question"]


def test_a_sample_of_a_dataset_may_have_a_scope_and_must_pass() -> None:
    [sample] = Dataset.of([{"q": "x", "expected": "y", "scope": "user/ada", "must_pass": True}])

    assert (sample.input, sample.scope, sample.must_pass) == ({"q": "x"}, "user/ada", True)
