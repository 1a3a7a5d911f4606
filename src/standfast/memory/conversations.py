"""Conversations: chat messages, judged and added to a session.

Every commit to a session writes the session's row, so that two callers never add at one position: the later
one conflicts, looks again and goes behind the other, before its caller is answered. ``messages.py`` reads
messages, and reads sessions back; ``extraction.py`` finds facts in them.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from standfast.errors import InvalidValue, MessageConflict
from standfast.govern.admission import JudgedRecord, admit
from standfast.govern.judge.judge import Claim, JudgingContext
from standfast.govern.judge.secrecy import redacted, redacted_json, require_no_secret
from standfast.govern.judge.text_reading import TextReading
from standfast.govern.refusals import RefusalLookup
from standfast.limits import (
    MAX_MESSAGE_POSITION,
    MAX_SINGLE_CALL_ATTEMPTS,
    MESSAGES_PER_COMMIT,
)
from standfast.memory.commit_plan import JudgedCommit
from standfast.memory.idempotency import (
    IdempotencyRecord,
    StoredAnswer,
    fingerprint_of_call,
    redacted_call,
)
from standfast.memory.judging_cache import Superseded, WaitingCounter, superseded_by
from standfast.memory.messages import (
    ACCEPTED_VERDICTS,
    OPERATOR,
    USER,
    Passage,
    ReadMessage,
    SessionReader,
    message_id,
    plain_id,
    read_messages,
    session_digest,
    strictest,
)
from standfast.memory.related import related_records
from standfast.memory.retries import RetryLines
from standfast.memory.run_dependencies import RunServices
from standfast.records.canon import canonical_bytes, fingerprint, normal_string, utc_text
from standfast.records.origins import Origin, checked_origin, lowest, origin_of
from standfast.records.outcomes import sentence_of
from standfast.records.requests import AddRequest
from standfast.records.rows import RowKind
from standfast.records.scopes import refused_key, scoped_key
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
from standfast.store.commit import Write, commit_id_of

_CALLER: Final = "add"
_PERSON: Final = "person"
_MAX_GAP: Final = 10_000


class AddedMessage(Value, frozen=True, kw_only=True):
    """What became of one message.

    ``verdict`` is the strictest of its parts', and None if it says nothing or was forgotten. ``known`` means
    that the session had it already; then nothing was added. ``earlier`` and ``similar`` are as in
    ``Remembered``, and so are ``valid_from`` and ``valid_until``.
    """

    position: int
    memory_ids: tuple[str, ...] = ()
    verdict: Verdict | None = None
    reasons: tuple[str, ...] = ()
    known: bool = False
    earlier: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    valid_from: str | None = None
    valid_until: str | None = None


class AddedMessages(Value, frozen=True, kw_only=True):
    """The result of ``add``: each message with its verdict, and the receipts, none if all were known."""

    session: str
    scope: str
    messages: tuple[AddedMessage, ...]
    receipts: tuple[Receipt, ...] = ()
    facts: tuple[Remembered, ...] = ()
    """What became of the facts that ``extract`` found in the messages."""
    facts_problem: str | None = None
    """Why no facts could be extracted. The messages are stored all the same."""
    facts_code: str | None = None
    """The code of that problem, such as ``extraction_budget_spent``."""
    facts_pending: bool = False
    """Whether a model is still to be asked for facts, in the background; an event tells when it was."""

    @property
    def added(self) -> int:
        """How many messages were new and accepted."""
        return sum(not one.known and one.verdict in ACCEPTED_VERDICTS for one in self.messages)

    def __repr__(self) -> str:
        known = sum(one.known for one in self.messages)
        reasons = "".join(
            f"; {one.position}: {' '.join(map(sentence_of, one.reasons))}"
            for one in self.messages
            if one.reasons and not one.known
        )
        where = f"session {self.session} in {self.scope}"
        return f"<added {self.added} of {len(self.messages)} messages, {known} known, to {where}{reasons}>"


Placed: TypeAlias = list[tuple[int, ReadMessage]]
"""Messages with their positions."""


class Addition(Value, frozen=True, kw_only=True):
    """What a caller asks to add, with its messages read, and who asks."""

    asked: AddRequest
    messages: tuple[ReadMessage, ...]
    session: str
    run_id: str | None
    max_origin: Origin
    is_operator: bool = False
    """Whether an operator adds them. Anybody else's ``system`` messages are trusted like documents."""
    is_rehearsal: bool = False
    """Whether they are only judged, and nothing is stored."""

    @classmethod
    def of(
        cls,
        request: AddRequest,
        *,
        run_id: str | None,
        max_origin: Origin | str,
        is_operator: bool = False,
        is_rehearsal: bool = False,
    ) -> "Addition":
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
            is_operator=is_operator,
            is_rehearsal=is_rehearsal,
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

    @property
    def is_anchored(self) -> bool:
        """Whether a position is named. Without one, messages go behind whatever is there."""
        return self.asked.position is not None or any(one.position is not None for one in self.messages)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the messages, where they go and what they replace, for an idempotency key."""
        asked = self.asked
        common = [asked.position, asked.user, [{"tag": tag} for tag in asked.tags], asked.metadata]
        clean = redacted_json(common)
        if clean == common:
            digest = fingerprint([asked.position, asked.user, asked.tags, asked.metadata])
        else:
            digest = fingerprint(redacted_call(clean, len(canonical_bytes(common))))
        if asked.supersedes:
            digest = fingerprint([digest, fingerprint_of_call(["supersedes", *asked.supersedes])])
        for one in self.messages:
            digest = fingerprint([digest, fingerprint_of_call(["message", one.as_json()])])
        return digest

    def placed(self, start: int) -> Placed:
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


class _AddedPage(NamedTuple):
    """What became of the messages of one commit. ``placed`` has the positions that all messages go to."""

    messages: list[AddedMessage]
    receipt: Receipt | None
    placed: Placed | None


class Conversations:
    """Adds and reads the sessions of one namespace.

    Args:
        lines: Who adds again first after a conflict.
    """

    def __init__(self, services: RunServices, lines: RetryLines) -> None:
        self._services = services
        self._store = services.store
        self._lines = lines
        self._reader = SessionReader(services.store, services.namespace)

    # Adding.

    def add(self, request: Addition, *, workflow: str, agent: str) -> AddedMessages:
        """Add messages, in as many commits as it takes; see ``Memory.add``.

        Where they go is settled when they are committed, again after each conflict: two callers who append
        at once both succeed.
        """
        require_no_secret(agent=agent)
        if not request.session:
            key = request.run_id or self._store.ids.new_id()
            request = replace(request, session=f"session-{fingerprint(['session-of/v1', key])[:32]}")
        messages, receipts = list[AddedMessage](), list[Receipt]()
        placed: Placed | None = None
        log = None if request.run_id is None else self._idempotency(request, request.run_id)
        for number, page in enumerate(pages_of(request.messages)):
            attempt = partial(
                self._add_page,
                request,
                page,
                number,
                len(messages),
                placed,
                log=log,
                agent=agent,
                workflow=workflow,
            )
            added = self._lines.retry(
                attempt,
                key=f"session {request.scope}//{request.session}",
                attempts=MAX_SINGLE_CALL_ATTEMPTS,
            )
            messages += added.messages
            placed = added.placed
            if added.receipt is not None:
                receipts.append(added.receipt)
                request = replace(request, asked=replace(request.asked, supersedes=()))
        return AddedMessages(
            session=request.session, scope=request.scope, messages=tuple(messages), receipts=tuple(receipts)
        )

    def _add_page(
        self,
        request: Addition,
        messages: Sequence[ReadMessage],
        number: int,
        first: int,
        placed: Placed | None,
        *,
        log: IdempotencyRecord | None,
        agent: str,
        workflow: str,
    ) -> _AddedPage:
        """Add messages in one commit.

        Raises ``CommitAborted`` if the session changed meanwhile; then call it again.

        Args:
            number: The number of the page.
            first: How many messages the pages before it have.
            placed: The positions of all messages, if the first page has settled them.
            log: The whole request under its idempotency key, if it has one.
        """
        services, at = self._services, self._store.head()
        if log is not None and number < len(stored := log.stored_pages(self._store)):
            return self._replayed(request, stored[number], placed)
        run = services.identity(None, workflow=workflow, at=at, scope=request.scope)
        row = self._reader.row(request.scope, request.session, at)
        if request.is_anchored and placed is None:
            placed = request.placed(self._start_of(request, row, at))
            self._require_free(request, placed, at)
        if placed is None:
            page = list(enumerate(messages, self._end_of(request, row, at)))
            answers = {one: AddedMessage(position=one) for one, message in page if not message.passages}
        else:
            page = placed[first : first + len(messages)]
            answers = self._stored_answers(request, page, at)
        new = [one for one in page if one[0] not in answers]
        now = self._store.clock.now()
        judged = self._judge(request, new, run=run, agent=agent, now=now)
        answers |= {position: self._answer(position, group, at) for position, group in judged.items()}
        added = [answers[position] for position, _ in page]
        # Positions that are named are taken from the first commit on, also those of later pages.
        ends = [position + 1 for position, message in placed or page if message.passages]
        rows = [self._session_write(request, row, new, utc_text(now), run, end=max(ends))] if new else []
        if log is not None:
            answer = {"messages": [one.as_json() for one in added]}
            rows.append(log.write(answer, run, page=number))
        receipt = None
        if rows and not request.is_rehearsal:
            with services.budgets_lock():
                receipt = JudgedCommit(
                    services,
                    [one for group in judged.values() for one in group],
                    {},
                    run=run,
                    extra_writes=lambda _: rows,
                    even_if_empty=True,
                    agent=agent,
                ).submit()
        if receipt is not None:
            services.reader.after_commit(receipt.memory_snapshot_id)
        return _AddedPage(added, receipt, placed)

    def _replayed(self, request: Addition, stored: StoredAnswer, placed: Placed | None) -> _AddedPage:
        """What an earlier attempt of the call was answered. Nothing is added, whatever was erased since."""
        added = [AddedMessage.from_json(one) for one in stored.answer["messages"]]
        if request.is_anchored and placed is None:
            placed = request.placed(added[0].position)
        return _AddedPage(added, stored.receipt, placed)

    def _require_free(self, request: Addition, placed: Placed, at: int) -> None:
        """Raise ``MessageConflict`` before writing if the session has another message at a position."""
        stored = self._reader.stored(request.scope, request.session, _span(placed), at)
        for position, message in placed:
            if position in stored and not _is_same(stored[position], message):
                raise MessageConflict(session=request.session, scope=request.scope, position=position)

    def _start_of(self, request: Addition, row: dict[str, Any] | None, at: int) -> int:
        """The position of the request's first message. Without one, it continues the session.

        Raises ``InvalidValue`` for a position far behind a session's end, where the session could not go on.
        """
        position, end = request.asked.position, self._end_of(request, row, at)
        if position is None:
            return end
        if position > end + _MAX_GAP:
            problem = (
                f"the session ends at {end:,}, and {position:,} is far behind it; leave the position out"
            )
            raise InvalidValue(what="position", problem=problem)
        return position

    def _end_of(self, request: Addition, row: dict[str, Any] | None, at: int) -> int:
        """The position behind the last message that the session ever had."""
        if row is not None:
            return int(row["next"])
        # A forgotten session has no row, but its positions are taken.
        taken = self._reader.taken(request.scope, request.session, range(MAX_MESSAGE_POSITION + 1), at)
        return max(taken, default=-1) + 1

    def _stored_answers(self, request: Addition, page: Placed, at: int) -> dict[int, AddedMessage]:
        """The answers for messages that need not be added: those known, and those that say nothing."""
        span = _span(page)
        stored = self._reader.stored(request.scope, request.session, span, at)
        taken = self._reader.taken(request.scope, request.session, span, at)
        answers: dict[int, AddedMessage] = {}
        for position, message in page:
            if position in stored:
                answers[position] = self._known(request, position, stored[position], message)
            elif not message.passages or position in taken:
                answers[position] = AddedMessage(position=position, known=position in taken)
        return answers

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
        services, read_fields = self._services, dict[str, TextReading]()
        claims = {
            position: [
                Claim(
                    record=record,
                    is_message=True,
                    given_tags=request.asked.tags,
                    read_fields=read_fields,
                )
                for record in self._records(request, position, message, utc_text(now), run.memory_snapshot_id)
            ]
            for position, message in new
        }
        if not claims:
            return {}
        context = self._context(
            request.scope, [one for group in claims.values() for one in group], run, utc_text(now)[:10]
        )
        waiting = WaitingCounter(self._store, services.namespace, request.scope, run.memory_snapshot_id)
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
                    waiting=waiting,
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
            valid_from=judged[0].read_validity[0] if len(judged) == 1 else None,
            valid_until=judged[0].read_validity[1] if len(judged) == 1 else None,
        )

    def _context(self, scope: str, claims: Sequence[Claim], run: RunIdentity, today: str) -> JudgingContext:
        at = run.memory_snapshot_id
        refused = frozenset[str]()  # Nearly no scope has any.
        if self._store.presence(self._services.namespace, [refused_key(scope, "")])[1][0]:
            lookup = RefusalLookup(self._store, self._services.namespace, scope, at)
            refused = refused.union(*(lookup.binding(claim, today) for claim in claims))
        return self._services.judging_cache.at(at, scope).updated(refused=refused, recalled=(), today=today)

    def _records(
        self, request: Addition, position: int, message: ReadMessage, now: str, at: int
    ) -> Iterator[Record]:
        services, tags = self._services, normal_tags(request.asked.tags)
        for number, passage in enumerate(message.passages, 1):
            part = number if len(message.passages) > 1 else 0
            source = {"kind": request.kind_of(passage), "id": f"{request.session}#{position}"}
            is_claimed = passage.kind == OPERATOR and not request.is_operator
            highest = Origin.ORDINARY if is_claimed else request.max_origin
            origin = lowest([highest, request.max_origin, origin_of(source, services.origin_of_kind)])
            named = request.asked.supersedes
            superseded = Superseded()
            if named:
                superseded = superseded_by(
                    services.store, services.namespace, named, scope=request.scope, origin=origin, at=at
                )
            record = Record(
                memory_id=message_id(request.session, position, part),
                text=passage.text,
                ts_utc=message.time or now,
                utc_offset=message.utc_offset,
                tags=tags,
                source=source,
                scope=request.scope,
                metadata={**request.asked.metadata, **message.metadata},
                session=request.session,
                position=position,
                speaker=passage.speaker,
                origin=origin,
                supersedes=named,
            )
            yield superseded.applied_to(record)

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

    # The rows of sessions.

    def _session_write(
        self,
        request: Addition,
        row: dict[str, Any] | None,
        new: Sequence[tuple[int, ReadMessage]],
        now: str,
        run: RunIdentity,
        *,
        end: int,
    ) -> Write:
        times = [message.time or now for _, message in new]
        before = row or {"first": min(times), "last": max(times), "messages": 0, "next": 0}
        content = {
            "session": request.session,
            "messages": before["messages"] + len(new),
            "next": max(before["next"], end),
            "first": min(before["first"], *times),
            "last": max(before["last"], *times),
            # Two rows of equal content would not conflict, so each names the attempt that wrote it.
            "attempt": commit_id_of(run.run_id, run.memory_snapshot_id, run.policy_set_id),
        }
        key = scoped_key(RowKind.SESSION, request.scope, session_digest(request.session))
        action = ActionType.WRITE if row is None else ActionType.MERGE
        return Write.of(self._services.namespace, key, action, content)

    def _idempotency(self, request: Addition, run_id: str) -> IdempotencyRecord:
        asked = [_CALLER, request.scope, request.session, request.fingerprint]
        return IdempotencyRecord.of(_CALLER, self._services.namespace, run_id, asked)


def pages_of(messages: Sequence[ReadMessage]) -> Iterator[list[ReadMessage]]:
    """Messages in pages that fit one commit each."""
    page: list[ReadMessage] = []
    passages = 0
    for one in messages:
        page.append(one)
        passages += len(one.passages)
        if passages >= MESSAGES_PER_COMMIT or len(page) >= MESSAGES_PER_COMMIT:
            yield page
            page, passages = [], 0
    if page:
        yield page


def _span(placed: Placed) -> range:
    positions = [position for position, _ in placed]
    return range(min(positions), max(positions) + 1)


def _is_same(stored: Sequence[Record], message: ReadMessage) -> bool:
    """Whether stored records are a message's. A rejected one is compared as stored, without its secrets."""
    return len(stored) == len(message.passages) and all(
        _is_passage(record, passage) for record, passage in zip(stored, message.passages, strict=True)
    )


def _is_passage(record: Record, passage: Passage) -> bool:
    if record.text == passage.text:
        return True
    if record.verdict not in (Verdict.VOID, Verdict.SABAR):
        return False
    return redacted(replace(record, text=passage.text)).text == record.text
