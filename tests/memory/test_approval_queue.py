"""What waits for a human reaches VAULT by a signature, and in no other way."""

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from standfast.clock import ManualClock
from standfast.errors import ApprovalError, InvalidValue
from standfast.govern.approvals.approvals import Approval, Decision, Statement, list_bytes, signed_list_of
from standfast.govern.approvals.queue import DecidedProposal, WaitingProposal
from standfast.govern.approvals.sshsig import sign
from standfast.limits import MAX_SIGNED_TOGETHER
from standfast.memory import Memory
from standfast.policies import BandBudget
from standfast.records.vocabulary import Band, Verdict
from standfast.store.store import Store
from tests.govern import openssh
from tests.memory.conftest import HANDBOOK, SIGNERS, days, decision, signed
from tests.raising import raises_code
from tests.store.builders import memory_store

LAW = "Refunds above 500 EUR need two people."


def proposed(memory: Memory, subject: str = "law/1", **changes: object) -> WaitingProposal:
    """A law that waits."""
    options = {"propose": True, "source": HANDBOOK} | changes
    with memory.run(workflow="triage", mode="buffered_write", agent="drafter") as run:
        run.remember(LAW, subject=subject, **options)  # type: ignore[arg-type]  # As the caller says.
    return next(one for one in memory.approvals.waiting() if one.record.subject == subject)


def test_law_waits_in_phoenix_and_nowhere_else(memory: Memory) -> None:
    waiting = proposed(memory)

    assert waiting.record.text == LAW
    assert [record for band in Band if band is not Band.PHOENIX for record in memory.records(band=band)] == []
    assert memory.approvals.find(waiting.proposal.proposal_id[:8]) == waiting


def test_a_proposal_is_no_record_and_is_not_recalled(memory: Memory) -> None:
    """It lies in no scope, so whoever reads shared memory would be shown that of somebody else."""
    proposed(memory)

    for ask in (
        lambda: memory.records(band=Band.PHOENIX),
        lambda: memory.at(1).records(band=Band.PHOENIX),
        lambda: memory.recall("refunds", bands=["LEDGER", "PHOENIX"]),
        lambda: memory.run(workflow="w", mode="read_only").recall("refunds", bands=["PHOENIX"]),
    ):
        with pytest.raises(InvalidValue, match=r"memory\.approvals"):
            ask()


def test_a_signature_moves_it_to_the_vault(memory: Memory, tmp_path: Path) -> None:
    waiting = proposed(memory)
    approval = decision(memory, waiting)
    memory.approvals.decide(approval, signers=SIGNERS)

    (law,) = memory.records(band=Band.VAULT)
    assert (law.text, law.verdict) == (LAW, Verdict.SEAL)
    assert list(memory.approvals.waiting()) == []
    decided = memory.approvals.find(waiting.proposal.proposal_id)
    assert isinstance(decided, DecidedProposal)
    assert decided.proposal.state == "approved"
    assert list(memory.verify()) == []
    result = [entry.read() for entry in memory.store.entries() if entry.read()["kind"] == "decision"]
    stored = result[0]["body"]["told"]["approval"]
    assert openssh.keygen_accepts(
        tmp_path,
        stored["signature"],
        approval.statement.signed_bytes,
        principal="alice@example.com",
        allowed=SIGNERS.allowed_text,
        revoked=SIGNERS.revoked_text,
    ), "ssh-keygen -Y verify takes the signature that the ledger keeps"


def test_a_rejected_proposal_is_erased_and_recognised(memory: Memory) -> None:
    waiting = proposed(memory, propose=False, hold="unsure")
    memory.approvals.decide(decision(memory, waiting, Decision.REJECT), signers=SIGNERS)
    with memory.run(workflow="triage", mode="buffered_write") as run:
        again = run.remember(LAW, source=HANDBOOK)

    (logged,) = memory.records(band=Band.LEDGER)
    assert list(memory.records(band=Band.VAULT)) == []
    assert (logged.verdict, logged.subject, logged.source) == (Verdict.HOLD, None, None)
    assert logged.text == "A human rejected this proposal. Its content is erased."
    assert again.verdict is Verdict.VOID
    assert list(memory.verify()) == []
    for version in [*memory.store.scan("default", at=1), *memory.store.scan("default", at=2)]:
        assert LAW.encode() not in (version.content or b""), version.key
    for entry in memory.store.entries():
        assert LAW.encode() not in entry.content, "the ledger never forgets, so it was never told"


