"""Approvals are signatures: the proposal that waits for a human, the statement that the human signs, and the
check of both.

Section 8 of the document names four operations that always need a human. Their content waits as a
``Proposal``. A human signs a ``Statement`` about it (SSHSIG, namespace ``standfast-seal``), and
``check_approval`` verifies that the signature decides the proposal. There is no boolean that approves.

A statement names its proposal by an id that is a hash over everything that the human was shown, so that a
signature cannot be used for another place, operation or author.
"""

import re
from collections.abc import Container, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

from standfast.errors import ApprovalError, InvalidValue
from standfast.govern.approvals.signers import Signers
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE, SshSignature, verify
from standfast.govern.authority import Operation, needs_human
from standfast.limits import MAX_KEY_CHARS, MAX_SIGNED_TOGETHER, MAX_SUMMARY_CHARS
from standfast.records.canon import canonical_bytes, fingerprint, normal_string, utc_text
from standfast.records.vocabulary import Value, Verdict

_NOT_IN_ITS_ID: Final = ("proposal_id", "state", "summary")
_ADDRESS: Final = re.compile(r"([^\s<>\"'(),:;@]{1,64})@([\w.-]{1,253})")
# What a statement must say of its proposal, and what it means if it says something else.
_WHAT_DIFFERS: Final = {
    "proposal_id": "another proposal was signed",
    "payload_fingerprint": "another content was signed",
    "policy_set_id": "it was signed as judged by other rules",
    "memory_snapshot_id": "it was signed as of another snapshot",
    "replaces": "what it would replace has changed since it was signed",
    "text": "another text was signed",
}
_NONCE: Final = re.compile("[0-9a-f]{32}")
_KEY_FINGERPRINT: Final = re.compile("SHA256:[A-Za-z0-9+/]{43}")
# Control characters, invisible ones, and those that reverse the reading direction. A fixed list, because what
# Python calls printable grows with each Unicode version, and a proposal must read the same everywhere.
_UNSEEN: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


class Decision(StrEnum):
    """What a human can decide about a proposal: make it law, accept it as ordinary memory, or reject it."""

    APPROVE = "approve"
    ACCEPT = "accept"
    REJECT = "reject"


class ProposalState(StrEnum):
    """The state of a proposal."""

    PENDING = "pending"
    APPROVED = "approved"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    EXPIRED = "expired"


STATE_AFTER: Final = {
    Decision.APPROVE: ProposalState.APPROVED,
    Decision.ACCEPT: ProposalState.ACCEPTED,
    Decision.REJECT: ProposalState.REJECTED,
}
assert set(STATE_AFTER) == set(Decision)


