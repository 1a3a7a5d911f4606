"""What every mailbox promises. Backends stand beside this file; one suite of laws holds each of them to it.

A message is in exactly one state:

    ready ──receive──> leased ──acknowledge──> gone
      ^                  │ │ │
      │<──time is over───┘ │ └──dead_letter, undecodable, delivered too often──> dead ──redrive──> ready
      └──────delayed <─────┘ nack(visibility_timeout=…)

Only the receipt handle of the latest delivery can settle a message, and only while its visibility timeout runs. A
message can therefore be delivered more than once, and a receiver must be able to bear it, but it is never lost and never
stands in the queue twice.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, Required, TypedDict, TypeVar

import msgspec

from standfast.canon import utc_text
from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import (
    InvalidValue,
    MailboxClosed,
    NoReplyAddress,
    NoSuchDeadLetter,
    ReplyMailboxClosed,
    StaleReceipt,
    UnresolvableReply,
)
from standfast.limits import (
    DEFAULT_VISIBILITY_SECONDS,
    MAX_DELIVERIES,
    MAX_NAME_CHARS,
    MAX_RECEIVE_MESSAGES,
    MAX_VISIBILITY_SECONDS,
    MAX_WAIT_SECONDS,
)
from standfast.optimize.mailboxes.wire import Codec, WireCodec

BodyT = TypeVar("BodyT")
ReplyT = TypeVar("ReplyT")


class DeadReason(StrEnum):
    """Why a message is a dead letter. A receiver that gives one up says more in words of its own."""

    UNDECODABLE = "undecodable"
    DELIVERED_TOO_OFTEN = "delivered_too_often"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that nobody could use, with its bytes as they were sent."""

    message_id: str
    content: bytes
    reason: DeadReason
    problem: str
    delivery_count: int
    died_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxCounts:
    """How many messages are in each state now."""

    ready: int
    leased: int
    delayed: int
    dead: int


class Desk(Protocol):
    """Where a message's receiver settles it. A mailbox is the desk of its messages."""

    def acknowledge(self, *messages: "Message[Any, Any]") -> None:
        """Done: these are gone."""
        ...

    def nack(self, receipt_handle: str, *, visibility_timeout: float) -> None:
        """Not done: others may have it, at once or after that many seconds."""
        ...

    def extend_visibility(self, receipt_handle: str, visibility_timeout: float) -> None:
        """Still at work: the lease runs that many seconds from now."""
        ...

    def dead_letter(self, receipt_handle: str, *, problem: str) -> None:
        """Given up."""
        ...

    def send_reply(self, message: "Message[Any, Any]", body: Any) -> str:
        """Send to the message's reply address; gives the reply's message id."""
        ...


class Message(msgspec.Struct, Generic[BodyT, ReplyT], frozen=True, kw_only=True):
    """One delivery of a message, this receiver's until its visibility timeout is over."""

    message_id: str
    body: BodyT
    receipt_handle: str
    delivery_count: int
    reply_to: str | None
    sent_at: str
    desk: Desk

    def acknowledge(self) -> None:
        """Done: the message is gone. Raises ``StaleReceipt`` if it was no longer ours."""
        self.desk.acknowledge(self)

    def nack(self, *, visibility_timeout: float = 0) -> None:
        """Not done: give it back, at once or after that many seconds."""
        self.desk.nack(self.receipt_handle, visibility_timeout=visibility_timeout)

    def extend_visibility(self, visibility_timeout: float) -> None:
        """Still at work: the lease runs that many seconds from now."""
        self.desk.extend_visibility(self.receipt_handle, visibility_timeout)

    def dead_letter(self, problem: str) -> None:
        """Give the message up for good; it stays among the dead letters."""
        self.desk.dead_letter(self.receipt_handle, problem=problem)

    def reply(self, body: ReplyT) -> str:
        """Answer to where the sender wants it; raises ``NoReplyAddress`` or ``UnresolvableReply`` if that can't be."""
        return self.desk.send_reply(self, body)


