"""Extraction: the facts that a model finds in messages, judged and remembered like everything else.

The model is behind a protocol; ``adapters/extraction.py`` has the one that asks a provider. It is given the
messages with their times, the last ones before them, and the facts that are known already, each with its id.
It answers with facts to add and facts that replace known ones.

A fact cites its messages: it has the time of the last of them, and is trusted no more than the least. A
replacement supersedes what it replaces, with evidence; what a trusted user said, and law, are never ended
that way: both are kept. Facts are remembered in runs whose ids are made from the messages, so adding a
conversation again asks nobody and changes nothing.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from msgspec.structs import replace

from standfast.errors import (
    CommitAborted,
    ExtractionBudgetSpent,
    ExtractionError,
    InvalidValue,
    PayloadMismatch,
    StandfastError,
)
from standfast.limits import (
    EXTRACTED_MESSAGES,
    EXTRACTION_STOP_SECONDS,
    KNOWN_FACTS,
    KNOWN_QUERY_CHARS,
    MAX_EXTRACTION_TRIES,
    MAX_PENDING_EXTRACTIONS,
    MESSAGES_BEFORE,
)
from standfast.memory.conversations import AddedMessages
from standfast.memory.extraction_queue import ExtractionQueue, PendingExtraction
from standfast.memory.idempotency import CallLog
from standfast.memory.messages import SessionMessage
from standfast.memory.run import Run
from standfast.memory.run_dependencies import RunServices
from standfast.memory.snapshot_view import SnapshotView
from standfast.recall.package import RecallPackage
from standfast.records.canon import fingerprint
from standfast.records.filters import LAW
from standfast.records.origins import Origin, lowest
from standfast.records.requests import RecallRequest
from standfast.records.rows import RowKind
from standfast.records.scopes import is_within, scoped_key
from standfast.records.vocabulary import ActionType, Band, Remembered, Value
from standfast.store.commit import Write

CITED_KIND: Final = "message"
"""The kind of the refs by which a fact cites messages."""
_KNOWN_TOKENS: Final = 8_000
_LOOKED_AT: Final = 200


class KnownFact(Value, frozen=True, kw_only=True):
    """A fact that the scope holds now, as an extractor sees it.

    Args:
        date: When it was said, as YYYY-MM-DD.
        trust: How far it is trusted: ``"law"``, ``"trusted"`` or ``"ordinary"``.
    """

    memory_id: str
    text: str
    subject: str | None = None
    date: str | None = None
    trust: str = Origin.ORDINARY.value


class ExtractedFact(Value, frozen=True, kw_only=True):
    """One fact that a model found in messages.

    Args:
        text: The fact, as one plain statement.
        cites: The positions of the messages that say so; at least one.
        subject: What it is about. A subject may hold several facts; each stays until one replaces it.
        scope: Where it belongs, if that is below the scope of the conversation.
        replaces: The ids of known facts that it replaces.
        date: The day that it is about, as YYYY-MM-DD; kept in the fact's metadata.
    """

    text: str
    cites: tuple[int, ...]
    subject: str | None = None
    scope: str | None = None
    replaces: tuple[str, ...] = ()
    date: str | None = None


class FactExtractor(Protocol):
    """Finds facts in messages. Equal arguments should give equal answers, so that a repeated call does."""

    @property
    def extractor_id(self) -> str:
        """Names it and everything that can change its answers. It is the source of the facts."""
        ...

    def extract(
        self,
        messages: Sequence[SessionMessage],
        *,
        scope: str,
        before: Sequence[SessionMessage],
        known: Sequence[KnownFact],
    ) -> Sequence[ExtractedFact]:
        """Return the facts in accepted messages of one conversation, oldest first.

        Every failure is a ``StandfastError``.

        Args:
            scope: Where the conversation belongs.
            before: The last messages before them, to understand them by. They can't be cited.
            known: The facts of the scope that are nearest to the messages, the nearest first.
        """
        ...


@runtime_checkable
class OperatorExtractor(Protocol):
    """What an extractor that an operator set has besides: a budget."""

    always: bool
    """Whether a server asks it for every conversation, also if its callers do not."""

    def spent(self) -> "ExtractionSpending":
        """What was spent today, and what may be."""
        ...


class ExtractionSpending(Value, frozen=True, kw_only=True):
    """What extraction spent on a day, in UTC, and what it may spend; None is no limit."""

    day: str
    calls: int
    cost: float
    max_calls: int | None
    max_cost: float | None


class ExtractionStatus(Value, frozen=True, kw_only=True):
    """Whether facts can be extracted, what waits for it, and what it spent.

    Attributes:
        is_set: Whether a model is set.
        waiting: How many conversations of the namespace wait for the model.
        problem: Why the last try of one of them failed.
        spending: What was spent today by the whole store; None without a budget.
    """

    is_set: bool
    waiting: int
    problem: str = ""
    spending: ExtractionSpending | None = None


class _Work(NamedTuple):
    """One conversation that the thread is to find facts in. Who waits for it is told by the future."""

    pending: PendingExtraction
    extractor: FactExtractor
    done: "Future[list[Remembered]]"
    is_queued: bool


class OpensRun(Protocol):
    """Opens a writing run."""

    def __call__(self, workflow: str, agent: str | None, run_id: str | None, max_origin: Origin) -> Run:
        """The run with this id."""
        ...


class Extractions:
    """Finds facts in added messages, at once or in the background.

    One thread works for a namespace, so that facts are found in the order in which messages came. What waits
    for the extractor that is set also waits in the store, and survives a restart.

    Args:
        session: Gives the messages of a session in a scope.
        open_run: Opens a writing run. Each page of messages has one, and is one commit.
        extractor: The one that is set: it is asked where a caller gives none of its own.
    """

    def __init__(
        self,
        services: RunServices,
        session: Callable[..., Sequence[SessionMessage]],
        open_run: OpensRun,
        extractor: FactExtractor | None,
    ) -> None:
        self._services, self._session, self._open_run = services, session, open_run
        self._extractor = extractor
        self._queue = ExtractionQueue(services.store, services.namespace)
        self._works: deque[_Work] = deque()
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        self._is_stopping = False

    def chosen(self, extract: FactExtractor | bool | None) -> FactExtractor | None:
        """The extractor that a caller means: its own, with ``True`` the one that is set, else none.

        Raises:
            ExtractionError: None is set (``no_extractor``).
        """
        if extract is True:
            if self._extractor is None:
                raise ExtractionError("no_extractor")
            return self._extractor
        return extract or None

    @property
    def is_for_all(self) -> bool:
        """Whether the extractor that is set is meant for every conversation."""
        extractor: object = self._extractor
        return isinstance(extractor, OperatorExtractor) and extractor.always

    def add_facts(
        self,
        added: AddedMessages,
        extractor: FactExtractor,
        *,
        workflow: str,
        agent: str | None,
        max_origin: Origin,
        run_id: str | None,
        background: bool,
        wait_seconds: float | None = None,
    ) -> AddedMessages:
        """The answer with the facts in its messages; or, in the background, at once with ``facts_pending``.

        The messages are stored already, so a failure is part of the answer. What the extractor that is set
        could not do now is tried again later.

        Args:
            run_id: The idempotency key of the call. Under it, a repeated call has the facts of the first,
                also if messages were erased since.
            wait_seconds: Answer without the facts if they take longer, and find them in the background.
        """
        pending = PendingExtraction(
            namespace=self._services.namespace,
            scope=added.scope,
            session=added.session,
            positions=tuple(sorted(one.position for one in added.messages)),
            key=run_id,
            workflow=workflow,
            agent=agent,
            max_origin=max_origin,
        )
        if background or wait_seconds is not None:
            return self._later(added, pending, extractor, 0.0 if background else wait_seconds)
        try:
            return replace(added, facts=tuple(self._facts(pending, extractor)))
        except StandfastError as error:
            self._services.warn(f"No facts were extracted from session {added.session}: {error}")
            is_queued = extractor is self._extractor and self._queue.add(pending)
            if is_queued:
                self._try_later(pending, error)
            return self._failed(added, error, is_pending=is_queued)

    def _later(
        self,
        added: AddedMessages,
        pending: PendingExtraction,
        extractor: FactExtractor,
        wait_seconds: float | None,
    ) -> AddedMessages:
        """Let the thread do it, and wait for a while. If too many wait already, the answer says so."""
        is_queued = extractor is self._extractor
        with self._changed:
            waiting = len(self._works)
        if waiting >= MAX_PENDING_EXTRACTIONS or (is_queued and not self._queue.add(pending)):
            error = ExtractionError("extraction_queue_full", waiting=MAX_PENDING_EXTRACTIONS)
            return self._failed(added, error, is_pending=False)
        done = self._submit(pending, extractor, is_queued=is_queued)
        try:
            return replace(added, facts=tuple(done.result(wait_seconds)))
        except TimeoutError:
            return replace(added, facts_pending=True)
        except StandfastError as error:
            return self._failed(added, error, is_pending=is_queued)

    @staticmethod
    def _failed(added: AddedMessages, error: StandfastError, *, is_pending: bool) -> AddedMessages:
        return replace(added, facts_problem=str(error), facts_code=error.code, facts_pending=is_pending)

    # What waits.

    def resume(self) -> int:
        """Work on what waits in the store and is due, such as what another process left; return how much.

        The work is done in the background.
        """
        if self._extractor is None:
            return 0
        taken = [one for one in self._queue.waiting() if self._queue.is_due(one) and self._queue.take(one)]
        for one in taken:
            self._submit(one, self._extractor, is_queued=True)
        return len(taken)

    def status(self) -> ExtractionStatus:
        """Whether facts can be extracted, what waits for it, and what it spent."""
        waiting = self._queue.waiting()
        with self._changed:
            unstored = sum(not one.is_queued for one in self._works)
        spent = self._extractor.spent() if isinstance(self._extractor, OperatorExtractor) else None
        return ExtractionStatus(
            is_set=self._extractor is not None,
            waiting=len(waiting) + unstored,
            problem=next((one.problem for one in waiting if one.problem), ""),
            spending=spent,
        )

    def finish(self) -> None:
        """Wait until everything that was asked for in the background is done, or is tried again later."""
        with self._changed:
            self._changed.wait_for(lambda: self._worker is None)

    def close(self) -> None:
        """Finish, unless it was stopped: then nobody waits for a model that is asked still."""
        with self._changed:
            self._changed.wait_for(lambda: self._worker is None or self._is_stopping)

    def stop(self, wait_seconds: float = EXTRACTION_STOP_SECONDS) -> None:
        """Begin nothing more, and wait a little for what is under way. What is left waits in the store."""
        with self._changed:
            self._is_stopping = True
            self._changed.wait_for(lambda: self._worker is None, wait_seconds)

    # The thread.

    def _submit(
        self, pending: PendingExtraction, extractor: FactExtractor, *, is_queued: bool
    ) -> "Future[list[Remembered]]":
        done: Future[list[Remembered]] = Future()
        with self._changed:
            self._works.append(_Work(pending, extractor, done, is_queued))
            if self._worker is None and not self._is_stopping:
                self._worker = threading.Thread(target=self._work, name="standfast-extraction", daemon=True)
                self._worker.start()
        return done

    def _work(self) -> None:
        """Do what waits, until nothing does."""
        while True:
            with self._changed:
                if self._is_stopping or not self._works:
                    self._worker = None
                    self._changed.notify_all()
                    return
                work = self._works[0]
            try:
                facts = self._facts(work.pending, work.extractor)
                if work.is_queued:
                    self._queue.done(work.pending)
                work.done.set_result(facts)
            except Exception as error:  # noqa: BLE001  # A thread has nobody else to tell.
                self._note_failure(work, error)
            with self._changed:
                self._works.popleft()

    def _note_failure(self, work: _Work, error: Exception) -> None:
        """Tell who waits, and leave it for another try."""
        if not isinstance(error, StandfastError):
            error = ExtractionError("extraction_failed", problem=f"{type(error).__name__}: {error}")
        self._services.warn(f"No facts were extracted from session {work.pending.session}: {error}")
        if work.is_queued:
            # A store that is closed or broken keeps the row as it is, and its lease runs out.
            with suppress(Exception):
                self._try_later(work.pending, error)
        work.done.set_exception(error)

    def _try_later(self, pending: PendingExtraction, error: StandfastError) -> None:
        """Leave it in the store for another try, unless too many failed."""
        if isinstance(error, ExtractionBudgetSpent):
            self._queue.retry_later(pending, str(error), after_seconds=error.wait_seconds)
        elif pending.tries + 1 < MAX_EXTRACTION_TRIES:
            self._queue.retry_later(pending, str(error), after_seconds=None)
        else:
            self._queue.done(pending)

    def _facts(self, pending: PendingExtraction, extractor: FactExtractor) -> list[Remembered]:
        """The facts of all messages, page by page. A page that was done before is not asked about again."""
        read = partial(self._session, pending.session, scope=pending.scope)
        session, facts = read(), list[Remembered]()
        for number, start in enumerate(range(0, len(pending.positions), EXTRACTED_MESSAGES)):
            positions = frozenset(pending.positions[start : start + EXTRACTED_MESSAGES])
            page = _ExtractedPage(self._services, pending, session, positions, number=number, read=read)
            facts += page.remember(extractor, self._open_run)
        return facts


class _ExtractedPage:
    """One page of messages, whose facts are one commit."""

    def __init__(
        self,
        services: RunServices,
        pending: PendingExtraction,
        session: Iterable[SessionMessage],
        positions: frozenset[int],
        *,
        number: int,
        read: Callable[[], Sequence[SessionMessage]],
    ) -> None:
        self._services, self._pending, self._number, self._read = services, pending, number, read
        self._scope = pending.scope
        accepted = [one for one in session if one.text is not None]
        self._messages = [one for one in accepted if one.position in positions]
        first = min((one.position for one in self._messages), default=0)
        self._before = [one for one in accepted if one.position < first][-MESSAGES_BEFORE:]

    def remember(self, extractor: FactExtractor, open_run: OpensRun) -> list[Remembered]:
        """Remember the facts of the page, unless that was done before."""
        run_id = self._run_id(extractor.extractor_id)
        if (earlier := self._earlier(run_id)) is not None:
            return earlier
        if not self._messages:
            return []
        known = self._known()
        facts = extractor.extract(self._messages, scope=self._scope, before=self._before, known=known)
        asked = self._pending
        run = open_run(asked.workflow, asked.agent, run_id, asked.max_origin)
        try:
            with run:
                answers = self._remember_facts(run, self._still_said(facts), known, extractor.extractor_id)
                run.commit(extra_writes=[self._done_row(run_id, len(answers))], even_if_empty=True)
        except (CommitAborted, PayloadMismatch):
            # Another process did the same meanwhile; the model may have told it something else.
            if (earlier := self._earlier(run_id)) is None:
                raise
            return earlier
        return run.answers or answers

    def _earlier(self, run_id: str) -> list[Remembered] | None:
        """What became of the facts, if they were remembered before."""
        log = CallLog(self._services.store, self._services.namespace, run_id)
        if log.receipt is not None:
            return log.answers
        key = scoped_key(RowKind.EXTRACTION, self._scope, run_id)
        return [] if self._services.store.read(self._services.namespace, [key]) else None

    def _done_row(self, run_id: str, facts: int) -> Write:
        """Says that a model was asked about the messages, also if it found nothing in them."""
        content = {"session": self._pending.session, "facts": facts}
        key = scoped_key(RowKind.EXTRACTION, self._scope, run_id)
        return Write.of(self._services.namespace, key, ActionType.WRITE, content)

    def _still_said(self, facts: Sequence[ExtractedFact]) -> list[ExtractedFact]:
        """The facts whose messages were not forgotten while the model was asked."""
        said = {one.position: one.text for one in self._read()}
        forgotten = {one.position for one in self._messages if said.get(one.position) != one.text}
        return [one for one in facts if forgotten.isdisjoint(one.cites)]

    def _run_id(self, extractor_id: str) -> str:
        named: list[Any] = ["extraction/v2", self._scope, self._pending.session, extractor_id]
        if self._pending.key is None:
            named.append([[one.position, one.speaker, one.text] for one in self._messages])
        else:
            named += [self._pending.key, self._number]
        return f"extract-{fingerprint(named)[:32]}"

    def _known(self) -> list[KnownFact]:
        """The facts of the scope that are nearest to the messages. What is untrusted or waits is none."""
        query = "\n".join(one.text or "" for one in self._messages)[-KNOWN_QUERY_CHARS:].strip()
        if not query:
            return []
        request = RecallRequest.of(query, scope=self._scope, tokens=_KNOWN_TOKENS, max_items=_LOOKED_AT)
        view = SnapshotView(self._services.reader, self._services.store.head())
        package = view.answer(request).package
        assert isinstance(package, RecallPackage), "the default controller gives items with their trust"
        return [
            KnownFact(
                memory_id=one.memory_id,
                text=one.excerpt,
                subject=one.subject,
                date=one.date,
                trust=one.trust,
            )
            for one in package.items
            if one.session is None and one.trust != Origin.UNTRUSTED and not one.review
        ][:KNOWN_FACTS]

    def _remember_facts(
        self, run: Run, facts: Sequence[ExtractedFact], known: Sequence[KnownFact], by: str
    ) -> list[Remembered]:
        taken = set[tuple[str, str]]()
        ended = set[str]()
        by_id = {one.memory_id: one for one in known}
        answers = []
        for fact in facts:
            cited = self._cited(fact)
            scope = self._scope if fact.scope is None else fact.scope
            origin = lowest([Origin.ORDINARY, *(one.origin for one in cited)])
            named = [by_id[name] for name in dict.fromkeys(fact.replaces) if name in by_id]
            # A record ends in its own scope only. What a trusted user said is not ended, but disputed.
            superseded = [
                one.memory_id
                for one in named
                if one.trust != LAW
                and origin is not Origin.UNTRUSTED
                and one.memory_id not in ended
                and self._is_held(scope, one.memory_id)
            ]
            subject = fact.subject
            place = (scope, subject or "")
            is_taken = subject is not None and (
                place in taken or (subject not in superseded and self._is_held(scope, subject))
            )
            taken.add(place)
            ended.update(superseded)
            answers.append(
                run.remember(
                    fact.text,
                    subject=subject,
                    several=is_taken,
                    scope=scope,
                    source={"kind": "agent", "id": by},
                    refs=self._refs(cited),
                    time=max((one.time for one in cited if one.time is not None), default=None),
                    supersedes=superseded,
                    metadata={} if fact.date is None else {"date": fact.date},
                )
            )
        return answers

    def _cited(self, fact: ExtractedFact) -> list[SessionMessage]:
        cited = [message for message in self._messages if message.position in fact.cites]
        if not cited or {message.position for message in cited} != set(fact.cites):
            problem = (
                f"{fact.text!r:.80} cites {list(fact.cites)}, which are not all messages that it was shown"
            )
            raise InvalidValue(what="extracted fact", problem=problem)
        if not is_within(self._scope if fact.scope is None else fact.scope, self._scope):
            problem = f"{fact.text!r:.80} is for scope {fact.scope}, but its messages are in {self._scope}"
            raise InvalidValue(what="extracted fact", problem=problem)
        return cited

    def _refs(self, cited: Sequence[SessionMessage]) -> list[dict[str, Any]]:
        return [
            {"kind": CITED_KIND, "id": memory_id, "scope": self._scope}
            for message in cited
            for memory_id in message.memory_ids
        ]

    def _is_held(self, scope: str, subject: str) -> bool:
        """Whether a scope has a record with this subject, which stays next to a new one."""
        keys = [scoped_key(band, scope, subject) for band in (Band.VAULT, Band.LEDGER)]
        return bool(self._services.store.read(self._services.namespace, keys))