class Proposal(Value, frozen=True, kw_only=True):
    """Content that waits for a human.

    Build it with ``of``: ``proposal_id`` is a hash over all fields but the state.

    The hash covers the summary's fingerprint, so that the id stays valid after the summary was erased.
    """

    proposal_id: str
    namespace: str
    key: str
    payload_fingerprint: str
    summary: str | None
    summary_fingerprint: str
    verdict: Verdict
    author: str
    proposed_at: str
    memory_snapshot_id: int
    policy_set_id: str
    operation: Operation
    state: ProposalState = ProposalState.PENDING

    @classmethod
    def of(
        cls,
        *,
        namespace: str,
        key: str,
        payload_fingerprint: str,
        summary: str,
        verdict: Verdict,
        author: str,
        proposed_at: datetime,
        memory_snapshot_id: int,
        policy_set_id: str,
        operation: Operation,
    ) -> Self:
        """A pending proposal. The same content proposed again at the same time is the same proposal."""
        text = visible_text(summary)
        hashed = {
            "namespace": namespace,
            "key": key,
            "payload_fingerprint": payload_fingerprint,
            "summary_fingerprint": fingerprint(text),
            "verdict": str(verdict),
            "author": author,
            "proposed_at": utc_text(proposed_at),
            "memory_snapshot_id": memory_snapshot_id,
            "policy_set_id": policy_set_id,
            "operation": str(operation),
        }
        return cls.from_json({**hashed, "summary": text, "proposal_id": _proposal_id(hashed)})

    def without_summary(self) -> Self:
        """The proposal with its summary erased; its id and fingerprints stay."""
        return msgspec.structs.replace(self, summary=None)

    def __post_init__(self) -> None:
        for field in ("namespace", "author", "policy_set_id"):
            self._require_name(field, getattr(self, field))
        self._require_name("key", self.key, MAX_KEY_CHARS)
        self._require_digest("proposal_id", self.proposal_id)
        self._require_digest("payload_fingerprint", self.payload_fingerprint)
        self._require_digest("summary_fingerprint", self.summary_fingerprint)
        if self.summary is not None:
            self._require(
                isinstance(self.summary, str) and visible_text(self.summary) == self.summary,
                f"summary must be up to {MAX_SUMMARY_CHARS} visible characters in NFC",
            )
            self._require(
                fingerprint(self.summary) == self.summary_fingerprint,
                "summary_fingerprint must be the fingerprint of the summary",
            )
        self._coerce("verdict", Verdict)
        self._require(self.verdict is not Verdict.VOID, "rejected content (VOID) cannot be proposed")
        _require_instant(self, "proposed_at", self.proposed_at)
        self._require_whole("memory_snapshot_id", self.memory_snapshot_id, least=0)
        self._coerce("operation", Operation)
        self._require(
            needs_human(self.operation), f"{self.operation} needs no approval, so it cannot be proposed"
        )
        self._coerce("state", ProposalState)
        hashed = {name: value for name, value in self.as_json().items() if name not in _NOT_IN_ITS_ID}
        self._require(
            self.proposal_id == _proposal_id(hashed), "proposal_id must be the hash of the other fields"
        )


