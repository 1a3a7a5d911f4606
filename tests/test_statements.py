"""Plain statements: what is read from a text, and which two of them disagree."""

import re
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from standfast.records import statements, validity
from standfast.records.statements import SELF, differs, letter_runs, statements_of


def value_of(text: str, attribute: str, **options: object) -> str | None:
    found = {one.attribute: one.value for one in statements_of(text, **options)}  # type: ignore[arg-type]
    return found.get(attribute)


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("I live in Munich.", "home", "munich"),
        ("By the way, I moved to Lisbon last week!", "home", "lisbon"),
        ("Ich bin nach Leipzig gezogen.", "home", "leipzig"),
        ("J'ai déménagé à Nantes.", "home", "nantes"),
        ("Me mudé a Bilbao.", "home", "bilbao"),
        ("Me he mudado a Bilbao.", "home", "bilbao"),
        ("Ich arbeite jetzt bei der Allianz.", "employer", "allianz"),
        ("I am 35 years old.", "age", "35"),
        ("Call me Bob.", "called", "bob"),
        ("I've increased my snack budget to $65.", "snack budget", "65"),
        ("My budget was reduced from $900 to $750 a month.", "budget", "750"),
        ("I started a new job at Bosch.", "employer", "bosch"),
        ("My favourite colour is green now.", "favourite colour", "green"),
        ("Use Firefox as my browser.", "browser", "firefox"),
        ("We switched from Slack to Teams.", "uses slack", "no"),
        ("We use Slack for chat.", "uses slack", "yes"),
        ("The weekly standup is at 10:15.", "n weekly standup", "10:15"),
        ("Our team grew to 17 members.", "n team members", "17"),
        ("Our team has 12 members.", "n team members", "12"),
        ("I no longer drink coffee.", "does dri coffee", "no"),
        ("I quit smoking.", "does smo", "no"),
        ("I smoke.", "does smo", "yes"),
        ("I hate Chinese food.", "does like chinese food", "no"),
        ("Ich mag keinen Fisch mehr.", "does like fisch", "no"),
        ("Je n'aime plus le fromage.", "does like fromage", "no"),
        ("Ya no me gusta el pescado.", "does like pescado", "no"),
        ("Nuestra oficina es Madrid.", "oficina", "madrid"),
        ("Mi ciudad favorita es Lima.", "favourite ciudad", "lima"),
    ],
)
def test_a_plain_statement_is_read(text: str, attribute: str, value: str) -> None:
    assert value_of(text, attribute) == value


@pytest.mark.parametrize(
    "text",
    [
        "Do I live in Munich?",
        "If I live in Munich, I can walk to work.",
        "I might move to Lisbon.",
        "She lives in Munich.",
        "I think Anna lives in Munich somewhere.",
        "My dream is Paris.",
        "",
        "…",
    ],
)
def test_questions_guesses_and_pronouns_say_nothing_about_anybody(text: str) -> None:
    found = [one for one in statements_of(text) if one.attribute in ("home", "dream")]

    assert not found


def test_the_first_person_is_the_speaker_and_the_owner_of_a_scope_is_the_user() -> None:
    def holder(text: str, speaker: str | None, scope: str = "shared") -> str:
        return statements_of(text, speaker=speaker, scope=scope, is_message=True)[0].holder

    assert holder("I live in Oslo.", "user") == holder("I live in Oslo.", None) == SELF
    assert holder("I live in Oslo.", "Joanna") == holder("Joanna lives in Oslo.", "Nate") == "joanna"
    assert (
        holder("Ada lives in Oslo.", None, "user/ada") == holder("I live in Oslo.", "Ada", "user/ada") == SELF
    )
    assert holder("My sister lives in Rome.", "user") == "sister"


def test_in_a_conversation_a_passing_negation_denies_nothing() -> None:
    assert value_of("I don't have time.", "does hav time") == "no"
    assert value_of("I don't have time.", "does hav time", is_message=True) is None
    assert value_of("I don't have a car anymore.", "does hav car", is_message=True) == "no"


