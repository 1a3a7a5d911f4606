"""LangGraph's ``BaseStore`` over ``Memory``.

    graph = builder.compile(store=StandfastStore(Memory.open("agent.db")))

The puts of a batch are one commit. Each put is judged; a rejected one raises ``PutRefused`` with the reasons. A delete is a
``forget``. A search with a query is ranked as ``Memory.recall`` ranks. An unchanged item is not written again. Namespaces and keys
mean what they mean in LangGraph's own stores. ``index`` has no effect: everything is judged and searched.

An item becomes a record as follows. Namespace and key make the subject, e.g. ``langgraph/users/123/prefs``. The text, which is
judged and searched, is the path and then one line for each value. The value itself is stored as JSON text in a ref, because
json-v1 rounds floats and normalises strings and a value must come back exactly as it was put.
"""

import asyncio
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from urllib.parse import quote

from standfast.canon import fingerprint_of_bytes, normal_string
from standfast.errors import Corruption, InvalidValue, MissingExtra, PutRefused
from standfast.limits import MAX_RECALL_TOKENS
from standfast.memory import Memory
from standfast.recall.controller import RECALLED_BANDS, RecallRequest
from standfast.recall.lexical import BEST_SCORE
from standfast.scopes import SHARED, scoped_key
from standfast.store.protocol import Version
from standfast.store.records import record_of
from standfast.vocabulary import Band, Record, Remembered, Verdict, VisibilityMode

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
except ImportError:
    raise MissingExtra(feature="LangGraph's store", extra="langgraph") from None

ItemPath = tuple[tuple[str, ...], str]
"""Namespace and key of an item."""

