"""Memory: one namespace of a store, with everything that governs it."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial, wraps
from os import PathLike
from typing import Any, Concatenate, Final, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from standfast.clock import Clock, IdSource
from standfast.errors import InvalidValue, NoSuchSnapshot, NotAllowed
from standfast.govern.judge.judge import Floor, Judge
from standfast.govern.policy import MemoryWritePolicy
from standfast.ledger.notary import Notary
from standfast.limits import MAX_RETRIES, MAX_WARNINGS
from standfast.memory.band_budgets import BandBudgets
from standfast.memory.conversations import AddedMessages, Addition, Conversations
from standfast.memory.current import CurrentFacts
from standfast.memory.embedding import NO_EMBEDDER, MemoryVectors, named_embedder
from standfast.memory.erasing import Eraser, ErasurePlan, Forgotten, untrusted_may_not
from standfast.memory.erasure_targets import ErasureTarget
from standfast.memory.extraction import Extractions, FactExtractor
from standfast.memory.forgotten_traces import recover_traces
from standfast.memory.governance import MemoryGovernance
from standfast.memory.incidents import IncidentVerbs, MemoryIncidents
from standfast.memory.judging_cache import JudgingCache
from standfast.memory.memory_ledger import MemoryLedger
from standfast.memory.retries import RetryLines
from standfast.memory.run import Run
from standfast.memory.run_dependencies import RunServices, checked_ceiling
from standfast.memory.single_calls import SingleCalls
from standfast.memory.snapshot_view import SnapshotReader, SnapshotView, at_newest
from standfast.policies import BandBudget
from standfast.recall.analysis import DEFAULT_LANGUAGE, analyzer_of
from standfast.recall.answers import Package
from standfast.recall.controllers import ControllerRegistry
from standfast.recall.embedders import Embedder
from standfast.recall.rerankers import Reranker, named_reranker
from standfast.recall.tokens import TokenCounter
from standfast.records.origins import Origin, checked_origin, origin_table
from standfast.records.requests import (
    AddFields,
    AddRequest,
    ForgetFields,
    ForgetRequest,
    RecallFields,
    RecallRequest,
    RememberFields,
    RememberRequest,
    takes_fields_of,
)
from standfast.records.rows import checked_namespace
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import CommitPolicy, Remembered, VisibilityMode, member_of
from standfast.store.opening import checked_url, open_store, require_open
from standfast.store.store import Store
from standfast.traces.artifact import ModelConfig
from standfast.traces.folder import TraceFolder
from standfast.traces.recall_log import RecallLog

_P = ParamSpec("_P")
_T = TypeVar("_T")
_log: Final = logging.getLogger("standfast.memory")
DEFAULT_WORKFLOW: Final = "memory"
"""The workflow of ``memory.remember`` and ``memory.forget``, which are runs of their own."""


def _of_part(name: str, verb: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate["Memory", _P], _T]:
    """A verb of a part, such as ``memory.ledger``, as one of ``memory``, with its signature."""

    @wraps(verb)
    def call(self: "Memory", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return verb(getattr(self, name), *args, **kwargs)

    return call


def _own_notary(url: str, store: Store) -> Notary | None:
    """The notary whose key is among the store's side files."""
    return Notary.for_store(url, store.entries, store.branches, store.announce_key)


