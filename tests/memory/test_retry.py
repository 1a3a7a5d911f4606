"""``memory.retry``: bounded, and fair: who waited longest goes first."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import CommitAborted, InvalidValue
from standfast.memory import AsyncMemory, Memory
from standfast.memory.retries import RetryLines
from standfast.store.store import Store
from tests.figures import Figures
from tests.memory.conftest import HANDBOOK

SUBJECT = "policy/eu-refunds"


def conflict(memory: Memory, days: int) -> None:
    """A run that loses against another one that changes the same subject."""
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.remember(f"EU refunds take {days} days.", subject=SUBJECT, source=HANDBOOK)
        memory.remember(f"EU refunds take {days + 100} days.", subject=SUBJECT, source=HANDBOOK)


def test_an_attempt_that_conflicts_is_made_again(store: Store) -> None:
    memory, tries = Memory(store), []
    memory.remember("EU refunds take 14 days.", subject=SUBJECT, source=HANDBOOK)

    def attempt() -> str:
        tries.append(1)
        if len(tries) < 3:
            conflict(memory, len(tries))
        return memory.remember("EU refunds take 30 days.", subject=SUBJECT, source=HANDBOOK).memory_id

    assert memory.retry(attempt, key=SUBJECT) == SUBJECT
    assert len(tries) == 3
    assert "30 days" in memory.recall("refunds").text


def test_attempts_are_bounded() -> None:
    memory, tries = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds()), []
    memory.remember("EU refunds take 14 days.", subject=SUBJECT, source=HANDBOOK)

    def attempt() -> None:
        tries.append(1)
        conflict(memory, len(tries))

    with pytest.raises(CommitAborted):
        memory.retry(attempt, attempts=4)
    with pytest.raises(InvalidValue, match="at least 1"):
        memory.retry(attempt, attempts=0)
    assert memory.retry(lambda: "done", attempts=1) == "done"

    assert len(tries) == 4


def test_other_errors_are_raised_at_once() -> None:
    memory, tries = Memory.open(":memory:"), []

    def attempt() -> None:
        tries.append(1)
        raise CommitAborted(commit_id="c", run_id="r", reason_code="policy_rejected", problem="no")

    with pytest.raises(CommitAborted):
        memory.retry(attempt)

    assert len(tries) == 1


def test_who_waited_longest_goes_first() -> None:
    """Three lose one after the other; then a newcomer comes. They succeed in the order in which they lost."""
    memory, order = Memory.open(":memory:"), list[str]()
    lost = {name: threading.Event() for name in "abc"}
    may_go_on = threading.Event()

    def caller(name: str) -> None:
        tries = []

        def attempt() -> None:
            tries.append(1)
            if len(tries) == 1 and name in lost:
                lost[name].set()
                may_go_on.wait(10)
                raise CommitAborted(
                    commit_id="c", run_id=name, reason_code="validation_failed", problem="lost"
                )
            order.append(name)

        memory.retry(attempt, key=SUBJECT)

    threads = [threading.Thread(target=caller, args=(name,)) for name in "abc"]
    lines = memory.retry_lines
    real_join = lines._join
    # Each joins the line before the next one may.
    turns = {name: threading.Event() for name in "abc"}
    names = {id(thread): name for thread, name in zip(threads, "abc", strict=True)}

    def join(key: str, ticket: object) -> None:
        name = names.get(id(threading.current_thread()))
        if name is not None and name != "a":
            turns[chr(ord(name) - 1)].wait(10)
        real_join(key, ticket)
        if name is not None:
            turns[name].set()

    lines._join = join  # type: ignore[method-assign]  # To order what threads do.
    lines._clock = _Waits(turns["c"])  # type: ignore[assignment]  # Nobody tries again before all have lost.
    for thread in threads:
        thread.start()
    for event in lost.values():
        event.wait(10)
    may_go_on.set()
    turns["c"].wait(10)
    newcomer = threading.Thread(target=caller, args=("newcomer",))
    newcomer.start()
    for thread in (*threads, newcomer):
        thread.join(10)

    assert order[:3] == ["a", "b", "c"]
    assert sorted(order) == ["a", "b", "c", "newcomer"]
    assert lines._lines == {}


class _Waits:
    """A clock whose sleep lasts until all have joined the line."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def sleep(self, seconds: float) -> None:  # noqa: ARG002  # The clock's signature.
        self._event.wait(10)


