"""A memory over each backend, and a human who may sign."""

from datetime import timedelta

import pytest

from standfast.clock import ManualClock
from standfast.govern.approvals.approvals import Approval, Decision, Statement
from standfast.govern.approvals.queue import WaitingProposal
from standfast.govern.approvals.signers import Signers
from standfast.govern.approvals.sshsig import sign
from standfast.memory import Memory
from standfast.store.store import Store
from tests.govern import openssh
from tests.store.conftest import backend, clock, opener, place, store

__all__ = ["backend", "clock", "opener", "place", "store"]

HANDBOOK = {"kind": "doc", "id": "handbook#4"}
SECRET = "The deploy key is " + "AKIA" + "Q3EGR7ZP2MX5TN4B and it works."
SIGNERS = Signers.parse(
    "".join(
        f'{name}@example.com namespaces="standfast-seal" {openssh.public_key(name).text}\n'
        for name in ("alice", "bot", "lost")
    ),
    openssh.public_key("lost").text,
)


@pytest.fixture
def memory(store: Store) -> Memory:
    """An empty memory over a backend; each test that asks for it runs over all of them."""
    return Memory(store)


def decision(
    memory: Memory,
    waiting: WaitingProposal,
    decided: Decision = Decision.APPROVE,
    *,
    by: str = "alice",
    nonce: str = "0" * 32,
) -> Approval:
    """A statement about what waits, signed by somebody, whether they may or not."""
    statement = Statement.about(
        waiting.proposal,
        decision=decided,
        expires_at=memory.store.clock.now() + timedelta(minutes=10),
        nonce=nonce,
        replaces=memory.approvals.replaces(waiting.proposal, decided),
    )
    return signed(statement, by)


def signed(statement: Statement, by: str = "alice") -> Approval:
    """What a signer would hand in."""
    return Approval(
        statement=statement,
        signature=sign(openssh.private_key(by), statement.signed_bytes, "standfast-seal"),
        principal=f"{by}@example.com",
        key_fingerprint=openssh.public_key(by).fingerprint,
    )


def days(clock: ManualClock, number: float) -> None:
    """Let days pass."""
    clock.advance(number * 86_400)
