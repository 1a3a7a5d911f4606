"""A proposal, those who may decide it, and approvals of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from standfast.clock import CountedIds
from standfast.govern.approvals.approvals import (
    Approval,
    Decision,
    Proposal,
    Statement,
    check_approval,
)
from standfast.govern.approvals.signers import Signers
from standfast.govern.approvals.sshsig import sign
from standfast.govern.authority import Operation
from standfast.records.canon import fingerprint
from standfast.records.vocabulary import Verdict
from tests.govern import openssh

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SIGNERS = Signers.parse(
    f"""\
alice@example.com namespaces="standfast-seal" {openssh.public_key("alice").text}
bot@example.com namespaces="standfast-seal" {openssh.public_key("bot").text}
early@example.com namespaces="standfast-seal",valid-after="20270101Z" {openssh.public_key("early").text}
late@example.com namespaces="standfast-seal",valid-before="20260101Z" {openssh.public_key("late").text}
git@example.com namespaces="git" {openssh.public_key("git").text}
lost@example.com namespaces="standfast-seal" {openssh.public_key("lost").text}
""",
    openssh.public_key("lost").text,
)
FIELDS: dict[str, Any] = {
    "namespace": "default",
    "key": "policy/eu-refunds",
    "payload_fingerprint": fingerprint({"text": "EU refunds take 14 days."}),
    "summary": "EU refunds take 14 days.",
    "verdict": Verdict.SEAL,
    "author": "triage-agent",
    "proposed_at": NOW - timedelta(hours=1),
    "memory_snapshot_id": 41,
    "policy_set_id": "default",
    "operation": Operation.VAULT_WRITE,
}
PROPOSAL = Proposal.of(**FIELDS)


def statement_about(proposal: Proposal = PROPOSAL, decision: Decision = Decision.APPROVE) -> Statement:
    """The statement that decides the proposal within ten minutes."""
    return Statement.about(
        proposal, decision=decision, expires_at=NOW + timedelta(minutes=10), nonce=CountedIds().new_id()
    )


def signed(statement: Statement, by: str = "alice", namespace: str = "standfast-seal") -> Approval:
    """What a signer would hand in, whether it is any good or not."""
    return Approval(
        statement=statement,
        signature=sign(openssh.private_key(by), statement.signed_bytes, namespace),
        principal=f"{by}@example.com",
        key_fingerprint=openssh.public_key(by).fingerprint,
    )


def check(approval: Approval, proposal: Proposal = PROPOSAL, **changes: Any) -> Proposal:
    """What is decided, by the usual list, at the usual time, where nothing else is said."""
    facts: dict[str, Any] = {"signers": SIGNERS, "now": NOW, "used_nonces": set(), "author": "triage-agent"}
    return check_approval(approval, proposal, **(facts | changes))


APPROVAL = signed(statement_about())
STATEMENT_JSON = APPROVAL.statement.as_json()
