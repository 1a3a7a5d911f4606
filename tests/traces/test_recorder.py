"""The recorder: what it takes down, in which order, and that it never changes a run."""

import asyncio
import gc
import inspect
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.clock import ManualClock
from standfast.errors import InvalidValue
from standfast.records.canon import canonical_bytes, fingerprint
from standfast.records.requests import ForgetRequest
from standfast.traces.artifact import (
    ModelConfig,
    ToolProfile,
    Trace,
    model_config_id,
    ranked,
    tool_runtime_profile_hash,
)
from standfast.traces.equivalence import ShortfallCode, compare, shortfalls
from standfast.traces.recorder import Recorder
from standfast.traces.shapes import TextShape
from tests.raising import raises_code
from tests.traces.scripted import MODEL, SEARCH, SEND, Script, a_recorder, a_run, recorded


def gap_codes(trace: Trace) -> list[str]:
    return [gap.code for gap in trace.metadata.gaps]


def test_the_envelope_names_the_run_and_every_version() -> None:
    trace = recorded()

    assert trace.run_id == "run-1"
    assert trace.workflow_id == "triage"
    assert trace.memory_snapshot_id == 41
    assert trace.policy_set_id == "policies-v1"
    assert trace.determinism_trace_schema_version == "memory.determinism_trace.v1"
    assert trace.retrieval_trace_schema_version == "memory.retrieval_trace.v1"
    assert trace.normalization_version == "json-v1"
    assert trace.model_config_id == model_config_id(MODEL, trace.tool_profiles)
    assert shortfalls(trace) == ()


def test_what_is_finished_is_what_is_read_back() -> None:
    trace = recorded()

    assert Trace.read(trace.as_bytes()) == trace


def test_profiles_own_which_fields_count() -> None:
    call = recorded().events[1].tool_calls[0]

    assert call.normalized_args == {"query": "parcel status"}
    assert call.tool_result_fingerprint == fingerprint({"hits": ["delivered"]})
    assert call.result == {"hits": ["delivered"], "took_ms": 3.25}
    assert call.side_effect_fingerprint is None


def test_lanes_stand_where_they_were_made_however_late_they_are_used() -> None:
    recorder = a_recorder()
    late = recorder.lane()
    with recorder.event(role="main", interceptor="i", decision_type="second"):
        inner = recorder.lane()
    with inner, recorder.event(role="main", interceptor="i", decision_type="third"):
        pass
    with late, recorder.event(role="main", interceptor="i", decision_type="first"):
        pass

    assert [event.decision_type for event in recorder.finish().events] == ["first", "second", "third"]


def test_no_call_is_lost_when_many_threads_record_at_once() -> None:
    recorder = a_recorder()
    profile = ToolProfile.whole("ping")
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        with lanes[number]:
            for step in range(25):
                recorder.tool_call(profile=profile, args={"n": number, "step": step}, result=step)

    lanes = [recorder.lane() for _ in range(8)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(work, range(8)))
    calls = [call.normalized_args for event in recorder.finish().events for call in event.tool_calls]

    assert calls == [{"n": number, "step": step} for number in range(8) for step in range(25)]


def test_no_call_is_lost_when_many_threads_share_an_event() -> None:
    """Their order is that of time then, which is why lanes are there."""
    recorder = a_recorder()
    with recorder.event(role="r", interceptor="i", decision_type="d"), ThreadPoolExecutor(8) as pool:
        contexts = [copy_context() for _ in range(200)]
        list(
            pool.map(
                lambda number: contexts[number].run(
                    recorder.tool_call, profile=SEARCH, args={"query": number}, result=None
                ),
                range(200),
            )
        )
    (event,) = recorder.finish().events

    assert sorted(call.normalized_args["query"] for call in event.tool_calls) == list(range(200))


def test_recorders_in_one_thread_do_not_mix() -> None:
    outer, inner = a_recorder(), a_recorder()
    with (
        outer.event(role="a", interceptor="i", decision_type="d"),
        inner.event(role="b", interceptor="i", decision_type="d"),
    ):
        outer.guardrail("outer")
        inner.guardrail("inner")

    assert [event.guardrails_triggered for event in outer.finish().events] == [("outer",)]
    assert [event.guardrails_triggered for event in inner.finish().events] == [("inner",)]


