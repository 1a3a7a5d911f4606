"""Validity in words: "until Friday", "this week", "from May on" in a statement, as days, without a model.

    The office is closed until Friday.        until the end of the Friday after the day on which it was said
    Ada is on parental leave this month.      the first to the last day of that month
    From May on we ship on Mondays.           from 1 May

Only a text of one plain sentence is read, and of two days that words may mean, an end is the later one. Words
that only look like it say nothing: "I work until 5", "Monday until Friday", "valid until May" (a date that
the sentence is about), "I was in Rome until Friday". It is a reading all the same, so it hides nothing:
recall marks what it takes to be over or still to come, and a caller's own dates always hold.

The words are data, in ``validity.txt``: English, German, French and Spanish.
"""

import calendar
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Final, NamedTuple

from standfast.records.canon import utc_text
from standfast.records.statements import (
    JoinedPhrases,
    has_more_words,
    has_word_of,
    is_one_long_sentence,
    letter_runs,
    longest_runs,
    plain_sentences,
    sections_of,
)

_DATA: Final = "validity.txt"

_MAX_WORDS: Final = 24
_MIN_WORDS: Final = 3
"""A sentence with fewer words only greets: "See you!"."""
_MAX_AFTER: Final = 6
"""So many words may follow a date at the end of a sentence."""
_MAX_DAYS_AHEAD: Final = 335
"""A day without a year that is further away was probably meant to be in the past."""
_RECENT_DAYS: Final = 183
"""A first day without a year that is further away was probably meant to be in the past."""
_WORD: Final = re.compile(
    r"\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.(?:\d{4})?|jusqu'(?:à|au|en)(?!\w)|aujourd'hui|[ld]'(?=\w)"
    r"|\d+(?:[:.,]\d+)+\w*|\w+(?:-\w+)*|[,;:()–—]"
)
_NUMBERED_DAY: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|\.)?")
_ISO_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_POINTED_DAY: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})?")
_YEAR: Final = re.compile(r"20\d\d")
_NUMERIC_DATE: Final = re.compile(rf"{_YEAR.pattern}|\d[-.]\d")
_CLOCK: Final = re.compile(
    r"\b\d{1,2}(?:[:h]\d\d|\.\d\d (?:uhr|h)|\s*(?:am|pm|a\.m|p\.m|uhr|h|heures|o'clock)\b)"
)
_PUNCTUATION: Final = frozenset(",;:()–—")
_CONTRACTIONS: Final = ((re.compile(r"\b(\w+)'(m|re|s|ll)\b"), r"\1 \2"), (re.compile(r"n't\b"), " not"))
_SHORT_FORMS: Final = {"m": "am", "re": "are", "s": "is", "ll": "will"}


class ValidityInWords(NamedTuple):
    """When a statement holds by its own words, as stored instants; None for an open end."""

    words: str
    valid_from: str | None
    valid_until: str | None


class _Days(NamedTuple):
    """The days that words mean, from the first to the last, and where the next word is."""

    first: date
    last: date
    end: int


def validity_in_words(text: str, said: date, *, runs: frozenset[str] | None = None) -> ValidityInWords | None:
    """When a text holds by its own words; None if it does not say so plainly.

    Args:
        said: The day on which it was said.
        runs: Its ``letter_runs``, if they are known.
    """
    runs = letter_runs(text) if runs is None else runs
    if "?" in text or _cue_runs().isdisjoint(runs):
        return None
    folded = text.casefold().replace("’", "'")
    if _date_runs().isdisjoint(runs) and not _NUMERIC_DATE.search(folded):
        return None
    has_phrases = _joined().may_be_in(runs)
    if not has_phrases and is_one_long_sentence(folded, _MAX_WORDS):
        return None
    sentences = [one for one in plain_sentences(folded) if len(one.split()) >= _MIN_WORDS]
    if len(sentences) != 1:
        return None
    if not has_phrases and has_more_words(sentences[0], _MAX_WORDS):
        return None
    if not _cues().search(folded):
        return None
    words = _words_of(sentences[0], runs)
    if not _MIN_WORDS <= len(words) <= _MAX_WORDS or _is_any(words, "stop") or _CLOCK.search(sentences[0]):
        return None
    if not (_is_any(words, "present") or _is_in(words[0], "orders")):
        return None
    found = list(_phrases(words, said))
    if len(found) != 1 or has_word_of(sentences[0], "unsure"):
        return None
    return _as_validity(words, found[0], said)


