"""Sessions read back in pages, what a list of them says, and who speaks in messages of every form."""

from typing import Any

import pytest

from standfast import Memory
from standfast.clock import ManualClock
from standfast.govern.judge import FloorRegistry, Judge
from standfast.memory import conversations
from standfast.memory.messages import read_messages
from standfast.records.origins import Origin
from standfast.records.vocabulary import Band
from tests.govern.test_allowances import OwnerFloor
from tests.store.builders import memory_store

ADA = "user/ada"


@pytest.fixture
def memory() -> Memory:
    return Memory.open(":memory:", clock=ManualClock())


def _said(text: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **fields}


def test_a_session_is_read_on_behind_any_message(memory: Memory) -> None:
    memory.add([_said(f"Message {number}.") for number in range(4)], session="s", scope=ADA)
    view = memory.at(memory.store.head())
    whole = list(view.session("s", scope=ADA))
    rest = [list(view.session("s", scope=ADA, after=one.memory_ids[0])) for one in whole]

    assert [one.position for one in whole] == [0, 1, 2, 3]
    assert rest == [whole[1:], whole[2:], whole[3:], []]


def test_a_message_of_a_tool_and_a_user_is_read_on_behind_its_first_part(memory: Memory) -> None:
    both = [
        {"type": "tool_result", "tool_use_id": "1", "content": "12 degrees"},
        {"type": "text", "text": "So?"},
    ]
    memory.add([{"role": "user", "content": both}], session="s")
    view = memory.at(memory.store.head())
    tools, users = view.session("s")

    assert (tools.origin, users.origin) == (Origin.UNTRUSTED, Origin.TRUSTED)
    assert list(view.session("s", after=tools.memory_ids[0])) == [users]


def test_a_list_of_sessions_is_read_on_behind_any_of_them(memory: Memory) -> None:
    for number in range(4):
        memory.add([_said("Hello.")], session=f"s{number}", scope=f"user/{number % 2}")
    view = memory.at(memory.store.head())
    listed = list(view.sessions(scope="user"))

    assert [one.scope for one in listed] == ["user/0", "user/0", "user/1", "user/1"]
    assert [list(view.sessions(scope="user", after=one.key)) for one in listed] == [
        listed[1:],
        listed[2:],
        listed[3:],
        [],
    ]


def test_a_session_says_how_many_messages_it_has_and_from_when_to_when(memory: Memory) -> None:
    memory.add([_said("Late.", time="2026-03-05T00:00:00Z"), _said("Early.", time="2026-03-01")], session="s")
    memory.add([_said("Far.", position=7, time="2026-03-03")], session="s")
    memory.add([_said("Near.", position=3, time="2026-02-01")], session="s")
    (info,) = memory.sessions()

    assert (info.messages, info.next_position) == (4, 8)
    assert (info.first_time, info.last_time) == ("2026-02-01T00:00:00.000000Z", "2026-03-05T00:00:00.000000Z")
    assert [one.position for one in memory.add([_said("Next.")], session="s").messages] == [8]


def test_messages_without_a_position_are_new_turns_whatever_they_say(memory: Memory) -> None:
    memory.add([_said("One."), _said("Two.")], session="s")
    same = memory.add([_said("One."), _said("Two.")], session="s")
    whole = memory.add([_said("One."), _said("Two."), _said("One.")], session="s", position=0)

    assert [(one.position, one.known) for one in same.messages] == [(2, False), (3, False)]
    assert [(one.position, one.known) for one in whole.messages] == [(0, True), (1, True), (2, True)]


def test_messages_are_trusted_no_more_than_the_call_allows_and_own_metadata_wins(memory: Memory) -> None:
    memory.add(
        [_said("Hello.", metadata={"mood": "good"}), {"role": "tool", "content": "12 degrees"}],
        session="s",
        max_origin="ordinary",
        metadata={"mood": "none", "channel": "web"},
    )
    first, second = memory.session("s")

    assert (first.origin, second.origin) == (Origin.ORDINARY, Origin.UNTRUSTED)
    assert first.metadata == {"mood": "good", "channel": "web"}


