"""The store in memory, for tests. It keeps every promise of a backend except to survive the process."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

import msgspec

from standfast.clock import Clock
from standfast.ledger.chain import Branch, Entry, Tip
from standfast.limits import LEASE_SECONDS, MAX_CLOCK_SKEW_SECONDS
from standfast.store.protocol import (
    AppliedCommit,
    Buffer,
    Changes,
    Erasure,
    PartName,
    RecordKey,
    SegmentEraser,
    SegmentHead,
    StateQuery,
    StateView,
    TemporaryRow,
    Vector,
    VectorQuery,
    Version,
    VersionQuery,
    erased_from_segments,
    is_indexed,
    may_put,
    runs_of,
)


class InMemoryStorage:
    """A backend whose rows are lists and dictionaries behind one lock."""

    is_shared = False
    acknowledged = None

    def __init__(self, clock: Clock, store_id: str = "0" * 32) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._versions: dict[RecordKey, list[Version]] = {}
        self._written: list[list[RecordKey]] = []
        self._applied: list[AppliedCommit] = []
        self._applied_by_id: dict[str, AppliedCommit] = {}
        self._entries: list[Entry] = []
        self._buffers: dict[str, Buffer] = {}
        self._branches = {0: Branch(0, store_id)}
        self._vectors: dict[RecordKey, list[Vector]] = {}
        self._vectors_since: dict[int, list[RecordKey]] = {}
        self.temporary = InMemoryTemporaryRows(clock)
        self.segments = InMemorySegments(self._lock)

    @contextmanager
    def transaction(self) -> Iterator["InMemoryStorage"]:
        """One writer at a time. ``append`` is the last step, so an error before it leaves nothing behind."""
        with self._lock:
            yield self

    def load(self, query: StateQuery) -> StateView:
        """Load the state that the query asks for."""
        now = self._clock.now().timestamp()
        buffers = {name: self._buffers[name] for name in query.commit_ids if name in self._buffers}
        if query.abandoned:
            buffers |= {buffer.commit_id: buffer for buffer in self._abandoned(now)[: query.abandoned]}
        if query.ended_seconds is not None:
            ended = self._ended(now - query.ended_seconds)
            buffers |= {buffer.commit_id: buffer for buffer in ended[: query.abandoned]}
        return StateView(
            now=now,
            head=len(self._applied),
            tip=self._entries[-1].tip if self._entries else Tip(),
            applied={
                name: self._applied_by_id[name] for name in query.commit_ids if name in self._applied_by_id
            },
            buffers=buffers,
            latest={key: self._versions[key][-1] for key in query.record_keys if key in self._versions},
            commit_of=lambda snapshot: self._applied[snapshot - 1].commit_id,
            is_written=self._is_written,
        )

    def _is_written(self, namespace: str, prefix: str, after: int) -> bool:
        places = (place for written in self._written[after:] for place in written)
        return any(place[0] == namespace and place[1].startswith(prefix) for place in places)

    def append(self, changes: Changes) -> None:
        """Add the rows."""
        for applied in changes.applied:
            self._applied.append(applied)
            self._applied_by_id[applied.commit_id] = applied
            self._written.append([])
        for version in changes.versions:
            record_key = (version.namespace, version.key)
            self._versions.setdefault(record_key, []).append(version)
            self._written[version.memory_snapshot_id - 1].append(record_key)
        for vector in changes.vectors:
            record_key = (vector.namespace, vector.key)
            self._vectors.setdefault(record_key, []).append(vector)
            self._vectors_since.setdefault(vector.since, []).append(record_key)
        for end in changes.vector_ends:
            record_key, ended = (end.namespace, end.key), end.memory_snapshot_id
            self._vectors[record_key] = [
                (
                    msgspec.structs.replace(one, ended=ended)
                    if one.ended is None and one.memory_snapshot_id < ended
                    else one
                )
                for one in self._vectors.get(record_key, [])
            ]
        for erasure in changes.erasures:
            self._erase(erasure)
        self.segments.erase(changes.erasures, self._versions)
        self._entries.extend(changes.entries)
        self._buffers.update({buffer.commit_id: buffer for buffer in changes.buffers})
        self._branches.update({branch.number: branch for branch in changes.branches})
        for commit_id in changes.dropped:
            self._buffers.pop(commit_id, None)

    def _erase(self, erasure: Erasure) -> None:
        record_key = (erasure.namespace, erasure.key)
        self._vectors[record_key] = [
            one for one in self._vectors.get(record_key, []) if one.memory_snapshot_id > erasure.until
        ]
        versions = self._versions.get(record_key, [])
        for index, version in enumerate(versions):
            if version.content is not None and version.memory_snapshot_id <= erasure.until:
                versions[index] = msgspec.structs.replace(
                    version, content=None, erased_by=erasure.memory_snapshot_id
                )

    def _abandoned(self, now: float) -> list[Buffer]:
        abandoned = (
            buffer
            for buffer in self._buffers.values()
            if buffer.content is not None
            and buffer.waits_for is None
            and not now < buffer.lease_until <= now + LEASE_SECONDS + MAX_CLOCK_SKEW_SECONDS
        )
        return sorted(abandoned, key=lambda buffer: (buffer.lease_until, buffer.commit_id))

    def _ended(self, before: float) -> list[Buffer]:
        ended = (one for one in self._buffers.values() if one.content is None and one.lease_until <= before)
        return sorted(ended, key=lambda buffer: (buffer.lease_until, buffer.commit_id))

    def head(self) -> int:
        """The newest snapshot."""
        with self._lock:
            return len(self._applied)

    def presence(self, namespace: str, prefixes: Sequence[str]) -> tuple[int, list[bool]]:
        """The newest snapshot, and whether there are keys with these prefixes."""
        with self._lock:
            queries = [VersionQuery(namespace=namespace, prefix=one) for one in prefixes]
            return len(self._applied), [bool(self._record_keys(one)) for one in queries]

    def size_bytes(self) -> int:
        """The bytes of the records' contents and of the ledger."""
        with self._lock:
            contents = (len(one.content or b"") for versions in self._versions.values() for one in versions)
            return sum(contents) + sum(len(entry.content) for entry in self._entries)

    def versions(self, query: VersionQuery) -> list[Version]:
        """The versions that match a query."""
        found: list[Version] = []
        with self._lock:
            for record_key in self._record_keys(query):
                matching = [
                    version
                    for version in self._versions.get(record_key, [])
                    if (query.at is None or version.memory_snapshot_id <= query.at)
                    and query.snapshot in (None, version.memory_snapshot_id)
                    and (query.since is None or version.memory_snapshot_id > query.since)
                ]
                if not query.with_content:
                    matching = [msgspec.structs.replace(version, content=None) for version in matching]
                found += matching[-1:] if query.newest else matching
                if query.limit is not None and len(found) >= query.limit:
                    return found[: query.limit]
        return found

    def _record_keys(self, query: VersionQuery) -> list[RecordKey]:
        """The records that a query may show, in order."""
        if query.keys is not None:
            return [(query.namespace or "", key) for key in sorted(set(query.keys))]
        candidates: Iterable[RecordKey] = self._versions
        if query.snapshot is not None:
            candidates = self._written[query.snapshot - 1] if 0 < query.snapshot <= len(self._written) else ()
        elif query.since is not None:
            candidates = {one for written in self._written[query.since : query.at] for one in written}
        return sorted(
            (namespace, key)
            for namespace, key in candidates
            if (namespace, key) > query.after
            and query.namespace in (None, namespace)
            and key.startswith(query.prefix)
            and (not query.bands or key.startswith(tuple(f"{band}/" for band in query.bands)))
        )

    def vectors(self, query: VectorQuery) -> list[Vector]:
        """The vectors that match a query."""
        with self._lock:
            since = range(0)
            if query.since is not None:
                since = range(query.since, (query.since if query.until is None else query.until) + 1)
            added = {key for snapshot in since for key in self._vectors_since.get(snapshot, ())}
            found = [
                one
                for record_key in (self._vectors if query.since is None else added)
                if query.namespace in (None, record_key[0])
                for one in self._vectors.get(record_key, [])
                if (query.since is None or one.since in since) and _place(one) > query.after
            ]
        return sorted(found, key=_place)[: query.limit]

    def commits(self, *, after: int, limit: int, run_ids: Sequence[str] = ()) -> list[AppliedCommit]:
        """Commits in snapshot order."""
        with self._lock:
            if not run_ids:
                return self._applied[after : after + limit]
            wanted = frozenset(run_ids)
            found = (one for one in self._applied[after:] if not wanted.isdisjoint(runs_of(one.run_id)))
            return list(islice(found, limit))

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """Ledger entries in order."""
        with self._lock:
            return self._entries[after : after + limit]

    def branches(self) -> list[Branch]:
        """The store's identity and its branches."""
        with self._lock:
            return [self._branches[number] for number in sorted(self._branches)]

    def check(self, *, rebuild_indexes: bool = False) -> Iterator[str]:  # noqa: ARG002  # Nothing is derived here.
        """There is nothing below the rows."""
        return iter(())

    def reset(self) -> None:
        """Nothing is ever in doubt in memory."""

    def close(self) -> None:
        """Nothing is open."""