def test_an_entry_outside_of_any_event_makes_its_own() -> None:
    recorder = a_recorder()
    recorder.guardrail("spend-limit")
    recorder.tool_call(profile=SEARCH, args={"query": "x"}, result={"hits": []})

    assert [event.decision_type for event in recorder.finish().events] == ["guardrail", "tool_call"]


def test_an_entry_belongs_to_the_innermost_event_that_is_open() -> None:
    recorder = a_recorder()
    with recorder.event(role="agent", interceptor="i", decision_type="outer"):
        with recorder.event(role="agent", interceptor="i", decision_type="inner"):
            recorder.guardrail("a")
        recorder.guardrail("b")
    recorder.guardrail("c")

    assert [(event.decision_type, event.guardrails_triggered) for event in recorder.finish().events] == [
        ("outer", ("b",)),
        ("inner", ("a",)),
        ("guardrail", ("c",)),
    ]


def test_arguments_are_taken_down_before_the_tool_can_change_them() -> None:
    recorder = a_recorder()

    @recorder.tool()
    def drain(queue: list[int]) -> int:
        total = sum(queue)
        queue.clear()
        return total

    assert drain([1, 2]) == 3
    assert recorder.finish().events[0].tool_calls[0].normalized_args == {"queue": [1, 2]}


def test_arguments_are_told_by_name_with_defaults_however_they_are_given() -> None:
    recorder = a_recorder()

    @recorder.tool()
    def find(text: str, limit: int = 5) -> str:
        return text

    find("a")
    find(limit=5, text="a")
    calls = [call for event in recorder.finish().events for call in event.tool_calls]

    assert calls[0] == calls[1]


def _plain(a: int, b: int = 2) -> None: ...
def _mixed(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> None: ...
def _keyword_only(a: int, *, b: int) -> None: ...
def _named_only(*, a: int, b: int = 2) -> None: ...


@pytest.mark.parametrize("function", [_plain, _mixed, _named_only])
@given(
    args=st.lists(st.integers(0, 9), max_size=4),
    kwargs=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=4),
)
def test_naming_arguments_is_what_python_does(
    function: Callable[..., None], args: list[int], kwargs: dict[str, int]
) -> None:
    recorder = a_recorder()
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(TypeError):
            recorder.tool()(function)(*args, **kwargs)
        return
    bound.apply_defaults()
    recorder.tool()(function)(*args, **kwargs)

    observed = recorder.finish().events[0].tool_calls[0].normalized_args
    assert canonical_bytes(observed) == canonical_bytes(bound.arguments)


@pytest.mark.parametrize(
    ("function", "args", "kwargs"), [(_plain, [1], {"d": 2}), (_keyword_only, [1, 2], {}), (_plain, [], {})]
)
def test_a_call_that_does_not_fit_raises_before_anything_is_recorded(
    function: Callable[..., None], args: list[int], kwargs: dict[str, int]
) -> None:
    recorder = a_recorder()
    with pytest.raises(TypeError):
        recorder.tool()(function)(*args, **kwargs)

    assert recorder.finish().events == ()


def test_an_async_tool_is_recorded_with_its_result() -> None:
    recorder = a_recorder()

    @recorder.tool()
    async def double(number: int) -> int:
        return 2 * number

    assert asyncio.run(double(4)) == 8
    (event,) = recorder.finish().events
    assert [call.result for call in event.tool_calls] == [8]


def test_the_side_effects_of_a_call_made_elsewhere_are_its_result_unless_given() -> None:
    recorder = a_recorder()
    sent = {"to": "ada@example.org", "subject": "Hello"}
    recorder.tool_call(profile=SEND, args=sent, result={**sent, "status": "sent"})
    recorder.tool_call(profile=SEND, args=sent, result="sent", side_effects={**sent, "status": "sent"})
    recorder.tool_call(profile=SEND, args=sent, result="sent", side_effects={**sent, "to": "bob@example.org"})
    own, given, other = (event.tool_calls[0].side_effect_fingerprint for event in recorder.finish().events)

    assert own == given
    assert own != other


def test_forgetting_is_recorded_with_its_scope_unless_that_is_shared() -> None:
    recorder = a_recorder()
    recorder.answer(ForgetRequest(subject="law/1", reason="a request", scope="shared"), lambda: None)
    recorder.answer(ForgetRequest(subject="law/1", reason="a request", scope="user/ada"), lambda: None)
    shared, scoped = (event.tool_calls[0].normalized_args for event in recorder.finish().events)

    assert shared == {"subject": "law/1", "reason": "a request"}
    assert scoped == {"subject": "law/1", "reason": "a request", "scope": "user/ada"}