@pytest.mark.parametrize(
    ("hold", "source", "verdict"), [("unsure", HANDBOOK, Verdict.HOLD), (None, None, Verdict.PARTIAL)]
)
def test_what_is_held_or_partial_can_be_sealed_too(
    memory: Memory, hold: str | None, source: dict[str, str] | None, verdict: Verdict
) -> None:
    waiting = proposed(memory, propose=source is None, hold=hold, source=source)
    assert waiting.proposal.verdict is verdict
    assert [record.verdict for record in memory.records(band=Band.LEDGER)] == [verdict]
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)

    (law,) = memory.records(band=Band.VAULT)
    assert law.verdict is Verdict.SEAL
    assert law.evidence is not None
    assert "alice@example.com sealed" in (law.evidence.floor_checks[-1].reason or "")
    assert list(memory.verify()) == []


def test_every_reason_to_refuse_is_an_error_of_its_own(memory: Memory, clock: ManualClock) -> None:
    queue = memory.approvals
    first, second = proposed(memory), proposed(memory, "law/2", source={"kind": "doc", "id": "other"})
    tampered = replace(decision(memory, first), signature=decision(memory, second).signature)
    for approval, code in (
        (decision(memory, first, by="mallory"), "unknown_signer"),
        (decision(memory, first, by="lost"), "signer_revoked"),
        (tampered, "bad_signature"),
    ):
        with raises_code(code):
            queue.decide(approval, signers=SIGNERS)
    with raises_code("self_approval"):
        queue.decide(decision(memory, first, by="bot"), signers=SIGNERS, agents={"bot@example.com"})
    late = decision(memory, first, nonce="1" * 32)
    clock.advance(3_600)
    with raises_code("approval_expired"):
        queue.decide(late, signers=SIGNERS)
    queue.decide(decision(memory, first, nonce="2" * 32), signers=SIGNERS)
    with raises_code("not_pending"):
        queue.decide(decision(memory, first, nonce="3" * 32), signers=SIGNERS)
    with raises_code("approval_replayed"):
        queue.decide(decision(memory, second, nonce="2" * 32), signers=SIGNERS)
    with raises_code("no_such_proposal"):
        queue.find("f" * 64)

    assert [law.subject for law in memory.records(band=Band.VAULT)] == ["law/1"]
    assert [one.record.subject for one in queue.waiting()] == ["law/2"]


def test_a_signature_over_another_payload_seals_nothing(memory: Memory) -> None:
    first, second = proposed(memory), proposed(memory, "law/2", source={"kind": "doc", "id": "other"})
    crossed = decision(memory, first).statement.as_json() | {"proposal_id": second.proposal.proposal_id}
    assert first.proposal.payload_fingerprint != second.proposal.payload_fingerprint

    with raises_code("wrong_payload", match="another content was signed"):
        memory.approvals.decide(signed(Statement.from_json(crossed)), signers=SIGNERS)


def test_of_two_who_decide_at_once_one_is_told(memory: Memory) -> None:
    waiting = proposed(memory)
    approvals = [
        decision(memory, waiting, kind, nonce=f"{number}" * 32) for number, kind in enumerate(Decision)
    ]
    answers: list[str] = []

    def decide(number: int) -> None:
        try:
            memory.approvals.decide(approvals[number], signers=SIGNERS)
        except ApprovalError as error:
            answers.append(error.code)
        else:
            answers.append("done")

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == ["done", "not_pending"]
    assert list(memory.verify()) == []


