"""The gate: exact statistics, rulings with their reasons, and text that must not be lost."""

import random
from fractions import Fraction
from math import comb, pi
from statistics import NormalDist
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gate import SCENARIOS, Scenario, simulate
from standfast.errors import InvalidValue
from standfast.limits import PROBED_SAMPLES
from standfast.optimize.loops.gate import (
    GateSettings,
    Looks,
    MoreRuns,
    RejectReason,
    Ruling,
    decide,
    survives,
)
from standfast.optimize.loops.meaning import protected, static_objection
from standfast.optimize.loops.statistics import (
    look_levels,
    loss_p_value,
    losses_allowed,
    mean_p_value,
    passes_by_chance,
    power_statement,
    samples_needed,
)
from tests.figures import Figures
from tests.optimize.loops.harness import COUNTER, TEMPLATE

GATE = GateSettings()
LOOKS = GATE.confirming(1, varies=True)
P, F = True, False


def _exact(samples: int, losses: int, margin: Fraction) -> Fraction:
    return sum(
        (comb(samples, lost) * margin**lost * (1 - margin) ** (samples - lost) for lost in range(losses + 1)),
        Fraction(0),
    )


@settings(max_examples=60)
@given(st.integers(1, 120), st.integers(0, 120), st.integers(1, 99))
def test_the_p_value_is_the_exact_one(samples: int, losses: int, percent: int) -> None:
    losses = min(losses, samples)
    exact = _exact(samples, losses, Fraction(percent, 100))

    assert loss_p_value(samples=samples, losses=losses, margin=percent / 100) == pytest.approx(
        float(exact), rel=1e-9
    )


@settings(max_examples=40)
@given(st.integers(1, 200), st.sampled_from([0.05, 0.1, 0.2]), st.sampled_from([0.05, 0.01, 0.001]))
def test_the_losses_allowed_are_the_most_that_prove_something(
    samples: int, margin: float, level: float
) -> None:
    allowed = losses_allowed(samples=samples, margin=margin, level=level)

    assert allowed < 0 or loss_p_value(samples=samples, losses=allowed, margin=margin) <= level
    assert loss_p_value(samples=samples, losses=allowed + 1, margin=margin) > level
    assert (allowed >= 0) == (samples >= samples_needed(margin=margin, level=level))


def test_the_edges_of_the_test_are_exact() -> None:
    assert loss_p_value(samples=0, losses=0, margin=0.1) == 1.0
    assert loss_p_value(samples=7, losses=7, margin=0.1) == 1.0
    # 0.5 ** 2 is exactly the level, which is enough.
    assert samples_needed(margin=0.5, level=0.25) == 2


def test_all_uses_of_held_out_samples_together_spend_the_level() -> None:
    levels = [GateSettings(level=0.08).level_of_use(use) for use in range(1, 2_000)]

    assert levels[:2] == pytest.approx([0.08 * 6 / pi**2, 0.08 * 6 / pi**2 / 4])
    assert 0.0799 < sum(levels) < 0.08


def test_one_look_spends_the_whole_level_and_independent_looks_multiply() -> None:
    assert passes_by_chance([0.05], [7]) == pytest.approx(0.05, rel=1e-6)
    # Between a look and one at a million times its repeats there is hardly a correlation.
    assert passes_by_chance([0.05, 0.1], [1, 1_000_000]) == pytest.approx(1 - 0.95 * 0.9, rel=2e-3)


@pytest.mark.parametrize("level", [0.05, 0.0304, 0.0019])
def test_all_looks_together_spend_the_level_in_proportion_to_their_weights(level: float) -> None:
    levels = look_levels(level, GATE.looks, GATE.look_weights)

    assert passes_by_chance(levels, GATE.looks) == pytest.approx(level, rel=1e-4)
    assert [one / levels[-1] for one in levels] == pytest.approx(GATE.look_weights)
    # More than their equal shares, because looks at the same runs are alike.
    assert sum(levels) > level


