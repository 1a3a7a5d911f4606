"""``standfast remember``, ``forget``, ``history``, ``diff``, ``at``, ``add``, ``extract``, ``session(s)``."""

from typing import Any, BinaryIO

import click

from standfast.cli.options import (
    WORKFLOW,
    MemoryTarget,
    listed_scope_option,
    memory_options,
    scope_option,
)
from standfast.cli.output import ANSWER_IS_NO, counted, print_json
from standfast.cli.request_options import request_options
from standfast.errors import InvalidValue, NotCanonical
from standfast.govern.authority import Role
from standfast.memory import AddedMessages
from standfast.memory.erasing import ErasurePlan
from standfast.memory.erasure_targets import ErasureTarget
from standfast.records.canon import parse
from standfast.records.filters import Filter
from standfast.records.outcomes import sentence_of
from standfast.records.requests import RECORD_BANDS, AddRequest, ForgetRequest, RememberRequest
from standfast.records.scopes import SHARED, name_in, prefix_in, scope_in
from standfast.records.vocabulary import Band, Receipt, Record, Remembered, Verdict
from standfast.store.stored_records import HistoryEntry

_ID_CHARS = 12


@click.command("remember")
@click.argument("text")
@request_options(RememberRequest, but=("text",))
@click.option("--as-human", is_flag=True, help="The text is your own, not an agent's.")
@click.option("--run-id", help="Idempotency key: repeating the command with it has one effect.")
@memory_options
def remember_command(
    text: str, *, fields: dict[str, Any], as_human: bool, run_id: str | None, target: MemoryTarget
) -> None:
    """Judge TEXT and store it if accepted; exit code 1 if it is rejected. A missing store is created."""
    if as_human:
        fields["role"] = Role.HUMAN
    RememberRequest.of(text, **fields)
    with target.opened(create=True) as memory:
        remembered = memory.remember(text, **fields, workflow=WORKFLOW, run_id=run_id)
    if target.as_json:
        print_json({"receipt": None, **remembered.as_json()})
    else:
        _print_remembered(remembered, remembered.receipt)
    if remembered.verdict is Verdict.VOID:
        raise SystemExit(ANSWER_IS_NO)


def _print_remembered(remembered: Remembered, receipt: Receipt | None) -> None:
    # "rejected → rejected" would say the same word twice.
    bands = [band.label for band in remembered.bands if band is not Band.VOID]
    where = f" → {', '.join(bands)}" if bands else ""
    label = remembered.verdict.label if remembered.known is None else "known already"
    click.echo(f"{label}: {remembered.memory_id}{where}")
    for reason in remembered.reasons:
        click.echo(f"  {sentence_of(reason)}")
    for name, instant in (("from", remembered.valid_from), ("until", remembered.valid_until)):
        if instant is not None:
            click.echo(f"  holds {name} {instant[:10]} by its own words; --valid-{name} says otherwise")
    for name, ids in (
        ("says something else", remembered.earlier),
        ("has nearly the same text", remembered.similar),
    ):
        if ids:
            click.echo(f"  {name}: {', '.join(ids)}; if it is replaced, say so with --supersedes")
    if remembered.verdict is Verdict.VOID:
        click.echo(
            "  next: mend the text and remember it again; standfast judge TEXT shows every check without"
            " storing"
        )
    if remembered.proposal_id is not None:
        click.echo(f"  next: standfast approvals show {remembered.proposal_id[:_ID_CHARS]}")
    if receipt is not None:
        click.echo(f"  snapshot {receipt.memory_snapshot_id}, ledger entry {receipt.ledger_seq}")


