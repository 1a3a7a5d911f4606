"""Extraction: the facts that a model finds in messages, judged and remembered like everything else.

The model is behind a protocol; ``adapters/extraction.py`` has the one that asks a provider. It is given the
messages with their times, the last ones before them, and the facts that are known already, each with its id.
It answers with facts to add and facts that replace known ones.

A fact cites its messages: it has the time of the last of them, and is trusted no more than the least. A
replacement supersedes what it replaces, with evidence; what a trusted user said, and law, are never ended
that way: both are kept. Facts are remembered in runs whose ids are made from the messages, so adding a
conversation again asks nobody and changes nothing.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from msgspec.structs import replace

from standfast.errors import InvalidValue, StandfastError
from standfast.limits import (
    EXTRACTED_MESSAGES,
    KNOWN_FACTS,
    KNOWN_QUERY_CHARS,
    MAX_PENDING_EXTRACTIONS,
    MESSAGES_BEFORE,
)
from standfast.memory.conversations import AddedMessages
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
from standfast.records.scopes import is_within, scoped_key
from standfast.records.vocabulary import Band, Remembered, Value

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
    """Finds facts in messages.

    Its answers for equal arguments should be equal, so that a repeated call finds the same.
    """

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


class Extractions:
    """Finds facts in added messages, at once or in the background.

    Args:
        session: Gives the messages of a session in a scope.
    """

    def __init__(self, services: RunServices, session: Callable[..., Sequence[SessionMessage]]) -> None:
        self._services, self._session = services, session
        self._waiting: queue.Queue[Callable[[], AddedMessages] | None] = queue.Queue(MAX_PENDING_EXTRACTIONS)
        self._worker: threading.Thread | None = None
        self._lock = threading.Lock()

    def add_facts(
        self,
        added: AddedMessages,
        extractor: FactExtractor,
        *,
        run_id: str | None,
        background: bool,
        open_run: Callable[[str], Run],
    ) -> AddedMessages:
        """The answer with the facts in its messages; or, in the background, at once with ``facts_pending``.

        The messages are stored already, so a failure is part of the answer.

        Args:
            run_id: The idempotency key of the call. Under it, a repeated call has the facts of the first,
                also if messages were erased since.
            open_run: Opens a writing run with an id. Each page of messages has one, and is one commit.
        """
        work = partial(self._with_facts, added, extractor, run_id, open_run)
        return self._later(added, work) if background else work()

    def _with_facts(
        self, added: AddedMessages, extractor: FactExtractor, key: str | None, open_run: Callable[[str], Run]
    ) -> AddedMessages:
        positions = sorted(one.position for one in added.messages)
        facts: list[Remembered] = []
        try:
            session = self._session(added.session, scope=added.scope)
            for number, start in enumerate(range(0, len(positions), EXTRACTED_MESSAGES)):
                page = frozenset(positions[start : start + EXTRACTED_MESSAGES])
                extracted = _ExtractedPage(self._services, added, session, page, key=key, number=number)
                facts += extracted.remember(extractor, open_run)
        except StandfastError as error:
            self._services.warn(f"No facts were extracted from session {added.session}: {error}")
            return replace(added, facts_problem=str(error))
        return replace(added, facts=tuple(facts))

    def _later(self, added: AddedMessages, work: Callable[[], AddedMessages]) -> AddedMessages:
        """Do it in the background. If too many wait already, the answer says so."""
        with self._lock:
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="standfast-extraction", daemon=True)
                self._worker.start()
        try:
            self._waiting.put_nowait(work)
        except queue.Full:
            problem = (
                f"{MAX_PENDING_EXTRACTIONS} conversations wait for the model already; add this one again"
            )
            return replace(added, facts_problem=problem)
        return replace(added, facts_pending=True)

    def finish(self) -> None:
        """Wait until everything that was asked for in the background is done."""
        self._waiting.join()

    def close(self) -> None:
        """Finish, and end the thread."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            self._waiting.put(None)
            worker.join()

    def _work(self) -> None:
        while True:
            work = self._waiting.get()
            try:
                if work is None:
                    return
                work()
            except Exception as error:  # noqa: BLE001  # A thread has nobody else to tell.
                self._services.warn(f"No facts were extracted in the background: {error}")
            finally:
                self._waiting.task_done()


class _ExtractedPage:
    """One page of messages, whose facts are one commit."""

    def __init__(
        self,
        services: RunServices,
        added: AddedMessages,
        session: Iterable[SessionMessage],
        positions: frozenset[int],
        *,
        key: str | None,
        number: int,
    ) -> None:
        self._services = services
        self._added, self._key, self._number = added, key, number
        self._scope = added.scope
        accepted = [one for one in session if one.text is not None]
        self._messages = [one for one in accepted if one.position in positions]
        first = min((one.position for one in self._messages), default=0)
        self._before = [one for one in accepted if one.position < first][-MESSAGES_BEFORE:]

    def remember(self, extractor: FactExtractor, open_run: Callable[[str], Run]) -> list[Remembered]:
        """Remember the facts of the page, unless that was done before."""
        run_id = self._run_id(extractor.extractor_id)
        earlier = CallLog(self._services.store, self._services.namespace, run_id)
        if earlier.receipt is not None:
            return earlier.answers
        if not self._messages:
            return []
        known = self._known()
        facts = extractor.extract(self._messages, scope=self._scope, before=self._before, known=known)
        with open_run(run_id) as run:
            answers = self._remember_facts(run, facts, known, extractor.extractor_id)
        return run.answers or answers

    def _run_id(self, extractor_id: str) -> str:
        named: list[Any] = ["extraction/v2", self._scope, self._added.session, extractor_id]
        if self._key is None:
            named.append([[one.position, one.speaker, one.text] for one in self._messages])
        else:
            named += [self._key, self._number]
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
        """Whether a scope has a record with this subject, which stays beside a new one."""
        keys = [scoped_key(band, scope, subject) for band in (Band.VAULT, Band.LEDGER)]
        return bool(self._services.store.read(self._services.namespace, keys))
