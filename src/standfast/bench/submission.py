"""Submissions: a policy of somebody else, with a lock file and the results that its author claims, and
running it again.

A submission is a folder:

    pyproject.toml       a project with an entry point in the group "standfast.policies"
    pylock.toml          the lock file: every dependency with its version; or uv.lock, or requirements.lock
    src/…                the policy's code; or beside pyproject.toml
    episodes/*.jsonl     the episodes that it was graded on; or elsewhere, found by their hashes
    results/             what 'standfast bench run --out results' wrote: grid.json and results.jsonl

Nothing of it is installed, and its code is never imported here: each run of the policy is in a process of its
own, which sees one step at a time and no labels.
"""

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from standfast.bench.conditions import condition_named
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import file_hash
from standfast.bench.grid import Engine, Grid, GridUnit, in_process, plan_grid, read_plan, read_results
from standfast.errors import BadFile
from standfast.policies.write_policy import BUILT_IN, ENTRY_POINT_GROUP

PROJECT: Final = "pyproject.toml"
LOCKS: Final = ("pylock.toml", "uv.lock", "requirements.lock")
RESULTS_FOLDER: Final = "results"
EPISODES_FOLDER: Final = "episodes"
MAX_DIFFERENCES: Final = 20
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_PIN: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([\w.!+-]+)")
_KEY: Final = ("file", "line", "budget_bytes", "policy", "track", "seed")
# Another version of the code may give the same figures; whether it does is what is compared.
_NOT_COMPARED: Final = frozenset(("code", "file_sha256"))
RowKey = tuple[Any, ...]


class PolicySubmission(msgspec.Struct, frozen=True, kw_only=True):
    """What a submission declares."""

    folder: str
    name: str
    version: str
    policies: dict[str, str]
    """The place of each policy, ``module:Class``, by its name."""
    lock: str
    lock_sha256: str
    pinned: dict[str, str]
    """The version of each locked package, by its normalised name."""


class RowDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that is not as it was claimed. None is a row or a figure that is missing."""

    row: dict[str, Any]
    column: str
    claimed: Any
    found: Any


class SubmissionCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of running a submission again."""

    submission: PolicySubmission
    policies: list[str]
    metric: str
    rows: int
    units: int
    all_units: int
    claimed_mean: float
    found_mean: float
    differing: int
    """How many rows are not as claimed."""
    differences: list[RowDifference]
    """The first of them."""
    notes: list[str]

    @property
    def verified(self) -> bool:
        """Whether all rows that were run again are as claimed."""
        return self.rows > 0 and self.differing == 0


def read_submission(folder: str) -> PolicySubmission:
    """Read what a submission declares. Nothing of it is imported.

    Raises:
        BadFile: The project, its entry point or its lock file is missing or incomplete.
    """
    root = Path(folder)
    project = _toml(root / PROJECT).get("project", {})
    points = project.get("entry-points", {}).get(ENTRY_POINT_GROUP, {})
    if not (points and all(isinstance(place, str) and ":" in place for place in points.values())):
        problem = (
            f'it needs [project.entry-points."{ENTRY_POINT_GROUP}"] with a line such as MyPolicy ='
            ' "my_module:MyPolicy"'
        )
        raise BadFile(file=str(root / PROJECT), problem=problem)
    shipped = sorted(set(points) & set(BUILT_IN))
    if shipped:
        raise BadFile(
            file=str(root / PROJECT), problem=f"{shipped[0]} is a shipped policy's name; choose another"
        )
    lock = next((root / name for name in LOCKS if (root / name).is_file()), None)
    if lock is None:
        problem = (
            f"it has no lock file ({', '.join(LOCKS)}); write one with 'uv pip compile pyproject.toml -o"
            " requirements.lock'"
        )
        raise BadFile(file=folder, problem=problem)
    pinned = _pinned(lock)
    for requirement in project.get("dependencies", []):
        name = _NAME.match(str(requirement))
        if name is None or _folded(name[0]) not in pinned:
            raise BadFile(file=str(lock), problem=f"it does not pin {requirement!r:.60}; lock again")
    return PolicySubmission(
        folder=folder,
        name=str(project.get("name", root.name)),
        version=str(project.get("version", "0")),
        policies=dict(points),
        lock=lock.name,
        lock_sha256=file_hash(lock),
        pinned=pinned,
    )


