"""What is asked of memory by those who answer for it: proposals and signatures, retention, the ledger, proofs."""

from datetime import timedelta
from itertools import islice

from standfast.errors import Forbidden, InvalidValue
from standfast.govern.approvals.approvals import Approval, Decision, Proposal, Statement
from standfast.govern.approvals.queue import Decided, Waiting
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE
from standfast.ledger.chain import Entry
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.limits import MAX_PAGE_ITEMS, MAX_TOLD_PROBLEMS
from standfast.memory import Memory
from standfast.server.access.table import Act, Caller
from standfast.server.operations.hall import Hall
from standfast.server.operations.pages import page_of, place_of
from standfast.server.operations.reading import records_of
from standfast.server.operations.shapes import (
    AskedPage,
    AskedProposal,
    AskedProposals,
    Decide,
    DueItem,
    DueList,
    LedgerEntry,
    LedgerPage,
    ProposalsPage,
    ShownProposal,
    SignedHead,
    Swept,
    ToSign,
    Verified,
)
from standfast.store.commit import COMMIT_KIND
from standfast.vocabulary import Band, Receipt, Record


def list_proposals(hall: Hall, caller: Caller, namespace: str, asked: AskedProposals) -> ProposalsPage:
    """Proposals that wait for a human, or that were decided, in the order of their ids."""
    queue = hall.enter(caller, Act.LIST_PROPOSALS, namespace).approvals()
    after = "" if asked.cursor is None else place_of(asked.cursor, str)
    listed = queue.decided() if asked.decided else queue.waiting()
    page, further = page_of(
        (found.proposal for found in listed if found.proposal.proposal_id > after),
        limit=asked.limit,
        size=lambda proposal: len(proposal.summary or ""),
        place=lambda proposal: proposal.proposal_id,
    )
    return ProposalsPage(proposals=page, next=further)


def get_proposal(
    hall: Hall, caller: Caller, namespace: str, proposal_id: str, asked: AskedProposal
) -> ShownProposal:
    """All of one proposal, and exactly what is signed to decide it: statements that are good for some minutes, once."""
    memory = hall.enter(caller, Act.GET_PROPOSAL, namespace)
    found = memory.approvals().find(proposal_id)
    if isinstance(found, Decided):
        return ShownProposal(proposal=found.proposal, decided=found)
    return ShownProposal(
        proposal=found.proposal,
        record=found.record,
        replaces=_replaced(memory, found),
        to_sign=tuple(_to_sign(hall, found.proposal, decision, asked.minutes) for decision in Decision),
    )


def _replaced(memory: Memory, found: Waiting) -> Record | None:
    name = found.proposal.key.partition("/")[2]
    return next((record for record in records_of(memory, name) if record.band is Band.VAULT), None)


def _to_sign(hall: Hall, proposal: Proposal, decision: Decision, minutes: int) -> ToSign:
    statement = Statement.about(
        proposal,
        decision=decision,
        expires_at=hall.clock.now() + timedelta(minutes=minutes),
        nonce=hall.store.ids.new_id(),
    )
    return ToSign(
        decision=decision,
        statement=statement,
        text=statement.signed_bytes.decode(),
        command=f"ssh-keygen -Y sign -n {SEAL_NAMESPACE} -f KEY FILE",
    )


def decide(hall: Hall, caller: Caller, namespace: str, proposal_id: str, wanted: Decide) -> Receipt:
    """Decide a proposal by a human's signature. Whoever hands it in, only the signature counts."""
    memory = hall.enter(caller, Act.DECIDE, namespace)
    if not wanted.statement.proposal_id.startswith(proposal_id):
        raise InvalidValue(what="statement", problem="it is about another proposal than the address says")
    signers = hall.signers()
    approval = Approval.of(wanted.statement, wanted.signature, signers=signers, at=hall.clock.now())
    return memory.approvals().decide(approval, signers=signers, agents=hall.agents())


def due(hall: Hall, caller: Caller, namespace: str) -> DueList:
    """What a retention sweep would move or delete now."""
    memory = hall.enter(caller, Act.DUE, namespace)
    found = [DueItem.from_json(one.as_json()) for one in islice(memory.due(), MAX_PAGE_ITEMS + 1)]
    return DueList(due=found[:MAX_PAGE_ITEMS], more=len(found) > MAX_PAGE_ITEMS)


def sweep(hall: Hall, caller: Caller, namespace: str) -> Swept:
    """Carry retention out."""
    return Swept(receipts=hall.enter(caller, Act.SWEEP, namespace).sweep())


def ledger(hall: Hall, caller: Caller, asked: AskedPage) -> LedgerPage:
    """Entries of the ledger, in order."""
    memory = hall.enter_store(caller, Act.LEDGER)
    after = 0 if asked.cursor is None else place_of(asked.cursor, int)
    page, further = page_of(
        islice(memory.store.entries(max(0, after)), asked.limit + 1),
        limit=asked.limit,
        size=lambda entry: len(entry.content),
        place=lambda entry: entry.seq,
    )
    return LedgerPage(entries=[_entry(entry) for entry in page], next=further)


def _entry(entry: Entry) -> LedgerEntry:
    return LedgerEntry(seq=entry.seq, hash=entry.hash, content=entry.content.decode())


def receipt(hall: Hall, caller: Caller, ledger_seq: int) -> InclusionReceipt:
    """Proof that an entry is in the ledger. What else an entry tells is for those whose key is for all namespaces."""
    memory = hall.enter_store(caller, Act.RECEIPT)
    entry = next(iter(memory.store.entries(ledger_seq - 1)), None)
    if entry is not None and not caller.reaches_all and entry.read()["kind"] != COMMIT_KIND:
        problem = "the entry tells more than that a commit happened, which takes a key for all namespaces"
        raise Forbidden(role=caller.role.value, act=Act.RECEIPT.value, where="the ledger", problem=problem)
    return memory.receipt(ledger_seq)


def checkpoint(hall: Hall, caller: Caller) -> SignedHead:
    """Sign the ledger's head."""
    return SignedHead(checkpoint=hall.enter_store(caller, Act.CHECKPOINT).checkpoint())


def verify(hall: Hall, caller: Caller) -> Verified:
    """Walk everything, one caller at a time."""
    memory = hall.enter_store(caller, Act.VERIFY)
    lock = hall.one_at_a_time()
    try:
        head = memory.store.head()
        problems = list(islice(memory.verify(), MAX_TOLD_PROBLEMS))
    finally:
        lock.release()
    return Verified(
        holds=not problems,
        snapshots=head,
        problems_found=len(problems),
        problems=tuple(problems) if caller.reaches_all else (),
    )
