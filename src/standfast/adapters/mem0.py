"""mem0's ``Memory`` verbs over Standfast: change the import and the constructor, keep the calls.

    from standfast.adapters.mem0 import Mem0Memory

    memory = Mem0Memory("agent.db")
    memory.add("I am allergic to nuts.", user_id="ada")
    memory.search("What can Ada eat?", filters={"user_id": "ada"})["results"]

``user_id``, ``agent_id`` and ``run_id`` are scopes (``entity_ids.py``). Everything that is added is judged:
the ``event`` of a memory that waits for review is PENDING, of a rejected one REJECTED, with the reasons. No
model is asked, so messages are kept as they were said, whatever ``infer`` is.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self

from standfast.entity_ids import (
    ENTITY_IDS,
    EntityIds,
    MemoryPlace,
    as_memory,
    metadata_of_update,
    stored_metadata,
)
from standfast.errors import InvalidValue, PutRefused
from standfast.limits import MAX_RECALL_ITEMS, MAX_RECALL_TOKENS
from standfast.memory import Memory
from standfast.memory.messages import read_messages
from standfast.recall.lexical import BEST_SCORE
from standfast.records.canon import utc_text
from standfast.records.filters import Filter
from standfast.records.scopes import scoped_key
from standfast.records.vocabulary import ActionType, Band, Record, Remembered, Verdict, VisibilityMode
from standfast.store.stored_records import HistoryEntry, record_of

Shape = dict[str, Any]
_WORKFLOW: Final = "mem0"
_EXPIRES: Final = "expiration_date"
_DELETED: Final = "deleted through mem0's verbs"
_DELETED_AT_ONCE: Final = 500
_UNSET: Final = "unset"
_REVISION: Final = "revision-"
_LOGICAL: Final = ("AND", "OR", "NOT")
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], object]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "in": lambda value, other: value in other,
    "nin": lambda value, other: value not in other,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "contains": operator.contains,
    "icontains": lambda value, other: str(other).lower() in str(value).lower(),
}


class Mem0Memory:
    """mem0's ``Memory``, as one can use it without a model.

    Threads may share it. Close it, or use it as a context manager.

    Args:
        memory: A ``standfast.Memory``, or what ``Memory.open`` takes: a path, a ``postgresql://`` URL, or
            ``":memory:"``.
    """

    def __init__(self, memory: Memory | str = "mem0.db") -> None:
        self.memory = Memory.open(memory) if isinstance(memory, str) else memory

    def add(
        self,
        messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        user_id: str | int | None = None,
        agent_id: str | int | None = None,
        run_id: str | int | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: str | date | None = None,
        infer: bool = True,
    ) -> Shape:
        """Judge a text, a message or several messages, and store each that is accepted as a memory.

        At least one id is needed.

        Args:
            expiration_date: The last day on which ``search`` and ``get_all`` show it, as YYYY-MM-DD.
            infer: Taken for mem0's sake. No model is asked in either case, and messages are kept as they were
                said.

        Returns:
            ``{"results": [{"id": …, "memory": …, "event": "ADD", "actor_id": …, "role": …}]}``. ``event`` is
            NONE for what is known already, PENDING for what needs review and REJECTED for what was refused;
            then ``reasons`` say why.
        """
        if not isinstance(infer, bool):
            raise InvalidValue(what="infer", problem=f"it must be True or False, not {infer!r:.40}")
        ids = EntityIds.of(user_id=user_id, agent_id=agent_id, run_id=run_id)
        expires = None if expiration_date is None else _day(expiration_date)
        said = list(_said(messages))
        run = self.memory.run(workflow=_WORKFLOW, mode=VisibilityMode.BUFFERED_WRITE)
        with run:
            answers = [
                run.remember(
                    text,
                    source={"kind": kind, "id": ids.given.get("user_id", role)},
                    scope=ids.scope,
                    speaker=name or role,
                    metadata=stored_metadata(
                        metadata, ids.given, role=role, actor_id=name, expiration_date=expires
                    ),
                )
                for role, name, kind, text in said
            ]
        results = [_added(one, answer, ids.scope) for one, answer in zip(said, answers, strict=True)]
        return {"results": results}

    def search(
        self,
        query: str,
        *,
        user_id: str | int | None = None,
        agent_id: str | int | None = None,
        run_id: str | int | None = None,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        limit: int | None = None,
        threshold: float | None = None,
        show_expired: bool = False,
    ) -> Shape:
        """Return the memories that match a query, best first, each with a ``score`` from 0 to 1.

        Args:
            user_id: Whose memories; ``agent_id`` and ``run_id`` likewise. They may stand in ``filters``
                instead.
            filters: Ids, and conditions on metadata: values, ``{"gt": 3}`` and mem0's other operators, AND,
                OR and NOT.
            limit: mem0's older name of ``top_k``.
            threshold: The least score.
        """
        if not isinstance(query, str) or not query.strip():
            raise InvalidValue(what="query", problem="it must be a text that is not empty")
        if threshold is not None and not 0 <= threshold <= 1:
            raise InvalidValue(what="threshold", problem=f"it must be from 0 to 1, not {threshold!r:.40}")
        count = _count(top_k if limit is None else limit)
        ids, conditions = _filtered(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        view = self.memory.at(self.memory.store.head())
        package = view.recall(
            query,
            tokens=MAX_RECALL_TOKENS,
            max_items=MAX_RECALL_ITEMS,
            scopes=ids.read_scopes,
            where=Filter(metadata=ids.read_metadata),
        )
        results: list[Shape] = []
        for item in package.items:
            record, score = view.record_at(item.store_path, item.memory_id), min(item.score / BEST_SCORE, 1.0)
            if record is not None and self._is_shown(record, conditions, show_expired=show_expired):
                results += [as_memory(record, score)] if score >= (threshold or 0) else []
        return {"results": results[:count]}

    def get_all(
        self,
        *,
        user_id: str | int | None = None,
        agent_id: str | int | None = None,
        run_id: str | int | None = None,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        limit: int | None = None,
        show_expired: bool = False,
    ) -> Shape:
        """Return the memories with these ids that meet the filters, by scope and id; see ``search``."""
        count = _count(top_k if limit is None else limit)
        ids, conditions = _filtered(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        found = (
            as_memory(record)
            for record in self._records(ids)
            if self._is_shown(record, conditions, show_expired=show_expired)
        )
        return {"results": list(islice(found, count))}

    def get(self, memory_id: str) -> Shape | None:
        """Return one memory; None if there is none with this id."""
        record = self._record(MemoryPlace.of(memory_id))
        return None if record is None else as_memory(record)

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: str | date | None = _UNSET,
        *,
        data: str | None = None,
    ) -> dict[str, str]:
        """Replace the text of a memory, fields of its metadata, or its last day (None for none).

        ``data`` is an older name of ``text``.

        Raises:
            PutRefused: The judge refused the new text; the old one stays.
        """
        text = data if text is None else text
        if text is None and metadata is None and expiration_date == _UNSET:
            raise InvalidValue(what="update", problem="give text, metadata or expiration_date")
        place = MemoryPlace.of(memory_id)
        record = self._existing(place)
        changed = metadata_of_update(record, metadata)
        if expiration_date != _UNSET:
            changed.pop(_EXPIRES, None)
            changed |= {} if expiration_date is None else {_EXPIRES: _day(expiration_date)}
        answer = self.memory.remember(
            record.text if text is None else text,
            subject=place.memory_id,
            scope=place.scope,
            source=record.source,
            tags=record.tags if text is not None else _next_revision(record.tags),
            speaker=record.speaker,
            metadata=changed,
            workflow=_WORKFLOW,
        )
        if answer.verdict is Verdict.VOID:
            raise PutRefused(
                subject=memory_id, verdict=answer.verdict.value, reasons="; ".join(answer.reasons)
            )
        if answer.proposal_id is not None:
            return {"message": "The update waits for review by a person."}
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, str]:
        """Delete one memory and erase its content."""
        place = MemoryPlace.of(memory_id)
        self._existing(place)
        self._forget([place])
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self,
        user_id: str | int | None = None,
        agent_id: str | int | None = None,
        run_id: str | int | None = None,
    ) -> dict[str, str]:
        """Delete every memory with these ids and erase its content. At least one id is needed."""
        ids = EntityIds.of(user_id=user_id, agent_id=agent_id, run_id=run_id)
        if ids.is_one_scope:
            # Everything goes in one erasure, also what was refused or waits, however much it is.
            self.memory.forget(scope=ids.scope, reason=_DELETED)
        while records := list(islice(self._records(ids), _DELETED_AT_ONCE)):
            self._forget([MemoryPlace(record.scope, record.memory_id) for record in records])
        return {"message": "Memories deleted successfully!"}

    def history(self, memory_id: str) -> list[Shape]:
        """Return every change of a memory, oldest first. Erased texts are None."""
        place = MemoryPlace.of(memory_id)
        entries = [
            entry
            for entry in self.memory.history(place.memory_id, scope=place.scope)
            if entry.key.startswith(f"{Band.LEDGER}/")
        ]
        before: list[HistoryEntry | None] = [None, *entries]
        return [_change(memory_id, old, new) for old, new in zip(before, entries, strict=False)]

    def close(self) -> None:
        """Release the store."""
        self.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _records(self, ids: EntityIds) -> Iterator[Record]:
        where = Filter(metadata=ids.read_metadata)
        for scope in ids.read_scopes:
            records = self.memory.records(band=Band.LEDGER, scope=scope)
            yield from (record for record in records if where.matches(record))

    def _record(self, place: MemoryPlace) -> Record | None:
        key = scoped_key(Band.LEDGER, place.scope, place.memory_id)
        self.memory.require_readable("read a memory")
        found = self.memory.store.read(self.memory.namespace, [key])
        return record_of(found[key]) if key in found else None

    def _existing(self, place: MemoryPlace) -> Record:
        record = self._record(place)
        if record is None:
            raise InvalidValue(what="memory_id", problem=f"there is no memory {place.public_id!r:.120}")
        return record

    def _forget(self, places: Sequence[MemoryPlace]) -> None:
        def attempt() -> None:
            with self.memory.run(workflow=_WORKFLOW, mode=VisibilityMode.BUFFERED_WRITE) as run:
                for place in places:
                    run.forget(place.memory_id, reason=_DELETED, scope=place.scope)

        self.memory.retry(attempt, key=min(place.public_id for place in places))

    def _is_shown(self, record: Record, conditions: Mapping[str, Any], *, show_expired: bool) -> bool:
        if not _meets(record.metadata, conditions):
            return False
        last_day = record.metadata.get(_EXPIRES)
        today = utc_text(self.memory.store.clock.now())[:10]
        return show_expired or not isinstance(last_day, str) or today <= last_day


def _next_revision(tags: Sequence[str]) -> list[str]:
    """The tags of a version whose text is that of the one before.

    Without another tag it would be known, and not be stored.
    """
    numbers = [tag.removeprefix(_REVISION) for tag in tags if tag.startswith(_REVISION)]
    revisions = [int(number) for number in numbers if number.isdecimal()]
    kept = [tag for tag in tags if not tag.startswith(_REVISION)]
    return [*kept, f"{_REVISION}{max(revisions, default=1) + 1}"]


def _said(messages: object) -> Iterator[tuple[str, str | None, str, str]]:
    """Role, name, kind of source and text of what is to be added.

    What the system says is no memory, as in mem0.
    """
    listed = messages
    if isinstance(messages, str):
        listed = [{"role": "user", "content": messages}]
    elif isinstance(messages, Mapping):
        listed = [messages]
    if not isinstance(listed, list | tuple):
        problem = f"they must be a text, a message or a list of messages, not {messages!r:.80}"
        raise InvalidValue(what="messages", problem=problem)
    for message, read in zip(listed, read_messages(listed), strict=True):
        role = str(message.get("role")) if isinstance(message, Mapping) else "user"
        name = message.get("name") if isinstance(message, Mapping) else None
        for passage in read.passages if role != "system" else ():
            yield role, name if isinstance(name, str) else None, passage.kind, passage.text


def _added(said: tuple[str, str | None, str, str], answer: Remembered, scope: str) -> Shape:
    role, name, _, text = said
    event = "PENDING"
    if answer.known is not None:
        event = "NONE"
    elif answer.verdict is Verdict.VOID:
        event = "REJECTED"
    elif answer.proposal_id is None:
        event = "ADD"
    place = MemoryPlace(scope, answer.known or answer.memory_id)
    shape = {"id": place.public_id, "memory": text, "event": event, "actor_id": name, "role": role}
    return {**shape, "reasons": list(answer.reasons)} if event in ("PENDING", "REJECTED") else shape


def _change(memory_id: str, old: HistoryEntry | None, new: HistoryEntry) -> Shape:
    event = {ActionType.EXPIRE: "DELETE", ActionType.WRITE: "ADD"}.get(new.action, "UPDATE")
    metadata = {} if new.record is None else new.record.metadata
    return {
        "id": new.commit_id,
        "memory_id": memory_id,
        "old_memory": None if old is None or old.record is None else old.record.text,
        "new_memory": None if new.record is None else new.record.text,
        "event": event,
        "created_at": new.committed_at if old is None else old.committed_at,
        "updated_at": None if old is None else new.committed_at,
        "is_deleted": event == "DELETE",
        "actor_id": metadata.get("actor_id"),
        "role": metadata.get("role"),
    }


def _filtered(filters: Mapping[str, Any] | None, **ids: object) -> tuple[EntityIds, dict[str, Any]]:
    """The ids, and the other conditions of a filter. The ids may stand in the filter, or in its AND."""
    conditions = dict(filters or {})
    for part in conditions.get("AND") or ():
        for name in ENTITY_IDS:
            if isinstance(part, Mapping) and isinstance(part.get(name), str | int):
                conditions.setdefault(name, part[name])
    for name in ENTITY_IDS:
        given = conditions.pop(name, None)
        if ids[name] is not None and given is not None and str(ids[name]) != str(given):
            raise InvalidValue(what="filters", problem=f"{name} is given twice, with two values")
        ids[name] = given if ids[name] is None else ids[name]
    return EntityIds.of(**ids), conditions


def _meets(metadata: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Whether metadata meets every condition of a filter, in mem0's form."""
    for name, wanted in conditions.items():
        if name in _LOGICAL:
            met = [_meets(metadata, part) for part in wanted]
            if not {"AND": all(met), "OR": any(met), "NOT": not any(met)}[name]:
                return False
        elif isinstance(wanted, Mapping):
            if not all(_holds(metadata.get(name), *condition) for condition in wanted.items()):
                return False
        elif wanted == "*":
            if name not in metadata:
                return False
        elif metadata.get(name) != wanted:
            return False
    return True


def _holds(value: Any, name: str, other: Any) -> bool:
    if name not in _OPERATORS:
        raise InvalidValue(what="filters", problem=f"{name!r:.40} is not an operator")
    try:
        return bool(_OPERATORS[name](value, other))
    except TypeError:
        # A field that is not there, or of another kind, is neither greater nor smaller.
        return False


def _count(top_k: object) -> int:
    if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 0:
        raise InvalidValue(what="top_k", problem=f"it must be a whole number from 0, not {top_k!r:.40}")
    return top_k


def _day(given: str | date) -> str:
    try:
        return (given if isinstance(given, date) else date.fromisoformat(given)).strftime("%Y-%m-%d")
    except (TypeError, ValueError):
        raise InvalidValue(
            what=_EXPIRES, problem=f"it must be a date as YYYY-MM-DD, not {given!r:.40}"
        ) from None
