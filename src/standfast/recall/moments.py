"""Timestamps of records, and how much recency weighs. Whole microseconds, so that every order and sum is exact.

A timestamp is an ISO 8601 date, or date and time: ``2026-01-15``, ``2026-01-15T10:30``, ``2026-01-15 10:30:00.25Z``,
``2026-01-15T12:30:00+02:00``. Without a zone it is in UTC, as the name of the field says. Digits beyond microseconds
are cut off. Anything else is no timestamp; Python's own reader takes more, and more with each version.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Any, Final

from standfast.canon import utc_text

MISSING: Final = -1
"""Stands for no timestamp; before every other, so that it sorts last where the newest comes first."""

POINT: Final = 1_000_000
"""One point of score, in the unit that scores are counted in: they have six decimals, as json-v1 has."""

_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)
_DAY_MICROSECONDS: Final = 86_400_000_000
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIMESTAMP: Final = re.compile(
    rf"({_DAY})(?:[Tt ]({_CLOCK})(?:(:[0-5][0-9])(?:[.,]([0-9]+))?)?(Z|z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?)?"
)
_MINUTE: Final = re.compile(f"{_DAY}T{_CLOCK}")
_SECOND: Final = re.compile(r":[0-5][0-9]")
_EXACT: Final = Context(prec=40)
_EVEN_SECOND: Final = rb'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}'
_EVEN_FORMS: Final = tuple(
    re.compile(rb"(?:" + _EVEN_SECOND + end + rb")*+") for end in (rb'Z"', rb'\.[0-9]{6}Z"')
)
_SECONDS_BYTES: Final = len('"2026-01-15T10:30:00Z"')


def moment_of(text: str) -> int:
    """Microseconds since the start of year 1, or ``MISSING`` if the text is no timestamp."""
    # Nearly every timestamp is written in one of two ways; their parts repeat, so they are remembered.
    size = len(text)
    if (size == 20 or (size == 27 and text[19] == ".")) and text[-1] == "Z":
        minute, second = _minute(text[:16]), _second(text[16:19])
        if minute >= 0 and second >= 0:
            if size == 20:
                return minute + second
            fraction = text[20:26]
            if fraction.isascii() and fraction.isdigit():
                return minute + second + int(fraction)
    return exact_moment(text)


def exact_moment(text: str) -> int:
    """``moment_of`` without a memory: the definition."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return MISSING
    day, time, seconds, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time or '00:00'}{seconds or ':00'}+00:00")
        moment -= _offset(zone)
    except (ValueError, OverflowError):
        return MISSING
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    return (moment - _EPOCH) // _MICROSECOND + micros


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone in "Zz":
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[-2:] if len(zone) > 3 else 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    offset = timedelta(hours=hours, minutes=minutes)
    return offset if zone[0] == "+" else -offset


@lru_cache(maxsize=1 << 16)
def _minute(head: str) -> int:
    return exact_moment(head) if _MINUTE.fullmatch(head) else MISSING


@lru_cache(maxsize=1 << 8)
def _second(tail: str) -> int:
    return int(tail[1:]) * POINT if _SECOND.fullmatch(tail) else MISSING


def moment_text(moment: int) -> str:
    """A moment as json-v1 writes it."""
    return utc_text(_EPOCH + timedelta(microseconds=moment))


def normal_stamp(text: str, moment: int) -> str:
    """A timestamp of this moment as json-v1 writes it; a text that is none as it is."""
    if moment == MISSING:
        return text
    # Written to the second in UTC, as nearly all are, it lacks nothing but a fraction.
    if len(text) == 20 and text[10] == "T" and text[19] == "Z":
        return text[:19] + ".000000Z"
    return moment_text(moment)


def sortable(stamps: Sequence[str | bytes | None]) -> list[bytes] | None:
    """Timestamps as they stand in JSON, empty for none, if they are written alike: then they sort as their moments do.

    Some may only look like timestamps: the 31st of February is none, and still sorts as if it were one.
    """
    told: list[Any] = [stamp or b"" for stamp in stamps]
    try:
        joined = b"".join(told)
    except TypeError:
        # Some were decoded.
        return None
    return told if any(form.fullmatch(joined) for form in _EVEN_FORMS) else None


def written_like(moment: int, stamps: Sequence[bytes]) -> bytes:
    """A moment, or the start of the second that it is in, as these timestamps are written, to be compared with them."""
    if moment < 0:
        return b""
    text = moment_text(moment)
    has_fraction = max(map(len, stamps)) > _SECONDS_BYTES
    return f'"{text}"'.encode() if has_fraction else f'"{text[:19]}Z"'.encode()


def recency(moment: int, now: int, half_life_days: int) -> int:
    """``0.5 ** (age / half life)`` in millionths, rounded half to even; 0 without a timestamp, 1 for one to come.

    The power function of a machine's C library may be off in the last place, and machines differ. Where that could
    show after rounding, the power is taken in decimal arithmetic, which is the same everywhere.
    """
    if moment == MISSING:
        return 0
    age, half_life = now - moment, half_life_days * _DAY_MICROSECONDS
    if age <= 0:
        return POINT
    weight: float = 0.5 ** (age / half_life) * POINT
    rounded = round(weight)
    if abs(abs(weight - rounded) - 0.5) > 1e-6:
        return rounded
    exact = _EXACT.power(Decimal("0.5"), _EXACT.divide(Decimal(age), Decimal(half_life)))
    return int(exact.scaleb(6, context=_EXACT).to_integral_value(ROUND_HALF_EVEN))
