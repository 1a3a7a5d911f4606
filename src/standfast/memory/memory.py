"""Memory: the store of one namespace with all that governs it."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from standfast.canon import fingerprint
from standfast.clock import Clock, IdSource
from standfast.errors import InvalidValue, NoSuchSnapshot, NotAllowed, StandfastError
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE, ApprovalQueue
from standfast.govern.audit import problems_of_governance
from standfast.govern.judge.judge import FloorRegistry, Judge, JudgingContext
from standfast.govern.policy import MemoryWritePolicy
from standfast.govern.sweep import Due, due, sweep
from standfast.ledger.checkpoint import InclusionReceipt
from standfast.ledger.notary import Notary
from standfast.limits import DEFAULT_MAX_ITEMS
from standfast.memory.band_budgets import BandBudgets, restarts
from standfast.memory.judging_cache import JudgingCache
from standfast.memory.run import Run
from standfast.memory.snapshot_view import RECALLED_BANDS, SnapshotReader, SnapshotView
from standfast.policies.band_budget import BandBudget
from standfast.recall.package import ContextPackage
from standfast.store.commit import Write
from standfast.store.records import STREAM, HistoryEntry, RecordChange, changes_between, history_of
from standfast.store.store import Store, open_store
from standfast.traces.folder import TraceFolder
from standfast.traces.identity import ModelConfig
from standfast.vocabulary import ActionType, Band, Receipt, Record, RunIdentity, VisibilityMode


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
        traces: TraceFolder | None = None,
        budgets: Iterable[BandBudget] = (),
    ) -> None:
        if namespace == SYSTEM_NAMESPACE:
            raise InvalidValue(what="namespace", problem=f"{namespace!r} is Standfast's own; choose another")
        self.store = store
        self.namespace = namespace
        self.floors = Judge(FloorRegistry.shipped() if floors is None else floors)
        self.policy = MemoryWritePolicy(strict, clock=store.clock)
        self.band_budgets = BandBudgets(budgets)
        described = [self.floors.describe(), strict, self.band_budgets.describe()]
        self.policy_set_id = f"policies-{fingerprint(described)[:16]}"
        self.traces = traces
        self._allow_live = allow_live
        self._notary = notary
        self._head_at_opening = store.head()
        self._lock = threading.Lock()
        self.judging_cache = JudgingCache(store, namespace)
        self.reader = SnapshotReader(
            store, namespace, clock=store.clock, law_at=lambda at: self.judging_context(at).vault
        )

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
            options["notary"] = Notary.for_store_file(Path(url), store.entries)
        return cls(store, **options)

    # Writing.

    def run(
        self,
        *,
        workflow: str,
        mode: VisibilityMode | str = VisibilityMode.READ_ONLY,
        agent: str | None = None,
        model: ModelConfig | None = None,
        run_id: str | None = None,
    ) -> Run:
        """Start a run from the newest snapshot. Writing is an explicit choice: ``mode="buffered_write"``.

        ``agent`` is who proposes; ``model`` says which model answers, without which a trace can't claim determinism.
        """
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
        return Run(self, identity, agent or workflow, model)

    # Reading.

    def recall(
        self,
        query: str,
        *,
        tokens: int,
        max_items: int = DEFAULT_MAX_ITEMS,
        bands: Sequence[Band | str] = RECALLED_BANDS,
    ) -> ContextPackage:
        """``memory.read`` over the newest snapshot; see ``SnapshotView.recall``."""
        return self.reader.answer(query, tokens=tokens, max_items=max_items, bands=bands).package

    def at(self, snapshot: int) -> SnapshotView:
        """Memory as of a snapshot, to recall from."""
        head = self.store.head()
        if not 0 <= snapshot <= head:
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        return SnapshotView(self.reader, snapshot)

    # Looking back.

    def history(self, subject: str) -> list[HistoryEntry]:
        """Every version of a subject (or memory id) in every band, with verdict and evidence, oldest first."""
        return history_of(self.store, self.namespace, subject)

    def diff(self, old: int, new: int | None = None) -> list[RecordChange]:
        """What a newer snapshot (by default the newest) shows differently."""
        return changes_between(self.store, self.namespace, old, self.store.head() if new is None else new)

    def records(self, *, band: Band | None = None, at: int | None = None) -> Iterator[Record]:
        """Every record that a snapshot shows, by band and id; proposals are in the approval queue."""
        return SnapshotView(self.reader, self.store.head() if at is None else at).records(band=band)

    # Governing.

    def judging_context(self, at: int) -> JudgingContext:
        """What every judgement at a snapshot may look at: sealed law, and patterns. Runs that start there share it."""
        return self.judging_cache.at(at)

    def approvals(self) -> ApprovalQueue:
        """The queue where proposals wait for a human's signature."""
        return ApprovalQueue(self.store, self.namespace, clock=self.store.clock, beside=self._restarted)

    def due(self) -> Iterator[Due]:
        """What a retention sweep would move or delete now; nothing is changed."""
        return due(self.store, self.namespace, self.store.clock.now())

    def sweep(self) -> list[Receipt]:
        """Carry out retention, as commits of their own."""
        return sweep(self.store, self.namespace, self.store.clock.now(), beside=self._restarted)

    def _restarted(self, at: int, erased: Sequence[str]) -> list[Write]:
        """What the budgets' streams must tell when something is erased from them."""
        rows = restarts(self.store, self.namespace, at, erased)
        actions = {key: ActionType.WRITE if key.startswith(STREAM) else ActionType.MERGE for key in rows}
        return [Write.of(self.namespace, key, actions[key], row) for key, row in rows.items()]

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
        """Sign the head, if it moved and there is a notary, and let go of files and connections.

        What another process committed and did not live to sign is signed as well, if that can be done here.
        """
        try:
            if self._notary is not None and self.store.head() != self._head_at_opening:
                self.checkpoint()
            elif self._notary is not None:
                # It is for others' sake: who only looked at memory is told of no problem that ``verify`` tells of.
                with suppress(StandfastError):
                    if self._notary.is_behind():
                        self.checkpoint()
        finally:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
