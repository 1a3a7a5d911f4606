"""How an item of a LangGraph store is held as a record.

Needs nothing of LangGraph, so that importing and exporting can use it.

Namespace and key make the subject, e.g. ``langgraph/users/123/prefs``. The text, which is judged and
searched, is the path and then one line for each value. The value itself is stored in a ref, because it must
come back exactly as it was put.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, Self
from urllib.parse import quote

from standfast.adapters.data_refs import data_ref, data_ref_of
from standfast.entity_ids import scope_segment
from standfast.errors import InvalidValue
from standfast.records.canon import fingerprint_of_bytes, normal_string
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED, checked_scope
from standfast.records.vocabulary import Record

ItemPath = tuple[tuple[str, ...], str]
"""Namespace and key of an item."""

KIND: Final = "langgraph"
# A subject that would be too long is a digest behind this prefix.
LONG_PREFIX: Final = "langgraph#"
# A band with a byte budget appends a number to the subject; the whole must still be a valid name.
_MOST_SUBJECT_CHARS: Final = 200
_USER: Final = "user"
_USER_LABELS: Final = ("user", "users")
_LABEL_NUMBER: Final = re.compile(r"\{(\d)\}")


class NamespaceScopes:
    """The scope of the items of a LangGraph namespace, so that ``forget(scope="user/ada")`` reaches them.

    Args:
        template: A scope in which ``{0}`` is the first label of the namespace, ``{1}`` the second, and so on:
            ``"user/{0}"`` for namespaces such as ``("ada", "memories")``. Without one, the label behind
            ``user`` or ``users`` is a user: ``("users", "ada", "chats")`` is in ``user/ada``. A namespace
            that is too short, or names no user, is in ``shared``.
    """

    def __init__(self, template: str | None = None) -> None:
        self._template = template
        if template is not None:
            checked_scope(_LABEL_NUMBER.sub("label", template))
        numbers = [int(found) for found in _LABEL_NUMBER.findall(template or "")]
        self._needed_labels = max(numbers, default=-1) + 1
        self.outer = _USER if template is None else _LABEL_NUMBER.split(template)[0].rstrip("/")
        """The scope above all others that the rule gives; empty if there is none, or it is only one."""
        if template is not None and not numbers:
            self.outer = ""

    def of(self, namespace: tuple[str, ...]) -> str:
        """The scope of the items in a namespace; ``shared`` if its labels can't be a scope."""
        try:
            return self._scope(namespace)
        except InvalidValue:
            # A ref that somebody forged may say anything, and must not make the others unreadable.
            return SHARED

    def _scope(self, namespace: tuple[str, ...]) -> str:
        if self._template is None:
            pairs = pairwise(namespace)
            user = next((label for before, label in pairs if before in _USER_LABELS), None)
            return SHARED if user is None else f"{_USER}/{scope_segment(user)}"
        if len(namespace) < self._needed_labels:
            return SHARED
        scope = _LABEL_NUMBER.sub(lambda found: scope_segment(namespace[int(found[1])]), self._template)
        return checked_scope(scope)

    def is_known_from(self, prefix: tuple[str, ...]) -> bool:
        """Whether all namespaces with this prefix are in one scope, that of the prefix itself."""
        if self._template is None:
            return self.of(prefix) != SHARED
        return len(prefix) >= self._needed_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """An item as memory holds it.

    Attributes:
        scope: Where in the memory it is; see ``NamespaceScopes``.
        trust: How far whoever put it is trusted.
        index: The paths that a search with a query looks at; False for none, None for the store's default.
    """

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    memory_id: str
    subject: str
    scope: str = SHARED
    trust: Origin = Origin.ORDINARY
    index: tuple[str, ...] | bool | None = None

    @classmethod
    def of(cls, record: Record) -> Self | None:
        """The item in a record; None if it holds none, or one that was written under another item's name."""
        ref = data_ref_of(record, KIND)
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
            scope=record.scope,
            trust=record.origin,
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
    source: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """The ref that holds an item. ``created_at`` is that of its first version."""
    ref = data_ref(KIND, source, item=exact_json([list(namespace), key, value]))
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
