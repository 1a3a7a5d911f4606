"""GroupCommit commit: threads that commit at the same time share one transaction, and so one sync.

Whoever finds nobody at work does the work, for itself and for all who arrive meanwhile; the others wait for their
answer. There is no background thread, and a lone committer pays nothing for it.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from standfast.limits import MAX_COMPANY_SECONDS, MAX_GROUP_COMMITS

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class _Seat(Generic[Asked, Answered]):
    """One waiting caller: what it asked, and the gate that opens when it is answered or has to lead."""

    __slots__ = ("answer", "asked", "error", "gate", "leads")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answer: Answered | None = None
        self.error: BaseException | None = None
        self.leads = False
        self.gate = threading.Lock()
        self.gate.acquire()


class GroupCommit(Generic[Asked, Answered]):
    """Runs ``work`` over batches of what its callers ask. ``work`` gives one answer for each question, in order."""

    def __init__(self, work: Callable[[Sequence[Asked]], Sequence[Answered]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: list[_Seat[Asked, Answered]] = []
        self._busy = False
        self._company = 1
        self._assembled: threading.Lock | None = None

    def submit(self, asked: Asked) -> Answered:
        """The answer to one question, alone or in company."""
        with self._lock:
            if not self._busy:
                self._busy = True
                seat = None
            else:
                seat = self._take_seat(asked)
        if seat is not None:
            try:
                seat.gate.acquire()
            except BaseException:
                self._give_up(seat)
                raise
        if seat is None or seat.leads:
            return self._lead(asked)
        if seat.error is not None:
            raise seat.error
        assert seat.answer is not None
        return seat.answer

    def _take_seat(self, asked: Asked) -> _Seat[Asked, Answered]:
        seat: _Seat[Asked, Answered] = _Seat(asked)
        self._waiting.append(seat)
        if self._assembled is not None and len(self._waiting) + 1 >= self._company:
            self._assembled.release()
            self._assembled = None
        return seat

    def _give_up(self, seat: _Seat[Asked, Answered]) -> None:
        """A waiting caller was interrupted: nobody may wait for it, or get the lead through it."""
        with self._lock:
            if seat in self._waiting:
                self._waiting.remove(seat)
        if seat.leads:
            self._hand_on()

    def _lead(self, asked: Asked) -> Answered:
        """Answer the own question together with all that wait by now, then hand the lead on."""
        others: list[_Seat[Asked, Answered]] = []
        try:
            if self._company > 1:
                self._await_company()
            if self._waiting:
                with self._lock:
                    others = self._waiting[: MAX_GROUP_COMMITS - 1]
                    del self._waiting[: MAX_GROUP_COMMITS - 1]
            self._company = 1 + len(others)
            own, *answers = self._work([asked, *[seat.asked for seat in others]])
            for seat, answer in zip(others, answers, strict=True):
                seat.answer = answer
        except BaseException as error:
            # Everybody in the batch hears of it, each in its own thread.
            for seat in others:
                seat.error = error
            raise
        finally:
            self._hand_on()
            for seat in others:
                seat.gate.release()
        return own

    def _await_company(self) -> None:
        """Give those who shared the last batch a moment to come back, so that they share this one too.

        Without it the first to come back would pay a sync alone while the others wait for the next. It ends as soon
        as they are here.
        """
        with self._lock:
            if len(self._waiting) + 1 >= self._company:
                return
            self._assembled = assembled = threading.Lock()
            assembled.acquire()
        assembled.acquire(timeout=MAX_COMPANY_SECONDS)
        with self._lock:
            self._assembled = None

    def _hand_on(self) -> None:
        """Give the lead to the first who waits, or to nobody."""
        with self._lock:
            self._busy = bool(self._waiting)
            if self._waiting:
                follower = self._waiting.pop(0)
                follower.leads = True
                follower.gate.release()
