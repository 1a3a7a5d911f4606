"""Timestamps of records, and how much recency weighs.

Times are whole microseconds, so every order and sum is exact.

A timestamp is an ISO 8601 date, or date and time: ``2026-01-15``, ``2026-01-15T10:30``, ``2026-01-15
10:30:00.25Z``, ``2026-01-15T12:30:00+02:00``. Without a zone it is in UTC. Digits beyond microseconds are cut
off. Nothing else is a timestamp: ``datetime.fromisoformat`` accepts more with each version of Python.
"""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Final

from standfast.errors import InvalidValue, StandfastError
from standfast.records.canon import utc_text
from standfast.records.vocabulary import shown

MISSING: Final = -1
"""The time of a record without a timestamp.

It is before every other, so it sorts last where the newest comes first.
"""

POINT: Final = 1_000_000
"""One point of score. Scores are counted in millionths, because json-v1 has six decimals."""

_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
DAY_MICROSECONDS: Final = 86_400_000_000
_MINUTE_MICROSECONDS: Final = 60_000_000
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt"
    r" ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(?:(:[0-5][0-9])(?:[.,]([0-9]+))?)?(Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"  # noqa: E501  # A pattern is read as a whole.
)
_DECIMAL: Final = Context(prec=40)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.]([0-9]+))?)?"
    r"(Z|z|[+-][0-9]{2}:[0-9]{2})"
)
_LEAP_SECOND: Final = "60"


_SECONDS: Final = {f":{second:02}": second * POINT for second in range(60)}


def time_of(text: str) -> int:
    """Microseconds since the start of year 1, or ``MISSING`` if the text is no timestamp."""
    # Nearly every timestamp has seconds, maybe with six decimals, and ends in Z. Its minute and its second
    # are looked up, because they repeat.
    size = len(text)
    if size in (20, 27) and text[-1] == "Z" and text[16:19] in _SECONDS:
        micros = text[20:26] if size == 27 else "0"
        if size == 20 or (text[19] == "." and micros.isascii() and micros.isdecimal()):
            minute = _minute(text[:16])
            return minute if minute == MISSING else minute + _SECONDS[text[16:19]] + int(micros)
    return exact_time(text)


@lru_cache(maxsize=1 << 16)
def _minute(text: str) -> int:
    return exact_time(text)


