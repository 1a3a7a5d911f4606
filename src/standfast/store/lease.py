"""Keeping a staged commit while something else happens: a lease that renews itself."""

import threading
from types import TracebackType
from typing import Self

from standfast.errors import StoreError
from standfast.limits import LEASE_RENEW_SECONDS
from standfast.store.protocol import Buffer
from standfast.store.store import Store


class Lease:
    """Renews a staged commit's lease from a thread of its own, as long as the block lasts.

    Losing it (``lost``) is no disaster: the fence keeps a late owner out. It only means that another worker may finish
    the commit now, and that this one will be told so by ``StaleFence``.
    """

    def __init__(self, store: Store, buffer: Buffer, *, renew_seconds: float = LEASE_RENEW_SECONDS) -> None:
        self.buffer = buffer
        self.lost: StoreError | None = None
        self._store = store
        self._renew_seconds = renew_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease-{buffer.commit_id[:8]}", daemon=True)

    def _renew(self) -> None:
        while not self._ended.wait(self._renew_seconds):
            try:
                self.buffer = self._store.renew(self.buffer)
            except StoreError as error:
                self.lost = error
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
