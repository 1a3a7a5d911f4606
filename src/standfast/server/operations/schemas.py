"""The requests and responses of every operation, and the pages of long lists.

``…Body`` is the JSON body of a request, ``…Query`` the parameters of a reading one. Both refuse unknown fields. The field
names are the API's; `/openapi.json` is generated from these classes.
"""

from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta

from standfast.errors import InvalidValue
from standfast.govern.approvals.approvals import Decision, Proposal, Statement
from standfast.govern.approvals.queue import DecidedProposal
from standfast.limits import (
    DEFAULT_MAX_ITEMS,
    DEFAULT_PAGE_ITEMS,
    MAX_BATCH_RECALLS,
    MAX_KEY_DAYS,
    MAX_KEY_NAMESPACES,
    MAX_NAME_CHARS,
    MAX_PAGE_ITEMS,
    MAX_RECALL_ITEMS,
    MAX_RECALL_TOKENS,
    MAX_RUN_ITEMS,
    MAX_SCOPE_BYTES,
    MAX_SCOPE_SEGMENTS,
    MAX_SCOPES,
    MAX_SIGNED_TOGETHER,
    MAX_STATEMENT_MINUTES,
    MAX_SUPERSEDED,
    MAX_TAGS,
    MAX_TEXT_CHARS,
    SAFE_INTEGER,
)
from standfast.optimize.prompts.overrides import STABLE, SectionOverride
from standfast.optimize.prompts.template import PromptTemplate
from standfast.origins import Origin
from standfast.recall.filters import Filter
from standfast.recall.registry import DEFAULT_CONTROLLER
from standfast.server.access.permissions import KeyRole
from standfast.store.records import HistoryEntry, RecordChange
from standfast.vocabulary import (
    Band,
    JsonScalar,
    Receipt,
    Record,
    Remembered,
    Snapshot,
    Value,
    Verdict,
    VisibilityMode,
)

_CURSOR: Final = "The `next` value of the previous page of this list."
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Tag = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS)]
# What a path is, for the OpenAPI document; ``checked_scope`` refuses the rest in words. That its characters must be printable and
# in NFC, JSON Schema has no word for.
_PATH: Final = f"^([^/]+/){{0,{MAX_SCOPE_SEGMENTS - 1}}}[^/]+$"
Scope = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_SCOPE_BYTES,
        description="A path such as user/ada. Without one: shared, or the scope that the key is limited to.",
        extra_json_schema={"pattern": _PATH, "not": {"pattern": r"(^|/)(\.{1,2}|\*)(/|$)"}},
    ),
]
ListedScope = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_SCOPE_BYTES,
        description="The scope to list, with all below it; * for all that the key is for. "
        "Without one: shared, or the scope that the key is limited to.",
        extra_json_schema={"pattern": _PATH, "not": {"pattern": r"(^|/)\.{1,2}(/|$)|/\*(/|$)|^\*/"}},
    ),
]
SnapshotId = Annotated[int, Meta(ge=0, le=SAFE_INTEGER)]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE_ITEMS)]
# A cursor holds the position of the last item of a page: a number, a name in hexadecimal, or both.
NumberCursor = Annotated[str, Meta(pattern="^[0-9]{1,16}$", description=_CURSOR)]
NameCursor = Annotated[str, Meta(pattern="^([0-9a-f]{2}){1,2048}$", description=_CURSOR)]
PlaceCursor = Annotated[str, Meta(pattern="^[0-9]{1,16}-([0-9a-f]{2}){0,2048}$", description=_CURSOR)]


# Memory: requests.


class NoInput(Value, frozen=True, kw_only=True):
    """No input besides the path."""


