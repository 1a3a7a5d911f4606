"""The front of a mailbox, which all backends share: what is refused and with which error, how a body is read and replied to.

A backend says how messages are kept, taken, settled and given back, and answers whether a receipt was still good.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Required, TypedDict

from standfast.canon import utc_text
from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import MailboxClosed, NoSuchDeadLetter, StaleReceipt
from standfast.limits import DEFAULT_VISIBILITY_SECONDS, MAX_DELIVERIES
from standfast.optimize.mailboxes.mailbox import (
    BodyT,
    Message,
    ReplyT,
    check_name,
    check_receive,
    check_timeout,
)
from standfast.optimize.mailboxes.resolvers import MailboxResolver, send_reply
from standfast.optimize.mailboxes.wire import Codec, WireCodec


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