class _Phrase(NamedTuple):
    kind: str
    start: int
    days: _Days


def _phrases(words: Sequence[str], said: date) -> Iterator[_Phrase]:
    """Each date of a sentence with what it is: an end, a beginning, a span, or something else."""
    at = 0
    while at < len(words):
        word, kind = words[at], ""
        if _is_in(word, "until"):
            kind = "until"
        elif _is_in(word, "from"):
            # Elsewhere "starting" belongs to something else: "I'm starting on Monday".
            kind = "from" if word != "starting" or at == 0 else "other"
        start = at + 1 if kind else at
        days = _date_at(words, start, said, skips=bool(kind))
        if days is None:
            at += 1
            continue
        if kind == "from" and word == "from":
            # "From May on" is a beginning, "from May" alone only a place in time.
            is_beginning = days.end < len(words) and _is_in(words[days.end], "on")
            kind, days = ("from" if is_beginning else "other"), days._replace(end=days.end + is_beginning)
        yield _Phrase(kind or "span", at, days)
        at = days.end


def _as_validity(words: Sequence[str], phrase: _Phrase, said: date) -> ValidityInWords | None:
    kind, start, days = phrase
    first, last = days.first, days.last
    shown = " ".join(words[start : days.end]).replace("_", " ").replace("' ", "'")
    if kind == "until" and _may_end(words, phrase) and last >= said:
        return ValidityInWords(shown, None, _instant(last, time(23, 59, 59)))
    has_year = any(_YEAR.match(word) for word in words[start : days.end])
    if kind == "from" and first > said and (has_year or (first - said).days <= _RECENT_DAYS):
        return ValidityInWords(shown, _instant(first, time()), None)
    if kind == "span" and _is_state(words) and _is_relative(words[start : days.end]):
        begins = _instant(first, time()) if first > said else None
        return ValidityInWords(shown, begins, _instant(last, time(23, 59, 59)))
    return None


def _instant(day: date, clock: time) -> str:
    return utc_text(datetime.combine(day, clock, tzinfo=UTC))


def _may_end(words: Sequence[str], phrase: _Phrase) -> bool:
    """Whether "until …" limits what the sentence says.

    It stands at the start, or at the end with a few words of why or where behind it; and nothing like "not
    until Friday", which is when something begins.
    """
    before, after = words[: phrase.start], words[phrase.days.end :]
    if before and (before[-1] in ("not", "nicht", "pas", "no") or before[-1][-1:].isdigit()):
        return False
    if not before or _is_state(words):
        # German has the phrase before the state: "ist bis Freitag geschlossen".
        return True
    is_short = len(after) <= _MAX_AFTER and _PUNCTUATION.isdisjoint(after)
    return not after or (is_short and _is_in(after[0], "after"))


def _is_state(words: Sequence[str]) -> bool:
    """Whether somebody or something is what one is only for a while."""
    return any(
        _is_in(word, "states") and _is_any(words[max(0, at - 4) : at], "is") for at, word in enumerate(words)
    ) or any(
        # German and a sentence that begins with the phrase have the verb before the subject.
        _is_in(word, "is") and _is_any(words[at + 1 : at + 6], "states")
        for at, word in enumerate(words)
    )


def _is_relative(words: Sequence[str]) -> bool:
    return any(_is_in(word, name) for word in words for name in ("this", "next", "today", "tomorrow"))


# Dates.


