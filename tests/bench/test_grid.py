"""The grid gives the same bytes with one worker, many, or a cluster, and skips finished units."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast import InvalidValue, ManualClock
from standfast.bench.episodes import write_jsonl
from standfast.bench.grid import (
    Engine,
    Grid,
    GridUnit,
    ResultsFolder,
    code_version,
    dask_cluster,
    estimate_grid,
    in_process,
    plan_grid,
    process_pool,
    read_results,
    run_grid,
    run_unit,
    summarise_grid,
)
from standfast.bench.sources.synthetic import Regime
from standfast.cli import main
from standfast.errors import BadFile, UnknownPolicy
from standfast.policies.write_policy import policy_names
from tests.bench.episodes import REAL, small_episode
from tests.raising import raises_code
from tests.servers.process import LOOPBACK, Program, ReservedPort, ServerProcess

POLICIES = [
    "AlwaysWrite",
    "RandomPolicy",
    "BanditUCB",
    "MergeFirst",
    "OracleOptimal",
    "AlwaysWrite@privileged",
]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of episodes."""
    made = []
    for regime in (Regime.DEFAULT, Regime.REDUNDANCY):
        made.append(tmp_path / f"{regime}.jsonl")
        write_jsonl(made[-1], [small_episode(40, regime=regime, number=number) for number in range(3)])
    return made


def _run(files: Sequence[Path], out: Path, engine: Engine, **options: object) -> bytes:
    grid, units = plan_grid(files, policies=POLICIES, budgets=(600, 6_000), **options)  # type: ignore[arg-type]
    folder = ResultsFolder(out)
    folder.open(grid)
    run_grid(grid, units, folder, engine)
    return b"".join((out / name).read_bytes() for name in ("grid.json", "results.jsonl", "curves.jsonl"))


def test_one_worker_and_many_give_the_same_bytes(files: list[Path], tmp_path: Path) -> None:
    one = _run(files, tmp_path / "one", in_process)
    two = _run(files, tmp_path / "two", process_pool(2))

    assert one == two
    assert len(read_results(tmp_path / "one")) == 2 * 3 * 2 * len(POLICIES)


def test_every_row_names_its_grid_and_episode(files: list[Path], tmp_path: Path) -> None:
    _run(files, tmp_path / "out", in_process, seeds=(7,))
    row = read_results(tmp_path / "out")[0]

    assert row["seed"] == 7
    assert row["byte_model"] == "spec-v0"
    assert (row["policy"], row["track"], row["file"]) == ("AlwaysWrite", "unprivileged", "default.jsonl")
    assert len(row["file_sha256"]) == 64
    assert row["code"] == code_version()


def test_several_seeds_run_what_uses_random_numbers_again(files: list[Path], tmp_path: Path) -> None:
    _run(files, tmp_path / "out", in_process, seeds=(3, 4))
    rows = read_results(tmp_path / "out")
    seeds = {
        policy: {row["seed"] for row in rows if row["policy"] == policy}
        for policy in ("RandomPolicy", "AlwaysWrite")
    }
    recalls = [
        [row["recall"] for row in rows if row["policy"] == "RandomPolicy" and row["seed"] == s]
        for s in (3, 4)
    ]

    assert seeds == {"RandomPolicy": {3, 4}, "AlwaysWrite": {3}}
    assert recalls[0] != recalls[1]
    with pytest.raises(InvalidValue, match="seed is given twice"):
        plan_grid(files, policies=POLICIES, seeds=(1, 1))


def test_an_interrupted_run_continues_where_it_stopped(files: list[Path], tmp_path: Path) -> None:
    whole = _run(files, tmp_path / "whole", in_process)
    done: list[int] = []

    def stops_after_two(grid: Grid, units: Sequence[GridUnit]) -> Iterator[tuple[GridUnit, bytes]]:
        for unit in units:
            if len(done) == 2:
                raise KeyboardInterrupt
            done.append(unit.number)
            yield unit, run_unit(grid, unit)

    with pytest.raises(KeyboardInterrupt):
        _run(files, tmp_path / "cut", stops_after_two)
    assert not (tmp_path / "cut" / "results.jsonl").exists()

    again: list[int] = []

    def counted(grid: Grid, units: Sequence[GridUnit]) -> Iterator[tuple[GridUnit, bytes]]:
        again.extend(unit.number for unit in units)
        yield from in_process(grid, units)

    assert _run(files, tmp_path / "cut", counted) == whole
    assert not set(done) & set(again)


