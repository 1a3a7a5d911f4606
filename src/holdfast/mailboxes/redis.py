"""A mailbox in Redis (6.2 or newer), for many processes on many machines. Its extra is ``redis``.

Redis keeps what it has acknowledged if its append-only file is on; with ``appendfsync always`` a power cut loses
nothing, with ``everysec`` up to a second. That is the server's setting and its owner's choice.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

from holdfast.canon import utc_text
from holdfast.clock import Clock, IdSource, RandomIds, SystemClock
from holdfast.errors import (
    MailboxClosed,
    NoSuchDeadLetter,
    ReplyMailboxClosed,
    StaleReceipt,
    UndecodableBody,
    UnresolvableReply,
)
from holdfast.limits import (
    DEFAULT_VISIBILITY_SECONDS,
    MAX_BLOCK_SECONDS,
    MAX_DELIVERIES,
    MAX_RECEIVE_MESSAGES,
    REPLY_MAILBOX_SECONDS,
)
from holdfast.mailboxes import redis_lua as lua
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
from holdfast.mailboxes.redis_calls import RedisCalls
from holdfast.mailboxes.resolvers import MailboxResolver, send_reply
from holdfast.mailboxes.wire import Codec, WireCodec

if TYPE_CHECKING:
    import redis

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RedisMailbox(Generic[BodyT, ReplyT]):
    """A mailbox of that name on that server. Two objects with one name are one mailbox."""

    TIME: ClassVar[str] = lua.SERVER_TIME

    def __init__(
        self,
        *,
        name: str,
        client: "redis.Redis",
        reply_resolver: MailboxResolver | None = None,
        max_deliveries: int = MAX_DELIVERIES,
        codec: Codec | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self._name = check_name(name)
        self._client = client
        self._resolver = reply_resolver
        self._max_deliveries = max_deliveries
        self._codec = codec or WireCodec()
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()
        self._calls = RedisCalls(client, name, clock=self._clock, ids=self._ids)
        self._own_wake = self._calls.key(f"wake:{self._ids.new_id()}")
        self._lock = threading.Lock()
        self._waiting = self._interrupts = 0
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
        """Put messages in, in this order; up to 1,000 are one call."""
        self._check_open()
        sent_at = utc_text(self._clock.now())
        messages = [
            (
                self._ids.new_id(),
                self._codec.encode(body, mailbox=self._name, reply_to=reply_to, sent_at=sent_at),
            )
            for body in bodies
        ]
        for first in range(0, len(messages), MAX_RECEIVE_MESSAGES):
            some = messages[first : first + MAX_RECEIVE_MESSAGES]
            taken = self._run(lua.SEND, *(part for message in some for part in message))
            if taken < 0:
                kind = UnresolvableReply if taken == -1 else ReplyMailboxClosed
                raise kind(mailbox=self._name, reply_to=self._name)
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
        until = self._clock.monotonic() + wait_time_seconds
        with self._lock:
            self._waiting += 1
            interrupts = self._interrupts
        try:
            while True:
                leaving = self._clock.monotonic() >= until or self._interrupts != interrupts
                taken, next_seconds = self._take(max_messages, visibility_timeout, leaving=leaving)
                if taken or leaving:
                    return taken
                pause = min(until - self._clock.monotonic(), next_seconds, MAX_BLOCK_SECONDS)
                if pause > 0:
                    self._calls.wait([self._own_wake, self._calls.key("wake")], pause)
        finally:
            with self._lock:
                self._waiting -= 1

    def acknowledge(self, *messages: Message[Any, Any]) -> None:
        """Settle several messages; those that are no longer ours are told in a ``StaleReceipt``."""
        stale: list[str] = []
        receipts = [message.receipt_handle for message in messages]
        for first in range(0, len(receipts), MAX_RECEIVE_MESSAGES):
            some = receipts[first : first + MAX_RECEIVE_MESSAGES]
            stale += [receipt.decode() for receipt in self._run(lua.ACKNOWLEDGE, " ".join(some))]
        if stale:
            raise StaleReceipt(mailbox=self._name, receipt_handle=", ".join(stale))

    def nack(self, receipt_handle: str, *, visibility_timeout: float) -> None:
        """Give a message back, at once or after that many seconds."""
        check_timeout("nack()", visibility_timeout, least=0)
        self._settle(lua.NACK, receipt_handle, _ms(visibility_timeout))

    def extend_visibility(self, receipt_handle: str, visibility_timeout: float) -> None:
        """The lease runs that many seconds from now."""
        check_timeout("extend_visibility()", visibility_timeout, least=0.001)
        self._settle(lua.EXTEND, receipt_handle, _ms(visibility_timeout))

    def dead_letter(self, receipt_handle: str, *, problem: str) -> None:
        """Give a message up for good."""
        self._settle(lua.BURY, receipt_handle, DeadReason.GIVEN_UP.value, problem)

    def send_reply(self, message: Message[Any, Any], body: Any) -> str:
        """Send to the message's reply address."""
        return send_reply(message, body, mailbox=self._name, resolver=self._resolver)

    def reply_mailbox(self, name: str) -> Mailbox[Any, None]:
        """The temporary mailbox of that name; the server forgets it a day after its last use."""
        kind: type[RedisMailbox[Any, None]] = type(self)  # type: ignore[assignment]  # Its messages are of other types.
        made: RedisMailbox[Any, None] = kind(
            name=name,
            client=self._client,
            reply_resolver=self._resolver,
            max_deliveries=self._max_deliveries,
            codec=self._codec,
            clock=self._clock,
            ids=self._ids,
        )
        made._temporary = True
        made._calls.mark(REPLY_MAILBOX_SECONDS)
        return made

    def counts(self) -> MailboxCounts:
        """How many messages are in each state now."""
        ready, leased, delayed, dead = self._run(lua.COUNTS)
        return MailboxCounts(ready=ready, leased=leased, delayed=delayed, dead=dead)

    def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        return [_letter(*row) for row in self._run(lua.DEAD_LETTERS, limit)]

    def redrive(self, message_id: str) -> None:
        """Make a dead letter ready again."""
        self._exhume(message_id, self._max_deliveries)

    def discard(self, message_id: str) -> None:
        """Throw a dead letter away."""
        self._exhume(message_id, 0)

    def purge(self) -> int:
        """Throw away every message but the dead letters."""
        purged: int = self._run(lua.PURGE)
        return purged

    def interrupt(self) -> None:
        """Let those who wait in ``receive`` of this object return at once."""
        with self._lock:
            self._interrupts += 1
            waiting = self._waiting
        if waiting:
            self._calls.push(self._own_wake, times=waiting, lifetime_seconds=60)

    def close(self) -> None:
        """Stop using the mailbox; waiting receivers return. A ``reply_mailbox`` is removed with all it holds."""
        if self._closed:
            return
        self._closed = True
        self.interrupt()
        if self._temporary:
            self._calls.remove(remembered_seconds=REPLY_MAILBOX_SECONDS)

    def make_known(self) -> None:
        """Let resolvers in other processes find this mailbox by its name."""
        self._calls.mark(0)

    def _run(self, body: str, *arguments: Any) -> Any:
        return self._calls.run(lua.script(body, time=self.TIME), *arguments)

    def _check_open(self) -> None:
        if self._closed:
            raise MailboxClosed(mailbox=self._name)

    def _settle(self, body: str, receipt_handle: str, *arguments: Any) -> None:
        if not self._run(body, receipt_handle, *arguments):
            raise StaleReceipt(mailbox=self._name, receipt_handle=receipt_handle)

    def _exhume(self, message_id: str, deliveries: int) -> None:
        if not self._run(lua.EXHUME, message_id, deliveries):
            raise NoSuchDeadLetter(mailbox=self._name, message_id=message_id)

    def _take(
        self, max_messages: int, visibility_timeout: float, *, leaving: bool
    ) -> tuple[list[Message[BodyT, ReplyT]], float]:
        taken: list[Message[BodyT, ReplyT]] = []
        while True:
            receipts, lengths, bodies, wait_ms = self._run(
                lua.RECEIVE,
                max_messages - len(taken),
                _ms(visibility_timeout),
                self._max_deliveries,
                int(leaving),
            )
            names = receipts.decode().split()
            read = [
                message
                for receipt, content in zip(names, _cut(bodies, lengths), strict=True)
                if (message := self._read(receipt, content)) is not None
            ]
            taken += read
            # Undecodable messages must not hide good ones behind them.
            if len(read) == len(names) or len(taken) == max_messages:
                return taken, float("inf") if wait_ms < 0 else wait_ms / 1000

    def _read(self, receipt_handle: str, content: bytes) -> Message[BodyT, ReplyT] | None:
        try:
            header, body = self._codec.decode(content)
        except UndecodableBody as error:
            self._run(lua.BURY, receipt_handle, DeadReason.UNDECODABLE.value, str(error))
            return None
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


