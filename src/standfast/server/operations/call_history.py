"""How many calls each namespace had in each hour, and how long they took, for the home page of the console.

It is kept in memory by each server, and begins when the server does. Metrics are what to keep for longer.
"""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from standfast.clock import Clock
from standfast.limits import CALL_HISTORY_HOURS, MAX_METRIC_NAMESPACES
from standfast.server.operations.telemetry import BUCKETS_SECONDS

RECALLS: Final = "recalls"
WRITES: Final = "writes"
_KINDS: Final = {
    "recall": RECALLS,
    "remember": WRITES,
    "propose": WRITES,
    "add": WRITES,
    "forget": WRITES,
    "commit": WRITES,
}
"""What a call is, by the first word of its operation."""
_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)
_HOUR: Final = timedelta(hours=1)
_REFUSED: Final = 400
"""The lowest status of a call that was not answered as asked."""


def hour_of(at: datetime) -> int:
    """The number of the hour that an instant is in, counted from the start of year 1."""
    return (at - _EPOCH) // _HOUR


def start_of(hour: int) -> datetime:
    """The instant at which an hour begins."""
    return _EPOCH + hour * _HOUR


@dataclass(slots=True)
class CallHour:
    """The calls of one or more hours: answered ones by duration, and how many were refused."""

    durations: dict[str, list[int]] = field(
        default_factory=lambda: {kind: [0] * (len(BUCKETS_SECONDS) + 1) for kind in (RECALLS, WRITES)}
    )
    refused: int = 0

    def count(self, kind: str) -> int:
        """How many calls of a kind were answered."""
        return sum(self.durations[kind])

    def add(self, other: "CallHour") -> None:
        """Add the calls of another hour."""
        self.refused += other.refused
        for kind, counts in self.durations.items():
            for place, count in enumerate(other.durations[kind]):
                counts[place] += count

    def quantile_seconds(self, share: float) -> float:
        """A duration that this share of the calls did not exceed: the end of a bucket; 0 without calls."""
        counts = [sum(pair) for pair in zip(*self.durations.values(), strict=True)]
        wanted, seen = share * sum(counts), 0
        for bound, count in zip((*BUCKETS_SECONDS, BUCKETS_SECONDS[-1]), counts, strict=True):
            seen += count
            if count and seen >= wanted:
                return bound
        return 0.0


class CallHistory:
    """Counts calls by namespace and hour. Safe to share between threads.

    It keeps ``CALL_HISTORY_HOURS``, of the first namespaces that are called.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._hours: dict[str, dict[int, CallHour]] = {}

    def note(self, namespace: str, operation: str, status: int, seconds: float) -> None:
        """Count a call. Others than recalls and writes are counted only if they were refused."""
        kind = _KINDS.get(operation.partition("_")[0])
        if kind is None and status < _REFUSED:
            return
        hour = hour_of(self._clock.now())
        with self._lock:
            if namespace not in self._hours and len(self._hours) >= MAX_METRIC_NAMESPACES:
                return
            hours = self._hours.setdefault(namespace, {})
            if hour not in hours:
                hours[hour] = CallHour()
                for old in [one for one in hours if one <= hour - CALL_HISTORY_HOURS]:
                    del hours[old]
            if status >= _REFUSED:
                hours[hour].refused += 1
            elif kind is not None:
                hours[hour].durations[kind][bisect_left(BUCKETS_SECONDS, seconds)] += 1

    def periods(self, namespace: str, starts: Sequence[int], hours: int) -> list[CallHour]:
        """The calls of a namespace in periods of ``hours`` that begin at these hours."""
        found = []
        with self._lock:
            own = self._hours.get(namespace, {})
            for start in starts:
                period = CallHour()
                for hour in range(start, start + hours):
                    if hour in own:
                        period.add(own[hour])
                found.append(period)
        return found
