"""The examples of the document, run as they stand there; only what it leaves open is filled in."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from standfast.clock import ManualClock
from standfast.govern import policy as governed
from standfast.govern.policy import (
    EvidenceChainValidation,
    MemoryWritePolicy,
    RecallDecision,
    RetentionDecision,
    WriteDecision,
    compute_evidence_hash,
)
from tests.govern.chains import document_hash

FLOOR_RESULTS = [
    {"floor": "F1_Amanah", "score": 1.0, "passed": True},
    {"floor": "F2_Truth", "score": 0.99, "passed": True},
]
NOW_ISO = "2025-01-15T10:30:00Z"


@pytest.fixture
def policy() -> MemoryWritePolicy:
    return MemoryWritePolicy(clock=ManualClock(datetime(2025, 1, 15, 10, 30, tzinfo=UTC)))


def _chain(verdict: str) -> dict[str, Any]:
    return {
        "floor_checks": FLOOR_RESULTS,
        "timestamp": NOW_ISO,
        "verdict": verdict,
        "hash": compute_evidence_hash(FLOOR_RESULTS, verdict, NOW_ISO),
    }


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            WriteDecision,
            ["allowed", "reason", "ledger_entry", "target_bands", "requires_human_approval"],
        ),
        (RecallDecision, ["allowed", "reason", "confidence_ceiling", "floor_warnings"]),
        (RetentionDecision, ["keep", "move_to_band", "reason", "delete_after_days"]),
        (EvidenceChainValidation, ["valid", "missing_links", "hash_verified", "floor_check_present"]),
    ],
)
def test_section_3_the_decisions_have_its_fields_in_its_order(kind: Any, names: list[str]) -> None:
    assert [field.name for field in fields(kind)] == names


def test_section_2_2_a_void_refusal() -> None:
    decision = WriteDecision(
        allowed=False,
        reason="VOID verdicts can ONLY be written to Void band (never canonical)",
        ledger_entry={},
    )

    assert MemoryWritePolicy().should_write("VOID", _chain("VOID"), "ACTIVE") == decision


def test_section_4_2_the_validation_example(policy: MemoryWritePolicy) -> None:
    evidence_chain = {
        "floor_checks": [
            {"floor": "F1_Amanah", "score": 1.0, "passed": True},
            {"floor": "F2_Truth", "score": 0.99, "passed": True},
        ],
        "timestamp": "2025-01-15T10:30:00Z",
        "verdict": "SEAL",
        "hash": "sha256...",
    }
    placeholder = policy.validate_evidence_chain(evidence_chain)
    evidence_chain["hash"] = document_hash(evidence_chain["floor_checks"], "SEAL", NOW_ISO)
    computed = policy.validate_evidence_chain(evidence_chain)

    assert placeholder == EvidenceChainValidation(False, ["hash does not match the evidence"], False, True)
    assert computed == EvidenceChainValidation(True, [], True, True)


def test_section_5_3_the_recall_example(policy: MemoryWritePolicy) -> None:
    memory_item = {
        "band": "LEDGER",
        "verdict": "SEAL",
        "timestamp": "2025-01-01T00:00:00Z",
        "evidence_chain": _chain("SEAL"),
        "content": "Previous response about topic X",
    }
    decision = policy.should_recall(memory_item, {"topic": "X"})

    assert decision.allowed
    assert min(decision.confidence_ceiling, 0.85) == 0.85


def test_section_7_3_the_full_write_flow(policy: MemoryWritePolicy) -> None:
    computed_hash = document_hash(FLOOR_RESULTS, "SEAL", NOW_ISO)
    decision = policy.should_write(
        verdict="SEAL",
        evidence_chain={
            "floor_checks": FLOOR_RESULTS,
            "timestamp": NOW_ISO,
            "verdict": "SEAL",
            "hash": computed_hash,
        },
        band_target="LEDGER",
    )
    routed = [(band, decision.ledger_entry["hash"]) for band in decision.target_bands if decision.allowed]

    assert decision.target_bands == ["LEDGER", "ACTIVE"]
    assert routed == [("LEDGER", computed_hash), ("ACTIVE", computed_hash)]


def test_section_8_1_the_approval_flow(policy: MemoryWritePolicy) -> None:
    decision = policy.should_write(verdict="SEAL", evidence_chain=_chain("SEAL"), band_target="VAULT")

    assert decision.requires_human_approval
    assert decision.allowed
    assert decision.target_bands == ["PHOENIX"]


def test_section_10_the_log(policy: MemoryWritePolicy) -> None:
    policy.should_write("SEAL", _chain("SEAL"))

    assert policy.get_write_log() == [
        {
            "timestamp": "2025-01-15T10:30:00.000000Z",
            "verdict": "SEAL",
            "bands": ["LEDGER", "ACTIVE"],
            "allowed": True,
            "reason": "Policy approved",
        }
    ]


@pytest.mark.parametrize(
    ("verdict", "chain", "band_target", "error"),
    [
        ("MAYBE", _chain("SEAL"), None, "Unknown verdict type"),
        ("SEAL", {}, None, "Evidence chain invalid"),
        ("VOID", _chain("VOID"), "LEDGER", "VOID verdicts can ONLY be written to Void band"),
        ("PARTIAL", _chain("PARTIAL"), "ACTIVE", "Verdict PARTIAL cannot write to ACTIVE"),
    ],
)
def test_section_11_1_every_rejection_reason(
    policy: MemoryWritePolicy, verdict: str, chain: dict[str, Any], band_target: str | None, error: str
) -> None:
    decision = policy.should_write(verdict, chain, band_target)

    assert not decision.allowed
    assert decision.reason.startswith(error)


def test_section_11_2_the_error_handling_example(policy: MemoryWritePolicy) -> None:
    decision = policy.should_write(verdict="VOID", evidence_chain=_chain("VOID"), band_target="LEDGER")

    assert not decision.allowed
    assert "VOID" in decision.reason


def test_section_13_the_cheat_sheet(policy: MemoryWritePolicy) -> None:
    memory_item = {"band": "ACTIVE", "verdict": "SEAL", "timestamp": NOW_ISO}

    assert isinstance(policy.should_write("SEAL", _chain("SEAL"), None), WriteDecision)
    assert isinstance(policy.should_recall(memory_item, {}), RecallDecision)
    assert isinstance(policy.should_retain(memory_item, 3), RetentionDecision)
    assert isinstance(policy.validate_evidence_chain(_chain("SEAL")), EvidenceChainValidation)
    assert governed.MAX_RECALL_CONFIDENCE == 0.85


def test_section_9_strict_is_the_default() -> None:
    assert MemoryWritePolicy().strict_mode
    assert not MemoryWritePolicy().should_write("SEAL", {}).allowed
    assert MemoryWritePolicy(strict_mode=False).should_write("SEAL", {}).allowed
