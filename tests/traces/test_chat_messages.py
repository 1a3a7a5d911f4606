"""The OpenAI-style message format: recorded without changing the agent that speaks it."""

from typing import Any

import pytest

from standfast.canon import fingerprint
from standfast.clock import ManualClock
from standfast.errors import InvalidValue
from standfast.traces.artifact import Trace
from standfast.traces.chat_messages import ChatRecorder, record_messages
from standfast.traces.equivalence import compare
from standfast.traces.recorder import Recorder
from standfast.traces.shapes import text_shape
from tests.traces.scripted import MODEL, SEARCH, a_run


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


ASKED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        call("call_a", "search", '{"query": "parcel", "limit": 5}'),
        call("call_b", "weather", '{"city": "Cork"}'),
    ],
}
ANSWERS = [
    answer("call_a", '{"took_ms": 3, "hits": ["delivered"]}'),
    answer("call_b", [{"type": "text", "text": "rain"}]),
]
FINAL = {"role": "assistant", "content": "# Answer\nIt was delivered."}
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is it?"},
    ASKED,
    *ANSWERS,
    FINAL,
]


def trace_of(messages: list[Any]) -> Trace:
    recorder = Recorder(a_run(), clock=ManualClock(), model=MODEL)
    record_messages(recorder, messages, profiles=[SEARCH])
    recorder.output(text_shape(str(FINAL["content"])))
    return recorder.finish()


def test_a_conversation_becomes_events_with_calls() -> None:
    first, last = trace_of(CONVERSATION).events

    assert [first.decision_type, last.decision_type] == ["tool_calls", "message"]
    assert [each.tool_name for each in first.tool_calls] == ["search", "weather"]
    assert first.tool_calls[0].normalized_args == {"query": "parcel"}
    assert first.tool_calls[0].tool_result_fingerprint == fingerprint({"hits": ["delivered"]})
    assert first.tool_calls[1].result == "rain"


def test_spaces_key_order_call_ids_and_the_order_of_answers_do_not_count() -> None:
    other = [
        {
            "role": "assistant",
            "tool_calls": [
                call("x1", "search", '{"limit":5,"query":"parcel"}'),
                call("x2", "weather", '{"city":"Cork"}'),
            ],
        },
        answer("x2", "rain"),
        answer("x1", '{"hits":["delivered"],"took_ms":99}'),
        FINAL,
    ]

    assert compare(trace_of(CONVERSATION), trace_of(other)).is_equivalent


def test_objects_of_a_client_library_are_recorded_too() -> None:
    class Message:
        def model_dump(self) -> dict[str, Any]:
            return ASKED

    assert compare(trace_of(CONVERSATION), trace_of([Message(), *ANSWERS, FINAL])).is_equivalent


def test_a_call_that_is_never_answered_and_an_answer_to_nothing_are_gaps() -> None:
    unanswered = trace_of([ASKED, ANSWERS[0], FINAL])
    unasked = trace_of([*ANSWERS[:1], FINAL])

    assert [gap.code for gap in unanswered.metadata.gaps] == ["unanswered_call"]
    assert [gap.code for gap in unasked.metadata.gaps] == ["unasked_answer"]


def test_arguments_that_are_no_json_are_recorded_as_they_are() -> None:
    requested = {"role": "assistant", "tool_calls": [call("c", "weather", "{city: Cork")]}
    (event,) = trace_of([requested, answer("c", None)]).events

    assert event.tool_calls[0].normalized_args == "{city: Cork"
    assert event.tool_calls[0].result is None


def test_a_refusal_is_a_decision_of_its_own() -> None:
    (event,) = trace_of([{"role": "assistant", "content": None, "refusal": "I can't help."}]).events

    assert event.decision_type == "refusal"


@pytest.mark.parametrize(
    "message",
    [
        "text",
        1,
        None,
        {"role": "assistant", "tool_calls": [{"id": "x"}]},
        {"role": "assistant", "tool_calls": ["x"]},
    ],
)
def test_what_is_no_message_is_told(message: Any) -> None:
    with pytest.raises(InvalidValue):
        ChatRecorder(Recorder(a_run(), clock=ManualClock())).feed(message)
