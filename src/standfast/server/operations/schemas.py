"""The requests and responses of operations on memory, the pages of long lists, and their JSON Schemas.

``…Body`` is the JSON body of a request, ``…Query`` the parameters of a reading one. Both refuse unknown
fields. The field names are the API's; `/openapi.json` is generated from these classes and from those in
store_schemas.py.
"""

from collections.abc import Callable, Iterable
from inspect import cleandoc
from typing import Annotated, Any, Final, Self, TypeVar

import msgspec
import msgspec.inspect
from msgspec import Meta

from standfast.errors import AccessError
from standfast.limits import (
    DEFAULT_PAGE_ITEMS,
    MAX_BATCH_RECALLS,
    MAX_NAME_CHARS,
    MAX_PAGE_BYTES,
    MAX_PAGE_ITEMS,
    MAX_RUN_ITEMS,
    MAX_SCOPE_BYTES,
    SAFE_INTEGER,
)
from standfast.memory.extraction import ExtractionStatus
from standfast.memory.messages import SessionInfo, SessionMessage
from standfast.records.filters import NO_FILTER, Filter
from standfast.records.outcomes import RememberOutcome
from standfast.records.request_limits import check_looked_up
from standfast.records.requests import (
    SCOPE_PATTERN,
    ForgetRequest,
    MemoryId,
    Name,
    RecallRequest,
    RecordBand,
    RememberRequest,
    Scope,
    descriptions_of,
    local_fields,
)
from standfast.records.vocabulary import (
    Receipt,
    Record,
    Remembered,
    Snapshot,
    Value,
    Verdict,
    VisibilityMode,
)
from standfast.store.stored_records import HistoryEntry, RecordChange
from standfast.traces.artifact import ModelConfig

_CURSOR: Final = "The `next` value of the previous page of this list."
ListedScope = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_SCOPE_BYTES,
        description="The scope to list, with all below it; * for all that the key is for. "
        "Without one: shared, or the scope that the key is limited to.",
        extra_json_schema={"pattern": SCOPE_PATTERN, "not": {"pattern": r"(^|/)\.{1,2}(/|$)|/\*(/|$)|^\*/"}},
    ),
]
WhereText = Annotated[
    str,
    Meta(
        min_length=2,
        max_length=4_096,
        description='Which records, as the JSON that a recall takes: {"tag": "billing"}.',
    ),
]
SnapshotId = Annotated[
    int, Meta(ge=0, le=SAFE_INTEGER, description="The snapshot to read; without one, the newest.")
]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE_ITEMS, description="The most items that a page has.")]
# A cursor holds the position of the last item of a page: a number, a name in hexadecimal, or both.
NumberCursor = Annotated[str, Meta(pattern="^[0-9]{1,16}$", description=_CURSOR)]
NameCursor = Annotated[str, Meta(pattern="^([0-9a-f]{2}){1,2048}$", description=_CURSOR)]
PlaceCursor = Annotated[str, Meta(pattern="^[0-9]{1,16}-([0-9a-f]{2}){0,2048}$", description=_CURSOR)]


# Memory: requests.
_Item = TypeVar("_Item")
Position = int | str | tuple[int, str]
"""Where an item stands in a list: a number, a name, or a number and a name."""
_DEFINITION: Final = "#/$defs/{name}"


class NoInput(Value, frozen=True, kw_only=True):
    """No input besides the path."""


class RecallBody(RecallRequest, frozen=True, kw_only=True):
    """A question, and the token budget of the answer.

    Args:
        at: The snapshot to read; without one, the newest.
        explain: Whether `explanation` says why each record was chosen or not.
    """

    at: SnapshotId | None = None
    explain: bool = False


class RecallBatchBody(Value, frozen=True, kw_only=True):
    """Several questions. Their token budgets together are limited like that of one.

    Args:
        items: The questions, each as in a recall of its own.
    """

    items: Annotated[tuple[RecallBody, ...], Meta(min_length=1, max_length=MAX_BATCH_RECALLS)]


class RememberBatchBody(Value, frozen=True, kw_only=True):
    """Several texts to judge and remember, in this order.

    Args:
        items: The texts, each as in a request of its own.
    """

    items: Annotated[tuple[RememberRequest, ...], Meta(min_length=1, max_length=MAX_RUN_ITEMS)]


