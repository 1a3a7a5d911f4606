"""Snapshots of Standfast's own store as sources: read from the store each time, or kept in memory as the store grows.

A record of the store is the line that ``standfast export`` writes for it, so a snapshot and its export give the same
selection. The VOID band holds rejected content and is never recalled.
"""

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from standfast.errors import NoSuchSnapshot
from standfast.limits import MAX_FOLLOWED_SNAPSHOTS
from standfast.recall.filters import Choice, RecordFacts
from standfast.recall.jsonl import Source
from standfast.recall.records import BadLine, Candidate, Fault, bad_line, read_block
from standfast.scopes import SHARED, prefix_of, scoped_key
from standfast.store.audit import verified
from standfast.store.protocol import Version
from standfast.store.records import record_line
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Band

PATH_PREFIX: Final = "standfast:"


class _Banded(msgspec.Struct):
    band: str = Band.LEDGER


_decode_facts: Final = msgspec.json.Decoder(RecordFacts).decode
_decode_band: Final = msgspec.json.Decoder(_Banded).decode


def path_of(namespace: str, band: Band | None = None, scope: str = SHARED) -> str:
    """The store path of a namespace, of one band of it, or of one scope of a band, in a package."""
    place = "" if scope == SHARED else f"/{scope}"
    return PATH_PREFIX + namespace + place + (f"/{band}" if band else "")


def key_at(namespace: str, store_path: str, memory_id: str) -> str:
    """The key of the record behind an item of a package: ``path_of`` read back."""
    scope, _, band = store_path.removeprefix(f"{PATH_PREFIX}{namespace}/").rpartition("/")
    return scoped_key(band, scope or SHARED, memory_id)


class SnapshotSource:
    """What one snapshot shows in a namespace, or in one band of it, read from the store page by page."""

    def __init__(self, store: Store, namespace: str, at: int, *, band: Band | None = None) -> None:
        self.store_path = path_of(namespace, band)
        self._store = store
        self._namespace = namespace
        self._at = at
        self._key_prefix = prefix_of(band) if band else ""

    def batches(self) -> Iterator[Sequence[Candidate | BadLine]]:
        """Yield the records by key, one by one."""
        for version in self._store.scan(self._namespace, prefix=self._key_prefix, at=self._at):
            read = _read_version(version, version.key.removeprefix(self._key_prefix))
            if read is not None:
                yield (read[0],)


@dataclass(slots=True)
class _KeptVersion:
    """A version of a record, and the snapshots that show it: from the first to the one before the end."""

    first: int
    end: int | None
    record: Candidate | BadLine
    facts: RecordFacts


