"""The storage backend: the rows it keeps, the eleven methods it implements, and what they promise.

A backend knows nothing of commits, conflicts or leases. It loads the state that a decision needs, and appends
the rows that ``pipeline.py`` decided on, in one transaction. So every rule is in one place, and a new backend
is small. ``tests/store/test_contract.py`` is the suite that a backend has to pass.

Backends build rows by position, so the columns of a table stand in the order of the struct's fields.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Final, Protocol
from zlib import crc32

import msgspec

from standfast.errors import Corruption
from standfast.ledger.chain import Branch, Entry, Tip
from standfast.records.canon import fingerprint_of_bytes
from standfast.records.rows import RULES, RowKind
from standfast.records.scopes import prefix_in
from standfast.records.vocabulary import ActionType, Band, BufferState, Value

INDEXED_BANDS: Final = tuple(band for band in Band if RULES[RowKind(band)].indexed)
"""Rejected content is never recalled."""
PartName = tuple[str, str]
"""Which part: the id of its segment, and its name."""


class SegmentHead(msgspec.Struct, frozen=True):
    """What a segment covers: the snapshots ``first`` to ``last`` of a band. ``analysis`` made it."""

    segment_id: str
    namespace: str
    band: str
    analysis: str
    first: int
    last: int
    rows: int
    size_bytes: int


PartReader = Callable[[Sequence[PartName]], Mapping[PartName, bytes]]
"""Returns parts by their names. One that is not there is left out."""
SegmentEraser = Callable[[SegmentHead, Collection[tuple[str, int]], PartReader], dict[str, bytes] | None]
"""Called with a segment and the versions in it that are erased, each by its key without the band and its
snapshot. Returns the parts that change, by name, or None if the segment has to be dropped.
"""


class SegmentTable(Protocol):
    """The segments of a store. A backend has one as ``Storage.segments``."""

    eraser: SegmentEraser | None
    """Takes what is erased out of segments, inside the transaction that erases it.

    Whoever makes segments sets it. Without one, a segment that covers an erased version is dropped.
    """

    def heads(self, namespace: str | None = None) -> list[SegmentHead]:
        """The segments of a namespace, or of all, by namespace, band, first snapshot and id."""
        ...

    def parts(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """The parts with these names. One that is not there is left out."""
        ...

    def put(self, head: SegmentHead, parts: Mapping[str, bytes], *, replaces: Sequence[str], at: int) -> bool:
        """Put a segment in the place of others, in one transaction.

        False, and nothing changed, if it may not be put.

        Args:
            at: The newest snapshot when the records were read that it was made from. If something of the
                namespace was erased since, the segment may hold it.
        """
        ...

    def drop(self, segment_ids: Sequence[str]) -> None:
        """Remove segments."""
        ...

    def last_erasure(self, namespace: str) -> int:
        """The newest snapshot that erased something of the bands that are indexed; 0 if none did."""
        ...


def may_put(
    head: SegmentHead, present: Sequence[SegmentHead], *, replaces: Sequence[str], at: int, last_erasure: int
) -> bool:
    """Whether a segment may be put next to those that are there: nothing overlaps, all it replaces is there,
    nothing was erased since.
    """
    known = {one.segment_id for one in present}
    others = (one for one in present if one.segment_id not in replaces and one.band == head.band)
    is_free = all(one.last < head.first or head.last < one.first for one in others)
    return last_erasure <= at and known.issuperset(replaces) and is_free


def erased_from_segments(
    erased: Iterable[tuple[str, str, int]],
    heads: Sequence[SegmentHead],
    eraser: SegmentEraser | None,
    read: PartReader,
) -> tuple[dict[PartName, bytes], list[str]]:
    """What happens to the segments that cover erased versions, each given by namespace, key and snapshot.

    Returns the parts to replace, and the ids of segments to drop.
    """
    covered: dict[str, set[tuple[str, int]]] = {}
    for namespace, key, snapshot in erased:
        band, _, place = key.partition("/")
        for head in heads:
            if (head.namespace, head.band) == (namespace, band) and head.first <= snapshot <= head.last:
                covered.setdefault(head.segment_id, set()).add((place, snapshot))
    parts: dict[PartName, bytes] = {}
    dropped = []
    for head in heads:
        if head.segment_id not in covered:
            continue
        changed = eraser(head, sorted(covered[head.segment_id]), read) if eraser is not None else None
        if changed is None:
            dropped.append(head.segment_id)
        else:
            parts |= {(head.segment_id, name): part for name, part in changed.items()}
    return parts, dropped


def is_indexed(key: str) -> bool:
    """Whether a key is that of a record in a band that is indexed."""
    return prefix_in(key) in INDEXED_BANDS


class TemporaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row. ``version`` is what ``put`` compares; ``keep_seconds`` counts from when the row is written."""

    kind: str
    row_id: str
    content: bytes
    keep_seconds: float
    version: int = 0


