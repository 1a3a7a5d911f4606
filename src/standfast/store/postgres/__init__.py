"""The store for many machines, on PostgreSQL. Importing it needs the extra ``postgres``, so only who asks for it does.

``server.py`` gets connections that can be trusted and speaks over them; ``storage.py`` is the backend.
"""

from standfast.errors import MissingExtra

try:
    import psycopg as _  # noqa: F401  # Only to learn whether it is there.
except ImportError:
    raise MissingExtra(feature="PostgreSQL", extra="postgres") from None

from standfast.store.postgres.storage import PostgresStorage

__all__ = ["PostgresStorage"]
