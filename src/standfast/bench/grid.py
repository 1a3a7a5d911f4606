"""The grid: every episode under every budget with every policy.

The work is split into units that can run in any order, on any machine. A unit is one episode with all
budgets, or with one of them if the episode is long. Its rows depend only on the grid's description and the
episode, so one worker or many give the same bytes: in this process, in several, or on a Dask cluster. Each
finished unit is a file; an interrupted run skips the units that are finished.
"""

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import msgspec

from standfast.bench.conditions import condition_named
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import (
    Episode,
    EpisodeLocation,
    atomic_file,
    file_hash,
    locate_episodes,
    read_episode,
)
from standfast.bench.sandbox import PolicyCode, is_readable
from standfast.clock import Clock
from standfast.errors import BadFile, InvalidValue, MissingExtra
from standfast.policies import ByteBudget, ByteModel, Track
from standfast.policies.lockdown import Isolation
from standfast.records.conversion import decoded

PRIMARY_BUDGETS: Final = (1_024, 10_240, 102_400, 1_048_576)
SPLIT_BYTES: Final = 1 << 20
PLAN: Final = "grid.json"
UNITS: Final = "units"
UNITS_PER_FOLDER: Final = 1_000
SAMPLED_UNITS: Final = 4
RESULTS: Final = "results.jsonl"
ROW_KEY: Final = ("file", "line", "budget_bytes", "policy", "track", "seed")
"""What makes a row of results unique."""
CURVES: Final = "curves.jsonl"


class EpisodeFile(msgspec.Struct, frozen=True, kw_only=True):
    """An episode file as results name it: without its folder, with its hash."""

    name: str
    sha256: str


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the results depend on. Equal grids have equal results, to the byte."""

    files: tuple[EpisodeFile, ...]
    budgets: tuple[int, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    byte_model: ByteModel = ByteModel.SPEC
    condition: str = "plain"
    curves: bool = True
    code: str = ""

    def __post_init__(self) -> None:
        for max_bytes in self.budgets:
            ByteBudget(max_bytes)
        if not (self.files and self.budgets and self.policies and self.seeds):
            problem = "it needs at least one file, one budget, one policy and one seed"
            raise InvalidValue(what="Grid", problem=problem)
        for name, values in (
            ("budget", self.budgets),
            ("policy", self.policies),
            ("file", self.files),
            ("seed", self.seeds),
        ):
            if len(set(values)) != len(values):
                raise InvalidValue(what="Grid", problem=f"a {name} is given twice")
        condition_named(self.condition)


class GridUnit(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work. ``line`` carries the episode to workers that can't read its file."""

    number: int
    location: EpisodeLocation
    file: int
    episode: int
    budgets: tuple[int, ...]
    line: bytes | None = None
    code: PolicyCode | None = None
    """Where policies come from that are neither shipped nor installed."""
    isolation: Isolation | None = None


def plan_grid(
    files: Sequence[str | os.PathLike[str]],
    *,
    budgets: Sequence[int] = PRIMARY_BUDGETS,
    policies: Sequence[str],
    seeds: Sequence[int] = (0,),
    byte_model: ByteModel = ByteModel.SPEC,
    condition: str = "plain",
    curves: bool = True,
    code: PolicyCode | None = None,
    isolation: Isolation | None = None,
) -> tuple[Grid, list[GridUnit]]:
    """Return a grid over these files, and its units in order.

    Args:
        files: The episode files.
        budgets: Bytes.
        policies: Names, with settings and tracks.
        seeds: For policies that use random numbers.
        byte_model: How a WRITE is priced.
        condition: The document's own, or one of its extensions.
        curves: Whether regret is computed after each step.
        code: Where policies come from that are neither shipped nor installed.
        isolation: What policies that are not shipped are isolated by; by default the best that there is.

    Raises:
        UnknownPolicy: A policy does not exist or has other settings.
        InvalidValue: A budget or the condition is invalid, or something is given twice.
        BadFile: A file can't be read, or has no episodes.
    """
    entrants = [Entrant.parse(policy, code, isolation) for policy in policies]
    if any(not one.spec.shipped for one in entrants):
        _check_out_of_reach(files)
    known = [EpisodeFile(name=Path(file).name, sha256=file_hash(file)) for file in files]
    grid = Grid(
        files=tuple(known),
        budgets=tuple(sorted(budgets)),
        policies=tuple(map(str, entrants)),
        seeds=tuple(seeds),
        byte_model=byte_model,
        condition=condition,
        curves=curves and condition_named(condition).has_curves,
        code=code_version() + _foreign_code(entrants),
    )
    units: list[GridUnit] = []
    for number, file in enumerate(files):
        for episode, location in enumerate(locate_episodes(file)):
            short = location.size <= SPLIT_BYTES
            for some in (grid.budgets,) if short else [(each,) for each in grid.budgets]:
                units.append(
                    GridUnit(
                        number=len(units),
                        location=location,
                        file=number,
                        episode=episode,
                        budgets=some,
                        code=code,
                        isolation=isolation,
                    )
                )
    return grid, units


