"""``standfast judge``, ``approvals``, ``patterns`` and ``refusals``."""

import getpass
import os
from datetime import timedelta
from difflib import unified_diff
from pathlib import Path
from typing import Final, Self

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

from standfast.cli.options import (
    MemoryTarget,
    load_settings,
    memory_options,
    namespace_option,
    opened_memory,
    scope_option,
    store_option,
)
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.cli.request_options import source_of
from standfast.errors import ApprovalError, StandfastError
from standfast.govern.admission import lenient_judgement
from standfast.govern.approvals.approvals import (
    Approval,
    Decision,
    Proposal,
    Statement,
    list_bytes,
    signed_list_of,
    whole_visible_text,
)
from standfast.govern.approvals.queue import DecidedProposal, WaitingProposal
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE, load_private_key, sign, sign_with_ssh_keygen
from standfast.govern.authority import Role
from standfast.govern.judge import Claim, Judge
from standfast.memory import Memory
from standfast.records.canon import canonical_bytes
from standfast.records.origins import origin_of, origin_table
from standfast.records.scopes import ALL_SCOPES, name_in
from standfast.records.vocabulary import Band, Receipt, Record, Verdict, normal_tags
from standfast.wiring import floors_of, signers_of

_ID_CHARS: Final = 12
_DONE: Final = {
    Decision.APPROVE: "is law now, signed",
    Decision.ACCEPT: "is ordinary memory now, signed",
    Decision.REJECT: "is rejected and erased, signed",
}
assert set(_DONE) == set(Decision)
_ERASED: Final = "(erased, because it was rejected)"


@click.group("approvals")
def approvals_command() -> None:
    """List, show, approve, accept and reject proposals. A person's SSH signature decides."""


@approvals_command.command("list")
@click.option("--all", "everything", is_flag=True, help="Include proposals that are decided.")
@memory_options
def list_proposals(everything: bool, target: MemoryTarget) -> None:
    """List the waiting proposals, ordered by id."""
    with target.opened() as memory:
        queue = memory.approvals
        proposals = [waiting.proposal for waiting in queue.waiting()]
        proposals += [decided.proposal for decided in queue.decided()] if everything else []
    if target.as_json:
        print_json({"proposals": [proposal.as_json() for proposal in proposals]})
    elif not proposals:
        click.echo("No proposal is waiting.")
    else:
        # Nothing is cut off in a narrow terminal: the key is what law is named by.
        folded = (Column(name, overflow="fold") for name in ("state", "text", "key", "verdict", "author"))
        table = Table(Column("id", no_wrap=True), *folded, Column("since", no_wrap=True))
        for proposal in proposals:
            table.add_row(
                proposal.proposal_id[:_ID_CHARS],
                proposal.state,
                (proposal.summary or _ERASED)[:60],
                proposal.key,
                Verdict(proposal.verdict).label,
                proposal.author,
                proposal.proposed_at[:10],
            )
        Console().print(table)


@approvals_command.command("show")
@click.argument("proposal_id")
@memory_options
def show_proposal(proposal_id: str, target: MemoryTarget) -> None:
    """Show one proposal: the content, the judge's findings, and the law it would replace.

    PROPOSAL_ID is the id, or its first six digits or more.
    """
    with target.opened() as memory:
        found = memory.approvals.find(proposal_id)
        replaced = _Replaced.of(memory, found)
    if target.as_json:
        law, ordinary = (replaced.texts.get(decision) for decision in (Decision.APPROVE, Decision.ACCEPT))
        shown = {"replaces": law, "replaces_memory": ordinary, "ends_law": replaced.ended_law}
        print_json({**found.as_json(), **shown})
    else:
        _print_proposal(found, replaced)


class _Replaced(msgspec.Struct, frozen=True):
    """What a waiting proposal would change: the texts that it replaces, by the decision that replaces them,
    and the texts of law that ends if it is approved.
    """

    texts: dict[Decision, str] = {}
    ended_law: list[str] = []

    @classmethod
    def of(cls, memory: Memory, found: WaitingProposal | DecidedProposal) -> Self:
        if isinstance(found, DecidedProposal):
            return cls()
        records = {decision: memory.approvals.replaced(found.proposal, decision) for decision in Decision}
        texts = {decision: record.text for decision, record in records.items() if record is not None}
        return cls(texts, [law.text for law in memory.approvals.ended_law(found)])


