"""Episodes: streams of steps that policies see, with labels that they don't, and the files that hold them.

A policy is given steps one by one; the labels stay with the benchmark, which grades with them afterwards. No
step has a reference to its labels. A file has one episode a line; it is read strictly, written
deterministically, and frozen by a manifest of hashes.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cached_property
from io import BufferedReader, BufferedWriter
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import msgspec

from standfast.errors import BadFile, InvalidValue
from standfast.limits import MAX_EPISODE_BYTES, MAX_EPISODE_STEPS
from standfast.records.conversion import converted
from standfast.records.vocabulary import Step

MANIFEST: Final = "MANIFEST.json"
_ESCAPE: Final = re.compile(rb"\\.")

_FIELDS: Final = frozenset(("steps", "labels"))
_Priority = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _LabelFields(msgspec.Struct, frozen=True, kw_only=True):
    """The labels that the benchmark reads. Others are kept as they are."""

    critical_steps: list[int] = []
    breaking_changes: list[int] = []
    total_drift_events: Annotated[int, msgspec.Meta(ge=0)] | None = None
    utility_by_step: dict[str, int | float] = {}
    hints: list[str] = []


class Labels:
    """The ground truth of an episode: which steps are critical, and the utility of each."""

    def __init__(self, raw: dict[str, Any], timesteps: frozenset[int]) -> None:
        try:
            fields = converted(raw, _LabelFields)
        except msgspec.ValidationError as error:
            raise InvalidValue(what="Episode", problem=f"its labels are invalid: {error}") from None
        for name in ("critical_steps", "breaking_changes"):
            if not timesteps.issuperset(getattr(fields, name)):
                raise InvalidValue(
                    what="Episode", problem=f"{name} must be a list of timesteps of the episode"
                )
        self.raw = raw
        self.critical_steps = frozenset(fields.critical_steps)
        drift = fields.total_drift_events
        self.total_drift_events = len(self.critical_steps) if drift is None else drift
        self.utility_by_step = _utilities(fields.utility_by_step, timesteps)
        self.hints = frozenset(fields.hints)
        """Keys of metadata that are derived from labels, so that only the privileged track sees them."""

    @cached_property
    def unit(self) -> int:
        """The number that makes all utilities whole when they are multiplied by it.

        A utility is read as the decimal that it is written as, so that sums and comparisons are exact.
        """
        return math.lcm(*(Fraction(repr(u)).denominator for u in set(self.utility_by_step.values())))

    @cached_property
    def worth(self) -> dict[int, int]:
        """The utility of each labelled step as a whole number of units."""
        unit = self.unit
        exact = {u: int(Fraction(repr(u)) * unit) for u in set(self.utility_by_step.values())}
        return {t: exact[u] for t, u in self.utility_by_step.items()}


class Episode:
    """A stream of steps and its labels, validated: timesteps grow, and labels name existing timesteps."""

    def __init__(self, steps: tuple[Step, ...], labels: dict[str, Any]) -> None:
        if not steps:
            raise InvalidValue(what="Episode", problem="it has no steps")
        if len(steps) > MAX_EPISODE_STEPS:
            raise InvalidValue(what="Episode", problem=f"it has more than {MAX_EPISODE_STEPS} steps")
        for before, after in pairwise(steps):
            if after.t <= before.t:
                said = "is given twice" if after.t == before.t else f"comes after {before.t}"
                raise InvalidValue(what="Episode", problem=f"timestep {after.t} {said}; t must grow")
        self.steps = steps
        self.labels = Labels(labels, frozenset(step.t for step in steps))

    @classmethod
    def from_json(cls, plain: object) -> "Episode":
        """Read ``{"steps": […], "labels": {…}}``. Other fields are refused."""
        if not (isinstance(plain, dict) and set(plain) == _FIELDS):
            raise InvalidValue(
                what="Episode", problem='it must be an object with the fields "steps" and "labels" only'
            )
        if not (isinstance(plain["steps"], list) and isinstance(plain["labels"], dict)):
            raise InvalidValue(what="Episode", problem="steps must be a list and labels an object")
        return cls(tuple(_step(number, step) for number, step in enumerate(plain["steps"])), plain["labels"])

    def as_json(self) -> dict[str, Any]:
        """Return the episode as plain JSON."""
        return {"steps": [step.as_json() for step in self.steps], "labels": self.labels.raw}


def _step(number: int, plain: object) -> Step:
    try:
        step = Step.from_json(plain)
        converted(step.metadata.get("priority", 0), _Priority)
    except InvalidValue as error:
        problem = f"step {number}: {error.facts['what']}: {error.facts['problem']}"
        raise InvalidValue(what="Episode", problem=problem) from None
    except msgspec.ValidationError as error:
        problem = f"step {number}: priority must be a number from 0 to 1: {error}"
        raise InvalidValue(what="Episode", problem=problem) from None
    return step


def _utilities(values: dict[str, int | float], timesteps: frozenset[int]) -> dict[int, float]:
    """Return utilities by timestep. Keys are strings in JSON; a timestep has one spelling."""
    names = {str(t): t for t in timesteps}
    for name, utility in values.items():
        if name not in names:
            problem = f"utility_by_step names {name!r:.40}, which is not a timestep of the episode"
            raise InvalidValue(what="Episode", problem=problem)
        if not math.isfinite(utility):
            raise InvalidValue(
                what="Episode", problem=f"the utility of timestep {name} must be a finite number"
            )
    return {names[name]: utility for name, utility in values.items()}


class EpisodeLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where an episode is stored: its file, the line, and the bytes of that line."""

    file: str
    line: int
    offset: int
    size: int