class Memory(IncidentVerbs):
    """The memory of one namespace. Threads may share it. Close it, or use it as a context manager.

        with Memory.open("agent.db") as memory:
            memory.remember("Ada prefers answers in German.")
            print(memory.recall("How should I answer Ada?").text)

    Args:
        store: Where the memory is stored; ``Memory.open`` opens one by its URL.
        namespace: The tenant. Namespaces never see each other.
        floors: The checks of the judge; by default those that ship.
        strict: Whether the write policy refuses evidence that is incomplete.
        allow_live: Whether runs in mode ``live_read_write`` are allowed. They can't claim determinism.
        mode: The mode of runs that name none. It is lowered to the ceiling.
        ceiling: What memory may be used for at all: ``"off"`` for nothing, ``"read_only"`` for reading,
            ``"buffered_write"`` for both.
        notary: Signs checkpoints of the ledger, and issues inclusion receipts.
        traces: Where the traces of runs are stored; by default they are not.
        commit_policy: ``"all_or_nothing"`` rejects a run of which some texts are accepted and others are not.
        budgets: The byte budgets of bands, at most one per band.
        origins: How far kinds of sources are trusted, where it differs from ``ORIGIN_OF_KIND``: ``{"ticket":
            "ordinary"}``.
        embedder: Makes vectors for ``hybrid-v1``, stored with each commit: by default the shipped table,
            ``"none"`` for no vectors; see ``open_embedder``.
        reranker: Looks at the best records of a recall again; see ``open_reranker``.
        language: The language of the namespace's texts, by which recall finds stems and function words; see
            ``recall.LANGUAGES``. ``"none"`` takes words as they are, for code.
        recall_log: Keeps which package was handed to whom, for investigations; by default none is kept.
        extractor: Finds facts in conversations where ``add`` is called with ``extract=True``.
    """

    def __init__(
        self,
        store: Store,
        *,
        namespace: str = "default",
        floors: Iterable[Floor] | Judge | None = None,
        strict: bool = True,
        allow_live: bool = False,
        mode: VisibilityMode | str = VisibilityMode.READ_ONLY,
        ceiling: VisibilityMode | str = VisibilityMode.BUFFERED_WRITE,
        notary: Notary | None = None,
        traces: TraceFolder | None = None,
        commit_policy: CommitPolicy | str = CommitPolicy.ACCEPTED,
        budgets: Iterable[BandBudget] | BandBudgets = (),
        controllers: ControllerRegistry | None = None,
        origins: Mapping[str, Origin | str] | None = None,
        embedder: Embedder | str | None = None,
        reranker: Reranker | str | None = None,
        language: str = DEFAULT_LANGUAGE,
        recall_log: RecallLog | None = None,
        extractor: FactExtractor | None = None,
    ) -> None:
        self.store, self.namespace = require_open(store), checked_namespace(namespace)
        self._mode = member_of(VisibilityMode, mode, what="mode")
        self.ceiling = checked_ceiling(ceiling)
        self.band_budgets = budgets if isinstance(budgets, BandBudgets) else BandBudgets(budgets)
        self.judging_cache = JudgingCache(store, namespace)
        self.vectors = MemoryVectors(store, namespace, embedder, warn=self._warn)
        self.reader = SnapshotReader(
            store,
            namespace,
            law_at=self.judging_cache.law_names_at,
            controllers=controllers,
            require_readable=self.require_readable,
            vectors=self.vectors,
            language=language,
            may_write=self.ceiling.may_write,
            warn=self._warn,
            reranker=named_reranker(reranker),
            recall_log=recall_log,
        )
        self._services = RunServices(
            store=store,
            namespace=namespace,
            judge=Judge.of(floors),
            policy=MemoryWritePolicy(strict, clock=store.clock),
            budgets=self.band_budgets,
            judging_cache=self.judging_cache,
            origin_of_kind=origin_table(origins or {}),
            reader=self.reader,
            traces=traces,
            commit_policy=member_of(CommitPolicy, commit_policy, what="commit_policy"),
            warn=self._warn,
        )
        self.policy_set_id, self.traces = self._services.policy_set_id, traces
        self.ledger = MemoryLedger(store, notary, warn=self._warn)
        self.governance = MemoryGovernance(store, namespace, self.band_budgets)
        self.approvals = self.governance.approvals
        self.incidents = MemoryIncidents(self._services, recall_log, require_writable=self._require_writable)
        self._eraser = Eraser(self._services)
        self.retry_lines = RetryLines(store.clock)
        self.current = CurrentFacts(self.reader, self._writing_run, self.retry_lines)
        self._single_calls = SingleCalls(self._services, self._eraser, self.retry_lines)
        self._conversations = Conversations(self._services, self.retry_lines)
        self.extractions = Extractions(self._services, self.session, self._writing_run, extractor)
        self._warnings: deque[str] = deque(maxlen=MAX_WARNINGS)
        self._allow_live, self._at_close = allow_live, ExitStack()
        """What ``close`` ends first: threads that work on this memory."""

    @classmethod
    def open(
        cls,
        url: str | PathLike[str],
        *,
        namespace: str = "default",
        create: bool = True,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        floors: Iterable[Floor] | None = None,
        strict: bool = True,
        allow_live: bool = False,
        mode: VisibilityMode | str = VisibilityMode.READ_ONLY,
        ceiling: VisibilityMode | str = VisibilityMode.BUFFERED_WRITE,
        notary: Notary | Literal["auto"] | None = "auto",
        traces: TraceFolder | Literal["auto"] | None = "auto",
        commit_policy: CommitPolicy | str = CommitPolicy.ACCEPTED,
        budgets: Iterable[BandBudget] = (),
        controllers: ControllerRegistry | None = None,
        origins: Mapping[str, Origin | str] | None = None,
        embedder: Embedder | str | None = None,
        reranker: Reranker | str | None = None,
        language: str = DEFAULT_LANGUAGE,
        recall_log: RecallLog | bool = False,
        extractor: FactExtractor | None = None,
    ) -> Self:
        """Open the memory at a path (one SQLite file), a ``postgresql://`` URL, or ``":memory:"`` for a test.

        All arguments are checked before a file is created. The other parameters are those of ``Memory``.

        Args:
            notary: ``"auto"`` signs checkpoints of the ledger with a key among the store's side files.
            traces: ``"auto"`` stores the traces of runs that ``run`` opens among the store's side files.
            recall_log: True keeps a recall log among the store's side files.
        """
        url, namespace, ceiling = checked_url(url), checked_namespace(namespace), checked_ceiling(ceiling)
        mode = member_of(VisibilityMode, mode, what="mode")
        commit_policy = member_of(CommitPolicy, commit_policy, what="commit_policy")
        _ = origin_table(origins or {}), analyzer_of(language)
        judge, band_budgets = Judge.of(floors), BandBudgets(budgets)
        embedder, reranker = named_embedder(embedder) or NO_EMBEDDER, named_reranker(reranker)
        store = open_store(url, create=create, clock=clock, ids=ids)
        try:
            memory = cls(
                store,
                namespace=namespace,
                floors=judge,
                strict=strict,
                allow_live=allow_live,
                mode=mode,
                ceiling=ceiling,
                notary=_own_notary(url, store) if notary == "auto" else notary,
                traces=TraceFolder.for_store(url) if traces == "auto" else traces,
                commit_policy=commit_policy,
                budgets=band_budgets,
                controllers=controllers,
                origins=origins,
                embedder=embedder,
                reranker=reranker,
                language=language,
                recall_log=RecallLog.chosen(recall_log, url, store.clock),
                extractor=extractor,
            )
            memory.finish_forgetting()
            memory.ledger.start_signing()
        except BaseException:
            store.close()
            raise
        return memory

    # Writing.

    @takes_fields_of(RememberRequest)
    def remember(
        self,
        text: str,
        *,
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
        **fields: Unpack[RememberFields],
    ) -> Remembered:
        """Judge a text and commit it. The fields are those of ``RememberRequest``.

        Args:
            run_id: An idempotency key. Repeating the call with it, from any process, has one effect.
            max_origin: The most that the text may be trusted, whatever its source says.

        Returns:
            The verdict, the reasons for it, the id of the record, and the commit's receipt.

        Raises:
            PayloadMismatch: The ``run_id`` was used for another call.
        """
        request = RememberRequest.of(text, **fields)
        if run_id is not None or self._services.records_single_calls:
            run = partial(self._writing_run, workflow, agent, run_id, max_origin)
            return self._single_calls.remember_in_run(request, run)
        self._require_run(VisibilityMode.BUFFERED_WRITE)
        return self._single_calls.remember(request, workflow=workflow, agent=agent, max_origin=max_origin)

    @takes_fields_of(AddRequest)
    def add(
        self,
        messages: Iterable[Any],
        *,
        extract: FactExtractor | bool = False,
        background: bool = False,
        wait_seconds: float | None = None,
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
        is_operator: bool = False,
        rehearse: bool = False,
        **fields: Unpack[AddFields],
    ) -> AddedMessages:
        """Add the messages of a conversation.

        Each is judged and becomes one record; a long one becomes several. The fields are ``AddRequest``'s.

            memory.add([{"role": "user", "content": "I moved to Berlin."}], scope="user/ada", session="7")

        Args:
            messages: OpenAI- or Anthropic-style messages, as dicts or as the objects of a client library.
            extract: Finds facts in the accepted messages, e.g. ``Extractor(provider)``; each is judged. True
                means the extractor of the memory.
            background: Answer before the facts are found; ``memory.extractions.finish()`` waits for them.
            wait_seconds: Answer without the facts if finding them takes longer; they follow in the
                background.
            run_id: An idempotency key, as for ``remember``.
            max_origin: The most that the messages may be trusted, whoever said them.
            is_operator: Whether an operator adds them, as the caller's key decides over the server. Only then
                are ``system`` messages trusted; otherwise they count like documents.
            rehearse: Only judge the messages, and store nothing.

        Raises:
            MessageConflict: The session has another message at one of the positions.
            ExtractionError: ``extract`` is True, and the memory has no extractor. Nothing was added.
        """
        self._require_writable("add messages")
        extractor = self.extractions.chosen(extract)
        asked = AddRequest.of(messages, **fields)
        request = Addition.of(
            asked, run_id=run_id, max_origin=max_origin, is_operator=is_operator, is_rehearsal=rehearse
        )
        added = self._conversations.add(request, workflow=workflow, agent=agent or workflow)
        if extractor is None or rehearse:
            return added
        return self.extractions.add_facts(
            added,
            extractor,
            workflow=workflow,
            agent=agent,
            max_origin=request.max_origin,
            run_id=run_id,
            background=background,
            wait_seconds=wait_seconds,
        )

    @overload
    def forget(
        self,
        subject: str | None = None,
        *,
        reason: str,
        rehearse: Literal[False] = False,
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
        **fields: Unpack[ForgetFields],
    ) -> Forgotten: ...

    @overload
    def forget(
        self,
        subject: str | None = None,
        *,
        reason: str = "",
        rehearse: Literal[True],
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
        **fields: Unpack[ForgetFields],
    ) -> ErasurePlan: ...

    @takes_fields_of(ForgetRequest)
    def forget(
        self,
        subject: str | None = None,
        *,
        reason: str = "",
        rehearse: bool = False,
        workflow: str = DEFAULT_WORKFLOW,
        agent: str | None = None,
        run_id: str | None = None,
        max_origin: Origin | str = Origin.TRUSTED,
        **fields: Unpack[ForgetFields],
    ) -> Forgotten | ErasurePlan:
        """Erase every version of what is named, everywhere: a subject or memory id, all of a scope, or all
        from a source.

            memory.forget("preference/language", scope="user/ada", reason="asked for")
            memory.forget(scope="user/ada", reason="erasure request 17")

        A scope or a source may have any number of records. They are erased in as many commits as it takes; if
        the process ends in between, repeating the call or opening the memory again finishes it. Law stays,
        and is listed in the answer. What others write after the call stays too, also a newer version of the
        same record. If nothing is there, the answer says 0 records. The fields are those of
        ``ForgetRequest``.

        Args:
            run_id: An idempotency key, as for ``remember``.
            max_origin: How far whoever asks is trusted. An untrusted one forgets single records of untrusted
                sources, and nothing else.

        Raises:
            InvalidValue: The arguments name nothing.
            NotAuthorised: It is law, which only a human's signature ends; or an untrusted caller asks to
                forget what others said.
        """
        request = ForgetRequest.of(subject, reason=reason, rehearse=rehearse, **fields)
        target, highest = ErasureTarget.of(request), checked_origin(max_origin, what="max_origin")
        if target is not None and highest is Origin.UNTRUSTED:
            raise untrusted_may_not("forget all of a scope or source, only its own records one by one,")
        if target is not None:
            if rehearse:
                return self._eraser.plan(target)
            self._require_writable("forget")
            by = agent or workflow
            return self._eraser.erase(target, reason=request.reason, by=by, key=run_id)
        if rehearse:
            return self._eraser.plan_one(request.name, request.place)
        open_run = partial(self._writing_run, workflow, agent, run_id, highest)
        return self._single_calls.forget(request, open_run, by=agent or workflow)

    def finish_forgetting(self) -> list[Forgotten]:
        """Finish what processes that died had begun to forget, to put into quarantine or to release.

        ``Memory.open``, the commands and the server do so.
        """
        # What is forgotten may be in the journals of runs that were killed.
        recover_traces(self._services)
        if not self.ceiling.may_write:
            return []
        self.incidents.finish_abandoned()
        return self._eraser.finish_abandoned()

    def _writing_run(
        self, workflow: str, agent: str | None, run_id: str | None, max_origin: Origin | str = Origin.TRUSTED
    ) -> Run:
        """A run for one call, which nobody else gets to see."""
        mode, recorded = VisibilityMode.BUFFERED_WRITE, self._services.records_single_calls
        return self._open_run(workflow, mode, agent, run_id, max_origin, is_recorded=recorded, has_read=False)

    def _require_run(self, mode: VisibilityMode) -> None:
        """Refuse a run that the ceiling forbids."""
        if mode.may_read:
            self.require_readable(f"open a run in mode {mode}")
        if mode.may_write:
            self._require_writable(f"open a run in mode {mode}")

    def run(
        self,
        *,
        workflow: str,
        mode: VisibilityMode | str | None = None,
        agent: str | None = None,
        model: ModelConfig | None = None,
        run_id: str | None = None,
        scope: str = SHARED,
        max_origin: Origin | str = Origin.TRUSTED,
        snapshot: int | None = None,
    ) -> Run:
        """Start a run from the newest snapshot, or from an earlier one that it only reads.

        Args:
            workflow: The name of the workflow; runs of one workflow can be compared.
            mode: ``"read_only"``, ``"buffered_write"`` to write, ``"off"``, or ``"live_read_write"``.
                Default: the memory's.
            agent: Who proposes; by default the workflow.
            model: The model that answers. Without it, a trace can't claim determinism.
            run_id: The id of the run; by default a new one. An id of your own is an idempotency key: the same
                calls under it, later and from any process, take effect once.
            scope: Where the run reads and writes unless a call names a scope.
            max_origin: The most that what the run remembers may be trusted, whatever its sources say.
            snapshot: The snapshot that a run without writes reads; its trace names it.

        Raises:
            InvalidValue: An argument is wrong, or a run that writes names a snapshot.
            NoSuchSnapshot: The snapshot was never committed.
            NotAllowed: The memory's ceiling forbids the mode, or ``live_read_write`` is not allowed.
        """
        if mode is not None:
            chosen = member_of(VisibilityMode, mode, what="mode")
        elif self._mode.may_write and not self.ceiling.may_write:
            chosen = self.ceiling
        else:
            chosen = self._mode if self.ceiling.may_read else VisibilityMode.OFF
        if snapshot is not None and chosen.may_write:
            raise InvalidValue(what="snapshot", problem=f"a run in mode {chosen} works on the newest one")
        return self._open_run(
            workflow, chosen, agent, run_id, max_origin, model=model, scope=scope, snapshot=snapshot
        )

    def _open_run(
        self,
        workflow: str,
        mode: VisibilityMode,
        agent: str | None,
        run_id: str | None,
        max_origin: Origin | str,
        *,
        model: ModelConfig | None = None,
        scope: str = SHARED,
        snapshot: int | None = None,
        is_recorded: bool = True,
        has_read: bool = True,
    ) -> Run:
        self._require_run(mode)
        at = self.store.head() if snapshot is None else self.at(snapshot).memory_snapshot_id
        identity = self._services.identity(run_id, workflow=workflow, at=at, mode=mode, scope=scope)
        if mode is VisibilityMode.LIVE_READ_WRITE and not self._allow_live:
            raise NotAllowed(mode=mode.value, operation="run; open memory with allow_live=True")
        return Run(
            self._services,
            identity,
            agent=workflow if agent is None else agent,
            model=model,
            is_idempotent=run_id is not None,
            max_origin=checked_origin(max_origin, what="max_origin"),
            is_recorded=is_recorded,
            has_read=has_read,
        )

    def retry(self, attempt: Callable[[], _T], *, key: str = "", attempts: int = MAX_RETRIES) -> _T:
        """Call a function until it does not conflict with other runs. Who waited longest goes first.

            memory.retry(lambda: memory.remember("EU refunds take 14 days.", subject="policy/eu-refunds"),
            key="policy/eu-refunds")

        Args:
            attempt: Opens a run of its own, reads what it needs, and commits; called again after a conflict.
            key: What the callers compete for, such as the subject. Other keys do not wait for each other.
            attempts: How often it is called at most.

        Raises:
            CommitAborted: The last attempt conflicted too.
        """
        return self.retry_lines.retry(attempt, key=key, attempts=attempts)

    # Reading.

    @takes_fields_of(RecallRequest)
    def recall(
        self, query: str, *, token_counter: TokenCounter | None = None, **fields: Unpack[RecallFields]
    ) -> Package:
        """Return the best excerpts for a query from the newest snapshot.

        The fields are those of ``RecallRequest``.

        Args:
            token_counter: Counts the tokens of the text; by default four bytes are a token.
        """
        request = RecallRequest.of(query, **fields)
        return self.reader.answer(request, token_counter=token_counter).package

    explain = at_newest(SnapshotView.explain)

    def at(self, snapshot: int) -> SnapshotView:
        """Return memory as of a snapshot. Recalling from it gives the same package as it did then.

        Raises:
            NoSuchSnapshot: It was never committed.
        """
        head = self.store.head()
        if not (type(snapshot) is int and 0 <= snapshot <= head):
            raise NoSuchSnapshot(memory_snapshot_id=snapshot, head=head)
        return SnapshotView(self.reader, snapshot)

    history = _of_part("reader", SnapshotReader.history)

    diff = _of_part("reader", SnapshotReader.diff)
    records = _of_part("reader", SnapshotReader.records)
    session = _of_part("reader", SnapshotReader.session)
    sessions = _of_part("reader", SnapshotReader.sessions)

    def require_readable(self, operation: str) -> None:
        """Raise ``NotAllowed`` (``above_ceiling``) if the memory's ceiling forbids to read.

        ``operation`` says what was to be done.
        """
        if not self.ceiling.may_read:
            raise NotAllowed("above_ceiling", ceiling=self.ceiling.value, operation=operation)

    def _require_writable(self, operation: str) -> None:
        if not self.ceiling.may_write:
            raise NotAllowed("above_ceiling", ceiling=self.ceiling.value, operation=operation)

    # Governing and proving.

    profile = _of_part("current", CurrentFacts.profile)
    conflicts = _of_part("current", CurrentFacts.conflicts)
    settle = _of_part("current", CurrentFacts.settle)
    settle_all = _of_part("current", CurrentFacts.settle_all)
    patterns = _of_part("governance", MemoryGovernance.patterns)
    lift_pattern = _of_part("governance", MemoryGovernance.lift_pattern)
    refusals = _of_part("governance", MemoryGovernance.refusals)
    lift_refusal = _of_part("governance", MemoryGovernance.lift_refusal)
    due = _of_part("governance", MemoryGovernance.due)
    sweep = _of_part("governance", MemoryGovernance.sweep)
    verify = _of_part("ledger", MemoryLedger.verify)
    verification = _of_part("ledger", MemoryLedger.verification)
    tail = _of_part("ledger", MemoryLedger.tail)
    checkpoint = _of_part("ledger", MemoryLedger.checkpoint)
    receipt = _of_part("ledger", MemoryLedger.receipt)

    # Ending.

    def close(self) -> None:
        """Sign the ledger's head if it moved and there is a notary, then release files and connections.

        Commits of another process that ended before it signed them are signed as well, if that is possible
        here. What was committed stays committed: if signing fails, that is one of the ``warnings``.
        """
        try:
            self.extractions.close()
            self._at_close.close()
            self.reader.close()
            self.ledger.sign_at_close()
        finally:
            self.store.close()

    @property
    def warnings(self) -> list[str]:
        """What failed after something was applied: a checkpoint or trace that was not stored, oldest first.

        Each is also logged by the logger ``standfast.memory``. Only the newest ones are kept.
        """
        return list(self._warnings)

    def _warn(self, problem: str) -> None:
        self._warnings.append(problem)
        _log.warning("%s", problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
