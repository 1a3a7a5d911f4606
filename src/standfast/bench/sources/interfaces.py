"""Interfaces that change: what callers depend on, how two versions differ, and the changes as an episode.

Every format is read into the same shape: operations (of an API), types (of GraphQL), messages (of protobuf)
or objects (of a JSON Schema) with named parameters. One rule says what changed, whatever the format.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.sources.git_history import SourceVersion
from standfast.bench.sources.labelling import DriftEvent, ReportSkipped, ignore_skipped, label_episode
from standfast.clock import seeded
from standfast.errors import BadFile, InvalidValue
from standfast.records.canon import fingerprint

MAX_ENUM_FIELDS: Final = 6
MAX_ENUM_VALUES: Final = 8
BASELINE_SHARE: Final = 0.2
BROKEN_SHARE: Final = 0.6


class ApiOperation(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an operation that its callers depend on."""

    name: str
    params: frozenset[str]
    required: frozenset[str]
    deprecated: bool
    enums: dict[str, frozenset[str]]
    """Allowed values by field, in lower case; ``in.`` fields are of the request, ``out.`` of the response."""
    types: dict[str, str] = {}
    """The types of parameters, in formats whose callers depend on them."""
    deprecated_params: frozenset[str] = frozenset()


def observation_of(operation: ApiOperation | None, name: str, version: str) -> dict[str, Any]:
    """Return the observation of an operation's state; None is an operation that was removed."""
    shown = operation or ApiOperation(
        name=name, params=frozenset(), required=frozenset(), deprecated=True, enums={}
    )
    fields = sorted(shown.enums)[:MAX_ENUM_FIELDS]
    more: dict[str, Any] = {"types": dict(sorted(shown.types.items()))} if shown.types else {}
    if shown.deprecated_params:
        more["deprecated_params"] = sorted(shown.deprecated_params)
    return {
        "api": name,
        "params": sorted(shown.params),
        "required": sorted(shown.required),
        "deprecated": shown.deprecated,
        "enums": {field: _shortened(sorted(shown.enums[field])) for field in fields},
        "status": "active" if operation is not None else "removed",
        "version": version,
        **more,
    }


def _shortened(values: list[str]) -> list[str]:
    return values if len(values) <= MAX_ENUM_VALUES else [*values[:6], f"+{len(values) - 6} more"]


def operation_changes(
    old: dict[str, ApiOperation], new: dict[str, ApiOperation]
) -> dict[str, tuple[str, ...]]:
    """Return the kinds of change by operation: existing operations by name, then removed ones."""
    found = {}
    for identity in sorted(new, key=lambda identity: new[identity].name):
        kinds = kinds_between(old[identity], new[identity]) if identity in old else ("endpoint_added",)
        if kinds:
            found[identity] = kinds
    removed = sorted(set(old) - set(new), key=lambda identity: old[identity].name)
    return found | dict.fromkeys(removed, ("endpoint_removed",))


def kinds_between(old: ApiOperation, new: ApiOperation) -> tuple[str, ...]:
    """Return what changed in one operation.

    params_removed          a parameter was removed
    required_param_added    a new parameter is required
    optional_params_added   a new parameter is optional
    param_made_required     an existing parameter became required
    required_relaxed        a required parameter became optional
    type_changed            an existing parameter no longer has a type that it had
    type_widened            an existing parameter has more types than before
    deprecated_on, _off     the flag was set or cleared, for the operation or for an existing parameter
    request_enum_…          an enumerated field of the request lost or gained a value
    response_enum_…         the same in the response
    """
    both = old.params & new.params
    added = new.params - old.params
    set_now = new.deprecated_params - old.deprecated_params
    cleared = old.deprecated_params - new.deprecated_params
    found = {
        "params_removed": bool(old.params - new.params),
        "required_param_added": bool(added & new.required),
        "optional_params_added": bool(added - new.required),
        "param_made_required": bool(both & new.required - old.required),
        "required_relaxed": bool(both & old.required - new.required),
        "type_changed": any(not _accepts(old, new, name) for name in both),
        "type_widened": any(old.types.get(name) != new.types.get(name) for name in both),
        "deprecated_on": (new.deprecated and not old.deprecated) or bool(both & set_now),
        "deprecated_off": (old.deprecated and not new.deprecated) or bool(both & cleared),
    }
    found["type_widened"] &= not found["type_changed"]
    for side, name in (("in.", "request_enum"), ("out.", "response_enum")):
        fields = [field for field in old.enums if field in new.enums and field.startswith(side)]
        found[f"{name}_removed"] = any(old.enums[field] - new.enums[field] for field in fields)
        found[f"{name}_added"] = any(new.enums[field] - old.enums[field] for field in fields)
    return tuple(kind for kind, is_present in found.items() if is_present)


def _accepts(old: ApiOperation, new: ApiOperation, name: str) -> bool:
    """Return whether a parameter still has each type that it had. No type is any type."""
    before, after = old.types.get(name, ""), new.types.get(name, "")
    return not after or (bool(before) and set(before.split(" | ")) <= set(after.split(" | ")))


class InterfaceVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an interface: its label, and its operations by identities that survive renaming."""

    label: str
    operations: dict[str, ApiOperation]


ReadInterface = Callable[[bytes, str, str], dict[str, ApiOperation]]
"""Reads the operations of a file from its content, its path, and the prefix of the operations' names."""


