"""What is current: of two statements on one matter both are shown, newest first, and the older is marked."""

from itertools import permutations, product

import pytest

from standfast.clock import ManualClock
from standfast.memory import Memory
from standfast.recall.package import RecallPackage

ADA = "user/ada"


def told(memory: Memory, *texts: str, scope: str = ADA) -> list[str]:
    return [
        memory.remember(
            text, scope=scope, time=f"2026-0{month}-03T10:00:00Z", source={"kind": "user", "id": "ada"}
        ).memory_id
        for month, text in enumerate(texts, 1)
    ]


def asked(memory: Memory, query: str, tokens: int = 400, scope: str = ADA) -> RecallPackage:
    package = memory.recall(query, scope=scope, tokens=tokens)
    assert isinstance(package, RecallPackage)
    return package


@pytest.mark.parametrize(
    ("old", "new", "query"),
    [
        ("I love Chinese food.", "I hate Chinese food.", "Do I like Chinese food?"),
        ("I live in Munich.", "I moved to Lisbon last week.", "Where do I live?"),
        ("The standup is at 9:30.", "The standup is at 10:15.", "When is the standup?"),
        ("Ich wohne in Köln.", "Ich bin nach Leipzig gezogen.", "Wo wohne ich?"),
    ],
)
def test_both_are_shown_the_newest_first_and_the_older_is_marked(
    memory: Memory, old: str, new: str, query: str
) -> None:
    _, new_id = told(memory, old, new)
    package = asked(memory, query)

    assert [item.excerpt for item in package.items] == [new, old]
    assert [item.said_later for item in package.items] == ["", f"2026-02-03: {new}"]
    assert package.items[1].later_id == new_id
    assert package.text.index(new) < package.text.index(old)
    assert f"{old} (said later, 2026-02-03: {new})" in package.text


def test_what_returns_is_current_and_only_what_was_between_is_marked(memory: Memory) -> None:
    told(memory, "I live in Oslo.", "I moved to Bergen.", "I moved back to Oslo.")
    marked = {item.excerpt: bool(item.said_later) for item in asked(memory, "Where do I live?").items}

    assert marked == {"I live in Oslo.": False, "I moved to Bergen.": True, "I moved back to Oslo.": False}


def test_what_returns_in_the_very_same_words_is_said_anew(memory: Memory) -> None:
    first, _, last = told(memory, "I live in Oslo.", "I moved to Bergen.", "I live in Oslo.")
    again = memory.remember("I live in Oslo.", scope=ADA, time="2026-04-03T10:00:00Z")
    marked = [(item.memory_id, bool(item.said_later)) for item in asked(memory, "Where do I live?").items]

    assert last != first
    assert again.known == last, "said twice in a row, it is known"
    assert marked[0] == (last, False)
    assert memory.profile(ADA).items[0].memory_id == last


def test_whatever_is_told_in_whatever_order_the_last_telling_holds() -> None:
    """Values that change, stay and return, told in the very same words."""
    homes = ("I live in Oslo.", "I live in Rome.")
    with Memory.open(":memory:") as memory:
        for number, texts in enumerate(product(homes, repeat=3)):
            scope = f"user/u{number}"
            told(memory, *texts, scope=scope)
            marked = {
                item.excerpt
                for item in asked(memory, "Where do I live?", scope=scope).items
                if item.said_later
            }

            assert memory.profile(scope).items[0].excerpt == texts[-1]
            assert texts[-1] not in marked
            assert marked == set(texts) - {texts[-1]}


@pytest.mark.parametrize("tokens", range(30, 110, 6))
def test_what_holds_no_more_stands_unmarked_under_no_budget(memory: Memory, tokens: int) -> None:
    """The later text may be too long for what is left, and the earlier one not."""
    home = "I live in Rome now, near the river, near the market, near the old bridge, near the park."
    told(memory, "I live in Oslo.", home)
    items = asked(memory, "Where do I live?", tokens=tokens).items

    assert [item.excerpt for item in items if not item.said_later] in ([], [home])


