"""The benchmark of poisoning in its small form: what an attacker writes is contained by who said it."""

import pytest

from benchmarks.poisoning import (
    ASKED,
    ATTACKS,
    CONTAINED,
    MIXED,
    TOPICS,
    Entrance,
    answered_by_tool,
    attacked,
)
from standfast.records.origins import Origin

FEW = TOPICS[:2]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("entrance", CONTAINED, ids=lambda one: one.name)
def test_contained_poison_never_reaches_a_question(entrance: Entrance, attack: str) -> None:
    shown = attacked(entrance, attack, FEW)

    assert (shown.believed, shown.at_all, shown.answered, shown.asked) == (0, 0, 2, 2)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("entrance", MIXED[1::2], ids=lambda one: one.name)
def test_poison_in_the_victims_own_scope_is_left_out_beside_its_facts(
    entrance: Entrance, attack: str
) -> None:
    shown = attacked(entrance, attack, FEW)
    asked_for = attacked(entrance, attack, FEW, least_origin=Origin.UNTRUSTED)

    assert (shown.believed, shown.at_all, shown.answered) == (0, 0, 2)
    assert (asked_for.believed, asked_for.answered) == (0, 2)


def test_what_only_a_tool_said_is_found_where_its_scope_is_named_or_where_it_is_asked_for() -> None:
    assert answered_by_tool("user/ada/tools", (*ASKED, "user/ada/tools")) == 1
    assert answered_by_tool("user/ada", ASKED, Origin.UNTRUSTED) == 1


def test_without_origins_poison_is_believed() -> None:
    shown = attacked(MIXED[1], "replace", FEW, with_origins=False)

    assert (shown.believed, shown.asked) == (2, 2)
