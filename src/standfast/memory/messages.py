"""Chat messages: read from OpenAI- and Anthropic-style messages as passages, and back from sessions.

A passage is what one record holds. Most messages have one. A message that mixes origins has several (in
Anthropic's format, the results of tools come inside messages of the user), and a long one is cut into several
at sentence ends.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import msgspec

from standfast.errors import InvalidValue
from standfast.govern.judge.judge import STRICTNESS
from standfast.govern.judge.secrecy import hides_secret
from standfast.limits import (
    MAX_MESSAGE_CHARS,
    MAX_MESSAGE_POSITION,
    MAX_NAME_CHARS,
    MAX_PASSAGE_CHARS,
    SCAN_PAGE_RECORDS,
)
from standfast.records.canon import fingerprint, normal_string, parse
from standfast.records.origins import Origin
from standfast.records.rows import RowKind
from standfast.records.scopes import name_in, prefix_of, scope_in, scoped_key
from standfast.records.timestamps import instant_text, instant_with_offset, offset_of
from standfast.records.vocabulary import Band, JsonScalar, Record, Value, Verdict, shown
from standfast.store.protocol import Version, verified
from standfast.store.store import Store
from standfast.store.stored_records import record_of

USER: Final = "user"
AGENT: Final = "agent"
OPERATOR: Final = "operator"
TOOL: Final = "tool"
KIND_OF_ROLE: Final[Mapping[str, str]] = {
    "user": USER,
    "human": USER,
    "assistant": AGENT,
    "ai": AGENT,
    "model": AGENT,
    "system": OPERATOR,
    "developer": OPERATOR,
    "tool": TOOL,
    "function": TOOL,
}
"""The kind of source that each role of a message is; the kind decides how far the message is trusted."""
_ROLES: Final = ("user", "assistant", "system", "developer", "tool")
_TIMES: Final = ("time", "timestamp", "created_at", "ts_utc")
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
# What a model thought is not part of the conversation.
_SILENT: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALLS: Final = frozenset({"tool_use", "function_call", "server_tool_use"})
_RESULTS: Final = frozenset({"tool_result", "function_call_output"})
# Where a text may be cut, best first: after a paragraph, a sentence, a line, a word, another sign.
_ENDS: Final = (
    re.compile(r"\n\s*\n"),
    re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]"),
    re.compile(r"\n"),
    re.compile(r"\s"),
    re.compile(r"[^\w-]"),
)
_MAX_ENDS_TRIED: Final = 64
_NEAR_CHARS: Final = 600
"""So much before and behind a cut, and the word there whole, is searched for a secret that it would split."""
_WORD_BEFORE: Final = re.compile(r"\S*\Z")
_STEP_CHARS: Final = 64


class Passage(Value, frozen=True, kw_only=True):
    """A part of a message that becomes one record."""

    kind: str
    speaker: str
    text: str


class ReadMessage(Value, frozen=True, kw_only=True):
    """One message of a conversation. It has no passage if it says nothing, as before a tool call."""

    passages: tuple[Passage, ...]
    position: int | None = None
    time: str | None = None
    utc_offset: int | None = None
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)


def read_messages(messages: Iterable[Any]) -> list[ReadMessage]:
    """Read messages: mappings, or a client library's objects with ``model_dump``.

    Raises:
        InvalidValue: One of them is no message. Its number, from 0, is named.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        problem = f'give a list such as [{{"role": "user", "content": "Hello"}}], not {shown(messages)}'
        raise InvalidValue(what="messages", problem=problem)
    names: dict[str, str] = {}
    return [_read(message, number, names) for number, message in enumerate(messages)]


def passages_of(messages: Iterable[Mapping[str, Any]]) -> list[list[Passage]]:
    """What each message says, of any length, cut into passages.

    Raises:
        InvalidValue: One of them is no message. Its number, from 0, is named.
    """
    names: dict[str, str] = {}
    passages = []
    for number, message in enumerate(messages):
        try:
            said = _joined(_passages(message, names))
        except _UnreadableMessage as problem:
            raise InvalidValue(what=f"message {number}", problem=str(problem)) from None
        passages.append([cut for one in said for cut in _cut(one)])
    return passages


def _read(message: Any, number: int, names: dict[str, str]) -> ReadMessage:
    """Read one message. ``names`` has the tools of the calls so far, by call id."""
    dump = getattr(message, "model_dump", None)
    plain = dump() if callable(dump) else message
    try:
        return _message(plain, number, names)
    except _UnreadableMessage as problem:
        raise InvalidValue(what=f"message {number}", problem=str(problem)) from None


