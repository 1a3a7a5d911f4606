"""Metrics are the document's formulas, regret is never negative, and no policy sees a label."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import ActionType, Step
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import Episode
from standfast.bench.metrics import ActionCounts, WorthCurve, evaluate
from standfast.bench.runner import (
    CURVE_POINTS,
    PricedEpisode,
    curve_points,
    run_policy,
    track_view,
)
from standfast.policies.byte_model import ByteModel
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore
from standfast.policies.write_policy import BUILT_IN, SKIP, Hindsight, PolicySpec, Track, expire, merge, write
from tests.bench.episodes import episode_of, small_episode
from tests.raising import raises_code


def _graded(retained: set[int], episode: Episode, **counts: int) -> Any:
    action_counts = ActionCounts()
    for kind, count in counts.items():
        action_counts.emitted[ActionType(kind)] = count
    return evaluate(
        retained,
        episode.labels,
        action_counts,
        steps=len(episode.steps),
        current_t=episode.steps[-1].t,
        bytes_used=512,
        max_bytes=1_024,
        oracle_worth=8 * episode.labels.unit,
    )


def test_every_formula_of_section_four() -> None:
    episode = episode_of(*range(10), critical=(1, 4, 8), utility={1: 5.0, 4: 0.5})
    episode.labels.total_drift_events = 6
    graded = _graded({1, 4, 6, 9}, episode, WRITE=8, EXPIRE=2)

    assert graded.recall == 2 / 3
    assert graded.precision == 2 / 4
    assert math.isclose(graded.f1, 2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))
    assert graded.utility == 5.0 + 0.5 + 1.0 + 1.0
    assert graded.utility_per_kb == 7.5 / 0.5
    assert graded.regret == 8.0 - 7.5
    assert graded.avg_staleness == ((9 - 1) + (9 - 4) + (9 - 6) + 0) / 4
    assert graded.drift_coverage == 2 / 6
    assert graded.expire_rate == 2 / 8
    assert graded.utilization == 0.5
    assert graded.write_density == 4 / 10
    assert (graded.true_positives, graded.false_positives, graded.false_negatives, graded.true_negatives) == (
        2,
        2,
        1,
        5,
    )


def test_steps_without_a_utility_label_are_worth_nothing() -> None:
    steps = episode_of("a", "b", "c").steps
    episode = Episode(steps, {"critical_steps": [0], "utility_by_step": {"1": 2.5}})

    assert _graded({0, 1, 2}, episode).utility == 2.5
    assert _graded({0, 2}, episode).utility == 0


def test_actions_are_counted_by_kind_and_rejections_separately() -> None:
    def twice(step: Step, _: ByteMemoryStore) -> Any:
        yield write(step)
        yield write(step)
        yield from SKIP

    counts = run_policy(_Scripted(twice), small_episode(3).steps, ByteMemoryStore(ByteBudget(10_000)))

    assert counts.emitted == {"SKIP": 3, "WRITE": 6, "MERGE": 0, "EXPIRE": 0}
    assert counts.refused == {"SKIP": 0, "WRITE": 3, "MERGE": 0, "EXPIRE": 0}


def test_the_worth_curve_follows_bases_deltas_and_orphans() -> None:
    steps = [Step(t=t, observation={"api": "a", "v": t}) for t in range(9)]
    script = [
        [write(steps[0])],
        [merge(steps[1], 0)],
        [merge(steps[2], 0)],
        [expire(1)],  # a delta whose base is stored
        [expire(0)],  # the base, which orphans timestep 2
        [expire(2)],  # an orphan
        [write(steps[6])],
        [write(steps[7])],  # unlabelled
        [expire(7), expire(7), write(steps[8])],  # the second is rejected; unlabelled
    ]
    worth = WorthCurve({0: 5, 1: 3, 2: 2, 6: 4})
    store = ByteMemoryStore(ByteBudget(10_000))
    for step, actions in zip(steps, script, strict=True):
        worth.after(step, [(action, store.apply(action, step)) for action in actions], store)

    assert worth.points == [5, 8, 10, 7, 0, 0, 4, 4, 4]


def test_unlabelled_bases_and_deltas_are_worth_nothing() -> None:
    steps = [Step(t=t, observation={"api": "a", "v": t}) for t in range(5)]
    script = [
        [write(steps[0])],
        [merge(steps[1], 0)],
        [merge(steps[2], 0)],
        [merge(steps[3], 0), expire(1)],
        [expire(0)],
    ]
    worth = WorthCurve({2: 7})
    store = ByteMemoryStore(ByteBudget(10_000))
    for step, actions in zip(steps, script, strict=True):
        worth.after(step, [(action, store.apply(action, step)) for action in actions], store)

    assert worth.points == [0, 0, 7, 7, 0]


def test_empty_denominators_give_zero() -> None:
    graded = _graded(set(), episode_of("a", "b"))

    assert (graded.recall, graded.precision, graded.f1, graded.avg_staleness) == (0, 0, 0, 0)
    assert (graded.drift_coverage, graded.expire_rate, graded.write_density) == (0, 0, 0)


def test_regret_is_never_negative_although_merging_can_beat_writing() -> None:
    changing = [{"api": "a", "text": "x" * 100, "v": n} for n in range(20)]
    run = PricedEpisode(episode_of(*changing), ByteModel.SPEC).run(Entrant.parse("MergeFirst"), 700)

    assert run.metrics.utility > run.metrics.oracle_utility
    assert run.metrics.regret == 0


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_curve_ends_at_the_metric(name: str) -> None:
    run = PricedEpisode(small_episode(120), ByteModel.SPEC).run(Entrant.parse(name), 2_500, curves=True)

    assert run.curve[-1] == run.metrics.regret
    assert run.mean_regret is not None


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(BUILT_IN)),
    st.integers(0, 3),
    st.lists(st.integers(100, 30_000), min_size=2, max_size=4),
)
def test_a_run_that_never_reached_its_budget_is_reused_for_larger_ones(
    name: str, number: int, budgets: list[int]
) -> None:
    """Runs are shared between budgets; fresh runs say the same, to the last figure."""
    episode, entrant = small_episode(40, number=number), Entrant.parse(name)
    shared = PricedEpisode(episode, ByteModel.SPEC, name="x")
    for max_bytes in sorted(budgets):
        fresh = PricedEpisode(episode, ByteModel.SPEC, name="x").run(entrant, max_bytes, curves=True)

        assert shared.run(entrant, max_bytes, curves=True) == fresh


def test_curve_points_are_evenly_spread_and_include_the_last() -> None:
    for steps in (1, 2, 255, 256, 257, 10_000):
        points = curve_points(steps)

        assert points[-1] == steps - 1
        assert len(points) == min(steps, CURVE_POINTS)
        assert points == sorted(set(points))


class Poison:
    """Labels that raise an error when they are read, except for utilities, whose reads are recorded."""

    def __init__(self, truth: dict[int, float]) -> None:
        self._truth = truth
        self.read: list[int] = []

    @property
    def utility_by_step(self) -> "Poison":
        """The only label that bandits may read."""
        return self

    def get(self, t: int, _default: float) -> float:
        """Return the utility of a step."""
        self.read.append(t)
        return self._truth[t]

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a policy's run read the label {name}")


class Stored:
    """Observes a run and records the timesteps at which something was stored."""

    def __init__(self) -> None:
        self.at: list[int] = []

    def after(self, step: Step, _: Any, store: ByteMemoryStore) -> None:
        """Record the step if it was stored."""
        if step.t in store:
            self.at.append(step.t)


@pytest.mark.parametrize(
    "name", [name for name in BUILT_IN if PolicySpec.parse(name).track is not Track.ORACLE]
)
def test_no_policy_reads_a_label(name: str) -> None:
    """Runs over an episode with poisoned labels.

    A bandit gets the utility of what it just stored, and nothing else.
    """
    episode, entrant = small_episode(80), Entrant.parse(name)
    poison, stored = Poison(dict(episode.labels.utility_by_step)), Stored()
    scene: Any = PricedEpisode(episode, ByteModel.SPEC)
    scene.episode.labels = poison
    scene.fill_store(entrant, 2_000, observer=stored)

    assert poison.read == (stored.at if entrant.track is Track.BANDIT else [])


@pytest.mark.parametrize("name", ["UtilityGreedy", "OracleOptimal"])
def test_oracles_do_read_labels(name: str) -> None:
    scene: Any = PricedEpisode(small_episode(20), ByteModel.SPEC)
    scene.episode.labels = Poison({})
    with pytest.raises(AssertionError, match="read the label"):
        scene.fill_store(Entrant.parse(name), 2_000)


def test_each_track_shows_its_own_metadata() -> None:
    steps = (
        Step(t=0, observation={"api": "a"}, metadata={"mode": "m", "priority": 0.5, "breaking_change": True}),
    )

    assert track_view(steps, Track.UNPRIVILEGED)[0].metadata == {"mode": "m"}
    assert track_view(steps, Track.BANDIT)[0].metadata == {"mode": "m"}
    assert track_view(steps, Track.ORACLE)[0].metadata == {"mode": "m"}
    assert track_view(steps, Track.PRIVILEGED) == steps
    assert track_view(steps, Track.BANDIT, frozenset({"mode"}))[0].metadata == {
        "priority": 0.5,
        "breaking_change": True,
    }


class _Scripted:
    """A policy made from a function."""

    track: ClassVar = Track.UNPRIVILEGED

    def __init__(self, answer: Callable[[Step, ByteMemoryStore], Any]) -> None:
        self.select = answer


def _fails(step: Step, _: ByteMemoryStore) -> Any:
    return SKIP if step.t < 2 else 1 / 0


def _never_ends(_: Step, __: ByteMemoryStore) -> Any:
    while True:
        yield expire(0)


def _talks_nonsense(_: Step, __: ByteMemoryStore) -> Any:
    return ["WRITE"]


@pytest.mark.parametrize(("policy", "t"), [(_fails, 2), (_never_ends, 0), (_talks_nonsense, 0)])
def test_a_failing_policy_is_reported_with_its_timestep(policy: Callable[..., Any], t: int) -> None:
    steps = small_episode(10).steps
    with raises_code("policy_failed") as caught:
        run_policy(
            _Scripted(policy), steps, ByteMemoryStore(ByteBudget(1_000)), names=("Broken", "file line 1")
        )

    assert caught.value.facts["t"] == t
    assert "file line 1" in str(caught.value)


def test_a_generator_sees_what_its_last_action_did() -> None:
    def careful(step: Step, store: ByteMemoryStore) -> Any:
        held = len(store)
        yield write(step)
        assert len(store) == held + 1
        if held:
            yield expire(step.t - 1)
            assert len(store) == 1

    store = ByteMemoryStore(ByteBudget(10_000))
    run_policy(_Scripted(careful), small_episode(20).steps, store)

    assert store.retained() == {19}


def test_hindsight_needs_a_policy_with_foresee() -> None:
    hindsight = Hindsight(steps=(), worth={})
    with raises_code("policy_failed", match="foresee"):
        run_policy(
            PolicySpec.parse("AlwaysWrite").build(),
            small_episode(5).steps,
            ByteMemoryStore(ByteBudget(9)),
            hindsight=hindsight,
        )