def test_what_a_conversation_supersedes_ends_once(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MESSAGES_PER_COMMIT", 1)
    home = memory.remember("Ada lives in Rome.", subject="home", source={"kind": "user", "id": "ada"})
    added = memory.add(
        [_said("I moved to Bonn."), _said("It is cold.")], session="s", supersedes=[home.memory_id]
    )

    assert len(added.receipts) == 2
    assert "Ada lives in Rome." not in {one.text for one in memory.records(band=Band.LEDGER)}


@pytest.mark.parametrize(
    ("messages", "passages"),
    [
        ([_said("a", name=" Ada ")], [("user", "Ada", "a")]),
        ([_said("a", name="  ")], [("user", "user", "a")]),
        ([_said("a", name="\u200b")], [("user", "?", "a")]),
        ([_said("a", name="x" * 300)], [("user", "x" * 256, "a")]),
        ([{"role": "USER", "content": "a"}], [("user", "user", "a")]),
        ([{"type": "user", "content": "a"}], [("user", "user", "a")]),
        ([{"role": "assistant", "content": None, "refusal": "No."}], [("agent", "assistant", "No.")]),
        ([{"role": "assistant", "content": "Yes.", "refusal": "No."}], [("agent", "assistant", "Yes.")]),
        ([{"role": "tool", "content": "a"}], [("tool", "tool", "a")]),
        ([{"role": "tool", "name": "clock", "tool_call_id": "7", "content": "a"}], [("tool", "clock", "a")]),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "7", "function": {"name": "weather", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "7", "content": "rain"},
                {"role": "tool", "tool_call_id": "8", "content": "sun"},
                {"role": "tool", "name": "clock", "tool_call_id": "7", "content": "noon"},
            ],
            [
                ("agent", "assistant", "[called weather({})]"),
                ("tool", "weather", "rain"),
                ("tool", "tool", "sun"),
                ("tool", "clock", "noon"),
            ],
        ),
        (
            [
                {"role": "assistant", "name": "Eve", "function_call": {"name": "f", "arguments": {"a": "ü"}}},
                {"type": "function_call", "call_id": "c", "id": "i", "name": "g", "arguments": "1"},
                {"type": "function_call_output", "call_id": "c", "output": "two"},
                {"type": "reasoning", "content": "silent"},
            ],
            [
                ("agent", "Eve", '[called f({"a": "ü"})]'),
                ("agent", "assistant", "[called g(1)]"),
                ("tool", "g", "two"),
            ],
        ),
        (
            [_said([{"text": "a"}, "b", {"type": "text", "text": " "}, {"type": "audio"}])],
            [("user", "user", "a\nb\n[audio]")],
        ),
        (
            [
                _said(
                    [{"type": "tool_use", "id": "1", "name": "f", "input": 2}, {"type": "text", "text": "ok"}]
                )
            ],
            [("agent", "assistant", "[called f(2)]"), ("user", "user", "ok")],
        ),
    ],
    ids=str,
)
def test_who_says_what(messages: list[Any], passages: list[tuple[str, str, str]]) -> None:
    read = [one for message in read_messages(messages) for one in message.passages]

    assert [(one.kind, one.speaker, one.text) for one in read] == passages


def test_a_message_that_needs_review_is_proposed_in_its_namespace_by_the_agent_that_adds_it() -> None:
    floors = FloorRegistry.shipped()
    floors.register(OwnerFloor())
    memory = Memory(memory_store(), namespace="team", floors=Judge(floors))
    memory.add([_said("Press 4 is old.")], agent="bot")
    (waiting,) = memory.approvals.waiting()

    assert (waiting.proposal.namespace, waiting.proposal.author) == ("team", "bot")
