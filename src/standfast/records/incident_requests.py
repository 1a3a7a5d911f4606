"""What a caller asks about an incident: one request type for each verb, validated before anything is read.

investigate  InvestigateRequest  InvestigateFields
quarantine   QuarantineRequest   QuarantineFields
revert       RevertRequest       RevertFields
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Self, TypedDict, Unpack

from msgspec import Meta
from msgspec.structs import force_setattr

from standfast.errors import InvalidValue
from standfast.limits import MAX_NAME_CHARS, SAFE_INTEGER
from standfast.records.conversion import built
from standfast.records.request_limits import check_limits, check_looked_up, checked_reason, checked_source
from standfast.records.requests import MemoryId, Name, Scope
from standfast.records.scopes import ALL_SCOPES, SHARED, checked_scope
from standfast.records.timestamps import instant_text
from standfast.records.vocabulary import Record, Value, shown


class InvestigateFields(TypedDict, total=False):
    """What an investigation can be about; see ``InvestigateRequest``."""

    scope: str | None
    package_hash: str | None
    run_id: str | None
    source: Mapping[str, Any] | None
    since: str | datetime | None
    until: str | datetime | None


class QuarantineFields(TypedDict, total=False):
    """What can be put into quarantine; see ``QuarantineRequest``."""

    scope: str | None
    run_id: str | None
    source: Mapping[str, Any] | None
    agent: str | None
    since: str | datetime | None
    until: str | datetime | None
    descendants: bool


class RevertFields(TypedDict, total=False):
    """What can be reverted; see ``RevertRequest``."""

    run_id: str | None
    since_snapshot: int | None
    scope: str | None
    source: Mapping[str, Any] | None
    agent: str | None


class _Selection(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What names records: where they are, who wrote them, who said them."""

    scope: Scope | None = None
    run_id: Name | None = None
    source: dict[str, str] | None = None

    def __post_init__(self) -> None:
        check_limits(self)
        if self.scope is not None and self.scope != ALL_SCOPES:
            checked_scope(self.scope)
        if self.source is not None:
            force_setattr(self, "source", checked_source(self.source))
        if self.run_id is not None:
            check_looked_up("run_id", self.run_id)

    def _require_one(self, names: tuple[str, ...], advice: str) -> None:
        named = [name for name in names if getattr(self, name) is not None]
        if len(named) != 1:
            given = " and ".join(named) or "none of them"
            raise InvalidValue(what=type(self).__name__, problem=f"{advice}; you gave {given}")

    @property
    def place(self) -> str:
        """The scope of a memory id."""
        return SHARED if self.scope in (None, ALL_SCOPES) else self.scope

    @property
    def within(self) -> str:
        """The scope that everything else is looked for in, with all below it."""
        return ALL_SCOPES if self.scope is None else self.scope

    def is_source_of(self, record: Record) -> bool:
        """Whether a record comes from the source. A document is the source of each place in it."""
        source = record.source if isinstance(record.source, dict) else {}
        name = str(source.get("id", ""))
        return self.source is None or (
            source.get("kind") == self.source["kind"] and self.source["id"] in (name, name.partition("#")[0])
        )


class _TimedSelection(_Selection, frozen=True, kw_only=True, omit_defaults=True):
    """What names records, one of them by its id, or all that were written in a range of time."""

    memory_id: MemoryId | None = None
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            if (instant := getattr(self, name)) is not None:
                force_setattr(self, name, instant_text(instant, what=name))
        _Selection.__post_init__(self)
        if self.since is not None and self.until is not None and self.since >= self.until:
            problem = f"it must be after since, which is {self.since}; it is {self.until}"
            raise InvalidValue(what="until", problem=problem)
        if self.memory_id is not None:
            check_looked_up("memory_id", self.memory_id)


