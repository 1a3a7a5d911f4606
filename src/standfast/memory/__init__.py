"""Memory and its Run: one request, from top to bottom. Read this second, after the vocabulary.

    memory.py           Memory: the verbs, over the parts below
    run.py              Run.remember -> RememberRequest -> judged -> buffered -> commit
    conversations.py    Memory.add: chat messages as records of a session, and facts found in them
    messages.py         chat messages read, and sessions read back
    judging_cache.py    what judging looks up in memory               888_JUDGE
    run_dependencies.py what the runs of a memory work with
    commit_plan.py      judged records -> one commit, submitted       777_FORGE, 999_SEAL
    retries.py          Memory.retry: who tries again first after a conflict
    band_budgets.py     what the byte budgets of bands keep of it
    listings.py         lists of records and changes, which say what to try if they are empty
    snapshot_view.py    recall, listings and history, now or as of a snapshot   111_SENSE
    related.py          what a new record may disagree with or repeat
    current.py          memory.current: profiles of scopes, what disagrees, and how it is settled
    governance.py       memory.approvals; patterns of attacks, retention
    memory_ledger.py    memory.ledger: verification, signed checkpoints, receipts
    embedding.py        memory.vectors: vectors of new records and queries, filled in where they are missing
    incidents.py        memory.incidents: investigations, quarantine, revert
    investigation.py    what an investigation found, as text, JSON and a graph
    investigating.py    causes and reach, found step by step
    lineage.py          who wrote what, what cites it, which packages showed it
    recall_notes.py     what is noted in the recall log
    quarantine.py       acts that take records out of recall, in as many commits as it takes
    quarantine_choice.py which versions such an act hides
    watch.py            which sources had much refused, disputed or quarantined lately
    erasing.py          Memory.forget of a scope or a source, in as many commits as it takes
    idempotency.py      a request that arrives twice takes effect once
    extraction.py       facts that a model finds in messages
    run_step.py         what each call did to a run, so that another process can carry it on
    async_memory.py     AsyncMemory, AsyncRun and AsyncSnapshotView

The rules themselves are in ``govern/``, ``policies/``, ``recall/`` and ``store/``.
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
