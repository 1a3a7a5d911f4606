"""Texts and times as they are compared: the same on every Python, whatever Unicode it carries."""

import unicodedata
from datetime import UTC, datetime, timedelta
from decimal import Decimal, getcontext
from functools import cache

import pytest
import unicodedata2
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue
from standfast.recall.request import MemoryControllerInput, Scoring, normal_text, terms_of_query
from standfast.records import canon
from standfast.records.canon import fingerprint_of_bytes, lowered
from standfast.records.timestamps import (
    MISSING,
    exact_time,
    instant_text,
    instant_with_offset,
    normal_timestamp,
    recency,
    time_of,
)
from standfast.records.vocabulary import Budget
from tests.recall import plain_reader
from tests.recall.stores import STAMPS

# What Unicode 14.0 makes of every code point, alone and beside a capital sigma.
LOWER_AS_OF_UNICODE_14 = "e9c310da3188d7f8cf322bc90b496edf44a640b1d1086fe3e3bcb96ae341475c"
WHITE_SPACE = "690d49e0bc6f7872ec9959b204e4151fce07372caa0194857fd3d2b71d06a2df"
CASED_OR_IGNORABLE = {"Lu", "Ll", "Lt", "Mn", "Me", "Cf", "Lm", "Sk"}


@cache
def code_points() -> list[str]:
    """All of them, made only where a test asks."""
    return [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]


def in_casing() -> list[str]:
    """Those that may play a part in casing, by one version of Unicode's data: the same on every Python."""
    kinds = CASED_OR_IGNORABLE | {"Po", "Pi", "Pf", "So", "Nl"}
    return [char for char in code_points() if unicodedata2.category(char) in kinds]


def test_lower_case_is_that_of_unicode_14_for_every_code_point_in_casing() -> None:
    shapes = ("{}", "{}\u03a3", "A{}\u03a3", "A\u03a3{}", "A\u03a3{}A")
    told = "\n".join(lowered(shape.replace("{}", char)) for char in in_casing() for shape in shapes)

    assert fingerprint_of_bytes(told.encode()) == LOWER_AS_OF_UNICODE_14


@given(st.text(st.characters(exclude_characters="\u0295\U0001171e")))
def test_lower_case_is_pythons_own_where_all_pythons_agree(text: str) -> None:
    assert lowered(text) == text.lower() or canon._LATER_CASED.search(text)


def test_the_list_of_later_code_points_is_whole() -> None:
    """Every code point that came after Unicode 14.0 and plays a part in casing, up to the newest data there
    is.
    """
    later = [
        char
        for char in code_points()
        if unicodedata.category(char) == "Cn" and unicodedata2.category(char) in CASED_OR_IGNORABLE
    ]

    assert [char for char in later if not canon._LATER_CASED.fullmatch(char)] == []


def test_white_space_is_the_same_everywhere() -> None:
    spaces = "".join(char for char in code_points() if char.isspace())
    newest = "".join(
        char
        for char in code_points()
        if unicodedata2.category(char) == "Zs" or unicodedata2.bidirectional(char) in ("WS", "B", "S")
    )

    assert spaces == newest
    assert fingerprint_of_bytes(spaces.encode()) == WHITE_SPACE


def test_a_query_becomes_terms() -> None:
    request = MemoryControllerInput(
        query="q",
        store_paths=("s",),
        budget=Budget(max_excerpt_tokens=1),
        scoring=Scoring(query_terms=(" EU  Refunds ", "x", "", "X")),
    )

    assert normal_text(" \u00a0EU\t Refunds\n") == "eu refunds"
    assert terms_of_query("EU refunds, a EU ü of x") == ("eu", "refunds,", "of")
    assert request.terms == ("eu refunds", "x")


