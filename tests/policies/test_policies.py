"""Each policy does what its name says, and all of them respect the budget."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import ActionType, InvalidValue, MemoryAction, Step
from standfast.bench.entrants import Entrant
from standfast.bench.runner import PricedEpisode, run_policy
from standfast.policies.byte_model import ByteModel
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore
from standfast.policies.write_policy import (
    BUILT_IN,
    Hindsight,
    PolicySpec,
    Track,
    WritePolicy,
    apply_policy,
    expire,
)
from tests.bench.episodes import episode_of, small_episode

NAMES = list(BUILT_IN)


def _steps(
    count: int, *, chars: int = 20, apis: int = 3, priorities: list[float] | None = None
) -> list[Step]:
    return [
        Step(
            t=t,
            observation={"api": f"a{t % apis}", "v": t, "text": "x" * chars},
            metadata={"priority": priorities[t]} if priorities is not None else {},
        )
        for t in range(count)
    ]


def _store(policy: str, steps: list[Step], max_bytes: int) -> ByteMemoryStore:
    store = ByteMemoryStore(ByteBudget(max_bytes))
    run_policy(PolicySpec.parse(policy).build(), steps, store)
    return store


def _cost(steps: list[Step]) -> int:
    return ByteMemoryStore(ByteBudget(1)).cost_of(steps[0])


def test_always_write_keeps_the_first_that_fit() -> None:
    steps = _steps(9)

    assert _store("AlwaysWrite", steps, 3 * _cost(steps)).retained() == {0, 1, 2}


def test_never_write_keeps_nothing() -> None:
    assert _store("NeverWrite", _steps(9), 10_000).retained() == set()


def test_uniform_sample_keeps_every_nth() -> None:
    assert _store("UniformSample(every=4)", _steps(9), 10_000).retained() == {0, 4, 8}


def test_recency_bias_keeps_the_last_that_fit() -> None:
    steps = _steps(9)

    assert _store("RecencyBias", steps, 3 * _cost(steps)).retained() == {6, 7, 8}


def test_recency_bias_expires_one_item_for_each_step_unless_allowed_more() -> None:
    short, long = _steps(4), Step(t=4, observation={"api": "b", "text": "x" * 90})
    room = 4 * _cost(short)

    assert 4 not in _store("RecencyBias", [*short, long], room).retained()
    assert 4 in _store("RecencyBias(expiries=0)", [*short, long], room).retained()


def test_expire_oldest_forgets_by_age() -> None:
    assert _store("ExpireOldest(max_age=3)", _steps(9), 10_000).retained() == {5, 6, 7, 8}


def test_priority_threshold_and_greedy_keep_what_matters() -> None:
    steps = _steps(6, priorities=[0.1, 0.9, 0.2, 0.8, 0.3, 0.7])

    assert _store("PriorityThreshold", steps, 10_000).retained() == {1, 3, 5}
    assert _store("PriorityGreedy", steps, 3 * _cost(steps) + 9).retained() == {1, 3, 5}


def test_merge_aggressive_stores_changes_as_deltas() -> None:
    store = _store("MergeAggressive", _steps(9), 10_000)

    assert store.retained() == set(range(9))
    assert [item.merge_parent_t for item in store.items()] == [None, None, None, 0, 1, 2, 0, 1, 2]


def test_random_policy_writes_its_share_and_follows_its_seed() -> None:
    steps = _steps(400)
    stored = [_store(f"RandomPolicy(p=0.25, seed={seed})", steps, 10**6).retained() for seed in (1, 1, 2)]

    assert stored[0] == stored[1] != stored[2]
    assert 60 < len(stored[0]) < 140


def test_the_greedy_oracle_takes_the_most_useful_and_the_exact_one_the_best() -> None:
    """One big useful step against two small ones that are worth more together."""
    episode = episode_of("x" * 200, "y" * 80, "z" * 80, critical=(0,), utility={0: 3.0, 1: 2.0, 2: 2.0})
    priced = PricedEpisode(episode, ByteModel.SPEC)

    assert priced.run(Entrant.parse("UtilityGreedy"), 240).metrics.utility == 3.0
    assert priced.run(Entrant.parse("OracleOptimal"), 240).metrics.utility == 4.0


@pytest.mark.parametrize("name", ["EpsilonGreedy", "BanditUCB"])
def test_bandits_learn_which_kind_of_step_is_worth_keeping(name: str) -> None:
    observations = [{"api": f"new{n}", "params": [str(n)], "deprecated": n % 3 == 0} for n in range(150)]
    critical = tuple(t for t in range(150) if t % 3 == 0)
    episode = episode_of(
        *observations, critical=critical, utility={t: 5.0 if t in critical else 0.2 for t in range(150)}
    )
    metrics = PricedEpisode(episode, ByteModel.SPEC).run(Entrant.parse(name), 4_000).metrics

    assert metrics.precision > 0.6


def test_drift_value_keeps_removals_and_never_a_repetition() -> None:
    noise = [{"api": f"n{n}", "params": ["a", "b"], "deprecated": False} for n in range(20)]
    shown = {"api": "pay", "params": ["amount", "card"], "deprecated": False}
    episode = episode_of(shown, *noise, {**shown, "params": ["amount"]}, *noise, critical=(21,))
    scene = PricedEpisode(episode, ByteModel.SPEC)
    store = ByteMemoryStore(ByteBudget(420))
    run_policy(PolicySpec.parse("DriftValue").build(), scene.shown(Track.UNPRIVILEGED), store)

    assert 21 in store.retained()
    assert not store.retained() & set(range(22, 42))


def test_merge_first_keeps_the_base_that_its_deltas_need() -> None:
    changing = [{"api": "pay", "params": ["p" * 30], "version": n} for n in range(30)]
    passing = [{"api": f"n{n}", "params": ["q" * 30]} for n in range(30)]
    episode = episode_of(*(step for pair in zip(changing, passing, strict=True) for step in pair))
    scene = PricedEpisode(episode, ByteModel.SPEC)
    steps = scene.shown(Track.UNPRIVILEGED)
    store = ByteMemoryStore(ByteBudget(900))
    run_policy(PolicySpec.parse("MergeFirst").build(seed=3), steps, store)
    stored = [item for item in store.items() if item.api == "pay"]

    assert len(stored) > 20
    assert {item.step.t for item in stored} <= store.retained(), "none is an orphan"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("max_bytes", [300, 2_000, 100_000])
def test_the_budget_holds_and_a_replay_is_identical(name: str, max_bytes: int) -> None:
    runs = []
    for _ in range(2):
        scene = PricedEpisode(small_episode(80), ByteModel.SPEC, name="replay")
        run = scene.run(Entrant.parse(name), max_bytes)
        assert run.metrics.bytes_used <= max_bytes
        runs.append(run)

    assert runs[0] == runs[1]


@settings(max_examples=40)
@given(st.sampled_from(NAMES), st.integers(0, 5), st.integers(60, 6_000))
def test_no_policy_that_only_writes_beats_the_exact_oracle(name: str, number: int, max_bytes: int) -> None:
    run = PricedEpisode(small_episode(40, number=number)).run(Entrant.parse(name), max_bytes)

    assert run.metrics.regret >= 0
    if run.counts.emitted[ActionType.MERGE] == 0:
        assert run.metrics.utility <= run.metrics.oracle_utility


@pytest.mark.parametrize("name", NAMES)
def test_single_steps_and_whole_streams_store_the_same(name: str) -> None:
    """``Memory`` takes turns, the benchmark plays streams; the same steps leave the same behind."""
    spec = PolicySpec.parse(name)
    scene = PricedEpisode(small_episode(60), ByteModel.SPEC)
    steps = scene.shown(spec.track)
    hindsight = Hindsight(steps=steps, worth=scene.episode.labels.worth)
    left, right = ByteMemoryStore(ByteBudget(3_000)), ByteMemoryStore(ByteBudget(3_000))
    by_steps: Any = spec.build(seed=5)
    if spec.track is Track.ORACLE:
        by_steps.foresee(hindsight)
    for step in steps:
        apply_policy(by_steps, step, left)
        if spec.track is Track.BANDIT and step.t in left:
            by_steps.learn(step, scene.utility_of(step.t))
    run_policy(
        spec.build(seed=5),
        steps,
        right,
        feedback=scene.utility_of if spec.track is Track.BANDIT else None,
        hindsight=hindsight if spec.track is Track.ORACLE else None,
    )

    assert [item.step.t for item in left.items()] == [item.step.t for item in right.items()]


@pytest.mark.parametrize("name", [name for name in NAMES if PolicySpec.parse(name).track is not Track.ORACLE])
def test_a_policy_can_continue_with_a_store_that_another_filled(name: str) -> None:
    store = ByteMemoryStore(ByteBudget(2_000))
    steps = list(PricedEpisode(small_episode(60), ByteModel.SPEC).shown(Track.PRIVILEGED))
    run_policy(PolicySpec.parse("MergeAggressive").build(), steps[:30], store)
    policy: WritePolicy = PolicySpec.parse(name).build(seed=1)
    actions: list[tuple[MemoryAction, bool]] = []
    for step in steps[30:]:
        actions += apply_policy(policy, step, store)

    assert store.budget.used_bytes == sum(item.byte_cost for item in store.items()) <= 2_000
    assert actions or name in ("ExpireOldest", "EpsilonGreedy", "BanditUCB")


def test_the_target_of_an_expiry_is_checked() -> None:
    assert expire(1) == MemoryAction(action=ActionType.EXPIRE, target_t=1)
    wrong: Any
    for wrong in (True, 1.0, -1):
        with pytest.raises(InvalidValue):
            expire(wrong)


def test_rare_drift_prefers_the_change_that_is_rare_in_this_stream() -> None:
    """Nine removals and one deprecation: one step fits. By score alone the removals win; here the rare
    one does.
    """
    steps = [
        Step(t=t, observation={"api": f"e{t}", "content": f"Removed the option number {t}"}) for t in range(9)
    ]
    steps.append(Step(t=9, observation={"api": "e9", "content": "Deprecated the only such thing"}))

    def kept(name: str) -> set[int]:
        store = ByteMemoryStore(ByteBudget(110))
        run_policy(PolicySpec.parse(name).build(), steps, store)
        return store.retained()

    assert kept("DriftValue") != {9}
    assert kept("RareDrift") == {9}
