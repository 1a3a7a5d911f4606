"""A mailbox inside one process: for tests, for the command line, and as the plainest reading of the laws.

Bodies are kept as bytes, so that a receiver gets a value of its own, exactly as it would over a network.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic

from holdfast.canon import utc_text
from holdfast.clock import Clock, IdSource, RandomIds, SystemClock
from holdfast.errors import MailboxClosed, NoSuchDeadLetter, ReplyMailboxClosed, StaleReceipt, UndecodableBody
from holdfast.limits import DEFAULT_VISIBILITY_SECONDS, MAX_BLOCK_SECONDS, MAX_DELIVERIES
from holdfast.mailboxes.mailbox import (
    BodyT,
    DeadLetter,
    DeadReason,
    Mailbox,
    MailboxCounts,
    Message,
    ReplyT,
    check_name,
    check_receive,
    check_timeout,
)
from holdfast.mailboxes.resolvers import InMemoryMailboxResolver, MailboxResolver, send_reply
from holdfast.mailboxes.wire import Codec, WireCodec


@dataclass(slots=True)
class _Held:
    content: bytes
    allowed: int
    delivery_count: int = 0


class InMemoryMailbox(Generic[BodyT, ReplyT]):
    """A mailbox whose messages live as long as this object. ``ManualClock`` lets tests end leases when they like."""

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
        self._resolver = reply_resolver if reply_resolver is not None else InMemoryMailboxResolver()
        self._max_deliveries = max_deliveries
        self._codec = codec or WireCodec()
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()
        self._changed = threading.Condition()
        self._held: dict[str, _Held] = {}
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._leased: dict[str, float] = {}
        self._delayed: dict[str, float] = {}
        self._dead: dict[str, DeadLetter] = {}
        self._interrupts = 0
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
        """Put messages in, in this order."""
        sent_at = utc_text(self._clock.now())
        contents = [
            self._codec.encode(body, mailbox=self._name, reply_to=reply_to, sent_at=sent_at)
            for body in bodies
        ]
        with self._changed:
            self._check_open()
            given = [self._ids.new_id() for _ in contents]
            for message_id, content in zip(given, contents, strict=True):
                self._held[message_id] = _Held(content, self._max_deliveries)
                self._ready[message_id] = None
            self._changed.notify(len(given))
            return given

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
        with self._changed:
            self._check_open()
            interrupts, left_seconds = self._interrupts, wait_time_seconds
            while True:
                if taken := self._take(max_messages, visibility_timeout):
                    return taken
                if left_seconds <= 0 or self._interrupts != interrupts:
                    # Whoever waits on takes over watching the next lease's end.
                    self._changed.notify()
                    return []
                begun = self._clock.monotonic()
                pause = min(left_seconds, self._seconds_to_next(), MAX_BLOCK_SECONDS)
                woken = self._changed.wait(pause)
                # A manual clock stands still while we wait, so a pause that was not cut short counts in full.
                passed = self._clock.monotonic() - begun
                left_seconds -= passed if woken else max(passed, pause)

    def acknowledge(self, *messages: Message[Any, Any]) -> None:
        """Settle several messages; those that are no longer ours are told in a ``StaleReceipt``."""
        with self._changed:
            stale = []
            for message in messages:
                message_id = self._leased_id(message.receipt_handle)
                if message_id is None:
                    stale.append(message.receipt_handle)
                else:
                    del self._leased[message_id], self._held[message_id]
        if stale:
            raise StaleReceipt(mailbox=self._name, receipt_handle=", ".join(stale))

    def nack(self, receipt_handle: str, *, visibility_timeout: float) -> None:
        """Give a message back, at once or after that many seconds."""
        check_timeout("nack()", visibility_timeout, least=0)
        with self._changed:
            message_id = self._leased_or_stale(receipt_handle)
            del self._leased[message_id]
            if visibility_timeout == 0:
                self._ready[message_id] = None
                self._ready.move_to_end(message_id, last=False)
            else:
                self._delayed[message_id] = self._clock.monotonic() + visibility_timeout
            self._changed.notify_all()

    def extend_visibility(self, receipt_handle: str, visibility_timeout: float) -> None:
        """The lease runs that many seconds from now."""
        check_timeout("extend_visibility()", visibility_timeout, least=0.001)
        with self._changed:
            message_id = self._leased_or_stale(receipt_handle)
            self._leased[message_id] = self._clock.monotonic() + visibility_timeout
            self._changed.notify_all()

    def dead_letter(self, receipt_handle: str, *, problem: str) -> None:
        """Give a message up for good."""
        with self._changed:
            message_id = self._leased_or_stale(receipt_handle)
            del self._leased[message_id]
            self._bury(message_id, DeadReason.GIVEN_UP, problem)

    def send_reply(self, message: Message[Any, Any], body: Any) -> str:
        """Send to the message's reply address."""
        return send_reply(message, body, mailbox=self._name, resolver=self._resolver)

    def reply_mailbox(self, name: str) -> Mailbox[Any, None]:
        """The temporary mailbox of that name beside this one."""
        with suppress(ReplyMailboxClosed):
            known = self._resolver.resolve(name)
            if known is not None:
                return known
        made: InMemoryMailbox[Any, None] = InMemoryMailbox(
            name=name,
            reply_resolver=self._resolver,
            max_deliveries=self._max_deliveries,
            codec=self._codec,
            clock=self._clock,
            ids=self._ids,
        )
        made._temporary = True
        self._resolver.register(name, made)
        return made

    def counts(self) -> MailboxCounts:
        """How many messages are in each state now."""
        with self._changed:
            # Only counted, not moved: looking at a mailbox changes nothing, not even the order of what is due.
            now = self._clock.monotonic()
            leased, delayed = (
                sum(at > now for at in hidden.values()) for hidden in (self._leased, self._delayed)
            )
            due = len(self._leased) - leased + len(self._delayed) - delayed
            return MailboxCounts(
                ready=len(self._ready) + due, leased=leased, delayed=delayed, dead=len(self._dead)
            )

    def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        with self._changed:
            return sorted(self._dead.values(), key=lambda letter: (letter.died_at, letter.message_id))[:limit]

    def redrive(self, message_id: str) -> None:
        """Make a dead letter ready again."""
        with self._changed:
            letter = self._exhume(message_id)
            held = self._held[message_id]
            held.allowed = letter.delivery_count + self._max_deliveries
            self._ready[message_id] = None
            self._changed.notify()

    def discard(self, message_id: str) -> None:
        """Throw a dead letter away."""
        with self._changed:
            self._exhume(message_id)
            del self._held[message_id]

    def purge(self) -> int:
        """Throw away every message but the dead letters."""
        with self._changed:
            living = [*self._ready, *self._leased, *self._delayed]
            for message_id in living:
                del self._held[message_id]
            for state in (self._ready, self._leased, self._delayed):
                state.clear()
            return len(living)

    def interrupt(self) -> None:
        """Let those who wait in ``receive`` return at once."""
        with self._changed:
            self._interrupts += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop using the mailbox; waiting receivers return. A ``reply_mailbox`` is no longer known."""
        with self._changed:
            self._closed = True
        self.interrupt()
        if self._temporary:
            self._resolver.forget(self._name)

    def _check_open(self) -> None:
        if self._closed:
            raise MailboxClosed(mailbox=self._name)

    def _take(self, max_messages: int, visibility_timeout: float) -> list[Message[BodyT, ReplyT]]:
        self._surface()
        taken: list[Message[BodyT, ReplyT]] = []
        while self._ready and len(taken) < max_messages:
            message_id, _ = self._ready.popitem(last=False)
            held = self._held[message_id]
            if held.delivery_count >= held.allowed:
                problem = f"delivered {held.delivery_count} times and never settled"
                self._bury(message_id, DeadReason.DELIVERED_TOO_OFTEN, problem)
                continue
            held.delivery_count += 1
            try:
                header, body = self._codec.decode(held.content)
            except UndecodableBody as error:
                self._bury(message_id, DeadReason.UNDECODABLE, str(error))
                continue
            self._leased[message_id] = self._clock.monotonic() + visibility_timeout
            taken.append(
                Message(
                    message_id=message_id,
                    body=body,
                    receipt_handle=f"{message_id}:{held.delivery_count}",
                    delivery_count=held.delivery_count,
                    reply_to=header.reply_to,
                    sent_at=header.sent_at,
                    desk=self,
                )
            )
        if taken:
            # Another who waits must learn of the new lease's end, or of what is still ready.
            self._changed.notify()
        return taken

    def _surface(self) -> None:
        """What is hidden and due becomes ready, before what was never delivered: first due, first out."""
        now = self._clock.monotonic()
        due = sorted(
            (at, message_id)
            for hidden in (self._leased, self._delayed)
            for message_id, at in hidden.items()
            if at <= now
        )
        for _, message_id in reversed(due):
            self._leased.pop(message_id, None)
            self._delayed.pop(message_id, None)
            self._ready[message_id] = None
            self._ready.move_to_end(message_id, last=False)

    def _seconds_to_next(self) -> float:
        hidden = [*self._leased.values(), *self._delayed.values()]
        return max(min(hidden, default=float("inf")) - self._clock.monotonic(), 0.0)

    def _leased_id(self, receipt_handle: str) -> str | None:
        """Whose receipt this is, if it is the latest and its time is not over."""
        message_id, _, count = receipt_handle.rpartition(":")
        held = self._held.get(message_id)
        if held is None or str(held.delivery_count) != count:
            return None
        return message_id if self._leased.get(message_id, float("-inf")) > self._clock.monotonic() else None

    def _leased_or_stale(self, receipt_handle: str) -> str:
        message_id = self._leased_id(receipt_handle)
        if message_id is None:
            raise StaleReceipt(mailbox=self._name, receipt_handle=receipt_handle)
        return message_id

    def _bury(self, message_id: str, reason: DeadReason, problem: str) -> None:
        held = self._held[message_id]
        self._dead[message_id] = DeadLetter(
            message_id=message_id,
            content=held.content,
            reason=reason,
            problem=problem,
            delivery_count=held.delivery_count,
            died_at=utc_text(self._clock.now()),
        )

    def _exhume(self, message_id: str) -> DeadLetter:
        letter = self._dead.pop(message_id, None)
        if letter is None:
            raise NoSuchDeadLetter(mailbox=self._name, message_id=message_id)
        return letter
