"""LangGraph's ``BaseStore`` over ``Memory``: a graph's long-term memory becomes judged, versioned and provable.

    graph = builder.compile(store=StandfastStore(Memory.open("agent.db")))

Every batch of puts is one commit: all of it or nothing. A put is judged, and one that is refused raises ``PutRefused`` with the
reasons; a delete is a governed forget; a search with a query is ranked by ``memory.read``. Items that did not change are not
written again. Namespaces and keys have the meaning that they have in LangGraph's own stores; ``index`` has none, because all
that is put is judged, and all of it is searched.
"""

import asyncio
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from standfast.adapters.langgraph_items import (
    LONG_PREFIX,
    StoredItem,
    item_of,
    prefix_of,
    record_fields,
    subject_of,
    value_text,
)
from standfast.errors import CommitAborted, InvalidValue, MissingExtra, PutRefused
from standfast.limits import MAX_ATTEMPTS
from standfast.memory import Memory
from standfast.memory.snapshot_view import RECALLED_BANDS
from standfast.store.protocol import Version
from standfast.store.records import record_of
from standfast.vocabulary import AbortReason, Band, Remembered, Verdict, VisibilityMode

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

_Puts = dict[tuple[tuple[str, ...], str], PutOp]
_FIRST_RANKED: Final = 64
_COMPARED_BY: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class StandfastStore(BaseStore):
    """A LangGraph store that keeps its items in a ``Memory``. Safe to share between threads."""

    supports_ttl = False

    def __init__(self, memory: Memory, *, workflow: str = "langgraph", agent: str | None = None) -> None:
        self.memory = memory
        self._workflow = workflow
        self._agent = agent

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer all reads from one snapshot, then commit all puts together; of two puts to one key the later counts."""
        asked = list(ops)
        puts: _Puts = {}
        for op in asked:
            if isinstance(op, PutOp):
                subject_of(op.namespace, op.key)
                puts[op.namespace, op.key] = op
        shelf = _Shelf(self.memory, self.memory.store.head())
        answers = [_answer(shelf, op) for op in asked]
        if puts:
            self._put(puts)
        return answers

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same, in a thread, so that no event loop waits for a disk."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _put(self, puts: _Puts) -> None:
        """A put asks for nothing that was read, so that one that others overtook is simply made again."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                refused = self._commit(puts)
            except CommitAborted as error:
                overtaken = error.facts["reason_code"] == AbortReason.VALIDATION_FAILED
                if attempt == MAX_ATTEMPTS or not overtaken:
                    raise
            else:
                break
        if refused:
            # The batch is not committed; that it was refused is, for whoever asks later, and so that it leaves its marks.
            self._commit({path: puts[path] for path in refused}, keeps_refused=True)
            (namespace, key), told = next(iter(refused.items()))
            raise PutRefused(
                subject=subject_of(namespace, key),
                verdict=told.verdict.value,
                reasons="; ".join(told.reasons),
            )

    def _commit(
        self, puts: _Puts, *, keeps_refused: bool = False
    ) -> dict[tuple[tuple[str, ...], str], Remembered]:
        """One run for one batch. Gives what was refused; then nothing was committed, unless that is what is kept."""
        refused = {}
        with self.memory.run(
            workflow=self._workflow, mode=VisibilityMode.BUFFERED_WRITE, agent=self._agent
        ) as run:
            shelf = _Shelf(self.memory, run.identity.memory_snapshot_id)
            for (namespace, key), op in puts.items():
                held = shelf.item(namespace, key)
                if op.value is None:
                    if held is not None:
                        run.forget(subject_of(namespace, key), reason="deleted through LangGraph's store")
                elif held is None or held.value_text != value_text(op.value):
                    created = None if held is None else held.created_at
                    told = run.remember(**record_fields(namespace, key, op.value, created))
                    if told.verdict is Verdict.VOID:
                        refused[namespace, key] = told
            if refused and not keeps_refused:
                run.discard()
        return refused