class TemporaryRows(Protocol):
    """The temporary rows of a store. One whose time is over counts as removed. Methods are thread-safe."""

    def get(self, kind: str, row_id: str) -> TemporaryRow | None:
        """Return a row, or None if there is none."""
        ...

    def scan(self, kind: str, prefix: str, *, after: str = "", limit: int) -> list[TemporaryRow]:
        """Return the first rows whose ids begin with a prefix and come behind ``after``, by id."""
        ...

    def put(self, row: TemporaryRow, *, replaces: int | None, extra: Sequence[TemporaryRow] = ()) -> bool:
        """Write a row, and others with it, durably: all of them or none.

        Args:
            replaces: The version that must be there now; None if there must be no such row.
            extra: Rows that are written whatever was there before.

        Returns:
            False if another version is there. Then nothing was written. After a lost connection it may also
            be the version that this very call wrote.
        """
        ...

    def remove(self, kind: str, prefix: str) -> None:
        """Remove every row whose id begins with a prefix."""
        ...

    def expire(self) -> int:
        """Remove the rows whose time is over, and return how many there were."""
        ...


RecordKey = tuple[str, str]
"""The address of a record: namespace and key."""

Places = tuple[RecordKey, ...]
"""Namespaces, each with a prefix of keys."""

Progress = Callable[[int, int], None]
"""Told how much of long work is done, and how much there is."""

BEHIND_ALL_KEYS: Final = "\U0010ffff"
"""Sorts behind every character that a key can have: keys are printable, and this character is not."""


class Version(msgspec.Struct, frozen=True, gc=False):
    """One version of one record. The commit that wrote it made the snapshot of that number.

    A version never changes, except that a later commit, at snapshot ``erased_by``, may erase its content.
    """

    namespace: str
    key: str
    memory_snapshot_id: int
    action: ActionType
    fingerprint: str | None
    content: bytes | None
    erased_by: int | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.key} in snapshot {self.memory_snapshot_id}"


def verified(version: Version) -> Version:
    """Return the version if its content fits its fingerprint or was lawfully erased, else ``Corruption``."""
    if version.content is not None and fingerprint_of_bytes(version.content) == version.fingerprint:
        return version
    if version.content is None:
        if version.fingerprint is None and version.action is ActionType.EXPIRE:
            return version
        if version.fingerprint is not None and version.erased_by is not None:
            return version
    raise Corruption(what=str(version), problem="its content does not match its fingerprint")


class Erasure(msgspec.Struct, frozen=True, gc=False):
    """Erases the content of every version of a record up to ``until``, by the commit of a snapshot."""

    namespace: str
    key: str
    memory_snapshot_id: int
    until: int


class Vector(msgspec.Struct, frozen=True, gc=False):
    """The vector of one version of a record, by one embedder. Signed bytes, with a checksum at the end.

    Snapshots from ``since`` on show it, up to the one before ``ended``: it may have been added later than its
    version, and ends with it. A vector is removed if its version's content is erased.
    """

    namespace: str
    key: str
    memory_snapshot_id: int
    embedder: str
    since: int
    content: bytes
    ended: int | None = None

    def __str__(self) -> str:
        return f"the vector of {self.namespace}/{self.key} in snapshot {self.memory_snapshot_id}"


CHECKSUM_BYTES: Final = 4


def checksummed(signed_bytes: bytes) -> bytes:
    """A vector as it is stored: with a checksum of four bytes, because a disk may turn a bit."""
    return signed_bytes + crc32(signed_bytes).to_bytes(CHECKSUM_BYTES, "big")


def verified_vector(vector: Vector) -> Vector:
    """Return the vector if its bytes match their checksum; otherwise ``Corruption``."""
    if checksummed(vector.content[:-CHECKSUM_BYTES]) == vector.content:
        return vector
    problem = "its bytes do not match their checksum; erase the record, or restore a backup"
    raise Corruption(what=str(vector), problem=problem)


class VectorEnd(msgspec.Struct, frozen=True, gc=False):
    """Ends the vectors of every version of a record that is older than the snapshot."""

    namespace: str
    key: str
    memory_snapshot_id: int


class AppliedCommit(msgspec.Struct, frozen=True, gc=False):
    """One applied commit: the snapshot that it made, and its entry in the ledger."""

    memory_snapshot_id: int
    commit_id: str
    run_id: str
    payload_fingerprint: str
    committed_at: str
    ledger_seq: int
    ledger_hash: str


def runs_of(run_id: str) -> tuple[str, ...]:
    """The runs that a commit with this run id may be of: itself, a live run (``run#call``), or one that was
    planned again (``run~attempt``).
    """
    return tuple(dict.fromkeys((run_id, run_id.partition("#")[0], run_id.partition("~")[0])))


