"""Excerpts: the best sentences of a long text within a limit, or a piece of one that is too long alone."""

import pytest

from standfast.recall.analysis import analyzer_of
from standfast.recall.excerpts import CUT, excerpt_of
from standfast.recall.tokens import EstimatedCounter

ENGLISH = analyzer_of("english")
COUNT = EstimatedCounter().count
FILLER = "The weather was fine and nobody complained about it. "


def excerpt(text: str, limit: int, *words: str, focus: str = "") -> str:
    weights = {term: 10 for word in words for term in ENGLISH.terms_of([word])}
    return excerpt_of(text, weights, ENGLISH, COUNT, limit, focus=focus)


def test_a_text_that_fits_is_shown_whole() -> None:
    assert excerpt("  Refunds take 14 days.  ", 40, "refunds") == "Refunds take 14 days."


def test_the_sentence_that_matches_is_shown_and_cuts_are_marked() -> None:
    shown = excerpt(FILLER * 20 + "Refunds take 14 days. " + FILLER * 20, 30, "refunds")

    assert "Refunds take 14 days." in shown
    assert shown.startswith(CUT)
    assert shown.endswith(CUT)
    assert COUNT(shown) <= 30


def test_of_several_sentences_that_match_both_are_shown_in_their_order() -> None:
    text = FILLER + "Refunds take 14 days. " + FILLER * 10 + "A receipt is needed for refunds. " + FILLER * 10
    shown = excerpt(text, 45, "refunds", "receipt")

    assert shown.index("Refunds take") < shown.index("A receipt")


@pytest.mark.parametrize("limit", [1, 2, 5, 8, 24, 40])
def test_a_sentence_that_is_too_long_alone_is_cut_around_its_first_matching_word(limit: int) -> None:
    sentence = "and so on " * 200 + "refunds take 14 days " + "and so forth " * 200
    shown = excerpt(sentence, limit, "refunds")

    assert COUNT(shown) <= limit
    if limit >= 8:
        assert "refunds" in shown
        assert shown.startswith(CUT)
        assert shown.endswith(CUT)


def test_a_long_sentence_that_begins_with_the_match_has_no_mark_before_it() -> None:
    shown = excerpt("refunds take 14 days " + "and so forth " * 200, 20, "refunds")

    assert shown.startswith("refunds take 14 days")
    assert shown.endswith(CUT)


def test_a_long_sentence_that_ends_with_the_match_has_no_mark_behind_it() -> None:
    shown = excerpt("and so on " * 200 + "refunds end", 20, "refunds")

    assert shown.startswith(CUT)
    assert shown.endswith("refunds end")


def test_without_a_word_of_the_question_the_passage_in_focus_is_shown() -> None:
    text = FILLER * 10 + "Lyon is where she lives now. " + FILLER * 10

    assert "Lyon" in excerpt(text, 30, "home", focus="Lyon is where she lives now.")
    assert "Lyon" not in excerpt(text, 30, "home")
