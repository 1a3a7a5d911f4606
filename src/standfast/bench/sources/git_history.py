"""The versions of a file, or of the files below a folder, along a git history; or as files on disk."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from standfast.bench.sources.labelling import ReportSkipped, ignore_skipped
from standfast.errors import BadFile
from standfast.limits import MAX_SOURCE_BYTES

MAX_VERSIONS: Final = 10_000
TOO_LARGE: Final = f"it is larger than {MAX_SOURCE_BYTES} bytes"
NOT_HERE: Final = "its object is missing from this clone; fetch it first"
_LINK: Final = "120000"

Progress = Callable[[int, int], None]
"""Receives how many versions are read, and how many there are."""


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


class SourceVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a source: its label, its files by path, and whether they are the files of a folder."""

    label: str
    files: dict[str, bytes]
    is_folder: bool = False
    unreadable: dict[str, str] = {}
    """Why a file could not be read, by its path."""


def git_versions(
    repository: str,
    path: str,
    *,
    suffixes: Sequence[str] = (),
    most: int = MAX_VERSIONS,
    skipped: ReportSkipped = ignore_skipped,
    progress: Progress = no_progress,
) -> Iterator[SourceVersion]:
    """Yield the versions of a path along a repository's first parents: the last of each day, oldest first.

    Args:
        repository: A repository on disk, with or without a work tree.
        path: A file or a folder in it; ``.`` is the whole repository.
        suffixes: How the names of files below a folder end; others are ignored.
        most: How many versions to use; of more, as many chosen evenly, with the first and the last.
        skipped: Receives each version that is left out, and why.
        progress: Receives how far the import is.

    Raises:
        BadFile: It is no repository, or no commit touches the path.
    """
    form = ("--date=format-local:%Y-%m-%d", "--format=%cd %H")
    log = _git(repository, "log", "--first-parent", "--reverse", *form, "--", path).decode("ascii", "replace")
    last_of_day = sorted(dict(line.split(" ", 1) for line in log.splitlines()).items())
    if not last_of_day:
        raise BadFile(file=f"{repository}: {path}", problem="no commit touches this path")
    chosen = _spread(last_of_day, most)
    blobs: dict[str, bytes] = {}
    for number, (day, commit) in enumerate(chosen):
        progress(number, len(chosen))
        tree = _tree(repository, commit, path, suffixes)
        if not tree:
            skipped(f"{day} {commit[:12]}", "the commit deleted or moved it")
            continue
        unreadable = {name: TOO_LARGE for name, (_, size) in tree.items() if size > MAX_SOURCE_BYTES}
        unreadable |= {name: NOT_HERE for name, (_, size) in tree.items() if size < 0}
        readable = {name: blob for name, (blob, _) in tree.items() if name not in unreadable}
        # Only the last version's content is kept; most files are the same from version to version.
        wanted = dict.fromkeys(readable.values())
        missing = [blob for blob in wanted if blob not in blobs]
        blobs = {blob: blobs[blob] for blob in wanted if blob in blobs} | _read_blobs(repository, missing)
        yield SourceVersion(
            label=day,
            files={name: blobs[blob] for name, blob in readable.items()},
            is_folder=path not in tree,
            unreadable=unreadable,
        )
    progress(len(chosen), len(chosen))


def git_file(repository: str, path: str) -> bytes:
    """Return a file as the newest commit has it."""
    return _git(repository, "show", f"HEAD:{path}")


def file_version(path: str, suffixes: Sequence[str] = ()) -> SourceVersion:
    """Return a file, or the files below a folder, as one version. Its label is the name without suffix."""
    root = Path(path)
    is_folder = os.path.isdir(root)  # noqa: PTH112  # ``Path.is_dir`` raises for a name that is too long.
    names = (
        sorted(file for file in root.rglob("*") if file.suffix in suffixes and file.is_file())
        if is_folder
        else [root]
    )
    if not names:
        raise BadFile(file=path, problem=f"it has no {', '.join(suffixes)} files")
    files, unreadable = {}, {}
    for file in names:
        name = file.relative_to(root).as_posix() if is_folder else file.name
        try:
            if file.stat().st_size > MAX_SOURCE_BYTES:
                unreadable[name] = TOO_LARGE
            else:
                files[name] = file.read_bytes()
        except OSError as error:
            unreadable[name] = str(error.strerror)
    label = root.name if is_folder else root.stem
    return SourceVersion(label=label, files=files, is_folder=is_folder, unreadable=unreadable)


def _spread(versions: list[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    if len(versions) <= most:
        return versions
    last = len(versions) - 1
    return [versions[number * last // max(most - 1, 1)] for number in range(most)]


def _tree(repository: str, commit: str, path: str, suffixes: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the blob and the size of each file of a commit, by its path."""
    listing = _git(repository, "ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--", path)
    found = {}
    for line in listing.decode("utf-8", "replace").split("\0"):
        about, _, name = line.partition("\t")
        fields = about.split()
        is_file = len(fields) == 4 and fields[1] == "blob" and fields[0] != _LINK
        if is_file and (name == path or not suffixes or Path(name).suffix in suffixes):
            # A clone without all objects has no size for some.
            found[name] = (fields[2], int(fields[3]) if fields[3].isdigit() else -1)
    return found


def _read_blobs(repository: str, blobs: Sequence[str]) -> dict[str, bytes]:
    """Return the content of blobs, read by one process."""
    if not blobs:
        return {}
    answer = _git(repository, "cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs).encode())
    found = {}
    at = 0
    for blob in blobs:
        end = answer.index(b"\n", at)
        size = answer[at:end].split()[-1]
        if not size.isdigit():
            raise BadFile(file=repository, problem=f"the object {blob[:12]} is missing; fetch it first")
        found[blob] = answer[end + 1 : end + 1 + int(size)]
        at = end + 1 + int(size) + 1
    return found


def _git(repository: str, *arguments: str, given: bytes = b"") -> bytes:
    try:
        done = subprocess.run(  # noqa: S603  # A list, no shell; the path comes after "--" or a commit.
            ["git", "-C", repository, *arguments],  # noqa: S607  # The user's own git, wherever it is.
            input=given,
            capture_output=True,
            check=False,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TZ": "UTC", "LC_ALL": "C"},
        )
    except OSError as error:
        raise BadFile(file=repository, problem=f"git can't be run: {error}") from None
    if done.returncode:
        raise BadFile(file=repository, problem=done.stderr.decode("utf-8", "replace").strip())
    return done.stdout
