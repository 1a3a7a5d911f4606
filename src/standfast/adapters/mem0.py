"""mem0's ``Memory`` and ``AsyncMemory`` over Standfast: change the import, keep the calls.

    from standfast.adapters.mem0 import Memory

    memory = Memory()
    memory.add("I am allergic to nuts.", user_id="ada")
    memory.search("What can Ada eat?", filters={"user_id": "ada"})["results"]

``user_id``, ``agent_id`` and ``run_id`` are scopes (``entity_ids.py``). Everything that is added is judged:
the ``event`` of a memory that waits for review is PENDING, of a rejected one REJECTED, with the reasons. No
model is asked, so messages are kept as they were said, whatever ``infer`` is; the log says so once. Each
memory has a ``trust``, which comes from who said it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from standfast import memory as standfast_memory
from standfast.adapters.erasing import erase
from standfast.adapters.mem0_filters import ids_and_conditions, meets
from standfast.adapters.on_refusal import OnRefusal
from standfast.entity_ids import EntityIds, MemoryPlace, as_memory, metadata_of_update, stored_metadata
from standfast.errors import InvalidValue, PutRefused
from standfast.govern.judge.secrecy import redacted_json
from standfast.limits import MAX_RECALL_ITEMS, MAX_RECALL_TOKENS
from standfast.memory.messages import read_messages
from standfast.recall.filters import UNREVIEWED_VERDICTS
from standfast.recall.lexical import shares_of_best
from standfast.records.canon import utc_text
from standfast.records.filters import Filter
from standfast.records.origins import Origin
from standfast.records.scopes import scoped_key
from standfast.records.timestamps import instant_text
from standfast.records.vocabulary import (
    ActionType,
    Band,
    Record,
    Remembered,
    Verdict,
    VisibilityMode,
    member_of,
)
from standfast.store.stored_records import HistoryEntry, record_of

Shape = dict[str, Any]
_WORKFLOW: Final = "mem0"
_EXPIRES: Final = "expiration_date"
_DELETED: Final = "deleted through mem0's verbs"
_UNSET: Final = "unset"
_DEFAULT_PLACE: Final = "mem0.db"
_PROCEDURAL: Final = "procedural_memory"
_OUTER_SCOPES: Final = ("user", "agent", "run")
_UNUSED_SETTINGS: Final = (
    *("vector_store", "llm", "embedder", "history_db_path", "reranker", "version"),
    *("custom_instructions", "custom_fact_extraction_prompt", "custom_update_memory_prompt", "graph_store"),
)
_log: Final = logging.getLogger("standfast.adapters")
_REVISION: Final = "revision-"


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _names_nearest(verb: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse an unknown argument of a verb in words that name the nearest one."""
    known = [name for name in signature(verb).parameters if name != "self"]

    @wraps(verb)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for name in kwargs:
            if name not in known:
                near = get_close_matches(name, known, n=1, cutoff=0.6)
                advice = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
                raise InvalidValue(what=f"{verb.__name__}({name}=…)", problem=f"no such argument; {advice}")
        return verb(*args, **kwargs)

    return call


