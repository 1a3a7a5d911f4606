"""The dates that a query names, and those that a text speaks of.

They are days, months and years ("7 May 2023", "May 7", "May 2023", "2023"), ISO dates, ranges of these ("from
May to July 2023", "2021-2023"), and words such as "yesterday" and "last week" if the request says what time
it is. The same words in a record's text are resolved against the record's own time.

The words are data: each language is a part of ``words/dates.txt``. One without a part has English dates.
"""

import calendar
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from standfast.recall.word_lists import word_lines

_FALLBACK: Final = "english"
UNITS: Final = ("day", "week", "month", "year", "weekend")
_MARKS: Final = re.compile("[\u0300-\u036f]+")
_LETTER: Final = "[0-9A-Za-z\u00c0-\u00ff_]"
"""What a word is made of, said here because what ``\\w`` means differs between versions of Python."""
_WORD: Final = re.compile("[0-9a-z\u00df-\u00ff_]+")
_SPACE: Final = "[ \t\r\n\u00a0\u202f]+"
FULL_FIT: Final = 4
PART_FIT: Final = 1
DAYS_AFTER: Final = 7
"""A record of up to so many days after a named day fits fully: people tell what happened in the days before.
"""
NO_DAY: Final = -1

_DAY: Final = re.compile(r"(0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?")
_YEAR: Final = re.compile(r"(?:19|20)[0-9][0-9]")
_ISO: Final = re.compile(r"\b((?:19|20)[0-9]{2})-(0[1-9]|1[0-2])(?:-(0[1-9]|[12][0-9]|3[01]))?\b")
_YEARS: Final = re.compile(r"\b((?:19|20)[0-9]{2})\s*[-\u2013]\s*((?:19|20)[0-9]{2})\b")
_SENTENCE_END: Final = re.compile(r"[.!?\n]")
_SENTENCE_START: Final = re.compile(r"(?:^|[.!?:;\n*\u2026\u2013\u2014-])[\s\"'\u201c\u2018(\[]*\Z")
_FEW: Final = (6, 2)
"""What "a few days ago" may mean: from the first to the second number of days ago."""
_FIRST_YEAR: Final = 1_100
"""Nobody asks before it, and every relative date that can be written is then a date."""
_LAST_YEAR: Final = 9_998
_WEEK_DAYS: Final = 7
_MAX_LISTED_DAYS: Final = 40
"""Longer spans are named by their months."""
_MAX_LISTED_MONTHS: Final = 100
"""Spans of more days are named by their years."""


def folded(text: str) -> str:
    """A text without capitals and accents, with one space between words."""
    plain = unicodedata.normalize("NFKD", " ".join(text.split()).replace("\u2019", "'").casefold())
    return _MARKS.sub("", plain)


