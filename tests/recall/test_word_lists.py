"""Word lists are data: a file of sections, checked when it is read."""

import pytest

from standfast.errors import InvalidValue
from standfast.recall import LANGUAGES
from standfast.recall.word_lists import parsed_lines, word_sections


def test_a_list_has_its_words_by_section_line_by_line() -> None:
    found = parsed_lines("test", "# A comment.\n[english]\nthe a\n\n  an\n[german]\nder\n")

    assert found == {"english": (("the", "a"), ("an",)), "german": (("der",),)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("the\n[english]\n", "line 1: a section such as [english] must come first"),
        ("[english]\nthe a\nthe\n", "line 3: the stands twice"),
        ("[english]\nthe\n[english]\n", "line 3: the section english stands twice"),
    ],
)
def test_a_damaged_list_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(InvalidValue, match="word list test") as caught:
        parsed_lines("test", text)

    assert caught.value.facts["problem"] == problem


def test_every_language_has_stop_words_and_articles_are_some_of_them() -> None:
    stop_words, articles = word_sections("stop_words"), word_sections("articles")

    assert {*stop_words, "none"} == set(LANGUAGES)
    assert all(set(words) <= set(stop_words[language]) for language, words in articles.items())
