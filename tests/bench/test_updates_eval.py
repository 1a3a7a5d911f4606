"""``standfast eval updates``: stories in which facts change."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.bench.updates_eval import (
    STORIES,
    USER_TOKENS,
    Story,
    evaluate_updates,
    read_stories,
    updates_plot,
)
from standfast.cli import main
from standfast.errors import ExtractionError, InvalidValue


def test_at_least_150_stories_of_four_languages_ship_in_two_halves() -> None:
    halves = [read_stories(path) for path in STORIES]
    stories = [story for half in halves for story in half]

    assert len(halves) == 2
    assert len(stories) >= 150
    assert len({story.story for story in stories}) == len(stories)
    assert min(Counter(story.language for story in stories).values()) >= 35
    assert set(Counter(story.kind for story in stories)) == {"change", "return", "denied", "alike"}


@pytest.mark.parametrize("form", ["facts", "messages"])
def test_the_newest_comes_first_and_the_older_is_marked_in_the_half_that_no_pattern_was_made_with(
    form: str,
) -> None:
    score = evaluate_updates(read_stories(STORIES[1]), "b", form=form)  # type: ignore[arg-type]

    assert score.first >= 0.9
    assert score.marked >= 0.8
    assert score.false_marks <= 1
    assert score.in_package == score.then == 1
    assert score.needed >= 0.92
    assert score.user_tokens > USER_TOKENS


def test_an_oracle_ends_what_it_replaces_and_marks_nothing_that_only_looks_alike() -> None:
    told = ("Ann sings.", "Ann dances.")
    stories = [
        Story(story="y", language="en", kind="change", told=told, question="Ann?", now=told[1:]),
        Story(story="z", language="en", kind="alike", told=told[::-1], question="Ann?", now=told),
    ]
    plain, oracle = (
        evaluate_updates(stories[:1], "made up", system=system, form="messages")
        for system in ("recall", "oracle")
    )
    alike = evaluate_updates(stories[1:], "made up", system="oracle", form="messages")

    assert (plain.system, plain.marked, oracle.system) == ("recall", 0, "oracle")
    assert (oracle.in_package, oracle.then, oracle.false_marks) == (1, 1, 0)
    assert (alike.in_package, alike.false_marks) == (1, 0)


def test_a_peer_is_told_the_same_stories_and_has_neither_marks_nor_a_past() -> None:
    score = evaluate_updates(read_stories(STORIES[0])[:6], "six", system="fts5")

    assert (score.system, score.marked, score.then, score.false_marks) == ("fts5", 0, 0, 0)
    assert score.in_package > 0
    assert 0 < score.tokens <= 300


def test_a_plot_shows_every_system() -> None:
    scores = [
        evaluate_updates(read_stories(STORIES[0])[:2], "two", system=system) for system in ("recall", "fts5")
    ]
    drawn = updates_plot(scores).encode("svg")

    assert drawn == updates_plot(scores).encode("svg")
    assert drawn.startswith(b"<?xml")


def test_a_mark_on_what_only_looks_alike_is_counted_as_false() -> None:
    told = ("I live in Rome.", "I moved to Turin.")
    alike = Story(story="x", language="en", kind="alike", told=told, question="Where?", now=told)
    change = Story(
        story="y",
        language="en",
        kind="change",
        told=("Ann sings.", "Ann dances."),
        question="?",
        now=told[:1],
    )
    score = evaluate_updates([alike, change], "made up")

    assert score.false_marks == round(1000 / 16, 2)
    assert score.marked == 0
    assert score.in_package == 0.5


def test_the_command_prints_a_line_for_each_form_and_refuses_what_is_no_story(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(STORIES[0].read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    printed = CliRunner().invoke(main, ["eval", "updates", str(path), "--json"])

    assert [one["form"] for one in json.loads(printed.output)["scores"]] == ["facts", "messages"]
    refused = CliRunner().invoke(main, ["eval", "updates", str(path), "--model", "--json"])
    assert isinstance(refused.exception, SystemExit | ExtractionError)
    assert "no_extractor" in refused.output or "section [extraction]" in str(refused.exception)
    path.write_text('{"told": 1}\n', encoding="utf-8")
    with pytest.raises(InvalidValue, match="line 1"):
        read_stories(path)