class OpenRunBody(Value, frozen=True, kw_only=True):
    """A run to open.

    Args:
        workflow: The name of what the agent does, such as triage.
        mode: Whether the run may write. Without one it has the deployment's default, which is read_only
            unless the settings say otherwise.
        scope: Where it reads and writes unless a call names another scope.
        model: The model that answers. Without it the run's trace can't claim determinism.
    """

    workflow: Name
    mode: VisibilityMode | None = None
    scope: Scope | None = None
    model: ModelConfig | None = None


class ForgetInRunBody(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What to forget when a run commits: one record, by its subject or its memory id.

    Args:
        reason: Why; recorded in the ledger.
        subject: A subject, or memory id, of one scope.
        memory_id: A memory id, instead of a subject.
        scope: The scope of the record; without one, the run's.
    """

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
    subject: MemoryId | None = None
    memory_id: MemoryId | None = None
    scope: Scope | None = None

    def __post_init__(self) -> None:
        is_one = (self.subject is None) != (self.memory_id is None)
        self._require(is_one, "a run forgets a subject or a memory id; name one")
        ForgetRequest(subject=self.subject, memory_id=self.memory_id, reason=self.reason, scope=self.scope)

    @property
    def name(self) -> str:
        """The subject or memory id."""
        return self.subject or self.memory_id or ""


class RecordsQuery(Value, frozen=True, kw_only=True):
    """Which records to list.

    Args:
        band: Only those of one band.
    """

    band: RecordBand | None = None
    at: SnapshotId | None = None
    scope: ListedScope | None = None
    where: WhereText | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: PlaceCursor | None = None


class NewestQuery(Value, frozen=True, kw_only=True):
    """Which records to list, the newest first."""

    scope: ListedScope | None = None
    where: Filter = NO_FILTER
    at: SnapshotId | None = None


class RecordQuery(Value, frozen=True, kw_only=True):
    """Which record to return, and at which snapshot.

    Args:
        memory_id: The id of the record, or its subject.
        scope: The scope that it is in. Without one: the scope of the key, or shared.
    """

    memory_id: MemoryId
    at: SnapshotId | None = None
    scope: Scope | None = None

    def __post_init__(self) -> None:
        check_looked_up("memory_id", self.memory_id)


class HistoryQuery(Value, frozen=True, kw_only=True):
    """Which subject to return the history of.

    Args:
        subject: The subject, or the id of a record without one.
        scope: The scope that it is in. Without one: the scope of the key, or shared.
    """

    subject: MemoryId
    scope: Scope | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: PlaceCursor | None = None

    def __post_init__(self) -> None:
        check_looked_up("subject", self.subject)


class PageQuery(Value, frozen=True, kw_only=True):
    """Which page of a list to return."""

    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: NumberCursor | None = None


class DiffQuery(Value, frozen=True, kw_only=True):
    """Which two snapshots to compare.

    Args:
        old: The earlier snapshot.
        new: The later one, not older than ``old``; without it, the newest.
    """

    old: SnapshotId
    new: SnapshotId | None = None
    scope: ListedScope | None = None


# Memory: responses.


class RecallResponse(Value, frozen=True, kw_only=True):
    """The recalled context: ``text`` for a prompt, and the ``package`` that it was made from."""

    memory_snapshot_id: int
    package_hash: str
    text: str
    package: dict[str, Any]
    explanation: dict[str, Any] | None = None
    """The terms, each candidate with its rank, score, boosts, trust and outcome, and how many were dropped;
    only if it was asked for.
    """

    @property
    def selected(self) -> list[dict[str, Any]]:
        """The selected records, in rank order."""
        package = self.package
        items: list[dict[str, Any]] = (
            package["items"] if "items" in package else package["selection"]["selected"]
        )
        return items


class RememberResponse(RememberOutcome, Value, frozen=True, kw_only=True):
    """The verdict on a text, the reasons, and the bands it is in. In an open run there is no receipt yet.

    In Python, ``accepted``, ``rejected`` and ``needs_review`` say what the verdict means.
    """

    memory_id: str
    verdict: Verdict
    bands: list[str]
    reasons: list[str]
    proposal_id: str | None = None
    known: str | None = None
    """The id of the record that says the same already; then nothing but a new source is stored."""
    earlier: list[str] = msgspec.field(default_factory=list)
    """Ids of records that say something else about the same matter."""
    similar: list[str] = msgspec.field(default_factory=list)
    """Ids of records with nearly the same text."""
    valid_from: str | None = None
    """When it begins to hold, if its own words say so ("from May on")."""
    valid_until: str | None = None
    """When it ends to hold, if its own words say so ("until Friday")."""
    receipt: Receipt | None = None

    @classmethod
    def of(cls, remembered: Remembered) -> Self:
        """The response for a result of ``Run.remember``.

        Law that passed every check and waits for its signature is on hold: SEAL would read as done.
        """
        waits = remembered.proposal_id is not None and remembered.verdict is Verdict.SEAL
        return cls(
            memory_id=remembered.memory_id,
            verdict=Verdict.HOLD if waits else remembered.verdict,
            bands=[band.value for band in remembered.bands],
            reasons=list(remembered.reasons),
            proposal_id=remembered.proposal_id,
            known=remembered.known,
            earlier=list(remembered.earlier),
            similar=list(remembered.similar),
            valid_from=remembered.valid_from,
            valid_until=remembered.valid_until,
        )


class RecallBatchResponse(Value, frozen=True, kw_only=True):
    """The recalled contexts, in the order of the questions."""

    items: list[RecallResponse]


class RememberBatchResponse(Value, frozen=True, kw_only=True):
    """The verdicts, in the order of the texts, and the receipt of the one commit."""

    items: list[RememberResponse]
    receipt: Receipt | None = None


class ForgetResponse(Value, frozen=True, kw_only=True):
    """What was forgotten, in numbers, and the law that stays.

    In an open run, and in a rehearsal, there is no receipt.
    """

    subject: str | None = None
    receipt: Receipt | None = None
    records: int = 1
    rows: int = 0
    traces: int = 0
    law: tuple[str, ...] = ()


class RunResponse(Value, frozen=True, kw_only=True):
    """An open run."""

    run_id: str
    workflow: str
    mode: VisibilityMode
    memory_snapshot_id: int
    remembered: int = 0
    forgotten: int = 0
    recorded: int = 0
    """How many entries the caller added to the trace."""


class CommitResponse(Value, frozen=True, kw_only=True):
    """A committed run. There is no receipt if the run had nothing to apply."""

    run_id: str
    receipt: Receipt | None = None


class RecordsPage(Value, frozen=True, kw_only=True):
    """Records of one snapshot, by band and id. All pages of a list show the same snapshot."""

    memory_snapshot_id: int
    records: list[Record]
    next: str | None = None
    advice: str = ""
    """What to try if there are none."""


class HistoryPage(Value, frozen=True, kw_only=True):
    """Versions of a subject, oldest first."""

    versions: list[HistoryEntry]
    next: str | None = None


class SnapshotsPage(Value, frozen=True, kw_only=True):
    """Snapshots that changed the namespace, oldest first, and the number of the store's newest.

    A page may hold fewer than ``limit``, even none, while ``next`` leads to more.
    """

    head: int
    snapshots: list[Snapshot]
    next: str | None = None


class DiffResponse(Value, frozen=True, kw_only=True):
    """The records that differ between two snapshots."""

    old: int
    new: int
    changes: list[RecordChange]
    advice: str = ""
    """What to try if there are none."""


class StatusResponse(Value, frozen=True, kw_only=True):
    """The state of a namespace, and the permissions of the caller there."""

    namespace: str
    head: int
    policy_set_id: str
    proposals_waiting: int
    name: str
    role: str
    may: list[str]
    version: str
    extraction: ExtractionStatus
    """Whether facts in conversations can be extracted, what waits for it, and what it spent today."""


# Conversations.


class SessionQuery(Value, frozen=True, kw_only=True):
    """Which session to read back.

    Args:
        session: The conversation.
        scope: The scope that it is in. Without one: the scope of the key, or shared.
    """

    session: Name
    scope: Scope | None = None
    at: SnapshotId | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: PlaceCursor | None = None

    def __post_init__(self) -> None:
        check_looked_up("session", self.session)


class SessionsQuery(Value, frozen=True, kw_only=True):
    """Which sessions to list."""

    scope: ListedScope | None = None
    at: SnapshotId | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: PlaceCursor | None = None


class SessionPage(Value, frozen=True, kw_only=True):
    """Messages of a session, in order. All pages show the same snapshot."""

    memory_snapshot_id: int
    messages: list[SessionMessage]
    next: str | None = None


class SessionsPage(Value, frozen=True, kw_only=True):
    """Sessions, by scope and then in a fixed order. All pages show the same snapshot."""

    memory_snapshot_id: int
    sessions: list[SessionInfo]
    next: str | None = None


# Pages. A cursor grants nothing, so it is neither signed nor stored; the schema of a query refuses a
# malformed one.


def encode_cursor(position: Position) -> str:
    """A position in a list as a token that fits into a URL."""
    match position:
        case int():
            return str(position)
        case str():
            return position.encode("utf-8", "surrogateescape").hex()
        case number, name:
            return f"{number}-{encode_cursor(name)}"


def decode_number(cursor: str | None) -> int:
    """The number in a ``NumberCursor``; 0 without one."""
    return 0 if cursor is None else int(cursor)


def decode_name(cursor: str | None) -> str:
    """The name in a ``NameCursor``; empty without one."""
    return bytes.fromhex(cursor or "").decode("utf-8", "surrogateescape")


def decode_place(cursor: str | None) -> tuple[int, str]:
    """The number and the name in a ``PlaceCursor``; 0 and empty without one."""
    number, _, name = (cursor or "0-").partition("-")
    return int(number), decode_name(name)


def wrong_cursor() -> AccessError:
    """The error for a cursor that belongs to another list."""
    return AccessError(
        "bad_request", problem="the cursor does not belong to this list; start again without a cursor"
    )


def paginate(
    items: Iterable[_Item], *, limit: int, size: Callable[[_Item], int], position: Callable[[_Item], Position]
) -> tuple[list[_Item], str | None]:
    """Return the first items up to a limit in number and bytes, at least one, and the next page's cursor.

    Args:
        size: The bytes that an item counts for.
        position: Where an item stands in the list, for the cursor.
    """
    page: list[_Item] = []
    left_bytes = MAX_PAGE_BYTES
    for item in items:
        left_bytes -= size(item)
        if page and (len(page) == limit or left_bytes < 0):
            return page, encode_cursor(position(page[-1]))
        page.append(item)
    return page, None


# JSON Schemas, exact enough to generate clients from them.


def component_schemas(
    requests: Iterable[type[Value]], responses: Iterable[type[Value]], *, ref_template: str = _DEFINITION
) -> dict[str, Any]:
    """The schemas of classes and of all that they refer to, by name.

    msgspec takes a field with a default for optional. A response has all of its fields, so they are required
    there. An object without described fields may have any. A field of a request is described by the
    docstring of its class, or else by its type.
    """
    asked, sent = set(requests), set(responses)
    _, schemas = msgspec.json.schema_components(
        sorted(asked | sent, key=lambda kind: kind.__name__), ref_template=ref_template
    )
    for kind in _structs(sent) - _structs(asked):
        if not kind.__struct_config__.omit_defaults:
            schemas[kind.__name__]["required"] = list(schemas[kind.__name__]["properties"])
    for kind in _structs(asked):
        described = schemas[kind.__name__]
        described["description"] = cleandoc(described["description"]).partition("\n\nArgs:")[0]
        texts = descriptions_of(kind)
        for name, field in described["properties"].items():
            if text := texts.get(name) or _text_of_type(field):
                field["description"] = text
        for name in local_fields(kind):
            del described["properties"][name]
    _open_objects(schemas)
    return schemas


def field_schemas(request: type[Value]) -> dict[str, dict[str, Any]]:
    """The schema of each field of a request, complete in itself."""
    schemas = component_schemas([request], [])

    def inlined(schema: Any) -> Any:
        if isinstance(schema, list):
            return [inlined(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        more = {name: inlined(one) for name, one in schema.items() if name != "$ref"}
        return {**inlined(schemas[schema["$ref"].rpartition("/")[2]]), **more} if "$ref" in schema else more

    return {name: inlined(one) for name, one in schemas[request.__name__]["properties"].items()}


def _text_of_type(field: dict[str, Any]) -> str:
    """What the type of an optional field says of it."""
    return next((one["description"] for one in field.get("anyOf", ()) if "description" in one), "")


def struct_names(kinds: Iterable[type[Value]]) -> set[str]:
    """The names of these classes and of all that they refer to."""
    return {one.__name__ for one in _structs(set(kinds))}


def _structs(kinds: set[type[Value]]) -> set[type[msgspec.Struct]]:
    """All struct classes that these ones refer to."""
    found: set[type[msgspec.Struct]] = set()
    seen: set[int] = set()
    parts: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while parts:
        part = parts.pop()
        if isinstance(part, list | tuple):
            parts += part
        elif isinstance(part, msgspec.Struct) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, msgspec.inspect.StructType):
                found.add(part.cls)
            parts += [getattr(part, name) for name in part.__struct_fields__]
    return found


def _open_objects(schema: Any) -> None:
    if isinstance(schema, list):
        for one in schema:
            _open_objects(one)
    elif isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" not in schema:
            schema.setdefault("additionalProperties", True)
        for one in schema.values():
            _open_objects(one)
