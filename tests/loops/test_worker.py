"""The worker loop: leases kept, failures answered, an orderly end, and nothing that stops it but shutdown."""

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from holdfast.clock import ManualClock
from holdfast.errors import MailboxUnavailable, OverridesUnavailable
from holdfast.evals.results import EvalRequest, Outcome
from holdfast.evals.samples import Sample
from holdfast.loops.requests import OptimizeRequest
from holdfast.loops.worker import WorkerLoop
from holdfast.mailboxes.in_memory import InMemoryMailbox
from holdfast.mailboxes.mailbox import DeadReason
from holdfast.mailboxes.resolvers import InMemoryMailboxResolver
from tests.loops.world import Planted, World, agent, dataset
from tests.mailboxes.desks import GarblingCodec


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


@pytest.fixture
def requests() -> InMemoryMailbox[Any, Any]:
    return InMemoryMailbox(name="work", reply_resolver=InMemoryMailboxResolver(), codec=GarblingCodec())


def _run(loop: Echo, iterations: int = 1) -> None:
    loop.run(max_iterations=iterations, wait_time_seconds=0)


def test_a_request_is_answered_and_gone(requests: InMemoryMailbox[Any, Any]) -> None:
    replies = requests.reply_mailbox("me")
    requests.send("hello", reply_to="me")
    _run(Echo(requests))

    assert [message.body for message in replies.receive()] == ["hello"]
    assert requests.counts().ready == requests.counts().leased == 0


def test_shutdown_before_run_still_shuts_down(requests: InMemoryMailbox[Any, Any]) -> None:
    requests.send("hello")
    loop = Echo(requests)

    assert loop.shutdown(timeout=0)
    loop.run()
    assert requests.counts().ready == 1


def test_shutdown_wakes_a_waiting_loop_and_waits_for_a_busy_one(requests: InMemoryMailbox[Any, Any]) -> None:
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


def test_a_handler_that_is_asked_to_stop_gives_its_request_back(requests: InMemoryMailbox[Any, Any]) -> None:
    def interrupted(loop: Echo, said: str) -> str:
        loop._stop.set()
        loop.beat()
        return said

    requests.send("hello")
    _run(Echo(requests, interrupted))

    assert requests.counts().ready == 1


def test_a_lease_is_kept_while_the_handler_is_at_work(requests: InMemoryMailbox[Any, Any]) -> None:
    """The handler takes three times as long as the lease; nobody else gets the request meanwhile."""
    seen: list[int] = []

    def slow(_: Echo, said: str) -> str:
        threading.Event().wait(0.9)
        seen.append(len(requests.receive()))
        return said

    replies = requests.reply_mailbox("me")
    requests.send("hello", reply_to="me")
    Echo(requests, slow).run(max_iterations=1, visibility_timeout=0.3, wait_time_seconds=0)

    assert seen == [0]
    assert len(replies.receive(max_messages=5)) == 1
    assert requests.counts().ready == requests.counts().leased == 0


def test_an_error_is_told_to_the_sender_and_the_loop_lives_on(requests: InMemoryMailbox[Any, Any]) -> None:
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
        ("hello", None, DeadReason.GIVEN_UP, "names no reply_to"),
        ("hello", "nobody", DeadReason.GIVEN_UP, "can't find the reply mailbox nobody"),
    ],
    ids=["garbage", "another kind", "no reply_to", "unknown reply_to"],
)
def test_what_can_not_be_answered_is_a_dead_letter(
    requests: InMemoryMailbox[Any, Any], body: Any, reply_to: str | None, reason: DeadReason, problem: str
) -> None:
    replies = requests.reply_mailbox("me")
    requests.send(body, reply_to=reply_to)
    requests.send("next", reply_to="me")
    _run(Echo(requests), 3)

    [letter] = requests.dead_letters()
    assert letter.reason is reason
    assert problem in letter.problem
    assert [message.body for message in replies.receive()] == ["next"]


def test_a_reply_that_nobody_waits_for_any_more_is_dropped(requests: InMemoryMailbox[Any, Any]) -> None:
    requests.send("hello", reply_to="me")
    requests.reply_mailbox("me").close()
    _run(Echo(requests))

    assert requests.counts().dead == requests.counts().ready == 0


def test_a_passing_failure_is_tried_later_and_told_in_the_end(
    requests: InMemoryMailbox[Any, Any],
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


def test_a_mailbox_that_is_away_is_waited_for(requests: InMemoryMailbox[Any, Any]) -> None:
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
    requests: InMemoryMailbox[Any, Any],
) -> None:
    """The first reply is nothing that JSON can hold; the second error message neither."""

    class Mute(Echo):
        def failed(self, request: str, error: Exception) -> Any:
            return object() if request == "worse" else f"{request}: {type(error).__name__}"

    replies = requests.reply_mailbox("me")
    requests.send_many(["bad", "worse", "good"], reply_to="me")
    loop = Mute(requests, lambda _, said: said if said == "good" else object())  # type: ignore[arg-type, return-value]
    _run(loop, 3)

    assert [message.body for message in replies.receive(max_messages=5)] == ["bad: UnsendableBody", "good"]
    assert "UnsendableBody" in requests.dead_letters()[0].problem


def test_bad_optimise_requests_get_an_error_reply_and_the_loop_lives_on(tmp_path: Any) -> None:
    world = World(tmp_path, agent(), Planted())
    bad: dict[str, OptimizeRequest[Any, Any]] = {
        "unknown_prompt": OptimizeRequest(prompt_ns="x", prompt_key="y", dataset=dataset(3)),
        "invalid_dataset": OptimizeRequest(prompt_ns="agent", prompt_key="sum", dataset=dataset(0)),
    }
    with world.running() as requests:
        replies = requests.reply_mailbox("me")
        codes = []
        for request in bad.values():
            requests.send(request, reply_to="me")
            [message] = replies.receive(wait_time_seconds=20)
            codes.append(message.body.error_code)
            assert message.body.report.experiment_id == "failed"
            message.acknowledge()
        requests.send(OptimizeRequest(prompt_ns="agent", prompt_key="sum", dataset=dataset(5)), reply_to="me")
        [good] = replies.receive(wait_time_seconds=20)

    assert codes == list(bad)
    assert good.body.error is None


def test_an_eval_that_goes_wrong_is_an_error_result(tmp_path: Any) -> None:
    world = World(tmp_path, agent(), Planted())
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals")
    replies = requests.reply_mailbox("me")
    requests.send(EvalRequest(sample=Sample(id="a", input={"a": 1}, expected="2")), reply_to="me")
    world.worker_type(loop=world.main, requests=requests).run(max_iterations=1, wait_time_seconds=0)

    [reply] = replies.receive()
    assert reply.body.outcome is Outcome.ERROR
    assert "missing_parameter" in reply.body.error