def _check_out_of_reach(files: Sequence[str | os.PathLike[str]]) -> None:
    """Refuse episodes that a policy could read, because they lie among the code that it needs."""
    for file in files:
        if is_readable(file):
            problem = "policies that are not shipped could read it there; move it out of Python's folders"
            raise BadFile(file=str(file), problem=problem)


def run_unit(grid: Grid, unit: GridUnit) -> bytes:
    """Return the rows and curves of a unit, one JSON object a line."""
    if unit.line is None:
        episode = read_episode(unit.location)
    else:
        episode = Episode.from_json(msgspec.json.decode(unit.line))
    file = grid.files[unit.file]
    labels = episode.labels.raw
    name = f"{file.name} line {unit.location.line}"
    head = {
        "condition": grid.condition,
        "file": file.name,
        "file_sha256": file.sha256,
        "line": unit.location.line,
        "episode": unit.episode,
        "episode_id": labels.get("episode_id"),
        "source": labels.get("source", labels.get("mode", "")),
        "mode": labels.get("mode", ""),
        "history": labels.get("history", ""),
        "steps": len(episode.steps),
        "byte_model": str(grid.byte_model),
        "code": grid.code,
    }
    # All rows of a unit start alike, so that part is encoded once.
    encoder = msgspec.json.Encoder()
    start = encoder.encode(head)[:-1] + b","
    lines: list[bytes] = []
    for seed, entrants in _by_seed(grid, unit):
        condition = condition_named(grid.condition)(
            episode, name=name, seed=seed, model=grid.byte_model, curves=grid.curves
        )
        for record in condition.records(entrants, unit.budgets):
            assert head.keys().isdisjoint(record), "a row has each key once"
            lines += (start, encoder.encode({"seed": seed, **record})[1:], b"\n")
    return b"".join(lines)


def _by_seed(grid: Grid, unit: GridUnit) -> Iterator[tuple[int, Sequence[Entrant]]]:
    """Yield each seed with the policies that run with it: all with the first, then those that draw numbers.

    Where policies share a budget, all run with each seed.
    """
    code = msgspec.json.encode(unit.code) if unit.code is not None else b""
    entrants = _entrants(grid.policies, code, unit.isolation)
    together = condition_named(grid.condition).together
    for number, seed in enumerate(grid.seeds):
        chosen = entrants if number == 0 or together else [one for one in entrants if one.seeded]
        if chosen:
            yield seed, chosen


@lru_cache(maxsize=1)
def _entrants(policies: tuple[str, ...], code: bytes, isolation: Isolation | None) -> tuple[Entrant, ...]:
    """Parse the policies of a grid, which are the same for each of its units."""
    known = decoded(code, PolicyCode) if code else None
    return tuple(Entrant.parse(policy, known, isolation) for policy in policies)