def verify_submission(
    folder: str,
    *,
    episodes: str | None = None,
    sample: int | None = None,
    engine: Engine = in_process,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> SubmissionCheck:
    """Run the policies of a submission again and compare each row with the claimed one.

    Args:
        folder: The submission.
        episodes: The folder with the episode files; by default ``episodes`` in the submission. They are
            recognised by hash.
        sample: How many units of the grid to run, evenly spread; by default all.
        engine: Where the units run.
        progress: Receives how many units are done, and how many there are.

    Raises:
        BadFile: The submission is incomplete, an episode file is missing, or the environment is not as
            locked.
    """
    submission = read_submission(folder)
    results = str(Path(folder) / RESULTS_FOLDER)
    plan = read_plan(results)
    condition = condition_named(plan.condition)
    _check_environment(submission)
    files = _episode_files(plan, Path(episodes or Path(folder) / EPISODES_FOLDER))
    with _importable(submission):
        own = [name for name in plan.policies if _is_own(name, submission)]
        if not own:
            raise BadFile(file=results, problem=f"it has no results of {', '.join(submission.policies)}")
        grid, units = plan_grid(
            files,
            budgets=plan.budgets,
            # Policies that share a budget affect each other, so all run again.
            policies=plan.policies if condition.together else own,
            seeds=plan.seeds,
            byte_model=plan.byte_model,
            condition=plan.condition,
            curves=plan.curves,
        )
        chosen = _spread(units, sample)
        found = _run(grid, chosen, engine, progress)
        names = {(str(one.spec), str(one.track)) for one in map(Entrant.parse, own)}
    claimed = _claimed(results, names, grid, chosen)
    own_rows = {key: row for key, row in found.items() if (row["policy"], row["track"]) in names}
    differing, differences = _differences(claimed, own_rows)
    note = f"the claimed results were made by other code: {plan.code}, now {grid.code}"
    return SubmissionCheck(
        submission=submission,
        policies=own,
        metric=condition.metric,
        rows=len(own_rows),
        units=len(chosen),
        all_units=len(units),
        claimed_mean=_mean(claimed, condition.metric),
        found_mean=_mean(own_rows, condition.metric),
        differing=differing,
        differences=differences[:MAX_DIFFERENCES],
        notes=[note] if plan.code != grid.code else [],
    )


def _claimed(
    results: str, names: set[tuple[str, str]], grid: Grid, units: Sequence[GridUnit]
) -> dict[RowKey, dict[str, Any]]:
    """Return the claimed rows of these policies in these units."""
    places = {
        (grid.files[unit.file].name, unit.location.line, each) for unit in units for each in unit.budgets
    }
    return {
        _key(row): row
        for row in read_results(results)
        if (row["policy"], row["track"]) in names
        and (row["file"], row["line"], row["budget_bytes"]) in places
    }


def _differences(
    claimed: Mapping[RowKey, dict[str, Any]], found: Mapping[RowKey, dict[str, Any]]
) -> tuple[int, list[RowDifference]]:
    """Return how many rows are not as claimed, and each figure that differs."""
    differing, differences = 0, []
    for key in sorted({*claimed, *found}):
        one, other = claimed.get(key, {}), found.get(key, {})
        columns = [
            name for name in sorted({*one, *other} - _NOT_COMPARED) if one.get(name) != other.get(name)
        ]
        differing += bool(columns)
        row = dict(zip(_KEY, key, strict=True))
        differences += [
            RowDifference(row=row, column=name, claimed=one.get(name), found=other.get(name))
            for name in columns
        ]
    return differing, differences


def _mean(rows: Mapping[RowKey, dict[str, Any]], metric: str) -> float:
    return float(sum(row.get(metric, 0.0) for row in rows.values()) / max(len(rows), 1))


def _run(
    grid: Grid, units: Sequence[GridUnit], engine: Engine, progress: Callable[[int, int], None]
) -> dict[RowKey, dict[str, Any]]:
    found: dict[RowKey, dict[str, Any]] = {}
    progress(0, len(units))
    for done, (_, lines) in enumerate(engine(grid, units), 1):
        rows = [json.loads(line) for line in lines.splitlines()]
        found |= {_key(row): row for row in rows if "curve" not in row}
        progress(done, len(units))
    return found


def _key(row: Mapping[str, Any]) -> RowKey:
    return tuple(row.get(name) for name in _KEY)


def _spread(units: list[GridUnit], sample: int | None) -> list[GridUnit]:
    if sample is None or sample >= len(units):
        return units
    return [units[number * len(units) // sample] for number in range(sample)]


def _is_own(policy: str, submission: PolicySubmission) -> bool:
    name = policy.partition("@")[0].partition("(")[0]
    return name in submission.policies or name in submission.policies.values()


def _episode_files(plan: Grid, folder: Path) -> list[Path]:
    """Return the files of a grid, in its order, by their hashes."""
    known = {file_hash(path): path for path in sorted(folder.glob("*.jsonl"))}
    for file in plan.files:
        if file.sha256 not in known or known[file.sha256].name != file.name:
            problem = (
                f"the episode file {file.name} with the hash {file.sha256[:16]}… is not there; name its"
                " folder with --episodes"
            )
            raise BadFile(file=str(folder), problem=problem)
    return [known[file.sha256] for file in plan.files]


def _check_environment(submission: PolicySubmission) -> None:
    """Refuse to run with other versions than the locked ones."""
    for name, wanted in sorted(submission.pinned.items()):
        if name == _folded(submission.name):
            continue
        try:
            present = installed_version(name)
        except PackageNotFoundError:
            present = "not installed"
        if present != wanted:
            problem = (
                f"it pins {name} {wanted}, which is {present} here; install the lock file into a new"
                " environment and verify there"
            )
            raise BadFile(file=str(Path(submission.folder) / submission.lock), problem=problem)


@contextmanager
def _importable(submission: PolicySubmission) -> Iterator[None]:
    """Make the submission's policies known by name, for this process and those that it starts, without
    installing or importing it.
    """
    root = Path(submission.folder).absolute()
    code = root / "src" if (root / "src").is_dir() else root
    with TemporaryDirectory(prefix="standfast-submission-") as folder:
        about = Path(folder) / f"{_folded(submission.name).replace('-', '_')}-{submission.version}.dist-info"
        about.mkdir()
        lines = "".join(f"{name} = {place}\n" for name, place in sorted(submission.policies.items()))
        (about / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{lines}", encoding="utf-8")
        metadata = f"Metadata-Version: 2.1\nName: {submission.name}\nVersion: {submission.version}\n"
        (about / "METADATA").write_text(metadata, encoding="utf-8")
        before = list(sys.path)
        sys.path[:0] = [str(code), folder]
        try:
            yield
        finally:
            sys.path[:] = before


def _pinned(lock: Path) -> dict[str, str]:
    """Return the versions that a lock file pins."""
    if lock.suffix == ".toml" or lock.name == "uv.lock":
        document = _toml(lock)
        packages = document.get("packages", document.get("package", []))
        return {
            _folded(str(one["name"])): str(one["version"])
            for one in packages
            if isinstance(one, dict) and "name" in one and "version" in one
        }
    try:
        text = lock.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(file=str(lock), problem=str(error)) from None
    lines = (line.strip() for line in text.splitlines())
    return {_folded(pin[1]): pin[2] for line in lines if (pin := _PIN.match(line)) is not None}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(file=str(path), problem=str(error.strerror)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFile(file=str(path), problem=f"it is not TOML: {error}") from None


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def submission_hash(folder: str) -> str:
    """Return a hash of a submission's project, lock file and code, by which a result can name it."""
    root = Path(folder)
    digest = hashlib.sha256()
    wanted = [
        path for path in sorted(root.rglob("*")) if path.suffix == ".py" or path.name in (PROJECT, *LOCKS)
    ]
    for path in wanted:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
