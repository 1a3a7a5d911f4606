"""Intervals stay in range, tests are exact, and places respect what is significant."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.bench.statistics import Mean, compare, holm, mean_of, signed_rank_p

SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), min_size=1, max_size=30)


@given(SHARES)
def test_an_interval_contains_the_mean_and_stays_in_range(values: list[float]) -> None:
    mean = mean_of(values)

    assert min(values) - 1e-9 <= mean.low <= mean.value + 1e-9
    assert mean.value - 1e-9 <= mean.high <= max(values) + 1e-9
    assert mean == mean_of(values), "the same values have the same interval"


def test_one_value_has_no_interval_and_many_have_a_narrow_one() -> None:
    assert mean_of([0.5]) == Mean(0.5, 0.5, 0.5, 1)
    assert mean_of([]) == Mean(0.0, 0.0, 0.0, 0)
    few, many = mean_of([0.0, 1.0] * 5), mean_of([0.0, 1.0] * 1_500)
    assert few.low < 0.3
    assert few.high > 0.7
    assert 0.48 < many.low < 0.5 < many.high < 0.52
    half = mean_of([0.0, 1.0] * 100)
    assert half.low == pytest.approx(0.5 - 1.96 * 0.5 / 200**0.5, abs=0.01)
    assert half.high == pytest.approx(0.5 + 1.96 * 0.5 / 200**0.5, abs=0.01)


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_the_signed_rank_test_equals_trying_all_signs(differences: list[int]) -> None:
    used = [one for one in differences if one]
    if not used:
        assert signed_rank_p(differences) == 1.0
        return
    order = sorted(abs(one) for one in used)
    rank = {size: order.index(size) + (order.count(size) + 1) / 2 for size in order}
    ranks = [rank[abs(one)] for one in used]
    above = sum(r for r, one in zip(ranks, used, strict=True) if one > 0)
    least = min(above, sum(ranks) - above)
    sums = [
        sum(r for r, sign in zip(ranks, signs, strict=True) if sign)
        for signs in product((0, 1), repeat=len(ranks))
    ]

    assert signed_rank_p(differences) == min(1.0, 2 * sum(one <= least for one in sums) / len(sums))


def test_the_approximation_agrees_with_the_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [(-1) ** (n % 3 == 0) * (n % 17 + 1) for n in range(150)]
    exact = signed_rank_p(differences)
    monkeypatch.setattr("standfast.bench.statistics.MOST_EXACT", 1)

    assert signed_rank_p(differences) == pytest.approx(exact, rel=0.2)
    assert exact < 0.01


def test_holms_correction() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_places_are_ranges_where_nothing_is_significant() -> None:
    episodes = range(20)
    scores = {
        "good": {e: 0.8 + e / 200 for e in episodes},
        "twin": {e: 0.8 + (19 - e) / 200 for e in episodes},
        "poor": {e: 0.1 + e / 200 for e in episodes},
    }
    compared = compare(scores)

    assert compared.places() == {"good": (1, 2), "twin": (1, 2), "poor": (3, 3)}
    assert compared.ties() == [["good", "twin"]]
    assert compared.average_ranks == {"good": 1.5, "twin": 1.5, "poor": 3.0}
    pair = next(pair for pair in compared.pairs if (pair.first, pair.second) == ("good", "poor"))
    assert (pair.difference.low, pair.difference.high) == pytest.approx((0.7, 0.7))
    assert pair.p < pair.corrected_p < 0.05
    few = compare({name: dict(list(own.items())[:4]) for name, own in scores.items()})
    assert set(few.places().values()) == {(1, 3)}, "four episodes prove nothing"


def test_only_episodes_of_all_policies_are_compared() -> None:
    compared = compare({"a": {1: 1.0, 2: 1.0}, "b": {2: 0.0, 3: 0.0}})

    assert compared.episodes == 1
    assert compare({}).pairs == ()
    assert compare({"a": {1: 1.0}}).places() == {"a": (1, 1)}
