"""The dates that a query names, and how well days fit them."""

import random
from datetime import date

import numpy as np
import pytest

from standfast.recall.analysis import words_of
from standfast.recall.dates import (
    NO_DAY,
    Span,
    SpokenDate,
    date_quarters,
    date_words,
    dates_in,
    folded,
    named_dates,
    spoken_dates,
    words_in,
)
from standfast.recall.word_lists import word_lines

TODAY = date(2026, 3, 18)  # A Wednesday.


def _told(query: str, today: date | None = TODAY) -> list[str]:
    """Spans as ``first last quarters``, dates of any year as ``month day``."""
    return [
        f"{date.fromordinal(one.first)} {date.fromordinal(one.last)} {one.quarters}"
        if isinstance(one, Span)
        else f"{one.month} {one.day}"
        for one in dates_in(query, words_of(query), today)
    ]


@pytest.mark.parametrize(
    ("query", "dates"),
    [
        ("7 May 2023", ["2023-05-07 2023-05-14 4", "2023-05-01 2023-05-31 1"]),
        ("May 7th, 2023", ["2023-05-07 2023-05-14 4", "2023-05-01 2023-05-31 1"]),
        ("the 31st of December", ["12 31"]),
        ("31st December", ["12 31"]),
        ("on May 7", ["5 7"]),
        ("in May 2023", ["2023-05-01 2023-05-31 4"]),
        ("in February 2024", ["2024-02-01 2024-02-29 4"]),
        ("30 February 2024", []),
        ("in 2023", ["2023-01-01 2023-12-31 1"]),
        ("room 2099 in 1899", ["2099-01-01 2099-12-31 1"]),
        ("in June", ["6 None"]),
        ("may I march?", []),
        ("from May to July 2023", ["2023-05-01 2023-07-31 4"]),
        ("between 3 May 2023 and 9 June", ["2023-05-03 2023-06-09 4"]),
        ("from December 2022 until January 2023", ["2022-12-01 2023-01-31 4"]),
        ("May 2023 to July 2023", ["2023-05-01 2023-05-31 4", "2023-07-01 2023-07-31 4"]),
        ("I went from May 2023 on to July 2023", ["2023-05-01 2023-05-31 4", "2023-07-01 2023-07-31 4"]),
        ("from July to May 2023", ["7 None", "2023-05-01 2023-05-31 4"]),
        ("from June to August", ["6 None", "8 None"]),
        ("from 30 February 2023 to May 2023", ["2023-05-01 2023-05-31 4"]),
        ("from 2021 to 2023", ["2021-01-01 2023-12-31 4"]),
        ("2021-2023", ["2021-01-01 2023-12-31 4"]),
        ("2023 \u2013 2021", ["2021-01-01 2023-12-31 4"]),
        ("2023-05-07", ["2023-05-07 2023-05-14 4", "2023-05-01 2023-05-31 1"]),
        ("2023-05 or June 2024", ["2023-05-01 2023-05-31 4", "2024-06-01 2024-06-30 4"]),
        ("2023-02-30", ["2023-01-01 2023-12-31 1"]),
        ("5 june 5 july", ["6 5", "7 5"]),
    ],
)
def test_a_query_names_days_months_years_and_ranges(query: str, dates: list[str]) -> None:
    assert _told(query) == dates
    assert _told(query, None) == dates


