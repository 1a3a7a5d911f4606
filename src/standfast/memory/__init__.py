"""Memory and its Run: one request, from top to bottom. Read this second, after the vocabulary.

    with memory.run(workflow="triage", mode="buffered_write") as run:
        context = run.recall(...)       111_SENSE   what is known, how far to trust it, within a token budget
        run.remember(...)               888_JUDGE   floors, verdict, evidence; where it goes
                                        777_FORGE   what keeps going wrong becomes a pattern
    # leaving the block                 999_SEAL    one commit, one receipt, all of it in the ledger

Rules live below, in ``govern/``, ``store/``, ``recall/`` and ``budgets/``; here they are called in order.
"""

from standfast.memory.memory import Memory
from standfast.memory.run import Run

__all__ = ["Memory", "Run"]
