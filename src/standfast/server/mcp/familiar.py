"""Verbs that users of other memory servers know, mapped onto governed ones: same names, same shapes, our judge.

    mem0's             add_memory search_memories get_memory delete_memory
    the reference's    create_entities add_observations search_nodes open_nodes

An entity's observation is a memory with the subject ``entity/<name>#<digest of the observation>``, so that saying it
twice is the same memory, and an entity is the memories whose subjects begin with its name.
"""

from itertools import islice
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from standfast.canon import fingerprint
from standfast.errors import InvalidValue
from standfast.limits import MAX_PAGE_ITEMS
from standfast.memory import Memory
from standfast.server.access.table import Act, Caller
from standfast.server.mcp.reception import Reception
from standfast.server.mcp.tools import DEFAULT_TOKENS, WORKFLOW, Answer, AnyContext, Namespace, Offer, Source
from standfast.server.operations import reading, writing
from standfast.server.operations.hall import Hall
from standfast.server.operations.recalling import items_of, recalled
from standfast.server.operations.shapes import AskedRecord, Forget, Recall, Remember, Remembered
from standfast.store.records import record_of
from standfast.vocabulary import Band, Record, Value

ENTITY_PREFIX: Final = "entity/"
_TYPE_TAG: Final = "type:"
_DIGEST_CHARS: Final = 12
_MAX_ENTITY_NAME_CHARS: Final = 200


class Entity(BaseModel):
    """An entity as the reference memory server writes it."""

    name: str
    entityType: str = "entity"  # noqa: N815  # The name that its users know.
    observations: list[str] = []


class Observations(BaseModel):
    """What was observed of an entity."""

    entityName: str  # noqa: N815  # As above.
    contents: list[str]