def _print_proposal(found: WaitingProposal | DecidedProposal, replaced: _Replaced) -> None:
    """Print why it waits first, then all of what a signature covers."""
    proposal: Proposal = found.proposal
    where = f"{proposal.namespace}/{proposal.key}"
    click.echo(f"Proposal {proposal.proposal_id}: {proposal.state}")
    if isinstance(found, WaitingProposal):
        _print_findings(found.record)
    click.echo(f"  {proposal.operation} of {where}, by {proposal.author}, {proposal.proposed_at}")
    click.echo(
        f"  {Verdict(proposal.verdict).label} ({proposal.verdict}), policy set {proposal.policy_set_id}, "
        f"snapshot {proposal.memory_snapshot_id}"
    )
    if isinstance(found, DecidedProposal):
        signer = f"{found.approval.principal} ({found.approval.key_fingerprint})"
        click.echo(f"\n{proposal.summary or _ERASED}\n\n  decided {found.decided_at} by {signer}")
        return
    _print_content(found.record, replaced)
    click.echo(
        f"\nTo decide: standfast approvals approve|accept|reject {proposal.proposal_id[:_ID_CHARS]} --key"
        " FILE"
    )


def _print_findings(record: Record) -> None:
    """Print what the judge found: the failed floors in words, then those that passed."""
    checks = record.evidence.floor_checks if record.evidence else ()
    for check in sorted(checks, key=lambda check: check.passed):
        reason = f": {check.reason}" if check.reason else ""
        click.echo(f"  {'✓' if check.passed else '✗'} {check.floor} {check.score:g}{reason}")


def _print_content(record: Record, replaced: _Replaced) -> None:
    """Print the whole content of a record, and how it differs from what it would replace."""
    text = whole_visible_text(record.text)
    click.echo(f"\n{text}\n")
    fields = {
        "scope": record.scope,
        "subject": record.subject,
        "tags": record.tags,
        "source": record.source,
        "origin": record.origin.value,
        "refs": record.refs,
        "metadata": record.metadata,
        "session": record.session,
        "position": record.position,
        "speaker": record.speaker,
        "valid from": record.valid_from,
        "valid until": record.valid_until,
        "supersedes": record.supersedes,
    }
    for name, value in fields.items():
        if value not in (None, (), {}):
            plain = value if isinstance(value, str) else canonical_bytes(msgspec.to_builtins(value)).decode()
            click.echo(f"  {name}: {whole_visible_text(plain)}")
    for law in replaced.ended_law:
        click.echo(f"\nApproved, it would end this law:\n\n{whole_visible_text(law)}")
    for decision, was in replaced.texts.items():
        old, name = whole_visible_text(was), "law" if decision is Decision.APPROVE else "memory"
        how = "Approved" if decision is Decision.APPROVE else "Accepted as ordinary memory"
        click.echo(f"\n{how}, it would replace this {name}:\n\n{old}\n")
        for line in unified_diff(old.splitlines(), text.splitlines(), name, "proposal", lineterm=""):
            click.echo(f"  {line}")


class SigningOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``approve`` and ``reject``, as click passes them."""

    key: str | None
    agent_key: str | None
    minutes: int
    yes: bool
    store_url: str | None
    namespace: str | None
    as_json: bool

    def sign(self, content: bytes) -> str:
        """Sign with ssh-agent or a key file; returns the armored signature."""
        if self.agent_key is not None:
            return sign_with_ssh_keygen(self.agent_key, content, SEAL_NAMESPACE, interactive=True)
        path = Path(self.key or os.path.expanduser("~/.ssh/id_ed25519"))  # noqa: PTH111  # The user's own path.
        try:
            key = path.read_bytes()
        except OSError as error:
            raise click.UsageError(
                f"can't read {path} ({error.strerror}); give --key or --agent-key"
            ) from None
        private = load_private_key(key, lambda: getpass.getpass(f"Passphrase of {path}: "))
        return sign(private, content, SEAL_NAMESPACE)


def _decide(decision: Decision, proposal_ids: tuple[str, ...], options: SigningOptions) -> None:
    """Show every proposal in full, sign once, and decide each. One that fails does not stop the others."""
    decided: list[tuple[Proposal, Receipt | StandfastError]] = []
    with opened_memory(options.store_url, options.namespace) as memory:
        queue = memory.approvals
        waiting = _to_decide(memory, proposal_ids, options)
        if not options.yes:
            what = "this" if len(waiting) == 1 else f"these {len(waiting)} with one signature"
            click.confirm(f"Sign to {decision} {what}?", abort=True, err=True)
        clock = memory.store.clock
        statements = [
            Statement.about(
                found.proposal,
                decision=decision,
                expires_at=clock.now() + timedelta(minutes=options.minutes),
                nonce=memory.store.ids.new_id(),
                replaces=queue.replaces(found.proposal, decision),
            )
            for found in waiting
        ]
        together = signed_list_of(statements) if len(statements) > 1 else ()
        signature = options.sign(list_bytes(together) if together else statements[0].signed_bytes)
        signers = signers_of(load_settings())
        approvals = [
            Approval.of(one, signature, signers=signers, at=clock.now(), signed_list=together)
            for one in statements
        ]
        for found, approval in zip(waiting, approvals, strict=True):
            try:
                decided.append((found.proposal, queue.decide(approval, signers=signers)))
            except StandfastError as error:
                if len(waiting) == 1:
                    raise
                decided.append((found.proposal, error))
    _print_decisions(decision, approvals, decided, as_json=options.as_json)


def _to_decide(
    memory: Memory, proposal_ids: tuple[str, ...], options: SigningOptions
) -> list[WaitingProposal]:
    """The waiting proposals with these ids, each once and shown in full."""
    waiting: dict[str, WaitingProposal] = {}
    for proposal_id in proposal_ids:
        found = memory.approvals.find(proposal_id)
        if isinstance(found, DecidedProposal):
            raise ApprovalError(
                "not_pending", proposal_id=found.proposal.proposal_id, state=found.proposal.state.value
            )
        if found.proposal.proposal_id not in waiting and not options.as_json:
            _print_proposal(found, _Replaced.of(memory, found))
        waiting[found.proposal.proposal_id] = found
    return list(waiting.values())


def _print_decisions(
    decision: Decision,
    approvals: list[Approval],
    decided: list[tuple[Proposal, Receipt | StandfastError]],
    *,
    as_json: bool,
) -> None:
    results = [
        {"approval": approval.as_json()}
        | (
            {"problem": str(outcome)}
            if isinstance(outcome, StandfastError)
            else {"receipt": outcome.as_json()}
        )
        for approval, (_, outcome) in zip(approvals, decided, strict=True)
    ]
    if as_json:
        print_json(results[0] if len(results) == 1 else {"decisions": results})
    else:
        for approval, (proposal, outcome) in zip(approvals, decided, strict=True):
            if isinstance(outcome, StandfastError):
                click.echo(f"{name_in(proposal.key)} was not decided: {outcome}", err=True)
            else:
                done = f"{_DONE[decision]} by {approval.principal}"
                click.echo(f"{name_in(proposal.key)} {done}; ledger entry {outcome.ledger_seq}.")
    if any(isinstance(outcome, StandfastError) for _, outcome in decided):
        raise click.exceptions.Exit(1)


def _decision_command(decision: Decision, text: str) -> click.Command:
    """The command for one decision; both take the same options."""

    @click.argument("proposal_ids", nargs=-1, required=True, metavar="PROPOSAL_ID...")
    @click.option("--key", type=click.Path(), help="Private key file (Ed25519). [~/.ssh/id_ed25519]")
    @click.option(
        "--agent-key", type=click.Path(), help="Public key file of a key in ssh-agent or in hardware."
    )
    @click.option(
        "--minutes", type=click.IntRange(1, 1_440), default=10, help="How long the signature is valid."
    )
    @click.option("--yes", is_flag=True, help="Do not ask before signing.")
    @store_option
    @namespace_option
    @json_option
    def decide(proposal_ids: tuple[str, ...], **options: str | int | None) -> None:
        _decide(decision, proposal_ids, SigningOptions(**options))  # type: ignore[arg-type]  # click checked the types.

    return click.command(decision.value, help=text)(decide)


approvals_command.add_command(
    _decision_command(
        Decision.APPROVE,
        "Make proposals law: sign them with an SSH key, verify the signature, record both. "
        "Several are signed by one signature over the list of them.",
    )
)
approvals_command.add_command(
    _decision_command(
        Decision.ACCEPT,
        "Accept proposals as ordinary memory, not as law: sign them, verify the signature, record both.",
    )
)
approvals_command.add_command(
    _decision_command(
        Decision.REJECT,
        "Reject proposals by signature. Their content is erased and recognised if it comes back.",
    )
)


@click.command("judge")
@click.argument("text")
@click.option("--subject", help="What the text is about.")
@click.option("--source", help="Where it comes from, as KIND:ID; default: the agent's own word.")
@click.option("--tag", "tags", multiple=True, help="A tag; repeatable.")
@scope_option
@click.option("--propose", is_flag=True, help="Judge it as a proposal of law.")
@click.option("--as-human", is_flag=True, help="The text is your own, not an agent's.")
@json_option
def judge_command(
    text: str,
    *,
    subject: str | None,
    source: str | None,
    tags: tuple[str, ...],
    scope: str,
    propose: bool,
    as_human: bool,
    as_json: bool,
) -> None:
    """Say what would happen to TEXT and why, by the floors of the settings. Nothing is stored.

    Memory is not read, so what is known or sealed already plays no part. Exit code 1 if it would be rejected.
    """
    named = source_of(source or "agent:cli", name="--source")
    settings = load_settings()
    record = Record(
        memory_id=subject or "judged",
        text=text,
        subject=subject,
        source=named,
        origin=origin_of(named, origin_table(settings.origins)),
        scope=scope,
        tags=normal_tags(tags),
        band=Band.PHOENIX if propose else Band.LEDGER,
    )
    judge = Judge(floors_of(settings))
    claim = Claim(record=record, role=Role.HUMAN if as_human else Role.AGENT)
    judgement = judge.judge(claim)
    if not settings.strict:
        judgement = lenient_judgement(judgement, claim)
    if as_json:
        print_json(judgement.as_json())
    else:
        click.echo(judgement.verdict.label)
        for reason in judgement.reasons:
            click.echo(f"  {reason.removeprefix(f'{judgement.verdict.label}: ')}")
        for check in judgement.floor_checks:
            reason = f": {check.reason}" if check.reason else ""
            click.echo(f"  {'✓' if check.passed else '✗'} {check.floor} {check.score:g}{reason}")
        if failed := [check.floor for check in judgement.floor_checks if not check.passed]:
            click.echo(
                f"If that is wrong here: {failed[0]} can be set, switched off or given an allow-list in"
                f" standfast.toml, [floors.{failed[0]}]; see docs/judge.md."
            )
    if judgement.verdict is Verdict.VOID:
        raise SystemExit(ANSWER_IS_NO)


@click.group("patterns")
def patterns_command() -> None:
    """List and lift patterns of attacks. While one applies, texts from its source need another source."""


@patterns_command.command("list")
@memory_options
def list_patterns(target: MemoryTarget) -> None:
    """List the patterns that apply now, ordered by source. Each fades by itself."""
    with target.opened() as memory:
        patterns = memory.patterns()
    if target.as_json:
        print_json({"patterns": [pattern.as_json() for pattern in patterns]})
        return
    for pattern in patterns:
        click.echo(
            f"{pattern.source} in {pattern.scope}: injections rejected since {pattern.first_day}; fades on"
            f" {pattern.fades_on}"
        )
    if not patterns:
        click.echo("No pattern applies.")


@patterns_command.command("lift")
@click.argument("source")
@click.option("--reason", required=True, help="Why; recorded in the ledger.")
@click.option("--scope", default=ALL_SCOPES, help="Lift it in this scope with all below it; * for all.")
@memory_options
def lift_pattern(source: str, *, reason: str, scope: str, target: MemoryTarget) -> None:
    """Lift the pattern of SOURCE (as `patterns list` prints it, such as web:example.com) before it fades."""
    with target.opened() as memory:
        receipt = memory.lift_pattern(source, reason=reason, by=getpass.getuser(), scope=scope)
    if target.as_json:
        print_json({"source": source, "receipt": receipt.as_json()})
    else:
        click.echo(f"{source}: lifted; ledger entry {receipt.ledger_seq}")


@click.group("refusals")
def refusals_command() -> None:
    """List and lift what is remembered as rejected: by a human, or as an attack of one source."""


@refusals_command.command("list")
@click.option("--scope", default=ALL_SCOPES, help="Only in this scope with all below it; * for all.")
@memory_options
def list_refusals(scope: str, target: MemoryTarget) -> None:
    """List the refusals that apply now, ordered by scope. Each fades after 90 days."""
    with target.opened() as memory:
        refusals = memory.refusals(scope=scope)
    if target.as_json:
        print_json({"refusals": [refusal.as_json() for refusal in refusals]})
        return
    for refusal in refusals:
        what = f"an attack from {refusal.source}" if refusal.source else "rejected by a human"
        click.echo(f"{refusal.refusal_id} in {refusal.scope}: {what}; fades on {refusal.fades_on}")
    if not refusals:
        click.echo("No refusal is remembered.")


@refusals_command.command("lift")
@click.argument("refusal")
@click.option("--reason", required=True, help="Why; recorded in the ledger.")
@click.option("--scope", default=ALL_SCOPES, help="Lift it in this scope with all below it; * for all.")
@memory_options
def lift_refusal(refusal: str, *, reason: str, scope: str, target: MemoryTarget) -> None:
    """Lift REFUSAL (an id from `refusals list`, or a source such as web:example.com) before it fades."""
    with target.opened() as memory:
        receipt = memory.lift_refusal(refusal, reason=reason, by=getpass.getuser(), scope=scope)
    if target.as_json:
        print_json({"refusal": refusal, "receipt": receipt.as_json()})
    else:
        click.echo(f"{refusal}: lifted; ledger entry {receipt.ledger_seq}")