class RecallBody(Value, frozen=True, kw_only=True):
    """A question, and the token budget of the answer. ``at`` reads an earlier snapshot.

    ``scope`` or ``scopes`` name the scopes to read, each with all below it; ``where`` says which records may be chosen.
    ``controller`` is the version of the controller that answers. ``now_utc`` says what time it is, for words such as yesterday.
    ``include_unreviewed`` lets records be chosen that are on hold or wait for a review. ``explain`` asks why each record was chosen or not.
    """

    query: Text
    tokens: Annotated[int, Meta(ge=1, le=MAX_RECALL_TOKENS)]
    max_items: Annotated[int, Meta(ge=1, le=MAX_RECALL_ITEMS)] = DEFAULT_MAX_ITEMS
    at: SnapshotId | None = None
    scope: Scope | None = None
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=MAX_SCOPES)] | None = None
    where: Filter | None = None
    controller: Name = DEFAULT_CONTROLLER
    now_utc: Name | None = None
    include_unreviewed: bool = False
    explain: bool = False


class RememberBody(Value, frozen=True, kw_only=True):
    """A text to judge and remember.

    ``propose`` proposes it as law, which takes a person's signature. ``hold`` asks for a review first, and gives the reason.
    """

    text: Text
    tags: Annotated[tuple[Tag, ...], Meta(max_length=MAX_TAGS)] = ()
    subject: Name | None = None
    source: dict[str, Any] | None = None
    refs: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MAX_TAGS)] = ()
    propose: bool = False
    hold: Name | None = None
    scope: Scope | None = None
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    session: Name | None = None
    position: Annotated[int, Meta(ge=0, le=SAFE_INTEGER)] | None = None
    speaker: Name | None = None
    valid_from: Name | None = None
    valid_until: Name | None = None
    supersedes: Annotated[tuple[Name, ...], Meta(max_length=MAX_SUPERSEDED)] = ()
    """The ids, or subjects, of records of the scope that end when this one is accepted."""


class RecallBatchBody(Value, frozen=True, kw_only=True):
    """Several questions. Their token budgets together are limited like that of one."""

    items: Annotated[tuple[RecallBody, ...], Meta(min_length=1, max_length=MAX_BATCH_RECALLS)]


class RememberBatchBody(Value, frozen=True, kw_only=True):
    """Several texts to judge and remember, in this order."""

    items: Annotated[tuple[RememberBody, ...], Meta(min_length=1, max_length=MAX_RUN_ITEMS)]


class ForgetBody(Value, frozen=True, kw_only=True):
    """What to forget, and the reason: a subject or memory id of a scope, all from a source, or all of a scope and below it.

    ``rehearse`` only says what would be erased. In a run, only a subject or memory id can be forgotten.
    """

    subject: Name | None = None
    reason: Name
    scope: Scope | None = None
    memory_id: Name | None = None
    source: dict[str, str] | None = None
    rehearse: bool = False

    @property
    def name(self) -> str:
        """The subject or memory id; ``InvalidValue`` if there is none."""
        name = self.subject or self.memory_id
        if name is None or self.rehearse:
            raise InvalidValue(what="forget", problem="a run forgets a subject or a memory id; name one")
        return name


class OpenRunBody(Value, frozen=True, kw_only=True):
    """A run to open. Without a mode it has the deployment's default, which is ``read_only`` unless the settings say otherwise.

    It reads and writes in ``scope`` unless a call names another.
    """

    workflow: Name
    mode: VisibilityMode | None = None
    scope: Scope | None = None


class RecordsQuery(Value, frozen=True, kw_only=True):
    """Which records to list."""

    band: Band | None = None
    at: SnapshotId | None = None
    scope: ListedScope | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: PlaceCursor | None = None


class RecordQuery(Value, frozen=True, kw_only=True):
    """Which record to return, and at which snapshot."""

    memory_id: Name
    at: SnapshotId | None = None
    scope: Scope | None = None


class HistoryQuery(Value, frozen=True, kw_only=True):
    """Which subject to return the history of."""

    subject: Name
    scope: Scope | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: PlaceCursor | None = None


class PageQuery(Value, frozen=True, kw_only=True):
    """Which page of a list to return."""

    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: NumberCursor | None = None


class DiffQuery(Value, frozen=True, kw_only=True):
    """Which two snapshots to compare. Without ``new``, the newest is used. ``new`` is not older than ``old``."""

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
    """The terms, each candidate with its rank, score, boosts, trust and outcome, and how many were dropped; only if it was asked for."""

    @property
    def selected(self) -> list[dict[str, Any]]:
        """The selected records, in rank order."""
        package = self.package
        items: list[dict[str, Any]] = (
            package["items"] if "items" in package else package["selection"]["selected"]
        )
        return items


