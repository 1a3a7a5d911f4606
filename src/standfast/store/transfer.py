"""Export and import of memory as JSON lines, one record a line, in the form that ``memory.read`` accepts."""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

import msgspec

from standfast.canon import canonical_bytes, fingerprint, parse
from standfast.errors import InvalidValue, NotCanonical
from standfast.limits import MAX_COMMIT_WRITES, MAX_NAME_CHARS, MAX_VALUE_BYTES
from standfast.scopes import SHARED, checked_scope, prefix_of, scoped_key
from standfast.store.commit import Commit, Write
from standfast.store.protocol import Version
from standfast.store.records import INTERNAL_PREFIXES
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Band

_AS_TEXT: Final = "content-as-text/v1"
_IMPORT_PAGE_WRITES: Final = MAX_COMMIT_WRITES // 10


class _RecordHead(msgspec.Struct):
    """The fields that make content a record."""

    memory_id: str
    text: str
    band: str = Band.LEDGER.value
    scope: str = SHARED


_decode_head: Final = msgspec.json.Decoder(_RecordHead).decode


def export_lines(store: Store, namespace: str, *, at: int | None = None) -> Iterator[bytes]:
    """Every record that a snapshot shows, one canonical line each, by key. Importing them gives the same fingerprints.

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


def import_lines(
    store: Store, namespace: str, file: BinaryIO, *, name: str, update: bool = False
) -> dict[str, int]:
    """Store every line of a file as a record. The whole file is checked before anything is written.

    Args:
        store: Where to write.
        namespace: Where to write.
        file: Must be seekable, because it is read twice.
        name: The file's name in error messages.
        update: Whether a record with other content gets a new version; otherwise it is refused.

    Returns:
        How many lines were read, and how many records are new, updated and unchanged. A record that is there with the
        same content is unchanged, so importing twice changes nothing.
    """
    known: dict[str, str] = {}
    for _ in _records_in(file, name, known):
        pass
    file.seek(0)
    counts = {"read": len(known), "new": 0, "updated": 0, "unchanged": 0}
    for number, page in enumerate(_pages(_records_in(file, name, {}))):
        head = store.head()
        present = store.read(namespace, list(page), at=head)
        writes = []
        for key, value in page.items():
            stored = present.get(key)
            if stored is not None and stored.fingerprint == known[key]:
                counts["unchanged"] += 1
                continue
            if stored is not None and not update:
                problem = f"the store has another record {key!r}; update it with --update, or choose another namespace"
                raise InvalidValue(what=name, problem=problem)
            counts["new" if stored is None else "updated"] += 1
            action = ActionType.WRITE if stored is None else ActionType.MERGE
            writes.append(Write.of(namespace, key, action, value))
        if writes:
            run_id = f"import-{store.ids.new_id()}-{number}"
            store.commit(
                Commit.of(run_id=run_id, memory_snapshot_id=head, policy_set_id="import", writes=writes)
            )
    return counts


def _records_in(file: BinaryIO, name: str, known: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Key and content of each line. ``known`` gathers fingerprints; a key with two contents is refused."""
    for number, line in _lines(file):
        what = f"line {number} of {name}"
        try:
            key, content = _record_in(line, what)
        except NotCanonical as error:
            raise InvalidValue(what=what, problem=str(error)) from None
        digest = fingerprint(content)
        if known.setdefault(key, digest) != digest:
            problem = f"{key!r} is in the file twice, with two contents; keep one of them"
            raise InvalidValue(what=what, problem=problem)
        yield key, content


def _record_in(line: bytes, what: str) -> tuple[str, Any]:
    value = parse(line)
    key = _key_of(value, what)
    if key is None:
        problem = 'a record is an object with the strings "memory_id" and "text"'
        raise InvalidValue(what=what, problem=problem)
    if not 0 < len(value["memory_id"]) <= MAX_NAME_CHARS:
        raise InvalidValue(what=what, problem=f"a memory_id has 1 to {MAX_NAME_CHARS} characters")
    if key.startswith((prefix_of(Band.VAULT), prefix_of(Band.PHOENIX))):
        problem = (
            "law needs a signature and can't be imported; copy the whole store instead: standfast backup"
        )
        raise InvalidValue(what=what, problem=problem)
    if value.get("standfast") == _AS_TEXT:
        return value["memory_id"], parse(value["text"])
    return key, value


def _key_of(value: object, what: str) -> str | None:
    """The key of a JSON value that is a record: in its band, LEDGER if it names none; None if it is no record."""
    if not isinstance(value, dict):
        return None
    memory_id, text, band = value.get("memory_id"), value.get("text"), value.get("band", Band.LEDGER.value)
    if not isinstance(memory_id, str) or not isinstance(text, str) or band not in Band.__members__:
        return None
    return scoped_key(band, checked_scope(value.get("scope", SHARED), what=f"the scope in {what}"), memory_id)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank with their numbers, each of a bounded length."""
    number = 0
    while line := file.readline(MAX_VALUE_BYTES + 2):
        number += 1
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def _pages(records: Iterable[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    """The records in pages of one commit each, every key once."""
    seen: set[str] = set()
    page: dict[str, Any] = {}
    for key, value in records:
        if key in seen:
            continue
        seen.add(key)
        page[key] = value
        if len(page) == _IMPORT_PAGE_WRITES:
            yield page
            page = {}
    if page:
        yield page
