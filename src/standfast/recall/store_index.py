"""The index of a namespace of a store: built once a process, then carried along commit by commit.

It answers as of any snapshot from the one that it was built at. For an older one, an index of that snapshot is made and not kept. Texts stay in
the store: only the records that are looked at are read.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from standfast.errors import NoSuchSnapshot
from standfast.limits import MAX_FOLLOWED_SNAPSHOTS, MAX_INDEX_VIEWS
from standfast.recall.analysis import DEFAULT_LANGUAGE, analyzer_of
from standfast.recall.lexical_index import IndexedRecord, IndexView, LexicalIndex, decode_record
from standfast.recall.store_corpus import path_of
from standfast.scopes import SHARED
from standfast.store.audit import verified
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.transfer import record_line
from standfast.vocabulary import ActionType, Band


@dataclass(frozen=True, slots=True)
class StoreIndexView:
    """An index view, and the store that has its records."""

    index: IndexView
    store: Store
    namespace: str
    at: int

    def read(self, rows: Sequence[int]) -> list[tuple[str, IndexedRecord] | None]:
        """The records of rows with the paths of their stores; None for one that was erased since."""
        keys = [self.index.index.keys[row] for row in rows]
        found = self.store.read(self.namespace, keys, at=self.at)
        records = [_record_of(found[key]) if key in found else None for key in keys]
        return [
            None if one is None else (path_of(self.namespace, Band(one.band), one.scope), one)
            for one in records
        ]


class StoreIndex:
    """The index of one namespace. Threads may share it."""

    def __init__(self, store: Store, namespace: str, *, language: str = DEFAULT_LANGUAGE) -> None:
        self._store = store
        self._namespace = namespace
        self._analyzer = analyzer_of(language)
        self._lock = threading.Lock()
        self._index = LexicalIndex(self._analyzer)
        self._rows: dict[str, list[int]] = {}
        self._oldest = self._newest = -1
        self._views: dict[tuple[int, tuple[str, ...], tuple[str, ...]], IndexView] = {}

    def view(
        self,
        bands: Sequence[Band],
        *,
        at: int | None = None,
        scopes: Sequence[str] = (SHARED,),
        head: int | None = None,
    ) -> StoreIndexView:
        """The index of what a snapshot shows in bands and in scopes with all below them; by default the newest snapshot.

        Args:
            head: The newest snapshot, if the caller has just looked it up.
        """
        head = self._store.head() if head is None else head
        snapshot = head if at is None else at
        if not 0 <= snapshot <= head:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        names, within = tuple(sorted(band.value for band in bands)), tuple(sorted(scopes))
        with self._lock:
            if head > self._newest:
                # Not only up to the snapshot: a newer commit may have erased what an older snapshot showed.
                self._carry_to(head)
            if snapshot >= self._oldest:
                view = self._views.get((snapshot, names, within))
                if view is None:
                    if len(self._views) >= MAX_INDEX_VIEWS:
                        del self._views[next(iter(self._views))]
                    view = self._index.view(snapshot, names, within)
                    self._views[snapshot, names, within] = view
                return StoreIndexView(view, self._store, self._namespace, snapshot)
        index = LexicalIndex(self._analyzer)
        for key, record in self._scan(snapshot):
            index.add(record, key, snapshot)
        return StoreIndexView(index.view(snapshot, names, within), self._store, self._namespace, snapshot)

    def _carry_to(self, head: int) -> None:
        is_far_behind = head - self._newest > MAX_FOLLOWED_SNAPSHOTS
        # Until this is done, an error leaves nothing that could be taken for complete.
        oldest, self._oldest = self._oldest, -1
        newest, self._newest = self._newest, -1
        self._views = {}
        if oldest < 0 or is_far_behind:
            self._index, self._rows = LexicalIndex(self._analyzer), {}
            for key, record in self._scan(head):
                self._rows.setdefault(key, []).append(self._index.add(record, key, head))
            oldest = head
        else:
            for snapshot in range(newest + 1, head + 1):
                for version in self._store.versions_of(snapshot):
                    if version.namespace == self._namespace and _band_of(version.key) is not None:
                        self._apply(version, snapshot)
        self._oldest, self._newest = oldest, head

    def _apply(self, version: Version, snapshot: int) -> None:
        key = version.key
        for row in self._rows.get(key, ()):
            self._index.end(row, snapshot)
        if key in self._rows or version.action is ActionType.EXPIRE:
            history = self._store.history(self._namespace, key, verify=False)
            if any(one.erased_by is not None for one in history):
                # Erasure takes every older version, so every row of the key up to now is gone from every snapshot.
                for row in self._rows.pop(key, ()):
                    self._index.erase(row)
        if version.content is not None and (record := _record_of(verified(version))) is not None:
            self._rows.setdefault(key, []).append(self._index.add(record, key, snapshot))

    def _scan(self, at: int) -> Iterator[tuple[str, IndexedRecord]]:
        for band in Band:
            if band is not Band.VOID:
                for version in self._store.scan(self._namespace, prefix=f"{band}/", at=at):
                    if (record := _record_of(version)) is not None:
                        yield version.key, record


def _band_of(key: str) -> Band | None:
    name = key.partition("/")[0]
    return Band(name) if name in Band.__members__ and name != Band.VOID else None


def _record_of(version: Version) -> IndexedRecord | None:
    """The record of a version that was verified; None for one that is never recalled, or is no record."""
    band = _band_of(version.key)
    if version.action is ActionType.EXPIRE or band is None:
        return None
    try:
        record = decode_record(record_line(version))
    except msgspec.MsgspecError:
        return None
    return None if record.band == Band.VOID else msgspec.structs.replace(record, band=band.value)