@cache
def code_version() -> str:
    """Return the package's version and a hash of the code that results depend on, so that none are mixed."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for package in ("policies", "bench"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version('standfast')}+{digest.hexdigest()[:16]}"


def _foreign_code(entrants: Sequence[Entrant]) -> str:
    """Return a hash of the packages of policies that are not shipped, so that a changed policy runs again."""
    codes = sorted({one.code for one in entrants if not one.spec.shipped})
    return f".{hashlib.sha256(''.join(codes).encode()).hexdigest()[:16]}" if codes else ""


class ResultsFolder:
    """A folder with a grid's results: its plan, a file per finished unit and, at the end, all rows."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def open(self, grid: Grid, *, fresh: bool = False) -> None:
        """Claim the folder for a grid; ``fresh`` discards the results of another one.

        Raises:
            BadFile: The folder holds the results of another grid.
        """
        plan = msgspec.json.format(msgspec.json.encode(grid), indent=1) + b"\n"
        file = self.path / PLAN
        try:
            (self.path / UNITS).mkdir(parents=True, exist_ok=True)
            if file.exists() and file.read_bytes() != plan:
                if not fresh:
                    raise BadFile(
                        "other_grid", folder=str(self.path), problem=_difference(file.read_bytes(), plan)
                    )
                rmtree(self.path / UNITS)
                (self.path / UNITS).mkdir()
            with atomic_file(file) as target:
                target.write(plan)
        except OSError as error:
            raise BadFile(file=str(self.path), problem=str(error)) from None

    def done(self, unit: GridUnit) -> bool:
        """Return whether a unit is finished."""
        return self._file(unit).exists()

    def save(self, unit: GridUnit, lines: bytes) -> None:
        """Store the rows of a finished unit."""
        with atomic_file(self._file(unit)) as file:
            file.write(lines)

    def finish(self, units: Sequence[GridUnit]) -> int:
        """Join all rows in the order of the units, and all curves in another file. Return how many rows."""
        rows = 0
        with atomic_file(self.path / RESULTS) as results, atomic_file(self.path / CURVES) as curves:
            for unit in units:
                for line in self._file(unit).read_bytes().splitlines(keepends=True):
                    is_curve = b'"curve":' in line and "curve" in json.loads(line)
                    (curves if is_curve else results).write(line)
                    rows += not is_curve
        return rows

    def _file(self, unit: GridUnit) -> Path:
        # A folder of a hundred thousand files is slow to list and to copy.
        return self.path / UNITS / f"{unit.number // UNITS_PER_FOLDER:03}" / f"{unit.number:06}.jsonl"


class GridEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What the rest of a grid costs, extrapolated from a few of its units by the size of their episodes."""

    units: int
    waiting: int
    """How many units were not finished before the estimate."""
    sampled: int
    seconds: float
    """How long one process needs for the rest."""
    result_bytes: int

    def wall_seconds(self, workers: int) -> float:
        """Return how long that many processes need, if each has a core of its own."""
        return self.seconds / workers


def estimate_grid(grid: Grid, units: Sequence[GridUnit], folder: ResultsFolder, clock: Clock) -> GridEstimate:
    """Run a few units of a grid, and estimate from them what the others cost. Their results are kept."""
    waiting = [unit for unit in units if not folder.done(unit)]
    by_size = sorted(waiting, key=lambda unit: (_work(unit), unit.number))
    count = min(SAMPLED_UNITS, len(by_size))
    # The first unit of a process also loads modules, so it is not timed unless it is the only one.
    chosen = [by_size[(2 * number + 1) * len(by_size) // (2 * count)] for number in range(count)]
    seconds, work, size = 0.0, 0, 0
    for number, unit in enumerate(chosen):
        start = clock.monotonic()
        lines = run_unit(grid, unit)
        folder.save(unit, lines)
        if number or len(chosen) == 1:
            seconds += clock.monotonic() - start
            work += _work(unit)
            size += len(lines)
    left = sum(map(_work, waiting)) - sum(map(_work, chosen))
    return GridEstimate(
        units=len(units),
        waiting=len(waiting),
        sampled=len(chosen),
        seconds=seconds * left / max(work, 1),
        result_bytes=size * left // max(work, 1),
    )


def _work(unit: GridUnit) -> int:
    return unit.location.size * len(unit.budgets)


class _SummedRow(msgspec.Struct):
    """The columns of a row that a summary needs, but for its metric."""

    policy: str
    track: str
    budget_bytes: int
    write_emitted: int | None = None


class GridSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a grid's metric by policy and budget, over episodes and seeds."""

    condition: str
    metric: str
    rows: int
    wrote_nothing: list[str]
    """Policies on the unprivileged track, other than ``NeverWrite``, that stored nothing at any budget."""
    means: dict[str, dict[int, float]]
    """By policy (with its track if it is not ``unprivileged``), best first; then by budget."""


