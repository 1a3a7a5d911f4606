"""Validity in words: which words say when a statement holds, and which only look like it."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.memory import Memory
from standfast.records.validity import validity_in_words

WEDNESDAY = date(2026, 3, 4)
SAID = "2026-03-04T10:00:00Z"


def days(text: str, said: date = WEDNESDAY) -> tuple[str | None, str | None] | None:
    found = validity_in_words(text, said)
    if found is None:
        return None
    return found.valid_from and found.valid_from[:10], found.valid_until and found.valid_until[:10]


@pytest.mark.parametrize(
    ("text", "valid_from", "valid_until"),
    [
        ("The office is closed until Friday.", None, "2026-03-06"),
        ("Hi Ben! I'm on holiday until Friday", None, "2026-03-06"),
        ("Ada is on parental leave until the end of May.", None, "2026-05-31"),
        ("Until 15 March, use the staging server.", None, "2026-03-15"),
        ("Don't deploy until next week.", None, "2026-03-15"),
        ("We use the old API until the end of the month.", None, "2026-03-31"),
        ("The office is closed until 2026-03-20.", None, "2026-03-20"),
        ("I am in Paris until March 20th, 2027 for work.", None, "2027-03-20"),
        ("Ada is on holiday this week.", None, "2026-03-08"),
        ("The office will be closed next week.", "2026-03-09", "2026-03-15"),
        ("I'm away today.", None, "2026-03-04"),
        ("From May on I work at Initech.", "2026-05-01", None),
        ("Starting Monday the standup is at the library.", "2026-03-09", None),
        ("Das Büro ist bis Freitag geschlossen.", None, "2026-03-06"),
        ("Ich bin bis zum 15. März im Urlaub.", None, "2026-03-15"),
        ("Ich bin diese Woche im Urlaub.", None, "2026-03-08"),
        ("Ab dem 1. April wohne ich in Köln.", "2026-04-01", None),
        ("Je suis en vacances jusqu'à vendredi.", None, "2026-03-06"),
        ("Je suis en congé cette semaine.", None, "2026-03-08"),
        ("À partir de mai, je travaille chez Airbus.", "2026-05-01", None),
        ("La oficina está cerrada hasta finales de mayo.", None, "2026-05-31"),
        ("Estoy de baja esta semana.", None, "2026-03-08"),
        ("A partir del 1 de mayo vivo en Bilbao.", "2026-05-01", None),
    ],
)
def test_words_say_when_a_statement_holds(text: str, valid_from: str | None, valid_until: str | None) -> None:
    assert days(text) == (valid_from, valid_until)


@pytest.mark.parametrize(
    "text",
    [
        "I work until 5",
        "I work until 5 on Friday.",
        "I work until 5pm this week",
        "The shop is open Monday until Friday.",
        "My passport is valid until May 2027.",
        "The contract runs until 2027.",
        "I was in Rome until Friday.",
        "The meeting isn't until Friday.",
        "I've been busy this week.",
        "I'm happy this week.",
        "I'm starting next month.",
        "I negotiated a shorter week starting July 1.",
        "See you until Friday!",
        "Is the office closed until Friday?",
        "If the office is closed until Friday, call me.",
        "I may be away until Friday, maybe.",
        "I'm going camping this weekend.",
        "Every year the lake is frozen until May.",
        "As of May we have 12 customers.",
        "The office is closed until Friday. Ada likes tea.",
        "Bis Freitag!",
        "Wir arbeiten von Montag bis Freitag.",
        "Ich arbeite bis 17 Uhr.",
        "Je travaille jusqu'à 18 heures.",
        "Hasta el viernes, un saludo.",
        "Trabajo hasta las 5.",
        "The office is closed until 31 February.",
        "",
    ],
)
def test_words_that_only_look_like_it_say_nothing(text: str) -> None:
    assert days(text) is None


def test_a_weekday_is_never_the_day_itself_and_an_end_is_the_later_of_two_readings() -> None:
    friday = date(2026, 3, 6)

    assert days("I am away until Friday.", friday) == (None, "2026-03-13")
    assert days("I am away until next Friday.") == (None, "2026-03-13")
    assert days("I am in Rome until March.", date(2026, 3, 30)) == (None, "2026-03-31")


def test_a_month_that_has_just_begun_or_passed_is_no_beginning_next_year() -> None:
    assert days("From May on I work at Initech.", date(2026, 6, 10)) is None
    assert days("From May 2027 on I work at Initech.", date(2026, 6, 10)) == ("2027-05-01", None)


@given(st.text(), st.dates())
def test_any_text_on_any_day_can_be_read(text: str, said: date) -> None:
    for one in (
        text,
        f"The office is closed until {text}",
        f"I am away until Friday {text}",
        "I am away next year",
    ):
        validity_in_words(one, said)


def test_what_was_read_is_answered_and_shown_and_hides_nothing(memory: Memory) -> None:
    answer = memory.remember("The office is closed until Friday.", scope="team", time=SAID)
    during = memory.recall("office", scope="team", now_utc="2026-03-05T10:00:00Z")
    after = memory.recall("office", scope="team", now_utc="2026-04-01T10:00:00Z")

    assert answer.valid_until == "2026-03-06T23:59:59.000000Z"
    assert "(holds until 2026-03-06)" in during.text
    assert "held until 2026-03-06" in after.text
    assert "The office is closed until Friday." in after.text


def test_what_is_over_by_its_words_is_no_part_of_a_profile_and_marks_nothing(memory: Memory) -> None:
    memory.remember("I live in Munich.", scope="user/ada", time="2020-03-01T10:00:00Z")
    memory.remember("I am living in Lisbon until Friday.", scope="user/ada", time="2020-03-04T10:00:00Z")
    memory.remember("Tea is nice.", scope="user/ada")
    profile = memory.profile("user/ada")

    assert "Munich" in profile.text
    assert "Lisbon" not in profile.text
    assert [one.reason for one in profile.left_out] == ["held until 2020-03-06"]
    assert "said later" not in memory.recall("Where do I live?", scope="user/ada").text


def test_a_callers_own_dates_are_the_ones_that_hold(memory: Memory) -> None:
    text = "The office is closed until Friday."
    answer = memory.remember(text, scope="team", time=SAID, valid_until="2026-03-20")
    (record,) = memory.records(scope="team", band=None)

    assert answer.valid_until is None
    assert (record.valid_until, record.validity_words) == ("2026-03-20T00:00:00.000000Z", None)
    assert not memory.recall("office", scope="team", now_utc="2026-04-01T10:00:00Z").items


def test_messages_are_read_by_their_own_time(memory: Memory) -> None:
    message = {"role": "user", "content": "I'm on vacation until Friday.", "time": SAID}
    (added,) = memory.add([message], scope="user/ada").messages

    assert added.valid_until == "2026-03-06T23:59:59.000000Z"


def test_nothing_is_read_from_what_is_untrusted_or_was_imported(memory: Memory) -> None:
    text = "The office is closed until Friday."
    of_tool = memory.remember(text, scope="a", source={"kind": "tool", "id": "crm"}, time=SAID)
    imported = memory.remember(text, scope="b", metadata={"created_at": "2020-01-01"}, time=SAID)

    assert (of_tool.valid_until, imported.valid_until) == (None, None)
