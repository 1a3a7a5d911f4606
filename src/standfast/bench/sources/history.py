"""Episodes from the history of an API description: a list of versions, or a file's history in a git repository."""

import subprocess
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.sources.labelling import Touch, labelled
from standfast.bench.sources.openapi import Operation, observation_of, operations, parse_description
from standfast.bench.sources.openapi_diff import changes
from standfast.canon import fingerprint
from standfast.clock import seeded
from standfast.errors import BadFile, InvalidValue

BASELINE_SHARE: Final = 0.2
BROKEN_SHARE: Final = 0.6


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a description, and what it is called."""

    label: str
    document: dict[str, Any]


def openapi_episode(
    versions: Iterable[Version],
    *,
    source: str,
    with_host: bool = False,
    redundancy: float = 0.0,
    seed: int = 0,
) -> Episode:
    """What changed from version to version, as one stream.

    Each changed operation is one step that shows its new state, never the difference. Before the first change stand some
    operations as they were, one for every five changes; ``redundancy`` adds that many unchanged re-observations for each
    change, of operations that were shown before. A version with fewer than 60 % of the last one's operations is taken for
    a broken file and passed over.
    """
    stream = _Stream(source)
    for version in versions:
        stream.advance(version, operations(version.document, source=source, with_host=with_host))
    if not stream.touches:
        raise InvalidValue(what="Episode", problem="nothing changed between these versions")
    touches = stream.baselines() + list(_with_repetitions(stream.touches, redundancy, seed))
    return labelled(
        touches,
        source=source,
        mode="openapi",
        episode_id=fingerprint([source, seed])[:12],
        halve_superseded=True,
    )


class _Stream:
    """The versions so far: the last state of each operation, and the changes that led there."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.touches: list[Touch] = []
        self._first: tuple[str, dict[str, Operation]] | None = None
        self._last: dict[str, Operation] = {}
        self._names: dict[str, str] = {}
        self._shown_at: dict[str, int] = {}
        self._number = 0

    def advance(self, version: Version, new: dict[str, Operation]) -> None:
        if self._first is None:
            self._first, self._last = (version.label, new), new
            self._names = {identity: operation.name for identity, operation in new.items()}
            return
        if len(new) < BROKEN_SHARE * len(self._last):
            return
        self._number += 1
        for identity, kinds in changes(self._last, new).items():
            known = new.get(identity) or self._last[identity]
            # A path keeps the name under which it was first seen, whatever its placeholders are called later.
            name = self._names.setdefault(identity, known.name)
            distance = self._number - self._shown_at.get(identity, self._number)
            self._shown_at[identity] = self._number
            observation = observation_of(new.get(identity), name, version.label)
            self.touches.append(
                Touch(observation=observation, kinds=kinds, version_distance=distance, date=version.label)
            )
        self._last = new

    def baselines(self) -> list[Touch]:
        assert self._first is not None, "there are touches, so there was a first version"
        label, first = self._first
        count = min(len(first), round(BASELINE_SHARE * len(self.touches)))
        chosen = sorted(first, key=lambda identity: fingerprint([self.source, identity]))[:count]
        return [
            Touch(
                observation=observation_of(first[identity], first[identity].name, label),
                kinds=("baseline",),
                date=label,
            )
            for identity in sorted(chosen)
        ]


def _with_repetitions(touches: list[Touch], redundancy: float, seed: int) -> Iterator[Touch]:
    dice = seeded(seed)
    shown: dict[str, dict[str, Any]] = {}
    owed = 0.0
    for touch in touches:
        yield touch
        shown[touch.observation["api"]] = touch.observation
        owed += redundancy
        while owed >= 1:
            owed -= 1
            names = list(shown)
            again = shown[names[int(dice.random() * len(names))]]
            yield Touch(observation=again, kinds=("unchanged",), date=touch.date)


def versions_from_git(repository: str, path: str, *, most: int = 10_000) -> Iterator[Version]:
    """The versions of a file along a repository's first parents, the last of each day, oldest first."""
    log = _git(
        repository,
        "log",
        "--first-parent",
        "--reverse",
        "--date=format-local:%Y-%m-%d",
        "--format=%H %cd",
        "--",
        path,
    )
    last_of_day = {}
    for line in log.decode("ascii", "replace").splitlines():
        commit, _, day = line.partition(" ")
        last_of_day[day] = commit
    if not last_of_day:
        raise BadFile(file=f"{repository}: {path}", problem="no commit touches this path")
    for day, commit in sorted(last_of_day.items())[:most]:
        try:
            content = _git(repository, "show", f"{commit}:{path}")
        except BadFile:
            # The commit that deleted the file, or moved it.
            continue
        yield Version(label=day, document=parse_description(content, f"{commit[:12]}:{path}"))


def _git(repository: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603  # A list, no shell; the path comes after "--" or a commit.
            ["git", "-C", repository, *arguments],  # noqa: S607  # The user's own git, wherever it is.
            capture_output=True,
            check=False,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TZ": "UTC", "LC_ALL": "C"},
        )
    except OSError as error:
        raise BadFile(file=repository, problem=f"git can't be run: {error}") from None
    if done.returncode:
        raise BadFile(file=repository, problem=done.stderr.decode("utf-8", "replace").strip())
    return done.stdout