@pytest.mark.parametrize(
    ("query", "dates"),
    [
        ("today", ["2026-03-18 2026-03-18 4"]),
        ("what happened yesterday?", ["2026-03-17 2026-03-17 4"]),
        ("this week", ["2026-03-16 2026-03-22 4"]),
        ("last week", ["2026-03-09 2026-03-15 4"]),
        ("this month", ["2026-03-01 2026-03-31 4"]),
        ("last month", ["2026-02-01 2026-02-28 4"]),
        ("this year", ["2026-01-01 2026-12-31 4"]),
        ("last year", ["2025-01-01 2025-12-31 4"]),
        ("a day ago", ["2026-03-17 2026-03-17 4"]),
        ("3 days ago", ["2026-03-15 2026-03-15 4"]),
        ("two weeks ago", ["2026-03-01 2026-03-07 4"]),
        ("one month ago", ["2026-02-01 2026-02-28 4"]),
        ("six years ago", ["2020-01-01 2020-12-31 4"]),
        ("0 weeks ago", ["2026-03-15 2026-03-21 4"]),
        ("everybody stays todayish", []),
    ],
)
def test_relative_dates_need_to_know_what_day_it_is(query: str, dates: list[str]) -> None:
    assert _told(query) == dates
    assert _told(query, None) == []
    assert _told(query, date(1099, 12, 31)) == []


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("7 May 2023", {"2023-05-06": 1, "2023-05-07": 4, "2023-05-14": 4, "2023-05-15": 1, "2023-06-01": 0}),
        ("7 May", {"2021-05-06": 1, "2021-05-07": 4, "1969-05-14": 4, "2021-05-15": 1, "2021-04-30": 0}),
        ("in May", {"2021-04-30": 0, "2021-05-01": 0, "2021-05-31": 0}),
        ("in June", {"2021-05-31": 0, "2021-06-01": 4, "1960-06-30": 4, "2021-07-01": 0}),
        ("in 2021", {"2020-12-31": 0, "2021-01-01": 1, "2021-12-31": 1}),
        ("in 2021 or June", {"2021-05-01": 1, "2021-06-01": 4, "2022-06-01": 4, "2022-05-01": 0}),
    ],
)
def test_days_fit_by_quarters_and_what_has_no_day_never(query: str, fits: dict[str, int]) -> None:
    days = [date.fromisoformat(day).toordinal() for day in fits]
    quarters = date_quarters(dates_in(query, words_of(query)), np.array([*days, NO_DAY]))

    assert quarters.tolist() == [*fits.values(), 0]


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (date(2026, 5, 7), date(2026, 5, 7), "2026-05-07"),
        (date(2026, 5, 1), date(2026, 5, 31), "2026-05"),
        (date(2026, 1, 1), date(2026, 12, 31), "2026"),
        (date(2026, 4, 1), date(2026, 6, 30), "2026-04-01/2026-06-30"),
        (date(2025, 1, 1), date(2026, 12, 31), "2025-01-01/2026-12-31"),
        (date(2026, 5, 2), date(2026, 5, 31), "2026-05-02/2026-05-31"),
    ],
)
def test_spoken_days_are_shown_in_as_few_characters_as_can_be(first: date, last: date, shown: str) -> None:
    assert SpokenDate("then", first, last).shown == shown


def test_spoken_days_have_the_names_of_days_months_and_years() -> None:
    day = date(2026, 5, 7)

    assert SpokenDate("then", day, day).names == ["2026", "2026-05", "--05", "2026-05-07", "--05-07"]


WEDNESDAY = date(2024, 3, 13)


