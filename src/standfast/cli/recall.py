"""``standfast recall``; and ``standfast read``, the contract's ``memory.read`` over files or a store."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from standfast.cli.options import (
    MemoryTarget,
    load_settings,
    memory_options,
    namespace_option,
    opened_store,
)
from standfast.cli.output import json_option, print_json
from standfast.cli.request_options import request_options
from standfast.memory import Memory
from standfast.recall.answers import Explanation, RecallAnswer
from standfast.recall.jsonl import JsonlSource, Source
from standfast.recall.package import RecallPackage
from standfast.recall.phase6 import explain
from standfast.recall.request import DroppedForm, MemoryControllerInput
from standfast.records.requests import RecallRequest

_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_EXPLAIN: Final = click.option(
    "--explain", "explains", is_flag=True, help="Print how each candidate got its rank."
)


@click.command("recall")
@click.argument("query")
@request_options(RecallRequest, but=("query", "scope"))
@click.option("--at", type=click.IntRange(min=0), default=None, help="The snapshot to recall from.")
@_EXPLAIN
@memory_options
def recall_command(
    query: str, *, fields: dict[str, Any], at: int | None, explains: bool, target: MemoryTarget
) -> None:
    """Print what memory knows about QUERY, as text for a prompt, within a token budget.

    The same snapshot and the same call give the same answer, byte for byte. With --json the context package
    is printed; its package_hash proves the content. With --explain each record's trust is shown as well.
    """
    RecallRequest.of(query, **fields)
    with target.opened() as memory:
        view = memory.at(memory.store.head() if at is None else at)
        answer = view.explain(query, **fields)
    _print_answer(answer, explains=explains, as_json=target.as_json)


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``standfast read``, as click passes them."""

    tokens: int
    per_item_tokens: int | None
    max_items: int | None
    terms: tuple[str, ...]
    no_tags: bool
    now_utc: str | None
    half_life: int | None
    trust: str | None
    denied: tuple[str, ...]
    dropped: str
    at: int | None
    namespace: str | None

    def request(self, query: str, paths: list[str]) -> MemoryControllerInput:
        """The request in the contract's form; options that were not given get the contract's defaults."""
        parts: dict[str, dict[str, Any]] = {
            "budget": {
                "max_excerpt_tokens": self.tokens,
                "per_item_max_excerpt_tokens": self.per_item_tokens,
                "max_items": self.max_items,
            },
            "scoring": {
                "enable_recency_weight": self.now_utc is not None,
                "recency_half_life_days": self.half_life,
                "enable_tag_overlap": not self.no_tags,
                "query_terms": list(self.terms) or None,
            },
            "trust_filter": {
                "trust_snapshot_path": self.trust,
                "deny_classifications": list(self.denied) or None,
            },
        }
        set_options = {
            part: {name: value for name, value in fields.items() if value is not None}
            for part, fields in parts.items()
        }
        return MemoryControllerInput.from_json(
            {
                "query": query,
                "store_paths": paths,
                "now_utc": self.now_utc,
                "dropped": self.dropped,
                **set_options,
            }
        )


@click.command("read")
@click.argument("query")
@click.option(
    "--store",
    "stores",
    multiple=True,
    help="A JSONL file or a Standfast store; repeatable. Default: the setting `store`.",
)
@click.option("--tokens", type=int, required=True, help="Token budget of all excerpts together.")
@click.option("--per-item-tokens", type=int, default=None, help="Token budget of one excerpt.")
@click.option("--max-items", type=int, default=None, help="At most this many excerpts. [50]")
@click.option("--term", "terms", multiple=True, help="Match this instead of the query's words; repeatable.")
@click.option("--no-tags", is_flag=True, help="Give no bonus for a term that is a tag.")
@click.option("--now", "now_utc", default=None, help="Weigh recency as of this ISO 8601 time in UTC.")
@click.option("--half-life", type=int, default=None, help="Half-life of recency in days. [30]")
@click.option("--trust", default=None, help="A trust snapshot: JSON lines that classify records.")
@click.option(
    "--deny",
    "denied",
    multiple=True,
    help="Leave out records classified as this instead of malicious; repeatable.",
)
@click.option(
    "--dropped",
    type=click.Choice([form.value for form in DroppedForm]),
    default=DroppedForm.COUNTS.value,
    help="List dropped candidates as counts or in full.",
)
@click.option(
    "--at", type=click.IntRange(min=0), default=None, help="The snapshot of a Standfast store to read."
)
@_EXPLAIN
@namespace_option
@json_option
def read_command(query: str, stores: tuple[str, ...], as_json: bool, explains: bool, **options: Any) -> None:
    """Run memory.read (controller phase6-v1) for QUERY over JSONL files or a store. Only reads.

    The same files and the same call give the same package, byte for byte. With --json the package is printed;
    its package_hash proves the content.
    """
    chosen = ReadOptions(**options)
    with ExitStack() as stack:
        sources = _Sources(stack, chosen)
        paths = [path for store in stores or (load_settings().store,) for path in sources.paths_of(store)]
        answer = explain(chosen.request(query, paths), sources.open)
    _print_answer(answer, explains=explains, as_json=as_json)


