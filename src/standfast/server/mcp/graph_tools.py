"""The tools of the reference memory server (a graph of entities, observations and relations), on top of
governed memory.

    create_entities create_relations add_observations
    delete_entities delete_observations delete_relations
    read_graph search_nodes open_nodes

Each entity, observation and relation is a record in ``shared``, or in the scope that the caller's key is
limited to, under a subject of its own: ``graph/entity/<name>``, ``graph/observation/<name>/<digest>``,
``graph/relation/<digest>``. Each is judged; what is not accepted stands under ``refused`` in the answer, with
the reasons. ``memory_read`` finds all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from standfast.errors import InvalidValue, NotFound
from standfast.records.canon import fingerprint, lowered
from standfast.records.requests import RememberRequest
from standfast.records.scopes import scoped_key
from standfast.records.vocabulary import Band, Record
from standfast.server.access.permissions import Permission
from standfast.server.access.scope_limits import own_scope
from standfast.server.mcp.mem0_tools import forget_together, require
from standfast.server.mcp.tools import WORKFLOW, Answer, Place, tool
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import ForgetInRunBody, RememberBatchBody
from standfast.store.stored_records import record_of

_GRAPH: Final = "graph/"
_ENTITY: Final = f"{_GRAPH}entity/"
_OBSERVATION: Final = f"{_GRAPH}observation/"
_RELATION: Final = f"{_GRAPH}relation/"
_MAX_NAME_CHARS: Final = 60
_DIGEST_CHARS: Final = 32


class Entity(BaseModel):
    """An entity, in the shape of the reference memory server."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=256, description="The name of the entity.")]
    entityType: str = Field(description="The type of the entity.")  # noqa: N815  # The field name of that server.
    observations: list[str] = Field(description="What is known of it.")


