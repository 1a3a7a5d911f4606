"""Mailboxes for tests: both backends under a clock that moves when told, and a look inside for the laws."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import redis

from standfast.clock import Clock, CountedIds, ManualClock
from standfast.optimize.errors import UndecodableBody
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.redis import RedisMailbox
from standfast.optimize.mailboxes.wire import Header, WireCodec

NOW = "test:now"
AnyMailbox = InMemoryMailbox[Any, Any] | RedisMailbox[Any, Any]
Advance = Callable[[float], None]
GARBAGE = b"\xff\xfe no message at all"


class TimedRedisMailbox(RedisMailbox[Any, Any]):
    """The real scripts on a real server, with the time of a key instead of the server's."""

    TIME_SOURCE = f"local now = tonumber(redis.call('GET', '{NOW}') or '1000000')"


class GarblingCodec(WireCodec):
    """Sends the body ``garbage`` as bytes that are no message."""

    def encode(self, body: Any, *, mailbox: str, reply_to: str | None, sent_at: str) -> bytes:
        """The bytes of a message, or worse."""
        if body == "garbage":
            return GARBAGE
        return super().encode(body, mailbox=mailbox, reply_to=reply_to, sent_at=sent_at)

    def decode(self, content: bytes) -> tuple[Header, Any]:
        """As it is."""
        try:
            return super().decode(content)
        except UndecodableBody:
            assert content == GARBAGE
            raise


def in_memory(**options: Any) -> tuple[AnyMailbox, Advance]:
    """A mailbox in memory and its clock's hand."""
    clock = ManualClock()
    mailbox: AnyMailbox = InMemoryMailbox(
        name="work", clock=clock, ids=CountedIds(), codec=GarblingCodec(), **options
    )
    return mailbox, clock.advance


def on_redis(url: str, *, clock: Clock | None = None, **options: Any) -> tuple[AnyMailbox, Advance]:
    """A mailbox on Redis and its clock's hand."""
    client = redis.Redis.from_url(url)
    # Counted ids begin at 1 again, and so must the server's memory of who called.
    client.flushdb()
    client.set(NOW, 1_000_000)
    mailbox = TimedRedisMailbox(
        name="work", client=client, clock=clock, ids=CountedIds(), codec=GarblingCodec(), **options
    )

    def advance(seconds: float) -> None:
        client.incrby(NOW, int(seconds * 1000))

    return mailbox, advance


def states(mailbox: AnyMailbox) -> dict[str, list[str]]:
    """Of each message that the mailbox holds, every state that it is in. The law says one."""
    if isinstance(mailbox, InMemoryMailbox):
        held: set[str] = set(mailbox._messages)
        places: dict[str, list[str]] = {
            "ready": list(mailbox._ready),
            "leased": list(mailbox._leased),
            "delayed": list(mailbox._delayed),
            "dead": list(mailbox._dead),
        }
    else:
        client: Any = mailbox._client
        key = mailbox._calls.key
        held = {message_id.decode() for message_id in client.hkeys(key("bodies"))}
        entries = {"ready": client.lrange(key("ready"), 0, -1)}
        for state in ("leased", "delayed", "dead"):
            entries[state] = client.zrange(key(state), 0, -1)
        places = {
            state: [entry.decode().rpartition(":")[0] for entry in members]
            for state, members in entries.items()
        }
    found: dict[str, list[str]] = {message_id: [] for message_id in held}
    for state, members in places.items():
        for message_id, times in Counter(members).items():
            found.setdefault(message_id, []).extend([state] * times)
    return found
