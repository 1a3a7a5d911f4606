"""mem0's ids of users, agents and runs as scopes, and records in the shape of mem0's memories.

    user_id="ada"                     user/ada
    user_id="ada", agent_id="desk"    user/ada/agent/desk
    agent_id="desk"                   agent/desk

The adapter class and the MCP tools with mem0's names share this.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from standfast.errors import InvalidValue, NotCanonical
from standfast.records.canon import fingerprint
from standfast.records.scopes import checked_scope, key_parts
from standfast.records.vocabulary import JsonScalar, Record

ENTITY_IDS: Final = ("user_id", "agent_id", "run_id")
_PREFIXES: Final = {"user_id": "user", "agent_id": "agent", "run_id": "run"}
_MAX_SEGMENT_BYTES: Final = 48
_CREATED_AT: Final = "created_at"
# These fields stand next to the metadata in mem0's memories, not inside.
_PROMOTED: Final = (*ENTITY_IDS, "actor_id", "role", "expiration_date")


class MemoryPlace(NamedTuple):
    """Where a memory is: its scope, and its id there."""

    scope: str
    memory_id: str

    @classmethod
    def of(cls, public_id: str) -> Self:
        """The place that an id names; ``InvalidValue`` if it names none."""
        parts = key_parts(f"id/{public_id}") if isinstance(public_id, str) else None
        if parts is None or not parts.name:
            problem = f"it must be an id that add, search or get_all returned, not {public_id!r:.80}"
            raise InvalidValue(what="memory_id", problem=problem)
        return cls(checked_scope(parts.scope, what="memory_id"), parts.name)

    @property
    def public_id(self) -> str:
        """The id that callers see. It includes the scope, so that it is unique in the namespace."""
        return f"{self.scope}//{self.memory_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityIds:
    """Whose memories: those of a user, of an agent, of a run, or of several together; at least one."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def __post_init__(self) -> None:
        if not self.given:
            raise InvalidValue(what="ids", problem="give at least one of user_id, agent_id and run_id")

    @classmethod
    def of(cls, *, user_id: object = None, agent_id: object = None, run_id: object = None) -> Self:
        """Check the ids as mem0 does: numbers become text, outer spaces go, inner ones are refused."""
        return cls(
            user_id=_checked_id("user_id", user_id),
            agent_id=_checked_id("agent_id", agent_id),
            run_id=_checked_id("run_id", run_id),
        )

    @property
    def given(self) -> dict[str, str]:
        """The ids that are given."""
        ids = {"user_id": self.user_id, "agent_id": self.agent_id, "run_id": self.run_id}
        return {name: one for name, one in ids.items() if one is not None}

    @property
    def scope(self) -> str:
        """The scope that memories with these ids are written to."""
        return "/".join(f"{_PREFIXES[name]}/{scope_segment(one)}" for name, one in self.given.items())

    @property
    def read_scopes(self) -> tuple[str, ...]:
        """The scopes of memories with these ids; what is read there must also match ``read_metadata``."""
        if self.user_id is not None:
            within = self.scope if self.is_one_scope else f"user/{scope_segment(self.user_id)}"
            return (within,)
        if self.agent_id is not None:
            return (f"agent/{scope_segment(self.agent_id)}", "user")
        return ("agent", self.scope, "user")

    @property
    def read_metadata(self) -> dict[str, JsonScalar]:
        """The metadata that a memory with these ids has, as far as its scope does not say so."""
        return {} if self.is_one_scope else dict(self.given)

    @property
    def is_one_scope(self) -> bool:
        """Whether the ids name a scope with all below it: a user, an agent of a user, or a run of those."""
        return list(self.given) == list(ENTITY_IDS[: len(self.given)])


def stored_metadata(
    metadata: Mapping[str, Any] | None, ids: Mapping[str, str], **more: str | None
) -> dict[str, JsonScalar]:
    """The metadata of a new memory: the caller's, with the ids, which it can't forge, and what is known."""
    own = {name: value for name, value in (metadata or {}).items() if name not in (*_PROMOTED, _CREATED_AT)}
    return {**own, **ids, **{name: value for name, value in more.items() if value is not None}}


def metadata_of_update(record: Record, metadata: Mapping[str, Any] | None) -> dict[str, JsonScalar]:
    """The metadata of a new version: the old one's with the caller's changes; ids and creation time stay."""
    kept = {_CREATED_AT: record.ts_utc, **record.metadata}
    return {**kept, **stored_metadata(metadata, {})}


def as_memory(record: Record, score: float | None = None) -> dict[str, Any]:
    """A record in the shape of mem0's memories."""
    metadata = dict(record.metadata)
    created = metadata.pop(_CREATED_AT, None)
    shape: dict[str, Any] = {
        "id": MemoryPlace(record.scope, record.memory_id).public_id,
        "memory": record.text,
        "hash": fingerprint(record.text),
        "created_at": record.ts_utc if created is None else created,
        "updated_at": None if created is None else record.ts_utc,
        "trust": record.origin.value,
    }
    if score is not None:
        shape["score"] = score
    shape |= {name: metadata.pop(name) for name in _PROMOTED if name in metadata}
    if metadata:
        shape["metadata"] = metadata
    return shape


def _checked_id(name: str, given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str | int) or isinstance(given, bool):
        raise InvalidValue(what=name, problem=f"it must be a string, not {given!r:.80}")
    text = str(given).strip()
    if not text or len(text.split()) > 1:
        raise InvalidValue(what=name, problem=f"it must be a string without spaces, not {given!r:.80}")
    return text


def scope_segment(entity_id: str) -> str:
    """The id as a segment of a scope. One that can't be one becomes a digest that no id begins like."""
    try:
        is_plain = not entity_id.startswith("%") and "/" not in entity_id
        if is_plain and len(entity_id.encode()) <= _MAX_SEGMENT_BYTES:
            return checked_scope(entity_id)
    except (InvalidValue, UnicodeEncodeError):
        pass
    try:
        return f"%{fingerprint(entity_id)[:32]}"
    except NotCanonical as error:
        raise InvalidValue(what="id", problem=str(error)) from None
