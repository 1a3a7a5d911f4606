"""The Redis mailbox compared with bare Redis commands that move the same bytes, and with dramatiq and rq on
no-op jobs.
"""

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.worker import Worker
from rq import Queue, SimpleWorker

from benchmarks.measure import Ratio, at_least, at_most, shown
from standfast.optimize.mailboxes.redis import RedisMailbox
from standfast.optimize.mailboxes.wire import WireCodec
from tests.servers.redis import RedisServer

TITLE = "The Redis mailbox"
BATCH = 100
MESSAGES = 2_000
ROUNDS = 5
JOBS = 300
WAKE_UPS = 60
BODY = {
    "request_id": "0" * 32,
    "sample": {"id": "17", "input": "What does Article 6 say?" * 4, "expected": "14 days"},
}


@contextmanager
def _server() -> Iterator[RedisServer]:
    folder = Path(tempfile.mkdtemp())
    server = RedisServer(folder, appendonly=False)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _rate(work: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


class Bare:
    """Moves the same bytes with bare commands: pipelined pushes and pops."""

    def __init__(self, client: Any, content: bytes) -> None:
        self._client, self._content = client, content

    def send(self) -> None:
        """Push in batches."""
        for _ in range(MESSAGES // BATCH):
            pipeline = self._client.pipeline(transaction=False)
            for _ in range(BATCH):
                pipeline.rpush("bare", self._content)
            pipeline.execute()

    def drain(self) -> None:
        """Take and settle in batches; a message stays on the server until it is settled."""
        for _ in range(MESSAGES // BATCH):
            pipeline = self._client.pipeline(transaction=False)
            for _ in range(BATCH):
                pipeline.lmove("bare", "taken", "LEFT", "RIGHT")
            taken = pipeline.execute()
            for content in taken:
                pipeline.lrem("taken", 1, content)
            assert sum(pipeline.execute()) == BATCH

    def pop(self) -> None:
        """Pop in batches; a worker that dies loses its messages."""
        for _ in range(MESSAGES // BATCH):
            pipeline = self._client.pipeline(transaction=False)
            for _ in range(BATCH):
                pipeline.lpop("bare")
            assert None not in pipeline.execute()


class Ours:
    """The mailbox, with batches of the same size."""

    def __init__(self, mailbox: "RedisMailbox[Any, Any]") -> None:
        self._mailbox = mailbox

    def send(self) -> None:
        """Send in batches."""
        for _ in range(MESSAGES // BATCH):
            self._mailbox.send_many([BODY] * BATCH)

    def drain(self) -> None:
        """Receive and acknowledge in batches."""
        for _ in range(MESSAGES // BATCH):
            taken = self._mailbox.receive(max_messages=BATCH)
            assert len(taken) == BATCH
            self._mailbox.acknowledge(*taken)


def _throughput(client: Any, mailbox: "RedisMailbox[Any, Any]") -> list[Ratio]:
    content = WireCodec().encode(BODY, mailbox="bench", reply_to=None, sent_at="2026-01-01T00:00:00.000000Z")
    bare, ours = Bare(client, content), Ours(mailbox)
    ways = {
        "bare send": bare.send,
        "bare drain": bare.drain,
        "bare send again": bare.send,
        "bare pop": bare.pop,
        "send": ours.send,
        "drain": ours.drain,
    }
    best = dict.fromkeys(ways, 0.0)
    for _ in range(ROUNDS):
        for name, work in ways.items():
            best[name] = max(best[name], _rate(work, MESSAGES))
    figures = (
        ("send", "bare send", "send against bare pipelined RPUSH"),
        ("drain", "bare drain", "receive and acknowledge against bare pipelined LMOVE and LREM"),
        ("drain", "bare pop", "receive and acknowledge against bare pipelined LPOP, which can lose messages"),
    )
    ratios = []
    for own, other, name in figures:
        detail = (
            f"{best[own]:,.0f}/s against {best[other]:,.0f}/s, {len(content)} bytes each, batches of {BATCH}"
        )
        ratio = best[own] / best[other]
        ratios.append(
            shown(name, ratio, detail) if other == "bare pop" else at_least(name, ratio, 0.5, detail)
        )
    return ratios


def _wake_seconds(wait: Callable[[], object], wake: Callable[[], object]) -> float:
    """Return the median time from the wake-up call to the return of the waiting call."""
    taken: list[float] = []
    for _ in range(WAKE_UPS):
        woken = threading.Event()
        moment: list[float] = []

        def waiter(moment: list[float] = moment, woken: threading.Event = woken) -> None:
            wait()
            moment.append(time.perf_counter())
            woken.set()

        thread = threading.Thread(target=waiter)
        thread.start()
        time.sleep(0.01)
        start = time.perf_counter()
        wake()
        woken.wait()
        thread.join()
        taken.append(moment[0] - start)
    return median(taken)


def _wake_up(client: Any, mailbox: "RedisMailbox[Any, Any]") -> Ratio:
    def receive() -> None:
        [message] = mailbox.receive(wait_time_seconds=10)
        done.append(message)

    done: list[Any] = []
    ours = _wake_seconds(receive, lambda: mailbox.send(BODY))
    mailbox.acknowledge(*done)
    bare = _wake_seconds(lambda: client.blpop(["bare"], timeout=10), lambda: client.rpush("bare", b"x" * 200))
    detail = f"{ours * 1e3:.2f} ms against {bare * 1e3:.2f} ms"
    return at_most("a waiting receiver wakes, against a bare BLPOP", ours / bare, 5, detail)


def _own_jobs(mailbox: "RedisMailbox[Any, Any]") -> float:
    def work() -> None:
        for _ in range(JOBS):
            mailbox.send(BODY)
        for _ in range(JOBS):
            [message] = mailbox.receive(wait_time_seconds=1)
            message.acknowledge()

    return _rate(work, JOBS)


def _dramatiq_jobs(server: RedisServer) -> float:
    broker = RedisBroker(url=server.url, middleware=[])  # type: ignore[no-untyped-call]  # Untyped library.
    done: list[int] = []

    @dramatiq.actor(broker=broker)
    def no_op(body: Any) -> None:  # noqa: ARG001  # A no-op job.
        done.append(1)

    worker = Worker(broker, worker_threads=1, worker_timeout=100)

    def work() -> None:
        for _ in range(JOBS):
            no_op.send(BODY)
        worker.start()
        while len(done) < JOBS:
            time.sleep(0.001)

    rate = _rate(work, JOBS)
    worker.stop()
    broker.close()
    return rate


def no_op(body: Any) -> None:
    """The job that rq workers import and call."""


def _rq_jobs(client: Any) -> float:
    logging.getLogger("rq.worker").setLevel(logging.CRITICAL)
    queue = Queue("rq-bench", connection=client)

    def work() -> None:
        for _ in range(JOBS):
            queue.enqueue(no_op, BODY)
        SimpleWorker([queue], connection=client).work(burst=True, logging_level="CRITICAL")

    return _rate(work, JOBS)


def run() -> list[Ratio]:
    """Measure all variants in turns on one server without persistence."""
    with _server() as server:
        client: Any = redis.Redis.from_url(server.url)
        mailbox: RedisMailbox[Any, Any] = RedisMailbox(name="bench", client=client)
        ratios = [*_throughput(client, mailbox), _wake_up(client, mailbox)]
        ours, other, rq = _own_jobs(mailbox), _dramatiq_jobs(server), _rq_jobs(client)
        ratios += [
            shown(
                "one no-op job at a time, against dramatiq",
                ours / other,
                f"{ours:,.0f}/s against {other:,.0f}/s",
            ),
            shown("one no-op job at a time, against rq", ours / rq, f"{ours:,.0f}/s against {rq:,.0f}/s"),
        ]
        client.close()
    return ratios
