"""What the agent's loop did is in its trace: the same request again is proved equivalent, one thing changed
is caught.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.clock import ManualClock, RandomIds
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.optimize.evals.results import EvalRequest, InMemoryResultCache
from standfast.optimize.evals.samples import Sample
from standfast.optimize.loops.agent import AgentTool, ToolContext, ToRemember, model_identity
from standfast.optimize.loops.main import EvalLoop, MainLoop, MainLoopRequest
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import SectionOverride
from standfast.optimize.prompts.template import PromptTemplate, Section, memory_section
from standfast.optimize.providers.adapter import (
    ModelReply,
    ModelRequest,
    ModelToolCall,
    ProviderConfig,
    ScriptedProvider,
    ToolSpec,
)
from standfast.optimize.providers.vendors import OpenAICompatibleProvider
from standfast.traces.artifact import ToolProfile, Trace
from standfast.traces.equivalence import ReasonCode, shortfalls
from standfast.traces.folder import TraceFolder
from standfast.traces.shapes import JsonShape, TextShape
from tests.optimize.loops.harness import id_of
from tests.servers.model import MODEL_NAME, ModelServer

TASK = Section(key="task", title="Task", body="Q: ${question}")
TEMPLATE = PromptTemplate(ns="agent", key="support", sections=(memory_section(tokens=200), TASK))
KNOWN = (
    ("policy/eu-refunds", "EU refunds take 14 days."),
    ("policy/eu-parcels", "Parcels within the EU take 5 days."),
)
QUESTION = {"question": "How long do EU refunds take?"}
SPEC = ToolSpec(name="calendar", description="Counts days.", parameters={"type": "object"})


class _Support(MainLoop[Any]):
    def to_remember(self, request: Any, output: str) -> Sequence[ToRemember]:
        return (ToRemember(text=f"Asked about {request['question']} we say {output}", tags=("asked",)),)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """An agent, what it knows and what it is told, so that a test can change one thing."""

    known: tuple[tuple[str, str], ...] = KNOWN
    question: Any = None
    days: int = 14
    tool: str = "calendar"
    refusal: str | None = None
    override: str | None = None
    answer: str = "# Answer\n14 days"
    seed: int = 0
    revision: str = "parrot-1"
    description: str = SPEC.description

    def play(self, folder: Path, *, days_later: int = 0) -> Path:
        """The file of the trace that one request leaves, over a memory that was filled so many days
        before.
        """
        clock = ManualClock()
        memory = Memory.open(
            ":memory:",
            clock=clock,
            ids=RandomIds(),
            traces=TraceFolder(folder / "traces", ids=RandomIds()),
        )
        with memory.run(workflow="seed", mode="buffered_write") as run:
            for subject, text in self.known:
                run.remember(text, subject=subject, source={"kind": "doc", "id": "handbook"})
        clock.advance(days_later * 86_400)
        result = self.loop(memory, folder).execute(MainLoopRequest(request=self.question or QUESTION))
        assert memory.traces is not None
        return memory.traces.file_of(str(result.run_id))

    def loop(self, memory: Memory, folder: Path) -> MainLoop[Any]:
        """The agent over a memory."""
        store = LocalPromptOverridesStore(folder / RandomIds().new_id())
        if self.override is not None:
            task = SectionOverride(path=("task",), expected_hash=TASK.content_hash, body=self.override)
            store.store(TEMPLATE, task, tag="stable")
        spec = ToolSpec(name="calendar", description=self.description, parameters={"type": "object"})
        return _Support(
            adapter=ScriptedProvider(self._script, seed=self.seed),
            template=TEMPLATE,
            overrides_store=store,
            memory=memory,
            workflow="support",
            tools=[AgentTool(spec=spec, handler=self._calendar)],
        )

    def _script(self, request: ModelRequest) -> ModelReply:
        if len(request.messages) > 1:
            return ModelReply(text=self.answer, model=self.revision)
        call = ModelToolCall(call_id=RandomIds().new_id(), name=self.tool, arguments={"days": self.days})
        return ModelReply(text="", tool_calls=(call,), model=self.revision)

    def _calendar(self, arguments: dict[str, Any], _context: ToolContext) -> str:
        if self.refusal is not None:
            raise InvalidValue(what="calendar", problem=self.refusal)
        return f"in {min(arguments['days'], 20)} days"


def _compared(left: Path, right: Path) -> tuple[int, list[str]]:
    result = CliRunner().invoke(main, ["trace", "compare", str(left), str(right), "--json"])
    return result.exit_code, [one["code"] for one in json.loads(result.stdout)["differences"]]


def test_the_same_request_over_the_same_snapshot_is_proved_equivalent(tmp_path: Path) -> None:
    """Another request id, another day, other ids, another folder of overrides: none of it counts."""
    left, right = Scene().play(tmp_path / "a"), Scene().play(tmp_path / "b", days_later=90)

    assert left.name != right.name
    assert _compared(left, right) == (0, [])


def test_the_trace_tells_model_prompt_retrieval_calls_and_output(tmp_path: Path) -> None:
    trace = Trace.read(Scene(seed=7).play(tmp_path).read_bytes())

    assert shortfalls(trace) == ()
    assert [(event.role, event.decision_type) for event in trace.events] == [
        ("agent", "prepare"),
        ("assistant", "tool_calls"),
        ("assistant", "message"),
        ("agent", "answer"),
        ("agent", "remember"),
    ]
    assert [[call.tool_name for call in event.tool_calls] for event in trace.events] == [
        ["prompt.render"],
        ["calendar"],
        [],
        ["agent.exchange"],
        ["memory.remember"],
    ]
    assert [read.selected_records[0].record_id for read in trace.retrievals] == ["policy/eu-refunds"]
    rendered: Any = trace.events[0].tool_calls[0].result
    assert rendered.keys() >= {"prompt_digest", "rendered_digest", "package_hash", "fell_back"}
    assert trace.output is not None
    assert trace.output.output_shape == TextShape(sections=("Answer",))
    model = trace.model_config
    assert model is not None
    assert (model.provider_name, model.model_name, model.model_revision) == ("scripted", "script", "parrot-1")
    assert (model.temperature, model.max_tokens, model.seed) == (None, 1024, 7)
    assert not model.stochastic_unseeded
    assert model.other_params.keys() == {"tools_digest"}


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        (Scene(days=15), [ReasonCode.NORMALIZED_ARGS, ReasonCode.TOOL_RESULT]),
        (Scene(tool="almanac"), [ReasonCode.TOOL_NAME, ReasonCode.TOOL_PROFILE_VERSION]),
        (Scene(refusal="no calendar today"), [ReasonCode.TOOL_OUTCOME, ReasonCode.TOOL_RESULT]),
        (Scene(override="Question: ${question}"), [ReasonCode.TOOL_RESULT]),
        (
            Scene(known=(("policy/eu-returns", KNOWN[0][1]), KNOWN[1])),
            [ReasonCode.SELECTED_RECORDS, ReasonCode.TOOL_RESULT],
        ),
        (Scene(known=((KNOWN[0][0], "EU refunds take 15 days."), KNOWN[1])), [ReasonCode.RECORD_HASH]),
        (
            Scene(question={"question": "How long do EU parcels take?"}),
            [ReasonCode.QUERY_FINGERPRINT, ReasonCode.RANK_ORDER, ReasonCode.TOOL_RESULT],
        ),
        (Scene(seed=1), [ReasonCode.MODEL_CONFIG_ID]),
        (Scene(revision="parrot-2"), [ReasonCode.MODEL_CONFIG_ID]),
        (Scene(description="Counts weeks."), [ReasonCode.MODEL_CONFIG_ID]),
        (Scene(answer="# Answer\n# Sources"), [ReasonCode.NORMALIZED_ARGS, ReasonCode.OUTPUT_SHAPE]),
    ],
    ids=[
        "argument",
        "unknown tool",
        "refusal",
        "override",
        "another record",
        "another text",
        "question",
        "seed",
        "revision",
        "tool description",
        "output",
    ],
)
def test_one_change_is_caught_with_its_own_reason_code(
    tmp_path: Path, changed: Scene, codes: list[ReasonCode]
) -> None:
    exit_code, found = _compared(Scene().play(tmp_path / "a"), changed.play(tmp_path / "b"))

    # What is remembered, and from where, follows from what came before; the first differences are the cause.
    assert exit_code == 1
    assert found[: len(codes)] == codes


def test_a_tool_s_profile_says_what_of_its_calls_counts(tmp_path: Path) -> None:
    """Without the argument that differs in scope, two runs that differ in it are the same."""
    profile = ToolProfile(
        tool_name="calendar",
        tool_profile_version="calendar-v1",
        normalized_args_fields=("country",),
        side_effect_fields=("*",),
    )

    @dataclass(frozen=True, kw_only=True)
    class Profiled(Scene):
        def loop(self, memory: Memory, folder: Path) -> MainLoop[Any]:
            made = super().loop(memory, folder)
            tool = AgentTool(spec=SPEC, handler=self._calendar, profile=profile, effects=lambda said: said)
            return _Support(
                adapter=made.adapter, template=TEMPLATE, memory=memory, workflow="support", tools=[tool]
            )

    files = [Profiled(days=days).play(tmp_path) for days in (25, 30, 3)]
    [call] = Trace.read(files[0].read_bytes()).events[1].tool_calls

    assert call.side_effect_fingerprint is not None
    assert _compared(files[0], files[1]) == (0, [])
    assert _compared(files[0], files[2])[1][:2] == [ReasonCode.TOOL_RESULT, ReasonCode.SIDE_EFFECT]


def test_two_loops_over_one_memory_are_proved_equivalent(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    memory = Memory.open(":memory:", clock=ManualClock(), ids=RandomIds(), traces=folder)
    for _ in range(2):
        adapter = ScriptedProvider(lambda _: '{"days": 14}')
        loop: MainLoop[Any] = MainLoop(adapter=adapter, template=TEMPLATE, memory=memory)
        loop.execute(MainLoopRequest(request=QUESTION))
    left, right = folder.run_files()

    assert _compared(left, right) == (0, [])
    output = Trace.read(left.read_bytes()).output
    assert output is not None
    assert output.output_shape == JsonShape(structure={"days": "number"})


def test_a_model_without_a_seed_claims_nothing() -> None:
    identity = model_identity(ProviderConfig(provider="anthropic", model="m", temperature=0.5), repeat=2)

    assert identity.stochastic_unseeded
    assert not identity.is_reproducible
    assert identity.other_params == {"repeat": 2}


def test_a_model_that_changes_within_a_run_claims_nothing(tmp_path: Path) -> None:
    """Its trace is kept all the same, and says why."""
    revisions = iter(["parrot-1", "parrot-2"])

    @dataclass(frozen=True, kw_only=True)
    class Changing(Scene):
        def _script(self, request: ModelRequest) -> ModelReply:
            return replace_model(super()._script(request), next(revisions))

    def replace_model(reply: ModelReply, name: str) -> ModelReply:
        return ModelReply(text=reply.text, tool_calls=reply.tool_calls, model=name)

    trace = Trace.read(Changing().play(tmp_path).read_bytes())

    assert [gap.code for gap in trace.metadata.gaps] == ["model_changed"]
    assert [fall.code for fall in shortfalls(trace)] == ["incomplete"]


def test_a_request_that_fails_leaves_a_trace_that_says_so(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> str:
        raise ValueError("the model is gone")

    folder = TraceFolder(tmp_path, ids=RandomIds())
    memory = Memory.open(":memory:", clock=ManualClock(), ids=RandomIds(), traces=folder)
    loop = _Support(adapter=ScriptedProvider(script), template=TEMPLATE, memory=memory, workflow="support")
    with pytest.raises(ValueError, match="gone"):
        loop.execute(MainLoopRequest(request=QUESTION))

    [file] = folder.run_files()
    gaps = Trace.read(file.read_bytes()).metadata.gaps
    assert {gap.code for gap in gaps} >= {"run_failed", "no_output"}


def test_an_evaluation_leaves_a_whole_trace_also_when_its_grade_was_known(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    memory = Memory.open(":memory:", clock=ManualClock(), ids=RandomIds(), traces=folder)
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals")
    worker: EvalLoop[Any, Any] = EvalLoop(
        loop=Scene().loop(memory, tmp_path), requests=requests, cache=InMemoryResultCache()
    )
    request: EvalRequest[Any, Any] = EvalRequest(
        sample=Sample(id="a", input=QUESTION, expected="14 days"), request_id=id_of("e1")
    )
    first, cached = worker.handle(request), worker.handle(request)

    assert (first.calls, cached.calls) == (2, 0)
    assert msgspec.structs.replace(first, calls=0) == cached
    traces = [Trace.read(file.read_bytes()) for file in folder.run_files()]

    assert [shortfalls(trace) for trace in traces] == [(), ()]
    assert sorted(trace.events[-1].decision_type for trace in traces) == ["answer", "known"]
    assert memory.store.head() == 0


@pytest.mark.slow
def test_two_runs_of_a_real_model_are_proved_equivalent(tmp_path: Path, model_server: ModelServer) -> None:
    folder = TraceFolder(tmp_path, ids=RandomIds())
    memory = Memory.open(":memory:", clock=ManualClock(), ids=RandomIds(), traces=folder)
    provider = OpenAICompatibleProvider(
        model=MODEL_NAME, base_url=model_server.base_url, api_key="none", max_output_tokens=16, seed=1
    )
    loop: MainLoop[Any] = MainLoop(adapter=provider, template=TEMPLATE, memory=memory)
    first, second = (loop.execute(MainLoopRequest(request=QUESTION)) for _ in range(2))
    provider.close()

    assert first.output == second.output != ""
    assert _compared(*folder.run_files()) == (0, [])
    model = Trace.read(folder.file_of(str(first.run_id)).read_bytes()).model_config
    assert model is not None
    assert (model.temperature, model.max_tokens, model.seed) == (0.0, 16, 1)
    assert model.model_revision == first.model != ""