class Mem0Memory:
    """mem0's ``Memory``, as one can use it without a model. It is also called ``Memory`` here.

    Threads may share it. Close it, or use it as a context manager.

    Args:
        config: A ``standfast.Memory``; or what ``Memory.open`` takes: a path, a ``postgresql://`` URL, or
            ``":memory:"``; or mem0's configuration, see ``from_config``. By default the file ``mem0.db``.
        on_refusal: What ``add`` does with what the judge refuses: ``"skip"`` reports it as REJECTED,
            ``"raise"`` raises ``PutRefused`` and stores nothing of the call, ``"redact"`` stores it without
            its secrets. A refused ``update`` always raises.
        max_origin: The most that anything added here may be trusted, whatever its role says.
    """

    @_names_nearest
    def __init__(
        self,
        config: Any = None,
        *,
        on_refusal: OnRefusal | str = OnRefusal.SKIP,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> None:
        self._on_refusal = OnRefusal.of(on_refusal)
        self._max_origin = member_of(Origin, max_origin, what="max_origin")
        self._told: set[str] = set()
        given = config.model_dump(exclude_unset=True) if hasattr(config, "model_dump") else config
        place = self._place(given) if given is None or isinstance(given, Mapping) else given
        self.memory = standfast_memory.Memory.open(place) if isinstance(place, str | PathLike) else place
        if not isinstance(self.memory, standfast_memory.Memory):
            problem = f"give a path, a URL, a standfast.Memory or mem0's configuration, not {config!r:.80}"
            raise InvalidValue(what="config", problem=problem)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """Open the memory that a configuration names.

        Args:
            config_dict: mem0's configuration. Models, embedders, rerankers and vector stores are not needed;
                the log says that they are not used. ``"store"`` is our own: a path or a URL, by default
                ``mem0.db``.
        """
        return cls(config_dict)

    def _place(self, config: Mapping[str, Any] | None) -> str:
        given = dict(config or {})
        place = given.pop("store", _DEFAULT_PLACE)
        for name in sorted(given):
            if name not in _UNUSED_SETTINGS:
                near = get_close_matches(name, ("store", *_UNUSED_SETTINGS), n=1, cutoff=0.6)
                advice = f"did you mean {near[0]}?" if near else 'the store is named by "store"'
                raise InvalidValue(what="config", problem=f"there is no setting {name!r:.80}; {advice}")
            self._tell_once(f"mem0's setting {name} is not used: no model and no vector store is needed.")
        return place if isinstance(place, str) else str(place)

    def _report(self, answers: Sequence[Remembered]) -> None:
        for answer in answers:
            if answer.rejected:
                self._on_refusal.refused(answer.memory_id, answer.reasons, verdict=answer.verdict.value)

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            _log.warning(sentence)

    @_names_nearest
    def add(
        self,
        messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        user_id: str | int | None = None,
        agent_id: str | int | None = None,
        run_id: str | int | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: str | float | datetime | None = None,
        expiration_date: str | date | None = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> Shape:
        """Judge texts or messages, and store each that is accepted as a memory. At least one id is needed.

        Args:
            timestamp: When it was said: ISO 8601, a ``datetime``, or seconds since 1970.
            expiration_date: The last day on which ``search`` and ``get_all`` show it, as YYYY-MM-DD.
            infer: Taken for mem0's sake. No model is asked in either case, and messages are kept as said.
            memory_type: None or ``"procedural_memory"``, which becomes metadata.
            prompt: Taken for mem0's sake, and not used: there is no model to instruct.
            source: Not in mem0: where it comes from, such as ``{"kind": "web", "id": url}``.

        Returns:
            ``{"results": [{"id": …, "memory": …, "event": "ADD", …}]}``. ``event`` is NONE for what is known
            already, PENDING for what needs review and REJECTED for what was refused; ``reasons`` say why.

        Raises:
            PutRefused: Something was refused, and ``on_refusal`` is ``"raise"``. Nothing was stored.
        """
        _require_flag("infer", infer)
        if memory_type not in (None, _PROCEDURAL):
            raise InvalidValue(what="memory_type", problem=f"it must be None or {_PROCEDURAL!r}")
        if infer or prompt is not None or memory_type is not None:
            self._tell_once("No model is asked: messages are kept as they were said, and no facts extracted.")
        ids = EntityIds.of(user_id=user_id, agent_id=agent_id, run_id=run_id)
        said = [(*who, self._on_refusal.prepared(text)) for *who, text in _said(messages)]
        # Without a user, whoever talks to the agent speaks: nobody's own memory.
        unnamed = {} if "user_id" in ids.given else {"user": "person"}
        own = stored_metadata(
            self._on_refusal.prepared(dict(metadata or {})),
            ids.given,
            expiration_date=None if expiration_date is None else _day(expiration_date),
            memory_type=memory_type,
        )
        time = None if timestamp is None else _instant("timestamp", timestamp)
        with self.memory.run(
            workflow=_WORKFLOW, mode=VisibilityMode.BUFFERED_WRITE, max_origin=self._max_origin
        ) as run:
            answers = [
                run.remember(
                    text,
                    source=source or {"kind": unnamed.get(kind, kind), "id": ids.given.get("user_id", role)},
                    scope=ids.scope,
                    speaker=name or role,
                    time=time,
                    metadata={**own, "role": role, **({} if name is None else {"actor_id": name})},
                )
                for role, name, kind, text in said
            ]
            if self._on_refusal is OnRefusal.RAISE and any(answer.rejected for answer in answers):
                run.discard()
        self._report(answers)
        return {
            "results": [_added(one, answer, ids.scope) for one, answer in zip(said, answers, strict=True)]
        }

    @_names_nearest
    def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        filters: Mapping[str, Any] | None = None,
        threshold: float | None = None,
        rerank: bool = False,
        explain: bool = False,
        reference_date: str | float | datetime | None = None,
        show_expired: bool = False,
        user_id: str | int | None = None,
        agent_id: str | int | None = None,
        run_id: str | int | None = None,
        limit: int | None = None,
    ) -> Shape:
        """Return the memories that match a query, best first, each with a ``score`` from 0 to 1.

        Args:
            filters: Ids, and conditions on metadata: values, ``{"gt": 3}``, mem0's operators, AND, OR, NOT.
            threshold: The least score. By default every match is returned: scores here are no cosines.
            rerank: Taken for mem0's sake. There is one ranking, and it is the same with and without.
            explain: Give each result ``score_details``: its rank, its score, how far it may be trusted, and
                the doubts about it.
            reference_date: What day "yesterday" and "last week" are counted from; by default none.
            user_id: Whose memories; ``agent_id`` and ``run_id`` likewise. They belong into ``filters``; older
                versions of mem0 took them as arguments.
            limit: mem0's older name of ``top_k``.
        """
        if not isinstance(query, str) or not query.strip():
            raise InvalidValue(what="query", problem="it must be a text that is not empty")
        if threshold is not None and not 0 <= threshold <= 1:
            raise InvalidValue(what="threshold", problem=f"it must be from 0 to 1, not {threshold!r:.40}")
        for name, flag in (("rerank", rerank), ("explain", explain)):
            _require_flag(name, flag)
        count = _count(top_k if limit is None else limit)
        ids, conditions = ids_and_conditions(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        view = self.memory.at(self.memory.store.head())
        package = view.recall(
            query,
            tokens=MAX_RECALL_TOKENS,
            max_items=MAX_RECALL_ITEMS,
            scopes=ids.read_scopes,
            where=Filter(metadata=ids.read_metadata),
            now_utc=None if reference_date is None else _instant("reference_date", reference_date),
        )
        results: list[Shape] = []
        scores = shares_of_best([int(item.score) for item in package.items])
        for item, score in zip(package.items, scores, strict=True):
            record = view.record_at(item.store_path, item.memory_id)
            if record is not None and self._is_shown(record, conditions, show_expired=show_expired):
                shape = as_memory(record, score) | (_details(item, score, threshold) if explain else {})
                results += [shape] if score >= (threshold or 0) else []
        return {"results": results[:count]}

    @_names_nearest
    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        user_id: str | int | None = None,
        agent_id: str | int | None = None,
        run_id: str | int | None = None,
        limit: int | None = None,
    ) -> Shape:
        """Return the memories with these ids that meet the filters, by scope and id; see ``search``."""
        count = _count(top_k if limit is None else limit)
        ids, conditions = ids_and_conditions(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        found = (
            as_memory(record)
            for record in self._records(ids)
            if self._is_shown(record, conditions, show_expired=show_expired)
        )
        return {"results": list(islice(found, count))}

    @_names_nearest
    def get(self, memory_id: str) -> Shape | None:
        """Return one memory; None if there is none with this id."""
        place = _place_named(memory_id)
        record = None if place is None else self._record(place)
        return None if record is None else as_memory(record)

    @_names_nearest
    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: str | date | None = _UNSET,
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
            record.text if text is None else self._on_refusal.prepared(text),
            subject=place.memory_id,
            scope=place.scope,
            source=record.source,
            tags=record.tags if text is not None else _next_revision(record.tags),
            speaker=record.speaker,
            metadata=self._on_refusal.prepared(changed),
            workflow=_WORKFLOW,
            max_origin=self._max_origin,
        )
        if answer.verdict is Verdict.VOID:
            raise PutRefused(
                subject=memory_id, verdict=answer.verdict.value, reasons="; ".join(answer.reasons)
            )
        if answer.proposal_id is not None:
            return {"message": "The update waits for review by a person."}
        return {"message": "Memory updated successfully!"}

    @_names_nearest
    def delete(self, memory_id: str) -> dict[str, str]:
        """Delete one memory and erase its content."""
        place = MemoryPlace.of(memory_id)
        self._existing(place)
        self._forget([place])
        return {"message": "Memory deleted successfully!"}

    @_names_nearest
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
            self._erase(ids.scope, _DELETED)
        self._forget([MemoryPlace(record.scope, record.memory_id) for record in self._records(ids)])
        return {"message": "Memories deleted successfully!"}

    @_names_nearest
    def history(self, memory_id: str) -> list[Shape]:
        """Return every change of a memory, oldest first; none if the id is unknown. Erased texts are None."""
        place = _place_named(memory_id)
        if place is None:
            return []
        entries = [
            entry
            for entry in self.memory.history(place.memory_id, scope=place.scope)
            if entry.key.startswith(f"{Band.LEDGER}/")
        ]
        before: list[HistoryEntry | None] = [None, *entries]
        return [_change(memory_id, old, new) for old, new in zip(before, entries, strict=False)]

    def reset(self) -> None:
        """Erase every memory of every user, agent and run: all that is in and below the scopes ``user``,
        ``agent`` and ``run``.

        The ledger keeps that something was there.
        """
        for scope in _OUTER_SCOPES:
            self._erase(scope, "reset through mem0's verbs")

    def chat(self, query: str) -> str:
        """Refuse: mem0 has no chat either."""
        problem = f"mem0 has none either; search for {query!r:.40}, then ask a model of yours"
        raise InvalidValue(what="chat", problem=problem)

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

    def _erase(self, scope: str, reason: str) -> None:
        """Erase all of a scope. That there is nothing is no mistake here, as in mem0."""
        if self.memory.forget(scope=scope, rehearse=True).rows:
            self.memory.forget(scope=scope, reason=reason, max_origin=self._max_origin)

    def _forget(self, places: Sequence[MemoryPlace]) -> None:
        named = [(place.scope, place.memory_id) for place in places]
        erase(self.memory, named, workflow=_WORKFLOW, reason=_DELETED, max_origin=self._max_origin)

    def _is_shown(self, record: Record, conditions: Mapping[str, Any], *, show_expired: bool) -> bool:
        if record.verdict in UNREVIEWED_VERDICTS or not meets(record.metadata, conditions):
            return False
        last_day = record.metadata.get(_EXPIRES)
        today = utc_text(self.memory.store.clock.now())[:10]
        return show_expired or not isinstance(last_day, str) or today <= last_day


def _next_revision(tags: Sequence[str]) -> list[str]:
    """The tags of a version whose text is the last one's. Without another tag it would not be stored."""
    numbers = [tag.removeprefix(_REVISION) for tag in tags if tag.startswith(_REVISION)]
    revisions = [int(number) for number in numbers if number.isdecimal()]
    kept = [tag for tag in tags if not tag.startswith(_REVISION)]
    return [*kept, f"{_REVISION}{max(revisions, default=1) + 1}"]


def _said(messages: object) -> Iterator[tuple[str, str | None, str, str]]:
    """Role, name, kind of source and text of what is added. What the system says is no memory, as in mem0."""
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


def _place_named(memory_id: str) -> MemoryPlace | None:
    """The place that an id names; None for a text that no call returned, which mem0 does not mind either."""
    try:
        return MemoryPlace.of(memory_id)
    except InvalidValue:
        return None


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
    shape = {
        "id": place.public_id,
        # Answers end in logs. A secret is not said again.
        "memory": redacted_json(text) if event == "REJECTED" else text,
        "event": event,
        "actor_id": name,
        "role": role,
        "inferred": False,
    }
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


def _details(item: Any, score: float, threshold: float | None) -> Shape:
    """How a result came about, in the place where mem0 has it."""
    details = {
        "rank": item.rank,
        "final_score": score,
        "threshold": threshold,
        "confidence": item.ceiling,
        "doubts": list(item.reasons),
    }
    return {"score_details": details}


def _require_flag(name: str, flag: object) -> None:
    if not isinstance(flag, bool):
        raise InvalidValue(what=name, problem=f"it must be True or False, not {flag!r:.40}")


def _instant(name: str, given: str | float | datetime) -> str:
    """A time as ISO 8601 in UTC; a date is its first moment, and a number counts seconds since 1970."""
    moment: Any = given
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            moment = datetime.fromtimestamp(given, UTC)
        except (OverflowError, ValueError, OSError):
            raise InvalidValue(what=name, problem=f"it is no time: {given!r:.40}") from None
    elif isinstance(given, str) and len(given) == len("2026-01-31"):
        moment = f"{given}T00:00:00Z"
    return instant_text(moment, what=name)


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


Memory = Mem0Memory


def _awaited(
    verb: Callable[Concatenate[Mem0Memory, _P], _R],
) -> Callable[Concatenate["AsyncMem0Memory", _P], Coroutine[Any, Any, _R]]:
    """The coroutine of a verb, with its signature. What was begun is finished, even if it is cancelled."""

    @wraps(verb)
    async def call(self: "AsyncMem0Memory", /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await asyncio.shield(asyncio.to_thread(verb, self.verbs, *args, **kwargs))

    return call


class AsyncMem0Memory:
    """mem0's ``AsyncMemory``: the verbs of ``Mem0Memory`` as coroutines. It is also called ``AsyncMemory``.

    Each call runs in a thread, so the event loop does not wait for the disk. The arguments are those of
    ``Mem0Memory``, which is in ``verbs``.
    """

    @_names_nearest
    def __init__(
        self,
        config: Any = None,
        *,
        on_refusal: OnRefusal | str = OnRefusal.SKIP,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> None:
        self.verbs = Mem0Memory(config, on_refusal=on_refusal, max_origin=max_origin)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """See ``Mem0Memory.from_config``."""
        return cls(config_dict)

    add = _awaited(Mem0Memory.add)
    search = _awaited(Mem0Memory.search)
    get_all = _awaited(Mem0Memory.get_all)
    get = _awaited(Mem0Memory.get)
    update = _awaited(Mem0Memory.update)
    delete = _awaited(Mem0Memory.delete)
    delete_all = _awaited(Mem0Memory.delete_all)
    history = _awaited(Mem0Memory.history)
    reset = _awaited(Mem0Memory.reset)
    chat = _awaited(Mem0Memory.chat)

    def close(self) -> None:
        """Release the store."""
        self.verbs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


AsyncMemory = AsyncMem0Memory
