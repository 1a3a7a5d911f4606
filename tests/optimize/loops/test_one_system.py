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
    Grade,
    InMemoryMailbox,
    InMemoryResultCache,
    LocalPromptOverridesStore,
    MainLoop,
    MainLoopRequest,
    MessageRole,
    ModelReply,
    ModelRequest,
    PromptTemplate,
    Sample,
    ScriptedProvider,
    Section,
    SectionOverride,
    ToRemember,
    evaluate,
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


def test_an_evaluation_reads_the_newest_snapshot_whole_and_its_trace_names_it(tmp_path: Path) -> None:
    """Also when nothing was applied yet, and while somebody else writes."""
    memory = _memory(traces=TraceFolder(tmp_path / "traces", ids=RandomIds()))
    memory.remember("The limit is 10.", scope="user/ada", subject="limit")

    def script(request: ModelRequest) -> str:
        memory.remember("The limit is 20.", scope="user/ada", subject="limit")
        return "10" if "limit is 10" in request.prompt else "?"

    rows = [{"question": f"What is the limit? {n}", "expected": "10", "scope": "user/ada"} for n in range(3)]
    before = evaluate(TEMPLATE, rows, ScriptedProvider(script), memory=memory)
    pinned = Experiment("again", "again", "stable", memory_snapshot=1)
    again = evaluate(TEMPLATE, rows, ScriptedProvider(script), memory=memory, experiment=pinned)
    now = evaluate(TEMPLATE, rows, ScriptedProvider(script), memory=memory)
    assert memory.traces is not None
    traces = [trace for _, trace in memory.traces.readable()]
    evaluations = [trace.memory_snapshot_id for trace in traces if trace.workflow_id == "main"]

    assert (before.memory_snapshot, before.pass_rate) == (again.memory_snapshot, again.pass_rate) == (1, 1.0)
    assert now.pass_rate == 0.0
    assert sorted(set(evaluations)) == [1, now.memory_snapshot]
    assert (
        list(Dataset.from_traces(traces, grades=lambda one: Grade(run_id=one.run_id, good=True, by="x")))
        == []
    )


def test_an_experiment_under_another_tag_needs_its_override_and_a_stale_one_is_an_error(
    tmp_path: Path,
) -> None:
    rows, overrides = [{"question": "?", "expected": "x"}], LocalPromptOverridesStore(tmp_path)
    model = ScriptedProvider(lambda _: "x")
    plain = PromptTemplate(ns="n", key="k", sections=(Section(key="s", body="Q: ${question}"),))

    def problem(tag: str) -> str:
        found = evaluate(
            plain, rows, model, overrides_store=overrides, experiment=Experiment("e", "e", tag)
        ).results[0]
        return "" if found.error is None else found.error

    assert problem("stable") == ""
    assert "use the tag stable" in problem("other")
    overrides.replace(
        plain,
        [SectionOverride(path=("s",), expected_hash=plain.sections[0].content_hash, body="${question}")],
        tag="stable",
    )
    plain = PromptTemplate(ns="n", key="k", sections=(Section(key="s", body="Question: ${question}"),))
    assert "does not match the source" in problem("stable")


def test_an_answer_that_was_cut_off_is_no_example_of_a_good_one(tmp_path: Path) -> None:
    memory = _memory(traces=TraceFolder(tmp_path / "traces", ids=RandomIds()))
    model = ScriptedProvider(lambda _: ModelReply(text="Half an ans", model="m", stopped="length"))
    plain = PromptTemplate(ns="n", key="k", sections=(Section(key="s", body="Q: ${question}"),))
    main: MainLoop[Any] = MainLoop(adapter=model, template=plain, memory=memory)
    run = str(main.execute(MainLoopRequest({"question": "?"})).run_id)
    assert memory.traces is not None
    traces = [trace for _, trace in memory.traces.readable()]

    assert list(Dataset.from_traces(traces, grades={run: Grade(run_id=run, good=True, by="Ada")})) == []
    mended = Grade(run_id=run, good=True, by="Ada", expected="Half an answer")
    assert [one.expected for one in Dataset.from_traces(traces, grades={run: mended})] == ["Half an answer"]


def test_a_cached_answer_is_recorded_as_cut_off_if_it_was(tmp_path: Path) -> None:
    memory = _memory(traces=TraceFolder(tmp_path / "traces", ids=RandomIds()))
    model = ScriptedProvider(lambda _: ModelReply(text="x", model="m", stopped="length"))
    plain = PromptTemplate(ns="n", key="k", sections=(Section(key="s", body="Q: ${question}"),))
    cache = InMemoryResultCache()
    reports = [
        evaluate(plain, [{"question": "?", "expected": "x"}], model, memory=memory, cache=cache)
        for _ in range(2)
    ]
    assert memory.traces is not None
    answers = [
        call.result["truncated"]
        for _, trace in memory.traces.readable()
        for event in trace.events
        for call in event.tool_calls
        if call.tool_name == "agent.exchange" and isinstance(call.result, dict)
    ]

    assert [len(report.truncated) for report in reports] == [1, 1]
    assert answers == [True, True]
