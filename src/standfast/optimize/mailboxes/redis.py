"""A mailbox in Redis (6.2 or newer), for many processes on many machines. Needs the extra ``redis``.

The scripts are in ``lua/``; ``lua/prologue.lua`` describes the keys. How durable the mailbox is depends on
the server: with ``appendfsync always`` a power cut loses nothing, with ``everysec`` up to a second.
"""

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, ClassVar, Final

import msgspec

from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import InvalidValue, MissingExtra
from standfast.limits import (
    CALL_MEMORY_SECONDS,
    MAX_BLOCK_SECONDS,
    MAX_DELIVERIES,
    MAX_RECONNECT_SECONDS,
    REPLY_MAILBOX_SECONDS,
)
from standfast.optimize.errors import (
    MailboxUnavailable,
    ReplyMailboxClosed,
    UndecodableBody,
    UnresolvableReply,
)
from standfast.optimize.mailboxes.mailbox import (
    BodyT,
    DeadLetter,
    DeadReason,
    Mailbox,
    MailboxCounts,
    MailboxResolver,
    Message,
    ReplyT,
    batches,
)
from standfast.optimize.mailboxes.wire import Codec
from standfast.records.canon import utc_text
from standfast.records.conversion import decoded

try:
    import redis
except ImportError:
    raise MissingExtra(feature="The Redis mailbox", extra="redis") from None

PREFIX: Final = "standfast:mailbox:"
# The order in which lua/prologue.lua unpacks its keys; the caller's key comes last.
_PARTS: Final = ("ready", "leased", "delayed", "dead", "bodies", "allowed", "reasons", "wake", "known")
_CONNECTION_ERRORS: Final = (redis.ConnectionError, redis.TimeoutError)
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0
_FULL: Final = -3
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@functools.cache
def _lua(name: str) -> str:
    return files("standfast.optimize.mailboxes").joinpath("lua", f"{name}.lua").read_text("utf-8")


class _DeathNote(msgspec.Struct, frozen=True):
    """What lua/prologue.lua stores about a dead letter."""

    reason: str
    problem: str


class _Caller(threading.local):
    """Numbers the calls of one thread, which makes one call at a time. A forked process is another caller."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._process = -1

    def next_call(self) -> tuple[str, int]:
        """Return the caller's id and the number of its next call."""
        if self._process != os.getpid():
            self._process, self._id, self._numbers = os.getpid(), self._ids.new_id(), itertools.count(1)
        return self._id, next(self._numbers)


