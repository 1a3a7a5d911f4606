"""The vectors of a namespace in memory: read once a process, then carried along commit by commit, and
compared exactly.

A vector has its snapshots, so one set of arrays answers as of every snapshot. What is erased is gone from all
of them.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from standfast.recall.arrays import Flags, GrowingArray, Numbers
from standfast.recall.embedders import SignedBytes, percents_of
from standfast.recall.index.segment import NEVER
from standfast.recall.index.view import IndexView
from standfast.store.audit import checksummed
from standfast.store.protocol import Vector
from standfast.store.store import Store

CHECKSUM_BYTES: Final = 4
_BLOCK_ROWS: Final = 1 << 11
"""With more rows BLAS starts threads, which is ten times slower."""
_MAX_FOLLOWED: Final = 1000


@dataclass(frozen=True, slots=True)
class Similarities:
    """How alike the slots of a view are to a query. One with several vectors has that of its best.

    Attributes:
        has: Which slots have a vector.
        dots: The dot product of each slot's vector with the query's; 0 without a vector.
        percents: The cosine of the two in percent, rounded down; 0 where it is negative or there is no
            vector.
        best: The number of the passage with that dot product.
    """

    has: Flags
    dots: Numbers
    percents: Numbers
    best: Numbers


class VectorView(Protocol):
    """The vectors of one snapshot by one embedder."""

    def similarities(self, index: IndexView, query: SignedBytes) -> Similarities:
        """How alike the slots of a view are to a query."""
        ...


class _VectorArrays:
    """The vectors of one embedder in a namespace: the passages of all records in one matrix, and where each
    record's begin.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.numbers_of: dict[str, list[int]] = {}
        self._passages = GrowingArray(dimensions, dtype=np.int8)
        self._squares = GrowingArray()
        self._starts, self._since, self._ended = GrowingArray(), GrowingArray(), GrowingArray()

    @property
    def size(self) -> int:
        return self._starts.size

    def add(self, vector: Vector) -> None:
        passages = np.frombuffer(vector.content[:-CHECKSUM_BYTES], dtype=np.int8).reshape(-1, self.dimensions)
        self.numbers_of.setdefault(vector.key, []).append(self.size)
        self._starts.append(self._passages.size)
        self._passages.extend(passages)
        self._squares.extend((passages.astype(np.int64) ** 2).sum(axis=1))
        self._since.append(vector.since)
        self._ended.append(NEVER if vector.ended is None else vector.ended)

    def end(self, key: str, snapshot: int) -> None:
        for row in self.numbers_of.get(key, ()):
            if self._since.values[row] < snapshot:
                self._ended.values[row] = min(int(self._ended.values[row]), snapshot)

    def erase(self, key: str, before: int) -> None:
        rows = self.numbers_of.get(key, [])
        for row in [one for one in rows if self._since.values[one] < before]:
            rows.remove(row)
            self._ended.values[row] = self._since.values[row]
            ends = [*self._starts.values[row + 1 : row + 2], self._passages.size]
            self._passages.values[self._starts.values[row] : ends[0]] = 0

    def shown(self, snapshot: int) -> Flags:
        """Which records' vectors a snapshot shows."""
        shown: Flags = (self._since.values <= snapshot) & (snapshot < self._ended.values)
        return shown

    def compared(self, query: SignedBytes) -> tuple[Numbers, Numbers, Numbers]:
        """The best dot product and cosine in percent of each record's passages, and the first passage with
        that dot product.

        Exact: every sum stays below 2^24, so float32 holds it in any order of addition.
        """
        wanted = query.astype(np.float32)
        dots: Numbers = np.zeros(self._passages.size, dtype=np.int64)
        for start in range(0, len(dots), _BLOCK_ROWS):
            block = self._passages.values[start : start + _BLOCK_ROWS]
            dots[start : start + len(block)] = block.astype(np.float32) @ wanted
        percents = percents_of(dots, self._squares.values, int((query.astype(np.int64) ** 2).sum()))
        starts = self._starts.values
        best = np.maximum.reduceat(dots, starts)
        counts = np.diff(starts, append=len(dots))
        of_record = np.repeat(np.arange(len(starts)), counts)
        places = np.flatnonzero(dots == best[of_record])
        _, first = np.unique(of_record[places], return_index=True)
        return best, np.maximum.reduceat(percents, starts), places[first] - starts