@dataclass(frozen=True)
class DateWords:
    """The words of dates in one language, folded; see ``words/dates.txt`` for what each list has.

    Attributes:
        alone: One word of each expression for a day, such as "yesterday".
        nouns: One word of each other expression for a time, such as "week".
        companions: One word of each expression that says which one, such as "last" or "ago".
        spoken: Finds expressions such as "yesterday", "last May" and "two weeks ago". Its groups say what
            they are: ``day``; ``shift``, ``noun``; ``noun_first``, ``shift_after``; ``number``, ``unit``;
            ``weekday``.
        spoken_in_lower: The same for texts in lower case, in a third of the time.
    """

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    seasons: Mapping[str, int]
    units: Mapping[str, str]
    numbers: Mapping[str, int]
    days: Mapping[str, int]
    before: Mapping[str, int]
    after: Mapping[str, int]
    few: frozenset[str]
    needs_number: frozenset[str]
    starts: frozenset[str]
    joins: frozenset[str]
    of: frozenset[str]
    past: frozenset[str]
    past_endings: tuple[str, ...]
    not_past: frozenset[str]
    alone: frozenset[str]
    nouns: frozenset[str]
    companions: frozenset[str]
    spoken: re.Pattern[str]
    spoken_in_lower: re.Pattern[str]

    def may_speak(self, text: str, words: Iterable[str]) -> bool:
        """Whether a text with these words, folded, may have a relative expression, at a glance."""
        found = frozenset(words)
        # A mark of a footnote behind a word is part of it when it is folded, and hides it.
        has_companion = not (text.isascii() and self.companions.isdisjoint(found))
        return not self.alone.isdisjoint(found) or (has_companion and not self.nouns.isdisjoint(found))

    @classmethod
    def of_language(cls, language: str) -> "DateWords":
        """Read the words of a language."""
        lines = {
            section.removeprefix(f"{language} "): [
                [word.replace("_", " ") for word in line] for line in found
            ]
            for section, found in word_lines("dates").items()
            if section.startswith(f"{language} ")
        }

        def numbered(name: str, first: int = 0) -> dict[str, int]:
            return {folded(word): at for at, line in enumerate(lines[name], first) for word in line}

        def shifts(name: str) -> dict[str, int]:
            return {folded(word): int(away) for away, *words in lines.get(name, ()) for word in words}

        def listed(name: str) -> frozenset[str]:
            return frozenset(folded(word) for line in lines.get(name, ()) for word in line)

        spoken = _pattern(lines)
        return cls(
            months=numbered("months", 1),
            weekdays=numbered("weekdays"),
            seasons=numbered("seasons"),
            units={word: UNITS[at] for word, at in numbered("units").items()},
            numbers=numbered("numbers", 1),
            days=shifts("days"),
            before=shifts("before"),
            after=shifts("after"),
            few=listed("few"),
            needs_number=listed("needs_number"),
            starts=listed("from"),
            joins=listed("to"),
            of=listed("of"),
            past=listed("past"),
            past_endings=tuple(sorted(listed("past_endings"))),
            not_past=listed("not_past"),
            alone=_longest_words(phrase for _, *of_line in lines["days"] for phrase in of_line),
            nouns=_longest_words(
                _words(lines["units"] + lines["weekdays"] + lines["months"] + lines["seasons"])
            ),
            companions=_longest_words(
                [
                    *(
                        word
                        for name in ("before", "after")
                        for line in lines.get(name, ())
                        for word in line[1:]
                    ),
                    *(
                        word
                        for name in ("ago_before", "ago_after", "on")
                        for word in _words(lines.get(name, ()))
                    ),
                ]
            ),
            spoken=re.compile(spoken, re.IGNORECASE),
            spoken_in_lower=re.compile(spoken),
        )


@lru_cache(maxsize=16)
def date_words(language: str) -> DateWords:
    """The words of dates in a language; the English ones if it has none."""
    return DateWords.of_language(language if f"{language} months" in word_lines("dates") else _FALLBACK)


def words_in(text: str) -> list[str]:
    """The words of a text in lower case."""
    return _WORD.findall(text.lower())


def _longest_words(phrases: Iterable[str]) -> frozenset[str]:
    """The longest word of each phrase. A text with one of the phrases has that word."""
    return frozenset(max(words_in(folded(phrase)), key=len) for phrase in phrases)


def _pattern(lines: Mapping[str, list[list[str]]]) -> str:
    def any_of(*names: str, after: int = 0) -> str:
        """A pattern for any word of some lists, the longest first. ``after`` leaves out first words."""
        return _any(word for name in names for line in lines.get(name, ()) for word in line[after:])

    # "The last day" is no date, so days have no shift.
    nouns = _any(
        [*_words(lines["units"][1:]), *_words(lines["weekdays"] + lines["months"] + lines["seasons"])]
    )
    number = f"(?P<number>[0-9]{{1,3}}|{any_of('few', 'numbers')}){_SPACE}(?P<unit>{any_of('units')})"
    not_before = "".join(
        f"(?<!{_edge(before=True)}{re.escape(word)}[ \\t\\n])" for word in _words(lines.get("not_before", []))
    )
    not_after = f"(?!{_SPACE}(?:{any_of('not_after')}){_edge()})" if "not_after" in lines else ""
    found = [f"(?P<day>{any_of('days', after=1)})"]
    if "after" in lines:
        found.append(f"(?P<noun_first>{nouns}){_SPACE}(?P<shift_after>{any_of('after', after=1)})")
    found.append(
        f"{not_before}(?P<shift>{any_of('before', after=1)}){_SPACE}(?P<noun>{nouns}){_edge()}{not_after}"
    )
    if "ago_before" in lines:
        found.append(f"(?:{any_of('ago_before')}){_SPACE}{number}")
    else:
        found.append(f"{number}{_SPACE}(?:{any_of('ago_after')})")
    if "on" in lines:
        found.append(f"(?:{any_of('on')}){_SPACE}(?P<weekday>{any_of('weekdays')})")
    return f"{_edge(before=True)}(?:{'|'.join(found)}){_edge()}"


def _words(lines: Iterable[Iterable[str]]) -> list[str]:
    return [word for line in lines for word in line]


