"""Small formulas of ranking, each against its definition."""

import numpy as np
import pytest

from standfast.recall.analysis import analyzer_of
from standfast.recall.lexical import BEST_SCORE, _bm25, shares_of_best
from standfast.recall.ranking import SNAPSHOT_BITS

ENGLISH = analyzer_of("english")


@pytest.mark.parametrize("norm", [0, 1, 10_240, 1 << 52])
@pytest.mark.parametrize("idf", [1, 5_000, 1 << 30, 1 << 34])
def test_the_fast_and_the_exact_way_to_divide_give_whole_numbers_of_the_formula(idf: int, norm: int) -> None:
    sixths = [0, 1, 5, 6, 60]
    given = np.array(sixths, dtype=np.int32), np.full(len(sixths), norm, dtype=np.float64)

    assert _bm25(idf, *given).tolist() == [
        idf * 22 * count * 1024 // max(1, 10_240 * count + norm) for count in sixths
    ]


def test_scores_are_shares_of_the_best_that_words_can_give_or_of_the_best_of_all() -> None:
    points = [BEST_SCORE * 2, BEST_SCORE, 0]

    assert shares_of_best([one << SNAPSHOT_BITS for one in points]) == [1.0, 0.5, 0.0]
    assert shares_of_best([(BEST_SCORE // 2 << SNAPSHOT_BITS) + 7]) == [0.5]
    assert shares_of_best([]) == []


def test_words_are_the_same_if_they_have_one_stem() -> None:
    plain = analyzer_of("none")

    assert ENGLISH.is_same_word("refund", "refunds")
    assert not ENGLISH.is_same_word("refund", "parcel")
    assert plain.is_same_word("refund", "refund")
    assert not plain.is_same_word("refund", "refunds")