class RememberResponse(Value, frozen=True, kw_only=True):
    """The verdict on a text, the reasons, and the bands it is in. In an open run there is no receipt yet."""

    memory_id: str
    verdict: Verdict
    bands: list[str]
    reasons: list[str]
    proposal_id: str | None = None
    known: str | None = None
    """The id of the record that says the same already; then nothing but a new source is stored."""
    receipt: Receipt | None = None

    @classmethod
    def of(cls, remembered: Remembered) -> Self:
        """The response for a result of ``Run.remember``."""
        return cls(
            memory_id=remembered.memory_id,
            verdict=remembered.verdict,
            bands=[band.value for band in remembered.bands],
            reasons=list(remembered.reasons),
            proposal_id=remembered.proposal_id,
            known=remembered.known,
        )


class RecallBatchResponse(Value, frozen=True, kw_only=True):
    """The recalled contexts, in the order of the questions."""

    items: list[RecallResponse]


class RememberBatchResponse(Value, frozen=True, kw_only=True):
    """The verdicts, in the order of the texts, and the receipt of the one commit."""

    items: list[RememberResponse]
    receipt: Receipt | None = None


class ForgetResponse(Value, frozen=True, kw_only=True):
    """What was forgotten, in numbers, and the law that stays. In an open run, and in a rehearsal, there is no receipt."""

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


class CommitResponse(Value, frozen=True, kw_only=True):
    """A committed run. There is no receipt if the run had nothing to apply."""

    run_id: str
    receipt: Receipt | None = None


class RecordsPage(Value, frozen=True, kw_only=True):
    """Records of one snapshot, by band and id. All pages of a list show the same snapshot."""

    memory_snapshot_id: int
    records: list[Record]
    next: str | None = None


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


# Governance.


class KeysQuery(Value, frozen=True, kw_only=True):
    """Which keys to list: valid ones, or ``all`` that ever were."""

    all: bool = False
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: NameCursor | None = None


class CreateKeyBody(Value, frozen=True, kw_only=True):
    """A key to create. ``namespaces`` may be ``["*"]``, for all. Without ``days`` it is valid until it is revoked."""

    name: Name
    namespaces: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_KEY_NAMESPACES)]
    role: KeyRole = KeyRole.AGENT
    days: Annotated[int, Meta(ge=1, le=MAX_KEY_DAYS)] | None = None
    origin: Origin | None = None
    """The most that what the key's holder remembers is trusted; by default what its role is."""
    scopes: Annotated[tuple[Scope, ...], Meta(max_length=MAX_SCOPES)] = ()
    """The scopes that the key is limited to, each with all below it; without any, it is for all of its namespaces."""


class KeyInfo(Value, frozen=True, kw_only=True):
    """A key, without its secret."""

    key_id: str
    name: str
    role: KeyRole
    namespaces: tuple[str, ...]
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    origin: Origin | None = None
    scopes: tuple[str, ...] = ()


class CreatedKey(Value, frozen=True, kw_only=True):
    """A new key and its token, which is not shown again."""

    key: KeyInfo
    token: str


class KeysPage(Value, frozen=True, kw_only=True):
    """Keys, by id."""

    keys: list[KeyInfo]
    next: str | None = None


class NamespacesResponse(Value, frozen=True, kw_only=True):
    """Namespaces, sorted."""

    namespaces: list[str]


class ProposalsQuery(Value, frozen=True, kw_only=True):
    """Which proposals to list: waiting ones, or decided ones."""

    decided: bool = False
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: NameCursor | None = None


class ProposalQuery(Value, frozen=True, kw_only=True):
    """For how many minutes the returned statements can be signed."""

    minutes: Annotated[int, Meta(ge=1, le=MAX_STATEMENT_MINUTES)] = 10


