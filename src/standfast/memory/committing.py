"""Committing judged records: plan, submit, and plan again if others only spent the same budgets meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from msgspec.structs import replace

from standfast.errors import CommitAborted
from standfast.govern.admission import JudgedRecord
from standfast.govern.judge.judge import Judge
from standfast.govern.policy import MemoryWritePolicy
from standfast.limits import MAX_REBASES
from standfast.memory.band_budgets import BandBudgets
from standfast.memory.commit_plan import only_budgets_changed, plan_commit
from standfast.memory.judging_cache import JudgingCache
from standfast.memory.snapshot_view import SnapshotReader
from standfast.origins import Origin
from standfast.store.commit import Commit, Write
from standfast.store.store import Store
from standfast.traces.folder import TraceFolder
from standfast.vocabulary import CommitPolicy, Receipt, RunIdentity


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

    def budgets_lock(self) -> AbstractContextManager[object]:
        """Held while a commit is planned and submitted, because write policies remember what they were shown."""
        return self.budgets.lock if self.budgets.budgets else nullcontext()


def commit_judged(
    services: RunServices,
    judged: Sequence[JudgedRecord],
    forgotten: Mapping[str, str],
    *,
    run: RunIdentity,
    extra_writes: Callable[[RunIdentity], Sequence[Write]],
    planned: Callable[[Commit | None], None] = lambda _: None,
) -> Receipt | None:
    """Plan and commit as of the run's snapshot. Returns None if nothing changes. The caller holds ``budgets_lock``.

    Args:
        forgotten: Keys whose content is erased, each with the reason.
        extra_writes: Gives the rows of the caller's own for an attempt, which has an identity of its own.
        planned: Is told each commit before it is submitted.

    Raises:
        CommitAborted: A record changed since the snapshot, or the commit policy rejects the run. Nothing was written.
    """
    store, budgets, attempt, identity = services.store, services.budgets, 0, run
    while True:
        attempt += 1
        commit = plan_commit(
            judged,
            forgotten,
            run=identity,
            namespace=services.namespace,
            store=store,
            budgets=budgets,
            extra_writes=extra_writes(identity),
        )
        planned(commit)
        if commit is None:
            return None
        try:
            whole = services.commit_policy is CommitPolicy.ALL_OR_NOTHING
            problem = _rejection_of(judged, forgotten) if whole else ""
            receipt = store.reject(commit, problem) if problem else store.commit(commit)
        except CommitAborted:
            budgets.discarded()
            if (
                problem
                or attempt == MAX_REBASES
                or not _may_replan(services, commit, identity.memory_snapshot_id)
            ):
                raise
            # Other runs try too; the more attempts failed, the longer the wait, so that each gets its turn.
            store.clock.sleep(0.001 * attempt)
            identity = replace(identity, run_id=f"{run.run_id}~{attempt}", memory_snapshot_id=store.head())
        except BaseException:
            budgets.discarded()
            raise
        else:
            services.judging_cache.saw(commit, receipt)
            budgets.committed(receipt.memory_snapshot_id)
            return receipt


def _rejection_of(judged: Sequence[JudgedRecord], forgotten: Mapping[str, str]) -> str:
    """Why ``all_or_nothing`` rejects these judgements; empty if it does not, because all or none are accepted."""
    refused = [one for one in judged if one.known is None and not one.is_accepted]
    if not refused or (len(refused) == len(judged) and not forgotten):
        return ""
    first = refused[0]
    reason = "; ".join(first.judgement.reasons) or f"its verdict is {first.verdict}"
    return (
        f"the commit policy is all_or_nothing, and {len(refused)} of {len(judged)} texts were not accepted; "
        f"the first is {first.record.memory_id}: {reason}"
    )


def _may_replan(services: RunServices, commit: Commit, base: int) -> bool:
    return only_budgets_changed(
        commit,
        base=base,
        head=services.store.head(),
        namespace=services.namespace,
        store=services.store,
        budgets=services.budgets,
    )
