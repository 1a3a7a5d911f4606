"""A run at store level: it reads its start snapshot, and writes into a buffer that nobody sees until it is committed."""

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from standfast.errors import CommitAborted, InvalidValue, NotAllowed, RunOver
from standfast.store.commit import Commit, Write
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Receipt, RunIdentity, VisibilityMode


class StoreRun:
    """What a run may see and write, by its visibility mode.

    ``off`` sees nothing and writes nothing. ``read_only`` reads its start snapshot. ``buffered_write`` also writes, into a
    buffer that is invisible to everyone, itself too, until ``commit``. ``live_read_write`` reads the newest state and
    commits each write at once; it is outside the determinism contract.

    As a context manager, leaving the block commits, and an exception discards.
    """

    def __init__(self, store: Store, run: RunIdentity, namespace: str) -> None:
        self.store = store
        self.run = run
        self.namespace = namespace
        self._writes: dict[str, Write] = {}
        self._over = False
        self._refused = 0
        self._lock = threading.RLock()

    @classmethod
    def open(
        cls,
        store: Store,
        *,
        workflow_id: str,
        policy_set_id: str,
        namespace: str = "default",
        mode: VisibilityMode = VisibilityMode.READ_ONLY,
        run_id: str | None = None,
    ) -> Self:
        """Start a run from the newest snapshot."""
        run = RunIdentity(
            run_id=run_id or store.ids.new_id(),
            workflow_id=workflow_id,
            memory_snapshot_id=store.head(),
            visibility_mode=mode,
            policy_set_id=policy_set_id,
        )
        return cls(store, run, namespace)

    @property
    def mode(self) -> VisibilityMode:
        """What this run may do."""
        return self.run.visibility_mode

    def read(self, keys: Sequence[str]) -> dict[str, Version]:
        """The records under these keys, as this run may see them."""
        return (
            {}
            if self.mode is VisibilityMode.OFF
            else self.store.read(self.namespace, keys, at=self._visible())
        )

    def scan(self) -> Iterator[Version]:
        """Every record that this run may see, by key."""
        return (
            iter(())
            if self.mode is VisibilityMode.OFF
            else self.store.scan(self.namespace, at=self._visible())
        )

    def _visible(self) -> int | None:
        return None if self.mode is VisibilityMode.LIVE_READ_WRITE else self.run.memory_snapshot_id

    def write(self, key: str, value: object) -> None:
        """Make a new record."""
        self._put(Write.of(self.namespace, key, ActionType.WRITE, value))

    def merge(self, key: str, value: object) -> None:
        """Put a new version on a record; the commit fails if the record changed since this run's snapshot."""
        self._put(Write.of(self.namespace, key, ActionType.MERGE, value))

    def expire(self, key: str) -> None:
        """End a record; the commit fails if the record changed since this run's snapshot."""
        self._put(Write.of(self.namespace, key, ActionType.EXPIRE))

    def _put(self, write: Write) -> None:
        if not self.mode.may_write:
            raise NotAllowed(mode=self.mode.value, operation=f"{write.action.lower()} records")
        with self._lock:
            self._refuse_if_over()
            if self.mode is VisibilityMode.LIVE_READ_WRITE:
                self._commit_live(write)
            elif write.key in self._writes:
                problem = f"{write.namespace}/{write.key} is written twice in one run; write it once, or use two runs"
                raise InvalidValue(what="Write", problem=problem)
            else:
                self._writes[write.key] = write

    def _commit_live(self, write: Write) -> None:
        """Commit one write at once. A refused one has used its commit id up; what follows goes by another name."""
        run_id = f"{self.run.run_id}#{self._refused}" if self._refused else self.run.run_id
        try:
            self.store.commit(self._commit_of([write], at=self.store.head(), run_id=run_id))
        except CommitAborted:
            self._refused += 1
            raise

    def pending_commit(self) -> Commit | None:
        """The commit that this run's buffer makes; None if nothing was written."""
        with self._lock:
            writes = list(self._writes.values())
            run = self.run
            return self._commit_of(writes, at=run.memory_snapshot_id, run_id=run.run_id) if writes else None

    def _commit_of(self, writes: list[Write], *, at: int, run_id: str) -> Commit:
        return Commit.of(
            run_id=run_id, memory_snapshot_id=at, policy_set_id=self.run.policy_set_id, writes=writes
        )

    def commit(self) -> Receipt | None:
        """Apply the buffer atomically; None if there was nothing to apply. Asking again gives the same receipt."""
        with self._lock:
            commit = self.pending_commit()
            self._over = True
            return None if commit is None else self.store.commit(commit)

    def discard(self) -> None:
        """Forget the buffer; nothing of it was ever visible."""
        with self._lock:
            self._writes.clear()
            self._over = True

    def _refuse_if_over(self) -> None:
        if self._over:
            raise RunOver(run_id=self.run.run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()
        elif not self._over:
            self.commit()
