"""A session of the OpenAI Agents SDK that is kept in a ``Memory``: ``Runner.run(agent, "Hello",
session=StandfastSession("7", memory))``.

It follows the SDK's ``Session`` protocol and needs nothing of the SDK. Each item is a message of a session,
so it is judged, recalled and forgotten like every other; the item itself stands as JSON in the record's
metadata, because it must come back exactly as it was given. A long item is several messages, each with a part
of the text and of the JSON. An item that is not accepted is not given back, nor is the other half of its tool
call, because a model refuses calls without results.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, TypeVar

from standfast.adapters.on_refusal import OnRefusal
from standfast.errors import InvalidValue, MessageConflict, Overloaded
from standfast.govern.judge.secrecy import redacted_json
from standfast.limits import MAX_METADATA_CHARS, MAX_RETRIES
from standfast.memory import Memory
from standfast.memory.messages import (
    ACCEPTED_VERDICTS,
    AGENT,
    OPERATOR,
    TOOL,
    USER,
    SessionReader,
    passages_of,
)
from standfast.records.canon import fingerprint_of_bytes
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED, checked_scope
from standfast.records.vocabulary import Record, VisibilityMode, member_of

_ITEM: Final = "item"
_PART: Final = "part"
# What one record holds of an item's JSON. With the text of a passage, whose characters may take six each in
# JSON, a record stays within what the judge reads.
_PART_CHARS: Final = 12 * MAX_METADATA_CHARS
_ROLE_OF_KIND: Final = {USER: "user", AGENT: "assistant", OPERATOR: "system", TOOL: "tool"}
_CALL: Final = "function_call"
_RESULT: Final = "function_call_output"
_FORGOTTEN_AT_ONCE: Final = 500
_T = TypeVar("_T")


class StandfastSession:
    """The history of one conversation with an agent. Threads, tasks and processes may share it.

    Args:
        session_id: The conversation.
        memory: Where it is stored.
        scope: Whose conversation it is, e.g. ``"user/ada"``.
        session_settings: The SDK's ``SessionSettings``, or a mapping of its fields, which the SDK then
            checks. Its ``limit`` is how many items ``get_items`` returns if it is given none. The SDK's
            runner reads them too.
        on_refusal: What becomes of an item that the judge refuses. ``"redact"``, the default, keeps it
            without its secrets; ``"skip"`` leaves it out; ``"raise"`` adds nothing of the call.
        user: The name of the trusted speaker, if several people speak in the conversation.
        max_origin: The most that anything in it may be trusted.
    """

    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        scope: str = SHARED,
        session_settings: Any = None,
        on_refusal: OnRefusal | str = OnRefusal.REDACT,
        user: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> None:
        if not isinstance(session_id, str) or not session_id:
            raise InvalidValue(
                what="session_id", problem=f"it must be a non-empty string, not {session_id!r:.80}"
            )
        self.session_id = session_id
        self.memory = memory
        self.scope = checked_scope(scope)
        self._on_refusal = OnRefusal.of(on_refusal)
        self._user = user
        self._max_origin = member_of(Origin, max_origin, what="max_origin")
        self.session_settings = session_settings
        if isinstance(session_settings, Mapping):
            self.session_settings = _sdk_settings().resolve(session_settings)
        self._reader = SessionReader(memory.store, memory.namespace)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest items, at most ``limit``, oldest first; by default as many as the settings say,
        or all.
        """
        most = getattr(self.session_settings, "limit", None) if limit is None else limit
        return await _in_thread(lambda: self._items(most))

    async def add_items(self, items: Sequence[Any]) -> None:
        """Judge items and add them behind the others.

        Raises:
            PutRefused: An item holds a secret, and ``on_refusal`` is ``"raise"``. None was added.
        """
        given = [_plain(item) for item in items]
        if given:
            await _in_thread(lambda: self._add(given))

    async def pop_item(self) -> Any | None:
        """Erase the newest item and return it; None if there is none."""
        return await _in_thread(self._pop)

    async def clear_session(self) -> None:
        """Erase all items."""
        await _in_thread(self._clear)

    def _add(self, items: Sequence[dict[str, Any]]) -> None:
        messages = _messages(self._without_secrets(items))
        if not messages:
            return
        for _ in range(MAX_RETRIES):
            # Without a position, items that begin as the session begins would be taken for it. If somebody
            # else adds at the same position meanwhile, what says something else is a conflict, and what says
            # the same is taken for known.
            position = self._next_position()
            with suppress(MessageConflict):
                added = self.memory.add(
                    messages,
                    scope=self.scope,
                    session=self.session_id,
                    position=position,
                    user=self._user,
                    max_origin=self._max_origin,
                )
                answers = zip(messages, added.messages, strict=True)
                messages = [message for message, answer in answers if answer.known]
                if not messages:
                    return
        raise Overloaded(what=f"others that add to session {self.session_id!r:.80}")

    def _without_secrets(self, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The items that may be added. A secret is looked for in the whole item, before it is cut."""
        kept = []
        for number, given in enumerate(items):
            item = json.loads(_exact_json(given))
            without = redacted_json(item)
            if without == item or self._on_refusal is OnRefusal.REDACT:
                kept.append(without)
            else:
                self._on_refusal.refused(f"item {number} of session {self.session_id}", ["it holds a secret"])
        return kept

    def _next_position(self) -> int:
        row = self._reader.row(self.scope, self.session_id, self.memory.store.head())
        return 0 if row is None else int(row["next"])

    def _stored(self) -> dict[int, list[Record]]:
        """The records of the session by position, also those that were not accepted."""
        end, at = self._next_position(), self.memory.store.head()
        return self._reader.stored(self.scope, self.session_id, range(end), at) if end else {}

    def _items(self, limit: int | None) -> list[dict[str, Any]]:
        self.memory.require_readable("read a session")
        items = [item for item, _ in _items_of(self._stored())]
        newest = items if limit is None else items[max(0, len(items) - limit) :] if limit > 0 else []
        return newest if len(newest) < len(items) else _whole_calls(newest)

    def _pop(self) -> dict[str, Any] | None:
        found = _items_of(self._stored())
        if not found:
            return None
        item, records = found[-1]
        self._forget(records)
        return item

    def _clear(self) -> None:
        records = [record for group in self._stored().values() for record in group]
        for start in range(0, len(records), _FORGOTTEN_AT_ONCE):
            self._forget(records[start : start + _FORGOTTEN_AT_ONCE])

    def _forget(self, records: Sequence[Record]) -> None:
        names = list(dict.fromkeys(record.memory_id.partition("~")[0] for record in records))

        def attempt() -> None:
            with self.memory.run(
                workflow="openai-agents", mode=VisibilityMode.BUFFERED_WRITE, scope=self.scope
            ) as run:
                for name in names:
                    run.forget(name, reason="removed from its session")

        self.memory.retry(attempt, key=names[0])


def _sdk_settings() -> Any:
    try:
        return import_module("agents.memory").SessionSettings()
    except ImportError:
        problem = "a mapping needs the SDK; run: pip install openai-agents"
        raise InvalidValue(what="session_settings", problem=problem) from None


async def _in_thread(work: Callable[[], _T]) -> _T:
    # What was begun is finished, even if the task is cancelled.
    return await asyncio.shield(asyncio.to_thread(work))


def _plain(item: Any) -> dict[str, Any]:
    dump = getattr(item, "model_dump", None)
    plain = dump(exclude_unset=True) if callable(dump) else item
    if not isinstance(plain, Mapping):
        raise InvalidValue(what="item", problem=f"it must be an input item of the SDK, not {item!r:.80}")
    return dict(plain)


def _messages(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that items are: each has a passage of the text, and a part of the item in its metadata."""
    messages = []
    for item, passages in zip(items, passages_of([_shown(item) for item in items]), strict=True):
        exact = _exact_json(item)
        count = max(len(passages), -(-len(exact) // _PART_CHARS))
        size = -(-len(exact) // count)
        digest = fingerprint_of_bytes(exact.encode())[:16]
        for number in range(count):
            passage = passages[min(number, len(passages) - 1)]
            part = exact[number * size : (number + 1) * size]
            metadata: dict[str, str] = {
                f"{_ITEM}.{place:03}": part[start : start + MAX_METADATA_CHARS]
                for place, start in enumerate(range(0, len(part), MAX_METADATA_CHARS))
            }
            if count > 1:
                metadata[_PART] = f"{number + 1}/{count} {digest}"
            is_text = number < len(passages)
            message = {
                "role": _ROLE_OF_KIND[passage.kind],
                "name": passage.speaker,
                "content": passage.text if is_text else f"[part {number + 1} of {count}]",
                "metadata": metadata,
            }
            messages.append(message)
    return messages


def _exact_json(item: dict[str, Any]) -> str:
    try:
        return json.dumps(item, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidValue(what="item", problem=f"it is not JSON: {error}") from None


def _shown(item: dict[str, Any]) -> dict[str, Any]:
    """The message that an item is, which says at least what kind it is."""
    kind = str(item.get("type", "message"))
    says_nothing = kind not in ("message", _CALL, _RESULT) or not (item.get("role") or kind != "message")
    if says_nothing:
        return {"role": "assistant", "content": f"[{kind[:40]}]"}
    if kind != _CALL and not any(passages_of([item])):
        empty = f"[empty {kind}]"
        return {**item, "content": empty, "output": empty}
    return item


def _items_of(stored: Mapping[int, Sequence[Record]]) -> list[tuple[dict[str, Any], list[Record]]]:
    """The items of a session with their records, in order.

    An item of which a part was not accepted, or that somebody else wrote, is left out.
    """
    found: list[tuple[dict[str, Any], list[Record]]] = []
    begun: dict[str, list[Record]] = {}
    for records in stored.values():
        number, count, digest = _place_of(records[0])
        parts = begun.pop(digest, []) if number > 1 else []
        is_accepted = all(record.verdict in ACCEPTED_VERDICTS for record in records)
        if not is_accepted or len(parts) != number - 1:
            continue
        # A message that an earlier version cut into several records has the whole item in each.
        parts.append(records[0])
        if number < count:
            begun[digest] = parts
            continue
        item = _read_item(parts)
        if item is not None:
            found.append((item, [*parts, *records[1:]]))
    return found


def _place_of(record: Record) -> tuple[int, int, str]:
    """Which part of an item a record has, of how many, and the digest of the item."""
    place, _, digest = str(record.metadata.get(_PART, "1/1 ")).partition(" ")
    number, _, count = place.partition("/")
    is_place = number.isdecimal() and count.isdecimal()
    return (int(number), int(count), digest) if is_place else (1, 1, "")


def _read_item(parts: Sequence[Record]) -> dict[str, Any] | None:
    pieces = [
        str(part.metadata[name])
        for part in parts
        for name in sorted(part.metadata)
        if name.startswith(f"{_ITEM}.")
    ]
    try:
        item = json.loads("".join(pieces))
    except ValueError:
        return None
    return item if isinstance(item, dict) else None


def _whole_calls(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items without results whose calls are missing, and without calls whose results were not accepted.

    Calls behind the last result are kept: they may still be under way.
    """
    called = {item.get("call_id") for item in items if item.get("type") == _CALL}
    answered = {item.get("call_id") for item in items if item.get("type") == _RESULT}
    last = max((number for number, item in enumerate(items) if item.get("type") != _CALL), default=-1)
    return [
        item
        for number, item in enumerate(items)
        if not (item.get("type") == _RESULT and item.get("call_id") not in called)
        and not (item.get("type") == _CALL and item.get("call_id") not in answered and number < last)
    ]
