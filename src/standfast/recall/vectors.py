"""The vectors of a namespace in memory: read from segments once a process, then carried along commit by
commit, and compared exactly.

A vector belongs to a row of the index, and says since which snapshot it is there, so one set of arrays
answers as of every snapshot. Rows that were erased are shown by none.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from standfast.recall.arrays import Flags, GrowingArray, Numbers, SmallNumbers
from standfast.recall.embedders import QueryVector, SignedBytes, percents_of
from standfast.recall.index.lexical_index import LexicalIndex
from standfast.recall.index.vector_parts import VectorRows, dimensions_of
from standfast.recall.index.view import IndexView
from standfast.store.protocol import CHECKSUM_BYTES, Vector, checksummed
from standfast.store.store import Store

_BLOCK_ROWS: Final = 1 << 10
"""As floats, these fit the cache of a core. With more than 2,048 rows BLAS starts threads, which is ten times
slower.
"""
_LONGEST_SQUARE: Final = 1 << 24
"""More than the square of any vector."""


@dataclass(frozen=True, slots=True)
class Similarities:
    """How alike the slots of a view are to a query. One with several passages has that of its best.

    Attributes:
        has: Which slots have a vector.
        dots: The dot product of each slot's vector with the query's, below 2^24; 0 without a vector.
        is_alike: Which slots have a cosine that is at least the floor of the query's vector.
        percent: Gives the cosine of a slot in percent, rounded down; 0 where it is negative or there is no
            vector.
        best: Gives the number of the passage of a slot with its dot product.
    """

    has: Flags
    dots: SmallNumbers
    is_alike: Flags
    percent: Callable[[int], int]
    best: Callable[[int], int]

    @classmethod
    def none(cls, count: int) -> "Similarities":
        """Those of slots without vectors."""
        empty = np.zeros(count, dtype=np.int32)
        return cls(empty > 0, empty, empty > 0, lambda _: 0, lambda _: 0)


class VectorView(Protocol):
    """The vectors of one snapshot by one embedder."""

    def similarities(self, index: IndexView, vector: QueryVector) -> Similarities:
        """How alike the slots of a view are to a query."""
        ...


def is_alike(
    dots: SmallNumbers, squares: Numbers, query_square: int, floor_percent: int, *, shortest: int = 1
) -> Flags:
    """Which cosines, in percent and rounded down, are at least a floor.

    Without a root, because::

        floor(sqrt(10000 · dot² // (square · query_square))) >= floor   if and only if
        10000 · dot² >= floor² · square · query_square

    Most vectors have a lower product than the shortest one would need, and are passed over at once.

    Args:
        shortest: At most the least of the squares that are not 0; vectors of zeros have a product of 0.
    """
    needed = floor_percent**2 * max(1, shortest * query_square)
    if needed == 0:
        return np.ones(len(dots), dtype=np.bool_)
    alike: Flags = dots > math.isqrt((needed - 1) // 10_000)
    places = np.flatnonzero(alike)
    products = dots[places].astype(np.int64)
    bounds = floor_percent**2 * np.maximum(1, squares[places] * query_square)
    alike[places] = 10_000 * (products * products) >= bounds
    return alike


@dataclass(frozen=True, slots=True)
class _ViewVectors:
    """The vectors of the slots of a view, in the order of the slots, when there were so many vectors.

    Attributes:
        has: Which slots have a vector in the snapshot.
        slots: Those that have one.
        firsts: Where the passages of each of them begin.
        passages: The passages by their numbers.
        squares: The squared length of each passage.
    """

    snapshot: int
    vectors: int
    has: Flags
    slots: Numbers
    firsts: Numbers
    passages: Numbers
    squares: Numbers

    def of_slot(self, slot: int) -> slice:
        """Where the passages of a slot are."""
        if not self.has[slot]:
            return slice(0)
        place = int(np.searchsorted(self.slots, slot))
        ends = [*self.firsts[place + 1 : place + 2].tolist(), len(self.passages)]
        return slice(int(self.firsts[place]), ends[0])

    def by_slot(self, of_passages: npt.NDArray[Any], best: np.ufunc) -> npt.NDArray[Any]:
        """A value for each slot: that of its best passage, and 0 without any."""
        found = of_passages
        if len(self.firsts) < len(self.passages):
            found = best.reduceat(of_passages, self.firsts)
        if len(found) == len(self.has):
            return found
        values = np.zeros(len(self.has), dtype=of_passages.dtype)
        values[self.slots] = found
        return values


class _RowVectors:
    """The vectors of one embedder for the rows of an index: the passages of all rows in one matrix, and where
    those of each begin.
    """

    def __init__(self, index: LexicalIndex, embedder: str) -> None:
        self._embedder = embedder
        self.dimensions = dimensions_of(embedder)
        self._passages = GrowingArray(self.dimensions, dtype=np.int8)
        self._squares, self._starts, self._since = GrowingArray(), GrowingArray(), GrowingArray()
        self._shortest = _LONGEST_SQUARE
        """The least square that is not 0."""
        self._number_of = GrowingArray()
        """For each row of the index the number of its vector, or -1."""
        self._of_views: WeakKeyDictionary[IndexView, _ViewVectors] = WeakKeyDictionary()
        lists = [segment.vector_list(index.read) for _, segment in index.segments]
        found = [
            (base, VectorRows.of(parts))
            for base, segment in index.segments
            if (parts := segment.vector_parts(embedder, index.read))
        ]
        if found:
            # All at once: an array that grows is copied each time.
            self._add(
                np.concatenate([base + one.rows for base, one in found]),
                self._matrix([one.content for _, one in found]),
                np.concatenate([one.passages for _, one in found]),
                np.concatenate([one.since for _, one in found]),
            )
        made = min((one.until for one in lists), default=0)
        late = {snapshot for one in lists for snapshot in one.late if snapshot > made}
        self.newest = index.covered
        """The newest snapshot whose vectors are here."""
        self.waiting = sorted(one for one in late if one <= self.newest)
        """Earlier snapshots that added vectors after segments were made."""

    def add(self, index: LexicalIndex, vectors: Sequence[Vector]) -> None:
        """Add vectors of the table, those of other embedders and those that are here already left out."""
        own = [one for one in vectors if one.embedder == self._embedder]
        known = self._numbers(len(index))
        rows = index.rows_of([(one.key, one.memory_snapshot_id) for one in own])
        new = [(row, one) for row, one in zip(rows, own, strict=True) if row is not None and known[row] < 0]
        contents = [one.content[:-CHECKSUM_BYTES] for _, one in new]
        self._add(
            np.array([row for row, _ in new], dtype=np.int64),
            self._matrix(contents),
            np.array([len(content) // self.dimensions for content in contents], dtype=np.int64),
            np.array([one.since for _, one in new], dtype=np.int64),
        )

    def _matrix(self, contents: Sequence[bytes]) -> SignedBytes:
        return np.frombuffer(b"".join(contents), dtype=np.int8).reshape(-1, self.dimensions)

    def _add(self, rows: Numbers, passages: SignedBytes, counts: Numbers, since: Numbers) -> None:
        if not len(rows):
            return
        self._numbers(int(rows.max()) + 1)[rows] = self._starts.size + np.arange(len(rows))
        self._starts.extend(self._passages.size + np.cumsum(counts) - counts)
        self._passages.extend(passages)
        squares: Numbers = np.einsum("ij,ij->i", passages, passages, dtype=np.int64)
        self._shortest = min(self._shortest, int(squares.min(where=squares > 0, initial=_LONGEST_SQUARE)))
        self._squares.extend(squares)
        self._since.extend(since)

    def _numbers(self, rows: int) -> Numbers:
        """The numbers of at least so many rows."""
        if self._number_of.size < rows:
            self._number_of.extend(np.full(rows - self._number_of.size, -1))
        values: Numbers = self._number_of.values
        return values

    def similarities(self, index: IndexView, vector: QueryVector, snapshot: int) -> Similarities:
        """How alike the slots of a view are to a query, by the vectors that a snapshot shows."""
        own = self._of_view(index, snapshot)
        query_square = int((vector.numbers.astype(np.int64) ** 2).sum())
        dots = self._dots(own, vector.numbers)
        alike = is_alike(dots, own.squares, query_square, vector.floor_percent, shortest=self._shortest)

        def percent(slot: int) -> int:
            found = own.of_slot(slot)
            exact = dots[found].astype(np.int64)
            return int(percents_of(exact, own.squares[found], query_square).max(initial=0))

        def passage(slot: int) -> int:
            found = dots[own.of_slot(slot)]
            return int(found.argmax()) if len(found) else 0

        by_slot = own.by_slot(dots, np.maximum), own.by_slot(alike, np.logical_or)
        return Similarities(own.has, *by_slot, percent, passage)

    def _of_view(self, index: IndexView, snapshot: int) -> _ViewVectors:
        """The vectors of a view. They stay what they are until vectors are added."""
        known = self._of_views.get(index)
        if known is not None and (known.snapshot, known.vectors) == (snapshot, self._starts.size):
            return known
        numbers = self._numbers(index.size)[index.rows]
        has: Flags = numbers >= 0
        if self._starts.size:
            has &= self._since.values[numbers] <= snapshot
        numbers, starts = numbers[has], self._starts.values
        counts = np.append(starts[1:], self._passages.size)[numbers] - starts[numbers]
        ends = np.cumsum(counts)
        firsts = ends - counts
        passages = np.repeat(starts[numbers] - firsts, counts) + np.arange(ends[-1] if len(ends) else 0)
        squares = self._squares.values[passages]
        own = _ViewVectors(snapshot, self._starts.size, has, np.flatnonzero(has), firsts, passages, squares)
        self._of_views[index] = own
        return own

    def _dots(self, own: _ViewVectors, query: SignedBytes) -> SmallNumbers:
        """The dot product of each passage of a view with a query."""
        every: SignedBytes = self._passages.values
        if 2 * len(own.passages) < len(every):
            return _products(every[own.passages], query)
        # All in the order that they are stored in are cheaper than most of them in another.
        products: SmallNumbers = _products(every, query)[own.passages]
        return products


def _products(vectors: SignedBytes, query: SignedBytes) -> SmallNumbers:
    """The dot product of each vector with a query.

    Exact: every sum stays below 2^24, so float32 holds it in any order of addition.
    """
    wanted = query.astype(np.float32)
    dots: npt.NDArray[np.float32] = np.zeros(len(vectors), dtype=np.float32)
    block: npt.NDArray[np.float32] = np.zeros((min(_BLOCK_ROWS, len(dots)), len(wanted)), dtype=np.float32)
    for start in range(0, len(dots), _BLOCK_ROWS):
        size = min(_BLOCK_ROWS, len(dots) - start)
        block[:size] = vectors[start : start + size]
        np.matmul(block[:size], wanted, out=dots[start : start + size])
    return dots.astype(np.int32)


@dataclass(frozen=True, slots=True)
class _SnapshotVectors:
    owner: "StoreVectors"
    snapshot: int
    head: int

    def similarities(self, index: IndexView, vector: QueryVector) -> Similarities:
        return self.owner.similarities(index, vector, self.snapshot, self.head)


class StoreVectors:
    """The vectors of one namespace of a store. Threads may share it."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._lock = threading.Lock()
        self._of_index: WeakKeyDictionary[LexicalIndex, dict[str, _RowVectors]] = WeakKeyDictionary()

    def view(self, *, at: int, head: int | None = None) -> VectorView:
        """The vectors that a snapshot shows.

        Args:
            head: The newest snapshot, if the caller has just looked it up.
        """
        return _SnapshotVectors(self, at, self._store.head() if head is None else head)

    def similarities(self, index: IndexView, vector: QueryVector, snapshot: int, head: int) -> Similarities:
        """How alike the slots of a view are to a query, by the vectors that a snapshot shows.

        Args:
            head: The newest snapshot, up to which vectors are carried along.
        """
        with self._lock:
            found = self._of_index.setdefault(index.index, {})
            vectors = found.get(vector.embedder) or _RowVectors(index.index, vector.embedder)
            if vectors.dimensions != len(vector.numbers):
                return Similarities.none(index.count)
            for first, last in _ranges([*vectors.waiting, *range(vectors.newest + 1, head + 1)]):
                vectors.add(index.index, self._store.vectors_between(self._namespace, first, last))
            # Only what is complete is kept, whatever happened on the way.
            vectors.waiting, vectors.newest = [], max(vectors.newest, head)
            found[vector.embedder] = vectors
            return vectors.similarities(index, vector, snapshot)


def _ranges(snapshots: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, each by its first and its last."""
    runs = [
        [one for _, one in run] for _, run in groupby(enumerate(snapshots), lambda pair: pair[1] - pair[0])
    ]
    return [(run[0], run[-1]) for run in runs]


def stored_form(vectors: SignedBytes) -> bytes:
    """The vectors of a record's passages as a commit stores them: one behind the other."""
    return checksummed(vectors.tobytes())