class RedisCalls:
    """Calls the scripts of one mailbox, again while the server is away; raises ``MailboxUnavailable``."""

    def __init__(
        self, client: "redis.Redis", name: str, *, must_be_known: bool = False, clock: Clock, ids: IdSource
    ) -> None:
        if client.connection_pool.connection_kwargs.get("decode_responses"):
            problem = "messages are bytes; pass a client without decode_responses=True"
            raise InvalidValue(what="RedisMailbox", problem=problem)
        self._client: Any = client
        self._name = name
        # The braces are a hash tag: a cluster keeps all keys of a mailbox on one node.
        self._prefix = f"{PREFIX}{{{name}}}:"
        self._keys = [self._prefix + part for part in _PARTS]
        self._must_be_known = int(must_be_known)
        self._clock = clock
        self._caller = _Caller(ids)
        self._scripts: dict[str, Any] = {}

    def key(self, part: str) -> str:
        """Return the name of one of the mailbox's keys."""
        return self._prefix + part

    def run(self, source: str, *arguments: Any) -> Any:
        """Run a script once, even if the call has to be repeated because its answer was lost."""
        script = self._scripts.get(source)
        if script is None:
            script = self._scripts[source] = self._client.register_script(source)
        caller, number = self._caller.next_call()
        keys = [*self._keys, self.key(f"caller:{caller}")]
        header = (number, int(CALL_MEMORY_SECONDS * 1000), self._must_be_known)
        return self.retry(lambda: script(keys=keys, args=[*header, *arguments]))

    def retry(self, call: Callable[[], Any]) -> Any:
        """Repeat a call until the server answers, for at most ``MAX_RECONNECT_SECONDS``."""
        started, pause = self._clock.monotonic(), _FIRST_PAUSE_SECONDS
        while True:
            try:
                return call()
            except _CONNECTION_ERRORS as error:
                if self._clock.monotonic() - started + pause > MAX_RECONNECT_SECONDS:
                    raise MailboxUnavailable(mailbox=self._name, problem=str(error)) from None
            except redis.RedisError as error:
                raise MailboxUnavailable(mailbox=self._name, problem=str(error)) from None
            self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def wait(self, keys: Sequence[str], seconds: float) -> None:
        """Wait until one of these lists has a token, and take it. A lost connection ends the wait early."""
        # The client repeats a call after its socket_timeout, so this one has to return before that.
        socket_timeout = self._client.connection_pool.connection_kwargs.get("socket_timeout")
        if socket_timeout:
            seconds = min(seconds, socket_timeout / 2)
        try:
            # Redis waits for ever if the timeout is 0 or rounds to 0.
            self._client.blpop(list(keys), timeout=max(seconds, 0.01))
        except _CONNECTION_ERRORS:
            self._clock.sleep(_FIRST_PAUSE_SECONDS)
        except redis.RedisError as error:
            raise MailboxUnavailable(mailbox=self._name, problem=str(error)) from None

    def push(self, key: str, *, times: int, lifetime_seconds: float) -> None:
        """Push tokens to a list that expires."""

        def call() -> None:
            pipeline = self._client.pipeline()
            pipeline.rpush(key, *["1"] * times)
            pipeline.expire(key, int(lifetime_seconds))
            pipeline.execute()

        self.retry(call)

    def register(self, lifetime_seconds: float) -> None:
        """Let resolvers in other processes find the mailbox; with a lifetime, until it is unused so long."""
        lifetime_ms = int(lifetime_seconds * 1000)
        self.retry(lambda: self._client.set(self.key("known"), lifetime_ms, px=lifetime_ms or None))

    def is_registered(self) -> bool:
        """Return whether the mailbox was registered, even if it is closed by now."""
        return bool(self.retry(lambda: self._client.exists(self.key("known"))))

    def unregister(self) -> None:
        """Make the mailbox unknown to resolvers."""
        self.retry(lambda: self._client.delete(self.key("known")))

    def remove(self, *, remembered_seconds: float) -> None:
        """Delete the mailbox with its messages, and remember for a while that it was closed."""

        def call() -> None:
            pipeline = self._client.pipeline()
            pipeline.delete(*self._keys)
            pipeline.set(self.key("known"), "closed", px=int(remembered_seconds * 1000))
            pipeline.execute()

        self.retry(call)