def test_what_holds_no_more_is_marked_however_far_behind_the_later_text_ranks(memory: Memory) -> None:
    """A question brings in facts that it did not ask for, and the budget ends before what was said later."""
    notes = [f"I went to place {n} with a friend, and we talk about the band at work." for n in range(60)]
    before = ("I work at Acme.", "My phone number is 555 0100.", "My car is a Volvo.", "I live in Oslo.")
    after = (
        "I work at Initech now, in the office near the harbour.",
        "My phone number is 555 0199.",
        "My car is a Tesla, a red one that I bought from a neighbour.",
        "I live in Rome now.",
    )
    for text in (*before, *notes, *after):
        memory.remember(text, scope=ADA, source={"kind": "user", "id": "ada"})
    shown = [
        item
        for query in ("Where do I live?", "Which band do I like?", "car place work", "Tell me about my car")
        for tokens in (60, 120, 200, 400, 800)
        for item in asked(memory, query, tokens=tokens).items
        if item.excerpt in before
    ]

    assert len(shown) > 10
    assert [item.excerpt for item in shown if not item.said_later] == []


def test_values_of_a_subject_that_holds_several_do_not_disagree(memory: Memory) -> None:
    source = {"kind": "user", "id": "ada"}
    answers = [
        memory.remember(
            f"My favourite band is {band}.", scope=ADA, subject="band", several=True, source=source
        )
        for band in ("Low", "Can")
    ]

    assert [one.earlier for one in answers] == [(), ()]
    assert [item.said_later for item in asked(memory, "favourite band").items] == ["", ""]
    assert memory.conflicts(scope=ADA) == []


def test_what_others_date_in_the_future_is_not_the_last_word(memory: Memory) -> None:
    """A document from the year 9999 would outdate whatever the user says, for ever."""
    document = {"kind": "doc", "id": "x"}
    memory.remember("I live in Rome.", scope=ADA, source=document, time="9999-01-01T00:00:00Z")
    told(memory, "I live in Oslo.")

    assert [item.excerpt for item in memory.profile(ADA).items] == ["I live in Oslo."]
    assert not any(item.said_later for item in asked(memory, "Where do I live?").items)


def test_what_is_told_out_of_order_replaces_nothing_that_was_said_later(memory: Memory) -> None:
    source = {"kind": "user", "id": "ada"}
    memory.remember("I moved to Lisbon.", scope=ADA, time="2026-03-03T10:00:00Z", source=source)
    before = memory.remember("I live in Munich.", scope=ADA, time="2026-01-03T10:00:00Z", source=source)

    assert before.earlier == ()


def test_a_statement_of_another_scope_or_another_person_marks_nothing(memory: Memory) -> None:
    told(memory, "I live in Oslo.", "My sister lives in Rome.")
    told(memory, "I live in Turin.", scope="user/bob")
    package = memory.recall("Where do I live?", scopes=[ADA, "user/bob"])

    assert isinstance(package, RecallPackage)
    assert len(package.items) == 3
    assert not any(item.said_later for item in package.items)


def test_what_is_untrusted_marks_nothing(memory: Memory) -> None:
    told(memory, "I live in Oslo.")
    memory.remember("I live in Rome.", scope=ADA, source={"kind": "web", "id": "evil.example"})
    package = memory.recall("Where do I live?", scope=ADA, where={"least_origin": "untrusted"})

    assert isinstance(package, RecallPackage)
    assert len(package.items) == 2
    assert not any(item.said_later for item in package.items)


def test_what_was_said_later_is_brought_in_though_the_query_does_not_find_it(memory: Memory) -> None:
    told(memory, "I live in Munich.", "I moved to Lisbon.")
    with memory.run(workflow="fill", mode="buffered_write", scope=ADA) as run:
        for number in range(300):
            run.remember(f"Invoice {number} about people who live in Munich was paid in instalment {number}.")
    package = asked(memory, "live in Munich", tokens=100)
    shown = [item.excerpt for item in package.items]

    assert "I moved to Lisbon." in shown
    assert shown.index("I moved to Lisbon.") < shown.index("I live in Munich.")