class _Shelf:
    """The items that a snapshot shows."""

    def __init__(self, memory: Memory, at: int) -> None:
        self._memory = memory
        self._at = at

    def item(self, namespace: tuple[str, ...], key: str) -> StoredItem | None:
        subject, store = subject_of(namespace, key), self._memory.store
        keys = [f"{band}/{subject}" for band in RECALLED_BANDS]
        rows = store.read(self._memory.namespace, keys, at=self._at)
        # A band with a byte budget holds the versions of a subject side by side, numbered.
        numbered = store.scan(self._memory.namespace, prefix=f"{Band.LEDGER}/{subject}@", at=self._at)
        versions = [rows[key] for key in keys if key in rows] or sorted(numbered, key=_age)[-1:]
        return next(filter(None, (item_of(record_of(version)) for version in versions)), None)

    def below(self, namespace_prefix: tuple[str, ...]) -> list[StoredItem]:
        """All items in and below a namespace, by namespace and key, the newest version of each; law hides what else is said."""
        newest: dict[tuple[tuple[str, ...], str], StoredItem] = {}
        for band in reversed(RECALLED_BANDS):
            for prefix in (prefix_of(namespace_prefix), LONG_PREFIX):
                rows = self._memory.store.scan(self._memory.namespace, prefix=f"{band}/{prefix}", at=self._at)
                for version in sorted(rows, key=_age):
                    item = item_of(record_of(version))
                    if item is not None and item.namespace[: len(namespace_prefix)] == namespace_prefix:
                        newest[item.namespace, item.key] = item
        return [newest[path] for path in sorted(newest)]

    def ranked(self, query: str, items: list[StoredItem], count: int) -> list[tuple[float, StoredItem]]:
        """The best of some items, as ``memory.read`` ranks all that the snapshot holds."""
        wanted = {item.memory_id: item for item in items}
        view, asked = self._memory.at(self._at), max(count, _FIRST_RANKED)
        while True:
            reading = view.answer(query, tokens=1, max_items=asked)
            told = [
                (float(one.as_json()["score"]), wanted[one.candidate.record.memory_id])
                for one in reading.explanation.items
                if one.candidate.record.memory_id in wanted
            ]
            if len(told) >= min(count, len(items)) or len(reading.explanation.items) < asked:
                return told
            asked *= 4


def _age(version: Version) -> tuple[int, int, str]:
    return version.memory_snapshot_id, len(version.key), version.key


def _answer(shelf: _Shelf, op: Op) -> Result:
    if isinstance(op, PutOp):
        return None
    if isinstance(op, GetOp):
        item = shelf.item(op.namespace, op.key)
        return None if item is None else Item(**_shown(item))
    if isinstance(op, SearchOp):
        return _search(shelf, op)
    if isinstance(op, ListNamespacesOp):
        return _namespaces(shelf, op)
    raise InvalidValue(what="LangGraph operation", problem=f"{type(op).__name__} is none that is known")


def _search(shelf: _Shelf, op: SearchOp) -> list[SearchItem]:
    items = [item for item in shelf.below(op.namespace_prefix) if _fits(item.value, op.filter or {})]
    end = op.offset + op.limit
    scored: list[tuple[float | None, StoredItem]]
    if op.query and op.query.strip() and items:
        scored = list(shelf.ranked(op.query, items, end))
    else:
        scored = [(None, item) for item in items]
    return [SearchItem(**_shown(item), score=score) for score, item in scored[op.offset : end]]


def _namespaces(shelf: _Shelf, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    found = {item.namespace for item in shelf.below(())}
    matching = (
        namespace
        for namespace in found
        if all(_matches(condition, namespace) for condition in op.match_conditions or ())
    )
    return sorted({namespace[: op.max_depth] for namespace in matching})[op.offset : op.offset + op.limit]


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        problem = f"match_type is prefix or suffix, not {condition.match_type!r:.40}"
        raise InvalidValue(what="MatchCondition", problem=problem)
    if len(path) > len(namespace):
        return False
    part = (
        namespace[: len(path)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(path) :]
    )
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _fits(value: object, wanted: object) -> bool:
    """Whether a value is as a filter wants it: equal in every part that is named, or as its operators say."""
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compares(value, name, other) for name, other in wanted.items())
        return isinstance(value, Mapping) and all(
            _fits(value.get(name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list | tuple) and len(value) == len(wanted) and all(map(_fits, value, wanted))
        )
    return value == wanted


def _compares(value: Any, name: str, other: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool((value == other) == (name == "$eq"))
    if name not in _COMPARED_BY:
        known = ", ".join(("$eq", "$ne", *_COMPARED_BY))
        raise InvalidValue(what="filter", problem=f"{name!r:.40} is no operator; there are {known}")
    try:
        return _COMPARED_BY[name](float(value), float(other))
    except (TypeError, ValueError):
        # What is no number is neither greater nor smaller.
        return False


def _shown(item: StoredItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
