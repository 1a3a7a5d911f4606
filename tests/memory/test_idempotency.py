"""Slips: of two attempts at one request, one has its effect."""

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import CommitAborted
from standfast.memory import Memory
from standfast.memory.idempotency import IdempotencyRecord


def test_two_attempts_that_answer_the_same_have_one_effect() -> None:
    """Both began before either was done, from other snapshots; what they remember does not conflict by
    itself.
    """
    memory = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())
    idempotency = IdempotencyRecord.of("k1", memory.namespace, "r1", ["remember", "once"])
    first = memory.run(workflow="w", mode="buffered_write")
    with memory.run(workflow="other", mode="buffered_write") as other:
        other.remember("Parcels take 5 days.", source={"kind": "doc", "id": "handbook#5"})
    second = memory.run(workflow="w", mode="buffered_write")
    for run in (first, second):
        run.remember("EU refunds take 14 days.", source={"kind": "doc", "id": "handbook#4"})
    receipt = second.commit(extra_writes=[idempotency.write({"remembered": 1}, second.identity)])
    with pytest.raises(CommitAborted):
        first.commit(extra_writes=[idempotency.write({"remembered": 1}, first.identity)])

    answered = idempotency.stored_answer(memory.store)
    assert answered is not None
    assert receipt is not None
    assert answered.answer == {"remembered": 1}
    assert answered.receipt.commit_id == receipt.commit_id
    assert memory.store.head() == 2