KIND: Final = "langgraph"
# A subject that would be too long is a digest behind this prefix.
LONG_PREFIX: Final = "langgraph#"
# A band with a byte budget appends a number to the subject; the whole must still be a valid name.
_MOST_SUBJECT_CHARS: Final = 200
_FIRST_RANKED: Final = 64
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class StandfastStore(BaseStore):
    """A LangGraph store that keeps its items in a ``Memory``. Safe to share between threads.

    Args:
        memory: Where the items are stored, in the memory's namespace.
        workflow: The workflow name of the runs that write.
        agent: The author of the writes. Default: the workflow.
    """

    supports_ttl = False

    def __init__(self, memory: Memory, *, workflow: str = "langgraph", agent: str | None = None) -> None:
        self.memory = memory
        self._workflow = workflow
        self._agent = agent

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer all reads from one snapshot, then commit all puts. Of two puts to one key, the later counts."""
        operations = list(ops)
        puts: dict[ItemPath, PutOp] = {}
        for op in operations:
            if isinstance(op, PutOp):
                subject_of(op.namespace, op.key)
                puts[op.namespace, op.key] = op
        self.memory.require_readable("use the store")
        items = _SnapshotItems(self.memory, self.memory.store.head())
        answers = [_answer(items, op) for op in operations]
        if puts:
            self._put(puts)
        return answers

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like ``batch``, in a thread, so that the event loop does not wait for the disk."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _put(self, puts: dict[ItemPath, PutOp]) -> None:
        """Commit the puts. A conflict is retried: a put does not depend on anything that was read."""
        subjects = {subject_of(namespace, key) for namespace, key in puts}
        rejected = self.memory.retry(lambda: self._commit(puts), key=min(subjects))
        if rejected:
            # The batch is not committed, but the rejections are, so that they can be inspected and counted.
            self._commit({path: puts[path] for path in rejected}, keep_rejected=True)
            (namespace, key), remembered = next(iter(rejected.items()))
            raise PutRefused(
                subject=subject_of(namespace, key),
                verdict=remembered.verdict.value,
                reasons="; ".join(remembered.reasons),
            )

    def _commit(
        self, puts: dict[ItemPath, PutOp], *, keep_rejected: bool = False
    ) -> dict[ItemPath, Remembered]:
        """Commit the puts in one run and return the rejected ones; if there are any, commit only if ``keep_rejected``."""
        rejected = {}
        with self.memory.run(
            workflow=self._workflow, mode=VisibilityMode.BUFFERED_WRITE, agent=self._agent
        ) as run:
            items = _SnapshotItems(self.memory, run.identity.memory_snapshot_id)
            for (namespace, key), op in puts.items():
                current, subject = items.get(namespace, key), subject_of(namespace, key)
                if op.value is None:
                    if current is not None:
                        run.forget(subject, reason="deleted through LangGraph's store")
                elif current is None or _exact_json(current.value) != _exact_json(op.value):
                    remembered = run.remember(
                        _text_of(namespace, key, op.value),
                        subject=subject,
                        source={"kind": KIND, "id": subject},
                        refs=[_ref_of(namespace, key, op.value, current)],
                    )
                    if remembered.verdict is Verdict.VOID:
                        rejected[namespace, key] = remembered
            if rejected and not keep_rejected:
                run.discard()
        return rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """An item as memory holds it."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    memory_id: str

    @classmethod
    def of(cls, record: Record) -> Self | None:
        """The item in a record; None if the record was not written through this store."""
        ref = next((ref for ref in record.refs if ref.get("kind") == KIND), None)
        if ref is None or record.ts_utc is None:
            return None
        try:
            namespace, key, value = json.loads(ref["item"])
            updated = datetime.fromisoformat(record.ts_utc)
            created = datetime.fromisoformat(ref["created_at"]) if "created_at" in ref else updated
        except (KeyError, TypeError, ValueError) as error:
            raise Corruption(what=record.memory_id, problem=f"can't read its item: {error!r:.80}") from None
        return cls(
            namespace=tuple(namespace),
            key=key,
            value=value,
            created_at=created,
            updated_at=updated,
            memory_id=record.memory_id,
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


class _SnapshotItems:
    """The items of one snapshot."""

    def __init__(self, memory: Memory, at: int) -> None:
        self._memory = memory
        self._at = at

    def get(self, namespace: tuple[str, ...], key: str) -> StoredItem | None:
        """The item at a path; None if there is none."""
        subject, store = subject_of(namespace, key), self._memory.store
        keys = [scoped_key(band, SHARED, subject) for band in RECALLED_BANDS]
        rows = store.read(self._memory.namespace, keys, at=self._at)
        # A band with a byte budget holds several numbered versions of a subject.
        numbered = store.scan(
            self._memory.namespace, prefix=scoped_key(Band.LEDGER, SHARED, f"{subject}@"), at=self._at
        )
        versions = [rows[key] for key in keys if key in rows] or sorted(numbered, key=_age)[-1:]
        return next(filter(None, (StoredItem.of(record_of(version)) for version in versions)), None)

    def below(self, namespace_prefix: tuple[str, ...]) -> list[StoredItem]:
        """The items in and below a namespace, by namespace and key: the newest version of each, law before the rest."""
        newest: dict[ItemPath, StoredItem] = {}
        for band in reversed(RECALLED_BANDS):
            for prefix in (_subject_prefix(namespace_prefix), LONG_PREFIX):
                rows = self._memory.store.scan(
                    self._memory.namespace, prefix=scoped_key(band, SHARED, prefix), at=self._at
                )
                for version in sorted(rows, key=_age):
                    item = StoredItem.of(record_of(version))
                    if item is not None and item.namespace[: len(namespace_prefix)] == namespace_prefix:
                        newest[item.namespace, item.key] = item
        return [newest[path] for path in sorted(newest)]

    def ranked(
        self, query: str, items: list[StoredItem], count: int
    ) -> list[tuple[float | None, StoredItem]]:
        """The best of these items with their scores, as ``Memory.recall`` ranks them; then those that match nothing."""
        wanted = {item.memory_id: item for item in items}
        view, most = self._memory.at(self._at), max(count, _FIRST_RANKED)
        while True:
            request = RecallRequest(query=query, tokens=MAX_RECALL_TOKENS, max_items=most)
            candidates = view.answer(request).explanation.items
            found: dict[str, float | None] = {
                candidate.memory_id: candidate.as_json()["score"] / BEST_SCORE
                for candidate in candidates
                if candidate.memory_id in wanted
            }
            if len(found) >= min(count, len(items)) or len(candidates) < most:
                break
            most *= 4
        found |= {memory_id: None for memory_id in wanted if memory_id not in found}
        return [(score, wanted[memory_id]) for memory_id, score in found.items()]


def _age(version: Version) -> tuple[int, int, str]:
    return version.memory_snapshot_id, len(version.key), version.key


def _answer(items: _SnapshotItems, op: Op) -> Result:
    if isinstance(op, PutOp):
        return None
    if isinstance(op, GetOp):
        item = items.get(op.namespace, op.key)
        return None if item is None else Item(**item.fields())
    if isinstance(op, SearchOp):
        return _search(items, op)
    if isinstance(op, ListNamespacesOp):
        return _namespaces(items, op)
    raise InvalidValue(what="LangGraph operation", problem=f"{type(op).__name__} is not supported")


def _search(items: _SnapshotItems, op: SearchOp) -> list[SearchItem]:
    matching = [item for item in items.below(op.namespace_prefix) if _matches(item.value, op.filter or {})]
    end = op.offset + op.limit
    scored: list[tuple[float | None, StoredItem]]
    if op.query and op.query.strip() and matching:
        scored = items.ranked(op.query, matching, end)
    else:
        scored = [(None, item) for item in matching]
    return [SearchItem(**item.fields(), score=score) for score, item in scored[op.offset : end]]


def _namespaces(items: _SnapshotItems, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    conditions = op.match_conditions or ()
    found = {item.namespace for item in items.below(())}
    matching = {
        namespace[: op.max_depth]
        for namespace in found
        if all(_namespace_matches(condition, namespace) for condition in conditions)
    }
    return sorted(matching)[op.offset : op.offset + op.limit]


def _namespace_matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        problem = f"match_type must be prefix or suffix, not {condition.match_type!r:.40}"
        raise InvalidValue(what="MatchCondition", problem=problem)
    if len(path) > len(namespace):
        return False
    start = 0 if condition.match_type == "prefix" else len(namespace) - len(path)
    part = namespace[start : start + len(path)]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _matches(value: object, wanted: object) -> bool:
    """Whether a value satisfies a filter: equal in every named part, or as its operators say."""
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compare(value, name, other) for name, other in wanted.items())
        return isinstance(value, Mapping) and all(
            _matches(value.get(name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        is_list = isinstance(value, list | tuple) and len(value) == len(wanted)
        return is_list and all(map(_matches, value, wanted))  # type: ignore[call-overload]  # It is a list here.
    return value == wanted


def _compare(value: Any, name: str, other: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool((value == other) == (name == "$eq"))
    if name not in _COMPARISONS:
        known = ", ".join(("$eq", "$ne", *_COMPARISONS))
        raise InvalidValue(
            what="filter", problem=f"{name!r:.40} is not an operator; the operators are {known}"
        )
    try:
        return _COMPARISONS[name](float(value), float(other))
    except (TypeError, ValueError):
        # A value that is not a number is neither greater nor smaller.
        return False


def subject_of(namespace: tuple[str, ...], key: str) -> str:
    """The subject of an item; no two items share one."""
    labels = (*namespace, key)
    if not namespace or not all(isinstance(label, str) and label for label in labels):
        problem = f"namespace and key must be non-empty strings, not {labels!r:.80}"
        raise InvalidValue(what="LangGraph item", problem=problem)
    subject = _subject_prefix(namespace) + _quoted(key)
    if len(subject) <= _MOST_SUBJECT_CHARS:
        return subject
    return LONG_PREFIX + fingerprint_of_bytes(subject.encode())


def _subject_prefix(namespace: tuple[str, ...]) -> str:
    """The prefix of the subjects of all items in and below a namespace, except those that are digests."""
    return "".join(f"{_quoted(label)}/" for label in (KIND, *namespace))


def _quoted(label: str) -> str:
    return quote(label, safe="", errors="surrogatepass")


def _text_of(namespace: tuple[str, ...], key: str, value: Mapping[str, Any]) -> str:
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
        yield f"{path}: {value if isinstance(value, str) else _exact_json(value)}"


def _ref_of(
    namespace: tuple[str, ...], key: str, value: Mapping[str, Any], current: StoredItem | None
) -> dict[str, str]:
    """The ref that holds the item; a new version keeps the time at which the item was created."""
    ref = {"kind": KIND, "item": _exact_json([list(namespace), key, value])}
    return ref if current is None else {**ref, "created_at": current.created_at.isoformat()}


def _exact_json(value: object) -> str:
    """JSON text that tells 1, 1.0 and true apart, which Python calls equal. Raises ``InvalidValue`` for other values."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(what="LangGraph item", problem=f"its value is not JSON: {error}") from None