@given(
    st.sampled_from(STAMPS)
    | st.datetimes().map(datetime.isoformat)
    | st.datetimes(timezones=st.timezones()).map(str)
    | st.from_regex(
        r"\d{4}-[01]\d-[0-3]\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?", fullmatch=True
    )
    | st.text(max_size=30)
)
def test_a_timestamp_is_read_alike_by_all(text: str) -> None:
    plain = plain_reader.moment(text)
    time = time_of(text)

    assert time == exact_time(text)
    assert (time == MISSING) == (plain is None)
    if plain is None:
        assert normal_timestamp(text) == text
    else:
        assert time == (plain - datetime(1, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        assert normal_timestamp(text) == plain.strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


@given(st.integers(0, 10**15), st.integers(1, 1000))
def test_recency_is_exact_to_six_decimals_and_never_grows_with_age(age: int, half_life: int) -> None:
    getcontext().prec = 50
    exact = Decimal("0.5") ** (Decimal(age) / Decimal(half_life * 86_400_000_000))
    weight = recency(0, age, half_life)

    assert weight == round(exact * 10**6)
    assert recency(0, age + 1, half_life) <= weight
    assert recency(age + 1, age, half_life) == 10**6
    assert recency(MISSING, age, half_life) == 0


def test_where_rounding_hangs_on_the_last_place_decimal_arithmetic_decides() -> None:
    """Ages whose weight lies as close to half a millionth as whole microseconds allow."""
    half_life = 1_000_000 * 86_400_000_000
    for target in (Decimal("0.9999995"), Decimal("0.5000005"), Decimal("0.2500015")):
        age = int(-(target.ln() / Decimal(2).ln()) * half_life)
        for near in range(age - 2, age + 3):
            exact = Decimal("0.5") ** (Decimal(near) / Decimal(half_life))

            assert recency(0, near, 1_000_000) == round(exact * 10**6)


@pytest.mark.usefixtures("any_time_zone")
def test_times_with_seconds_offsets_and_impossible_parts() -> None:
    start = exact_time("2026-01-15T10:30Z")

    assert time_of("2026-01-15T10:30:59Z") == start + 59_000_000
    assert time_of("2026-01-15T11:29:30+00:59") == start + 30_000_000
    for impossible in ("2026-01-15T10:30:60Z", "2026-01-15T10:30:1xZ", "2026-01-15T10:30:00+00:60"):
        assert time_of(impossible) == MISSING


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-01-02T00:00:00+05", "2026-01-01T19:00:00.000000Z"),
        ("2026-01-02T00:00:00-05", "2026-01-02T05:00:00.000000Z"),
        ("2026-01-02T00:00:00+0530", "2026-01-01T18:30:00.000000Z"),
        ("2026-01-02T00:00:00+23:59", "2026-01-01T00:01:00.000000Z"),
        ("2026-01-02T00:00:00+24:00", "2026-01-02T00:00:00+24:00"),
        ("2026-01-02T00:00:00+23:60", "2026-01-02T00:00:00+23:60"),
    ],
)
@pytest.mark.usefixtures("any_time_zone")
def test_an_offset_has_hours_and_perhaps_minutes_within_a_day(text: str, normal: str) -> None:
    assert normal_timestamp(text) == normal


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2026-11-16", "2026-11-16T00:00:00.000000Z"),
        ("2026-11-16T09:30Z", "2026-11-16T09:30:00.000000Z"),
        ("2026-11-16 09:30:05Z", "2026-11-16T09:30:05.000000Z"),
        ("2026-11-16t09:30:05z", "2026-11-16T09:30:05.000000Z"),
        ("2026-11-16T09:30:05.1234567899-00:00", "2026-11-16T09:30:05.123456Z"),
        ("2026-11-16T09:30:05+23:59", "2026-11-15T09:31:05.000000Z"),
        ("2016-12-31T23:59:60.5Z", "2017-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:60Z", "9999-12-31T23:59:59.000000Z"),
        ("9999-12-31T23:59:59-05:00", "9999-12-31T23:59:59.999999Z"),
        ("0001-01-01T00:00:00+05:00", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_every_instant_of_rfc_3339_is_taken(given: str, stored: str) -> None:
    assert instant_text(given, what="time") == stored
    assert time_of(instant_with_offset(given, what="time")) == time_of(stored)


@pytest.mark.parametrize(
    "given",
    [
        *("0000-01-01", "2026-02-30", "2026-11-16T24:00:00Z", "2026-11-16T09:60Z", "2026-11-16T09:30:61Z"),
        *(
            "2026-11-16T09:30:05",
            "2026-11-16T09:30:05+24:00",
            "2026-11-16T09:30:05.Z",
            "2026-W47-1",
            "now",
            "",
        ),
    ],
)
def test_what_is_no_instant_is_refused(given: str) -> None:
    with pytest.raises(InvalidValue, match="ISO 8601"):
        instant_text(given, what="time")
