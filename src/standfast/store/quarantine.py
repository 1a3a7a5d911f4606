"""Which versions of records are in quarantine, as of any snapshot.

A row ``quarantined/scope//name`` says which versions of a record are hidden, by the act that hid them. What a
snapshot shows under a key is the newest version that is not hidden. So hiding a version brings back the one
before it, and hiding the end of a record (an EXPIRE) brings the record back.
"""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from standfast.limits import MAX_QUARANTINE_STATES, SCAN_PAGE_RECORDS
from standfast.records.canon import parse
from standfast.records.rows import RowKind
from standfast.records.scopes import key_parts, prefix_of, scoped_key
from standfast.records.vocabulary import ActionType
from standfast.store.commit import Commit
from standfast.store.protocol import Version, VersionQuery

_ACTS: Final = prefix_of(RowKind.QUARANTINE)
_NOTES: Final = prefix_of(RowKind.QUARANTINED)
ReadVersions = Callable[[VersionQuery], list[Version]]


class HiddenVersions(NamedTuple):
    """The versions of a namespace that are hidden from one snapshot on, until the quarantine changes again.

    Attributes:
        since: The snapshot that changed it last; 0 if nothing was ever in quarantine.
        versions: The snapshots of the hidden versions, by key.
    """

    since: int
    versions: Mapping[str, frozenset[int]]

    def hides(self, version: Version) -> bool:
        """Whether a version is hidden."""
        return version.memory_snapshot_id in self.versions.get(version.key, ())


NOTHING_HIDDEN: Final = HiddenVersions(0, {})


def hidden_by_note(version: Version) -> dict[str, set[int]]:
    """The versions that a row of kind ``quarantined`` hides: snapshots by key."""
    parts = key_parts(version.key)
    assert parts is not None, "such a row is in a scope"
    found: dict[str, set[int]] = {}
    acts: dict[str, dict[str, list[int]]] = parse(version.content or b"{}").get("hides", {})
    for bands in acts.values():
        for band, snapshots in bands.items():
            found.setdefault(scoped_key(band, parts.scope, parts.name), set()).update(snapshots)
    return found


def shown_of(versions: Sequence[Version], hidden: HiddenVersions) -> Version | None:
    """The newest of the versions of one key, oldest first, that is not hidden; None if there is none."""
    return next((one for one in reversed(versions) if not hidden.hides(one)), None)


class _Changes:
    """The snapshots that changed the quarantine of a namespace, ascending, up to the snapshot ``through``."""

    __slots__ = ("snapshots", "states", "through")

    def __init__(self) -> None:
        self.through = 0
        self.snapshots: list[int] = []
        self.states: OrderedDict[int, HiddenVersions] = OrderedDict()


class QuarantineLookup:
    """Finds what is hidden as of a snapshot. Threads may share it.

    A namespace without quarantine costs one look-up for each new head, and none for commits of this process.
    """

    def __init__(self, read: ReadVersions) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._of: dict[str, _Changes] = {}

    def at(self, namespace: str, snapshot: int) -> HiddenVersions:
        """What is hidden as of a snapshot that exists."""
        known = self._of.get(namespace)
        if known is not None and snapshot <= known.through and not known.snapshots:
            return NOTHING_HIDDEN
        with self._lock:
            known = self._of.setdefault(namespace, _Changes())
            if snapshot > known.through:
                self._follow(namespace, known, snapshot)
            at = bisect_right(known.snapshots, snapshot)
            if not at:
                return NOTHING_HIDDEN
            changed = known.snapshots[at - 1]
            state = known.states.pop(changed, None) or self._state(namespace, changed)
            known.states[changed] = state
            if len(known.states) > MAX_QUARANTINE_STATES:
                known.states.popitem(last=False)
            return state

    def replaced(self, namespace: str, newest: Iterable[Version], at: int) -> dict[str, Version]:
        """For each of some newest versions as of a snapshot that is hidden, the one that is shown in its
        place; itself without its content if there is none.
        """
        hidden = self.at(namespace, at)
        covered = {one.key: one for one in newest if hidden.hides(one)} if hidden.versions else {}
        if not covered:
            return {}
        versions = self._read(VersionQuery(namespace=namespace, keys=sorted(covered)))
        found = dict[str, Version]()
        for key, group in groupby(versions, key=lambda one: one.key):
            shown = shown_of([one for one in group if one.memory_snapshot_id <= at], hidden)
            ended = replace(covered[key], action=ActionType.EXPIRE, fingerprint=None, content=None)
            found[key] = ended if shown is None else shown
        return found

    def shown(self, version: Version, at: int) -> Version:
        """The newest version of a key as of a snapshot, or what is shown in its place."""
        return self.replaced(version.namespace, [version], at).get(version.key, version)

    def saw(self, commit: Commit, snapshot: int) -> None:
        """Note a commit of this process, so that it need not be looked up."""
        with self._lock:
            for namespace, known in self._of.items():
                if known.through == snapshot - 1:
                    changes = any(
                        write.namespace == namespace and write.key.startswith(_ACTS)
                        for write in commit.writes
                    )
                    known.snapshots += [snapshot] if changes else []
                    known.through = snapshot

    def _follow(self, namespace: str, known: _Changes, snapshot: int) -> None:
        # The first look is by keys: by snapshots it would go through the whole store.
        since = known.through or None
        query = VersionQuery(namespace=namespace, prefix=_ACTS, since=since, at=snapshot, with_content=False)
        found = {one.memory_snapshot_id for one in self._read(query)}
        known.snapshots += sorted(found)
        known.through = snapshot

    def _state(self, namespace: str, at: int) -> HiddenVersions:
        hidden: dict[str, set[int]] = {}
        after = ""
        while True:
            query = VersionQuery(
                namespace=namespace,
                prefix=_NOTES,
                after=(namespace, after),
                at=at,
                newest=True,
                limit=SCAN_PAGE_RECORDS,
            )
            page = self._read(query)
            for version in page:
                if version.content is not None:
                    for key, snapshots in hidden_by_note(version).items():
                        hidden.setdefault(key, set()).update(snapshots)
            if len(page) < SCAN_PAGE_RECORDS:
                return HiddenVersions(at, {key: frozenset(found) for key, found in hidden.items()})
            after = page[-1].key


def note_of(
    key: str, source: Mapping[str, Any] | None, hides: Mapping[str, Mapping[str, Collection[int]]]
) -> dict[str, Any]:
    """The content of a row of kind ``quarantined``.

    Args:
        key: The key of the record in its first band.
        source: The record's source, by which ``forget`` finds the row.
        hides: By act, the snapshots of the hidden versions in each band.
    """
    acts = {
        act: {band: sorted(snapshots) for band, snapshots in sorted(bands.items())}
        for act, bands in sorted(hides.items())
    }
    return {"key": key, "source": None if source is None else dict(source), "hides": acts}
