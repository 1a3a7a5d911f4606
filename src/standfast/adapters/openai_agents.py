"""A session of the OpenAI Agents SDK that is kept in a ``Memory``: ``Runner.run(agent, "Hello",
session=StandfastSession("7", memory))``.

It follows the SDK's ``Session`` protocol and needs nothing of the SDK. Each item is a message of a session,
so it is judged, recalled and forgotten like every other; the item itself stands as JSON in the record's
metadata, because it must come back exactly as it was given. An item that is not accepted is not given back,
nor is the other half of its tool call, because a model refuses calls without results.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, TypeVar

from standfast.errors import InvalidValue, MessageConflict, Overloaded
from standfast.limits import MAX_METADATA_CHARS, MAX_METADATA_FIELDS, MAX_RETRIES
from standfast.memory import Memory
from standfast.memory.messages import ACCEPTED_VERDICTS, SessionReader
from standfast.records.scopes import SHARED, checked_scope
from standfast.records.vocabulary import Record, VisibilityMode

_ITEM: Final = "item"
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
    """

    def __init__(
        self, session_id: str, memory: Memory, *, scope: str = SHARED, session_settings: Any = None
    ) -> None:
        if not isinstance(session_id, str) or not session_id:
            raise InvalidValue(
                what="session_id", problem=f"it must be a non-empty string, not {session_id!r:.80}"
            )
        self.session_id = session_id
        self.memory = memory
        self.scope = checked_scope(scope)
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
        """Judge items and add them behind the others."""
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
        messages = [_message(item) for item in items]
        for _ in range(MAX_RETRIES):
            # Without a position, items that begin as the session begins would be taken for it. If somebody
            # else adds at the same position meanwhile, what says something else is a conflict, and what says
            # the same is taken for known.
            position = self._next_position()
            with suppress(MessageConflict):
                added = self.memory.add(
                    messages, scope=self.scope, session=self.session_id, position=position
                )
                answers = zip(messages, added.messages, strict=True)
                messages = [message for message, answer in answers if answer.known]
                if not messages:
                    return
        raise Overloaded(what=f"others that add to session {self.session_id!r:.80}")

    def _next_position(self) -> int:
        row = self._reader.row(self.scope, self.session_id, self.memory.store.head())
        return 0 if row is None else int(row["next"])

    def _stored(self) -> dict[int, list[Record]]:
        """The records of the session by position, also those that were not accepted."""
        end, at = self._next_position(), self.memory.store.head()
        return self._reader.stored(self.scope, self.session_id, range(end), at) if end else {}

    def _items(self, limit: int | None) -> list[dict[str, Any]]:
        self.memory.require_readable("read a session")
        found = (_item_of(records) for records in self._stored().values())
        items = [item for item in found if item is not None]
        newest = items if limit is None else items[max(0, len(items) - limit) :] if limit > 0 else []
        return newest if len(newest) < len(items) else _whole_calls(newest)

    def _pop(self) -> dict[str, Any] | None:
        stored = self._stored()
        for position in reversed(stored):
            item = _item_of(stored[position])
            if item is not None:
                self._forget(stored[position])
                return item
        return None

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


def _message(item: dict[str, Any]) -> dict[str, Any]:
    """The message that an item is, with the item itself in its metadata."""
    try:
        exact = json.dumps(item, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidValue(what="item", problem=f"it is not JSON: {error}") from None
    pieces = [exact[start : start + MAX_METADATA_CHARS] for start in range(0, len(exact), MAX_METADATA_CHARS)]
    if len(pieces) > MAX_METADATA_FIELDS:
        problem = (
            f"it has {len(exact):,} characters, and {MAX_METADATA_FIELDS * MAX_METADATA_CHARS:,} can be"
            " stored"
        )
        raise InvalidValue(what="item", problem=problem)
    metadata = {f"{_ITEM}.{number:03}": piece for number, piece in enumerate(pieces)}
    kind = str(item.get("type", "message"))
    says_nothing = kind not in ("message", _CALL, _RESULT) or not (item.get("role") or kind != "message")
    if says_nothing:
        return {"role": "assistant", "content": f"[{kind[:40]}]", "metadata": metadata}
    content = item.get("content", item.get("output"))
    shown = {**item, "metadata": metadata}
    return (
        shown if content not in (None, "", []) or kind == _CALL else {**shown, "content": f"[empty {kind}]"}
    )


def _item_of(records: Sequence[Record]) -> dict[str, Any] | None:
    """The item in the records of one position; None if one of them was not accepted, or somebody else wrote
    it.
    """
    if any(record.verdict not in ACCEPTED_VERDICTS for record in records):
        return None
    metadata = records[0].metadata
    pieces = [metadata[name] for name in sorted(metadata) if name.startswith(f"{_ITEM}.")]
    try:
        item = json.loads("".join(str(piece) for piece in pieces))
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
