"""The vectors of a namespace in memory: read once a process, then carried along commit by commit, and compared exactly.

A vector has its snapshots, so one set of arrays answers as of every snapshot. What is erased is gone from all of them.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from standfast.recall.embedders import SignedBytes
from standfast.recall.item_trust import Flags, Numbers
from standfast.recall.lexical_index import NEVER, IndexView
from standfast.store.audit import checksummed
from standfast.store.protocol import Vector
from standfast.store.store import Store

CHECKSUM_BYTES: Final = 4
_BLOCK_ROWS: Final = 1 << 13
_MAX_FOLLOWED: Final = 1000


@dataclass(frozen=True, slots=True)
class Similarities:
    """How alike the rows of an index are to a query.

    Attributes:
        dots: The dot product of each row's vector with the query's; 0 without a vector.
        squares: The squared length of each row's vector; 0 without one.
        query_square: The squared length of the query's vector.
    """

    dots: Numbers
    squares: Numbers
    query_square: int

    @property
    def percents(self) -> Numbers:
        """The cosine of each row in percent, rounded down; 0 where it is negative or there is no vector."""
        dots = np.maximum(self.dots, 0)
        # Below 2^43 squared dot products times 10^4 fit into 63 bits, and lengths are at most 1,016.
        ratio = 10_000 * (dots * dots) // np.maximum(1, self.squares * self.query_square)
        root: Numbers = np.sqrt(ratio.astype(np.float64)).astype(np.int64)
        return np.where(root * root > ratio, root - 1, root)


class VectorView(Protocol):
    """The vectors of one snapshot by one embedder."""

    def similarities(self, index: IndexView, query: SignedBytes) -> Similarities:
        """How alike the rows of an index are to a query."""
        ...


class ListedVectors:
    """The vectors of records that are listed, one for each row of their index. A row of zeros is a record without one."""

    def __init__(self, vectors: SignedBytes) -> None:
        self._vectors = vectors.astype(np.int64)

    def similarities(self, index: IndexView, query: SignedBytes) -> Similarities:
        """How alike the rows are to a query."""
        assert len(index.shown) == len(self._vectors), "each row has its vector"
        wanted = query.astype(np.int64)
        return Similarities(
            self._vectors @ wanted, (self._vectors**2).sum(axis=1), int((wanted * wanted).sum())
        )


class _VectorArrays:
    """The vectors of one embedder in a namespace."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.numbers_of: dict[str, list[int]] = {}
        self.matrix: SignedBytes = np.zeros((64, dimensions), dtype=np.int8)
        self.since: Numbers = np.zeros(64, dtype=np.int64)
        self.ended: Numbers = np.zeros(64, dtype=np.int64)
        self.squares: Numbers = np.zeros(64, dtype=np.int64)
        self.size = 0

    def add(self, vector: Vector) -> None:
        if self.size == len(self.matrix):
            for name in ("matrix", "since", "ended", "squares"):
                values = getattr(self, name)
                setattr(self, name, np.concatenate([values, np.zeros_like(values)]))
        row = self.size
        self.matrix[row] = np.frombuffer(vector.content[:-CHECKSUM_BYTES], dtype=np.int8)
        self.since[row], self.ended[row] = vector.since, NEVER if vector.ended is None else vector.ended
        self.squares[row] = int((self.matrix[row].astype(np.int64) ** 2).sum())
        self.numbers_of.setdefault(vector.key, []).append(row)
        self.size += 1

    def end(self, key: str, snapshot: int) -> None:
        for row in self.numbers_of.get(key, ()):
            if self.since[row] < snapshot:
                self.ended[row] = min(int(self.ended[row]), snapshot)

    def erase(self, key: str, before: int) -> None:
        rows = self.numbers_of.get(key, [])
        for row in [one for one in rows if self.since[one] < before]:
            rows.remove(row)
            self.ended[row] = self.since[row]
            self.matrix[row] = 0

    def dots(self, query: SignedBytes) -> Numbers:
        """Exact: every sum stays below 2^24, so float32 holds it in any order of addition."""
        wanted = query.astype(np.float32)
        found: npt.NDArray[np.int64] = np.zeros(self.size, dtype=np.int64)
        for start in range(0, self.size, _BLOCK_ROWS):
            end = min(self.size, start + _BLOCK_ROWS)
            found[start:end] = self.matrix[start:end].astype(np.float32) @ wanted
        return found


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

    def view(self, embedder: str, *, at: int) -> VectorView:
        """The vectors of an embedder that a snapshot shows."""
        with self._lock:
            head = self._store.head()
            if head > self._newest:
                self._carry_to(head)
        return _SnapshotVectors(self, embedder, at)

    def similarities(
        self, index: IndexView, query: SignedBytes, embedder: str, snapshot: int
    ) -> Similarities:
        """How alike the rows of an index are to a query, by the vectors that a snapshot shows."""
        square = int((query.astype(np.int64) ** 2).sum())
        with self._lock:
            arrays = self._arrays.get(embedder)
            if arrays is None or arrays.dimensions != len(query) or not arrays.size:
                empty = np.zeros(len(index.shown), dtype=np.int64)
                return Similarities(empty, empty, square)
            rows = self._rows_for(index, arrays, embedder, snapshot)
            dots, squares = arrays.dots(query), arrays.squares
            has = rows >= 0
            return Similarities(np.where(has, dots[rows], 0), np.where(has, squares[rows], 0), square)

    def _rows_for(self, index: IndexView, arrays: _VectorArrays, embedder: str, snapshot: int) -> Numbers:
        """For each row of an index the row of its vector, or -1. An index of one snapshot never changes, so it is found once."""
        known = self._rows.get(index)
        if known is not None and known[0] == (embedder, snapshot, self._newest):
            return known[1]
        since, ended = arrays.since[: arrays.size], arrays.ended[: arrays.size]
        is_shown: Flags = (since <= snapshot) & (snapshot < ended)
        found: Numbers = np.full(len(index.shown), -1, dtype=np.int64)
        keys, numbers_of = index.index.keys, arrays.numbers_of
        for row in np.flatnonzero(index.shown).tolist():
            for number in reversed(numbers_of.get(keys[row], ())):
                if is_shown[number]:
                    found[row] = number
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
            size = len(one.content) - CHECKSUM_BYTES
            arrays = self._arrays.setdefault(one.embedder, _VectorArrays(size))
            if size == arrays.dimensions:
                arrays.add(one)


def stored_form(vector: SignedBytes) -> bytes:
    """A vector as a commit stores it."""
    return checksummed(vector.tobytes())
