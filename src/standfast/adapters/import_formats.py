"""The files that can be imported, read: each format as facts and conversations, without judging or storing anything.

    jsonl       one JSON object a line: what ``export`` writes, or plain lines such as {"text": …}
    mem0        the JSON of mem0's ``get_all``
    langgraph   items of a LangGraph store: namespace, key, value
    markdown    a note, or a folder of notes

``import_chats.py`` reads the exports of chats.
Something that can't be read is an ``Unreadable`` among the others. A file that is not of the format at all raises ``InvalidValue``.
"""

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.adapters.langgraph_items import KIND, ref_of, subject_of, text_of
from standfast.canon import parse
from standfast.entity_ids import ENTITY_IDS, EntityIds, stored_metadata
from standfast.errors import InvalidValue, StandfastError
from standfast.limits import MAX_IMPORT_BYTES, MAX_METADATA_CHARS, MAX_NAME_CHARS, MAX_VALUE_BYTES
from standfast.memory.messages import cut_text
from standfast.remember_request import RememberRequest
from standfast.scopes import SHARED
from standfast.vocabulary import Band, JsonScalar, Record, is_metadata_value

_OWN_FIELDS: Final = frozenset({*Record.__struct_fields__})
_HEADING: Final = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE: Final = re.compile(r"^\s*(```|~~~)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFact:
    """One thing to remember, and where in the file it stands."""

    where: str
    request: RememberRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedConversation:
    """A conversation: its messages go into one session."""

    where: str
    scope: str
    session: str
    messages: list[dict[str, Any]]
    metadata: dict[str, JsonScalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Something in the file that can't become memory, and why."""

    where: str
    problem: str


ImportedItem = ImportedFact | ImportedConversation | Unreadable
Reader = Callable[[Path, str], Iterator[ImportedItem]]
"""Reads a file. Takes its path and the scope of what names none."""


# JSON lines.


def read_jsonl(path: Path, scope: str) -> Iterator[ImportedItem]:
    """One record a line. A ``memory_id`` becomes the subject, so that a record keeps its id."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_VALUE_BYTES + 2):
            number += 1
            if line.strip():
                yield item_of(f"line {number}", _own_fact, line.rstrip(b"\r\n"), scope)


def _own_fact(where: str, line: bytes, scope: str) -> ImportedFact:
    plain = parse(line)
    if not isinstance(plain, dict) or not isinstance(plain.get("text"), str):
        raise InvalidValue(what=where, problem='it must be an object with the string "text"')
    if "standfast" in plain:
        raise InvalidValue(
            what=where, problem="it is a row of a store that is no memory; use standfast backup"
        )
    band = plain.get("band", Band.LEDGER.value)
    if band not in (Band.LEDGER, Band.ACTIVE, Band.VAULT):
        problem = f"what is in band {band!r:.40} is not memory: it was rejected, is waiting, or only supports other records"
        raise InvalidValue(what=where, problem=problem)
    metadata = plain.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidValue(what=where, problem="metadata must be an object")
    others = {name: value for name, value in plain.items() if name not in _OWN_FIELDS}
    if isinstance(plain.get("ts_utc"), str):
        others["created_at"] = plain["ts_utc"]
    subject = plain.get("subject", plain.get("memory_id"))
    return ImportedFact(
        where=where,
        request=RememberRequest.of(
            plain["text"],
            subject=subject,
            source=plain.get("source"),
            tags=plain.get("tags", ()),
            refs=plain.get("refs", ()),
            # Law needs a person's signature here as well.
            propose=band == Band.VAULT,
            scope=plain.get("scope", scope),
            metadata={**flat_metadata(others), **metadata},
            session=plain.get("session"),
            position=plain.get("position"),
            speaker=plain.get("speaker"),
            valid_from=plain.get("valid_from"),
            valid_until=plain.get("valid_until"),
        ),
    )


# Other memory systems.


def read_mem0(path: Path, scope: str) -> Iterator[ImportedItem]:
    """The memories of mem0's ``get_all``. The ids of users, agents and runs become scopes, as for the ``Mem0Memory`` class."""
    whole = json_file(path)
    memories = whole.get("results", whole.get("memories")) if isinstance(whole, dict) else whole
    for number, one in enumerate(list_in(memories, path, 'a list of memories, or {"results": […]}'), 1):
        yield item_of(f"memory {number}", _mem0_fact, one, scope)


def _mem0_fact(where: str, one: Any, scope: str) -> ImportedFact:
    if not isinstance(one, dict) or not isinstance(one.get("memory"), str):
        raise InvalidValue(what=where, problem='it must be an object with the string "memory"')
    ids = {name: one[name] for name in ENTITY_IDS if one.get(name) is not None}
    entity = EntityIds.of(**ids) if ids else None
    times = {name: one[name] for name in ("created_at", "updated_at") if one.get(name)}
    metadata = flat_metadata({**times, **mapping_of(one.get("metadata"))})
    speaker = one.get("role") or one.get("actor_id")
    return ImportedFact(
        where=where,
        request=RememberRequest.of(
            one["memory"],
            subject=name_of(one.get("id")),
            source={"kind": "doc", "id": f"mem0:{one.get('id', where)}"},
            tags=[str(tag) for tag in one.get("categories") or ()],
            scope=scope if entity is None else entity.scope,
            metadata={**metadata, **stored_metadata({}, {} if entity is None else entity.given)},
            speaker=name_of(speaker),
        ),
    )


def read_langgraph(path: Path, scope: str) -> Iterator[ImportedItem]:
    """Items of a LangGraph store: a JSON list, or one a line; ``namespace`` is a list, or text with dots, or called ``prefix``."""
    if scope != SHARED:
        raise InvalidValue(what="scope", problem="items of LangGraph's store have namespaces of their own")
    for number, row in enumerate(_rows(path), 1):
        yield item_of(f"item {number}", _langgraph_fact, row)


def _langgraph_fact(where: str, row: Any) -> ImportedFact:
    if not isinstance(row, dict) or not isinstance(row.get("value"), dict):
        raise InvalidValue(what=where, problem="it must be an object with namespace, key and value")
    place = row.get("namespace", row.get("prefix"))
    namespace = tuple(place.split(".") if isinstance(place, str) else place or ())
    subject = subject_of(namespace, row.get("key", ""))
    created = _instant(row.get("created_at"))
    return ImportedFact(
        where=where,
        request=RememberRequest.of(
            text_of(namespace, row["key"], row["value"]),
            subject=subject,
            source={"kind": "doc", "id": f"{KIND}:{subject}"[:MAX_NAME_CHARS]},
            refs=[ref_of(namespace, row["key"], row["value"], created_at=created)],
        ),
    )


# Notes.


def read_markdown(path: Path, scope: str) -> Iterator[ImportedItem]:
    """Notes: each section under a heading is a fact about that heading; a long one is cut at paragraphs and sentences."""
    files = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    if not files:
        raise InvalidValue(what=str(path), problem="there is no file that ends in .md")
    for file in files:
        name = file.relative_to(path).as_posix() if path.is_dir() else file.name
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            yield Unreadable(where=name, problem="it is not UTF-8 text")
            continue
        front, body = _front_matter(text)
        for number, (headings, section) in enumerate(_sections(body)):
            for piece in pieces_of(section):
                yield item_of(f"{name}#{number}", _note, piece, headings, front, name, scope)


def _note(  # noqa: PLR0917  # A helper of one caller.
    where: str, piece: str, headings: tuple[str, ...], front: dict[str, str], name: str, scope: str
) -> ImportedFact:
    tags = [tag for tag in re.split(r"[\s,\[\]\"']+", front.get("tags", "")) if tag]
    fields = {key: value for key, value in front.items() if key != "tags"}
    title = " > ".join(headings)
    return ImportedFact(
        where=where,
        request=RememberRequest.of(
            f"{headings[-1]}: {piece}" if headings else piece,
            source={"kind": "doc", "id": where[-MAX_NAME_CHARS:]},
            tags=tags,
            scope=scope,
            metadata=flat_metadata({**fields, "file": name, **({"heading": title} if title else {})}),
        ),
    )


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """The fields between two lines of three dashes at the start of a note, and what follows them."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in (line.strip() for line in lines[1:]):
        return {}, text
    end = next(number for number, line in enumerate(lines[1:], 1) if line.strip() == "---")
    pairs = (line.partition(":") for line in lines[1:end] if ":" in line and not line.startswith((" ", "-")))
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}, "\n".join(
        lines[end + 1 :]
    )


def _sections(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The headings above each section, and its text. A # inside a block of code is no heading."""
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    in_code = False
    for line in text.splitlines():
        in_code ^= _FENCE.match(line) is not None
        found = None if in_code else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        if any(one.strip() for one in lines):
            yield tuple(heading for _, heading in headings), "\n".join(lines).strip()
        lines = []
        level = len(found[1])
        headings = [*(one for one in headings if one[0] < level), (level, found[2])]
    if any(one.strip() for one in lines):
        yield tuple(heading for _, heading in headings), "\n".join(lines).strip()


# Values from elsewhere.


def flat_metadata(values: Mapping[str, Any]) -> dict[str, JsonScalar]:
    """Fields as metadata can hold them: lists and objects become JSON text, long text is cut and marked."""
    flat: dict[str, JsonScalar] = {}
    for name, value in values.items():
        held = value if is_metadata_value(value) or isinstance(value, str) else json.dumps(value, default=str)
        if isinstance(held, str) and len(held) > MAX_METADATA_CHARS:
            held = held[: MAX_METADATA_CHARS - 1] + "…"
        flat[str(name)[:MAX_NAME_CHARS]] = held
    return flat


def item_of(where: str, build: Callable[..., ImportedItem], *arguments: Any) -> ImportedItem:
    """What a builder builds of its arguments, or why it can't."""
    try:
        return build(where, *arguments)
    except (StandfastError, TypeError, ValueError, RecursionError) as error:
        return Unreadable(where=where, problem=str(error))


def pieces_of(text: object) -> list[str]:
    """A long text, cut into pieces that can be judged."""
    return [piece.strip() for piece in cut_text(text) if piece.strip()] if isinstance(text, str) else []


def mapping_of(value: object) -> Mapping[str, Any]:
    """The value, if it is an object; otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def name_of(value: object) -> str | None:
    """An id of another system as a name; None if it has none."""
    text = "".join(char for char in str(value) if char.isprintable()).strip() if value is not None else ""
    return text[:MAX_NAME_CHARS] or None


def loaded_json(text: object) -> Any:
    """The value of a JSON text; None if it is none."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _instant(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def list_in(value: object, path: Path, wanted: str) -> Iterable[Any]:
    """The value, if it is a list; otherwise the file is not what it should be."""
    if not isinstance(value, list):
        raise InvalidValue(what=str(path), problem=f"it must be {wanted}")
    return value


def _rows(path: Path) -> Iterable[Any]:
    """A JSON list, or JSON values one a line."""
    content = _bytes_of(path)
    if content.lstrip().startswith(b"["):
        return list_in(_decoded(content, path), path, "a list of items")
    return [_decoded(line, path) for line in content.splitlines() if line.strip()]


def json_file(path: Path) -> Any:
    """The JSON of a file, or of ``conversations.json`` in a ZIP file."""
    return _decoded(_bytes_of(path), path)


def _bytes_of(path: Path) -> bytes:
    if not zipfile.is_zipfile(path):
        size = path.stat().st_size
        if size > MAX_IMPORT_BYTES:
            raise InvalidValue(what=str(path), problem=f"it is larger than {MAX_IMPORT_BYTES >> 20} MiB")
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        members = [one for one in archive.infolist() if one.filename.endswith("conversations.json")]
        if not members:
            raise InvalidValue(what=str(path), problem="the ZIP file has no conversations.json")
        member = min(members, key=lambda one: (one.filename.count("/"), one.filename))
        if member.file_size > MAX_IMPORT_BYTES:
            raise InvalidValue(what=str(path), problem=f"it is larger than {MAX_IMPORT_BYTES >> 20} MiB")
        return archive.read(member)


def _decoded(content: bytes, path: Path) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(what=str(path), problem=f"it is not JSON: {error}") from None
