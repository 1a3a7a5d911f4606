"""Retries: who tries again first after a conflict.

Two runs that change one record conflict, and the later commit is aborted. Under a hot record, a run that only
tries again may lose many times. In ``RetryLines`` those who lost stand in line, and those who come after them
join the line at its end.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from standfast.clock import Clock
from standfast.errors import CommitAborted, InvalidValue
from standfast.limits import MAX_TURN_SECONDS, RETRY_WAIT_SECONDS
from standfast.records.vocabulary import AbortReason

_T = TypeVar("_T")


class RetryLines:
    """Lines of callers that retry, one for each key. Threads share it; other processes have their own.

    Between processes the wait before a retry shortens with each attempt, so that who waited longest is
    likeliest to go first.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn_over = threading.Condition()
        self._lines: dict[str, deque[object]] = {}

    def retry(self, attempt: Callable[[], _T], *, key: str, attempts: int) -> _T:
        """Call ``attempt`` until it does not conflict; see ``Memory.retry``."""
        _check_attempts(attempts)
        ticket = object()
        try:
            for number in range(1, attempts + 1):
                self._wait(key, ticket)
                try:
                    return attempt()
                except CommitAborted as error:
                    if number == attempts or not _is_conflict(error):
                        raise
                self._join(key, ticket)
                self._clock.sleep(RETRY_WAIT_SECONDS / number)
        finally:
            self._leave(key, ticket)
        raise AssertionError("the last attempt returns or raises")

    async def retry_async(self, attempt: Callable[[], Awaitable[_T]], *, key: str, attempts: int) -> _T:
        """Await ``attempt`` until it does not conflict; the event loop never waits for a turn."""
        _check_attempts(attempts)
        ticket = object()
        try:
            for number in range(1, attempts + 1):
                await asyncio.to_thread(self._wait, key, ticket)
                try:
                    return await attempt()
                except CommitAborted as error:
                    if number == attempts or not _is_conflict(error):
                        raise
                self._join(key, ticket)
                await asyncio.to_thread(self._clock.sleep, RETRY_WAIT_SECONDS / number)
        finally:
            self._leave(key, ticket)
        raise AssertionError("the last attempt returns or raises")

    def _leave(self, key: str, ticket: object) -> None:
        """Leave the line, if there is one."""
        if key not in self._lines:
            return
        with self._turn_over:
            line = self._lines.get(key)
            if line is not None and ticket in line:
                line.remove(ticket)
                if not line:
                    del self._lines[key]
                self._turn_over.notify_all()

    def _join(self, key: str, ticket: object) -> None:
        """Stand in line from now on; who is in it keeps the place."""
        with self._turn_over:
            line = self._lines.setdefault(key, deque())
            if ticket not in line:
                line.append(ticket)

    def _wait(self, key: str, ticket: object) -> None:
        """Wait for the turn, if there is a line.

        Who has the turn and takes too long for it loses its place, so that one caller follows it and not
        all who wait: many who try at once would only make each other fail.
        """
        if key not in self._lines:
            return
        with self._turn_over:
            line = self._lines.get(key)
            if line is None:
                return
            if ticket not in line:
                line.append(ticket)
            while ticket in line and (first := line[0]) is not ticket:
                is_over = partial(_is_over, line, first)
                if not self._turn_over.wait_for(is_over, timeout=MAX_TURN_SECONDS):
                    line.popleft()
                    self._turn_over.notify_all()


def _is_over(line: deque[object], first: object) -> bool:
    """Whether somebody else is the first of a line by now."""
    return not line or line[0] is not first


def _is_conflict(error: CommitAborted) -> bool:
    return bool(error.facts["reason_code"] == AbortReason.VALIDATION_FAILED)


def _check_attempts(attempts: int) -> None:
    if type(attempts) is not int or attempts < 1:
        raise InvalidValue(what="attempts", problem=f"it must be at least 1, not {attempts!r:.40}")