class _TimesOut:
    """A condition whose every wait is in vain."""

    def __init__(self) -> None:
        self.waits = 0

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        assert timeout > 0
        self.waits += 1
        return predicate()

    def notify_all(self) -> None: ...


def test_callers_that_wait_long_do_not_all_try_at_once() -> None:
    """Each who takes too long for its turn is followed by one caller; the others go on waiting."""
    lines, condition = RetryLines(ManualClock()), _TimesOut()
    slow, second, third = object(), object(), object()
    for ticket in (slow, second, third):
        lines._join(SUBJECT, ticket)
    lines._turn_over = condition  # type: ignore[assignment]  # Time passes without waiting.

    lines._wait(SUBJECT, second)
    assert (condition.waits, list(lines._lines[SUBJECT])) == (1, [second, third])

    lines._wait(SUBJECT, third)
    assert (condition.waits, list(lines._lines[SUBJECT])) == (2, [third])

    lines._wait(SUBJECT, slow)
    assert (condition.waits, list(lines._lines[SUBJECT])) == (3, [slow])


def test_many_threads_on_one_subject_need_few_tries(store: Store, figures: Figures) -> None:
    memory, tries = Memory(store), list[int]()
    memory.remember("EU refunds take 14 days.", subject=SUBJECT, source=HANDBOOK)

    def work(number: int) -> None:
        for turn in range(4):
            count = 0

            text = f"EU refunds take {number * 10 + turn} days."

            def attempt(text: str = text) -> None:
                nonlocal count
                count += 1
                memory.remember(text, subject=SUBJECT, source=HANDBOOK)

            memory.retry(attempt, key=SUBJECT)
            tries.append(count)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures("one hot subject", runs=len(tries), most_tries=max(tries))

    assert len(tries) == 32
    assert max(tries) <= 16


def test_async_code_retries_too() -> None:
    async def main() -> int:
        tries = 0
        async with await AsyncMemory.open(":memory:") as memory:

            async def attempt() -> None:
                nonlocal tries
                tries += 1
                if tries < 3:
                    raise CommitAborted(
                        commit_id="c", run_id="r", reason_code="validation_failed", problem="lost"
                    )
                await memory.remember("EU refunds take 14 days.", subject=SUBJECT, source=HANDBOOK)

            await memory.retry(attempt, key=SUBJECT)
            assert "14 days" in (await memory.recall("refunds")).text
        return tries

    assert asyncio.run(main()) == 3


def test_who_lost_stands_in_line_until_it_succeeds_in_async_code_too() -> None:
    lines, waiting = RetryLines(ManualClock()), list[int]()

    async def attempt() -> str:
        waiting.append(len(lines._lines.get(SUBJECT, ())))
        if len(waiting) < 3:
            raise CommitAborted(commit_id="c", run_id="r", reason_code="validation_failed", problem="lost")
        return "done"

    assert asyncio.run(lines.retry_async(attempt, key=SUBJECT, attempts=3)) == "done"
    assert waiting == [0, 1, 1]
    assert lines._lines == {}
    waiting.clear()
    with pytest.raises(CommitAborted):
        asyncio.run(lines.retry_async(attempt, key=SUBJECT, attempts=2))
    assert len(waiting) == 2
    with pytest.raises(InvalidValue, match="at least 1"):
        asyncio.run(lines.retry_async(attempt, key=SUBJECT, attempts=0))
