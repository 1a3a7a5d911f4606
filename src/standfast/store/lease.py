"""A lease on a staged commit that renews itself while something else happens."""

import threading
from typing import Self

from standfast.errors import StoreError
from standfast.limits import LEASE_RENEW_SECONDS
from standfast.store.protocol import Buffer
from standfast.store.store import Store


class Lease:
    """Keeps a staged commit while something else happens: a thread renews its lease in the block.

    If the lease is lost, ``lost`` holds the error. The fence still keeps a late owner out: another worker may
    finish the commit now, and this one gets ``StaleFence``.
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

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
