"""A run of an agent, from what it is told to what is committed."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.canon import fingerprint, utc_text
from holdfast.errors import InvalidValue, NotAllowed, NotAuthorised, RunOver
from holdfast.govern import stages
from holdfast.govern.authority import Role
from holdfast.govern.judge import Claim, Surroundings
from holdfast.govern.scars import MOST_MARKS_COUNTED, Mark
from holdfast.govern.stages import Judged
from holdfast.store.commit import Commit, Receipt
from holdfast.store.records import record_of
from holdfast.traces.artifact import Trace
from holdfast.traces.identity import ModelConfig
from holdfast.traces.recorder import Recorder
from holdfast.traces.traced_run import TracedRun
from holdfast.vocabulary import Band, Record, Remembered, Verdict, VisibilityMode, normal_tags
from holdfast.vocabulary import Run as RunIdentity

if TYPE_CHECKING:
    from holdfast.memory.memory import Memory

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
        self._around: Surroundings | None = None
        self._known_subjects: set[str] = set()
        self._count = 0
        self._at = identity.memory_snapshot_id
        self._over = False
        self.trace: Trace | None = None

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
                self._surroundings(claim),
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
            if judged.verdict in stages.CANONICAL_VERDICTS and self._around is not None:
                self._around = self._around.after(claim)
            if self._is_live:
                self._commit_live()
            return judged.told

    def _forget(self, subject: str, reason: str) -> None:
        with self._lock:
            store, namespace = self.memory.store, self.memory.namespace
            keys = [f"{band}/{subject}" for band in (Band.VAULT, *FORGETTABLE)]
            present = store.read(namespace, keys, at=self._at)
            if keys[0] in present:
                raise NotAuthorised(role=Role.AGENT.value, act="forget what is sealed", who=Role.HUMAN.value)
            if not present:
                raise InvalidValue(what="subject", problem=f"nothing is known of {subject!r:.80}")
            self._forgotten |= dict.fromkeys(present, reason)
            if self._is_live:
                self._commit_live()

    def commit(self) -> Receipt | None:
        """Apply all of it atomically and durably; None if there was nothing to apply. Again gives the same receipt."""
        with self._lock:
            if not self._over:
                self._over = True
                commit = self._sealed()
                try:
                    self.receipt = None if commit is None else self.memory.store.commit(commit)
                except BaseException as error:
                    self._end_trace(error)
                    raise
                self._end_trace(None)
            return self.receipt

    def _end_trace(self, error: BaseException | None) -> None:
        self.trace = self.recorder.finish(error=error)
        if self.memory.traces is not None:
            self.memory.traces.put(self.trace)

    def discard(self, error: BaseException | None = None) -> None:
        """Forget the buffer; nothing of it was ever visible."""
        with self._lock:
            self._judged.clear()
            self._forgotten.clear()
            if not self._over:
                self._over = True
                self._end_trace(error or RunOver(run_id=self.identity.run_id))

    def _sealed(self) -> Commit | None:
        """777_FORGE and 999_SEAL over what was judged."""
        store, namespace = self.memory.store, self.memory.namespace
        judged = [one for one in self._judged if one.decision.allowed]
        scars, marks = stages.forge(judged, self._counted(judged))
        keys = [*stages.keys_written(judged, scars), *self._forgotten]
        present = {key: row.fingerprint for key, row in store.read(namespace, keys, at=self._at).items()}
        return stages.seal(
            self.identity,
            namespace,
            judged,
            scars=scars,
            marks=marks,
            forgotten=self._forgotten,
            present=present,
        )

    def _counted(self, judged: Sequence[Judged]) -> dict[Mark, int]:
        """How often what happened in this run has happened before, up to what makes a difference."""
        store, namespace, at = self.memory.store, self.memory.namespace, self._at
        counted = {}
        for mark in {mark for one in judged for mark in one.marks}:
            rows = store.scan(namespace, prefix=mark.prefix, at=at)
            counted[mark] = sum(1 for _ in zip(rows, range(MOST_MARKS_COUNTED), strict=False))
        return counted

    def _surroundings(self, claim: Claim) -> Surroundings:
        """What the judge may look at: sealed law, scars, what is known of the subject, and what was refused before."""
        memory, at = self.memory, self._at
        if self._around is None:
            self._around = memory.surroundings(at)
        subject = claim.record.subject
        keys = [stages.refused_key(claim.reading.fingerprint)]
        if subject is not None and subject not in self._known_subjects:
            self._known_subjects.add(subject)
            keys.append(f"{Band.LEDGER}/{subject}")
        found = memory.store.read(memory.namespace, keys, at=at)
        for key in keys[1:]:
            if key in found:
                self._around = self._around.after(Claim(record=record_of(found[key])))
        return self._around.seeing(refused=frozenset({claim.reading.fingerprint} if keys[0] in found else ()))

    def _commit_live(self) -> None:
        """Commit at once. Each such commit is a run of its own to the store, from the newest state."""
        commit = self._sealed()
        self._judged.clear()
        self._forgotten.clear()
        self._around = None
        self._known_subjects.clear()
        if commit is not None:
            self._count += 1
            again = Commit.of(
                run_id=f"{self.identity.run_id}#{self._count}",
                memory_snapshot_id=self._at,
                policy_set_id=commit.policy_set_id,
                writes=commit.writes,
                facts=commit.facts,
            )
            self.receipt = self.memory.store.commit(again)

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
