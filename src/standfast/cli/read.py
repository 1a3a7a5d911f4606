"""``standfast read``: memory for a prompt, the same to the byte each time, under a token budget."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from standfast.cli.options import namespace_option, opened, settings
from standfast.cli.output import json_option, print_json
from standfast.memory import Memory
from standfast.recall.controller import Reading, explain
from standfast.recall.explanation import Explanation
from standfast.recall.request import DroppedForm, MemoryControllerInput
from standfast.recall.sources.corpus import Corpus
from standfast.recall.sources.jsonl import JsonlSource
from standfast.recall.sources.proved import Source

_SQLITE_MAGIC: Final = b"SQLite format 3\0"


@click.command("read")
@click.argument("query")
@click.option(
    "--store",
    "stores",
    multiple=True,
    help="A JSONL file, or a Standfast store; give it several times for several. By default what the settings say.",
)
@click.option("--tokens", type=int, required=True, help="How many tokens all excerpts may cost together.")
@click.option("--per-item-tokens", type=int, default=None, help="How many tokens one excerpt may cost.")
@click.option("--max-items", type=int, default=None, help="How many excerpts at most; by default 50.")
@click.option(
    "--term", "terms", multiple=True, help="Look for this instead of the query's words; repeatable."
)
@click.option("--no-tags", is_flag=True, help="Give no half point for a term that is a tag.")
@click.option(
    "--now", "now_utc", default=None, help="Count recency, measured from this ISO 8601 time in UTC."
)
@click.option(
    "--half-life", type=int, default=None, help="Days after which recency counts half; by default 30."
)
@click.option("--trust", default=None, help="A trust snapshot: JSON lines that mark records as malicious.")
@click.option("--deny", "denied", multiple=True, help="Leave out what is marked as this instead; repeatable.")
@click.option(
    "--dropped",
    type=click.Choice([form.value for form in DroppedForm]),
    default=DroppedForm.COUNTS.value,
    help="Tell what was not selected as counts (the default) or in full.",
)
@click.option(
    "--at", type=click.IntRange(min=0), default=None, help="The snapshot of a Standfast store to read."
)
@click.option("--cache", default=None, help="A folder that keeps decoded files for the next call.")
@click.option(
    "--explain", "explains", is_flag=True, help="Show how each candidate came to its rank, as a table."
)
@namespace_option
@json_option
def command(query: str, stores: tuple[str, ...], as_json: bool, explains: bool, **options: Any) -> None:
    """Print what memory holds on QUERY, fenced and attributed, for a prompt. Nothing is ever written to a store.

    The same stores and the same call give the same package, byte for byte. With --json the package is printed, whose
    package_hash proves it.
    """
    with ExitStack() as stack:
        sources = _Sources(stack, options)
        paths = [name for store in stores or (settings().store,) for name in sources.names_of(store)]
        reading = explain(_request(query, paths, options), sources.open)
    if as_json:
        package = reading.package.as_json()
        print_json(
            {"package": package, "explanation": reading.explanation.as_json()} if explains else package
        )
    elif explains:
        _print_table(reading.explanation)
    else:
        click.echo(reading.package.text, nl=False)
    if not as_json:
        click.echo(_summary(reading), err=True)


class _Sources:
    """Finds out what each path is. A store of ours is read as ``Memory.recall`` reads it: law, and what is canonical."""

    def __init__(self, stack: ExitStack, options: dict[str, Any]) -> None:
        self._stack = stack
        self._namespace: str = options["namespace"] or settings().namespace
        self._at: int | None = options["at"]
        self._corpus = None if options["cache"] is None else Corpus(cache_folder=options["cache"])
        self._bands: dict[str, Source] = {}

    def names_of(self, store: str) -> list[str]:
        """What records of a store are attributed to; the address of a server, which may hold a password, is not told."""
        if not (store.startswith(("postgresql://", "postgres://")) or _is_sqlite(store)):
            return [store]
        if self._bands:
            raise click.UsageError(
                "one store of Standfast's own at a time; any number of JSONL files beside it"
            )
        opened_store = self._stack.enter_context(opened(store, recover=False))
        memory = Memory(opened_store, namespace=self._namespace)
        self._bands = {source.store_path: source for source in memory.reader.sources(at=self._at)}
        return list(self._bands)

    def open(self, store_path: str) -> Source:
        """The source that a path names."""
        if store_path in self._bands:
            return self._bands[store_path]
        return JsonlSource(store_path) if self._corpus is None else self._corpus.open(store_path)


def _is_sqlite(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    except OSError:
        return False


def _request(query: str, paths: list[str], options: dict[str, Any]) -> MemoryControllerInput:
    """The call in the contract's own form; what was not given has the contract's defaults."""
    given = {
        "budget": {
            "max_excerpt_tokens": options["tokens"],
            "per_item_max_excerpt_tokens": options["per_item_tokens"],
            "max_items": options["max_items"],
        },
        "scoring": {
            "enable_recency_weight": options["now_utc"] is not None,
            "recency_half_life_days": options["half_life"],
            "enable_tag_overlap": not options["no_tags"],
            "query_terms": list(options["terms"]) or None,
        },
        "trust_filter": {
            "trust_snapshot_path": options["trust"],
            "deny_classifications": list(options["denied"]) or None,
        },
    }
    return MemoryControllerInput.from_json(
        {"query": query, "store_paths": paths, "now_utc": options["now_utc"], "dropped": options["dropped"]}
        | {
            part: {name: value for name, value in fields.items() if value is not None}
            for part, fields in given.items()
        }
    )


def _summary(reading: Reading) -> str:
    budget, selected = reading.package.budget, reading.package.selection.selected
    told = [f"{count} {reason}" for reason, count in reading.explanation.counts.items() if count]
    spent = f"{budget.used_excerpt_tokens} of {budget.max_excerpt_tokens} tokens"
    costs = f"as text {reading.package.text_tokens}"
    return f"{len(selected)} selected, {spent} ({costs}); dropped: {', '.join(told) or 'nothing'}"


def _print_table(explanation: Explanation) -> None:
    table = Table("rank", "id", "score", "terms", "tag bonus", "recency", "outcome")
    for item in explanation.as_json()["items"]:
        cells = (
            item["rank"],
            item["memory_id"],
            item["score"],
            ", ".join(item["matched_terms"]),
            item["tag_bonus"],
            item["recency_bonus"],
            item["outcome"],
        )
        table.add_row(*(_shown(cell) for cell in cells))
    console = Console()
    console.print(table)
    for fault in explanation.faults:
        place = (
            f"{fault.store_path}, {'line ' if isinstance(fault.line.place, int) else ''}{fault.line.place}"
        )
        console.print(Text.assemble("passed over: ", _shown(place), ": ", fault.line.fault.value))


def _shown(cell: object) -> Text:
    """What came from a store, without control characters that a terminal would obey."""
    return Text(json.dumps(cell, ensure_ascii=False)[1:-1] if isinstance(cell, str) else str(cell))
