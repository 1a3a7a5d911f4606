"""What a backend promises, and the rows that go in and out of it.

Rows are built by position where they come from a table, whose columns stand in the order of their fields.

A backend knows nothing of commits and leases. It loads what a decision needs to see, and appends what was decided, in
one transaction; ``pipeline.py`` decides. That keeps the three backends small and every rule in one place.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

import msgspec

from standfast.ledger.chain import Entry, Tip
from standfast.vocabulary import ActionType, BufferState

RecordKey = tuple[str, str]
"""Where a record lives: namespace and key."""

BEHIND_ALL_KEYS: Final = "\U0010ffff"
"""Sorts behind every character that a key can have, because it does not print."""


class Version(msgspec.Struct, frozen=True):
    """One version of one record, made by the commit that made the snapshot of that number.

    Never changed but for one thing: a later commit may erase its content. Then ``erased_by`` is that one's snapshot.
    """

    namespace: str
    key: str
    memory_snapshot_id: int
    action: ActionType
    fingerprint: str | None
    content: bytes | None
    erased_by: int | None = None


class Erasure(msgspec.Struct, frozen=True):
    """The content of every version at a place that is older than a snapshot goes; the snapshot's commit says why."""

    namespace: str
    key: str
    memory_snapshot_id: int


class AppliedCommit(msgspec.Struct, frozen=True):
    """One applied commit: the snapshot it made, and where the ledger tells of it."""

    memory_snapshot_id: int
    commit_id: str
    run_id: str
    payload_fingerprint: str
    committed_at: str
    ledger_seq: int
    ledger_hash: str


class Buffer(msgspec.Struct, frozen=True):
    """A run's writes that are not applied: open, pending or aborted. ``content`` is the commit; aborted ones have none.

    ``fence`` grows by one with each owner; only who knows the present one may act. ``lease_until`` (seconds since
    1970) only says when another may try. An open buffer without content was discarded: it only keeps the fence.
    """

    commit_id: str
    run_id: str
    payload_fingerprint: str
    state: BufferState
    content: bytes | None = None
    owner: str = ""
    fence: int = 0
    lease_until: float = 0.0
    waits_for: str | None = None
    reason_code: str | None = None
    problem: str | None = None

    @property
    def is_vacant(self) -> bool:
        """Whether it was discarded; then it is nobody's, and stands only so that no fence is given twice."""
        return self.content is None and self.state is BufferState.OPEN


class StateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision needs to see."""

    commit_ids: Sequence[str] = ()
    places: Sequence[RecordKey] = ()
    abandoned: int = 0
    """How many buffers whose lease has run out to show, those first that ran out first."""


class StateView(msgspec.Struct, kw_only=True):
    """What a transaction saw: the present state, as far as the question asked."""

    now: float
    head: int
    tip: Tip
    applied: dict[str, AppliedCommit]
    buffers: dict[str, Buffer]
    latest: dict[RecordKey, Version]
    """The newest version at each place that was asked for, without its content."""
    commit_of: Callable[[int], str]
    """The commit that made a snapshot; asked for only to name it in a refusal."""


class Changes(msgspec.Struct, kw_only=True):
    """What a transaction appends, and erases. Only buffers are replaced or dropped; they are not truth yet."""

    versions: list[Version] = []
    applied: list[AppliedCommit] = []
    entries: list[Entry] = []
    buffers: list[Buffer] = []
    dropped: list[str] = []
    erasures: list[Erasure] = []

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


class Transaction(Protocol):
    """One serialised transaction: nobody else's falls between its ``load`` and its ``append``."""

    def load(self, question: StateQuery) -> StateView:
        """See the present state; ``StateView.now`` is the store's own time."""
        ...

    def append(self, changes: Changes) -> None:
        """Add rows; they are there all together, durably, when the transaction has ended, or not at all."""
        ...


class Reader(Protocol):
    """Plain reads. They see committed states only, never wait for a writer, and give rows in a total order."""

    def head(self) -> int:
        """The newest snapshot; 0 if nothing was ever committed."""
        ...

    def versions_at(self, namespace: str, keys: Sequence[str], at: int) -> dict[str, Version]:
        """For each key that has one, its newest version not newer than snapshot ``at``."""
        ...

    def scan(self, namespace: str, at: int, *, after: str, prefix: str = "", limit: int) -> list[Version]:
        """The versions that snapshot ``at`` shows in a namespace, expired ones too, by key, from ``after`` on.

        ``after`` does not stand before ``prefix``; nothing is read beyond the keys that begin with that.
        """
        ...

    def history(self, namespace: str, key: str) -> list[Version]:
        """Every version of one record, oldest first."""
        ...

    def snapshot_rows(self, memory_snapshot_id: int) -> list[Version]:
        """The versions that one commit made, by namespace and key."""
        ...


class Records(Protocol):
    """Reads about commits rather than records, for receipts, recovery and audits."""

    def find(self, commit_ids: Sequence[str]) -> tuple[dict[str, AppliedCommit], dict[str, Buffer]]:
        """What is known of these commits."""
        ...

    def applied(self, *, after: int, limit: int) -> list[AppliedCommit]:
        """Commits in snapshot order, from after a snapshot on."""
        ...

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """Ledger entries in order, from after a place on."""
        ...

    def namespaces(self) -> list[str]:
        """Every namespace that ever held a record, in order."""
        ...


class Storage(Reader, Records, Protocol):
    """A backend. ``transaction`` raises ``StoreFailed`` when nothing was changed, ``OutcomeUnknown`` when that is unclear."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin to change; leaving the block without an error makes the changes durable."""
        ...

    def reset(self) -> None:
        """After ``OutcomeUnknown``: drop the connection and make what is there durable, so that looking tells the truth."""
        ...

    def check(self) -> Iterator[str]:
        """Look for damage below the level of rows, and tell of each."""
        ...

    def rebuild(self) -> None:
        """Make everything that can be derived anew from what is true."""
        ...

    def close(self) -> None:
        """Let go of files and connections; whatever was acknowledged stays."""
        ...