def _message(plain: Any, number: int, names: dict[str, str]) -> ReadMessage:
    if not isinstance(plain, Mapping):
        raise _UnreadableMessage(f"it must be an object with role and content, not {shown(plain)}")
    passages = _joined(_passages(plain, names))
    if not passages and plain.get("role") is not None and "content" not in plain:
        raise _UnreadableMessage(f"it has no content, only {', '.join(map(str, plain))}")
    if sum(len(one.text) for one in passages) > MAX_MESSAGE_CHARS:
        raise _UnreadableMessage(f"it is longer than {MAX_MESSAGE_CHARS:,} characters")
    metadata = plain.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise _UnreadableMessage(f"metadata must be an object, not {shown(metadata)}")
    time = _time(plain, number)
    return ReadMessage(
        passages=tuple(cut for one in passages for cut in _cut(one)),
        position=_position(plain.get("position")),
        time=None if time is None else instant_text(time, what="time"),
        utc_offset=None if time is None else offset_of(time),
        metadata=dict(metadata),
    )


class _UnreadableMessage(Exception):
    """Why a message can't be read."""


def _passages(message: Mapping[str, Any], names: dict[str, str]) -> Iterator[Passage]:
    """What a message says, part by part."""
    kind = message.get("type")
    if message.get("role") is None and kind in _CALLS | _RESULTS | _SILENT:
        # An item of OpenAI's Responses API: a call, or its result, is a message of its own.
        yield from _parts([message], AGENT, "assistant", names)
        return
    role = kind if message.get("role") is None and kind in KIND_OF_ROLE else message.get("role")
    if not isinstance(role, str) or role.lower() not in KIND_OF_ROLE:
        raise _UnreadableMessage(f"role must be one of {', '.join(_ROLES)}, not {shown(role)}")
    source = KIND_OF_ROLE[role.lower()]
    name = message.get("name")
    speaker = _name(name) if isinstance(name, str) and name.strip() else role.lower()
    if source == TOOL and speaker == role.lower():
        speaker = names.get(str(message.get("tool_call_id")), TOOL)
    content = message.get("content")
    if content is None and message.get("refusal"):
        content = message["refusal"]
    yield from _parts(_list_of(content), source, speaker, names)
    calls = message.get("tool_calls") or ()
    legacy = message.get("function_call")
    for call in [*(calls if isinstance(calls, list | tuple) else ()), *([legacy] if legacy else ())]:
        yield _call(call, speaker, names)


def _list_of(content: Any) -> list[Any]:
    if content is None:
        return []
    return list(content) if isinstance(content, list | tuple) else [content]


def _parts(parts: Iterable[Any], kind: str, speaker: str, names: dict[str, str]) -> Iterator[Passage]:
    """The parts of a message's content. What is neither text nor a tool's is named in brackets."""
    for part in parts:
        if isinstance(part, str):
            yield Passage(kind=kind, speaker=speaker, text=part)
            continue
        if not isinstance(part, Mapping):
            raise _UnreadableMessage(f"content must be text or a list of parts, not {shown(part)}")
        named = part.get("type", "text" if "text" in part else None)
        if not isinstance(named, str):
            raise _UnreadableMessage(f"a part of the content has no type: {shown(dict(part))}")
        if named in _SILENT:
            continue
        if named in _CALLS:
            yield _call(part, speaker if kind == AGENT else "assistant", names)
        elif named in _RESULTS:
            tool = names.get(str(part.get("tool_use_id") or part.get("call_id")), TOOL)
            yield from _parts(_list_of(part.get("content", part.get("output"))), TOOL, tool, names)
        elif named in _TEXTS:
            text = part.get("refusal") if named == "refusal" else part.get("text")
            if not isinstance(text, str):
                raise _UnreadableMessage(f"the text of a part must be a string, not {shown(text)}")
            yield Passage(kind=kind, speaker=speaker, text=text)
        else:
            yield Passage(kind=kind, speaker=speaker, text=f"[{named[:40]}]")


def _call(call: Any, speaker: str, names: dict[str, str]) -> Passage:
    """A call of a tool, as text. It is what the agent said; the result is the tool's."""
    if not isinstance(call, Mapping):
        raise _UnreadableMessage(f"a tool call must be an object, not {shown(call)}")
    function = call.get("function") if isinstance(call.get("function"), Mapping) else call
    assert isinstance(function, Mapping)
    name = function.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _UnreadableMessage("a tool call has no name")
    given = function.get("arguments", function.get("input", function.get("args", "")))
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    call_id = call.get("id") or call.get("call_id")
    names[str(call.get("call_id") or call_id)] = names[str(call_id)] = _name(name)
    return Passage(kind=AGENT, speaker=speaker, text=f"[called {name}({arguments})]")


