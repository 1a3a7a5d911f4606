"""The requests and responses of operations on the store as a whole: keys, proposals, retention, ledger,
traces, benchmark, prompts.
"""

from typing import Annotated

from msgspec import Meta

from standfast.bench.leaderboard import LeaderboardRow
from standfast.bench.statistics import Mean
from standfast.govern.approvals.approvals import Decision, Proposal, Statement
from standfast.govern.approvals.queue import DecidedProposal
from standfast.govern.refusals import ListedRefusal
from standfast.ledger.witness import LedgerState
from standfast.limits import (
    DEFAULT_PAGE_ITEMS,
    MAX_KEY_DAYS,
    MAX_KEY_NAMESPACES,
    MAX_SCOPES,
    MAX_SIGNED_TOGETHER,
    MAX_STATEMENT_MINUTES,
    SAFE_INTEGER,
)
from standfast.optimize.prompts.overrides import STABLE, SectionOverride
from standfast.optimize.prompts.template import PromptTemplate
from standfast.records.origins import Origin
from standfast.records.requests import Name, Scope
from standfast.records.vocabulary import Receipt, Record, Value
from standfast.server.access.permissions import KeyRole
from standfast.server.operations.schemas import Limit, NameCursor

# Governance.


class KeysQuery(Value, frozen=True, kw_only=True):
    """Which keys to list.

    Args:
        all: Whether also those are listed that were revoked or have expired.
    """

    all: bool = False
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: NameCursor | None = None


class CreateKeyBody(Value, frozen=True, kw_only=True):
    """A key to create.

    Args:
        name: Who will hold it; records, traces and logs name it.
        namespaces: The namespaces that it is for; ["*"] for all.
        role: What its holder may do.
        days: For how many days it is valid; without it, until it is revoked.
        origin: The most that what its holder remembers is trusted; by default what its role is.
        scopes: The scopes that it is limited to, each with all below it; without any, it has no limit.
    """

    name: Name
    namespaces: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_KEY_NAMESPACES)]
    role: KeyRole = KeyRole.AGENT
    days: Annotated[int, Meta(ge=1, le=MAX_KEY_DAYS)] | None = None
    origin: Origin | None = None
    scopes: Annotated[tuple[Scope, ...], Meta(max_length=MAX_SCOPES)] = ()


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
    """Which proposals to list.

    Args:
        decided: Whether those are listed that were decided, instead of those that wait.
    """

    decided: bool = False
    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: NameCursor | None = None


class ProposalQuery(Value, frozen=True, kw_only=True):
    """How the statements of a proposal are made.

    Args:
        minutes: For how many minutes they can be signed.
    """

    minutes: Annotated[int, Meta(ge=1, le=MAX_STATEMENT_MINUTES)] = 10


class DecisionBody(Value, frozen=True, kw_only=True):
    """A decision: a statement that the proposal returned, and the armored SSH signature over its text.

    Args:
        statement: The statement, unchanged.
        signature: The SSH signature over the statement's text, as ssh-keygen writes it.
        signed_list: If one signature decides several proposals: the fingerprints of all statements in it.
            Each decision is sent with the same list and signature.
    """

    statement: Statement
    signature: Annotated[str, Meta(min_length=1, max_length=8_192)]
    signed_list: Annotated[tuple[str, ...], Meta(max_length=MAX_SIGNED_TOGETHER)] = ()


class ProposalsPage(Value, frozen=True, kw_only=True):
    """Proposals, by id."""

    proposals: list[Proposal]
    next: str | None = None


class StatementToSign(Value, frozen=True, kw_only=True):
    """A decision that can be signed: ``command`` signs exactly the bytes of ``text``.

    Send ``statement`` back unchanged.
    """

    decision: Decision
    statement: Statement
    text: str
    command: str


