"""A run of an agent, from what it is told to what is committed."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

from standfast.canon import fingerprint, utc_text
from standfast.errors import (
    CommitAborted,
    InvalidValue,
    NotAllowed,
    NotAuthorised,
    PayloadMismatch,
    RunOver,
    TraceError,
)
from standfast.govern import stages
from standfast.govern.authority import Role
from standfast.govern.judge.judge import Claim, JudgingContext
from standfast.govern.stages import Judged
from standfast.limits import DEFAULT_MAX_ITEMS, MAX_REBASES
from standfast.memory.sealing import only_budgets_moved, sealed
from standfast.memory.snapshot_view import RECALLED_BANDS, SnapshotView
from standfast.recall.package import ContextPackage
from standfast.store.commit import Commit, Write
from standfast.store.records import keys_with_content_of, record_of
from standfast.traces.artifact import Trace
from standfast.traces.identity import ModelConfig
from standfast.traces.recorder import Recorder
from standfast.traces.traced_run import TracedRun
from standfast.vocabulary import (
    Band,
    Receipt,
    Record,
    Remembered,
    RunIdentity,
    Verdict,
    VisibilityMode,
    normal_tags,
)

if TYPE_CHECKING:
    from standfast.memory.memory import Memory

_MOST_ALIKE: Final = 4
FORGETTABLE: Final = (Band.LEDGER, Band.ACTIVE, Band.WITNESS)


class Run(TracedRun):
    """One run of an agent: it reads its start snapshot, and what it remembers is invisible until it commits.

    As a context manager, leaving the block commits, and an exception discards. Threads may share it. What it does is
    recorded; ``trace`` is the artifact once it is over.
    """

    def __init__(
        self, memory: "Memory", identity: RunIdentity, agent: str, model: ModelConfig | None = None
    ) -> None:
        super().__init__(Recorder(identity, clock=memory.store.clock, model=model))
        self.memory = memory
        self.identity = identity
        self.agent = agent
        self.receipt: Receipt | None = None
        self._lock = threading.RLock()
        self._judged: list[Judged] = []
        self._forgotten: dict[str, str] = {}
        self._context: JudgingContext | None = None
        self._accepted: list[Claim] = []
        self._known: set[str] = set()
        self._recalled: list[str] = []
        self._count = 0
        self._at = identity.memory_snapshot_id
        self._over = False
        self._commit: Commit | None = None
        self.trace: Trace | None = None
        self.trace_problem: TraceError | None = None

    def recall(  # type: ignore[override]  # It names the options that the supertype hands on.
        self,
        query: str,
        *,
        tokens: int,
        max_items: int = DEFAULT_MAX_ITEMS,
        bands: Sequence[Band | str] = RECALLED_BANDS,
    ) -> ContextPackage:
        """What memory holds on a question, as of the run's snapshot, within a token budget; recorded in the trace.

        What it hands out is not remembered again as if it were new: the judge knows it.
        """
        view = self._view()
        package = view.recall(query, tokens=tokens, max_items=max_items, bands=bands)
        self.recorder.retrieval(**view.retrieval_facts(package))
        with self._lock:
            self._recalled += [item.excerpt for item in package.selection.selected]
        return package

    def _view(self) -> SnapshotView:
        mode = self.identity.visibility_mode
        if mode is VisibilityMode.OFF:
            raise NotAllowed(mode=mode.value, operation="recall")
        snapshot = self.memory.store.head() if self._is_live else self.identity.memory_snapshot_id
        return SnapshotView(self.memory.reader, snapshot)

    def _remember(self, text: str, told: dict[str, Any]) -> Remembered:
        """888_JUDGE, and into the buffer."""
        with self._lock:
            hold, now = told.get("hold"), self.memory.store.clock.now()
            record = Record(
                memory_id=told.get("subject") or self._next_id(),
                text=text,
                ts_utc=utc_text(now),
                tags=normal_tags(told.get("tags", ())),
                refs=tuple(told.get("refs", ())),
                subject=told.get("subject"),
                source=told.get("source"),
                band=Band.PHOENIX if told.get("propose") else Band.LEDGER,
            )
            claim = Claim(record=record, role=told.get("role", Role.AGENT))
            judged = stages.judge(
                claim,
                self._judging_context(claim),
                floors=self.memory.floors,
                policy=self.memory.policy,
                run=self.identity,
                namespace=self.memory.namespace,
                author=self.agent,
                now=now,
                told=None if hold is None else Verdict.HOLD,
                why=hold or "",
            )
            self._judged.append(judged)
            if judged.verdict in stages.CANONICAL_VERDICTS:
                self._accepted.append(claim)
            if self._is_live:
                self._commit_live()
            return judged.told

    def _forget(self, subject: str, reason: str) -> None:
        with self._lock:
            store, namespace = self.memory.store, self.memory.namespace
            if store.read(namespace, [f"{Band.VAULT}/{subject}"], at=self._at):
                raise NotAuthorised(role=Role.AGENT.value, act="forget what is sealed", who=Role.HUMAN.value)
            keys = keys_with_content_of(store, namespace, subject, FORGETTABLE, at=self._at)
            if not keys:
                raise InvalidValue(what="subject", problem=f"nothing is known of {subject!r:.80}")
            self._forgotten |= dict.fromkeys(keys, reason)
            if self._is_live:
                self._commit_live()

    def commit(self, *, extra_writes: Sequence[Write] = ()) -> Receipt | None:
        """Apply all of it atomically and durably; None if there was nothing to apply. Again gives the same receipt.

        After an error, again submits the very same commit, so that it is applied once at most. ``beside`` are rows of
        the caller's own, written in the same transaction or not at all.
        """
        with self._lock, self.memory.band_budgets.lock if self.memory.band_budgets.budgets else nullcontext():
            if self.receipt is not None or (self._over and self._commit is None):
                return self.receipt
            self._over = True
            try:
                if self._commit is None:
                    self.receipt = self._apply(self.identity, extra_writes)
                else:
                    self.receipt = self.memory.store.commit(self._commit)
            except (CommitAborted, PayloadMismatch) as error:
                self._end_trace(error)
                raise
            self._end_trace(None)
            return self.receipt

    def _apply(self, identity: RunIdentity, beside: Sequence[Write] = ()) -> Receipt | None:
        """Seal and commit. Where others only spent the same budget meanwhile, plan again from the newest state."""
        memory = self.memory
        for attempt in range(1, MAX_REBASES + 1):
            commit = sealed(memory, identity, self._judged, self._forgotten)
            self._commit = commit = None if commit is None else commit.beside(beside)
            try:
                receipt = None if commit is None else memory.store.commit(commit)
            except CommitAborted:
                memory.band_budgets.lost()
                head = memory.store.head()
                if attempt == MAX_REBASES or not only_budgets_moved(memory, commit, identity, head):
                    raise
                # Others are at it too; who failed more often waits longer, so that all get their turn.
                memory.store.clock.sleep(0.001 * attempt)
                run_id = f"{self.identity.run_id}~{attempt}"
                identity = replace(identity, run_id=run_id, memory_snapshot_id=memory.store.head())
            except BaseException:
                memory.band_budgets.lost()
                raise
            else:
                if commit is not None and receipt is not None:
                    memory.judging_cache.saw(commit, receipt)
                    memory.band_budgets.committed(receipt.memory_snapshot_id)
                return receipt
        raise AssertionError("the last attempt returns or raises")

    def _end_trace(self, error: BaseException | None) -> None:
        self.trace = self.recorder.finish(error=error)
        if self.memory.traces is not None:
            try:
                self.memory.traces.put(self.trace)
            except TraceError as problem:
                # What was committed is committed; a trace that can't be kept must not make it look otherwise.
                self.trace_problem = problem

    def discard(self, error: BaseException | None = None) -> None:
        """Forget the buffer; nothing of it was ever visible."""
        with self._lock:
            self._judged.clear()
            self._forgotten.clear()
            if not self._over:
                self._over = True
                self._end_trace(error or RunOver(run_id=self.identity.run_id))

    def _judging_context(self, claim: Claim) -> JudgingContext:
        """What the judge may look at: sealed law, patterns, what is known of the subject, and what was refused before."""
        memory, at = self.memory, self._at
        context = memory.judging_context(at) if self._context is None else self._context
        # What was accepted is put on the shelf when the next claim comes: the last one of a run never is.
        for accepted in self._accepted:
            context = context.with_accepted(accepted)
        self._accepted.clear()
        subject = claim.record.subject
        keys = [stages.refused_key(claim.reading.fingerprint)]
        own = f"{Band.LEDGER}/{subject}"
        if subject is not None and own not in self._known:
            self._known.add(own)
            keys.append(own)
        found = memory.store.read(memory.namespace, keys, at=at)
        for key in keys[1:]:
            if key in found:
                context = context.with_accepted(Claim(record=record_of(found[key])))
        for record in self._alike(claim):
            context = context.with_accepted(Claim(record=record))
        self._context = context
        return context.updated(
            refused=frozenset({claim.reading.fingerprint} if keys[0] in found else ()),
            recalled=tuple(self._recalled),
        )

    def _alike(self, claim: Claim) -> Iterator[Record]:
        """What memory holds that says the same in as many words, for the floor against duplicates."""
        memory, prefix = self.memory, stages.said_key(claim.reading.fingerprint)
        for note in islice(memory.store.scan(memory.namespace, prefix=prefix, at=self._at), _MOST_ALIKE):
            key = f"{Band.LEDGER}/{note.key.removeprefix(prefix)}"
            if key not in self._known:
                self._known.add(key)
                found = memory.store.read(memory.namespace, [key], at=self._at)
                yield from map(record_of, found.values())

    def _commit_live(self) -> None:
        """Commit at once. Each such commit is a run of its own to the store, from the newest state."""
        self._count += 1
        live = replace(
            self.identity, run_id=f"{self.identity.run_id}#{self._count}", memory_snapshot_id=self._at
        )
        try:
            with self.memory.band_budgets.lock if self.memory.band_budgets.budgets else nullcontext():
                self.receipt = self._apply(live) or self.receipt
        finally:
            self._judged.clear()
            self._forgotten.clear()
            self._context = None
            self._accepted.clear()
            self._known.clear()

    @property
    def _is_live(self) -> bool:
        return self.identity.visibility_mode is VisibilityMode.LIVE_READ_WRITE

    def _next_id(self) -> str:
        self._count += 1
        return f"m-{fingerprint(['memory-id/v1', self.identity.run_id, self._count])[:32]}"

    def _before_write(self, operation: str) -> None:
        if not self.identity.visibility_mode.may_write:
            raise NotAllowed(mode=self.identity.visibility_mode.value, operation=operation)
        if self._over:
            raise RunOver(run_id=self.identity.run_id)
        if self._is_live:
            self._at = self.memory.store.head()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard(error)
        else:
            self.commit()
