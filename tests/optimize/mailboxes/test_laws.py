"""The laws of a mailbox, for both backends: any sequence of calls, held against a model that knows every
message's state.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from standfast.optimize.errors import StaleReceipt
from standfast.optimize.mailboxes.mailbox import DeadReason, MailboxCounts, Message
from tests.optimize.mailboxes.backends import GARBAGE, Advance, AnyMailbox, in_memory, on_redis, states
from tests.raising import raises_code

DELIVERIES = 3
FAST = settings(max_examples=12, stateful_step_count=30)
LONG = settings(max_examples=400, stateful_step_count=60)
SECONDS = st.sampled_from([1.0, 2.0, 5.0])


@dataclass
class Known:
    """What the model knows of one message."""

    body: Any
    state: str = "ready"
    until: float = 0.0
    count: int = 0
    allowed: int = DELIVERIES
    receipts: list[Message[Any, Any]] = field(default_factory=list)


class Laws(RuleBasedStateMachine):
    """Every call, at any time, in any order."""

    open_mailbox: ClassVar[Callable[[], tuple[AnyMailbox, Advance]]]

    def __init__(self) -> None:
        super().__init__()
        self.mailbox, self.advance_clock = type(self).open_mailbox()
        self.now = 0.0
        self.known: dict[str, Known] = {}
        self.queue: list[str] = []
        self.all_receipts: list[Message[Any, Any]] = []

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.mailbox.purge()
        for letter in self.mailbox.dead_letters():
            self.mailbox.discard(letter.message_id)
        self.mailbox.close()

    def _surface(self) -> None:
        due = sorted(
            (one.until, message_id)
            for message_id, one in self.known.items()
            if one.state in ("leased", "delayed") and one.until <= self.now
        )
        for _, message_id in due:
            self.known[message_id].state = "ready"
        self.queue = [message_id for _, message_id in due] + self.queue

    def _is_current(self, message: Message[Any, Any]) -> bool:
        one = self.known.get(message.message_id)
        return (
            one is not None
            and one.state == "leased"
            and one.until > self.now
            and one.count == message.delivery_count
        )

    @rule(bodies=st.lists(st.sampled_from(["a", "b", "garbage"]), min_size=1, max_size=4))
    def send(self, bodies: list[str]) -> None:
        """New messages queue up behind the others."""
        for message_id, body in zip(self.mailbox.send_many(bodies), bodies, strict=True):
            assert message_id not in self.known
            self.known[message_id] = Known(body)
            self.queue.append(message_id)

    @rule(max_messages=st.integers(1, 5), timeout=SECONDS)
    def receive(self, max_messages: int, timeout: float) -> None:
        """The oldest come first, each once, as many as are wanted."""
        self._surface()
        expected: list[str] = []
        # Undecodable messages are taken with the others and buried; a full batch of them would ask again at
        # once.
        while self.queue and len(expected) < max_messages:
            message_id = self.queue.pop(0)
            one = self.known[message_id]
            if one.count >= one.allowed:
                one.state = "dead"
                continue
            one.count += 1
            if one.body == "garbage":
                one.state = "dead"
                continue
            one.state, one.until = "leased", self.now + timeout
            expected.append(message_id)
        received = self.mailbox.receive(max_messages=max_messages, visibility_timeout=timeout)

        assert [message.message_id for message in received] == expected
        for message in received:
            one = self.known[message.message_id]
            assert (message.body, message.delivery_count) == (one.body, one.count)
            assert message.receipt_handle not in {old.receipt_handle for old in self.all_receipts}
            self.all_receipts.append(message)

    @precondition(lambda self: self.all_receipts)
    @rule(
        data=st.data(),
        how=st.sampled_from(["acknowledge", "nack", "delay", "extend", "bury"]),
        timeout=SECONDS,
    )
    def settle(self, data: st.DataObject, how: str, timeout: float) -> None:
        """The latest receipt settles its message while its time runs; any other is refused."""
        # The latest receipts are the likeliest to be current, and the older ones must be refused.
        index = data.draw(st.integers(0, min(len(self.all_receipts) - 1, 5)))
        message = self.all_receipts[-1 - index]
        current = self._is_current(message)
        call: dict[str, Callable[[], None]] = {
            "acknowledge": message.acknowledge,
            "nack": message.nack,
            "delay": lambda: message.nack(visibility_timeout=timeout),
            "extend": lambda: message.extend_visibility(timeout),
            "bury": lambda: message.dead_letter("no use"),
        }
        if not current:
            with pytest.raises(StaleReceipt):
                call[how]()
            return
        call[how]()
        one = self.known[message.message_id]
        match how:
            case "acknowledge":
                del self.known[message.message_id]
            case "nack":
                one.state = "ready"
                self.queue.insert(0, message.message_id)
            case "delay":
                one.state, one.until = "delayed", self.now + timeout
            case "extend":
                one.until = self.now + timeout
            case _:
                one.state = "dead"

    @precondition(lambda self: any(one.state == "dead" for one in self.known.values()))
    @rule(data=st.data(), redrive=st.booleans())
    def exhume(self, data: st.DataObject, redrive: bool) -> None:
        """A dead letter comes back with new deliveries ahead, or goes for good."""
        dead = [message_id for message_id, one in self.known.items() if one.state == "dead"]
        message_id = data.draw(st.sampled_from(dead))
        if redrive:
            self.mailbox.redrive(message_id)
            one = self.known[message_id]
            one.state, one.allowed = "ready", one.count + DELIVERIES
            self.queue.append(message_id)
        else:
            self.mailbox.discard(message_id)
            del self.known[message_id]

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        """Leases end on their own."""
        self.advance_clock(seconds)
        self.now += seconds

    @precondition(lambda self: len(self.known) > 3)
    @rule()
    def purge(self) -> None:
        """All but the dead go."""
        living = [message_id for message_id, one in self.known.items() if one.state != "dead"]

        assert self.mailbox.purge() == len(living)
        self.queue.clear()
        for message_id in living:
            del self.known[message_id]

    @rule()
    def nobody_else_is_dead(self) -> None:
        """Who is not among the dead can't be brought back."""
        with raises_code("no_such_dead_letter"):
            self.mailbox.redrive("nobody")

    @invariant()
    def every_message_is_in_exactly_one_state(self) -> None:
        """None is lost, none is there twice."""
        found = states(self.mailbox)

        assert found.keys() == self.known.keys()
        assert all(len(in_states) == 1 for in_states in found.values()), found

    @invariant()
    def the_counts_are_the_models(self) -> None:
        """What is due counts as ready, though nobody has looked yet."""
        seen = {"ready": 0, "leased": 0, "delayed": 0, "dead": 0}
        for one in self.known.values():
            hidden = one.state in ("leased", "delayed") and one.until > self.now
            seen[one.state if hidden or one.state == "dead" else "ready"] += 1

        assert self.mailbox.counts() == MailboxCounts(**seen)

    @invariant()
    def the_dead_keep_their_bytes_and_a_reason(self) -> None:
        """Whatever they were."""
        letters = {letter.message_id: letter for letter in self.mailbox.dead_letters()}

        assert letters.keys() == {key for key, one in self.known.items() if one.state == "dead"}
        for message_id, letter in letters.items():
            one = self.known[message_id]
            assert letter.delivery_count == one.count
            assert one.body != "garbage" or letter.content == GARBAGE
            assert one.body == "garbage" or letter.reason is not DeadReason.UNDECODABLE


@pytest.fixture(params=["in_memory", "redis"])
def laws(request: pytest.FixtureRequest) -> Iterator[type[Laws]]:
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
        clients: list[Any] = []

        def opened() -> tuple[AnyMailbox, Advance]:
            made = on_redis(url, max_deliveries=DELIVERIES)
            clients.append(made[0]._client)  # type: ignore[union-attr]
            return made

        yield type("RedisLaws", (Laws,), {"open_mailbox": staticmethod(opened)})
        for client in clients:
            client.close()
    else:
        opened_here = staticmethod(lambda: in_memory(max_deliveries=DELIVERIES))
        yield type("InMemoryLaws", (Laws,), {"open_mailbox": opened_here})


def test_the_laws_hold_whatever_is_called(laws: type[Laws]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(laws, settings=FAST)


@pytest.mark.slow
def test_the_laws_hold_over_hundreds_of_long_lives(laws: type[Laws]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(laws, settings=LONG)
