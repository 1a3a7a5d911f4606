"""How long a value must be to be a secret, and how near to a word for one, is what the table says."""

from itertools import pairwise

import pytest

from standfast.govern.judge.claim import NOTHING_KNOWN
from standfast.govern.judge.secrecy import SecrecyFloor
from tests.govern.corpus import claim
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


def _found(text: str) -> str:
    return SecrecyFloor().check(claim(text), NOTHING_KNOWN).reason


def _with_check_digit(digits: str) -> str:
    doubled = [int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(digits))]
    return f"{digits}{-sum(one // 10 + one % 10 for one in doubled) % 10}"


@pytest.mark.parametrize(
    ("prefixes", "lengths"),
    [
        ("4", {13, 16, 19}),
        ("51 55 2221 2229 223 229 23 26 270 271 2720", {16}),
        ("34 37", {15}),
        ("6011 644 649 65 352 358 62", {16, 19}),
        ("300 305 36 38", {14, 16}),
        ("1 9 50 56 2220 2721 33 39 6012 643 350 359 66 306 7 8", set()),
    ],
)
def test_a_card_begins_as_its_network_s_do_and_is_as_long(prefixes: str, lengths: set[int]) -> None:
    for prefix in prefixes.split():
        numbers = {
            size: _with_check_digit((prefix + "5787631862539148620")[: size - 1]) for size in range(13, 20)
        }
        found = {size for size, number in numbers.items() if "card" in _found(f"The card is {number}.")}

        assert found == lengths, prefix
