"""Signing the ledger's head: checkpoints on request and when a memory closes, and proofs that entries are in the ledger."""

import threading
from collections.abc import Callable

from standfast.errors import InvalidValue, StandfastError
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.ledger.notary import Notary
from standfast.store.store import Store


class LedgerSigner:
    """A store and the notary that signs its ledger, if there is one. Threads may share it.

    Args:
        warn: Takes what failed after something was applied.
    """

    def __init__(self, store: Store, notary: Notary | None, *, warn: Callable[[str], None]) -> None:
        self.notary = notary
        self._store = store
        self._warn = warn
        self._head_at_opening = store.head()
        self._lock = threading.Lock()

    def checkpoint(self) -> str | None:
        """Sign the ledger's head; None without a notary."""
        with self._lock:
            return None if self.notary is None else self.notary.checkpoint()

    def receipt(self, ledger_seq: int) -> InclusionReceipt:
        """The proof that an entry is in the ledger."""
        if self.notary is None:
            raise InvalidValue(
                what="Memory", problem="it has no notary; open it with notary=… to issue receipts"
            )
        with self._lock:
            return self.notary.receipt(ledger_seq)

    def sign_at_close(self) -> None:
        """Sign the head if it moved, or if another process ended before it signed. If that fails, it is a warning."""
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
