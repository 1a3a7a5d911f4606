"""The approval queue: proposals wait here for a human, and a signature decides them.

A proposal waits in the PHOENIX band. Deciding it is one commit: the proposal leaves PHOENIX, its decision is
stored under ``decision/``, it is logged in LEDGER (without its content if it was rejected), its nonce is used
up for ever, the list of signers that it was checked against is stored, and the record is written to VAULT if
it was approved, or to LEDGER and ACTIVE if it was accepted as ordinary memory. The ledger gets the statement
and the signature, so that anybody can check them again. If two people decide at once, one of them gets a
``ApprovalError`` (``not_pending``) error.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

import msgspec

from standfast.clock import Clock
from standfast.errors import ApprovalError, CommitAborted, Corruption, NotGoverned, StandfastError
from standfast.govern.approvals.approvals import Approval, Decision, Proposal, ProposalState, check_approval
from standfast.govern.approvals.signers import Signers
from standfast.govern.authority import Role, require_seal, require_write
from standfast.govern.evidence import (
    accepted_record,
    content_fingerprint,
    decided_record,
    has_failed_hard_floor,
    logged_record,
    sealed_record,
)
from standfast.govern.judge.text_reading import TextReading
from standfast.govern.refusals import refusal_by_human
from standfast.limits import MIN_PROPOSAL_PREFIX_CHARS
from standfast.records.canon import fingerprint, parse, utc_text
from standfast.records.rows import SYSTEM_NAMESPACE, RowKind
from standfast.records.scopes import (
    name_in,
    prefix_of,
    row_key,
    said_key,
    scope_in,
    scoped_key,
)
from standfast.records.vocabulary import ActionType, Band, Receipt, Record, Value
from standfast.store.commit import Commit, ExtraWrites, Fact, Write, no_extra_writes
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.stored_records import keys_with_content_of, record_of, superseded_keys

_BAND_AFTER: Final = {Decision.APPROVE: Band.VAULT, Decision.ACCEPT: Band.LEDGER}


class Spent(Protocol):
    """What byte budgets decided about records: those that are kept, rows of their own, keys to expire, and
    facts for the ledger.
    """

    @property
    def records(self) -> tuple[Record, ...]:
        """The records that are kept."""
        ...

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Rows to write next to them."""
        ...

    @property
    def expired(self) -> tuple[str, ...]:
        """Keys that are expired to make room."""
        ...

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the ledger records of it."""
        ...


class ByteBudgets(Protocol):
    """The byte budgets of a memory's bands, which an accepted proposal spends like any other record."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held from spending until the commit is done."""
        ...

    def spend(
        self, store: Store, namespace: str, at: int, records: Sequence[Record], forgotten: Iterable[str]
    ) -> Spent:
        """Decide what is kept of these records."""
        ...

    def committed(self, snapshot: int) -> None:
        """Note that the spending was committed."""
        ...

    def discarded(self) -> None:
        """Note that the spending was not committed."""
        ...


class WaitingProposal(Value, frozen=True, kw_only=True):
    """A proposal that waits for a decision, and the record that it would seal."""

    proposal: Proposal
    record: Record


class DecidedProposal(Value, frozen=True, kw_only=True):
    """A decided proposal, with the signature that decided it and the time. Rejected content is not kept."""

    proposal: Proposal
    approval: Approval
    decided_at: str
    signers_fingerprint: str


