"""Memory and its Run: one request, from top to bottom. Read this second, after the vocabulary.

    with memory.run(workflow="triage", mode="buffered_write") as run:
        context = run.recall(...)       111_SENSE   what is known, how far to trust it, within a token budget
        run.remember(...)               888_JUDGE   floors, verdict, evidence; where it goes
                                        777_FORGE   what keeps going wrong becomes a scar
    # leaving the block                 999_SEAL    one commit, one receipt, all of it in the ledger

Rules live below, in ``govern/``, ``store/``, ``recall/`` and ``budgets/``; here they are called in order.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from holdfast.canon import fingerprint, utc_text
from holdfast.clock import Clock, IdSource
from holdfast.errors import InvalidValue, NotAllowed, NotAuthorised, RunOver
from holdfast.govern import stages
from holdfast.govern.audit import problems_of_governance
from holdfast.govern.authority import Role
from holdfast.govern.judge import Claim, FloorRegistry, Judge, Surroundings
from holdfast.govern.policy import MemoryWritePolicy
from holdfast.govern.scars import MOST_MARKS_COUNTED, Mark
from holdfast.govern.seals.desk import SYSTEM_NAMESPACE, Desk
from holdfast.govern.stages import Judged
from holdfast.govern.sweep import Due, due, sweep
from holdfast.ledger.notary import Notary
from holdfast.ledger.receipt import InclusionReceipt
from holdfast.store.commit import Commit, Receipt, Write
from holdfast.store.opening import open_store
from holdfast.store.records import Change, Chapter, changes_between, history_of, record_of
from holdfast.store.store import Store
from holdfast.vocabulary import Band, Record, Verdict, VisibilityMode, normal_tags
from holdfast.vocabulary import Run as RunIdentity

FORGETTABLE: Final = (Band.LEDGER, Band.ACTIVE, Band.WITNESS)


class Memory:
    """The memory of one namespace. Safe to share between threads; close it, or use it as a context manager."""

    def __init__(
        self,
        store: Store,
        *,
        namespace: str = "default",
        floors: Iterable[Any] | None = None,
        strict: bool = True,
        allow_live: bool = False,
        notary: Notary | None = None,
    ) -> None:
        if namespace == SYSTEM_NAMESPACE:
            raise InvalidValue(what="namespace", problem=f"{namespace!r} is Holdfast's own; choose another")
        self.store = store
        self.namespace = namespace
        self.floors = Judge(FloorRegistry.shipped() if floors is None else floors)
        self.policy = MemoryWritePolicy(strict, clock=store.clock)
        self.policy_set_id = f"governance-{fingerprint([self.floors.describe(), strict])[:16]}"
        self._allow_live = allow_live
        self._notary = notary
        self._head_at_opening = store.head()
        self._lock = threading.Lock()
        self._known: tuple[int, Surroundings] | None = None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = True,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        **options: Any,
    ) -> Self:
        """The memory at a path (one SQLite file), a ``postgresql://`` URL, or ``:memory:`` for a test.

        Checkpoints of a file's ledger are signed by a key beside it, and kept there; for a server, hand in a notary.
        """
        store = open_store(url, create=create, clock=clock, ids=ids)
        is_file = url != ":memory:" and "://" not in url
        if is_file and "notary" not in options:
            options["notary"] = Notary.beside(Path(url), store.entries)
        return cls(store, **options)

    # Writing.

    def run(
        self,
        *,
        workflow: str,
        mode: VisibilityMode | str = VisibilityMode.READ_ONLY,
        agent: str | None = None,
        run_id: str | None = None,
    ) -> "Run":
        """Start a run from the newest snapshot. Writing is an explicit choice: ``mode="buffered_write"``."""
        identity = RunIdentity(
            run_id=run_id or self.store.ids.new_id(),
            workflow_id=workflow,
            memory_snapshot_id=self.store.head(),
            visibility_mode=VisibilityMode(mode),
            policy_set_id=self.policy_set_id,
        )
        if identity.visibility_mode is VisibilityMode.LIVE_READ_WRITE and not self._allow_live:
            raise NotAllowed(
                mode=identity.visibility_mode.value, operation="run; open memory with allow_live=True"
            )
        return Run(self, identity, agent or workflow)

    # Looking back.

    def history(self, subject: str) -> list[Chapter]:
        """Every version of a subject (or memory id) in every band, with verdict and evidence, oldest first."""
        return history_of(self.store, self.namespace, subject)

    def diff(self, old: int, new: int | None = None) -> list[Change]:
        """What a newer snapshot (by default the newest) shows differently."""
        return changes_between(self.store, self.namespace, old, self.store.head() if new is None else new)

    def records(self, *, band: Band | None = None, at: int | None = None) -> Iterator[Record]:
        """Every record that a snapshot shows, by band and id; proposals are at the desk."""
        for one in (band,) if band else Band:
            if one is not Band.PHOENIX:
                for version in self.store.scan(self.namespace, prefix=f"{one}/", at=at):
                    yield record_of(version)

    # Governing.

    def surroundings(self, at: int) -> Surroundings:
        """What every judgement at a snapshot may look at: sealed law, and scars. Runs that start there share it."""
        known = self._known
        if known is None or known[0] != at:
            vault = tuple(self.records(band=Band.VAULT, at=at))
            scars = tuple(self.records(band=Band.WITNESS, at=at))
            self._known = known = (at, Surroundings(vault=vault, scars=scars))
        return known[1]

    def approvals(self) -> Desk:
        """The desk where proposals wait for a human's signature."""
        return Desk(self.store, self.namespace, clock=self.store.clock)

    def due(self) -> Iterator[Due]:
        """What a retention sweep would move or delete now; nothing is changed."""
        return due(self.store, self.namespace, self.store.clock.now())

    def sweep(self) -> list[Receipt]:
        """Carry out retention, as commits of their own."""
        return sweep(self.store, self.namespace, self.store.clock.now())

    def verify(self) -> Iterator[str]:
        """Walk everything: storage, ledger, signed checkpoints, commits, evidence, seals. Nothing told: all holds."""
        notes, keys, torn = ((), (), ()) if self._notary is None else self._notary.kept()
        yield from (f"line {number} of the checkpoints is torn" for number in torn)
        yield from self.store.verify(notes, keys)
        yield from problems_of_governance(self.store)

    def checkpoint(self) -> str | None:
        """Sign the ledger's head and keep it outside the store; None where there is no notary."""
        with self._lock:
            return None if self._notary is None else self._notary.checkpoint()

    def receipt(self, ledger_seq: int) -> InclusionReceipt:
        """Proof that an entry is in the ledger, for someone who has only the public key."""
        if self._notary is None:
            raise InvalidValue(
                what="Memory", problem="it has no notary; open it with one to hand out receipts"
            )
        with self._lock:
            return self._notary.receipt(ledger_seq)

    def close(self) -> None:
        """Sign the head, if it moved since and there is a notary, and let go of files and connections."""
        try:
            if self._notary is not None and self.store.head() != self._head_at_opening:
                self.checkpoint()
        finally:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Run:
    """One run of an agent: it reads its start snapshot, and what it remembers is invisible until it commits.

    As a context manager, leaving the block commits, and an exception discards. Threads may share it.
    """

    def __init__(self, memory: Memory, identity: RunIdentity, agent: str) -> None:
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
        self._commit: Commit | None = None

    def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        subject: str | None = None,
        source: dict[str, Any] | None = None,
        refs: Sequence[dict[str, Any]] = (),
        propose: bool = False,
        role: Role | str = Role.AGENT,
        hold: str | None = None,
    ) -> Judged:
        """Have something judged, and buffered for the bands that its verdict leads to. The answer says which, and why.

        A subject has one canonical content at a time, with its history; without one, the thing is new. ``propose``
        asks for a human's seal (VAULT), ``hold`` gives a reason to wait for one (888_HOLD).
        """
        with self._lock:
            self._require_may_write("remember")
            record = Record(
                memory_id=subject or self._next_id(),
                text=text,
                ts_utc=utc_text(self.memory.store.clock.now()),
                tags=normal_tags(list(tags)),
                refs=tuple(refs),
                subject=subject,
                source=source,
                band=Band.PHOENIX if propose else Band.LEDGER,
            )
            claim = Claim(record=record, role=role)
            judged = stages.judge(
                claim,
                self._surroundings(claim),
                floors=self.memory.floors,
                policy=self.memory.policy,
                run=self.identity,
                namespace=self.memory.namespace,
                author=self.agent,
                now=self.memory.store.clock.now(),
                told=None if hold is None else Verdict.HOLD,
                why=hold or "",
            )
            self._judged.append(judged)
            if judged.verdict in stages.CANONICAL_VERDICTS and self._around is not None:
                self._around = self._around.after(claim)
            if self._is_live:
                self._commit_live()
            return judged

    def forget(self, subject: str, *, reason: str) -> None:
        """End what is known of a subject (or memory id) and erase what it said; the ledger keeps that it was, and why.

        What is sealed stays: only humans end law.
        """
        with self._lock:
            self._require_may_write("forget")
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

    def commit(self, *, beside: Sequence[Write] = ()) -> Receipt | None:
        """Apply all of it atomically and durably; None if there was nothing to apply. Again gives the same receipt.

        After an error, again submits the very same commit, so that it is applied once at most. ``beside`` are rows of
        the caller's own, written in the same transaction or not at all.
        """
        with self._lock:
            if not self._over:
                self._over = True
                sealed = self._sealed()
                self._commit = None if sealed is None else sealed.beside(beside)
            if self._commit is not None and self.receipt is None:
                self.receipt = self.memory.store.commit(self._commit)
            return self.receipt

    def discard(self) -> None:
        """Forget the buffer; nothing of it was ever visible."""
        with self._lock:
            self._judged.clear()
            self._forgotten.clear()
            self._over = True

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

    def _require_may_write(self, operation: str) -> None:
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
            self.discard()
        else:
            self.commit()
