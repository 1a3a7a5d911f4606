"""What every mailbox promises: Mailbox, Message, dead letters, and resolvers for reply addresses.

A message is in exactly one state:

    ready ──receive──> leased ──acknowledge──> removed
      ^                  │ │ │
      │<──lease ends─────┘ │ └──dead_letter, undecodable, delivered too often──> dead ──redrive──> ready
      └──────delayed <─────┘ nack(visibility_timeout=…)

Only the receipt handle of the latest delivery can settle a message, and only until its visibility timeout
ends. A message can therefore be delivered more than once, so receivers must tolerate repeats; it is never
lost and never queued twice.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import InvalidValue
from standfast.limits import (
    DEFAULT_VISIBILITY_SECONDS,
    MAX_DELIVERIES,
    MAX_NAME_CHARS,
    MAX_RECEIVE_MESSAGES,
    MAX_VISIBILITY_SECONDS,
    MAX_WAIT_SECONDS,
)
from standfast.optimize.errors import (
    MailboxClosed,
    MailboxError,
    MailboxFull,
    ReplyMailboxClosed,
    StaleReceipt,
    UnresolvableReply,
)
from standfast.optimize.mailboxes.wire import Codec, WireCodec
from standfast.records.canon import utc_text

BodyT = TypeVar("BodyT")
ReplyT = TypeVar("ReplyT")
_T = TypeVar("_T")
_ROOM_POLL_SECONDS: Final = 0.02


class DeadReason(StrEnum):
    """Why a message is a dead letter."""

    UNDECODABLE = "undecodable"
    DELIVERED_TOO_OFTEN = "delivered_too_often"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that nobody could process, with its bytes as they were sent."""

    message_id: str
    content: bytes
    reason: DeadReason
    problem: str
    delivery_count: int
    died_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxCounts:
    """How many messages are in each state."""

    ready: int
    leased: int
    delayed: int
    dead: int


@dataclass(slots=True, kw_only=True, eq=False)
class Message(Generic[BodyT, ReplyT]):
    """One delivery of a message. It belongs to this receiver until its visibility timeout ends."""

    message_id: str
    body: BodyT
    receipt_handle: str
    delivery_count: int
    reply_to: str | None
    sent_at: str
    mailbox: "Mailbox[Any, Any]"
    is_settled: bool = False
    """Whether this delivery was acknowledged, given back or given up."""

    def acknowledge(self) -> None:
        """Remove the message: it is done.

        Raises ``StaleReceipt`` if it no longer belongs to this receiver.
        """
        self.mailbox.acknowledge(self)

    def nack(self, *, visibility_timeout: float = 0) -> None:
        """Give the message back, at once or after that many seconds."""
        self.mailbox.nack(self.receipt_handle, visibility_timeout=visibility_timeout)
        self.is_settled = True

    def extend_visibility(self, visibility_timeout: float) -> None:
        """Keep the message for that many seconds from now."""
        self.mailbox.extend_visibility(self.receipt_handle, visibility_timeout)

    def dead_letter(self, problem: str) -> None:
        """Give the message up for good; it stays among the dead letters."""
        self.mailbox.dead_letter(self.receipt_handle, problem=problem)
        self.is_settled = True

    def reply(self, body: ReplyT) -> str:
        """Send a reply to the sender's address and return its message id.

        Raises:
            MailboxError: The message was settled before; reply first, then acknowledge.
            MailboxError: The sender named no ``reply_to``.
            UnresolvableReply: The mailbox of that name is unknown; ``ReplyMailboxClosed`` if it was closed.
        """
        return self.mailbox.send_reply(self, body)


class MailboxResolver(Protocol):
    """Finds mailboxes by name. It never creates one."""

    def resolve(self, name: str) -> "Mailbox[Any, Any] | None":
        """Return the mailbox, or None; raise ``ReplyMailboxClosed`` if its owner closed it."""
        ...

    def register(self, name: str, mailbox: "Mailbox[Any, Any]") -> None:
        """Register a mailbox under a name, replacing an earlier one."""
        ...

    def forget(self, name: str) -> None:
        """Remove a name."""
        ...