def _spoken(text: str, language: str = "english") -> list[str]:
    return [f"{one.words}: {one.shown}" for one in spoken_dates(text, WEDNESDAY, language)]


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("I moved the day before yesterday.", ["the day before yesterday: 2024-03-11"]),
        ("Yesterday I ran.", ["Yesterday: 2024-03-12"]),
        ("It rained. Yesterday too.", ["Yesterday: 2024-03-12"]),
        ("My dog's name is Yesterday.", []),
        ("The Beatles sang Yesterday.", []),
        ("I moved in the last month of school.", []),
        ("At last Sunday came.", []),
        ("I ran last Sunday.", ["last Sunday: 2024-03-10"]),
        ("a couple of weeks ago", ["a couple of weeks ago: 2024-02-25/2024-03-02"]),
        ("a few days ago", ["a few days ago: 2024-03-07/2024-03-11"]),
        ("eleven months ago", ["eleven months ago: 2023-04"]),
        ("last Sept. it rained", ["last Sept: 2023-09"]),
        ("the weekend before last", ["weekend before last: 2024-03-02/2024-03-03"]),
        ("last summer", ["last summer: 2023-06-01/2023-08-31"]),
        ("last winter", ["last winter: 2023-12-01/2024-02-29"]),
        ("this winter", ["this winter: 2023-12-01/2024-02-29"]),
        ("next spring", ["next spring: 2025-03-01/2025-05-31"]),
        ("next summer", ["next summer: 2024-06-01/2024-08-31"]),
        ("I moved last February", ["last February: 2024-02"]),
        ("I moved last March", ["last March: 2023-03"]),
        ("I moved last April", ["last April: 2023-04"]),
        ("I move next February", ["next February: 2025-02"]),
        ("I move next March", ["next March: 2025-03"]),
        ("I move next April", ["next April: 2024-04"]),
        ("I move this April", ["this April: 2024-04"]),
        ("I move next Tuesday", ["next Tuesday: 2024-03-19"]),
        ("I move next Wednesday", ["next Wednesday: 2024-03-20"]),
        ("I move next Thursday", ["next Thursday: 2024-03-14"]),
        ("I ran last Tuesday", ["last Tuesday: 2024-03-12"]),
        ("I ran last Wednesday", ["last Wednesday: 2024-03-06"]),
        ("I ran last Thursday", ["last Thursday: 2024-03-07"]),
        ("I move next week", ["next week: 2024-03-18/2024-03-24"]),
        ("I move next weekend", ["next weekend: 2024-03-23/2024-03-24"]),
        ("I move this weekend", ["this weekend: 2024-03-16/2024-03-17"]),
        ("I move next month", ["next month: 2024-04"]),
        ("I move next year", ["next year: 2025"]),
        ("We met on Monday.", ["on Monday: 2024-03-11"]),
        ("I walked to the park on Monday.", ["on Monday: 2024-03-11"]),
        ("We will meet on Monday.", []),
        ("I was tired. See you on Monday!", []),
        ("The shop is closed on Monday", ["on Monday: 2024-03-11"]),
        ("The last day was long.", []),
    ],
)
def test_everyday_expressions_have_their_dates_and_names_have_none(text: str, dates: list[str]) -> None:
    assert _spoken(text) == dates


@pytest.mark.parametrize(
    ("language", "text", "dates"),
    [
        ("german", "Wir heirateten letzten Mai.", ["letzten Mai: 2023-05"]),
        ("german", "Ich war gestern beim Arzt.", ["gestern: 2024-03-12"]),
        ("german", "Letzte Woche war ich krank.", ["Letzte Woche: 2024-03-04/2024-03-10"]),
        ("german", "Vor zwei Monaten", ["Vor zwei Monaten: 2024-01"]),
        ("german", "vor ein paar Tagen", ["vor ein paar Tagen: 2024-03-07/2024-03-11"]),
        ("german", "vorletzte Woche", ["vorletzte Woche: 2024-02-26/2024-03-03"]),
        ("german", "in der letzten Woche des Jahres", []),
        ("french", "J'ai couru hier.", ["hier: 2024-03-12"]),
        ("french", "la semaine dernière", ["semaine dernière: 2024-03-04/2024-03-10"]),
        ("french", "l’an dernier, en mai dernier", ["an dernier: 2023", "mai dernier: 2023-05"]),
        ("french", "il y a trois jours", ["il y a trois jours: 2024-03-10"]),
        ("spanish", "ayer, el mes pasado", ["ayer: 2024-03-12", "mes pasado: 2024-02"]),
        ("spanish", "hace dos años", ["hace dos años: 2022"]),
        ("spanish", "el miércoles pasado", ["miércoles pasado: 2024-03-06"]),
        (
            "italian",
            "ieri e la scorsa settimana",
            ["ieri: 2024-03-12", "scorsa settimana: 2024-03-04/2024-03-10"],
        ),
        ("italian", "due anni fa, lo scorso maggio", ["due anni fa: 2022", "scorso maggio: 2023-05"]),
        ("german", "Wir bleiben hier.", []),
        ("danish", "yesterday", ["yesterday: 2024-03-12"]),
    ],
)
def test_four_more_languages_have_relative_dates(language: str, text: str, dates: list[str]) -> None:
    assert _spoken(text, language) == dates


