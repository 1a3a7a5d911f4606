"""The cap on an artifact: it always holds, and what it costs is always told."""

import pytest

from standfast.errors import InvalidValue
from standfast.limits import MAX_OUTPUT_SHAPE_BYTES, MAX_TRACE_BYTES
from standfast.traces.artifact import ToolProfile, Trace
from standfast.traces.equivalence import ShortfallCode, compare, shortfalls
from standfast.traces.shapes import TextShape
from tests.traces.scripted import SEARCH, a_recorder

SMALL_BYTES = 150_000


def test_a_trace_beyond_the_cap_is_truncated_and_says_what_is_missing() -> None:
    recorder = a_recorder(limit_bytes=SMALL_BYTES)
    for number in range(60):
        recorder.tool_call(
            profile=ToolProfile.whole("fetch"), args={"page": "x" * 5_000, "n": number}, result=1
        )
    recorder.output(TextShape(sections=()))
    trace = recorder.finish()
    truncation = trace.metadata.truncation

    assert len(trace.as_bytes()) <= SMALL_BYTES
    assert trace.metadata.truncated
    assert truncation is not None
    assert len(trace.events) + truncation.dropped_events == 60
    assert ShortfallCode.TRUNCATED in {fall.code for fall in shortfalls(trace)}
    assert not compare(trace, trace).is_equivalent


def test_profiles_count_too() -> None:
    recorder = a_recorder(limit_bytes=SMALL_BYTES)
    fields = tuple(f"field-{number:04}" * 4 for number in range(200))
    for number in range(20):
        recorder.register(
            ToolProfile(tool_name=f"t{number}", tool_profile_version="v1", normalized_args_fields=fields)
        )
    trace = recorder.finish()

    assert len(trace.as_bytes()) <= SMALL_BYTES
    assert trace.metadata.truncated


def test_names_that_outgrow_their_estimate_cost_events_not_the_trace() -> None:
    """A control character takes six bytes, which nobody reckons with, so events are taken off at the end."""
    recorder = a_recorder(limit_bytes=SMALL_BYTES)
    for _ in range(60):
        with recorder.event(role="\x01" * 256, interceptor="\x02" * 256, decision_type="\x03" * 256):
            recorder.guardrail("g")
    trace = recorder.finish()

    assert SMALL_BYTES // 2 < len(trace.as_bytes()) <= SMALL_BYTES
    assert trace.metadata.truncation is not None
    assert len(trace.events) + trace.metadata.truncation.dropped_events == 60
    assert Trace.read(trace.as_bytes()) == trace


def test_large_results_cost_the_replay_not_the_claim() -> None:
    recorder = a_recorder()
    page = {"hits": ["x" * 900_000]}
    for _ in range(12):
        recorder.tool_call(profile=SEARCH, args={"query": "x"}, result=page)
    recorder.tool_call(profile=SEARCH, args={"query": "y"}, result={"hits": ["x" * 2_000_000]})
    recorder.output(TextShape(sections=()))
    trace = recorder.finish()
    omitted = [call.result_omitted for event in trace.events for call in event.tool_calls]

    assert omitted == [None] * 5 + ["size"] * 8
    assert len(trace.as_bytes()) < MAX_TRACE_BYTES
    assert shortfalls(trace) == ()


def test_results_take_half_of_what_an_output_leaves() -> None:
    recorder = a_recorder(limit_bytes=SMALL_BYTES)
    half_bytes = (SMALL_BYTES - MAX_OUTPUT_SHAPE_BYTES) // 2
    for length in (half_bytes + 1_000, half_bytes - 1_000):
        recorder.tool_call(profile=ToolProfile.whole("fetch"), args={}, result="x" * length)
    calls = [event.tool_calls[0] for event in recorder.finish().events]

    assert [call.result_omitted for call in calls] == ["size", None]


def test_a_kept_result_leaves_less_for_what_comes_after() -> None:
    recorder = a_recorder(limit_bytes=SMALL_BYTES)
    half_bytes = (SMALL_BYTES - MAX_OUTPUT_SHAPE_BYTES) // 2
    recorder.tool_call(profile=ToolProfile.whole("fetch"), args={}, result="x" * (half_bytes - 1_000))
    recorder.tool_call(profile=ToolProfile.whole("fetch"), args={"page": "x" * half_bytes}, result=1)
    truncation = recorder.finish().metadata.truncation

    assert truncation is not None
    assert truncation.dropped_tool_calls == 1


@pytest.mark.parametrize("limit_bytes", [2 * MAX_OUTPUT_SHAPE_BYTES - 1, MAX_TRACE_BYTES + 1])
def test_a_cap_outside_of_its_bounds_is_refused(limit_bytes: int) -> None:
    with pytest.raises(InvalidValue, match="limit_bytes must be"):
        a_recorder(limit_bytes=limit_bytes)


@pytest.mark.parametrize("limit_bytes", [2 * MAX_OUTPUT_SHAPE_BYTES, MAX_TRACE_BYTES])
def test_a_cap_at_its_bounds_is_taken(limit_bytes: int) -> None:
    assert len(a_recorder(limit_bytes=limit_bytes).finish().as_bytes()) <= limit_bytes