class Mailbox(Protocol[BodyT, ReplyT]):
    """A queue of messages of one kind. Everything here may be called from any thread."""

    @property
    def name(self) -> str:
        """What a ``reply_to`` calls it."""
        ...

    def send(self, body: BodyT, *, reply_to: str | None = None) -> str:
        """Put one message in and give its id. Once this returns, the message is the mailbox's to keep."""
        ...

    def send_many(self, bodies: Sequence[BodyT], *, reply_to: str | None = None) -> list[str]:
        """Put messages in, in this order and at the cost of few calls to a server."""
        ...

    def receive(
        self,
        *,
        max_messages: int = 1,
        visibility_timeout: float = DEFAULT_VISIBILITY_SECONDS,
        wait_time_seconds: float = 0,
    ) -> list[Message[BodyT, ReplyT]]:
        """Lease up to ``max_messages``, none of them twice; wait that long if there is nothing, and no longer than needed."""
        ...

    def acknowledge(self, *messages: Message[Any, Any]) -> None:
        """Settle several messages at the cost of one; those that are no longer ours are told in a ``StaleReceipt``."""
        ...

    def reply_mailbox(self, name: str) -> "Mailbox[Any, None]":
        """The temporary mailbox of that name beside this one, to which this one's receivers can reply."""
        ...

    def counts(self) -> MailboxCounts:
        """How many messages are in each state now."""
        ...

    def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        ...

    def redrive(self, message_id: str) -> None:
        """Make a dead letter ready again, with as many deliveries ahead of it as a new message."""
        ...

    def discard(self, message_id: str) -> None:
        """Throw a dead letter away."""
        ...

    def purge(self) -> int:
        """Throw away every message but the dead letters, and say how many there were."""
        ...

    def interrupt(self) -> None:
        """Let those who wait in ``receive`` of this object return at once."""
        ...

    def close(self) -> None:
        """Stop using the mailbox from here. Its messages stay; a ``reply_mailbox`` is removed with all it holds."""
        ...


def check_name(name: str) -> str:
    """A mailbox's name, or an ``InvalidValue``. Braces would change which server of a Redis cluster holds it."""
    if not (
        isinstance(name, str)
        and 0 < len(name) <= MAX_NAME_CHARS
        and name.isprintable()
        and not set(name) & {"{", "}"}
    ):
        problem = (
            f"its name must be 1 to {MAX_NAME_CHARS} printable characters without braces, not {name!r:.80}"
        )
        raise InvalidValue(what="Mailbox", problem=problem)
    return name


def check_receive(*, max_messages: int, visibility_timeout: float, wait_time_seconds: float) -> None:
    """Refuse a ``receive`` that can't be meant."""
    problem = None
    if not (type(max_messages) is int and 1 <= max_messages <= MAX_RECEIVE_MESSAGES):
        problem = f"max_messages must be 1 to {MAX_RECEIVE_MESSAGES}, not {max_messages!r:.40}"
    elif not 0 < visibility_timeout <= MAX_VISIBILITY_SECONDS:
        problem = f"visibility_timeout must be above 0 and at most {MAX_VISIBILITY_SECONDS:g} seconds, not {visibility_timeout!r:.40}"
    elif not 0 <= wait_time_seconds <= MAX_WAIT_SECONDS:
        problem = (
            f"wait_time_seconds must be 0 to {MAX_WAIT_SECONDS:g} seconds, not {wait_time_seconds!r:.40}"
        )
    if problem:
        raise InvalidValue(what="receive()", problem=problem)


def check_timeout(call: str, seconds: float, *, least: float) -> float:
    """A visibility timeout within its bounds, or an ``InvalidValue``."""
    if not least <= seconds <= MAX_VISIBILITY_SECONDS:
        problem = (
            f"visibility_timeout must be {least:g} to {MAX_VISIBILITY_SECONDS:g} seconds, not {seconds!r:.40}"
        )
        raise InvalidValue(what=call, problem=problem)
    return seconds