class ProposalResponse(Value, frozen=True, kw_only=True):
    """One proposal: its content, what it would replace and the statements to sign; or how it was decided.

    ``replaces`` is the law that it replaces if it is approved, ``ends_law`` the other law that ends then, and
    ``replaces_memory`` the ordinary record that ends if it is accepted.
    """

    proposal: Proposal
    record: Record | None = None
    replaces: Record | None = None
    ends_law: tuple[Record, ...] = ()
    replaces_memory: Record | None = None
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


class RefusalsQuery(Value, frozen=True, kw_only=True):
    """Which refusals to list.

    Args:
        scope: Only those of this scope and below it; by default of every scope.
    """

    scope: Scope | None = None


class RefusalsPage(Value, frozen=True, kw_only=True):
    """The refusals that are remembered now, by scope and id."""

    refusals: list[ListedRefusal]


class LiftBody(Value, frozen=True, kw_only=True):
    """Which refusal is lifted, and why.

    Args:
        refusal: The id that the list gives, or a source such as web:example.com for all attacks of it.
        reason: Why; the ledger keeps it.
        scope: Where, with all below it; by default in every scope.
    """

    refusal: Name
    reason: Name
    scope: Scope | None = None


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
    """Whether the store is intact: ``sound``, ``broken``, or with an ``unsigned_tail``, a warning: nothing
    contradicts (``holds``), but the newest entries are not covered by a signed checkpoint yet.

    Only a key for all namespaces is given the problems themselves, what is worth a look, and what vouches for
    the newest ledger entry.
    """

    holds: bool
    state: LedgerState
    snapshots: int
    problems_found: int
    unsigned_entries: int = 0
    unsigned_seconds: float = 0.0
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
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
    """Which two traces to compare.

    Args:
        left: The id of one run.
        right: The id of the other run.
    """

    left: Name
    right: Name


class PromptQuery(Value, frozen=True, kw_only=True):
    """Which overrides of a prompt to return.

    Args:
        tag: The tag that they have.
    """

    tag: Name = STABLE


class PutPromptBody(Value, frozen=True, kw_only=True):
    """All overrides of a tag.

    Args:
        prompt: The prompt's source, which every override must fit.
        overrides: The overrides; what the tag had before and is not among them ends.
        tag: The tag that is changed.
    """

    prompt: PromptTemplate
    overrides: tuple[SectionOverride, ...]
    tag: Name = STABLE


class RollbackBody(Value, frozen=True, kw_only=True):
    """The tag to roll back.

    Args:
        prompt: The prompt's source, which the restored overrides must fit.
        tag: The tag that is changed.
        to_version: A version of the tag's history; without it, the one before the last change.
    """

    prompt: PromptTemplate
    tag: Name = STABLE
    to_version: Annotated[int, Meta(ge=0)] | None = None


class TraceSummary(Value, frozen=True, kw_only=True):
    """A trace in a list. If its file can't be read, ``problem`` is the error's code, without the rest."""

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


class BenchQuery(Value, frozen=True, kw_only=True):
    """Which part of the benchmark to return.

    Args:
        budget_bytes: The budget to rank at, one of those that ran. Without one it is 10 KB, or the middle
            budget of the grid.
    """

    budget_bytes: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)] | None = None


class BudgetReport(Value, frozen=True, kw_only=True):
    """The scores of a policy at one budget; the counts are sums over all episodes."""

    budget_bytes: int
    recall: Mean
    f1: Mean
    utility_per_kb: Mean
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int


class PolicyReport(Value, frozen=True, kw_only=True):
    """The scores of one policy, smallest budget first."""

    policy: str
    track: str
    budgets: list[BudgetReport]


class BenchResponse(Value, frozen=True, kw_only=True):
    """The finished benchmark: the leaderboard at one budget, and the report of each policy at all budgets."""

    budget_bytes: int
    budgets_bytes: list[int]
    episodes: int
    leaderboard: list[LeaderboardRow]
    reports: list[PolicyReport]
