"""``standfast history``: every version of one thing, with who allowed it."""

import click

from standfast.cli.options import memory, namespace_option, store_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.store.records import HistoryEntry


@click.command("history")
@click.argument("subject")
@store_option
@namespace_option
@json_option
def command(subject: str, store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Every version of SUBJECT (or a memory id), in every band, oldest first. Exit code 1 if there is none."""
    with memory(store_url, namespace) as opened:
        chapters = opened.history(subject)
    if as_json:
        print_json({"subject": subject, "versions": [told(chapter) for chapter in chapters]})
    for chapter in [] if as_json else chapters:
        record = chapter.record
        click.echo(
            f"{chapter.memory_snapshot_id:>6}  {chapter.committed_at[:19]}  {chapter.action:6}  {chapter.key}"
        )
        if record is not None:
            failed = (
                [check.floor for check in record.evidence.floor_checks if not check.passed]
                if record.evidence
                else []
            )
            why = f" ({', '.join(failed)})" if failed else ""
            click.echo(f"        {record.verdict or 'unjudged'}{why}: {record.text}")
        elif chapter.erased_by is not None:
            click.echo(f"        erased in snapshot {chapter.erased_by}")
    if not chapters:
        if not as_json:
            click.echo(f"Nothing was ever known of {subject}.")
        raise SystemExit(ANSWER_IS_NO)


def told(chapter: HistoryEntry) -> dict[str, object]:
    """A version for machines."""
    plain = {name: getattr(chapter, name) for name in chapter.__struct_fields__}
    return plain | {"record": chapter.record.as_json() if chapter.record else None}
