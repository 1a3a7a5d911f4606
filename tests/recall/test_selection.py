"""Scores, order and budget of ``phase6-v1``, case by case at their boundaries."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.recall.candidates import Candidate, read_line
from standfast.recall.selection import (
    DropReason,
    RankedCandidate,
    Ranking,
    RecordScore,
    ScoredQuery,
    as_number,
    excerpt_of,
    fit,
    per_item_tokens,
)
from standfast.records.timestamps import time_of
from standfast.records.vocabulary import Budget
from tests.recall.stores import FEW, records

NOW = time_of("2026-01-31T00:00:00Z")
HALF, ONE = 500_000, 1_000_000


def _record(memory_id: str, text: str = "", **fields: Any) -> Candidate:
    found = read_line(json.dumps({"memory_id": memory_id, "text": text} | fields).encode())
    assert isinstance(found, Candidate)
    return found


def _query(*terms: str, tags: bool = True, now: int | None = None) -> ScoredQuery:
    return ScoredQuery(terms=terms, counts_tags=tags, now=now, half_life_days=30)


def _ranked(query: ScoredQuery, limit: int | None, *candidates: Candidate, path: str = "s") -> list[str]:
    ranking = Ranking(query, limit)
    ranking.offer(candidates, path)
    return [ranked.memory_id for ranked in ranking.best()]


# Scores.


@pytest.mark.parametrize(
    ("query", "record", "total"),
    [
        (_query("refund"), _record("m", "a refund"), ONE),
        (_query("refund"), _record("m", "REFUNDS"), ONE),
        (_query("refund", "eu"), _record("m", "eu refund"), 2 * ONE),
        (_query("refund"), _record("m", "re fund"), 0),
        (_query("eu refund"), _record("m", "EU \n refund"), ONE),
        (_query("eu refund"), _record("m", "refund eu"), 0),
        (_query("eu"), _record("m", "x", tags=["EU"]), HALF),
        (_query("eu"), _record("m", "x", tags=["EU", "eu"]), HALF),
        (_query("eu", "vat"), _record("m", "x", tags=["vat", "eu"]), 2 * HALF),
        (_query("eu"), _record("m", "x", tags=["euro"]), 0),
        (_query("eu", tags=False), _record("m", "x", tags=["eu"]), 0),
        (_query("eu"), _record("m", "eu", tags=["eu"]), ONE + HALF),
        (_query(now=NOW), _record("m", ts_utc="2026-01-31T00:00:00Z"), ONE),
        (_query(now=NOW), _record("m", ts_utc="2026-01-31T00:00:00.000001Z"), ONE),
        (_query(now=NOW), _record("m", ts_utc="2026-01-01T00:00:00Z"), HALF),
        (_query(now=NOW), _record("m", ts_utc="2025-12-02T00:00:00Z"), HALF // 2),
        (_query(now=NOW), _record("m"), 0),
        (_query(now=NOW), _record("m", ts_utc="yesterday"), 0),
        (_query(), _record("m", ts_utc="2026-01-31T00:00:00Z"), 0),
        (_query(), _record("m", "refund", tags=["eu"]), 0),
        # U+A7DC came after Unicode 14.0, which has no lower case for it, though a newer Python has.
        (_query("\ua7dc"), _record("m", "x \ua7dc"), ONE),
        (_query("\u03bf\u03b4\u03bf\u03c2"), _record("m", "\u039f\u0394\u039f\u03a3"), ONE),
        (_query("\u03b1\u03c3"), _record("m", "\u0391\u03a3\u0295"), ONE),
        (_query("\u03b1\u03c2"), _record("m", "\u0391\u03a3\u0295"), 0),
    ],
)
def test_a_score_is_the_sum_of_its_parts(query: ScoredQuery, record: Candidate, total: int) -> None:
    ranking = Ranking(query, None)
    ranking.offer([record], "s")
    (ranked,) = ranking.best()

    assert query.score(record).total == total
    assert ranked.score == total


def test_a_score_lists_what_matched_in_the_order_of_the_terms() -> None:
    score = _query("vat", "eu", "x").score(_record("m", "eu vat", tags=["x", "vat"]))

    assert score == RecordScore(matched_terms=("vat", "eu"), matched_tags=("vat", "x"), recency=0)
    assert (as_number(1_500_000), as_number(1)) == (1.5, 0.000001)


@FEW
@given(
    st.lists(records(), max_size=8),
    st.lists(st.sampled_from(["re", "refund", "eu", "zoll", "refund eu", "οδος"]), max_size=4, unique=True),
    st.sampled_from([None, NOW]),
    st.integers(1, 4),
)
def test_a_ranking_with_a_limit_is_the_start_of_the_full_one(
    written: list[dict[str, Any]], terms: list[str], now: int | None, limit: int
) -> None:
    query = _query(*terms, now=now)
    lines = [read_line(json.dumps(record).encode()) for record in written]
    found = [one for one in lines if isinstance(one, Candidate)] * 3
    full, limited = Ranking(query, None), Ranking(query, limit)
    for ranking in (full, limited):
        for candidate in found:
            ranking.offer([candidate], "s")

    assert [(one.memory_id, one.score) for one in limited.best()] == [
        (one.memory_id, one.score) for one in full.best()[:limit]
    ]
    assert all(one.score == query.score(one.candidate).total for one in full.best())


# Order.

TIE = {"ts_utc": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (_record("z", "eu vat"), _record("a", "eu", **TIE)),
        (_record("z", "eu", tags=["vat"]), _record("a", "eu", **TIE)),
        (_record("z", "eu", ts_utc="2026-01-01T00:00:00.000001Z"), _record("a", "eu", **TIE)),
        (_record("z", "eu", ts_utc="0001-01-01T00:00:00Z"), _record("a", "eu")),
        (_record("z", "eu", ts_utc="0001-01-01T00:00:00Z"), _record("a", "eu", ts_utc="no time")),
        (_record("a", "eu", **TIE), _record("b", "eu", **TIE)),
        (_record("a", "eu"), _record("b", "eu", ts_utc="no time")),
    ],
    ids=["score", "tag", "time", "missing time last", "no time last", "id", "id without times"],
)
def test_candidates_are_ordered_by_score_then_time_then_id(first: Candidate, second: Candidate) -> None:
    query = _query("eu", "vat")
    expected = [first.memory_id, second.memory_id]

    for pair in ((first, second), (second, first)):
        assert _ranked(query, None, *pair) == expected
        # With a limit of one, the second is dropped, even after the ranking was cut several times.
        assert _ranked(query, 1, *(pair * 4)) == expected[:1]


def test_store_paths_come_before_ids_and_hashes_come_last() -> None:
    ranking = Ranking(_query("eu"), None)
    ranking.offer([_record("a", "eu")], "z")
    ranking.offer([_record("b", "eu 1"), _record("b", "eu 2"), _record("b", "eu 3")], "y")
    best = ranking.best()

    assert [one.store_path for one in best] == ["y", "y", "y", "z"]
    assert [one.record_hash for one in best[:3]] == sorted(one.record_hash for one in best[:3])


def test_texts_with_one_hash_are_ordered_by_their_unicode_form() -> None:
    composed, decomposed = _record("a", "eu \u00fc"), _record("a", "eu u\u0308")
    assert composed.record_hash == decomposed.record_hash

    for pair in ((composed, decomposed), (decomposed, composed)):
        ranking = Ranking(_query("eu"), None)
        ranking.offer(pair, "s")

        assert [one.candidate.text for one in ranking.best()] == ["eu u\u0308", "eu \u00fc"]


def test_equal_scores_at_the_end_of_a_full_ranking_are_still_decided_by_time_and_id() -> None:
    """The ranking is full of records with one point each when a better tie comes."""
    old = [_record(f"m{number}", "eu", ts_utc="2026-01-01T00:00:00Z") for number in range(9)]
    query = _query("eu")

    assert _ranked(query, 2, *old, _record("new", "eu", ts_utc="2026-01-01T00:00:00.000001Z")) == [
        "new",
        "m0",
    ]
    assert _ranked(query, 2, *old, _record("a", "eu", ts_utc="2026-01-01T00:00:00Z")) == ["a", "m0"]
    assert _ranked(query, 2, *old, _record("a", "eu", ts_utc="2025-12-31T00:00:00Z")) == ["m0", "m1"]
    assert _ranked(query, 2, *old, _record("a", "x", ts_utc="2027-01-01T00:00:00Z")) == ["m0", "m1"]


def test_recency_can_lift_a_record_over_one_with_more_terms() -> None:
    """A point of recency makes up for one term, and exactly no more."""
    query = _query("eu", "vat", now=NOW)
    old = [_record(f"m{number}", "eu", ts_utc="1990-01-01T00:00:00Z") for number in range(9)]
    two = [_record(f"t{number}", "eu vat", ts_utc="1990-01-01T00:00:00Z") for number in range(9)]
    fresh = _record("fresh", "x", ts_utc="2026-01-31T00:00:00Z")

    assert _ranked(query, 2, *old, fresh) == ["fresh", "m0"]
    assert _ranked(query, 2, *two, fresh) == ["t0", "t1"]


def test_a_ranking_keeps_no_more_than_it_needs() -> None:
    ranking = Ranking(_query("eu"), 3)
    for number in range(50):
        ranking.offer([_record(f"m{number}", "eu" if number % 2 else "x")], "s")

        assert len(ranking._entries) <= 6
    assert [one.memory_id for one in ranking.best()] == ["m1", "m11", "m13"]


# Excerpts and budget.


@pytest.mark.parametrize(
    ("text", "tokens", "excerpt"),
    [
        ("abcd", 1, "abcd"),
        ("abcde", 1, "abcd"),
        ("  abcd  ", 1, "abcd"),
        ("   ", 1, ""),
        ("abc\u00fc", 1, "abc"),
        ("ab\u00fc", 1, "ab\u00fc"),
        ("\U0001f4da\U0001f4da", 1, "\U0001f4da"),
        ("a\U0001f4da", 1, "a"),
        ("abc   d", 1, "abc "),
        ("abcdefgh", 2, "abcdefgh"),
    ],
)
def test_an_excerpt_is_cut_at_the_last_code_point_that_fits(text: str, tokens: int, excerpt: str) -> None:
    assert excerpt_of(text, tokens) == excerpt


def test_one_excerpt_has_no_more_than_the_whole_budget() -> None:
    assert per_item_tokens(Budget(max_excerpt_tokens=5)) == 5
    assert per_item_tokens(Budget(max_excerpt_tokens=5, per_item_max_excerpt_tokens=4)) == 4
    assert per_item_tokens(Budget(max_excerpt_tokens=5, per_item_max_excerpt_tokens=6)) == 5


def _candidates(*texts: str) -> list[RankedCandidate]:
    return [RankedCandidate(_record(f"m{number}", text), "s", 0) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("texts", "budget", "costs", "stopped_by"),
    [
        (("abcd", "abcd"), Budget(max_excerpt_tokens=2), [1, 1], None),
        (("abcd", "abcde"), Budget(max_excerpt_tokens=2), [1], DropReason.BUDGET),
        (("abcd", "abcde", "a"), Budget(max_excerpt_tokens=2), [1], DropReason.BUDGET),
        (("abcd", "", "x"), Budget(max_excerpt_tokens=1), [1, 0], DropReason.BUDGET),
        (("a", "b"), Budget(max_excerpt_tokens=9, max_items=2), [1, 1], None),
        (("a", "b", "c"), Budget(max_excerpt_tokens=9, max_items=2), [1, 1], DropReason.ITEMS),
        (("a", "b", "c"), Budget(max_excerpt_tokens=2, max_items=2), [1, 1], DropReason.ITEMS),
        (("abcdefgh", "b"), Budget(max_excerpt_tokens=2, per_item_max_excerpt_tokens=1), [1, 1], None),
        ((), Budget(max_excerpt_tokens=1), [], None),
    ],
)
def test_selection_stops_at_the_first_that_does_not_fit(
    texts: tuple[str, ...], budget: Budget, costs: list[int], stopped_by: DropReason | None
) -> None:
    chosen = fit(_candidates(*texts), budget)

    assert [one.excerpt_tokens for one in chosen.selected] == costs
    assert [one.ranked.memory_id for one in chosen.selected] == [f"m{number}" for number in range(len(costs))]
    assert (chosen.used_tokens, chosen.stopped_by) == (sum(costs), stopped_by)
