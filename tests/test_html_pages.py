"""Pages that are one file each, and the difference of two texts."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import MissingExtra
from standfast.html_pages import word_pieces
from standfast.optimize.loops.report import OptimizationReport, UntestedText, html_report

few = settings(max_examples=60)
TEXTS = st.text(alphabet="ab c.\n<é", max_size=40)
REPORT = OptimizationReport(
    experiment_id="e",
    prompt_ns="shop<",
    prompt_key="k",
    baseline_pass_rate=1.0,
    baseline_token_count=9,
    untested=(UntestedText(section_path=("a",), text="<script>alert(1)</script>", removed=False),),
)


@given(before=TEXTS, after=TEXTS)
@few
def test_a_difference_contains_both_texts(before: str, after: str) -> None:
    pieces = word_pieces(before, after)

    assert "".join(text for kind, text in pieces if kind != "added") == before
    assert "".join(text for kind, text in pieces if kind != "removed") == after


def test_long_texts_are_compared_by_lines_and_very_long_ones_as_a_whole() -> None:
    by_lines = word_pieces("a b c\n" * 1_000 + "x", "a b c\n" * 1_000 + "y")
    whole = word_pieces("a\n" * 5_000, "b\n" * 5_000)

    assert [kind for kind, _ in by_lines] == ["same", "removed", "added"]
    assert [kind for kind, _ in whole] == ["removed", "added"]


def test_a_page_escapes_what_it_shows() -> None:
    page = html_report(REPORT)

    assert "<h1>shop&lt;/k</h1>" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>" not in page


def test_without_its_extra_a_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)

    with pytest.raises(MissingExtra, match=r"pip install 'standfast\[evals\]'"):
        html_report(REPORT)
