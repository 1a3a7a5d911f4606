"""Single calls: ``remember`` and ``forget`` without a run.

Their caller has read nothing that it could rely on, so no conflict is the caller's: a call that lost against
another one is made again from the newest snapshot, in its turn, until it is done.
"""

from collections.abc import Callable

import msgspec

from standfast.govern.judge.secrecy import redacted_text
from standfast.limits import MAX_SINGLE_CALL_ATTEMPTS
from standfast.memory.erasing import Eraser, Forgotten
from standfast.memory.retries import RetryLines
from standfast.memory.run import Run
from standfast.records.requests import ForgetRequest, RememberRequest
from standfast.records.vocabulary import Remembered


class SingleCalls:
    """The single calls of one memory.

    Args:
        lines: Who tries again first.
    """

    def __init__(self, eraser: Eraser, lines: RetryLines) -> None:
        self._eraser = eraser
        self._lines = lines

    def remember(self, request: RememberRequest, open_run: Callable[[], Run]) -> Remembered:
        """Judge a text and commit it.

        Args:
            open_run: Opens a run from the newest snapshot, for one attempt.
        """

        def attempt() -> Remembered:
            with open_run() as run:
                answer = run.remember_request(request)
            # If another attempt committed first, its answer is the one that holds.
            (committed,) = run.answers or [answer]
            return msgspec.structs.replace(committed, receipt=run.receipt)

        key = f"remember {request.place}//{request.subject or ''}"
        return self._lines.retry(attempt, key=key, attempts=MAX_SINGLE_CALL_ATTEMPTS)

    def forget(self, request: ForgetRequest, open_run: Callable[[], Run], *, by: str) -> Forgotten:
        """Erase one record, with the versions that the newest snapshot has of it.

        Args:
            open_run: Opens a run from the newest snapshot, for one attempt.
            by: Who asks.
        """
        reason = redacted_text(request.reason)
        request = ForgetRequest(subject=request.name, reason=reason, scope=request.place)
        removals = self._eraser.traces_of(request.name, request.place)

        def attempt() -> Forgotten:
            with open_run() as run:
                erased = run.forget_request(request, traces=len(removals))
            if run.receipt is None:
                return self._eraser.nothing_there(request, by=by)
            (committed,) = run.erased or [erased]
            return Forgotten(**run.receipt.as_json(), **committed.as_json())

        key = f"forget {request.place}//{request.name}"
        forgotten = self._lines.retry(attempt, key=key, attempts=MAX_SINGLE_CALL_ATTEMPTS)
        for remove in removals:
            remove()
        return forgotten
