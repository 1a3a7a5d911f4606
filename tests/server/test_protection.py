"""Rate limits, and the access log that a flood of refused calls cannot fill."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from standfast.clock import ManualClock
from standfast.errors import (
    Forbidden,
    NotFound,
    Overloaded,
    RateLimited,
    StandfastError,
    StoreFailed,
    Unauthenticated,
)
from standfast.limits import MAX_REFUSAL_GROUPS, REFUSALS_LOGGED_PER_MINUTE
from standfast.server.access.protection import (
    WINDOW_SECONDS,
    AccessLog,
    RateLimiter,
    RefusedCall,
    is_refusal,
)
from standfast.store.commit import Fact
from standfast.store.opening import open_store
from standfast.store.store import Store


def _allowed(limiter: RateLimiter, name: str, times: int) -> int:
    allowed = 0
    for _ in range(times):
        try:
            limiter.take(name)
        except RateLimited:
            continue
        allowed += 1
    return allowed


def test_a_caller_has_a_burst_and_then_a_rate() -> None:
    clock = ManualClock()
    limiter = RateLimiter(clock, per_second=2, burst=10)

    assert _allowed(limiter, "a", 20) == 10
    assert _allowed(limiter, "b", 20) == 10
    clock.advance(3)
    assert _allowed(limiter, "a", 20) == 6
    with pytest.raises(RateLimited) as refused:
        limiter.take("a")
    assert refused.value.facts == {"retry_after_seconds": 1}


def test_one_call_is_left_exactly_when_one_token_is() -> None:
    clock = ManualClock()
    limiter = RateLimiter(clock, per_second=1, burst=1)
    limiter.take("a")
    clock.advance(0.5)
    with pytest.raises(RateLimited):
        limiter.take("a")
    clock.advance(0.5)

    limiter.take("a")


def test_the_refusal_says_how_long_to_wait() -> None:
    clock = ManualClock()
    limiter = RateLimiter(clock, per_second=0.1, burst=1)
    limiter.take("a")
    clock.advance(2.5)
    with pytest.raises(RateLimited) as refused:
        limiter.take("a")

    assert refused.value.facts == {"retry_after_seconds": 8}
    clock.advance(8)
    limiter.take("a")


def test_a_refused_call_costs_nothing() -> None:
    clock = ManualClock()
    limiter = RateLimiter(clock, per_second=1, burst=1)

    assert _allowed(limiter, "a", 100) == 1
    clock.advance(1)
    assert _allowed(limiter, "a", 1) == 1


def test_a_long_pause_gives_no_more_than_a_burst() -> None:
    clock = ManualClock()
    limiter = RateLimiter(clock, per_second=5, burst=3)
    limiter.take("a")
    clock.advance(1_000)

    assert _allowed(limiter, "a", 20) == 3


def test_calls_spent_elsewhere_count_here_and_cost_a_burst_of_debt_at_most() -> None:
    clock = ManualClock()
    limiter = RateLimiter(clock, per_second=1, burst=3)
    limiter.spend("a", 2)

    assert _allowed(limiter, "a", 20) == 1
    limiter.spend("a", 1_000)
    with pytest.raises(RateLimited) as refused:
        limiter.take("a")
    assert refused.value.facts == {"retry_after_seconds": 4}


@settings(max_examples=50)
@given(waits=st.lists(st.floats(0, 5), max_size=50))
@example(waits=[])
@example(waits=[0.0, 0.0])
@example(waits=[5.0, 0.0, 1 / 3])
def test_no_caller_ever_exceeds_burst_plus_rate(waits: list[float]) -> None:
    clock = ManualClock()
    limiter = RateLimiter(clock, per_second=3, burst=5)
    allowed = 0
    for wait in waits:
        clock.advance(wait)
        allowed += _allowed(limiter, "a", 10)

    assert allowed <= 5 + 3 * sum(waits) + 1e-6


def test_the_number_of_names_is_bounded_and_the_least_recent_one_is_dropped() -> None:
    limiter = RateLimiter(ManualClock(), per_second=1, burst=1, max_names=2)
    for name in ("a", "b"):
        limiter.take(name)
    with pytest.raises(RateLimited):
        limiter.take("a")
    limiter.take("c")

    assert len(limiter._buckets) == 2
    with pytest.raises(RateLimited):
        limiter.take("a")
    limiter.take("b")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unauthenticated(problem="x"), True),
        (Forbidden(role="agent", act="x", where="x", problem="x"), True),
        (RateLimited(retry_after_seconds=1), True),
        (Overloaded(what="x"), False),
        (NotFound(what="x"), False),
    ],
)
def test_refusals_are_unknown_callers_missing_permissions_and_rate_limits(
    error: StandfastError, *, expected: bool
) -> None:
    assert is_refusal(error) is expected


def _refused(operation: str = "recall", key_id: str | None = None) -> RefusedCall:
    error = Forbidden(role="agent", act=operation, where="x", problem="the key is for other namespaces")
    return RefusedCall.of(
        error,
        interface="http",
        operation=operation,
        key_id=key_id,
        namespace="s\u202epoof\n" * 99,
        peer="10.0.0.1",
    )


def _entries(store: Store) -> list[dict[str, Any]]:
    return [entry.read()["body"]["told"] for entry in store.entries() if entry.read()["kind"] == "access"]


def _times(entries: list[dict[str, Any]]) -> int:
    return sum(
        1 if "refused" in fact else sum(group["times"] for group in fact["refused_too"]) for fact in entries
    )


def test_a_refused_call_is_logged_in_printable_words() -> None:
    store = open_store(":memory:", create=True)
    AccessLog(store).note(_refused(key_id="k1"))
    (entry,) = _entries(store)

    assert entry["refused"] == {
        "interface": "http",
        "operation": "recall",
        "code": "forbidden",
        "problem": "the key is for other namespaces",
        "key_id": "k1",
        "namespace": ascii(("s\u202epoof\n" * 99)[:80])[1:-1],
        "peer": "10.0.0.1",
    }
    assert entry["refused"]["namespace"].isprintable()


def test_a_flood_is_counted_and_costs_eleven_entries_a_minute() -> None:
    clock = ManualClock()
    store = open_store(":memory:", create=True, clock=clock)
    log = AccessLog(store)
    for number in range(5_000):
        log.note(_refused(key_id=f"k{number}"))
    during = len(_entries(store))
    clock.advance(WINDOW_SECONDS)
    log.flush(only_if_over=True)
    counts = _entries(store)[-1]["refused_too"]

    assert during == REFUSALS_LOGGED_PER_MINUTE
    assert len(_entries(store)) == REFUSALS_LOGGED_PER_MINUTE + 1
    assert len(counts) == MAX_REFUSAL_GROUPS + 1
    assert counts[0] == {
        "interface": "(others)",
        "operation": "(others)",
        "code": "(others)",
        "key_id": None,
        "peer": None,
        "times": 5_000 - REFUSALS_LOGGED_PER_MINUTE - MAX_REFUSAL_GROUPS,
    }
    assert _times(_entries(store)) == 5_000


def test_the_counts_wait_until_the_minute_is_over() -> None:
    clock = ManualClock()
    clock.advance(1_000)
    store = open_store(":memory:", create=True, clock=clock)
    log = AccessLog(store)
    for _ in range(REFUSALS_LOGGED_PER_MINUTE + 5):
        log.note(_refused(key_id="k"))
    clock.advance(WINDOW_SECONDS - 0.5)
    log.flush(only_if_over=True)
    before = len(_entries(store))
    clock.advance(0.5)
    log.note(_refused(key_id="k"))
    counted, single = _entries(store)[before:]

    assert before == REFUSALS_LOGGED_PER_MINUTE
    assert counted["refused_too"] == [
        {
            "interface": "http",
            "operation": "recall",
            "code": "forbidden",
            "key_id": "k",
            "peer": "10.0.0.1",
            "times": 5,
        }
    ]
    assert "refused" in single


def test_every_minute_logs_its_first_refusals_again() -> None:
    clock = ManualClock()
    store = open_store(":memory:", create=True, clock=clock)
    log = AccessLog(store)
    for _ in range(3):
        for _ in range(REFUSALS_LOGGED_PER_MINUTE):
            log.note(_refused())
        clock.advance(WINDOW_SECONDS)
    log.flush()

    assert sum("refused" in entry for entry in _entries(store)) == 3 * REFUSALS_LOGGED_PER_MINUTE
    assert not any("refused_too" in entry for entry in _entries(store))


def test_a_store_that_cannot_be_written_is_counted_and_logged_later(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(":memory:", create=True)
    log = AccessLog(store)

    def fail(fact: Fact) -> None:
        raise StoreFailed(operation="append", problem="the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "append_fact", fail)
        log.note(_refused())
    log.flush()

    (group,) = _entries(store)[0]["refused_too"]
    assert (group["interface"], group["operation"], group["times"]) == ("access log", "write", 1)


@settings(max_examples=50)
@given(steps=st.lists(st.tuples(st.sampled_from(["recall", "forget"]), st.floats(0, 40)), max_size=60))
@example(steps=[])
@example(steps=[("recall", 0.0)] * (REFUSALS_LOGGED_PER_MINUTE + 1))
def test_every_refused_call_is_logged_once(steps: list[tuple[str, float]]) -> None:
    clock = ManualClock()
    store = open_store(":memory:", create=True, clock=clock)
    log = AccessLog(store)
    for operation, wait in steps:
        log.note(_refused(operation))
        clock.advance(wait)
    log.flush()
    log.flush()
    counted: Counter[str] = Counter()
    for entry in _entries(store):
        for group in entry.get("refused_too", [entry.get("refused")]):
            counted[group["operation"]] += group.get("times", 1)

    assert counted == Counter(operation for operation, _ in steps)
