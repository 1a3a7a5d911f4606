"""Operations for those who answer for a memory: proposals, retention, ledger, verification, keys."""

from datetime import timedelta
from itertools import islice

from standfast.errors import ApprovalError, Forbidden, InvalidValue, NotFound
from standfast.govern.approvals.approvals import Approval, Decision, Proposal, Statement
from standfast.govern.approvals.queue import DecidedProposal, WaitingProposal
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE
from standfast.ledger.chain import Entry
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.limits import MAX_PAGE_ITEMS, MAX_SHOWN_PROBLEMS
from standfast.memory import Memory
from standfast.records.canon import utc_text
from standfast.records.rows import SYSTEM_NAMESPACE
from standfast.records.scopes import ALL_SCOPES, scope_in
from standfast.records.vocabulary import Receipt
from standfast.server.access.keys import ApiKey
from standfast.server.access.permissions import ALL_NAMESPACES, ORIGIN_OF_ROLE, Caller, Permission, is_allowed
from standfast.server.access.scope_limits import sees_key, sees_whole_commit
from standfast.server.operations import schemas, store_schemas
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.schemas import decode_name, decode_number, paginate
from standfast.store.commit import COMMIT_KIND
from standfast.store.protocol import Progress


def list_proposals(
    gateway: Gateway, caller: Caller, namespace: str, query: store_schemas.ProposalsQuery
) -> store_schemas.ProposalsPage:
    """List the proposals that wait for a decision, or those that were decided, by id."""
    queue = gateway.authorize(caller, Permission.LIST_PROPOSALS, namespace).approvals
    after = decode_name(query.cursor)
    listed = queue.decided() if query.decided else queue.waiting()
    page, cursor = paginate(
        (
            found.proposal
            for found in listed
            if found.proposal.proposal_id > after and caller.covers_scope(scope_in(found.proposal.key))
        ),
        limit=query.limit,
        size=lambda proposal: len(proposal.summary or ""),
        position=lambda proposal: proposal.proposal_id,
    )
    return store_schemas.ProposalsPage(proposals=page, next=cursor)


def get_proposal(
    gateway: Gateway, caller: Caller, namespace: str, proposal_id: str, query: store_schemas.ProposalQuery
) -> store_schemas.ProposalResponse:
    """Return one proposal with the statements that decide it.

    Each can be signed for some minutes, and used once.
    """
    memory = gateway.authorize(caller, Permission.GET_PROPOSAL, namespace)
    found = _found(memory, caller, proposal_id)
    if isinstance(found, DecidedProposal):
        return store_schemas.ProposalResponse(proposal=found.proposal, decided=found)
    return store_schemas.ProposalResponse(
        proposal=found.proposal,
        record=found.record,
        replaces=memory.approvals.replaced(found.proposal, Decision.APPROVE),
        ends_law=tuple(memory.approvals.ended_law(found)),
        replaces_memory=memory.approvals.replaced(found.proposal, Decision.ACCEPT),
        to_sign=tuple(
            _to_sign(gateway, memory, found.proposal, decision, query.minutes) for decision in Decision
        ),
    )


def _found(memory: Memory, caller: Caller, proposal_id: str) -> WaitingProposal | DecidedProposal:
    """The proposal, unless it is of a scope that the caller may not see."""
    found = memory.approvals.find(proposal_id)
    if not caller.covers_scope(scope_in(found.proposal.key)):
        raise ApprovalError("no_such_proposal", problem=f"no proposal id begins with {proposal_id!r:.80}")
    return found


def _to_sign(
    gateway: Gateway, memory: Memory, proposal: Proposal, decision: Decision, minutes: int
) -> store_schemas.StatementToSign:
    statement = Statement.about(
        proposal,
        decision=decision,
        expires_at=gateway.clock.now() + timedelta(minutes=minutes),
        nonce=gateway.store.ids.new_id(),
        replaces=memory.approvals.replaces(proposal, decision),
    )
    return store_schemas.StatementToSign(
        decision=decision,
        statement=statement,
        text=statement.signed_bytes.decode(),
        command=f"ssh-keygen -Y sign -n {SEAL_NAMESPACE} -f KEY FILE",
    )


def decide(
    gateway: Gateway, caller: Caller, namespace: str, proposal_id: str, body: store_schemas.DecisionBody
) -> Receipt:
    """Decide a proposal by a person's signature. Only the signature counts, not who submits it."""
    memory = gateway.authorize(caller, Permission.DECIDE, namespace)
    if not body.statement.proposal_id.startswith(proposal_id):
        raise InvalidValue(what="statement", problem="it is about another proposal than the path names")
    if caller.scopes:
        _found(memory, caller, body.statement.proposal_id)
    signers = gateway.signers()
    approval = Approval.of(
        body.statement, body.signature, signers=signers, at=gateway.clock.now(), signed_list=body.signed_list
    )
    return memory.approvals.decide(approval, signers=signers, agents=gateway.agents())


