"""Single calls: ``remember`` and ``forget`` without a run that the caller sees.

Their caller has read nothing that it could rely on, so no conflict is the caller's: a call that lost against
another one is made again from the newest snapshot, in its turn, until it is done.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from standfast.govern.authority import checked_role
from standfast.govern.judge.secrecy import claim_of, redacted_text, require_no_secret
from standfast.limits import MAX_SINGLE_CALL_ATTEMPTS
from standfast.memory.commit_plan import JudgedCommit
from standfast.memory.erasing import Eraser, Forgotten
from standfast.memory.judging_cache import presence_of
from standfast.memory.request_judge import RequestJudge
from standfast.memory.retries import RetryLines
from standfast.memory.run import Run
from standfast.memory.run_dependencies import RunServices
from standfast.records.origins import Origin, checked_origin
from standfast.records.requests import ForgetRequest, RememberRequest
from standfast.records.vocabulary import Remembered


class SingleCalls:
    """The single calls of one memory.

    Args:
        lines: Who tries again first.
    """

    def __init__(self, services: RunServices, eraser: Eraser, lines: RetryLines) -> None:
        self._services = services
        self._eraser = eraser
        self._lines = lines

    def remember(
        self, request: RememberRequest, *, workflow: str, agent: str | None, max_origin: Origin | str
    ) -> Remembered:
        """Judge a text and commit it. Nobody sees a run, so there is none but for its identity.

        Everything is judged and planned before the write lock is taken.

        Args:
            workflow: Under which name the commit is made.
            agent: Whose own word the text is if it names no source; by default that of the workflow.
            max_origin: The most that the text may be trusted, whatever its source says.
        """
        checked_role(request.role)
        highest = checked_origin(max_origin, what="max_origin")
        author = workflow if agent is None else agent
        require_no_secret(agent=author)
        screened = claim_of(request)

        def attempt() -> Remembered:
            services, store = self._services, self._services.store
            head, presence = presence_of(store, services.namespace, screened)
            run = services.identity(None, workflow=workflow, at=head)
            judge = RequestJudge(services, run, agent=author, max_origin=highest, presence=presence)
            judged = judge.judge(request, screened)
            answer = judge.answer_to(judged)
            with services.budgets_lock():
                commit = JudgedCommit(
                    services,
                    [judged.judged],
                    {},
                    run=run,
                    has_new_ids=True,
                    is_unknown=True,
                    is_single_call=True,
                )
                receipt = commit.submit()
            if receipt is not None:
                services.reader.after_commit(receipt.memory_snapshot_id, erased={})
            return answer.with_fields(receipt=receipt)

        return self._lines.retry(attempt, key=_line_of(request), attempts=MAX_SINGLE_CALL_ATTEMPTS)

    def remember_in_run(self, request: RememberRequest, open_run: Callable[[], Run]) -> Remembered:
        """Judge a text and commit it, in a run that is recorded, or whose id the caller gave.

        Args:
            open_run: Opens a run from the newest snapshot, for one attempt.
        """

        def attempt() -> Remembered:
            with open_run() as run:
                answer = run.remember_request(request)
            # If another attempt committed first, its answer is the one that holds.
            (committed,) = run.answers or [answer]
            return msgspec.structs.replace(committed, receipt=run.receipt)

        return self._lines.retry(attempt, key=_line_of(request), attempts=MAX_SINGLE_CALL_ATTEMPTS)

    def forget(self, request: ForgetRequest, open_run: Callable[[], Run], *, by: str) -> Forgotten:
        """Erase one record, with the versions that the newest snapshot has of it.

        Args:
            open_run: Opens a run from the newest snapshot, for one attempt.
            by: Who asks.
        """
        reason = redacted_text(request.reason)
        request = ForgetRequest(subject=request.name, reason=reason, scope=request.place)
        traces_of = partial(self._eraser.traces_of, request.name, request.place, seen=set())
        removals = traces_of()

        def attempt() -> Forgotten:
            with open_run() as run:
                erased = run.forget_request(request, traces=len(removals))
            if run.receipt is None:
                return self._eraser.nothing_there(request, by=by)
            (committed,) = run.erased or [erased]
            return Forgotten(**run.receipt.as_json(), **committed.as_json())

        key = f"forget {request.place}//{request.name}"
        forgotten = self._lines.retry(attempt, key=key, attempts=MAX_SINGLE_CALL_ATTEMPTS)
        # A run may have stored its trace while this went on.
        for remove in (*removals, *traces_of()):
            remove()
        return forgotten


def _line_of(request: RememberRequest) -> str:
    """Callers that change one subject stand in one line."""
    return f"remember {request.place}//{request.subject or ''}"
