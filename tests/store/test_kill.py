"""kill -9: a real process dies at every moment of its work, and the store has kept its promises.

A failing point names its job; ``python -m tests.store.test_kill SCENARIO SEED DIE_AT`` runs it again.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from standfast.clock import ManualClock
from standfast.errors import CommitAborted
from standfast.records.vocabulary import BufferState, Receipt
from standfast.store.commit import Commit
from standfast.store.protocol import Buffer
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from tests.figures import Figures
from tests.store.builders import NAMESPACE, sqlite_store
from tests.store.doomed import GENESIS, LEFT, Job, Told, planned
from tests.store.recording_vfs import DATABASE

ROOT = Path(__file__).parents[2]
SCENARIOS = ("direct", "staged", "group", "recovery", "fresh")
OPERATIONS = (
    "opening",
    "commit",
    "group commit",
    "staging",
    "finishing",
    "discarding",
    "rejecting",
    "recovery",
    "closing",
    "from outside",
)
FAST_POINTS, FAST_TIMED = 61, 10
LIVES_PER_PHASE = 5
SLOW_SEEDS, SLOW_TIMED = range(1, 5), 150

COMMITTING = {
    "before BEGIN",
    "after load",
    "after append",
    "before a write of the log",
    "before the sync of the log",
    "after the sync of the log",
    "after COMMIT, before the answer",
}
CLOSING = {"before a write of the database", "before the sync of the database"}
PHASES = {
    "direct": {f"commit: {moment}" for moment in COMMITTING} | {f"closing: {moment}" for moment in CLOSING},
    "staged": {
        f"{doing}: {moment}" for doing in ("staging", "finishing", "rejecting") for moment in COMMITTING
    },
    "group": {f"group commit: {moment}" for moment in COMMITTING | CLOSING},
    "recovery": {f"recovery: {moment}" for moment in COMMITTING},
    "fresh": {"opening: before the sync of the log", "closing: before a write of the database"},
}
"""What the points of a scenario must cover at the least."""


@dataclass(slots=True)
class Life:
    """What a child told before it was gone."""

    job: Job
    applied: dict[str, Receipt] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)
    staged: set[str] = field(default_factory=set)
    discarded: set[str] = field(default_factory=set)
    died: str = ""
    moments: list[str] = field(default_factory=list)
    was_killed: bool = False

    def __str__(self) -> str:
        job = self.job
        return (
            f"{self.died or 'any moment'} (replay: python -m tests.store.test_kill {job.scenario} {job.seed}"
            f" {job.die_at})"
        )


class Executioner:
    """The process that forks the children, and the folder where they work."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        self._process = process
        self.path = folder / DATABASE
        self._templates = folder / "templates"
        self._templates.mkdir()

    def live(
        self,
        scenario: str,
        seed: int,
        *,
        die_at: int = 0,
        die_after_seconds: float = 0.0,
        die_in: str = "",
    ) -> Life:
        """Let a child work on a copy of the scenario's template, until it dies or is done."""
        for old in self.path.parent.glob(DATABASE + "*"):
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink()
        shutil.copytree(self._template(scenario, seed), self.path.parent, dirs_exist_ok=True)
        job = Job(str(self.path), scenario, seed, die_at, die_after_seconds, die_in)
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()
        return self._listen(Life(job))

    def _listen(self, life: Life) -> Life:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = msgspec.json.decode(line, type=Told)
            match told.what:
                case "applied":
                    assert told.receipt is not None
                    life.applied[told.name] = told.receipt
                case "aborted":
                    life.aborted.add(told.name)
                case "staged":
                    life.staged.add(told.name)
                case "discarded":
                    life.discarded.add(told.name)
                case "dies":
                    life.died = told.name
                case "lived":
                    life.moments = told.moments
                case "ended":
                    life.was_killed = told.name == "killed"
                    return life
        raise AssertionError("the executioner itself died")

    def _template(self, scenario: str, seed: int) -> Path:
        """What a child finds: nothing, a first commit, or what another owner left an hour ago."""
        template = self._templates / f"{scenario}-{seed}"
        if template.exists():
            return template
        template.mkdir()
        if scenario != "fresh":
            store = sqlite_store(template / DATABASE)
            store.commit(GENESIS)
            for name in LEFT if scenario == "recovery" else ():
                store.stage(planned(seed)[name])
            if scenario == "recovery":
                store.stage(planned(seed)["abandoned"], settled=False)
            store.close()
        return template


