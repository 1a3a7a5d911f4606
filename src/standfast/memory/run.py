"""Run: one run of an agent, from what it recalls and remembers to the commit."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack

from msgspec.structs import replace

from standfast.errors import (
    CommitAborted,
    InvalidValue,
    NotAllowed,
    NotAuthorised,
    PayloadMismatch,
    RunOver,
    StandfastError,
    TraceError,
)
from standfast.govern.admission import JudgedRecord
from standfast.govern.authority import Role, checked_role
from standfast.govern.judge.judge import Claim
from standfast.govern.judge.secrecy import (
    claim_of,
    redacted_json,
    redacted_request,
    redacted_scope,
    redacted_text,
    require_no_secret,
)
from standfast.limits import COMMIT_OWN_ROWS, MAX_COMMIT_WRITES
from standfast.memory.commit_plan import JudgedCommit, rows_needed
from standfast.memory.erasing import check_untrusted, rows_about
from standfast.memory.erasure_targets import ErasureTarget
from standfast.memory.forgotten_traces import has_forgotten_text, traces_about
from standfast.memory.idempotency import CallLog, ErasedRows, redacted_call
from standfast.memory.recall_notes import Recipient
from standfast.memory.request_judge import RequestJudge
from standfast.memory.run_dependencies import RunServices
from standfast.memory.run_step import FORGET, RECORD, REMEMBER, Recalled, RunStep, recalled_from
from standfast.memory.snapshot_view import SnapshotView
from standfast.recall.answers import Package
from standfast.recall.tokens import TokenCounter
from standfast.records.canon import canonical_bytes
from standfast.records.origins import Origin
from standfast.records.requests import (
    ForgetRequest,
    RecallFields,
    RecallRequest,
    RememberFields,
    RememberRequest,
    takes_fields_of,
)
from standfast.records.scopes import SHARED, checked_scope, name_in, scope_in, scoped_key
from standfast.records.vocabulary import (
    Band,
    Receipt,
    Remembered,
    RunIdentity,
    VisibilityMode,
)
from standfast.store.commit import Write
from standfast.store.stored_records import is_band_row
from standfast.traces.artifact import ModelConfig, Trace
from standfast.traces.entries import TraceEntry
from standfast.traces.recorder import Recorder, RecordingRun
from standfast.traces.replay import ReplayedRun


@dataclass(slots=True)
class _Call:
    """A writing call of a run. ``is_repeated``: an earlier attempt of the run made it, and ``answer`` is from
    then.
    """

    is_repeated: bool
    answer: Remembered | ErasedRows | None = None


class Run(RecordingRun):
    """One run of an agent. ``Memory.run`` opens it.

    A run reads the snapshot it started from and buffers its writes. Used as a context manager, leaving the
    block commits everything atomically; an exception discards everything. Threads may share a run.

    What a run does is recorded. ``trace`` is the artifact once the run is over; if it could not be stored,
    ``trace_problem`` says why.

    A run whose id the caller gave takes effect once: the same id and the same calls, later and from any
    process, give the first answers and the first receipt, with ``replayed`` set. Other calls under that id
    raise ``PayloadMismatch``.

    Args:
        has_read: Whether the caller may rely on what the run shows. What a run without that forgets is erased
            by version, so that it conflicts with nobody; if nothing is there, that is no error.
    """

    def __init__(
        self,
        services: RunServices,
        identity: RunIdentity,
        *,
        agent: str,
        model: ModelConfig | None = None,
        is_idempotent: bool = False,
        max_origin: Origin = Origin.TRUSTED,
        is_recorded: bool = True,
        has_read: bool = True,
    ) -> None:
        self.identity = identity
        self._model = model
        self.max_origin = max_origin
        require_no_secret(agent=agent)
        self.agent = agent
        self.scope = identity.scope
        self.receipt: Receipt | None = None
        self.trace: Trace | None = None
        self.trace_problem: TraceError | None = None
        self._services = services
        self._is_recorded = is_recorded
        self._has_read = has_read
        self._traces = services.traces if is_recorded else None
        if is_recorded:
            journal = None if self._traces is None else self._traces.journal(identity.run_id)
            self.recorder = Recorder(
                identity, clock=services.store.clock, model=model, journal=journal, redact=redacted_json
            )
        self._lock = threading.RLock()
        self._judged: list[JudgedRecord] = []
        self._rows = 0
        self._forgotten: dict[str, str] = {}
        self._recalled: list[Recalled] = []
        self._requests = RequestJudge(services, identity, agent=agent, max_origin=max_origin)
        self._is_over = False
        self._commit: JudgedCommit | None = None
        self._is_idempotent = is_idempotent
        self._call_log: CallLog | None = None
        self._calls = 0
        self._has_repeated = False
        self.steps: list[RunStep] | None = None
        """What each call did, if the run is to be carried on by other processes; see ``resume``."""

    # Reading.

    @takes_fields_of(RecallRequest)
    def recall(
        self, query: str, *, token_counter: TokenCounter | None = None, **fields: Unpack[RecallFields]
    ) -> Package:
        """Return the best excerpts for a query as of the run's snapshot.

        The run does not see its own buffered writes. What it recalls can't be remembered again as if it were
        new. The fields are those of ``RecallRequest``.

        Args:
            token_counter: Counts the tokens of the text; by default four bytes are a token.
        """
        return self.recall_request(RecallRequest.of(query, **fields), token_counter=token_counter)

    def recall_request(self, request: RecallRequest, *, token_counter: TokenCounter | None = None) -> Package:
        """Answer a request that was checked before; see ``recall``."""
        mode = self.identity.visibility_mode
        if mode is VisibilityMode.OFF:
            raise NotAllowed(mode=mode.value, operation="recall")
        services = self._services
        snapshot = services.store.head() if self._is_live else self.identity.memory_snapshot_id
        view = SnapshotView(services.reader, snapshot, Recipient(self.agent, self.identity.run_id))
        request = request.within(self.scope)
        package = view.answer(request, token_counter=token_counter).package
        facts = view.retrieval_facts(package, request)
        self.recorder.retrieval(**facts)
        recalled = recalled_from(package, services.namespace)
        with self._lock:
            self._recalled += recalled
            if self.steps is not None:
                self.steps.append(RunStep.of_recall(facts, recalled))
        return package

    # Recording.

    def record(self, entry: TraceEntry) -> None:
        """Add an entry to the trace that was made elsewhere, as a client over HTTP does."""
        with self._lock:
            if self._is_over:
                raise RunOver(run_id=self.identity.run_id)
            clean = TraceEntry.from_json(redacted_json(entry.as_json()))
            self.recorder.record(clean)
            if self.steps is not None:
                self.steps.append(RunStep(verb=RECORD, asked=clean.as_json()))

    # Writing.

    @takes_fields_of(RememberRequest)
    def remember(self, text: str, **fields: Unpack[RememberFields]) -> Remembered:
        """Judge a text and buffer it for the commit. The fields are those of ``RememberRequest``.

        Raises:
            InvalidValue: An argument is wrong.
            NotAllowed: The run may not write.
            RunOver: The run was committed or discarded.
        """
        return self.remember_request(RememberRequest.of(text, **fields))

    def remember_request(self, request: RememberRequest) -> Remembered:
        """Judge a request that was checked before and buffer it; see ``remember``."""
        checked_role(request.role)
        request = request.within(self.scope)
        self._require_writable("remember")
        screened = claim_of(request)
        recorded = redacted_request(request, screened) if self._keeps_calls else request
        with self._call(REMEMBER, request, recorded) as call:
            if not call.is_repeated:
                call.answer = self._judge(request, screened)
        assert isinstance(call.answer, Remembered), "every text that is remembered gets an answer"
        return call.answer

    @contextmanager
    def _call(
        self,
        verb: str,
        request: RememberRequest | ForgetRequest,
        recorded: RememberRequest | ForgetRequest,
    ) -> Iterator[_Call]:
        """Carry out a writing call: record it, hold the lock, and find what an earlier attempt answered.

        The block carries the call out and puts its answer into ``call.answer``, unless ``call.is_repeated``.

        Args:
            request: The call as it was made.
            recorded: The call without secrets, as the trace and other processes see it, and by which an
                earlier attempt of this run is found.
        """
        with self._lock:
            if self._is_over:
                raise RunOver(run_id=self.identity.run_id)
            judged, forgotten = len(self._judged), {} if self.steps is None else self._forgotten.copy()
            try:
                log = self._log_of_call()
                asked = [] if log is None else _asked(verb, request, recorded)
                earlier = None if log is None else log.repeated(asked)
                call = _Call(earlier is not None, None if earlier is None else earlier.answer)
                self._has_repeated |= call.is_repeated
                yield call
                if log is not None and call.is_repeated:
                    self.receipt = log.receipt if self._is_live else self.receipt
                elif log is not None:
                    log.add(asked, call.answer)
                if self._is_live and not call.is_repeated:
                    self._commit_live()
            except Exception as error:
                if self._is_recorded:
                    self.recorder.wrote(recorded, error=error)
                raise
            answer = call.answer if isinstance(call.answer, Remembered) else None
            if self._is_recorded:
                self.recorder.wrote(recorded, answer)
            if self.steps is not None:
                step = RunStep(
                    verb=verb,
                    asked=recorded.as_recorded(),
                    answer=answer,
                    fingerprint="" if log is None else log.last_fingerprint,
                    judged=tuple(self._judged[judged:]),
                    forgotten=dict(self._forgotten.items() - forgotten.items()),
                    named=self._requests.named,
                )
                self.steps.append(step)

    def _log_of_call(self) -> CallLog | None:
        self._calls += 1
        if self._is_idempotent and (self._call_log is None or self._is_live):
            # To the store, each call of a live run is a run of its own.
            run_id = self._live_run_id if self._is_live else self.identity.run_id
            self._call_log = CallLog(self._services.store, self._services.namespace, run_id)
        return self._call_log

    def resume(self, steps: Sequence[RunStep], *, identity: RunIdentity | None = None) -> None:
        """Take over what another process did in this run, in its order.

        From then on ``steps`` collects what is done here.

        Args:
            identity: What the run was opened as elsewhere. Needed once, by a run that was opened only to take
                it over.

        Raises:
            RunOver: The policies changed since the run was opened.
        """
        with self._lock:
            if identity is not None:
                if identity.policy_set_id != self.identity.policy_set_id:
                    raise RunOver(run_id=identity.run_id)
                self.identity, self.scope = identity, identity.scope
                self._requests.identity = identity
                self._requests.snapshot = identity.memory_snapshot_id
                journal, clock = self.recorder.journal, self._services.store.clock
                self.recorder = Recorder(
                    identity, clock=clock, model=self._model, journal=journal, redact=redacted_json
                )
            for step in steps:
                step.record_in(self.recorder)
                self._recalled += step.recalled
                if step.verb in (REMEMBER, FORGET) and (log := self._log_of_call()) is not None:
                    log.restore(step.fingerprint, step.answer)
                for judged in step.judged:
                    self._note_judged(judged, Claim(record=judged.record))
                self._forgotten |= step.forgotten
                self._requests.named = max(self._requests.named, step.named)
            self.steps = [*(self.steps or ()), *steps]

    @property
    def _keeps_calls(self) -> bool:
        """Whether calls are recorded, for a trace, for other attempts or for other processes."""
        return self._is_recorded or self._is_idempotent or self.steps is not None

    @property
    def _live_run_id(self) -> str:
        return f"{self.identity.run_id}#{self._calls}"

    def _judge(self, request: RememberRequest, screened: Claim) -> Remembered:
        """Judge a request and buffer the outcome."""
        if self._is_live:
            # A live run judges each claim by the newest state.
            self._requests.advance()
        judged = self._requests.judge(request, screened, recalled=self._recalled, forgotten=self._forgotten)
        self._note_judged(judged.judged, judged.claim)
        return self._requests.answer_to(judged)

    def _note_judged(self, judged: JudgedRecord, claim: Claim) -> None:
        self._require_room(judged)
        self._judged.append(judged)
        self._requests.note(judged, claim)

    def _require_room(self, judged: JudgedRecord) -> None:
        """Count the rows of a record.

        One that no longer fits the commit is refused at once; what is buffered stays.
        """
        rows = rows_needed(judged, self._services.budgets.budgets)
        most = MAX_COMMIT_WRITES - COMMIT_OWN_ROWS
        if not self._is_live and self._rows + len(self._forgotten) + rows > most:
            problem = (
                f"it has buffered {len(self._judged):,} records, the most that one commit holds. Commit now"
                " and go on in a new run, or use memory.add(), which commits in parts"
            )
            raise InvalidValue(what=f"run {self.identity.run_id}", problem=problem)
        self._rows += rows

    def forget(self, subject: str, *, reason: str, scope: str | None = None) -> None:
        """Erase every version of a subject or memory id when the run commits.

        The ledger keeps that it existed, and the reason.

        Args:
            scope: The scope that the subject is in; by default that of the run.

        Raises:
            InvalidValue: There is no such record.
            NotAuthorised: It is law, which only a human's signature ends; or the run is untrusted, and others
                said it.
            NotAllowed: The run may not write.
            RunOver: The run was committed or discarded.
        """
        for name, value in (("subject", subject), ("reason", reason)):
            if not (isinstance(value, str) and value.strip()):
                raise InvalidValue(what=name, problem=f"it must be a non-empty string, not {value!r:.80}")
        within = self.scope if scope is None else checked_scope(scope)
        request = ForgetRequest(subject=subject, reason=redacted_text(reason), scope=within)
        self.forget_request(request, traces=0)

    def forget_request(self, request: ForgetRequest, *, traces: int) -> ErasedRows:
        """Erase what a checked request names when the run commits; see ``forget``.

        Args:
            traces: How many traces go with it, for the answer.
        """
        self._require_writable("forget")
        recorded = replace(
            request, subject=redacted_text(request.name), scope=redacted_scope(request.place), memory_id=None
        )
        with self._call(FORGET, request, recorded) as call:
            if not call.is_repeated:
                keys = self._rows_to_erase(request.name, request.place)
                self._forgotten |= dict.fromkeys(keys, request.reason)
                call.answer = ErasedRows(records=int(bool(keys)), rows=len(keys), traces=traces)
        # Logs of earlier versions have no numbers.
        return call.answer if isinstance(call.answer, ErasedRows) else ErasedRows(records=1, rows=0)

    def _rows_to_erase(self, subject: str, scope: str) -> list[str]:
        store, namespace = self._services.store, self._services.namespace
        if self._is_live:
            self._requests.advance()
        if store.read(namespace, [scoped_key(Band.VAULT, scope, subject)], at=self._requests.snapshot):
            raise NotAuthorised(role=Role.AGENT.value, act="forget what is sealed", who=Role.HUMAN.value)
        keys = rows_about(store, namespace, subject, scope=scope, at=self._requests.snapshot)
        if self.max_origin is Origin.UNTRUSTED:
            check_untrusted(store, namespace, keys)
        if not keys and self._has_read:
            place = "" if scope == SHARED else f" and scope {scope}"
            problem = (
                f"there is no record of {subject!r:.80} in namespace {namespace}{place}; nothing was"
                " forgotten"
            )
            raise InvalidValue(what="subject", problem=problem)
        return keys

    def _require_writable(self, operation: str) -> None:
        if not self.identity.visibility_mode.may_write:
            raise NotAllowed(mode=self.identity.visibility_mode.value, operation=operation)

    # Ending.

    def commit(self, *, extra_writes: Sequence[Write] = (), even_if_empty: bool = False) -> Receipt | None:
        """Commit everything atomically and durably. Returns None if there was nothing to commit.

        Calling it again returns the same receipt. After an error it submits the very same commit again, so
        that it is applied at most once.

        Args:
            extra_writes: Rows of the caller's own.
            even_if_empty: Commit them also if the run has nothing else.

        Raises:
            CommitAborted: A record changed since the run's snapshot. Nothing was written; open a new run.
        """
        with self._lock, self._services.budgets_lock():
            was_submitted = self._commit is not None and self._commit.commit is not None
            if self._is_over and (self.receipt is not None or not was_submitted):
                return self.receipt
            self._is_over = True
            try:
                if not self._is_live:
                    self._commit = self._commit or self._judged_commit(
                        self.identity, extra_writes, even_if_empty=even_if_empty
                    )
                    self.receipt = self._submit_once(self._commit)
            except (CommitAborted, PayloadMismatch) as error:
                self._finish_trace(error)
                raise
            self._finish_trace(None)
        if self.receipt is not None:
            self._services.reader.after_commit(self.receipt.memory_snapshot_id, erased=self._forgotten)
            self._remove_traces()
        return self.receipt

    def _remove_traces(self) -> None:
        """Remove the traces of what the run forgot. Whoever forgets without a run does so himself."""
        records = {(scope_in(key), name_in(key)) for key in self._forgotten if is_band_row(key)}
        try:
            for scope, name in sorted(records) if self._has_read else ():
                for remove in traces_about(self._services, ErasureTarget(scope=scope), name):
                    remove()
        except (StandfastError, OSError) as error:
            # The commit is done, and must not look otherwise.
            self._services.warn(
                f"Traces of what was forgotten could not be removed: {error}. Forget it again."
            )

    def _judged_commit(
        self, identity: RunIdentity, extra_writes: Sequence[Write] = (), *, even_if_empty: bool = False
    ) -> JudgedCommit:
        """The commit of what is buffered, with the caller's own rows and those of the call log."""
        log = self._call_log
        return JudgedCommit(
            self._services,
            self._judged,
            self._forgotten,
            run=identity,
            extra_writes=lambda attempt: [*extra_writes, *(() if log is None else log.writes(attempt))],
            # An answer is replayed even if it changed nothing, because later it might.
            even_if_empty=even_if_empty or (log is not None and log.has_calls),
            until=None if self._has_read else identity.memory_snapshot_id,
            agent=self.agent,
            # The id of the run was made for it, and so were those of its records.
            has_new_ids=not self._is_idempotent,
            is_single_call=not self._has_read,
        )

    def _submit_once(self, commit: JudgedCommit) -> Receipt | None:
        """Commit, unless an earlier attempt of this run was committed, or another one is meanwhile."""
        log = self._call_log
        if log is None:
            return commit.submit()
        if (receipt := log.confirmed()) is not None:
            return receipt
        aborted = None
        try:
            receipt = commit.submit()
        except (CommitAborted, PayloadMismatch) as error:
            aborted = error
        if receipt is None:
            # An attempt that was committed meanwhile makes this one conflict, or all of it known already.
            log.look_up()
            receipt = log.confirmed()
        if receipt is None and aborted is not None:
            raise aborted
        return receipt

    def discard(self, error: BaseException | None = None) -> None:
        """Drop the buffer and end the run. ``error`` is recorded in the trace as the cause."""
        with self._lock:
            self._judged.clear()
            self._forgotten.clear()
            if not self._is_over:
                self._is_over = True
                self._finish_trace(error or RunOver(run_id=self.identity.run_id))

    def _commit_live(self) -> None:
        """Commit at once. To the store, each such commit is a run of its own."""
        live = replace(self.identity, run_id=self._live_run_id, memory_snapshot_id=self._requests.snapshot)
        try:
            with self._services.budgets_lock():
                self.receipt = self._submit_once(self._judged_commit(live)) or self.receipt
            self._remove_traces()
        finally:
            self._judged.clear()
            self._forgotten.clear()

    def _finish_trace(self, error: BaseException | None) -> None:
        if not self._is_recorded:
            return
        self.trace = self.recorder.finish(error=error)
        if self._traces is not None:
            replayed = self.receipt is not None and self.receipt.replayed
            recorder = self.recorder
            self.trace_problem = self._traces.keep(
                self.trace,
                recorder.text,
                recorder.journal,
                replayed=replayed,
                is_wanted=partial(self._is_trace_wanted, self.trace),
            )
        if self.trace_problem is not None:
            # The commit is done; a trace that can't be stored must not make it look otherwise.
            run_id, problem = self.identity.run_id, self.trace_problem
            self._services.warn(f"The trace of run {run_id} could not be stored: {problem}")

    def _is_trace_wanted(self, trace: Trace) -> bool:
        # What an earlier attempt said may have been forgotten before this one began.
        since = 0 if self._has_repeated else self.identity.memory_snapshot_id
        try:
            return not has_forgotten_text(self._services, trace, since=since)
        except StandfastError:
            # A store that can't be read now does not undo what was committed.
            return False

    @property
    def answers(self) -> list[Remembered]:
        """What the calls of ``remember`` were answered, as committed; only of a run whose id the caller
        gave.
        """
        return [] if self._call_log is None else self._call_log.answers

    @property
    def erased(self) -> list[ErasedRows]:
        """What the calls of ``forget`` erased, as committed; only of a run whose id the caller gave."""
        return [] if self._call_log is None else self._call_log.erased

    @property
    def _is_live(self) -> bool:
        return self.identity.visibility_mode is VisibilityMode.LIVE_READ_WRITE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard(error)
        else:
            self.commit()


def _asked(
    verb: str, request: RememberRequest | ForgetRequest, recorded: RememberRequest | ForgetRequest
) -> list[Any]:
    """A call as the log of a run compares it."""
    said, clean = request.as_recorded(), recorded.as_recorded()
    return [verb, said] if said == clean else redacted_call([verb, clean], len(canonical_bytes(said)))


AgentRun: TypeAlias = Run | ReplayedRun
"""What an agent's function takes: a run of memory, or the same run in a replay."""
