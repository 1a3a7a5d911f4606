# The names of standfast.store. Each is listed here and nowhere else; see lazy_names.py.

from standfast.store.commit import (
    Commit as Commit,
    Fact as Fact,
    Write as Write,
)
from standfast.store.lease import Lease as Lease
from standfast.store.protocol import (
    AppliedCommit as AppliedCommit,
    Buffer as Buffer,
    Storage as Storage,
    StoreIdentity as StoreIdentity,
    Version as Version,
)
from standfast.store.opening import open_store as open_store
from standfast.store.store import Store as Store