def load_jsonl(file: str | os.PathLike[str]) -> list[Episode]:
    """Return all episodes of a file.

    Raises:
        BadFile: A line is not a valid episode; file, line and reason are named.
        BadFile: The file can't be read, or has no episodes.
    """
    return list(iter_jsonl(file))


def iter_jsonl(file: str | os.PathLike[str]) -> Iterator[Episode]:
    """Iterate over the episodes of a file, with one in memory at a time."""
    for location in locate_episodes(file):
        yield read_episode(location)


def locate_episodes(file: str | os.PathLike[str]) -> list[EpisodeLocation]:
    """Return where the episodes of a file are, without parsing them. Blank lines are ignored."""
    name = os.fspath(file)
    found = []
    with _open(name) as lines:
        offset = number = 0
        while line := lines.readline(MAX_EPISODE_BYTES + 1):
            number += 1
            if len(line) > MAX_EPISODE_BYTES:
                _refuse(name, number, f"the line is longer than {MAX_EPISODE_BYTES} bytes")
            if line.strip():
                found.append(EpisodeLocation(file=name, line=number, offset=offset, size=len(line)))
            offset += len(line)
    if not found:
        raise BadFile(file=name, problem="it has no episodes")
    return found


def read_episode(location: EpisodeLocation) -> Episode:
    """Read one episode."""
    with _open(location.file) as lines:
        lines.seek(location.offset)
        line = lines.read(location.size)
    try:
        return Episode.from_json(_parse(line))
    except InvalidValue as error:
        _refuse(location.file, location.line, error.facts["problem"])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse(location.file, location.line, f"it is not JSON in UTF-8: {error}")
    except RecursionError:
        _refuse(location.file, location.line, "it is nested too deeply")


def episode_line(episode: Episode) -> bytes:
    """Return an episode as a line of a file, with sorted keys, so that files can be compared by hash."""
    try:
        return json.dumps(episode.as_json(), sort_keys=True, allow_nan=False).encode("ascii") + b"\n"
    except (TypeError, ValueError) as error:
        raise InvalidValue(what="Episode", problem=f"it is not JSON: {error}") from None


def write_jsonl(file: str | os.PathLike[str], episodes: Iterable[Episode]) -> int:
    """Write episodes, one a line, and return their number. The file appears complete or not at all."""
    count = 0
    with atomic_file(Path(file)) as lines:
        for count, episode in enumerate(episodes, 1):  # noqa: B007  # The last number is the result.
            lines.write(episode_line(episode))
    return count


@contextmanager
def atomic_file(path: Path) -> Iterator[BufferedWriter]:
    """Open a file for writing that appears under its name only when the block ends without an error."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise BadFile(file=str(path), problem=str(error)) from None


def file_hash(file: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file."""
    with _open(os.fspath(file)) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def manifest_of(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the manifest of a folder: its episode files with their sizes and hashes."""
    names = sorted(path.name for path in Path(folder).glob("*.jsonl"))
    if not names:
        raise BadFile(file=os.fspath(folder), problem="it has no .jsonl files")
    files = []
    for name in names:
        path = Path(folder) / name
        lengths = [len(episode.steps) for episode in iter_jsonl(path)]
        files.append(
            {
                "file": name,
                "bytes": path.stat().st_size,
                "sha256": file_hash(path),
                "episodes": len(lengths),
                "steps": sum(lengths),
            }
        )
    return {"files": files}


def check_manifest(folder: str | os.PathLike[str]) -> list[str]:
    """Compare a folder with its ``MANIFEST.json``: one message per missing, changed or unlisted file."""
    path = Path(folder) / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        named = {entry["file"]: entry["sha256"] for entry in manifest["files"]}
    except OSError as error:
        raise BadFile(file=str(path), problem=str(error.strerror)) from None
    except (ValueError, KeyError, TypeError):
        raise BadFile(file=str(path), problem="it is not a manifest; write one with --write") from None
    present = {file.name for file in Path(folder).glob("*.jsonl")}
    problems = [f"{name} is missing" for name in sorted(set(named) - present)]
    problems += [f"{name} is not in the manifest" for name in sorted(present - set(named))]
    for name in sorted(present & set(named)):
        if file_hash(Path(folder) / name) != named[name]:
            problems.append(f"{name} has changed")
    return problems


def _open(name: str) -> BufferedReader:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise BadFile(file=name, problem=str(error.strerror)) from None


def _parse(line: bytes) -> Any:
    """Decode a line. A duplicate key is lost in decoding; comparing the number of strings reveals it."""
    value = msgspec.json.decode(line)
    if _quotes(line) != _quotes(msgspec.json.encode(value)):
        raise InvalidValue(what="Episode", problem="an object has the same key twice")
    return value


def _quotes(text: bytes) -> int:
    """Count the quotation marks that delimit strings, without those inside of strings."""
    return (_ESCAPE.sub(b"", text) if b"\\" in text else text).count(b'"')


def _refuse(file: str, line: int, problem: str) -> NoReturn:
    raise BadFile("bad_episode", file=file, line=line, problem=problem)
