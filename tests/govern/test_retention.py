"""Retention: the document's bands and tiers, to the day."""

from typing import Any

import pytest

from standfast.errors import InvalidValue
from standfast.govern import policy as governed
from standfast.govern.policy import MemoryWritePolicy, RetentionDecision
from standfast.records.vocabulary import Band, Record

POLICY = MemoryWritePolicy()

# item, age in days: keep, move_to_band, delete_after_days
TABLE: list[tuple[dict[str, Any], float, bool, str | None, int | None]] = [
    ({"band": "VAULT"}, 0, True, None, None),
    ({"band": "VAULT"}, 10_000, True, None, None),
    ({"band": "LEDGER"}, 0, True, None, None),
    ({"band": "LEDGER"}, 90, True, None, None),
    ({"band": "LEDGER"}, 90.000001, True, "COLD", None),
    ({"band": "LEDGER"}, 91, True, "COLD", None),
    ({"band": "LEDGER"}, 10_000, True, "COLD", None),
    ({"band": "LEDGER", "tier": "COLD"}, 10_000, True, None, None),
    ({"band": "LEDGER", "tier": "WARM"}, 91, True, "COLD", None),
    ({"band": "ACTIVE"}, 0, True, None, 7),
    ({"band": "ACTIVE"}, 6.5, True, None, 1),
    ({"band": "ACTIVE"}, 7, True, None, 0),
    ({"band": "ACTIVE"}, 7.000001, False, None, 0),
    ({"band": "ACTIVE"}, 8, False, None, 0),
    ({"band": "active"}, 8, False, None, 0),
    ({"band": "PHOENIX"}, 0, True, None, None),
    ({"band": "PHOENIX", "status": "draft"}, 10_000, True, None, None),
    ({"band": "PHOENIX", "status": "sealed"}, 0, True, "LEDGER", None),
    ({"band": "PHOENIX", "status": "Rejected"}, 91, True, "LEDGER", None),
    ({"band": "WITNESS"}, 0, True, None, 90),
    ({"band": "WITNESS"}, 90, True, None, 0),
    ({"band": "WITNESS"}, 91, False, None, 0),
    ({"band": "VOID"}, 0, True, None, 90),
    ({"band": "VOID"}, 90, True, None, 0),
    ({"band": "VOID"}, 90.000001, False, None, 0),
    ({"band": "VOID"}, 10**400, False, None, 0),
    ({"band": "VOID"}, -5, True, None, 90),
    ({"band": "NOWHERE"}, 10_000, True, None, None),
    ({"band": 7}, 10_000, True, None, None),
    ({}, 10_000, True, None, None),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0].get('band')} {float(min(row[1], 1e9)):g}")
def test_the_table(row: tuple[dict[str, Any], float, bool, str | None, int | None]) -> None:
    item, age_days, *expected = row
    decision = POLICY.should_retain(item, age_days)

    assert [decision.keep, decision.move_to_band, decision.delete_after_days] == expected
    assert decision.reason


def test_the_table_has_every_band() -> None:
    assert {*Band} <= {row[0].get("band") for row in TABLE}


def test_the_days_are_the_documents() -> None:
    days = (
        governed.RETENTION_HOT_DAYS,
        governed.RETENTION_WARM_DAYS,
        governed.RETENTION_COLD_DAYS,
        governed.RETENTION_VOID_DAYS,
    )

    assert days == (7, 90, 365, 90)


@pytest.mark.parametrize("verdict", ["SEAL", "VOID", None])
@pytest.mark.parametrize("age_days", [0, 91, 366, 36_500])
def test_vault_never_expires_and_nothing_ever_moves_into_it(verdict: str | None, age_days: int) -> None:
    assert POLICY.should_retain({"band": "VAULT", "verdict": verdict}, age_days).keep
    for band in Band:
        decision = POLICY.should_retain({"band": band, "verdict": verdict, "status": "sealed"}, age_days)
        assert decision.move_to_band != "VAULT"


def test_a_record_is_an_item() -> None:
    record = Record(memory_id="m", text="t", band=Band.ACTIVE)

    assert not POLICY.should_retain(record, 8).keep
    assert POLICY.should_retain(record, 8).reason == "ACTIVE entry past 7 days: deleted"


@pytest.mark.parametrize("age_days", [float("nan"), float("inf"), "7", None, True, [7]])
def test_an_age_that_is_no_number_of_days_is_refused(age_days: Any) -> None:
    """Deleting on a guess can't be mended."""
    with pytest.raises(InvalidValue, match="age_days"):
        POLICY.should_retain({"band": "VOID"}, age_days)


@pytest.mark.parametrize(
    "fields",
    [(True, "VAULT", "because"), (False, "LEDGER", "because", 0), (False, None, "because", 3)],
)
def test_an_impossible_decision_cannot_be_built(fields: Any) -> None:
    with pytest.raises(InvalidValue, match="RetentionDecision"):
        RetentionDecision(*fields)


@pytest.mark.parametrize(
    ("age_days", "words"), [(90, "within 90 days"), (90.001, "past 90 days and undecided")]
)
def test_a_proposal_is_reported_once_it_is_past_ninety_days(age_days: float, words: str) -> None:
    decision = MemoryWritePolicy().should_retain({"band": "PHOENIX"}, age_days)

    assert decision.keep
    assert words in decision.reason
