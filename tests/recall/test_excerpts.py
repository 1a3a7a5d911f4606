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


FIVE = "Alpha one two. Bravo three four. Charlie five six. Delta seven eight. Echo nine ten."


def words_counted(text: str) -> int:
    return len(text.split())


def excerpt_by_words(limit: int, *words: str, text: str = FIVE, fills: bool = False) -> str:
    weights = {term: 10 for word in words for term in ENGLISH.terms_of([word])}
    return excerpt_of(text, weights, ENGLISH, words_counted, limit, fills=fills)


@pytest.mark.parametrize(
    ("limit", "words", "shown"),
    [
        (15, ("charlie",), FIVE),
        # Each sentence costs its tokens and a mark; two marks are set aside.
        (5, ("charlie",), "…Charlie five six.…"),
        (6, ("charlie",), "… Charlie five six. …"),
        (9, ("charlie",), "… Charlie five six. …"),
        # The neighbour behind comes before the one in front, and both behind other matches.
        (10, ("charlie",), "… Charlie five six. Delta seven eight. …"),
        (14, ("charlie",), "… Bravo three four. Charlie five six. Delta seven eight. …"),
        (10, ("alpha", "echo"), "Alpha one two. … Echo nine ten."),
        (14, ("alpha", "echo"), "Alpha one two. Bravo three four. … Echo nine ten."),
        # The end has no neighbour behind it, and the start none in front.
        (10, ("echo",), "… Delta seven eight. Echo nine ten."),
        (14, ("echo",), "… Delta seven eight. Echo nine ten."),
        (14, ("alpha",), "Alpha one two. Bravo three four. …"),
        # Without a match the first sentence is the best.
        (6, (), "Alpha one two. …"),
        (10, (), "Alpha one two. Bravo three four. …"),
    ],
)
def test_sentences_are_chosen_while_they_and_their_marks_fit(
    limit: int, words: tuple[str, ...], shown: str
) -> None:
    assert excerpt_by_words(limit, *words) == shown


def test_sentences_that_do_not_match_fill_the_room_from_the_first_on_if_asked() -> None:
    assert excerpt_by_words(14, "echo", fills=True) == "Alpha one two. … Delta seven eight. Echo nine ten."
    assert excerpt_by_words(14, "alpha", fills=True) == "Alpha one two. Bravo three four. Charlie five six. …"


def test_a_best_sentence_that_does_not_fit_is_cut_where_others_would_only_fill() -> None:
    text = "Refunds take one two three four five six days. Bravo three."

    assert excerpt_by_words(7, "refunds", text=text) == "… Bravo three."
    assert excerpt_by_words(7, "refunds", text=text, fills=True) == "Refunds take one two three four…"


def test_the_passage_in_focus_gives_way_to_a_sentence_that_matches() -> None:
    weights = dict.fromkeys(ENGLISH.terms_of(["echo"]), 10)
    shown = [
        excerpt_of(FIVE, terms, ENGLISH, words_counted, 6, focus="Bravo three four. Charlie five six.")
        for terms in ({}, weights)
    ]

    assert shown == ["… Bravo three four. …", "… Echo nine ten."]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b c d e f refund g h i j k l m n", "…e f refund g h…"),
        ("refund a b c d e f g h i j k l m n", "refund a b c…"),
        ("a b refund c d e f g h i j k l m n", "a b refund c…"),
        ("a b c d e f g h i j k l refund m", "…k l refund m"),
        ("And so on and on. a b refund c d e f g h i j k l m n", "…a b refund c…"),
    ],
)
def test_a_cut_sentence_begins_before_its_first_match_and_is_shortened_until_it_fits(
    text: str, shown: str
) -> None:
    weights = dict.fromkeys(ENGLISH.terms_of(["refund"]), 1)

    assert excerpt_of(text, weights, ENGLISH, words_counted, 5) == shown


def test_a_limit_that_not_even_a_mark_fits_into_shows_nothing() -> None:
    assert excerpt_of("Alpha one two.", {}, ENGLISH, lambda _: 9, 3) == ""