class InvestigateRequest(_TimedSelection, frozen=True, kw_only=True, omit_defaults=True):
    """What to investigate: a record, a package, a run, a source, or all of a scope in a time range.

    Args:
        memory_id: A record, by its memory id or subject.
        scope: The scope of the record, by default shared. With a source: only what it said there and below.
            Without anything else: everything written there from ``since`` on.
        package_hash: A package that a recall returned.
        run_id: A run.
        source: Everything from a source such as {"kind": "doc", "id": "handbook"}.
        since: Only what was written from this instant on.
        until: Only what was written before this instant.
    """

    package_hash: Name | None = None

    @classmethod
    def of(cls, memory_id: str | None = None, **fields: Unpack[InvestigateFields]) -> Self:
        """Build a request from what a caller gave."""
        return built(cls, memory_id=memory_id, **fields)

    def __post_init__(self) -> None:
        _TimedSelection.__post_init__(self)
        names = ("memory_id", "package_hash", "run_id", "source")
        if all(getattr(self, name) is None for name in names):
            if self.scope is None or self.since is None:
                problem = "name memory_id, package_hash, run_id or source, or a scope with since"
                raise InvalidValue(what="investigate", problem=problem)
        else:
            self._require_one(names, "name one of memory_id, package_hash, run_id and source")


class QuarantineRequest(_TimedSelection, frozen=True, kw_only=True, omit_defaults=True):
    """What to take out of recall: a record, what a run wrote, or what a source or an agent said.

    Args:
        memory_id: A record, by its memory id or subject: the text that is current now.
        reason: Why; recorded in the ledger. Only a rehearsal needs none.
        scope: The scope of the record, by default shared. With anything else: only what is there and below.
        run_id: Everything that a run wrote.
        source: Everything from a source such as {"kind": "doc", "id": "handbook"}.
        agent: Everything that an agent or a server's key wrote, as far as sources and the recall log tell.
        since: Only what was written from this instant on.
        until: Only what was written before this instant.
        descendants: Whether also what cites it goes, over any number of steps.
        rehearse: Only say what would be taken out.
    """

    agent: Name | None = None
    descendants: bool = True
    reason: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] = ""
    rehearse: bool = False

    @classmethod
    def of(
        cls,
        memory_id: str | None = None,
        *,
        reason: str = "",
        rehearse: bool = False,
        **fields: Unpack[QuarantineFields],
    ) -> Self:
        """Build a request from what a caller gave."""
        return built(cls, memory_id=memory_id, reason=reason, rehearse=rehearse, **fields)

    def __post_init__(self) -> None:
        _TimedSelection.__post_init__(self)
        self._require_one(
            ("memory_id", "run_id", "source", "agent"), "name one of memory_id, run_id, source and agent"
        )
        force_setattr(self, "reason", checked_reason(self.reason, rehearse=self.rehearse))


class RevertRequest(_Selection, frozen=True, kw_only=True, omit_defaults=True):
    """What to undo: everything that a run wrote, or that was written since a snapshot.

    Args:
        reason: Why; recorded in the ledger. Only a rehearsal needs none.
        run_id: A run.
        since_snapshot: Everything that commits after this snapshot wrote.
        scope: Only what is in this scope and below it.
        source: Only what comes from a source such as {"kind": "doc", "id": "handbook"}.
        agent: Only what an agent or a server's key wrote, as far as sources and the recall log tell.
        rehearse: Only say what would be undone.
    """

    since_snapshot: Annotated[int, Meta(ge=0, le=SAFE_INTEGER)] | None = None
    agent: Name | None = None
    reason: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] = ""
    rehearse: bool = False

    @classmethod
    def of(cls, *, reason: str = "", rehearse: bool = False, **fields: Unpack[RevertFields]) -> Self:
        """Build a request from what a caller gave."""
        return built(cls, reason=reason, rehearse=rehearse, **fields)

    def __post_init__(self) -> None:
        _Selection.__post_init__(self)
        self._require_one(("run_id", "since_snapshot"), "name either run_id or since_snapshot")
        force_setattr(self, "reason", checked_reason(self.reason, rehearse=self.rehearse))


def check_name(what: str, name: object) -> None:
    """Raise ``InvalidValue`` unless a name, such as who acts, is a text of 1 to 256 characters."""
    if not (isinstance(name, str) and 1 <= len(name) <= MAX_NAME_CHARS):
        problem = f"it must be a text of 1 to {MAX_NAME_CHARS} characters, not {shown(name)}"
        raise InvalidValue(what=what, problem=problem)


INCIDENT_REQUESTS: Final[Mapping[type[Value], type]] = {
    InvestigateRequest: InvestigateFields,
    QuarantineRequest: QuarantineFields,
    RevertRequest: RevertFields,
}
"""The requests, with the types of what a caller may give for their fields by name."""
for _request, _given in INCIDENT_REQUESTS.items():
    assert set(_given.__annotations__) <= set(_request.__struct_fields__), "a field that no request has"
