"""Rows as JSON lines, one record a line, in the form that ``memory.read`` accepts."""

from collections.abc import Iterator
from typing import Final

import msgspec

from standfast.canon import canonical_bytes
from standfast.scopes import SHARED, scoped_key
from standfast.store.protocol import Version
from standfast.store.records import INTERNAL_PREFIXES
from standfast.store.store import Store
from standfast.vocabulary import Band

_AS_TEXT: Final = "content-as-text/v1"


class _RecordHead(msgspec.Struct):
    """The fields that make content a record."""

    memory_id: str
    text: str
    band: str = Band.LEDGER.value
    scope: str = SHARED


_decode_head: Final = msgspec.json.Decoder(_RecordHead).decode


def export_lines(store: Store, namespace: str, *, at: int | None = None) -> Iterator[bytes]:
    """Every record that a snapshot shows, one canonical line each, by key.

    Content that is no record is carried as the text of one. Rows that governance keeps for itself are left out.
    """
    for version in store.scan(namespace, at=at):
        if not version.key.startswith(INTERNAL_PREFIXES):
            yield record_line(version) + b"\n"


def record_line(version: Version) -> bytes:
    """A verified version as a line that ``memory.read`` accepts, without the newline."""
    content = version.content or b"null"
    try:
        head = _decode_head(content)
        if scoped_key(head.band, head.scope, head.memory_id) == version.key:
            return content
    except msgspec.MsgspecError:
        pass
    return canonical_bytes({"memory_id": version.key, "text": content.decode(), "standfast": _AS_TEXT})
