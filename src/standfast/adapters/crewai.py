"""CrewAI's memory storage over ``Memory``: what a crew remembers is judged, versioned and can be forgotten.

    memory = crewai.Memory(storage=StandfastStorage(Memory.open("crew.db")))
    crew = Crew(agents=…, tasks=…, memory=memory)

A record's scope is a scope here: ``/user/ada`` is ``user/ada``, and the root ``/`` is ``shared``. The record
stands in a ref of the memory, with its vector, because it must come back exactly as it was saved. A search
ranks by CrewAI's own vectors; ``standfast.Memory.recall`` finds the same memories by words.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from standfast.adapters.data_refs import data_ref, data_ref_of
from standfast.adapters.erasing import erase
from standfast.adapters.on_refusal import OnRefusal, reason_if_too_long
from standfast.adapters.threads import awaited
from standfast.entity_ids import scope_segment
from standfast.errors import InvalidValue, MissingExtra
from standfast.memory import Memory, Run
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED, checked_scope, prefix_of, scoped_key
from standfast.records.vocabulary import Band, Record, VisibilityMode, member_of
from standfast.store.stored_records import record_of

try:
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ImportError:
    raise MissingExtra(feature="CrewAI's storage", extra="crewai") from None

_WORKFLOW: Final = "crewai"
_KIND: Final = "crewai"
_TRUST: Final = "trust"
_DELETED: Final = "deleted through CrewAI's storage"


class StandfastStorage:
    """A storage backend of CrewAI's memory. Threads may share it.

    Args:
        memory: Where the records are stored.
        source_kind: What kind of source a record is, which decides how far it is trusted; its id is the
            record's ``source``. By default the agent's own word. ``trust`` in the metadata of a record that
            comes back says the outcome.
        max_origin: The most that a record may be trusted.
        on_refusal: What becomes of a record that the judge refuses: ``"skip"``, the default, leaves it out,
            so that one bad memory does not fail a crew; ``"raise"`` stores nothing of the call; ``"redact"``
            stores it without its secrets.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        source_kind: str = "agent",
        max_origin: Origin | str = Origin.TRUSTED,
        on_refusal: OnRefusal | str = OnRefusal.SKIP,
    ) -> None:
        self.memory = memory
        self._source_kind = source_kind
        self._max_origin = member_of(Origin, max_origin, what="max_origin")
        self._on_refusal = OnRefusal.of(on_refusal)

    # Writing.

    def save(self, records: list[MemoryRecord]) -> None:
        """Judge records and store those that are accepted, in one commit."""

        def attempt() -> list[tuple[str, tuple[str, ...]]]:
            with self._run() as run:
                refused = [one for record in records if (one := self._remember(run, record)) is not None]
                if refused and self._on_refusal is OnRefusal.RAISE:
                    run.discard()
            return refused

        if not records:
            return
        for name, reasons in self.memory.retry(attempt, key=f"{_WORKFLOW} {records[0].id}"):
            self._on_refusal.refused(name, reasons)

    def update(self, record: MemoryRecord) -> None:
        """Replace the record with the same id; one that moves to another scope leaves nothing behind."""
        old = [one for one in self._stored() if one.id == record.id and one.scope != record.scope]
        self.save([record])
        if old and self._find(record.scope, record.id) is not None:
            self._forget(old)

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Erase the records that meet all of what is given, and return how many. Nobody else's go."""
        gone = [
            record
            for record in self._stored(scope_prefix)
            if _meets(record, categories, metadata_filter)
            and (record_ids is None or record.id in record_ids)
            and (older_than is None or _aware(record.created_at) < _aware(older_than))
        ]
        self._forget(gone)
        return len(gone)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase all records in and below a scope; without one, all that a crew saved."""
        self._forget(self._stored(scope_prefix))

    # Reading.

    def search(  # noqa: PLR0917  # CrewAI's signature.
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records nearest to a vector with their scores, 1 / (1 + squared distance), best first.

        A record whose vector has another length is not compared.
        """
        asked = np.asarray(query_embedding, dtype=np.float64)
        scored = [
            (record, 1.0 / (1.0 + float(np.sum((np.asarray(record.embedding) - asked) ** 2))))
            for record in self._stored(scope_prefix)
            if record.embedding is not None
            and len(record.embedding) == len(query_embedding)
            and _meets(record, categories, metadata_filter)
        ]
        found = sorted(
            (one for one in scored if one[1] >= min_score), key=lambda one: (-one[1], one[0].scope, one[0].id)
        )
        return found[: max(0, limit)]

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record; None if there is none with this id."""
        return next((record for record in self._stored() if record.id == record_id), None)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return the records in and below a scope, newest first."""
        records = sorted(self._stored(scope_prefix), key=lambda record: (record.scope, record.id))
        records.sort(key=lambda record: _aware(record.created_at), reverse=True)
        return records[offset : offset + limit] if limit > 0 and offset >= 0 else []

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Describe a scope: how many records are in and below it, their categories and their times."""
        path = f"/{scope.strip('/')}"
        records = self._stored(path)
        times = [record.created_at for record in records]
        return ScopeInfo(
            path=path,
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=min(times, key=_aware, default=None),
            newest_record=max(times, key=_aware, default=None),
            child_scopes=_children(path, records),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes directly below one."""
        path = f"/{parent.strip('/')}"
        return _children(path, self._stored(path))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Count the records of each category."""
        counts: dict[str, int] = {}
        for record in self._stored(scope_prefix):
            for category in record.categories:
                counts[category] = counts.get(category, 0) + 1
        return dict(sorted(counts.items()))

    def count(self, scope_prefix: str | None = None) -> int:
        """Count the records in and below a scope."""
        return len(self._stored(scope_prefix))

    # In a thread.

    asave = awaited(save)
    asearch = awaited(search)
    adelete = awaited(delete)

    # Records of CrewAI as records of memory.

    def _run(self) -> Run:
        return self.memory.run(
            workflow=_WORKFLOW, mode=VisibilityMode.BUFFERED_WRITE, max_origin=self._max_origin
        )

    def _remember(self, run: Run, record: MemoryRecord) -> tuple[str, tuple[str, ...]] | None:
        """Remember a record; its name and the reasons if it is refused."""
        plain = self._on_refusal.prepared(record.model_dump(mode="json"))
        plain["metadata"].pop(_TRUST, None)
        too_long = reason_if_too_long(plain["content"])
        if too_long is not None:
            return _subject(record.id), (too_long,)
        source = {"kind": self._source_kind, "id": record.source or _WORKFLOW}
        ref = data_ref(_KIND, source, record=json.dumps(plain))
        if record.embedding is not None:
            vector = np.asarray(record.embedding, dtype="<f4").tobytes()
            ref["embedding"] = base64.b64encode(vector).decode()
        answer = run.remember(
            plain["content"],
            subject=_subject(record.id),
            scope=scope_of(record.scope),
            source=source,
            refs=[ref],
        )
        return (_subject(record.id), answer.reasons) if answer.rejected else None

    def _forget(self, records: Iterable[MemoryRecord]) -> None:
        places = sorted({(scope_of(record.scope), _subject(record.id)) for record in records})
        erase(self.memory, places, workflow=_WORKFLOW, reason=_DELETED, max_origin=self._max_origin)

    def _find(self, scope: str, record_id: str) -> MemoryRecord | None:
        key = scoped_key(Band.LEDGER, scope_of(scope), _subject(record_id))
        row = self.memory.store.read(self.memory.namespace, [key]).get(key)
        return None if row is None else _crew_record(record_of(row))

    def _stored(self, scope_prefix: str | None = None) -> list[MemoryRecord]:
        """The records in and below a scope of CrewAI's, by scope and id."""
        self.memory.require_readable("read a crew's memory")
        path = f"/{(scope_prefix or '').strip('/')}"
        prefix = prefix_of(Band.LEDGER) if path == "/" else prefix_of(Band.LEDGER, scope_of(path))
        rows = self.memory.store.scan(self.memory.namespace, prefix=prefix)
        found = (_crew_record(record_of(row)) for row in rows)
        return [one for one in found if one is not None and _is_below(one.scope, path)]