@contextmanager
def _executioner() -> Iterator[Executioner]:
    memory = Path("/dev/shm")  # A killed process leaves the same files here as on a disk, and it is faster.
    folder = Path(tempfile.mkdtemp(prefix="standfast-", dir=memory if memory.is_dir() else None))
    command = [sys.executable, "-m", "tests.store.doomed"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Executioner(process, folder)
        assert process.stdin is not None
        process.stdin.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def executioner() -> Iterator[Executioner]:
    with _executioner() as made:
        yield made


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_process_that_is_killed_loses_nothing_and_leaves_nothing_half(
    executioner: Executioner, scenario: str, figures: Figures
) -> None:
    """Moments of every phase of each scenario, from the first byte of a new store to the last of its
    closing.
    """
    phases = _kill_at_moments(executioner, scenario, seed=0, points=FAST_POINTS)
    figures("kill -9", _figures(phases))

    assert phases.keys() >= PHASES[scenario]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_process_that_is_killed_at_every_single_moment_loses_nothing(
    executioner: Executioner, scenario: str, seed: int, figures: Figures
) -> None:
    figures("kill -9", _figures(_kill_at_moments(executioner, scenario, seed=seed)))


@pytest.mark.parametrize("scenario", ["staged", "group"])
def test_a_process_that_is_killed_from_outside_loses_nothing(
    executioner: Executioner, scenario: str, figures: Figures
) -> None:
    """The signal comes from another process, at whatever instruction it meets."""
    figures("kill -9", _figures(_kill_by_time(executioner, scenario, FAST_TIMED)))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_process_that_is_killed_from_outside_at_many_times_loses_nothing(
    executioner: Executioner, scenario: str, figures: Figures
) -> None:
    figures("kill -9", _figures(_kill_by_time(executioner, scenario, SLOW_TIMED)))


def _kill_at_moments(
    executioner: Executioner, scenario: str, *, seed: int, points: int | None = None
) -> Counter[str]:
    whole = executioner.live(scenario, seed)
    assert not whole.was_killed
    examine(executioner.path, whole)
    phases: Counter[str] = Counter()
    for die_at in _spread(whole.moments, points or len(whole.moments)):
        life = executioner.live(scenario, seed, die_at=die_at)
        examine(executioner.path, life)
        # Threads do not always go through the same number of moments; who got away is no point.
        phases.update([life.died] if life.was_killed else [])
    # The same number may be another moment in another life; a phase that was missed so is asked for by name.
    for phase in sorted(PHASES[scenario] - phases.keys()):
        for _ in range(LIVES_PER_PHASE):
            life = executioner.live(scenario, seed, die_in=phase)
            examine(executioner.path, life)
            if life.was_killed:
                phases[life.died] += 1
                break
    return phases


def _spread(moments: list[str], points: int) -> list[int]:
    """So many moments, counted from 1: of each phase the first and the last, then some at equal distances."""
    numbers = range(1, len(moments) + 1)
    first_and_last = {
        phase: number for number, phase in zip(reversed(numbers), reversed(moments), strict=True)
    }
    chosen = {*first_and_last.values(), *dict(zip(moments, numbers, strict=True)).values()}
    others = [number for number in numbers if number not in chosen]
    missing = max(0, min(points - len(chosen), len(others)))
    return sorted(chosen | {others[place * len(others) // missing] for place in range(missing)})


def _kill_by_time(executioner: Executioner, scenario: str, points: int) -> Counter[str]:
    began = time.monotonic()
    executioner.live(scenario, 0)
    seconds = time.monotonic() - began
    killed = 0
    for number in range(points):
        life = executioner.live(scenario, 0, die_after_seconds=seconds * (number + 0.5) / points)
        examine(executioner.path, life)
        killed += life.was_killed
    return Counter({"from outside: any moment": killed})


def _figures(phases: Counter[str]) -> dict[str, int]:
    by_operation = dict.fromkeys(OPERATIONS, 0)
    for phase, times in phases.items():
        by_operation[phase.partition(":")[0]] += times
    return {"points": phases.total()} | by_operation | {"lost": 0, "partial": 0}


def test_a_store_that_lost_its_log_would_be_caught(executioner: Executioner) -> None:
    life = executioner.live("direct", 0, die_at=60)
    assert life.applied
    for suffix in ("-wal", "-files/head"):
        Path(f"{executioner.path}{suffix}").unlink()

    with pytest.raises(AssertionError, match="lost: direct0 at commit"):
        examine(executioner.path, life)


def test_a_commit_that_lost_a_record_would_be_caught(executioner: Executioner) -> None:
    life = executioner.live("direct", 0, die_at=60)
    store = sqlite_store(executioner.path)
    assert isinstance(store._storage, SQLiteStorage)
    store._storage._writer.execute("DROP TRIGGER versions_never_shrink")
    store._storage._writer.execute("DELETE FROM versions WHERE key = 'direct0-0'")
    store.close()

    with pytest.raises(AssertionError, match="payload fingerprint"):
        examine(executioner.path, life)


# What must be true of a store whose process was killed.


def examine(path: Path, life: Life) -> None:
    """Open the store as the next process would, an hour later, and look at everything."""
    clock = ManualClock(ManualClock().now() + timedelta(hours=2))
    store = sqlite_store(path, clock)
    plan = {"genesis": GENESIS} | planned(life.job.seed)
    try:
        _check_what_was_told(store, life, plan)
        _check_that_nothing_is_half_there(store, life, plan)
        _check_recovery(store, life, plan)
        _check_that_resubmitting_has_one_effect(store, life, plan)
        assert list(store.verify()) == [], life
    finally:
        store.close()


def _check_what_was_told(store: Store, life: Life, plan: dict[str, Commit]) -> None:
    problems = list(store.verify())
    assert problems == [], f"{problems} at {life}"
    for name, receipt in life.applied.items():
        found = store.status(plan[name].commit_id)
        assert isinstance(found, Receipt), f"lost: {name} at {life}"
        assert found == msgspec.structs.replace(receipt, replayed=True), f"another receipt: {name} at {life}"
    for name in life.aborted:
        found = store.status(plan[name].commit_id)
        assert isinstance(found, Buffer), f"lost: {name} at {life}"
        assert found.state is BufferState.ABORTED, f"aborted no more: {name} at {life}"
    for name in life.staged:
        assert store.status(plan[name].commit_id) is not None, f"lost: staged {name} at {life}"
    for name in life.discarded:
        assert store.status(plan[name].commit_id) is None, f"discarded, and back: {name} at {life}"


def _check_that_nothing_is_half_there(store: Store, life: Life, plan: dict[str, Commit]) -> None:
    """Each commit's own records are there all together, in one snapshot, or not at all."""
    for name, asked in plan.items():
        own = [one for one in asked.writes if one.key.startswith(name) or name == "genesis"]
        versions = [version for one in own for version in store.history(NAMESPACE, one.key)]
        known = store.status(asked.commit_id)
        snapshots = {version.memory_snapshot_id for version in versions if name != "genesis"}
        if isinstance(known, Receipt):
            assert len(versions) >= len(own), f"partial: {name} at {life}"
            assert snapshots in (set(), {known.memory_snapshot_id}), f"partial: {name} at {life}"
        else:
            assert versions == [], f"partial: {name} at {life}"


def _check_recovery(store: Store, life: Life, plan: dict[str, Commit]) -> None:
    """Recovery leaves nothing open or pending, but what waits for somebody."""
    while store.recover():
        pass
    for name, asked in plan.items():
        known = store.status(asked.commit_id)
        undecided = isinstance(known, Buffer) and known.state is not BufferState.ABORTED
        assert not undecided or name == "waits", f"undecided: {name} at {life}"
    for name in life.staged - {"waits", "rejected"}:
        assert isinstance(store.status(plan[name].commit_id), Receipt), f"lost: staged {name} at {life}"


def _check_that_resubmitting_has_one_effect(store: Store, life: Life, plan: dict[str, Commit]) -> None:
    effects = 0
    for name, asked in plan.items():
        held = store.status(asked.commit_id)
        fence = held.fence if isinstance(held, Buffer) and name == "waits" else None
        answers: list[Receipt] = []
        for _ in range(2):
            with suppress(CommitAborted):
                answers.append(store.commit(asked, fence=fence))
        # The rejection may have been stored without being told; what was told never changes.
        if name != "rejected" or name in life.aborted:
            assert bool(answers) == (name not in life.aborted | {"rival"}), f"{name} at {life}"
        if answers:
            assert answers[1] == msgspec.structs.replace(answers[0], replayed=True), f"{name} at {life}"
            assert len(store.versions_of(answers[0].memory_snapshot_id)) == len(asked.writes)
            effects += 1
    assert store.head() == effects, f"{store.head()} snapshots for {effects} commits at {life}"


if __name__ == "__main__":
    with _executioner() as made:
        replayed = made.live(sys.argv[1], int(sys.argv[2]), die_at=int(sys.argv[3]))
        sys.stdout.write(f"{replayed!r}\n")
        examine(made.path, replayed)
