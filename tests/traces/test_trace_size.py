"""The cap on an artifact: it always holds, and what it costs is always told."""

from standfast.limits import MAX_TRACE_BYTES
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
