"""Export: accepted memory in the forms that other systems read.

jsonl       every record of law and long-term memory, whole, one a line; ``memory.read`` and ``import`` read it
mem0        the JSON of mem0's ``get_all``
langgraph   the items of a ``StandfastStore``, one a line
markdown    a note: a heading for each scope, a line for each record
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from standfast.adapters.langgraph_items import StoredItem, exact_json
from standfast.canon import canonical_bytes
from standfast.entity_ids import as_memory
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.scopes import ALL_SCOPES
from standfast.vocabulary import Band, Record

_EXPORTED_BANDS: Final = (Band.LEDGER, Band.VAULT)


def export_text(
    memory: Memory, *, file_format: str, scope: str = ALL_SCOPES, at: int | None = None
) -> Iterator[str]:
    """The pieces of an export, each ending at a line's end.

    Args:
        file_format: One of ``WRITERS``.
        scope: What to export, with all below it; by default everything.
        at: The snapshot; by default the newest.
    """
    if file_format not in WRITERS:
        known = ", ".join(WRITERS)
        raise InvalidValue(
            what="format", problem=f"{file_format!r:.40} can't be written; it must be one of {known}"
        )
    snapshot = memory.store.head() if at is None else at
    view = memory.at(snapshot)
    records = (record for band in _EXPORTED_BANDS for record in view.records(band=band, scope=scope))
    return WRITERS[file_format](records)


def _jsonl(records: Iterator[Record]) -> Iterator[str]:
    for record in records:
        yield canonical_bytes(record.as_json()).decode() + "\n"


def _mem0(records: Iterator[Record]) -> Iterator[str]:
    yield '{"results": ['
    separator = "\n"
    for record in records:
        yield f"{separator}{exact_json(as_memory(record))}"
        separator = ",\n"
    yield "\n]}\n"


def _langgraph(records: Iterator[Record]) -> Iterator[str]:
    for record in records:
        item = StoredItem.of(record)
        if item is not None:
            plain = {
                "namespace": list(item.namespace),
                "key": item.key,
                "value": item.value,
                "created_at": item.created_at.isoformat(),
                "updated_at": item.updated_at.isoformat(),
            }
            yield f"{exact_json(plain)}\n"


def _markdown(records: Iterator[Record]) -> Iterator[str]:
    scope = None
    for record in records:
        if record.scope != scope:
            yield f"{'' if scope is None else chr(10)}# {record.scope}\n\n"
            scope = record.scope
        facts = [(record.ts_utc or "")[:10], record.speaker, _source(record), record.subject]
        shown = ", ".join(fact for fact in facts if fact)
        text = "\n  ".join(record.text.splitlines())
        yield f"- {text}\n" + (f"  <!-- {shown.replace('--', '- -')} -->\n" if shown else "")


def _source(record: Record) -> str:
    source = record.source or {}
    return f"{source['kind']}:{source['id']}" if "kind" in source and "id" in source else ""


WRITERS: Final[Mapping[str, Callable[[Iterator[Record]], Iterator[str]]]] = {
    "jsonl": _jsonl,
    "mem0": _mem0,
    "langgraph": _langgraph,
    "markdown": _markdown,
}
"""The writer of each format, by its name."""