def test_a_sealed_law_outlives_its_signer_being_revoked_and_every_sweep(
    memory: Memory, clock: ManualClock
) -> None:
    waiting = proposed(memory)
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)
    days(clock, 1_000)
    memory.sweep()

    assert [law.text for law in memory.records(band=Band.VAULT)] == [LAW]
    assert list(memory.verify()) == []


def test_a_human_may_accept_a_proposal_as_ordinary_memory(memory: Memory) -> None:
    waiting = proposed(memory, propose=False, hold="unsure")
    memory.approvals.decide(decision(memory, waiting, Decision.ACCEPT), signers=SIGNERS)

    assert list(memory.records(band=Band.VAULT)) == []
    for band in (Band.LEDGER, Band.ACTIVE):
        (record,) = memory.records(band=band)
        assert (record.memory_id, record.text, record.verdict) == ("law/1", LAW, Verdict.SABAR)
        assert record.evidence is not None
        assert record.evidence.floor_checks[-1].floor == "human_accept"
    decided = memory.approvals.find(waiting.proposal.proposal_id)
    assert isinstance(decided, DecidedProposal)
    assert decided.proposal.state == "accepted"
    assert memory.remember(LAW, source=HANDBOOK).known == "law/1"
    assert list(memory.verify()) == []


def test_a_signature_does_not_fit_if_what_it_replaces_changed_since(memory: Memory) -> None:
    waiting = proposed(memory)
    approval = decision(memory, waiting)
    with memory.run(workflow="triage", mode="buffered_write", agent="drafter") as run:
        run.remember(
            "Refunds above 900 EUR need three people.", subject="law/1", source=HANDBOOK, propose=True
        )
    (other,) = [one for one in memory.approvals.waiting() if one.record.text != LAW]
    memory.approvals.decide(decision(memory, other, nonce="1" * 32), signers=SIGNERS)

    with raises_code("wrong_payload", match="what it would replace has changed since it was signed"):
        memory.approvals.decide(approval, signers=SIGNERS)
    assert [law.text for law in memory.records(band=Band.VAULT)] == [
        "Refunds above 900 EUR need three people."
    ]
    memory.approvals.decide(decision(memory, waiting, nonce="2" * 32), signers=SIGNERS)
    assert [law.text for law in memory.records(band=Band.VAULT)] == [LAW]
    assert list(memory.verify()) == []


def test_a_decided_proposal_moves_to_the_ledger_band_with_its_content(memory: Memory) -> None:
    waiting = proposed(memory)
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)

    (logged,) = memory.records(band=Band.LEDGER)
    assert (logged.text, logged.verdict) == (LAW, Verdict.HOLD)
    assert logged.evidence is not None
    assert logged.evidence.floor_checks[-1].floor == "human_decision"
    assert list(memory.approvals.waiting()) == []
    assert list(memory.verify()) == []


def together(memory: Memory, waiting: list[WaitingProposal], *, by: str = "alice") -> list[Approval]:
    """Approvals by one signature over the list of what waits."""
    statements = [
        decision(memory, one, nonce=f"{number:032x}").statement for number, one in enumerate(waiting)
    ]
    listed = signed_list_of(statements)
    signature = sign(openssh.private_key(by), list_bytes(listed), "standfast-seal")
    now = memory.store.clock.now()
    return [Approval.of(one, signature, signers=SIGNERS, at=now, signed_list=listed) for one in statements]


def test_one_signature_over_a_list_decides_several(memory: Memory) -> None:
    laws = ["Refunds above 500 EUR need two people.", "Parcels to Norway need a form."]
    with memory.run(workflow="triage", mode="buffered_write", agent="drafter") as run:
        for number, law in enumerate(laws):
            run.remember(law, subject=f"law/{number}", source=HANDBOOK, propose=True)
    waiting = list(memory.approvals.waiting())
    approvals = together(memory, waiting)
    for approval in approvals:
        memory.approvals.decide(approval, signers=SIGNERS)

    assert sorted(record.text for record in memory.records(band=Band.VAULT)) == sorted(laws)
    assert approvals[0].signature == approvals[1].signature
    assert list(memory.verify()) == []


