"""Conversations: chat messages, judged and added to a session, and the facts that a model finds in them.

Every commit to a session writes the session's row, so that two callers never add at one position: the later
one conflicts, looks again and continues behind the other. ``messages.py`` reads messages, and reads sessions
back.

Facts are judged and remembered like everything else. The model is behind a protocol;
``adapters/extraction.py`` has the one that asks a provider. A fact cites its messages, so it is trusted no
more than the least of them. Facts are remembered in runs whose ids are made from the messages: adding a
conversation again asks nobody and changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

from msgspec.structs import replace

from standfast.errors import InvalidValue, MessageConflict, StandfastError
from standfast.govern.admission import JudgedRecord, admit
from standfast.govern.judge.judge import Claim, JudgingContext
from standfast.govern.judge.secrecy import redacted, require_no_secret
from standfast.govern.refusals import RefusalLookup
from standfast.limits import EXTRACTED_MESSAGES, MAX_MESSAGE_POSITION, MESSAGES_PER_COMMIT
from standfast.memory.commit_plan import JudgedCommit
from standfast.memory.idempotency import CallLog, IdempotencyRecord
from standfast.memory.judging_cache import require_superseded
from standfast.memory.messages import (
    ACCEPTED_VERDICTS,
    MESSAGE_BANDS,
    OPERATOR,
    USER,
    Passage,
    ReadMessage,
    SessionMessage,
    SessionReader,
    message_id,
    plain_id,
    read_messages,
    session_digest,
    strictest,
)
from standfast.memory.related import related_records
from standfast.memory.run import Run
from standfast.memory.run_dependencies import RunServices
from standfast.records.canon import fingerprint, normal_string, utc_text
from standfast.records.origins import Origin, checked_origin, lowest, origin_of
from standfast.records.requests import AddRequest
from standfast.records.rows import RowKind
from standfast.records.scopes import is_within, scoped_key
from standfast.records.vocabulary import (
    ActionType,
    Receipt,
    Record,
    Remembered,
    RunIdentity,
    Value,
    Verdict,
    normal_tags,
)
from standfast.store.commit import Write

_CALLER: Final = "add"
_PERSON: Final = "person"
_MAX_GAP: Final = 10_000
CITED_KIND: Final = "message"
"""The kind of the refs by which a fact cites messages."""


class AddedMessage(Value, frozen=True, kw_only=True):
    """What became of one message.

    ``verdict`` is the strictest of its parts', and None if it says nothing or was forgotten. ``known`` means
    that the session had it already; then nothing was added. ``earlier`` and ``similar`` are as in
    ``Remembered``.
    """

    position: int
    memory_ids: tuple[str, ...] = ()
    verdict: Verdict | None = None
    reasons: tuple[str, ...] = ()
    known: bool = False
    earlier: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()


class AddedMessages(Value, frozen=True, kw_only=True):
    """The result of ``add``: each message with its verdict, and the receipts of the commits, none if all were
    known.
    """

    session: str
    scope: str
    messages: tuple[AddedMessage, ...]
    receipts: tuple[Receipt, ...] = ()
    facts: tuple[Remembered, ...] = ()
    """What became of the facts that ``extract`` found in the messages."""
    facts_problem: str | None = None
    """Why no facts could be extracted. The messages are stored all the same."""

    @property
    def added(self) -> int:
        """How many messages were new and accepted."""
        return sum(not one.known and one.verdict in ACCEPTED_VERDICTS for one in self.messages)


class Addition(Value, frozen=True, kw_only=True):
    """What a caller asks to add, with its messages read, and who asks."""

    asked: AddRequest
    messages: tuple[ReadMessage, ...]
    session: str
    run_id: str | None
    max_origin: Origin

    @classmethod
    def of(cls, request: AddRequest, *, run_id: str | None, max_origin: Origin | str) -> "Addition":
        """Read the messages of a request, and check everything that is common to them."""
        read = read_messages(request.messages)
        if not read:
            raise InvalidValue(what="messages", problem="there are none; give at least one")
        require_no_secret(session=request.session, scope=request.place)
        return cls(
            asked=request,
            messages=tuple(read),
            session=normal_string(request.session or ""),
            run_id=run_id,
            max_origin=checked_origin(max_origin, what="max_origin"),
        )

    @property
    def scope(self) -> str:
        """The scope that the messages belong to."""
        return self.asked.place

    def kind_of(self, passage: Passage) -> str:
        """The kind of source that a passage is: other people than the trusted one are just people."""
        user = self.asked.user
        is_other = user is not None and passage.kind == USER and passage.speaker != user
        return _PERSON if is_other else passage.kind

    def placed(self, start: int) -> list[tuple[int, ReadMessage]]:
        """The messages with their positions: their own, or counted on from the one before."""
        placed, position, seen = list[tuple[int, ReadMessage]](), start, set[int]()
        for message in self.messages:
            position = position if message.position is None else message.position
            if position > start + _MAX_GAP + len(self.messages):
                problem = f"message {len(placed)} is at position {position:,}, far behind the one before"
                raise InvalidValue(what="messages", problem=f"{problem}; leave positions out")
            if position in seen or position > MAX_MESSAGE_POSITION:
                problem = f"two messages are at position {position}, or it is above {MAX_MESSAGE_POSITION:,}"
                raise InvalidValue(what="messages", problem=problem)
            seen.add(position)
            placed.append((position, message))
            position += 1
        return placed


class Conversations:
    """Adds and reads the sessions of one namespace."""

    def __init__(self, services: RunServices) -> None:
        self._services = services
        self._store = services.store
        self._reader = SessionReader(services.store, services.namespace)

    # Adding.

    def add(
        self, request: Addition, *, workflow: str, agent: str, retry: Callable[..., Any]
    ) -> AddedMessages:
        """Add messages, in as many commits as it takes; see ``Memory.add``.

        Args:
            retry: Calls a function again after a conflict, in turn with others; see ``Memory.retry``.
        """
        if not request.session:
            key = request.run_id or self._store.ids.new_id()
            request = replace(request, session=f"session-{fingerprint(['session-of/v1', key])[:32]}")
        start = self._start_of(request)
        placed = request.placed(start)
        self._require_free(request, placed)
        messages, receipts = list[AddedMessage](), list[Receipt]()
        for page in pages_of(placed):
            added, receipt = retry(
                partial(self._add_page, request, page, start=start, workflow=workflow, agent=agent),
                key=f"session {request.scope}//{request.session}",
            )
            messages += added
            receipts += [] if receipt is None else [receipt]
            if receipt is not None:
                request = replace(request, asked=replace(request.asked, supersedes=()))
        return AddedMessages(
            session=request.session, scope=request.scope, messages=tuple(messages), receipts=tuple(receipts)
        )

    def _require_free(self, request: Addition, placed: Sequence[tuple[int, ReadMessage]]) -> None:
        """Raise ``MessageConflict`` before anything is written if the session has another message at one of
        the positions.
        """
        positions = [position for position, _ in placed]
        span = range(min(positions), max(positions) + 1)
        stored = self._reader.stored(request.scope, request.session, span, self._store.head())
        for position, message in placed:
            if position in stored and not _is_same(stored[position], message):
                raise MessageConflict(session=request.session, scope=request.scope, position=position)

    def _start_of(self, request: Addition) -> int:
        """The position of the request's first message.

        Without one, messages that begin as the session begins are the session again, from its start; others
        continue it.
        """
        if request.asked.position is not None:
            self._require_near(request, request.asked.position)
            return request.asked.position
        if request.run_id is not None:
            stored = self._idempotency(request, request.run_id).stored_answer(self._store)
            if stored is not None:
                return int(stored.answer["start"])
        at = self._store.head()
        row = self._reader.row(request.scope, request.session, at)
        if row is None:
            return 0
        end = row["next"]
        stored_messages = self._reader.stored(
            request.scope, request.session, range(end), at, limit=len(request.messages)
        )
        repeated = [one for one in request.placed(0) if one[0] in stored_messages]
        is_again = repeated and all(_is_same(stored_messages[position], one) for position, one in repeated)
        return 0 if is_again else int(end)

    def _require_near(self, request: Addition, position: int) -> None:
        """Raise ``InvalidValue`` for a position far behind a session's end, where the session could not
        go on.
        """
        row = self._reader.row(request.scope, request.session, self._store.head())
        end = 0 if row is None else int(row["next"])
        if position > end + _MAX_GAP:
            problem = (
                f"the session ends at {end:,}, and {position:,} is far behind it; leave the position out"
            )
            raise InvalidValue(what="position", problem=problem)

    def _add_page(
        self,
        request: Addition,
        page: Sequence[tuple[int, ReadMessage]],
        *,
        start: int,
        agent: str,
        workflow: str,
    ) -> tuple[list[AddedMessage], Receipt | None]:
        """Add messages in one commit.

        Raises ``CommitAborted`` if the session changed meanwhile; then call it again.
        """
        services, at = self._services, self._store.head()
        run = services.identity(self._store.ids.new_id(), workflow=workflow, at=at, scope=request.scope)
        row = self._reader.row(request.scope, request.session, at)
        positions = [position for position, _ in page]
        stored = self._reader.stored(
            request.scope, request.session, range(min(positions), max(positions) + 1), at
        )
        gone = range(0 if row is None else row["next"])
        answers: dict[int, AddedMessage] = {}
        new: list[tuple[int, ReadMessage]] = []
        for position, message in page:
            if position in stored:
                answers[position] = self._known(request, position, stored[position], message)
            elif not message.passages or (position in gone and self._was_there(request, position, at)):
                answers[position] = AddedMessage(position=position, known=position in gone)
            else:
                new.append((position, message))
        now = self._store.clock.now()
        judged = self._judge(request, new, run=run, agent=agent, now=now)
        answers |= {position: self._answer(position, group, at) for position, group in judged.items()}
        receipt = None
        if new:
            rows = [self._session_write(request, row, new, utc_text(now))]
            with services.budgets_lock():
                receipt = JudgedCommit(
                    services,
                    [one for group in judged.values() for one in group],
                    {},
                    run=run,
                    extra_writes=lambda attempt: [*rows, *self._idempotency_rows(request, start, attempt)],
                ).submit()
        return [answers[position] for position, _ in page], receipt

    def _judge(
        self,
        request: Addition,
        new: Sequence[tuple[int, ReadMessage]],
        *,
        run: RunIdentity,
        agent: str,
        now: datetime,
    ) -> dict[int, list[JudgedRecord]]:
        """Judge the passages of messages. Rejected content is looked up for all of them at once."""
        services = self._services
        claims = {
            position: [
                Claim(record=record, is_message=True, given_tags=request.asked.tags)
                for record in self._records(request, position, message, utc_text(now), run.memory_snapshot_id)
            ]
            for position, message in new
        }
        if not claims:
            return {}
        context = self._context(
            request.scope, [one for group in claims.values() for one in group], run, utc_text(now)[:10]
        )
        return {
            position: [
                admit(
                    claim,
                    context,
                    judge=services.judge,
                    policy=services.policy,
                    run=run,
                    namespace=services.namespace,
                    author=agent,
                    now=now,
                )
                for claim in group
            ]
            for position, group in claims.items()
        }

    def _answer(self, position: int, judged: Sequence[JudgedRecord], at: int) -> AddedMessage:
        reasons = dict.fromkeys(reason for one in judged for reason in one.judgement.reasons)
        reader = self._services.reader
        related = [related_records(reader, one.record, at=at) for one in judged if one.is_accepted]
        return AddedMessage(
            position=position,
            memory_ids=tuple(one.record.memory_id for one in judged),
            verdict=strictest(one.verdict for one in judged),
            reasons=tuple(reasons),
            earlier=tuple(dict.fromkeys(name for one in related for name in one.earlier)),
            similar=tuple(dict.fromkeys(name for one in related for name in one.similar)),
        )

    def _context(self, scope: str, claims: Sequence[Claim], run: RunIdentity, today: str) -> JudgingContext:
        at = run.memory_snapshot_id
        lookup = RefusalLookup(self._store, self._services.namespace, scope, at)
        refused = frozenset[str]().union(*(lookup.binding(claim, today) for claim in claims))
        return self._services.judging_cache.at(at, scope).updated(refused=refused, recalled=(), today=today)

    def _records(
        self, request: Addition, position: int, message: ReadMessage, now: str, at: int
    ) -> Iterator[Record]:
        services, tags = self._services, normal_tags(request.asked.tags)
        for number, passage in enumerate(message.passages, 1):
            part = number if len(message.passages) > 1 else 0
            source = {"kind": request.kind_of(passage), "id": f"{request.session}#{position}"}
            highest = Origin.ORDINARY if passage.kind == OPERATOR else request.max_origin
            origin = lowest([highest, request.max_origin, origin_of(source, services.origin_of_kind)])
            if request.asked.supersedes:
                require_superseded(
                    services.store,
                    services.namespace,
                    request.asked.supersedes,
                    scope=request.scope,
                    origin=origin,
                    at=at,
                )
            yield Record(
                memory_id=message_id(request.session, position, part),
                text=passage.text,
                ts_utc=message.time or now,
                tags=tags,
                source=source,
                scope=request.scope,
                metadata={**request.asked.metadata, **message.metadata},
                session=request.session,
                position=position,
                speaker=passage.speaker,
                origin=origin,
                supersedes=request.asked.supersedes,
            )

    def _known(
        self, request: Addition, position: int, stored: Sequence[Record], message: ReadMessage
    ) -> AddedMessage:
        if not _is_same(stored, message):
            raise MessageConflict(session=request.session, scope=request.scope, position=position)
        return AddedMessage(
            position=position,
            memory_ids=tuple(plain_id(one.memory_id) for one in stored),
            verdict=strictest(one.verdict for one in stored),
            known=True,
        )

    def _was_there(self, request: Addition, position: int, at: int) -> bool:
        """Whether a message was at a position and is not any more: it was forgotten, or its time was over."""
        return any(
            next(
                self._reader.versions(
                    band, request.scope, request.session, range(position, position + 1), at
                ),
                None,
            )
            for band in MESSAGE_BANDS
        )

    # The rows of sessions.

    def _session_write(
        self,
        request: Addition,
        row: dict[str, Any] | None,
        new: Sequence[tuple[int, ReadMessage]],
        now: str,
    ) -> Write:
        times = [message.time or now for _, message in new]
        before = row or {"first": min(times), "last": max(times), "messages": 0, "next": 0}
        content = {
            "session": request.session,
            "messages": before["messages"] + len(new),
            "next": max(before["next"], *(position + 1 for position, _ in new)),
            "first": min(before["first"], *times),
            "last": max(before["last"], *times),
            # Two rows of equal content would not conflict, so each names one of its messages.
            "newest": message_id(request.session, new[-1][0], 0),
        }
        key = scoped_key(RowKind.SESSION, request.scope, session_digest(request.session))
        action = ActionType.WRITE if row is None else ActionType.MERGE
        return Write.of(self._services.namespace, key, action, content)

    def _idempotency(self, request: Addition, run_id: str) -> IdempotencyRecord:
        # No fingerprint of the messages is stored, because one of them may hold a secret. They are compared
        # one by one.
        asked = [_CALLER, request.scope, request.session]
        return IdempotencyRecord.of(_CALLER, self._services.namespace, run_id, asked)

    def _idempotency_rows(self, request: Addition, start: int, attempt: RunIdentity) -> list[Write]:
        if request.run_id is None:
            return []
        record = self._idempotency(request, request.run_id)
        if record.stored_answer(self._store) is not None:
            return []
        return [record.write({"start": start}, attempt)]


def pages_of(placed: Sequence[tuple[int, ReadMessage]]) -> Iterator[list[tuple[int, ReadMessage]]]:
    """Messages in pages that fit one commit each."""
    page: list[tuple[int, ReadMessage]] = []
    passages = 0
    for one in placed:
        page.append(one)
        passages += len(one[1].passages)
        if passages >= MESSAGES_PER_COMMIT:
            yield page
            page, passages = [], 0
    if page:
        yield page


def _is_same(stored: Sequence[Record], message: ReadMessage) -> bool:
    """Whether stored records are a message's.

    A rejected one is compared as it was stored, without its secrets.
    """
    return len(stored) == len(message.passages) and all(
        _is_passage(record, passage) for record, passage in zip(stored, message.passages, strict=True)
    )


def _is_passage(record: Record, passage: Passage) -> bool:
    if record.text == passage.text:
        return True
    if record.verdict not in (Verdict.VOID, Verdict.SABAR):
        return False
    return redacted(replace(record, text=passage.text)).text == record.text


class ExtractedFact(Value, frozen=True, kw_only=True):
    """One fact that a model found in messages.

    Args:
        text: The fact, as one plain statement.
        cites: The positions of the messages that say so; at least one.
        subject: What it is about. A later fact of the same subject replaces it.
        scope: Where it belongs, if that is below the scope of the conversation.
    """

    text: str
    cites: tuple[int, ...]
    subject: str | None = None
    scope: str | None = None


class FactExtractor(Protocol):
    """Finds facts in messages.

    Its answers for equal messages should be equal, so that a repeated call finds the same.
    """

    @property
    def extractor_id(self) -> str:
        """Names it and everything that can change its answers. It is the source of the facts."""
        ...

    def extract(self, messages: Sequence[SessionMessage], *, scope: str) -> Sequence[ExtractedFact]:
        """Return the facts in accepted messages of one conversation, oldest first.

        Every failure is a ``StandfastError``.
        """
        ...


def with_facts(
    services: RunServices,
    added: AddedMessages,
    session: Iterable[SessionMessage],
    extractor: FactExtractor,
    *,
    open_run: Callable[[str], Run],
) -> AddedMessages:
    """The answer with the facts in its messages.

    The messages are stored already, so a failure is part of the answer.

    Args:
        session: The messages of the session.
        open_run: Opens a writing run with an id. Each page of messages has one, and is one commit.
    """
    positions = {one.position for one in added.messages}
    said = [one for one in session if one.position in positions and one.text is not None]
    facts: list[Remembered] = []
    try:
        for start in range(0, len(said), EXTRACTED_MESSAGES):
            page = said[start : start + EXTRACTED_MESSAGES]
            facts += _remember_page(services, added, page, extractor, open_run)
    except StandfastError as error:
        services.warn(f"No facts were extracted from session {added.session}: {error}")
        return replace(added, facts_problem=str(error))
    return replace(added, facts=tuple(facts))


def _remember_page(
    services: RunServices,
    added: AddedMessages,
    messages: Sequence[SessionMessage],
    extractor: FactExtractor,
    open_run: Callable[[str], Run],
) -> list[Remembered]:
    said = [[one.position, one.speaker, one.text] for one in messages]
    digest = fingerprint(["extraction/v1", added.scope, added.session, extractor.extractor_id, said])
    run_id = f"extract-{digest[:32]}"
    earlier = CallLog(services.store, services.namespace, run_id)
    if earlier.receipt is not None:
        return earlier.answers
    facts = extractor.extract(messages, scope=added.scope)
    with open_run(run_id) as run:
        answers = [_remember_fact(run, one, messages, added.scope, extractor.extractor_id) for one in facts]
    return run.answers or answers


def _remember_fact(
    run: Run, fact: ExtractedFact, messages: Sequence[SessionMessage], place: str, by: str
) -> Remembered:
    """Remember a fact. ``place`` is the scope of the conversation."""
    cited = [message for message in messages if message.position in fact.cites]
    scope = place if fact.scope is None else fact.scope
    if not cited or {message.position for message in cited} != set(fact.cites):
        problem = f"{fact.text!r:.80} cites {list(fact.cites)}, which are not all messages that it was shown"
        raise InvalidValue(what="extracted fact", problem=problem)
    if not is_within(scope, place):
        problem = f"{fact.text!r:.80} is for scope {scope}, but its messages are in {place}"
        raise InvalidValue(what="extracted fact", problem=problem)
    refs: list[dict[str, Any]] = [
        {"kind": CITED_KIND, "id": memory_id, "scope": place}
        for message in cited
        for memory_id in message.memory_ids
    ]
    return run.remember(
        fact.text, subject=fact.subject, scope=scope, source={"kind": "agent", "id": by}, refs=refs
    )
