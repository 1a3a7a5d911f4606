"""The store: snapshots, buffered runs, atomic idempotent commits, recovery.

Read in this order: ``commit.py`` (what is committed), ``protocol.py`` (what a backend promises), ``pipeline.py`` (every
decision, as pure functions), ``store.py`` (the thin shell around them), ``run.py`` (what a run may see and write).
"""