def _joined(passages: Iterable[Passage]) -> list[Passage]:
    """Neighbouring passages of one speaker and kind as one, a line each; empty ones are left out."""
    joined: list[Passage] = []
    for one in passages:
        if not one.text.strip():
            continue
        normal = normal_string(one.text)
        if joined and (joined[-1].kind, joined[-1].speaker) == (one.kind, one.speaker):
            normal = f"{joined.pop().text}\n{normal}"
        joined.append(Passage(kind=one.kind, speaker=one.speaker, text=normal))
    return joined


def _cut(passage: Passage) -> Iterator[Passage]:
    for text in cut_text(passage.text):
        yield Passage(kind=passage.kind, speaker=passage.speaker, text=text)


def cut_text(text: str, *, max_chars: int = MAX_PASSAGE_CHARS) -> list[str]:
    """Cut a text into pieces of at most ``max_chars``, after a paragraph, a sentence, a line or a word.

    The pieces joined are the text. None is blank, unless all of the text is: white space that alone would
    fill a piece stands in front of the next one. A secret is not cut in two, nor from the word for it: each
    piece is judged by itself, and would not show it.
    """
    pieces = []
    start = 0
    while len(text) - start > max_chars:
        end = _end_of_piece(text, start, max_chars)
        if not text[end:].strip():
            break
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _end_of_piece(text: str, start: int, max_chars: int) -> int:
    """Where the piece that starts here ends: at the last good place in the second half of its room."""
    if not text[start : start + max_chars].strip():
        start += len(text) - start - len(text[start:].lstrip())
    least, most = start + max_chars // 2, start + max_chars
    for pattern in _ENDS:
        ends = [found.end() for found in pattern.finditer(text, least, most)]
        for end in reversed(ends[-_MAX_ENDS_TRIED:]):
            if _is_good_end(text, start, end):
                return end
    # One long word: anywhere but in a secret.
    return next((end for end in range(most, least, -_STEP_CHARS) if _is_good_end(text, start, end)), most)


def _is_good_end(text: str, start: int, end: int) -> bool:
    """Whether a piece may end here: it says something, and no secret is split."""
    if not text[start:end].strip():
        return False
    # What a token is stands at its beginning.
    before = _WORD_BEFORE.search(text[max(start, end - MAX_PASSAGE_CHARS) : max(start, end - _NEAR_CHARS)])
    first = max(start, end - _NEAR_CHARS - len(before[0] if before else ""))
    return not hides_secret(text[first:end], text[end : end + _NEAR_CHARS])


def _name(name: str) -> str:
    """A speaker's name as records hold it."""
    return normal_string("".join(char for char in name.strip() if char.isprintable()))[:MAX_NAME_CHARS] or "?"


def _position(position: Any) -> int | None:
    if position is None:
        return None
    if type(position) is not int or not 0 <= position <= MAX_MESSAGE_POSITION:
        raise _UnreadableMessage(
            f"position must be a number from 0 to {MAX_MESSAGE_POSITION:,}, not {shown(position)}"
        )
    return position


def _time(message: Mapping[str, Any], number: int) -> str | None:
    """When a message was said, in its own offset: an aware datetime, ISO 8601 text, or seconds since 1970."""
    given = next((message[name] for name in _TIMES if message.get(name) is not None), None)
    if given is None:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            given = datetime.fromtimestamp(given, UTC)
        except (OverflowError, ValueError, OSError):
            raise _UnreadableMessage(f"its time is no time: {shown(given)}") from None
    return instant_with_offset(given, what=f"the time of message {number}")


# A message is in LEDGER, whatever its verdict, unless it was rejected.
MESSAGE_BANDS: Final = (Band.LEDGER, Band.VOID)
ACCEPTED_VERDICTS: Final = (Verdict.SEAL, Verdict.SABAR)
_MESSAGE_ID: Final = re.compile(r"s-[0-9a-f]{20}-([0-9]{9})")


class SessionMessage(Value, frozen=True, kw_only=True):
    """A message as it is read back.

    ``text`` is None if it was not accepted: ``verdict`` says what became of it.

    A message in which a tool's result and a user's words stood together is read back as two, at one position.
    """

    position: int
    speaker: str
    text: str | None
    time: str | None
    verdict: Verdict
    origin: Origin
    memory_ids: tuple[str, ...]
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()


class SessionInfo(Value, frozen=True, kw_only=True):
    """A session in a list: how many messages, the position behind the last, when it began and ended."""

    session: str
    scope: str
    messages: int
    next_position: int
    first_time: str
    last_time: str

    @property
    def key(self) -> str:
        """The key of the session's row, by which lists of sessions are ordered."""
        return scoped_key(RowKind.SESSION, self.scope, session_digest(self.session))


