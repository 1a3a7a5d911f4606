"""The store: snapshots, atomic idempotent commits, staging, recovery, and the ledger of all of it.

Read in this order: ``commit.py`` (what is committed), ``protocol.py`` (what a backend promises),
``pipeline.py`` (every decision, as pure functions), ``store.py`` (the thin shell around them).
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
