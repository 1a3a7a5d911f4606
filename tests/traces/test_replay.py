"""Replay: the agent runs, its tools do not, and where it parts from the record is told."""

from typing import Any

import pytest

from standfast.errors import NotReplayable, RecordedFailure, ReplayDiverged
from standfast.traces.artifact import ToolProfile, Trace
from standfast.traces.equivalence import ClaimVerdict, ReasonCode
from standfast.traces.replay import ReplayedRun, replay
from standfast.traces.shapes import TextShape
from tests.traces.fixture_files import REJECTED, base, changed
from tests.traces.scripted import SEARCH, FixedMemory, Script, a_run, recorded


def test_a_replay_is_equivalent_and_calls_no_tool() -> None:
    agent = Script()
    played = replay(recorded(), agent, memory=FixedMemory())

    assert played.verdict is ClaimVerdict.EQUIVALENT
    assert agent.calls_made == []
    assert played.trace.events == recorded().events


def test_a_replay_from_the_file_is_as_good() -> None:
    assert replay(Trace.read(recorded().as_bytes()), Script(), memory=FixedMemory()).comparison.is_equivalent


def test_a_replay_of_a_replay_is_equivalent() -> None:
    again = replay(recorded(), Script(), memory=FixedMemory()).trace

    assert replay(again, Script(), memory=FixedMemory()).comparison.is_equivalent


def test_an_agent_that_asks_otherwise_is_told_that_it_diverged_and_where() -> None:
    played = replay(recorded(), Script(query="parcel position"), memory=FixedMemory())

    assert played.verdict is ClaimVerdict.DIFFERENT
    assert isinstance(played.error, ReplayDiverged)
    assert played.comparison.first is not None
    assert played.comparison.first.code is ReasonCode.NORMALIZED_ARGS


@pytest.mark.parametrize(
    ("agent", "code"),
    [
        (Script(guardrails=("other",)), ReasonCode.GUARDRAILS),
        (Script(sections=()), ReasonCode.OUTPUT_SHAPE),
        (Script(question="something else"), ReasonCode.QUERY_FINGERPRINT),
    ],
)
def test_a_change_of_the_agent_shows(agent: Script, code: ReasonCode) -> None:
    played = replay(recorded(), agent, memory=FixedMemory())

    assert played.verdict is ClaimVerdict.DIFFERENT
    assert [difference.code for difference in played.comparison.differences] == [code]


def test_memory_that_answers_otherwise_shows() -> None:
    changed_memory = FixedMemory()
    changed_memory.records = (("eu-refunds", 0.91),)
    played = replay(recorded(), Script(), memory=changed_memory)

    assert played.comparison.first is not None
    assert played.comparison.first.code is ReasonCode.SELECTED_RECORDS


def test_a_new_profile_of_a_tool_shows_even_if_it_counts_the_same() -> None:
    def agent(run: ReplayedRun, version: str = "v2") -> None:
        @run.tool(profile=ToolProfile(tool_name="ask", tool_profile_version=version))
        def ask(question: str) -> str:
            return question

        ask("x")
        run.output(TextShape(sections=()))

    played = replay(recorded(lambda run: agent(run, "v1")), agent)

    assert [difference.code for difference in played.comparison.differences] == [
        ReasonCode.MODEL_CONFIG_ID,
        ReasonCode.TOOL_PROFILE_VERSION,
    ]


def test_the_same_call_made_often_gets_its_results_in_order() -> None:
    given: list[int] = []

    def agent(run: ReplayedRun) -> None:
        results = iter((3, 1, 2))

        @run.tool()
        def roll() -> int:
            return next(results)

        given.extend(roll() for _ in range(3))
        run.output(TextShape(sections=()))

    replay(recorded(agent), agent)

    assert given == [3, 1, 2] * 2


class OddError(Exception):
    """An error that a replay can't build."""


@pytest.mark.parametrize(
    ("error", "replayed"),
    [
        (KeyError("customer"), KeyError),
        (TimeoutError("too slow"), TimeoutError),
        (OddError("odd"), RecordedFailure),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), RecordedFailure),
    ],
)
def test_a_tool_that_failed_fails_again(error: Exception, replayed: type[Exception]) -> None:
    caught: list[Exception] = []

    def agent(run: ReplayedRun) -> None:
        @run.tool()
        def fail() -> None:
            raise error

        try:
            fail()
        except Exception as raised:  # noqa: BLE001  # Which one it is, is what is asked.
            caught.append(raised)
        run.output(TextShape(sections=()))

    played = replay(recorded(agent), agent)

    assert [type(raised) for raised in caught] == [type(error), replayed]
    assert played.comparison.is_equivalent


def test_results_that_were_not_kept_come_from_the_tools_that_are_handed_in() -> None:
    profile = ToolProfile(tool_name="secret", tool_profile_version="v1", keeps_result=False)

    def agent(run: ReplayedRun) -> None:
        run.tool(profile=profile)(secret)(1)
        run.output(TextShape(sections=()))

    def secret(number: int) -> dict[str, Any]:
        return {"pa55word": number}

    trace = recorded(agent)

    with pytest.raises(NotReplayable, match="secret"):
        replay(trace, agent)
    assert b"pa55word" not in trace.as_bytes()
    assert replay(trace, agent, {"secret": secret}).comparison.is_equivalent
    assert not replay(trace, agent, {"secret": lambda number: -number}).comparison.is_equivalent


def test_an_agent_that_reads_memory_needs_it() -> None:
    with pytest.raises(NotReplayable, match="snapshot 41"):
        replay(recorded(), Script())


@pytest.mark.parametrize("code", ["truncated", "incomplete", "live_read_write", "stochastic_model"])
def test_a_trace_that_claims_nothing_is_not_replayed(code: str) -> None:
    mutate = next(mutate for each, mutate in REJECTED.items() if each == code)

    with pytest.raises(NotReplayable, match=code):
        replay(Trace.from_document(changed(mutate, base())), Script(), memory=FixedMemory())


def test_an_agent_that_fails_without_having_parted_proves_nothing() -> None:
    class Boom(RuntimeError):
        pass

    def agent(run: ReplayedRun) -> None:
        Script()(run)
        raise Boom

    played = replay(recorded(run=a_run("r")), agent, memory=FixedMemory())

    assert isinstance(played.error, Boom)
    assert played.verdict is ClaimVerdict.REJECTED


def test_arguments_that_are_no_json_diverge() -> None:
    def agent(run: ReplayedRun) -> None:
        run.tool(profile=SEARCH)(str.upper)(object())  # type: ignore[arg-type]  # On purpose.

    played = replay(recorded(), agent)

    assert isinstance(played.error, ReplayDiverged)
    assert played.verdict is ClaimVerdict.DIFFERENT