@click.command("forget")
@click.argument("subject", required=False)
@request_options(ForgetRequest, but=("subject",))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. Erased content can't be restored.")
@click.option("--run-id", help="Idempotency key: repeating the command with it has one effect.")
@memory_options
def forget_command(
    subject: str | None, *, fields: dict[str, Any], yes: bool, run_id: str | None, target: MemoryTarget
) -> None:
    """Erase SUBJECT (or a memory id), all of a scope, or all from a source, from every snapshot.

    Any number of records is erased, in several commits if needed; a command that was interrupted is finished
    by the next one. Law stays: only a person can end it.
    """
    request = ForgetRequest.of(subject, **fields)
    what, dry_run = request.name or str(ErasureTarget.of(request)), request.rehearse
    if not (yes or dry_run):
        click.confirm(f"Erase everything stored about {what}?", abort=True, err=True)
    with target.opened() as memory:
        answer = memory.forget(subject, **fields, workflow=WORKFLOW, run_id=run_id)
    if isinstance(answer, ErasurePlan):
        _print_plan(what, answer, as_json=target.as_json)
    elif target.as_json:
        numbers = {name: getattr(answer, name) for name in ("records", "rows", "traces", "law")}
        print_json({"subject": subject, **numbers, "receipt": answer.receipt.as_json()})
    else:
        count = (
            ""
            if request.name
            else f"; {counted(answer.records, 'record')} in {counted(answer.commits, 'commit')}"
        )
        nothing = (
            f"nothing is in the scope {request.scope or SHARED} by this subject or id; --scope names another"
            if request.name
            else "nothing was there"
        )
        outcome = f"forgotten{count}" if answer.rows else nothing
        click.echo(
            f"{what}: {outcome}; snapshot {answer.memory_snapshot_id}, ledger entry {answer.ledger_seq}"
        )
        for key in answer.law:
            click.echo(f"  stays, because it is law: {key}")


def _print_plan(what: str, plan: ErasurePlan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan.as_json())
        return
    click.echo(
        f"{what}: {counted(plan.records, 'record')} ({counted(plan.rows, 'row')}) and"
        f" {counted(plan.traces, 'trace')} would be erased"
    )
    for key in plan.law:
        click.echo(f"  stays, because it is law: {key}")


@click.command("history")
@click.argument("subject")
@scope_option
@memory_options
def history_command(subject: str, *, scope: str, target: MemoryTarget) -> None:
    """List every version of SUBJECT (or a memory id), oldest first. Exit code 1 if there is none."""
    with target.opened() as memory:
        versions = memory.history(subject, scope=scope)
    if target.as_json:
        print_json({"subject": subject, "versions": [_version_json(version) for version in versions]})
    else:
        lasting = {(one.memory_snapshot_id, _text(one.record)) for one in versions if _is_lasting(one.key)}
        for version in versions:
            if _is_lasting(version.key) or (version.memory_snapshot_id, _text(version.record)) not in lasting:
                _print_version(version)
        if not versions:
            click.echo(
                f"The scope {scope} has no version of {subject}, and never had. --scope names another."
            )
    if not versions:
        raise SystemExit(ANSWER_IS_NO)


def _version_json(version: HistoryEntry) -> dict[str, Any]:
    fields = {name: getattr(version, name) for name in version.__struct_fields__}
    return fields | {"record": version.record.as_json() if version.record else None}


def _print_version(version: HistoryEntry) -> None:
    record, when = version.record, version.committed_at[:19]
    click.echo(f"{version.memory_snapshot_id:>6}  {when}  {_place(version.key)}")
    if record is not None:
        checks = record.evidence.floor_checks if record.evidence else ()
        failed = [check.reason for check in checks if not check.passed and check.reason]
        why = f" ({'; '.join(failed)})" if failed else ""
        click.echo(f"        {record.verdict.label if record.verdict else 'not judged'}{why}: {record.text}")
    else:
        erased = version.erased_by is not None
        click.echo(f"        {f'erased in snapshot {version.erased_by}' if erased else 'ended'}")


def _is_lasting(key: str) -> bool:
    """Whether a record is not in working memory, which repeats long-term memory for a while."""
    return prefix_in(key) != Band.ACTIVE


def _text(record: Record | None) -> str | None:
    return None if record is None else record.text


def _place(key: str) -> str:
    """Where a record is, in plain words: its scope and id, and the part of memory."""
    return f"{scope_in(key)}  {name_in(key)}  ({Band(prefix_in(key)).label})"


