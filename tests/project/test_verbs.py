"""The verbs of memory have the same names and arguments everywhere, and docs/verbs.md says so."""

from pathlib import Path

from tests.project.verb_reference import DIFFERENCES, arguments, differences, reference

PAGE = Path(__file__).parents[2] / "docs" / "verbs.md"


def test_the_table_of_verbs_is_that_of_the_code() -> None:
    # To mend it: python -m tests.project.verb_reference > docs/verbs.md
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_every_surface_has_the_same_arguments_but_for_those_that_the_page_explains() -> None:
    assert differences() == set(DIFFERENCES)


def test_the_async_twins_have_exactly_the_arguments_of_their_originals() -> None:
    for verb, by in arguments().items():
        assert by["AsyncMemory"] == by["Memory"], verb
        assert by["AsyncClient"] == by["Client"], verb
