"""The pages about proposals: the queue, what exactly to sign, and the signature that decides."""

import shlex
from typing import Final

import msgspec

from standfast.canon import parse
from standfast.errors import StandfastError
from standfast.govern.approvals.approvals import Statement
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE
from standfast.limits import CONSOLE_PAGE_ITEMS
from standfast.server.access.permissions import Permission
from standfast.server.console.page_request import Page, PageRequest
from standfast.server.console.rendering import link
from standfast.server.edge.problems import status_of
from standfast.server.operations import governance_operations
from standfast.server.operations.schemas import DecisionBody, ProposalQuery, ProposalsQuery, StatementToSign

SIGNING_MINUTES: Final = 30


def approvals(request: PageRequest) -> Page:
    """The waiting proposals, or the decided ones."""
    decided = request.query.get("decided") == "1"
    query = request.parse_query(ProposalsQuery, decided=decided, limit=CONSOLE_PAGE_ITEMS)
    page = governance_operations.list_proposals(*request.target, query)
    return Page(template="approvals.html", context={"page": page, "decided": decided})


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


def _proposal_page(
    request: PageRequest,
    proposal_id: str,
    refused: DecisionBody | None = None,
    problem: StandfastError | None = None,
) -> Page:
    """The page of a proposal. After a refused signature it offers the same statement again, to be signed correctly."""
    shown = governance_operations.get_proposal(
        *request.target, proposal_id, ProposalQuery(minutes=SIGNING_MINUTES)
    )
    statements = [_same_statement(one, refused) for one in shown.to_sign]
    context = {
        "shown": shown,
        "statements": [(one, signing_command(one)) for one in statements],
        "refused": refused,
        "may_decide": request.may(Permission.DECIDE),
        "problem": problem,
        "minutes": SIGNING_MINUTES,
    }
    status = 200 if problem is None else status_of(problem)
    return Page(template="proposal.html", context=context, status=status)


def _same_statement(to_sign: StatementToSign, refused: DecisionBody | None) -> StatementToSign:
    if refused is None or refused.statement.decision is not to_sign.decision:
        return to_sign
    statement = refused.statement
    return msgspec.structs.replace(to_sign, statement=statement, text=statement.signed_bytes.decode())


def signing_command(to_sign: StatementToSign) -> str:
    """A shell command that signs exactly the statement's bytes and prints the signature."""
    sign = f"ssh-keygen -Y sign -n {SEAL_NAMESPACE} -f ~/.ssh/id_ed25519"
    return f"printf %s {shlex.quote(to_sign.text)} | {sign}"