def _said(record: Record) -> str:
    """The text behind its place, and before it that it waits for a person."""
    waits = f" {record.verdict.label}" if record.verdict in (Verdict.PARTIAL, Verdict.HOLD) else ""
    return f"{waits}: {record.text}"


@click.command("diff")
@click.argument("old", type=click.IntRange(0))
@click.argument("new", type=click.IntRange(0), required=False)
@listed_scope_option
@memory_options
def diff_command(old: int, new: int | None, *, scope: str, target: MemoryTarget) -> None:
    """Show what changed between snapshot OLD and snapshot NEW (default: the newest)."""
    with target.opened() as memory:
        changes = memory.diff(old, new, scope=scope)
    if target.as_json:
        rows = [
            {
                "key": change.key,
                "before": change.before.as_json() if change.before else None,
                "after": change.after.as_json() if change.after else None,
            }
            for change in changes
        ]
        print_json({"old": old, "new": new, "changes": rows})
        return
    lasting = {(_text(one.before), _text(one.after)) for one in changes if _is_lasting(one.key)}
    for change in changes:
        if not _is_lasting(change.key) and (_text(change.before), _text(change.after)) in lasting:
            continue
        if change.before is not None:
            click.secho(f"- {_place(change.key)}{_said(change.before)}", fg="red")
        if change.after is not None:
            click.secho(f"+ {_place(change.key)}{_said(change.after)}", fg="green")
    if changes.advice:
        click.echo(changes.advice, err=True)


@click.command("at")
@click.argument("snapshot", type=click.IntRange(0), required=False)
@request_options(Filter)
@click.option(
    "--band",
    type=click.Choice([band.value for band in RECORD_BANDS]),
    help=f"List one band only: {', '.join(f'{band.value} ({band.label})' for band in RECORD_BANDS)}.",
)
@listed_scope_option
@memory_options
def at_command(
    snapshot: int | None, *, fields: dict[str, Any], band: str | None, scope: str, target: MemoryTarget
) -> None:
    """List the records of SNAPSHOT (default: the newest), each once, without what was erased since."""
    where = Filter.of(fields)
    with target.opened() as memory:
        snapshot = memory.store.head() if snapshot is None else snapshot
        listed = memory.records(band=Band(band) if band else None, at=snapshot, scope=scope, where=where)
        records, advice = list(listed), listed.advice
    if target.as_json:
        print_json({"snapshot": snapshot, "records": [record.as_json() for record in records]})
        return
    for record in records:
        click.echo(f"{_place(record.key)}{_said(record)}")
    click.echo(f"{counted(len(records), 'record')} in snapshot {snapshot}")
    if advice:
        click.echo(advice, err=True)


@click.command("add")
@click.argument("file", type=click.File("rb"))
@request_options(AddRequest, but=("messages", "background"))
@click.option("--run-id", help="Idempotency key: repeating the command with it has one effect.")
@memory_options
def add_command(file: BinaryIO, *, fields: dict[str, Any], run_id: str | None, target: MemoryTarget) -> None:
    """Add the messages in FILE (- for standard input): a JSON array, or one message a line.

    Messages are OpenAI- or Anthropic-style. Each is judged. Those that the session has already are not added
    again. Exit code 1 if one was rejected.

    With --extract, the model of the section [extraction] of the settings finds facts in them. What it can't
    do now waits for `standfast extract`, or for the server.
    """
    messages = _messages_in(file.read())
    extract = bool(fields.pop("extract", False))
    AddRequest.of(messages, **fields)
    with target.opened(create=True) as memory:
        added = memory.add(messages, **fields, extract=extract, workflow=WORKFLOW, run_id=run_id)
    if target.as_json:
        print_json(added.as_json())
    else:
        _print_added(added)
    if any(one.verdict is Verdict.VOID and not one.known for one in added.messages):
        raise SystemExit(ANSWER_IS_NO)