@pytest.mark.parametrize(
    ("language", "query", "days"),
    [
        ("german", "Wo waren wir im Oktober 2023?", "2023-10-01 2023-10-31"),
        ("german", "von März bis Juli 2023", "2023-03-01 2023-07-31"),
        ("french", "en août 2022", "2022-08-01 2022-08-31"),
        ("spanish", "el 7 de mayo de 2023", "2023-05-07 2023-05-14"),
        ("italian", "a maggio 2023", "2023-05-01 2023-05-31"),
    ],
)
def test_queries_name_months_in_their_language(language: str, query: str, days: str) -> None:
    (first, *_) = dates_in(query, words_of(query), None, language)

    assert isinstance(first, Span)
    assert f"{date.fromordinal(first.first)} {date.fromordinal(first.last)}" == days


@pytest.mark.parametrize("language", ["english", "german", "french", "spanish", "italian"])
def test_a_text_that_speaks_of_a_date_is_never_passed_over_at_a_glance(language: str) -> None:
    known, choose = date_words(language), random.Random(5)
    lines = [lines for name, lines in word_lines("dates").items() if name.startswith(f"{language} ")]
    pool = [word.replace("_", " ") for of_section in lines for line in of_section for word in line]
    texts = [
        " ".join(choose.choices([*pool, "3", "we", "went"], k=choose.randint(1, 6))) for _ in range(3_000)
    ]
    spoken = [text for text in texts if known.spoken.search(text)]

    assert len(spoken) > 300
    assert all(known.may_speak(text, words_in(folded(text))) for text in spoken)


def _days(first: date, count: int) -> list[str]:
    return [date.fromordinal(first.toordinal() + number).isoformat() for number in range(count)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("yesterday", {"2026-03-17": 4}),
        ("in May 2023", dict.fromkeys([*_days(date(2023, 5, 1), 31), "2023-05"], 4)),
        (
            "7 May 2023",
            dict.fromkeys([*_days(date(2023, 5, 1), 31), "2023-05"], 1)
            | dict.fromkeys(_days(date(2023, 5, 7), 8), 4),
        ),
        (
            "from 25 January 2023 to 5 March 2023",
            dict.fromkeys([*_days(date(2023, 1, 25), 40), "2023-02"], 4),
        ),
        ("from 25 January 2023 to 6 March 2023", {"2023": 1}),
        ("on May 7", {"--05-07": 4, "--05": 1}),
        ("in June", {"--06": 4}),
        ("from 2021 to 2023", {"2021": 1, "2022": 1, "2023": 1}),
        ("from 1900 to 2099", {str(year): 1 for year in range(1900, 1940)}),
    ],
)
def test_the_dates_of_a_query_have_names_in_the_index_by_how_well_they_fit(
    query: str, names: dict[str, int]
) -> None:
    assert named_dates(dates_in(query, words_of(query), TODAY)) == names


def test_a_mark_of_a_footnote_hides_no_date() -> None:
    for text, language in (
        ("I met her two weeks ago².", "english"),
        ("Je l'ai vu la semaine dernière¹.", "french"),
        ("La semana pasada¹ fui.", "spanish"),
        ("La settimana scorsa² sono andato.", "italian"),
    ):
        assert len(spoken_dates(text, TODAY, language)) == 1
