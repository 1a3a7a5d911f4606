"""Days and minutes that people choose, and the snapshots that were the newest then."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from standfast.errors import InvalidValue
from standfast.records.canon import utc_text
from standfast.records.timestamps import time_of
from standfast.store.store import Store

_MOST_ZONE_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class PointInTime:
    """An instant, and the snapshot that was the newest then; 0 if there was none yet.

    ``is_now`` says that no instant was chosen.
    """

    at: str
    snapshot: int
    is_now: bool = False


def point_of(store: Store, text: str, zone_minutes: int, *, otherwise: datetime | None = None) -> PointInTime:
    """The point in time that a form names.

    Args:
        text: A day, ``2026-11-16``, which means its end; or a minute, ``2026-11-16T09:30``; or empty.
        zone_minutes: How many minutes the browser's clock is ahead of UTC.
        otherwise: The default; without one it is now.
    """
    head = store.head()
    if not text and otherwise is None:
        return PointInTime(utc_text(store.clock.now()), head, is_now=True)
    instant = _instant(text, zone_minutes) if text else otherwise
    assert instant is not None
    at = utc_text(instant)
    return PointInTime(at, snapshot_at(store, at, head))


def _instant(text: str, zone_minutes: int) -> datetime:
    if abs(zone_minutes) > _MOST_ZONE_MINUTES:
        raise InvalidValue(what="zone", problem="it must be the minutes that a clock is ahead of UTC")
    try:
        local = datetime.fromisoformat(text)
        if local.tzinfo is not None:
            return local.astimezone(UTC)
        whole_day = timedelta(days=1) if len(text) <= len("2026-11-16") else timedelta()
        return local.replace(tzinfo=UTC) + whole_day - timedelta(minutes=zone_minutes)
    except (ValueError, OverflowError):
        problem = f"write it as 2026-11-16 or 2026-11-16T09:30, not {text!r:.40}"
        raise InvalidValue(what="day", problem=problem) from None


def snapshot_at(store: Store, instant: str, head: int) -> int:
    """The newest snapshot that was committed before an instant, by bisection: commits follow the clock."""
    until, low, high = time_of(instant), 0, head
    while low < high:
        middle = (low + high + 1) // 2
        if time_of(store.commit_of(middle).committed_at) < until:
            low = middle
        else:
            high = middle - 1
    return low