@dataclass(frozen=True, slots=True)
class _SnapshotVectors:
    owner: "StoreVectors"
    embedder: str
    snapshot: int

    def similarities(self, index: IndexView, query: SignedBytes) -> Similarities:
        return self.owner.similarities(index, query, self.embedder, self.snapshot)


class StoreVectors:
    """The vectors of one namespace of a store. Threads may share it."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._lock = threading.Lock()
        self._arrays: dict[str, _VectorArrays] = {}
        self._newest = -1
        self._rows: WeakKeyDictionary[IndexView, tuple[tuple[str, int, int], Numbers]] = WeakKeyDictionary()

    def view(self, embedder: str, *, at: int, head: int | None = None) -> VectorView:
        """The vectors of an embedder that a snapshot shows.

        Args:
            head: The newest snapshot, if the caller has just looked it up.
        """
        with self._lock:
            head = self._store.head() if head is None else head
            if head > self._newest:
                self._carry_to(head)
        return _SnapshotVectors(self, embedder, at)

    def similarities(
        self, index: IndexView, query: SignedBytes, embedder: str, snapshot: int
    ) -> Similarities:
        """How alike the slots of a view are to a query, by the vectors that a snapshot shows."""
        with self._lock:
            arrays = self._arrays.get(embedder)
            if arrays is None or arrays.dimensions != len(query) or not arrays.size:
                empty = np.zeros(index.count, dtype=np.int64)
                return Similarities(empty > 0, empty, empty, empty)
            rows = self._rows_for(index, arrays, embedder, snapshot)
            has = rows >= 0
            return Similarities(has, *(np.where(has, one[rows], 0) for one in arrays.compared(query)))

    def _rows_for(self, index: IndexView, arrays: _VectorArrays, embedder: str, snapshot: int) -> Numbers:
        """For each slot of a view the number of its vector, or -1.

        A view never changes, so it is found once.
        """
        known = self._rows.get(index)
        if known is not None and known[0] == (embedder, snapshot, self._newest):
            return known[1]
        is_shown = arrays.shown(snapshot)
        found: Numbers = np.full(index.count, -1, dtype=np.int64)
        for slot, key in enumerate(index.index.keys_of(index.rows.tolist())):
            for number in reversed(arrays.numbers_of.get(key, ())):
                if is_shown[number]:
                    found[slot] = number
                    break
        self._rows[index] = (embedder, snapshot, self._newest), found
        return found

    def _carry_to(self, head: int) -> None:
        # Until this is done, an error leaves nothing that could be taken for complete.
        newest, self._newest = self._newest, -1
        if newest < 0 or head - newest > _MAX_FOLLOWED:
            self._arrays = {}
            self._add(one for one in self._store.vectors(self._namespace) if one.since <= head)
        else:
            for snapshot in range(newest + 1, head + 1):
                self._follow(snapshot)
        self._newest = head

    def _follow(self, snapshot: int) -> None:
        for version in self._store.versions_of(snapshot):
            if version.namespace != self._namespace:
                continue
            if not any(version.key in arrays.numbers_of for arrays in self._arrays.values()):
                continue
            history = self._store.history(self._namespace, version.key, verify=False)
            erased_by = max((one.erased_by or 0 for one in history), default=0)
            for arrays in self._arrays.values():
                arrays.erase(version.key, erased_by)
                arrays.end(version.key, snapshot)
        self._add(one for one in self._store.vectors_of(snapshot) if one.namespace == self._namespace)

    def _add(self, vectors: Iterable[Vector]) -> None:
        for one in vectors:
            # An embedder's identity ends with its dimensions.
            dimensions = int(one.embedder.rpartition("/")[2])
            self._arrays.setdefault(one.embedder, _VectorArrays(dimensions)).add(one)


def stored_form(vectors: SignedBytes) -> bytes:
    """The vectors of a record's passages as a commit stores them: one behind the other."""
    return checksummed(vectors.tobytes())
