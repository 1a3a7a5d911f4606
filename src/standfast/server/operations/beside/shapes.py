"""What goes in and out of the doors for traces, bench results and prompts."""

from standfast.bench.report.summary import Mean, Standing
from standfast.limits import DEFAULT_PAGE_ITEMS
from standfast.optimize.prompts.overrides import STABLE, SectionOverride
from standfast.optimize.prompts.template import PromptTemplate
from standfast.server.operations.shapes import Cursor, Limit, Name
from standfast.vocabulary import Value


class AskedTraces(Value, frozen=True, kw_only=True):
    """Which page of the traces to show."""

    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: Cursor | None = None


class AskedComparison(Value, frozen=True, kw_only=True):
    """Which two runs to compare."""

    left: Name
    right: Name


class AskedBench(Value, frozen=True, kw_only=True):
    """At which budget to rank; by default 10 KB, or the middle one of the grid."""

    budget_bytes: int | None = None


class AskedOverride(Value, frozen=True, kw_only=True):
    """Which tag of a prompt to show."""

    tag: Name = STABLE


class PutOverride(Value, frozen=True, kw_only=True):
    """All that a tag shall override, section by section, and the source that every override must fit."""

    prompt: PromptTemplate
    overrides: tuple[SectionOverride, ...]
    tag: Name = STABLE


class RollBack(Value, frozen=True, kw_only=True):
    """The tag that shall be what it was before, and the source that it must fit."""

    prompt: PromptTemplate
    tag: Name = STABLE


class TraceLine(Value, frozen=True, kw_only=True):
    """A trace in the list. One whose file can't be read as it was written has a ``problem``, the error's code, instead."""

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
    """Traces, by the names of their files."""

    traces: list[TraceLine]
    next: str | None = None


class BudgetReport(Value, frozen=True, kw_only=True):
    """How a policy did at one budget; what it kept and should have kept is added up over episodes."""

    budget_bytes: int
    recall: Mean
    f1: Mean
    utility_per_kb: Mean
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int


class PolicyReport(Value, frozen=True, kw_only=True):
    """How one policy did, smallest budget first."""

    policy: str
    track: str
    budgets: list[BudgetReport]


class BenchResults(Value, frozen=True, kw_only=True):
    """The finished grid: the leaderboard at one budget, and each policy's report at all of them."""

    budget_bytes: int
    budgets_bytes: list[int]
    episodes: int
    leaderboard: list[Standing]
    reports: list[PolicyReport]
