"""The embedded store: one SQLite file, one writer at a time, readers that never wait."""

from standfast.store.sqlite.storage import SQLiteStorage

__all__ = ["SQLiteStorage"]
