"""Items of a conversation, kept in a session of memory so that they come back exactly as they were given.

The sessions of the OpenAI Agents SDK and LlamaIndex's chat store share this. Each item is a message, so it is
judged, recalled and forgotten like every other; the item itself stands as JSON in the record's metadata. A
long item is several messages, each with a part of the text and of the JSON. An item that is not accepted is
not given back.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from standfast.adapters.erasing import erase
from standfast.adapters.on_refusal import OnRefusal
from standfast.errors import InvalidValue
from standfast.govern.judge.secrecy import redacted_json
from standfast.limits import MAX_METADATA_CHARS
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
from standfast.records.scopes import checked_scope
from standfast.records.vocabulary import Record, VisibilityMode, member_of

_ITEM: Final = "item"
_PART: Final = "part"
# What one record holds of an item's JSON. With the text of a passage, whose characters may take six each in
# JSON, a record stays within what the judge reads.
_PART_CHARS: Final = 12 * MAX_METADATA_CHARS
_ROLE_OF_KIND: Final = {USER: "user", AGENT: "assistant", OPERATOR: "system", TOOL: "tool"}
_REMOVED: Final = "removed from its session"
StoredItems = list[tuple[dict[str, Any], list[Record]]]
"""The items of a session, each with its records."""


class ItemSession:
    """The items of one conversation, in order. Threads and processes may share it.

    Args:
        session_id: The conversation.
        memory: Where it is stored.
        scope: Whose conversation it is, e.g. ``"user/ada"``.
        workflow: Who writes, for the ledger.
        shown: The message that an item is, for the judge and for recall.
        pair_of: What an item has in common with its other half, such as the id of a tool call; None for an
            item that stands alone. Halves are left out together.
        on_refusal: What becomes of an item that the judge refuses.
        user: The name of the trusted speaker, if several people speak.
        max_origin: The most that anything in it may be trusted.
    """

    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        scope: str,
        workflow: str,
        shown: Callable[[dict[str, Any]], dict[str, Any]],
        on_refusal: OnRefusal | str,
        pair_of: Callable[[dict[str, Any]], object] = lambda _: None,
        user: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> None:
        if not isinstance(session_id, str) or not session_id:
            problem = f"it must be a non-empty string, not {session_id!r:.80}"
            raise InvalidValue(what="session_id", problem=problem)
        self.session_id = session_id
        self.memory = memory
        self.scope = checked_scope(scope)
        self._workflow = workflow
        self._shown = shown
        self._pair_of = pair_of
        self._on_refusal = OnRefusal.of(on_refusal)
        self._user = user
        self._max_origin = member_of(Origin, max_origin, what="max_origin")
        self._reader = SessionReader(memory.store, memory.namespace)

    def add(self, items: Sequence[dict[str, Any]], *, run_id: str | None = None) -> None:
        """Judge items and add them behind the others; under one ``run_id``, once."""
        self._add(self._without_secrets(items), run_id)

    def replace(self, items: Sequence[dict[str, Any]]) -> None:
        """Erase all items, and add others. If these are refused, nothing is erased."""
        kept = self._without_secrets(items)
        self.clear()
        self._add(kept)

    def items(self) -> StoredItems:
        """The items that were accepted, oldest first, with their records."""
        return self.items_and_last_refused()[0]

    def items_and_last_refused(self) -> tuple[StoredItems, int]:
        """The accepted items, and the position of the last message that was not accepted; -1 for none."""
        self.memory.require_readable("read a session")
        stored = self._stored(self.memory.store.head())
        refused = (place for place, records in stored.items() if not _is_accepted(records))
        return _items_of(stored), max(refused, default=-1)

    def take(self, chosen: Callable[[StoredItems], StoredItems]) -> StoredItems:
        """Erase some of the items and return them. Of callers at once, one gets each item.

        Args:
            chosen: Which of the items. It may be asked again, if somebody else takes one meanwhile.
        """

        def attempt() -> StoredItems | None:
            with self.memory.run(
                workflow=self._workflow, mode=VisibilityMode.BUFFERED_WRITE, scope=self.scope
            ) as run:
                found = chosen(_items_of(self._stored(run.identity.memory_snapshot_id)))
                try:
                    for name in _names(record for _, records in found for record in records):
                        run.forget(name, reason=_REMOVED)
                except InvalidValue:
                    # Somebody else erased it since it was read, from every snapshot.
                    run.discard()
                    return None
            return found

        while (found := self.memory.retry(attempt, key=self.session_id)) is None:
            pass
        return found

    def clear(self) -> None:
        """Erase all items, also those that were not accepted."""
        stored = self._stored(self.memory.store.head())
        names = _names(record for group in stored.values() for record in group)
        erase(self.memory, [(self.scope, name) for name in names], workflow=self._workflow, reason=_REMOVED)

    def _add(self, kept: Sequence[dict[str, Any]], run_id: str | None = None) -> None:
        messages = _messages(kept, [self._shown(item) for item in kept])
        if messages:
            self.memory.add(
                messages,
                scope=self.scope,
                session=self.session_id,
                user=self._user,
                max_origin=self._max_origin,
                run_id=run_id,
            )

    def _without_secrets(self, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The items that may be added. A secret is looked for in the whole item, before it is cut."""
        kept, refused_pairs = [], set[object]()
        for number, given in enumerate(items):
            item = json.loads(_exact_json(given))
            without = redacted_json(item)
            if without == item or self._on_refusal is OnRefusal.REDACT:
                kept.append(without)
            else:
                self._on_refusal.refused(f"item {number} of session {self.session_id}", ["it holds a secret"])
                refused_pairs.add(self._pair_of(item))
        return [item for item in kept if self._pair_of(item) not in refused_pairs - {None}]

    def _stored(self, at: int) -> dict[int, list[Record]]:
        """The records of the session by position, also those that were not accepted."""
        row = self._reader.row(self.scope, self.session_id, at)
        end = 0 if row is None else int(row["next"])
        return self._reader.stored(self.scope, self.session_id, range(end), at) if end else {}


def _names(records: Iterable[Record]) -> list[str]:
    """What records are forgotten by: a message that was cut into several has one name."""
    return list(dict.fromkeys(record.memory_id.partition("~")[0] for record in records))


def _messages(items: Sequence[dict[str, Any]], shown: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that items are: each has a passage of the text, and a part of the item in its metadata."""
    messages = []
    for item, passages in zip(items, passages_of(shown), strict=True):
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


def _items_of(stored: Mapping[int, Sequence[Record]]) -> StoredItems:
    """The items of a session with their records, in order.

    An item of which a part was not accepted, or that somebody else wrote, is left out.
    """
    found: StoredItems = []
    begun: dict[str, list[Record]] = {}
    for records in stored.values():
        number, count, digest = _place_of(records[0])
        parts = begun.pop(digest, []) if number > 1 else []
        if not _is_accepted(records) or len(parts) != number - 1:
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


def _is_accepted(records: Sequence[Record]) -> bool:
    return all(record.verdict in ACCEPTED_VERDICTS for record in records)


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
