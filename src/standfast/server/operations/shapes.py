"""What goes in and out of the doors. Requests refuse unknown fields; answers are what the API's description says."""

from typing import Annotated, Any, Self

from msgspec import Meta

from standfast.govern.approvals.approvals import Decision, Proposal, Statement
from standfast.govern.approvals.queue import Decided
from standfast.limits import (
    DEFAULT_MAX_ITEMS,
    DEFAULT_PAGE_ITEMS,
    MAX_NAME_CHARS,
    MAX_PAGE_ITEMS,
    MAX_RECALL_ITEMS,
    MAX_RECALL_TOKENS,
    MAX_STATEMENT_MINUTES,
    MAX_TAGS,
    MAX_TEXT_CHARS,
    SAFE_INTEGER,
)
from standfast.store.records import HistoryEntry, RecordChange
from standfast.vocabulary import Band, Receipt, Record, Snapshot, Value, Verdict, VisibilityMode
from standfast.vocabulary import Remembered as Told

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Tag = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS)]
SnapshotId = Annotated[int, Meta(ge=0, le=SAFE_INTEGER)]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE_ITEMS)]
Cursor = Annotated[
    str, Meta(min_length=1, max_length=2_048, description="What `next` of the page before said.")
]


class Recall(Value, frozen=True, kw_only=True):
    """What to look for, and how many tokens the answer may take."""

    query: Text
    tokens: Annotated[int, Meta(ge=1, le=MAX_RECALL_TOKENS)]
    max_items: Annotated[int, Meta(ge=1, le=MAX_RECALL_ITEMS)] = DEFAULT_MAX_ITEMS
    at: SnapshotId | None = None


class Remember(Value, frozen=True, kw_only=True):
    """Something to have judged and remembered. ``propose`` asks for a human's seal, ``hold`` says why to wait for one."""

    text: Text
    tags: Annotated[tuple[Tag, ...], Meta(max_length=MAX_TAGS)] = ()
    subject: Name | None = None
    source: dict[str, Any] | None = None
    refs: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MAX_TAGS)] = ()
    propose: bool = False
    hold: Name | None = None


class Forget(Value, frozen=True, kw_only=True):
    """A subject (or memory id) to end, and why."""

    subject: Name
    reason: Name


class OpenRun(Value, frozen=True, kw_only=True):
    """A run to open. It reads unless it says that it writes."""

    workflow: Name
    mode: VisibilityMode = VisibilityMode.READ_ONLY


class Decide(Value, frozen=True, kw_only=True):
    """A human's decision: the statement that was shown, and the armored SSH signature over it."""

    statement: Statement
    signature: Annotated[str, Meta(min_length=1, max_length=8_192)]


class Nothing(Value, frozen=True, kw_only=True):
    """Nothing is asked beyond the address."""


class AskedRecords(Value, frozen=True, kw_only=True):
    """Which records to list."""

    band: Band | None = None
    at: SnapshotId | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: Cursor | None = None


class AskedRecord(Value, frozen=True, kw_only=True):
    """Which record to show: all bands that hold it, at a snapshot."""

    memory_id: Name
    at: SnapshotId | None = None


class AskedHistory(Value, frozen=True, kw_only=True):
    """Whose history to tell."""

    subject: Name
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: Cursor | None = None


class AskedPage(Value, frozen=True, kw_only=True):
    """Which page of a list to show."""

    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: Cursor | None = None


class AskedProposals(Value, frozen=True, kw_only=True):
    """Which proposals to list: those that wait, or those that were decided."""

    decided: bool = False
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: Cursor | None = None


class AskedDiff(Value, frozen=True, kw_only=True):
    """Which two snapshots to compare; the newer one is by default the newest."""

    old: SnapshotId
    new: SnapshotId | None = None


class AskedProposal(Value, frozen=True, kw_only=True):
    """For how long the statements that are shown for signing should be good."""

    minutes: Annotated[int, Meta(ge=1, le=MAX_STATEMENT_MINUTES)] = 10


class Recalled(Value, frozen=True, kw_only=True):
    """What is known, within the budget: a text for a prompt, and the package that it was made from."""

    memory_snapshot_id: int
    package_hash: str
    text: str
    package: dict[str, Any]


