"""The worker loop: leases kept, failures answered, an orderly end, and nothing that stops it but shutdown."""

import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import redis

from standfast.clock import ManualClock
from standfast.optimize.errors import LoopError, MailboxUnavailable, OverridesUnavailable
from standfast.optimize.evals.results import EvalRequest, Outcome
from standfast.optimize.evals.samples import Sample
from standfast.optimize.loops.optimize import OptimizeRequest
from standfast.optimize.loops.worker import LoopGroup, WorkerLoop
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.mailbox import DeadReason, InMemoryMailboxResolver, Message
from standfast.optimize.mailboxes.redis import RedisMailbox, RedisMailboxResolver
from tests.optimize.loops.harness import Harness, Planted, agent, dataset
from tests.optimize.mailboxes.backends import AnyMailbox, GarblingCodec


class Echo(WorkerLoop[str, str]):
    """Says what it is told, unless told otherwise."""

    takes: ClassVar[type] = str
    name = "echo"

    def __init__(self, requests: Any, act: Callable[["Echo", str], str] = lambda _, said: said) -> None:
        super().__init__(requests=requests)
        self._act = act

    def handle(self, request: str) -> str:
        """The same again."""
        return self._act(self, request)

    def failed(self, request: str, error: Exception) -> str:
        """What went wrong."""
        return f"{request} failed: {error}"


@pytest.fixture(params=["in_memory", "redis"])
def requests(request: pytest.FixtureRequest) -> Iterator[AnyMailbox]:
    """A mailbox of either kind, in real time."""
    if request.param == "in_memory":
        yield InMemoryMailbox(name="work", reply_resolver=InMemoryMailboxResolver(), codec=GarblingCodec())
        return
    client = redis.Redis.from_url(request.getfixturevalue("redis_url"))
    resolver = RedisMailboxResolver(client=client)
    yield RedisMailbox(name="work", client=client, reply_resolver=resolver, codec=GarblingCodec())
    client.close()


def _run(loop: Echo, iterations: int = 1) -> None:
    loop.run(max_iterations=iterations, wait_time_seconds=0)


def test_a_request_is_answered_and_gone(requests: AnyMailbox) -> None:
    replies = requests.reply_mailbox("me")
    requests.send("hello", reply_to="me")
    _run(Echo(requests))

    assert [message.body for message in replies.receive()] == ["hello"]
    assert requests.counts().ready == requests.counts().leased == 0


def test_shutdown_before_run_still_shuts_down(requests: AnyMailbox) -> None:
    requests.send("hello")
    loop = Echo(requests)

    assert loop.shutdown(timeout=0)
    loop.run()
    assert requests.counts().ready == 1


def test_shutdown_wakes_a_waiting_loop_and_waits_for_a_busy_one(requests: AnyMailbox) -> None:
    at_work, go_on = threading.Event(), threading.Event()

    def slow(_: Echo, said: str) -> str:
        at_work.set()
        go_on.wait(20)
        return said

    waiting, busy = Echo(InMemoryMailbox(name="empty")), Echo(requests, slow)
    replies = requests.reply_mailbox("me")
    requests.send("hello", reply_to="me")
    threads = [threading.Thread(target=loop.run) for loop in (waiting, busy)]
    for thread in threads:
        thread.start()
    at_work.wait(20)

    assert waiting.shutdown(timeout=20)
    assert not busy.shutdown(timeout=0.01)
    go_on.set()
    assert busy.shutdown(timeout=20)
    assert [message.body for message in replies.receive()] == ["hello"]
    for thread in threads:
        thread.join(20)


def test_a_handler_that_is_asked_to_stop_gives_its_request_back(requests: AnyMailbox) -> None:
    def interrupted(loop: Echo, said: str) -> str:
        loop._stop.set()
        loop.beat()
        return said

    requests.send("hello", reply_to="me")
    _run(Echo(requests, interrupted))

    assert requests.counts().ready == 1