_DIGESTS = st.sampled_from(["0" * 64, "1" * 64])


@given(
    st.lists(
        st.tuples(st.text("abc", min_size=1, max_size=3), st.just("r"), _DIGESTS, st.floats(-2, 2)),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_ranking_never_shows_the_order_in_which_candidates_came(
    candidates: list[tuple[str, str, str, float]], dice: Random
) -> None:
    shuffled = candidates.copy()
    dice.shuffle(shuffled)
    nudged = [(name, kind, digest, round(score, 6) + 1e-9) for name, kind, digest, score in shuffled]
    records = ranked(candidates)

    assert ranked(shuffled) == ranked(nudged) == records
    assert [record.rank for record in records] == list(range(1, len(records) + 1))
    assert sorted(records, key=lambda record: (-record.score, record.record_id)) == list(records)


def test_a_tools_error_is_recorded_by_its_type_and_raised_as_it_is() -> None:
    recorder = a_recorder()
    error = ValueError("no such customer at 0x7f3a")

    @recorder.tool()
    def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="no such customer") as caught:
        fail()
    call = recorder.finish().events[0].tool_calls[0]

    assert caught.value is error
    assert call.outcome == "raised"
    assert call.tool_result_fingerprint == fingerprint({"error": "ValueError"})


EFFECTS = ToolProfile(tool_name="_give", tool_profile_version="v1", side_effect_fields=("row",))


def _give(value: object) -> object:
    return value


def _make(text: str) -> float:
    return float(text)


def _break(_: object) -> object:
    raise RuntimeError


def _left_open(recorder: Recorder) -> None:
    """Open an event that is never left, as in a thread that hangs."""
    event = recorder.event(role="r", interceptor="i", decision_type="d")
    event.__enter__()
    HANGING.append(event)


HANGING: list[object] = []


def _nested(levels: int) -> object:
    """A value that an artifact, which holds it five levels down, has no room for from 124 levels on."""
    return [] if levels == 1 else [_nested(levels - 1)]


def _undecided(recorder: Recorder) -> None:
    with recorder.event(role="r", interceptor="i"):
        pass


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda recorder: recorder.tool()(_give)(object()), "unrecordable_args"),
        (lambda recorder: recorder.tool()(_make)("nan"), "unrecordable_result"),
        (lambda recorder: recorder.tool(profile=EFFECTS, effects=_break)(_give)(1), "unrecordable_effects"),
        (lambda recorder: recorder.tool()(_give)(_nested(124)), "unrecordable_args"),
        (lambda recorder: recorder.tool()(lambda: _nested(124))(), "unrecordable_result"),
        (_left_open, "open_event"),
        (_undecided, "no_decision"),
        (lambda recorder: recorder.gap("lost", "half a surrogate: \ud800"), "lost"),
    ],
)
def test_what_cant_be_recorded_is_a_gap_and_the_run_goes_on(
    spoil: Callable[[Recorder], object], code: str
) -> None:
    recorder = a_recorder()
    spoil(recorder)
    recorder.output(TextShape(sections=()))
    trace = recorder.finish()

    assert gap_codes(trace) == [code]
    assert [fall.code for fall in shortfalls(trace)] == [ShortfallCode.INCOMPLETE]
    assert Trace.read(trace.as_bytes()) == trace


def test_a_run_without_an_output_or_a_model_claims_nothing() -> None:
    trace = Recorder(a_run(), clock=ManualClock()).finish()

    assert gap_codes(trace) == ["no_output"]
    assert {fall.place for fall in shortfalls(trace)} >= {"output", "model_config", "model_config_id"}


def test_a_run_that_failed_says_so() -> None:
    recorder = a_recorder()
    recorder.output(TextShape(sections=()))
    trace = recorder.finish(error=TimeoutError("model did not answer"))

    assert gap_codes(trace) == ["run_failed"]
    assert not compare(trace, trace).is_equivalent


