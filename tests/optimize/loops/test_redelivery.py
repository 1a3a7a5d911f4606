"""A request that is delivered twice has one effect, whatever happened to the worker that had it first."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.memory import Memory
from standfast.optimize.loops.agent import ToRemember
from standfast.optimize.loops.main import MainLoopRequest, MainLoopResult
from standfast.optimize.mailboxes.mailbox import InMemoryMailboxResolver, MailboxCounts
from standfast.optimize.mailboxes.redis import RedisMailbox
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from standfast.records.vocabulary import Band
from tests.optimize.loops.harness import START, id_of
from tests.optimize.loops.killed_agent import LEASE_SECONDS, TEMPLATE, Notes, notes, on_redis
from tests.optimize.mailboxes import backends
from tests.optimize.mailboxes.backends import Advance, AnyMailbox
from tests.raising import raises_code

ROOT = Path(__file__).parents[3]
REQUEST: MainLoopRequest[Any] = MainLoopRequest(
    request={"note": "The boat needs paint."}, request_id=id_of("r1"), created_at=START
)
NOTHING_LEFT = MailboxCounts(ready=0, leased=0, delayed=0, dead=0)


class Killed(BaseException):
    """The end of a worker that could do nothing about it."""


class Dying(Notes):
    """Is gone between its commit and its reply."""

    def handle(self, request: MainLoopRequest[dict[str, str]]) -> MainLoopResult:
        """All but the reply."""
        super().handle(request)
        raise Killed


@pytest.fixture
def memory() -> Memory:
    return Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())


@pytest.fixture(params=["in_memory", "redis"])
def mailbox_and_clock(request: pytest.FixtureRequest) -> Iterator[tuple[AnyMailbox, Advance]]:
    """A mailbox of either kind, and the hand of its clock."""
    resolver = InMemoryMailboxResolver()
    if request.param == "in_memory":
        made = backends.in_memory(reply_resolver=resolver)
    else:
        made = backends.on_redis(request.getfixturevalue("redis_url"), reply_resolver=resolver)
        resolver.register("me", made[0].reply_mailbox("me"))
    yield made
    made[0].close()
    if isinstance(made[0], RedisMailbox):
        made[0]._client.close()


def _noted(memory: Memory) -> list[str]:
    return [record.text for record in memory.records(band=Band.LEDGER)]


def _check(memory: Memory, mailbox: AnyMailbox, results: list[MainLoopResult]) -> None:
    assert [(one.output, one.remembered, one.error) for one in results] == [("It is noted.", 1, None)]
    assert _noted(memory) == ["The boat needs paint. It is noted."]
    assert memory.store.head() == 1
    assert mailbox.counts() == NOTHING_LEFT
    assert list(memory.verify()) == []


def test_a_worker_that_dies_after_its_commit_leaves_one_effect(
    memory: Memory, mailbox_and_clock: tuple[AnyMailbox, Advance]
) -> None:
    mailbox, advance = mailbox_and_clock
    replies = mailbox.reply_mailbox("me")
    mailbox.send(REQUEST, reply_to="me")
    with pytest.raises(Killed):
        notes(memory, mailbox, Dying).run(max_iterations=1, wait_time_seconds=0)
    assert _noted(memory) == ["The boat needs paint. It is noted."]
    advance(301)
    notes(memory, mailbox).run(max_iterations=1, wait_time_seconds=0)

    _check(memory, mailbox, [message.body for message in replies.receive(max_messages=5)])


def test_a_request_that_is_given_back_after_its_commit_leaves_one_effect(
    memory: Memory, mailbox_and_clock: tuple[AnyMailbox, Advance]
) -> None:
    mailbox, _ = mailbox_and_clock
    replies, agent = mailbox.reply_mailbox("me"), notes(memory, mailbox)
    mailbox.send(REQUEST, reply_to="me")
    for _ in range(3):
        [message] = mailbox.receive()
        agent.handle(message.body)
        message.nack()
    agent.run(max_iterations=1, wait_time_seconds=0)

    _check(memory, mailbox, [message.body for message in replies.receive(max_messages=5)])


def test_two_workers_with_the_same_request_leave_one_effect(
    memory: Memory, mailbox_and_clock: tuple[AnyMailbox, Advance]
) -> None:
    """The first loses its lease while its model thinks; the second is done before the first goes on."""
    mailbox, advance = mailbox_and_clock
    thinking, go_on = threading.Event(), threading.Event()

    def slow(_: ModelRequest) -> str:
        thinking.set()
        go_on.wait(20)
        return "It is noted."

    replies = mailbox.reply_mailbox("me")
    mailbox.send(REQUEST, reply_to="me")
    first = Notes(
        adapter=ScriptedProvider(slow), template=TEMPLATE, memory=memory, requests=mailbox, workflow="notes"
    )
    thread = threading.Thread(
        target=lambda: first.run(max_iterations=1, visibility_timeout=300, wait_time_seconds=0)
    )
    thread.start()
    thinking.wait(20)
    advance(301)
    notes(memory, mailbox).run(max_iterations=1, wait_time_seconds=0)
    go_on.set()
    thread.join(20)

    # Both reply, and who asked tells replies apart by request id.
    told = {message.body.request_id: message.body for message in replies.receive(max_messages=5)}
    _check(memory, mailbox, list(told.values()))


def test_a_request_that_another_commit_got_in_the_way_of_is_tried_again(
    memory: Memory, mailbox_and_clock: tuple[AnyMailbox, Advance]
) -> None:
    """Somebody changes the same subject while the model thinks; from the newer snapshot it succeeds."""
    mailbox, advance = mailbox_and_clock
    told = ["It is painted.", "It is sold."]

    class Boats(Notes):
        def to_remember(self, request: dict[str, str], output: str) -> Sequence[ToRemember]:  # noqa: ARG002  # As told.
            return (ToRemember(text=output, subject="boat"),)

    def interrupted(_: ModelRequest) -> str:
        if told:
            with memory.run(workflow="other", mode="buffered_write") as run:
                run.remember(told.pop(0), subject="boat", source={"kind": "doc", "id": "log"})
        return "The boat needs paint."

    adapter = ScriptedProvider(interrupted)
    agent = Boats(adapter=adapter, template=TEMPLATE, memory=memory, requests=mailbox, workflow="notes")
    replies = mailbox.reply_mailbox("me")
    mailbox.send(REQUEST, reply_to="me")
    for _ in range(3):
        agent.run(max_iterations=1, wait_time_seconds=0)
        advance(60)

    [reply] = replies.receive(max_messages=5)
    assert (reply.body.error, reply.body.remembered, adapter.calls) == (None, 1, 3)
    ledger = [one.record for one in memory.history("boat") if one.key == "LEDGER/shared//boat"]
    assert [record.text for record in ledger if record is not None] == [
        "It is painted.",
        "It is sold.",
        "The boat needs paint.",
    ]
    assert mailbox.counts() == NOTHING_LEFT


def test_a_worker_that_is_killed_between_commit_and_acknowledge_leaves_one_effect(
    tmp_path: Path, redis_url: str
) -> None:
    """``kill -9``, on Redis, over a memory in a file."""
    file = str(tmp_path / "agent.db")
    Memory.open(file).close()
    mailbox = on_redis(redis_url)
    replies = mailbox.reply_mailbox("me")
    mailbox.send(REQUEST, reply_to="me")
    doomed = subprocess.run(
        [sys.executable, "-m", "tests.optimize.loops.killed_agent", redis_url, file], cwd=ROOT, check=False
    )
    assert doomed.returncode == -signal.SIGKILL
    assert replies.counts() == NOTHING_LEFT
    with Memory.open(file) as memory:
        assert memory.store.head() == 1
        notes(memory, mailbox).run(max_iterations=1, visibility_timeout=LEASE_SECONDS, wait_time_seconds=20)

        _check(memory, mailbox, [message.body for message in replies.receive(max_messages=5)])
    mailbox._client.close()


def test_another_request_under_the_same_id_is_refused(memory: Memory) -> None:
    agent = notes(memory, None)
    agent.execute(REQUEST)
    for other in ({"note": "The sails too."}, {"note": "The boat needs paint.", "by": "Ann"}):
        with raises_code("request_reused"):
            agent.execute(MainLoopRequest(request=other, request_id=id_of("r1"), created_at=START))
    with raises_code("request_reused"):
        agent.execute(
            MainLoopRequest(
                request=REQUEST.request, request_id=id_of("r1"), created_at=START + timedelta(days=365)
            )
        )

    assert memory.store.head() == 1
