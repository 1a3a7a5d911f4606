"""Memory and its Run: one request, from top to bottom. Read this second, after the vocabulary.

    memory.py           Memory: opens runs, recalls, looks back, governs; remember and forget without a run
    readable_memory.py  what Memory reads
    run.py              Run.remember -> RememberRequest -> judged -> buffered -> commit
    conversations.py    Memory.add: chat messages (messages.py) as records of a session
    sessions.py         Memory.session and Memory.sessions: conversations read back
    judging_cache.py    what the judge may look at                    888_JUDGE
    commit_plan.py      judged records -> one commit                  777_FORGE, 999_SEAL
    committing.py       submits it, and plans again if others spent the same budgets
    band_budgets.py     what the byte budgets of bands keep of it
    snapshot_view.py    SnapshotView.recall: memory as of a snapshot  111_SENSE
    embedding.py        memory.vectors: vectors of new records and queries, filled in where they are missing
    erasing.py          Memory.forget of a scope or a source, in as many commits as it takes
    idempotency.py      a request that arrives twice takes effect once
    retry.py            Memory.retry: after a conflict, who waited longest goes first
    signing.py          the ledger's head, signed
    async_memory.py     AsyncMemory and AsyncRun

The rules themselves are in ``govern/``, ``policies/``, ``recall/`` and ``store/``.
"""

from standfast.memory.async_memory import AsyncMemory
from standfast.memory.async_run import AsyncRun, AsyncSnapshotView
from standfast.memory.conversations import AddedMessage, AddedMessages
from standfast.memory.embedding import MemoryVectors, VectorStatus
from standfast.memory.erasing import ErasurePlan, Forgotten
from standfast.memory.extraction import ExtractedFact, FactExtractor
from standfast.memory.idempotency import IdempotencyRecord
from standfast.memory.memory import Memory
from standfast.memory.run import AgentRun, Run
from standfast.memory.sessions import SessionInfo, SessionMessage
from standfast.memory.snapshot_view import SnapshotView

__all__ = [
    "AddedMessage",
    "AddedMessages",
    "AgentRun",
    "AsyncMemory",
    "AsyncRun",
    "AsyncSnapshotView",
    "ErasurePlan",
    "ExtractedFact",
    "FactExtractor",
    "Forgotten",
    "IdempotencyRecord",
    "Memory",
    "MemoryVectors",
    "Run",
    "SessionInfo",
    "SessionMessage",
    "SnapshotView",
    "VectorStatus",
]
