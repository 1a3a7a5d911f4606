"""Token counts are a real tokeniser's, and an estimate is labelled as one."""

import pytest

from standfast.errors import InvalidValue
from standfast.recall.tokens import BpeCounter, EstimatedCounter


@pytest.mark.parametrize(
    ("encoding", "text", "tokens"),
    [
        ("o200k_base", "", 0),
        ("o200k_base", "hello world", 2),
        ("cl100k_base", "hello world", 2),
        ("o200k_base", "tiktoken is great!", 6),
        ("cl100k_base", "tiktoken is great!", 6),
        ("cl100k_base", "antidisestablishmentarianism", 6),
        ("cl100k_base", "お誕生日おめでとう", 9),
        ("o200k_base", "お誕生日おめでとう", 8),
    ],
)
def test_the_encodings_count_as_their_publisher_says(encoding: str, text: str, tokens: int) -> None:
    assert BpeCounter(encoding).count(text) == tokens


def test_a_counter_says_what_it_is() -> None:
    assert (BpeCounter().name, BpeCounter().is_exact) == ("o200k_base", True)
    assert (EstimatedCounter().name, EstimatedCounter().is_exact) == ("estimate:bytes/4", False)
    assert [EstimatedCounter().count(text) for text in ("", "1", "1234", "12345", "üü", "üüü")] == [
        0,
        1,
        1,
        2,
        1,
        2,
    ]
    with pytest.raises(InvalidValue):
        BpeCounter("gpt2")
