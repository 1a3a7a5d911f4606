"""Memory and its Run: one request, from top to bottom. Read this second, after the vocabulary.

    memory.py           Memory: opens runs, recalls, looks back, governs; remember and forget without a run
    run.py              Run.remember -> RememberRequest -> judged -> buffered -> commit
    judging_cache.py    what the judge may look at                    888_JUDGE
    commit_plan.py      judged records -> one commit                  777_FORGE, 999_SEAL
    band_budgets.py     what the byte budgets of bands keep of it
    snapshot_view.py    SnapshotView.recall: memory as of a snapshot  111_SENSE
    embedding.py        memory.vectors: vectors of new records and queries, filled in where they are missing
    idempotency.py      a request that arrives twice takes effect once
    retry.py            Memory.retry: after a conflict, who waited longest goes first
    async_memory.py     AsyncMemory and AsyncRun

The rules themselves are in ``govern/``, ``policies/``, ``recall/`` and ``store/``.
"""

from standfast.memory.async_memory import AsyncMemory, AsyncRun, AsyncSnapshotView
from standfast.memory.embedding import MemoryVectors, VectorStatus
from standfast.memory.idempotency import IdempotencyRecord
from standfast.memory.memory import Memory
from standfast.memory.run import AgentRun, Run
from standfast.memory.snapshot_view import SnapshotView

__all__ = [
    "AgentRun",
    "AsyncMemory",
    "AsyncRun",
    "AsyncSnapshotView",
    "IdempotencyRecord",
    "Memory",
    "MemoryVectors",
    "Run",
    "SnapshotView",
    "VectorStatus",
]
