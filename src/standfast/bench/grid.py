"""The grid: every episode under every budget with every policy, in units that can be done in any order, anywhere.

A unit is one episode with all budgets, or with one of them if the episode is long. Its rows depend on the grid's description
and the episode alone, so one worker or many, here or on a cluster, give the same bytes. Each finished unit is a file; what
is there already is not done again.
"""

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.bench.conditions import condition_named
from standfast.bench.episodes import Episode
from standfast.bench.files import Place, file_hash, places, read_episode
from standfast.bench.stage import Entrant
from standfast.errors import BadFile, InvalidValue, OtherGrid
from standfast.policies.budget import ByteBudget
from standfast.policies.bytes import ByteModel
from standfast.policies.registry import BUILT_IN

PRIMARY_BUDGETS: Final = (1_024, 10_240, 102_400, 1_048_576)
SPLIT_BYTES: Final = 1 << 20
PLAN: Final = "grid.json"
UNITS: Final = "units"
RESULTS: Final = "results.jsonl"
CURVES: Final = "curves.jsonl"


class EpisodeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of episodes as results name it: without the folder, with its hash."""

    name: str
    sha256: str


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides the results. Two grids that are equal have the same results, to the byte."""

    files: tuple[EpisodeFile, ...]
    budgets: tuple[int, ...]
    policies: tuple[str, ...]
    seed: int = 0
    byte_model: ByteModel = ByteModel.SPEC
    condition: str = "plain"
    curves: bool = True
    code: str = ""

    def __post_init__(self) -> None:
        for max_bytes in self.budgets:
            ByteBudget(max_bytes)
        if not (self.files and self.budgets and self.policies):
            raise InvalidValue(what="Grid", problem="it needs a file, a budget and a policy at least")
        for name, given in (("budget", self.budgets), ("policy", self.policies), ("file", self.files)):
            if len(set(given)) != len(given):
                raise InvalidValue(what="Grid", problem=f"a {name} is named twice")
        condition_named(self.condition)


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work. ``line`` carries the episode itself to workers that can't read the file."""

    number: int
    place: Place
    file: int
    episode: int
    budgets: tuple[int, ...]
    line: bytes | None = None


def plan_grid(
    files: Sequence[str | os.PathLike[str]],
    *,
    budgets: Sequence[int] = PRIMARY_BUDGETS,
    policies: Sequence[str],
    seed: int = 0,
    byte_model: ByteModel = ByteModel.SPEC,
    condition: str = "plain",
    curves: bool = True,
) -> tuple[Grid, list[Unit]]:
    """A grid over these files, and its units in order. Unknown policies, bad budgets and empty files are told of here."""
    entrants = tuple(str(Entrant.parse(policy)) for policy in policies)
    known = [EpisodeFile(name=Path(file).name, sha256=file_hash(file)) for file in files]
    grid = Grid(
        files=tuple(known),
        budgets=tuple(sorted(budgets)),
        policies=entrants,
        seed=seed,
        byte_model=byte_model,
        condition=condition,
        curves=curves and condition_named(condition).has_curves,
        code=code_version() + _foreign_code(entrants),
    )
    units: list[Unit] = []
    for number, file in enumerate(files):
        for episode, place in enumerate(places(file)):
            together = place.size <= SPLIT_BYTES
            for some in (grid.budgets,) if together else [(each,) for each in grid.budgets]:
                units.append(Unit(number=len(units), place=place, file=number, episode=episode, budgets=some))
    return grid, units


def run_unit(grid: Grid, unit: Unit) -> bytes:
    """The rows of a unit, and its curves, one JSON object a line. Holds one episode and nothing else."""
    if unit.line is None:
        episode = read_episode(unit.place)
    else:
        episode = Episode.from_json(msgspec.json.decode(unit.line))
    file = grid.files[unit.file]
    labels = episode.labels.given
    name = f"{file.name} line {unit.place.line}"
    head = {
        "condition": grid.condition,
        "file": file.name,
        "file_sha256": file.sha256,
        "line": unit.place.line,
        "episode": unit.episode,
        "episode_id": labels.get("episode_id"),
        "source": labels.get("source", labels.get("mode", "")),
        "mode": labels.get("mode", ""),
        "steps": len(episode.steps),
        "seed": grid.seed,
        "byte_model": str(grid.byte_model),
        "code": grid.code,
    }
    condition = condition_named(grid.condition)
    records = condition.records(
        episode,
        _entrants(grid.policies),
        unit.budgets,
        name=name,
        seed=grid.seed,
        model=grid.byte_model,
        curves=grid.curves,
    )
    # What all rows of a unit begin with is encoded once.
    encoder = msgspec.json.Encoder()
    opening = encoder.encode(head)[:-1] + b","
    lines: list[bytes] = []
    for record in records:
        assert head.keys().isdisjoint(record), "a key stands once in a row"
        lines += (opening, encoder.encode(record)[1:], b"\n")
    return b"".join(lines)


