"""A memory with pins, instructions, law, hearsay, conversations, dates and statements that disagree."""

from tests.recall import story


def test_a_memory_of_every_kind_of_record_gives_the_same_packages_at_every_budget() -> None:
    expected, found = story.FILE.read_text(encoding="utf-8").splitlines(), story.lines().splitlines()

    assert found == expected, "if this is meant, run: python -m tests.recall.story"