def test_a_mark_stays_within_the_budget_and_never_depends_on_the_order_of_other_records(
    memory: Memory,
) -> None:
    for at, texts in enumerate(permutations(["I like tea.", "My cat is called Tom.", "Ada plays chess."])):
        scope = f"user/u{at}"
        told(memory, "I live in Munich.", "I moved to Lisbon.", *texts, scope=scope)
        for tokens in (20, 40, 60, 90, 200):
            package = asked(memory, "Where do I live?", tokens=tokens, scope=scope)
            by_text = {item.excerpt: item for item in package.items}

            assert package.text_tokens <= tokens
            if "I live in Munich." in by_text:
                assert by_text["I live in Munich."].said_later == "2026-02-03: I moved to Lisbon."


def test_two_statements_of_one_day_are_told_apart_by_the_time(memory: Memory) -> None:
    for hour, text in ((9, "I love Chinese food."), (15, "I hate Chinese food.")):
        source = {"kind": "user", "id": "ada"}
        memory.remember(text, scope=ADA, time=f"2026-01-03T{hour:02}:30:00Z", source=source)
    (_, older) = asked(memory, "Do I like Chinese food?").items

    assert older.said_later == "2026-01-03 15:30: I hate Chinese food."


def test_an_older_snapshot_has_no_mark_of_what_was_said_later(memory: Memory) -> None:
    told(memory, "I live in Munich.")
    then = memory.store.head()
    before = asked(memory, "Where do I live?")
    told(memory, "I moved to Lisbon.")
    (again,) = memory.at(then).recall("Where do I live?", scope=ADA, tokens=400).items

    assert again.excerpt == "I live in Munich."
    assert (
        memory.at(then).recall("Where do I live?", scope=ADA, tokens=400).package_hash == before.package_hash
    )


def test_statements_are_part_of_what_is_proved(memory: Memory) -> None:
    told(memory, "I live in Munich.")
    (record,) = [one for one in memory.records(scope=ADA) if one.band == "LEDGER"]

    assert (record.statements[0].attribute, record.statements[0].value) == ("home", "munich")
    assert not list(memory.verify())


def test_nothing_is_read_from_what_an_assistant_says(memory: Memory) -> None:
    memory.add(
        [
            {"role": "user", "content": "I live in Munich."},
            {"role": "assistant", "content": "So I live in Lisbon and you live in Munich."},
        ],
        scope=ADA,
        session="s",
    )
    said = {record.speaker: bool(record.statements) for record in memory.records(scope=ADA)}

    assert said == {"user": True, "assistant": False}


def test_the_answer_names_what_it_may_replace_and_what_is_like_it(memory: Memory) -> None:
    (home,) = told(memory, "I live in Munich.")
    (standup,) = told(memory, "The standup of the red team is at 9:30 in the hall.")
    told(memory, "I live in Munich.", scope="user/bob")
    moved = memory.remember(
        "I moved to Lisbon.", scope=ADA, source={"kind": "user", "id": "ada"}, time="2026-02-03T10:00:00Z"
    )
    other = memory.remember("The standup of the blue team is at 9:30 in the hall.", scope=ADA)
    plain = memory.remember("It rains in the hills.", scope=ADA)

    assert (moved.earlier, moved.similar) == ((home,), ())
    assert (other.earlier, other.similar) == ((), (standup,))
    assert (plain.earlier, plain.similar) == ((), ())
    assert moved.as_json()["earlier"]
    assert "similar" not in moved.as_json()

    replaced = memory.remember(
        "I moved to Faro.",
        scope=ADA,
        source={"kind": "user", "id": "ada"},
        supersedes=moved.earlier,
        time="2026-03-03T10:00:00Z",
    )
    assert replaced.earlier == (moved.memory_id,), "what it replaces is named already"


