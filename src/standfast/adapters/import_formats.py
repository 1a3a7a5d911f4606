"""The files that can be imported, read: each format as facts and conversations. Nothing is judged or stored.

    jsonl       one JSON object a line: what ``export`` writes, or plain lines such as {"text": …}
    mem0        the JSON of mem0's ``get_all``
    langgraph   items of a LangGraph store: namespace, key, value
    markdown    a note, or a folder of notes
    chatgpt, claude, letta   exports of chats and agents; a conversation is a session, whose messages go to
                             ``Memory.add``

Something that can't be read is an ``Unreadable`` among the others. A file that is not of the format at all
raises ``InvalidValue``.
"""

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.adapters.import_citations import Citations, lines_of
from standfast.adapters.langgraph_items import KIND, NamespaceScopes, ref_of, subject_of, text_of
from standfast.entity_ids import ENTITY_IDS, EntityIds, MemoryPlace, stored_metadata
from standfast.errors import InvalidValue, StandfastError
from standfast.limits import MAX_IMPORT_BYTES, MAX_METADATA_CHARS, MAX_NAME_CHARS
from standfast.memory.messages import cut_text
from standfast.recall.filters import UNREVIEWED_VERDICTS
from standfast.records.canon import parse
from standfast.records.origins import Origin
from standfast.records.requests import MESSAGE_ID, RememberRequest
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import Band, JsonScalar, Record, is_metadata_value

_OWN_FIELDS: Final = frozenset({*Record.__struct_fields__})
_NOT_ACCEPTED: Final = frozenset(UNREVIEWED_VERDICTS)
_HEADING: Final = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
# What an export writes below a line: who said it and when. Nobody who reads the note sees it.
_REMARK: Final = re.compile(r"^  <!-- \d{4}-\d\d-\d\d(?:, .*)? -->$")
_FENCE: Final = re.compile(r"^\s*(```|~~~)")
_CLAUDE_BLOCKS: Final = ("text", "tool_use", "tool_result")
_THOUGHTS: Final = ("thoughts", "reasoning_recap", "model_editable_context", "user_editable_context")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFact:
    """One thing to remember, and where in the file it stands."""

    where: str
    request: RememberRequest
    highest: Origin = Origin.TRUSTED
    """How far it was trusted where it was exported, whatever its source is called."""


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
    citations = Citations.of(path, scope)
    for number, line in lines_of(path):
        yield item_of(f"line {number}", _own_fact, line, scope, number, citations)


def _own_fact(where: str, line: bytes, scope: str, number: int, citations: Citations) -> ImportedFact:
    plain = parse(line)
    if not isinstance(plain, dict) or not isinstance(plain.get("text"), str):
        raise InvalidValue(what=where, problem='it must be an object with the string "text"')
    if "standfast" in plain:
        raise InvalidValue(
            what=where, problem="it is a row of a store that is no memory; use standfast backup"
        )
    band = plain.get("band", Band.LEDGER.value)
    if band not in (Band.LEDGER, Band.ACTIVE, Band.VAULT):
        problem = (
            f"what is in band {band!r:.40} is not memory: it was rejected, is waiting, or only supports other"
            " records"
        )
        raise InvalidValue(what=where, problem=problem)
    if plain.get("verdict") in _NOT_ACCEPTED:
        problem = f"its verdict was {plain['verdict']}: it waits for a person where it comes from"
        raise InvalidValue(what=where, problem=problem)
    metadata = plain.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidValue(what=where, problem="metadata must be an object")
    others = {name: value for name, value in plain.items() if name not in _OWN_FIELDS}
    if isinstance(plain.get("ts_utc"), str):
        others["created_at"] = plain["ts_utc"]
    place = plain.get("scope", scope)
    request = RememberRequest.of(
        plain["text"],
        subject=_subject_of(plain),
        several=plain.get("several", False),
        source=citations.held(plain.get("source"), place, number),
        tags=plain.get("tags", ()),
        refs=citations.held(plain.get("refs", ()), place, number),
        # Law needs a person's signature here as well.
        propose=band == Band.VAULT,
        scope=place,
        metadata={**flat_metadata(others), **metadata},
        session=plain.get("session"),
        position=plain.get("position"),
        speaker=plain.get("speaker"),
        valid_from=plain.get("valid_from"),
        valid_until=plain.get("valid_until"),
    )
    return ImportedFact(where=where, request=request, highest=_highest_of(plain))