class Relation(BaseModel):
    """A relation between two entities, in active voice: ``from`` ``relationType`` ``to``."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    start: str = Field(alias="from", description="The name of the entity where the relation starts.")
    to: str = Field(description="The name of the entity where the relation ends.")
    relationType: str = Field(description="The type of the relation.")  # noqa: N815  # As above.


class Observations(BaseModel):
    """Observations to add to an entity."""

    model_config = ConfigDict(extra="forbid")

    entityName: str  # noqa: N815  # As above.
    contents: list[str]


class Deletion(BaseModel):
    """Observations to delete from an entity."""

    model_config = ConfigDict(extra="forbid")

    entityName: str  # noqa: N815  # As above.
    observations: list[str]


class _Edge(NamedTuple):
    start: str
    to: str
    kind: str

    def as_json(self) -> dict[str, str]:
        return {"from": self.start, "to": self.to, "relationType": self.kind}


@dataclass(slots=True)
class _Node:
    kind: str
    observations: list[str] = field(default_factory=list)


@tool("Create entities", Permission.REMEMBER)
def create_entities(place: Place, entities: list[Entity]) -> Answer:
    """Create entities with their observations, in one commit. An entity that exists stays as it is."""
    require(place, Permission.REMEMBER)
    graph = _Graph.read(place)
    new = {one.name: one for one in reversed(entities) if one.name not in graph.nodes}
    ordered = [new[name] for name in dict.fromkeys(one.name for one in entities) if name in new]
    bodies = [body for one in ordered for body in _bodies_of(one)]
    refused = _remember(place, bodies)
    made = [
        {
            "name": one.name,
            "entityType": one.entityType,
            "observations": [
                text
                for text in dict.fromkeys(one.observations)
                if _observation_subject(one.name, text) not in refused
            ],
        }
        for one in ordered
        if _ENTITY + _quoted(one.name) not in refused
    ]
    return {"entities": made, **_told(refused)}


@tool("Create relations", Permission.REMEMBER)
def create_relations(place: Place, relations: list[Relation]) -> Answer:
    """Create relations between entities, in active voice and one commit. One that exists stays."""
    require(place, Permission.REMEMBER)
    graph = _Graph.read(place)
    new = [edge for edge in dict.fromkeys(map(_edge_of, relations)) if edge not in graph.edges]
    refused = _remember(place, [_relation_body(edge) for edge in new])
    made = [edge.as_json() for edge in new if _relation_subject(edge) not in refused]
    return {"relations": made, **_told(refused)}


@tool("Add observations", Permission.REMEMBER)
def add_observations(place: Place, observations: list[Observations]) -> Answer:
    """Add observations to entities that exist, in one commit. If one does not exist, nothing is added."""
    require(place, Permission.REMEMBER)
    graph = _Graph.read(place)
    new: dict[str, list[str]] = {}
    for one in observations:
        if one.entityName not in graph.nodes:
            raise NotFound(what=f"entity with name {one.entityName!r:.80}")
        known = graph.nodes[one.entityName].observations
        texts = new.setdefault(one.entityName, [])
        texts += [text for text in dict.fromkeys(one.contents) if text not in (*known, *texts)]
    refused = _remember(
        place, [_observation_body(name, text) for name, texts in new.items() for text in texts]
    )
    results = [
        {
            "entityName": name,
            "addedObservations": [text for text in texts if _observation_subject(name, text) not in refused],
        }
        for name, texts in new.items()
    ]
    return {"results": results, **_told(refused)}


@tool("Delete entities", Permission.FORGET, deletes=True, is_idempotent=True)
def delete_entities(
    place: Place,
    entityNames: list[str],  # noqa: N803  # The argument of that server.
) -> Answer:
    """Delete entities with their observations and relations, and erase their content."""
    require(place, Permission.FORGET)
    graph, names = _Graph.read(place), set(entityNames)
    subjects = [
        graph.subjects[key]
        for key in graph.subjects
        if (isinstance(key, _Edge) and not names.isdisjoint(key[:2]))
        or (not isinstance(key, _Edge) and key[0] in names)
    ]
    return _forgotten(place, subjects, "Entities")


@tool("Delete observations", Permission.FORGET, deletes=True, is_idempotent=True)
def delete_observations(place: Place, deletions: list[Deletion]) -> Answer:
    """Delete observations of entities, and erase their content."""
    require(place, Permission.FORGET)
    graph = _Graph.read(place)
    keys = dict.fromkeys((one.entityName, text) for one in deletions for text in one.observations)
    return _forgotten(place, [graph.subjects[key] for key in keys if key in graph.subjects], "Observations")


@tool("Delete relations", Permission.FORGET, deletes=True, is_idempotent=True)
def delete_relations(place: Place, relations: list[Relation]) -> Answer:
    """Delete relations."""
    require(place, Permission.FORGET)
    graph = _Graph.read(place)
    edges = [edge for edge in dict.fromkeys(map(_edge_of, relations)) if edge in graph.subjects]
    return _forgotten(place, [graph.subjects[edge] for edge in edges], "Relations")


@tool("Read graph", Permission.LIST_RECORDS, reads=True)
def read_graph(place: Place) -> Answer:
    """Read the whole graph: all entities with their observations, and all relations."""
    return _Graph.read(place).as_json()


@tool("Search nodes", Permission.LIST_RECORDS, reads=True)
def search_nodes(place: Place, query: str) -> Answer:
    """Search for entities whose name, type or an observation contains the query, in any case, with their
    relations.

    To search by words and not by an exact phrase, use memory_read.
    """
    graph, wanted = _Graph.read(place), lowered(query)
    names = [
        name
        for name, node in graph.nodes.items()
        if any(wanted in lowered(text) for text in (name, node.kind, *node.observations))
    ]
    return graph.as_json(names)


@tool("Open nodes", Permission.LIST_RECORDS, reads=True)
def open_nodes(place: Place, names: list[str]) -> Answer:
    """Return entities by name with their observations, and the relations that start or end at one."""
    return _Graph.read(place).as_json(names)


GRAPH_TOOLS: Final = (
    *(create_entities, create_relations, add_observations, delete_entities, delete_observations),
    *(delete_relations, read_graph, search_nodes, open_nodes),
)


class _Graph:
    """The graph as the newest snapshot shows it, oldest first.

    ``subjects`` has the subject of each part: of an entity by ``(name, None)``, of an observation by ``(name,
    text)``, of a relation by the relation.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {}
        self.edges: dict[_Edge, None] = {}
        self.subjects: dict[_Edge | tuple[str, str | None], str] = {}

    @classmethod
    def read(cls, place: Place) -> "_Graph":
        records = sorted(_records(place), key=lambda one: (one.ts_utc or "", one.memory_id))
        graph = cls()
        for record in records:
            graph._add(record)
        return graph

    def _add(self, record: Record) -> None:
        """Add a record, if it is part of the graph. One that somebody forged is not."""
        match record.metadata:
            case {"entity": str(name), "entity_type": str(kind)} if record.memory_id == _ENTITY + _quoted(
                name
            ):
                self.nodes.setdefault(name, _Node(kind)).kind = kind
                self.subjects[name, None] = record.memory_id
            case {"entity": str(name)} if record.memory_id == _observation_subject(name, record.text):
                self.nodes.setdefault(name, _Node("")).observations.append(record.text)
                self.subjects[name, record.text] = record.memory_id
            case {"from": str(start), "to": str(to), "relation_type": str(kind)}:
                edge = _Edge(start, to, kind)
                if record.memory_id == _relation_subject(edge):
                    self.edges[edge] = None
                    self.subjects[edge] = record.memory_id
            case _:
                pass

    def as_json(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """The graph, or the named entities with the relations that start or end at one of them."""
        chosen = set(self.nodes) if names is None else set(names) & set(self.nodes)
        return {
            "entities": [
                {"name": name, "entityType": node.kind, "observations": node.observations}
                for name, node in self.nodes.items()
                if name in chosen
            ],
            "relations": [
                edge.as_json()
                for edge in self.edges
                if names is None or edge.start in chosen or edge.to in chosen
            ],
        }


def _records(place: Place) -> Iterable[Record]:
    memory = require(place, Permission.LIST_RECORDS)
    memory.require_readable("read the graph")
    scope = own_scope(place[1], Permission.LIST_RECORDS, None)
    rows = memory.store.scan(memory.namespace, prefix=scoped_key(Band.LEDGER, scope, _GRAPH))
    return map(record_of, rows)


def _remember(place: Place, bodies: Sequence[RememberRequest]) -> dict[str, dict[str, Any]]:
    """Judge all in one commit. Returns what was not accepted, by subject."""
    if not bodies:
        return {}
    body = RememberBatchBody(items=tuple(bodies))
    responses = memory_operations.remember_batch(*place, body, workflow=WORKFLOW).items
    return {
        one.subject or "": {"text": one.text, "verdict": response.verdict.value, "reasons": response.reasons}
        for one, response in zip(bodies, responses, strict=True)
        if Band.LEDGER not in response.bands and response.known is None
    }


def _told(refused: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"refused": list(refused.values())} if refused else {}


def _forgotten(place: Place, subjects: Iterable[str], what: str) -> Answer:
    scope = own_scope(place[1], Permission.FORGET, None)
    forget_together(
        place, [ForgetInRunBody(subject=one, reason="deleted on request", scope=scope) for one in subjects]
    )
    return {"success": True, "message": f"{what} deleted successfully"}


def _bodies_of(entity: Entity) -> list[RememberRequest]:
    name, kind = entity.name, entity.entityType
    own = RememberRequest(
        text=f"{name} is an entity of type {kind}.",
        subject=_ENTITY + _quoted(name),
        metadata={"entity": name, "entity_type": kind},
    )
    return [own, *(_observation_body(name, text) for text in dict.fromkeys(entity.observations))]


def _observation_body(name: str, text: str) -> RememberRequest:
    if not text.strip():
        raise InvalidValue(what="observation", problem=f"one of {name!r:.80} is empty; leave it out")
    return RememberRequest(text=text, subject=_observation_subject(name, text), metadata={"entity": name})


def _relation_body(edge: _Edge) -> RememberRequest:
    return RememberRequest(
        text=f"{edge.start} {edge.kind} {edge.to}.",
        subject=_relation_subject(edge),
        metadata={"from": edge.start, "to": edge.to, "relation_type": edge.kind},
    )


def _edge_of(relation: Relation) -> _Edge:
    return _Edge(relation.start, relation.to, relation.relationType)


def _observation_subject(name: str, text: str) -> str:
    return f"{_OBSERVATION}{_quoted(name)}/{fingerprint(text)[:_DIGEST_CHARS]}"


def _relation_subject(edge: _Edge) -> str:
    return f"{_RELATION}{fingerprint(list(edge))[:_DIGEST_CHARS]}"


def _quoted(name: str) -> str:
    """A name as part of a subject. A long one becomes a digest, which no other name begins like."""
    quoted = quote(name, safe=" ", errors="surrogatepass")
    return quoted if len(quoted) <= _MAX_NAME_CHARS else f"%{fingerprint(name)[:_DIGEST_CHARS]}"
