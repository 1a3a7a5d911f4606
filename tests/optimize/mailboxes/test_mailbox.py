"""What a mailbox promises, over both backends: waiting, replies, bodies, bounds."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
import redis

from standfast.errors import InvalidValue
from standfast.limits import MAX_RECEIVE_MESSAGES
from standfast.optimize.errors import (
    MailboxClosed,
    MailboxFull,
    ReplyMailboxClosed,
    StaleReceipt,
    UnresolvableReply,
)
from standfast.optimize.mailboxes import in_memory as in_memory_module
from standfast.optimize.mailboxes import redis as redis_module
from standfast.optimize.mailboxes import wire
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.mailbox import DeadReason, InMemoryMailboxResolver, MailboxResolver, Message
from standfast.optimize.mailboxes.redis import RedisMailbox, RedisMailboxResolver
from standfast.optimize.mailboxes.wire import WireCodec
from tests.optimize.mailboxes.backends import Advance, AnyMailbox
from tests.raising import raises_code

PATIENCE_SECONDS = 20.0
Opener = Callable[..., AnyMailbox]


@pytest.fixture(params=["in_memory", "redis"])
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens mailboxes in real time, with a resolver that they share."""
    opened: list[AnyMailbox] = []
    resolver: MailboxResolver = InMemoryMailboxResolver()
    if request.param == "redis":
        # Without a time-out of its own, the client does not cut the wait into slices.
        client = redis.Redis.from_url(request.getfixturevalue("redis_url"), socket_timeout=None)
        resolver = RedisMailboxResolver(client=client)

    def open_mailbox(name: str = "work", *, max_size: int | None = None) -> AnyMailbox:
        made: AnyMailbox
        if request.param == "redis":
            made = RedisMailbox(name=name, client=client, reply_resolver=resolver, max_size=max_size)
        else:
            made = InMemoryMailbox(name=name, reply_resolver=resolver, max_size=max_size)
        opened.append(made)
        return made

    open_mailbox.resolver = resolver  # type: ignore[attr-defined]
    yield open_mailbox
    for mailbox in opened:
        mailbox.close()
    if request.param == "redis":
        client.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=4) as made:
        yield made


