"""The benchmark of poisoning in its small form: what an attacker writes is contained by who said it."""

import pytest

from benchmarks.poisoning import ATTACKS, CONTAINED, MIXED, TOPICS, Entrance, attacked
from standfast.origins import Origin

FEW = TOPICS[:2]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("entrance", CONTAINED, ids=lambda one: one.name)
def test_contained_poison_never_reaches_a_question(entrance: Entrance, attack: str) -> None:
    shown = attacked(entrance, attack, FEW)

    assert (shown.believed, shown.at_all, shown.answered, shown.asked) == (0, 0, 2, 2)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("entrance", MIXED[1::2], ids=lambda one: one.name)
def test_poison_in_the_victims_own_scope_is_shown_as_untrusted_only(entrance: Entrance, attack: str) -> None:
    asked, kept_out = (
        attacked(entrance, attack, FEW, least_origin=least) for least in (None, Origin.ORDINARY)
    )

    assert (asked.believed, asked.answered) == (0, 2)
    assert (kept_out.at_all, kept_out.answered) == (0, 2)


def test_without_origins_poison_is_believed() -> None:
    shown = attacked(MIXED[1], "replace", FEW, with_origins=False)

    assert (shown.believed, shown.asked) == (2, 2)
