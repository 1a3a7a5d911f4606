"""``standfast import`` and ``export``: memory of other systems, judged on its way in."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import click

from standfast.adapters.importing import READERS, WRITERS, ImportReport, export_text, import_file
from standfast.cli.options import (
    MemoryTarget,
    load_settings,
    memory_options,
    namespace_option,
    opened_memory,
    progress_bar,
    scope_option,
    store_option,
)
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.limits import MAX_JUDGING_WORKERS
from standfast.records.origins import Origin
from standfast.records.scopes import ALL_SCOPES
from standfast.wiring import open_memory

_MOST_LISTED: Final = 20


@click.command("import")
@click.argument("file", type=click.Path(exists=True))
@click.option(
    "--from",
    "file_format",
    type=click.Choice(list(READERS)),
    default="jsonl",
    help=(
        "What the file is: JSON lines, mem0's get_all, items of a LangGraph store, the export of ChatGPT or"
        " Claude (conversations.json or the ZIP file), an agent file of Letta, a Markdown note or a folder of"
        " notes."
    ),
)
@click.option(
    "--dry-run", is_flag=True, help="Only show what would be accepted, known, to review and rejected."
)
@click.option(
    "--max-origin",
    type=click.Choice([origin.value for origin in Origin]),
    default=Origin.ORDINARY.value,
    help="The most that anything in the file may be trusted, whatever it says about its sources.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_JUDGING_WORKERS),
    default=1,
    show_default=True,
    help=(
        "How many processes judge. With several, what is stored is the same, and files of ten thousand lines"
        " and more take less time."
    ),
)
@store_option
@namespace_option
@scope_option
@json_option
def import_command(
    file: str,
    *,
    file_format: str,
    dry_run: bool,
    max_origin: str,
    workers: int,
    store_url: str | None,
    namespace: str | None,
    scope: str,
    as_json: bool,
) -> None:
    """Judge everything in FILE and remember what is accepted. The store is created if it does not exist.

    An import that was interrupted is continued by starting it again; nothing is stored twice. What names a
    scope, or a user as in mem0, goes there; the rest into --scope. Law is proposed, and waits for a
    signature. Exit code 1 if something was rejected.
    """
    with (
        opened_memory(store_url, namespace, create=True) as memory,
        progress_bar("judging" if dry_run else "importing", quiet=as_json) as progress,
    ):
        report = import_file(
            memory,
            file,
            file_format=file_format,
            scope=scope,
            dry_run=dry_run,
            max_origin=max_origin,
            progress=progress,
            workers=workers,
            open_memory=partial(
                open_memory,
                load_settings(store_url=store_url, namespace=namespace),
                create=False,
                sign=False,
            ),
        )
    if as_json:
        print_json(report.as_json())
    else:
        _print_import(report)
    if report.rejected:
        raise SystemExit(ANSWER_IS_NO)


def _print_import(report: ImportReport) -> None:
    click.echo(report.summary)
    for problem in report.problems[:_MOST_LISTED]:
        # The reasons of a judgement begin with its verdict.
        reasons = "; ".join(problem.reasons)
        problem_shown = (
            f"unreadable: {reasons}" if problem.verdict is None else reasons or problem.verdict.label
        )
        click.echo(f"  {problem.where}: {problem_shown}")
    more = report.rejected + report.needs_review - min(len(report.problems), _MOST_LISTED)
    if more > 0:
        click.echo(f"  … and {more} more; --json lists the first {len(report.problems)}")
    if report.needs_review and not report.dry_run:
        click.echo("Next: standfast approvals list")


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), default="-")
@click.option(
    "--to",
    "file_format",
    type=click.Choice(list(WRITERS)),
    default="jsonl",
    help=(
        "The form: whole records as JSON lines, mem0's get_all, items of a LangGraph store, or a Markdown"
        " note."
    ),
)
@click.option("--scope", default=ALL_SCOPES, help="Export this scope with all below it; * for all.")
@click.option("--at", type=click.IntRange(min=0), default=None, help="The snapshot to export. [the newest]")
@memory_options
def export_command(file: str, *, file_format: str, scope: str, at: int | None, target: MemoryTarget) -> None:
    """Write accepted memory (law and long-term memory) to FILE, or to standard output, by scope and id.

    `standfast read` and `standfast import` accept JSON lines; importing judges them again. To copy a whole
    store with its history, use `standfast backup`. FILE is replaced when all of it is written.
    """
    with target.opened(sign=False) as memory, _written(file) as written:
        for piece in export_text(memory, file_format=file_format, scope=scope, at=at):
            click.echo(piece, file=written, nl=False)
    if target.as_json and file != "-":
        print_json({"file": file, "file_format": file_format})


@contextmanager
def _written(name: str) -> Iterator[TextIO | None]:
    """Open the file of that name to write; None for standard output.

    A file takes the place of an earlier one when the block has ended well. A device or a pipe is written to.
    """
    path = Path(name).resolve()
    if name == "-":
        yield None
    elif path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as file:
            yield file
    else:
        part = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
        try:
            with part.open("w", encoding="utf-8") as file:
                yield file
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