def due(gateway: Gateway, caller: Caller, namespace: str) -> store_schemas.DueResponse:
    """List the records that a retention sweep would move or delete now."""
    memory = gateway.authorize(caller, Permission.DUE, namespace)
    seen = (one for one in memory.due() if sees_key(caller, one.key))
    found = [store_schemas.DueItem.from_json(one.as_json()) for one in islice(seen, MAX_PAGE_ITEMS + 1)]
    return store_schemas.DueResponse(due=found[:MAX_PAGE_ITEMS], more=len(found) > MAX_PAGE_ITEMS)


def sweep(gateway: Gateway, caller: Caller, namespace: str) -> store_schemas.SweepResponse:
    """Run a retention sweep."""
    return store_schemas.SweepResponse(
        receipts=gateway.authorize(caller, Permission.SWEEP, namespace).sweep()
    )


def list_refusals(
    gateway: Gateway, caller: Caller, namespace: str, query: store_schemas.RefusalsQuery
) -> store_schemas.RefusalsPage:
    """List the refusals that are remembered: what a person rejected, and attacks by their source."""
    memory = gateway.authorize(caller, Permission.LIST_REFUSALS, namespace)
    return store_schemas.RefusalsPage(refusals=memory.refusals(scope=query.scope or ALL_SCOPES))


def lift_refusal(gateway: Gateway, caller: Caller, namespace: str, body: store_schemas.LiftBody) -> Receipt:
    """End a refusal before it fades. The ledger records who did it and why."""
    memory = gateway.authorize(caller, Permission.LIFT_REFUSAL, namespace)
    return memory.lift_refusal(
        body.refusal, reason=body.reason, by=caller.name, scope=body.scope or ALL_SCOPES
    )


def ledger(gateway: Gateway, caller: Caller, query: schemas.PageQuery) -> store_schemas.LedgerPage:
    """List the entries of the ledger, in order."""
    memory = gateway.authorize_store(caller, Permission.LEDGER)
    page, cursor = paginate(
        islice(memory.store.entries(decode_number(query.cursor)), query.limit + 1),
        limit=query.limit,
        size=lambda entry: len(entry.content),
        position=lambda entry: entry.seq,
    )
    return store_schemas.LedgerPage(
        entries=[
            store_schemas.LedgerEntry(seq=entry.seq, hash=entry.hash, content=entry.content.decode())
            for entry in page
        ],
        next=cursor,
    )


def receipt(gateway: Gateway, caller: Caller, ledger_seq: int) -> InclusionReceipt:
    """Return the proof that an entry is in the ledger: of a commit in your namespaces and scopes, or, with
    the ledger permission, of any.
    """
    memory = gateway.authorize_store(caller, Permission.RECEIPT)
    entry = next(iter(memory.store.entries(ledger_seq - 1)), None)
    reads_ledger = is_allowed(caller, Permission.LEDGER, None)
    if entry is not None and not reads_ledger and not _is_own_commit(memory, caller, entry):
        problem = "the entry is not a commit in a namespace of the key, and in its scopes only"
        raise Forbidden(
            role=caller.role.value, act=Permission.RECEIPT.value, where="the ledger", problem=problem
        )
    return memory.receipt(ledger_seq)


def _is_own_commit(memory: Memory, caller: Caller, entry: Entry) -> bool:
    content = entry.read()
    if content["kind"] != COMMIT_KIND:
        return False
    versions = memory.store.versions_of(content["body"]["memory_snapshot_id"])
    own = [version for version in versions if caller.covers(version.namespace)]
    return bool(own) and (not caller.scopes or sees_whole_commit(caller, memory.store, own))


def checkpoint(gateway: Gateway, caller: Caller) -> store_schemas.CheckpointResponse:
    """Sign the head of the ledger."""
    return store_schemas.CheckpointResponse(
        checkpoint=gateway.authorize_store(caller, Permission.CHECKPOINT).checkpoint()
    )


