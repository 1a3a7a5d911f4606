"""Time, ids and randomness, handed in. The only module that may ask the system for them; lint sees to it.

``SystemClock`` and ``RandomIds`` are what production uses; ``ManualClock`` and ``CountedIds`` ship for users' tests,
so that a test's time stands still until it is told to move.
"""

import random
import secrets
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. ``now`` is an aware UTC datetime; ``monotonic`` never goes back."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; only differences mean anything."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


class IdSource(Protocol):
    """Where new ids come from; no id is ever given twice."""

    def new_id(self) -> str:
        """A new id of 32 lower-case hexadecimal digits."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block this thread for that long."""
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to; sleeping moves it. For tests, replays and simulations."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        if start.utcoffset() is None:
            raise ValueError(
                "a ManualClock starts at an aware datetime, for example datetime(2026, 1, 1, tzinfo=UTC)"
            )
        self._now = start.astimezone(UTC)
        self._elapsed_seconds = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The instant to which the clock was last moved."""
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
        """Let time pass. It can't pass backwards."""
        if seconds < 0:
            raise ValueError(
                "time passes forwards; give seconds >= 0, or use set_wall to step the wall clock"
            )
        with self._lock:
            self._now += timedelta(seconds=seconds)
            self._elapsed_seconds += seconds

    def set_wall(self, moment: datetime) -> None:
        """Step the wall clock, as a correction of the system time does; the monotonic clock does not notice."""
        with self._lock:
            self._now = moment.astimezone(UTC)


class RandomIds:
    """Ids from the system's randomness: unique across processes and machines."""

    def new_id(self) -> str:
        """A new random id."""
        return uuid.uuid4().hex


class CountedIds:
    """Ids 1, 2, 3 … as hexadecimal digits: the same ones in every run. For tests and replays."""

    def __init__(self) -> None:
        self._next = 1
        self._lock = threading.Lock()

    def new_id(self) -> str:
        """The next number."""
        with self._lock:
            number, self._next = self._next, self._next + 1
        return f"{number:032x}"


def fresh_secret() -> str:
    """256 bits from the system, as 64 hexadecimal digits, for whoever must not be guessed.

    Unlike time and ids it is not handed in: a secret that a test can choose is one that somebody ships by mistake.
    """
    return secrets.token_hex(32)


def seeded(seed: int) -> random.Random:
    """A stream of randomness that the seed determines, the same on every Python version that we support."""
    return random.Random(seed)  # noqa: S311  # Reproducible on purpose; nothing secret is drawn from it.
