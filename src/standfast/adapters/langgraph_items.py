"""How an item of a LangGraph store is held as a record.

Needs nothing of LangGraph, so that importing and exporting can use it.

Namespace and key make the subject, e.g. ``langgraph/users/123/prefs``. The text, which is judged and
searched, is the path and then one line for each value. The value itself is stored as JSON text in a ref,
because json-v1 rounds floats and normalises strings, and a value must come back exactly as it was put.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from urllib.parse import quote

from standfast.errors import InvalidValue
from standfast.records.canon import fingerprint_of_bytes, normal_string
from standfast.records.vocabulary import Record

ItemPath = tuple[tuple[str, ...], str]
"""Namespace and key of an item."""

KIND: Final = "langgraph"
# A subject that would be too long is a digest behind this prefix.
LONG_PREFIX: Final = "langgraph#"
# A band with a byte budget appends a number to the subject; the whole must still be a valid name.
_MOST_SUBJECT_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """An item as memory holds it.

    Attributes:
        index: The paths that a search with a query looks at; False for none, None for the store's default.
    """

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    memory_id: str
    subject: str
    index: tuple[str, ...] | bool | None = None

    @classmethod
    def of(cls, record: Record) -> Self | None:
        """The item in a record; None if the record holds none, or one that somebody wrote under another
        item's name.
        """
        ref = next((ref for ref in record.refs if ref.get("kind") == KIND), None)
        if ref is None or record.ts_utc is None:
            return None
        try:
            namespace, key, value = json.loads(ref["item"])
            if subject_of(tuple(namespace), key) != record.subject or not isinstance(value, dict):
                return None
            updated = datetime.fromisoformat(record.ts_utc)
            created = datetime.fromisoformat(ref["created_at"]) if "created_at" in ref else updated
            index = json.loads(ref["index"]) if "index" in ref else None
            if isinstance(index, list) and not all(isinstance(path, str) for path in index):
                return None
        except (KeyError, TypeError, ValueError, InvalidValue, RecursionError):
            # Anyone who may write records may write such a ref. It must not make the others unreadable.
            return None
        return cls(
            namespace=tuple(namespace),
            key=key,
            value=value,
            created_at=created,
            updated_at=updated,
            memory_id=record.memory_id,
            subject=record.subject,
            index=tuple(index) if isinstance(index, list) else index if isinstance(index, bool) else None,
        )

    def fields(self) -> dict[str, Any]:
        """The arguments of LangGraph's ``Item``."""
        return {
            "namespace": self.namespace,
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


def subject_of(namespace: tuple[str, ...], key: str) -> str:
    """The subject of an item; no two items share one."""
    labels = (*namespace, key)
    if not namespace or not all(isinstance(label, str) and label for label in labels):
        problem = f"namespace and key must be non-empty strings, not {labels!r:.80}"
        raise InvalidValue(what="LangGraph item", problem=problem)
    subject = subject_prefix(namespace) + _quoted(key)
    if len(subject) <= _MOST_SUBJECT_CHARS:
        return subject
    return LONG_PREFIX + fingerprint_of_bytes(subject.encode())


def subject_prefix(namespace: tuple[str, ...]) -> str:
    """The prefix of the subjects of all items in and below a namespace, except those that are digests."""
    return "".join(f"{_quoted(label)}/" for label in (KIND, *namespace))


def _quoted(label: str) -> str:
    return quote(label, safe="", errors="surrogatepass")


def text_of(namespace: tuple[str, ...], key: str, value: Mapping[str, Any]) -> str:
    """The text of an item, which is judged and searched."""
    path = " / ".join((*namespace, key))
    return normal_string("\n".join((f"{path}:", *_lines("", value))))


def _lines(path: str, value: object) -> Iterator[str]:
    """One line for each scalar in a value, after the keys that lead to it."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _lines(f"{path}.{name}" if path else str(name), member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _lines(path, member)
    else:
        yield f"{path}: {value if isinstance(value, str) else exact_json(value)}"


def ref_of(
    namespace: tuple[str, ...],
    key: str,
    value: Mapping[str, Any],
    *,
    created_at: datetime | None = None,
    index: list[str] | bool | None = None,
) -> dict[str, str]:
    """The ref that holds an item. ``created_at`` is that of its first version."""
    ref = {"kind": KIND, "item": exact_json([list(namespace), key, value])}
    if created_at is not None:
        ref["created_at"] = created_at.isoformat()
    if index is not None:
        ref["index"] = exact_json(index)
    return ref


def exact_json(value: object) -> str:
    """JSON text that tells 1, 1.0 and true apart, which Python calls equal.

    Raises ``InvalidValue`` for other values.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(what="LangGraph item", problem=f"its value is not JSON: {error}") from None