def _date_at(words: Sequence[str], at: int, said: date, *, skips: bool) -> _Days | None:
    """The days that the words from a place on mean.

    Args:
        skips: Whether articles may stand before it, as they do behind "until".
    """
    while skips and at < len(words) and _is_in(words[at], "small") and not _unit_at(words, at + 1):
        at += 1
    if at >= len(words):
        return None
    word = words[at]
    if _is_in(word, "today"):
        return _Days(said, said, at + 1)
    if _is_in(word, "tomorrow") and said < date.max:
        return _Days(said + timedelta(days=1), said + timedelta(days=1), at + 1)
    return (
        _end_of_unit(words, at, said)
        or _unit(words, at, said)
        or _weekday(words, at, said)
        or _calendar_day(words, at, said)
    )


def _unit_at(words: Sequence[str], at: int) -> str:
    """The name of the unit that a word is, if it is one."""
    return next(
        (name for name in ("week", "month", "year") if at < len(words) and _is_in(words[at], name)), ""
    )


def _end_of_unit(words: Sequence[str], at: int, said: date) -> _Days | None:
    """The days of "the end of the week" and "Ende Mai"."""
    if not _is_in(words[at], "end"):
        return None
    rest = at + 1
    while rest < len(words) and _is_in(words[rest], "small") and not _unit_at(words, rest + 1):
        rest += 1
    found = _unit(words, rest, said, is_bare=True) if rest < len(words) else None
    found = found or (_calendar_day(words, rest, said) if rest < len(words) else None)
    return None if found is None else found._replace(first=found.last)


def _unit(words: Sequence[str], at: int, said: date, *, is_bare: bool = False) -> _Days | None:
    """The days of "this week" and "la semaine prochaine"; with ``is_bare`` also of "Woche"."""
    is_this, is_next = _is_in(words[at], "this"), _is_in(words[at], "next")
    place = at + 1 if is_this or is_next else at
    if not is_next and place + 1 < len(words) and _is_in(words[place], "next") and _unit_at(words, place + 1):
        # "La próxima semana", "der nächsten Woche".
        place, is_next = place + 1, True
    unit = _unit_at(words, place)
    end = place + 1
    if unit and not is_next and end < len(words) and _is_in(words[end], "next"):
        end, is_next = end + 1, True
    is_only_article = is_this and words[at] in _ARTICLES and not is_next
    if not unit or not (is_next or is_bare or (is_this and not is_only_article)):
        return None
    if said.year >= date.max.year - 1:
        return None
    return _Days(*_span(unit, said, 1 if is_next else 0), end)


_ARTICLES: Final = frozenset(("the", "der", "des", "la", "du"))


def _span(unit: str, said: date, shift: int) -> tuple[date, date]:
    if unit == "week":
        monday = said - timedelta(days=said.weekday()) + timedelta(days=7 * shift)
        return monday, monday + timedelta(days=6)
    if unit == "month":
        year, month = divmod(said.year * 12 + said.month - 1 + shift, 12)
        return date(year, month + 1, 1), _month_end(year, month + 1)
    return date(said.year + shift, 1, 1), date(said.year + shift, 12, 31)


def _month_end(year: int, month: int) -> date:
    return date(year, month, calendar.monthrange(year, month)[1])


def _weekday(words: Sequence[str], at: int, said: date) -> _Days | None:
    """The next Friday for "Friday", never the day itself. "Next Friday" may be a week later."""
    is_next = _is_in(words[at], "next")
    at += is_next or _is_in(words[at], "this")
    number = _numbers_of("weekdays").get(words[at]) if at < len(words) else None
    if number is None or said.year >= date.max.year:
        return None
    end = at + 1
    if not is_next and end < len(words) and _is_in(words[end], "next"):
        is_next, end = True, end + 1
    first = said + timedelta(days=(number - 1 - said.weekday() - 1) % 7 + 1)
    is_this_week = is_next and first.isocalendar()[:2] == said.isocalendar()[:2]
    return _Days(first, first + timedelta(days=7) if is_this_week else first, end)


