"""Submissions: a policy of somebody else, with a lock file and the results that its author claims, and
running it again.

A submission is a folder:

    pyproject.toml       a project with an entry point in the group "standfast.policies"
    pylock.toml          the lock file: every dependency with its version; or uv.lock, or requirements.lock
    src/…                the policy's code; or next to pyproject.toml
    episodes/*.jsonl     the episodes that it was graded on; or elsewhere, found by their hashes
    results/             what 'standfast bench run --out results' wrote: grid.json and results.jsonl

Nothing of it is installed or imported here, and nothing of it is on this process's path: each run of a policy
is in an isolated process of its own, with a copy of the code (``bench/sandbox.py``), one step at a time and
no labels. Every row of the results is run again, also those of shipped policies: a table ranks by them.
"""

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.bench.conditions import condition_named
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import file_hash
from standfast.bench.grid import (
    CURVES,
    PLAN,
    RESULTS,
    ROW_KEY,
    Engine,
    Grid,
    GridUnit,
    in_process,
    plan_grid,
    read_plan,
    read_results,
)
from standfast.bench.sandbox import NOT_CODE, PolicyCode, best_isolation, code_files, one_line
from standfast.errors import BadFile, BenchError
from standfast.policies.lockdown import Isolation
from standfast.policies.write_policy import BUILT_IN, ENTRY_POINT_GROUP

PROJECT: Final = "pyproject.toml"
LOCKS: Final = ("pylock.toml", "uv.lock", "requirements.lock")
RESULTS_FOLDER: Final = "results"
EPISODES_FOLDER: Final = "episodes"
assert {RESULTS_FOLDER, EPISODES_FOLDER} == NOT_CODE, "a policy never sees its own labels"
MAX_DIFFERENCES: Final = 20
_SHOWN_DIFFERENCES: Final = 5
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_PIN: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([\w.!+-]+)")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_PLAIN_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}")
_POLICY: Final = re.compile(r"[\w.:-]{1,100}")
_PLACE: Final = re.compile(r"[\w.]{1,200}:[\w.]{1,100}")
_MAX_DECLARATION_BYTES: Final = 4 << 20
_CURVE_KEY: Final = ("file", "line", "budget_bytes", "seed")
# Another version of the code may give the same figures; whether it does is what is compared.
_NOT_COMPARED: Final = frozenset(("code",))
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


class ClaimedMean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of the metric of one submitted policy at one budget."""

    policy: str
    track: str
    budget_bytes: int
    claimed: float
    found: float


class SubmissionCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of running a submission again."""

    submission: PolicySubmission
    policies: list[str]
    metric: str
    rows: int
    units: int
    all_units: int
    means: list[ClaimedMean]
    """Of the submitted policies."""
    isolation: Isolation
    """What the policies were isolated by; with ``none``, their code was trusted."""
    differing: int
    """How many rows are not as claimed, missing, added or given twice."""
    differences: list[RowDifference]
    """The first of them."""
    notes: list[str]

    @property
    def verified(self) -> bool:
        """Whether all rows that were run again are as claimed."""
        return self.rows > 0 and self.differing == 0

    @property
    def verdict(self) -> str:
        """The verdict in words: on how much of the grid, and whether the code was trusted."""
        part = "" if self.units == self.all_units else f" on {self.units} of {self.all_units} units"
        said = f"verified{part}" if self.verified else "not verified"
        return f"{said}, trusting the code" if self.isolation is Isolation.NONE else said


def check_lines(check: SubmissionCheck) -> list[str]:
    """Return the outcome for a terminal. What the submission says can't look like a line of ours."""
    own, policies = check.submission, one_line(", ".join(check.policies))
    lines = [
        f"{own.name} {own.version}: {policies}; {own.lock} {own.lock_sha256[:16]}",
        f"{check.rows} rows from {check.units} of {check.all_units} units, {check.differing} not as claimed",
    ]
    lines += [
        f"mean {check.metric} of {one_line(mean.policy)} ({mean.track}) at {mean.budget_bytes} bytes:"
        f" claimed {mean.claimed:.4f}, found {mean.found:.4f}"
        for mean in check.means
    ]
    lines += [f"note: {note}" for note in check.notes]
    for one in check.differences[:_SHOWN_DIFFERENCES]:
        where = ", ".join(f"{name} {value}" for name, value in one.row.items())
        figures = f"{one.column} is {one_line(one.found, 80)}, claimed {one_line(one.claimed, 80)}"
        lines.append(f"✗ {one_line(where)}: {one_line(figures)}")
    return [*lines, check.verdict]


