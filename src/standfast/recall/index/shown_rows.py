"""Which rows of an index a snapshot shows: those of its bands and scopes that have begun and not ended, but
for what a quarantine hides.
"""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from standfast.recall.arrays import Flags, Numbers, Rows
from standfast.recall.index.lexical_index import LexicalIndex


class QuarantinedRows:
    """The rows of an index that a quarantine hides, and those that it brings back.

    It holds from the snapshot that changed the quarantine last, until it changes again.

    Args:
        hidden: The rows that are hidden.
        restored: Rows that had ended and are shown again, by key, each with the snapshot that ends it anew.
    """

    def __init__(self, size: int, hidden: Iterable[int], restored: Mapping[str, tuple[int, int]]) -> None:
        self._is_hidden: Flags = np.zeros(size, dtype=np.bool_)
        self._is_hidden[list(hidden)] = True
        self._ends: Numbers = np.zeros(size, dtype=np.int64)
        self._rows = {key: row for key, (row, _) in restored.items()}
        for row, end in restored.values():
            self._ends[row] = end

    def end(self, key: str, snapshot: int) -> None:
        """A commit wrote under a key, so that what was brought back under it is shown no more."""
        if (row := self._rows.get(key)) is not None:
            self._ends[row] = min(int(self._ends[row]), snapshot)

    def hides(self, rows: slice | Rows, size: int) -> Flags:
        """Which of some rows of an index of this size are hidden."""
        is_hidden: Flags = np.pad(self._is_hidden[:size], (0, max(0, size - len(self._is_hidden))))[rows]
        return is_hidden

    def ends(self, rows: slice | Rows, size: int) -> Numbers:
        """When some rows that were brought back end; 0 for all others."""
        ends: Numbers = np.pad(self._ends[:size], (0, max(0, size - len(self._ends))))[rows]
        return ends


class ShownRows:
    """What one snapshot shows of an index in some bands and scopes, for whoever asks about single rows.

    Args:
        scopes: The scopes, each with all below it; by default all.
        quarantined: What the snapshot's quarantine hides and brings back.
    """

    def __init__(
        self,
        index: LexicalIndex,
        snapshot: int,
        bands: Collection[str],
        scopes: Collection[str] | None = None,
        *,
        quarantined: QuarantinedRows | None = None,
    ) -> None:
        self.index = index
        self.quarantined = quarantined
        self.snapshot = snapshot
        self.size = len(index)
        self._bands = frozenset(bands)
        self._scopes = None if scopes is None else frozenset(scopes)

    def are_shown(self, rows: slice | Rows) -> Flags:
        """Which of some rows are shown, before law hides some."""
        index = self.index
        shown: Flags = index.column("first")[rows] <= self.snapshot
        shown &= self.snapshot < self._ends_of(rows)
        if self.quarantined is not None:
            shown &= ~self.quarantined.hides(rows, self.size)
        shown &= index.rows_of_bands(rows, self._bands)
        if self._scopes is not None:
            shown &= index.rows_of_scopes(rows, self._scopes)
        return shown

    def _ends_of(self, rows: slice | Rows) -> Numbers:
        """The snapshots from which on some rows are shown no more."""
        ends: Numbers = self.index.column("end")[rows]
        if self.quarantined is not None:
            return np.maximum(ends, self.quarantined.ends(rows, self.size))
        return ends

    def snapshots(self, rows: Rows) -> Numbers:
        """The snapshots that wrote the rows."""
        return self.index.column("first")[rows]
