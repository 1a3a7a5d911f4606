"""Runs that clients hold open between requests. They live in this process, belong to one API key, and are bounded.

Nothing in an open run is durable: it is lost if the server stops. Its commit is durable, and idempotent by the run's id.
A client that lost the response, or the server, opens the run again with the same idempotency key, repeats its calls and
commits; the effect happens once.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from standfast.errors import (
    CommitAborted,
    InvalidValue,
    NotFound,
    Overloaded,
    PayloadMismatch,
    RequestReused,
    TooManyRuns,
)
from standfast.limits import (
    MAX_OPEN_RUNS,
    MAX_OPEN_RUNS_OF_KEY,
    MAX_RUN_BYTES,
    MAX_RUN_ITEMS,
    RUN_IDLE_SECONDS,
)
from standfast.memory import Run
from standfast.memory.idempotency import IdempotencyRecord
from standfast.server.access.permissions import Caller, Permission
from standfast.server.operations import memory_operations, schemas
from standfast.server.operations.gateway import Gateway


@dataclass(slots=True)
class _OpenRun:
    run: Run
    caller: Caller
    used_at: float
    remembered: int = 0
    forgotten: int = 0
    size_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, size_bytes: int) -> None:
        """Count one more item. Raises ``InvalidValue`` if the run is full."""
        self.size_bytes += size_bytes
        if self.remembered + self.forgotten >= MAX_RUN_ITEMS or self.size_bytes > MAX_RUN_BYTES:
            problem = f"it holds at most {MAX_RUN_ITEMS} items and {MAX_RUN_BYTES} bytes; commit it and open another"
            raise InvalidValue(what="run", problem=problem)

    def response(self) -> schemas.RunResponse:
        identity = self.run.identity
        return schemas.RunResponse(
            run_id=identity.run_id,
            workflow=identity.workflow_id,
            mode=identity.visibility_mode,
            memory_snapshot_id=identity.memory_snapshot_id,
            remembered=self.remembered,
            forgotten=self.forgotten,
        )


class OpenRuns:
    """The open runs of a server. Safe to share between threads."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clock = gateway.clock
        self._runs: dict[tuple[str, str], _OpenRun] = {}
        # A run that had nothing to commit leaves nothing in the store; its commit can still be repeated for a while.
        self._committed_empty: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._runs)

    def open(
        self, caller: Caller, namespace: str, body: schemas.OpenRunBody, request_key: str | None
    ) -> schemas.RunResponse:
        """Open a run. If the idempotency key has opened one already, return that one."""
        memory = self._gateway.authorize(caller, Permission.OPEN_RUN, namespace)
        idempotency = request_key and IdempotencyRecord.of(
            caller.key_id, namespace, request_key, ["open", body.as_json()]
        )
        run = memory.run(
            workflow=body.workflow,
            mode=body.mode,
            scope=body.scope,
            agent=caller.name,
            run_id=idempotency.run_id if idempotency else None,
            max_origin=caller.origin,
        )
        self.expire()
        with self._lock:
            known = self._runs.get((namespace, run.identity.run_id))
            if known is not None:
                identity = known.run.identity
                opened_with = identity.workflow_id, identity.visibility_mode, identity.scope
                if opened_with != (body.workflow, run.identity.visibility_mode, body.scope):
                    raise RequestReused(request_key=request_key)
                return known.response()
            if len(self._runs) >= MAX_OPEN_RUNS:
                raise Overloaded(what=f"{MAX_OPEN_RUNS} open runs")
            own = sum(one.caller.key_id == caller.key_id for one in self._runs.values())
            # A key may hold a third of what is still free. So the keys that hold most leave room for others, and a key that
            # holds none can open one while there is any.
            share = max(1, (MAX_OPEN_RUNS - len(self._runs)) // 3)
            if own >= min(MAX_OPEN_RUNS_OF_KEY, share):
                raise TooManyRuns(open_runs=own)
            opened = _OpenRun(run, caller, self._clock.monotonic())
            self._runs[namespace, run.identity.run_id] = opened
            return opened.response()

    def show(self, caller: Caller, namespace: str, run_id: str) -> schemas.RunResponse:
        """Return an open run."""
        self._gateway.authorize(caller, Permission.GET_RUN, namespace)
        return self._find(caller, namespace, run_id).response()

    def recall(
        self, caller: Caller, namespace: str, run_id: str, body: schemas.RecallBody
    ) -> schemas.RecallResponse:
        """Recall from the run's snapshot."""
        self._gateway.authorize(caller, Permission.RECALL, namespace)
        if body.at is not None:
            raise InvalidValue(what="at", problem="a run reads its own snapshot; leave it out")
        return memory_operations.recall_in(self._find(caller, namespace, run_id).run, body)

    def remember(
        self, caller: Caller, namespace: str, run_id: str, body: schemas.RememberBody
    ) -> schemas.RememberResponse:
        """Judge one text, and buffer it until the run commits."""
        self._gateway.authorize(caller, memory_operations.remember_permission(body), namespace)
        opened = self._find(caller, namespace, run_id)
        with opened.lock:
            opened.reserve(len(body.text.encode()))
            response = memory_operations.remember_in(opened.run, body)
            opened.remembered += 1
        return response

    def forget(
        self, caller: Caller, namespace: str, run_id: str, body: schemas.ForgetBody
    ) -> schemas.ForgetResponse:
        """Forget a subject when the run commits."""
        self._gateway.authorize(caller, Permission.FORGET, namespace)
        opened = self._find(caller, namespace, run_id)
        with opened.lock:
            opened.reserve(len(body.subject.encode()))
            response = memory_operations.forget_in(opened.run, body)
            opened.forgotten += 1
        return response

    def commit(self, caller: Caller, namespace: str, run_id: str) -> schemas.CommitResponse:
        """Commit the run. Repeating the call returns the same response, even after a restart."""
        memory = self._gateway.authorize(caller, Permission.COMMIT, namespace)
        idempotency = IdempotencyRecord.of(
            caller.key_id, namespace, f"commit of {run_id}", ["commit", run_id]
        )
        if earlier := idempotency.stored_answer(memory.store):
            self._drop(namespace, run_id, caller)
            return schemas.CommitResponse(run_id=run_id, receipt=earlier.receipt)
        if (namespace, run_id, caller.key_id) in self._committed_empty:
            return schemas.CommitResponse(run_id=run_id)
        opened = self._find(caller, namespace, run_id)
        try:
            with opened.lock:
                receipt = opened.run.commit(extra_writes=[idempotency.write({}, opened.run.identity)])
        except (CommitAborted, PayloadMismatch):
            # This run is over, but an earlier call may have repeated and committed the same run.
            self._drop(namespace, run_id, caller)
            if earlier := idempotency.stored_answer(memory.store):
                return schemas.CommitResponse(run_id=run_id, receipt=earlier.receipt)
            raise
        self._drop(namespace, run_id, caller)
        if receipt is None:
            self._note_empty(namespace, run_id, caller)
        return schemas.CommitResponse(run_id=run_id, receipt=receipt)

    def discard(self, caller: Caller, namespace: str, run_id: str) -> schemas.RunResponse:
        """Discard an open run. None of its writes were visible to anyone."""
        self._gateway.authorize(caller, Permission.DISCARD, namespace)
        opened = self._find(caller, namespace, run_id)
        opened.run.discard()
        self._drop(namespace, run_id, caller)
        return opened.response()

    def expire(self) -> None:
        """Discard the runs that have been idle for too long."""
        limit = self._clock.monotonic() - RUN_IDLE_SECONDS
        with self._lock:
            for key in [key for key, opened in self._runs.items() if opened.used_at < limit]:
                self._runs.pop(key).run.discard()

    def _find(self, caller: Caller, namespace: str, run_id: str) -> _OpenRun:
        """An open run of the caller. To other callers it looks as if it did not exist."""
        with self._lock:
            opened = self._runs.get((namespace, run_id))
            if opened is None or opened.caller.key_id != caller.key_id:
                raise NotFound(what="such open run; it may have expired, so open it again")
            opened.used_at = self._clock.monotonic()
            return opened

    def _note_empty(self, namespace: str, run_id: str, caller: Caller) -> None:
        with self._lock:
            self._committed_empty[namespace, run_id, caller.key_id] = None
            while len(self._committed_empty) > MAX_OPEN_RUNS:
                self._committed_empty.popitem(last=False)

    def _drop(self, namespace: str, run_id: str, caller: Caller) -> None:
        with self._lock:
            opened = self._runs.get((namespace, run_id))
            if opened is not None and opened.caller.key_id == caller.key_id:
                del self._runs[namespace, run_id]
