"""Tools with the names and shapes of other memory servers, on top of governed memory.

    mem0                         add_memory search_memories get_memory delete_memory
    reference memory server      create_entities add_observations search_nodes open_nodes

An observation of an entity is a memory with the subject ``entity/<name>#<digest of the observation>``. So an observation
that is added twice is one memory, and an entity is all memories whose subjects start with its name.
"""

from itertools import islice
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from standfast.canon import fingerprint
from standfast.errors import InvalidValue
from standfast.limits import MAX_PAGE_ITEMS
from standfast.scopes import SHARED, scoped_key
from standfast.server.access.permissions import Permission
from standfast.server.mcp.tools import (
    DEFAULT_TOKENS,
    WORKFLOW,
    Answer,
    AnyContext,
    McpTool,
    Namespace,
    Place,
    Source,
    ToolAuth,
)
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import (
    ForgetBody,
    RecallBody,
    RecallResponse,
    RecordQuery,
    RememberBatchBody,
    RememberBody,
    RememberResponse,
)
from standfast.store.records import record_of
from standfast.vocabulary import Band, Record, Value

ENTITY_PREFIX: Final = "entity/"
_TYPE_TAG: Final = "type:"
_DIGEST_CHARS: Final = 12
_MAX_ENTITY_NAME_CHARS: Final = 200


class Entity(BaseModel):
    """An entity, in the shape of the reference memory server."""

    name: str
    entityType: str = "entity"  # noqa: N815  # The field name of that server.
    observations: list[str] = []


class Observations(BaseModel):
    """Observations of an entity."""

    entityName: str  # noqa: N815  # As above.
    contents: list[str]


