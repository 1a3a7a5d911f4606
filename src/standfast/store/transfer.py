"""Export and import of memory as JSON lines that ``memory.read`` accepts."""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

import msgspec

from standfast.canon import canonical_bytes, fingerprint, parse
from standfast.errors import InvalidValue, NotCanonical
from standfast.limits import MAX_COMMIT_WRITES, MAX_NAME_CHARS, MAX_VALUE_BYTES
from standfast.store.commit import Commit, Write
from standfast.store.protocol import Version
from standfast.store.records import is_note, key_of_line
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Band

_AS_TEXT: Final = "content-as-text/v1"


class _Named(msgspec.Struct):
    """The least that makes content a record."""

    memory_id: str
    text: str
    band: str = Band.LEDGER.value


_decode_named: Final = msgspec.json.Decoder(_Named).decode


def export_lines(store: Store, namespace: str, *, at: int | None = None) -> Iterator[bytes]:
    """Every record that a snapshot shows, one canonical line each, by key; importing them gives the same fingerprints.

    A record is its own line. Content of another shape is carried as the text of a record; notes of governance are
    not memory, and stay.
    """
    for version in store.scan(namespace, at=at):
        if not is_note(version.key):
            yield record_line(version) + b"\n"


def record_line(version: Version) -> bytes:
    """A version that was verified as a line that ``memory.read`` accepts, without its end."""
    content = version.content or b"null"
    try:
        named = _decode_named(content)
        if named.memory_id == version.key.removeprefix(f"{named.band}/"):
            return content
    except msgspec.MsgspecError:
        pass
    return canonical_bytes({"memory_id": version.key, "text": content.decode(), "standfast": _AS_TEXT})


def import_lines(
    store: Store, namespace: str, file: BinaryIO, *, name: str, update: bool = False
) -> dict[str, int]:
    """Store every line of a seekable file as a record; all of it is read and checked before anything is written.

    Records that are there already, with the same content, are left alone, so that importing twice changes nothing.
    Others are refused, or get a new version with ``update``.
    """
    known: dict[str, str] = {}
    for _ in _records(file, name, known):
        pass
    file.seek(0)
    counts = {"read": len(known), "new": 0, "updated": 0, "unchanged": 0}
    seen: set[str] = set()
    for number, page in enumerate(_pages(_records(file, name, {}), seen)):
        head = store.head()
        present = store.read(namespace, list(page), at=head)
        writes = []
        for key, value in page.items():
            there = present.get(key)
            if there is not None and there.fingerprint == known[key]:
                counts["unchanged"] += 1
                continue
            if there is not None and not update:
                problem = f"the store has another record {key!r}; update it with --update, or choose another namespace"
                raise InvalidValue(what=name, problem=problem)
            counts["new" if there is None else "updated"] += 1
            action = ActionType.WRITE if there is None else ActionType.MERGE
            writes.append(Write.of(namespace, key, action, value))
        if writes:
            run_id = f"import-{store.ids.new_id()}-{number}"
            store.commit(
                Commit.of(run_id=run_id, memory_snapshot_id=head, policy_set_id="import", writes=writes)
            )
    return counts


def _records(file: BinaryIO, name: str, known: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Key and content of each line; ``known`` gathers fingerprints, and a key with two contents is refused."""
    for number, line in enumerate(_lines(file), 1):
        what = f"line {number} of {name}"
        try:
            value = parse(line)
        except NotCanonical as error:
            raise InvalidValue(what=what, problem=str(error)) from None
        key = key_of_line(value)
        if key is None:
            raise InvalidValue(
                what=what, problem='a record is an object with the strings "memory_id" and "text"'
            )
        if not 0 < len(value["memory_id"]) <= MAX_NAME_CHARS:
            raise InvalidValue(what=what, problem=f"a memory_id has 1 to {MAX_NAME_CHARS} characters")
        if key.startswith((f"{Band.VAULT}/", f"{Band.PHOENIX}/")):
            problem = (
                "law is sealed by a signature and not imported; copy the whole store with standfast backup"
            )
            raise InvalidValue(what=what, problem=problem)
        content = value
        if value.get("standfast") == _AS_TEXT:
            key = value["memory_id"]
            try:
                content = parse(value["text"])
            except NotCanonical as error:
                raise InvalidValue(what=what, problem=str(error)) from None
        digest = fingerprint(content)
        if known.setdefault(key, digest) != digest:
            raise InvalidValue(what=what, problem=f"{key!r} stands in the file twice, with two contents")
        yield key, content


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines that are not blank, each of a bounded length."""
    while line := file.readline(MAX_VALUE_BYTES + 2):
        if line.strip():
            yield line.rstrip(b"\r\n")


def _pages(records: Iterable[tuple[str, Any]], seen: set[str]) -> Iterator[dict[str, Any]]:
    page: dict[str, Any] = {}
    for key, value in records:
        if key in seen:
            continue
        seen.add(key)
        page[key] = value
        if len(page) == MAX_COMMIT_WRITES // 10:
            yield page
            page = {}
    if page:
        yield page
