"""The oracle is exact: exhaustive search and two independent solvers agree with it."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.algorithms.python import knapsack_solver
from ortools.linear_solver import pywraplp

from standfast.bench import metrics as oracle
from standfast.bench.episodes import locate_episodes, read_episode
from standfast.bench.metrics import oracle_curve, oracle_worth
from standfast.bench.runner import PricedEpisode
from standfast.clock import seeded
from standfast.policies.byte_model import ByteModel
from standfast.policies.knapsack import best_subset
from standfast.policies.write_policy import Track
from tests.bench.episodes import REAL, episode_of, small_episode

ITEMS = st.lists(st.tuples(st.integers(1, 40), st.integers(-2, 30)), max_size=9)


def _solver(sizes: list[int], values: list[int], capacity: int) -> int:
    """The optimum by OR-tools' branch and bound."""
    kind = knapsack_solver.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    solver = knapsack_solver.KnapsackSolver(kind, "independent")
    items_with_value = [(size, value) for size, value in zip(sizes, values, strict=True) if value > 0]
    solver.init(
        [value for _, value in items_with_value], [[size for size, _ in items_with_value]], [capacity]
    )
    return int(solver.solve())


def _integer_programme(sizes: list[int], values: list[int], capacity: int) -> int:
    """The optimum by SCIP, which needs no second for ten thousand items; OR-tools' own search does not end
    there.
    """
    solver = pywraplp.Solver.CreateSolver("SCIP")
    chosen = [solver.BoolVar(str(number)) for number in range(len(sizes))]
    solver.Add(sum(size * variable for size, variable in zip(sizes, chosen, strict=True)) <= capacity)
    solver.Maximize(sum(value * variable for value, variable in zip(values, chosen, strict=True)))
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    best: float = solver.Objective().Value()
    return round(best)


@given(ITEMS, st.integers(1, 150))
def test_no_subset_is_better_and_the_choice_has_the_value(
    items: list[tuple[int, int]], capacity: int
) -> None:
    sizes, values = [size for size, _ in items], [value for _, value in items]
    best, chosen = best_subset(sizes, values, capacity)

    assert sum(values[index] for index in chosen) == best
    assert sum(sizes[index] for index in chosen) <= capacity
    for count in range(len(items) + 1):
        for subset in combinations(range(len(items)), count):
            if sum(sizes[index] for index in subset) <= capacity:
                assert sum(values[index] for index in subset) <= best


def _by_table(sizes: list[int], values: list[int], capacity: int) -> int:
    """The optimum by a table over all capacities."""
    best = [0] * (capacity + 1)
    for size, value in zip(sizes, values, strict=True):
        for room in range(capacity, size - 1, -1):
            best[room] = max(best[room], best[room - size] + value)
    return best[capacity]


def test_thousands_of_small_instances_agree_with_a_table() -> None:
    chance = seeded(5)
    for number in range(3_000):
        sizes = [chance.randint(1, 20) for _ in range(chance.randrange(13))]
        values = [
            (chance.randint(-1, 20), size + 3, size, 3 * chance.randint(1, 4) * size)[number % 4]
            for size in sizes
        ]
        capacity = chance.randint(0, max(1, sum(sizes)))
        best, chosen = best_subset(sizes, values, capacity)

        assert best == _by_table(sizes, values, capacity)
        assert sum(values[index] for index in chosen) == best
        assert sum(sizes[index] for index in chosen) <= capacity
        assert all(values[index] > 0 for index in chosen)
        assert chosen == sorted(chosen)


def test_sizes_and_values_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        best_subset([1], [1, 2], 5)


@given(ITEMS, st.lists(st.integers(1, 150), min_size=1, max_size=4))
def test_one_ranking_is_good_for_every_budget(items: list[tuple[int, int]], budgets: list[int]) -> None:
    sizes, values = [size for size, _ in items], [value for _, value in items]
    for max_bytes in budgets:
        best, _ = best_subset(sizes, values, max_bytes)

        assert best == oracle_curve(sizes, values, max_bytes)[-1] if items else best == 0


def _instances(items: int, seed: int) -> list[tuple[str, list[int], list[int]]]:
    random = seeded(seed)
    sizes = [100 + int(random.random() * 900) for _ in range(items)]
    return [
        ("unrelated", sizes, [1 + int(random.random() * 1_000) for _ in sizes]),
        ("few values", sizes, [(1, 2, 4, 16, 40, 48)[int(random.random() * 6)] for _ in sizes]),
        ("weakly related", sizes, [size + int(random.random() * 20) for size in sizes]),
        ("equal ratios", sizes, list(sizes)),
    ]


@pytest.mark.parametrize(
    ("kind", "sizes", "values"), _instances(300, 1), ids=lambda part: part if isinstance(part, str) else ""
)
@pytest.mark.parametrize("capacity", [1_024, 10_240, 102_400])
def test_an_independent_solver_agrees(kind: str, sizes: list[int], values: list[int], capacity: int) -> None:
    assert best_subset(sizes, values, capacity)[0] == _solver(sizes, values, capacity)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_an_independent_solver_agrees_at_length(seed: int) -> None:
    for _, sizes, values in _instances(1_000, seed)[:3]:
        for capacity in (1_024, 10_240, 102_400):
            assert best_subset(sizes, values, capacity)[0] == _integer_programme(sizes, values, capacity)


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in REAL if "long" in file.name], ids=lambda file: file.name)
def test_ten_thousand_real_steps_at_a_megabyte_agree_with_an_integer_programme(file: object) -> None:
    episode = read_episode(locate_episodes(str(file))[0])
    sizes, values = PricedEpisode(episode, ByteModel.SPEC).sizes_and_worth(Track.UNPRIVILEGED)

    assert best_subset(sizes, values, 1 << 20)[0] == _integer_programme(sizes, values, 1 << 20)


@settings(max_examples=100)
@given(ITEMS.filter(bool), st.integers(40, 150))
def test_the_curve_is_the_optimum_of_every_prefix(items: list[tuple[int, int]], capacity: int) -> None:
    sizes, values = [size for size, _ in items], [value for _, value in items]
    most = best_subset(sizes, values, capacity)[0]
    truth = [best_subset(sizes[: n + 1], values[: n + 1], capacity)[0] for n in range(len(items))]

    assert oracle._by_value(sizes, values, capacity, most) == truth
    assert oracle._by_bytes(sizes, values, capacity, most) == truth


def test_curve_and_optimum_meet_at_the_end() -> None:
    episode = small_episode(200)
    sizes, values = PricedEpisode(episode, ByteModel.SPEC).sizes_and_worth(Track.UNPRIVILEGED)
    for max_bytes in (500, 5_000, 50_000):
        curve = oracle_curve(sizes, values, max_bytes)

        assert curve[-1] == oracle_worth(sizes, values, max_bytes)
        assert curve == sorted(curve)


def test_utilities_that_no_float_can_hold_are_summed_exactly() -> None:
    """A tenth is no binary fraction; ten of them are one all the same."""
    episode = episode_of(*("x" for _ in range(10)), utility=dict.fromkeys(range(10), 0.1))

    assert Fraction(sum(episode.labels.worth.values()), episode.labels.unit) == 1
    huge = episode_of("x", "y", utility={0: 1e300, 1: 1e-300})
    assert oracle_curve([37, 37], list(huge.labels.worth.values()), 40)[-1] == huge.labels.worth[0]
