"""Recall ceilings: every factor of the document's table, every product, and the edges of each."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from standfast.clock import ManualClock
from standfast.errors import InvalidValue
from standfast.govern.evidence import build_evidence
from standfast.govern.policy import MemoryWritePolicy, RecallDecision
from standfast.records.canon import utc_text
from standfast.records.origins import MAX_RECALL_CONFIDENCE, MULTIPLIER_OF_DOUBT, Doubt
from standfast.records.vocabulary import Band, FloorCheck, Record, Verdict
from tests.govern.chains import chain

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = MemoryWritePolicy(clock=ManualClock(NOW))
MICROSECOND = timedelta(microseconds=1)

# One row a state of an item: what to change in a sound one, the document's multiplier, and the warnings.
VERDICT_STATES: list[tuple[Any, str, list[str]]] = [
    ("SEAL", "1", []),
    ("sabar", "1", []),
    ("PARTIAL", "0.5", ["Its verdict is neither SEAL nor SABAR"]),
    ("888_HOLD", "0.5", ["Its verdict is neither SEAL nor SABAR"]),
    ("VOID", "0.5", ["Its verdict is neither SEAL nor SABAR"]),
    ("MAYBE", "0.5", ["Its verdict is neither SEAL nor SABAR"]),
    (None, "0.5", ["Its verdict is neither SEAL nor SABAR"]),
]
OLD = "It is more than 30 days old"
STALE = "It is more than 90 days old and may be stale"
NO_AGE = "Its timestamp is missing, unreadable or in the future, so its age is unknown"
AGE_STATES: list[tuple[Any, str, list[str]]] = [
    (NOW, "1", []),
    (NOW - timedelta(days=30), "1", []),
    (NOW - timedelta(days=30) - MICROSECOND, "0.8", [OLD]),
    (NOW - timedelta(days=90), "0.8", [OLD]),
    (NOW - timedelta(days=90) - MICROSECOND, "0.56", [OLD, STALE]),
    (NOW - timedelta(days=100), "0.56", [OLD, STALE]),
    (datetime(1, 1, 1, tzinfo=UTC), "0.56", [OLD, STALE]),
    (NOW + MICROSECOND, "0.9", [NO_AGE]),
    ("yesterday", "0.9", [NO_AGE]),
    ("2025-12-31T00:00:00", "0.9", [NO_AGE]),
    (None, "0.9", [NO_AGE]),
    (1_767_225_600, "0.9", [NO_AGE]),
]
EVIDENCE_STATES: list[tuple[Any, str, list[str]]] = [
    (chain(), "1", []),
    (None, "0.6", ["It has no evidence chain"]),
    ({}, "0.6", ["It has no evidence chain"]),
    ("chain", "0.6", ["It has no evidence chain"]),
    ({"verdict": "SEAL"}, "0.7", ["Its evidence chain holds no floor checks"]),
    ({**chain(), "floor_checks": []}, "0.7", ["Its evidence chain holds no floor checks"]),
    ({**chain(), "floor_checks": "all"}, "0.7", ["Its evidence chain holds no floor checks"]),
]
OTHER = "Its topic is not the current one"
TOPIC_STATES: list[tuple[tuple[Any, Any], str, list[str]]] = [
    (("refunds", "refunds"), "1", []),
    (("Refunds é", "refunds e\u0301 "), "1", []),
    (("refunds", "shipping"), "0.9", [OTHER]),
    (("refunds", None), "1", []),
    ((None, "refunds"), "1", []),
    (("", "refunds"), "1", []),
    ((7, "refunds"), "1", []),
    (("\ud800", "refunds"), "0.9", [OTHER]),
]


def _item(**changes: Any) -> dict[str, Any]:
    item = {"band": "LEDGER", "verdict": "SEAL", "timestamp": utc_text(NOW), "evidence_chain": chain()}
    return {**item, **changes}


def test_every_product_of_the_table() -> None:
    """All states of one factor against all of the others: what applies is multiplied, then capped at 0.85."""
    for verdict, age, evidence, topic in product(VERDICT_STATES, AGE_STATES, EVIDENCE_STATES, TOPIC_STATES):
        timestamp = utc_text(age[0]) if isinstance(age[0], datetime) else age[0]
        current, remembered = topic[0]
        item = _item(verdict=verdict[0], timestamp=timestamp, evidence_chain=evidence[0], topic=remembered)
        decision = POLICY.should_recall(item, {"topic": current})
        expected = Fraction(verdict[1]) * Fraction(age[1]) * Fraction(evidence[1]) * Fraction(topic[1])
        age_warnings, no_age = (age[2], []) if age[2] != [NO_AGE] else ([], age[2])

        assert decision.allowed
        assert decision.confidence_ceiling == float(min(expected, Fraction("0.85")))
        assert decision.floor_warnings == [
            *verdict[2],
            *age_warnings,
            *evidence[2],
            *topic[2],
            *no_age,
        ]


def test_the_multipliers_are_the_documents() -> None:
    assert MAX_RECALL_CONFIDENCE == 0.85
    assert MULTIPLIER_OF_DOUBT == {
        Doubt.VERDICT: 0.5,
        Doubt.OLDER_THAN_30_DAYS: 0.8,
        Doubt.OLDER_THAN_90_DAYS: 0.7,
        Doubt.NO_EVIDENCE: 0.6,
        Doubt.NO_FLOOR_CHECKS: 0.7,
        Doubt.OTHER_TOPIC: 0.9,
        Doubt.BAD_TIMESTAMP: 0.9,
    }


def test_a_flawless_memory_is_still_a_suggestion() -> None:
    decision = POLICY.should_recall(_item())

    assert decision == RecallDecision(True, "Suggestion with a confidence of at most 0.85", 0.85, [])


@pytest.mark.parametrize("band", ["VOID", "void", Band.VOID])
def test_the_void_band_is_blocked(band: str) -> None:
    decision = POLICY.should_recall(_item(band=band))

    assert not decision.allowed
    assert decision.confidence_ceiling == 0.0
    assert decision.floor_warnings == ["The VOID band holds rejected content, for diagnosis only"]


@pytest.mark.parametrize("band", [band for band in Band if band is not Band.VOID])
def test_every_other_band_can_be_recalled(band: Band) -> None:
    assert POLICY.should_recall(_item(band=band.value)).confidence_ceiling == 0.85


@pytest.mark.parametrize("band", ["VO\u0131D", "VOID ", "", "ARCHIVE", 7, ["VOID"]])
def test_a_band_that_nobody_knows_is_blocked(band: Any) -> None:
    decision = POLICY.should_recall(_item(band=band))

    assert (decision.allowed, decision.confidence_ceiling) == (False, 0.0)


def test_an_item_without_a_band_is_read_as_ledger_and_says_so() -> None:
    decision = POLICY.should_recall(_item(band=None))

    assert decision.confidence_ceiling == 0.85
    assert decision.floor_warnings == ["It names no band and is treated as LEDGER"]


@pytest.mark.parametrize("item", [None, 7, "item", [], object()])
def test_what_is_no_item_is_blocked(item: Any) -> None:
    assert not POLICY.should_recall(item).allowed


def test_age_is_of_the_policys_clock() -> None:
    clock = ManualClock(NOW)
    policy = MemoryWritePolicy(clock=clock)
    before = policy.should_recall(_item())
    clock.advance(timedelta(days=100).total_seconds())

    assert before.confidence_ceiling == 0.85
    assert policy.should_recall(_item()).confidence_ceiling == 0.56


def test_a_record_is_an_item() -> None:
    evidence = build_evidence([FloorCheck(floor="F1", score=1.0, passed=True)], Verdict.SEAL, NOW)
    record = Record(
        memory_id="m",
        text="EU refunds take 14 days.",
        ts_utc=utc_text(NOW - timedelta(days=31)),
        subject="policy/eu-refunds",
        verdict=Verdict.SEAL,
        evidence=evidence,
    )

    for item in (record, record.as_json()):
        decision = POLICY.should_recall(item, {"topic": "policy/us-refunds"})
        assert decision.floor_warnings == [OLD, OTHER]
        assert decision.confidence_ceiling == 0.72


def test_the_items_topic_comes_before_its_subject() -> None:
    item = _item(topic="refunds", subject="shipping")

    assert POLICY.should_recall(item, {"topic": "refunds"}).floor_warnings == []


@pytest.mark.parametrize("context", [None, {}, [], 7, "refunds"])
def test_a_context_without_a_topic_doubts_nothing(context: Any) -> None:
    assert POLICY.should_recall(_item(subject="refunds"), context).floor_warnings == []


@pytest.mark.parametrize(
    ("allowed", "ceiling"), [(True, 0.86), (True, -0.1), (False, 0.1), (True, float("nan"))]
)
def test_an_impossible_decision_cannot_be_built(allowed: bool, ceiling: float) -> None:
    with pytest.raises(InvalidValue, match="RecallDecision"):
        RecallDecision(allowed, "because", ceiling)