class Buffer(msgspec.Struct, frozen=True):
    """A staged commit that is not applied: open, pending or aborted.

    ``content`` is the commit; an aborted one has none.

    ``fence`` grows by one with each owner, and only the holder of the current fence may act. ``lease_until``
    (seconds since 1970) only says when another worker may try to take over; if the buffer was aborted or
    discarded, when that was.
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
    def is_discarded(self) -> bool:
        """Whether it was discarded. Its row stays, so that no fence is given out twice."""
        return self.content is None and self.state is BufferState.OPEN


class StoreIdentity(Value, frozen=True, kw_only=True):
    """Which store this is, and which branch of it: the store itself until a copy is restored."""

    store_id: str
    branch_id: str


class StateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the current state that a decision needs."""

    commit_ids: Sequence[str] = ()
    record_keys: Sequence[RecordKey] = ()
    abandoned: int = 0
    """How many buffers with an expired lease to load, those that expired first.

    A lease that ends later than any honest
    one could has expired too: a clock that was far ahead gave it out."""
    ended_seconds: float | None = None
    """Load as many buffers that were aborted or discarded at least that long ago."""


class StateView(msgspec.Struct, kw_only=True):
    """The current state inside a transaction, as far as the query asked for it."""

    now: float
    head: int
    tip: Tip
    applied: dict[str, AppliedCommit]
    buffers: dict[str, Buffer]
    latest: dict[RecordKey, Version]
    """The newest version of each record that was asked for, without its content."""
    commit_of: Callable[[int], str]
    """Looks up the id of the commit that made a snapshot. Used only to name it in a refusal."""
    is_written: Callable[[str, str, int], bool]
    """Looks up whether commits after a snapshot wrote in a namespace under a prefix of keys."""


class Changes(msgspec.Struct, kw_only=True):
    """The rows that a transaction appends, and the contents that it erases.

    Only buffers are ever replaced or dropped.

    Branches are put in place by number, because a copy takes over the identity of its source.
    """

    versions: list[Version] = []
    applied: list[AppliedCommit] = []
    entries: list[Entry] = []
    buffers: list[Buffer] = []
    dropped: list[str] = []
    erasures: list[Erasure] = []
    branches: list[Branch] = []
    vectors: list[Vector] = []
    vector_ends: list[VectorEnd] = []

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


class VersionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which versions to read. The conditions combine; rows come ordered by namespace, key and snapshot.

    With ``keys`` (and a namespace), only ``at``, ``newest`` and ``with_content`` apply besides.
    """

    namespace: str | None = None
    keys: Sequence[str] | None = None
    prefix: str = ""
    """Only keys that begin with it; needs a namespace."""
    bands: Sequence[str] = ()
    """Only records in these bands; by default in all, and what is in none."""
    after: RecordKey = ("", "")
    """Only records behind this one."""
    snapshot: int | None = None
    """Only versions that the commit of this snapshot wrote."""
    since: int | None = None
    """Only versions that commits after this snapshot wrote."""
    at: int | None = None
    """Only versions of this snapshot or older ones."""
    newest: bool = False
    """Of each record, only the newest of the versions that match."""
    with_content: bool = True
    """Without it, contents are left out; of a range, not together with ``newest``."""
    limit: int | None = None

    def as_sql(
        self, placeholder: str, *, snapshot: str = "memory_snapshot_id"
    ) -> tuple[str, list[str | int]]:
        """The conditions (all but ``keys``, ``newest`` and ``limit``) as SQL, and its parameters.

        ``snapshot`` is the expression for the snapshot of a row.
        """
        parameters = list[str | int]()
        is_behind = self.after[1] >= self.prefix if self.namespace is not None else self.after != ("", "")
        if self.namespace is not None:
            parameters += (self.namespace, max(self.after[1], self.prefix), self.prefix + BEHIND_ALL_KEYS)
        elif is_behind:
            parameters += self.after
        parameters += (f"{band}/{end}" for band in self.bands for end in ("", BEHIND_ALL_KEYS))
        bounds = (self.snapshot, self.since, self.at)
        parameters += (bound for bound in bounds if bound is not None)
        are_bound = tuple(bound is not None for bound in bounds)
        sql = _conditions(self.namespace is not None, is_behind, len(self.bands), are_bound, snapshot)
        return sql.replace("?", placeholder), parameters


@cache
def _conditions(
    has_namespace: bool, is_behind: bool, bands: int, are_bound: tuple[bool, ...], snapshot: str
) -> str:
    """The conditions of a query that has these parts. There are few such shapes, and every read needs one."""
    conditions = ["TRUE"]
    if has_namespace:
        # Only one lower bound, because a database might choose either of two for its index.
        conditions.append(f"namespace = ? AND key {'>' if is_behind else '>='} ? AND key < ?")
    elif is_behind:
        conditions.append("(namespace, key) > (?, ?)")
    if bands:
        conditions.append(f"({' OR '.join(['key >= ? AND key < ?'] * bands)})")
    comparisons = zip(are_bound, ("=", ">", "<="), strict=True)
    conditions += [f"{snapshot} {comparison} ?" for is_bound, comparison in comparisons if is_bound]
    return " AND ".join(conditions)


class VectorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which vectors to read. Conditions combine; rows come by namespace, key, snapshot and embedder."""

    namespace: str | None = None
    after: tuple[str, str, int, str] = ("", "", 0, "")
    """Only rows behind this namespace, key, snapshot and embedder."""
    since: int | None = None
    """Only rows that the commit of this snapshot added."""
    until: int | None = None
    """… or those of the snapshots from ``since`` to this one."""
    limit: int | None = None

    def as_sql(self, placeholder: str) -> tuple[str, list[str | int]]:
        """The conditions (all but ``limit``) as an SQL expression, and its parameters."""
        conditions, parameters = ["TRUE"], list[str | int]()
        if self.namespace is not None:
            conditions.append("namespace = ?")
            parameters.append(self.namespace)
        if self.after != ("", "", 0, ""):
            conditions.append("(namespace, key, memory_snapshot_id, embedder) > (?, ?, ?, ?)")
            parameters += self.after
        if self.since is not None:
            conditions.append("since BETWEEN ? AND ?")
            parameters += [self.since, self.since if self.until is None else self.until]
        return " AND ".join(conditions).replace("?", placeholder), parameters


