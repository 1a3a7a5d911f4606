"""Temporary rows: what processes that share a store tell each other, outside of snapshots and the ledger.

Open runs, console sessions and the state of replicas are kept here. A row lives for some seconds after it was written, is
no part of a backup, and can be changed and removed. Reading and writing never wait for a commit of another process.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class TemporaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row. ``version`` is what ``put`` compares; ``keep_seconds`` counts from when the row is written."""

    kind: str
    row_id: str
    content: bytes
    keep_seconds: float
    version: int = 0


class TemporaryRows(Protocol):
    """The temporary rows of a store. A row whose time is over is as good as removed. Any thread may call any method."""

    def get(self, kind: str, row_id: str) -> TemporaryRow | None:
        """Return a row, or None if there is none."""
        ...

    def scan(self, kind: str, prefix: str, *, after: str = "", limit: int) -> list[TemporaryRow]:
        """Return the first rows whose ids begin with a prefix and come behind ``after``, by id."""
        ...

    def put(self, row: TemporaryRow, *, replaces: int | None, extra: Sequence[TemporaryRow] = ()) -> bool:
        """Write a row, and others with it, durably: all of them or none.

        Args:
            replaces: The version that must be there now; None if there must be no such row.
            extra: Rows that are written whatever was there before.

        Returns:
            False if another version is there. Then nothing was written. After a lost connection it may also be the
            version that this very call wrote.
        """
        ...

    def remove(self, kind: str, prefix: str) -> None:
        """Remove every row whose id begins with a prefix."""
        ...

    def expire(self) -> int:
        """Remove the rows whose time is over, and return how many there were."""
        ...