def summarise_grid(folder: str | os.PathLike[str]) -> GridSummary:
    """Read the rows of a finished grid one by one, so that any number fits into memory; return the means."""
    path = Path(folder)
    try:
        plan = decoded((path / PLAN).read_bytes(), Grid)
        rows, sums, idle = _sum_rows(path / RESULTS, condition_named(plan.condition).metric)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFile(file=str(path), problem=f"{error}; run 'standfast bench run' first") from None
    means = {
        name: {size: total / count for size, (total, count) in sorted(own.items())}
        for name, own in sums.items()
    }
    order = sorted(means, key=lambda name: (-sum(means[name].values()), name))
    return GridSummary(
        condition=plan.condition,
        metric=condition_named(plan.condition).metric,
        rows=rows,
        wrote_nothing=idle,
        means={name: means[name] for name in order},
    )


def _sum_rows(path: Path, metric: str) -> tuple[int, dict[str, dict[int, tuple[float, int]]], list[str]]:
    column = msgspec.defstruct("MetricColumn", [("value", float)], rename={"value": metric})
    read_row = msgspec.json.Decoder(_SummedRow).decode
    read_value: Callable[[bytes], Any] = msgspec.json.Decoder(column).decode
    rows, sums = 0, dict[str, dict[int, tuple[float, int]]]()
    written: dict[str, int] = {}
    with path.open("rb") as lines:
        for rows, line in enumerate(lines, 1):  # noqa: B007  # The last number is part of the result.
            row = read_row(line)
            name = row.policy if row.track == Track.UNPRIVILEGED else f"{row.policy} ({row.track})"
            own = sums.setdefault(name, {})
            if row.track == Track.UNPRIVILEGED and row.write_emitted is not None:
                written[name] = written.get(name, 0) + row.write_emitted
            total, count = own.get(row.budget_bytes, (0.0, 0))
            own[row.budget_bytes] = (total + read_value(line).value, count + 1)
    return rows, sums, sorted(name for name, count in written.items() if not count and name != "NeverWrite")


