"""``standfast index``: the stored index of recall: what it covers, building it anew, comparing it with the records."""

import click
import msgspec
from rich.console import Console

from standfast.cli.options import load_settings, namespace_option, opened_memory, progress_bar, store_option
from standfast.cli.output import ANSWER_IS_NO, json_option, print_json
from standfast.recall.index_upkeep import IndexStatus


@click.group("index")
def command() -> None:
    """Look after the index that recall reads. It is made from the records, keeps itself up to date, and can always be made anew."""


@command.command("status")
@store_option
@namespace_option
@json_option
def index_status(store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Show what the index covers, and how large it is."""
    with opened_memory(store_url, namespace) as memory:
        _print_status(memory.reader.index.upkeep.status(), as_json=as_json)


@command.command("rebuild")
@store_option
@namespace_option
@json_option
def index_rebuild(store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Drop the index and make it anew from the records. Recall goes on meanwhile."""
    with (
        opened_memory(store_url, namespace) as memory,
        progress_bar("indexing snapshots", quiet=as_json) as progress,
    ):
        status = memory.reader.index.upkeep.rebuild(progress=progress)
    _print_status(status, as_json=as_json)


@command.command("verify")
@store_option
@namespace_option
@json_option
def index_verify(store_url: str | None, namespace: str | None, as_json: bool) -> None:
    """Compare the index with the records. Exit code 1 if they disagree."""
    name = store_url or load_settings().store
    with (
        opened_memory(store_url, namespace, sign=False) as memory,
        Console(stderr=True).status(f"comparing the index of {name} with its records …"),
    ):
        problems = list(memory.reader.index.upkeep.problems())
        status = memory.reader.index.upkeep.status()
    if as_json:
        print_json({"namespace": status.namespace, "problems": problems})
    else:
        for problem in problems:
            click.echo(f"✗ {problem}")
        rows = sum(band.rows for band in status.bands)
        click.echo(
            f"{len(problems)} problems" if problems else f"the index agrees with the records; {rows:,} rows"
        )
    if problems:
        raise SystemExit(ANSWER_IS_NO)


def _print_status(status: IndexStatus, *, as_json: bool) -> None:
    if as_json:
        print_json({**msgspec.to_builtins(status), "behind": status.behind})
        return
    click.echo(f"{status.namespace}: {status.analysis}")
    for band in status.bands:
        click.echo(
            f"  {band.band}: {band.rows:,} rows in {band.segments} segments, {band.size_bytes:,} bytes, up to snapshot {band.snapshot}"
        )
    click.echo(f"  {status.behind} of {status.head} snapshots are read from the records")
    if status.unused_segments:
        click.echo(f"  {status.unused_segments} segments of another version are not used")
