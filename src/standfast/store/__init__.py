"""The store: snapshots, atomic idempotent commits, staging, recovery, and the ledger of all of it.

Read in this order: ``commit.py`` (what is committed), ``protocol.py`` (what a backend promises),
``pipeline.py`` (every decision, as pure functions), ``store.py`` (the thin shell around them).
"""

from standfast.store.commit import Commit, Fact, Write
from standfast.store.lease import Lease
from standfast.store.protocol import AppliedCommit, Buffer, Storage, StoreIdentity, Version
from standfast.store.store import Store, open_store

__all__ = [
    "AppliedCommit",
    "Buffer",
    "Commit",
    "Fact",
    "Lease",
    "Storage",
    "Store",
    "StoreIdentity",
    "Version",
    "Write",
    "open_store",
]