class Statement(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a human signs.

    It decides one proposal, once, before it expires: its nonce is never accepted again.

    Args:
        proposal_id: The proposal that it decides.
        payload_fingerprint: The fingerprint of the proposed content.
        decision: What is decided.
        policy_set_id: The policy set under which it was proposed.
        memory_snapshot_id: The snapshot at which it was proposed.
        expires_at: Until when it can be submitted.
        nonce: A number that is used once.
        replaces: The content fingerprint of the record that the decision would replace, if there is one. If
            another record takes its place before the decision, the signature no longer fits.
        text: What becomes law, as the proposal's summary shows it, so that nobody signs only a hash. Other
            decisions have none: what is rejected or accepted as ordinary memory can be erased, and the ledger
            keeps statements for ever.
    """

    proposal_id: str
    payload_fingerprint: str
    decision: Decision
    policy_set_id: str
    memory_snapshot_id: int
    expires_at: str
    nonce: str
    replaces: str | None = None
    text: str | None = None

    @classmethod
    def about(
        cls,
        proposal: Proposal,
        *,
        decision: Decision,
        expires_at: datetime,
        nonce: str,
        replaces: str | None = None,
    ) -> Self:
        """The statement that decides a proposal.

        Args:
            nonce: A new id of an ``IdSource``.
            replaces: What ``ApprovalQueue.replaces`` gives.
        """
        return cls(
            proposal_id=proposal.proposal_id,
            payload_fingerprint=proposal.payload_fingerprint,
            decision=decision,
            policy_set_id=proposal.policy_set_id,
            memory_snapshot_id=proposal.memory_snapshot_id,
            expires_at=utc_text(expires_at),
            nonce=nonce,
            replaces=replaces,
            text=proposal.summary if decision is Decision.APPROVE else None,
        )

    def __post_init__(self) -> None:
        self._require_digest("proposal_id", self.proposal_id)
        self._require_digest("payload_fingerprint", self.payload_fingerprint)
        self._coerce("decision", Decision)
        self._require_name("policy_set_id", self.policy_set_id)
        self._require_whole("memory_snapshot_id", self.memory_snapshot_id, least=0)
        _require_instant(self, "expires_at", self.expires_at)
        self._require(
            isinstance(self.nonce, str) and _NONCE.fullmatch(self.nonce) is not None,
            f"nonce must be 32 lower-case hexadecimal digits, not {self.nonce!r:.80}",
        )
        if self.replaces is not None:
            self._require_digest("replaces", self.replaces)
        if self.text is not None:
            self._require(
                isinstance(self.text, str) and visible_text(self.text) == self.text,
                f"text must be up to {MAX_SUMMARY_CHARS} visible characters in NFC",
            )

    @property
    def signed_bytes(self) -> bytes:
        """The canonical bytes, which are signed."""
        return canonical_bytes(self.as_json())


class Approval(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A signed statement and its signer.

    It proves nothing by itself; ``check_approval`` verifies it each time.

    ``signed_list`` has the fingerprints of all statements that the signature covers, if it covers several.
    """

    statement: Statement
    signature: str
    principal: str
    key_fingerprint: str
    signed_list: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        statement: Statement,
        armored: str,
        *,
        signers: Signers,
        at: datetime,
        signed_list: Sequence[str] = (),
    ) -> Self:
        """The approval made by this signature, if an allowed signer made it for this statement, or for a list
        that has it.
        """
        public_key = verify(armored, _signed_bytes(statement, signed_list), SEAL_NAMESPACE)
        return cls(
            statement=statement,
            signature=SshSignature.read(armored).armored,
            principal=signers.who_signed(public_key, at),
            key_fingerprint=public_key.fingerprint,
            signed_list=tuple(signed_list),
        )

    @property
    def signed_bytes(self) -> bytes:
        """What the signature must cover: the statement, or the list that has it."""
        return _signed_bytes(self.statement, self.signed_list)

    def __post_init__(self) -> None:
        self._require(isinstance(self.statement, Statement), "statement must be a Statement")
        _require_listed(self.statement, self.signed_list)
        self._require(
            SshSignature.read(self.signature).armored == self.signature,
            "signature must be wrapped as ssh-keygen wraps it; build it with Approval.of",
        )
        self._require_name("principal", self.principal)
        self._require(
            isinstance(self.key_fingerprint, str)
            and _KEY_FINGERPRINT.fullmatch(self.key_fingerprint) is not None,
            f"key_fingerprint must be as ssh-keygen -l shows it, not {self.key_fingerprint!r:.80}",
        )


def signed_list_of(statements: Sequence[Statement]) -> tuple[str, ...]:
    """The fingerprints of statements that one signature decides together, in their order."""
    return tuple(fingerprint(statement.as_json()) for statement in statements)


def list_bytes(signed_list: Sequence[str]) -> bytes:
    """The canonical bytes that are signed to decide several proposals at once."""
    return canonical_bytes({"list": "standfast-seal-list/v1", "statements": list(signed_list)})


def _signed_bytes(statement: Statement, signed_list: Sequence[str]) -> bytes:
    return list_bytes(signed_list) if signed_list else statement.signed_bytes


def _require_listed(statement: Statement, signed_list: Sequence[str]) -> None:
    if not signed_list:
        return
    if not 0 < len(signed_list) <= MAX_SIGNED_TOGETHER:
        problem = f"a signature covers at most {MAX_SIGNED_TOGETHER} statements, not {len(signed_list)}"
        raise InvalidValue(what="signed_list", problem=problem)
    if list(signed_list).count(fingerprint(statement.as_json())) != 1:
        raise InvalidValue(what="signed_list", problem="it must name the statement, once")