class MailboxResolver(Protocol):
    """Knows mailboxes by name. A name that it does not know is None, never a mailbox made on the spot."""

    def resolve(self, name: str) -> Mailbox[Any, Any] | None:
        """The mailbox of that name, if it is known; ``ReplyMailboxClosed`` if it was, until its owner closed it."""
        ...

    def register(self, name: str, mailbox: Mailbox[Any, Any]) -> None:
        """Make a mailbox known under a name; the latest one wins."""
        ...

    def forget(self, name: str) -> None:
        """The name leads nowhere from now on."""
        ...


class InMemoryMailboxResolver:
    """The mailboxes of one process."""

    def __init__(self) -> None:
        self._known: dict[str, Mailbox[Any, Any]] = {}
        self._closed: set[str] = set()
        self._lock = threading.Lock()

    def resolve(self, name: str) -> Mailbox[Any, Any] | None:
        """The mailbox of that name, if it is known."""
        with self._lock:
            if name in self._closed:
                raise ReplyMailboxClosed(mailbox=name, reply_to=name)
            return self._known.get(name)

    def register(self, name: str, mailbox: Mailbox[Any, Any]) -> None:
        """Make a mailbox known under a name."""
        with self._lock:
            self._known[name] = mailbox
            self._closed.discard(name)

    def forget(self, name: str) -> None:
        """The name leads nowhere from now on."""
        with self._lock:
            if self._known.pop(name, None) is not None:
                self._closed.add(name)


def send_reply(
    message: Message[Any, Any], body: Any, *, mailbox: str, resolver: MailboxResolver | None
) -> str:
    """Send a reply where the message wants it, or say why that can't be."""
    if message.reply_to is None:
        raise NoReplyAddress(message_id=message.message_id, mailbox=mailbox)
    target = resolver.resolve(message.reply_to) if resolver is not None else None
    if target is None:
        raise UnresolvableReply(mailbox=mailbox, reply_to=message.reply_to)
    return target.send(body)


class Options(TypedDict, total=False):
    """What every mailbox can be made with; only its name is needed."""

    name: Required[str]
    reply_resolver: MailboxResolver | None
    max_deliveries: int
    codec: Codec | None
    clock: Clock | None
    ids: IdSource | None