class StoreCorpus:
    """A namespace of a store, or one band of it, kept in memory and carried along commit by commit.

    ``source`` gives any snapshot from the one that was first read to the newest without reading the store again; an older
    one is read from the store. Threads may share it.
    """

    def __init__(self, store: Store, namespace: str = "default", *, band: Band | None = None) -> None:
        self.store_path = path_of(namespace, band)
        self._store = store
        self._namespace = namespace
        self._band = band
        self._key_prefix = prefix_of(band) if band else ""
        self._lock = threading.Lock()
        self._oldest = self._newest = -1
        self._versions: dict[str, list[_KeptVersion]] = {}
        self._keys: list[str] = []
        self._ended = 0

    def source(self, at: int | None = None) -> Source:
        """What a snapshot shows in all scopes; by default the newest."""
        with self._lock:
            snapshot = self._prepare(at, None)
            if snapshot < self._oldest:
                return SnapshotSource(self._store, self._namespace, snapshot, band=self._band)
            shown = [version.record for _, version in self._shown(self._keys, snapshot)]
        return _ListedSource(self.store_path, shown)

    def sources(
        self,
        scopes: Sequence[str],
        *,
        at: int | None = None,
        head: int | None = None,
        hiding: Collection[str] = (),
        choice: Choice | None = None,
    ) -> list[Source]:
        """What a snapshot shows of the corpus' band in scopes with all below them: one source for each scope that there is.

        Args:
            scopes: None of them is below another.
            at: The snapshot; by default the newest.
            head: The newest snapshot, if the caller has just looked it up.
            hiding: Records to leave out, each as ``scope//memory_id``.
            choice: Which records to show; by default all.
        """
        listed: dict[str, list[Candidate | BadLine]] = {scope: [] for scope in scopes}
        for key, record, facts in self._records(scopes, at, head):
            if key not in hiding and (choice is None or choice.admits(facts)):
                listed.setdefault(key.partition("//")[0], []).append(record)
        return [
            _ListedSource(path_of(self._namespace, self._band, scope), listed[scope])
            for scope in sorted(listed)
        ]

    def _records(
        self, scopes: Sequence[str], at: int | None, head: int | None
    ) -> list[tuple[str, Candidate | BadLine, RecordFacts]]:
        with self._lock:
            snapshot = self._prepare(at, head)
            if snapshot >= self._oldest:
                keys = (key for scope in scopes for key in self._keys_within(scope))
                return [(key, one.record, one.facts) for key, one in self._shown(keys, snapshot)]
        found = []
        for scope in scopes:
            prefix = f"{self._key_prefix}{scope}/"
            for version in self._store.scan(self._namespace, prefix=prefix, at=snapshot):
                key = version.key.removeprefix(self._key_prefix)
                read = _read_version(version, key)
                if read is not None:
                    found.append((key, *read))
        return found

    def _prepare(self, at: int | None, head: int | None) -> int:
        """Carry what is kept along to the newest snapshot, and return the one that is asked for."""
        head = self._store.head() if head is None else head
        snapshot = head if at is None else at
        if not 0 <= snapshot <= head:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        if head > self._newest:
            # Not only up to the snapshot: a newer commit may have erased what an older snapshot showed.
            self._carry_to(head)
        return snapshot

    def _shown(self, keys: Iterable[str], snapshot: int) -> Iterator[tuple[str, _KeptVersion]]:
        for key in keys:
            for version in self._versions[key]:
                if version.first <= snapshot and (version.end is None or snapshot < version.end):
                    yield key, version

    def _keys_within(self, scope: str) -> list[str]:
        """The keys in a scope and below it: they begin with its path and a slash, so they stand together."""
        end = scope + chr(ord("/") + 1)
        return self._keys[bisect_left(self._keys, f"{scope}/") : bisect_left(self._keys, end)]

    def _carry_to(self, head: int) -> None:
        is_worn = self._ended * 4 > len(self._keys) + MAX_FOLLOWED_SNAPSHOTS
        is_far_behind = head - self._newest > MAX_FOLLOWED_SNAPSHOTS
        if self._oldest < 0 or is_worn or is_far_behind or not self._follow(head):
            self._read_anew(head)
        self._newest = head

    def _read_anew(self, head: int) -> None:
        self._oldest, self._ended = -1, 0
        self._versions, self._keys = {}, []
        for version in self._store.scan(self._namespace, prefix=self._key_prefix, at=head):
            self._add(version, head)
        self._keys = sorted(self._versions)
        self._oldest = head

    def _follow(self, head: int) -> bool:
        """Apply the commits since the newest snapshot. False if one erased something, so that all must be read anew."""
        # Until this is done, an error leaves nothing that could be taken for complete.
        oldest, self._oldest = self._oldest, -1
        for snapshot in range(self._newest + 1, head + 1):
            for version in self._store.versions_of(snapshot):
                if version.namespace == self._namespace and version.key.startswith(self._key_prefix):
                    if self._has_erased(version, snapshot):
                        return False
                    self._end(version.key.removeprefix(self._key_prefix), snapshot)
                    self._add(verified(version), snapshot)
        if len(self._versions) > len(self._keys):
            self._keys = sorted(self._versions)
        self._oldest = oldest
        return True

    def _has_erased(self, version: Version, snapshot: int) -> bool:
        """Whether a commit erased earlier content of a key. Erased content is gone from every snapshot."""
        is_known = version.key.removeprefix(self._key_prefix) in self._versions
        if not is_known and version.action is not ActionType.EXPIRE:
            return False
        history = self._store.history(self._namespace, version.key, verify=False)
        return version.erased_by is not None or any(one.erased_by == snapshot for one in history)

    def _add(self, version: Version, first: int) -> None:
        key = version.key.removeprefix(self._key_prefix)
        read = _read_version(version, key)
        if read is not None:
            self._versions.setdefault(key, []).append(_KeptVersion(first, None, *read))

    def _end(self, key: str, snapshot: int) -> None:
        versions = self._versions.get(key)
        if versions and versions[-1].end is None:
            versions[-1].end = snapshot
            self._ended += 1


@dataclass(frozen=True, slots=True)
class _ListedSource:
    store_path: str
    listed: list[Candidate | BadLine]

    def batches(self) -> Iterator[Sequence[Candidate | BadLine]]:
        yield self.listed


def _read_version(version: Version, key: str) -> tuple[Candidate | BadLine, RecordFacts] | None:
    """The record of a version that was verified, and what filters look at; None for one that is never recalled."""
    if version.action == ActionType.EXPIRE:
        return None
    line = record_line(version)
    facts = _facts_of(line)
    if facts.band == Band.VOID:
        return None
    (record,) = read_block(line + b"\n")
    assert record is not None, "content is never blank"
    return bad_line(line, key, record) if isinstance(record, Fault) else record, facts


def _facts_of(line: bytes) -> RecordFacts:
    """What filters look at. A line that is no record has at most a band."""
    try:
        return _decode_facts(line)
    except msgspec.MsgspecError:
        try:
            return RecordFacts(band=_decode_band(line).band)
        except msgspec.MsgspecError:
            return RecordFacts()
