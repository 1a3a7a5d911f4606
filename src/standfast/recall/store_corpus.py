"""Snapshots of Standfast's own store as sources: read from the store each time, or kept in memory as the store grows.

A record of the store is the line that ``standfast export`` writes for it, so a snapshot and its export give the same
selection. The VOID band holds rejected content and is never recalled.
"""

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from standfast.errors import NoSuchSnapshot
from standfast.limits import MAX_FOLLOWED_SNAPSHOTS
from standfast.recall.jsonl import Source
from standfast.recall.records import BadLine, Candidate, Fault, bad_line, read_block
from standfast.store.audit import verified
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.transfer import record_line
from standfast.vocabulary import ActionType, Band

PATH_PREFIX: Final = "standfast:"


class _Banded(msgspec.Struct):
    band: str = Band.LEDGER


_decode_band: Final = msgspec.json.Decoder(_Banded).decode


def path_of(namespace: str, band: Band | None = None) -> str:
    """The store path of a namespace, or of one band of it, in a package."""
    return PATH_PREFIX + namespace + (f"/{band}" if band else "")


class SnapshotSource:
    """What one snapshot shows in a namespace, or in one band of it, read from the store page by page.

    Args:
        hiding: Ids of records to leave out.
    """

    def __init__(
        self, store: Store, namespace: str, at: int, *, band: Band | None = None, hiding: Collection[str] = ()
    ) -> None:
        self.store_path = path_of(namespace, band)
        self._store = store
        self._namespace = namespace
        self._at = at
        self._key_prefix = f"{band}/" if band else ""
        self._hiding = hiding

    def batches(self) -> Iterator[Sequence[Candidate | BadLine]]:
        """Yield the records by key, one by one."""
        for version in self._store.scan(self._namespace, prefix=self._key_prefix, at=self._at):
            key = version.key.removeprefix(self._key_prefix)
            record = None if key in self._hiding else _record_of(version, key)
            if record is not None:
                yield (record,)


@dataclass(slots=True)
class _KeptVersion:
    """A version of a record, and the snapshots that show it: from the first to the one before the end."""

    first: int
    end: int | None
    record: Candidate | BadLine


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
        self._key_prefix = f"{band}/" if band else ""
        self._lock = threading.Lock()
        self._oldest = self._newest = -1
        self._versions: dict[str, list[_KeptVersion]] = {}
        self._keys: list[str] = []
        self._ended = 0

    def source(
        self, at: int | None = None, *, head: int | None = None, hiding: Collection[str] = ()
    ) -> Source:
        """What a snapshot shows; by default the newest.

        Args:
            head: The newest snapshot, if the caller has just looked it up.
            hiding: Ids of records to leave out.
        """
        head = self._store.head() if head is None else head
        snapshot = head if at is None else at
        if not 0 <= snapshot <= head:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        with self._lock:
            if head > self._newest:
                # Not only up to the snapshot: a newer commit may have erased what an older snapshot showed.
                self._carry_to(head)
            if snapshot < self._oldest:
                return SnapshotSource(self._store, self._namespace, snapshot, band=self._band, hiding=hiding)
            shown = [
                version.record
                for key in self._keys
                if key not in hiding
                for version in self._versions[key]
                if version.first <= snapshot and (version.end is None or snapshot < version.end)
            ]
        return _ListedSource(self.store_path, shown)

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
        record = _record_of(version, key)
        if record is not None:
            self._versions.setdefault(key, []).append(_KeptVersion(first, None, record))

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


def _record_of(version: Version, key: str) -> Candidate | BadLine | None:
    """The record of a version that was verified; None for one that is never recalled."""
    if version.action == ActionType.EXPIRE:
        return None
    line = record_line(version)
    try:
        if _decode_band(line).band == Band.VOID:
            return None
    except msgspec.MsgspecError:
        # It is no record, or names no band.
        pass
    (record,) = read_block(line + b"\n")
    assert record is not None, "content is never blank"
    return bad_line(line, key, record) if isinstance(record, Fault) else record
