"""Runs that clients hold open between requests.

They belong to one API key, are bounded, and any server carries them on.

What each call did is written to the store's journal before the call is answered. A run is held in memory too,
but that is only a cache: before each call it takes over what other servers did in it. So the requests of one
run may go to any server of the store, and a server that is stopped or killed costs a retry of the request
that it did not answer.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from standfast.errors import (
    AccessError,
    CommitAborted,
    InvalidValue,
    NotFound,
    Overloaded,
    PayloadMismatch,
    RunOver,
)
from standfast.govern.judge.secrecy import redacted_json
from standfast.limits import (
    MAX_ATTEMPTS,
    MAX_REBASES,
    MAX_RUN_BYTES,
    MAX_RUN_ITEMS,
    MAX_RUN_RECALLED_BYTES,
    MAX_RUNS_HELD,
    MAX_TRACE_BYTES,
    MAX_TRACE_RESULT_BYTES,
    RUN_IDLE_SECONDS,
)
from standfast.memory import Memory, Run
from standfast.memory.idempotency import IdempotencyRecord, fingerprint_of_call
from standfast.memory.run_step import FORGET, RECALL, RECORD, REMEMBER, RunStep
from standfast.records.requests import RecallRequest, RememberRequest
from standfast.server.access.permissions import Caller, Permission
from standfast.server.access.scope_limits import own_scope
from standfast.server.http.run_journal import JournaledCall, RunHead, RunJournal, row_id_of
from standfast.server.operations import memory_operations, schemas
from standfast.server.operations.gateway import Gateway
from standfast.traces.artifact import ModelConfig
from standfast.traces.entries import GapEntry, TraceEntry

_T = TypeVar("_T")
_GONE: Final = "such open run; it may have expired, so open it again"
_TRACE_FULL: Final = TraceEntry(
    gap=GapEntry(code="trace_full", problem=f"more than {MAX_TRACE_BYTES} bytes were recorded")
)


@dataclass(frozen=True, slots=True)
class _Request:
    """A writing call: its idempotency key within the run, and what makes it the same call."""

    key: str | None
    call: list[Any]
    size_bytes: int

    @property
    def fingerprint(self) -> str:
        return fingerprint_of_call(self.call)


@dataclass(slots=True)
class _OpenRun:
    """A run as this process knows it."""

    row_id: str
    head: RunHead
    run: Run
    used_at: float
    calls: list[JournaledCall] = field(default_factory=list)
    by_request_key: dict[str, JournaledCall] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_over(self, head: RunHead, calls: list[JournaledCall]) -> None:
        """Note calls that are in the journal."""
        self.head = head
        self.calls += calls
        self.by_request_key |= {call.request_key: call for call in calls if call.request_key is not None}

    def count(self, *verbs: str) -> int:
        """How many calls of these kinds it has."""
        return sum(step.verb in verbs for step in self.run.steps or ())

    def held_bytes(self, *verbs: str) -> int:
        """The size of its calls of these kinds."""
        return sum(call.size_bytes for call in self.calls if call.step.verb in verbs)

    def require_open(self) -> None:
        """Raise ``RunOver`` if the run is being committed."""
        if self.head.is_sealed:
            raise RunOver(run_id=self.head.identity.run_id)

    def require_room(self, verb: str, size_bytes: int) -> None:
        """Raise ``InvalidValue`` if the run is full."""
        self.require_open()
        size_bytes += self.held_bytes(*((RECALL,) if verb == RECALL else (REMEMBER, FORGET)))
        limit_bytes = MAX_RUN_RECALLED_BYTES if verb == RECALL else MAX_RUN_BYTES
        is_item = verb in (REMEMBER, FORGET)
        if size_bytes > limit_bytes or (is_item and self.count(REMEMBER, FORGET) >= MAX_RUN_ITEMS):
            problem = (
                f"it holds at most {MAX_RUN_ITEMS} items of {MAX_RUN_BYTES} bytes, and recalls at most "
                f"{MAX_RUN_RECALLED_BYTES} bytes; commit it and open another"
            )
            raise InvalidValue(what="run", problem=problem)

    @property
    def is_trace_full(self) -> bool:
        """Whether the trace has said that no more of the run is recorded."""
        return any(
            step.verb == RECORD and step.asked == _TRACE_FULL.as_json() for step in self.run.steps or ()
        )

    def fitted(self, entry: TraceEntry) -> TraceEntry:
        """An entry as there is room for it: whole, without the result of its tool, or as a gap.

        A run never fails because of what is recorded of it.
        """
        held_bytes, own_bytes = self.held_bytes(RECORD), len(msgspec.json.encode(entry))
        if entry.tool is not None and held_bytes + own_bytes > MAX_TRACE_RESULT_BYTES:
            entry = TraceEntry(tool=entry.tool.fingerprinted(redacted_json))
            own_bytes = len(msgspec.json.encode(entry))
        return entry if held_bytes + own_bytes <= MAX_TRACE_BYTES else _TRACE_FULL

    def response(self) -> schemas.RunResponse:
        identity = self.run.identity
        return schemas.RunResponse(
            run_id=identity.run_id,
            workflow=identity.workflow_id,
            mode=identity.visibility_mode,
            memory_snapshot_id=identity.memory_snapshot_id,
            remembered=self.count(REMEMBER),
            forgotten=self.count(FORGET),
            recorded=self.count(RECORD),
        )


class OpenRuns:
    """The open runs of a store. Safe to share between threads."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clock = gateway.clock
        self._ids = gateway.store.ids
        self._journal = RunJournal(gateway.store.temporary, clock=self._clock, ids=self._ids)
        self._held: OrderedDict[str, _OpenRun] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def open(
        self, caller: Caller, namespace: str, body: schemas.OpenRunBody, request_key: str | None
    ) -> schemas.RunResponse:
        """Open a run. If the idempotency key has opened one already, return that one."""
        memory = self._gateway.authorize(caller, Permission.OPEN_RUN, namespace)
        scope = own_scope(caller, Permission.OPEN_RUN, body.scope)
        idempotency = request_key and IdempotencyRecord.of(
            caller.key_id, namespace, request_key, ["open", body.as_json()]
        )
        run = memory.run(
            workflow=body.workflow,
            mode=body.mode,
            scope=scope,
            agent=caller.name,
            run_id=idempotency.run_id if idempotency else None,
            max_origin=caller.origin,
            model=body.model,
        )
        run.resume(())
        model = None if body.model is None else ModelConfig.from_json(redacted_json(body.model.as_json()))
        head = self._journal.open(
            caller.key_id,
            namespace,
            run.identity,
            agent=caller.name,
            is_idempotent=bool(idempotency),
            max_origin=run.max_origin,
            model=model,
        )
        known = head.identity
        opened_with = known.workflow_id, known.visibility_mode, known.scope, head.model
        if opened_with != (body.workflow, run.identity.visibility_mode, scope, model):
            raise AccessError("request_reused", request_key=request_key)
        row_id = row_id_of(caller.key_id, namespace, run.identity.run_id)
        if head.identity == run.identity and head.calls == 0:
            return self._hold(_OpenRun(row_id, head, run, self._clock.monotonic())).response()
        return self._use(row_id, memory, _OpenRun.response)

    def show(self, caller: Caller, namespace: str, run_id: str) -> schemas.RunResponse:
        """Return an open run."""
        memory = self._gateway.authorize(caller, Permission.GET_RUN, namespace)
        return self._use(row_id_of(caller.key_id, namespace, run_id), memory, _OpenRun.response)

    def recall(
        self, caller: Caller, namespace: str, run_id: str, body: RecallRequest
    ) -> schemas.RecallResponse:
        """Recall from the run's snapshot."""
        memory = self._gateway.authorize(caller, Permission.RECALL, namespace)

        def work(opened: _OpenRun) -> schemas.RecallResponse:
            opened.require_room(RECALL, 0)
            return memory_operations.recall_in(opened.run, caller, body)

        return self._use(row_id_of(caller.key_id, namespace, run_id), memory, work)

    def remember(
        self,
        caller: Caller,
        namespace: str,
        run_id: str,
        body: RememberRequest,
        request_key: str | None = None,
    ) -> schemas.RememberResponse:
        """Judge one text, and buffer it until the run commits."""
        memory = self._gateway.authorize(caller, memory_operations.remember_permission(body), namespace)
        size_bytes = len(body.text.encode())

        def work(opened: _OpenRun) -> schemas.RememberResponse:
            opened.require_room(REMEMBER, size_bytes)
            response = memory_operations.remember_in(opened.run, caller, body)
            self._gateway.metrics.wrote(namespace, [response.verdict])
            return response

        def repeated(_: _OpenRun, step: RunStep) -> schemas.RememberResponse:
            assert step.answer is not None, "every text that is remembered gets an answer"
            return schemas.RememberResponse.of(step.answer)

        request = _Request(request_key, [REMEMBER, body.as_json()], size_bytes)
        return self._call(row_id_of(caller.key_id, namespace, run_id), memory, request, work, repeated)

    def forget(
        self,
        caller: Caller,
        namespace: str,
        run_id: str,
        body: schemas.ForgetInRunBody,
        request_key: str | None = None,
    ) -> schemas.ForgetResponse:
        """Forget a subject when the run commits."""
        memory = self._gateway.authorize(caller, Permission.FORGET, namespace)
        size_bytes = len(body.name.encode())

        def work(opened: _OpenRun) -> schemas.ForgetResponse:
            opened.require_room(FORGET, size_bytes)
            return memory_operations.forget_in(opened.run, caller, body)

        request = _Request(request_key, [FORGET, body.as_json()], size_bytes)
        answer = schemas.ForgetResponse(subject=body.name)
        return self._call(
            row_id_of(caller.key_id, namespace, run_id), memory, request, work, lambda *_: answer
        )

    def record(
        self, caller: Caller, namespace: str, run_id: str, body: TraceEntry, request_key: str | None = None
    ) -> schemas.RunResponse:
        """Add an entry to the run's trace: an event, a tool call, a guardrail, the output."""
        memory = self._gateway.authorize(caller, Permission.OPEN_RUN, namespace)

        def work(opened: _OpenRun) -> schemas.RunResponse:
            opened.require_open()
            if not opened.is_trace_full:
                opened.run.record(opened.fitted(body))
            return opened.response()

        row_id = row_id_of(caller.key_id, namespace, run_id)
        request = _Request(request_key, [RECORD, redacted_json(body.as_json())], 0)
        return self._call(row_id, memory, request, work, lambda opened, _: opened.response())

    def commit(self, caller: Caller, namespace: str, run_id: str) -> schemas.CommitResponse:
        """Commit the run.

        Repeating the call returns the same response, from any server and after a restart.
        """
        memory = self._gateway.authorize(caller, Permission.COMMIT, namespace)
        idempotency = IdempotencyRecord.of(
            caller.key_id, namespace, f"commit of {run_id}", ["commit", run_id]
        )
        row_id = row_id_of(caller.key_id, namespace, run_id)
        if earlier := idempotency.stored_answer(memory.store):
            self._end(row_id)
            return schemas.CommitResponse(run_id=run_id, receipt=earlier.receipt)
        if self._journal.head(row_id) is None and self._journal.was_empty(row_id):
            return schemas.CommitResponse(run_id=run_id)
        opened = self._sealed(row_id, memory)
        try:
            with opened.lock:
                receipt = opened.run.commit(extra_writes=[idempotency.write({}, opened.run.identity)])
        except (CommitAborted, PayloadMismatch):
            # This run is over, but an earlier call may have repeated and committed the same run.
            self._end(row_id)
            if earlier := idempotency.stored_answer(memory.store):
                return schemas.CommitResponse(run_id=run_id, receipt=earlier.receipt)
            raise
        self._gateway.metrics.wrote(namespace, receipts=[receipt])
        if receipt is None:
            self._journal.note_empty(row_id)
        self._end(row_id)
        return schemas.CommitResponse(run_id=run_id, receipt=receipt)

    def discard(self, caller: Caller, namespace: str, run_id: str) -> schemas.RunResponse:
        """Discard an open run. None of its writes were visible to anyone."""
        memory = self._gateway.authorize(caller, Permission.DISCARD, namespace)
        row_id = row_id_of(caller.key_id, namespace, run_id)

        def work(opened: _OpenRun) -> schemas.RunResponse:
            opened.run.discard()
            return opened.response()

        response = self._use(row_id, memory, work)
        self._end(row_id)
        return response

    def expire(self) -> None:
        """Remove the runs that have been idle for too long."""
        limit = self._clock.monotonic() - RUN_IDLE_SECONDS
        with self._lock:
            for row_id in [row_id for row_id, opened in self._held.items() if opened.used_at < limit]:
                del self._held[row_id]
        self._journal.expire()

    # The journal is the truth, and what is held in memory follows it.

    def _call(
        self,
        row_id: str,
        memory: Memory,
        request: _Request,
        work: Callable[[_OpenRun], _T],
        repeated: Callable[[_OpenRun, RunStep], _T],
    ) -> _T:
        """Make a writing call, or answer it as it was answered when it came first with this key."""

        def once(opened: _OpenRun) -> _T:
            known = opened.by_request_key.get(request.key or "")
            if known is None:
                return work(opened)
            if known.request != request.fingerprint:
                raise AccessError("request_reused", request_key=request.key)
            return repeated(opened, known.step)

        return self._use(row_id, memory, once, request)

    def _use(
        self, row_id: str, memory: Memory, work: Callable[[_OpenRun], _T], request: _Request | None = None
    ) -> _T:
        """Do something with an open run of the caller, and journal what it did before it is answered."""
        for attempt in range(MAX_REBASES):
            # Others call too; the more attempts failed, the longer the wait, so that each gets its turn.
            self._clock.sleep(0.002 * attempt)
            opened = self._find(row_id, memory)
            with opened.lock:
                try:
                    if not self._catch_up(opened):
                        continue
                    answer = work(opened)
                    if self._journal_steps(opened, request):
                        return answer
                finally:
                    if len(opened.run.steps or ()) != len(opened.calls):
                        # Something was done that is not in the journal, or may not be.
                        self._drop(opened)
        raise Overloaded(what="other calls of this run")

    def _journal_steps(self, opened: _OpenRun, request: _Request | None) -> bool:
        """Write the run's new steps to the journal. False if another server wrote its own first."""
        steps = (opened.run.steps or [])[len(opened.calls) :]
        if not steps:
            return True
        calls = [self._journaled(step, request) for step in steps]
        head = self._journal.add(opened.row_id, opened.head, calls)
        if head is None:
            written = self._journal.head(opened.row_id)
            after = opened.head.calls
            found = [] if written is None else self._journal.calls(opened.row_id, written, after=after)
            # After a lost connection, what is there may be what was just written.
            if written is None or [one.call_id for one in found] != [one.call_id for one in calls]:
                return False
            head = written
        opened.take_over(head, calls)
        return True

    def _journaled(self, step: RunStep, request: _Request | None) -> JournaledCall:
        if request is None:
            size_bytes = sum(len(excerpt.encode()) for _, _, excerpt in step.recalled)
            return JournaledCall(call_id=self._ids.new_id(), step=step, size_bytes=size_bytes)
        is_recorded = step.verb == RECORD
        return JournaledCall(
            call_id=self._ids.new_id(),
            step=step,
            size_bytes=len(msgspec.json.encode(step.asked)) if is_recorded else request.size_bytes,
            request_key=request.key,
            request="" if request.key is None else request.fingerprint,
        )

    def _sealed(self, row_id: str, memory: Memory) -> _OpenRun:
        """A run with all its calls, to which no server can add another one."""
        for _ in range(MAX_ATTEMPTS):
            opened = self._find(row_id, memory)
            with opened.lock:
                if not self._catch_up(opened):
                    continue
                head = self._journal.seal(row_id, opened.head)
                if head is not None:
                    opened.head = head
                    return opened
        raise Overloaded(what="other calls of this run")

    def _catch_up(self, opened: _OpenRun) -> bool:
        """Take over what other servers did. False if this is not the run that is open now.

        Nor is it if a call that waited for the lock before did something here that is not in the journal.
        """
        head = self._journal.head(opened.row_id)
        is_whole = len(opened.run.steps or ()) == len(opened.calls)
        if head is None or head.opening != opened.head.opening or not is_whole:
            self._drop(opened)
            return False
        if head.calls > opened.head.calls:
            calls = self._journal.calls(opened.row_id, head, after=opened.head.calls)
            if len(calls) != head.calls - opened.head.calls:
                # It was closed in between, or its oldest calls have expired.
                self._end(opened.row_id)
                return False
            opened.run.resume([call.step for call in calls])
            opened.take_over(head, calls)
        opened.head = head
        opened.used_at = self._clock.monotonic()
        return True

    def _find(self, row_id: str, memory: Memory) -> _OpenRun:
        """The run, from memory or from the journal. To other callers it looks as if it did not exist."""
        with self._lock:
            held = self._held.get(row_id)
            if held is not None:
                self._held.move_to_end(row_id)
                return held
        head = self._journal.head(row_id)
        if head is None:
            raise NotFound(what=_GONE)
        start = msgspec.structs.replace(head, calls=0)
        identity = head.identity
        run = memory.run(
            workflow=identity.workflow_id,
            mode=identity.visibility_mode,
            agent=head.agent,
            run_id=identity.run_id if head.is_idempotent else None,
            max_origin=head.max_origin,
            model=head.model,
        )
        run.resume((), identity=identity)
        return self._hold(_OpenRun(row_id, start, run, self._clock.monotonic()))

    def _hold(self, opened: _OpenRun) -> _OpenRun:
        with self._lock:
            self._held[opened.row_id] = opened
            self._held.move_to_end(opened.row_id)
            while len(self._held) > MAX_RUNS_HELD:
                self._held.popitem(last=False)
            return opened

    def _drop(self, opened: _OpenRun) -> None:
        with self._lock:
            if self._held.get(opened.row_id) is opened:
                del self._held[opened.row_id]

    def _end(self, row_id: str) -> None:
        self._journal.close(row_id)
        with self._lock:
            self._held.pop(row_id, None)
