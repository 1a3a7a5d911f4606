"""GroupCommit commit: every question is worked on once and answered to who asked it, whatever becomes of the
others.
"""

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from standfast.limits import MAX_GROUP_COMMITS
from standfast.store import group_commit
from standfast.store.group_commit import GroupCommit

PATIENCE_SECONDS = 30.0


class Refused(Exception):
    """What the work raises in these tests."""


class Interrupted(BaseException):
    """What a signal raises in these tests, as Ctrl-C raises KeyboardInterrupt."""


class Works:
    """Work that doubles numbers, remembers its batches, and can be held up; a negative number spoils its
    batch.
    """

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, batch: Sequence[int]) -> list[int]:
        """Double each number."""
        self.batches.append(list(batch))
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        if min(batch) < 0:
            raise Refused
        return [2 * number for number in batch]


class Caller(threading.Thread):
    """A thread that asks once and keeps what came out."""

    def __init__(self, group: "GroupCommit[int, int]", number: int) -> None:
        super().__init__()
        self._group = group
        self._number = number
        self.answers: list[object] = []
        self.start()

    def run(self) -> None:
        """Ask."""
        try:
            self.answers.append(self._group.submit(self._number))
        except Refused as error:
            self.answers.append(error)

    def answer(self) -> object:
        """What came out, once it has."""
        self.join(PATIENCE_SECONDS)
        (answer,) = self.answers
        return answer


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.0005)


def _held_up(numbers: Sequence[int]) -> tuple["GroupCommit[int, int]", Works, list[Caller]]:
    """A group whose first caller is at work, with the others waiting behind it, in that order."""
    works = Works()
    works.may_go_on.clear()
    group: GroupCommit[int, int] = GroupCommit(works)
    callers = [Caller(group, numbers[0])]
    _until(lambda: works.batches)
    for place, number in enumerate(numbers[1:], 1):
        callers.append(Caller(group, number))
        _until(lambda place=place: len(group._waiting) == place)  # type: ignore[misc]
    return group, works, callers


def test_a_lone_caller_is_answered_in_its_own_thread() -> None:
    threads: list[threading.Thread] = []

    def work(batch: Sequence[str]) -> list[str]:
        threads.append(threading.current_thread())
        return [word.upper() for word in batch]

    assert GroupCommit(work).submit("a") == "A"
    assert threads == [threading.current_thread()]


def test_a_lone_caller_waits_for_company_once_at_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """After others were there it waits once for their return, and then never again."""
    group, works, callers = _held_up(range(8))
    works.may_go_on.set()
    for caller in callers:
        caller.join()
    waits, wait = [0], group._await_last_batch

    def counted() -> None:
        waits[0] += 1
        wait()

    monkeypatch.setattr(group, "_await_last_batch", counted)
    for number in range(100):
        group.submit(number)

    assert waits[0] <= 1


def test_who_arrives_while_others_work_shares_the_next_batch() -> None:
    _, works, callers = _held_up([1, 2, 3, 4])
    works.may_go_on.set()

    assert [caller.answer() for caller in callers] == [2, 4, 6, 8]
    assert works.batches == [[1], [2, 3, 4]]


