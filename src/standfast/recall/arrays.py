"""Arrays of whole numbers: their types, one that grows at its end, numbers for names, and a cache by size."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

_T = TypeVar("_T")
_Name = TypeVar("_Name", bound=Hashable)
Numbers = npt.NDArray[np.int64]
SmallNumbers = npt.NDArray[np.int32]
Rows = npt.NDArray[np.signedinteger[Any]]
"""Numbers of rows, in either width."""
Flags = npt.NDArray[np.bool_]


class GrowingArray:
    """An array that grows at its end, of numbers or of rows of numbers."""

    def __init__(self, *row: int, dtype: npt.DTypeLike = np.int64) -> None:
        self._values = np.zeros((64, *row), dtype=dtype)
        self.size = 0

    def append(self, number: int) -> None:
        """Add one number."""
        if self.size == len(self._values):
            self._values = np.concatenate([self._values, np.zeros_like(self._values)])
        self._values[self.size] = number
        self.size += 1

    def extend(self, rows: npt.ArrayLike) -> None:
        """Add many."""
        added = np.asarray(rows, dtype=self._values.dtype)
        if self.size + len(added) > len(self._values):
            # As much again, so that growing step by step costs little; what is added at once needs no more.
            room = np.zeros((max(64, self.size), *self._values.shape[1:]), dtype=self._values.dtype)
            self._values = np.concatenate([self.values, added, room])
        else:
            self._values[self.size : self.size + len(added)] = added
        self.size += len(added)

    @property
    def values(self) -> Any:
        """What was added."""
        return self._values[: self.size]


class SizedCache(Generic[_Name, _T]):
    """The values that were used last, as many as have some size together. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[_Name, tuple[_T, int]] = OrderedDict()
        self._size = 0

    def get(self, name: _Name) -> _T | None:
        """The value with a name, or None."""
        with self._lock:
            found = self._values.get(name)
            if found is None:
                return None
            self._values.move_to_end(name)
            return found[0]

    def get_all(self, names: Iterable[_Name]) -> dict[_Name, _T]:
        """The values of those of some names that have one."""
        found: dict[_Name, _T] = {}
        with self._lock:
            for name in names:
                if (known := self._values.get(name)) is not None:
                    self._values.move_to_end(name)
                    found[name] = known[0]
        return found

    def put(self, name: _Name, value: _T, size: int) -> None:
        """Keep a value, and drop others if they are too large together."""
        with self._lock:
            if name not in self._values:
                self._values[name] = value, size
                self._size += size
            while self._size > self._most:
                self._size -= self._values.popitem(last=False)[1][1]


class Numbered(Generic[_Name]):
    """Gives every name a number, from 0 on, in the order in which they come."""

    def __init__(self) -> None:
        self.names: list[_Name] = []
        self._numbers: dict[_Name, int] = {}

    def of(self, name: _Name) -> int:
        """The number of a name."""
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number

    def find(self, name: _Name) -> int | None:
        """The number of a name that has one."""
        return self._numbers.get(name)

    def renumbered(self, names: Sequence[_Name], numbers: Numbers) -> Numbers:
        """Numbers of another list of names as numbers here; -1 stays."""
        table = np.array([*(self.of(name) for name in names), -1], dtype=np.int64)
        return table[numbers]