@pytest.mark.parametrize(
    "text",
    [
        "I've adjusted my budget to $75, can you suggest some drinks?",
        "I've adjusted my budget to $75, but I'm not sure if that is enough.",
    ],
)
def test_a_change_that_is_told_on_the_way_to_a_question_is_read_in_a_conversation(text: str) -> None:
    assert value_of(text, "budget", is_message=True) == "75"
    assert value_of(text, "budget") is None


@pytest.mark.parametrize(
    "text",
    [
        "What if I've adjusted my budget to $75?",
        "Can you tell me how I adjusted my budget to $75?",
        "My result is 7.",
        "My base case is P(1).",
        "My quiz score improved from 70% to 88%.",
    ],
)
def test_what_people_say_of_many_things_in_a_conversation_is_no_statement_of_one(text: str) -> None:
    found = {one.attribute for one in statements_of(text, is_message=True)}

    assert found.isdisjoint({"budget", "result", "base case", "quiz score"})


def test_a_long_text_that_is_no_message_is_not_read() -> None:
    assert not statements_of("I live in Oslo. " + "Much is said here. " * 20)
    assert statements_of("I live in Oslo. " + "Much is said here. " * 20, is_message=True)


def test_a_full_stop_in_a_title_or_a_date_ends_no_sentence() -> None:
    assert value_of("Mein Hausarzt ist Dr. Blum.", "hausarzt") == "dr blum"
    assert value_of("Der Abgabetermin ist der 3. Mai.", "n abgabetermin") == "3 mai"


@pytest.mark.parametrize(
    ("one", "other", "do_differ"),
    [
        ("berlin", "munich", True),
        ("berlin", "berlin in germany", False),
        ("yes", "no", True),
        ("14 days", "30 days", True),
        ("3 mai", "13 mai", True),
        ("berlin", "berlin", False),
    ],
)
def test_values_differ_unless_one_says_more_than_the_other(one: str, other: str, do_differ: bool) -> None:
    assert differs(one, other) is differs(other, one) is do_differ


WORDS = [
    "I",
    "we",
    "my",
    "our",
    "Ada",
    "Berlin",
    "Teams",
    "live",
    "lives",
    "moved",
    "to",
    "in",
    "from",
    "a",
    "à",
    "the",
    "is",
    "am",
    "are",
    "'m",
    "on",
    "plan",
    "la",
    "formule",
    "déménagé",
    "ai",
    "j'ai",
    "passé",
    "est",
    "name",
    "call",
    "me",
    "use",
    "as",
    "no",
    "longer",
    "not",
    "until",
    "Friday",
    "May",
    "2027",
    "14",
    "5.",
    "this",
    "week",
    "month,",
    "and",
    ".",
    "on",
    "holiday",
    "à",
    "partir",
    "de",
    "que",
    "viene",
    "today",
    "closed",
    "ist",
    "bis",
    "nach",
    "gezogen",
    "perhaps",
    "wouldn't",
    "took",
    "a",
    "job",
    "at",
]


@given(
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=12) | st.lists(st.sampled_from(WORDS), max_size=40)
)
@example(["I", "live", "in", "Berlin", "perhaps"])
@example(["I", "wouldn't", "live", "in", "Berlin"])
@example(["Ada", "took", "a", "job", "at", "Teams"])
def test_looking_for_cues_and_lengths_first_hides_nothing(words: list[str]) -> None:
    text, said = " ".join(words), date(2026, 3, 4)
    every = list(range(len(statements._patterns())))
    anything, everywhere = re.compile(""), letter_runs(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(statements, "_possible_patterns", lambda _: every)
        patched.setattr(statements, "_unsure_runs", lambda: everywhere)
        patched.setattr(validity, "_NUMERIC_DATE", anything)
        patched.setattr(validity, "_cue_runs", lambda: everywhere)
        patched.setattr(statements.JoinedPhrases, "may_be_in", lambda *_: True)
        for module in (statements, validity):
            patched.setattr(module, "has_more_words", lambda *_, **__: False)
        slowly = statements_of(text), validity.validity_in_words(text, said)

    assert (statements_of(text), validity.validity_in_words(text, said)) == slowly


@given(st.text())
def test_the_runs_of_letters_of_ascii_are_those_of_any_text(text: str) -> None:
    assert letter_runs(text) == frozenset(statements._LETTERS.findall(text.casefold()))