def _edge(*, before: bool = False) -> str:
    """A pattern for the edge of a word."""
    return f"(?<!{_LETTER})" if before else f"(?!{_LETTER})"


def _any(words: Iterable[str]) -> str:
    """A pattern for any of some words, the longest first."""
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(
        re.escape(word).replace("\\ ", _SPACE).replace("'", "['\u2019]") for word in longest_first
    )


@dataclass(frozen=True, slots=True)
class Span:
    """Days from the first to the last, as ordinals, and how well a record of them fits, in quarters."""

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


def dates_in(
    query: str, words: list[str], today: date | None = None, language: str = "english"
) -> list[QueryDate]:
    """The dates that a query names.

    Args:
        words: The query's words, folded.
        today: What relative dates are measured from; without it they are no dates.
        language: The language of its words.
    """
    known = date_words(language)
    found: list[QueryDate] = []
    lowered = query.lower()
    for match in _YEARS.finditer(lowered):
        years = sorted(map(int, match.groups()))
        found.append(Span(date(years[0], 1, 1).toordinal(), date(years[1], 12, 31).toordinal(), FULL_FIT))
    for match in _ISO.finditer(lowered):
        year, month, day = (int(part) if part else None for part in match.groups())
        found += _dates_of(_Named(0, 0, year, month, day))
    # Without the numbers that were just read.
    named = [one for one in _named_dates(words, known) if not found or one.month is not None]
    at = 0
    while at < len(named):
        joined = _range(words, named[at], named[at + 1], known) if at + 1 < len(named) else None
        found += [joined] if joined else _dates_of(named[at])
        at += 2 if joined else 1
    return found + (_relative(query, today, language) if today is not None else [])


def _named_dates(words: list[str], known: DateWords) -> list[_Named]:
    """Months with the days and years beside them, and years alone, in the order of the words."""
    found: list[_Named] = []
    used: set[int] = set()
    for at, word in enumerate(words):
        month = known.months.get(word)
        if month is None:
            continue
        # "7 May 2023", "May 7, 2023", "the 7th of May", "7 de mayo de 2023".
        first = at - 2 if at > 1 and words[at - 1] in known.of else at - 1
        places = [place for place in (first, at + 1, at + 2) if 0 <= place < len(words) and place not in used]
        day_at = next((place for place in places if _DAY.fullmatch(words[place])), None)
        year_at = next((place for place in places if _YEAR.fullmatch(words[place])), None)
        starts_range = at > 0 and words[at - 1] in known.starts
        if word in known.needs_number and day_at is None and year_at is None and not starts_range:
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


def _range(words: list[str], first: _Named, last: _Named, known: DateWords) -> Span | None:
    """One span for "from … to …", if both ends and a year are named."""
    between = words[first.end + 1 : last.start]
    year = first.year or last.year
    if len(between) != 1 or between[0] not in known.joins or year is None:
        return None
    if first.start == 0 or words[first.start - 1] not in known.starts:
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
        if length < _MAX_LISTED_MONTHS:
            for number in range(length + 1):
                day = (self.first + timedelta(days=number)).isoformat()
                names += [day[:7], f"-{day[4:7]}"]
                if length < _WEEK_DAYS:
                    names += [day, f"-{day[4:]}"]
        return list(dict.fromkeys(names))


def spoken_dates(
    text: str, today: date, language: str = "english", words: Sequence[str] | None = None
) -> list[SpokenDate]:
    """The dates that a text speaks of relative to a day, in their order, each once.

    Args:
        words: Its words, folded, if they are known.
    """
    if today.year < _FIRST_YEAR or today.year >= _LAST_YEAR:
        return []
    known = date_words(language)
    if words is None:
        words = words_in(text if text.isascii() else folded(text))
    # Most texts have none, and the pattern is slower than a look at the words.
    if not known.may_speak(text, words):
        return []
    found: dict[str, SpokenDate] = {}
    is_plain = text.isascii()
    pattern = known.spoken_in_lower if is_plain else known.spoken
    for match in pattern.finditer(text.lower() if is_plain else text):
        said = " ".join(text[match.start() : match.end()].split())
        days = _days_of(match, text, known, today)
        if days is not None:
            found.setdefault(said.lower(), SpokenDate(said, *days))
    return list(found.values())