class Mailbox(ABC, Generic[BodyT, ReplyT]):
    """A queue of messages with leases. Every method may be called from any thread.

    This class checks arguments, encodes and decodes bodies and resolves replies. A backend implements the
    abstract methods; those that take a receipt handle return whether it was still valid.
    """

    def __init__(
        self,
        *,
        name: str,
        reply_resolver: MailboxResolver | None = None,
        max_deliveries: int = MAX_DELIVERIES,
        max_size: int | None = None,
        codec: Codec | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self._name = _check_name(name)
        if max_size is not None and not (type(max_size) is int and max_size > 0):
            problem = f"max_size must be a whole number above 0, or None for no bound, not {max_size!r:.40}"
            raise InvalidValue(what="Mailbox", problem=problem)
        self._max_size = max_size
        self._resolver = reply_resolver
        self._max_deliveries = max_deliveries
        self._codec = codec or WireCodec()
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()
        self._closed = False
        self._temporary = False
        self._open()

    def _open(self) -> None:
        """Prepare the backend's own state."""

    @property
    def name(self) -> str:
        """The name to use in ``reply_to``."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether this object was closed."""
        return self._closed

    def send(
        self,
        body: BodyT,
        *,
        reply_to: str | None = None,
        delay_seconds: float = 0,
        wait_time_seconds: float = 0,
    ) -> str:
        """Add a message and return its id. Once this returns, the message is never lost.

        Args:
            body: Plain JSON, or a value of a class that can be sent (see ``message_kind``).
            reply_to: The name of the mailbox that replies go to.
            delay_seconds: Receivers get the message only after that many seconds.
            wait_time_seconds: How long to wait for room if the mailbox is full.

        Raises:
            MailboxFull: The mailbox has a ``max_size``, and there was no room in that time.
        """
        return self.send_many(
            [body], reply_to=reply_to, delay_seconds=delay_seconds, wait_time_seconds=wait_time_seconds
        )[0]

    def send_many(
        self,
        bodies: Sequence[BodyT],
        *,
        reply_to: str | None = None,
        delay_seconds: float = 0,
        wait_time_seconds: float = 0,
    ) -> list[str]:
        """Add messages in this order. On a server, up to 1,000 take one call; those are added all or none."""
        self._check_open()
        _check_seconds("send()", "delay_seconds", delay_seconds, most=MAX_VISIBILITY_SECONDS)
        _check_seconds("send()", "wait_time_seconds", wait_time_seconds, most=MAX_WAIT_SECONDS)
        sent_at = utc_text(self._clock.now())
        messages = [
            (
                self._ids.new_id(),
                self._codec.encode(body, mailbox=self._name, reply_to=reply_to, sent_at=sent_at),
            )
            for body in bodies
        ]
        deadline = self._clock.monotonic() + wait_time_seconds
        for batch in batches(messages):
            self._put_when_there_is_room(batch, delay_seconds, deadline)
        return [message_id for message_id, _ in messages]

    def _put_when_there_is_room(
        self, messages: Sequence[tuple[str, bytes]], delay_seconds: float, deadline: float
    ) -> None:
        while not self._put(messages, delay_seconds):
            left_seconds = deadline - self._clock.monotonic()
            if left_seconds <= 0 or self._max_size is None or len(messages) > self._max_size:
                counts = self.counts()
                raise MailboxFull(
                    mailbox=self._name,
                    size=counts.ready + counts.leased + counts.delayed,
                    max_size=self._max_size,
                    count=len(messages),
                )
            self._clock.sleep(min(left_seconds, _ROOM_POLL_SECONDS))
            self._check_open()

    def receive(
        self,
        *,
        max_messages: int = 1,
        visibility_timeout: float = DEFAULT_VISIBILITY_SECONDS,
        wait_time_seconds: float = 0,
    ) -> list[Message[BodyT, ReplyT]]:
        """Lease up to ``max_messages`` for ``visibility_timeout`` seconds.

        With a timeout of 0 the message is only looked at: it stays ready for others, and its receipt settles
        nothing. If there is none, wait up to ``wait_time_seconds`` and return as soon as one arrives.
        """
        if not (type(max_messages) is int and 1 <= max_messages <= MAX_RECEIVE_MESSAGES):
            problem = f"max_messages must be 1 to {MAX_RECEIVE_MESSAGES}, not {max_messages!r:.40}"
            raise InvalidValue(what="receive()", problem=problem)
        _check_seconds("receive()", "visibility_timeout", visibility_timeout, most=MAX_VISIBILITY_SECONDS)
        _check_seconds("receive()", "wait_time_seconds", wait_time_seconds, most=MAX_WAIT_SECONDS)
        self._check_open()
        return self._lease(max_messages, visibility_timeout, wait_time_seconds)

    def acknowledge(self, *messages: Message[Any, Any]) -> None:
        """Remove several messages in one call; raise ``StaleReceipt`` with those that are no longer ours."""
        stale = self._settle([message.receipt_handle for message in messages])
        for message in messages:
            message.is_settled = True
        if stale:
            raise StaleReceipt(mailbox=self._name, receipt_handle=", ".join(stale))

    def nack(self, receipt_handle: str, *, visibility_timeout: float) -> None:
        """Give a message back, at once or after that many seconds."""
        _check_seconds("nack()", "visibility_timeout", visibility_timeout, most=MAX_VISIBILITY_SECONDS)
        self._check_receipt(receipt_handle, valid=self._release(receipt_handle, visibility_timeout))

    def extend_visibility(self, receipt_handle: str, visibility_timeout: float) -> None:
        """Keep a message for that many seconds from now."""
        _check_seconds(
            "extend_visibility()",
            "visibility_timeout",
            visibility_timeout,
            least=0.001,
            most=MAX_VISIBILITY_SECONDS,
        )
        self._check_receipt(receipt_handle, valid=self._extend(receipt_handle, visibility_timeout))

    def dead_letter(self, receipt_handle: str, *, problem: str) -> None:
        """Give a message up for good."""
        self._check_receipt(receipt_handle, valid=self._bury(receipt_handle, problem))

    def send_reply(self, message: Message[Any, Any], body: Any) -> str:
        """Send a reply to a message's ``reply_to``."""
        if message.is_settled:
            raise MailboxError("already_settled", message_id=message.message_id, mailbox=self._name)
        if message.reply_to is None:
            raise MailboxError("no_reply_address", message_id=message.message_id, mailbox=self._name)
        target = self._resolver.resolve(message.reply_to) if self._resolver is not None else None
        if target is None:
            raise UnresolvableReply(mailbox=self._name, reply_to=message.reply_to)
        return target.send(body)

    def redrive(self, message_id: str) -> None:
        """Make a dead letter ready again, with as many deliveries as a new message."""
        self._revive_or_raise(message_id, deliveries=self._max_deliveries)

    def discard(self, message_id: str) -> None:
        """Delete a dead letter."""
        self._revive_or_raise(message_id, deliveries=0)

    @abstractmethod
    def reply_mailbox(self, name: str) -> "Mailbox[Any, None]":
        """Return the temporary mailbox of that name, to which receivers of this mailbox can reply."""

    @abstractmethod
    def counts(self) -> MailboxCounts:
        """Return how many messages are in each state now."""

    @abstractmethod
    def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """Return the dead letters, oldest first."""

    @abstractmethod
    def purge(self) -> int:
        """Delete every message except dead letters; return how many there were."""

    @abstractmethod
    def interrupt(self) -> None:
        """Make every ``receive`` that waits on this object return at once."""

    @abstractmethod
    def close(self) -> None:
        """Stop using this object. Its messages stay; a ``reply_mailbox`` is removed with its messages."""

    @abstractmethod
    def _put(self, messages: Sequence[tuple[str, bytes]], delay_seconds: float) -> bool:
        """Add messages (id, content) to the end of the queue; if there is no room, add none, return False."""

    @abstractmethod
    def _lease(
        self, max_messages: int, visibility_timeout: float, wait_time_seconds: float
    ) -> list[Message[BodyT, ReplyT]]:
        """Lease ready messages, waiting if there are none."""

    @abstractmethod
    def _settle(self, receipt_handles: Sequence[str]) -> list[str]:
        """Remove leased messages; return the stale receipts."""

    @abstractmethod
    def _release(self, receipt_handle: str, seconds: float) -> bool:
        """Make a leased message ready, now or later."""

    @abstractmethod
    def _extend(self, receipt_handle: str, seconds: float) -> bool:
        """Let a lease end that many seconds from now."""

    @abstractmethod
    def _bury(self, receipt_handle: str, problem: str) -> bool:
        """Turn a leased message into a dead letter."""

    @abstractmethod
    def _revive(self, message_id: str, deliveries: int) -> bool:
        """Make a dead letter ready for that many deliveries, or delete it if 0; return whether it existed."""

    def _revive_or_raise(self, message_id: str, *, deliveries: int) -> None:
        if not self._revive(message_id, deliveries):
            raise MailboxError("no_such_dead_letter", mailbox=self._name, message_id=message_id)

    def _check_receipt(self, receipt_handle: str, *, valid: bool) -> None:
        if not valid:
            raise StaleReceipt(mailbox=self._name, receipt_handle=receipt_handle)

    def _check_open(self) -> None:
        if self._closed:
            raise MailboxClosed(mailbox=self._name)

    def _decode(self, receipt_handle: str, content: bytes) -> Message[BodyT, ReplyT]:
        """Return the delivery of these bytes, or raise ``UndecodableBody``."""
        header, body = self._codec.decode(content)
        message_id, _, count = receipt_handle.rpartition(":")
        return Message(
            message_id=message_id,
            body=body,
            receipt_handle=receipt_handle,
            delivery_count=int(count),
            reply_to=header.reply_to,
            sent_at=header.sent_at,
            mailbox=self,
        )


class InMemoryMailboxResolver:
    """The mailboxes of one process, by name."""

    def __init__(self) -> None:
        self._mailboxes: dict[str, Mailbox[Any, Any]] = {}
        self._closed: set[str] = set()
        self._lock = threading.Lock()

    def resolve(self, name: str) -> Mailbox[Any, Any] | None:
        """Return the mailbox, or None; raise ``ReplyMailboxClosed`` if it was forgotten."""
        with self._lock:
            if name in self._closed:
                raise ReplyMailboxClosed(mailbox=name, reply_to=name)
            return self._mailboxes.get(name)

    def register(self, name: str, mailbox: Mailbox[Any, Any]) -> None:
        """Register a mailbox under a name, replacing an earlier one."""
        with self._lock:
            self._mailboxes[name] = mailbox
            self._closed.discard(name)

    def forget(self, name: str) -> None:
        """Remove a name. Replies to it raise ``ReplyMailboxClosed`` from now on."""
        with self._lock:
            if self._mailboxes.pop(name, None) is not None:
                self._closed.add(name)


def _check_name(name: str) -> str:
    # Braces would change which node of a Redis cluster holds the mailbox.
    valid = isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS and name.isprintable()
    if not valid or set(name) & {"{", "}"}:
        problem = f"name must be 1 to {MAX_NAME_CHARS} printable characters without braces, not {name!r:.80}"
        raise InvalidValue(what="Mailbox", problem=problem)
    return name


def _check_seconds(call: str, argument: str, seconds: float, *, least: float = 0, most: float) -> None:
    if not least <= seconds <= most:
        problem = f"{argument} must be {least:g} to {most:g} seconds, not {seconds!r:.40}"
        raise InvalidValue(what=call, problem=problem)


def batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield parts of at most as many items as one call to a server takes."""
    for first in range(0, len(items), MAX_RECEIVE_MESSAGES):
        yield items[first : first + MAX_RECEIVE_MESSAGES]
