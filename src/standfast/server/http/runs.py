"""Runs that stay open between calls. They live in this process, belong to the key that opened them, and are bounded.

Nothing in an open run is acknowledged: it is gone if the server is. Its commit is, and is idempotent by the run's id: who
lost the answer, or the server, opens the run again under the same idempotency key, repeats it, and has one effect.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from standfast.clock import Clock
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
from standfast.memory.idempotency import IdempotencyRecord, StoredAnswer
from standfast.server.access.table import Act, Caller
from standfast.server.operations.hall import Hall
from standfast.server.operations.recalling import recalled_in
from standfast.server.operations.shapes import (
    Committed,
    Forget,
    Forgotten,
    OpenRun,
    Recall,
    Recalled,
    Remember,
    Remembered,
    ShownRun,
)
from standfast.server.operations.writing import forget_in, remember_in


@dataclass(slots=True)
class _Held:
    run: Run
    caller: Caller
    used_at: float
    remembered: int = 0
    forgotten: int = 0
    size_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size_bytes: int) -> None:
        """Make room for one thing more; a run is for an agent's step, not for an archive."""
        self.size_bytes += size_bytes
        if self.remembered + self.forgotten >= MAX_RUN_ITEMS or self.size_bytes > MAX_RUN_BYTES:
            problem = f"it holds {MAX_RUN_ITEMS} things and {MAX_RUN_BYTES} bytes at most; commit it and open another"
            raise InvalidValue(what="run", problem=problem)

    def shown(self) -> ShownRun:
        identity = self.run.identity
        return ShownRun(
            run_id=identity.run_id,
            workflow=identity.workflow_id,
            mode=identity.visibility_mode,
            memory_snapshot_id=identity.memory_snapshot_id,
            remembered=self.remembered,
            forgotten=self.forgotten,
        )


