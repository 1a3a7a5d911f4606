"""Replicas: rate limits that hold for all of them together, and whole servers behind a proxy that are
killed.
"""

import contextlib
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from standfast.clock import ManualClock
from standfast.errors import RateLimited, StoreFailed
from standfast.limits import REPLICA_SECONDS
from standfast.memory import Memory
from standfast.records.vocabulary import Band
from standfast.server.access.protection import RateLimiter
from standfast.server.access.replicas import Replicas
from standfast.store.in_memory import InMemoryTemporaryRows
from standfast.store.protocol import TemporaryRow
from tests import load
from tests.server.replicas import AcknowledgedCaller, ReplicaSet, RoundRobinProxy


class _Replica:
    def __init__(self, rows: InMemoryTemporaryRows, name: str, clock: ManualClock) -> None:
        self.limiter = RateLimiter(clock, per_second=10, burst=20)
        self.replicas = Replicas(rows, name, {"calls": self.limiter})

    def take(self, times: int, name: str = "key") -> int:
        allowed = 0
        for _ in range(times):
            with contextlib.suppress(RateLimited):
                self.limiter.take(name)
                allowed += 1
        return allowed


def test_a_caller_that_spreads_its_calls_gets_what_one_server_would_allow() -> None:
    clock = ManualClock()
    rows = InMemoryTemporaryRows(clock)
    replicas = [_Replica(rows, name, clock) for name in "abc"]
    for one in replicas * 2:
        one.replicas.exchange()
    allowed = 0
    for _ in range(100):
        allowed += sum(one.take(3) for one in replicas)
        for one in replicas:
            one.replicas.exchange()
        clock.advance(1)

    assert [one.replicas.others for one in replicas] == [2, 2, 2]
    # The rate for 100 s, the burst, and at most one exchange that the servers did not know of.
    assert 900 <= allowed <= 100 * 10 + 20 + 2 * 9
    assert replicas[0].take(5, "another key") == 5


def test_what_a_server_counted_before_this_one_came_is_not_counted_again() -> None:
    clock = ManualClock()
    rows = InMemoryTemporaryRows(clock)
    first = _Replica(rows, "a", clock)
    first.take(20)
    first.replicas.exchange()
    second = _Replica(rows, "b", clock)
    second.replicas.exchange()

    assert second.take(30) == 20


def test_a_server_that_is_gone_is_forgotten() -> None:
    clock = ManualClock()
    rows = InMemoryTemporaryRows(clock)
    first, second, third = (_Replica(rows, name, clock) for name in "abc")
    for one in (first, second, third, first):
        one.replicas.exchange()
    before = first.replicas.others
    second.replicas.leave()
    first.replicas.exchange()
    after = first.replicas.others
    clock.advance(REPLICA_SECONDS)
    first.replicas.exchange()

    assert (before, after, first.replicas.others) == (2, 1, 0)


def test_an_idle_server_stays_known_and_one_without_a_store_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    rows = InMemoryTemporaryRows(clock)
    first, second = _Replica(rows, "a", clock), _Replica(rows, "b", clock)
    for _ in range(3 * REPLICA_SECONDS):
        first.replicas.exchange()
        second.replicas.exchange()
        clock.advance(1)
    known = first.replicas.others

    def fails(*_: object, **__: object) -> list[TemporaryRow]:
        raise StoreFailed(problem="gone")

    monkeypatch.setattr(rows, "scan", fails)
    first.replicas.exchange()

    assert known == 1
    assert first.take(20) == 20


@pytest.mark.parametrize("rounds", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_three_servers_behind_a_proxy_lose_nothing_when_they_are_killed_and_restarted(
    postgres_store_url: str, tmp_path: Path, rounds: int
) -> None:
    """Every call of a run goes to another server.

    One is killed, one is restarted in order, and callers only retry.
    """
    replicas = ReplicaSet(tmp_path, postgres_store_url)
    replicas.start()
    stop = threading.Event()
    with RoundRobinProxy(replicas.ports) as proxy:
        callers = [AcknowledgedCaller(proxy.address, replicas.key, name, stop) for name in ("north", "south")]
        for caller in callers:
            caller.start()
        for number in range(2 * rounds):
            _wait_for(callers, 8)
            server = replicas.servers[number % 3]
            server.process.stop() if number % 2 else server.process.kill()
            _wait_for(callers, 8)
            if rounds > 1:
                server.start()
        stop.set()
        for caller in callers:
            caller.join()
    replicas.stop()
    # Each server signs with a key of its own, in its own folder, so that this memory is opened without one.
    with Memory.open(postgres_store_url, namespace="load", create=False, notary=None) as memory:
        stored = Counter(record.subject for record in memory.records(band=Band.LEDGER))
        problems = list(memory.verify())
    acknowledged = [subject for caller in callers for subject in caller.acknowledged]

    assert problems == []
    assert [caller.errors for caller in callers] == [[], []]
    assert [subject for subject in acknowledged if stored[subject] != 1] == []
    assert len(acknowledged) == len(set(acknowledged)) >= 32 * rounds


def _wait_for(callers: list[AcknowledgedCaller], more: int) -> None:
    """Wait until so many more facts were acknowledged, however long that takes."""
    enough = sum(len(caller.acknowledged) for caller in callers) + more
    while sum(len(caller.acknowledged) for caller in callers) < enough:
        assert all(caller.is_alive() for caller in callers)
        time.sleep(0.01)


@pytest.mark.slow
def test_make_load_measures_every_deployment_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code = load.main(["--seconds", "3", "--callers", "2"])
    lines = capsys.readouterr().out.splitlines()

    assert code == 0
    assert [line[:28].strip() for line in lines[2:]] == [
        "1 server",
        "1 server, 80 % load",
        "3 servers",
        "3 servers, one killed",
    ]
