"""Replicas: rate limits that hold for all servers of a store together.

Each server tells the others how many calls each name has made with it, in a temporary row of the store, about
once a second. What the others tell is taken from the same buckets as calls that were made here. So a caller
who spreads its calls over all servers gets what one server would allow, plus what the servers did not know of
each other yet: at most a second's calls.
"""

import threading
from collections.abc import Mapping
from typing import Final

import msgspec

from standfast.errors import StoreError
from standfast.limits import MAX_REPLICAS, REPLICA_SECONDS
from standfast.records.conversion import decoded
from standfast.server.access.protection import RateLimiter
from standfast.store.protocol import TemporaryRow, TemporaryRows

REPLICA_KIND: Final = "replica"
_Totals = dict[str, dict[str, int]]


class Replicas:
    """One server among those of its store. Safe to share between threads.

    Args:
        replica_id: Unique among the servers.
        limiters: The rate limits that the servers share, by name.
    """

    def __init__(self, rows: TemporaryRows, replica_id: str, limiters: Mapping[str, RateLimiter]) -> None:
        self._rows = rows
        self._id = replica_id
        self._limiters = limiters
        self._lock = threading.Lock()
        self._version: int | None = None
        self._told: _Totals = {}
        self._known: dict[str, _Totals] = {}
        self._rounds = 0
        self.others = 0
        """How many other servers were alive at the last exchange."""

    def exchange(self) -> None:
        """Tell what was used here, and count what was used elsewhere. An unreachable store hears later."""
        with self._lock:
            try:
                self._tell()
                rows = self._rows.scan(REPLICA_KIND, "", limit=MAX_REPLICAS)
            except StoreError:
                return
            others = {row.row_id: _totals_of(row) for row in rows if row.row_id != self._id}
            for replica, totals in others.items():
                self._count(self._known.get(replica), totals)
            self._known = others
            self.others = len(others)

    def leave(self) -> None:
        """Tell the others that this server is gone."""
        self._rows.remove(REPLICA_KIND, self._id)

    def _tell(self) -> None:
        totals = {name: limiter.totals() for name, limiter in self._limiters.items()}
        self._rounds += 1
        # Nothing new is told again only so that the row stays alive.
        if totals == self._told and self._rounds % (REPLICA_SECONDS // 3) and self._version is not None:
            return
        version = (self._version or 0) + 1
        row = TemporaryRow(
            kind=REPLICA_KIND,
            row_id=self._id,
            content=msgspec.json.encode(totals),
            keep_seconds=REPLICA_SECONDS,
            version=version,
        )
        # A row that has expired, because the store could not be reached for a while, is written anew.
        if self._rows.put(row, replaces=self._version) or self._rows.put(row, replaces=None):
            self._version, self._told = version, totals

    def _count(self, before: _Totals | None, totals: _Totals) -> None:
        """Count what another server has told since the last time. What a new one told before is over."""
        if before is None:
            return
        for name, limiter in self._limiters.items():
            known = before.get(name, {})
            for caller, total in totals.get(name, {}).items():
                # A server forgets callers that were idle for long, and begins to count them anew.
                used = total - known.get(caller, 0) if total >= known.get(caller, 0) else total
                if used:
                    limiter.spend(caller, used)


def _totals_of(row: TemporaryRow) -> _Totals:
    return decoded(row.content, _Totals)
