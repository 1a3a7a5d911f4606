"""What the runs of a memory work with, and what they may do."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from standfast.errors import InvalidValue
from standfast.govern.judge.judge import Judge
from standfast.govern.judge.secrecy import require_no_secret
from standfast.govern.policy import MemoryWritePolicy
from standfast.memory.band_budgets import BandBudgets
from standfast.memory.judging_cache import JudgingCache
from standfast.memory.snapshot_view import SnapshotReader
from standfast.records.canon import fingerprint
from standfast.records.origins import Origin, described_origins
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import CommitPolicy, RunIdentity, VisibilityMode, member_of
from standfast.store.store import Store
from standfast.traces.folder import TraceFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunServices:
    """What a run works with. ``Memory`` builds it once, and all of its runs share it."""

    store: Store
    namespace: str
    judge: Judge
    policy: MemoryWritePolicy
    budgets: BandBudgets
    judging_cache: JudgingCache
    origin_of_kind: Mapping[str, Origin]
    reader: SnapshotReader
    traces: TraceFolder | None
    commit_policy: CommitPolicy
    warn: Callable[[str], None]
    """Takes what failed after a commit was applied."""
    policy_set_id: str = field(init=False)
    """The id of everything that decides what is stored: floors, write policy, budgets, origins."""

    def __post_init__(self) -> None:
        require_no_secret(namespace=self.namespace)
        policies = [
            self.judge.describe(),
            self.policy.strict_mode,
            self.budgets.describe(),
            described_origins(self.origin_of_kind),
            *([] if self.commit_policy is CommitPolicy.ACCEPTED else [self.commit_policy.value]),
        ]
        object.__setattr__(self, "policy_set_id", f"policies-{fingerprint(policies)[:16]}")

    def identity(
        self,
        run_id: str | None,
        *,
        workflow: str,
        at: int,
        mode: VisibilityMode = VisibilityMode.BUFFERED_WRITE,
        scope: str = SHARED,
    ) -> RunIdentity:
        """The identity of a run from a snapshot, under the policies that are in force.

        Its names are stored as they are, in the ledger and in traces, so that none may hold a secret.

        Args:
            run_id: The id that somebody gave it; by default a new one.
        """
        require_no_secret(run_id=run_id, workflow=workflow, scope=scope)
        return RunIdentity(
            run_id=self.store.ids.new_id() if run_id is None else run_id,
            workflow_id=workflow,
            memory_snapshot_id=at,
            visibility_mode=mode,
            policy_set_id=self.policy_set_id,
            scope=scope,
        )

    @property
    def records_single_calls(self) -> bool:
        """Whether there is a trace folder that takes runs which nobody named."""
        return self.traces is not None and not self.traces.only_named_runs

    def budgets_lock(self) -> AbstractContextManager[object]:
        """Held while a commit is planned and submitted: write policies remember what they were shown."""
        return self.budgets.lock if self.budgets.budgets else nullcontext()


def checked_ceiling(ceiling: VisibilityMode | str) -> VisibilityMode:
    """The ceiling of this name; ``InvalidValue`` if it is none, or that of live runs."""
    checked = member_of(VisibilityMode, ceiling, what="mode")
    if not checked.is_deterministic:
        problem = "it must be off, read_only or buffered_write; live runs are allowed by allow_live=True"
        raise InvalidValue(what="ceiling", problem=problem)
    return checked