class SessionReader:
    """Reads the sessions of one namespace."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def messages(self, session: str, *, scope: str, at: int, after: str = "") -> Iterator[SessionMessage]:
        """Yield the messages of a session, in order. They are read in pages.

        Args:
            after: Only messages behind the one whose first record has this id.
        """
        start = position_of(after) if after else 0
        while stored := self.stored(
            scope, session, range(start, MAX_MESSAGE_POSITION + 1), at, limit=SCAN_PAGE_RECORDS
        ):
            for position, records in stored.items():
                for _, group in groupby(records, key=lambda one: (one.origin, one.speaker)):
                    message = _read_back(position, list(group))
                    if message.memory_ids[0] > after:
                        yield message
            start = max(stored) + 1

    def sessions(self, *, scope: str, at: int, after: str = "") -> Iterator[SessionInfo]:
        """Yield the sessions of a scope and all below it, by scope and then in a fixed order.

        Args:
            after: Only sessions behind the one with this ``key``.
        """
        prefix = prefix_of(RowKind.SESSION, scope)
        for version in self._store.scan(self._namespace, prefix=prefix, after=after, at=at):
            row = parse(version.content or b"")
            yield SessionInfo(
                session=row["session"],
                scope=scope_in(version.key),
                messages=row["messages"],
                next_position=row["next"],
                first_time=row["first"],
                last_time=row["last"],
            )

    def stored(
        self, scope: str, session: str, positions: range, at: int, *, limit: int | None = None
    ) -> dict[int, list[Record]]:
        """The records of a session at these positions, at most so many positions; each position's by part."""
        session = normal_string(session)
        found: dict[int, dict[str, Record]] = {}
        for band in MESSAGE_BANDS:
            seen: set[int] = set()
            for version in self.versions(band, scope, session, positions, at):
                if verified(version).content is not None:
                    position = position_of(name_in(version.key))
                    seen.add(position)
                    if limit is not None and len(seen) > limit:
                        break
                    record = record_of(version)
                    # What was decided later is what holds; only its own id has no suffix.
                    found.setdefault(position, {}).setdefault(plain_id(record.memory_id), record)
        return {
            position: [parts[memory_id] for memory_id in sorted(parts)]
            for position, parts in sorted(found.items())[:limit]
        }

    def versions(self, band: Band, scope: str, session: str, positions: range, at: int) -> Iterator[Version]:
        """The newest versions of a session's rows in a band, by position, also those that ended."""
        prefix = scoped_key(band, scope, f"s-{session_digest(session)}-")
        # Suffixes of ids begin with "." or "~", so this is behind everything of the position before.
        after = f"{prefix}{positions.start - 1:09}~~" if positions.start else ""
        for version in self._store.newest_versions(self._namespace, prefix=prefix, after=after, at=at):
            if position_of(name_in(version.key)) not in positions:
                return
            yield version

    def taken(self, scope: str, session: str, positions: range, at: int) -> set[int]:
        """The positions at which a message is or was: one that was forgotten keeps its place."""
        return {
            position_of(name_in(version.key))
            for band in MESSAGE_BANDS
            for version in self.versions(band, scope, normal_string(session), positions, at)
        }

    def row(self, scope: str, session: str, at: int) -> dict[str, Any] | None:
        """What is noted about a session: how many messages it has, and the position behind the last one."""
        key = scoped_key(RowKind.SESSION, scope, session_digest(session))
        found = self._store.read(self._namespace, [key], at=at)
        return parse(found[key].content or b"") if key in found else None


def session_digest(session: str) -> str:
    """What stands for a session in keys and ids."""
    return fingerprint(["session/v1", session])[:20]


def message_id(session: str, position: int, part: int) -> str:
    """The id of a message's record; ``part`` counts from 1 if it has several, and is 0 otherwise."""
    whole = f"s-{session_digest(session)}-{position:09}"
    return f"{whole}.{part:04}" if part else whole


def position_of(memory_id: str) -> int:
    """The position in an id that ``message_id`` made; 0 if it made none."""
    found = _MESSAGE_ID.match(memory_id)
    return int(found[1]) if found else 0


def plain_id(memory_id: str) -> str:
    """The id without the suffix of a version that was only logged."""
    return memory_id.partition("~")[0]


def strictest(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The strictest of these verdicts; None if there is none."""
    return max((one for one in verdicts if one is not None), key=STRICTNESS.__getitem__, default=None)


def _read_back(position: int, records: Sequence[Record]) -> SessionMessage:
    first = records[0]
    verdict = strictest(one.verdict for one in records) or Verdict.SEAL
    is_accepted = all(one.verdict in ACCEPTED_VERDICTS for one in records)
    return SessionMessage(
        position=position,
        speaker=first.speaker or "",
        text="".join(one.text for one in records) if is_accepted else None,
        time=first.ts_utc,
        verdict=verdict,
        origin=first.origin,
        memory_ids=tuple(plain_id(one.memory_id) for one in records),
        metadata=first.metadata,
        tags=first.tags,
    )
