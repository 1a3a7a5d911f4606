"""When a text contradicts a sealed one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from standfast.govern.judge.similarity import (
    ADDITION,
    IndexSnapshot,
    KnownText,
    RecalledText,
    SimilarityIndex,
    contradiction,
    says_nothing_new,
)
from standfast.govern.judge.text_reading import TextReading


@pytest.mark.parametrize(
    ("text", "sealed"),
    [
        ("The depot opens at 9.", "The depot opens at 10."),
        ("The tea is green.", "The tea is black."),
    ],
)
def test_two_shared_words_are_a_contradiction_only_about_one_subject(text: str, sealed: str) -> None:
    ours, theirs = TextReading(text), TextReading(sealed)

    assert contradiction(ours, theirs, has_subject=False) == (1.0, "")
    assert contradiction(ours, theirs, has_subject=True)[0] < 0.5


def test_what_shares_most_of_its_words_contradicts_without_a_subject_too() -> None:
    ours, theirs = (TextReading(f"The harbour depot opens its gate at {hour}.") for hour in (9, 10))

    assert contradiction(ours, theirs, has_subject=False) == (0.0, "another number or date")


def test_three_shared_words_among_many_contradict_nothing_without_a_subject() -> None:
    ours = TextReading("The harbour depot opens its gate and sells bread, cheese and honey at 9.")
    theirs = TextReading("The harbour depot opens its cellar for wine, fish, salt and pepper at 10.")

    assert contradiction(ours, theirs, has_subject=False) == (1.0, "")


def test_a_long_text_contradicts_the_short_one_that_is_part_of_it() -> None:
    """The share of common words is that of the shorter text, whichever is sealed."""
    short = TextReading("The harbour depot opens its gate at 9.")
    long = TextReading(
        "The harbour depot opens its gate at 10, and beside it somebody sells bread, cheese, honey and wine."
    )

    for ours, theirs in ((short, long), (long, short)):
        assert contradiction(ours, theirs, has_subject=False) == (0.0, "another number or date")


FULL = "The express parcel usually reaches rural customers within four working days"


@pytest.mark.parametrize(
    ("text", "known", "is_known"),
    [
        (FULL, FULL, True),
        # One typing error in three words, and at most four.
        ("The exprss parcel usually reaches rural customers within four working days", FULL, True),
        ("The exprss parcl usualy reaches rurall customers within four working days", FULL, False),
        ("refunds take dayys", "refunds take dayss", False),
        # A fifth of the words may be missing.
        ("express parcel reaches rural customers within four working days", FULL, True),
        ("express parcel reaches customers four working days", FULL, False),
        # A clause may be moved, and no more.
        ("rural customers within four working days express parcel usually reaches", FULL, True),
        ("days customers express four parcel rural reaches working usually within", FULL, False),
        # Numbers, qualifiers, other words and the order of names.
        ("The express parcel usually reaches rural customers within five working days", FULL, False),
        ("The express parcel never reaches rural customers within four working days", FULL, False),
        ("The express parcel usually reaches rural customers within four working weeks", FULL, False),
        ("Alice always reports directly to Bob", "Bob always reports directly to Alice", False),
        ("Alice always reports directly to Bob", "Alice always reports directly to Bob", True),
        # Two words are too few to tell.
        ("refunds take days", "refunds take days", True),
        ("refunds days", "refunds days", False),
    ],
)
def test_a_text_adds_nothing_if_it_has_the_words_numbers_and_order_of_a_known_one(
    text: str, known: str, is_known: bool
) -> None:
    assert says_nothing_new(TextReading(text), TextReading(known)) is is_known


@pytest.mark.parametrize(
    ("new", "old", "is_misspelling"),
    [
        # Another ending, from four letters on.
        ("lamp", "lampen", True),
        ("walking", "walk", True),
        ("tin", "tinten", False),
        # One letter more, less or other, or two that are swapped, from five letters on.
        ("marble", "marbble", True),
        ("marbble", "marble", True),
        ("marxble", "marble", True),
        ("marble", "marxble", True),
        ("mable", "marble", True),
        ("marbel", "marble", True),
        ("mrable", "marble", True),
        ("markle", "marble", True),
        ("marblo", "marble", True),
        ("marbxyle", "marble", False),
        ("markme", "marble", False),
        ("mraxle", "marble", False),
        ("mralbe", "marble", False),
        ("lime", "lame", False),
        # Never the first letter, and never a digit.
        ("garble", "marble", False),
        ("m4rble", "marble", False),
    ],
)
def test_a_typing_error_is_one_letter_or_another_ending(new: str, old: str, is_misspelling: bool) -> None:
    text, known = (f"amber birch cedar {word} elder fir" for word in (new, old))

    assert says_nothing_new(TextReading(text), TextReading(known)) is is_misspelling


_WORDS = ["amber", "birch", "cedar", "cedra", "elder", "fir", "7", "8", "not", "ambers"]
_TEXTS = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=7).map(" ".join)


@pytest.mark.parametrize(
    ("text", "sealed", "score", "reason"),
    [
        ("The depot opens on Monday.", "The depot opens on Tuesday.", 0.0, "another day or month"),
        ("The depot opens on Monday.", "The depot opens on Monday and Tuesday.", 0.8, ADDITION),
        ("The depot opens in June.", "The depot opens in July.", 0.0, "another day or month"),
        # May is a verb too.
        ("The depot opens at 9 in May.", "The depot opens at 9 in June.", 0.8, ADDITION),
        ("The depot never opens for guests.", "The depot opens for guests.", 0.0, "its negation"),
        ("The depot is open.", "The depot is closed.", 0.1, "its opposite"),
        ("The tea is green.", "The tea is black.", 0.2, "another statement in its place"),
        ("Refunds take 14 days.", "Refunds take 15 days.", 0.0, "another number or date"),
        ("Refunds take 14 days.", "Refunds take 14 weeks.", 0.0, "another number or date"),
        ("Refunds take 14 days.", "Refunds take 14 days or 3 weeks.", 0.8, ADDITION),
        ("Refunds of 9 euros take days.", "Refunds of 9 euros take 3 days.", 0.8, ADDITION),
        ("The refund takes 14 days and costs 3 euros.", "The refund takes 14 days.", 0.8, ADDITION),
        ("The roof is red.", "Refunds take 14 days.", 0.8, ADDITION),
        ("The roof is red.", "The roof is red.", 1.0, ""),
        ("Amber birch cedar", "Amber birch cedar elder", 0.8, ADDITION),
        (
            "Amber birch cedar elder fir",
            "Amber birch cedar elder pine oak",
            0.2,
            "another statement in its place",
        ),
        ("Amber birch cedar fir", "Amber birch cedar pine oak ash", 0.8, ADDITION),
        ("Amber birch fir", "Amber birch pine oak", 0.8, ADDITION),
        ("Amber birch fir beech", "Amber birch pine oak", 0.2, "another statement in its place"),
        ("fir beech amber birch", "amber birch pine oak", 0.8, ADDITION),
    ],
)
def test_about_one_subject_a_text_denies_replaces_or_adds(
    text: str, sealed: str, score: float, reason: str
) -> None:
    assert contradiction(TextReading(text), TextReading(sealed), has_subject=True) == (score, reason)


RECALLED = RecalledText(
    ["The harbour depot opens its gate at nine every working day.", "Ada lives in Oslo near the river."],
    ["b", "a"],
)


@pytest.mark.parametrize(
    ("text", "is_recalled", "memory_id"),
    [
        ("The harbour depot opens its gate at nine every working day.", True, "b"),
        ("The depot opens its gate at nine.", True, "b"),
        ("The harbour depot opens its gate at ten every working day.", False, "b"),
        ("The harbour depot never opens its gate at nine every working day.", False, "b"),
        ("The harbour depot opens its gate at nine every working day, rain.", True, "b"),
        ("Ada lives in Oslo near the river bank.", False, "a"),
        ("Bob lives in Oslo near the river.", False, "a"),
        ("Oslo Ada river near lives", False, "a"),
        ("Ada lives", False, "a"),
        ("Nobody said this.", False, "a"),
    ],
)
def test_a_text_of_recalled_words_in_their_order_was_recalled(
    text: str, is_recalled: bool, memory_id: str
) -> None:
    reading = TextReading(text)

    assert RECALLED.contains(reading) is is_recalled
    assert RECALLED.record_of(reading) == memory_id
    assert RecalledText(["Ada."]).record_of(reading) == ""


@given(known=st.lists(_TEXTS, max_size=8), text=_TEXTS)
@example(known=["amber birch cedar elder", "amber birch cedra elder"], text="amber birch cedar elder")
@example(known=["fir", "amber", "fir"], text="fir")
def test_the_index_finds_what_comparing_with_each_text_finds(known: list[str], text: str) -> None:
    texts = [KnownText(str(number), TextReading(one)) for number, one in enumerate(known)]
    asked, index = TextReading(text), SimilarityIndex(texts[:3])
    index.similar_to(asked)
    for one in texts[3:]:
        index.add(one)

    assert [one.memory_id for one in index.similar_to(asked)] == [
        one.memory_id
        for one in texts
        if one.reading.words == asked.words or says_nothing_new(asked, one.reading)
    ]


def test_a_snapshot_of_the_index_does_not_see_what_was_added_since() -> None:
    def ids(snapshot: IndexSnapshot) -> list[str]:
        return [one.memory_id for one in snapshot.similar_to(TextReading("amber birch cedar"))]

    first = IndexSnapshot(SimilarityIndex([KnownText("0", TextReading("amber birch cedar"))]))
    second = first.with_text(KnownText("1", TextReading("amber birch cedar")))
    other = first.with_text(KnownText("2", TextReading("amber birch cedar")))

    assert [ids(one) for one in (first, second, other)] == [["0"], ["0", "1"], ["0", "2"]]
