"""When a text contradicts a sealed one."""

import pytest

from standfast.govern.judge.similarity import contradiction
from standfast.govern.judge.text_reading import TextReading


@pytest.mark.parametrize(
    ("text", "sealed"),
    [
        ("The depot opens at 9.", "The depot opens at 10."),
        ("The tea is green.", "The tea is black."),
    ],
)
def test_two_shared_words_are_a_contradiction_only_about_one_subject(text: str, sealed: str) -> None:
    ours, theirs = TextReading(text), TextReading(sealed)

    assert contradiction(ours, theirs, has_subject=False) == (1.0, "")
    assert contradiction(ours, theirs, has_subject=True)[0] < 0.5


def test_what_shares_most_of_its_words_contradicts_without_a_subject_too() -> None:
    ours, theirs = (TextReading(f"The harbour depot opens its gate at {hour}.") for hour in (9, 10))

    assert contradiction(ours, theirs, has_subject=False) == (0.0, "another number or date")


def test_three_shared_words_among_many_contradict_nothing_without_a_subject() -> None:
    ours = TextReading("The harbour depot opens its gate and sells bread, cheese and honey at 9.")
    theirs = TextReading("The harbour depot opens its cellar for wine, fish, salt and pepper at 10.")

    assert contradiction(ours, theirs, has_subject=False) == (1.0, "")


def test_a_long_text_contradicts_the_short_one_that_is_part_of_it() -> None:
    """The share of common words is that of the shorter text, whichever is sealed."""
    short = TextReading("The harbour depot opens its gate at 9.")
    long = TextReading(
        "The harbour depot opens its gate at 10, and beside it somebody sells bread, cheese, honey and wine."
    )

    for ours, theirs in ((short, long), (long, short)):
        assert contradiction(ours, theirs, has_subject=False) == (0.0, "another number or date")
