"""``memory.add``: messages become records of a session, once each, and are read back in order."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from standfast.clock import ManualClock
from standfast.errors import InvalidValue, MessageConflict
from standfast.limits import MAX_PASSAGE_CHARS, MESSAGES_PER_COMMIT
from standfast.memory import AddedMessages, Memory
from standfast.memory.messages import cut_text, read_messages
from standfast.records.origins import Origin
from standfast.records.vocabulary import Band, Verdict
from standfast.store.store import Store
from tests.memory.conftest import SECRET
from tests.raising import raises_code

ADA = "user/ada"
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Answer briefly."},
    {"role": "user", "content": "I moved to Berlin.", "name": "Ada", "time": "2026-11-16T09:30:00Z"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Berlin"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "12 degrees and rain"},
    {"role": "assistant", "content": [{"type": "text", "text": "It rains."}, {"type": "image_url"}]},
    {"role": "user", "content": "Thanks!"},
    {"role": "assistant", "content": "You are welcome."},
    {"role": "user", "content": "Thanks!"},
]


def _said(memory: Memory, session: str = "s") -> list[tuple[int, str, str | None]]:
    return [(one.position, one.speaker, one.text) for one in memory.session(session, scope=ADA)]


def _add(memory: Memory, *texts: str, **options: Any) -> AddedMessages:
    messages = [{"role": "user", "content": text} for text in texts]
    return memory.add(messages, scope=ADA, **{"session": "s", **options})


def test_each_message_is_one_record_with_speaker_time_and_position(memory: Memory) -> None:
    added = memory.add(CHAT, scope=ADA, session="s", tags=["Chat"], metadata={"channel": "web"})
    records = {one.position: one for one in memory.records(band=Band.LEDGER, scope=ADA)}

    assert added.added == len(CHAT) == len(records)
    assert len(added.receipts) == 1
    assert _said(memory) == [
        (0, "system", "Answer briefly."),
        (1, "Ada", "I moved to Berlin."),
        (2, "assistant", '[called weather({"city": "Berlin"})]'),
        (3, "weather", "12 degrees and rain"),
        (4, "assistant", "It rains.\n[image_url]"),
        (5, "user", "Thanks!"),
        (6, "assistant", "You are welcome."),
        (7, "user", "Thanks!"),
    ]
    assert records[1].ts_utc == "2026-11-16T09:30:00.000000Z"
    assert (records[1].session, records[1].tags, records[1].metadata) == ("s", ("chat",), {"channel": "web"})
    assert [records[at].origin for at in (0, 1, 2, 3)] == [
        Origin.ORDINARY,
        Origin.TRUSTED,
        Origin.ORDINARY,
        Origin.UNTRUSTED,
    ]
    assert records[1].source == {"kind": "user", "id": "s#1"}
    assert list(memory.verify()) == []


def test_the_same_messages_again_add_nothing_and_more_of_them_continue(memory: Memory) -> None:
    first = memory.add(CHAT[:5], scope=ADA, session="s")
    again = memory.add(CHAT[:5], scope=ADA, session="s", position=0)
    longer = memory.add(CHAT, scope=ADA, session="s", position=0)
    only_new = _add(memory, "And tomorrow?")

    assert [one.known for one in again.messages] == [True] * 5
    assert [one.memory_ids for one in again.messages] == [one.memory_ids for one in first.messages]
    assert [one.verdict for one in again.messages] == [Verdict.SEAL] * 5
    assert again.receipts == ()
    assert [one.known for one in longer.messages] == [True] * 5 + [False] * 3
    assert [one.position for one in only_new.messages] == [8]
    assert len(_said(memory)) == 9


def test_another_message_at_a_position_is_a_conflict_and_nothing_is_added(memory: Memory) -> None:
    _add(memory, "One.", "Two.")
    before = memory.store.head()

    with pytest.raises(
        MessageConflict, match="Session s in scope user/ada has another message at position 1"
    ):
        _add(memory, "One.", "Zwei.", "Three.", position=0)
    assert memory.store.head() == before
    assert [one.known for one in _add(memory, "Two.", position=1).messages] == [True]
    with pytest.raises(InvalidValue, match="two messages are at position 3"):
        memory.add([{"role": "user", "content": "a", "position": 3}] * 2, session="s")


def test_messages_are_never_known_and_make_nothing_known(memory: Memory) -> None:
    """Neither a fact that says the same nor what was recalled stands in the way of a message, nor the other
    way round.
    """
    memory.remember("I moved to Berlin.", scope=ADA)
    added = _add(memory, "I moved to Berlin.", "I moved to Berlin.")
    fact = memory.remember("Berlin is where I work.", scope=ADA)
    _add(memory, "Berlin is where I work.")

    assert [one.verdict for one in added.messages] == [Verdict.SEAL] * 2
    assert fact.known is None
    assert len(_said(memory)) == 3


def test_a_session_is_a_thread_for_recall(memory: Memory) -> None:
    """The words of a question reach the answer behind it."""
    memory.add(
        [
            {"role": "user", "content": "What is my favourite restaurant?"},
            {"role": "assistant", "content": "That would be Luigi's."},
        ],
        scope=ADA,
        session="s",
    )

    assert "Luigi's" in memory.recall("favourite restaurant", scope=ADA).text


def test_a_secret_is_not_read_back_but_its_turn_is(memory: Memory) -> None:
    added = _add(memory, "Hello.", SECRET)
    again = _add(memory, "Hello.", SECRET, position=0)

    assert [one.verdict for one in added.messages] == [Verdict.SEAL, Verdict.SABAR]
    assert added.messages[1].reasons != ()
    assert _said(memory)[0] == (0, "user", "Hello.")
    assert "[redacted: " in str(_said(memory)[1])
    assert [(one.known, one.verdict) for one in again.messages] == [
        (True, Verdict.SEAL),
        (True, Verdict.SABAR),
    ]
    with pytest.raises(MessageConflict):
        _add(memory, "Another.", position=1)
    with pytest.raises(InvalidValue, match="holds a secret"):
        _add(memory, "Hello.", session=SECRET)


def test_a_forgotten_message_does_not_come_back_with_the_conversation(memory: Memory) -> None:
    added = _add(memory, "One.", "Two.", "Three.")
    memory.forget(added.messages[1].memory_ids[0], scope=ADA, reason="asked for")
    again = _add(memory, "One.", "Two.", "Three.", "Four.", position=0)

    assert [text for _, _, text in _said(memory)] == ["One.", "Three.", "Four."]
    assert [one.known for one in again.messages] == [True, True, True, False]
    assert again.messages[1].verdict is None


def test_a_long_message_is_cut_at_sentence_ends_and_read_back_whole(memory: Memory) -> None:
    text = " ".join(f"Sentence number {number} speaks of topic {number % 7}." for number in range(250))
    added = _add(memory, text, "Short.")
    records = [one for one in memory.records(band=Band.LEDGER, scope=ADA) if one.position == 0]

    assert len(added.messages[0].memory_ids) == len(records) > 1
    assert all(one.text.rstrip().endswith(".") for one in records)
    assert _said(memory) == [(0, "user", text), (1, "user", "Short.")]
    assert [one.known for one in _add(memory, text, "Short.", position=0).messages] == [True, True]


def test_results_of_tools_in_a_users_message_are_the_tools(memory: Memory) -> None:
    """Anthropic's format; a page that a tool fetched must not be trusted as the user's word."""
    memory.add(
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "t1", "name": "browse", "input": {"page": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "Rain."}],
                    },
                    {"type": "text", "text": "And tomorrow?"},
                ],
            },
        ],
        scope=ADA,
        session="s",
    )

    assert _said(memory) == [
        (0, "assistant", 'Let me look.\n[called browse({"page": 1})]'),
        (1, "browse", "Rain."),
        (1, "user", "And tomorrow?"),
    ]
    assert [one.origin for one in memory.session("s", scope=ADA)] == [
        Origin.ORDINARY,
        Origin.UNTRUSTED,
        Origin.TRUSTED,
    ]


def test_a_large_conversation_is_added_in_several_commits(memory: Memory) -> None:
    texts = [f"This is turn {number}." for number in range(MESSAGES_PER_COMMIT + 3)]
    added = _add(memory, *texts)

    assert len(added.receipts) == 2
    assert [text for _, _, text in _said(memory)] == texts
    (info,) = memory.sessions(scope="user")
    assert (info.session, info.scope, info.messages, info.next_position) == ("s", ADA, len(texts), len(texts))


def test_a_run_id_makes_continuing_a_session_take_effect_once(memory: Memory) -> None:
    _add(memory, "Hello.")
    first = _add(memory, "Thanks!", run_id="turn-2")
    again = _add(memory, "Thanks!", run_id="turn-2")
    second = _add(memory, "Thanks!", run_id="turn-3")
    new = [_add(memory, "Hi.", session=None, run_id="new") for _ in range(2)]

    assert [one.messages[0].position for one in (first, again, second)] == [1, 1, 2]
    assert again.messages == first.messages
    assert [(one.replayed, one.ledger_hash) for one in again.receipts] == [
        (True, one.ledger_hash) for one in first.receipts
    ]
    assert new[0].messages == new[1].messages
    assert new[0].session == new[1].session
    with raises_code("request_reused"):
        _add(memory, "No thanks!", run_id="turn-2")
    with raises_code("request_reused"):
        _add(memory, "Thanks!", session="other", run_id="turn-2")


def test_messages_that_replace_something_else_are_another_call(memory: Memory) -> None:
    long = [f"Message {number}." for number in range(MESSAGES_PER_COMMIT + 1)]
    for name in ("turn-1", "turn-2", "cellar"):
        memory.remember(f"The lamp of {name} is blue.", subject=name, scope=ADA)
    for texts, run_id in (["All are red now."], "turn-1"), (long, "turn-2"):
        first = _add(memory, *texts, run_id=run_id, supersedes=[run_id])
        again = _add(memory, *texts, run_id=run_id, supersedes=[run_id])

        assert again.messages == first.messages
        assert all(one.replayed for one in again.receipts)
        for other in (["cellar"], []):
            with raises_code("request_reused"):
                _add(memory, *texts, run_id=run_id, supersedes=other)
    assert "The lamp of cellar is blue" in memory.recall("lamp of the cellar", scope=ADA).text


TAG = "q7r2st9uv4wx6yz1ab3cd5ef8gh0ij2k"


@pytest.mark.parametrize(
    ("given", "other_secret", "other"),
    [
        (
            {"metadata": {"password": "hunter2Xq9!kk"}},
            {"metadata": {"password": "hunter3Xq9!kk"}},
            {"metadata": {"password": "hunter3Xq9!kk", "day": 1}},
        ),
        ({"tags": [TAG]}, {"tags": [TAG[::-1]]}, {"tags": [TAG, "day"]}),
    ],
)
def test_whether_a_secret_of_all_messages_is_the_same_cant_be_seen_by_repeating_them(
    given: dict[str, Any], other_secret: dict[str, Any], other: dict[str, Any], memory: Memory
) -> None:
    _add(memory, "Hello.", run_id="turn-1", **given)
    again = _add(memory, "Hello.", run_id="turn-1", **other_secret)

    assert again.receipts[0].replayed
    with raises_code("request_reused"):
        _add(memory, "Hello.", run_id="turn-1", **other)


def test_two_callers_that_continue_a_session_at_once_both_add(
    opener: Callable[[], Store], clock: ManualClock
) -> None:
    """The later one does not see the other's messages when it begins, conflicts, and is told."""
    one, other = Memory(opener()), Memory(opener())
    _add(one, "Hello.")
    _add(other, "From the other side.")
    _add(one, "Still here.")

    assert [text for _, _, text in _said(one)] == ["Hello.", "From the other side.", "Still here."]