def _highest_of(plain: Mapping[str, Any]) -> Origin:
    """How far the record of a line was trusted. One with evidence was judged, and is ordinary by default."""
    origin, was_judged = plain.get("origin"), plain.get("evidence") is not None
    if origin == Origin.UNTRUSTED:
        return Origin.UNTRUSTED
    return Origin.ORDINARY if was_judged and origin != Origin.TRUSTED else Origin.TRUSTED


def _subject_of(plain: Mapping[str, Any]) -> Any:
    """The subject of a line: its own, or else its id. A message has none, because only ``add`` gives its id.

    What was kept next to the text of its subject keeps its id, so that it does not replace that text here.
    """
    subject, memory_id = plain.get("subject"), plain.get("memory_id")
    if subject is None:
        return None if isinstance(memory_id, str) and MESSAGE_ID.fullmatch(memory_id) else memory_id
    is_kept_next_to_it = (
        isinstance(memory_id, str)
        and memory_id.startswith(f"{subject}~")
        and not plain.get("several")
        and plain.get("origin") != Origin.UNTRUSTED
    )
    return memory_id if is_kept_next_to_it else subject


# Other memory systems.


def read_mem0(path: Path, scope: str) -> Iterator[ImportedItem]:
    """The memories of mem0's ``get_all``. Ids of users, agents and runs become scopes, as elsewhere."""
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
    place = _place_of(one) or MemoryPlace(scope, "")
    last_day = one.get("expiration_date")
    expires = {"expiration_date": last_day[:10]} if isinstance(last_day, str) else {}
    request = RememberRequest.of(
        one["memory"],
        subject=name_of(one.get("id")),
        source={"kind": "doc", "id": f"mem0:{one.get('id', where)}"},
        tags=[str(tag) for tag in one.get("categories") or ()],
        scope=place.scope if entity is None else entity.scope,
        metadata={**metadata, **stored_metadata({}, {} if entity is None else entity.given, **expires)},
        speaker=name_of(speaker),
    )
    return ImportedFact(where=where, request=request, highest=_trust_of(one))


def _trust_of(exported: Mapping[str, Any]) -> Origin:
    return Origin.UNTRUSTED if exported.get("trust") == Origin.UNTRUSTED else Origin.TRUSTED


def _place_of(exported: Mapping[str, Any]) -> MemoryPlace | None:
    """Where a memory of our own export was, so that what a scope holds is not put where others read it.

    Only our export says how far a memory is trusted; an id of mem0 names no scope.
    """
    is_own = "trust" in exported and "//" in str(exported.get("id"))
    return MemoryPlace.of(exported["id"]) if is_own else None


def read_langgraph(path: Path, scope: str) -> Iterator[ImportedItem]:
    """Items of a LangGraph store: a JSON list, or one a line; ``namespace`` is a list, or text with dots, or
    called ``prefix``.
    """
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
    request = RememberRequest.of(
        text_of(namespace, row["key"], row["value"]),
        subject=subject,
        scope=NamespaceScopes().of(namespace),
        source={"kind": "doc", "id": f"{KIND}:{subject}"[:MAX_NAME_CHARS]},
        refs=[ref_of(namespace, row["key"], row["value"], created_at=created)],
    )
    return ImportedFact(where=where, request=request, highest=_trust_of(row))


# Notes.


def read_markdown(path: Path, scope: str) -> Iterator[ImportedItem]:
    """Notes: each section is a fact about its heading; a long one is cut at paragraphs and sentences."""
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
                yield item_of(
                    f"{name}#{number}", _note, piece, headings=headings, front=front, name=name, scope=scope
                )


