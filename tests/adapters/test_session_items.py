"""Items of a conversation, as the OpenAI Agents SDK and LlamaIndex keep them; no framework is needed."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from standfast.adapters.session_items import ItemSession
from standfast.errors import PutRefused
from standfast.memory import Memory
from tests.memory.conftest import SECRET

LONG = " ".join(f"Parcel {number} for house {number * 7} left at noon." for number in range(1_800))


def session_over(memory: Memory, on_refusal: str = "redact") -> ItemSession:
    return ItemSession(
        "monday",
        memory,
        scope="user/ada",
        workflow="test",
        shown=lambda item: {"role": "user", "content": item["words"]},
        on_refusal=on_refusal,
    )


def words_of(session: ItemSession) -> list[str]:
    return [item["words"] for item, _ in session.items()]


def test_items_that_are_refused_replace_nothing() -> None:
    memory = Memory.open(":memory:")
    session = session_over(memory, "raise")
    session.add([{"words": "Ada sails."}])
    with pytest.raises(PutRefused):
        session.replace([{"words": "Ada rows."}, {"words": f"The key is {SECRET}."}])
    assert words_of(session) == ["Ada sails."]
    session.replace([{"words": "Ada rows."}])

    assert words_of(session) == ["Ada rows."]


@pytest.mark.parametrize(("way", "kept"), [("skip", 1), ("redact", 2)])
def test_a_refused_item_is_left_out_or_kept_without_its_secret(way: str, kept: int) -> None:
    memory = Memory.open(":memory:")
    session = session_over(memory, way)
    session.add([{"words": "Ada sails."}, {"words": f"The key is {SECRET}.", "n": 1}])

    assert len(words_of(session)) == kept
    assert SECRET not in str(session.items())
    assert list(memory.verify()) == []


def test_under_one_run_id_items_are_added_once() -> None:
    memory = Memory.open(":memory:")
    with ThreadPoolExecutor(4) as threads:
        items = [{"words": "Ada sails."}]
        list(threads.map(lambda _: session_over(memory).add(items, run_id="archive-7"), range(4)))

    assert words_of(session_over(memory)) == ["Ada sails."]


def test_of_callers_that_take_at_once_each_gets_other_items() -> None:
    memory = Memory.open(":memory:")
    session_over(memory).add([{"words": f"Boat {number} is moored."} for number in range(9)])
    session_over(memory).add([{"words": LONG}])

    def take(_: int) -> list[Any]:
        return [item["words"] for item, _ in session_over(memory).take(lambda items: items[:2])]

    with ThreadPoolExecutor(6) as threads:
        taken = [words for part in threads.map(take, range(6)) for words in part]

    assert sorted(taken) == sorted([LONG, *(f"Boat {number} is moored." for number in range(9))])
    assert words_of(session_over(memory)) == []
