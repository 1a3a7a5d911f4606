"""A group of loops lives together, is asked after over HTTP, and dies in good order."""

import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from standfast.errors import LoopCrashed, LoopStalled
from standfast.optimize.loops.worker import LoopGroup
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from tests.optimize.loops.test_worker import Echo


class Broken(Echo):
    """Crashes when it is told so, outside of any handler."""

    def __init__(self) -> None:
        super().__init__(InMemoryMailbox(name="broken"))
        self.crash = threading.Event()
        self.name = "broken"

    def run(self, **_: Any) -> None:
        """Wait for the end."""
        self._idle.clear()
        self.crash.wait(20)
        self._idle.set()
        raise ValueError("out of order")


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture
def echoes() -> Iterator[list[Echo]]:
    loops = [Echo(InMemoryMailbox(name=f"work-{number}")) for number in range(2)]
    yield loops
    for loop in loops:
        loop.shutdown(timeout=5)


def _in_thread(group: LoopGroup) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            group.run()
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def _until(condition: Any) -> None:
    for _ in range(2_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come true")


def test_health_is_told_over_http_and_shutdown_stops_all(echoes: list[Echo]) -> None:
    group = LoopGroup(loops=echoes, health_port=0)
    url = group.health_url
    assert url is not None
    thread, raised = _in_thread(group)
    _until(lambda: _status(f"{url}/ready") == 200)

    assert _status(f"{url}/live") == 200
    assert _status(f"{url}/other") == 404
    assert group.shutdown(timeout=20)
    thread.join(20)
    assert not raised
    assert not any(loop.running for loop in echoes)


def test_a_crashed_loop_stops_the_group_and_is_told(echoes: list[Echo]) -> None:
    broken = Broken()
    group = LoopGroup(loops=[*echoes, broken])
    thread, raised = _in_thread(group)
    _until(group.is_ready)
    broken.crash.set()
    thread.join(20)

    assert isinstance(raised[0], LoopCrashed)
    assert raised[0].facts == {"loop": "broken", "problem": "ValueError: out of order"}
    assert not any(loop.running for loop in echoes)
    assert not group.is_live()


def test_a_loop_that_stalls_stops_the_group(echoes: list[Echo]) -> None:
    stuck, go_on = echoes[0], threading.Event()

    def hang(_: Echo, said: str) -> str:
        go_on.wait(20)
        return said

    stuck._act, stuck.name = hang, "stuck"
    stuck.requests.send("hello", reply_to="me")
    group = LoopGroup(loops=echoes, stall_seconds=0.2, stop_seconds=0.2)
    thread, raised = _in_thread(group)
    _until(lambda: raised)
    go_on.set()
    thread.join(20)

    assert isinstance(raised[0], LoopStalled)
    assert raised[0].facts["loop"] == stuck.name


def test_a_loop_that_waits_for_requests_does_not_stall(echoes: list[Echo]) -> None:
    group = LoopGroup(loops=echoes, stall_seconds=0.05)
    thread, raised = _in_thread(group)
    _until(group.is_ready)
    threading.Event().wait(0.3)

    assert group.is_live()
    group.shutdown(timeout=20)
    thread.join(20)
    assert not raised


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_group_in_good_order(echoes: list[Echo], number: signal.Signals) -> None:
    group = LoopGroup(loops=echoes)
    before = signal.getsignal(number)

    def send() -> None:
        _until(group.is_ready)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    group.run()
    sender.join()

    assert not any(loop.running for loop in echoes)
    assert signal.getsignal(number) is before


def test_a_group_whose_loops_are_done_returns(echoes: list[Echo]) -> None:
    LoopGroup(loops=echoes).run(max_iterations=1, wait_time_seconds=0)

    assert not any(loop.running for loop in echoes)
