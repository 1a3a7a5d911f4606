"""A graded policy is deployed with all that it was graded with, and then keeps what it kept in the
benchmark.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast import Band, Memory, Settings
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import write_jsonl
from standfast.bench.grid import ResultsFolder, in_process, plan_grid, read_results, run_grid
from standfast.bench.leaderboard import deployment_settings, graded_budget, select_rows
from standfast.bench.runner import PricedEpisode
from standfast.cli import main
from standfast.errors import BadFile, InvalidSettings, InvalidValue, UnknownPolicy
from standfast.policies import ByteModel, PolicySpec, Track
from standfast.policies.write_policy import BUILT_IN
from standfast.wiring import budgets_of
from tests.bench.episodes import small_episode
from tests.memory.conftest import HANDBOOK
from tests.store.builders import memory_store

STEPS = 40
DEPLOYABLE = [
    name for name in BUILT_IN if PolicySpec.parse(name).track in (Track.UNPRIVILEGED, Track.PRIVILEGED)
]
POLICIES = [*BUILT_IN, "UniformSample(every=3)", "RandomPolicy(p=0.2, seed=11)", "AlwaysWrite@privileged"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished grid of all policies, with another seed and byte model than the defaults."""
    folder = tmp_path_factory.mktemp("deploy")
    write_jsonl(folder / "e.jsonl", [small_episode(STEPS)])
    grid, units = plan_grid(
        [folder / "e.jsonl"],
        policies=POLICIES,
        budgets=(1_500, 3_000),
        seeds=(7,),
        byte_model=ByteModel.INDEXED,
        curves=False,
    )
    ResultsFolder(folder).open(grid)
    run_grid(grid, units, ResultsFolder(folder), in_process)
    return folder


def _deployed(results: Path, policy: str, tmp_path: Path) -> Settings:
    """The settings that ``--deploy`` prints, read back."""
    arguments = [
        "bench",
        "leaderboard",
        str(results),
        "--deploy",
        policy,
        "--budget",
        "1500",
        "--band",
        "ACTIVE",
    ]
    printed = CliRunner().invoke(main, arguments)
    assert printed.exit_code == 0, printed.output
    (tmp_path / "standfast.toml").write_text(printed.output, encoding="utf-8")
    return Settings.load({}, file=tmp_path / "standfast.toml")


@pytest.mark.parametrize("policy", [*DEPLOYABLE, "UniformSample(every=3)", "RandomPolicy(p=0.2, seed=11)"])
def test_the_deployed_policy_keeps_what_the_graded_one_kept(
    results: Path, policy: str, tmp_path: Path
) -> None:
    """The same observations, with hints in their metadata, through ``remember`` and through the benchmark."""
    settings = _deployed(results, policy, tmp_path)
    memory = Memory(memory_store(), budgets=budgets_of(settings))
    steps = small_episode(STEPS).steps
    for start in range(0, STEPS, 8):
        with memory.run(workflow="w", mode="buffered_write") as run:
            for step in steps[start : start + 8]:
                ref = {"kind": "observation", "observation": step.observation, "metadata": step.metadata}
                run.remember(f"Observation {step.t} of the API.", source=HANDBOOK, refs=[ref])
    held = {int(record.text.split()[1]) for record in memory.records(band=Band.ACTIVE)}
    entrant = Entrant.parse(settings.band_policies[Band.ACTIVE])
    store, _ = PricedEpisode(small_episode(STEPS), ByteModel.INDEXED).fill_store(entrant, 1_500)

    assert held == {item.step.t for item in store.items()}
    assert held or policy == "NeverWrite"
    if not Entrant.parse(policy).seeded:
        # Without random numbers, it is the very run that was graded.
        (graded,) = select_rows(
            read_results(results), policy=policy, budget_bytes=1_500, track=str(entrant.track)
        )
        assert (graded["retained"], graded["bytes_used"]) == (len(store.retained()), store.held_bytes)


def test_seed_byte_model_settings_and_budget_are_carried_over(results: Path, tmp_path: Path) -> None:
    settings = _deployed(results, "RandomPolicy", tmp_path)

    assert settings.band_policies == {"ACTIVE": "RandomPolicy(seed=7)"}
    assert settings.band_budgets_bytes == {"ACTIVE": 1_500}
    assert settings.band_byte_models == {"ACTIVE": "indexed-v0"}
    assert (
        graded_budget(results, "random-policy(seed=11, p=0.2)", band=Band.LEDGER).policy
        == "RandomPolicy(p=0.2, seed=11)"
    )
    assert "# Graded on 1 episodes at 3000 B" in deployment_settings(results, "DriftValue", band="WITNESS")


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("BanditUCB", "utilities after each step"),
        ("EpsilonGreedy", "utilities after each step"),
        ("OracleOptimal", "know the future"),
        ("UniformSample(every=4)", "was not graded"),
        ("AlwaysWrite@privileged", "deploy AlwaysWrite"),
        ("Nobody", "none of that name"),
    ],
)
def test_what_cannot_run_in_production_is_refused(results: Path, policy: str, problem: str) -> None:
    with pytest.raises(UnknownPolicy, match=problem):
        deployment_settings(results, policy, band="LEDGER")


def test_a_band_without_budgets_and_a_budget_that_was_not_graded_are_refused(
    results: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue, match="PHOENIX can't have a budget"):
        deployment_settings(results, "DriftValue", band="PHOENIX")
    with pytest.raises(BadFile, match="no run had 99 bytes"):
        deployment_settings(results, "DriftValue", band="LEDGER", max_bytes=99)
    with pytest.raises(BadFile, match="bench run"):
        deployment_settings(tmp_path, "DriftValue", band="LEDGER")
    (tmp_path / "grid.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BadFile, match="not the plan of a grid"):
        deployment_settings(tmp_path, "DriftValue", band="LEDGER")
    with pytest.raises(InvalidSettings, match="no budget"):
        Settings(band_byte_models={Band.ACTIVE: "spec-v0"})