def test_one_of_two_statements_is_enough_for_what_may_be_replaced(memory: Memory) -> None:
    (home,) = told(memory, "I live in Munich. My favourite band is Low.")
    moved = memory.remember(
        "I live in Lisbon. My favourite band is Low.",
        scope=ADA,
        source={"kind": "user", "id": "ada"},
        time="2026-02-03T10:00:00Z",
    )

    assert moved.earlier == (home,)


def test_a_message_that_is_added_names_what_it_may_replace(memory: Memory) -> None:
    (home,) = told(memory, "I live in Munich.")
    message = {"role": "user", "content": "I moved to Lisbon!", "time": "2026-02-03T10:00:00Z"}
    added = memory.add([message], scope=ADA, session="s")

    assert added.messages[0].earlier == (home,)


@pytest.mark.parametrize("number", [10, 17, 21])
def test_a_question_that_names_one_of_many_alike_gets_it_first(number: int) -> None:
    """Texts that are nearly equal stand newest first, but for the one that has the asked word alone."""
    with Memory.open(":memory:") as memory:
        for order in range(10, 22):
            memory.remember(f"Order {order} was shipped by carrier {order * 7 % 5}.")
        found = memory.recall(f"Has order {number} been shipped?", tokens=300)

    assert found.items[0].excerpt.startswith(f"Order {number} ")
    others = [item.excerpt for item in found.items[1:]]
    assert others == sorted(others, reverse=True)


def test_a_number_that_names_the_thing_is_no_change_of_it(memory: Memory) -> None:
    told(memory, "Shelf 5 holds crate 185.", "Shelf 6 holds crate 222.", "Shelf 5 holds crate 190.")
    package = asked(memory, "What does shelf 5 hold?")

    assert [(item.excerpt, bool(item.said_later)) for item in package.items] == [
        ("Shelf 5 holds crate 190.", False),
        ("Shelf 5 holds crate 185.", True),
        ("Shelf 6 holds crate 222.", False),
    ]


def test_of_the_messages_of_one_add_the_one_said_last_comes_first() -> None:
    memory = Memory.open(":memory:", clock=ManualClock())
    memory.add(
        [
            {"role": "user", "content": "My flight is at 9"},
            {"role": "assistant", "content": "Noted."},
            {"role": "user", "content": "My flight is at 10"},
        ],
        scope="user/ada",
        session="s",
    )
    asked = memory.recall("When is my flight?", scope="user/ada")

    assert [item.excerpt for item in asked.items][:2] == ["My flight is at 10", "My flight is at 9"]
    assert "My flight is at 9 (said later" in asked.text
    assert [item.excerpt for item in memory.recall("flight", scope="user/ada", max_items=1).items] == [
        "My flight is at 10"
    ]


def test_the_newest_of_a_scope_are_the_last_messages_of_an_add() -> None:
    memory = Memory.open(":memory:", clock=ManualClock())
    things = [
        {"role": "user", "content": f"Thing {number} is stored in box {number}."} for number in range(60)
    ]
    memory.add(things, scope="user/ada", session="s")
    shown = {item.excerpt for item in memory.recall("???", scope="user/ada", tokens=300).items}

    assert things[-1]["content"] in shown
    assert shown == {thing["content"] for thing in things[-len(shown) :]}


def test_of_what_one_run_remembered_the_later_comes_first() -> None:
    clock = ManualClock()
    memory = Memory.open(":memory:", clock=clock)
    with memory.run(workflow="w", mode="buffered_write") as run:
        for hour in (11, 9, 10):
            run.remember(f"The meeting is at {hour}.", scope="team/a")
            clock.advance(1)
    shown = [item.excerpt for item in memory.recall("When is the meeting?", scope="team/a").items]

    assert shown == [f"The meeting is at {hour}." for hour in (10, 9, 11)]
