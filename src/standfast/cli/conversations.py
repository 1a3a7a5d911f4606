"""``standfast add``, ``session`` and ``sessions``."""

from typing import Any, BinaryIO

import click

from standfast.canon import parse
from standfast.cli.options import (
    WORKFLOW,
    listed_scope_option,
    metadata_of,
    namespace_option,
    opened_memory,
    scope_option,
    store_option,
)
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.errors import InvalidValue, NotCanonical
from standfast.memory import AddedMessages
from standfast.vocabulary import Verdict


@click.command("add")
@click.argument("file", type=click.File("rb"))
@click.option("--session", help="The conversation; default: a new one.")
@click.option(
    "--position", type=click.IntRange(0), help="Position of the first message; default: continue the session."
)
@click.option("--tag", "tags", multiple=True, help="A tag; repeatable.")
@click.option(
    "--metadata", "fields", multiple=True, metavar="NAME=VALUE", help="A field to filter by; repeatable."
)
@click.option(
    "--supersedes",
    multiple=True,
    metavar="ID",
    help="The id or subject of a record that it replaces, which ends; repeatable.",
)
@click.option("--run-id", help="Idempotency key: repeating the command with it has one effect.")
@scope_option
@store_option
@namespace_option
@json_option
def add_command(
    file: BinaryIO,
    *,
    session: str | None,
    position: int | None,
    tags: tuple[str, ...],
    fields: tuple[str, ...],
    supersedes: tuple[str, ...],
    run_id: str | None,
    scope: str,
    store_url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Add the messages in FILE (- for standard input): a JSON array, or one message a line.

    Messages are OpenAI- or Anthropic-style. Each is judged. Those that the session has already are not added again. Exit code 1 if
    one was rejected.
    """
    messages = _messages_in(file.read())
    with opened_memory(store_url, namespace, create=True) as memory:
        added = memory.add(
            messages,
            scope=scope,
            session=session,
            position=position,
            tags=tags,
            metadata=metadata_of(fields),
            supersedes=supersedes,
            workflow=WORKFLOW,
            run_id=run_id,
        )
    if as_json:
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
            click.echo(f"  {one.position}: {label}; {'; '.join(one.reasons)}")
    if added.receipts:
        click.echo(f"  snapshot {added.receipts[-1].memory_snapshot_id}")


@click.command("session")
@click.argument("session")
@click.option("--at", type=click.IntRange(0), help="The snapshot to read; default: the newest.")
@scope_option
@store_option
@namespace_option
@json_option
def session_command(
    session: str, *, at: int | None, scope: str, store_url: str | None, namespace: str | None, as_json: bool
) -> None:
    """Print the messages of SESSION, in order. Exit code 1 if there are none."""
    with opened_memory(store_url, namespace) as memory:
        messages = memory.session(session, scope=scope, at=at)
    if as_json:
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
@store_option
@namespace_option
@json_option
def sessions_command(
    *, at: int | None, scope: str, store_url: str | None, namespace: str | None, as_json: bool
) -> None:
    """List the conversations of a scope and all below it."""
    with opened_memory(store_url, namespace) as memory:
        sessions = memory.sessions(scope=scope, at=at)
    if as_json:
        print_json({"sessions": [one.as_json() for one in sessions]})
        return
    for one in sessions:
        click.echo(
            f"{one.scope}  {one.session}  {one.messages} messages, {one.first_time[:19]} to {one.last_time[:19]}"
        )
    click.echo(f"{len(sessions)} sessions")