def interface_versions(
    sources: Iterable[SourceVersion],
    read: ReadInterface,
    *,
    source: str,
    by_file: bool = True,
    skipped: ReportSkipped | None = None,
) -> Iterator[InterfaceVersion]:
    """Yield each version with its operations. A file that is the same as before is not read again.

    Args:
        sources: The versions of the files, oldest first.
        read: Reads one file.
        source: The prefix of the operations' names.
        by_file: Whether names begin with the file's path if a version is a folder.
        skipped: Receives each file that can't be read, and why; it counts as unchanged. Without it: an error.
    """
    parsed: dict[str, tuple[bytes, dict[str, ApiOperation]]] = {}
    begun = False
    for version in sources:
        several = by_file and version.is_folder
        now: dict[str, tuple[bytes, dict[str, ApiOperation]]] = {}
        for path, why in version.unreadable.items():
            if skipped is None:
                raise BadFile(file=path, problem=why)
            skipped(f"{version.label} {path}", why)
            if path in parsed:
                now[path] = parsed[path]
        for path, content in version.files.items():
            known = parsed.get(path)
            if known is not None and known[0] == content:
                now[path] = known
                continue
            prefix = f"{source}/{path.rpartition('.')[0]}" if several else source
            try:
                now[path] = (content, read(content, path, prefix))
            except BadFile as error:
                if skipped is None:
                    raise
                skipped(f"{version.label} {path}", error.facts["problem"])
                # The same content is not read, or reported, again.
                now[path] = (content, known[1] if known is not None else {})
        parsed = now
        merged = {name: one for _, found in now.values() for name, one in found.items()}
        # Before the first file that can be read there is nothing to compare with.
        begun = begun or bool(merged)
        if begun:
            yield InterfaceVersion(label=version.label, operations=merged)


def interface_episode(
    versions: Iterable[InterfaceVersion],
    *,
    source: str,
    mode: str = "openapi",
    redundancy: float = 0.0,
    seed: int = 0,
    skipped: ReportSkipped = ignore_skipped,
) -> Episode:
    """Return what changed from version to version as one stream.

    Each changed operation is one step that shows its new state, not the difference. The stream starts with
    some unchanged operations of the first version, one for every five changes. A version with fewer than 60 %
    of the last one's operations is considered broken; it is skipped and reported.

    Args:
        versions: The versions, oldest first.
        source: The prefix of the operations' names.
        mode: The format, for the labels.
        redundancy: How many unchanged observations of earlier operations are added for each change.
        seed: For the choice of those.
        skipped: Receives the label of each version that is left out, and why.
    """
    stream = _Stream(source, skipped)
    for version in versions:
        stream.advance(version)
    if not stream.events:
        raise InvalidValue(what="Episode", problem="nothing changed between these versions")
    events = stream.baselines() + list(_with_repetitions(stream.events, redundancy, seed))
    episode_id = fingerprint([source, seed])[:12]
    return label_episode(events, source=source, mode=mode, episode_id=episode_id, halve_superseded=True)


class _Stream:
    """The versions so far: the last state of each operation, and all changes."""

    def __init__(self, source: str, skipped: ReportSkipped) -> None:
        self.source = source
        self._skipped = skipped
        self.events: list[DriftEvent] = []
        self._first: tuple[str, dict[str, ApiOperation]] | None = None
        self._last: dict[str, ApiOperation] = {}
        self._names: dict[str, str] = {}
        self._shown_at: dict[str, int] = {}
        self._number = 0

    def advance(self, version: InterfaceVersion) -> None:
        """Add what changed in a version."""
        new = version.operations
        if self._first is None:
            self._first, self._last = (version.label, new), new
            self._names = {identity: operation.name for identity, operation in new.items()}
            return
        if len(new) < BROKEN_SHARE * len(self._last):
            why = (
                f"it has {len(new)} operations, the version before it {len(self._last)}; it is considered"
                " broken"
            )
            self._skipped(version.label, why)
            return
        self._number += 1
        for identity, kinds in operation_changes(self._last, new).items():
            known = new.get(identity) or self._last[identity]
            # A path keeps its first name, even if its placeholders are renamed.
            name = self._names.setdefault(identity, known.name)
            distance = self._number - self._shown_at.get(identity, self._number)
            self._shown_at[identity] = self._number
            observation = observation_of(new.get(identity), name, version.label)
            self.events.append(
                DriftEvent(
                    observation=observation, kinds=kinds, version_distance=distance, date=version.label
                )
            )
        self._last = new

    def baselines(self) -> list[DriftEvent]:
        """Return some operations of the first version."""
        assert self._first is not None, "there are events, so there was a first version"
        label, first = self._first
        count = min(len(first), round(BASELINE_SHARE * len(self.events)))
        chosen = sorted(first, key=lambda identity: fingerprint([self.source, identity]))[:count]
        return [
            DriftEvent(
                observation=observation_of(first[identity], first[identity].name, label),
                kinds=("baseline",),
                date=label,
            )
            for identity in sorted(chosen)
        ]


def _with_repetitions(events: list[DriftEvent], redundancy: float, seed: int) -> Iterator[DriftEvent]:
    random = seeded(seed)
    shown: dict[str, dict[str, Any]] = {}
    due = 0.0
    for event in events:
        yield event
        shown[event.observation["api"]] = event.observation
        due += redundancy
        while due >= 1:
            due -= 1
            names = list(shown)
            again = shown[names[int(random.random() * len(names))]]
            yield DriftEvent(observation=again, kinds=("unchanged",), date=event.date)
