"""The segments of derived indexes of a store in memory."""

import threading
from collections.abc import Mapping, Sequence

from standfast.scopes import prefix_in
from standfast.store.protocol import Erasure, RecordKey, Version
from standfast.store.segments import PartName, SegmentHead, is_indexed, may_put


class InMemorySegments:
    """A table of segments whose rows are dictionaries, behind the lock of their storage."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._heads: dict[str, SegmentHead] = {}
        self._parts: dict[PartName, bytes] = {}
        self._erasures: dict[str, int] = {}

    def heads(self, namespace: str | None = None) -> list[SegmentHead]:
        """The segments by namespace, band, first snapshot and id."""
        with self._lock:
            found = [one for one in self._heads.values() if namespace in (None, one.namespace)]
        return sorted(found, key=lambda one: (one.namespace, one.band, one.first, one.segment_id))

    def parts(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """The parts with these names."""
        with self._lock:
            return {name: self._parts[name] for name in names if name in self._parts}

    def put(self, head: SegmentHead, parts: Mapping[str, bytes], *, replaces: Sequence[str], at: int) -> bool:
        """Put a segment in the place of others."""
        with self._lock:
            erased = self._erasures.get(head.namespace, 0)
            if not may_put(head, self.heads(head.namespace), replaces=replaces, at=at, last_erasure=erased):
                return False
            self.drop(replaces)
            self._heads[head.segment_id] = head
            self._parts.update({(head.segment_id, name): content for name, content in parts.items()})
        return True

    def drop(self, segment_ids: Sequence[str]) -> None:
        """Remove segments."""
        with self._lock:
            for one in segment_ids:
                self._heads.pop(one, None)
            self._parts = {name: part for name, part in self._parts.items() if name[0] in self._heads}

    def last_erasure(self, namespace: str) -> int:
        """The newest snapshot that erased something indexed."""
        with self._lock:
            return self._erasures.get(namespace, 0)

    def drop_erased(self, erasures: Sequence[Erasure], versions: Mapping[RecordKey, list[Version]]) -> None:
        """Drop what covers a version that was just erased."""
        for erasure in erasures:
            if not is_indexed(erasure.key):
                continue
            record_key = (erasure.namespace, erasure.key)
            erased = [
                one.memory_snapshot_id
                for one in versions.get(record_key, [])
                if one.erased_by == erasure.memory_snapshot_id
            ]
            covering = [
                one.segment_id
                for one in self.heads(erasure.namespace)
                if one.band == prefix_in(erasure.key)
                and any(one.first <= snapshot <= one.last for snapshot in erased)
            ]
            self.drop(covering)
            self._erasures[erasure.namespace] = erasure.memory_snapshot_id
