"""The store for many machines, on PostgreSQL. It needs the extra ``postgres``.

``server.py`` connects safely and translates errors; ``storage.py`` is the backend.
"""

from standfast.errors import MissingExtra

try:
    import psycopg as _  # noqa: F401  # Only to find out whether it is installed.
except ImportError:
    raise MissingExtra(feature="PostgreSQL", extra="postgres") from None

from standfast.store.postgres.storage import PostgresStorage

__all__ = ["PostgresStorage"]