def _place(vector: Vector) -> tuple[str, str, int, str]:
    return vector.namespace, vector.key, vector.memory_snapshot_id, vector.embedder


class InMemoryTemporaryRows:
    """Temporary rows of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str], tuple[float, TemporaryRow]] = {}

    def get(self, kind: str, row_id: str) -> TemporaryRow | None:
        """Return a row, or None."""
        with self._lock:
            return self._living(kind, row_id)

    def scan(self, kind: str, prefix: str, *, after: str = "", limit: int) -> list[TemporaryRow]:
        """Return the first rows behind ``after``."""
        with self._lock:
            ids = sorted(name for of, name in self._rows if of == kind and name.startswith(prefix))
            rows = (self._living(kind, row_id) for row_id in ids if row_id > after)
            return [row for row in rows if row is not None][:limit]

    def put(self, row: TemporaryRow, *, replaces: int | None, extra: Sequence[TemporaryRow] = ()) -> bool:
        """Write all rows, or none."""
        with self._lock:
            held = self._living(row.kind, row.row_id)
            if (None if held is None else held.version) != replaces:
                return False
            now = self._now()
            for one in (row, *extra):
                self._rows[one.kind, one.row_id] = now + one.keep_seconds, one
            return True

    def remove(self, kind: str, prefix: str) -> None:
        """Remove rows by the prefix of their ids."""
        with self._lock:
            for key in [key for key in self._rows if key[0] == kind and key[1].startswith(prefix)]:
                del self._rows[key]

    def expire(self) -> int:
        """Remove the rows whose time is over."""
        with self._lock:
            over = [key for key, (until, _) in self._rows.items() if until <= self._now()]
            for key in over:
                del self._rows[key]
            return len(over)

    def _living(self, kind: str, row_id: str) -> TemporaryRow | None:
        until, row = self._rows.get((kind, row_id), (0.0, None))
        return row if until > self._now() else None

    def _now(self) -> float:
        return self._clock.now().timestamp()


class InMemorySegments:
    """A table of segments whose rows are dictionaries, behind the lock of their storage."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._heads: dict[str, SegmentHead] = {}
        self._parts: dict[PartName, bytes] = {}
        self._erasures: dict[str, int] = {}
        self.eraser: SegmentEraser | None = None

    def heads(self, namespace: str | None = None) -> list[SegmentHead]:
        """The segments by namespace, band, first snapshot and id."""
        with self._lock:
            found = [one for one in self._heads.values() if namespace in (None, one.namespace)]
        return sorted(found, key=lambda one: (one.namespace, one.band, one.first, one.segment_id))

    def parts(self, names: Sequence[PartName]) -> dict[PartName, bytes]:
        """The parts with these names."""
        with self._lock:
            return {name: self._parts[name] for name in names if name in self._parts}

    def put(self, head: SegmentHead, parts: Mapping[str, bytes], *, replaces: Sequence[str], at: int) -> bool:
        """Put a segment in the place of others."""
        with self._lock:
            erased = self._erasures.get(head.namespace, 0)
            if not may_put(head, self.heads(head.namespace), replaces=replaces, at=at, last_erasure=erased):
                return False
            self.drop(replaces)
            self._heads[head.segment_id] = head
            self._parts.update({(head.segment_id, name): content for name, content in parts.items()})
        return True

    def drop(self, segment_ids: Sequence[str]) -> None:
        """Remove segments."""
        with self._lock:
            for one in segment_ids:
                self._heads.pop(one, None)
            self._parts = {name: part for name, part in self._parts.items() if name[0] in self._heads}

    def last_erasure(self, namespace: str) -> int:
        """The newest snapshot that erased something indexed."""
        with self._lock:
            return self._erasures.get(namespace, 0)

    def erase(self, erasures: Sequence[Erasure], versions: Mapping[RecordKey, list[Version]]) -> None:
        """Take versions that were just erased out of segments."""
        indexed = [one for one in erasures if is_indexed(one.key)]
        erased = [
            (erasure.namespace, erasure.key, one.memory_snapshot_id)
            for erasure in indexed
            for one in versions.get((erasure.namespace, erasure.key), [])
            if one.erased_by == erasure.memory_snapshot_id
        ]
        with self._lock:
            parts, dropped = erased_from_segments(erased, self.heads(), self.eraser, self.parts)
            self._parts |= parts
            self.drop(dropped)
            self._erasures |= {one.namespace: one.memory_snapshot_id for one in indexed}
