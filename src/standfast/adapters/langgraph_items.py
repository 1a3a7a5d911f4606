"""How an item of LangGraph becomes a record, and a record an item again.

Its namespace and key make the subject, so that ``memory.history("langgraph/users/123/prefs")`` tells all versions of it. What
is judged and searched is its text: the path, then each value on a line. The item itself travels as JSON text in a ref, because
json-v1 rounds floats and normalises strings, and what comes back must be what was put.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from standfast.canon import fingerprint_of_bytes, normal_string
from standfast.errors import Corruption, InvalidValue
from standfast.vocabulary import Record

KIND: Final = "langgraph"
# Subjects that would be too long to be spelt out are digests behind this.
LONG_PREFIX: Final = "langgraph#"
# A band with a byte budget numbers its versions behind the subject, and all of it must still be a name.
_MOST_SUBJECT_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """An item as memory holds it."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    memory_id: str

    @property
    def value_text(self) -> str:
        """The value to the letter: 1, 1.0 and true are different values, though Python calls them equal."""
        return _json(self.value)


def subject_of(namespace: tuple[str, ...], key: str) -> str:
    """The subject of an item; no two items share one."""
    _check_path(namespace, key)
    spelt = prefix_of(namespace) + _spelt(key)
    if len(spelt) <= _MOST_SUBJECT_CHARS:
        return spelt
    return LONG_PREFIX + fingerprint_of_bytes(spelt.encode())


def prefix_of(namespace: tuple[str, ...]) -> str:
    """What the subjects of all items in and below a namespace begin with, but for the long ones."""
    return "".join(f"{_spelt(label)}/" for label in (KIND, *namespace))


def record_fields(
    namespace: tuple[str, ...], key: str, value: Mapping[str, Any], created_at: datetime | None
) -> dict[str, Any]:
    """What a run is told to remember; ``created_at`` of an item that was there before goes on."""
    subject = subject_of(namespace, key)
    ref = {"kind": KIND, "item": _json([list(namespace), key, value])}
    if created_at is not None:
        ref["created_at"] = created_at.isoformat()
    path = " / ".join((*namespace, key))
    return {
        "text": normal_string("\n".join((f"{path}:", *_lines("", value)))),
        "subject": subject,
        "source": {"kind": KIND, "id": subject},
        "refs": [ref],
    }


def item_of(record: Record) -> StoredItem | None:
    """The item that a record holds; None if it holds none, because it was remembered otherwise."""
    ref = next((ref for ref in record.refs if ref.get("kind") == KIND), None)
    if ref is None or record.ts_utc is None:
        return None
    try:
        namespace, key, value = json.loads(ref["item"])
        updated = datetime.fromisoformat(record.ts_utc)
        created = datetime.fromisoformat(ref["created_at"]) if "created_at" in ref else updated
    except (KeyError, TypeError, ValueError) as error:
        raise Corruption(what=record.memory_id, problem=f"its item can't be read: {error!r:.80}") from None
    return StoredItem(
        namespace=tuple(namespace),
        key=key,
        value=value,
        created_at=created,
        updated_at=updated,
        memory_id=record.memory_id,
    )


def value_text(value: Mapping[str, Any]) -> str:
    """A value to the letter; what is no JSON is refused."""
    return _json(value)


def _check_path(namespace: Sequence[str], key: str) -> None:
    labels = (*namespace, key)
    if not namespace or not all(isinstance(label, str) and label for label in labels):
        problem = f"namespace and key are strings that are not empty, not {labels!r:.80}"
        raise InvalidValue(what="LangGraph item", problem=problem)


def _spelt(label: str) -> str:
    return quote(label, safe="", errors="surrogatepass")


def _json(value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(what="LangGraph item", problem=f"its value is no JSON: {error}") from None


def _lines(path: str, value: object) -> Iterator[str]:
    """Each string, number and truth inside a value on a line of its own, behind the keys that lead to it."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _lines(f"{path}.{name}" if path else str(name), member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _lines(path, member)
    else:
        yield f"{path}: {value if isinstance(value, str) else _json(value)}"