@pytest.mark.parametrize("size", [2, 3])
def test_the_callers_of_the_last_batch_share_the_next_one_too(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(group_commit, "MAX_GROUP_WAIT_SECONDS", PATIENCE_SECONDS)
    group, works, callers = _held_up(range(1 + size))
    works.may_go_on.set()
    for caller in callers:
        caller.join()
    first = Caller(group, 10)
    _until(lambda: group._assembled is not None or first.answers)
    others = [Caller(group, 10 + number) for number in range(1, size)]

    assert [caller.answer() for caller in (first, *others)] == [20 + 2 * number for number in range(size)]
    assert sorted(works.batches[-1]) == list(range(10, 10 + size))


def test_a_leader_waits_only_while_one_of_the_last_batch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    group: GroupCommit[int, int] = GroupCommit(Works())
    group._last_batch_size = 3
    group._enqueue(1)
    monkeypatch.setattr(group_commit, "MAX_GROUP_WAIT_SECONDS", "never")
    with pytest.raises(TypeError):
        group._await_last_batch()
    monkeypatch.setattr(group_commit, "MAX_GROUP_WAIT_SECONDS", 0)
    group._await_last_batch()
    assert group._assembled is None, "nobody wakes a leader that no longer waits"
    monkeypatch.setattr(group_commit, "MAX_GROUP_WAIT_SECONDS", "never")
    group._enqueue(2)

    group._await_last_batch()


def test_who_is_interrupted_as_it_is_to_lead_hands_the_lead_on() -> None:
    group: GroupCommit[int, int] = GroupCommit(Works())
    interrupted, other = group._enqueue(1), group._enqueue(2)
    group._hand_over()
    was_to_lead = interrupted.leads, other.leads
    group._withdraw(interrupted)

    assert was_to_lead == (True, False)
    assert other.leads
    assert group._waiting == []


def test_the_last_one_of_a_batch_wakes_its_leader() -> None:
    group: GroupCommit[int, int] = GroupCommit(Works())
    group._last_batch_size = 3
    group._assembled = wakes = threading.Lock()
    wakes.acquire()
    group._enqueue(1)
    is_early = not wakes.locked()
    group._enqueue(2)

    assert not is_early
    assert not wakes.locked()
    assert group._assembled is None


def test_an_error_reaches_every_caller_of_its_batch_and_nobody_else() -> None:
    group, works, callers = _held_up([1, 2, -3, 4])
    works.may_go_on.set()
    answers = [caller.answer() for caller in callers]

    assert answers[0] == 2
    assert [type(answer) for answer in answers[1:]] == [Refused] * 3
    assert group.submit(5) == 10


def test_an_error_of_the_lead_does_not_stop_those_who_wait() -> None:
    _, works, callers = _held_up([-1, 2, 3])
    works.may_go_on.set()

    assert isinstance(callers[0].answer(), Refused)
    assert [caller.answer() for caller in callers[1:]] == [4, 6]


@pytest.mark.parametrize("answers", [[], [1], [1, 2, 3]], ids=len)
def test_work_that_miscounts_is_an_error_and_not_a_wait_without_end(answers: list[int]) -> None:
    gate = threading.Event()
    heard: list[object] = []

    def work(batch: Sequence[int]) -> list[int]:
        assert gate.wait(PATIENCE_SECONDS)
        return list(batch) if len(batch) == 1 else answers

    group: GroupCommit[int, int] = GroupCommit(work)

    def ask(number: int) -> None:
        try:
            heard.append(group.submit(number))
        except ValueError as error:
            heard.append(type(error))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    threads[0].start()
    _until(lambda: group._busy)
    for thread in threads[1:]:
        thread.start()
    _until(lambda: len(group._waiting) == 2)
    gate.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert sorted(map(str, heard)) == ["0", "<class 'ValueError'>", "<class 'ValueError'>"]


def test_the_lead_is_handed_on_with_the_own_answer() -> None:
    """Who has its answer goes home, even if others have come meanwhile; the first of them works next."""
    works = Works()
    held = threading.Event()

    def work(batch: Sequence[int]) -> list[int]:
        if 1 not in batch:
            assert held.wait(PATIENCE_SECONDS)
        return works(batch)

    works.may_go_on.clear()
    group: GroupCommit[int, int] = GroupCommit(work)
    first = Caller(group, 1)
    _until(lambda: works.batches)
    others = [Caller(group, 2), Caller(group, 3)]
    _until(lambda: len(group._waiting) == 2)
    works.may_go_on.set()

    assert first.answer() == 2
    assert not any(other.answers for other in others)
    held.set()
    assert [other.answer() for other in others] == [4, 6]


def test_a_batch_has_a_bound() -> None:
    numbers = range(2 * MAX_GROUP_COMMITS + 10)
    _, works, callers = _held_up(numbers)
    works.may_go_on.set()

    assert [caller.answer() for caller in callers] == [2 * number for number in numbers]
    assert max(map(len, works.batches)) == MAX_GROUP_COMMITS


def test_of_many_threads_none_is_forgotten_and_none_answered_twice(hasty_threads: None) -> None:
    """64 threads ask 100 times each; some batches are refused, and only those in them hear of it."""
    works = Works()
    group: GroupCommit[int, int] = GroupCommit(works)
    heard: list[tuple[int, object]] = []

    def ask(thread: int) -> None:
        for number in range(thread * 100, thread * 100 + 100):
            asked = -number if number % 97 == 50 else number
            try:
                heard.append((asked, group.submit(asked)))
            except Refused:
                heard.append((asked, Refused))

    threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    worked = Counter(number for batch in works.batches for number in batch)
    spoilt = {number for batch in works.batches if min(batch) < 0 for number in batch}

    assert len(heard) == 6_400
    assert sorted(worked) == sorted(asked for asked, _ in heard)
    assert set(worked.values()) == {1}
    assert all(answer == (Refused if asked in spoilt else 2 * asked) for asked, answer in heard)
    assert any(len(batch) > 1 for batch in works.batches)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns a thousand times as often, so that they meet in every place."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(usual)


# Only the main thread is interrupted while it waits, and its seat must not be a dead end for those behind it.


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Raises ``Interrupted`` in the main thread, wherever it is."""

    def stop(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, stop)
    yield lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def _soon(condition: Callable[[], object], act: Callable[[], None]) -> threading.Thread:
    def wait_and_act() -> None:
        _until(condition)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_who_is_interrupted_while_it_waits_is_taken_off_the_list(interrupt: Callable[[], None]) -> None:
    group, works, (first,) = _held_up([1])
    behind: list[Caller] = []

    def follow_and_interrupt() -> None:
        behind.append(Caller(group, 3))
        _until(lambda: len(group._waiting) == 2)
        interrupt()

    helper = _soon(lambda: group._waiting, follow_and_interrupt)
    with pytest.raises(Interrupted):
        group.submit(2)
    helper.join()
    works.may_go_on.set()

    assert (first.answer(), behind[0].answer()) == (2, 6)
    assert works.batches == [[1], [3]]
    assert group.submit(4) == 8


def test_who_is_interrupted_while_it_is_worked_for_holds_nobody_up(interrupt: Callable[[], None]) -> None:
    """Its question is answered, to nobody; those who sit behind it in the batch get their answers."""
    works = Works()
    held = threading.Event()

    def work(batch: Sequence[int]) -> list[int]:
        answers = works(batch)
        assert 1 in batch or held.wait(PATIENCE_SECONDS)
        return answers

    works.may_go_on.clear()
    group: GroupCommit[int, int] = GroupCommit(work)
    callers = [Caller(group, 1)]
    _until(lambda: works.batches)
    callers.append(Caller(group, 2))
    _until(lambda: len(group._waiting) == 1)

    def follow_and_interrupt() -> None:
        callers.append(Caller(group, 4))
        _until(lambda: len(group._waiting) == 3)
        works.may_go_on.set()
        _until(lambda: len(works.batches) == 2)
        interrupt()
        held.set()

    helper = _soon(lambda: len(group._waiting) == 2, follow_and_interrupt)
    with pytest.raises(Interrupted):
        group.submit(3)
    helper.join()

    assert [caller.answer() for caller in callers] == [2, 4, 8]
    assert works.batches == [[1], [2, 3, 4]]
    assert group.submit(5) == 10