def exact_time(text: str) -> int:
    """``time_of`` without a cache: the definition."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return MISSING
    day, clock, seconds, fraction, zone = found.groups()
    try:
        instant = datetime.fromisoformat(f"{day}T{clock or '00:00'}{seconds or ':00'}+00:00") - _offset(zone)
    except (ValueError, OverflowError):
        return MISSING
    return (instant - _EPOCH) // _MICROSECOND + int((fraction or "0")[:6].ljust(6, "0"))


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone in "Zz":
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[-2:] if len(zone) > 3 else 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    offset = timedelta(hours=hours, minutes=minutes)
    return offset if zone[0] == "+" else -offset


def day_of(time: int) -> date:
    """The day of a time in microseconds."""
    # Both count from the first day of year 1, whose ordinal is 1.
    return date.fromordinal(time // DAY_MICROSECONDS + 1)


def clock_of(time: int) -> str:
    """The hour and minute of a time, as HH:MM."""
    hours, minutes = divmod(time % DAY_MICROSECONDS // _MINUTE_MICROSECONDS, 60)
    return f"{hours:02}:{minutes:02}"


def local_time(time: int, offset_minutes: int | None) -> int:
    """A time as a clock with an offset shows it; the time itself if that is before or after all dates."""
    local = time + (offset_minutes or 0) * _MINUTE_MICROSECONDS
    return local if 0 <= local < date.max.toordinal() * DAY_MICROSECONDS else time


def normal_timestamp(text: str) -> str:
    """A timestamp as json-v1 writes it; a text that is no timestamp is returned as it is."""
    time = time_of(text)
    return text if time == MISSING else utc_text(_EPOCH + timedelta(microseconds=time))


def recency(time: int, now: int, half_life_days: int) -> int:
    """``0.5 ** (age / half life)`` in millionths, half to even; 0 without a timestamp, 1 for a future one.

    The power function of the C library may be off in the last place, and platforms differ. Where that could
    change the rounded number, the power is computed in decimal arithmetic, which is the same everywhere.
    """
    if time == MISSING:
        return 0
    age, half_life = now - time, half_life_days * DAY_MICROSECONDS
    if age <= 0:
        return POINT
    weight: float = 0.5 ** (age / half_life) * POINT
    rounded = round(weight)
    if abs(abs(weight - rounded) - 0.5) > 1e-6:
        return rounded
    exact = _DECIMAL.power(Decimal("0.5"), _DECIMAL.divide(Decimal(age), Decimal(half_life)))
    return int(exact.scaleb(6, context=_DECIMAL).to_integral_value(ROUND_HALF_EVEN))


def instant_with_offset(instant: object, *, what: str) -> str:
    """A moment as records store it, but with its own offset if not in UTC; as ``instant_text`` takes it."""
    text = instant_text(instant, what=what)
    given = instant if isinstance(instant, datetime) else _read_instant(str(instant))
    minutes = 0 if given is None else (given.utcoffset() or timedelta()) // timedelta(minutes=1)
    try:
        local = datetime.fromisoformat(text).astimezone(timezone(timedelta(minutes=minutes)))
    except OverflowError:
        return text
    return local.isoformat(timespec="microseconds") if minutes else text


def offset_of(text: str) -> int | None:
    """The offset of what ``instant_with_offset`` made, in minutes; None for UTC."""
    offset = datetime.fromisoformat(text).utcoffset()
    return offset // timedelta(minutes=1) if offset else None


def instant_text(instant: object, *, what: str) -> str:
    """A moment as records store it.

    Takes an aware datetime, or an instant of RFC 3339, or a date, which means its start in UTC. Seconds may
    be left out, and a space may stand for the T. Digits beyond microseconds are cut off, and a leap second is
    the first of the next minute. An instant beyond those that can be stored is the nearest that can.
    """
    try:
        given = _read_instant(instant) if isinstance(instant, str) else instant
        if isinstance(given, datetime):
            return utc_text(_within_range(given))
    except (ValueError, StandfastError):
        pass
    if _lacks_zone(instant):
        problem = (
            "it has no time zone; give an ISO 8601 instant such as '2026-11-16T09:30:00Z', or a datetime such"
            f" as datetime.now(timezone.utc), not {shown(instant)}"
        )
    else:
        problem = (
            "it must be an ISO 8601 instant such as '2026-11-16T09:30:00Z', a datetime with a time zone, or a"
            f" date, not {shown(instant)}"
        )
    raise InvalidValue(what=what, problem=problem)


def _lacks_zone(instant: object) -> bool:
    """Whether nothing but the time zone is missing."""
    if isinstance(instant, datetime):
        return instant.tzinfo is None
    try:
        return isinstance(instant, str) and _read_instant(f"{instant}Z") is not None
    except ValueError:
        return False


def _read_instant(text: str) -> datetime | None:
    """The instant of a text, with its offset, or None if it has not the form of one."""
    if _DATE.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    day, clock, seconds, fraction, zone = found.groups()
    is_leap = seconds == _LEAP_SECOND
    digits = (fraction or "0")[:6].ljust(6, "0")
    read = datetime.fromisoformat(
        f"{day}T{clock}:{'59' if is_leap else seconds or '00'}.{'0' * 6 if is_leap else digits}{zone.upper()}"
    )
    try:
        return read + timedelta(seconds=is_leap)
    except OverflowError:
        return read


def _within_range(moment: datetime) -> datetime:
    """A moment whose time in UTC can be written."""
    try:
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment
    except OverflowError:
        return _LAST if moment.year > 1 else _EPOCH
