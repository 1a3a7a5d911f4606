"""Counts for Prometheus, in its text format. Labels come from closed sets, so that callers can't make them grow."""

import threading
from bisect import bisect_left
from collections import Counter
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """How many calls, how they ended, how long they took. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self.under_way = 0

    def ended(self, operation: str, status: int, seconds: float) -> None:
        """Note the end of a call."""
        with self._lock:
            self._ended[operation, status] += 1
            buckets = self._buckets.setdefault(operation, [0] * (len(BUCKETS_SECONDS) + 1))
            buckets[bisect_left(BUCKETS_SECONDS, seconds)] += 1
            self._seconds[operation] += seconds  # type: ignore[assignment]  # A Counter adds floats as well.

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """All of it; ``gauges`` are values of the moment, each with what it means."""
        with self._lock:
            lines = [
                "# HELP standfast_requests_total Calls that were answered, by operation and status.",
                "# TYPE standfast_requests_total counter",
                *(
                    f'standfast_requests_total{{operation="{operation}",status="{status}"}} {count}'
                    for (operation, status), count in sorted(self._ended.items())
                ),
                "# HELP standfast_request_seconds How long calls took, by operation.",
                "# TYPE standfast_request_seconds histogram",
            ]
            for operation in sorted(self._buckets):
                lines += self._histogram(operation)
        for name, (meaning, value) in sorted(gauges.items()):
            lines += [
                f"# HELP standfast_{name} {meaning}",
                f"# TYPE standfast_{name} gauge",
                f"standfast_{name} {value:g}",
            ]
        return "\n".join(lines) + "\n"

    def _histogram(self, operation: str) -> list[str]:
        lines, below = [], 0
        label = f'operation="{operation}"'
        for bound, count in zip([*map(str, BUCKETS_SECONDS), "+Inf"], self._buckets[operation], strict=True):
            below += count
            lines.append(f'standfast_request_seconds_bucket{{{label},le="{bound}"}} {below}')
        lines.append(f"standfast_request_seconds_sum{{{label}}} {self._seconds[operation]:.6f}")
        lines.append(f"standfast_request_seconds_count{{{label}}} {below}")
        return lines