def read_submission(folder: str) -> PolicySubmission:
    """Read what a submission declares. Nothing of it is imported.

    Raises:
        BadFile: The project, its entry point or its lock file is missing or incomplete.
    """
    root = Path(folder)
    _check_apart(folder)
    project = _toml(root / PROJECT).get("project", {})
    points = project.get("entry-points", {}).get(ENTRY_POINT_GROUP, {})
    if not (points and all(isinstance(place, str) and ":" in place for place in points.values())):
        problem = (
            f'it needs [project.entry-points."{ENTRY_POINT_GROUP}"] with a line such as MyPolicy ='
            ' "my_module:MyPolicy"'
        )
        raise BadFile(file=str(root / PROJECT), problem=problem)
    for policy, place in points.items():
        if not (_POLICY.fullmatch(policy) and _PLACE.fullmatch(place)):
            problem = f"{one_line(policy)!r} = {one_line(place)!r} is no entry point"
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
    called, version = str(project.get("name", "unnamed")), str(project.get("version", "0"))
    # They are printed with the verdict, so they must not be able to look like one.
    if not (_PLAIN_NAME.fullmatch(called) and _PLAIN_VERSION.fullmatch(version)):
        problem = f"{one_line(called)!r} {one_line(version)!r} is no name and version of a project"
        raise BadFile(file=str(root / PROJECT), problem=problem)
    return PolicySubmission(
        folder=folder,
        name=called,
        version=version,
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
    trusted: bool = False,
    isolation: Isolation | None = None,
    engine: Engine = in_process,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> SubmissionCheck:
    """Run the policies of a submission again and compare each row with the claimed one.

    Args:
        folder: The submission.
        episodes: The folder with the episode files; by default ``episodes`` in the submission. They are
            recognised by hash.
        sample: How many units of the grid to run, evenly spread; by default all.
        trusted: Run the code without isolation where the kernel offers none. The result says so.
        isolation: What to isolate by; by default the best that there is.
        engine: Where the units run.
        progress: Receives how many units are done, and how many there are.

    Raises:
        BadFile: The submission is incomplete, an episode file is missing, or the environment is another.
        BenchError: The kernel offers no isolation, and the code is not trusted.
    """
    isolation = best_isolation() if isolation is None else isolation
    if isolation is Isolation.NONE and not trusted:
        raise BenchError("no_isolation")
    submission = read_submission(folder)
    results = str(Path(folder) / RESULTS_FOLDER)
    plan = read_plan(results)
    condition = condition_named(plan.condition)
    _check_environment(submission)
    files = _episode_files(plan, Path(episodes or Path(folder) / EPISODES_FOLDER))
    own = [name for name in plan.policies if _is_own(name, submission)]
    if not own:
        raise BadFile(file=results, problem=f"it has no results of {', '.join(submission.policies)}")
    code = PolicyCode(folder=_code_folder(folder), places=submission.policies)
    entrants = {name: _known(name, code, isolation, results) for name in plan.policies}
    grid, units = plan_grid(
        files,
        budgets=plan.budgets,
        policies=plan.policies,
        seeds=plan.seeds,
        byte_model=plan.byte_model,
        condition=plan.condition,
        curves=plan.curves,
        code=code,
        isolation=isolation,
    )
    chosen = _spread(units, sample)
    found = _run(grid, chosen, engine, progress)
    claimed, twice = _claimed(results, grid, units, chosen)
    differing, differences = _differences(claimed, found)
    names = {(str(entrants[name].spec), str(entrants[name].track)) for name in own}
    return SubmissionCheck(
        submission=submission,
        policies=own,
        metric=condition.metric,
        rows=sum(key[0] == "row" for key in found),
        units=len(chosen),
        all_units=len(units),
        means=_means(claimed, found, names, condition.metric),
        isolation=isolation,
        differing=differing + len(twice),
        differences=[*twice, *differences][:MAX_DIFFERENCES],
        notes=_notes(plan, grid, results, own_episodes=episodes is None, isolation=isolation),
    )


def _known(name: str, code: PolicyCode, isolation: Isolation, results: str) -> Entrant:
    """Return a policy of the grid; one that can't be run again can't stand in verified results."""
    entrant = Entrant.parse(name, code, isolation)
    if not entrant.spec.shipped and code.place_of(entrant.spec.name) is None:
        problem = f"it has results of {name}, which is neither shipped nor submitted; run the grid without it"
        raise BadFile(file=results, problem=problem)
    return entrant


def _check_apart(folder: str) -> None:
    """Refuse a submission whose modules this process could import, and code that is a link elsewhere."""
    root = Path(folder).resolve()
    for entry in sys.path:
        place = Path(entry or ".").resolve()
        if place == root or root in place.parents:
            problem = "it is on this process's path; verify from another folder, without PYTHONPATH"
            raise BadFile(file=folder, problem=problem)
    if (root / "src").is_symlink():
        raise BadFile(file=folder, problem="src is a link; put the code itself there")


def _notes(plan: Grid, grid: Grid, results: str, *, own_episodes: bool, isolation: Isolation) -> list[str]:
    notes = []
    if plan.code != grid.code:
        code = one_line(plan.code, 80)
        notes.append(f"the claimed results were made by other code: {code}, now {grid.code}")
    others = sorted(one.name for one in Path(results).iterdir() if one.name not in (PLAN, RESULTS, CURVES))
    if others:
        listed = one_line(", ".join(others[:5]) + (", …" if len(others) > 5 else ""))
        notes.append(f"not checked, because they are made of the rows: {listed}")
    if own_episodes:
        notes.append(
            "the episodes are the submission's own; to grade it on others, use 'standfast bench run'"
        )
    if isolation is Isolation.NONE:
        notes.append("nothing isolated the code: it was trusted, and could have read the labels")
    elif isolation is Isolation.LANDLOCK:
        notes.append(
            "isolated by Landlock and seccomp; the access times of files may carry notes from run to run, so"
            " install bubblewrap, which hides them"
        )
    return notes


def _claimed(
    results: str, grid: Grid, units: Sequence[GridUnit], chosen: Sequence[GridUnit]
) -> tuple[dict[RowKey, dict[str, Any]], list[RowDifference]]:
    """Return the claimed rows and curves of the chosen units, with all that belong to no unit at all; and
    those that are given twice.
    """
    left_out = _places(grid, units) - _places(grid, chosen)
    rows = read_results(results)
    if grid.curves or (Path(results) / CURVES).exists():
        # Curves that the plan does not have are no curves of this run; reports would draw them all the same.
        rows += read_results(results, CURVES)
    claimed: dict[RowKey, dict[str, Any]] = {}
    twice = []
    for row in rows:
        key = _key(row)
        if (row.get("file"), row.get("line"), row.get("budget_bytes")) in left_out:
            continue
        if key in claimed:
            twice.append(RowDifference(row=_named(key), column="the row", claimed="twice", found="once"))
        claimed[key] = row
    return claimed, twice


def _places(grid: Grid, units: Sequence[GridUnit]) -> set[tuple[Any, ...]]:
    return {(grid.files[unit.file].name, unit.location.line, each) for unit in units for each in unit.budgets}


def _differences(
    claimed: Mapping[RowKey, dict[str, Any]], found: Mapping[RowKey, dict[str, Any]]
) -> tuple[int, list[RowDifference]]:
    """Return how many rows are not as claimed, and each figure that differs."""
    differing, differences = 0, []
    for key in sorted({*claimed, *found}, key=repr):
        one, other = claimed.get(key, {}), found.get(key, {})
        columns = [
            name for name in sorted({*one, *other} - _NOT_COMPARED) if one.get(name) != other.get(name)
        ]
        differing += bool(columns)
        differences += [
            RowDifference(row=_named(key), column=name, claimed=one.get(name), found=other.get(name))
            for name in columns
        ]
    return differing, differences


def _means(
    claimed: Mapping[RowKey, dict[str, Any]],
    found: Mapping[RowKey, dict[str, Any]],
    names: set[tuple[str, str]],
    metric: str,
) -> list[ClaimedMean]:
    groups = {
        (row["policy"], row["track"], row["budget_bytes"])
        for key, row in found.items()
        if key[0] == "row" and (row["policy"], row["track"]) in names
    }

    def mean(rows: Mapping[RowKey, dict[str, Any]], group: tuple[Any, ...]) -> float:
        own = [
            row.get(metric)
            for row in rows.values()
            if (row.get("policy"), row.get("track"), row.get("budget_bytes")) == group
        ]
        figures = [float(one) for one in own if isinstance(one, int | float)]
        return sum(figures) / max(len(figures), 1)

    return [
        ClaimedMean(
            policy=group[0],
            track=group[1],
            budget_bytes=group[2],
            claimed=mean(claimed, group),
            found=mean(found, group),
        )
        for group in sorted(groups)
    ]


def _run(
    grid: Grid, units: Sequence[GridUnit], engine: Engine, progress: Callable[[int, int], None]
) -> dict[RowKey, dict[str, Any]]:
    found: dict[RowKey, dict[str, Any]] = {}
    progress(0, len(units))
    for done, (_, lines) in enumerate(engine(grid, units), 1):
        rows = [json.loads(line) for line in lines.splitlines()]
        found |= {_key(row): row for row in rows}
        progress(done, len(units))
    return found


def _key(row: Mapping[str, Any]) -> RowKey:
    """Return what makes a row or a record of curves unique."""
    if "curve" in row:
        return ("curve", *(row.get(name) for name in _CURVE_KEY))
    return ("row", *(row.get(name) for name in ROW_KEY))


def _named(key: RowKey) -> dict[str, Any]:
    return dict(zip(_CURVE_KEY if key[0] == "curve" else ROW_KEY, key[1:], strict=True))


def _spread(units: list[GridUnit], sample: int | None) -> list[GridUnit]:
    if sample is None or sample >= len(units):
        return units
    return [units[number * len(units) // sample] for number in range(sample)]


def _is_own(policy: str, submission: PolicySubmission) -> bool:
    name = policy.partition("@")[0].partition("(")[0]
    return name in submission.policies or name in submission.policies.values()


def _episode_files(plan: Grid, folder: Path) -> list[Path]:
    """Return the files of a grid, in its order, by their hashes."""
    known = {file_hash(path): path for path in sorted(folder.glob("*.jsonl")) if path.is_file()}
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


def _code_folder(folder: str) -> str:
    root = Path(folder).absolute()
    return str(root / "src" if (root / "src").is_dir() else root)


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
        text = _declaration(lock)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(file=str(lock), problem=str(error)) from None
    lines = (line.strip() for line in text.splitlines())
    return {_folded(pin[1]): pin[2] for line in lines if (pin := _PIN.match(line)) is not None}


def _declaration(path: Path) -> str:
    """Return the text of a file that declares something. A pipe or a device would hold us up for ever."""
    if path.exists() and not path.is_file():
        raise BadFile(file=str(path), problem="it is not a regular file")
    if path.exists() and path.stat().st_size > _MAX_DECLARATION_BYTES:
        raise BadFile(file=str(path), problem=f"it has more than {_MAX_DECLARATION_BYTES >> 20} MB")
    return path.read_text(encoding="utf-8")


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_declaration(path))
    except OSError as error:
        raise BadFile(file=str(path), problem=str(error.strerror)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(file=str(path), problem=f"it is not TOML: {error}") from None


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def submission_hash(folder: str) -> str:
    """Return a hash of a submission's project, lock file and code, by which a result can name it.

    The code is all that a policy's process can read of it: modules, native ones as well, and whatever else is
    in its packages.
    """
    root = Path(folder)
    code = Path(_code_folder(folder))
    named = [(name, root / name) for name in (PROJECT, *LOCKS) if (root / name).is_file()]
    named += [(f"code/{name}", file) for name, file in code_files(code)]
    digest = hashlib.sha256()
    for name, file in named:
        content = file.read_bytes()
        digest.update(name.encode() + b"\0" + str(len(content)).encode() + b"\0" + content)
    return digest.hexdigest()