def test_a_call_that_comes_back_too_late_still_gets_its_result() -> None:
    recorder = a_recorder()
    recorder.output(TextShape(sections=()))
    result = recorder.perform(SEARCH, {"query": "x"}, lambda: recorder.finish() and "late")

    assert result == "late"
    assert gap_codes(recorder.finish()) == ["unfinished_call"]
    with raises_code("recorder_finished"):
        recorder.guardrail("too late")


class _Lines(list[tuple[Any, ...]]):
    """A journal that is kept in memory."""

    def append(self, lines: Any) -> None:
        super().extend(lines)


def test_the_journal_gets_each_entry_as_it_comes_and_none_after_the_end() -> None:
    lines, late = _Lines(), _Lines()
    recorder = a_recorder(journal=lines)
    with recorder.event(role="agent", interceptor="i") as event:
        event.decide("search")
        recorder.tool_call(profile=SEARCH, args={"query": "x"}, result={"hits": []})
    recorder = a_recorder(journal=late)
    recorder.perform(SEARCH, {"query": "x"}, lambda: recorder.finish() and "late")

    assert [line[:2] for line in lines if line[0] not in ("run", "profile")] == [
        ("event", 1),
        ("call", 1),
        ("closed", 1),
    ]
    assert [line[0] for line in lines] == ["run", "event", "profile", "call", "closed"]
    assert [line[0] for line in late] == ["run", "profile", "event"]


def test_the_tools_that_a_run_may_call_are_recorded_though_it_calls_none() -> None:
    assert list(a_recorder(profiles=[SEARCH]).finish().tool_profiles) == [SEARCH]


def test_a_tool_has_one_profile_in_a_run() -> None:
    recorder = a_recorder(profiles=[SEARCH])
    recorder.register(ToolProfile.from_json(SEARCH.as_json()))

    with raises_code("profile_conflict"):
        recorder.register(ToolProfile(tool_name="search", tool_profile_version="search-v2"))


def test_names_and_outputs_that_are_wrong_in_themselves_raise() -> None:
    recorder = a_recorder()

    with pytest.raises(InvalidValue), recorder.event(role="", interceptor="i"):
        pass
    with pytest.raises(InvalidValue):
        recorder.output({"type": "sculpture"})
    recorder.output({"type": "table", "columns": ["a"], "rows": 3})
    with pytest.raises(InvalidValue):
        recorder.output(TextShape(sections=()))


def test_what_the_model_config_is_made_of_makes_its_identity() -> None:
    plain = MODEL.as_json()
    changes: list[tuple[str, Any]] = [
        ("provider_name", "other"),
        ("model_name", "other"),
        ("model_revision", "4"),
        ("temperature", 0.1),
        ("top_p", 0.9),
        ("max_tokens", 10),
        ("frequency_penalty", 0.5),
        ("presence_penalty", 0.5),
        ("seed", 8),
        ("deterministic_runtime", True),
        ("other_params", {"top_k": 40}),
    ]
    ids = {model_config_id(ModelConfig(**{**plain, name: value}), []) for name, value in changes}
    ids |= {model_config_id(MODEL, []), model_config_id(MODEL, [SEARCH])}

    assert {name for name, _ in changes} | {"stochastic_unseeded"} == set(plain)
    assert len(ids) == len(changes) + 2
    assert ModelConfig(provider_name="p", model_name="m").stochastic_unseeded
    assert tool_runtime_profile_hash([SEARCH, ToolProfile.whole("a")]) == tool_runtime_profile_hash(
        [ToolProfile.whole("a"), SEARCH]
    )


def test_a_run_opened_under_another_model_config_claims_nothing() -> None:
    recorder = Recorder(a_run(model_config_id="something"), clock=ManualClock(), model=MODEL)
    recorder.output(TextShape(sections=()))

    assert gap_codes(recorder.finish()) == ["model_config_mismatch"]


def test_recording_twice_gives_the_same_bytes() -> None:
    assert recorded(Script()).as_bytes() == recorded(Script()).as_bytes()


def test_a_recorder_is_gone_when_its_user_lets_it_go() -> None:
    """Without waiting for the cycle collector, because traces are large."""
    gc.disable()
    try:
        recorder = a_recorder()
        with recorder.event(role="r", interceptor="i", decision_type="d"):
            recorder.tool_call(profile=SEARCH, args={"query": "x"}, result={"hits": []})
        seen = weakref.ref(recorder)
        del recorder
        gone = seen() is None
    finally:
        gc.enable()

    assert gone
