"""The benchmark of harm in its small form: an outsider blocks, breaks, buries and passes as nobody."""

import pytest

from benchmarks.harm import DOORS, SCOPE, STRATEGIES, breaks_a_session, buries_a_fact, harm
from benchmarks.poisoning import TOPICS
from standfast import Memory


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("door", DOORS)
def test_an_outsider_does_no_harm(door: str, strategy: str) -> None:
    assert harm(door, strategy, TOPICS[:1]).done == 0


@pytest.mark.parametrize("door", DOORS)
def test_what_an_outsider_says_gets_in_by_every_door(door: str) -> None:
    """Or the doors would be closed, and nothing measured."""
    with Memory.open(":memory:") as memory:
        DOORS[door](memory)("The library needs Python 3.11.")
        found = memory.recall(
            "What does the library need?", scopes=[SCOPE, "shared"], least_origin="untrusted"
        )

        assert "3.11" in found.text


def test_the_benchmark_sees_harm_where_it_is_done() -> None:
    topic = TOPICS[0]
    with Memory.open(":memory:") as memory:
        assert breaks_a_session(lambda *_, **__: _forget_all(memory), memory, topic)
    with Memory.open(":memory:") as memory:
        assert buries_a_fact(lambda *_, **__: _forget_all(memory), memory, topic)


def _forget_all(memory: Memory) -> None:
    if any(memory.records(scope=SCOPE)):
        memory.forget(scope=SCOPE, reason="harm")