class OpenRuns:
    """The open runs of a server. Safe to share between threads."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._clock: Clock = hall.clock
        self._held: dict[tuple[str, str], _Held] = {}
        # Of runs that ended without an effect no idempotency record is left; who asks again shortly afterwards is still answered.
        self._ended_empty: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def open(self, caller: Caller, namespace: str, wanted: OpenRun, request_key: str | None) -> ShownRun:
        """Open a run; under an idempotency key that opened one already, the one that is open."""
        memory = self._hall.enter(caller, Act.OPEN_RUN, namespace)
        idempotency = request_key and IdempotencyRecord.of(
            caller.key_id, namespace, request_key, ["open", wanted.as_json()]
        )
        run = memory.run(
            workflow=wanted.workflow,
            mode=wanted.mode,
            agent=caller.name,
            run_id=idempotency.run_id if idempotency else None,
        )
        self.expire()
        with self._lock:
            known = self._held.get((namespace, run.identity.run_id))
            if known is not None:
                if (known.run.identity.workflow_id, known.run.identity.visibility_mode) != (
                    wanted.workflow,
                    wanted.mode,
                ):
                    raise RequestReused(request_key=request_key)
                return known.shown()
            if len(self._held) >= MAX_OPEN_RUNS:
                raise Overloaded(what=f"{MAX_OPEN_RUNS} open runs")
            mine = sum(held.caller.key_id == caller.key_id for held in self._held.values())
            if mine >= MAX_OPEN_RUNS_OF_KEY:
                raise TooManyRuns(open_runs=mine)
            held = _Held(run, caller, self._clock.monotonic())
            self._held[namespace, run.identity.run_id] = held
            return held.shown()

    def show(self, caller: Caller, namespace: str, run_id: str) -> ShownRun:
        """An open run."""
        self._hall.enter(caller, Act.GET_RUN, namespace)
        return self._find(caller, namespace, run_id).shown()

    def recall(self, caller: Caller, namespace: str, run_id: str, asked: Recall) -> Recalled:
        """What the run's snapshot knows."""
        self._hall.enter(caller, Act.RECALL, namespace)
        if asked.at is not None:
            raise InvalidValue(what="at", problem="a run reads its own snapshot; leave it out")
        return recalled_in(self._find(caller, namespace, run_id).run, asked)

    def remember(self, caller: Caller, namespace: str, run_id: str, wanted: Remember) -> Remembered:
        """Have something judged, and buffered until the run commits."""
        self._hall.enter(caller, Act.PROPOSE if wanted.propose else Act.REMEMBER, namespace)
        held = self._find(caller, namespace, run_id)
        with held.lock:
            held.take(len(wanted.text.encode()))
            answer = remember_in(held.run, wanted)
            held.remembered += 1
        return answer

    def forget(self, caller: Caller, namespace: str, run_id: str, wanted: Forget) -> Forgotten:
        """Have something forgotten when the run commits."""
        self._hall.enter(caller, Act.FORGET, namespace)
        held = self._find(caller, namespace, run_id)
        with held.lock:
            held.take(len(wanted.subject.encode()))
            answer = forget_in(held.run, wanted)
            held.forgotten += 1
        return answer

    def commit(self, caller: Caller, namespace: str, run_id: str) -> Committed:
        """Apply the run, once: asked again, even after a restart, the answer is the same."""
        memory = self._hall.enter(caller, Act.COMMIT, namespace)
        idempotency = IdempotencyRecord.of(
            caller.key_id, namespace, f"commit of {run_id}", ["commit", run_id]
        )
        if known := idempotency.stored_answer(memory.store):
            self._drop(namespace, run_id, caller)
            return _committed(run_id, known)
        if (namespace, run_id, caller.key_id) in self._ended_empty:
            return Committed(run_id=run_id)
        held = self._find(caller, namespace, run_id)
        try:
            with held.lock:
                receipt = held.run.commit(extra_writes=[idempotency.write({}, held.run.identity)])
        except (CommitAborted, PayloadMismatch):
            # The run is over; but the same run may have been repeated and committed by a call that came first.
            self._drop(namespace, run_id, caller)
            if known := idempotency.stored_answer(memory.store):
                return _committed(run_id, known)
            raise
        self._drop(namespace, run_id, caller)
        if receipt is None:
            self._note_empty(namespace, run_id, caller)
        return Committed(run_id=run_id, receipt=receipt)

    def discard(self, caller: Caller, namespace: str, run_id: str) -> ShownRun:
        """Forget an open run; nothing of it was ever visible."""
        self._hall.enter(caller, Act.DISCARD, namespace)
        held = self._find(caller, namespace, run_id)
        held.run.discard()
        self._drop(namespace, run_id, caller)
        return held.shown()

    def expire(self) -> None:
        """Discard the runs that nobody has touched for a while."""
        limit = self._clock.monotonic() - RUN_IDLE_SECONDS
        with self._lock:
            for place in [place for place, held in self._held.items() if held.used_at < limit]:
                self._held.pop(place).run.discard()

    def _find(self, caller: Caller, namespace: str, run_id: str) -> _Held:
        """The run, if it is open and the caller's own; others learn nothing of it."""
        with self._lock:
            held = self._held.get((namespace, run_id))
            if held is None or held.caller.key_id != caller.key_id:
                raise NotFound(what="such open run; it may have been idle for too long, open it again")
            held.used_at = self._clock.monotonic()
            return held

    def _note_empty(self, namespace: str, run_id: str, caller: Caller) -> None:
        with self._lock:
            self._ended_empty[namespace, run_id, caller.key_id] = None
            while len(self._ended_empty) > MAX_OPEN_RUNS:
                self._ended_empty.popitem(last=False)

    def _drop(self, namespace: str, run_id: str, caller: Caller) -> None:
        with self._lock:
            held = self._held.get((namespace, run_id))
            if held is not None and held.caller.key_id == caller.key_id:
                del self._held[namespace, run_id]


def _committed(run_id: str, known: StoredAnswer) -> Committed:
    return Committed(run_id=run_id, receipt=known.receipt)
