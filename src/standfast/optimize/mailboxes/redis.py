"""How the scripts are called: numbered, tried again while the server is away, its errors told in our words."""

import itertools
import json
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, TypeVar, Unpack

from standfast.canon import utc_text
from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import (
    InvalidValue,
    MailboxUnavailable,
    MissingExtra,
    ReplyMailboxClosed,
    UndecodableBody,
    UnresolvableReply,
)
from standfast.limits import (
    CALL_MEMORY_SECONDS,
    MAX_BLOCK_SECONDS,
    MAX_RECEIVE_MESSAGES,
    MAX_RECONNECT_SECONDS,
    REPLY_MAILBOX_SECONDS,
)
from standfast.optimize.mailboxes import redis_lua as lua
from standfast.optimize.mailboxes.mailbox import (
    BodyT,
    DeadLetter,
    DeadReason,
    Front,
    Mailbox,
    MailboxCounts,
    Message,
    Options,
    ReplyT,
)

try:
    import redis
except ImportError:
    raise MissingExtra(feature="The Redis mailbox", extra="redis") from None

PREFIX: Final = "standfast:mailbox:"
PARTS: Final = (
    "ready",
    "leased",
    "delayed",
    "dead",
    "bodies",
    "allowed",
    "reasons",
    "wake",
    "known",
)
_AWAY: Final = (redis.ConnectionError, redis.TimeoutError)
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0


class _Caller(threading.local):
    """Who calls: one for each thread, because a caller makes one call at a time. A forked child is somebody else."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._process = -1

    def next_call(self) -> tuple[str, int]:
        """The caller's id and the number of its next call."""
        if self._process != os.getpid():
            self._process, self._id, self._numbers = os.getpid(), self._ids.new_id(), itertools.count(1)
        return self._id, next(self._numbers)


class RedisCalls:
    """The scripts of one mailbox on one server. No exception of the client library leaves here."""

    def __init__(
        self, client: "redis.Redis", name: str, *, must_be_known: bool = False, clock: Clock, ids: IdSource
    ) -> None:
        if client.connection_pool.connection_kwargs.get("decode_responses"):
            problem = "its messages are bytes; give a client without decode_responses=True"
            raise InvalidValue(what="RedisMailbox", problem=problem)
        self._client: Any = client
        self._name = name
        self._place = f"{PREFIX}{{{name}}}:"
        self._keys = [self._place + part for part in PARTS]
        self._must_be_known = int(must_be_known)
        self._clock = clock
        self._caller = _Caller(ids)
        self._scripts: dict[str, Any] = {}

    def key(self, part: str) -> str:
        """The name of one of the mailbox's keys."""
        return self._place + part

    def run(self, source: str, *arguments: Any) -> Any:
        """Run a script once, however often its answer is lost on the way."""
        script = self._scripts.get(source)
        if script is None:
            script = self._scripts[source] = self._client.register_script(source)
        caller, number = self._caller.next_call()
        keys = [*self._keys, self.key(f"caller:{caller}")]
        heading = (number, int(CALL_MEMORY_SECONDS * 1000), self._must_be_known)
        return self.insist(lambda: script(keys=keys, args=[*heading, *arguments]))

    def insist(self, call: Any) -> Any:
        """Make a call that may be repeated, until the server answers or patience ends."""
        begun, pause = self._clock.monotonic(), _FIRST_PAUSE_SECONDS
        while True:
            try:
                return call()
            except _AWAY as error:
                if self._clock.monotonic() - begun + pause > MAX_RECONNECT_SECONDS:
                    raise MailboxUnavailable(mailbox=self._name, problem=str(error)) from None
            except redis.RedisError as error:
                raise MailboxUnavailable(mailbox=self._name, problem=str(error)) from None
            self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def wait(self, keys: Sequence[str], seconds: float) -> None:
        """Block until one of these lists has a token, and take it; a server that goes away ends the wait early."""
        # The client gives up after its socket_timeout and then repeats the call, so we must be back before that.
        patience = self._client.connection_pool.connection_kwargs.get("socket_timeout")
        if patience:
            seconds = min(seconds, patience / 2)
        try:
            # To Redis, 0 means for ever, and so does what it rounds to 0.
            self._client.blpop(list(keys), timeout=max(seconds, 0.01))
        except _AWAY:
            self._clock.sleep(_FIRST_PAUSE_SECONDS)
        except redis.RedisError as error:
            raise MailboxUnavailable(mailbox=self._name, problem=str(error)) from None

    def push(self, key: str, *, times: int, lifetime_seconds: float) -> None:
        """Put tokens into a list of our own."""

        def call() -> None:
            pipeline = self._client.pipeline()
            pipeline.rpush(key, *["1"] * times)
            pipeline.expire(key, int(lifetime_seconds))
            pipeline.execute()

        self.insist(call)

    def mark(self, lifetime_seconds: float) -> None:
        """Make the mailbox known to resolvers in other processes; with a lifetime, as long as it is used so often."""
        lifetime_ms = int(lifetime_seconds * 1000)
        self.insist(lambda: self._client.set(self.key("known"), lifetime_ms, px=lifetime_ms or None))

    def is_known(self) -> bool:
        """Whether somebody made the mailbox known, be it closed by now."""
        return bool(self.insist(lambda: self._client.exists(self.key("known"))))

    def forget(self) -> None:
        """Make the mailbox unknown."""
        self.insist(lambda: self._client.delete(self.key("known")))

    def remove(self, *, remembered_seconds: float) -> None:
        """Take away all that the mailbox holds; that it was closed is remembered for a while."""

        def call() -> None:
            pipeline = self._client.pipeline()
            pipeline.delete(*self._keys)
            pipeline.set(self.key("known"), "closed", px=int(remembered_seconds * 1000))
            pipeline.execute()

        self.insist(call)