class Transaction(Protocol):
    """One serialised transaction: no other one falls between its ``load`` and its ``append``."""

    def load(self, query: StateQuery) -> StateView:
        """Load the current state. ``StateView.now`` is the time that leases are measured by."""
        ...

    def append(self, changes: Changes) -> None:
        """Add the rows. When the transaction ends they are durable, all of them, or none is there.

        It may be called several times, with rows in the order of their references.
        """
        ...


class Storage(Protocol):
    """A backend: eleven methods over append-only rows (versions, vectors, commits, ledger entries), buffers
    and temporary rows.

    Reads see committed states only, never wait for a writer, and return rows in a total order. Any method may
    be called from any thread. Driver errors never leave a backend: ``CannotOpen``, ``StoreBusy``,
    ``StoreFailed`` (nothing was changed), ``OutcomeUnknown`` (a commit may or may not have happened) and
    ``Corruption`` do.
    """

    @property
    def is_shared(self) -> bool:
        """Whether processes on other machines may use the same store."""
        ...

    @property
    def acknowledged(self) -> Tip | None:
        """The end of the ledger by the head file, which is kept outside the database; None without one."""
        ...

    @property
    def temporary(self) -> TemporaryRows:
        """The temporary rows, which are no part of any snapshot."""
        ...

    @property
    def segments(self) -> SegmentTable:
        """The segments of derived indexes. ``append`` takes the versions that it erases out of them."""
        ...

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin the only writing transaction. Leaving the block commits durably; an exception rolls back."""
        ...

    def head(self) -> int:
        """The newest snapshot; 0 if nothing was ever committed. Snapshots have no gaps."""
        ...

    def presence(self, namespace: str, prefixes: Sequence[str]) -> tuple[int, list[bool]]:
        """The newest snapshot, and for each prefix whether any version of it has a key that begins so.

        It is one look at the database, whatever the number of prefixes.
        """
        ...

    def size_bytes(self) -> int:
        """How much space the store takes now, with its history, indexes and ledger."""
        ...

    def versions(self, query: VersionQuery) -> list[Version]:
        """The versions that match a query, in its order. A range is read up to its limit, not beyond."""
        ...

    def vectors(self, query: VectorQuery) -> list[Vector]:
        """The vectors that match a query, in its order."""
        ...

    def commits(self, *, after: int, limit: int, run_ids: Sequence[str] = ()) -> list[AppliedCommit]:
        """The first commits behind a snapshot, of some runs if given, in snapshot order; see ``runs_of``."""
        ...

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """The first ledger entries behind a sequence number, in order."""
        ...

    def branches(self) -> list[Branch]:
        """The store's identity and then its branches, by number."""
        ...

    def check(self, *, rebuild_indexes: bool = False) -> Iterator[str]:
        """Yield one message per damage below the level of rows; if asked, rebuild what is derived first."""
        ...

    def reset(self) -> None:
        """After ``OutcomeUnknown``: reconnect and settle what was sent, so that ``load`` shows the truth."""
        ...

    def close(self) -> None:
        """Close files and connections. Everything acknowledged stays."""
        ...