class DecisionBody(Value, frozen=True, kw_only=True):
    """A decision: a statement that the proposal returned, and the armored SSH signature over its text.

    If one signature decides several proposals, ``signed_list`` has the fingerprints of all statements in it, and each decision is sent
    with the same list and signature.
    """

    statement: Statement
    signature: Annotated[str, Meta(min_length=1, max_length=8_192)]
    signed_list: Annotated[tuple[str, ...], Meta(max_length=MAX_SIGNED_TOGETHER)] = ()


class ProposalsPage(Value, frozen=True, kw_only=True):
    """Proposals, by id."""

    proposals: list[Proposal]
    next: str | None = None


class StatementToSign(Value, frozen=True, kw_only=True):
    """A decision that can be signed: ``command`` signs exactly the bytes of ``text``. Send ``statement`` back unchanged."""

    decision: Decision
    statement: Statement
    text: str
    command: str


class ProposalResponse(Value, frozen=True, kw_only=True):
    """One proposal: its content, the record it would replace and the statements to sign; or how it was decided."""

    proposal: Proposal
    record: Record | None = None
    replaces: Record | None = None
    to_sign: tuple[StatementToSign, ...] = ()
    decided: DecidedProposal | None = None


class DueItem(Value, frozen=True, kw_only=True):
    """One record that a retention sweep would move or delete now."""

    key: str
    action: str
    age_days: float
    reason: str
    fingerprint: str | None = None


class DueResponse(Value, frozen=True, kw_only=True):
    """The records that a retention sweep would move or delete now. ``more`` is set if the list is cut."""

    due: list[DueItem]
    more: bool = False


class SweepResponse(Value, frozen=True, kw_only=True):
    """The receipts of the commits that a retention sweep made."""

    receipts: list[Receipt]


class LedgerEntry(Value, frozen=True, kw_only=True):
    """One ledger entry: its exact bytes as ``content``, and their leaf hash."""

    seq: int
    hash: str
    content: str


class LedgerPage(Value, frozen=True, kw_only=True):
    """Ledger entries, in order."""

    entries: list[LedgerEntry]
    next: str | None = None


class VerifyResponse(Value, frozen=True, kw_only=True):
    """Whether the store is intact. Only a key for all namespaces is given the problems themselves, and what vouches for the newest ledger entry."""

    holds: bool
    snapshots: int
    problems_found: int
    problems: tuple[str, ...] = ()
    tail: str = ""


class CheckpointResponse(Value, frozen=True, kw_only=True):
    """The signed checkpoint of the ledger's head, or null if the server has no signing key."""

    checkpoint: str | None


# Traces, bench results and prompts.


class TracesQuery(Value, frozen=True, kw_only=True):
    """Which page of the list of traces to return."""

    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: NameCursor | None = None


class ComparisonQuery(Value, frozen=True, kw_only=True):
    """The ids of the two runs to compare."""

    left: Name
    right: Name


class PromptQuery(Value, frozen=True, kw_only=True):
    """Which tag of a prompt to return."""

    tag: Name = STABLE


class PutPromptBody(Value, frozen=True, kw_only=True):
    """All overrides of a tag, and the prompt's source, which every override must fit."""

    prompt: PromptTemplate
    overrides: tuple[SectionOverride, ...]
    tag: Name = STABLE


class RollbackBody(Value, frozen=True, kw_only=True):
    """The tag to roll back, and the prompt's source, which the restored overrides must fit."""

    prompt: PromptTemplate
    tag: Name = STABLE
    to_version: Annotated[int, Meta(ge=0)] | None = None
    """A version of the tag's history; without it, the one before the last change."""


class TraceSummary(Value, frozen=True, kw_only=True):
    """A trace in a list. If its file cannot be read, ``problem`` is the error's code and the rest is missing."""

    file: str
    size_bytes: int
    run_id: str | None = None
    workflow_id: str | None = None
    memory_snapshot_id: int | None = None
    started_at: str | None = None
    finished_at: str | None = None
    events: int | None = None
    complete: bool | None = None
    artifact_hash: str | None = None
    problem: str | None = None


class TracesPage(Value, frozen=True, kw_only=True):
    """Traces, by file name."""

    traces: list[TraceSummary]
    next: str | None = None