def _messages_in(content: bytes) -> list[Any]:
    """The messages of a file: of one JSON value, or of one on each line."""
    try:
        value = parse(content)
    except NotCanonical as whole:
        lines = [line for line in content.splitlines() if line.strip()]
        try:
            return [parse(line) for line in lines]
        except NotCanonical:
            problem = f"it is neither a JSON array of messages nor one message a line: {whole}"
            raise InvalidValue(what="FILE", problem=problem) from None
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        return list(value["messages"])
    return value if isinstance(value, list) else [value]


def _print_added(added: AddedMessages) -> None:
    known = sum(one.known for one in added.messages)
    click.echo(
        f"session {added.session} in scope {added.scope}: {added.added} messages added, {known} known already"
    )
    for one in added.messages:
        if one.reasons and not one.known:
            label = one.verdict.label if one.verdict else ""
            click.echo(f"  {one.position}: {label}. {' '.join(map(sentence_of, one.reasons))}")
    for fact in added.facts:
        click.echo(f"  fact {fact.memory_id}: {fact.verdict.label}")
    if added.facts_problem is not None:
        click.echo(f"  no facts: {added.facts_problem}")
    if added.facts_pending:
        click.echo("  it waits for the model; next: standfast extract")
    if added.receipts:
        click.echo(f"  snapshot {added.receipts[-1].memory_snapshot_id}")


@click.command("extract")
@memory_options
def extract_command(*, target: MemoryTarget) -> None:
    """Let the model find facts in the conversations that wait for it, and print what it spent today.

    `standfast add --extract` and the server leave those there which it could not be asked about, because the
    budget of the day was spent or it could not be reached. The section [extraction] of the settings names
    the model. Exit code 1 if something waits still.
    """
    with target.opened() as memory:
        memory.extractions.chosen(True)
        begun = memory.extractions.resume()
        memory.extractions.finish()
        status = memory.extractions.status()
    if target.as_json:
        print_json({"begun": begun, **status.as_json()})
    else:
        click.echo(f"{counted(begun, 'conversation')} tried, {status.waiting} wait")
        if status.problem:
            click.echo(f"  {status.problem}")
        if (spent := status.spending) is not None:
            limit = "" if spent.max_cost is None else f" of {spent.max_cost:g}"
            click.echo(f"  {spent.day}: {spent.calls} of {spent.max_calls} calls, cost {spent.cost:g}{limit}")
    if status.waiting:
        raise SystemExit(ANSWER_IS_NO)


@click.command("session")
@click.argument("session")
@click.option("--at", type=click.IntRange(0), help="The snapshot to read; default: the newest.")
@scope_option
@memory_options
def session_command(session: str, *, at: int | None, scope: str, target: MemoryTarget) -> None:
    """Print the messages of SESSION, in order. Exit code 1 if there are none."""
    with target.opened() as memory:
        messages = memory.session(session, scope=scope, at=at)
    if target.as_json:
        print_json({"session": session, "messages": [message.as_json() for message in messages]})
    else:
        for message in messages:
            text = f"({message.verdict.label})" if message.text is None else message.text
            click.echo(f"{message.position:>5}  {(message.time or '')[:19]}  {message.speaker}: {text}")
        if not messages:
            click.echo(
                f"There is no session {session} in scope {scope}. List them: standfast sessions --scope '*'"
            )
    if not messages:
        raise SystemExit(ANSWER_IS_NO)


@click.command("sessions")
@click.option("--at", type=click.IntRange(0), help="The snapshot to read; default: the newest.")
@listed_scope_option
@memory_options
def sessions_command(*, at: int | None, scope: str, target: MemoryTarget) -> None:
    """List the conversations of a scope and all below it."""
    with target.opened() as memory:
        sessions = memory.sessions(scope=scope, at=at)
        advice = "" if sessions else memory.records(scope=scope, at=at).advice
    if target.as_json:
        print_json({"sessions": [one.as_json() for one in sessions]})
        return
    for one in sessions:
        click.echo(
            f"{one.scope}  {one.session}  {one.messages} messages, {one.first_time[:19]} to"
            f" {one.last_time[:19]}"
        )
    click.echo(f"{len(sessions)} sessions")
    if advice:
        click.echo(advice, err=True)
