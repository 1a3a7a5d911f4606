"""The dates that a query names.

They are days, months and years ("7 May 2023", "May 7", "May 2023", "2023"), ISO dates, ranges of these ("from
May to July 2023", "2021-2023"), and words such as "yesterday" and "last week" if the request says what time
it is.
"""

import calendar
import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

FULL_FIT: Final = 4
PART_FIT: Final = 1
DAYS_AFTER: Final = 7
"""A record of up to so many days after a named day fits fully: people tell what happened in the days before.
"""
NO_DAY: Final = -1

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}
_NEEDS_NUMBER: Final = frozenset(["may", "march", "mar", "sep", "dec", "jan", "apr", "jun", "jul"])
"""Names of months that are also other words. They are dates only beside a number."""
_DAY: Final = re.compile(r"(0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?")
_YEAR: Final = re.compile(r"(?:19|20)[0-9][0-9]")
_ISO: Final = re.compile(r"\b((?:19|20)[0-9]{2})-(0[1-9]|1[0-2])(?:-(0[1-9]|[12][0-9]|3[01]))?\b")
_YEARS: Final = re.compile(r"\b((?:19|20)[0-9]{2})\s*[-\u2013]\s*((?:19|20)[0-9]{2})\b")
_AGO: Final = re.compile(r"\b([0-9]{1,3}|a|an|one|two|three|four|five|six) (day|week|month|year)s? ago\b")
_SMALL: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_FIRST_YEAR: Final = 1_100
"""Nobody asks before it, and every relative date that can be written is then a date."""
_TO: Final = frozenset(("to", "and", "until", "till", "through"))


@dataclass(frozen=True, slots=True)
class Span:
    """Days from the first to the last, as ordinals, and how well a record of one of them fits, in quarters."""

    first: int
    last: int
    quarters: int


@dataclass(frozen=True, slots=True)
class YearlyDate:
    """A month, or a day of it, of any year."""

    month: int
    day: int | None


@dataclass(frozen=True, slots=True)
class _Named:
    """A date as a query names it, and the words that it takes."""

    start: int
    end: int
    year: int | None
    month: int | None
    day: int | None


QueryDate = Span | YearlyDate


def dates_in(query: str, words: list[str], today: date | None = None) -> list[QueryDate]:
    """The dates that a query names.

    Args:
        words: The query's words, folded.
        today: What relative dates are measured from; without it they are no dates.
    """
    found: list[QueryDate] = []
    lowered = query.lower()
    for match in _YEARS.finditer(lowered):
        years = sorted(map(int, match.groups()))
        found.append(Span(date(years[0], 1, 1).toordinal(), date(years[1], 12, 31).toordinal(), FULL_FIT))
    for match in _ISO.finditer(lowered):
        year, month, day = (int(part) if part else None for part in match.groups())
        found += _dates_of(_Named(0, 0, year, month, day))
    # Without the numbers that were just read.
    named = (
        _named_dates(words) if not found else [one for one in _named_dates(words) if one.month is not None]
    )
    at = 0
    while at < len(named):
        joined = _range(words, named[at], named[at + 1]) if at + 1 < len(named) else None
        found += [joined] if joined else _dates_of(named[at])
        at += 2 if joined else 1
    return found + (_relative(" ".join(words), today) if today is not None else [])


def _named_dates(words: list[str]) -> list[_Named]:
    """Months with the days and years beside them, and years alone, in the order of the words."""
    found: list[_Named] = []
    used: set[int] = set()
    for at, word in enumerate(words):
        month = _MONTHS.get(word)
        if month is None:
            continue
        places = [
            place for place in (at - 1, at + 1, at + 2) if 0 <= place < len(words) and place not in used
        ]
        day_at = next((place for place in places if _DAY.fullmatch(words[place])), None)
        year_at = next((place for place in places if _YEAR.fullmatch(words[place])), None)
        starts_range = at > 0 and words[at - 1] in ("from", "between")
        if word in _NEEDS_NUMBER and day_at is None and year_at is None and not starts_range:
            continue
        taken = [place for place in (at, day_at, year_at) if place is not None]
        used.update(taken)
        day = None if day_at is None else int(words[day_at].rstrip("stndrh"))
        year = None if year_at is None else int(words[year_at])
        found.append(_Named(min(taken), max(taken), year, month, day))
    found += [
        _Named(at, at, int(word), None, None)
        for at, word in enumerate(words)
        if at not in used and _YEAR.fullmatch(word)
    ]
    return sorted(found, key=lambda one: one.start)


