"""Pinned records come first, and what is imported keeps its own time."""

import pytest

from standfast import Memory, RecallPackage
from standfast.errors import InvalidValue

USER = {"kind": "user", "id": "chat"}


def _recalled(memory: Memory, tokens: int) -> RecallPackage:
    package = memory.recall("Which tea does Ada like?", scope="user/ada", tokens=tokens)
    assert isinstance(package, RecallPackage)
    return package


def test_what_is_pinned_comes_first_within_a_fifth_of_the_budget() -> None:
    memory = Memory.open(":memory:")
    for number in range(40):
        memory.remember(f"Ada likes tea number {number} of the menu.", scope="user/ada", source=USER)
    memory.remember("Never mention prices.", subject="rule/prices", scope="user/ada", source=USER, pin=True)
    memory.remember("Be brief. " * 60, subject="rule/brief", scope="user/ada", source=USER, pin=True)
    package = _recalled(memory, tokens=200)
    pinned = [item for item in package.items if item.pinned]

    assert {item.memory_id for item in pinned} == {"rule/prices"}, "the other is too long for a fifth"
    assert package.items[0].pinned
    assert package.text.index("Never mention prices.") < package.text.index("likes tea")
    assert "pinned" in memory.at(42).explain("tea", scope="user/ada").explanation.items[0].as_json()["why"]


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
