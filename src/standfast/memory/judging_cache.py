"""What stands for every judgement: sealed law, and patterns. Read once, and kept until a commit touches it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from standfast.govern.judge.judge import JudgingContext
from standfast.store.commit import Commit
from standfast.store.protocol import RecordKey
from standfast.store.records import record_of
from standfast.store.store import Store
from standfast.vocabulary import Band, Receipt, Record

_VAULT: Final = f"{Band.VAULT}/"
_WITNESS: Final = f"{Band.WITNESS}/"


class _Kept(NamedTuple):
    """What every snapshot from the first to the last one shows alike."""

    first: int
    last: int
    seen: JudgingContext


class JudgingCache:
    """The law and the patterns of one namespace. Threads may share it; what it gives is what reading anew would give.

    Working out what law says costs in proportion to all of it, and nearly no commit changes any. Snapshots have no gaps, so
    that what did change can be told from the commits in between: this memory's own are seen as they are made, those of
    others are looked up.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._kept: _Kept | None = None

    def at(self, snapshot: int) -> JudgingContext:
        """What a judgement at a snapshot may look at, whatever its claim."""
        kept = self._kept
        if kept is not None and kept.last < snapshot and self._still_stands(kept, snapshot):
            kept = self._kept = kept._replace(last=snapshot)
        if kept is None or not kept.first <= snapshot <= kept.last:
            kept = _Kept(snapshot, snapshot, self._read(snapshot))
            self._kept = kept
        return kept.seen

    def saw(self, commit: Commit, receipt: Receipt) -> None:
        """Take note of a commit of this memory's own, so that it need not be looked up."""
        kept = self._kept
        if kept is not None and receipt.memory_snapshot_id == kept.last + 1:
            touched = self._touches(write.place for write in commit.writes)
            self._kept = None if touched else kept._replace(last=receipt.memory_snapshot_id)

    def _still_stands(self, kept: _Kept, snapshot: int) -> bool:
        # Following takes a look a commit, reading anew more than one a record: where there is less to read, it is read.
        if snapshot - kept.last > len(kept.seen.vault) + len(kept.seen.patterns):
            return False
        rows = self._store.versions_of
        return not any(
            self._touches((row.namespace, row.key) for row in rows(between))
            for between in range(kept.last + 1, snapshot + 1)
        )

    def _touches(self, places: Iterable[RecordKey]) -> bool:
        return any(
            namespace == self._namespace and key.startswith((_VAULT, _WITNESS)) for namespace, key in places
        )

    def _read(self, at: int) -> JudgingContext:
        return JudgingContext(
            vault=self._records(_VAULT, at), patterns=self._records(_WITNESS, at)
        ).precomputed()

    def _records(self, prefix: str, at: int) -> tuple[Record, ...]:
        return tuple(map(record_of, self._store.scan(self._namespace, prefix=prefix, at=at)))
