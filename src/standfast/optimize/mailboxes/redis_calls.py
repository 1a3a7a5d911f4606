"""How the scripts are called: numbered, tried again while the server is away, its errors told in our words."""

import itertools
import os
import threading
from collections.abc import Sequence
from typing import Any, Final

from standfast.clock import Clock, IdSource
from standfast.errors import InvalidValue, MailboxUnavailable, MissingExtra
from standfast.limits import CALL_MEMORY_SECONDS, MAX_RECONNECT_SECONDS

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
