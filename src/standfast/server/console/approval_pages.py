"""The pages about proposals: the queue, what exactly to sign, and the signature that decides some."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from standfast.errors import InvalidValue, StandfastError
from standfast.govern.approvals.approvals import Decision, Proposal, Statement, list_bytes, signed_list_of
from standfast.govern.approvals.queue import DecidedProposal
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_CONSOLE_SEARCHED_ROWS, MAX_SIGNED_TOGETHER
from standfast.records.canon import canonical_bytes, parse
from standfast.records.scopes import is_within, name_in, scope_in
from standfast.records.vocabulary import Band, Record, Verdict, none_of
from standfast.server.access.permissions import Permission
from standfast.server.console.record_pages import JudgeReason, notes_of
from standfast.server.console.rendering import Page, PageRequest, link, short_name, shortened
from standfast.server.operations import governance_operations
from standfast.server.operations.memory_operations import records_of
from standfast.server.operations.store_schemas import (
    DecisionBody,
    ProposalQuery,
    ProposalResponse,
    ProposalsQuery,
    StatementToSign,
)

SIGNING_MINUTES: Final = 30
_TICKED: Final = "p-"
_LABELS: Final = {
    Decision.APPROVE.value: "Approve as law",
    Decision.ACCEPT.value: "Accept as memory",
    Decision.REJECT.value: "Reject",
}
assert set(_LABELS) == set(Decision)


@dataclass(frozen=True, slots=True)
class ProposalCard:
    """A proposal with the reasons why it waits, and what it would replace: law, or ordinary memory; and what
    other law would end.
    """

    proposal: Proposal
    record: Record | None
    reasons: tuple[JudgeReason, ...] = ()
    law: Record | None = None
    memory: Record | None = None
    ended_law: tuple[Record, ...] = ()

    @property
    def title(self) -> str:
        """Its subject, or else the beginning of its text."""
        if self.record is None:
            return short_name(name_in(self.proposal.key))
        return self.record.subject or shortened(self.record.text)

    @property
    def replaced(self) -> Record | None:
        """What a reader compares the proposal with."""
        return self.law or self.memory


class ApprovalsPageQuery(ProposalsQuery, frozen=True, kw_only=True):
    """The query of the list: filters, and whether all boxes are ticked."""

    scope: str = ""
    author: str = ""
    verdict: Verdict | None = None
    ticked: str = ""

    def fits(self, proposal: Proposal) -> bool:
        """Whether the filters let a proposal through."""
        return (
            (not self.scope or is_within(scope_in(proposal.key), self.scope))
            and (not self.author or proposal.author == self.author)
            and (self.verdict is None or proposal.verdict is self.verdict)
        )

    @property
    def fields(self) -> dict[str, str]:
        """The filters that are set, for links."""
        plain = {name: str(getattr(self, name) or "") for name in ("scope", "author", "verdict")}
        return {name: text for name, text in plain.items() if text}


def approvals(request: PageRequest) -> Page:
    """The waiting proposals, each with its reasons and what it would replace; or the decided ones."""
    query = request.parse_query(
        ApprovalsPageQuery, decided=request.query.get("decided") == "1", limit=CONSOLE_PAGE_ITEMS
    )
    proposals, following = _matching(request, query)
    context = {
        "cards": [_card(request, one.proposal_id) for one in proposals],
        "next": following,
        "decided": query.decided,
        "query": query,
        "fields": query.fields,
        "verdicts": (Verdict.SEAL, Verdict.PARTIAL, Verdict.HOLD),
        "may_decide": request.may(Permission.DECIDE),
        "most": MAX_SIGNED_TOGETHER,
    }
    return Page(template="approvals.html", context=context)


def _matching(request: PageRequest, query: ApprovalsPageQuery) -> tuple[list[Proposal], str | None]:
    """A page of proposals that the filters let through, and the next cursor. It reads a bounded number."""
    found, cursor = list[Proposal](), query.cursor
    for _ in range(MAX_CONSOLE_SEARCHED_ROWS // CONSOLE_PAGE_ITEMS):
        listed = ProposalsQuery(decided=query.decided, limit=CONSOLE_PAGE_ITEMS - len(found), cursor=cursor)
        page = governance_operations.list_proposals(*request.target, listed)
        found += [one for one in page.proposals if query.fits(one)]
        cursor = page.next
        if cursor is None or len(found) >= CONSOLE_PAGE_ITEMS:
            break
    return found, cursor


def _card(request: PageRequest, proposal_id: str) -> ProposalCard:
    memory = request.memory(Permission.GET_PROPOSAL)
    found = memory.approvals.find(proposal_id)
    if isinstance(found, DecidedProposal):
        return ProposalCard(found.proposal, None)
    proposal = found.proposal
    key = f"{Band.PHOENIX}/{proposal.proposal_id}"
    (row,) = memory.store.read(memory.namespace, [key]).values()
    notes = notes_of(memory.store, row.memory_snapshot_id)
    scope, name = scope_in(proposal.key), name_in(proposal.key)
    current = {one.band: one for one in records_of(memory, name, scope=scope)}
    return ProposalCard(
        proposal,
        found.record,
        reasons=notes.reasons_of(key),
        law=current.get(Band.VAULT),
        memory=current.get(Band.LEDGER),
        ended_law=tuple(memory.approvals.ended_law(found)),
    )


def proposal(request: PageRequest) -> Page:
    """One proposal, and what to sign."""
    return _proposal_page(request, request.query.get("id", ""))


def decide(request: PageRequest) -> Page:
    """Submit a signature. Only the signature counts, not who submits it."""
    proposal_id = request.form.get("id", "")
    signature = request.form.get("signature", "").replace("\r\n", "\n").strip() + "\n"
    statement = Statement.from_json(parse(request.form.get("statement", "")))
    body = DecisionBody(statement=statement, signature=signature)
    try:
        governance_operations.decide(*request.target, proposal_id, body)
    except StandfastError as error:
        if not request.may(Permission.DECIDE):
            raise
        return _proposal_page(request, proposal_id, refused=body, problem=error)
    return Page(redirect_to=link("proposal", request.namespace, id=proposal_id))


def sign(request: PageRequest) -> Page:
    """Several proposals in full, and the one signature that decides them."""
    request.memory(Permission.GET_PROPOSAL)
    decision = _decision_of(request.query.get("decision", Decision.APPROVE))
    ids = sorted(name.removeprefix(_TICKED) for name in request.query if name.startswith(_TICKED))
    if len(ids) > MAX_SIGNED_TOGETHER:
        problem = f"at most {MAX_SIGNED_TOGETHER} proposals can be signed together, not {len(ids)}"
        raise InvalidValue(what="proposals", problem=problem)
    query = ProposalQuery(minutes=SIGNING_MINUTES)
    shown = [governance_operations.get_proposal(*request.target, one, query) for one in ids]
    waiting = [one for one in shown if one.record is not None]
    statements = [part.statement for one in waiting for part in one.to_sign if part.decision is decision]
    return _together_page(request, decision, waiting, statements)


def decide_together(request: PageRequest) -> Page:
    """Submit one signature over several statements. What can't be decided does not stop the others."""
    signature = request.form.get("signature", "").replace("\r\n", "\n").strip() + "\n"
    listed = parse(request.form.get("statements", ""))
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_SIGNED_TOGETHER:
        raise InvalidValue(what="statements", problem="send the list of statements that the page showed")
    statements = [Statement.from_json(one) for one in listed]
    together = signed_list_of(statements)
    outcomes: list[tuple[str, str | None]] = []
    left: list[ProposalResponse] = []
    for statement in statements:
        found = governance_operations.get_proposal(*request.target, statement.proposal_id, ProposalQuery())
        body = DecisionBody(statement=statement, signature=signature, signed_list=together)
        try:
            governance_operations.decide(*request.target, statement.proposal_id, body)
        except StandfastError as error:
            if not request.may(Permission.DECIDE):
                raise
            outcomes.append((found.proposal.key, str(error)))
            left.append(found)
        else:
            outcomes.append((found.proposal.key, None))
    if not left:
        return Page(redirect_to=link("approvals", request.namespace, decided=1))
    waiting = [one for one in left if one.record is not None]
    return _together_page(
        request,
        statements[0].decision,
        waiting,
        [
            part.statement
            for one in waiting
            for part in one.to_sign
            if part.decision is statements[0].decision
        ],
        outcomes,
    )


