"""Approvals are signatures: each way in which one can be wrong has its own error, and no changed one decides
anything.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue, StandfastError
from standfast.govern.approvals.approvals import (
    Approval,
    Decision,
    Proposal,
    ProposalState,
    Statement,
    visible_text,
)
from standfast.govern.authority import Operation, needs_human
from standfast.limits import MAX_SUMMARY_CHARS
from standfast.records.canon import canonical_bytes, fingerprint, parse
from standfast.records.vocabulary import Verdict
from tests.govern import openssh
from tests.govern.mutation import armor, blob_of
from tests.govern.seals import (
    APPROVAL,
    FIELDS,
    NOW,
    PROPOSAL,
    SIGNERS,
    STATEMENT_JSON,
    check,
    signed,
    statement_about,
)
from tests.raising import raises_code

# What decides.


@pytest.mark.parametrize(
    ("decision", "state"),
    [(Decision.APPROVE, ProposalState.APPROVED), (Decision.REJECT, ProposalState.REJECTED)],
)
def test_a_signed_statement_decides_its_proposal(decision: Decision, state: ProposalState) -> None:
    decided = check(signed(statement_about(decision=decision)))

    assert decided == msgspec.structs.replace(PROPOSAL, state=state)


def test_ssh_keygen_accepts_the_stored_signature_over_the_stored_statement(tmp_path: Path) -> None:
    stored = Approval.from_json(parse(canonical_bytes(APPROVAL.as_json())))
    message = canonical_bytes(stored.statement.as_json())

    assert openssh.keygen_accepts(
        tmp_path,
        stored.signature,
        message,
        principal=stored.principal,
        allowed=SIGNERS.allowed_text,
        revoked=SIGNERS.revoked_text,
    )


def test_what_is_signed_is_the_canonical_json_of_eight_fields() -> None:
    value = json.loads(APPROVAL.statement.signed_bytes)

    assert value == {
        "decision": "approve",
        "expires_at": "2026-06-01T12:10:00.000000Z",
        "memory_snapshot_id": 41,
        "nonce": "00000000000000000000000000000001",
        "payload_fingerprint": PROPOSAL.payload_fingerprint,
        "policy_set_id": "default",
        "proposal_id": PROPOSAL.proposal_id,
        "text": "EU refunds take 14 days.",
    }


def test_only_the_text_of_law_is_in_what_is_signed_and_it_must_be_that_of_the_proposal() -> None:
    """The ledger keeps statements for ever, so what can be erased is not in them."""
    law = statement_about()
    changed = [msgspec.structs.replace(law, text=text) for text in ("EU refunds take 30 days.", None)]
    changed.append(msgspec.structs.replace(law, decision=Decision.REJECT))

    assert {one: statement_about(decision=one).text for one in Decision} == {
        Decision.APPROVE: "EU refunds take 14 days.",
        Decision.ACCEPT: None,
        Decision.REJECT: None,
    }
    for statement in changed:
        with raises_code("wrong_payload"):
            check(signed(statement))


def test_what_is_replaced_is_signed_and_stands_in_the_text_only_if_there_is_something() -> None:
    replacing = msgspec.structs.replace(statement_about(), replaces="a" * 64)

    assert b"replaces" not in statement_about().signed_bytes
    assert b'"replaces":"' + b"a" * 64 in replacing.signed_bytes
    assert Statement.from_json(replacing.as_json()) == replacing


def test_the_golden_statements_have_their_bytes() -> None:
    vectors = (
        (Path(__file__).parents[1] / "vectors" / "sshsig.jsonl").read_text(encoding="utf-8").splitlines()
    )
    golden = [vector for vector in map(json.loads, vectors) if "statement" in vector]

    assert {vector["statement"]["decision"] for vector in golden} == {"approve", "reject"}
    for vector in golden:
        assert Statement.from_json(vector["statement"]).signed_bytes == vector["message"].encode()


def test_an_approval_is_built_from_any_signature_of_an_allowed_signer() -> None:
    statement = statement_about()
    wrapped = armor(blob_of(APPROVAL.signature), 64)

    assert Approval.of(statement, wrapped, signers=SIGNERS, at=NOW) == APPROVAL
    with raises_code("unknown_signer"):
        Approval.of(statement, signed(statement, "mallory").signature, signers=SIGNERS, at=NOW)
    with pytest.raises(InvalidValue):
        msgspec.structs.replace(APPROVAL, signature=wrapped)


# What does not.


@pytest.mark.parametrize(
    "boolean", [True, False, 1, None, "approve", Decision.APPROVE, {"approved": True}], ids=repr
)
def test_a_boolean_is_never_an_approval(boolean: Any) -> None:
    with pytest.raises(InvalidValue, match="not a signed statement"):
        check(boolean)
    with pytest.raises(InvalidValue):
        Approval.from_json(boolean)
    with pytest.raises(StandfastError):
        Approval(statement=boolean, signature=boolean, principal="alice", key_fingerprint="SHA256:")


def test_a_decision_is_one_of_two_words() -> None:
    for decision in (True, "APPROVE", "approved", 1, None):
        with pytest.raises(InvalidValue):
            Statement.from_json(APPROVAL.statement.as_json() | {"decision": decision})


@pytest.mark.parametrize(
    ("by", "code"),
    [
        ("mallory", "unknown_signer"),
        ("lost", "signer_revoked"),
        ("early", "signer_not_yet_valid"),
        ("late", "signer_expired"),
        ("git", "wrong_namespace"),
    ],
)
def test_who_may_not_sign_decides_nothing(by: str, code: str) -> None:
    with raises_code(code):
        check(signed(statement_about(), by))


def test_a_signature_for_another_purpose_decides_nothing() -> None:
    with raises_code("wrong_namespace"):
        check(signed(statement_about(), namespace="git"))


def test_the_signature_of_another_statement_decides_nothing() -> None:
    other = statement_about(decision=Decision.REJECT)

    with raises_code("bad_signature"):
        check(msgspec.structs.replace(APPROVAL, statement=other))


def test_an_approval_must_name_who_signed_it() -> None:
    for lie in (
        {"principal": "bot@example.com"},
        {"key_fingerprint": openssh.public_key("bot").fingerprint},
    ):
        with raises_code("bad_signature", match=r"made by alice@example\.com"):
            check(msgspec.structs.replace(APPROVAL, **lie))


def test_the_author_may_not_decide_its_own_proposal() -> None:
    for author in ("alice@example.com", "ALICE@Example.com"):
        mine = Proposal.of(**{**FIELDS, "author": author})
        with raises_code("self_approval", match="author"):
            check(signed(statement_about(mine)), mine)
        with raises_code("self_approval", match="author"):
            check(signed(statement_about(mine, Decision.REJECT)), mine)
        with raises_code("self_approval", match="author"):
            check(APPROVAL, author=author)


def test_an_agent_may_not_decide_any_proposal() -> None:
    assert check(signed(statement_about(), "bot")).state is ProposalState.APPROVED
    for name in ("bot@example.com", "Bot@Example.com"):
        with raises_code("self_approval", match="agent"):
            check(signed(statement_about(), "bot"), agents={name})


@pytest.mark.parametrize(
    "change",
    [
        {"key": "policy/us-refunds"},
        {"namespace": "other"},
        {"payload_fingerprint": "0" * 64},
        {"summary": "EU refunds take 30 days."},
        {"author": "another-agent"},
        {"operation": Operation.CONSTITUTION_MODIFICATION},
        {"verdict": Verdict.HOLD},
        {"memory_snapshot_id": 42},
        {"policy_set_id": "lenient"},
        {"proposed_at": NOW},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_signature_cannot_be_carried_over_to_another_proposal(change: dict[str, Any]) -> None:
    other = Proposal.of(**{**FIELDS, **change})

    with raises_code("wrong_payload") as refusal:
        check(APPROVAL, other)
    assert refusal.value.facts["field"] == "proposal_id"


@pytest.mark.parametrize(
    ("field", "value"),
    [("payload_fingerprint", "0" * 64), ("policy_set_id", "lenient"), ("memory_snapshot_id", 42)],
)
def test_the_statement_must_agree_with_the_proposal(field: str, value: object) -> None:
    statement = Statement.from_json(STATEMENT_JSON | {field: value})

    with raises_code("wrong_payload") as refusal:
        check(signed(statement))
    facts = refusal.value.facts
    assert (facts["field"], facts["signed"], facts["expected"]) == (field, value, getattr(PROPOSAL, field))
    assert "standfast approvals show" in str(refusal.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("proposal_id", "0" * 63),
        ("payload_fingerprint", "not a digest"),
        ("decision", "perhaps"),
        ("policy_set_id", ""),
        ("memory_snapshot_id", -1),
        ("expires_at", "tomorrow"),
        ("nonce", "0" * 31),
        ("replaces", "0" * 63),
        ("text", "hidden\u202e"),
    ],
)
def test_a_statement_with_a_wrong_field_is_none(field: str, value: object) -> None:
    with pytest.raises(InvalidValue):
        Statement.from_json(STATEMENT_JSON | {field: value})


def test_a_nonce_is_used_once() -> None:
    with raises_code("approval_replayed"):
        check(APPROVAL, used_nonces={APPROVAL.statement.nonce})
    with raises_code("approval_replayed"):
        check(APPROVAL, check(APPROVAL), used_nonces={APPROVAL.statement.nonce})


def test_an_approval_ends_at_its_expiry_to_the_microsecond() -> None:
    expiry = NOW + timedelta(minutes=10)

    assert check(APPROVAL, now=expiry - timedelta(microseconds=1)).state is ProposalState.APPROVED
    for late in (expiry, expiry + timedelta(days=1)):
        with raises_code("approval_expired"):
            check(APPROVAL, now=late)
    with raises_code("canon_datetime"):
        check(APPROVAL, now=datetime(2026, 6, 1))  # noqa: DTZ001


@pytest.mark.parametrize("state", [state for state in ProposalState if state is not ProposalState.PENDING])
def test_a_proposal_is_decided_once(state: ProposalState) -> None:
    with raises_code("not_pending"):
        check(APPROVAL, msgspec.structs.replace(PROPOSAL, state=state))


# Proposals.


def test_proposing_twice_is_proposing_once() -> None:
    assert Proposal.of(**FIELDS) == PROPOSAL
    assert Proposal.from_json(PROPOSAL.as_json()) == PROPOSAL


def test_a_proposal_that_was_edited_is_none() -> None:
    for field, value in PROPOSAL.as_json().items():
        if field != "state":
            edited = PROPOSAL.as_json() | {field: value + 1 if isinstance(value, int) else f"{value}x"}
            with pytest.raises(InvalidValue):
                Proposal.from_json(edited)


def test_what_was_judged_void_cannot_be_proposed() -> None:
    with pytest.raises(InvalidValue, match="VOID"):
        Proposal.of(**{**FIELDS, "verdict": Verdict.VOID})


@pytest.mark.parametrize("operation", Operation)
def test_only_what_needs_a_human_is_proposed(operation: Operation) -> None:
    if needs_human(operation):
        assert Proposal.of(**{**FIELDS, "operation": operation}).operation is operation
    else:
        with pytest.raises(InvalidValue):
            Proposal.of(**{**FIELDS, "operation": operation})


def test_a_human_is_shown_what_is_there_and_nothing_turned_around() -> None:
    hidden = "pay \u202eecila\u202c\x1b[2J\u200b\tnow\ud800\nor never"

    assert visible_text(hidden) == "pay \\u202eecila\\u202c\\x1b[2J\\u200b\\tnow\\ud800\nor never"
    assert Proposal.of(**{**FIELDS, "summary": hidden}).summary == visible_text(hidden)
    assert len(visible_text("x" * 10_000)) == MAX_SUMMARY_CHARS


@given(
    st.text(max_size=100) | st.text(alphabet="a\u0301\u202e\x00é", max_size=7).map(lambda text: text * 600)
)
def test_what_was_made_safe_to_show_stays_as_it_is(text: str) -> None:
    assert visible_text(visible_text(text)) == visible_text(text)


@pytest.mark.parametrize("summary", ["A hidden\u200b word", "x" * (MAX_SUMMARY_CHARS + 1)])
def test_a_summary_is_what_people_can_see_and_the_one_that_was_hashed(summary: str) -> None:
    fields = PROPOSAL.as_json()
    with pytest.raises(InvalidValue, match="summary_fingerprint"):
        Proposal.from_json({**fields, "summary": "Another summary."})
    with pytest.raises(InvalidValue, match="visible"):
        Proposal.from_json({**fields, "summary": summary, "summary_fingerprint": fingerprint(summary)})
