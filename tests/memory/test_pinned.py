"""Pinned records come first, and what is imported keeps its own time."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from standfast import Memory, RecallPackage
from standfast.errors import InvalidValue
from standfast.recall.tokens import EstimatedCounter
from standfast.records.timestamps import instant_text

USER = {"kind": "user", "id": "chat"}
RULES = "My rules: " + " ".join(f"rule {number} says do thing {number}." for number in range(40))


def _recalled(memory: Memory, tokens: int) -> RecallPackage:
    package = memory.recall("Which tea does Ada like?", scope="user/ada", tokens=tokens)
    assert isinstance(package, RecallPackage)
    return package


def test_what_is_pinned_comes_first_within_a_fifth_of_the_budget() -> None:
    memory = Memory.open(":memory:")
    for number in range(40):
        memory.remember(f"Ada likes tea number {number} of the menu.", scope="user/ada", source=USER)
    memory.remember("Never mention prices.", subject="rule/prices", scope="user/ada", source=USER, pin=True)
    memory.remember(RULES, subject="rule/long", scope="user/ada", source=USER, pin=True)
    package = _recalled(memory, tokens=200)
    pinned = [item for item in package.items if item.pinned]

    assert {item.memory_id: item.rank for item in pinned} == {"rule/long": 1, "rule/prices": 2}
    assert pinned[0].excerpt.startswith("My rules"), "it is shown from its beginning on"
    assert pinned[0].excerpt.endswith("…"), "it was cut"
    assert sum(EstimatedCounter().count(item.excerpt) for item in pinned) <= 40
    assert package.text.index("Never mention prices.") < package.text.index("likes tea")
    assert "pinned" in memory.at(42).explain("tea", scope="user/ada").explanation.items[0].as_json()["why"]


@pytest.fixture(scope="module")
def household() -> Iterator[Memory]:
    """A scope with a long pinned record, which is its oldest, and short ones."""
    memory = Memory.open(":memory:")
    memory.remember(RULES, subject="rules", scope="user/ada", source=USER, pin=True)
    with memory.run(workflow="w", mode="buffered_write") as run:
        for number in range(30):
            run.remember(f"I keep tea {number} on shelf {number * 7}.", scope="user/ada", source=USER)
    yield memory
    memory.close()


@settings(deadline=None, max_examples=60)
@given(tokens=st.integers(1, 1_500), query=st.sampled_from(["Where is tea 7?", "thing 31", "???"]))
@example(tokens=1, query="???")
@example(tokens=30, query="Where is tea 7?")
@example(tokens=100, query="Where is tea 7?")
@example(tokens=300, query="Where is tea 7?")
@example(tokens=1_000, query="Where is tea 7?")
def test_a_long_pin_is_first_in_every_package_that_has_anything_cut_to_a_fifth(
    household: Memory, tokens: int, query: str
) -> None:
    answer = household.explain(query, scope="user/ada", tokens=tokens)
    package = answer.package
    assert isinstance(package, RecallPackage)

    assert package.text_tokens <= tokens
    if not package.items:
        assert tokens < 32, "nothing fits beside the heading and a frame"
        return
    first, *others = package.items
    assert (first.memory_id, first.pinned, first.rank) == ("rules", True, 1)
    assert not any(one.memory_id == "rules" for one in others)
    assert package.text.index(first.excerpt.partition("…")[0]) < 160, "it stands first in the text too"
    assert "pinned" in answer.explanation.items[0].as_json()["why"]
    assert "newest" not in answer.explanation.items[0].as_json()["why"]
    if tokens >= 120:
        assert EstimatedCounter().count(first.excerpt) <= tokens // 5
    if tokens > 200:
        shown = len(first.excerpt.encode())
        assert first.excerpt == RULES or shown > tokens * 4 // 5 * 6 // 10, "the fifth is used"
    assert first.excerpt == RULES or "…" in first.excerpt


def test_pins_share_their_fifth_and_a_long_one_leaves_room_for_the_others() -> None:
    memory = Memory.open(":memory:")
    for number in range(3):
        memory.remember(f"I am called Ada {number}.", scope="user/ada", source=USER, pin=True)
    memory.remember(RULES, subject="rules", scope="user/ada", source=USER, pin=True)
    package = _recalled(memory, tokens=500)

    assert [item.pinned for item in package.items] == [True] * 4
    assert [item.rank for item in package.items] == [1, 2, 3, 4]
    assert package.items[0].excerpt.endswith("…")


def test_a_pin_stays_first_even_if_something_was_said_later_about_it() -> None:
    memory = Memory.open(":memory:")
    memory.remember("My favourite tea is Assam.", scope="user/ada", source=USER, pin=True)
    memory.remember("My favourite tea is Oolong.", scope="user/ada", source=USER)
    text = memory.recall("Which tea does Ada like?", scope="user/ada").text

    assert text.index("Assam") < text.index("[", text.index("Assam"))
    assert text.index("is Assam.") < text.rindex("is Oolong.")


def test_explain_names_no_neighbours_where_there_are_none() -> None:
    memory = Memory.open(":memory:")
    memory.remember("I like tea.", scope="user/ada", source=USER)
    for text in (RULES, "I sold a car.", "We moved the piano.", "The roof leaks.", "Ada swims."):
        memory.remember(text, scope="user/ada", source=USER)
    for query in ("tea", "Does my car work?", "What do I play?", "water", "Who repairs houses?"):
        items = memory.explain(query, scope="user/ada").explanation.items
        whys = [one.as_json()["why"] for one in items]

        assert all(whys)
        assert not any("neighbours" in why for why in whys)


def _pinned_ids(memory: Memory) -> list[str]:
    return [item.memory_id for item in _recalled(memory, tokens=500).items if item.pinned]


def test_what_is_known_can_be_pinned_and_a_pin_taken_off_and_nothing_else_of_it_changes() -> None:
    memory = Memory.open(":memory:")
    first = memory.remember(
        "I am vegan.", scope="user/ada", source=USER, tags=["food"], time="2020-01-01T00:00:00Z"
    )
    memory.remember("Note on tea.", scope="user/ada", source=USER)
    pinned = memory.remember("I am vegan.", scope="user/ada", source=USER, pin=True)

    assert (pinned.memory_id, pinned.known) == (first.memory_id, None)
    assert _pinned_ids(memory) == [first.memory_id]
    (item, _) = _recalled(memory, tokens=500).items
    assert item.date == "2020-01-01"
    assert memory.remember("I am vegan.", scope="user/ada", source=USER, pin=True).known == first.memory_id
    assert memory.remember("I am vegan.", scope="user/ada", source=USER).known == first.memory_id
    assert _pinned_ids(memory) == [first.memory_id], "saying it again takes no pin off"
    with pytest.raises(InvalidValue, match="only a person or an operator can take a pin off"):
        memory.remember("I am vegan.", scope="user/ada", pin=False)
    memory.remember("I am vegan.", scope="user/ada", source=USER, pin=False)
    assert _pinned_ids(memory) == []
    assert len(_recalled(memory, tokens=500).items) == 2
    assert list(memory.verify()) == []


def test_an_update_of_a_pinned_subject_keeps_the_pin_unless_it_says_otherwise() -> None:
    memory = Memory.open(":memory:")
    home = {"subject": "home", "scope": "user/ada", "source": USER}
    memory.remember("I live in Bern.", **home, pin=True)  # type: ignore[arg-type]  # One dict for all calls.
    memory.remember("I live in Basel.", **home)  # type: ignore[arg-type]
    assert _pinned_ids(memory) == ["home"]

    memory.remember("I live in Thun.", **home, pin=False)  # type: ignore[arg-type]
    assert _pinned_ids(memory) == []
    memory.remember("I live in Thun.", **home, pin=True)  # type: ignore[arg-type]
    assert _pinned_ids(memory) == ["home"]


def test_a_run_can_pin_what_it_said_itself() -> None:
    memory = Memory.open(":memory:")
    with memory.run(workflow="w", mode="buffered_write") as run:
        said = run.remember("I drink tea.", scope="user/ada", source=USER)
        run.remember("I drink tea.", scope="user/ada", source=USER, pin=True)

    assert _pinned_ids(memory) == [said.memory_id]
    assert list(memory.verify()) == []


def test_a_refused_pin_says_the_true_reason() -> None:
    memory = Memory.open(":memory:")
    with pytest.raises(InvalidValue, match="name the person as its source, of kind user"):
        memory.remember("Ada likes tea.", pin=True, source={"kind": "web", "id": "https://x.example"})
    with pytest.raises(InvalidValue, match=r"counts as ordinary at most.*use one with the origin trusted"):
        memory.remember("Ada likes tea.", pin=True, source=USER, max_origin="ordinary")


def test_only_a_persons_word_can_be_pinned() -> None:
    memory = Memory.open(":memory:")
    with pytest.raises(InvalidValue, match="only what a person or an operator said can be pinned"):
        memory.remember("Ada likes tea.", pin=True)
    with pytest.raises(InvalidValue, match="pin is invalid: it must be True or False, not 1"):
        memory.remember("Ada likes tea.", pin=1)  # type: ignore[arg-type]  # What a caller without types does.


def test_a_time_of_its_own_dates_what_is_imported() -> None:
    memory = Memory.open(":memory:")
    memory.remember("Ada moved to Lyon yesterday.", scope="user/ada", time="2020-02-03T10:00:00+01:00")
    (item,) = _recalled(memory, tokens=200).items

    assert (item.date, item.ts_utc) == ("2020-02-03", "2020-02-03T09:00:00.000000Z")
    assert item.dates == ("yesterday: 2020-02-02",)
    assert "(yesterday: 2020-02-02)" in memory.recall("Lyon", scope="user/ada").text
    with pytest.raises(InvalidValue, match="time"):
        memory.remember("Ada moved.", time="last week")


@pytest.mark.parametrize(
    ("time", "date", "yesterday"),
    [
        ("2024-05-01T20:00:00-05:00", "2024-05-01", "2024-04-30"),
        ("2024-05-01T00:30:00+09:00", "2024-05-01", "2024-04-30"),
        ("2024-05-01T00:30:00Z", "2024-05-01", "2024-04-30"),
        (datetime(2024, 5, 1, tzinfo=timezone(timedelta(hours=9))), "2024-05-01", "2024-04-30"),
    ],
)
def test_yesterday_is_meant_in_the_offset_of_the_time_that_was_given(
    time: str | datetime, date: str, yesterday: str
) -> None:
    memory = Memory.open(":memory:")
    memory.remember("I bought tea yesterday.", scope="user/ada", source=USER, time=time)
    memory.add(
        [{"role": "user", "content": "I drank tea yesterday.", "time": time}], scope="user/ada", session="s"
    )
    items = _recalled(memory, tokens=400).items

    assert [(item.date, item.dates) for item in items] == [(date, (f"yesterday: {yesterday}",))] * 2
    assert {item.ts_utc for item in items} == {instant_text(time, what="time")}, "the instant is UTC"
    found = memory.explain(f"What happened on {yesterday}?", scope="user/ada").explanation.items
    assert all("date" in one.as_json()["why"] for one in found), "and so the index has it"
    assert list(memory.verify()) == []


def test_dates_are_known_in_the_language_of_the_namespace() -> None:
    memory = Memory.open(":memory:", language="german")
    for text in ("Wir heirateten letzten Mai.", "Wir zogen letzten Oktober um."):
        memory.remember(text, scope="user/ada", source=USER, time="2024-03-13T12:00:00Z")
    package = memory.recall("Wo waren wir im Oktober 2023?", scope="user/ada")
    assert isinstance(package, RecallPackage)

    assert package.items[0].dates == ("letzten Oktober: 2023-10",)