def test_sessions_of_a_scope_and_those_without_a_name(memory: Memory) -> None:
    memory.add([{"role": "user", "content": "a"}], session="s", scope="user/bob")
    unnamed = [memory.add([{"role": "user", "content": "a"}]).session for _ in range(2)]

    assert unnamed[0] != unnamed[1]
    assert [one.session for one in memory.sessions(scope="user/bob")] == ["s"]
    assert {one.session for one in memory.sessions(scope="*")} == {"s", *unnamed}
    assert memory.session("s", scope=ADA) == []
    assert memory.sessions(scope="*", at=0) == []


def test_a_memory_that_may_not_write_adds_nothing(store: Store) -> None:
    with raises_code("above_ceiling"):
        Memory(store, ceiling="read_only").add(CHAT)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Hello", "message 0 is invalid: it must be an object with role and content"),
        ({"content": "a"}, "role must be one of user, assistant, system, developer, tool, not None"),
        ({"role": "robot", "content": "a"}, "not 'robot'"),
        ({"role": "user", "content": 7}, "content must be text or a list of parts, not 7"),
        ({"role": "user", "content": [{"type": "text"}]}, "the text of a part must be a string, not None"),
        ({"role": "user", "content": [{"kind": "x"}]}, "a part of the content has no type"),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, "a tool call has no name"),
        ({"role": "assistant", "tool_calls": ["x"]}, "a tool call must be an object"),
        ({"role": "user", "content": "a", "position": -1}, "position must be a number from 0"),
        ({"role": "user", "content": "a", "time": "9:30"}, "time of message 0"),
        ({"role": "user", "text": "I like tea."}, "message 0 is invalid: it has no content, only role, text"),
        ({"role": "user", "content": "a", "time": 10**30}, "its time is no time"),
        ({"role": "user", "content": "a", "metadata": "x"}, "metadata must be an object"),
        ({"role": "user", "content": "a" * (2 << 20)}, "it is longer than"),
    ],
)
def test_what_is_no_message_is_refused_with_its_number(message: object, problem: str) -> None:
    with pytest.raises(InvalidValue, match=problem):
        Memory.open(":memory:").add([message])


