"""Intervals stay in range, tests are exact, and places respect what is significant."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.bench import statistics
from standfast.bench.statistics import Mean, compare, holm, mean_of, sign_flip_p

SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), min_size=1, max_size=30)


@given(SHARES)
def test_an_interval_contains_the_mean_and_stays_in_range(values: list[float]) -> None:
    mean = mean_of(values)

    assert 0 <= mean.low <= mean.value + 1e-9
    assert mean.value - 1e-9 <= mean.high <= 1
    assert mean == mean_of(values), "the same values have the same interval"


def test_one_value_has_no_interval_and_many_have_a_narrow_one() -> None:
    assert mean_of([0.5]) == Mean(0.5, 0.5, 0.5, 1, 1)
    assert mean_of([]) == Mean(0.0, 0.0, 0.0, 0, 0)
    few, many = mean_of([0.0, 1.0] * 5), mean_of([0.0, 1.0] * 1_500)
    assert few.low < 0.3
    assert few.high > 0.7
    assert 0.48 < many.low < 0.5 < many.high < 0.52
    half = mean_of([0.0, 1.0] * 100)
    assert half.low == pytest.approx(0.5 - 1.96 * 0.5 / 200**0.5, abs=0.01)
    assert half.high == pytest.approx(0.5 + 1.96 * 0.5 / 200**0.5, abs=0.01)


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_the_test_of_a_mean_equals_trying_all_signs(differences: list[int]) -> None:
    if not differences:
        assert sign_flip_p([differences])[0] == 1.0
        return
    seen = abs(sum(differences))
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in product((-1, 1), repeat=len(differences))
    ]

    assert sign_flip_p([differences])[0] == pytest.approx(sum(one >= seen for one in sums) / len(sums))


def test_drawn_signs_agree_with_all_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [(-1) ** (n % 3 == 0) * (n % 7 + 1) for n in range(14)]
    exact = sign_flip_p([differences])[0]
    statistics._signs.cache_clear()
    monkeypatch.setattr(statistics, "MOST_EXACT", 1)
    drawn = sign_flip_p([differences])[0]
    statistics._signs.cache_clear()

    assert drawn == pytest.approx(exact, rel=0.1)
    assert 0 < drawn < 1


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
    assert compared.means == pytest.approx({"good": 0.8475, "twin": 0.8475, "poor": 0.1475})
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


def _windows(random: np.random.Generator, histories: int) -> tuple[list[float], list[int]]:
    """Twelve windows of each history. Histories differ as much as the windows of one do."""
    own = random.normal(0.5, 0.1, histories)
    of = [number for number in range(histories) for _ in range(12)]
    return [float(own[number] + random.normal(0, 0.1)) for number in of], of


@pytest.mark.parametrize("histories", [3, 5, 10])
def test_an_interval_over_windows_of_few_histories_covers_the_truth(histories: int) -> None:
    """95 of 100 intervals should; as if windows were independent, far fewer do."""
    random = np.random.default_rng(4711)
    covered = naive = 0
    for _ in range(200):
        values, of = _windows(random, histories)
        by_history, by_window = mean_of(values, of), mean_of(values)
        covered += by_history.low <= 0.5 <= by_history.high
        naive += by_window.low <= 0.5 <= by_window.high

    assert covered >= 0.92 * 200
    assert naive <= 0.75 * 200


def test_one_history_is_compared_by_its_windows_and_says_so() -> None:
    scores = {"a": {e: 0.5 + e / 100 for e in range(12)}, "b": dict.fromkeys(range(12), 0.1)}
    compared = compare(scores, dict.fromkeys(range(12), "h"))

    assert (compared.units, compared.histories, compared.places()) == (12, 1, {"a": (1, 1), "b": (2, 2)})
    assert "holds for that history only" in compared.limits()
    many = compare(scores, {e: e // 6 for e in range(12)})
    assert (many.units, many.places()) == (2, {"a": (1, 2), "b": (1, 2)}), "two histories prove nothing"
    assert "no order can show" in many.limits()


def _fifteen(episodes: int) -> dict[str, dict[int, float]]:
    names = ["RecencyBias", "NeverWrite", *(f"good{n}" for n in range(13))]
    level = {"RecencyBias": 0.4, "NeverWrite": 0.0}
    return {
        name: {e: level.get(name, 0.6) + 0.01 * ((e + place) % 3) for e in range(episodes)}
        for place, name in enumerate(names)
    }


def test_ten_episodes_rank_fifteen_policies_against_a_baseline() -> None:
    """With all 105 pairs no p value of ten episodes survives the correction."""
    compared = compare(_fifteen(10))
    places = compared.places()

    assert compared.baseline == "RecencyBias"
    assert places["NeverWrite"] == (15, 15)
    assert places["RecencyBias"] == (14, 14)
    assert places["good0"] == (1, 13)
    assert "an order can show" in compared.limits()
    assert compare(_fifteen(30)).baseline is None, "thirty are enough for all pairs"
    assert compare(_fifteen(30), baseline="good0").baseline == "good0"


def test_a_policy_that_keeps_nothing_is_never_beside_the_best() -> None:
    """Also where the baseline keeps nothing either, so that the two can't be told apart."""
    scores = _fifteen(10)
    scores["RecencyBias"] = scores["NeverWrite"] = dict.fromkeys(range(10), 0.0)
    compared = compare(scores)

    assert compared.places()["NeverWrite"] == compared.places()["RecencyBias"] == (14, 15)
    assert compared.places()["good0"] == (1, 13)
    assert compared.ties() == []


def test_the_winner_and_the_significance_are_of_one_statistic() -> None:
    """One large loss against many small wins: ranks would call it a win, the mean a loss; here nobody
    wins.
    """
    a = dict.fromkeys(range(20), 0.51) | {20: 0.0}
    b = dict.fromkeys(range(20), 0.5) | {20: 1.0}
    compared = compare({"a": a, "b": b})
    (pair,) = compared.pairs

    assert pair.difference.value < 0
    assert not pair.significant
    assert compared.places() == {"a": (1, 2), "b": (1, 2)}
