"""The vectors of a namespace in memory: read once a process, then carried along commit by commit, and
compared exactly.

A vector has its snapshots, so one set of arrays answers as of every snapshot. What is erased is gone from all
of them.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from standfast.recall.arrays import Flags, GrowingArray, Numbers
from standfast.recall.embedders import SignedBytes, percents_of
from standfast.recall.index.lexical_index import LexicalIndex
from standfast.recall.index.segment import NEVER
from standfast.recall.index.view import IndexView
from standfast.store.audit import checksummed
from standfast.store.protocol import Vector, Version
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
        self._versions = GrowingArray()
        """The snapshot of the version that each vector is of."""
        self._by_row: WeakKeyDictionary[LexicalIndex, GrowingArray] = WeakKeyDictionary()
        """For each row of an index the number of its vector, or -1. Carried along as rows are added."""

    @property
    def size(self) -> int:
        return self._starts.size

    def add(self, vectors: Sequence[Vector]) -> None:
        """Add vectors, all at once: a matrix is made of all their bytes together."""
        contents = [vector.content[:-CHECKSUM_BYTES] for vector in vectors]
        passages = np.frombuffer(b"".join(contents), dtype=np.int8).reshape(-1, self.dimensions)
        counts = np.array([len(content) // self.dimensions for content in contents], dtype=np.int64)
        for number, vector in enumerate(vectors, self.size):
            self.numbers_of.setdefault(vector.key, []).append(number)
        self._starts.extend(self._passages.size + np.cumsum(counts) - counts)
        self._passages.extend(passages)
        self._squares.extend(np.einsum("ij,ij->i", passages, passages, dtype=np.int64))
        self._since.extend(np.array([one.since for one in vectors], dtype=np.int64))
        self._versions.extend(np.array([one.memory_snapshot_id for one in vectors], dtype=np.int64))
        ended = [NEVER if one.ended is None else one.ended for one in vectors]
        self._ended.extend(np.array(ended, dtype=np.int64))
        if any(one.since != one.memory_snapshot_id for one in vectors):
            # They were filled in later, for rows that are known.
            self._by_row.clear()

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

    def numbers_for(self, index: IndexView, snapshot: int, newest: int) -> Numbers:
        """For each slot of a view the number of its vector, or -1 if the snapshot shows none.

        Only rows that were added to the index since the last call are looked up by their keys.

        Args:
            newest: The newest snapshot whose vectors are here. Rows of later ones are not kept as looked up.
        """
        by_row = self._by_row.setdefault(index.index, GrowingArray())
        later = np.flatnonzero(index.index.column("first")[by_row.size : index.size] > newest)
        end = by_row.size + int(later[0]) if len(later) else index.size
        if by_row.size < end:
            by_row.extend(self._looked_up(index.index, range(by_row.size, end)))
        known = by_row.values[: index.size]
        numbers: Numbers = np.append(known, np.full(index.size - len(known), -1))[index.rows]
        shown = (self._since.values <= snapshot) & (snapshot < self._ended.values)
        return np.where((numbers >= 0) & shown[numbers], numbers, -1)

    def _looked_up(self, index: LexicalIndex, rows: range) -> Numbers:
        """The number of each row's vector: the one of its key and of the snapshot that wrote it; or -1."""
        firsts = index.column("first")[rows.start : rows.stop].tolist()
        versions = self._versions.values
        found: Numbers = np.full(len(rows), -1, dtype=np.int64)
        for at, (key, first) in enumerate(zip(index.keys_of(rows), firsts, strict=True)):
            for number in self.numbers_of.get(key, ()):
                if versions[number] == first:
                    found[at] = number
        return found

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
        if len(starts) == len(dots):
            # Every record has one passage.
            return dots, percents, np.zeros_like(dots)
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
            numbers = arrays.numbers_for(index, snapshot, self._newest)
            has = numbers >= 0
            return Similarities(has, *(np.where(has, one[numbers], 0) for one in arrays.compared(query)))

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
            for arrays in self._arrays.values():
                arrays.erase(version.key, _first_behind_erased(history))
                arrays.end(version.key, snapshot)
        self._add(one for one in self._store.vectors_of(snapshot) if one.namespace == self._namespace)

    def _add(self, vectors: Iterable[Vector]) -> None:
        by_embedder: dict[str, list[Vector]] = {}
        for one in vectors:
            by_embedder.setdefault(one.embedder, []).append(one)
        for embedder, added in by_embedder.items():
            # An embedder's identity ends with its dimensions.
            dimensions = int(embedder.rpartition("/")[2])
            self._arrays.setdefault(embedder, _VectorArrays(dimensions)).add(added)


def _first_behind_erased(history: Sequence[Version]) -> int:
    """The snapshot of a record's first version behind those that were erased; 0 if none was."""
    erased = [one.memory_snapshot_id for one in history if one.erased_by is not None]
    newer = (one.memory_snapshot_id for one in history if erased and one.memory_snapshot_id > erased[-1])
    return next(newer, 0)


def stored_form(vectors: SignedBytes) -> bytes:
    """The vectors of a record's passages as a commit stores them: one behind the other."""
    return checksummed(vectors.tobytes())
