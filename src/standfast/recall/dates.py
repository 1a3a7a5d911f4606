"""The dates that a query names, and those that a text speaks of.

They are days, months and years ("7 May 2023", "May 7", "May 2023", "2023"), ISO dates, ranges of these ("from
May to July 2023", "2021-2023"), and words such as "yesterday" and "last week" if the request says what time
it is. The same words in a record's text are resolved against the record's own time.
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
_SMALL: Final = {
    name: number
    for number, names in enumerate(
        ["a an one", "two couple", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 1
    )
    for name in names.split()
}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHIFTS: Final = {"last": -1, "this": 0, "next": 1}
_DAYS_AWAY: Final = {
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this evening": 0,
    "tomorrow": 1,
}
_UNITS: Final = ("week", "weekend", "month", "year", *_WEEKDAYS, *(name for name in _MONTHS if len(name) > 4))
_SPOKEN: Final = re.compile(
    r"\b(?:{}|(?:last|this|next)\s+(?:{})|(?:[0-9]{{1,3}}|{})\s+(?:day|week|month|year)s?\s+ago)\b".format(
        "|".join(name.replace(" ", r"\s+") for name in _DAYS_AWAY),
        "|".join([*_UNITS, "may", "june", "july"]),
        "|".join(_SMALL),
    ),
    re.IGNORECASE | re.ASCII,
)
# One of these is in whatever the pattern matches, which is slower to look for.
_SPOKEN_HINTS: Final = ("last", "this", "next", "ago", "yesterday", "today", "tonight", "tomorrow")
_FIRST_YEAR: Final = 1_100
"""Nobody asks before it, and every relative date that can be written is then a date."""
_LAST_YEAR: Final = 9_998
_WEEK_DAYS: Final = 7
_MAX_LISTED_DAYS: Final = 40
"""Longer spans are named by their years."""
_TO: Final = frozenset(("to", "and", "until", "till", "through"))


@dataclass(frozen=True, slots=True)
class Span:
    """Days from the first to the last, as ordinals, and how well a record of one of them fits, in
    quarters.
    """

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
    return found + (_relative(query, today) if today is not None else [])


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


@dataclass(frozen=True, slots=True)
class SpokenDate:
    """Words such as "yesterday", and the days that they mean."""

    words: str
    first: date
    last: date

    @property
    def shown(self) -> str:
        """The days in as few characters as can be: a day, a month, a year, or the first and the last day."""
        if self.first == self.last:
            return self.first.isoformat()
        months = {(one.year, one.month) for one in (self.first, self.last)}
        if self.last + timedelta(days=1) == _month(self.last, 1)[0] and self.first.day == 1:
            if len(months) == 1:
                return self.first.isoformat()[:7]
            if (self.first.month, self.last.month) == (1, 12) and self.first.year == self.last.year:
                return str(self.first.year)
        return f"{self.first.isoformat()}/{self.last.isoformat()}"

    @property
    def names(self) -> list[str]:
        """The names that the index has for these days: days, months and years, and days of any year."""
        names = [str(self.first.year), str(self.last.year)]
        length = (self.last - self.first).days
        if length < _MAX_LISTED_DAYS:
            for number in range(length + 1):
                day = (self.first + timedelta(days=number)).isoformat()
                names += [day[:7], f"-{day[4:7]}"]
                if length < _WEEK_DAYS:
                    names += [day, f"-{day[4:]}"]
        return list(dict.fromkeys(names))


def spoken_dates(text: str, today: date) -> list[SpokenDate]:
    """The dates that a text speaks of relative to a day, in the order in which they stand there, each once.

    English only. Most texts have none, so the words are looked for first.
    """
    lowered = text.lower()
    if (
        today.year < _FIRST_YEAR
        or today.year >= _LAST_YEAR
        or not any(one in lowered for one in _SPOKEN_HINTS)
    ):
        return []
    found: dict[str, SpokenDate] = {}
    for match in _SPOKEN.finditer(text):
        words = " ".join(match.group().split())
        days = _days_of(words.lower().split(), today)
        if days is not None:
            found.setdefault(words.lower(), SpokenDate(words, *days))
    return list(found.values())


def _days_of(words: list[str], today: date) -> tuple[date, date] | None:
    """The first and the last day that an expression means on some day."""
    if words[-1] == "ago":
        return _ago(_SMALL.get(words[0]) or int(words[0]), words[1].rstrip("s"), today)
    shift = _SHIFTS.get(words[0])
    if len(words) == 1 or shift is None or words[1] in ("night", "morning", "evening"):
        return _shifted(today, _DAYS_AWAY[" ".join(words)])
    unit = words[1]
    if unit in _WEEKDAYS:
        return _shifted(today, _days_to(_WEEKDAYS.index(unit), shift, today))
    if unit in _MONTHS:
        return _nearest_month(_MONTHS[unit], shift, today)
    monday = today - timedelta(days=today.weekday()) + timedelta(days=7 * shift)
    if unit == "week":
        return monday, monday + timedelta(days=6)
    if unit == "weekend":
        # On a Saturday or Sunday, "last weekend" is the one before.
        return monday + timedelta(days=5), monday + timedelta(days=6)
    if unit == "month":
        return _month(today, shift)
    return date(today.year + shift, 1, 1), date(today.year + shift, 12, 31)


def _shifted(today: date, days: int) -> tuple[date, date]:
    day = today + timedelta(days=days)
    return day, day


def _days_to(weekday: int, shift: int, today: date) -> int:
    """How many days away a weekday is: the last one before today, the one of this week, or the next one."""
    away = weekday - today.weekday()
    if shift < 0:
        return away - 7 if away >= 0 else away
    return away if shift == 0 else away if away > 0 else away + 7


def _nearest_month(month: int, shift: int, today: date) -> tuple[date, date]:
    year = today.year
    if shift < 0 and month >= today.month:
        year -= 1
    elif shift > 0 and month <= today.month:
        year += 1
    return _month(date(year, month, 1), 0)


def _month(day: date, shift: int) -> tuple[date, date]:
    """The first and the last day of the month that is so many months from a day's."""
    months = day.year * 12 + day.month - 1 + shift
    year, month = divmod(months, 12)
    return date(year, month + 1, 1), date(year, month + 1, calendar.monthrange(year, month + 1)[1])