def test_messages_come_as_a_list() -> None:
    memory = Memory.open(":memory:")
    wrong: Any
    for wrong in ("Hello", {"role": "user"}, 7, []):
        with pytest.raises(InvalidValue, match="messages is invalid"):
            memory.add(wrong)
    with pytest.raises(InvalidValue, match="position is invalid"):
        memory.add(CHAT, position=-1)


def test_messages_of_client_libraries_and_of_the_responses_api_are_read() -> None:
    class Dumped:
        def model_dump(self) -> dict[str, Any]:
            return {"role": "assistant", "content": None, "refusal": "I can't.", "audio": None}

    read = read_messages(
        [
            Dumped(),
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "5"},
            {"type": "human", "content": "Bye", "created_at": datetime(2026, 1, 2, tzinfo=UTC)},
            {"role": "user", "content": "x", "timestamp": 0, "metadata": {"a": 1}},
        ]
    )

    assert [[(one.kind, one.speaker, one.text) for one in message.passages] for message in read] == [
        [("agent", "assistant", "I can't.")],
        [("user", "user", "Hi")],
        [],
        [("agent", "assistant", "[called add({})]")],
        [("tool", "add", "5")],
        [("user", "human", "Bye")],
        [("user", "user", "x")],
    ]
    assert [message.time for message in read[-2:]] == [
        "2026-01-02T00:00:00.000000Z",
        "1970-01-01T00:00:00.000000Z",
    ]
    assert read[-1].metadata == {"a": 1}


