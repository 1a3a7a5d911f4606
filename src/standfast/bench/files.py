"""Episode files: one episode a line, read strictly, written the same to the byte, frozen by a manifest of hashes."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from standfast.bench.episodes import Episode
from standfast.errors import BadEpisode, BadFile, InvalidValue
from standfast.limits import MAX_EPISODE_BYTES

MANIFEST: Final = "MANIFEST.json"
_ESCAPE: Final = re.compile(rb"\\.")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an episode stands: its file, the line, and the bytes of that line."""

    file: str
    line: int
    offset: int
    size: int


def load_jsonl(file: str | os.PathLike[str]) -> list[Episode]:
    """Every episode of a file. A line that is none is a ``BadEpisode`` with file, line and reason."""
    return list(iter_jsonl(file))


def iter_jsonl(file: str | os.PathLike[str]) -> Iterator[Episode]:
    """The episodes of a file, one at a time, so that only one is ever held."""
    for place in places(file):
        yield read_episode(place)


def places(file: str | os.PathLike[str]) -> list[Place]:
    """Where the episodes of a file stand; blank lines are passed over. Nothing is parsed yet."""
    name = os.fspath(file)
    found = []
    with _opened(name) as lines:
        offset = number = 0
        while line := lines.readline(MAX_EPISODE_BYTES + 1):
            number += 1
            if len(line) > MAX_EPISODE_BYTES:
                _refuse(name, number, f"the line is longer than {MAX_EPISODE_BYTES} bytes")
            if line.strip():
                found.append(Place(file=name, line=number, offset=offset, size=len(line)))
            offset += len(line)
    if not found:
        raise BadFile(file=name, problem="there is no episode in it")
    return found


def read_episode(place: Place) -> Episode:
    """The episode at a place."""
    with _opened(place.file) as lines:
        lines.seek(place.offset)
        line = lines.read(place.size)
    try:
        return Episode.from_json(_parse(line))
    except InvalidValue as error:
        _refuse(place.file, place.line, error.facts["problem"])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse(place.file, place.line, f"it is no JSON in UTF-8: {error}")
    except RecursionError:
        _refuse(place.file, place.line, "it is nested too deeply")


def line_of(episode: Episode) -> bytes:
    """The line that holds an episode: keys in order, Python's own separators, so that files can be compared by hash."""
    try:
        return json.dumps(episode.as_json(), sort_keys=True, allow_nan=False).encode("ascii") + b"\n"
    except (TypeError, ValueError) as error:
        raise InvalidValue(what="Episode", problem=f"it is no JSON: {error}") from None


def write_jsonl(file: str | os.PathLike[str], episodes: Iterable[Episode]) -> int:
    """Write episodes, one a line; the file appears whole or not at all. Gives their number."""
    target = Path(file)
    half = target.with_name(target.name + ".part")
    count = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with half.open("wb") as lines:
            for count, episode in enumerate(episodes, 1):  # noqa: B007  # The last number is what is asked for.
                lines.write(line_of(episode))
        half.replace(target)
    except OSError as error:
        raise BadFile(file=os.fspath(file), problem=str(error)) from None
    return count


def file_hash(file: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes."""
    with _opened(os.fspath(file)) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def manifest_of(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What the episode files of a folder are, with the hash of each; ``MANIFEST.json`` holds it."""
    names = sorted(path.name for path in Path(folder).glob("*.jsonl"))
    if not names:
        raise BadFile(file=os.fspath(folder), problem="there is no .jsonl file in it")
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
    """What is not as the folder's manifest says: files that are missing, changed, or not named in it."""
    path = Path(folder) / MANIFEST
    try:
        told = json.loads(path.read_bytes())
        named = {entry["file"]: entry["sha256"] for entry in told["files"]}
    except OSError as error:
        raise BadFile(file=str(path), problem=str(error.strerror)) from None
    except (ValueError, KeyError, TypeError):
        raise BadFile(file=str(path), problem="it is no manifest; write one with --write") from None
    present = {file.name for file in Path(folder).glob("*.jsonl")}
    problems = [f"{name} is missing" for name in sorted(set(named) - present)]
    problems += [f"{name} is not in the manifest" for name in sorted(present - set(named))]
    for name in sorted(present & set(named)):
        if file_hash(Path(folder) / name) != named[name]:
            problems.append(f"{name} has changed")
    return problems


def _opened(name: str) -> BufferedReader:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise BadFile(file=name, problem=str(error.strerror)) from None


def _parse(line: bytes) -> Any:
    """The value of a line. A key that stands twice in one object is lost in decoding, which counting strings shows."""
    value = msgspec.json.decode(line)
    if _quotes(line) != _quotes(msgspec.json.encode(value)):
        raise InvalidValue(what="Episode", problem="an object holds a key twice")
    return value


def _quotes(text: bytes) -> int:
    """How many quotation marks stand around strings, those inside of them not counted."""
    return (_ESCAPE.sub(b"", text) if b"\\" in text else text).count(b'"')


def _refuse(file: str, line: int, problem: str) -> NoReturn:
    raise BadEpisode(file=file, line=line, problem=problem)