def scope_of(path: str) -> str:
    """The scope of memory that a scope of CrewAI's lies in: as many of its segments as a scope may have."""
    scope = ""
    for label in (part for part in path.split("/") if part):
        longer = f"{scope}/{scope_segment(label)}" if scope else scope_segment(label)
        try:
            scope = checked_scope(longer)
        except InvalidValue:
            break
    return scope or SHARED


def _subject(record_id: str) -> str:
    return f"{_KIND}/{record_id}"


def _crew_record(record: Record) -> MemoryRecord | None:
    """The record of CrewAI's that a record of memory holds; None if it holds none, or a forged one."""
    ref = data_ref_of(record, _KIND)
    if ref is None:
        return None
    try:
        one = MemoryRecord.model_validate_json(ref["record"])
        vector = (
            np.frombuffer(base64.b64decode(ref["embedding"]), dtype="<f4") if "embedding" in ref else None
        )
    except (KeyError, TypeError, ValueError):
        # Anyone who may write records may write such a ref. It must not make the others unreadable.
        return None
    if record.subject != _subject(one.id) or record.scope != scope_of(one.scope):
        return None
    one.embedding = None if vector is None else vector.astype(float).tolist()
    one.metadata[_TRUST] = record.origin.value
    return one


def _is_below(scope: str, path: str) -> bool:
    own = f"/{scope.strip('/')}"
    return path in ("/", own) or own.startswith(f"{path}/")


def _children(path: str, records: Iterable[MemoryRecord]) -> list[str]:
    outer = "/" if path == "/" else f"{path}/"
    below = {record.scope for record in records if record.scope.startswith(outer) and record.scope != outer}
    return sorted({outer + scope[len(outer) :].partition("/")[0] for scope in below})


def _meets(
    record: MemoryRecord, categories: list[str] | None, metadata_filter: Mapping[str, Any] | None
) -> bool:
    is_named = not categories or any(category in record.categories for category in categories)
    return is_named and all(
        record.metadata.get(name) == value for name, value in (metadata_filter or {}).items()
    )


def _aware(moment: datetime) -> datetime:
    """A time that can be compared: CrewAI's own have no zone, and are in UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