def check_approval(
    approval: Approval,
    proposal: Proposal,
    *,
    signers: Signers,
    now: datetime,
    used_nonces: Container[str],
    author: str,
    replaces: str | None = None,
    agents: AbstractSet[str] = frozenset(),
) -> Proposal:
    """The proposal after this approval, approved or rejected.

    Raises the error that says why it decides nothing.

    ``replaces`` is the content fingerprint of what the decision replaces. ``author`` is who proposed it as
    far as the caller knows. Neither that author, nor the one in the proposal, nor any of the ``agents`` may
    sign. Two callers may both see a nonce as unused: whoever stores it must refuse the second one in its
    transaction.
    """
    _require_signed(approval)
    statement = approval.statement
    public_key = verify(approval.signature, approval.signed_bytes, SEAL_NAMESPACE)
    principal = signers.who_signed(public_key, now)
    if (principal, public_key.fingerprint) != (approval.principal, approval.key_fingerprint):
        raise ApprovalError(
            "bad_signature",
            problem=(
                f"it was made by {principal}, not by {approval.principal} with the key that the approval"
                " names"
            ),
        )
    _refuse_self_approval(principal, proposal, author, agents)
    is_law = statement.decision is Decision.APPROVE
    expected_of = {"replaces": replaces, "text": proposal.summary if is_law else None}
    for field, problem in _WHAT_DIFFERS.items():
        signed = getattr(statement, field)
        expected = expected_of.get(field, getattr(proposal, field, None))
        if signed != expected:
            facts = {"field": field, "signed": signed, "expected": expected}
            raise ApprovalError("wrong_payload", proposal_id=proposal.proposal_id, problem=problem, **facts)
    if statement.nonce in used_nonces:
        raise ApprovalError("approval_replayed", nonce=statement.nonce)
    if utc_text(now) >= statement.expires_at:
        raise ApprovalError("approval_expired", expires_at=statement.expires_at, at=utc_text(now))
    if proposal.state is not ProposalState.PENDING:
        raise ApprovalError("not_pending", proposal_id=proposal.proposal_id, state=proposal.state.value)
    return msgspec.structs.replace(proposal, state=STATE_AFTER[statement.decision])


def whole_visible_text(text: str) -> str:
    """Text that is safe to show to a human, in full: invisible characters are escaped."""
    return normal_string(_UNSEEN.sub(lambda unseen: unseen[0].encode("unicode_escape").decode(), text))


def visible_text(text: str) -> str:
    """Text that is safe to show to a human: invisible characters are escaped, and long text is cut."""
    normal = whole_visible_text(text)
    return normal if len(normal) <= MAX_SUMMARY_CHARS else normal[: MAX_SUMMARY_CHARS - 1] + "…"


def _require_signed(approval: object) -> None:
    if not isinstance(approval, Approval):
        problem = f"{approval!r:.80} is not a signed statement; sign one with: standfast approvals approve"
        raise InvalidValue(what="Approval", problem=problem)


def _refuse_self_approval(principal: str, proposal: Proposal, author: str, agents: AbstractSet[str]) -> None:
    signer = address_of(principal)
    if signer in (address_of(proposal.author), address_of(author)):
        problem = "the author may not decide it"
    elif signer in {address_of(agent) for agent in agents}:
        problem = "an agent may not decide proposals"
    else:
        return
    raise ApprovalError(
        "self_approval", principal=principal, proposal_id=proposal.proposal_id, problem=problem
    )


def address_of(name: str) -> str:
    """The address in a name, in the form in which two names of one person are equal.

    ``Ada Byron <Ada+work@Example.com>``, ``mailto:ada@example.com`` and ``ada@example.com`` are one person. A
    name without an address is only compared without its case.
    """
    found = _ADDRESS.search(name)
    if found is None:
        return name.strip().casefold()
    return f"{found[1].partition('+')[0]}@{found[2].rstrip('.')}".casefold()


def _proposal_id(hashed: dict[str, Any]) -> str:
    return fingerprint(["proposal-id/v1", hashed])


def _require_instant(value: Value, field: str, text: str) -> None:
    try:
        moment = datetime.fromisoformat(text)
        exact = moment.utcoffset() is not None and utc_text(moment) == text
    except (TypeError, ValueError):
        exact = False
    if not exact:
        problem = f"{field} must be written YYYY-MM-DDTHH:MM:SS.ffffffZ, not {text!r:.80}"
        raise InvalidValue(what=type(value).__name__, problem=problem)