class RedisMailboxResolver:
    """Finds mailboxes that were made known on a server, by whatever process."""

    def __init__(
        self, *, client: "redis.Redis", clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        self._client = client
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()
        self._known: dict[str, Mailbox[Any, Any]] = {}
        self._lock = threading.Lock()

    def resolve(self, name: str) -> Mailbox[Any, Any] | None:
        """The mailbox of that name, if it is known here or on the server."""
        with self._lock:
            known = self._known.get(name)
        if known is not None:
            return known
        found: RedisMailbox[Any, Any] = RedisMailbox(
            name=name, client=self._client, clock=self._clock, ids=self._ids
        )
        # Should its owner remove it between this look and the reply, the reply is refused by the server.
        found._calls = self._calls(name, must_be_known=True)  # noqa: SLF001  # The two are halves of one noun.
        return found if found._calls.is_known() else None  # noqa: SLF001  # As above.

    def register(self, name: str, mailbox: Mailbox[Any, Any]) -> None:
        """Make a mailbox known: one on Redis to every process, any other to this one."""
        with self._lock:
            self._known[name] = mailbox
        if isinstance(mailbox, RedisMailbox):
            mailbox.make_known()

    def forget(self, name: str) -> None:
        """The name leads nowhere from now on."""
        with self._lock:
            self._known.pop(name, None)
        self._calls(name).forget()

    def _calls(self, name: str, *, must_be_known: bool = False) -> RedisCalls:
        return RedisCalls(self._client, name, must_be_known=must_be_known, clock=self._clock, ids=self._ids)


def _cut(joined: bytes, lengths: bytes) -> Iterator[bytes]:
    """Single bodies, from all of them in one piece."""
    start = 0
    for length in map(int, lengths.split()):
        yield joined[start : start + length]
        start += length


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1 if seconds > 0 else 0)


def _letter(raw_id: bytes, died_ms: bytes, content: bytes, count: int, reason: bytes) -> DeadLetter:
    told = json.loads(reason)
    return DeadLetter(
        message_id=raw_id.decode(errors="replace"),
        content=content,
        reason=DeadReason(told["reason"]),
        problem=told["problem"],
        delivery_count=count,
        died_at=utc_text(_EPOCH + timedelta(milliseconds=float(died_ms))),
    )
