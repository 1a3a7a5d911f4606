"""The gate: exact statistics, rulings with their reasons, and text that must not be lost."""

from fractions import Fraction
from math import comb

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import InvalidValue
from standfast.optimize.loops.gate import (
    GateSettings,
    RejectReason,
    in_doubt,
    loss_p_value,
    losses_allowed,
    pass_rate,
    power_statement,
    rule,
    samples_needed,
)
from standfast.optimize.loops.protected_text import protected, static_objection
from tests.optimize.loops.harness import COUNTER, TEMPLATE

GATE = GateSettings()
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


def test_the_level_is_halved_each_round_and_shared_among_candidates() -> None:
    gate = GateSettings(level=0.08)

    assert [gate.level_of(number, 1) for number in (1, 2, 3)] == pytest.approx([0.04, 0.02, 0.01])
    assert gate.level_of(1, 4) == pytest.approx(0.01)
    assert gate.level_of(1, 0) == gate.level_of(1, 1)


def test_as_many_repeats_as_the_maximum_are_allowed() -> None:
    assert GateSettings(repeats=5, max_repeats=5).max_repeats == 5


def test_a_p_value_that_equals_the_level_passes() -> None:
    p_value = loss_p_value(samples=60, losses=0, margin=GATE.margin)

    assert rule(_all(60), _all(60), settings=GATE, level=p_value).passed
    assert not rule(_all(60), _all(60), settings=GATE, level=p_value * 0.999).passed


def test_a_tie_is_not_a_majority() -> None:
    assert pass_rate({"a": (P, F), "b": (P, P)}) == 0.5


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


def _all(count: int, runs: tuple[bool, ...] = (P, P, P)) -> dict[str, tuple[bool, ...]]:
    return {f"s{number:03}": runs for number in range(count)}


def test_a_candidate_that_loses_nothing_passes_if_the_samples_prove_it() -> None:
    assert rule(_all(60), _all(60), settings=GATE, level=0.05).passed
    few = rule(_all(20), _all(20), settings=GATE, level=0.05)
    assert few.reason is RejectReason.NOT_ENOUGH_SAMPLES
    assert "29 could" in few.detail


def test_one_sample_that_always_passed_and_never_does_any_more_is_a_regression() -> None:
    candidate = _all(200) | {"s000": (F,) * 9}
    ruling = rule(_all(200) | {"s000": (P,) * 9}, candidate, settings=GATE, level=0.05)

    assert (ruling.reason, ruling.regression_count) == (RejectReason.REGRESSED, 1)
    assert "s000 (0 of 9, was 9 of 9)" in ruling.detail


def test_a_sample_that_turned_flaky_is_a_regression_with_its_own_name() -> None:
    base = _all(200) | {"s000": (P,) * 9}
    flaky = _all(200) | {"s000": (P, F, P, F, P, F, P, F, P)}

    assert rule(base, flaky, settings=GATE, level=0.05).reason is RejectReason.TURNED_FLAKY


def test_a_single_failure_among_many_runs_is_noise() -> None:
    base = _all(200) | {"s000": (P,) * 9}
    noisy = _all(200) | {"s000": (P, P, F, P, P, P, P, P, P)}

    assert rule(base, noisy, settings=GATE, level=0.05).passed


def test_a_sample_that_was_flaky_before_is_no_regression_but_counts_as_a_loss() -> None:
    flaky = {"f0": (P, P, F, P, P, F, P, P, P), "f1": (P, F, P, P, P, P, P, F, P)}
    failing = dict.fromkeys(flaky, (F,) * 9)
    ruling = rule(_all(40) | flaky, _all(40) | failing, settings=GATE, level=0.05)

    assert (ruling.reason, ruling.regression_count, ruling.losses) == (RejectReason.INFERIOR, 0, 2)


def test_gains_do_not_make_up_for_losses() -> None:
    flaky = {f"f{n}": (P, F, P) for n in range(8)}
    base = _all(40) | flaky | {f"g{n}": (F, F, F) for n in range(8)}
    candidate = _all(40) | dict.fromkeys(flaky, (F, F, F)) | {f"g{n}": (P, P, P) for n in range(8)}
    ruling = rule(base, candidate, settings=GATE, level=0.05)

    assert (ruling.reason, ruling.losses, ruling.gains) == (RejectReason.INFERIOR, 8, 8)


def test_samples_are_run_again_where_the_sides_differ() -> None:
    base = {"same": (P, P, P), "worse": (P, P, P), "better": (F, F, P), "flaky": (P, F, P), "done": (P,) * 9}
    own = {"same": (P, P, P), "worse": (P, F, P), "better": (P, P, P), "flaky": (P, P, F), "done": (F,) * 9}

    assert in_doubt(base, own, GATE) == {"worse", "better"}


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
    [{"level": 0}, {"margin": 1}, {"repeats": 2}, {"repeats": 0}, {"repeats": 5, "max_repeats": 3}],
    ids=str,
)
def test_settings_that_promise_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValue):
        GateSettings(**wrong)  # type: ignore[arg-type]


def test_a_prompt_of_the_same_length_is_not_shorter() -> None:
    refused = static_objection(TEMPLATE.descriptor, TEMPLATE.descriptor, counter=COUNTER)

    assert refused is not None
    assert refused[0] is RejectReason.NOT_SHORTER
