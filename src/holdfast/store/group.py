"""Group commit: threads that commit at the same time share one transaction, and so one sync.

Whoever finds nobody at work does the work, for itself and for all who arrive meanwhile; the others wait for their
answer. There is no background thread, and a lone committer pays nothing for it.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from holdfast.limits import MAX_GROUP_COMMITS

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class _Seat(Generic[Asked, Answered]):
    """One waiting caller: what it asked, and the lock that is released when it may go on."""

    __slots__ = ("answer", "asked", "done", "error", "gate")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answer: Answered | None = None
        self.error: BaseException | None = None
        self.done = False
        self.gate = threading.Lock()
        self.gate.acquire()


class Group(Generic[Asked, Answered]):
    """Runs ``work`` over batches of what its callers ask. ``work`` gives one answer for each question, in order."""

    def __init__(self, work: Callable[[Sequence[Asked]], Sequence[Answered]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: list[_Seat[Asked, Answered]] = []
        self._busy = False

    def ask(self, asked: Asked) -> Answered:
        """The answer to one question, alone or in company."""
        seat: _Seat[Asked, Answered] = _Seat(asked)
        with self._lock:
            self._waiting.append(seat)
            leads = not self._busy
            self._busy = True
        if not leads:
            seat.gate.acquire()
        if not seat.done:
            self._lead(seat)
        if seat.error is not None:
            raise seat.error
        assert seat.answer is not None
        return seat.answer

    def _lead(self, own: _Seat[Asked, Answered]) -> None:
        """Work until the own question is answered, then hand the lead to the first who still waits."""
        while not own.done:
            with self._lock:
                batch, self._waiting = self._waiting[:MAX_GROUP_COMMITS], self._waiting[MAX_GROUP_COMMITS:]
            self._answer(batch)
            for seat in batch:
                if seat is not own:
                    seat.gate.release()
        with self._lock:
            follower = self._waiting[0] if self._waiting else None
            self._busy = follower is not None
        if follower is not None:
            follower.gate.release()

    def _answer(self, batch: list[_Seat[Asked, Answered]]) -> None:
        try:
            for seat, answer in zip(batch, self._work([seat.asked for seat in batch]), strict=True):
                seat.answer = answer
        except BaseException as error:  # noqa: BLE001  # It is raised again in the thread of every caller.
            for seat in batch:
                seat.error = error
        for seat in batch:
            seat.done = True
