"""Every cell of verdict, band target, mode and evidence state, against a table written from the document."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from standfast.clock import ManualClock
from standfast.errors import InvalidValue
from standfast.govern.evidence import build_chain
from standfast.govern.policy import (
    VERDICT_BAND_ROUTING,
    MemoryWritePolicy,
    WriteDecision,
)
from standfast.limits import MAX_WRITE_LOG_ENTRIES
from standfast.records.canon import canonical_bytes
from standfast.records.vocabulary import Band, FloorCheck, Verdict
from tests.govern.chains import (
    FLOORS,
    chain,
    chain_without,
    document_hash,
    forgivable_states,
    malformed_states,
    monstrous_states,
    short_name,
    valid_states,
)

# Bands by their first letter (the order is the document's), `!` for a human's approval, `-` for "cannot write
# to", `void` and `unknown` for those reasons.
STRICT = """
           None     VAULT    LEDGER   ACTIVE   PHOENIX  WITNESS  VOID     NOWHERE
SEAL       LA       P!       LA       LA       -        -        -        -
SABAR      LA       -        LA       LA       -        -        -        -
PARTIAL    PL       -        PL       -        PL       -        -        -
VOID       V        void     void     void     void     void     V        void
888_HOLD   L!       -        L!       -        -        -        -        -
MAYBE      unknown  unknown  unknown  unknown  unknown  unknown  unknown  unknown
"""
LENIENT = """
           None     VAULT    LEDGER   ACTIVE   PHOENIX  WITNESS  VOID     NOWHERE