class Front(ABC, Generic[BodyT, ReplyT]):
    """A mailbox up to the point where backends differ."""

    def __init__(
        self,
        *,
        name: str,
        reply_resolver: MailboxResolver | None = None,
        max_deliveries: int = MAX_DELIVERIES,
        codec: Codec | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self._name = check_name(name)
        self._resolver = reply_resolver
        self._max_deliveries = max_deliveries
        self._codec = codec or WireCodec()
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()
        self._closed = False
        self._temporary = False

    @property
    def name(self) -> str:
        """What a ``reply_to`` calls it."""
        return self._name

    def send(self, body: BodyT, *, reply_to: str | None = None) -> str:
        """Put one message in and give its id."""
        return self.send_many([body], reply_to=reply_to)[0]

    def send_many(self, bodies: Sequence[BodyT], *, reply_to: str | None = None) -> list[str]:
        """Put messages in, in this order; on a server, up to 1,000 are one call."""
        self._check_open()
        sent_at = utc_text(self._clock.now())
        messages = [
            (
                self._ids.new_id(),
                self._codec.encode(body, mailbox=self._name, reply_to=reply_to, sent_at=sent_at),
            )
            for body in bodies
        ]
        self._put(messages)
        return [message_id for message_id, _ in messages]

    def receive(
        self,
        *,
        max_messages: int = 1,
        visibility_timeout: float = DEFAULT_VISIBILITY_SECONDS,
        wait_time_seconds: float = 0,
    ) -> list[Message[BodyT, ReplyT]]:
        """Lease up to ``max_messages``; wait that long if there is nothing, and no longer than needed."""
        check_receive(
            max_messages=max_messages,
            visibility_timeout=visibility_timeout,
            wait_time_seconds=wait_time_seconds,
        )
        self._check_open()
        return self._await(max_messages, visibility_timeout, wait_time_seconds)

    def acknowledge(self, *messages: Message[Any, Any]) -> None:
        """Settle several messages; those that are no longer ours are told in a ``StaleReceipt``."""
        stale = self._acknowledged([message.receipt_handle for message in messages])
        if stale:
            raise StaleReceipt(mailbox=self._name, receipt_handle=", ".join(stale))

    def nack(self, receipt_handle: str, *, visibility_timeout: float) -> None:
        """Give a message back, at once or after that many seconds."""
        check_timeout("nack()", visibility_timeout, least=0)
        self._refuse_stale(receipt_handle, was_ours=self._given_back(receipt_handle, visibility_timeout))

    def extend_visibility(self, receipt_handle: str, visibility_timeout: float) -> None:
        """The lease runs that many seconds from now."""
        check_timeout("extend_visibility()", visibility_timeout, least=0.001)
        self._refuse_stale(receipt_handle, was_ours=self._extended(receipt_handle, visibility_timeout))

    def dead_letter(self, receipt_handle: str, *, problem: str) -> None:
        """Give a message up for good."""
        self._refuse_stale(receipt_handle, was_ours=self._given_up(receipt_handle, problem))

    def send_reply(self, message: Message[Any, Any], body: Any) -> str:
        """Send to the message's reply address."""
        return send_reply(message, body, mailbox=self._name, resolver=self._resolver)

    def redrive(self, message_id: str) -> None:
        """Make a dead letter ready again."""
        self._dig_up(message_id, deliveries=self._max_deliveries)

    def discard(self, message_id: str) -> None:
        """Throw a dead letter away."""
        self._dig_up(message_id, deliveries=0)

    @abstractmethod
    def _put(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Keep these, by id, in this order."""

    @abstractmethod
    def _await(
        self, max_messages: int, visibility_timeout: float, wait_time_seconds: float
    ) -> list[Message[BodyT, ReplyT]]:
        """What there is, or what comes in time."""

    @abstractmethod
    def _acknowledged(self, receipt_handles: Sequence[str]) -> list[str]:
        """These are gone; gives the receipts that were stale."""

    @abstractmethod
    def _given_back(self, receipt_handle: str, seconds: float) -> bool:
        """Ready again, now or later; whether the receipt was good."""

    @abstractmethod
    def _extended(self, receipt_handle: str, seconds: float) -> bool:
        """Leased for so long from now; whether the receipt was good."""

    @abstractmethod
    def _given_up(self, receipt_handle: str, problem: str) -> bool:
        """Dead; whether the receipt was good."""

    @abstractmethod
    def _exhumed(self, message_id: str, deliveries: int) -> bool:
        """Among the dead no more: ready for so many deliveries, or gone if for none; whether it was there."""

    def _dig_up(self, message_id: str, *, deliveries: int) -> None:
        if not self._exhumed(message_id, deliveries):
            raise NoSuchDeadLetter(mailbox=self._name, message_id=message_id)

    def _refuse_stale(self, receipt_handle: str, *, was_ours: bool) -> None:
        if not was_ours:
            raise StaleReceipt(mailbox=self._name, receipt_handle=receipt_handle)

    def _check_open(self) -> None:
        if self._closed:
            raise MailboxClosed(mailbox=self._name)

    def _read(self, receipt_handle: str, content: bytes) -> Message[BodyT, ReplyT]:
        """A delivery; an ``UndecodableBody`` if its bytes are no message."""
        header, body = self._codec.decode(content)
        message_id, _, count = receipt_handle.rpartition(":")
        return Message(
            message_id=message_id,
            body=body,
            receipt_handle=receipt_handle,
            delivery_count=int(count),
            reply_to=header.reply_to,
            sent_at=header.sent_at,
            desk=self,
        )

    def _alike(self, name: str) -> Options:
        """What a mailbox beside this one is made with."""
        return {
            "name": name,
            "reply_resolver": self._resolver,
            "max_deliveries": self._max_deliveries,
            "codec": self._codec,
            "clock": self._clock,
            "ids": self._ids,
        }