def test_a_lease_is_kept_while_the_handler_is_at_work(
    requests: AnyMailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler goes on until its lease was extended for longer than it lasts; nobody else gets the request
    meanwhile.
    """
    seen: list[int] = []
    extended = threading.Semaphore(0)
    extend = Message.extend_visibility

    def counted(message: Message[Any, Any], timeout: float) -> None:
        extend(message, timeout)
        extended.release()

    def slow(_: Echo, said: str) -> str:
        for _extension in range(5):
            assert extended.acquire(timeout=60)
        seen.append(len(requests.receive()))
        return said

    monkeypatch.setattr(Message, "extend_visibility", counted)
    replies = requests.reply_mailbox("me")
    requests.send("hello", reply_to="me")
    Echo(requests, slow).run(max_iterations=1, visibility_timeout=1.6, wait_time_seconds=0)

    assert seen == [0]
    assert len(replies.receive(max_messages=5)) == 1
    assert requests.counts().ready == requests.counts().leased == 0


def test_an_error_is_told_to_the_sender_and_the_loop_lives_on(requests: AnyMailbox) -> None:
    def picky(_: Echo, said: str) -> str:
        if said == "bad":
            raise ValueError("I do not like it")
        return said

    replies = requests.reply_mailbox("me")
    requests.send_many(["bad", "good"], reply_to="me")
    _run(Echo(requests, picky), 2)

    told = [message.body for message in replies.receive(max_messages=5)]
    assert told == ["bad failed: I do not like it", "good"]


@pytest.mark.parametrize(
    ("body", "reply_to", "reason", "problem"),
    [
        ("garbage", "me", DeadReason.UNDECODABLE, ""),
        (17, "me", DeadReason.GIVEN_UP, "takes str, not int"),
        ("hello", None, DeadReason.GIVEN_UP, "has no reply_to"),
        ("hello", "nobody", DeadReason.GIVEN_UP, "can't find the reply mailbox nobody"),
    ],
    ids=["garbage", "another kind", "no reply_to", "unknown reply_to"],
)
def test_what_can_not_be_answered_is_a_dead_letter(
    requests: AnyMailbox, body: Any, reply_to: str | None, reason: DeadReason, problem: str
) -> None:
    replies = requests.reply_mailbox("me")
    requests.send(body, reply_to=reply_to)
    requests.send("next", reply_to="me")
    _run(Echo(requests), 3)

    [letter] = requests.dead_letters()
    assert letter.reason is reason
    assert problem in letter.problem
    assert [message.body for message in replies.receive()] == ["next"]


def test_a_request_without_an_address_for_the_reply_is_refused_before_any_work(requests: AnyMailbox) -> None:
    done: list[str] = []

    def note(_loop: Echo, said: str) -> str:
        done.append(said)
        return said

    requests.send("hello")
    _run(Echo(requests, note))

    assert done == []
    assert "has no reply_to" in requests.dead_letters()[0].problem


def test_a_reply_that_nobody_waits_for_any_more_is_dropped(requests: AnyMailbox) -> None:
    requests.send("hello", reply_to="me")
    requests.reply_mailbox("me").close()
    _run(Echo(requests))

    assert requests.counts().dead == requests.counts().ready == 0


def test_a_passing_failure_is_tried_later_and_told_in_the_end(
    requests: AnyMailbox,
) -> None:
    clock = ManualClock()
    mailbox: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="timed", clock=clock)
    replies = mailbox.reply_mailbox("me")
    mailbox.send("hello", reply_to="me")

    def away(_: Echo, said: str) -> str:
        raise OverridesUnavailable(problem="it is away")

    delays = []
    for _ in range(3):
        _run(Echo(mailbox, away))
        delays.append(mailbox.counts().delayed)
        clock.advance(60)
    _run(Echo(mailbox, away))

    assert delays == [1, 1, 1]
    assert "it is away" in replies.receive()[0].body


def test_a_mailbox_that_is_away_is_waited_for(requests: AnyMailbox) -> None:
    replies = requests.reply_mailbox("me")
    requests.send("hello", reply_to="me")
    failures = iter([True, True, False])
    receive = requests.receive

    def flaky(**options: Any) -> Any:
        if next(failures, False):
            raise MailboxUnavailable(mailbox="work", problem="away")
        return receive(**options)

    requests.receive = flaky  # type: ignore[method-assign]
    _run(Echo(requests))

    assert len(replies.receive()) == 1


def test_a_reply_that_can_not_be_sent_is_told_or_buried_and_the_loop_lives_on(
    requests: AnyMailbox,
) -> None:
    """The first reply is nothing that JSON can hold; the second error message neither."""

    class Mute(Echo):
        def failed(self, request: str, error: Exception) -> Any:
            return object() if request == "worse" else f"{request}: {type(error).__name__}"

    replies = requests.reply_mailbox("me")
    requests.send_many(["bad", "worse", "good"], reply_to="me")
    loop = Mute(requests, lambda _, said: said if said == "good" else object())  # type: ignore[arg-type, return-value]
    _run(loop, 3)

    assert [message.body for message in replies.receive(max_messages=5)] == ["bad: MailboxError", "good"]
    assert "MailboxError" in requests.dead_letters()[0].problem


def test_bad_optimise_requests_are_answered_or_buried_and_the_loop_lives_on(
    tmp_path: Path, requests: AnyMailbox
) -> None:
    """An agent that knows nothing has no baseline pass; the other requests are bad whatever it knows."""
    harness = Harness(tmp_path, agent(lambda number, *_: number >= 70), Planted())
    evals: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals", reply_resolver=harness.resolver)
    worker = harness.worker_type(loop=harness.main, requests=evals, cache=harness.cache)
    thread = threading.Thread(target=worker.run)
    thread.start()
    replies, loop = requests.reply_mailbox("me"), harness.optimize_loop(evals, requests)
    known: dict[str, Any] = {"prompt_ns": "agent", "prompt_key": "sum"}
    bad: list[OptimizeRequest[Any, Any]] = [
        OptimizeRequest(prompt_ns="x", prompt_key="y", dataset=dataset(3)),
        OptimizeRequest(**known, dataset=dataset(0)),
        OptimizeRequest(**known, dataset=dataset(70)),
    ]
    requests.send_many([*bad, "garbage", 17], reply_to="me")
    requests.send(OptimizeRequest(**known, dataset=dataset(3)))
    requests.send(OptimizeRequest(**known, dataset=dataset(140)), reply_to="me")
    loop.run(max_iterations=7, wait_time_seconds=0)
    worker.shutdown(timeout=20)
    thread.join(20)
    told = [message.body for message in replies.receive(max_messages=9)]

    codes = ["unknown_prompt", "invalid_dataset", "no_baseline_pass", None]
    assert [result.error_code for result in told] == codes
    assert [result.report.experiment_id == "failed" for result in told] == [True, True, True, False]
    letters = {letter.reason: letter.problem for letter in requests.dead_letters()}
    assert len(requests.dead_letters()) == 3
    assert letters.keys() == {DeadReason.UNDECODABLE, DeadReason.GIVEN_UP}
    assert requests.counts().ready == requests.counts().leased == 0


def test_an_eval_that_goes_wrong_is_an_error_result(tmp_path: Any) -> None:
    harness = Harness(tmp_path, agent(), Planted())
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals")
    replies = requests.reply_mailbox("me")
    requests.send(EvalRequest(sample=Sample(id="a", input={"a": 1}, expected="2")), reply_to="me")
    harness.worker_type(loop=harness.main, requests=requests).run(max_iterations=1, wait_time_seconds=0)

    [reply] = replies.receive()
    assert reply.body.outcome is Outcome.ERROR
    assert "missing_parameter" in reply.body.error


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

    assert isinstance(raised[0], LoopError)
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

    assert isinstance(raised[0], LoopError)
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