class Remembered(Value, frozen=True, kw_only=True):
    """What became of something to remember. In a run that is not committed yet, there is no receipt."""

    memory_id: str
    verdict: Verdict
    bands: list[str]
    reasons: list[str]
    proposal_id: str | None = None
    receipt: Receipt | None = None

    @classmethod
    def of(cls, told: Told) -> Self:
        """What the judge said."""
        return cls(
            memory_id=told.memory_id,
            verdict=told.verdict,
            bands=[band.value for band in told.bands],
            reasons=list(told.reasons),
            proposal_id=told.proposal_id,
        )


class Forgotten(Value, frozen=True, kw_only=True):
    """What was forgotten."""

    subject: str
    receipt: Receipt | None = None


class ShownRun(Value, frozen=True, kw_only=True):
    """An open run."""

    run_id: str
    workflow: str
    mode: VisibilityMode
    memory_snapshot_id: int
    remembered: int = 0
    forgotten: int = 0


class Committed(Value, frozen=True, kw_only=True):
    """The end of a run; without a receipt, there was nothing to apply."""

    run_id: str
    receipt: Receipt | None = None


class RecordsPage(Value, frozen=True, kw_only=True):
    """Records that one snapshot shows, by band and id. All pages of a list show the same snapshot."""

    memory_snapshot_id: int
    records: list[Record]
    next: str | None = None


class HistoryPage(Value, frozen=True, kw_only=True):
    """Versions, oldest first."""

    versions: list[HistoryEntry]
    next: str | None = None


class SnapshotsPage(Value, frozen=True, kw_only=True):
    """Committed states, oldest first, and the number of the newest."""

    head: int
    snapshots: list[Snapshot]
    next: str | None = None


class Diff(Value, frozen=True, kw_only=True):
    """What the newer snapshot shows differently."""

    old: int
    new: int
    changes: list[RecordChange]


class Status(Value, frozen=True, kw_only=True):
    """Where memory stands, and what the caller may do there."""

    namespace: str
    head: int
    policy_set_id: str
    proposals_waiting: int
    name: str
    role: str
    may: list[str]
    version: str


class ProposalsPage(Value, frozen=True, kw_only=True):
    """Proposals, in the order of their ids."""

    proposals: list[Proposal]
    next: str | None = None


class ToSign(Value, frozen=True, kw_only=True):
    """What is signed to decide: exactly the bytes of ``text``, by ``command``. The statement goes back as it is."""

    decision: Decision
    statement: Statement
    text: str
    command: str


class ShownProposal(Value, frozen=True, kw_only=True):
    """All of one proposal: the content, what it would replace, and what is signed to decide it; or how it was decided."""

    proposal: Proposal
    record: Record | None = None
    replaces: Record | None = None
    to_sign: tuple[ToSign, ...] = ()
    decided: Decided | None = None


class LedgerEntry(Value, frozen=True, kw_only=True):
    """One entry of the ledger; ``content`` are its very bytes, of which ``hash`` is the leaf hash."""

    seq: int
    hash: str
    content: str


class LedgerPage(Value, frozen=True, kw_only=True):
    """Entries, in order."""

    entries: list[LedgerEntry]
    next: str | None = None


class Verified(Value, frozen=True, kw_only=True):
    """Whether everything holds. What is wrong is told to those whose key is for all namespaces."""

    holds: bool
    snapshots: int
    problems_found: int
    problems: tuple[str, ...] = ()


class SignedHead(Value, frozen=True, kw_only=True):
    """The signed checkpoint of the ledger's head; null where there is no notary."""

    checkpoint: str | None


class DueItem(Value, frozen=True, kw_only=True):
    """One thing that a sweep would move or delete now."""

    key: str
    action: str
    age_days: float
    reason: str
    fingerprint: str | None = None


class DueList(Value, frozen=True, kw_only=True):
    """What a sweep would move or delete now; cut where there is ``more``."""

    due: list[DueItem]
    more: bool = False


class Swept(Value, frozen=True, kw_only=True):
    """The commits that carried retention out."""

    receipts: list[Receipt]