class RedisMailbox(Mailbox[BodyT, ReplyT]):
    """The mailbox of that name on that server. Two objects with one name are one mailbox."""

    TIME_SOURCE: ClassVar[str] = _lua("server_time")
    """The Lua code that sets ``now``. Tests replace it; everything else is what production runs."""

    def __init__(
        self,
        *,
        client: "redis.Redis",
        name: str,
        reply_resolver: MailboxResolver | None = None,
        max_deliveries: int = MAX_DELIVERIES,
        max_size: int | None = None,
        codec: Codec | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        super().__init__(
            name=name,
            reply_resolver=reply_resolver,
            max_deliveries=max_deliveries,
            max_size=max_size,
            codec=codec,
            clock=clock,
            ids=ids,
        )
        self._client = client
        self._calls = RedisCalls(client, self._name, clock=self._clock, ids=self._ids)
        self._own_wake = self._calls.key(f"wake:{self._ids.new_id()}")
        self._lock = threading.Lock()
        self._waiting = self._interrupts = 0

    def reply_mailbox(self, name: str) -> Mailbox[Any, None]:
        """Return the temporary mailbox of that name; the server deletes it a day after its last use."""
        kind: type[RedisMailbox[Any, None]] = type(self)  # type: ignore[assignment]  # Its messages are of other types.
        created: RedisMailbox[Any, None] = kind(
            client=self._client,
            name=name,
            reply_resolver=self._resolver,
            max_deliveries=self._max_deliveries,
            codec=self._codec,
            clock=self._clock,
            ids=self._ids,
        )
        created._temporary = True
        created._calls.register(REPLY_MAILBOX_SECONDS)
        return created

    def counts(self) -> MailboxCounts:
        """Return how many messages are in each state now."""
        ready, leased, delayed, dead = self._run("counts")
        return MailboxCounts(ready=ready, leased=leased, delayed=delayed, dead=dead)

    def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """Return the dead letters, oldest first."""
        return [_dead_letter(*row) for row in self._run("dead_letters", limit)]

    def purge(self) -> int:
        """Delete every message except dead letters; return how many there were."""
        purged: int = self._run("purge")
        return purged

    def interrupt(self) -> None:
        """Make every ``receive`` that waits on this object return at once."""
        with self._lock:
            self._interrupts += 1
            waiting = self._waiting
        if waiting:
            self._calls.push(self._own_wake, times=waiting, lifetime_seconds=60)

    def close(self) -> None:
        """Stop using the mailbox; waiting receivers return. A ``reply_mailbox`` goes with its messages."""
        if self._closed:
            return
        self._closed = True
        self.interrupt()
        if self._temporary:
            self._calls.remove(remembered_seconds=REPLY_MAILBOX_SECONDS)

    def register(self) -> None:
        """Let resolvers in other processes find this mailbox by its name."""
        self._calls.register(0)

    def _run(self, script: str, *arguments: Any) -> Any:
        return self._calls.run(_assembled(self.TIME_SOURCE, script), *arguments)

    def _put(self, messages: Sequence[tuple[str, bytes]], delay_seconds: float) -> bool:
        parts = (part for message in messages for part in message)
        added = self._run("send", _ms(delay_seconds), self._max_size or 0, *parts)
        if added == _FULL:
            return False
        if added < 0:
            kind = UnresolvableReply if added == -1 else ReplyMailboxClosed
            raise kind(mailbox=self._name, reply_to=self._name)
        return True

    def _lease(
        self, max_messages: int, visibility_timeout: float, wait_time_seconds: float
    ) -> list[Message[BodyT, ReplyT]]:
        deadline = self._clock.monotonic() + wait_time_seconds
        with self._lock:
            self._waiting += 1
            interrupts = self._interrupts
        try:
            while True:
                leaving = self._clock.monotonic() >= deadline or self._interrupts != interrupts
                leased, next_seconds = self._lease_ready(max_messages, visibility_timeout, leaving=leaving)
                if leased or leaving:
                    return leased
                pause = min(deadline - self._clock.monotonic(), next_seconds, MAX_BLOCK_SECONDS)
                if pause > 0:
                    self._calls.wait([self._own_wake, self._calls.key("wake")], pause)
        finally:
            with self._lock:
                self._waiting -= 1

    def _lease_ready(
        self, max_messages: int, visibility_timeout: float, *, leaving: bool
    ) -> tuple[list[Message[BodyT, ReplyT]], float]:
        leased: list[Message[BodyT, ReplyT]] = []
        while True:
            raw_receipts, lengths, bodies, wait_ms = self._run(
                "receive",
                max_messages - len(leased),
                _ms(visibility_timeout),
                self._max_deliveries,
                int(leaving),
            )
            receipts = raw_receipts.decode().split()
            decoded = [
                message
                for receipt, content in zip(receipts, _split(bodies, lengths), strict=True)
                if (message := self._decode_or_bury(receipt, content)) is not None
            ]
            leased += decoded
            # Undecodable messages must not hide good ones behind them.
            if len(decoded) == len(receipts) or len(leased) == max_messages:
                return leased, float("inf") if wait_ms < 0 else wait_ms / 1000

    def _decode_or_bury(self, receipt_handle: str, content: bytes) -> Message[BodyT, ReplyT] | None:
        try:
            return self._decode(receipt_handle, content)
        except UndecodableBody as error:
            self._run("bury", receipt_handle, DeadReason.UNDECODABLE.value, str(error))
            return None

    def _settle(self, receipt_handles: Sequence[str]) -> list[str]:
        return [
            receipt.decode()
            for batch in batches(receipt_handles)
            for receipt in self._run("acknowledge", " ".join(batch))
        ]

    def _release(self, receipt_handle: str, seconds: float) -> bool:
        return bool(self._run("nack", receipt_handle, _ms(seconds)))

    def _extend(self, receipt_handle: str, seconds: float) -> bool:
        return bool(self._run("extend", receipt_handle, _ms(seconds)))

    def _bury(self, receipt_handle: str, problem: str) -> bool:
        return bool(self._run("bury", receipt_handle, DeadReason.GIVEN_UP.value, problem))

    def _revive(self, message_id: str, deliveries: int) -> bool:
        return bool(self._run("revive", message_id, deliveries))


class RedisMailboxResolver:
    """Finds the mailboxes that any process registered on a server."""

    def __init__(
        self, *, client: "redis.Redis", clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        self._client = client
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()
        self._mailboxes: dict[str, Mailbox[Any, Any]] = {}
        self._lock = threading.Lock()

    def resolve(self, name: str) -> Mailbox[Any, Any] | None:
        """Return the mailbox if it is registered here or on the server, or None."""
        with self._lock:
            local = self._mailboxes.get(name)
        if local is not None:
            return local
        found: RedisMailbox[Any, Any] = RedisMailbox(
            name=name, client=self._client, clock=self._clock, ids=self._ids
        )
        # If the owner removes the mailbox between this check and the reply, the server refuses the reply.
        found._calls = self._calls(name, must_be_known=True)  # noqa: SLF001  # Mailbox and resolver are one module.
        return found if found._calls.is_registered() else None  # noqa: SLF001  # As above.

    def register(self, name: str, mailbox: Mailbox[Any, Any]) -> None:
        """Register a mailbox: one on Redis for every process, any other for this one."""
        with self._lock:
            self._mailboxes[name] = mailbox
        if isinstance(mailbox, RedisMailbox):
            mailbox.register()

    def forget(self, name: str) -> None:
        """Remove a name, here and on the server."""
        with self._lock:
            self._mailboxes.pop(name, None)
        self._calls(name).unregister()

    def _calls(self, name: str, *, must_be_known: bool = False) -> RedisCalls:
        return RedisCalls(self._client, name, must_be_known=must_be_known, clock=self._clock, ids=self._ids)


@functools.cache
def _assembled(time_source: str, script: str) -> str:
    return "\n".join((time_source, _lua("prologue"), _lua(script)))


def _split(joined: bytes, lengths: bytes) -> Iterator[bytes]:
    """Yield the bodies that ``receive`` returned as one string."""
    start = 0
    for length in map(int, lengths.split()):
        yield joined[start : start + length]
        start += length


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1 if seconds > 0 else 0)


def _dead_letter(raw_id: bytes, died_ms: bytes, content: bytes, count: int, raw_note: bytes) -> DeadLetter:
    note = decoded(raw_note, _DeathNote)
    return DeadLetter(
        message_id=raw_id.decode(errors="replace"),
        content=content,
        reason=DeadReason(note.reason),
        problem=note.problem,
        delivery_count=count,
        died_at=utc_text(_EPOCH + timedelta(milliseconds=float(died_ms))),
    )