def test_a_killed_process_leaves_its_finished_units(files: list[Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "standfast", "bench", "run"]
    program = "from standfast.cli import main; import sys; main(sys.argv[1:])"
    arguments = [
        "bench",
        "run",
        *map(str, files),
        "--out",
        str(tmp_path / "out"),
        "--workers",
        "1",
        "--budget",
        "600",
    ]
    with subprocess.Popen(
        [command[0], "-c", program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        units = tmp_path / "out" / "units"
        while not (units.is_dir() and any(units.glob("*/*.jsonl"))) and child.poll() is None:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
    done = len(list(units.glob("*/*.jsonl")))
    finished = subprocess.run(
        [command[0], "-c", program, *arguments, "--json"], capture_output=True, check=True
    )

    assert done >= 1
    assert json.loads(finished.stdout)["units"] == 6
    assert len(read_results(tmp_path / "out")) == 6 * len(policy_names())


def test_an_estimate_extrapolates_by_size_and_keeps_what_it_ran(files: list[Path], tmp_path: Path) -> None:
    grid, units = plan_grid(files, policies=POLICIES, budgets=(600, 6_000))
    folder = ResultsFolder(tmp_path / "out")
    folder.open(grid)
    clock = _TickingClock()
    found = estimate_grid(grid, units, folder, clock)
    done = [unit for unit in units if folder.done(unit)]
    left = sum(unit.location.size for unit in units if unit not in done)

    assert (found.units, found.waiting, found.sampled, len(done)) == (6, 6, 4, 4)
    # Seven seconds for each of three units of about the same size.
    assert found.seconds == pytest.approx(
        7.0 * len(done) * left / sum(unit.location.size for unit in done), rel=0.1
    )
    assert found.wall_seconds(2) == found.seconds / 2
    assert found.result_bytes > 0
    assert estimate_grid(grid, units, folder, clock).sampled == 2
    assert estimate_grid(grid, units, folder, clock).seconds == 0.0
    assert run_grid(grid, units, folder, in_process) == len(read_results(tmp_path / "out"))


class _TickingClock(ManualClock):
    """A clock on which each unit takes seven seconds."""

    def monotonic(self) -> float:
        self.advance(7.0)
        return super().monotonic()


def test_a_summary_fits_a_screen_and_reads_row_by_row(files: list[Path], tmp_path: Path) -> None:
    _run(files, tmp_path / "out", in_process)
    summary = summarise_grid(tmp_path / "out")
    rows = read_results(tmp_path / "out")
    own = [row["recall"] for row in rows if row["policy"] == "MergeFirst" and row["budget_bytes"] == 600]
    arguments = [
        "bench",
        "run",
        *map(str, files),
        "--out",
        str(tmp_path / "cli"),
        "--workers",
        "1",
        "--no-curves",
    ]
    run = CliRunner().invoke(main, arguments)

    assert (summary.rows, summary.metric) == (len(rows), "recall")
    assert summary.means["MergeFirst"][600] == pytest.approx(sum(own) / len(own))
    assert run.exit_code == 0, run.output
    assert len(run.stdout.splitlines()) <= 24
    assert max(map(len, run.stdout.splitlines())) <= 80 + len(str(tmp_path)) * 2
    assert "DriftValue" in run.stdout
    with pytest.raises(BadFile, match="bench run"):
        summarise_grid(tmp_path / "nothing")


def test_the_command_estimates_and_stops(files: list[Path], tmp_path: Path) -> None:
    arguments = [
        "bench",
        "run",
        *map(str, files),
        "--out",
        str(tmp_path / "out"),
        "--estimate",
        "--no-curves",
    ]
    run = CliRunner().invoke(main, [*arguments, "--policy", "RecencyBias", "--workers", "3"])
    as_json = CliRunner().invoke(main, [*arguments, "--policy", "RecencyBias", "--json"])

    assert run.stdout.startswith("6 of 6 units to run: about")
    assert "with 3 processes" in run.stdout
    assert not (tmp_path / "out" / "results.jsonl").exists()
    assert json.loads(as_json.stdout)["waiting"] == 2


def test_results_of_another_grid_are_not_mixed_in(files: list[Path], tmp_path: Path) -> None:
    _run(files, tmp_path / "out", in_process)
    with raises_code("other_grid", match="differs in seeds"):
        _run(files, tmp_path / "out", in_process, seeds=(1,))

    grid, _ = plan_grid(files, policies=POLICIES, seeds=(1,))
    ResultsFolder(tmp_path / "out").open(grid, fresh=True)
    assert not list((tmp_path / "out" / "units").iterdir())


def test_a_long_episode_is_split_by_budget_and_a_short_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "a.jsonl", [small_episode(40)])
    together = plan_grid([tmp_path / "a.jsonl"], policies=["NeverWrite"])
    monkeypatch.setattr("standfast.bench.grid.SPLIT_BYTES", 100)
    apart = plan_grid([tmp_path / "a.jsonl"], policies=["NeverWrite"])
    rows = [b"".join(run_unit(grid, unit) for unit in units) for grid, units in (together, apart)]

    assert [len(units) for _, units in (together, apart)] == [1, 4]
    assert rows[0] == rows[1]


def test_bad_grids_are_refused_before_anything_runs(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UnknownPolicy):
        plan_grid(files, policies=["Nobody"])
    with pytest.raises(InvalidValue, match="max_bytes"):
        plan_grid(files, policies=["AlwaysWrite"], budgets=(1_024, -1))
    with pytest.raises(InvalidValue, match="given twice"):
        plan_grid(files, policies=["AlwaysWrite", "always-write"])
    with pytest.raises(InvalidValue, match="no condition"):
        plan_grid(files, policies=["AlwaysWrite"], condition="lunar")
    with pytest.raises(BadFile, match="No such file"):
        plan_grid([tmp_path / "nowhere.jsonl"], policies=["AlwaysWrite"])
    with pytest.raises(BadFile, match="standfast bench run"):
        read_results(tmp_path)


def test_a_failing_policy_names_the_step_and_leaves_finished_units(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = (
        "class Late:\n def __init__(self): self.n = 0\n def select(self, step, store):\n  if step.t == 39 and"
        " step.observation['api'] != 'x': raise RuntimeError('late')\n  return ()\n"
    )
    (tmp_path / "late_policy.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    grid, units = plan_grid(files, policies=["late_policy:Late"], budgets=(600,))
    folder = ResultsFolder(tmp_path / "out")
    folder.open(grid)

    with raises_code(
        "policy_failed", match=r"Late failed at timestep 39 of default\.jsonl line 1: RuntimeError"
    ):
        run_grid(grid, units, folder, in_process)


def test_workers_hold_one_episode_at_a_time(files: list[Path]) -> None:
    """What goes to a worker is a place in a file, and what comes back are rows."""
    _, units = plan_grid(files, policies=["NeverWrite"])

    assert all(unit.line is None for unit in units)
    assert max(len(repr(unit)) for unit in units) < 1_000


@pytest.mark.filterwarnings("ignore")  # Dask's own are not ours to mend.
def test_a_dask_cluster_gives_the_same_bytes(files: list[Path], tmp_path: Path) -> None:
    """A real scheduler and a real worker, on loopback, that can't see our files' folder as theirs."""
    here = _run(files, tmp_path / "here", in_process)
    port = ReservedPort()
    contact = tmp_path / "scheduler.json"
    address = f"tcp://{LOOPBACK}:{port.number}"
    dask = [sys.executable, "-m", "dask"]
    listen = ["--host", LOOPBACK, "--port", str(port.number), "--dashboard-address", f"{LOOPBACK}:0"]
    scheduler = ServerProcess(
        Program(
            server="Dask scheduler",
            command=[*dask, "scheduler", *listen, "--scheduler-file", str(contact)],
            log=tmp_path / "scheduler.log",
            folder=tmp_path,
            environment={**os.environ, "DASK_TEMPORARY_DIRECTORY": str(tmp_path)},
        ),
        answers=contact.exists,
    )
    worker_listen = ["--host", LOOPBACK, "--dashboard-address", f"{LOOPBACK}:0", "--no-nanny"]
    log = tmp_path / "worker.log"
    worker = ServerProcess(
        Program(
            server="Dask worker",
            command=[
                *dask,
                "worker",
                address,
                *worker_listen,
                "--nthreads",
                "1",
                "--local-directory",
                str(tmp_path),
            ],
            log=log,
            folder=tmp_path,
            environment={**os.environ, "PYTHONPATH": ""},
        ),
        answers=lambda: "Registered to" in log.read_text(errors="replace"),
    )
    scheduler.start()
    try:
        worker.start()
        there = _run(files, tmp_path / "there", dask_cluster(address))
    finally:
        worker.kill()
        scheduler.kill()

    assert there == here


def test_a_missing_scheduler_is_reported(files: list[Path]) -> None:
    engine = dask_cluster(f"tcp://{LOOPBACK}:{ReservedPort().number}", wait_seconds=0.2)
    grid, units = plan_grid(files, policies=["NeverWrite"])
    with pytest.raises(BadFile, match="no Dask scheduler answers"):
        next(engine(grid, units))


@pytest.mark.slow
@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)
def test_every_real_file_runs_with_every_policy(file: Path, tmp_path: Path) -> None:
    grid, units = plan_grid([file], policies=policy_names())
    folder = ResultsFolder(tmp_path)
    folder.open(grid)

    assert run_grid(grid, units, folder, in_process) == len(read_results(tmp_path))