_T = TypeVar("_T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RedisMailbox(Front[BodyT, ReplyT]):
    """A mailbox of that name on that server. Two objects with one name are one mailbox."""

    TIME: ClassVar[str] = lua.SERVER_TIME

    def __init__(self, *, client: "redis.Redis", **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._client = client
        self._calls = RedisCalls(client, self._name, clock=self._clock, ids=self._ids)
        self._own_wake = self._calls.key(f"wake:{self._ids.new_id()}")
        self._lock = threading.Lock()
        self._waiting = self._interrupts = 0

    def reply_mailbox(self, name: str) -> Mailbox[Any, None]:
        """The temporary mailbox of that name; the server forgets it a day after its last use."""
        kind: type[RedisMailbox[Any, None]] = type(self)  # type: ignore[assignment]  # Its messages are of other types.
        made: RedisMailbox[Any, None] = kind(client=self._client, **self._alike(name))
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

    def _put(self, messages: Sequence[tuple[str, bytes]]) -> None:
        for some in _by_thousands(messages):
            taken = self._run(lua.SEND, *(part for message in some for part in message))
            if taken < 0:
                kind = UnresolvableReply if taken == -1 else ReplyMailboxClosed
                raise kind(mailbox=self._name, reply_to=self._name)

    def _await(
        self, max_messages: int, visibility_timeout: float, wait_time_seconds: float
    ) -> list[Message[BodyT, ReplyT]]:
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

    def _acknowledged(self, receipt_handles: Sequence[str]) -> list[str]:
        return [
            receipt.decode()
            for some in _by_thousands(receipt_handles)
            for receipt in self._run(lua.ACKNOWLEDGE, " ".join(some))
        ]

    def _given_back(self, receipt_handle: str, seconds: float) -> bool:
        return bool(self._run(lua.NACK, receipt_handle, _ms(seconds)))

    def _extended(self, receipt_handle: str, seconds: float) -> bool:
        return bool(self._run(lua.EXTEND, receipt_handle, _ms(seconds)))

    def _given_up(self, receipt_handle: str, problem: str) -> bool:
        return bool(self._run(lua.BURY, receipt_handle, DeadReason.GIVEN_UP.value, problem))

    def _exhumed(self, message_id: str, deliveries: int) -> bool:
        return bool(self._run(lua.EXHUME, message_id, deliveries))

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
                if (message := self._read_or_bury(receipt, content)) is not None
            ]
            taken += read
            # Undecodable messages must not hide good ones behind them.
            if len(read) == len(names) or len(taken) == max_messages:
                return taken, float("inf") if wait_ms < 0 else wait_ms / 1000

    def _read_or_bury(self, receipt_handle: str, content: bytes) -> Message[BodyT, ReplyT] | None:
        try:
            return self._read(receipt_handle, content)
        except UndecodableBody as error:
            self._run(lua.BURY, receipt_handle, DeadReason.UNDECODABLE.value, str(error))
            return None


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


def _by_thousands(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """As many at a time as one script takes."""
    for first in range(0, len(items), MAX_RECEIVE_MESSAGES):
        yield items[first : first + MAX_RECEIVE_MESSAGES]


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