@given(st.text(alphabet="ab .!?\n。", max_size=400), st.integers(2, 40))
@example(text="????  ?", max_chars=2)
def test_pieces_of_a_text_joined_are_the_text(text: str, max_chars: int) -> None:
    pieces = cut_text(text, max_chars=max_chars)

    assert "".join(pieces) == text
    assert all(len(piece) <= max_chars or piece[:max_chars].isspace() for piece in pieces[:-1])
    assert all(piece.strip() for piece in pieces) or not text.strip()


def test_a_text_is_cut_after_paragraphs_before_sentences_and_words() -> None:
    assert cut_text("One two.\n\nThree. four five", max_chars=16) == ["One two.\n\n", "Three. four five"]
    assert cut_text("aa bb. Cc dd ee", max_chars=10) == ["aa bb. ", "Cc dd ee"]
    assert cut_text("aaaa bbbb cccc", max_chars=10) == ["aaaa bbbb ", "cccc"]
    assert cut_text("a" * 25, max_chars=10) == ["a" * 10, "a" * 10, "a" * 5]
    assert cut_text("a" * MAX_PASSAGE_CHARS) == ["a" * MAX_PASSAGE_CHARS]


def test_a_forgotten_session_goes_on_behind_the_last_position_that_it_ever_had(memory: Memory) -> None:
    _add(memory, "One.", "Two.", "Three.")
    memory.forget(scope=ADA, reason="asked for")
    again = _add(memory, "Four.")

    assert [one.position for one in again.messages] == [3]
    assert [text for _, _, text in _said(memory)] == ["Four."]


def test_a_rehearsal_judges_messages_and_adds_none(memory: Memory) -> None:
    rehearsed = memory.add([{"role": "user", "content": "One."}], scope=ADA, session="s", rehearse=True)

    assert [one.verdict for one in rehearsed.messages] == [Verdict.SEAL]
    assert rehearsed.receipts == ()
    assert memory.store.head() == 0
    assert _said(memory) == []


@pytest.mark.parametrize(
    ("before", "said", "secret"),
    [
        ("日本語" * 1317, "aws_secret_access_key = ", "q7R2sT9uV4wX6yZ1aB3cD5eF8gH0iJ2kL4mN6oP9"),
        ("-b;" * 1067, "Authorization: Bearer ", f"eyJhbGciOiJIUzI1NiJ9.eyJ{'aZ9xQ2' * 120}.{'kW4pT7' * 7}x"),
        ("-b;" * 1317, "", f"eyJhbGciOiJIUzI1NiJ9.eyJ{'aZ9xQ2' * 120}.{'kW4pT7' * 7}x"),
    ],
)
def test_a_secret_in_a_text_without_spaces_or_longer_than_what_is_near_is_not_cut(
    before: str, said: str, secret: str
) -> None:
    pieces = cut_text(f"{before}{said}{secret} {before}")

    assert len(pieces) > 1
    assert sum(f"{said}{secret}" in piece for piece in pieces) == 1
