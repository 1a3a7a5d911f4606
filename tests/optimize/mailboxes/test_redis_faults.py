"""Killed workers, a killed server, cut connections: nothing is lost, and nothing stands in the queue
twice.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from standfast.optimize.errors import MailboxUnavailable
from standfast.optimize.mailboxes.mailbox import Message
from standfast.optimize.mailboxes.redis import RedisMailbox
from tests.figures import Figures
from tests.optimize.mailboxes.backends import states
from tests.optimize.mailboxes.killed_worker import WORKED
from tests.servers.redis import RedisServer
from tests.store.cutting_proxy import LATE_SECONDS, TO_CLIENT, TO_SERVER, CuttingProxy

ROOT = Path(__file__).parents[3]
Box = RedisMailbox[Any, Any]


@contextmanager
def _box(url: str, name: str = "work") -> Iterator[Box]:
    client = redis.Redis.from_url(url)
    yield RedisMailbox(name=name, client=client, max_deliveries=1_000)
    client.close()


def _worker(url: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.optimize.mailboxes.killed_worker", url],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def _kill_workers(url: str, *, messages: int, kills: int, seed: int) -> Counter[int]:
    """Let workers die at random moments until everything is done; how often each message was worked on."""
    chance = random.Random(seed)
    with _box(url, "doomed") as mailbox:
        mailbox.send_many(range(messages))
        for _ in range(kills):
            process = _worker(url)
            time.sleep(chance.uniform(0, 0.02))
            process.kill()
            process.communicate()
            assert all(len(found) == 1 for found in states(mailbox).values())
        last = _worker(url)
        while states(mailbox):
            time.sleep(0.02)
        last.kill()
        last.communicate()
        return Counter(int(body) for body in _worked(mailbox))


def _worked(mailbox: Box) -> list[bytes]:
    client: Any = mailbox._client
    worked: list[bytes] = client.lrange(WORKED, 0, -1)
    return worked


def test_a_killed_worker_loses_no_message(redis_url: str, figures: Figures) -> None:
    worked = _kill_workers(redis_url, messages=60, kills=2, seed=0)
    figures("killed mailbox workers", kills=2, messages=60)

    assert sorted(worked) == list(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_workers_that_are_killed_many_times_lose_no_message(
    redis_url: str, seed: int, figures: Figures
) -> None:
    worked = _kill_workers(redis_url, messages=3_000, kills=40, seed=seed)
    figures("killed mailbox workers", kills=40, messages=3_000)

    assert sorted(worked) == list(range(3_000))


def test_a_redis_that_is_killed_and_restarted_keeps_every_message(redis_server: RedisServer) -> None:
    """The append-only file brings back what was acknowledged, in the state that it had; callers just wait."""
    redis_server.start()
    redis_server.flush()
    with _box(redis_server.url) as mailbox:
        mailbox.send_many(["a", "b", "c"])
        done, kept = mailbox.receive(max_messages=2, visibility_timeout=60)
        done.acknowledge()
        redis_server.kill()
        restart = threading.Timer(0.3, redis_server.start)
        restart.start()
        mailbox.send("d")
        restart.join()

        assert sorted(found[0] for found in states(mailbox).values()) == ["leased", "ready", "ready"]
        kept.acknowledge()
        assert [message.body for message in mailbox.receive(max_messages=5)] == ["c", "d"]


def test_senders_lose_and_repeat_nothing_while_redis_is_killed(redis_server: RedisServer) -> None:
    redis_server.start()
    redis_server.flush()
    sent: list[int] = []

    def send(first: int) -> None:
        with _box(redis_server.url) as own:
            for number in range(first, first + 150):
                own.send(number)
                sent.append(number)

    senders = [threading.Thread(target=send, args=(first,)) for first in (0, 1_000)]
    for sender in senders:
        sender.start()
    for _ in range(3):
        time.sleep(0.05)
        redis_server.kill()
        redis_server.start()
    for sender in senders:
        sender.join()
    with _box(redis_server.url) as mailbox:
        received = [message.body for message in mailbox.receive(max_messages=1_000)]

    assert sorted(received) == sorted(sent)
    assert len(sent) == 300


def test_a_server_that_stays_away_is_told_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.optimize.mailboxes.redis.MAX_RECONNECT_SECONDS", 0.1)
    client = redis.Redis.from_url("redis://127.0.0.1:1/0")
    mailbox: Box = RedisMailbox(name="work", client=client)

    with pytest.raises(MailboxUnavailable):
        mailbox.send("x")
    client.close()


def _one_life(mailbox: Box) -> None:
    """Each call once: two messages sent, one acknowledged, one given back, one buried, one left."""
    mailbox.send_many(["a", "b", "c", "d"])
    taken: list[Message[Any, Any]] = []
    while len(taken) < 4:
        # A receive whose answer was lost is repeated; should even that be lost, its leases end by themselves.
        taken += mailbox.receive(max_messages=4 - len(taken), visibility_timeout=30)
    done, back, dead, late = sorted(taken, key=lambda message: str(message.body))
    done.acknowledge()
    back.nack()
    dead.dead_letter("no use")
    late.extend_visibility(20)


def test_a_connection_that_is_cut_anywhere_does_every_call_once(redis_url: str, figures: Figures) -> None:
    """The cut comes after so many bytes, in either direction, so that every call and every answer is once cut
    in two.
    """
    with CuttingProxy(redis_url) as proxy:
        url = f"redis://127.0.0.1:{urlsplit(proxy.url).port}/0"
        # The first life also carries the scripts themselves to the server; the second is like all that
        # follow.
        for name in ("first", "second"):
            proxy.passed_bytes = {TO_SERVER: 0, TO_CLIENT: 0}
            with _box(url, name) as mailbox:
                _one_life(mailbox)
        totals = dict(proxy.passed_bytes)
        lives: list[tuple[str, int]] = []
        for direction in (TO_SERVER, TO_CLIENT):
            for cut_at in range(0, totals[direction], max(totals[direction] // 20, 1)):
                lives.append((direction, cut_at))
                with _box(url, f"life-{len(lives)}") as mailbox:
                    proxy.cut_after(direction, cut_at, late=cut_at % 2 == 1)
                    _one_life(mailbox)
        # What was on its way when the connection was cut arrives in the end, after it was repeated and
        # answered.
        time.sleep(LATE_SECONDS * 2)
    figures("cut mailbox connections", cuts=proxy.cuts)

    for number, life in enumerate(lives, 1):
        with _box(redis_url, f"life-{number}") as mailbox:
            found = sorted(state for [state] in states(mailbox).values())
        assert found == ["dead", "leased", "ready"], life
