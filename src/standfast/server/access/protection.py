"""Protection against misuse: rate limits for callers, and a log of refused calls in the ledger.

The access log cannot be used to fill the disk. The first refusals of a minute become one ledger entry each.
Further ones are only counted, by interface, operation, error code, key and peer; the counts are written as
one entry when the minute is over. Groups beyond a limit are counted together. A process that is killed loses
the counts of the current minute; one that is stopped writes them first.
"""

import math
import threading
from collections import Counter, OrderedDict
from typing import Final

from standfast.clock import Clock
from standfast.errors import Forbidden, RateLimited, StandfastError, StoreError, Unauthenticated
from standfast.limits import (
    MAX_RATE_LIMITED_NAMES,
    MAX_REFUSAL_GROUPS,
    MAX_TOLD_NAMES,
    REFUSALS_LOGGED_PER_MINUTE,
)
from standfast.records.vocabulary import Value
from standfast.store.commit import Fact
from standfast.store.store import Store

ACCESS_KIND: Final = "access"
WINDOW_SECONDS: Final = 60.0
_SHOWN_CHARS: Final = 80
_Group = tuple[str, str, str, str, str]
_OTHERS: Final[_Group] = ("(others)", "(others)", "(others)", "", "")
_REFUSALS: Final = (Unauthenticated, Forbidden, RateLimited)


class RateLimiter:
    """A token bucket for each name. Safe to share between threads.

    The number of buckets is bounded: the least recently used one is dropped, and starts again full.

    Args:
        per_second: How many calls a name may make per second in the long run.
        burst: How many calls a name may make at once.
    """

    def __init__(
        self, clock: Clock, *, per_second: float, burst: float, max_names: int = MAX_RATE_LIMITED_NAMES
    ) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._max_names = max_names
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._taken: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, name: str) -> None:
        """Use up one call of a name. Raises ``RateLimited`` if it has none left."""
        with self._lock:
            left = self._left(name)
            allowed = left >= 1
            self._put(name, left - 1 if allowed else left)
            if allowed:
                self._taken[name] = self._taken.get(name, 0) + 1
        if not allowed:
            raise RateLimited(retry_after_seconds=math.ceil((1 - left) / self._per_second))

    def spend(self, name: str, calls: int) -> None:
        """Count calls that a name made elsewhere. It may then have to wait for up to a whole burst."""
        with self._lock:
            self._put(name, max(-self._burst, self._left(name) - calls))

    def totals(self) -> dict[str, int]:
        """How many calls were allowed here, for the names that were used last."""
        with self._lock:
            last = list(self._buckets)[-MAX_TOLD_NAMES:]
            return {name: self._taken[name] for name in last if name in self._taken}

    def _left(self, name: str) -> float:
        now = self._clock.monotonic()
        left, since = self._buckets.get(name, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_second)

    def _put(self, name: str, left: float) -> None:
        self._buckets[name] = (left, self._clock.monotonic())
        self._buckets.move_to_end(name)
        if len(self._buckets) > self._max_names:
            dropped, _ = self._buckets.popitem(last=False)
            self._taken.pop(dropped, None)


class RefusedCall(Value, frozen=True, kw_only=True):
    """A call that was refused: over which interface, which operation, by whom as far as is known, and why."""

    interface: str
    operation: str
    code: str
    problem: str
    key_id: str | None = None
    namespace: str | None = None
    peer: str | None = None

    @classmethod
    def of(
        cls,
        error: StandfastError,
        *,
        interface: str,
        operation: str,
        key_id: str | None = None,
        namespace: str | None = None,
        peer: str | None = None,
    ) -> "RefusedCall":
        """Describe a refusal. Text that the caller chose is shortened and made printable, without secrets."""
        return cls(
            interface=interface,
            operation=operation,
            code=error.code,
            problem=str(error.facts.get("problem", error.code)),
            key_id=key_id,
            namespace=None if namespace is None else ascii(namespace[:_SHOWN_CHARS])[1:-1],
            peer=peer,
        )

    @property
    def group(self) -> _Group:
        """The group in which the call is counted."""
        return self.interface, self.operation, self.code, self.key_id or "", self.peer or ""


class AccessLog:
    """Writes refused calls to the ledger. Safe to share between threads."""

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or store.clock
        self._lock = threading.Lock()
        self._window_began = self._clock.monotonic()
        self._logged = 0
        self._counts: Counter[_Group] = Counter()

    def note(self, call: RefusedCall) -> None:
        """Log a refused call, or count it. If the store cannot be written, the failure is counted instead."""
        with self._lock:
            facts = self._close_window() if self._window_is_over() else []
            if self._logged < REFUSALS_LOGGED_PER_MINUTE:
                self._logged += 1
                facts.append(Fact.of(ACCESS_KIND, {"refused": call.as_json()}))
            else:
                has_group = call.group in self._counts or len(self._counts) < MAX_REFUSAL_GROUPS
                self._counts[call.group if has_group else _OTHERS] += 1
        self._write(facts)

    def flush(self, *, only_if_over: bool = False) -> None:
        """Write the counts. With ``only_if_over``, only if their minute has passed."""
        with self._lock:
            facts = self._close_window() if self._window_is_over() or not only_if_over else []
        self._write(facts)

    def _window_is_over(self) -> bool:
        return self._clock.monotonic() - self._window_began >= WINDOW_SECONDS

    def _close_window(self) -> list[Fact]:
        """Begin a new window, and return the ledger entry with the counts of the last one."""
        counts = [
            {
                "interface": interface,
                "operation": operation,
                "code": code,
                "key_id": key_id or None,
                "peer": peer or None,
                "times": times,
            }
            for (interface, operation, code, key_id, peer), times in sorted(self._counts.items())
        ]
        self._counts.clear()
        self._logged = 0
        self._window_began = self._clock.monotonic()
        return [Fact.of(ACCESS_KIND, {"refused_too": counts})] if counts else []

    def _write(self, facts: list[Fact]) -> None:
        for fact in facts:
            try:
                self._store.append_fact(fact)
            except StoreError:
                with self._lock:
                    self._counts["access log", "write", "store", "", ""] += 1


def is_refusal(error: StandfastError) -> bool:
    """Whether an error belongs in the access log: caller unknown, permission lacking, calls too frequent."""
    return isinstance(error, _REFUSALS)
