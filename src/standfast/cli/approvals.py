"""``standfast approvals``: what waits for a human, and the signature that decides it."""

import getpass
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Column, Table

from standfast.cli.options import memory, namespace_option, settings, store_option
from standfast.cli.output import json_option, print_json
from standfast.errors import NotPending
from standfast.govern.approvals.approvals import Approval, Decision, Proposal, Statement, shown
from standfast.govern.approvals.queue import Decided, Waiting
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE, load_private_key, sign, sign_with_ssh_keygen
from standfast.memory import Memory
from standfast.vocabulary import Band
from standfast.wiring import signers_of

_ID_CHARS = 12
_ERASED = "(erased, because it was rejected)"


@click.group("approvals")
def command() -> None:
    """What waits for a human's signature. AI proposes, humans seal."""


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also what was decided already.")
@store_option
@namespace_option
@json_option
def list_(everything: bool, store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Proposals that wait, in the order of their ids."""
    with memory(store_url, namespace) as opened:
        queue = opened.approvals()
        proposals = [one.proposal for one in queue.waiting()]
        proposals += [one.proposal for one in queue.decided()] if everything else []
    if as_json:
        print_json({"proposals": [proposal.as_json() for proposal in proposals]})
    elif not proposals:
        click.echo("Nothing waits.")
    else:
        table = Table(Column("id", no_wrap=True), "state", "what", "where", "verdict", "by", "since")
        for one in proposals:
            where = (one.summary or _ERASED)[:60], one.key, one.verdict, one.author, one.proposed_at[:19]
            table.add_row(one.proposal_id[:_ID_CHARS], one.state, *where)
        Console().print(table)


@command.command("show")
@click.argument("proposal_id")
@store_option
@namespace_option
@json_option
def show(proposal_id: str, store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """All of one proposal: the content, the judge's findings, what it would replace, and what would be signed.

    PROPOSAL_ID is its id, or the first six digits of it or more.
    """
    with memory(store_url, namespace) as opened:
        found = opened.approvals().find(proposal_id)
        replaces = _replaced(opened, found)
    if as_json:
        print_json({**found.as_json(), "replaces": replaces})
    else:
        _print(found, replaces)


def _replaced(opened: Memory, found: Waiting | Decided) -> str | None:
    """The law that stands where the proposal wants to be."""
    name = found.proposal.key.partition("/")[2]
    laws = [law.text for law in opened.records(band=Band.VAULT) if law.memory_id == name]
    return laws[0] if laws and isinstance(found, Waiting) else None


def _print(found: Waiting | Decided, replaces: str | None) -> None:
    proposal: Proposal = found.proposal
    click.echo(f"Proposal {proposal.proposal_id}: {proposal.state}")
    click.echo(
        f"  {proposal.operation} of {proposal.namespace}/{proposal.key}, by {proposal.author}, {proposal.proposed_at}"
    )
    click.echo(
        f"  verdict {proposal.verdict}, policy set {proposal.policy_set_id}, snapshot {proposal.memory_snapshot_id}"
    )
    click.echo(f"\n{proposal.summary or _ERASED}\n")
    if replaces is not None:
        click.echo(f"It would replace this law:\n\n{shown(replaces)}\n")
    if isinstance(found, Decided):
        click.echo(
            f"  decided {found.decided_at} by {found.approval.principal} ({found.approval.key_fingerprint})"
        )
        return
    for check in found.record.evidence.floor_checks if found.record.evidence else ():
        mark = "✓" if check.passed else "✗"
        click.echo(f"  {mark} {check.floor} {check.score:g}{f': {check.reason}' if check.reason else ''}")
    click.echo(f"\nTo decide it: standfast approvals approve {proposal.proposal_id[:_ID_CHARS]} --key FILE")


def _decide(
    decision: Decision,
    proposal_id: str,
    *,
    key: str | None,
    agent_key: str | None,
    minutes: int,
    yes: bool,
    store_url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    with memory(store_url, namespace) as opened:
        queue = opened.approvals()
        found = queue.find(proposal_id)
        if isinstance(found, Decided):
            raise NotPending(proposal_id=found.proposal.proposal_id, state=found.proposal.state.value)
        if not as_json:
            _print(found, _replaced(opened, found))
        if not yes:
            click.confirm(f"Sign to {decision} this?", abort=True, err=True)
        clock, ids = opened.store.clock, opened.store.ids
        statement = Statement.about(
            found.proposal,
            decision=decision,
            expires_at=clock.now() + timedelta(minutes=minutes),
            nonce=ids.new_id(),
        )
        signers = signers_of(settings())
        armored = _signed(statement, key, agent_key)
        approval = Approval.of(statement, armored, signers=signers, at=clock.now())
        receipt = queue.decide(approval, signers=signers)
    if as_json:
        print_json({"approval": approval.as_json(), "receipt": receipt.as_json()})
    else:
        done = "sealed into VAULT" if decision is Decision.APPROVE else "rejected, and its content erased"
        click.echo(
            f"{found.proposal.key} is {done} by {approval.principal}; ledger entry {receipt.ledger_seq}."
        )


def _signed(statement: Statement, key: str | None, agent_key: str | None) -> str:
    if agent_key is not None:
        return sign_with_ssh_keygen(agent_key, statement.signed_bytes, SEAL_NAMESPACE, interactive=True)
    path = Path(key or os.path.expanduser("~/.ssh/id_ed25519"))  # noqa: PTH111  # A user's own word for a path.
    try:
        content = path.read_bytes()
    except OSError as error:
        raise click.UsageError(
            f"{path} can't be read ({error.strerror}); give --key or --agent-key"
        ) from None
    private = load_private_key(content, lambda: getpass.getpass(f"Passphrase of {path}: "))
    return sign(private, statement.signed_bytes, SEAL_NAMESPACE)


def _deciding(decision: Decision, text: str) -> click.Command:
    """The command that decides one way; the two differ in the word that is signed."""

    @click.argument("proposal_id")
    @click.option(
        "--key", type=click.Path(), help="Private key file (Ed25519); by default ~/.ssh/id_ed25519."
    )
    @click.option(
        "--agent-key", type=click.Path(), help="Public key file of a key in ssh-agent or in hardware."
    )
    @click.option(
        "--minutes", type=click.IntRange(1, 1_440), default=10, help="How long the signature is good. [10]"
    )
    @click.option("--yes", is_flag=True, help="Do not ask before signing.")
    @store_option
    @namespace_option
    @json_option
    def decide(proposal_id: str, **options: Any) -> None:
        _decide(decision, proposal_id, **options)

    return click.command(decision.value, help=text)(decide)


command.add_command(
    _deciding(
        Decision.APPROVE,
        "Seal a proposal into VAULT: sign what is shown with an SSH key, check the signature, record it.",
    )
)
command.add_command(
    _deciding(
        Decision.REJECT,
        "Refuse a proposal by signature; its content is erased, and recognised if it comes back.",
    )
)