@lru_cache(maxsize=1)
def _entrants(policies: tuple[str, ...]) -> tuple[Entrant, ...]:
    """The policies of a grid, which are the same for each of its units."""
    return tuple(Entrant.parse(policy) for policy in policies)


@cache
def code_version() -> str:
    """The version of this package, and a hash over the code that decides results: stale results are never mixed in."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for room in ("budgets", "policies", "bench"):
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version('standfast')}+{digest.hexdigest()[:16]}"


def _foreign_code(entrants: Sequence[str]) -> str:
    """A hash over the modules of policies that are not ours: who changes one runs it anew."""
    digest = hashlib.sha256()
    modules = sorted(
        {
            inspect.getsourcefile(Entrant.parse(name).spec.kind) or ""
            for name in entrants
            if not _is_ours(name)
        }
    )
    for module in filter(None, modules):
        digest.update(Path(module).read_bytes() + b"\0")
    return f".{digest.hexdigest()[:16]}" if modules else ""


def _is_ours(entrant: str) -> bool:
    return Entrant.parse(entrant).spec.name in BUILT_IN


class Folder:
    """Where a grid's results lie: the plan, one file for each finished unit, and in the end all rows in order."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def open(self, grid: Grid, *, fresh: bool = False) -> None:
        """Make the folder this grid's. One that holds another grid's results is left alone, unless told otherwise."""
        plan = msgspec.json.format(msgspec.json.encode(grid), indent=1) + b"\n"
        file = self.path / PLAN
        try:
            (self.path / UNITS).mkdir(parents=True, exist_ok=True)
            if file.exists() and file.read_bytes() != plan:
                if not fresh:
                    raise OtherGrid(folder=str(self.path), problem=_difference(file.read_bytes(), plan))
                for old in (self.path / UNITS).iterdir():
                    old.unlink()
            _write_whole(file, plan)
        except OSError as error:
            raise BadFile(file=str(self.path), problem=str(error)) from None

    def done(self, unit: Unit) -> bool:
        """Whether a unit's rows are there already."""
        return self._file(unit).exists()

    def keep(self, unit: Unit, lines: bytes) -> None:
        """Keep a unit's rows; they appear whole or not at all."""
        try:
            _write_whole(self._file(unit), lines)
        except OSError as error:
            raise BadFile(file=str(self._file(unit)), problem=str(error)) from None

    def finish(self, units: Sequence[Unit]) -> int:
        """Put all rows into one file, in the order of the units, and curves into another. Gives the number of rows."""
        rows = 0
        with _parted(self.path / RESULTS) as results, _parted(self.path / CURVES) as curves:
            for unit in units:
                for line in self._file(unit).read_bytes().splitlines(keepends=True):
                    is_curve = b'"curve":' in line and "curve" in json.loads(line)
                    (curves if is_curve else results).write(line)
                    rows += not is_curve
        return rows

    def _file(self, unit: Unit) -> Path:
        return self.path / UNITS / f"{unit.number:06}.jsonl"


def run_grid(
    grid: Grid,
    units: Sequence[Unit],
    folder: Folder,
    engine: Callable[[Grid, Sequence[Unit]], Iterator[tuple[Unit, bytes]]],
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> int:
    """Do what is not done yet, keep each unit as it comes, and finish. Gives the number of rows."""
    waiting = [unit for unit in units if not folder.done(unit)]
    done = len(units) - len(waiting)
    progress(done, len(units))
    for unit, lines in engine(grid, waiting):
        folder.keep(unit, lines)
        done += 1
        progress(done, len(units))
    return folder.finish(units)


def read_results(folder: str | os.PathLike[str], name: str = RESULTS) -> list[dict[str, Any]]:
    """The rows of a finished grid."""
    path = Path(folder) / name
    try:
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise BadFile(file=str(path), problem=f"{error.strerror}; run 'standfast bench run' first") from None
    except ValueError:
        raise BadFile(
            file=str(path), problem="it holds no results; run the grid again with --fresh"
        ) from None


def _write_whole(path: Path, content: bytes) -> None:
    half = path.with_name(path.name + ".part")
    half.write_bytes(content)
    half.replace(path)


class _parted:  # noqa: N801  # Reads as a word in its with statement.
    """A file that appears under its name only when all of it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._half = path.with_name(path.name + ".part")

    def __enter__(self) -> Any:
        self._file = self._half.open("wb")
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        self._file.close()
        if kind is None:
            self._half.replace(self._path)


def _difference(old: bytes, new: bytes) -> str:
    try:
        before, after = json.loads(old), json.loads(new)
        names = sorted(name for name in after if before.get(name) != after[name])
    except (ValueError, AttributeError):
        return "its plan can't be read"
    return f"it differs in {', '.join(names)}"