class ApprovalQueue:
    """The proposals of one namespace: those that wait, those that are decided, and deciding them."""

    def __init__(
        self,
        store: Store,
        namespace: str,
        *,
        clock: Clock,
        extra_writes: ExtraWrites = no_extra_writes,
        budgets: ByteBudgets | None = None,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._clock = clock
        self._extra_writes = extra_writes
        self._budgets = budgets

    def waiting(self, *, at: int | None = None) -> Iterator[WaitingProposal]:
        """Yields the proposals that wait, now or as of a snapshot, ordered by id."""
        for version in self._store.scan(self._namespace, prefix=prefix_of(RowKind.PHOENIX), at=at):
            yield _read(version, WaitingProposal)

    def decided(self) -> Iterator[DecidedProposal]:
        """Yields the decided proposals, ordered by id."""
        for version in self._store.scan(self._namespace, prefix=prefix_of(RowKind.DECISION)):
            yield _read(version, DecidedProposal)

    def find(self, proposal_id: str) -> WaitingProposal | DecidedProposal:
        """The proposal with this id, or the only one whose id begins with it."""
        waiting, decided = waiting_key(proposal_id), decision_key(proposal_id)
        found = self._store.read(self._namespace, [waiting, decided])
        if waiting in found:
            return _read(found[waiting], WaitingProposal)
        if decided in found:
            return _read(found[decided], DecidedProposal)
        if len(proposal_id) < MIN_PROPOSAL_PREFIX_CHARS:
            raise ApprovalError(
                "no_such_proposal",
                problem=(
                    f"no proposal has the id {proposal_id!r:.80}; give at least its first"
                    f" {MIN_PROPOSAL_PREFIX_CHARS} digits"
                ),
            )
        begins: list[WaitingProposal | DecidedProposal] = [
            *(
                _read(version, WaitingProposal)
                for version in self._store.scan(self._namespace, prefix=waiting)
            ),
            *(
                _read(version, DecidedProposal)
                for version in self._store.scan(self._namespace, prefix=decided)
            ),
        ]
        if len(begins) != 1:
            how_many = "no proposal id begins" if not begins else f"{len(begins)} proposal ids begin"
            raise ApprovalError("no_such_proposal", problem=f"{how_many} with {proposal_id!r:.80}")
        return begins[0]

    def replaced(self, proposal: Proposal, decision: Decision) -> Record | None:
        """The record that a decision would replace now: law, or ordinary memory; None if it replaces none."""
        band = _BAND_AFTER.get(decision)
        if band is None:
            return None
        key = scoped_key(band, scope_in(proposal.key), name_in(proposal.key))
        found = self._store.read(self._namespace, [key])
        return record_of(found[key]) if key in found else None

    def ended_law(self, waiting: WaitingProposal) -> list[Record]:
        """The law that a proposal supersedes: it would end if the proposal were approved."""
        return _superseded_law(self._store, self._namespace, waiting.record, at=self._store.head())

    def replaces(self, proposal: Proposal, decision: Decision) -> str | None:
        """The content fingerprint of what a decision would replace or end, as a statement names it."""
        if decision is Decision.APPROVE:
            found = self.find(proposal.proposal_id)
            record = found.record if isinstance(found, WaitingProposal) else None
            return law_fingerprint(self._store, self._namespace, proposal.key, record, at=self._store.head())
        replaced = self.replaced(proposal, decision)
        return None if replaced is None else content_fingerprint(replaced)

    def decide(
        self, approval: Approval, *, signers: Signers, agents: AbstractSet[str] = frozenset()
    ) -> Receipt:
        """Approves, accepts or rejects a proposal by a human's signature.

        Nothing else puts content into VAULT.

        Raises the errors of ``check_approval``: each reason to refuse has a class of its own.
        """
        require_seal(Role.HUMAN)
        proposal_id = approval.statement.proposal_id
        head = self._store.head()
        found = self.find(proposal_id)
        if isinstance(found, DecidedProposal):
            raise ApprovalError("not_pending", proposal_id=proposal_id, state=found.proposal.state.value)
        now, nonce = self._clock.now(), nonce_key(approval.statement.nonce)
        decided = check_approval(
            approval,
            found.proposal,
            signers=signers,
            now=now,
            used_nonces={approval.statement.nonce} if self._store.read(SYSTEM_NAMESPACE, [nonce]) else set(),
            author=found.proposal.author,
            replaces=self.replaces(found.proposal, approval.statement.decision),
            agents=agents,
        )
        if decided.state is not ProposalState.REJECTED and has_failed_hard_floor(found.record):
            problem = "a hard floor rejected it, so it can't be approved; reject it, or remember it anew"
            raise NotGoverned(memory_id=found.record.memory_id, problem=problem)
        if content_fingerprint(found.record) != found.proposal.payload_fingerprint:
            raise Corruption(
                what=f"proposal {proposal_id}", problem="its record is not the one that was proposed"
            )
        planned = _DecisionCommit(
            store=self._store,
            namespace=self._namespace,
            head=head,
            found=found,
            decided=decided,
            approval=approval,
            extra_writes=self._extra_writes,
            budgets=self._budgets if decided.state is ProposalState.ACCEPTED else None,
        )
        try:
            return planned.submit(signers, now)
        except CommitAborted:
            # If somebody else decided it in the meantime, report that instead.
            again = self.find(proposal_id)
            if isinstance(again, DecidedProposal):
                raise ApprovalError(
                    "not_pending", proposal_id=proposal_id, state=again.proposal.state.value
                ) from None
            raise


class _DecisionCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Builds the commit of a decision."""

    store: Store
    namespace: str
    head: int
    found: WaitingProposal
    decided: Proposal
    approval: Approval
    extra_writes: ExtraWrites
    budgets: ByteBudgets | None

    def submit(self, signers: Signers, now: datetime) -> Receipt:
        if self.budgets is None:
            return self.store.commit(self.commit(signers, now))
        with self.budgets.lock:
            try:
                receipt = self.store.commit(self.commit(signers, now))
            except BaseException:
                self.budgets.discarded()
                raise
            self.budgets.committed(receipt.memory_snapshot_id)
            return receipt

    def commit(self, signers: Signers, now: datetime) -> Commit:
        statement, proposal_id = self.approval.statement, self.decided.proposal_id
        state, facts = self.decided.state, list[Fact]()
        approved = state is not ProposalState.REJECTED
        # The ledger never forgets, so it gets no rejected content.
        proposal = self.decided if approved else self.decided.without_summary()
        noted = DecidedProposal(
            proposal=proposal,
            approval=self.approval,
            decided_at=utc_text(now),
            signers_fingerprint=signers.fingerprint,
        )
        writes = [
            Write.of(
                self.namespace,
                waiting_key(proposal_id),
                ActionType.EXPIRE,
                erases=None if approved else f"rejected by {self.approval.principal}",
            ),
            Write.of(self.namespace, decision_key(proposal_id), ActionType.WRITE, noted.as_json()),
            Write.of(
                SYSTEM_NAMESPACE,
                nonce_key(statement.nonce),
                ActionType.WRITE,
                {"proposal_id": proposal_id, "namespace": self.namespace},
            ),
            Write.of(SYSTEM_NAMESPACE, signers_key(signers.fingerprint), ActionType.WRITE, _listed(signers)),
        ]
        match state:
            case ProposalState.APPROVED:
                writes += [self._sealed(now), self._moved_to_ledger(now)]
                bands = (Band.VAULT, Band.LEDGER, Band.ACTIVE)
                superseded = superseded_keys(self.found.record, bands)
                writes += self._ended(superseded, keeping=[one.key for one in writes])
            case ProposalState.ACCEPTED:
                accepted, facts = self._accepted(now)
                writes += accepted
            case _:
                writes += self._refused(now)
        fact = Fact.of(
            "decision",
            {
                "approval": self.approval.as_json(),
                "namespace": self.namespace,
                "proposal": proposal.as_json(),
                "signers_fingerprint": signers.fingerprint,
            },
        )
        return Commit.of(
            run_id=f"{statement.decision}-{proposal_id[:32]}-{statement.nonce}",
            memory_snapshot_id=self.head,
            policy_set_id=self.decided.policy_set_id,
            writes=writes,
            facts=[fact, *facts],
        )

    def _sealed(self, now: datetime) -> Write:
        return self._put(sealed_record(self.found.record, **self._decided_by, now=now))

    def _moved_to_ledger(self, now: datetime) -> Write:
        """The decided proposal in LEDGER: with its content if it is law now, without if it was rejected."""
        is_rejected = self.decided.state is ProposalState.REJECTED
        record = decided_record(self.found.record, **self._decided_by, is_rejected=is_rejected, now=now)
        return self._put(record, erases=f"rejected by {self.approval.principal}" if is_rejected else None)

    @property
    def _decided_by(self) -> dict[str, str]:
        return {"principal": self.approval.principal, "proposal_id": self.decided.proposal_id}

    def _put(self, record: Record, *, erases: str | None = None) -> Write:
        """The write of a record. It replaces the present one, if any, and erases it for this reason."""
        require_write(Role.HUMAN, record.band)
        present = self.store.read(self.namespace, [record.key], at=self.head, even_hidden=True)
        action = ActionType.MERGE if present else ActionType.WRITE
        return Write.of(
            self.namespace, record.key, action, record.as_json(), erases=erases if present else None
        )

    def _ended(self, keys: Sequence[str], *, keeping: Sequence[str]) -> list[Write]:
        """The writes that end those of these records that are there."""
        present = self.store.read(self.namespace, keys, at=self.head) if keys else {}
        return [
            msgspec.structs.replace(Write.of(self.namespace, key, ActionType.EXPIRE), again=True)
            for key in sorted(present.keys() - {*keeping})
        ]

    def _accepted(self, now: datetime) -> tuple[list[Write], list[Fact]]:
        """Write the record to LEDGER and ACTIVE within their byte budgets, and end the logged copy."""
        record = accepted_record(self.found.record, **self._decided_by, now=now)
        placed = [msgspec.structs.replace(record, band=band) for band in (Band.LEDGER, Band.ACTIVE)]
        logged = logged_record(self.found.record).key
        reading = TextReading(record.text).fingerprint
        expired, facts = {logged, *superseded_keys(record)}, list[Fact]()
        rows: dict[str, dict[str, Any]] = {}
        if self.budgets is not None:
            spent = self.budgets.spend(self.store, self.namespace, self.head, placed, ())
            placed, facts = list(spent.records), list(spent.facts)
            expired |= set(spent.expired)
            rows |= spent.rows
        rows |= {one.key: one.as_json() for one in placed}
        if placed:
            rows[said_key(record.scope, reading, record.memory_id)] = {}
        present = self.store.read(self.namespace, [*rows], at=self.head, even_hidden=True)
        writes = [
            Write.of(self.namespace, key, ActionType.MERGE if key in present else ActionType.WRITE, row)
            for key, row in rows.items()
        ]
        return writes + self._ended(sorted(expired), keeping=[*rows]), facts

    def _refused(self, now: datetime) -> list[Write]:
        """Erases the logged copies, keeps in LEDGER that it was rejected, and notes the content's fingerprint
        so that it is recognised if it comes back.
        """
        own = logged_record(self.found.record)
        reason = f"rejected by {self.approval.principal}"
        keys = keys_with_content_of(
            self.store, self.namespace, own.memory_id, [own.band], scope=own.scope, at=self.head
        )
        moved = self._moved_to_ledger(now)
        erased = [
            Write.of(self.namespace, key, ActionType.EXPIRE, erases=reason)
            for key in keys
            if key != moved.key
        ]
        refusal = refusal_by_human(self.found.record, utc_text(now)[:10])
        noted = Write.of(self.namespace, refusal.key, ActionType.WRITE, refusal.row)
        return [*erased, moved, noted, *self.extra_writes(self.head, keys)]


def law_fingerprint(store: Store, namespace: str, key: str, record: Record | None, *, at: int) -> str | None:
    """What a signature says about the law that it changes; None if it changes none.

    The content fingerprint of the law under the key. If the record supersedes other law as well, a
    fingerprint over those of all of it.
    """
    found = store.read(namespace, [key], at=at)
    own = content_fingerprint(record_of(found[key])) if key in found else None
    ended = [] if record is None else _superseded_law(store, namespace, record, at=at)
    if not ended:
        return own
    return fingerprint(["law/v1", own, [[law.memory_id, content_fingerprint(law)] for law in ended]])


def _superseded_law(store: Store, namespace: str, record: Record, *, at: int) -> list[Record]:
    """The law that a record supersedes, ordered by key."""
    keys = superseded_keys(record, [Band.VAULT])
    found = store.read(namespace, keys, at=at) if keys else {}
    return [record_of(found[key]) for key in sorted(found)]


def waiting_key(proposal_id: str) -> str:
    """The key of a proposal that waits."""
    return row_key(RowKind.PHOENIX, proposal_id)


def decision_key(proposal_id: str) -> str:
    """The key of a proposal that was decided."""
    return row_key(RowKind.DECISION, proposal_id)


def nonce_key(nonce: str) -> str:
    """The key under which a used nonce is stored."""
    return row_key(RowKind.NONCE, nonce)


def signers_key(fingerprint: str) -> str:
    """The key under which the list of signers that a decision was checked against is stored."""
    return row_key(RowKind.SIGNERS, fingerprint)


_Row = TypeVar("_Row", bound=Value)


def _read(version: Version, kind: type[_Row]) -> _Row:
    try:
        return kind.from_json(parse(version.content or b""))
    except StandfastError as error:
        raise Corruption(what=f"{version.namespace}/{version.key}", problem=str(error)) from None


def _listed(signers: Signers) -> dict[str, str]:
    return {"allowed": signers.allowed_text, "revoked": signers.revoked_text}