def _ago(count: int, unit: str, today: date) -> tuple[date, date]:
    """The days that "two weeks ago" may mean: half a unit to both sides."""
    if unit == "month":
        return _month(today, -count)
    if unit == "year":
        return date(today.year - count, 1, 1), date(today.year - count, 12, 31)
    days = {"day": 1, "week": 7}[unit]
    middle, slack = today - timedelta(days=count * days), timedelta(days=days // 2)
    return middle - slack, middle + slack


def _relative(query: str, today: date) -> list[QueryDate]:
    """Dates that a query counts from today."""
    return [Span(one.first.toordinal(), one.last.toordinal(), FULL_FIT) for one in spoken_dates(query, today)]


def named_dates(dates: list[QueryDate]) -> dict[str, int]:
    """The names under which the index has what the dates of a query mean, and how well each fits, in
    quarters.
    """
    names: dict[str, int] = {}
    for one in dates:
        for name, quarters in _names_with_quarters(one):
            names[name] = max(names.get(name, 0), quarters)
    return names


def _names_with_quarters(one: QueryDate) -> list[tuple[str, int]]:
    if isinstance(one, YearlyDate):
        if one.day is None:
            return [(f"--{one.month:02}", FULL_FIT)]
        return [(f"--{one.month:02}-{one.day:02}", FULL_FIT), (f"--{one.month:02}", PART_FIT)]
    if one.last - one.first < _MAX_LISTED_DAYS:
        days = [date.fromordinal(day).isoformat() for day in range(one.first, one.last + 1)]
        # A month is meant where all of it is.
        months = [day[:7] for day in days if day[8:] == "01" and f"{day[:8]}28" in days]
        return [(name, one.quarters) for name in (*days, *months)]
    first, last = date.fromordinal(one.first), date.fromordinal(one.last)
    return [(str(year), PART_FIT) for year in range(first.year, last.year + 1)][:_MAX_LISTED_DAYS]


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
