"""Proposals that wait for a human: what exactly would be signed, how to sign it, and the signature handed in."""

import shlex
from typing import Final

import msgspec

from standfast.canon import parse
from standfast.errors import StandfastError
from standfast.govern.approvals.approvals import Statement
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE
from standfast.limits import CONSOLE_PAGE_ITEMS
from standfast.server.access.permissions import Permission
from standfast.server.console.rendering import link
from standfast.server.console.visit import Page, Visit
from standfast.server.edge.problems import status_of
from standfast.server.operations import governance_operations
from standfast.server.operations.schemas import DecisionBody, ProposalQuery, ProposalsQuery, StatementToSign

SIGNING_MINUTES: Final = 30


def approvals(visit: Visit) -> Page:
    """The queue, and what was decided."""
    decided = visit.words.get("decided") == "1"
    asked = visit.asked(ProposalsQuery, decided=decided, limit=CONSOLE_PAGE_ITEMS)
    page = governance_operations.list_proposals(*visit.place, asked)
    return Page(template="approvals.html", facts={"page": page, "decided": decided})


def proposal(visit: Visit) -> Page:
    """One proposal, and what to sign."""
    return _shown(visit, visit.words.get("id", ""))


def decide(visit: Visit) -> Page:
    """Hand in a signature. Whoever does, only the signature counts."""
    proposal_id = visit.form.get("id", "")
    signature = visit.form.get("signature", "").replace("\r\n", "\n").strip() + "\n"
    statement = Statement.from_json(parse(visit.form.get("statement", "")))
    wanted = DecisionBody(statement=statement, signature=signature)
    try:
        governance_operations.decide(*visit.place, proposal_id, wanted)
    except StandfastError as error:
        if not visit.may(Permission.DECIDE):
            raise
        return _shown(visit, proposal_id, refused=wanted, problem=error)
    return Page(to=link("proposal", visit.namespace, id=proposal_id))


def _shown(
    visit: Visit, proposal_id: str, refused: DecisionBody | None = None, problem: StandfastError | None = None
) -> Page:
    """The page of a proposal. A statement whose signature was refused stays the one to sign, so that it can be mended."""
    shown = governance_operations.get_proposal(
        *visit.place, proposal_id, ProposalQuery(minutes=SIGNING_MINUTES)
    )
    ways = [_kept(one, refused) for one in shown.to_sign]
    facts = {
        "shown": shown,
        "ways": [(one, command_for(one)) for one in ways],
        "refused": refused,
        "may_decide": visit.may(Permission.DECIDE),
        "problem": problem,
        "minutes": SIGNING_MINUTES,
    }
    return Page(template="proposal.html", facts=facts, status=200 if problem is None else status_of(problem))


def _kept(one: StatementToSign, refused: DecisionBody | None) -> StatementToSign:
    if refused is None or refused.statement.decision is not one.decision:
        return one
    statement = refused.statement
    return msgspec.structs.replace(one, statement=statement, text=statement.signed_bytes.decode())


def command_for(one: StatementToSign) -> str:
    """A line for a shell that signs exactly the statement's bytes and prints the signature."""
    sign = f"ssh-keygen -Y sign -n {SEAL_NAMESPACE} -f ~/.ssh/id_ed25519"
    return f"printf %s {shlex.quote(one.text)} | {sign}"