def _note(
    where: str, piece: str, *, headings: tuple[str, ...], front: dict[str, str], name: str, scope: str
) -> RememberRequest:
    tags = [tag for tag in re.split(r"[\s,\[\]\"']+", front.get("tags", "")) if tag]
    fields = {key: value for key, value in front.items() if key != "tags"}
    title = " > ".join(headings)
    return RememberRequest.of(
        f"{headings[-1]}: {piece}" if headings else piece,
        source={"kind": "doc", "id": where[-MAX_NAME_CHARS:]},
        tags=tags,
        scope=scope,
        metadata=flat_metadata({**fields, "file": name, **({"heading": title} if title else {})}),
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
            lines += [] if _REMARK.match(line) and not in_code else [line]
            continue
        if any(one.strip() for one in lines):
            yield tuple(heading for _, heading in headings), "\n".join(lines).strip()
        lines = []
        level = len(found[1])
        headings = [*(one for one in headings if one[0] < level), (level, found[2])]
    if any(one.strip() for one in lines):
        yield tuple(heading for _, heading in headings), "\n".join(lines).strip()


# Chats and agents.


def read_chatgpt(path: Path, scope: str) -> Iterator[ImportedItem]:
    """ChatGPT's export. Of a conversation with several branches, the one that was shown last."""
    for number, one in enumerate(list_in(json_file(path), path, "a list of conversations"), 1):
        plain = mapping_of(one)
        session = name_of(plain.get("conversation_id") or plain.get("id"))
        where = f"conversation {number}"
        if session is None or not isinstance(plain.get("mapping"), dict):
            yield Unreadable(where=where, problem="it has no id or no messages")
            continue
        messages = [_chatgpt_message(message) for message in _branch(plain)]
        yield _conversation(where, scope, session, plain.get("title"), [one for one in messages if one])


def _branch(conversation: Mapping[str, Any]) -> list[Any]:
    """The messages from the root of the tree to the current node."""
    nodes = conversation["mapping"]
    leaf = conversation.get("current_node")
    if not isinstance(leaf, str) or leaf not in nodes:
        leaf = next((name for name in reversed(nodes) if not mapping_of(nodes[name]).get("children")), None)
    found, seen = [], set()
    while isinstance(leaf, str) and leaf in nodes and leaf not in seen:
        seen.add(leaf)
        node = mapping_of(nodes[leaf])
        found.append(node.get("message"))
        leaf = node.get("parent")
    return [message for message in reversed(found) if message]


def _chatgpt_message(message: Any) -> dict[str, Any] | None:
    plain = mapping_of(message)
    role = mapping_of(plain.get("author")).get("role")
    hidden = mapping_of(plain.get("metadata")).get("is_visually_hidden_from_conversation")
    content = mapping_of(plain.get("content"))
    if role not in ("user", "assistant", "tool") or hidden or content.get("content_type") in _THOUGHTS:
        return None
    parts = items_of(content.get("parts")) or [content.get("text")]
    texts = [one if isinstance(one, str) else mapping_of(one).get("text") for one in parts]
    text = "\n".join(one for one in texts if isinstance(one, str) and one.strip())
    shape = {"role": role, "content": text}
    if role == "tool" and mapping_of(plain["author"]).get("name"):
        shape["name"] = plain["author"]["name"]
    return _timed(shape, plain.get("create_time")) if text else None


def read_claude(path: Path, scope: str) -> Iterator[ImportedItem]:
    """Claude's export. The text of an attachment is part of its message."""
    for number, one in enumerate(list_in(json_file(path), path, "a list of conversations"), 1):
        plain = mapping_of(one)
        session, where = name_of(plain.get("uuid")), f"conversation {number}"
        if session is None or not isinstance(plain.get("chat_messages"), list):
            yield Unreadable(where=where, problem="it has no uuid or no chat_messages")
            continue
        messages = [_claude_message(message) for message in plain["chat_messages"]]
        yield _conversation(where, scope, session, plain.get("name"), [one for one in messages if one])


def _claude_message(message: Any) -> dict[str, Any] | None:
    plain = mapping_of(message)
    role = {"human": "user", "assistant": "assistant"}.get(str(plain.get("sender")))
    blocks = [one for one in items_of(plain.get("content")) if isinstance(one, dict) and "type" in one]
    content: list[Any] = blocks or ([plain["text"]] if isinstance(plain.get("text"), str) else [])
    for attachment in items_of(plain.get("attachments")):
        extracted = mapping_of(attachment).get("extracted_content")
        if isinstance(extracted, str) and extracted.strip():
            content = [*content, {"type": "text", "text": extracted}]
    if role is None or not content:
        return None
    known = [one for one in content if isinstance(one, str) or one["type"] in _CLAUDE_BLOCKS]
    return _timed({"role": role, "content": known}, plain.get("created_at"))


def _conversation(
    where: str, scope: str, session: str, title: object, messages: list[dict[str, Any]]
) -> ImportedItem:
    if not messages:
        return Unreadable(where=where, problem="it has no messages with text")
    metadata = flat_metadata({"title": title}) if isinstance(title, str) and title else {}
    return ImportedConversation(
        where=where, scope=scope, session=session, messages=messages, metadata=metadata
    )


def _timed(message: dict[str, Any], time: object) -> dict[str, Any]:
    return message if time is None else {**message, "created_at": time}


def read_letta(path: Path, scope: str) -> Iterator[ImportedItem]:
    """An agent file of Letta: each memory block is a subject, the messages of each agent are a session."""
    whole = json_file(path)
    if not isinstance(whole, dict) or not ("agents" in whole or "core_memory" in whole):
        raise InvalidValue(what=str(path), problem="it must be an agent file (.af) of Letta")
    agents = [mapping_of(one) for one in items_of(whole.get("agents"))] or [whole]
    name = str(agents[0].get("name") or "agent")
    for block in items_of(whole.get("blocks")) or items_of(whole.get("core_memory")):
        label = str(mapping_of(block).get("label") or "block")
        for part, text in enumerate(pieces_of(mapping_of(block).get("value"))):
            subject = f"letta/{name}/{label}" + (f"/{part}" if part else "")
            yield item_of(
                f"block {label}", _letta_block, text, subject=subject, agent=name, label=label, scope=scope
            )
    for number, agent in enumerate(agents):
        messages = [one for message in items_of(agent.get("messages")) for one in _letta_message(message)]
        if messages:
            session = f"letta/{agent.get('name') or number}/{agent.get('id', number)}"
            yield ImportedConversation(
                where=f"messages of {agent.get('name') or number}",
                scope=scope,
                session=name_of(session) or "letta",
                messages=messages,
            )


def _letta_block(_: str, text: str, *, subject: str, agent: str, label: str, scope: str) -> RememberRequest:
    return RememberRequest.of(
        text,
        subject=name_of(subject),
        source={"kind": "doc", "id": name_of(subject) or label},
        scope=scope,
        metadata=flat_metadata({"agent": agent, "block": label}),
    )


def _letta_message(message: Any) -> Iterator[dict[str, Any]]:
    """A message as in a chat. What the agent says to its user is the argument of ``send_message``."""
    plain = mapping_of(message)
    role, texts = plain.get("role"), []
    content = plain.get("content") or plain.get("text") or ()
    for part in [content] if isinstance(content, str) else items_of(content):
        text = part if isinstance(part, str) else mapping_of(part).get("text")
        if isinstance(text, str) and text.strip():
            texts.append(_unpacked(text) if role == "user" else text)
    for call in items_of(plain.get("tool_calls")):
        function = mapping_of(mapping_of(call).get("function"))
        if function.get("name") == "send_message":
            said = mapping_of(loaded_json(function.get("arguments"))).get("message")
            texts += [said] if isinstance(said, str) else []
    if role in ("user", "assistant") and any(texts):
        shape = {"role": role, "content": "\n".join(text for text in texts if text)}
        yield {**shape, **({"created_at": plain["created_at"]} if plain.get("created_at") else {})}


def _unpacked(text: str) -> str:
    """A message of the user inside Letta's envelope; events of the system are none."""
    envelope = loaded_json(text)
    if not isinstance(envelope, dict) or "type" not in envelope:
        return text
    return str(envelope.get("message", "")) if envelope["type"] == "user_message" else ""


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


def item_of(
    where: str, build: Callable[..., RememberRequest | ImportedFact], *arguments: Any, **named: Any
) -> ImportedFact | Unreadable:
    """The fact that a builder makes of its arguments, or why it can't."""
    try:
        built = build(where, *arguments, **named)
        return built if isinstance(built, ImportedFact) else ImportedFact(where=where, request=built)
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


def items_of(value: object) -> Sequence[Any]:
    """The value, if it is a list; otherwise nothing."""
    return value if isinstance(value, list) else ()


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