def _range(words: list[str], first: _Named, last: _Named) -> Span | None:
    """One span for "from … to …", if both ends and a year are named."""
    between = words[first.end + 1 : last.start]
    year = first.year or last.year
    if len(between) != 1 or between[0] not in _TO or year is None:
        return None
    if first.start == 0 or words[first.start - 1] not in ("from", "between"):
        return None
    starts, ends = _days(first, year), _days(last, last.year or year)
    return Span(starts[0], ends[1], FULL_FIT) if starts and ends and starts[0] <= ends[1] else None


def _days(named: _Named, year: int) -> tuple[int, int] | None:
    """The first and the last day of a date in a year, as ordinals; None if there is no such day."""
    if named.month is None:
        return date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal()
    length = calendar.monthrange(year, named.month)[1]
    if named.day is None:
        return date(year, named.month, 1).toordinal(), date(year, named.month, length).toordinal()
    if named.day > length:
        return None
    day = date(year, named.month, named.day).toordinal()
    return day, day


def _dates_of(named: _Named) -> list[QueryDate]:
    if named.year is None:
        assert named.month is not None, "a date without a year names a month"
        return [YearlyDate(named.month, named.day)]
    days = _days(named, named.year)
    if days is None:
        return []
    if named.month is None:
        return [Span(*days, PART_FIT)]
    if named.day is None:
        return [Span(*days, FULL_FIT)]
    month = _days(_Named(0, 0, named.year, named.month, None), named.year)
    assert month is not None, "every month has days"
    return [Span(days[0], days[1] + DAYS_AFTER, FULL_FIT), Span(*month, PART_FIT)]


def _relative(text: str, today: date) -> list[QueryDate]:
    """Dates that are counted from today. English only."""
    if today.year < _FIRST_YEAR:
        return []
    found: list[tuple[date, date]] = []
    padded = f" {text} "
    monday = today - timedelta(days=today.weekday())
    month_end = today.replace(day=1) - timedelta(days=1)
    table = {
        "today": (today, today),
        "yesterday": (today - timedelta(days=1), today - timedelta(days=1)),
        "this week": (monday, today),
        "last week": (monday - timedelta(days=7), monday - timedelta(days=1)),
        "this month": (today.replace(day=1), today),
        "last month": (month_end.replace(day=1), month_end),
        "this year": (date(today.year, 1, 1), today),
        "last year": (date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)),
    }
    found += [days for phrase, days in table.items() if f" {phrase} " in padded]
    for match in _AGO.finditer(text):
        count = _SMALL.get(match[1]) or int(match[1])
        days = {"day": 1, "week": 7, "month": 30, "year": 365}[match[2]]
        slack = timedelta(days=days // 2)
        middle = today - timedelta(days=count * days)
        found.append((middle - slack, min(today, middle + slack)))
    return [Span(first.toordinal(), last.toordinal(), FULL_FIT) for first, last in found]


def date_quarters(dates: list[QueryDate], days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How well each day fits the dates of a query, in quarters.

    Args:
        days: Ordinals of days; ``NO_DAY`` fits nothing.
    """
    best = np.zeros(len(days), dtype=np.int64)
    for one in dates:
        if isinstance(one, Span):
            fits = (days >= one.first) & (days <= one.last)
            best = np.maximum(best, np.where(fits, one.quarters, 0))
        else:
            best = np.maximum(best, _yearly_quarters(one, days))
    return np.where(days == NO_DAY, 0, best)


def _yearly_quarters(one: YearlyDate, days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    since_1970 = (days - date(1970, 1, 1).toordinal()).astype("datetime64[D]")
    months = since_1970.astype("datetime64[M]")
    is_month = months.astype(np.int64) % 12 + 1 == one.month
    if one.day is None:
        return np.where(is_month, FULL_FIT, 0)
    day = (since_1970 - months.astype("datetime64[D]")).astype(np.int64) + 1
    is_near = (day >= one.day) & (day <= one.day + DAYS_AFTER)
    return np.where(is_month, np.where(is_near, FULL_FIT, PART_FIT), 0)
