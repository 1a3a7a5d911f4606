"""A session of the OpenAI Agents SDK that is kept in a ``Memory``: ``Runner.run(agent, "Hello",
session=StandfastSession("7", memory))``.

It follows the SDK's ``Session`` protocol and needs nothing of the SDK. ``session_items.py`` says how items
are kept. One that is not accepted is not given back, nor is the other half of its tool call, because a model
refuses calls without results.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from standfast.adapters.on_refusal import OnRefusal
from standfast.adapters.session_items import ItemSession
from standfast.adapters.threads import in_thread
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.memory.messages import passages_of
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED

_CALL: Final = "function_call"
_RESULT: Final = "function_call_output"


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
        self._session = ItemSession(
            session_id,
            memory,
            scope=scope,
            workflow="openai-agents",
            shown=_shown,
            pair_of=_call_id,
            on_refusal=on_refusal,
            user=user,
            max_origin=max_origin,
        )
        self.session_id = session_id
        self.memory = memory
        self.scope = scope
        self.session_settings = session_settings
        if isinstance(session_settings, Mapping):
            self.session_settings = _sdk_settings().resolve(session_settings)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest items, oldest first: at most ``limit``, or what the settings say, or all."""
        most = getattr(self.session_settings, "limit", None) if limit is None else limit
        return await in_thread(lambda: self._items(most))

    async def add_items(self, items: Sequence[Any]) -> None:
        """Judge items and add them behind the others.

        Raises:
            PutRefused: An item holds a secret, and ``on_refusal`` is ``"raise"``. None was added.
        """
        given = [_plain(item) for item in items]
        if given:
            await in_thread(lambda: self._session.add(given))

    async def pop_item(self) -> Any | None:
        """Erase the newest item and return it; None if there is none."""
        return await in_thread(self._pop)

    async def clear_session(self) -> None:
        """Erase all items."""
        await in_thread(self._session.clear)

    def _items(self, limit: int | None) -> list[dict[str, Any]]:
        found, last_refused = self._session.items_and_last_refused()
        if limit is not None and limit < len(found):
            return [item for item, _ in found[len(found) - max(0, limit) :]]
        places = [records[-1].position or 0 for _, records in found]
        return _whole_calls([item for item, _ in found], places, last_refused)

    def _pop(self) -> dict[str, Any] | None:
        taken = self._session.take(lambda items: items[-1:])
        return taken[0][0] if taken else None


def _sdk_settings() -> Any:
    try:
        return import_module("agents.memory").SessionSettings()
    except ImportError:
        problem = "a mapping needs the SDK; run: pip install openai-agents"
        raise InvalidValue(what="session_settings", problem=problem) from None


def _plain(item: Any) -> dict[str, Any]:
    dump = getattr(item, "model_dump", None)
    plain = dump(exclude_unset=True) if callable(dump) else item
    if not isinstance(plain, Mapping):
        raise InvalidValue(what="item", problem=f"it must be an input item of the SDK, not {item!r:.80}")
    return dict(plain)


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


def _call_id(item: dict[str, Any]) -> object:
    return item.get("call_id") if item.get("type") in (_CALL, _RESULT) else None


def _whole_calls(
    items: Sequence[dict[str, Any]], places: Sequence[int], last_refused: int
) -> list[dict[str, Any]]:
    """The items without results whose calls are missing, and without calls whose results were not accepted.

    Calls behind everything else are kept: they may still be under way.

    Args:
        places: The position of each item in the session.
        last_refused: The position of the last message that was not accepted.
    """
    called = {item.get("call_id") for item in items if item.get("type") == _CALL}
    answered = {item.get("call_id") for item in items if item.get("type") == _RESULT}
    others = (place for item, place in zip(items, places, strict=True) if item.get("type") != _CALL)
    last = max(others, default=last_refused)
    return [
        item
        for item, place in zip(items, places, strict=True)
        if not (item.get("type") == _RESULT and item.get("call_id") not in called)
        and not (
            item.get("type") == _CALL
            and item.get("call_id") not in answered
            and place < max(last, last_refused)
        )
    ]
