"""How often somebody may call: a bucket of tokens each, refilled at a steady rate."""

import math
import threading
from collections import OrderedDict

from standfast.clock import Clock
from standfast.errors import RateLimited
from standfast.limits import MAX_CALLERS_PACED


class Pace:
    """A bucket for each name. The names are bounded: the one not seen for longest makes room, and starts full again."""

    def __init__(
        self,
        clock: Clock,
        *,
        per_second: float,
        at_once: float,
        most_names: int = MAX_CALLERS_PACED,
    ) -> None:
        self._clock = clock
        self._per_second = per_second
        self._at_once = at_once
        self._most_names = most_names
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> None:
        """Use up one call of this name; ``RateLimited`` if there is none left."""
        with self._lock:
            now = self._clock.monotonic()
            left, since = self._buckets.pop(name, (self._at_once, now))
            left = min(self._at_once, left + (now - since) * self._per_second)
            enough = left >= 1
            self._buckets[name] = (left - 1 if enough else left, now)
            if len(self._buckets) > self._most_names:
                self._buckets.popitem(last=False)
        if not enough:
            raise RateLimited(retry_after_seconds=math.ceil((1 - left) / self._per_second))