class ForeignShape(Value, frozen=True, kw_only=True):
    """A response in the shape of another server."""

    plain: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The response itself."""
        return self.plain


class CompatibleTools:
    """The tools of other memory servers. Their writes are judged, and may be refused, like all others."""

    def __init__(self, auth: ToolAuth) -> None:
        self._call = auth.call

    def tools(self) -> tuple[McpTool, ...]:
        """All tools of this class."""
        reads = {"is_read_only": True, "is_idempotent": True}
        return (
            McpTool("add_memory", "Add memory", Permission.REMEMBER, self.add_memory),
            McpTool("search_memories", "Search memories", Permission.RECALL, self.search_memories, **reads),
            McpTool("get_memory", "Get memory", Permission.GET_RECORD, self.get_memory, **reads),
            McpTool(
                "delete_memory", "Delete memory", Permission.FORGET, self.delete_memory, is_destructive=True
            ),
            McpTool("create_entities", "Create entities", Permission.REMEMBER, self.create_entities),
            McpTool("add_observations", "Add observations", Permission.REMEMBER, self.add_observations),
            McpTool("search_nodes", "Search nodes", Permission.RECALL, self.search_nodes, **reads),
            McpTool("open_nodes", "Open nodes", Permission.GET_RECORD, self.open_nodes, **reads),
        )

    def add_memory(
        self,
        text: str,
        context: AnyContext,
        user_id: Annotated[str | None, Field(description="The user who said it.")] = None,
        metadata: Annotated[
            dict[str, Any] | None, Field(description="Its `source` is recorded as the source of the text.")
        ] = None,
        namespace: Namespace = None,
    ) -> Answer:
        """Remember a fact. Without a user_id or a source it waits for review by a person."""
        source = (metadata or {}).get("source") or ({"kind": "person", "id": user_id} if user_id else None)
        body = {"text": text, "source": source if isinstance(source, dict) else None}

        def added(remembered: RememberResponse) -> ForeignShape:
            event = {"SEAL": "ADD", "SABAR": "ADD", "VOID": "NONE"}.get(remembered.verdict, "PENDING")
            event = event if remembered.known is None else "NONE"
            one = {"id": remembered.memory_id, "memory": text, "event": event, "reasons": remembered.reasons}
            return ForeignShape(plain={"results": [one]})

        return self._call(
            context,
            Permission.REMEMBER,
            namespace,
            lambda place: added(
                memory_operations.remember(*place, RememberBody.from_json(body), workflow=WORKFLOW)
            ),
        )

    def search_memories(
        self, query: str, context: AnyContext, limit: int = 10, namespace: Namespace = None
    ) -> Answer:
        """Search memory; best matches first."""
        query_body = {"query": query, "tokens": DEFAULT_TOKENS * 5, "max_items": limit}

        def found(response: RecallResponse) -> ForeignShape:
            results = [
                {"id": item["memory_id"], "memory": item["excerpt"], "score": item["score"]}
                for item in response.selected
            ]
            return ForeignShape(plain={"results": results})

        return self._call(
            context,
            Permission.RECALL,
            namespace,
            lambda place: found(memory_operations.recall(*place, RecallBody.from_json(query_body))),
        )

    def get_memory(self, memory_id: str, context: AnyContext, namespace: Namespace = None) -> Answer:
        """Return one memory by its id."""
        query_body = {"memory_id": memory_id}
        return self._call(
            context,
            Permission.GET_RECORD,
            namespace,
            lambda place: ForeignShape(
                plain=_as_memory(
                    memory_operations.get_record(*place, RecordQuery.from_json(query_body)).records[0]
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
        """Forget one memory by its id and erase its content."""
        body = {"subject": memory_id, "reason": reason}
        return self._call(
            context,
            Permission.FORGET,
            namespace,
            lambda place: memory_operations.forget(*place, ForgetBody.from_json(body), workflow=WORKFLOW),
        )

    def create_entities(
        self, entities: list[Entity], context: AnyContext, source: Source = None, namespace: Namespace = None
    ) -> Answer:
        """Remember entities and their observations, all in one commit."""
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
        """Remember further observations of entities, all in one commit."""
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
        unique = list(dict.fromkeys(said))

        def observed(place: Place) -> ForeignShape:
            items = tuple(_observation(name, text, source, kinds.get(name)) for name, text in unique)
            body = RememberBatchBody(items=items)
            responses = memory_operations.remember_batch(*place, body, workflow=WORKFLOW).items
            by_entity: dict[str, list[dict[str, Any]]] = {}
            for (name, text), response in zip(unique, responses, strict=True):
                one = {"observation": text, "verdict": response.verdict.value, "reasons": response.reasons}
                by_entity.setdefault(name, []).append(one)
            return ForeignShape(
                plain={
                    "entities": [
                        {"name": name, "observed": observed_} for name, observed_ in by_entity.items()
                    ]
                }
            )

        return self._call(context, Permission.REMEMBER, namespace, observed)

    def search_nodes(self, query: str, context: AnyContext, namespace: Namespace = None) -> Answer:
        """Search for entities; best matches first."""
        query_body = {"query": query, "tokens": DEFAULT_TOKENS * 5}

        def found(place: Place) -> ForeignShape:
            response = memory_operations.recall(*place, RecallBody.from_json(query_body))
            names = [_entity_of(item["memory_id"]) for item in response.selected]
            return _nodes(place, Permission.RECALL, list(dict.fromkeys(name for name in names if name)))

        return self._call(context, Permission.RECALL, namespace, found)

    def open_nodes(self, names: list[str], context: AnyContext, namespace: Namespace = None) -> Answer:
        """Return entities by name, with all their observations."""
        return self._call(
            context,
            Permission.GET_RECORD,
            namespace,
            lambda place: _nodes(place, Permission.GET_RECORD, names),
        )


def _observation(name: str, text: str, source: dict[str, Any] | None, kind: str | None) -> RememberBody:
    if not 0 < len(name) <= _MAX_ENTITY_NAME_CHARS or "#" in name:
        problem = f"it must have 1 to {_MAX_ENTITY_NAME_CHARS} characters and no #"
        raise InvalidValue(what="entity name", problem=problem)
    subject = f"{ENTITY_PREFIX}{name}#{fingerprint(text)[:_DIGEST_CHARS]}"
    tags = [f"{_TYPE_TAG}{kind.lower()}"] if kind else []
    return RememberBody.from_json({"text": text, "subject": subject, "source": source, "tags": tags})


def _entity_of(memory_id: str) -> str | None:
    name, mark, _ = memory_id.removeprefix(ENTITY_PREFIX).rpartition("#")
    return name if mark and memory_id.startswith(ENTITY_PREFIX) else None


def _nodes(place: Place, permission: Permission, names: list[str]) -> ForeignShape:
    gateway, caller, namespace = place
    memory = gateway.authorize(caller, permission, namespace)
    nodes = []
    for name in names[:MAX_PAGE_ITEMS]:
        prefix = scoped_key(Band.LEDGER, SHARED, f"{ENTITY_PREFIX}{name}#")
        rows = memory.store.scan(memory.namespace, prefix=prefix)
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
    return ForeignShape(plain={"entities": nodes, "relations": []})


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