class _Sources:
    """Finds out what each ``--store`` is. A Standfast store is read as ``Memory.recall`` reads it."""

    def __init__(self, stack: ExitStack, options: ReadOptions) -> None:
        self._stack = stack
        self._namespace = options.namespace or load_settings().namespace
        self._at = options.at
        self._bands: dict[str, Source] = {}

    def paths_of(self, store: str) -> list[str]:
        """The store paths that records are attributed to. A server's URL, with its password, is hidden."""
        if not (store.startswith(("postgresql://", "postgres://")) or _is_sqlite(store)):
            return [store]
        if self._bands:
            raise click.UsageError("give at most one Standfast store; JSONL files may be added to it")
        opened = self._stack.enter_context(opened_store(store, recover=False))
        memory = Memory(opened, namespace=self._namespace)
        self._bands = {source.store_path: source for source in memory.reader.sources(at=self._at)}
        return list(self._bands)

    def open(self, store_path: str) -> Source:
        """Open the source that a store path names."""
        if store_path in self._bands:
            return self._bands[store_path]
        return JsonlSource(store_path)


def _is_sqlite(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    except OSError:
        return False


def _print_answer(answer: RecallAnswer, *, explains: bool, as_json: bool) -> None:
    if as_json:
        package = answer.package.as_json()
        print_json({"package": package, "explanation": answer.explanation.as_json()} if explains else package)
        return
    if not explains:
        click.echo(answer.package.text, nl=False)
    elif isinstance(answer.package, RecallPackage):
        _print_ranks(answer.package, answer.explanation)
    else:
        _print_table(answer.explanation)
    for fault in answer.explanation.faults if explains else ():
        line = f"{'line ' if isinstance(fault.line.place, int) else ''}{fault.line.place}"
        click.echo(f"skipped: {_printable(f'{fault.store_path}, {line}')}: {fault.line.fault.value}")
    if isinstance(answer.package, RecallPackage) and answer.package.advice:
        click.echo(answer.package.advice, err=True)
    click.echo(_summary(answer), err=True)


def _summary(answer: RecallAnswer) -> str:
    package = answer.package
    dropped = [f"{count} {reason}" for reason, count in answer.explanation.counts.items() if count]
    if isinstance(package, RecallPackage):
        spent = f"{package.text_tokens} of {package.request.tokens} tokens"
    else:
        used, most = package.budget.used_excerpt_tokens, package.budget.max_excerpt_tokens
        spent = f"{used} of {most} tokens ({package.text_tokens} as text)"
    return f"{len(package.items)} selected, {spent}; dropped: {', '.join(dropped) or 'nothing'}"


def _print_ranks(package: RecallPackage, explanation: Explanation) -> None:
    """Each candidate with its excerpt, if it has one, and why it is there."""
    excerpts = {(item.store_path, item.memory_id): item.excerpt for item in package.items}
    for item in explanation.as_json()["items"]:
        trust = f", trust {item['ceiling']['confidence']}" if "ceiling" in item else ""
        click.echo(f"{item['rank']:>3}  {item['outcome']}{trust}: {_printable(item['memory_id'])}")
        excerpt = excerpts.get((item["store_path"], item["memory_id"]))
        if excerpt is not None:
            click.echo(f"     {_printable(excerpt)}")
        parts = {
            "why": item["why"],
            # An idf has 16 binary places.
            "words": [f"{term} {weight / 65536:.1f}" for term, weight in item["matched"].items()],
            "boosts": [f"{name} ×{factor}" for name, factor in item["boosts"].items()],
        }
        shown = "; ".join(f"{name}: {', '.join(values)}" for name, values in parts.items() if values)
        if shown:
            click.echo(f"     {_printable(shown)}")


def _print_table(explanation: Explanation) -> None:
    """What the contract's controller says about each candidate."""
    items = explanation.as_json()["items"]
    shows_trust = any("ceiling" in item for item in items)
    table = Table("rank", "id", "score", "terms", "tag bonus", "recency", "outcome")
    if shows_trust:
        table.add_column("trust")
    for item in items:
        cells = [item["rank"], item["memory_id"], item["score"], ", ".join(item["matched_terms"])]
        cells += [item["tag_bonus"], item["recency_bonus"], item["outcome"]]
        if shows_trust:
            cells.append(item["ceiling"]["confidence"] if "ceiling" in item else "")
        table.add_row(*(_printable(cell) for cell in cells))
    Console().print(table)


def _printable(cell: object) -> Text:
    """Text from a store, with control characters escaped so that a terminal does not obey them."""
    return Text(json.dumps(cell, ensure_ascii=False)[1:-1] if isinstance(cell, str) else str(cell))
