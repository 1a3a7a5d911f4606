"""Proposals that wait for a human: what exactly would be signed, how to sign it, and the signature handed in."""

import shlex
from typing import Final

import msgspec

from standfast.canon import parse
from standfast.errors import StandfastError
from standfast.govern.approvals.approvals import Statement
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE
from standfast.limits import CONSOLE_PAGE_ITEMS
from standfast.server.access.table import Act
from standfast.server.console.rendering import link
from standfast.server.console.visit import Page, Visit
from standfast.server.http.problems import status_of
from standfast.server.operations import governing
from standfast.server.operations.shapes import AskedProposal, AskedProposals, Decide, ToSign

SIGNING_MINUTES: Final = 30


def approvals(visit: Visit) -> Page:
    """The queue, and what was decided."""
    decided = visit.words.get("decided") == "1"
    asked = visit.asked(AskedProposals, decided=decided, limit=CONSOLE_PAGE_ITEMS)
    page = governing.list_proposals(*visit.place, asked)
    return Page(template="approvals.html", facts={"page": page, "decided": decided})


def proposal(visit: Visit) -> Page:
    """One proposal, and what to sign."""
    return _shown(visit, visit.words.get("id", ""))


def decide(visit: Visit) -> Page:
    """Hand in a signature. Whoever does, only the signature counts."""
    proposal_id = visit.form.get("id", "")
    signature = visit.form.get("signature", "").replace("\r\n", "\n").strip() + "\n"
    statement = Statement.from_json(parse(visit.form.get("statement", "")))
    wanted = Decide(statement=statement, signature=signature)
    try:
        governing.decide(*visit.place, proposal_id, wanted)
    except StandfastError as error:
        if not visit.may(Act.DECIDE):
            raise
        return _shown(visit, proposal_id, refused=wanted, problem=error)
    return Page(to=link("proposal", visit.namespace, id=proposal_id))


def _shown(
    visit: Visit, proposal_id: str, refused: Decide | None = None, problem: StandfastError | None = None
) -> Page:
    """The page of a proposal. A statement whose signature was refused stays the one to sign, so that it can be mended."""
    shown = governing.get_proposal(*visit.place, proposal_id, AskedProposal(minutes=SIGNING_MINUTES))
    ways = [_kept(one, refused) for one in shown.to_sign]
    facts = {
        "shown": shown,
        "ways": [(one, command_for(one)) for one in ways],
        "refused": refused,
        "may_decide": visit.may(Act.DECIDE),
        "problem": problem,
        "minutes": SIGNING_MINUTES,
    }
    return Page(template="proposal.html", facts=facts, status=200 if problem is None else status_of(problem))


def _kept(one: ToSign, refused: Decide | None) -> ToSign:
    if refused is None or refused.statement.decision is not one.decision:
        return one
    statement = refused.statement
    return msgspec.structs.replace(one, statement=statement, text=statement.signed_bytes.decode())


def command_for(one: ToSign) -> str:
    """A line for a shell that signs exactly the statement's bytes and prints the signature."""
    sign = f"ssh-keygen -Y sign -n {SEAL_NAMESPACE} -f ~/.ssh/id_ed25519"
    return f"printf %s {shlex.quote(one.text)} | {sign}"
