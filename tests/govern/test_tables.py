"""Word tables: one format, read the same everywhere, and part of what is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from standfast.govern.judge import tables
from standfast.govern.judge.tables import TableSection, WordTable, parse_sections, read_phrases, read_sections
from standfast.govern.judge.text_reading import fold

FOLDER = Path(tables.__file__).with_name("data")
FILES = sorted(file.name for file in FOLDER.iterdir())


def test_a_table_has_titles_comments_names_and_continued_lines() -> None:
    text = (
        "# A comment.\nWHO = (you|\n    we)\n\n[first 0.5]\nplain words\n{WHO} (must|\n    should) go\n    on\n\n"  # noqa: E501  # Data.
        "[second]\n(a )?\n    {WHO}\n"
    )

    assert parse_sections(text, "x") == [
        TableSection("first 0.5", ("plain words", "(you|we) (must|should) go on")),
        TableSection("second", ("(a )?(you|we)",)),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("words\n[title]\n", "stands before the first"),
        ("[title]\n{WHO} go\nWHO = (you)\n", "used before it is defined"),
    ],
)
def test_a_table_with_a_mistake_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_sections(text, "x")


def test_a_list_of_words_has_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twice.words").write_text("[a]\none\n[a]\ntwo\n")
    monkeypatch.setattr(tables, "_FOLDER", tmp_path)

    with pytest.raises(ValueError, match=r"two sections \[a\]"):
        WordTable("twice.words")


@pytest.mark.parametrize("file", FILES)
def test_every_table_is_read_and_has_no_empty_section(file: str) -> None:
    sections = read_sections(file)

    assert sections
    assert [section.title for section in sections if not section.lines] == []


@pytest.mark.parametrize("file", ["injection.words", "floors.words", "text.words"])
def test_words_that_are_compared_with_folded_text_are_folded(file: str) -> None:
    sections = [one for one in read_sections(file) if one.title not in ("lookalikes", "later characters")]
    words = {word for section in sections for line in section.lines for word in line.split()}

    assert sorted(word for word in words if fold(word) != word) == []


@pytest.mark.parametrize("file", [file for file in FILES if file.endswith(".phrases")])
def test_every_weight_is_a_certainty(file: str) -> None:
    assert [kind for kind, weight, _ in read_phrases(file) if not 0 < weight <= 1] == []


def test_reading_the_judge_compiles_no_phrase(tmp_path: Path) -> None:
    """Start-up reads lists of words. Phrases are read when the first text is judged."""
    script = (
        "import standfast.govern.judge.judge, standfast.govern.judge.injection as i, "
        "standfast.govern.judge.floors as f\n"
        "print(i.order_phrases.cache_info().currsize, f.authority_phrases.cache_info().currsize)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert done.stdout.split() == ["0", "0"]
