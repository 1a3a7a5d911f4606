"""How long a value must be to be a secret, and how near to a word for one, is what the table says."""

from itertools import pairwise

import pytest

from tests.govern.secret_edges import FILLED, FRAMES, SIZES, VALUES, filled, kind_of, table, text_of

TABLE = table()


def _edges(kinds: dict[int, str]) -> set[int]:
    """The sizes on both sides of each change."""
    return {size for pair in pairwise(kinds) if kinds[pair[0]] != kinds[pair[1]] for size in pair}


@pytest.mark.parametrize("part", range(4))
def test_a_value_is_a_secret_from_the_length_on_that_the_table_says(part: int) -> None:
    for frame in FRAMES[part::4]:
        for value in VALUES:
            kinds = TABLE[frame, value]
            sizes = _edges(kinds) or {SIZES[len(SIZES) // 2], SIZES[-1]}

            assert {size: kind_of(text_of(frame, value, size)) for size in sizes} == {
                size: kinds[size] for size in sizes
            }, f"{frame} {value}; if that is meant, run: python -m tests.govern.secret_edges"


def test_a_value_is_a_secret_as_near_to_a_word_for_one_as_the_table_says() -> None:
    for frame in FILLED:
        kinds = TABLE[frame, "filled"]

        assert {size: kind_of(filled(frame, size)) for size in kinds} == kinds, frame


@pytest.mark.slow
def test_every_length_of_a_value_is_judged_as_the_table_says() -> None:
    for (frame, value), kinds in TABLE.items():
        if value != "filled":
            assert {size: kind_of(text_of(frame, value, size)) for size in SIZES} == kinds