def _together_page(
    request: PageRequest,
    decision: Decision,
    proposals: Sequence[ProposalResponse],
    statements: Sequence[Statement],
    outcomes: Sequence[tuple[str, str | None]] = (),
) -> Page:
    text = list_bytes(signed_list_of(statements)).decode()
    context = {
        "decision": decision.value,
        "labels": _LABELS,
        "cards": [_card(request, one.proposal.proposal_id) for one in proposals],
        "statements": canonical_bytes([one.as_json() for one in statements]).decode(),
        "command": _command(text),
        "outcomes": outcomes,
        "may_decide": request.may(Permission.DECIDE),
        "minutes": SIGNING_MINUTES,
    }
    return Page(template="sign.html", context=context, status=422 if outcomes else 200)


def _decision_of(text: str) -> Decision:
    try:
        return Decision(text)
    except ValueError:
        raise InvalidValue(what="decision", problem=f"it {none_of(text, Decision)}") from None


def _proposal_page(
    request: PageRequest,
    proposal_id: str,
    refused: DecisionBody | None = None,
    problem: StandfastError | None = None,
) -> Page:
    """The page of a proposal. After a refused signature it offers the same statement again."""
    shown = governance_operations.get_proposal(
        *request.target, proposal_id, ProposalQuery(minutes=SIGNING_MINUTES)
    )
    statements = [_same_statement(one, refused) for one in shown.to_sign]
    context = {
        "shown": shown,
        "card": _card(request, shown.proposal.proposal_id),
        "statements": [(one, signing_command(one)) for one in statements],
        "refused": refused,
        "may_decide": request.may(Permission.DECIDE),
        "problem": problem,
        "minutes": SIGNING_MINUTES,
    }
    return Page(template="proposal.html", context=context)


def _same_statement(to_sign: StatementToSign, refused: DecisionBody | None) -> StatementToSign:
    if refused is None or refused.statement.decision is not to_sign.decision:
        return to_sign
    statement = refused.statement
    return msgspec.structs.replace(to_sign, statement=statement, text=statement.signed_bytes.decode())


def signing_command(to_sign: StatementToSign) -> str:
    """A shell command that signs exactly the statement's bytes and prints the signature."""
    return _command(to_sign.text)


def _command(text: str) -> str:
    sign_it = f"ssh-keygen -Y sign -n {SEAL_NAMESPACE} -f ~/.ssh/id_ed25519"
    return f"printf %s {shlex.quote(text)} | {sign_it}"