def run_grid(
    grid: Grid,
    units: Sequence[GridUnit],
    folder: ResultsFolder,
    engine: Callable[[Grid, Sequence[GridUnit]], Iterator[tuple[GridUnit, bytes]]],
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> int:
    """Run the units that are not finished, and join the results. Return the number of rows."""
    waiting = [unit for unit in units if not folder.done(unit)]
    done = len(units) - len(waiting)
    progress(done, len(units))
    for unit, lines in engine(grid, waiting):
        folder.save(unit, lines)
        done += 1
        progress(done, len(units))
    return folder.finish(units)


def read_results(folder: str | os.PathLike[str], name: str = RESULTS) -> list[dict[str, Any]]:
    """Return the rows of a finished grid."""
    path = Path(folder) / name
    invalid = "it has no valid results; run the grid again with --fresh"
    try:
        rows = [json.loads(line) for line in _content(path).splitlines()]
    except (ValueError, RecursionError):
        raise BadFile(file=str(path), problem=invalid) from None
    for number, row in enumerate(rows, 1):
        # What names a row must be comparable; what is in it is for the reader to judge.
        plain = isinstance(row, dict) and all(
            row.get(key) is None or isinstance(row[key], str | int | float) for key in ROW_KEY
        )
        if not plain:
            raise BadFile(file=str(path), problem=f"line {number} is no row of results; {invalid}")
    return rows


def read_plan(folder: str | os.PathLike[str]) -> Grid:
    """Return the grid whose results are in a folder."""
    file = Path(folder) / PLAN
    try:
        return decoded(_content(file), Grid)
    except (msgspec.MsgspecError, InvalidValue, RecursionError) as error:
        raise BadFile(file=str(file), problem=f"it is not the plan of a grid: {error}") from None


def _content(file: Path) -> bytes:
    """Return what a file of results holds. A pipe or a device would hold us up for ever."""
    try:
        if file.exists() and not file.is_file():
            raise BadFile(file=str(file), problem="it is not a regular file")
        return file.read_bytes()
    except OSError as error:
        raise BadFile(file=str(file), problem=f"{error.strerror}; run 'standfast bench run' first") from None


def _difference(old: bytes, new: bytes) -> str:
    try:
        before, after = json.loads(old), json.loads(new)
        names = sorted(name for name in after if before.get(name) != after[name])
    except (ValueError, AttributeError):
        return "its plan can't be read"
    return f"it differs in {', '.join(names)}"


Engine = Callable[[Grid, Sequence[GridUnit]], Iterator[tuple[GridUnit, bytes]]]


def in_process(grid: Grid, units: Sequence[GridUnit]) -> Iterator[tuple[GridUnit, bytes]]:
    """Run units one after the other in this process."""
    for unit in units:
        yield unit, run_unit(grid, unit)


def process_pool(workers: int | None = None) -> Engine:
    """An engine that runs units in several processes, by default one per core, with one episode each."""
    count = workers or usable_cores()

    def run(grid: Grid, units: Sequence[GridUnit]) -> Iterator[tuple[GridUnit, bytes]]:
        if count == 1 or len(units) < 2:
            yield from in_process(grid, units)
            return
        # Spawned, not forked: a fork would copy the caller's threads and locks.
        pool = ProcessPoolExecutor(
            max_workers=min(count, len(units)),
            mp_context=get_context("spawn"),
            initializer=_ignore_interrupts,
        )
        try:
            yield from _as_completed(lambda unit: pool.submit(run_unit, grid, unit), units, 2 * count)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return run


def dask_cluster(scheduler: str, *, wait_seconds: float = 10.0) -> Engine:
    """An engine that runs units on a Dask cluster. Episodes are sent along, so workers need no files."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingExtra(feature="The dask engine", extra="dask") from None

    def run(grid: Grid, units: Sequence[GridUnit]) -> Iterator[tuple[GridUnit, bytes]]:
        try:
            client = distributed.Client(scheduler, timeout=wait_seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadFile(file=scheduler, problem=f"no Dask scheduler answers there: {error}") from None
        with client:
            under_way = {}
            waiting = iter(units)
            completed = distributed.as_completed(loop=client.loop)

            def submit(count: int) -> None:
                for unit in islice(waiting, count):
                    future = client.submit(run_unit, grid, _with_line(unit), pure=False)
                    under_way[future.key] = unit
                    completed.add(future)

            submit(2 * max(1, sum(client.nthreads().values())))
            for future in completed:
                yield under_way.pop(future.key), future.result()
                submit(1)

    return run


def _as_completed(
    submit: Callable[[GridUnit], "Future[bytes]"], units: Sequence[GridUnit], most: int
) -> Iterator[tuple[GridUnit, bytes]]:
    """Yield results in the order in which they finish, with at most ``most`` units under way."""
    waiting = iter(units)
    under_way = {submit(unit): unit for unit in islice(waiting, most)}
    while under_way:
        finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in finished:
            yield under_way.pop(future), future.result()
        under_way |= {submit(unit): unit for unit in islice(waiting, most - len(under_way))}


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent process, which reports it; units under way are finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def usable_cores() -> int:
    """Return the number of cores that this process may use; in a container, fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _with_line(unit: GridUnit) -> GridUnit:
    with Path(unit.location.file).open("rb") as lines:
        lines.seek(unit.location.offset)
        return msgspec.structs.replace(unit, line=lines.read(unit.location.size))