def test_a_signature_over_a_list_decides_nothing_that_is_not_in_it(memory: Memory) -> None:
    first, second = proposed(memory), proposed(memory, "law/2", source={"kind": "doc", "id": "other"})
    (approval,) = together(memory, [first])
    other = decision(memory, second, nonce="1" * 32).statement

    with pytest.raises(InvalidValue, match="must name the statement"):
        replace(approval, statement=other)
    with raises_code("bad_signature"):
        memory.approvals.decide(
            replace(approval, statement=other, signed_list=signed_list_of([other])), signers=SIGNERS
        )
    with pytest.raises(InvalidValue, match="must name the statement"):
        replace(approval, signed_list=approval.signed_list * 2)


@pytest.mark.parametrize(
    "author", ["Alice B. <Alice@Example.com>", "mailto:alice@example.com", "alice+drafts@example.com."]
)
def test_an_author_and_a_signer_with_one_address_are_one_person(author: str) -> None:
    with Memory.open(":memory:") as memory:
        with memory.run(workflow="w", mode="buffered_write", agent=author) as run:
            run.remember(LAW, source=HANDBOOK, propose=True)
        (waiting,) = memory.approvals.waiting()

        with raises_code("self_approval", match="author"):
            memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)


def test_an_accepted_proposal_spends_the_byte_budgets(store: Store) -> None:
    budget = BandBudget(band=Band.ACTIVE, max_bytes=900, policy="ExpireOldest")
    memory = Memory(store, budgets=[budget])
    for number in range(6):
        memory.remember(f"Gate {number} is closed on day {number + 40}.", source=HANDBOOK)
    waiting = proposed(memory, propose=False, hold="unsure")
    memory.approvals.decide(decision(memory, waiting, Decision.ACCEPT), signers=SIGNERS)
    active = [record.text for record in memory.records(band=Band.ACTIVE)]

    assert LAW in active
    assert memory.band_budgets.used_bytes(Band.ACTIVE) <= 900
    memory.remember("Gate 9 is open on Monday.", source=HANDBOOK)
    assert memory.band_budgets.used_bytes(Band.ACTIVE) <= 900
    assert list(memory.verify()) == []


@pytest.mark.parametrize("beginning", ["", "0", "ab"])
def test_a_beginning_that_is_too_short_names_no_proposal(memory: Memory, beginning: str) -> None:
    waiting = proposed(memory)

    with pytest.raises(ApprovalError, match="give at least its first"):
        memory.approvals.find(waiting.proposal.proposal_id[: len(beginning)])


def test_a_signature_covers_only_so_many_statements(memory: Memory) -> None:
    approval = decision(memory, proposed(memory))
    own = signed_list_of([approval.statement])
    too_many = [*own, *(f"{number:064x}" for number in range(MAX_SIGNED_TOGETHER))]

    with pytest.raises(InvalidValue, match=f"at most {MAX_SIGNED_TOGETHER}"):
        memory.approvals.decide(replace(approval, signed_list=too_many), signers=SIGNERS)


def test_a_decision_that_fails_spends_no_byte_of_a_budget(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit fails once after the budget was asked; the next decision finds the bytes as they were."""
    used = []
    for fails in (False, True):
        store = memory_store(clock)
        memory = Memory(store, budgets=[BandBudget(band=Band.LEDGER, max_bytes=4_000, policy="AlwaysWrite")])
        approval = decision(memory, proposed(memory, propose=False, hold="unsure"), Decision.ACCEPT)
        with monkeypatch.context() as patch:
            if fails:
                patch.setattr(store, "commit", lambda _: 1 // 0)
                with pytest.raises(ZeroDivisionError):
                    memory.approvals.decide(approval, signers=SIGNERS)
        memory.approvals.decide(approval, signers=SIGNERS)
        used.append(memory.band_budgets.used_bytes(Band.LEDGER))
        assert list(memory.verify()) == []

    assert used[0] == used[1] > 0
