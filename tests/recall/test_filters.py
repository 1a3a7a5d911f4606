"""Filters: what they leave, and what is refused."""

from typing import Any

import pytest

from standfast.errors import InvalidValue
from standfast.records.filters import Filter, RecordFacts
from standfast.records.vocabulary import Record

pytestmark = pytest.mark.usefixtures("any_time_zone")

RECORD = Record(
    memory_id="m",
    text="EU refunds take 14 days.",
    ts_utc="2026-11-16T09:30:00.000000Z",
    tags=("billing", "eu"),
    subject="policy/eu-refunds",
    source={"kind": "Doc", "id": "handbook#4"},
    metadata={"plan": "gold", "seats": 1, "active": True, "note": None},
)
FACTS = RecordFacts(
    ts_utc=RECORD.ts_utc,
    tags=RECORD.tags,
    subject=RECORD.subject,
    source=RECORD.source,
    metadata=RECORD.metadata,
)


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ({}, True),
        ({"tag": "billing"}, True),
        ({"tag": "Billing"}, True),
        ({"tag": "bill"}, False),
        ({"source_kind": "doc"}, True),
        ({"source_kind": "web"}, False),
        ({"subject_prefix": "policy/"}, True),
        ({"subject_prefix": "law/"}, False),
        ({"after": "2026-11-16T09:30:00Z"}, True),
        ({"after": "2026-11-16T09:30:00.000001Z"}, False),
        ({"before": "2026-11-16T09:30:00Z"}, False),
        ({"before": "2026-11-16T10:30:00.000001+01:00"}, True),
        ({"after": "2026-11-16", "before": "2026-11-17"}, True),
        ({"metadata": {"plan": "gold"}}, True),
        ({"metadata": {"plan": "gold", "seats": 1.0}}, True),
        ({"metadata": {"seats": True}}, False),
        ({"metadata": {"active": 1}}, False),
        ({"metadata": {"note": None}}, True),
        ({"metadata": {"missing": None}}, False),
        ({"tag": "billing", "metadata": {"plan": "free"}}, False),
    ],
)
def test_everything_that_is_given_must_hold(where: dict[str, Any], matches: bool) -> None:
    chosen = Filter.of(where)

    assert chosen.matches(RECORD) is chosen.matches(FACTS) is matches
    assert bool(chosen) is bool(where)
    assert Filter.of(chosen) is chosen
    assert Filter.from_json(chosen.as_json()) == chosen


@pytest.mark.parametrize("field", ["after", "before"])
def test_a_record_without_a_time_is_in_no_time_range(field: str) -> None:
    chosen = Filter.of({field: "2026-11-16"})

    assert not chosen.matches(RecordFacts())
    assert not chosen.matches(RecordFacts(ts_utc="yesterday"))


def test_a_record_without_the_field_does_not_match() -> None:
    for where in ({"tag": "a"}, {"source_kind": "doc"}, {"subject_prefix": "a"}, {"metadata": {"a": 1}}):
        assert not Filter.of(where).matches(RecordFacts())


@pytest.mark.parametrize(
    "where",
    [
        {"tags": ["billing"]},
        {"tag": ""},
        {"tag": 7},
        {"after": "last week"},
        {"before": "2026-11-16T09:30:00"},
        {"metadata": {"a": [1]}},
        {"metadata": {"a": float("nan")}},
        ["tag"],
        "billing",
    ],
)
def test_what_is_no_filter_is_refused(where: Any) -> None:
    with pytest.raises(InvalidValue):
        Filter.of(where)