def test_the_levels_of_looks_agree_with_simulated_motion() -> None:
    chance, trials, passed = random.Random(5), 20_000, 0
    levels = look_levels(0.05, (1, 3, 9), (0.5, 0.5, 1.0))
    bounds = [-NormalDist().inv_cdf(level) for level in levels]
    for _ in range(trials):
        place, now, hit = 0.0, 0, False
        for look, bound in zip((1, 3, 9), bounds, strict=True):
            place, now = place + chance.gauss(0, (look - now) ** 0.5), look
            hit |= place / look**0.5 >= bound
        passed += hit

    assert passed / trials == pytest.approx(0.05, abs=0.005)


def test_choosing_looks_have_the_whole_choosing_level() -> None:
    assert GATE.choosing(varies=True) == Looks(repeats=(1, 3, 5), levels=(GATE.choosing_level,) * 3)
    assert GATE.confirming(1, varies=True).repeats == GATE.looks


def test_equal_values_leave_no_doubt_and_single_values_prove_nothing() -> None:
    assert mean_p_value([0.1] * 30) == 0.0
    assert mean_p_value([-0.1] * 30) == mean_p_value([0.0] * 30) == mean_p_value([0.1]) == 1.0


@pytest.mark.parametrize(
    ("score", "count", "exact"), [(1.697, 31, 0.05), (2.457, 31, 0.01), (2.132, 5, 0.05)]
)
def test_the_mean_is_tested_by_students_distribution(score: float, count: int, exact: float) -> None:
    spread = [-1.0, 1.0] * (count // 2) + [0.0] * (count % 2)
    deviation = (sum(value * value for value in spread) / (count - 1) / count) ** 0.5

    assert mean_p_value([value + score * deviation for value in spread]) == pytest.approx(exact, rel=0.03)


def test_the_power_is_told_honestly() -> None:
    few = power_statement(samples=20, margin=0.1, level=0.05)
    many = power_statement(samples=100, margin=0.1, level=0.05)

    assert (few.losses_allowed, few.accepts_harmless, few.samples_needed) == (-1, 0.0, 29)
    assert many.losses_allowed == 4
    assert many.accepts_harmless > 0.99
    assert many.rejects_at_margin >= 0.95
    assert many.rejects_at_twice > 0.999
    assert many.accepts_harmless == loss_p_value(samples=100, losses=4, margin=1 / 200)
    assert many.rejects_at_twice == 1 - loss_p_value(samples=100, losses=4, margin=0.2)


def _all(count: int, runs: tuple[bool, ...] = (P,) * 12) -> dict[str, tuple[bool, ...]]:
    return {f"s{number:03}": runs for number in range(count)}


def _decided(
    base: dict[str, tuple[bool, ...]], own: dict[str, tuple[bool, ...]], looks: Looks = LOOKS
) -> Ruling:
    answer = decide(base, own, samples=list(base), settings=GATE, looks=looks)
    assert isinstance(answer, Ruling)
    return answer


def test_a_candidate_that_loses_nothing_passes_after_one_run_if_the_samples_prove_it() -> None:
    ruling = decide(_all(60, (P,)), _all(60, (P,)), samples=list(_all(60)), settings=GATE, looks=LOOKS)

    assert isinstance(ruling, Ruling)
    assert ruling.passed
    assert (ruling.repeats, ruling.losses, ruling.samples) == (1, 0, 60)
    assert ruling.p_value == pytest.approx(0.9**60)
    few = _decided(_all(20), _all(20))
    assert few.reason is RejectReason.NOT_ENOUGH_SAMPLES
    assert "42 could" in few.detail


def test_a_p_value_that_equals_the_level_of_a_look_passes() -> None:
    exact = loss_p_value(samples=60, losses=0, margin=GATE.margin)

    def looks(first: float) -> Looks:
        return Looks(repeats=(1, 3), levels=(first, 0.5))

    assert _decided(_all(60), _all(60), looks(exact)).repeats == 1
    assert _decided(_all(60), _all(60), looks(exact * 0.999)).repeats == 3


def test_a_candidate_that_fails_everything_is_given_up_after_a_few_samples() -> None:
    names = list(_all(60))
    first = decide(_all(60, ()), _all(60, ()), samples=names, settings=GATE, looks=LOOKS)
    assert first == MoreRuns(samples=tuple(names[:PROBED_SAMPLES]), repeats=1)
    base = {name: (P,) if name in first.samples else () for name in names}
    failing = {name: (F,) if name in first.samples else () for name in names}
    ruling = decide(base, failing, samples=names, settings=GATE, looks=LOOKS)

    assert isinstance(ruling, Ruling)
    assert ruling.reason is RejectReason.INFERIOR
    assert f"given up after {PROBED_SAMPLES} samples" in ruling.detail


def test_one_lost_sample_vetoes_nothing() -> None:
    """At 400 samples, two per cent of outcomes may change in both directions."""
    lost = {f"s{number:03}": (F,) * 12 for number in range(0, 40, 10)}
    base = _all(400) | {f"g{number}": (F,) * 12 for number in range(4)}
    own = _all(400) | lost | {f"g{number}": (P,) * 12 for number in range(4)}
    ruling = _decided(base, own, GATE.confirming(1, varies=False))

    assert ruling.passed
    assert (ruling.losses, ruling.repeats) == (4, 1)
    assert ruling.lost == tuple(lost)
    assert ruling.gained == ("g0", "g1", "g2", "g3")


def test_a_sample_that_must_pass_decides_alone_and_is_run_first() -> None:
    names = list(_all(400))
    one = {"s333": (F,) * 12}

    def decided(base: dict[str, tuple[bool, ...]], own: dict[str, tuple[bool, ...]]) -> Ruling | MoreRuns:
        return decide(base, own, samples=names, settings=GATE, looks=LOOKS, must_pass={"s333"})

    first = decided(_all(400, ()), _all(400, ()))
    assert isinstance(first, MoreRuns)
    assert first.samples[0] == "s333"
    ruling = decided(_all(400), _all(400) | one)
    assert isinstance(ruling, Ruling)
    assert (ruling.reason, ruling.regression_count) == (RejectReason.REGRESSED, 1)
    assert "s333" in ruling.detail
    # A run that fails is enough where the baseline passes all of them, and not where it does not.
    flaky = (P, P, F, *(P,) * 9)
    for base, own, passes in ((_all(400), {"s333": (F, *flaky)}, False), (_all(400) | one, one, True)):
        answer = decided(base, _all(400) | own)
        assert isinstance(answer, Ruling)
        assert answer.passed == passes


def test_a_model_that_does_not_vary_gets_one_look_with_the_whole_level() -> None:
    assert GATE.confirming(2, varies=False) == Looks(repeats=(1,), levels=(GATE.level_of_use(2),))
    assert GATE.choosing(varies=False) == Looks(repeats=(1,), levels=(GATE.choosing_level,))
    # 34 samples without a loss prove the margin at the whole level of the first use, 33 do not.
    looks = GATE.confirming(1, varies=False)
    assert [_decided(_all(count), _all(count), looks).passed for count in (33, 34)] == [False, True]


def test_samples_are_bought_in_growing_portions_and_not_after_the_case_is_lost() -> None:
    looks, names = GATE.confirming(1, varies=False), list(_all(240))
    asked = []
    base, own = _all(240, ()), _all(240, ())
    while isinstance(answer := decide(base, own, samples=names, settings=GATE, looks=looks), MoreRuns):
        asked.append(len(answer.samples))
        base |= dict.fromkeys(answer.samples, (P,))
        # Every third sample is lost.
        own |= {name: (names.index(name) % 3 != 0,) for name in answer.samples}

    assert asked == [16, 16, 32]
    assert answer.reason is RejectReason.INFERIOR
    assert "given up after 64 samples" in answer.detail


def test_a_loss_within_the_margin_is_not_given_up_though_nothing_is_gained() -> None:
    own = _all(400) | {f"s{number:03}": (F,) * 12 for number in range(0, 400, 40)}

    assert _decided(_all(400), own, GATE.confirming(1, varies=False)).passed


@settings(max_examples=60)
@given(st.integers(20, 200), st.integers(0, 30), st.integers(0, 30), st.integers(0, 60))
def test_the_worst_loss_is_within_the_margin_exactly_if_the_prompt_passes(
    samples: int, lost: int, gained: int, failing: int
) -> None:
    names = [f"s{number}" for number in range(samples + failing)]
    base = {name: (number < samples,) for number, name in enumerate(names)}
    changed = names[: min(lost, samples)] + names[samples:][:gained]
    own = base | {name: (not base[name][0],) for name in changed}
    looks = GATE.confirming(1, varies=False)
    ruling = decide(base, own, samples=names, settings=GATE, looks=looks)

    assert isinstance(ruling, Ruling)
    if ruling.repeats and "given up" not in ruling.detail:
        assert ruling.passed == (ruling.worst_loss <= GATE.margin)


def test_a_single_failure_among_many_runs_is_noise() -> None:
    assert _decided(_all(200), _all(200) | {"s000": (F, P, F, *(P,) * 9)}).passed


def test_a_loss_that_is_spread_thin_is_seen_though_every_sample_passes_by_majority() -> None:
    """Every sample fails two runs in nine: 22 points of the pass rate, and not one sample is lost."""
    thin = {
        name: tuple(repeat not in (number % 3, 3 + number % 6) for repeat in range(9))
        for number, name in enumerate(_all(100))
    }
    late = Looks(repeats=(9,), levels=(0.05,))
    ruling = decide(_all(100), thin, samples=list(thin), settings=GATE, looks=late)

    assert isinstance(ruling, Ruling)
    assert (ruling.reason, ruling.losses) == (RejectReason.INFERIOR, 0)
    assert "100.0% → 77.8%" in ruling.detail
    assert ruling.worst_loss > GATE.margin


def test_the_more_repeats_of_bad_samples_never_improve_the_rate() -> None:
    """All samples have as many runs as a look needs; what else was run of some does not count."""
    own = _all(60, (P,)) | {f"s{number:03}": (F, *(P,) * 11) for number in range(20, 30)}
    answer = decide(_all(60), own, samples=list(own), settings=GATE, looks=LOOKS)

    assert isinstance(answer, Ruling)
    assert answer.candidate_pass_rate == pytest.approx(50 / 60)


def test_a_flaky_baseline_is_no_loss() -> None:
    chance = random.Random(3)
    base, own = (
        {name: tuple(chance.random() < 0.8 for _ in range(12)) for name in _all(200)} for _ in range(2)
    )
    ruling = _decided(base, own)

    assert ruling.passed
    assert 0.7 < ruling.baseline_pass_rate < 0.9


def test_gains_do_not_make_up_for_lost_samples() -> None:
    lost = {f"f{n}": (P, P, F, *(P,) * 9) for n in range(8)}
    base = _all(60) | lost | {f"g{n}": (F,) * 12 for n in range(8)}
    own = _all(60) | dict.fromkeys(lost, (F,) * 12) | {f"g{n}": (P,) * 12 for n in range(8)}
    ruling = _decided(base, own)

    assert (ruling.reason, ruling.losses) == (RejectReason.INFERIOR, 8)
    assert ruling.candidate_pass_rate > ruling.baseline_pass_rate - 0.02


def test_samples_that_the_baseline_never_passes_prove_nothing() -> None:
    failing = {f"g{n}": (F,) * 12 for n in range(200)}

    assert _decided(_all(20) | failing, _all(20) | failing).reason is RejectReason.NOT_ENOUGH_SAMPLES


def test_the_screen_drops_what_loses_half_the_margin_in_one_run_each() -> None:
    names = list(_all(60))

    def screened(lost: int) -> bool | MoreRuns:
        own = _all(60, (P,)) | dict.fromkeys(names[20 : 20 + lost], (F,))
        return survives(_all(60, (P,)), own, samples=names, settings=GATE)

    assert [screened(lost) for lost in (0, 3, 4)] == [True, True, False]


def test_the_screen_takes_runs_that_differ_in_both_directions_for_noise() -> None:
    names = list(_all(60))

    def screened(lost: int, gained: int) -> bool | MoreRuns:
        base = _all(60, (P,)) | dict.fromkeys(names[1::3][:gained], (F,))
        own = _all(60, (P,)) | dict.fromkeys(names[::3][:lost], (F,))
        return survives(base, own, samples=names, settings=GATE)

    # 13 - 7 runs lost is less than the noise of 20, which is the root of 40; 15 - 6 is more than that of 21.
    assert (screened(13, 7), screened(15, 6)) == (True, False)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_level_holds_and_harmless_prompts_pass_in_simulations(
    scenario: Scenario, figures: Figures
) -> None:
    """`make bench` prints the whole curve; here are its two promises, with fewer trials."""
    harmful, _ = simulate(scenario, GATE.margin, trials=200, choosing=False)
    harmless, calls = simulate(scenario, 0.0, trials=40)
    figures(
        scenario.name,
        percent_accepted_at_margin=round(harmful * 100),
        percent_accepted_harmless=round(harmless * 100),
    )

    assert harmful <= GATE.level
    assert harmless >= 0.8
    assert calls <= 1_300


@pytest.mark.parametrize(
    ("section", "body", "reason"),
    [
        ("task", "Add ${a}.", RejectReason.PLACEHOLDER_DROPPED),
        ("task", "Add ${a}, ${b}, ${c}", RejectReason.PLACEHOLDER_DROPPED),
        ("rules", "Guess.\n\nAnswer with the sum alone.", RejectReason.NEGATION_REMOVED),
        (
            "role",
            "You are a calculator that people like, and proud of it, and you like the sea, and the land.",
            RejectReason.NOT_SHORTER,
        ),
        ("role", "Calculator.", None),
    ],
)
def test_what_is_lost_is_seen_without_a_model(section: str, body: str, reason: RejectReason | None) -> None:
    before = TEMPLATE.descriptor
    sections = tuple(
        msgspec.structs.replace(one, body=body) if one.path == (section,) else one for one in before.sections
    )
    found = static_objection(before, msgspec.structs.replace(before, sections=sections), counter=COUNTER)

    assert (found[0] if found else None) is reason


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("You MUST answer.", ("command", "MUST answer")),
        ("Never   guess!", ("negation", "never guess")),
        ("It doesn't matter", ("negation", "doesn't matter")),
        ("Within 14 days", ("number", "14")),
        ("by 2026-01-01 at 10:30", ("number", "10:30")),
        ("See https://example.org/a?b=1 now", ("address", "https://example.org/a?b=1")),
        ("Call `run(x)` then", ("code", "`run(x)`")),
        ("Say ${name}.", ("placeholder", "${name}")),
        ('```json\n{"a": [1, 2.50]}\n```', ("code", '{"a":[1,2.50]}')),
    ],
)
def test_what_is_protected(text: str, held: tuple[str, str]) -> None:
    assert held in protected(text)


def test_what_stands_in_code_is_protected_as_code_only() -> None:
    assert {kind for kind, _ in protected("`never 14`")} == {"code"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": 0},
        {"margin": 1},
        {"looks": (3, 1, 9)},
        {"looks": ()},
        {"look_weights": (1.0, 0.5)},
        {"choosing_repeats": 0},
    ],
    ids=str,
)
def test_settings_that_promise_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        GateSettings(**wrong)


def test_a_prompt_of_the_same_length_is_not_shorter() -> None:
    refused = static_objection(TEMPLATE.descriptor, TEMPLATE.descriptor, counter=COUNTER)

    assert refused is not None
    assert refused[0] is RejectReason.NOT_SHORTER