def _calendar_day(words: Sequence[str], at: int, said: date) -> _Days | None:
    """The days of "2026-05-15", "15.5.", "15 May", "May 15th, 2026", "May" and "2027"."""
    word = words[at]
    if _ISO_DAY.fullmatch(word):
        try:
            day = date.fromisoformat(word)
        except ValueError:
            return None
        return _Days(day, day, at + 1)
    if pointed := _POINTED_DAY.fullmatch(word):
        day_number, month, year = pointed.groups()
        return _resolved(said, year, int(month), int(day_number), at + 1)
    if _YEAR.fullmatch(word):
        return _Days(date(int(word), 1, 1), date(int(word), 12, 31), at + 1)
    number, place = None, at
    if (day_before := _NUMBERED_DAY.fullmatch(word)) and at + 1 < len(words):
        place = at + 1 + _is_in(words[at + 1], "small")
        number = int(day_before.group(1))
    named = _numbers_of("months").get(words[place]) if place < len(words) else None
    if named is None:
        return None
    end = place + 1
    if number is None and end < len(words) and (day_after := _NUMBERED_DAY.fullmatch(words[end])):
        number, end = int(day_after.group(1)), end + 1
    skipped = end + (end + 1 < len(words) and (words[end] in ("de", "del", ",")))
    year = words[skipped] if skipped < len(words) and _YEAR.fullmatch(words[skipped]) else None
    return _resolved(said, year, named, number, end if year is None else skipped + 1)


def _resolved(said: date, year: str | None, month: int, day: int | None, end: int) -> _Days | None:
    """The days of a month or a day of it: of that year, or the next that come."""
    for candidate in [int(year)] if year else [said.year, said.year + 1]:
        if not (1 <= month <= 12 and (day is None or 1 <= day <= calendar.monthrange(candidate, month)[1])):
            return None
        first = date(candidate, month, day or 1)
        last = first if day else _month_end(candidate, month)
        if year or last >= said:
            is_far = not year and (first - said).days > _MAX_DAYS_AHEAD
            return None if is_far else _Days(first, last, end)
    return None


# The data.


@cache
def _section(name: str) -> frozenset[str]:
    return frozenset(word for line in sections_of(_DATA)[name] for word in line.split())


@cache
def _numbers_of(name: str) -> Mapping[str, int]:
    """The names of months or weekdays with their numbers, from 1 on."""
    return {word: number for number, line in enumerate(sections_of(_DATA)[name], 1) for word in line.split()}


def _is_in(word: str, name: str) -> bool:
    return word in _section(name)


def _is_any(words: Sequence[str], name: str) -> bool:
    return not _section(name).isdisjoint(words)


_TIMES: Final = ("today", "tomorrow", "week", "month", "year")


def _written(*names: str) -> list[str]:
    """The words and phrases of some sections, as texts have them."""
    return sorted({word.replace("_", " ") for name in names for word in _section(name)})


@cache
def _cues() -> re.Pattern[str]:
    """Finds the words without which a text says nothing about when it holds, as most do not."""
    words = map(re.escape, _written("until", "from", *_TIMES))
    return re.compile(rf"\b(?:{'|'.join(words)})(?!\w)")


@cache
def _cue_runs() -> frozenset[str]:
    """Of these a text has one if it has one of the cues."""
    return longest_runs(_written("until", "from", *_TIMES))


@cache
def _date_runs() -> frozenset[str]:
    """Of these a text has one if it names a date, unless that is a ``_NUMERIC_DATE``: not "from Berlin"."""
    return longest_runs(_written(*_TIMES, "weekdays", "months"))


@cache
def _joined() -> JoinedPhrases:
    return JoinedPhrases(word for name in sections_of(_DATA) for word in _section(name) if "_" in word)


def _words_of(sentence: str, runs: frozenset[str] | None) -> list[str]:
    """The words of a folded sentence; a phrase of the data is one word."""
    if "'" in sentence:
        runs = None
        for contraction, parts in _CONTRACTIONS:
            sentence = contraction.sub(parts, sentence)
    words = _WORD.findall(_joined().in_text(sentence, runs))
    return [_SHORT_FORMS.get(word, word) for word in words]