def verify(
    gateway: Gateway, caller: Caller, *, progress: Progress | None = None
) -> store_schemas.VerifyResponse:
    """Verify the whole store. Only one verification runs at a time."""
    memory = gateway.authorize_store(caller, Permission.VERIFY)
    with gateway.verifying():
        found = memory.verification(progress=progress)
    sees_all = caller.covers_all and not caller.scopes
    return store_schemas.VerifyResponse(
        holds=found.holds,
        state=found.state,
        snapshots=found.snapshots,
        problems_found=len(found.problems),
        unsigned_entries=found.tail.unsigned_entries,
        unsigned_seconds=found.tail.unsigned_seconds,
        problems=found.problems[:MAX_SHOWN_PROBLEMS] if sees_all else (),
        notices=found.notices if sees_all else (),
        tail=found.tail.summary if sees_all and found.holds else "",
    )


def list_keys(gateway: Gateway, caller: Caller, query: store_schemas.KeysQuery) -> store_schemas.KeysPage:
    """List the keys for namespaces and scopes of the caller, by id; without ``all``, only the valid ones."""
    gateway.authorize_store(caller, Permission.LIST_KEYS)
    after = decode_name(query.cursor)
    keys = gateway.keyring.all() if query.all else gateway.keyring.valid()
    page, cursor = paginate(
        (
            key
            for key in keys
            if key.key_id > after and _covers(caller, key.namespaces) and _covers_scopes(caller, key.scopes)
        ),
        limit=query.limit,
        size=lambda _: 0,
        position=lambda key: key.key_id,
    )
    return store_schemas.KeysPage(keys=[_info(key) for key in page], next=cursor)


def create_key(
    gateway: Gateway, caller: Caller, body: store_schemas.CreateKeyBody
) -> store_schemas.CreatedKey:
    """Create a key for namespaces and scopes of the caller.

    The token is returned this once; only its hash is stored.
    """
    gateway.authorize_store(caller, Permission.CREATE_KEY)
    if not _covers(caller, body.namespaces):
        raise _forbidden(caller, "the key would be for namespaces that yours does not cover")
    if not _covers_scopes(caller, body.scopes):
        problem = (
            f"your key is limited to {', '.join(caller.scopes)}; limit the new one to these scopes, or to"
            " some below them"
        )
        raise _forbidden(caller, problem)
    lifetime = None if body.days is None else timedelta(days=body.days)
    own_end = gateway.keyring.find(caller.key_id).expires_at
    if own_end is not None and (lifetime is None or utc_text(gateway.clock.now() + lifetime) > own_end):
        raise _forbidden(caller, f"your key expires at {own_end}; give the new one fewer days")
    origin = body.origin or ORIGIN_OF_ROLE[body.role]
    if origin.rank > caller.origin.rank:
        raise _forbidden(caller, f"your key is {caller.origin}; give the new one that origin or a lower one")
    key, token = gateway.keyring.create(
        name=body.name,
        role=body.role,
        namespaces=body.namespaces,
        lifetime=lifetime,
        origin=body.origin,
        scopes=body.scopes,
        by=caller.key_id,
    )
    return store_schemas.CreatedKey(key=_info(key), token=token)


def revoke_key(gateway: Gateway, caller: Caller, key_id: str) -> store_schemas.KeyInfo:
    """Revoke a key, at once and for good. Repeating the call changes nothing."""
    gateway.authorize_store(caller, Permission.REVOKE_KEY)
    key = gateway.keyring.find(key_id)
    if not (_covers(caller, key.namespaces) and _covers_scopes(caller, key.scopes)):
        raise NotFound(what=f"key {key_id!r:.80}")
    return _info(gateway.keyring.revoke(key_id, by=caller.key_id))


def list_namespaces(gateway: Gateway, caller: Caller) -> store_schemas.NamespacesResponse:
    """List the namespaces of the key; with a key for all, every namespace that ever held a record."""
    gateway.authorize_store(caller, Permission.LIST_NAMESPACES)
    if not caller.covers_all:
        return store_schemas.NamespacesResponse(namespaces=sorted(caller.namespaces))
    known = {*gateway.store.namespaces(), gateway.home.namespace} - {SYSTEM_NAMESPACE}
    return store_schemas.NamespacesResponse(namespaces=sorted(known))


def _covers(caller: Caller, namespaces: tuple[str, ...]) -> bool:
    return caller.covers_all or (
        ALL_NAMESPACES not in namespaces and all(caller.covers(one) for one in namespaces)
    )


def _covers_scopes(caller: Caller, scopes: tuple[str, ...]) -> bool:
    return not caller.scopes or (bool(scopes) and all(caller.covers_scope(one) for one in scopes))


def _info(key: ApiKey) -> store_schemas.KeyInfo:
    return store_schemas.KeyInfo.from_json(key.as_shown())


def _forbidden(caller: Caller, problem: str) -> Forbidden:
    return Forbidden(
        role=caller.role.value, act=Permission.CREATE_KEY.value, where="the whole store", problem=problem
    )