def _days_of(match: re.Match[str], text: str, known: DateWords, today: date) -> tuple[date, date] | None:
    """The first and last day that an expression of a text means on some day; None if it is no date there."""
    said = {name: folded(words) for name, words in match.groupdict().items() if words is not None}
    if "day" in said:
        return None if _is_name(text, match.start()) else _shifted(today, known.days[said["day"]])
    if "weekday" in said:
        weekday = known.weekdays[said["weekday"]]
        return _shifted(today, _days_to(weekday, -1, today)) if _is_past(match, known) else None
    if "number" in said:
        unit = known.units[said["unit"]]
        if said["number"] in known.few:
            return _ago(_FEW[0], unit, today)[0], _ago(_FEW[1], unit, today)[1]
        return _ago(known.numbers.get(said["number"]) or int(said["number"]), unit, today)
    if "noun" in said:
        return _away(said["noun"], known.before[said["shift"]], known, today)
    return _away(said["noun_first"], known.after[said["shift_after"]], known, today)


def _is_name(text: str, start: int) -> bool:
    """Whether a word has a capital letter inside a sentence: "The Beatles sang Yesterday"."""
    return text[start].isupper() and not _SENTENCE_START.search(text[:start])


def _is_past(match: re.Match[str], known: DateWords) -> bool:
    """Whether the sentence of an expression speaks of what was."""
    text = match.string
    start = max((one.end() for one in _SENTENCE_END.finditer(text, 0, match.start())), default=0)
    end = _SENTENCE_END.search(text, match.end())
    words = set(words_in(text[start : end.start() if end else len(text)]))
    is_past = not words.isdisjoint(known.past) or any(word.endswith(known.past_endings) for word in words)
    return is_past and words.isdisjoint(known.not_past)


def _away(noun: str, shift: int, known: DateWords, today: date) -> tuple[date, date] | None:
    """The week, weekend, month, year, weekday or season that is so many away; of those with a name, the
    nearest one before or after.
    """
    if noun in known.weekdays:
        return _shifted(today, _days_to(known.weekdays[noun], shift, today))
    if noun in known.months:
        return _nearest_month(known.months[noun], shift, today)
    if noun in known.seasons:
        return _nearest_season(known.seasons[noun], shift, today)
    unit = known.units[noun]
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
        return (away - 7 if away >= 0 else away) + 7 * (shift + 1)
    return away if shift == 0 else (away if away > 0 else away + 7) + 7 * (shift - 1)


def _nearest_month(month: int, shift: int, today: date) -> tuple[date, date]:
    year = today.year
    if shift < 0:
        year += shift if month >= today.month else shift + 1
    elif shift > 0:
        year += shift if month <= today.month else shift - 1
    return _month(date(year, month, 1), 0)


def _nearest_season(season: int, shift: int, today: date) -> tuple[date, date]:
    """The last season that is over, the one of this year, or the next that has not begun; as in the north,
    spring begins in March.
    """

    def of_year(year: int) -> tuple[date, date]:
        first = date(year, 3 + 3 * season, 1)
        return first, _month(first, 2)[1]

    year = today.year
    if shift < 0:
        while of_year(year)[1] >= today:
            year -= 1
        return of_year(year + shift + 1)
    if shift > 0:
        while of_year(year)[0] <= today:
            year += 1
        return of_year(year + shift - 1)
    # A winter belongs to the year in which it begins. In spring, "this winter" is the one that is just over.
    return of_year(year - 1 if of_year(year)[0].month == 12 and today.month < 6 else year)


def _month(day: date, shift: int) -> tuple[date, date]:
    """The first and the last day of the month that is so many months from a day's."""
    months = day.year * 12 + day.month - 1 + shift
    year, month = divmod(months, 12)
    return date(year, month + 1, 1), date(year, month + 1, calendar.monthrange(year, month + 1)[1])


def _ago(count: int, unit: str, today: date) -> tuple[date, date]:
    """The days that "two weeks ago" may mean: half a week to both sides, or a whole month or year."""
    if unit == "month":
        return _month(today, -count)
    if unit == "year":
        return date(today.year - count, 1, 1), date(today.year - count, 12, 31)
    days = 1 if unit == "day" else 7
    middle, slack = today - timedelta(days=count * days), timedelta(days=days // 2)
    return middle - slack, middle + slack


def _relative(query: str, today: date, language: str) -> list[QueryDate]:
    """Dates that a query counts from today."""
    found = spoken_dates(query, today, language)
    return [Span(one.first.toordinal(), one.last.toordinal(), FULL_FIT) for one in found]


def named_dates(dates: list[QueryDate]) -> dict[str, int]:
    """The names that the index has for the dates of a query, and how well each fits, in quarters."""
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
