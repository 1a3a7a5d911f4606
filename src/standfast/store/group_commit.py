"""Group commit: threads that submit at the same time share one transaction, and so one sync to the disk.

A caller that finds nobody at work becomes the leader: it does the work for itself and for all that arrive
meanwhile; the others wait for their answer. There is no background thread, and a lone caller pays nothing.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from standfast.limits import MAX_GROUP_COMMITS, MAX_GROUP_WAIT_SECONDS

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Waiter(Generic[Item, Answer]):
    """One waiting caller. Its ``gate`` opens when it is answered, or when it has to lead."""

    __slots__ = ("answer", "error", "gate", "item", "leads")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.leads = False
        self.gate = threading.Lock()
        self.gate.acquire()


class GroupCommit(Generic[Item, Answer]):
    """Runs ``work`` over batches of what callers submit. It returns one answer per item, in order."""

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Answer]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: list[_Waiter[Item, Answer]] = []
        self._busy = False
        self._last_batch_size = 1
        self._assembled: threading.Lock | None = None

    def submit(self, item: Item) -> Answer:
        """Return the answer for one item, which may be worked on together with others."""
        with self._lock:
            if not self._busy:
                self._busy = True
                waiter = None
            else:
                waiter = self._enqueue(item)
        if waiter is not None:
            try:
                waiter.gate.acquire()
            except BaseException:
                self._withdraw(waiter)
                raise
        if waiter is None or waiter.leads:
            return self._lead(item)
        if waiter.error is not None:
            raise waiter.error
        assert waiter.answer is not None
        return waiter.answer

    def _enqueue(self, item: Item) -> _Waiter[Item, Answer]:
        waiter: _Waiter[Item, Answer] = _Waiter(item)
        self._waiting.append(waiter)
        if self._assembled is not None and len(self._waiting) + 1 >= self._last_batch_size:
            self._assembled.release()
            self._assembled = None
        return waiter

    def _withdraw(self, waiter: _Waiter[Item, Answer]) -> None:
        """A waiting caller was interrupted. Nobody may wait for it; if it was to lead, the next does."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if waiter.leads:
            self._hand_over()

    def _lead(self, item: Item) -> Answer:
        """Work on the own item together with all that wait by now, then hand the lead over."""
        others: list[_Waiter[Item, Answer]] = []
        try:
            if self._last_batch_size > 1:
                self._await_last_batch()
            if self._waiting:
                with self._lock:
                    others = self._waiting[: MAX_GROUP_COMMITS - 1]
                    del self._waiting[: MAX_GROUP_COMMITS - 1]
            self._last_batch_size = 1 + len(others)
            own, *answers = self._work([item, *[waiter.item for waiter in others]])
            for waiter, answer in zip(others, answers, strict=True):
                waiter.answer = answer
        except BaseException as error:
            # Each caller of the batch raises it, in its own thread.
            for waiter in others:
                waiter.error = error
            raise
        finally:
            self._hand_over()
            for waiter in others:
                waiter.gate.release()
        return own

    def _await_last_batch(self) -> None:
        """Give the callers of the last batch a moment to come back, so that they share this one too.

        Otherwise the first to come back would pay for a sync alone while the others wait for the next one.
        The wait ends as soon as all of them are here.
        """
        with self._lock:
            if len(self._waiting) + 1 >= self._last_batch_size:
                return
            self._assembled = assembled = threading.Lock()
            assembled.acquire()
        assembled.acquire(timeout=MAX_GROUP_WAIT_SECONDS)
        with self._lock:
            self._assembled = None

    def _hand_over(self) -> None:
        """Make the first waiter the leader, if there is one."""
        with self._lock:
            self._busy = bool(self._waiting)
            if self._waiting:
                next_leader = self._waiting.pop(0)
                next_leader.leads = True
                next_leader.gate.release()