class Plain(Value, frozen=True, kw_only=True):
    """An answer in another server's shape."""

    plain: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The shape itself."""
        return self.plain


class FamiliarTools:
    """Each is governed as ours are: what it says is judged, and may be refused."""

    def __init__(self, reception: Reception) -> None:
        self._ask = reception.ask

    def offers(self) -> tuple[Offer, ...]:
        """All of them."""
        reads = {"is_read_only": True, "is_idempotent": True}
        return (
            Offer(name="add_memory", title="Add memory", act=Act.REMEMBER, does=self.add_memory),
            Offer(
                name="search_memories",
                title="Search memories",
                act=Act.RECALL,
                does=self.search_memories,
                **reads,
            ),
            Offer(name="get_memory", title="Get memory", act=Act.GET_RECORD, does=self.get_memory, **reads),
            Offer(
                name="delete_memory",
                title="Delete memory",
                act=Act.FORGET,
                does=self.delete_memory,
                is_destructive=True,
            ),
            Offer(
                name="create_entities", title="Create entities", act=Act.REMEMBER, does=self.create_entities
            ),
            Offer(
                name="add_observations",
                title="Add observations",
                act=Act.REMEMBER,
                does=self.add_observations,
            ),
            Offer(name="search_nodes", title="Search nodes", act=Act.RECALL, does=self.search_nodes, **reads),
            Offer(name="open_nodes", title="Open nodes", act=Act.GET_RECORD, does=self.open_nodes, **reads),
        )

    def add_memory(
        self,
        text: str,
        context: AnyContext,
        user_id: Annotated[str | None, Field(description="Who said it.")] = None,
        metadata: Annotated[
            dict[str, Any] | None, Field(description="A `source` in it is where it comes from.")
        ] = None,
        namespace: Namespace = None,
    ) -> Answer:
        """Have a fact judged and remembered. Without a user_id or a source it waits for a human."""
        source = (metadata or {}).get("source") or ({"kind": "person", "id": user_id} if user_id else None)
        wanted = {"text": text, "source": source if isinstance(source, dict) else None}

        def added(remembered: Remembered) -> Plain:
            event = {"SEAL": "ADD", "SABAR": "ADD", "VOID": "NONE"}.get(remembered.verdict, "PENDING")
            one = {"id": remembered.memory_id, "memory": text, "event": event, "reasons": remembered.reasons}
            return Plain(plain={"results": [one]})

        return self._ask(
            context,
            Act.REMEMBER,
            namespace,
            lambda hall, caller, where: added(
                writing.remember(hall, caller, where, Remember.from_json(wanted), workflow=WORKFLOW)
            ),
        )

    def search_memories(
        self, query: str, context: AnyContext, limit: int = 10, namespace: Namespace = None
    ) -> Answer:
        """Search memory; the best fits first."""
        asked = {"query": query, "tokens": DEFAULT_TOKENS * 5, "max_items": limit}

        def found(items: list[dict[str, Any]]) -> Plain:
            results = [
                {"id": item["memory_id"], "memory": item["excerpt"], "score": item["score"]} for item in items
            ]
            return Plain(plain={"results": results})

        return self._ask(
            context,
            Act.RECALL,
            namespace,
            lambda hall, caller, where: found(
                items_of(reading.recall(hall, caller, where, Recall.from_json(asked)))
            ),
        )

    def get_memory(self, memory_id: str, context: AnyContext, namespace: Namespace = None) -> Answer:
        """One memory by its id."""
        asked = {"memory_id": memory_id}
        return self._ask(
            context,
            Act.GET_RECORD,
            namespace,
            lambda hall, caller, where: Plain(
                plain=_as_memory(
                    reading.get_record(hall, caller, where, AskedRecord.from_json(asked)).records[0]
                )
            ),
        )

    def delete_memory(
        self,
        memory_id: str,
        context: AnyContext,
        reason: str = "deleted on request",
        namespace: Namespace = None,
    ) -> Answer:
        """Forget one memory by its id, and erase what it said."""
        wanted = {"subject": memory_id, "reason": reason}
        return self._ask(
            context,
            Act.FORGET,
            namespace,
            lambda hall, caller, where: writing.forget(
                hall, caller, where, Forget.from_json(wanted), workflow=WORKFLOW
            ),
        )

    def create_entities(
        self, entities: list[Entity], context: AnyContext, source: Source = None, namespace: Namespace = None
    ) -> Answer:
        """Have entities and what was observed of them judged and remembered, all in one commit."""
        kinds = {entity.name: entity.entityType for entity in entities}
        said = [(entity.name, text) for entity in entities for text in entity.observations]
        return self._observe(context, namespace, said, source, kinds)

    def add_observations(
        self,
        observations: list[Observations],
        context: AnyContext,
        source: Source = None,
        namespace: Namespace = None,
    ) -> Answer:
        """Have further observations of entities judged and remembered, all in one commit."""
        said = [(of.entityName, text) for of in observations for text in of.contents]
        return self._observe(context, namespace, said, source, {})

    def _observe(
        self,
        context: AnyContext,
        namespace: str | None,
        said: list[tuple[str, str]],
        source: dict[str, Any] | None,
        kinds: dict[str, str],
    ) -> Answer:
        once = list(dict.fromkeys(said))

        def observed(hall: Hall, caller: Caller, where: str) -> Plain:
            wanted = [_observation(name, text, source, kinds.get(name)) for name, text in once]
            answers = writing.remember_all(hall, caller, where, wanted, workflow=WORKFLOW)
            told: dict[str, list[dict[str, Any]]] = {}
            for (name, text), answer in zip(once, answers, strict=True):
                one = {"observation": text, "verdict": answer.verdict.value, "reasons": answer.reasons}
                told.setdefault(name, []).append(one)
            return Plain(
                plain={"entities": [{"name": name, "observed": all_} for name, all_ in told.items()]}
            )

        return self._ask(context, Act.REMEMBER, namespace, observed)

    def search_nodes(self, query: str, context: AnyContext, namespace: Namespace = None) -> Answer:
        """Search for entities; the best fits first."""
        asked = {"query": query, "tokens": DEFAULT_TOKENS * 5}

        def found(memory: Memory) -> Plain:
            items = items_of(recalled(memory, Recall.from_json(asked)))
            names = [_entity_of(item["memory_id"]) for item in items]
            return _nodes(memory, list(dict.fromkeys(name for name in names if name)))

        return self._ask(
            context,
            Act.RECALL,
            namespace,
            lambda hall, caller, where: found(hall.enter(caller, Act.RECALL, where)),
        )

    def open_nodes(self, names: list[str], context: AnyContext, namespace: Namespace = None) -> Answer:
        """Entities by their names, with all that was observed of them."""
        return self._ask(
            context,
            Act.GET_RECORD,
            namespace,
            lambda hall, caller, where: _nodes(hall.enter(caller, Act.GET_RECORD, where), names),
        )


def _observation(name: str, text: str, source: dict[str, Any] | None, kind: str | None) -> Remember:
    if not 0 < len(name) <= _MAX_ENTITY_NAME_CHARS or "#" in name:
        problem = f"it has 1 to {_MAX_ENTITY_NAME_CHARS} characters, and no #"
        raise InvalidValue(what="an entity's name", problem=problem)
    subject = f"{ENTITY_PREFIX}{name}#{fingerprint(text)[:_DIGEST_CHARS]}"
    tags = [f"{_TYPE_TAG}{kind.lower()}"] if kind else []
    return Remember.from_json({"text": text, "subject": subject, "source": source, "tags": tags})


def _entity_of(memory_id: str) -> str | None:
    name, mark, _ = memory_id.removeprefix(ENTITY_PREFIX).rpartition("#")
    return name if mark and memory_id.startswith(ENTITY_PREFIX) else None


def _nodes(memory: Memory, names: list[str]) -> Plain:
    nodes = []
    for name in names[:MAX_PAGE_ITEMS]:
        rows = memory.store.scan(memory.namespace, prefix=f"{Band.LEDGER}/{ENTITY_PREFIX}{name}#")
        records = [record_of(row) for row in islice(rows, MAX_PAGE_ITEMS)]
        if records:
            kinds = [
                tag[len(_TYPE_TAG) :]
                for record in records
                for tag in record.tags
                if tag.startswith(_TYPE_TAG)
            ]
            nodes.append(
                {
                    "name": name,
                    "entityType": kinds[0] if kinds else "entity",
                    "observations": [record.text for record in records],
                    "verdicts": [str(record.verdict) for record in records],
                }
            )
    return Plain(plain={"entities": nodes, "relations": []})


def _as_memory(record: Record) -> dict[str, Any]:
    return {
        "id": record.memory_id,
        "memory": record.text,
        "created_at": record.ts_utc,
        "metadata": {
            "band": record.band.value,
            "verdict": None if record.verdict is None else record.verdict.value,
            "tags": list(record.tags),
            "source": record.source,
        },
    }