@pytest.fixture
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits looks again only when woken or when a lease is known to end: no polling can help."""
    for module in (in_memory_module, redis_module):
        monkeypatch.setattr(module, "MAX_BLOCK_SECONDS", PATIENCE_SECONDS * 2)


def _waiting(
    pool: ThreadPoolExecutor, mailbox: AnyMailbox, **options: Any
) -> "Future[list[Message[Any, Any]]]":
    """A receiver that is surely waiting when this returns."""
    future = pool.submit(mailbox.receive, wait_time_seconds=PATIENCE_SECONDS * 2, **options)
    while not _waits(mailbox) and not future.done():
        threading.Event().wait(0.002)
    return future


def _waits(mailbox: AnyMailbox) -> bool:
    if isinstance(mailbox, InMemoryMailbox):
        return bool(mailbox._changed._waiters)  # type: ignore[attr-defined]
    clients: Any = mailbox._client.client_list()
    return any(client["cmd"] == "blpop" and client["flags"] == "b" for client in clients)


def test_a_waiting_receiver_wakes_when_something_is_sent(
    opener: Opener, pool: ThreadPoolExecutor, no_second_look: None
) -> None:
    mailbox = opener()
    future = _waiting(pool, mailbox)
    mailbox.send("hello")

    assert [message.body for message in future.result(PATIENCE_SECONDS)] == ["hello"]


def test_every_waiting_receiver_gets_one_of_many(
    opener: Opener, pool: ThreadPoolExecutor, no_second_look: None
) -> None:
    mailbox = opener()
    futures = [pool.submit(mailbox.receive, wait_time_seconds=PATIENCE_SECONDS * 2) for _ in range(3)]
    mailbox.send_many(["a", "b", "c"])
    bodies = sorted(future.result(PATIENCE_SECONDS)[0].body for future in futures)

    assert bodies == ["a", "b", "c"]


def test_a_waiting_receiver_wakes_when_anothers_lease_ends(
    opener: Opener, pool: ThreadPoolExecutor, no_second_look: None
) -> None:
    """The lease begins after the wait does, so the receiver has to be told of it."""
    mailbox = opener()
    future = _waiting(pool, mailbox)
    other = opener()
    if isinstance(mailbox, InMemoryMailbox):
        other = mailbox
    # The waiting one takes the first and returns; wait again, and let this thread take the second.
    mailbox.send("first")
    future.result(PATIENCE_SECONDS)[0].acknowledge()
    mailbox.send("second")
    [taken] = other.receive(visibility_timeout=PATIENCE_SECONDS * 3)
    future = _waiting(pool, mailbox)
    taken.extend_visibility(0.05)
    [again] = future.result(PATIENCE_SECONDS)

    assert (again.body, again.delivery_count) == ("second", 2)
    with pytest.raises(StaleReceipt):
        taken.acknowledge()


def test_a_waiting_receiver_wakes_when_a_message_is_given_back(
    opener: Opener, pool: ThreadPoolExecutor, no_second_look: None
) -> None:
    mailbox = opener()
    mailbox.send("again")
    [taken] = mailbox.receive(visibility_timeout=PATIENCE_SECONDS * 3)
    future = _waiting(pool, mailbox)
    taken.nack(visibility_timeout=0.05)

    assert future.result(PATIENCE_SECONDS)[0].delivery_count == 2


def test_a_receiver_that_waits_in_vain_gets_nothing(opener: Opener) -> None:
    assert opener().receive(wait_time_seconds=0.05) == []


def test_an_interrupt_ends_every_wait_of_this_object(
    opener: Opener, pool: ThreadPoolExecutor, no_second_look: None
) -> None:
    mailbox = opener()
    futures = [_waiting(pool, mailbox), _waiting(pool, mailbox)]
    while mailbox._waiting < 2 if isinstance(mailbox, RedisMailbox) else len(mailbox._changed._waiters) < 2:  # type: ignore[attr-defined]
        threading.Event().wait(0.002)
    mailbox.interrupt()

    assert [future.result(PATIENCE_SECONDS) for future in futures] == [[], []]


def test_closing_ends_the_wait_and_later_calls_are_refused(
    opener: Opener, pool: ThreadPoolExecutor, no_second_look: None
) -> None:
    mailbox = opener()
    future = _waiting(pool, mailbox)
    mailbox.close()
    mailbox.close()

    assert future.result(PATIENCE_SECONDS) == []
    with pytest.raises(MailboxClosed):
        mailbox.send("late")
    with pytest.raises(MailboxClosed):
        mailbox.receive()


def test_a_reply_reaches_the_mailbox_that_was_asked_for(opener: Opener) -> None:
    requests = opener()
    replies = requests.reply_mailbox("replies-1")
    requests.send("2 + 2", reply_to=replies.name)
    [message] = requests.receive()
    message.reply({"answer": 4})
    message.acknowledge()
    [reply] = replies.receive()

    assert (reply.body, reply.reply_to) == ({"answer": 4}, None)


def test_the_reply_mailbox_of_a_name_is_always_the_same(opener: Opener) -> None:
    """A worker that comes back after a crash finds the replies that came meanwhile."""
    requests = opener()
    requests.reply_mailbox("replies-1").send("kept")

    assert [message.body for message in requests.reply_mailbox("replies-1").receive()] == ["kept"]


def test_a_registered_mailbox_takes_replies(opener: Opener) -> None:
    requests, replies = opener(), opener("mine")
    opener.resolver.register(replies.name, replies)  # type: ignore[attr-defined]
    requests.send("x", reply_to="mine")
    requests.receive()[0].reply("y")

    assert [message.body for message in replies.receive()] == ["y"]


def test_a_reply_to_nowhere_is_an_error(opener: Opener) -> None:
    requests = opener()
    requests.send("x", reply_to="nobody")
    requests.send("y")
    first, second = requests.receive(max_messages=2)

    with pytest.raises(UnresolvableReply):
        first.reply("answer")
    with raises_code("no_reply_address"):
        second.reply("answer")


def test_a_reply_to_a_mailbox_that_was_closed_is_an_error(opener: Opener) -> None:
    requests = opener()
    replies = requests.reply_mailbox("replies-1")
    requests.send("x", reply_to="replies-1")
    [message] = requests.receive()
    replies.close()

    with pytest.raises(ReplyMailboxClosed):
        message.reply("too late")
    requests.reply_mailbox("replies-1")
    message.reply("in time again")


@pytest.mark.parametrize(
    "body",
    [float("nan"), {1: "a"}, b"bytes", {"a": {"set"}}, object(), "\ud800"],
    ids=lambda body: type(body).__name__,
)
def test_what_json_can_not_hold_is_refused_when_it_is_sent(mailbox: AnyMailbox, body: object) -> None:
    with raises_code("unsendable_body"):
        mailbox.send(body)
    assert mailbox.receive() == []


def test_a_message_that_is_too_large_is_refused(mailbox: AnyMailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standfast.optimize.mailboxes.wire.MAX_MESSAGE_BYTES", 200)

    with raises_code("unsendable_body", match="200"):
        mailbox.send("x" * 200)


@pytest.mark.parametrize("body", [None, "", 0, -1.5, True, [], {}, {"ä": ["𝄞", None]}, "x" * 100_000])
def test_any_json_value_comes_back_as_it_was(mailbox: AnyMailbox, body: object) -> None:
    mailbox.send(body)

    assert mailbox.receive()[0].body == body


def test_a_batch_is_acknowledged_at_once_and_the_stale_ones_are_told(
    mailbox: AnyMailbox, advance: Advance
) -> None:
    mailbox.send_many(["a", "b", "c"])
    early = mailbox.receive(visibility_timeout=1)
    late = mailbox.receive(max_messages=2, visibility_timeout=10)
    advance(2)

    with pytest.raises(StaleReceipt) as refused:
        mailbox.acknowledge(*early, *late)
    assert refused.value.facts["receipt_handle"] == early[0].receipt_handle
    assert [message.body for message in mailbox.receive(max_messages=5)] == ["a"]


def test_a_message_that_is_delivered_too_often_dies_and_can_be_redriven(
    mailbox: AnyMailbox, advance: Advance
) -> None:
    mailbox.send("poison")
    for _ in range(8):
        assert mailbox.receive(visibility_timeout=1)
        advance(2)

    assert mailbox.receive() == []
    [letter] = mailbox.dead_letters()
    assert (letter.reason, letter.delivery_count) == (DeadReason.DELIVERED_TOO_OFTEN, 8)
    mailbox.redrive(letter.message_id)
    assert mailbox.receive()[0].delivery_count == 9


@pytest.mark.parametrize(
    "options",
    [
        {"max_messages": 0},
        {"max_messages": 1_001},
        {"max_messages": True},
        {"visibility_timeout": -1},
        {"visibility_timeout": float("nan")},
        {"wait_time_seconds": -1},
        {"wait_time_seconds": float("inf")},
    ],
    ids=str,
)
def test_a_receive_that_can_not_be_meant_is_refused(mailbox: AnyMailbox, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        mailbox.receive(**options)


@pytest.mark.parametrize("name", ["", "a{b}", "new\nline", "x" * 300])
def test_a_name_that_would_cause_trouble_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue):
        InMemoryMailbox(name=name)


def test_messages_without_a_body_die_with_what_they_had(redis_url: str) -> None:
    """Somebody else wrote to our list."""
    client = redis.Redis.from_url(redis_url)
    mailbox: RedisMailbox[Any, Any] = RedisMailbox(name="work", client=client)
    client.rpush(mailbox._calls.key("ready"), b"\xff stranger")
    mailbox.send("good")

    assert [message.body for message in mailbox.receive(max_messages=5)] == ["good"]
    assert mailbox.dead_letters()[0].reason is DeadReason.UNDECODABLE
    client.close()


def test_a_client_that_decodes_is_refused(redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url, decode_responses=True)

    with pytest.raises(InvalidValue, match="decode_responses"):
        RedisMailbox(name="work", client=client)
    client.close()


def test_an_abandoned_reply_mailbox_is_forgotten_by_the_server(redis_url: str) -> None:
    """Every key that a reply touched has an end, so that crashed workers leave nothing for ever."""
    client = redis.Redis.from_url(redis_url)
    resolver = RedisMailboxResolver(client=client)
    requests: RedisMailbox[Any, Any] = RedisMailbox(name="work", client=client, reply_resolver=resolver)
    requests.reply_mailbox("replies-1")
    requests.send("x", reply_to="replies-1")
    requests.receive()[0].reply("y")
    keys: Any = client.keys("standfast:mailbox:{replies-1}:*")

    assert keys
    assert [key for key in keys if client.pttl(key) == -1] == []
    client.close()


def test_a_lease_ends_at_its_last_instant(mailbox: AnyMailbox, advance: Advance) -> None:
    mailbox.send("a")
    [message] = mailbox.receive(visibility_timeout=10)
    advance(9.999)
    before = mailbox.counts()
    advance(0.001)

    assert (before.ready, before.leased) == (0, 1)
    assert (mailbox.counts().ready, mailbox.counts().leased) == (1, 0)
    for settle in (message.acknowledge, message.nack, lambda: message.extend_visibility(5)):
        with pytest.raises(StaleReceipt):
            settle()
    with pytest.raises(StaleReceipt):
        message.dead_letter("too late")


def test_what_is_due_first_comes_first_and_ahead_of_what_is_new(
    mailbox: AnyMailbox, advance: Advance
) -> None:
    mailbox.send_many(["a", "b"])
    mailbox.receive(visibility_timeout=20)
    mailbox.receive(visibility_timeout=10)
    mailbox.send("c")
    advance(20)

    assert [message.body for message in mailbox.receive(max_messages=3)] == ["b", "a", "c"]


def test_a_message_that_is_given_back_is_the_next_one(mailbox: AnyMailbox) -> None:
    mailbox.send_many(["a", "b"])
    [first] = mailbox.receive()
    first.nack()

    assert [message.body for message in mailbox.receive(max_messages=2)] == ["a", "b"]


def test_the_largest_batch_and_the_largest_message_are_allowed(
    mailbox: AnyMailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox.send("x" * 100)
    [message] = mailbox.receive(max_messages=MAX_RECEIVE_MESSAGES)
    size = len(WireCodec().encode("x" * 100, mailbox="work", reply_to=None, sent_at=message.sent_at))
    monkeypatch.setattr("standfast.optimize.mailboxes.wire.MAX_MESSAGE_BYTES", size)
    mailbox.send("y" * 100)

    with raises_code("unsendable_body"):
        mailbox.send("y" * 101)


@dataclass(frozen=True)
class Ticket:
    """A class that nobody registered."""

    number: int
    opened: datetime
    labels: tuple[str, ...] = ()


def test_a_plain_dataclass_travels(mailbox: AnyMailbox) -> None:
    ticket = Ticket(7, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), ("refund",))
    mailbox.send(ticket)

    assert mailbox.receive()[0].body == ticket


def test_a_dataclass_that_the_receiver_does_not_know_becomes_a_dead_letter(opener: Opener) -> None:
    @dataclass
    class Local:
        number: int

    mailbox = opener()
    mailbox.send(Local(1))
    wire._KINDS.pop(wire._NAMES[Local])

    assert mailbox.receive() == []
    assert "message_kind" in mailbox.dead_letters()[0].problem


def test_a_full_mailbox_refuses_and_says_how_full_it_is(opener: Opener) -> None:
    mailbox = opener(max_size=3)
    mailbox.send_many(["a", "b"])
    mailbox.receive()
    with pytest.raises(MailboxFull, match="holds 2 of at most 3 messages and has no room for 2 more"):
        mailbox.send_many(["c", "d"])
    mailbox.send("c")

    with pytest.raises(MailboxFull):
        mailbox.send("d", wait_time_seconds=0.05)
    assert mailbox.counts().ready == 2


def test_a_sender_waits_for_room(opener: Opener, pool: ThreadPoolExecutor) -> None:
    mailbox = opener(max_size=1)
    mailbox.send("a")
    sender = pool.submit(mailbox.send, "b", wait_time_seconds=PATIENCE_SECONDS)
    [first] = mailbox.receive()
    first.acknowledge()
    sender.result(PATIENCE_SECONDS)

    assert [message.body for message in mailbox.receive()] == ["b"]


def test_dead_letters_take_no_room(opener: Opener) -> None:
    mailbox = opener(max_size=1)
    mailbox.send("a")
    mailbox.receive()[0].dead_letter("broken")

    assert mailbox.send("b")


@pytest.mark.parametrize("max_size", [0, -1, True, 1.5])
def test_a_bound_that_can_not_be_meant_is_refused(max_size: Any) -> None:
    with pytest.raises(InvalidValue, match="max_size"):
        InMemoryMailbox(name="work", max_size=max_size)


def test_a_delayed_message_comes_when_its_time_has_come(mailbox: AnyMailbox, advance: Advance) -> None:
    mailbox.send("later", delay_seconds=10)
    mailbox.send("now")
    early = [message.body for message in mailbox.receive(max_messages=5, visibility_timeout=100)]
    advance(10)

    assert early == ["now"]
    assert [message.body for message in mailbox.receive(max_messages=5)] == ["later"]


def test_a_visibility_timeout_of_zero_only_looks(mailbox: AnyMailbox) -> None:
    mailbox.send("a")
    [glimpse] = mailbox.receive(visibility_timeout=0)
    with pytest.raises(StaleReceipt):
        glimpse.acknowledge()

    assert (glimpse.body, mailbox.receive()[0].delivery_count) == ("a", 2)


@pytest.mark.parametrize("settle", ["acknowledge", "nack", "dead_letter"])
def test_a_settled_message_can_not_be_replied_to(opener: Opener, settle: str) -> None:
    mailbox = opener()
    replies = mailbox.reply_mailbox("replies")
    mailbox.send("question", reply_to="replies")
    [message] = mailbox.receive()
    getattr(message, settle)(*(["broken"] if settle == "dead_letter" else []))

    with raises_code("already_settled", match="Reply first"):
        message.reply("answer")
    assert replies.counts().ready == 0


def test_a_mailbox_says_whether_it_is_closed(opener: Opener) -> None:
    mailbox = opener()
    before = mailbox.closed
    mailbox.close()

    assert (before, mailbox.closed) == (False, True)


def test_receiving_does_not_look_at_every_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of comparisons grows with the messages that are due, not with those that are leased."""
    mailbox: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="work")
    mailbox.send_many(list(range(500)))
    mailbox.receive(max_messages=400)
    calls = Mock(side_effect=mailbox._next_end)
    monkeypatch.setattr(mailbox, "_next_end", calls)
    mailbox.receive()

    assert calls.call_count <= 2
