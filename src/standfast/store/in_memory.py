"""The store in memory: for tests, yours and ours. It keeps every promise but to survive the process."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from standfast.clock import Clock
from standfast.ledger.chain import Entry, Tip
from standfast.store.protocol import (
    BEHIND_ALL_KEYS,
    AppliedCommit,
    Buffer,
    Changes,
    Erasure,
    RecordKey,
    StateQuery,
    StateView,
    Version,
)
from standfast.vocabulary import BufferState


class InMemoryStorage:
    """A backend whose rows are lists and dictionaries behind one lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._versions: dict[RecordKey, list[Version]] = {}
        self._by_snapshot: list[list[Version]] = []
        self._applied: list[AppliedCommit] = []
        self._applied_by_id: dict[str, AppliedCommit] = {}
        self._entries: list[Entry] = []
        self._buffers: dict[str, Buffer] = {}

    @contextmanager
    def transaction(self) -> Iterator["InMemoryStorage"]:
        """One writer at a time; ``append`` is the last step, so that an error before it leaves nothing behind."""
        with self._lock:
            yield self

    def load(self, question: StateQuery) -> StateView:
        """See what the question asks for."""
        now = self._clock.now().timestamp()
        applied, buffers = self.find(question.commit_ids)
        if question.abandoned:
            buffers |= {buffer.commit_id: buffer for buffer in self._abandoned(now)[: question.abandoned]}
        return StateView(
            now=now,
            head=len(self._applied),
            tip=self._entries[-1].tip if self._entries else Tip(),
            applied=applied,
            buffers=buffers,
            latest={place: self._versions[place][-1] for place in question.places if place in self._versions},
            commit_of=lambda snapshot: self._applied[snapshot - 1].commit_id,
        )

    def append(self, changes: Changes) -> None:
        """Add the rows."""
        for applied in changes.applied:
            self._applied.append(applied)
            self._applied_by_id[applied.commit_id] = applied
            self._by_snapshot.append([])
        for version in changes.versions:
            self._versions.setdefault((version.namespace, version.key), []).append(version)
            self._by_snapshot[version.memory_snapshot_id - 1].append(version)
        for erasure in changes.erasures:
            self._erase(erasure)
        self._entries.extend(changes.entries)
        self._buffers.update({buffer.commit_id: buffer for buffer in changes.buffers})
        for commit_id in changes.dropped:
            self._buffers.pop(commit_id, None)

    def _erase(self, erasure: Erasure) -> None:
        versions = self._versions.get((erasure.namespace, erasure.key), [])
        for index, version in enumerate(versions):
            if version.content is None or version.memory_snapshot_id >= erasure.memory_snapshot_id:
                continue
            bare = msgspec.structs.replace(version, content=None, erased_by=erasure.memory_snapshot_id)
            versions[index] = bare
            made = self._by_snapshot[version.memory_snapshot_id - 1]
            made[made.index(version)] = bare

    def _abandoned(self, now: float) -> list[Buffer]:
        waiting = (
            buffer
            for buffer in self._buffers.values()
            if buffer.state is not BufferState.ABORTED
            and buffer.waits_for is None
            and buffer.lease_until <= now
        )
        return sorted(waiting, key=lambda buffer: (buffer.lease_until, buffer.commit_id))

    def head(self) -> int:
        """The newest snapshot."""
        with self._lock:
            return len(self._applied)

    def versions_at(self, namespace: str, keys: Sequence[str], at: int) -> dict[str, Version]:
        """For each key that has one, its newest version not newer than ``at``."""
        with self._lock:
            found = {key: self._at(self._versions.get((namespace, key), []), at) for key in keys}
        return {key: version for key, version in found.items() if version is not None}

    @staticmethod
    def _at(versions: list[Version], at: int) -> Version | None:
        return next((version for version in reversed(versions) if version.memory_snapshot_id <= at), None)

    def scan(self, namespace: str, at: int, *, after: str, prefix: str = "", limit: int) -> list[Version]:
        """What a snapshot shows in a namespace, by key."""
        with self._lock:
            before = prefix + BEHIND_ALL_KEYS
            keys = sorted(key for held, key in self._versions if held == namespace and after < key < before)
            found = (self._at(self._versions[namespace, key], at) for key in keys)
            return [version for version in found if version is not None][:limit]

    def history(self, namespace: str, key: str) -> list[Version]:
        """Every version of one record, oldest first."""
        with self._lock:
            return list(self._versions.get((namespace, key), []))

    def snapshot_rows(self, memory_snapshot_id: int) -> list[Version]:
        """The versions that one commit made."""
        with self._lock:
            known = 0 < memory_snapshot_id <= len(self._by_snapshot)
            return list(self._by_snapshot[memory_snapshot_id - 1]) if known else []

    def find(self, commit_ids: Sequence[str]) -> tuple[dict[str, AppliedCommit], dict[str, Buffer]]:
        """What is known of these commits."""
        with self._lock:
            applied = {name: self._applied_by_id[name] for name in commit_ids if name in self._applied_by_id}
            return applied, {name: self._buffers[name] for name in commit_ids if name in self._buffers}

    def applied(self, *, after: int, limit: int) -> list[AppliedCommit]:
        """Commits in snapshot order."""
        with self._lock:
            return self._applied[after : after + limit]

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """Ledger entries in order."""
        with self._lock:
            return self._entries[after : after + limit]

    def namespaces(self) -> list[str]:
        """Every namespace that ever held a record."""
        with self._lock:
            return sorted({namespace for namespace, _ in self._versions})

    def reset(self) -> None:
        """Nothing is ever unclear in memory."""

    def check(self) -> Iterator[str]:
        """There is nothing below the rows."""
        return iter(())

    def rebuild(self) -> None:
        """Nothing here is derived."""

    def close(self) -> None:
        """There is nothing to let go of."""
