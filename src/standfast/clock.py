"""Sources of time, ids and randomness.

Everything else gets them passed in; lint forbids other modules to ask the system.

``SystemClock`` and ``RandomIds`` are for production. ``ManualClock`` and ``CountedIds`` are for tests, yours
included: their time and ids are the same in every run.
"""

import random
import secrets
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias

UUID: TypeAlias = uuid.UUID


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """The current instant, as an aware datetime in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start. It never goes back; only differences have a meaning."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait that long."""
        ...


class IdSource(Protocol):
    """A source of ids. No id is returned twice."""

    def new_id(self) -> str:
        """A new id of 32 lower-case hexadecimal digits."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """The current instant, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block this thread for that long."""
        time.sleep(seconds)


class ManualClock:
    """A clock for tests: it moves only by ``advance`` and ``sleep``, and never waits.

    Example:
        >>> clock = ManualClock()
        >>> clock.advance(90)
        >>> clock.now().isoformat()
        '2026-01-01T00:01:30+00:00'
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        if start.utcoffset() is None:
            raise ValueError(
                "a ManualClock needs an aware datetime, for example datetime(2026, 1, 1, tzinfo=UTC)"
            )
        self._now = start.astimezone(UTC)
        self._elapsed_seconds = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The instant that the clock shows."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """The seconds by which the clock has been advanced."""
        with self._lock:
            return self._elapsed_seconds

    def sleep(self, seconds: float) -> None:
        """Advance without waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        if seconds < 0:
            raise ValueError(
                "a ManualClock can't go back; pass seconds >= 0, or use set_wall to change the wall clock"
            )
        with self._lock:
            self._now += timedelta(seconds=seconds)
            self._elapsed_seconds += seconds

    def set_wall(self, moment: datetime) -> None:
        """Set the wall clock, as a correction of the system time does. ``monotonic`` does not change."""
        with self._lock:
            self._now = moment.astimezone(UTC)


class RandomIds:
    """Random ids, unique across processes and machines."""

    def new_id(self) -> str:
        """A new random id."""
        return uuid.uuid4().hex


class CountedIds:
    """Ids 1, 2, 3 … as hexadecimal digits, the same in every run, for tests."""

    def __init__(self) -> None:
        self._next = 1
        self._lock = threading.Lock()

    def new_id(self) -> str:
        """The next number."""
        with self._lock:
            number, self._next = self._next, self._next + 1
        return f"{number:032x}"


def fresh_uuid() -> UUID:
    """A new random UUID, the default id of requests."""
    return uuid.uuid4()


def fresh_secret() -> str:
    """A secret of 256 random bits, as 64 hexadecimal digits.

    Unlike time and ids it can't be passed in, because a test's secret could be shipped by mistake.
    """
    return secrets.token_hex(32)


def seeded(seed: int) -> random.Random:
    """A random generator that the seed determines, the same on every supported Python version."""
    return random.Random(seed)  # noqa: S311  # Reproducible on purpose, and never used for secrets.
