"""The ledger of a memory: signed checkpoints, receipts, and what vouches for its newest entry."""

import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec

from standfast.errors import InvalidValue, StandfastError
from standfast.govern.audit import problems_of_governance
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.ledger.notary import LedgerTail, Notary, problems_of_ledger
from standfast.ledger.note import VerifyingKey
from standfast.recall.index.upkeep import problems_of_index
from standfast.store.protocol import Progress
from standfast.store.store import Store


class MemoryLedger:
    """The ledger of a store, and the notary that signs it, if there is one. Threads may share it.

    Args:
        warn: Takes what failed after something was applied.
    """

    def __init__(self, store: Store, notary: Notary | None, *, warn: Callable[[str], None]) -> None:
        self.notary = notary
        self._store = store
        self._warn = warn
        self._head_at_opening = store.head()
        self._opened_tail = _tail_at_opening(store, self._head_at_opening)
        self._lock = threading.Lock()

    def verify(
        self,
        checkpoints: Sequence[str] = (),
        public_keys: Sequence[VerifyingKey] = (),
        *,
        progress: Progress | None = None,
    ) -> Iterator[str]:
        """Check storage, ledger, signed checkpoints, commits, evidence, seals, the stored index, and what
        vouches for the newest entry.

        Yields one message per problem; nothing if all is intact.

        Args:
            checkpoints: Signed checkpoints that you kept elsewhere; the ledger must be a later state of each.
            public_keys: The keys that may have signed those.
            progress: Called with the snapshots checked and with all.
        """
        notes, keys, torn = self.checkpoints()
        yield from (f"line {number} of the checkpoints is torn" for number in torn)
        yield from self._store.verify(notes, keys, progress=progress)
        yield from problems_of_governance(self._store)
        yield from problems_of_index(self._store)
        yield from self._contradictions(checkpoints, public_keys)
        if problem := self.tail(checkpoints, public_keys).problem:
            yield problem

    def checkpoint(self) -> str | None:
        """Sign the ledger's head and store the checkpoint outside the store.

        Returns None without a notary.
        """
        with self._lock:
            return None if self.notary is None else self.notary.checkpoint()

    def receipt(self, ledger_seq: int) -> InclusionReceipt:
        """Return the proof that an entry is in the ledger. It can be checked with only the public key."""
        if self.notary is None:
            raise InvalidValue(
                what="Memory", problem="it has no notary; open it with notary=… to issue receipts"
            )
        with self._lock:
            return self.notary.receipt(ledger_seq)

    def tail(self, checkpoints: Sequence[str] = (), public_keys: Sequence[VerifyingKey] = ()) -> LedgerTail:
        """What vouches for the newest entry of the ledger: its own checkpoints, those that were kept
        elsewhere, and the head file. The arguments are those of ``verify``.

        Without any of the three, as in a store in memory, nothing is asked to.
        """
        opened = self._opened_tail
        if self.notary is None and not checkpoints and self._store.acknowledged is None:
            opened = msgspec.structs.replace(opened, opened_seq=0)
        newest = opened.newest_seq
        for entry in self._store.entries(after=newest):
            newest = entry.seq
        notes, keys, _ = self.checkpoints()
        return opened.signed(newest, [*notes, *checkpoints], [*keys, *public_keys], self._store.branches())

    def checkpoints(self) -> tuple[Sequence[str], Sequence[VerifyingKey], Sequence[int]]:
        """The log's own checkpoints, the keys that signed them, and the lines of their file that can't be
        read.
        """
        return ((), (), ()) if self.notary is None else self.notary.checkpoints()

    def _contradictions(
        self, checkpoints: Sequence[str], public_keys: Sequence[VerifyingKey]
    ) -> Iterator[str]:
        """Yield how the ledger contradicts checkpoints that were kept elsewhere."""
        if checkpoints:
            entries, branches = self._store.entries(), self._store.branches()
            found = problems_of_ledger(entries, checkpoints, public_keys, branches)
            yield from (f"kept {problem}" for problem in found if problem.startswith("checkpoint"))

    def sign_at_close(self) -> None:
        """Sign the head if it moved, or if another process ended before it signed.

        If that fails, it is a warning.
        """
        if self.notary is None:
            return
        has_written = True
        try:
            has_written = self._store.head() != self._head_at_opening
            if has_written or self.notary.is_behind():
                self.checkpoint()
        except StandfastError as error:
            # A caller that only read gets no warning about what others left unsigned; ``verify`` reports it.
            if has_written:
                self._warn(f"Everything is stored, but the ledger's head could not be signed: {error}")


def _tail_at_opening(store: Store, head: int) -> LedgerTail:
    """The end of the ledger now, and how far the store's head file vouches for it."""
    last = store.commit_of(head).ledger_seq if head else 0
    for entry in store.entries(after=last):
        last = entry.seq
    acknowledged = store.acknowledged
    return LedgerTail(
        newest_seq=last,
        opened_seq=last,
        acknowledged_seq=0 if acknowledged is None else min(last, acknowledged.seq),
    )