SEAL       LA       P!       LA       LA       P        W        V        -
SABAR      LA       P!       LA       LA       P        W        V        -
PARTIAL    PL       P!       PL       A        PL       W        V        -
VOID       V        void     void     void     void     void     V        void
888_HOLD   L!       P!       L!       A!       P!       W!       V!       -
MAYBE      unknown  unknown  unknown  unknown  unknown  unknown  unknown  unknown
"""
BAND_OF_LETTER = {"L": "LEDGER", "A": "ACTIVE", "P": "PHOENIX", "W": "WITNESS", "V": "VOID"}
VOID_REASON = "VOID verdicts can ONLY be written to Void band (never canonical)"
VERDICTS = ["SEAL", "SABAR", "PARTIAL", "VOID", "888_HOLD", "MAYBE"]

Outcome = tuple[bool, str, list[str], bool]


def _cells(table: str) -> dict[tuple[str, str], str]:
    header, *rows = (line.split() for line in table.strip().splitlines())
    return {(row[0], target): cell for row in rows for target, cell in zip(header, row[1:], strict=True)}


CELLS = {True: _cells(STRICT), False: _cells(LENIENT)}
TARGETS = ["None", "VAULT", "LEDGER", "ACTIVE", "PHOENIX", "WITNESS", "VOID", "NOWHERE"]
STATES: dict[str, Callable[[str], dict[str, Any]]] = {
    "valid": valid_states,
    "forgivable": forgivable_states,
    "malformed": malformed_states,
}


def _outcome(decision: WriteDecision) -> Outcome:
    return decision.allowed, decision.reason, decision.target_bands, decision.requires_human_approval


def _expected(verdict: str, target: str, *, strict: bool, kind: str) -> Outcome:
    cell = CELLS[strict][verdict, target]
    if cell == "unknown":
        return False, "Unknown verdict type", [], False
    if cell == "void":
        return False, VOID_REASON, [], False
    if kind == "malformed" or (kind == "forgivable" and strict):
        return False, "Evidence chain invalid", [], False
    if cell == "-":
        return False, f"Verdict {verdict} cannot write to {target}", [], False
    warnings = ["Evidence chain invalid"] if kind == "forgivable" else []
    if CELLS[True][verdict, target] == "-":
        warnings.append(f"Verdict {verdict} cannot write to {target}")
    reason = "Policy approved" + (f" with warnings: {'; '.join(warnings)}" if warnings else "")
    return True, reason, [BAND_OF_LETTER[letter] for letter in cell.rstrip("!")], cell.endswith("!")


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("kind", STATES)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_every_cell(strict: bool, kind: str, verdict: str) -> None:
    policy = MemoryWritePolicy(strict_mode=strict, clock=ManualClock())
    for state, evidence in STATES[kind](verdict).items():
        for target in TARGETS:
            decision = policy.should_write(verdict, evidence, None if target == "None" else target)

            cell = (state, target)
            assert (cell, *_outcome(decision)) == (
                cell,
                *_expected(verdict, target, strict=strict, kind=kind),
            )
            assert (decision.ledger_entry == {}) == (decision.reason == VOID_REASON)
            assert len(canonical_bytes(decision.ledger_entry)) > 0


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_a_monstrous_chain_is_refused_in_either_mode(strict: bool) -> None:
    policy = MemoryWritePolicy(strict_mode=strict)
    for state, evidence in monstrous_states("SEAL").items():
        decision = policy.should_write("SEAL", evidence)

        assert (state, *_outcome(decision)) == (state, False, "Evidence chain invalid", [], False)
        assert len(canonical_bytes(decision.ledger_entry)) < 1_000


def test_the_tables_have_every_cell() -> None:
    for cells in CELLS.values():
        assert set(cells) == {(verdict, target) for verdict in VERDICTS for target in TARGETS}
    assert {*Verdict, "MAYBE"} == set(VERDICTS)
    assert {*Band, "None", "NOWHERE"} == set(TARGETS)


def test_the_routing_table_is_the_documents() -> None:
    assert VERDICT_BAND_ROUTING == {
        "SEAL": ["LEDGER", "ACTIVE"],
        "SABAR": ["LEDGER", "ACTIVE"],
        "PARTIAL": ["PHOENIX", "LEDGER"],
        "VOID": ["VOID"],
        "888_HOLD": ["LEDGER"],
    }
    assert all(type(name) is str for name in VERDICT_BAND_ROUTING)


def test_changing_the_shown_table_opens_no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERDICT_BAND_ROUTING, "VOID", ["LEDGER"])

    assert MemoryWritePolicy().should_write("VOID", chain("VOID")).target_bands == ["VOID"]


@pytest.mark.parametrize("said", ["HOLD", "hold", "888_hold", "888_HOLD", Verdict.HOLD])
@pytest.mark.parametrize("in_chain", ["HOLD", "hold", "888_Hold", Verdict.HOLD])
def test_hold_is_read_as_888_hold_and_always_needs_a_human(said: str, in_chain: str) -> None:
    decision = MemoryWritePolicy().should_write(said, chain(in_chain), "ledger")

    assert _outcome(decision) == (True, "Policy approved", ["LEDGER"], True)
    assert decision.ledger_entry["verdict"] == "888_HOLD"
    assert decision.ledger_entry["band_target"] == "LEDGER"


@pytest.mark.parametrize(
    "given", ["", " SEAL", "SEAL ", "\u017feal", "SEA\u200bL", "ＳＥＡＬ", "S" * 10**6], ids=short_name
)
def test_what_only_looks_like_a_verdict_is_none(given: str) -> None:
    for strict in (True, False):
        decision = MemoryWritePolicy(strict).should_write(given, chain(given))

        assert _outcome(decision) == (False, "Unknown verdict type", [], False)
        assert len(decision.ledger_entry["verdict"]) < 500


@pytest.mark.parametrize("target", ["", "VAULT ", "vo\u0131d", 7, ["LEDGER"], b"LEDGER", True])
def test_what_is_no_band_is_refused_in_either_mode(target: Any) -> None:
    for strict in (True, False):
        decision = MemoryWritePolicy(strict).should_write("SEAL", chain(), target)

        assert not decision.allowed
        assert decision.reason.startswith("Verdict SEAL cannot write to ")


@pytest.mark.parametrize("target", [None, *Band])
def test_a_chain_that_says_void_becomes_canonical_under_no_other_verdict(target: Band | None) -> None:
    """Lenient mode forgives a chain about another verdict, but not this one."""
    for verdict in set(Verdict) - {Verdict.VOID}:
        strict = MemoryWritePolicy().should_write(verdict, chain("VOID"), target)
        lenient = MemoryWritePolicy(strict_mode=False).should_write(verdict, chain("VOID"), target)

        assert not strict.allowed
        assert lenient.target_bands == (["VOID"] if target is Band.VOID else [])
        assert lenient.allowed or lenient.reason == VOID_REASON


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize("target", [None, "LEDGER", "VAULT"])
@pytest.mark.parametrize("verdict", ["SEAL", "SABAR", "PARTIAL", "888_HOLD"])
def test_a_chain_with_a_failed_hard_floor_is_never_approved(
    verdict: str, target: str | None, strict: bool
) -> None:
    rejected = chain(
        verdict, [*FLOORS, {"floor": "F6_Injection", "score": 0.1, "passed": False, "hard": True}]
    )
    decision = MemoryWritePolicy(strict_mode=strict).should_write(verdict, rejected, target)

    assert (decision.allowed, decision.reason) == (False, "Evidence chain invalid")
    assert decision.ledger_entry["missing_links"] == [
        f"verdict is {verdict}, but the hard floor F6_Injection failed"
    ]


def test_a_chain_with_a_failed_hard_floor_is_written_to_void() -> None:
    rejected = chain("VOID", [{"floor": "F6_Injection", "score": 0.1, "passed": False, "hard": True}])

    assert MemoryWritePolicy().should_write("VOID", rejected).target_bands == ["VOID"]


def test_the_ledger_entry_is_complete_for_audit() -> None:
    policy = MemoryWritePolicy(clock=ManualClock())
    evidence = chain()
    decision = policy.should_write("seal", evidence, "vault")
    entry = dict(decision.ledger_entry)
    text = entry.pop("evidence")

    assert document_hash(evidence["floor_checks"], "SEAL", evidence["timestamp"]) == evidence["hash"]
    assert hashlib.sha256(text.encode()).hexdigest() == evidence["hash"]
    assert entry == {
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "verdict": "SEAL",
        "bands": ["PHOENIX"],
        "allowed": True,
        "reason": "Policy approved",
        "band_target": "VAULT",
        "requires_human_approval": True,
        "strict_mode": True,
        "missing_links": [],
        "hash": evidence["hash"],
    }


def test_a_refusal_says_what_is_wrong_in_its_ledger_entry() -> None:
    decision = MemoryWritePolicy().should_write("SEAL", chain_without("timestamp", "SEAL"))

    assert decision.ledger_entry["missing_links"] == ["timestamp"]
    assert decision.ledger_entry["allowed"] is False


def test_a_lenient_entry_tells_the_hash_of_what_was_there_not_the_one_claimed() -> None:
    policy = MemoryWritePolicy(strict_mode=False)
    wrong = policy.should_write("SEAL", {**chain(), "hash": "0" * 64})
    none = policy.should_write("SEAL", None)

    assert wrong.ledger_entry["hash"] == chain()["hash"]
    assert none.ledger_entry["hash"] == document_hash(None, None, None)


def test_a_decision_does_not_change_with_the_chain_or_the_entry() -> None:
    policy = MemoryWritePolicy()
    evidence = chain(floor_checks=[{"floor": "F1", "score": 1.0, "passed": True}])
    decision = policy.should_write("SEAL", evidence)
    before = canonical_bytes(decision.ledger_entry)
    evidence["floor_checks"][0]["score"] = 0.0
    decision.target_bands.append("VAULT")
    policy.get_write_log()[0]["bands"].append("VAULT")

    assert canonical_bytes(decision.ledger_entry) == before
    assert policy.get_write_log()[0]["bands"] == ["LEDGER", "ACTIVE"]


def test_every_decision_is_logged_in_order() -> None:
    clock = ManualClock()
    policy = MemoryWritePolicy(clock=clock)
    policy.should_write("SEAL", chain())
    clock.advance(1)
    policy.should_write("VOID", chain("VOID"), "LEDGER")
    policy.should_write("no verdict", None)

    assert policy.get_write_log() == [
        {
            "timestamp": "2026-01-01T00:00:00.000000Z",
            "verdict": "SEAL",
            "bands": ["LEDGER", "ACTIVE"],
            "allowed": True,
            "reason": "Policy approved",
        },
        {
            "timestamp": "2026-01-01T00:00:01.000000Z",
            "verdict": "VOID",
            "bands": [],
            "allowed": False,
            "reason": VOID_REASON,
        },
        {
            "timestamp": "2026-01-01T00:00:01.000000Z",
            "verdict": "no verdict",
            "bands": [],
            "allowed": False,
            "reason": "Unknown verdict type",
        },
    ]


def test_the_log_is_bounded() -> None:
    policy = MemoryWritePolicy()
    for _ in range(MAX_WRITE_LOG_ENTRIES + 1):
        policy.should_write("?", None)
    policy.should_write("last", None)

    assert len(policy.get_write_log()) == MAX_WRITE_LOG_ENTRIES
    assert policy.get_write_log()[-1]["verdict"] == "last"


def test_lenient_mode_warns_in_the_log_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        MemoryWritePolicy(strict_mode=False).should_write("SEAL", chain())
        MemoryWritePolicy(strict_mode=False).should_write("SEAL", None)

    assert caplog.messages == ["lenient mode allowed a write: Evidence chain invalid"]


@pytest.mark.parametrize("mode", [None, 0, 1, "", "lenient"])
def test_the_mode_is_a_boolean_and_nothing_that_looks_like_one(mode: Any) -> None:
    with pytest.raises(InvalidValue, match="strict_mode"):
        MemoryWritePolicy(mode)


@pytest.mark.parametrize(("allowed", "bands"), [(True, []), (False, ["LEDGER"]), (True, ["VAULT"])])
def test_an_impossible_decision_cannot_be_built(allowed: bool, bands: list[str]) -> None:
    with pytest.raises(InvalidValue, match="WriteDecision"):
        WriteDecision(allowed, "because", {}, bands)


@pytest.mark.parametrize("target", [None, *Band])
@pytest.mark.parametrize("verdict", Verdict)
def test_evidence_that_was_just_built_is_decided_on_as_any_other(
    verdict: Verdict, target: Band | None
) -> None:
    """Only the decision's ledger entry is left out, which nobody reads."""
    checks = [FloorCheck(floor="F1_Amanah", score=1.0, passed=True)]
    clock = ManualClock()
    evidence, reading = build_chain(checks, verdict, clock.now())
    policy = MemoryWritePolicy(clock=clock)

    decided = policy.should_write_built(verdict, reading, target, timestamp=evidence.timestamp)
    assert decided == replace(policy.should_write(verdict, evidence, target), ledger_entry={})
